"""Features of a float's digits: its lowest bit, its decimals, its fraction.

Noise that is rounded before it is added, drawn from few bits, or scaled after rounding leaves a
grid that depends on the data.  Source: Mironov (2012); Haney, Desfontaines, Hartman, Shrestha and
Hay (2022); Casacuberta, Shoemate, Vadhan and Wagaman (2022).

Every plain sampler in doubles leaves such a grid in its last bits, 53 binary digits below its
largest outputs.  Unless the caller attacks bits on purpose, features ignore all digits below a
floor, ``ROOM_BITS`` below the size of the outputs, where rounding makes all digits look alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST_DECIMALS = 17  # a float of 64 bits is written with at most so many digits
ROOM_BITS = 36  # bits below an output's size where rounding errors make all digits look alike
NO_FLOOR = -2_000  # exponent below that of every float
NO_BIT = 2_000.0  # the lowest bit of 0, which has none: above that of every float
_FRACTION_BITS = 53  # bits of a float's fraction


def lowest_bit(values: Array, floor: int = NO_FLOOR) -> Array:
    """The exponent j of the lowest set bit: x is an odd multiple of 2^j; 2000 for 0, NaN and inf.

    Examples: 2 for 12, -2 for 0.75, -55 for 0.1.  Smaller exponents than ``floor`` give ``floor``.
    """
    return np.maximum(_lowest_bit(values), floor)


def significant_bits(values: Array, most: int) -> Array:
    """Binary digits from the highest to the lowest set bit, at most ``most``; 0 for 0, NaN, inf."""
    finite = np.where(np.isfinite(values), values, 0.0)
    used = np.frexp(finite)[1] - _lowest_bit(finite)
    return np.asarray(np.clip(np.where(finite == 0, 0.0, used), 0.0, most))


def floor_for(values: Array) -> int:
    """The floor below which digits are those of rounding, for outputs of this size."""
    sizes = np.abs(values[np.isfinite(values)])
    size = float(np.quantile(sizes, 0.9)) if sizes.size else 1.0
    return (int(np.frexp(size)[1]) if size else 0) - ROOM_BITS


def _lowest_bit(values: Array) -> Array:
    if values.dtype.kind != "f":
        return _bit_of(values, np.zeros(values.shape))
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    mantissa = np.ldexp(fraction, _FRACTION_BITS).astype(np.int64)
    return _bit_of(mantissa, exponent.astype(np.float64) - _FRACTION_BITS)


def _bit_of(mantissa: Array, shift: Array) -> Array:
    lowest = np.frexp((mantissa & -mantissa).astype(np.float64))[1] - 1.0
    return np.asarray(np.where(mantissa == 0, NO_BIT, lowest + shift))


def decimals(values: Array, most: int = MOST_DECIMALS) -> Array:
    """The fewest decimals that print the float; ``most`` if more are needed, or for NaN and inf."""
    fewest = np.full(values.shape, float(most))
    open_ones = np.isfinite(values)
    for digits in range(most):
        if not open_ones.any():
            break
        hit = open_ones & (np.round(values, digits) == values)
        fewest[hit] = digits
        open_ones &= ~hit
    return fewest


def fraction(values: Array) -> Array:
    """x - floor(x), to nine digits; 1 counts as 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.round(values - np.floor(values), 9) % 1.0)

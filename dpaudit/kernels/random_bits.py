"""Exact coins from random bits, over all trials at once: exp(-x) for a fraction x, and geometric.

A coin compares a uniform variable, of which 53 bits are drawn first, with a floating-point value
of its chance.  Where those bits leave the answer open, which has probability 2^-35, further bits
and an Arb ball of the exact chance decide: no outcome depends on rounding.
Source: Karney (2016), bits drawn as needed; Canonne, Kamath and Steinke (2020) for what is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint64]
Bits: TypeAlias = Callable[[int], Words]
Whole: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Exact: TypeAlias = Callable[[int], Fraction]
Times: TypeAlias = tuple[Floats, Exact]

FIRST_BITS = 53  # random bits that are compared in floats
BIT_UNIT = 2.0**-FIRST_BITS  # Value of the last of FIRST_BITS random bits.
# Twice the largest error of the floating-point values that are compared with random bits.
FLOAT_WINDOW = 2.0**-36
EXTRA_BITS = 64  # random bits that are added where the first leave it open
EXTRA_PRECISION = 256  # Bits of ball arithmetic beyond the random bits that are known.


def bits_of(entropy: np.random.Generator | None) -> Bits:
    """Words of 64 random bits from a generator, or from the operating system for None."""

    def words(count: int) -> Words:
        raw = os.urandom(8 * count) if entropy is None else entropy.bytes(8 * count)
        return np.frombuffer(raw, dtype=np.uint64)

    return words


def uniform_below(bounds: Whole, bits: Bits) -> Whole:
    """Exactly uniform on 0, ..., bounds[i] - 1, bounds from 1 to 2^62; by rejection."""
    shifts = np.uint64(64) - np.frexp((bounds - 1).astype(np.longdouble))[1].astype(np.uint64)
    numbers = np.zeros(bounds.size, dtype=np.int64)
    open_ones = np.flatnonzero(bounds > 1)
    while open_ones.size:
        drawn = (bits(open_ones.size) >> shifts[open_ones]).astype(np.int64)
        numbers[open_ones] = drawn
        open_ones = open_ones[drawn >= bounds[open_ones]]
    return numbers


def fair(count: int, bits: Bits) -> Flags:
    """Fair coins, shape (count,)."""
    return np.asarray(bits(count) >> np.uint64(63) == 1)


def happens_exp(exponent: Floats, exact: Exact, bits: Bits, times: Times | None = None) -> Flags:
    """Independent events of probability exp(-exponent), exponents >= 0, shape (n,).

    ``exponent``: within 2^-37 of the exponents; ``exact(i)`` gives the i-th as a fraction.
    ``times``: factors of the probabilities, which stay at most 1, as floats right to 2^-38 of the
    probability and as fractions.
    """
    chance = np.exp(-exponent) if times is None else np.exp(-exponent) * times[0]
    words = bits(chance.size) >> np.uint64(64 - FIRST_BITS)
    uniform = words.astype(np.float64) * BIT_UNIT
    below = uniform + BIT_UNIT <= chance - FLOAT_WINDOW
    for i in np.flatnonzero(~below & (uniform < chance + FLOAT_WINDOW)):
        factor = Fraction(1) if times is None else times[1](int(i))
        below[i] = _below_exp(int(words[i]), exact(int(i)), factor, bits)
    return np.asarray(below)


def _below_exp(word: int, exponent: Fraction, factor: Fraction, bits: Bits) -> bool:
    """Whether the uniform variable that starts with these bits is below factor exp(-exponent)."""
    for lower, upper, precision in _refined(word, bits):
        with precision:
            ball = (-_ball(exponent)).exp() * _ball(factor)
        if ball >= upper:
            return True
        if ball <= lower:
            return False
    raise AssertionError("unreachable")


def geometric_unit(count: int, bits: Bits) -> Whole:
    """k with probability (1 - 1/e) e^-k: the whole part of -ln(uniform), shape (count,)."""
    words = bits(count) >> np.uint64(64 - FIRST_BITS)
    uniform = words.astype(np.float64) * BIT_UNIT
    with np.errstate(divide="ignore"):
        least = np.floor(np.maximum(-np.log(uniform + BIT_UNIT) - FLOAT_WINDOW, 0.0))
        most = np.floor(-np.log(uniform) + FLOAT_WINDOW)
    numbers = least.astype(np.int64)
    for i in np.flatnonzero(least != most):
        numbers[i] = _whole_log(int(words[i]), bits)
    return numbers


def _whole_log(word: int, bits: Bits) -> int:
    """Whole part of -ln of the uniform variable that starts with these bits."""
    for lower, upper, precision in _refined(word, bits):
        if lower > 0:
            with precision:
                log_part = (-upper.log()).floor().union((-lower.log()).floor()).unique_fmpz()
            if log_part is not None:
                return int(log_part)
    raise AssertionError("unreachable")


def _refined(word: int, bits: Bits) -> Iterator[tuple[Any, Any, Any]]:
    """Ever smaller intervals that hold a uniform variable, and the precision that fits them."""
    import flint

    bits_known = FIRST_BITS
    while True:
        size = 2**bits_known
        with flint.ctx.workprec(bits_known + 1):
            ends = _ball(Fraction(word, size)), _ball(Fraction(word + 1, size))
        yield *ends, flint.ctx.workprec(EXTRA_PRECISION + 2 * bits_known)
        word = (word << EXTRA_BITS) | int(bits(1)[0])
        bits_known += EXTRA_BITS


def _ball(value: Fraction) -> Any:
    import flint

    return flint.arb(flint.fmpq(value.numerator, value.denominator))

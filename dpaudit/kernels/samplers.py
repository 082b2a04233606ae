"""Exact samplers of discrete noise, and its masses and tails.

No floating-point rounding enters a draw: given perfect random bits, draws have exactly the declared
law.  The time of a rejection sampler depends on the value drawn.  At least ``LEAST_DRAWS`` values
are drawn at a time and the first ones returned, so that the time is that of the slowest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from dpaudit.errors import InvalidParameter
from dpaudit.exact import exact
from dpaudit.kernels.random_bits import (
    Bits,
    Flags,
    Floats,
    Whole,
    bits_of,
    fair,
    geometric_unit,
    happens_exp,
    uniform_below,
)

Entropy = np.random.Generator | None
LARGEST_NUMERATOR = 2**52  # of a scale's numerator: sums of draws and values then fit into 64 bits
# Draws made at a time, at the least: the time taken then hardly depends on their values.
LEAST_DRAWS = 64
AT_ONCE = 512  # attempts that are made side by side
WEIGHT_BITS = 40  # bits of a weight: sums stay below 2^62
MAX_SUMMED_DEVIATION = 1_000  # Standard deviations up to which tails are summed term by term.


def discrete_laplace(scale: object, size: int, entropy: Entropy = None) -> Whole:
    """Draws k with probability proportional to exp(-|k| / scale), shape (size,), exactly.

    ``scale``: a positive number (a float means its shortest decimal), as a fraction of whole
    numbers up to 2^52.  ``entropy``: a generator, or None for the operating system's.
    Errors: InvalidParameter for a scale or size outside its domain.
    Source: Canonne, Kamath and Steinke (2020), Algorithm 2.
    """
    exact_scale = _positive(scale, "scale")
    if max(exact_scale.numerator, exact_scale.denominator) > LARGEST_NUMERATOR:
        raise InvalidParameter(
            f"scale = {scale!r}: numerator and denominator must not be above 2^52; "
            "round it up to fewer digits"
        )
    scales = np.full(_size(size), exact_scale.numerator, dtype=np.int64)
    return laplace_units(scales, exact_scale.denominator, bits_of(entropy))


def discrete_gaussian(variance: object, size: int, entropy: Entropy = None) -> Whole:
    """Draws k with probability proportional to exp(-k^2 / (2 variance)), shape (size,), exactly.

    ``variance``: a positive number up to 2^102.  ``entropy`` and errors: as above.
    Source: Canonne, Kamath and Steinke (2020), Algorithm 3.
    """
    exact_variance = _positive(variance, "variance")
    if exact_variance > LARGEST_NUMERATOR**2 // 4:
        raise InvalidParameter(f"variance = {variance!r}: must not be above 2^102")
    return gaussian_units([exact_variance], np.zeros(_size(size), dtype=np.int64), bits_of(entropy))


def laplace_units(scales: Whole, divisor: int, bits: Bits) -> Whole:
    """One draw of scale scales[i] / divisor each; shape (n,)."""

    def attempt(places: Whole) -> tuple[Whole, Flags]:
        return _laplace_try(scales[places], divisor, bits)

    return _first_kept(scales.size, attempt)


def _first_kept(count: int, attempt: Callable[[Whole], tuple[Whole, Flags]]) -> Whole:
    """The first draw of each place that is kept; few places get several attempts at a time."""
    draws = np.zeros(max(count, LEAST_DRAWS) if count else 0, dtype=np.int64)
    open_ones = np.arange(draws.size)
    while open_ones.size:
        times = max(1, AT_ONCE // open_ones.size)
        drawn, accepted = attempt(np.repeat(open_ones, times) % count)
        drawn, accepted = drawn.reshape(-1, times), accepted.reshape(-1, times)
        any_kept = accepted.any(axis=1)
        firsts = drawn[np.arange(open_ones.size), accepted.argmax(axis=1)]
        draws[open_ones[any_kept]] = firsts[any_kept]
        open_ones = open_ones[~any_kept]
    return draws[:count]


def _laplace_try(scales: Whole, divisor: int, bits: Bits) -> tuple[Whole, Flags]:
    start = uniform_below(scales, bits)

    def share(i: int) -> Fraction:
        return Fraction(int(start[i]), int(scales[i]))

    accepted = happens_exp(start / scales, share, bits)
    size = (start + scales * geometric_unit(scales.size, bits)) // divisor
    negative = fair(scales.size, bits)
    return np.where(negative, -size, size), accepted & ~(negative & (size == 0))


def gaussian_units(variances: list[Fraction], which: Whole, bits: Bits) -> Whole:
    """One draw of variance variances[which[i]] each; shape (n,)."""
    covers = np.array([math.isqrt(math.floor(v)) + 1 for v in variances], dtype=np.int64)
    floats = np.array([float(v) for v in variances])
    centres = np.array([float(v / int(t)) for v, t in zip(variances, covers, strict=True)])

    def attempt(places: Whole) -> tuple[Whole, Flags]:
        each = which[places]
        # Both rejections, of Laplace noise and of its draws, in one: the law is the same.
        drawn, kept = _laplace_try(covers[each], 1, bits)
        exponent = np.square(np.abs(drawn) - centres[each]) / (2 * floats[each])
        exact_exponents = _Exponents(variances, covers, each, drawn)
        return drawn, kept & happens_exp(exponent, exact_exponents, bits)

    return _first_kept(which.size, attempt)


@dataclass(frozen=True)
class _Exponents:
    """Exact (|k| - v/t)^2 / (2 v) of each draw k."""

    variances: list[Fraction]
    covers: Whole
    each: Whole
    drawn: Whole

    def __call__(self, i: int) -> Fraction:
        which = int(self.each[i])
        variance, cover = self.variances[which], int(self.covers[which])
        distance = Fraction(abs(int(self.drawn[i]))) - variance / cover
        return distance * distance / (2 * variance)


def chosen_places(
    gaps: Whole, rate: Fraction, count: int, bits: Bits, sizes: Whole | None = None
) -> Whole:
    """Places i with probability proportional to sizes[i] exp(-rate gaps[i]), exactly; (count,).

    ``gaps``: whole numbers from 0, one of them 0.  ``sizes``: whole numbers from 1, by default 1,
    that add up to at most 2^24: how many candidates each place stands for.  A candidate is proposed
    with whole weights a little above W exp(-rate gap), W >= 2^37, and kept with the quotient of the
    two: nearly always, so that how long it takes hardly depends on the gaps.
    """
    each = np.ones(len(gaps), dtype=np.int64) if sizes is None else sizes
    weight = 1 << min(WEIGHT_BITS, 61 - int(each.sum()).bit_length())
    # Beyond 700 a weight is the least one; no float that matters is off by more than 2^-45.
    exponents = np.minimum(gaps.astype(np.float64) * float(rate), 700.0)
    above = np.floor(np.exp(-exponents) * weight).astype(np.int64) + 2
    ends = np.cumsum(above * each)

    def attempt(places: Whole) -> tuple[Whole, Flags]:
        drawn = np.searchsorted(ends, uniform_below(np.full(places.size, ends[-1]), bits), "right")

        def exponent(i: int) -> Fraction:
            return int(gaps[drawn[i]]) * rate

        def factor(i: int) -> Fraction:
            return Fraction(weight, int(above[drawn[i]]))

        times = weight / above[drawn], factor
        return drawn, happens_exp(exponents[drawn], exponent, bits, times)

    return _first_kept(count, attempt)


def laplace_log_mass(k: npt.ArrayLike, scale: float) -> Floats:
    """log of tanh(1 / (2 scale)) exp(-|k| / scale)."""
    return np.asarray(math.log(math.tanh(0.5 / scale)) - np.abs(k) / scale)


def gaussian_log_mass(k: npt.ArrayLike, variance: float) -> Floats:
    """log of exp(-k^2 / (2 variance)) over its sum."""
    return np.asarray(-np.square(k) / (2 * variance) - gaussian_log_total(variance))


def gaussian_log_total(variance: float) -> float:
    """log of the sum of exp(-k^2 / (2 variance)) over all integers.

    Term by term below variance 1, by Poisson summation above: three terms leave less than 1e-70.
    """
    terms = np.arange(1, 40, dtype=np.float64)
    if variance < 1:
        return math.log1p(2 * float(np.exp(-np.square(terms) / (2 * variance)).sum()))
    dual = float(np.exp(-2 * math.pi**2 * variance * np.square(terms[:3])).sum())
    return 0.5 * math.log(2 * math.pi * variance) + math.log1p(2 * dual)


def laplace_tail(k: npt.ArrayLike, scale: float) -> Floats:
    """P[X >= k] for k >= 1."""
    return np.asarray(np.exp(-np.asarray(k, dtype=np.float64) / scale) / (1 + math.exp(-1 / scale)))


def gaussian_tail(k: npt.ArrayLike, variance: float) -> Floats:
    """P[X >= k] for k >= 1, to 1e-10 within ten deviations.

    Summed up to a deviation of ``MAX_SUMMED_DEVIATION``.  Beyond that the normal's from k - 1/2
    on, and the next term of Euler and Maclaurin's sum by midpoints, f'(k - 1/2) / 24.
    """
    places = np.asarray(k, dtype=np.float64)
    deviation = math.sqrt(variance)
    if deviation > MAX_SUMMED_DEVIATION:
        away = (places - 0.5) / deviation
        density = np.exp(-np.square(away) / 2) / math.sqrt(2 * math.pi)
        return np.asarray(ndtr(-away) - away * density / (24 * variance))
    support = np.arange(1, math.ceil(40 * deviation) + 3)
    tails = np.cumsum(np.exp(gaussian_log_mass(support, variance))[::-1])[::-1]
    return np.asarray(tails[np.clip(places, 1, support.size).astype(np.int64) - 1])


def _positive(value: object, name: str) -> Fraction:
    number: object = exact(value, name)
    if not isinstance(number, Fraction) or number <= 0:
        raise InvalidParameter(f"{name} = {value!r}: expected a positive number")
    return number


def _size(size: object) -> int:
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
        raise InvalidParameter(f"size = {size!r}: expected a whole number, at least 0")
    return int(size)

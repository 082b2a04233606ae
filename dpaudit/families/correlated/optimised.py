"""Banded Toeplitz strategies of little error, found by descent; and the least that any can have.

For C of column c, |c| times noise of unit size, and B = A C^-1, A the prefix sums, the mean squared
error of all T sums is |c|^2 sum_s beta_s^2 (1 - s / T), beta the coefficients of
1 / ((1 - x) c(x)).  No guarantee rests on the optimiser: the accountant computes the sensitivity
from the exact coefficients, and the error is computed from them too.

No strategy whatever has less than (|A|_* / T)^2 a round in which a record takes part, |A|_* the sum
of singular values 1 / (2 sin((2 k - 1) pi / (4 T + 2))), k = 1..T: |A|_* <= |B|_F |C|_F, and of
moves of random signs, in one of the T / n patterns of n rounds that part all rounds, a mean square
|C u|^2 is n |C|_F^2 / T.
Buffered linear Toeplitz strategies: c_0 = 1 and c_k = sum_j w_j l_j^(k - 1), 0 <= l_j < 1, w_j > 0,
so that C^-1 Z needs one running sum a buffer: s_j <- l_j s_j + z, z = fresh noise - sum_j w_j s_j.
Coefficients are made exact rationals, rounded to 10^-9, and certified as these: every strategy here
is one of ``T`` bands, so that T is at most 512.
Source: Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024, Efficient and Near-Optimal Noise
Generation (BLT); Choquette-Choo and others 2023 (banded strategies); Henzinger, Upadhyay, Upadhyay
2023, Section 1 (the lower bound for one round).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import integer
from dpaudit.families.correlated.node import LARGEST_MATRIX, BandedToeplitz
from dpaudit.kernels.query import Array

# Optimised entries are rounded to multiples of 1 over this, nine decimals.
ENTRY_DENOMINATOR = 10**9
LARGEST_ROUNDS = 2**17  # the loss is computed with arrays of so many numbers
MOST_BUFFERS = 16  # buffers of an optimised strategy


@dataclass(frozen=True)
class Optimised:
    """A strategy; its root mean squared error at unit noise over sensitivity, and the least of any.

    Both are for a record in one round; for n rounds, at least the number of bands apart, multiply
    both by sqrt(n).
    """

    strategy: BandedToeplitz
    error: float
    least: float

    def __str__(self) -> str:
        beyond = 100 * (self.error / self.least - 1)
        return (
            f"{len(self.strategy.entries)} bands: error {self.error:.6g}, {beyond:.2f}% above "
            f"{self.least:.6g}, which no strategy is below"
        )


def optimised_bands(rounds: int, bands: int) -> Optimised:
    """A banded Toeplitz strategy for prefix sums of ``rounds`` rows, of little error.

    Local: L-BFGS from the square root's coefficients, cut; coefficients are rounded to 10^-9.
    Errors: InvalidParameter for more bands than rounds, over 2^17 rounds or 512 bands, and for
    what is no whole number.

    >>> from dpaudit.families.correlated.optimised import optimised_bands
    >>> print(optimised_bands(64, 16))
    16 bands: error 2.35005, 15.19% above 2.04013, which no strategy is below
    """
    rounds, bands = integer(rounds, "rounds", 1, LARGEST_ROUNDS), integer(bands, "bands")
    if bands > rounds:
        raise InvalidParameter(f"bands = {bands}: expected 1 to the {rounds} rounds")
    integer(bands, "bands", 1, LARGEST_MATRIX)
    from scipy.optimize import minimize

    start = np.cumprod(np.concatenate(([1.0], 1 - 0.5 / np.arange(1, bands))))
    free: Array = np.asarray(start[1:], dtype=np.float64)
    if bands > 1:
        minimum = minimize(_loss, free, args=(rounds,), jac=True, method="L-BFGS-B")
        free = minimum.x if minimum.fun <= _loss(free, rounds)[0] else free
    column = [
        Fraction(1),
        *(Fraction(round(float(c) * ENTRY_DENOMINATOR), ENTRY_DENOMINATOR) for c in free),
    ]
    error = math.exp(_loss(np.array(column[1:], dtype=np.float64), rounds)[0] / 2)
    return Optimised(BandedToeplitz(tuple(column)), error, least_error(rounds))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Buffered(Optimised):
    """A strategy that few running sums make: ``weights`` w and ``decays`` l, one a buffer."""

    weights: tuple[float, ...] = ()
    decays: tuple[float, ...] = ()

    def __str__(self) -> str:
        text = super().__str__().partition("bands: ")[2]
        return f"{len(self.weights)} buffers: {text}"


def optimised_buffers(rounds: int, buffers: int) -> Buffered:
    """A buffered linear Toeplitz strategy for prefix sums of ``rounds`` rows, of little error.

    Local: L-BFGS over decays and weights, from decays 1 - 2^-2j.
    Errors: InvalidParameter for over 512 rounds, no buffers or over 16, and for what is no whole
    number.

    >>> import dpaudit as dp
    >>> print(dp.optimised_buffers(64, 3))
    3 buffers: error 2.17991, 6.85% above 2.04013, which no strategy is below
    """
    rounds = integer(rounds, "rounds", 2, LARGEST_MATRIX)
    buffers = integer(buffers, "buffers", 1, MOST_BUFFERS)
    from scipy.optimize import minimize

    powers = np.arange(rounds - 1)[:, None]

    def column(free: Array) -> tuple[Array, Array, Array]:
        """Coefficients from c_1 on, and their slopes in the logarithms of weights and odds."""
        weights, decays = np.exp(free[:buffers]), 1 / (1 + np.exp(-free[buffers:]))
        each = weights * decays**powers
        return each.sum(axis=1), each, each * powers * (1 - decays)

    def loss(free: Array) -> tuple[float, Array]:
        later_entries, by_weight, by_decay = column(free)
        value, slopes = _loss(later_entries, rounds)
        return value, np.concatenate([slopes @ by_weight, slopes @ by_decay])

    far = 4.0 ** -np.arange(1, buffers + 1)
    start = np.concatenate([np.log(0.5 * np.sqrt(far)), np.log(1 / far - 1)])
    bounds = [(-30.0, 0.0)] * buffers + [(-10.0, 20.0)] * buffers
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    later_entries = column(best)[0]
    exact = [
        Fraction(1),
        *(Fraction(round(float(c) * ENTRY_DENOMINATOR), ENTRY_DENOMINATOR) for c in later_entries),
    ]
    error = math.exp(_loss(np.array(exact[1:], dtype=np.float64), rounds)[0] / 2)
    weights, decays = np.exp(best[:buffers]), 1 / (1 + np.exp(-best[buffers:]))
    order = np.argsort(decays)
    return Buffered(
        BandedToeplitz(tuple(exact)),  # type: ignore[arg-type]
        error,
        least_error(rounds),
        tuple(weights[order].tolist()),
        tuple(decays[order].tolist()),
    )


def least_error(rounds: int) -> float:
    """|A|_* / T."""
    k = np.arange(1, rounds + 1)
    return float((0.5 / np.sin((2 * k - 1) * math.pi / (4 * rounds + 2))).sum() / rounds)


def _loss(free: Array, rounds: int) -> tuple[float, Any]:
    """log of the mean squared error, and its gradient."""
    from scipy.signal import lfilter

    column = np.concatenate(([1.0], free))
    sums = lfilter([1.0], column, np.ones(rounds))
    weighed = sums * (1 - np.arange(rounds) / rounds)
    error, norm = float(sums @ weighed), float(column @ column)
    turned = lfilter([1.0], column, sums)
    moved = np.array([weighed[j:] @ turned[: rounds - j] for j in range(1, len(column))])
    return math.log(error) + math.log(norm), -2 * moved / error + 2 * free / norm

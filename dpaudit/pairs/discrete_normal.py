"""Discrete Gaussian noise on the integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, is_symbolic
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, number
from dpaudit.pairs.balls import bits as precision
from dpaudit.pairs.core import Lattice, Symmetric

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

LONGEST_SUM = 10**4  # Shift up to which all integers are summed.
LEAST_VARIANCE = Fraction(1, 10**5)  # Variance from which on all integers are summed.
# A variance above which cells are integrals; standard deviations that hold all mass; exponents.
DENSE_VARIANCE = 5e8
FLOAT_DEVIATIONS = 37.7  # Standard deviations; the normal mass beyond underflows a float.
LARGEST_EXPONENT = 750.0  # exp(-750) is below every float


@dataclass(frozen=True)
class DiscreteNormal(Symmetric):
    """Discrete Gaussian noise on the integers, sigma^2 = ``variance``, moved by ``shift``."""

    variance: Number
    shift: Number

    is_discrete = True

    @property
    def has_delta(self) -> bool:
        """Whether a sum over all integers that matter is short; other noise has a grid alone."""
        if is_symbolic(self.variance) or is_symbolic(self.shift) or self.shift.denominator != 1:
            return False
        return bool(
            1 <= self.shift <= LONGEST_SUM and LEAST_VARIANCE <= self.variance <= LONGEST_SUM
        )

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """F(m) - x F(m - s), F the noise's distribution function, m the last with p > x q.

        m is the last integer below s / 2 - v epsilon / s; next to an integer, either neighbour: the
        outcome between them counts nothing.
        """
        shift, bits = int(self.shift), precision()
        place = number(self.shift) / 2 - number(self.variance) * x.log() / shift
        last = math.ceil(float(place.mid())) - 1
        around = (last - 1, last, last + 1)
        if not (place > last - 1 and place < last + 2):
            return number(0).union(1)
        total_weight = 1 + 2 * weight_beyond(self.variance, 1, bits)

        def below(last: int) -> Ball:
            if last < 0:
                return weight_beyond(self.variance, -last, bits) / total_weight
            return 1 - weight_beyond(self.variance, last + 1, bits) / total_weight

        largest = number(0)
        for last in around:
            largest = largest.max(below(last) - x * below(last - shift))
        return largest

    def loss_masses(self, tail: float) -> grids.Closed | None:
        """Outcome by outcome, or in bulk where the noise is very wide."""
        if self.shift == 0:
            return grids.point()
        variance, shift = (
            grids.as_float(self.variance, "variance"),
            grids.as_float(self.shift, "shift"),
        )
        if shift != round(shift):
            raise Unsupported(f"discrete normal noise moved by {shift:g}: expected a whole number")
        scale = math.sqrt(variance)
        if variance > DENSE_VARIANCE and abs(shift) < scale:
            return _dense(scale, abs(shift), grids.quantile(tail))
        reach = math.ceil(FLOAT_DEVIATIONS * scale) + 2 + abs(shift)
        if 2 * reach > grids.MAXIMUM_NODES:
            raise grids.TooFine(
                f"discrete normal noise of variance {variance:g}: too many outcomes"
            )
        k = np.arange(-reach, reach + 1)
        exponents = [(k - m) ** 2 / (2 * variance) for m in (shift, 0.0)]
        p, q = (np.exp(-e) / grids.theta(variance) for e in exponents)
        # An outcome stays while one of its masses is a float: its loss is known, however large.
        positive = (p > 0) | (q > 0)
        losses = shift * (2 * k - shift) / (2 * variance)
        outcomes = grids.Outcomes(losses[positive], p[positive], q[positive])
        return grids.finite(outcomes, 16 * grids.UNIT * (8 + 2 * LARGEST_EXPONENT))

    @property
    def anchors(self) -> list[float] | None:
        half = abs(self.shift) / (2 * self.variance)
        return [grids.as_float(half, "shift / (2 variance)")]

    @property
    def lattice(self) -> Lattice | None:
        return Lattice(self.variance, self.shift)


@lru_cache(maxsize=8192)
def weight_beyond(variance: Fraction, first: int, bits: int) -> Ball:
    """Sum of exp(-k^2 / (2 v)) over k >= first >= 1.

    Neighbours have ratios of at most exp(-(2 k + 1) / (2 v)), so that what is left out is at most
    that geometric series.
    """
    step = (-1 / number(variance)).exp()
    ratio = (-(2 * first + 1) / (2 * number(variance))).exp()
    term, total, least = number(1), number(0), number(2) ** -bits
    while term > least:
        total += term
        term *= ratio
        ratio *= step
    remainder = term / (1 - ratio)
    return (total + remainder.union(0)) * (-(number(first) ** 2) / (2 * number(variance))).exp()


def _dense(scale: float, shift: float, z: float) -> grids.Closed:
    """Discrete normal noise of a variance v above ``DENSE_VARIANCE``, 0 < shift < scale.

    The sum of the density f over the integers in a cell is its integral between half-integers less
    a 24th of that of f'', within the factor 1 +- (z^4 + 6 z^2 + 3) / (600 v^2), z = k / sqrt(v).
    Proof: by Taylor's formula f(k) less the integral of f - f'' / 24 over [k - 1/2, k + 1/2] is
    that of K(t) f4(k + t), f4 the fourth derivative, K(t) = d^2 (1 - 2 d^2) / 48, d = 1/2 - |t|.
    K >= 0, and its integral is 1/576 - 1/1920 = 7/5760 < 1/822; |f4| = f |z^4 - 6 z^2 + 3| / v^2.
    In a unit cell f varies by a factor of at most e^(|z| / sqrt(v) + 1 / v), and z^4 + 6 z^2 + 3
    and 1 - (z^2 - 1) / (24 v) by less, which for |z| < 1000 and v > ``DENSE_VARIANCE`` is far
    below 822 / 600.
    """
    ratio = shift / scale

    def between(edges: grids.Reals) -> grids.Reals:
        slope = edges * np.exp(-np.minimum(edges * edges, 1400.0) / 2) / math.sqrt(2 * math.pi)
        inner = np.where(np.abs(edges) < FLOAT_DEVIATIONS, slope, 0.0)
        masses = grids.normal_between(edges) + np.diff(inner) / (24 * scale * scale)
        return np.maximum(masses, 0.0)

    def masses(edges: grids.Reals) -> tuple[grids.Reals, grids.Reals]:
        last = np.floor(np.clip(edges / ratio + ratio / 2, -1e8, 1e8) * scale) + 0.5
        return between((last - shift) / scale), between(last / scale)

    half, farthest = ratio * ratio / 2, z + ratio + 1
    return grids.Closed(
        masses,
        grids.NO_OUTCOMES,
        (-half - ratio * farthest, half + ratio * farthest),
        edge_error=8 * grids.UNIT * (ratio * farthest + half),
        relative=grids.NORMAL_FACTOR
        + 16 * grids.UNIT * farthest * farthest
        + (farthest**4 + 6 * farthest**2 + 3) / (600 * scale**4),
    )

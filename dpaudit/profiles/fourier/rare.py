"""Products in which one sampled round may have a rare large loss, which is summed apart.

A is a product with T rounds of a sampled normal pair (not swapped), S_n the loss of the rest with n
rounds whose outcomes are x <= c (a part of their law), l(x) the loss of one round beyond.  By how
many rounds are beyond,
    delta(epsilon) = delta of S_T + T integral over x > c of R(x) phi(x) g(epsilon - l(x)) + rest,
    g = delta of S_(T - 1),    0 <= rest <= (T P(x > c))^2 / 2.
g is convex in u = exp(epsilon - l), so that on a cell of x with masses p and q the integral is at
least p g at the mean q exp(epsilon) / p of u (Jensen), and at most the chord between the cell's
ends at that mean.  Where epsilon - l is below all that S reaches but mass, g = P_S - u Q_S, P_S and
Q_S the masses of S; everywhere P_S - u Q_S <= g <= P_S, and below a point a
    g <= P_S - u Q_S + u E exp(-S) 1{S < a},   E exp(-S) 1{S < a} <= exp(h a + K(-1 - h)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.grids.discrete import Reals
from dpaudit.grids.noise import mixed_losses, normal_between
from dpaudit.profiles.fourier.sampled import (
    RULE_NATS,
    Complexes,
    OutOfReach,
    SampledNormal,
    rule,
)

if TYPE_CHECKING:
    from dpaudit.profiles.fourier.smooth import Product, Series

LARGE_LOSS_CELLS = 800  # Cells into which the one large loss is divided.
MOST_TURNS = 20_000_000  # cells times frequencies: seconds
NEGLIGIBLE_NATS = 18.0  # The last cell leaves out a share of exp(-this) of the mass beyond the cap.
MASS_ROUNDING = 1e-9  # Relative error of masses and of the weights of chords.
LOSS_ROUNDING = 1e-12  # Relative error of a loss, which moves g by at most as much.


@dataclass(frozen=True)
class Rare:
    """Cells of x beyond a cap: P masses of all rounds, losses of means and of ends, chord weights.

    ``series``: of S_(T - 1); ``twice``: the P mass of two or more; ``last``: beyond the last cell.
    """

    series: Series
    masses: Reals
    means: Reals
    ends: Reals
    weights: Reals
    last: float
    twice: float

    @cached_property
    def turns(self) -> tuple[Turns, Turns]:
        """The turns of the losses of means, and of those of ends."""
        w = self.series.sums.angles
        return Turns.of(self.means, w), Turns.of(self.ends, w)

    def at(self, epsilon: float) -> tuple[float, float]:
        """Bounds of all but the first term, at an epsilon."""
        series, (turned, turned_ends) = self.series, self.turns
        low = _least(series, epsilon, self.means, turned)
        high = _most(series, epsilon, self.ends, turned_ends)
        slack = float(self.masses.sum()) * LOSS_ROUNDING * (1 + float(np.max(self.ends)))
        least = float(self.masses @ low) * (1 - MASS_ROUNDING) - slack
        most = float(self.weights @ high) * (1 + MASS_ROUNDING) + slack + self.last + self.twice
        return max(least, 0.0), most


@dataclass(frozen=True)
class Turns:
    """exp(-i w l) of losses (rows) at w_j = j w_1, j = a + A b, as products of those at a and A b.

    A product is off by three roundings more, and angles by as much as in one piece.
    """

    fine: Complexes
    coarse: Complexes

    @staticmethod
    def of(losses: Reals, w: Reals) -> Turns:
        size = math.isqrt(max(len(w) - 1, 0)) + 1
        fine, coarse = (np.exp(np.outer(losses, -1j * part)) for part in (w[:size], w[::size]))
        return Turns(fine, coarse)

    def part(self, chosen: NDArray[np.bool_]) -> Turns:
        """The turns of the losses in a mask."""
        return Turns(self.fine[chosen], self.coarse[chosen])

    def sums(self, terms: Complexes) -> Complexes:
        """sum_j exp(-i w_j l) terms_j of every loss."""
        shape = self.coarse.shape[1], self.fine.shape[1]
        padded = np.zeros(shape, dtype=np.complex128)
        padded.ravel()[: len(terms)] = terms
        sums: Complexes = ((self.fine @ padded.T) * self.coarse).sum(axis=1)
        return sums


def without_one(product: Product) -> Product:
    """One round less of the only sampled factor."""
    (factor,) = product.sampled
    return replace(product, sampled=(replace(factor, times=factor.times - 1),))


def rare(product: Product, series: Series) -> Rare:
    """The cells of a product with one sampled factor that is capped; ``series`` of one less.

    Errors: OutOfReach for a series of very many frequencies.
    """
    if LARGE_LOSS_CELLS * len(series.transform) > MOST_TURNS:
        raise OutOfReach
    (factor,) = product.sampled
    mu, rate, cap, times = factor.mu, factor.rate, factor.cap, factor.times
    end = beyond_cap(factor, -NEGLIGIBLE_NATS)
    x = np.linspace(cap, end, LARGE_LOSS_CELLS + 1)
    q, moved = normal_between(x), normal_between(x - mu)
    p = (1 - rate) * q + rate * moved
    ends = mixed_losses(mu * x - mu * mu / 2, rate)
    means = np.log1p(rate * (moved / q - 1))
    means = np.clip(means, ends[:-1], ends[1:])
    # The place of the mean of u between its ends, as a share of their distance.
    share = np.expm1(ends[1:] - means) / np.expm1(ends[1:] - ends[:-1])
    share = np.clip(share, 0.0, 1.0)
    weights = np.zeros(LARGE_LOSS_CELLS + 1)
    weights[:-1] += p * share
    weights[1:] += p * (1 - share)
    last = times * ((1 - rate) * special.ndtr(-end) + rate * special.ndtr(mu - end))
    return Rare(
        series,
        times * p,
        means,
        ends,
        times * weights,
        float(last) * (1 + 1e-9),
        factor.beyond**2 / 2,
    )


def beyond_cap(factor: SampledNormal, log_share: float) -> float:
    """A point beyond which there is about exp(log_share) of what is beyond the cap."""
    log_mass = math.log(factor.beyond) + log_share
    return max(factor.kept(log_mass).cap, factor.cap + 1.0)


def _ends(series: Series, epsilon: float, losses: Reals, turned: Turns, sign: int) -> Reals:
    """Bounds of delta of the series' product at epsilon - losses, in its window."""
    turn, angles = np.exp(1j * series.sums.angles * epsilon), abs(epsilon) + losses
    parts = series.parts(epsilon - losses, lambda terms: turned.sums(terms * turn), angles)
    exponent, value, error, gap = parts
    ends: Reals = np.exp(exponent) * (value + error if sign > 0 else value - error - gap)
    return ends


@lru_cache(maxsize=16)
def _masses(factor: SampledNormal, mu: float) -> tuple[float, float, float]:
    """P_S and Q_S about, and their relative error."""
    rules = [rule(factor, s, 0.0, RULE_NATS) for s in (0.0, -1.0)]
    p, q = (math.exp(factor.times * moments.log_moment) for moments in rules)
    return p, q, 1e-14 * (1 + mu) + 2 * factor.times * max(moments.log_error for moments in rules)


def _inside(series: Series, at: Reals) -> NDArray[np.bool_]:
    return (at > series.first) & (at < series.first + series.period)


def _least(series: Series, epsilon: float, losses: Reals, turned: Turns) -> Reals:
    """Lower bounds of g."""
    at = epsilon - losses
    p, q, off = _masses(series.product.sampled[0], series.product.mu)
    bounds: Reals = np.maximum(p - np.exp(at) * q - off * (p + np.exp(at) * q), 0.0)
    inside = _inside(series, at)
    own = _ends(series, epsilon, losses[inside], turned.part(inside), -1)
    bounds[inside] = np.maximum(bounds[inside], own)
    return bounds


def _most(series: Series, epsilon: float, losses: Reals, turned: Turns) -> Reals:
    """Upper bounds of g."""
    at = epsilon - losses
    p, q, off = _masses(series.product.sampled[0], series.product.mu)
    bounds = np.full(len(at), p * (1 + off))
    below = at <= series.first
    steps = -1 - series.tilt - series.plan.shifts[1]
    if steps > 0 and below.any():
        tail = series.product.cumulant(-1 - steps) + steps * series.first
        tail += 1e-9 * (1 + abs(tail) + steps * abs(series.first))
        u = np.exp(at[below])
        straight = p * (1 + off) - u * q * (1 - off) + u * math.exp(min(tail, 700.0))
        bounds[below] = np.minimum(bounds[below], straight)
    inside = _inside(series, at)
    own = _ends(series, epsilon, losses[inside], turned.part(inside), 1)
    bounds[inside] = np.minimum(bounds[inside], own)
    return bounds

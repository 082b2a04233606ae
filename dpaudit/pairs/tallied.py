"""The number of ones among binary reports, one of which is told from the others.

Write l = rare, h = e^epsilon l, n = others + 1 and B for the binomial law of n - 1 reports at l.
Under Q the number is binomial(n, l).  Under P it is t with probability h B(t - 1) + (1 - h) B(t),
and B(t - 1) / Q(t) = t / (n l), B(t) / Q(t) = (n - t) / (n (1 - l)):

    P(t) / Q(t) = (t h / l + (n - t) (1 - h) / (1 - l)) / n,

which grows with t.  With S(k) = B(k) + B(k + 1) + ..., an incomplete beta function,

    delta(x) = (h - x l) S(t - 1) + (1 - h - x (1 - l)) S(t),    t = n (x - r) / (e^epsilon - r)

rounded up, r = (1 - h) / (1 - l), between 0 and n + 1; any other t gives less.

On a grid: Q is a window of a cumulative product of ratios, outside of which there is at most
``LEFT`` (:mod:`dpaudit.grids.counts`), P that times the ratio.  Under P one report more or less
is counted, which leaves out at most ``NEIGHBOUR_RATIO`` times as much, as in
:mod:`dpaudit.pairs.clones`.  The mass left out
counts as infinite loss above; below it is far less than ``relative`` times the mass of either
tail of the loss: where anything is left out, n is above 60, and a tail has at least an eighth of
l, or of 1 - h, which are at least ``LEAST_PROBABILITY``.
Rounding.  A ratio is a sum of two positive terms of 5 roundings each, its logarithm within 16 units
and 4 of its own; masses as in ``counts``, and the ratio's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, enclose, exp, log, settled
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, bits
from dpaudit.pairs.core import Extremes, Pair, Tally

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

LEAST_PROBABILITY = 1e-13  # Probabilities below this lose digits when they are subtracted.
MAX_BITS = 20_000  # Binary digits of the smallest probability that a question can be about.
GUARD_BITS = 30  # Binary digits kept beyond the precision.
# Bits of a sum, for each that a term loses by the next.
BITS_SUMMED = 200_000


@dataclass(frozen=True)
class Tallied(Pair):
    """The number of ones among a report of 0 or 1 and those of ``others``, all independent.

    Each of the others is 1 with probability ``rare``; the one is so under Q, and e^epsilon times as
    likely under P.
    """

    epsilon: Number
    rare: Number
    others: Number

    is_discrete = True

    @property
    def extremes(self) -> Extremes:
        """No ones, and all ones; both losses are equal where e^epsilon of both are 1."""
        if self.rare * (1 + exp(self.epsilon)) == 1:
            return self.epsilon, self.epsilon
        return log((1 - self.rare) / (1 - self.rare * exp(self.epsilon))), self.epsilon

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """Next to a whole number, of either side of it."""
        import flint

        precision, others = bits(), int(self.others)
        low, high, grown = _balls(self.rare, self.epsilon, precision)
        n, none = others + 1, (1 - high) / (1 - low)
        place = n * (x - none) / (grown - none)
        if x >= grown:
            return flint.arb(0)
        if x <= none:
            return 1 - x
        middle = place.mid().ceil().unique_fmpz()
        if middle is None or not abs(place - middle) < 2:
            return flint.arb(0).union(1)
        largest = (1 - x).max(0)
        for least in {min(max(int(middle) + k, 0), n + 1) for k in (-1, 0, 1, 2)}:
            if place > least or place <= least - 1:
                continue
            before, own = (_beyond(self.rare, others, k, precision) for k in (least - 1, least))
            largest = largest.max((high - x * low) * before + (1 - high - x * (1 - low)) * own)
        return largest

    def _masses(self) -> grids.Closed:
        """Errors: Unsupported for more reports, rarer ones, or larger losses, than floats hold."""
        if self.others > grids.MOST_OTHERS:
            raise Unsupported(
                f"{self.others} other reports: at most {grids.MOST_OTHERS} are computed with"
            )
        grids.known_loss(self.epsilon)
        n, likely = int(self.others) + 1, self.rare * exp(self.epsilon)
        low, high = grids.as_float(self.rare, "rare"), grids.as_float(settled(likely), "rare")
        others, own = (grids.as_float(settled(1 - p), "rare") for p in (self.rare, likely))
        if low < LEAST_PROBABILITY or own < LEAST_PROBABILITY:
            raise Unsupported(
                f"reports of chances {low:g} and 1 - {own:g}: none are rarer than 1e-13"
            )
        first, q = grids.binomial_masses(n, low, low / others)
        t = first + np.arange(len(q), dtype=np.float64)
        ratio = (t * (high / low) + (n - t) * (own / others)) / n
        losses = np.log(ratio)

        def masses(edges: grids.Reals) -> tuple[grids.Reals, grids.Reals]:
            return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)

        span = float(losses[0]), float(losses[-1])
        error = grids.UNIT * (16 + 4 * max(abs(end) for end in span))
        relative = grids.UNIT * (20 * len(q) + 64)
        return grids.Closed(masses, grids.Outcomes(losses, ratio * q, q), span, error, relative)

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        cells = grids.cells_from(self._masses(), grid, 1)
        return _beside_what_is_left_out(cells, side)

    def _swapped_on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """Edges lie above their nodes, so that they do not when losses change sign."""
        cells = grids.cells_from(self._masses(), grid, -1).swapped()
        return _beside_what_is_left_out(cells, side)

    @property
    def tally(self) -> Tally | None:
        return Tally(self.epsilon, self.rare, self.others)


# --- at one point, in balls ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _balls(rare: Number, epsilon: Number, bits: int) -> tuple[Ball, Ball, Ball]:
    """l, h and e^epsilon."""
    grown, low = enclose(epsilon).exp(), enclose(rare)
    return low, low * grown, grown


@lru_cache(maxsize=4096)
def _beyond(rare: Number, others: int, least: int, bits: int) -> Ball:
    """S(least); what is next to 1 at the precision, or far below what is asked for, not at cost.

    With d(a) = a log(a / l) + (1 - a) log((1 - a) / (1 - l)), P(ones >= a m) <= exp(-m d(a)) from
    the mean on, and P(ones <= a m) up to it (Chernoff 1952).
    """
    import flint

    if least <= 0 or least > others:
        return flint.arb(1 if least <= 0 else 0)
    chance = enclose(rare)
    if 1 < least < others:
        place = least if least > others * chance else least - 1
        part = flint.arb(place) / others
        apart = part * (part / chance).log() + (1 - part) * ((1 - part) / (1 - chance)).log()
        outside = (-others * apart).exp()
        if least > others * chance and outside < flint.arb(2) ** -MAX_BITS:
            return outside.union(0)
        if place < others * chance and outside < flint.arb(2) ** -(bits + GUARD_BITS):
            return 1 - outside.union(0)
        # The smaller tail keeps its leading digits; one minus the larger would lose them.
        if place < others * chance:
            return 1 - _tail(1 - chance, others, others - least + 1)
        return _tail(chance, others, least)
    return chance.beta_lower(least, others - least + 1, regularized=True)


def _tail(chance: Ball, trials: int, least: int) -> Ball:
    """P(ones >= least), least above the mean: the terms of a sum that falls, or the beta function.

    Term by term ratios fall too, so that the rest of the sum is at most a geometric one.
    """
    import flint

    odds, bits = chance / (1 - chance), int(flint.ctx.prec)
    ratio = (trials - least) * odds / (least + 1)
    if not ratio < 1 or not bits < BITS_SUMMED * (1 - ratio):
        return chance.beta_lower(least, trials - least + 1, regularized=True)
    term = total = flint.arb(1)
    smallest, k = flint.arb(2) ** -bits, least
    while term > smallest and k < trials:
        term *= (trials - k) * odds / (k + 1)
        total += term
        k += 1
    if k < trials:
        total += (term * ratio / (1 - ratio)).union(0)
    with flint.ctx.workprec(bits + 8 + 2 * trials.bit_length()):
        ways = (flint.arb(trials + 1).lgamma() - flint.arb(least + 1).lgamma()) - flint.arb(
            trials - least + 1
        ).lgamma()
        first = (ways + least * chance.log() + (trials - least) * (1 - chance).log()).exp()
    return first * total


# --- on a grid -----------------------------------------------------------------------------------


def _beside_what_is_left_out(cells: grids.Cells, side: grids.Side) -> grids.Discrete:
    if side is grids.Side.UPPER:
        left_out = 4 * grids.NEIGHBOUR_RATIO * grids.LEFT
        cells = replace(
            cells, infinite=(cells.infinite[0] + left_out, cells.infinite[1] + left_out)
        )
    return cells.discrete(side)

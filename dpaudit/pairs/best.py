"""The best of a random number of runs, from the privacy profile of one.

With p the chance that a run of law Q, on the first data set, is ranked above an outcome (ties are
broken at random), the best run has density w(p) dQ; w is the slope of the generating function of
the number of runs at 1 - p, and falls in p.  With c = 1 - gamma:
    truncated negative binomial    w(p) = C (gamma + c p)^-(shape + 1), of integral 1
    Poisson of mean m              w(p) = m exp(-m p), and no run at all with probability exp(-m).

Theorem: let delta be the profile of one run, d that of the pair swapped, and psi(r) at least
w(p) / w(G(p)) for every p <= r, G(p) = inf over y of y p + d(y).  Then at x >= 1 the profile of the
best run is at most
    integral over r of min(r, delta(x / psi(r))) -dw(r), and min(1, delta(x / psi(1))) w(1).

Proof: on the second data set, of law Q', the chance above the same outcome is p' <= G(p), by d at
every y, so that the density there is at least w(p) / psi(p).  For a set S of outcomes
    A(S) - x A'(S) <= integral over S of w(p) (dQ - x / psi(p) dQ'),
and w(p) is w(1) and the integral of -dw(r) over r > p.  Exchange the integrals: on the part S(r) of
S with p < r, psi(p) <= psi(r), and Q(S(r)) - x / psi(r) Q'(S(r)) is at most delta(x / psi(r)), and
at most Q(S(r)) <= r.  No run at all is as likely on both data sets, and adds max(0, 1 - x) of it.
Any pair that dominates a run has a larger delta and a larger d, which only raises the bound.
Below x = 1 the two data sets exchange.

On cells of r: the larger end of min and of psi, the fall of w over the cell; a line y p + d(y) is
above G, and w(p) / w(y p + d(y)) has its largest value on a cell at an end, being monotone.
Source: Koskela, Redberg, Wang 2024, "Privacy profiles for private selection", whose bound takes one
y for all r and the largest w; Liu, Talwar 2019; Papernot, Steinke 2022.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, enclose, exp, is_infinite
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, bits, number, positive
from dpaudit.pairs.core import Comparisons, Extremes, Pair, delta_of, dominating

if TYPE_CHECKING:
    from dpaudit import grids
else:
    grids = Later("dpaudit.grids")

# Cells of r, on each of which log w falls equally; half as many cost 0.3% of epsilon.
SURVIVAL_CELLS = 40
LOG_FALL = 50.0  # Nats by which log w falls on all cells but the last.
ENVELOPE_LINES = 16  # Lines that bound G from above.
FAINT_SHARE = 1 / 16  # The lines reach to losses at which d is this share of what matters.
SMALLEST_LOSS = 2.0**-30  # Nats: the profile of one run is followed from this loss on.
LARGEST_LOSS = 2.0**9  # Nats: the profile of one run is followed up to this loss.
BALL_BITS = 1200  # Precision of the balls, in bits: masses go down to exp(-LARGEST_LOSS).


class _Best(Pair):
    """The best of K independent runs of ``base``; no other run is shown, nor how many."""

    base: Pair

    grows: ClassVar[Comparisons] = {"base": dominating}
    grows_with_inner = True

    @property
    def never(self) -> Ball:
        """The chance of no run at all."""
        return number(0)

    @abstractmethod
    def fallen(self, part: float) -> float:
        """Where log w has fallen by about this part of its fall from 0 to 1, or of ``LOG_FALL``."""

    @abstractmethod
    def weight(self, p: Ball) -> Ball:
        """w(p)."""

    @abstractmethod
    def ratio(self, p: Ball, other: Ball) -> Ball:
        """w(p) / w(other)."""

    @property
    def inner(self) -> tuple[Pair, ...]:
        return (self.base,)

    @property
    def delta_cost(self) -> int:
        return SURVIVAL_CELLS * super().delta_cost

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """The theorem's bound; at most 1."""
        if x < 1:
            return 1 - x + x * self.swapped.delta(1 / x, of)
        ask = of or delta_of
        total, last, inner = self.never * positive(1 - x), None, number(1)
        for most, fall, psi in _rows(self, ask, bits()):
            if psi is not last:
                last, inner = psi, ask(self.base, x / psi)
            total += fall * inner.min(most)
        return total.min(number(1))

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """Errors: NoLower from below: the theorem is a bound, which no runs need reach.

        Unsupported for a search over searches, one delta of which takes over a thousand, and over
        compositions, whose profile is no formula.
        """
        if self.base.delta_cost > 1 or not self.base.has_delta:
            raise Unsupported("a search over searches or compositions, composed: use rdp")
        if side is grids.Side.LOWER:
            raise grids.NoLower(f"{type(self).__name__}: only an upper profile is known")
        return super()._on_grid(grid, side)


@dataclass(frozen=True)
class Best(_Best):
    """K of the truncated negative binomial law of ``gamma`` and the shape ``power`` - 1."""

    base: Pair
    gamma: Number
    power: Number

    @property
    def swapped(self) -> Pair:
        return Best(self.base.swapped, self.gamma, self.power)

    def fallen(self, part: float) -> float:
        """gamma + (1 - gamma) p grows from gamma to 1."""
        gamma, power = (float(enclose(n).mid()) for n in (self.gamma, self.power))
        grown = -math.expm1(min(-math.log(gamma) * power, LOG_FALL) * part / power)
        return min(-grown * gamma / (1 - gamma), 1.0)

    def weight(self, p: Ball) -> Ball:
        gamma, shape = number(self.gamma), number(self.power - 1)
        if self.power == 1:
            return (1 - gamma) / (1 / gamma).log() / (gamma + (1 - gamma) * p)
        whole = ((1 / gamma) ** shape - 1) / shape / (1 - gamma)
        return (gamma + (1 - gamma) * p) ** (-shape - 1) / whole

    def ratio(self, p: Ball, other: Ball) -> Ball:
        gamma = number(self.gamma)
        moved = (gamma + (1 - gamma) * other) / (gamma + (1 - gamma) * p)
        return moved ** number(self.power)

    @property
    def extremes(self) -> Extremes:
        """Ranks move by the other end's loss, to that power."""
        low, high = self.base.extremes
        if is_infinite(low) or is_infinite(high):
            return (low if is_infinite(low) else high,) * 2
        return low + self.power * high, high + self.power * low


@dataclass(frozen=True)
class BestOfPoisson(_Best):
    """K of the Poisson law of this ``mean``; none is an outcome of its own."""

    base: Pair
    mean: Number

    @property
    def swapped(self) -> Pair:
        return BestOfPoisson(self.base.swapped, self.mean)

    @property
    def never(self) -> Ball:
        return (-number(self.mean)).exp()

    def fallen(self, part: float) -> float:
        mean = float(enclose(self.mean).mid())
        return min(min(mean, LOG_FALL) * part / mean, 1.0)

    def weight(self, p: Ball) -> Ball:
        mean = number(self.mean)
        return mean * (-mean * p).exp()

    def ratio(self, p: Ball, other: Ball) -> Ball:
        return (number(self.mean) * (other - p)).exp()

    @property
    def extremes(self) -> Extremes:
        """Ranks move by 1 - exp(-l) at most, l the other end's loss."""
        low, high = self.base.extremes
        if is_infinite(low) or is_infinite(high):
            return (low if is_infinite(low) else high,) * 2
        moved = (self.mean * (1 - exp(-end)) for end in (high, low))
        return low + next(moved), high + next(moved)


Row = tuple[Ball, Ball, Ball]
Line = tuple[Ball, Ball]


@lru_cache(maxsize=16)
def _rows(pair: _Best, ask: Delta, bits: int) -> list[Row]:
    """For each cell of r, and for 1: r at most, by how much w falls, psi at least."""
    places, lines = _plan(pair, ask)
    cuts = [number(place) for place in places]
    weights = [*map(pair.weight, cuts), number(0)]
    psi, rows = number(1), []
    for k, line in enumerate(lines):
        moved = _moved(pair, cuts[k], line).max(_moved(pair, cuts[k + 1], line))
        psi = psi if moved <= psi else psi.max(moved)
        rows.append((cuts[k + 1], weights[k] - weights[k + 1], psi))
    return [*rows, (cuts[-1], weights[-2], psi)]


def _moved(pair: _Best, p: Ball, line: Line) -> Ball:
    """w(p) / w of the line's place."""
    y, d = line
    return pair.ratio(p, y * p + d)


@lru_cache(maxsize=16)
def _plan(pair: _Best, ask: Delta) -> tuple[list[Fraction], list[Line]]:
    """Cuts of [0, 1], and for each cell a line above G; any are sound."""
    import flint

    with flint.ctx.workprec(BALL_BITS):
        cuts = [
            Fraction(0),
            *(Fraction(pair.fallen(k / SURVIVAL_CELLS)) for k in range(1, SURVIVAL_CELLS)),
        ]
        cuts = [cut for cut in cuts if cut < 1]

        def line(loss: float) -> Line:
            y = number(Fraction(loss)).exp()
            return y, ask(pair.base.swapped, y)

        rest = line(LARGEST_LOSS)[1]
        # Beyond the lines' losses less of d is left than moves the ranks that matter.
        half = min(pair.fallen(math.log(2) / LOG_FALL), 1.0)
        wanted = FAINT_SHARE * half * (line(0.0)[1] - rest).mid()

        def is_above(loss: float) -> bool:
            return bool(line(loss)[1] - rest > wanted)

        high = 1.0
        while high < LARGEST_LOSS and is_above(high):
            high *= 2
        while high > SMALLEST_LOSS and not is_above(high / 2):
            high /= 2
        low = high / 2
        for _ in range(4):
            middle = (low + high) / 2
            low, high = (middle, high) if is_above(middle) else (low, middle)
        lines = [line(high * k / ENVELOPE_LINES) for k in range(ENVELOPE_LINES + 1)]
        middles = (number((low + high) / 2) for low, high in pairwise([*cuts, Fraction(1)]))
        chosen = [
            min(lines, key=lambda line: float((line[0] * middle + line[1]).mid()))
            for middle in middles
        ]
        return [*cuts, Fraction(1)], chosen

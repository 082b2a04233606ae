"""Many sampled rounds whose noise is so small that one with the record is told from one without.

T rounds of ((1 - q) Q + q P, Q), (P, Q) = Normal(mu): R = 1 - q + q e^u is a round's ratio, u =
mu z - mu^2 / 2.  With s > 0 call a round *hit* where e^u > e^s / q, *empty* where u <= -s; under
(1 - q) Q + q P it is neither with mass at most
    eta = (1 - q) N(0, 1){u > -s} + q N(mu, 1){u <= s - log q}.
On hits q e^u < R <= q (1 + k) e^u, k = (1 - q) e^-s; empty rounds have the masses p and r under
the first and under Q, and R <= c = 1 - q + q e^-s there.  Delta is the integral of
(product of R - x)+ dQ^T; it splits by which rounds are hit.  With M the product of R over the empty
ones and a that over the hits, M (a - x / c^(T - j))+ is at least (a M - x)+, whose mean over the
empty ones is by Jensen's inequality at least (a p^(T - j) - x r^(T - j))+.  So with
w_j = C(T, j) p^(T - j) and D_j the profile of Normal(mu sqrt(j)),

    delta(x) <= T eta + sum_j w_j (q (1 + k))^j D_j(x c^(j - T) (q (1 + k))^-j),
    delta(x) >= sum_j w_j q^j (D_j(x (r / p)^(T - j) q^-j) - j N(mu, 1){u <= s - log q})+.

The pair swapped: (1 - x R^T)+ <= (1 - x (1 - q)^T)+, and at least (r^T - x p^T)+.

Nothing above is of the normal law alone: for discrete Gaussian noise of variance v and a move s,
u = s (k - s / 2) / v at k, hits and empty rounds are whole numbers from some k on and up to some k,
and D_j is the profile of the noise j times (``sums``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpaudit.exact import Number, enclose, is_symbolic, sqrt
from dpaudit.pairs import Pair
from dpaudit.pairs.core import Sample
from dpaudit.profiles.closed.sums import Sums
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

Ball = Any
Floats = NDArray[np.float64]
LEAST_MU, LARGEST_GAP = 10.0, 25.0
MOST_COUNTS, MOST_ROUNDS = 4000, 10**12
# What the window of counts leaves out, relative to delta; room for a checker's own errors.
LEFT_OUT, ROOM = 30.0, Fraction(1, 10**8)
BITS, SMALLEST_LOG = 256, -300.0
# Delta may be of any size; sums of whole numbers are long where all of it is looked at, and mostly
# it is above SEEN, of which nothing is lost where masses below the first of these are left out.
LEAST_LOGS, SEEN = (-90.0, SMALLEST_LOG), Fraction(1, 10**26)


@dataclass(frozen=True)
class Rounds:
    """``times`` rounds of noise mu, sampled at ``rate``; counts of hits ``first`` to ``last``."""

    mu: Ball
    rate: Ball
    times: int
    first: int
    last: int

    @cached_property
    def gap(self) -> Ball:
        """s."""
        return _ball(min(LARGEST_GAP, float((self.mu * self.mu).mid()) / 16))

    @cached_property
    def missed(self) -> Ball:
        """N(mu, 1){u <= s - log q}."""
        return _phi((self.gap - self.rate.log()) / self.mu - self.mu / 2)

    @cached_property
    def low(self) -> tuple[Ball, Ball, Ball]:
        """Masses of u <= -s without the record and with it, of u > -s without it."""
        end, middle = -self.gap / self.mu, self.mu / 2
        return _phi(end + middle), _phi(end - middle), _phi(-end - middle)

    @property
    def empty(self) -> tuple[Ball, Ball]:
        """p and r."""
        r, moved, _ = self.low
        return (1 - self.rate) * r + self.rate * moved, r

    @cached_property
    def shares(self) -> tuple[Ball, Ball]:
        """q and q (1 + k)."""
        return self.rate, self.rate * (1 + (1 - self.rate) * (-self.gap).exp())

    def weights(self, share: Ball) -> list[Ball]:
        """C(T, j) p^(T - j) share^j for all counts j."""
        p, _ = self.empty
        j = self.first
        ways = _log_ways(self.times, j)
        found = [(ways + (self.times - j) * p.log() + j * share.log()).exp()]
        ratio = share / p
        for j in range(self.first, self.last):
            found.append(found[-1] * ratio * (self.times - j) / (j + 1))
        return found

    @cached_property
    def above(self) -> tuple[list[Ball], list[Ball], Ball]:
        """Weights, what moves epsilon, and what is added."""
        share = self.shares[1]
        largest = (1 - self.rate + self.rate * (-self.gap).exp()).log()
        weights = self.weights(share)
        moves = [
            -(self.times - j) * largest - j * share.log() for j in range(self.first, self.last + 1)
        ]
        eta = (1 - self.rate) * self.low[2] + self.rate * self.missed
        others = (self.times * (self.empty[0] + share).log()).exp() - sum(weights, _ball(0))
        return weights, moves, self.times * eta + others.max(_ball(0))

    @cached_property
    def below(self) -> tuple[list[Ball], list[Ball]]:
        """Weights, and what moves epsilon."""
        p, r = self.empty
        step, log_rate = (r / p).log(), self.rate.log()
        moves = [(self.times - j) * step - j * log_rate for j in range(self.first, self.last + 1)]
        return self.weights(self.rate), moves

    def most(self, epsilon: Ball) -> Ball:
        """The bound from above."""
        weights, moves, found = self.above
        for j, (weight, move) in enumerate(zip(weights, moves, strict=True), self.first):
            found = found + weight * self.hit(j, epsilon + move)[1]
        return found

    def least(self, epsilon: Ball) -> Ball:
        """The bound from below."""
        found = _ball(0)
        weights, moves = self.below
        for j, (weight, move) in enumerate(zip(weights, moves, strict=True), self.first):
            found += weight * (self.hit(j, epsilon + move)[0] - j * self.missed).max(_ball(0))
        return found

    def hit(self, count: int, epsilon: Ball) -> tuple[Ball, Ball]:
        """D_j, from below and from above."""
        if count == 0:
            found = (1 - epsilon.exp()).max(_ball(0))
        else:
            m = self.mu * _ball(count).sqrt()
            found = _phi(m / 2 - epsilon / m) - epsilon.exp() * _phi(-m / 2 - epsilon / m)
        return found, found

    def about(self, epsilon: float) -> float:
        """The bound from above in floats, roughly."""
        weights, moves, left = self._floats
        return float(weights @ np.maximum(self._hits(epsilon + moves), 0.0)) + left

    def _hits(self, at: Floats) -> Floats:
        m = float(self.mu.mid()) * np.sqrt(self._counts)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            normal = special.ndtr(m / 2 - at / m) - np.exp(at + special.log_ndtr(-m / 2 - at / m))
        none = np.maximum(-np.expm1(np.minimum(at, 1.0)), 0)
        found: Floats = np.where(self._counts == 0, none, normal)
        return found

    @cached_property
    def _counts(self) -> Floats:
        return np.arange(self.first, self.last + 1, dtype=np.float64)

    @cached_property
    def _floats(self) -> tuple[Floats, Floats, float]:
        weights, moves, left = self.above
        found = [np.array([float(v.mid()) for v in values]) for values in (weights, moves)]
        return found[0], found[1], float(left.mid())


@dataclass(frozen=True)
class WholeRounds(Rounds):
    """The same of discrete noise."""

    sums: Sums

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """The last k that is empty and the first that is hit."""
        per_loss = 1 / self.sums.slope
        middle = _ball(self.sums.noise.shift) / 2
        last = middle - self.gap * per_loss
        first = middle + (self.gap - self.rate.log()) * per_loss
        return math.floor(float(last.mid())) - 1, math.ceil(float(first.mid())) + 1

    @cached_property
    def missed(self) -> Ball:
        """P(k < first), the noise being as likely to fall on either side."""
        return self.sums.beyond(int(self.sums.noise.shift) - self._ends[1] + 1)

    @cached_property
    def low(self) -> tuple[Ball, Ball, Ball]:
        """Of k up to the last empty one."""
        last, shift = self._ends[0], int(self.sums.noise.shift)
        none = self.sums.beyond(last + 1)
        return 1 - none, self.sums.beyond(shift - last), none

    def hit(self, count: int, epsilon: Ball) -> tuple[Ball, Ball]:
        """D_j, from below and from above."""
        return self.sums.delta(count, epsilon)

    def _hits(self, at: Floats) -> Floats:
        return np.array([self.sums.about(self.first + k, e) for k, e in enumerate(at)])


def _ball(value: Any) -> Ball:
    """At the precision of the context."""
    import flint

    if isinstance(value, Fraction):
        return flint.arb(value.numerator) / flint.arb(value.denominator)
    return enclose(value) if is_symbolic(value) else flint.arb(value)


def _phi(x: Ball) -> Ball:
    return (-x / _ball(2).sqrt()).erfc() / 2


def _log_ways(times: int, count: int) -> Ball:
    return _ball(times + 1).lgamma() - _ball(count + 1).lgamma() - _ball(times - count + 1).lgamma()


def _one_kind(pair: Pair) -> tuple[Sample, int, bool] | None:
    """A sampled pair of large mu, how often, and whether it is swapped."""
    if len(pair.factors) != 1:
        return None
    ((factor, times),) = pair.factors
    sample = factor.unswapped.sample
    if sample is None or is_symbolic(times):
        return None
    mu = _move(sample.base)
    whole = times.denominator == 1 and 1 < times <= MOST_ROUNDS
    if not whole or mu is None or not enclose(mu) > LEAST_MU or not 0 < enclose(sample.rate) < 1:
        return None
    return sample, int(times), factor.is_swapped


def _move(base: Pair) -> Number | None:
    """mu of normal noise, and of discrete noise of about that size."""
    if base.lattice is not None and base.has_delta:
        return base.lattice.shift / sqrt(base.lattice.variance)
    return base.gaussian_shift


@lru_cache(maxsize=16)
def _rounds(pair: Sample, times: int, log_least: float, bits: int) -> Rounds | None:
    """Counts of hits whose chance is above exp(log_least); None where they are too many."""
    move = _move(pair.base)
    if move is None:
        return None
    mu, rate = _ball(move), _ball(pair.rate)
    if not mu * mu / 4 > -rate.log():
        return None
    q = float(rate.mid())
    width = 4 * MOST_COUNTS
    start = max(int(times * q) - width, 0)
    j = np.arange(start, min(int(times * q) + width, times) + 1, dtype=np.float64)
    logs = special.gammaln(times + 1) - special.gammaln(j + 1) - special.gammaln(times - j + 1)
    kept = j[logs + j * math.log(q) + (times - j) * math.log1p(-q) > log_least]
    if not 0 < len(kept) <= MOST_COUNTS or (kept[-1] == j[-1] != times):
        return None
    first, last = int(kept[0]), int(kept[-1])
    if pair.base.lattice is not None:
        sums = Sums(pair.base.lattice, last, log_least)
        return WholeRounds(mu, rate, times, first, last, sums) if sums.are_few else None
    return Rounds(mu, rate, times, first, last)


def epsilon_told(pair: Pair, delta: Fraction) -> Interval | None:
    """Epsilon at delta > 0 from both sides; None where this form does not apply."""
    import flint

    known = _one_kind(pair)
    if known is None:
        return None
    mixed, times, swapped = known
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    if log_delta < SMALLEST_LOG:
        return None
    bits = BITS - 2 * int(log_delta)
    with flint.ctx.workprec(bits):
        rounds = _rounds(mixed, times, log_delta - LEFT_OUT, bits)
        if rounds is None:
            return None
        smaller, larger = (_ball(delta * (1 + side * ROOM)) for side in (-1, 1))
        if swapped:
            lower, upper = _ends_swapped(rounds, larger, smaller)
        else:
            ends = _ends(rounds, larger, smaller)
            if ends is None:
                return None
            lower, upper = ends
    return Interval(lower, upper, _shown(lower), _shown(upper), "rounds told apart")


def _shown(epsilon: Fraction) -> dict[str, str]:
    return {"form": "told apart", "epsilon": str(epsilon)}


def _ends_swapped(rounds: Rounds, larger: Ball, smaller: Ball) -> tuple[Fraction, Fraction]:
    p, r = rounds.empty
    most = (1 - smaller).log() - rounds.times * (1 - rounds.rate).log()
    least = (rounds.times * r.log()).exp() - larger
    low = least.log() - rounds.times * p.log() if least > 0 else _ball(0)
    high = rounded_up(most.max(_ball(0)))
    return rounded_down(low.max(_ball(0))), Fraction(high)


def _ends(rounds: Rounds, larger: Ball, smaller: Ball) -> tuple[Fraction, Fraction] | None:
    """Ends at which the two bounds meet delta for certain."""
    if not rounds.above[2] < smaller:
        return None
    goal = float(smaller.mid())
    if rounds.most(_ball(0)) <= smaller:
        return Fraction(0), Fraction(0)
    high = 1.0
    while rounds.about(high) > goal:
        high *= 2
        if high > 1e15:
            return None
    root = high
    if rounds.about(0.0) > goal:
        root = float(optimize.brentq(lambda e: rounds.about(e) - goal, 0.0, high, rtol=1e-14))
    upper = _moved(root, 1, lambda epsilon: bool(rounds.most(epsilon) <= smaller))
    lower = _moved(root, -1, lambda epsilon: bool(rounds.least(epsilon) >= larger))
    return None if upper is None else (lower or Fraction(0), upper)


def _moved(root: float, sign: int, holds: Callable[[Ball], bool]) -> Fraction | None:
    """The first of a few decimals beyond a root, ever farther, at which something holds."""
    rounded = rounded_up if sign > 0 else rounded_down
    for k in range(36):
        at = Fraction(rounded(max(root * (1 + sign * 1e-13 * 2**k), 0.0)))
        if at == 0:
            return Fraction(0) if sign < 0 else None
        if holds(_ball(at)):
            return at
    return None


def delta_told(pair: Pair, epsilon: Fraction) -> Interval | None:
    """Delta at epsilon >= 0 from both sides; None where this form does not apply."""
    import flint

    known = _one_kind(pair)
    if known is None:
        return None
    mixed, times, swapped = known
    found: Interval | None = None
    for least in LEAST_LOGS:
        bits = BITS - int(least)
        with flint.ctx.workprec(bits):
            rounds = _rounds(mixed, times, least, bits)
            if rounds is None:
                break
            found = _delta_of(rounds, epsilon, swapped=swapped)
        if found.lower > SEEN:
            break
    return found


def _delta_of(rounds: Rounds, epsilon: Fraction, *, swapped: bool) -> Interval:
    """Both bounds, of rounds in either direction."""
    at, times = _ball(epsilon), rounds.times
    if swapped:
        p, r = rounds.empty
        low = (times * r.log()).exp() - (at + times * p.log()).exp()
        high = 1 - (at + times * (1 - rounds.rate).log()).exp()
    else:
        low, high = rounds.least(at), rounds.most(at)
    shown = {"form": "told apart", "epsilon": str(epsilon)}
    return Interval(
        min(rounded_down(low.max(_ball(0))), Fraction(1)),
        min(Fraction(rounded_up(high.max(_ball(0)))), Fraction(1)),
        shown,
        shown,
        "rounds told apart",
    )

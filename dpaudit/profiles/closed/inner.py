"""Answers of a pair whose delta is a formula of deltas that have to be composed first.

An example is the best of several runs of DP-SGD: :meth:`Pair.delta` asks the profile of one run at
a hundred losses.  Upper bounds of these give one of the pair (:attr:`Pair.grows_with_inner`); one
composition of each inner pair answers all of them.  Nothing is known from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from scipy.optimize import brentq

from dpaudit.exact import decimal_upper, infinity, lower_fraction, upper_fraction
from dpaudit.pairs import Pair
from dpaudit.pairs.balls import Ball, fraction, number
from dpaudit.profiles.fourier.engine import epsilon_outline, parts_of
from dpaudit.profiles.fourier.profile import Profile, profile_of
from dpaudit.profiles.interval import Interval, rounded_up

OUTER_BITS = 200  # Precision of the formula, in bits; the inner deltas are floats.
MAX_EPSILON = 2.0**10  # Nats: an epsilon above this counts as infinite.
METHOD = "a formula of composed profiles"
LEAST_EPSILON = 2.0**-40  # Nats: the search for epsilon stops here.
INNER_WIDTH = 4e-3  # Relative width of an inner delta from one grid.
ROOT_WIDTH = 1e-5  # Relative width of the epsilon that is found.
CHECKER_SHARE = 2e-2  # Share of delta left to the checker, which has rounding errors of its own.
RETILT_ERROR = 1e-6  # Share of delta by which a composition tilted for another loss may err.


@dataclass(eq=False)
class Composed:
    """Upper bounds of deltas of pairs, near those that matter where the answer is ``delta``."""

    delta: Fraction
    profiles: dict[Pair, Profile] = field(default_factory=dict)

    def __call__(self, pair: Pair, x: Ball) -> Ball:
        """Delta at x > 0; below 1 the two data sets exchange."""
        if pair.has_delta:
            return pair.delta(x, self)
        loss = lower_fraction(x.log())
        if loss is None:
            return number(1)
        if loss >= 0:
            return self._above(pair, float_below(loss))
        if x < 1:
            return 1 - x + x * self(pair.swapped, 1 / x)
        # Around 1: delta(x) <= delta(1) + 1 - x.
        return self._above(pair, 0.0) + (1 - x).max(0)

    def _above(self, pair: Pair, loss: float) -> Ball:
        error = float(self.delta) * RETILT_ERROR
        bounds = (self._profile(one).upper_at(loss, error)[0] for one in pair.alternatives)
        return fraction(Fraction(max(bounds)))

    def _profile(self, pair: Pair) -> Profile:
        if pair not in self.profiles:
            near = epsilon_outline(pair, self.delta, INNER_WIDTH).upper
            at = min(float(near), MAX_EPSILON)
            self.profiles[pair] = profile_of(parts_of(pair), at, INNER_WIDTH)
        return self.profiles[pair]

    @property
    def step(self) -> Fraction:
        """The smallest step of the grids that were made."""
        return min(Fraction(profile.step) for profile in self.profiles.values())


def float_below(value: Fraction) -> float:
    """The largest float that is at most a number."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def delta_inner(pair: Pair, epsilon: Fraction) -> Interval:
    """An upper bound of delta at epsilon >= 0."""
    import flint

    with flint.ctx.workprec(OUTER_BITS):
        # How small delta may be is not known yet: first a bound by a grid for a tiny one.
        first = _bound(pair, epsilon, Composed(Fraction(1, 10**12)))
        inner = Composed(min(max(Fraction(first), Fraction(1, 10**200)), Fraction(1, 2)))
        upper = min(first, _bound(pair, epsilon, inner))
    shown = {"form": "inner", "epsilon": str(epsilon), "step": str(inner.step)}
    highest = min(rounded_up(Fraction(upper)), Fraction(1))
    return Interval(Fraction(0), highest, {}, shown, METHOD)


def epsilon_inner(pair: Pair, delta: Fraction) -> Interval:
    """An upper bound of epsilon at delta > 0."""
    import flint

    inner, wanted = Composed(delta), float(delta) * (1 - CHECKER_SHARE)
    with flint.ctx.workprec(OUTER_BITS):

        def excess(epsilon: float) -> float:
            return math.log(max(_bound(pair, Fraction(epsilon), inner), 1e-300) / wanted)

        high = 1.0 if excess(0.0) > 0 else 0.0
        while excess(high) > 0:
            high *= 2
            if high > MAX_EPSILON:
                return Interval(Fraction(0), infinity(), method=METHOD)
        while high > LEAST_EPSILON and excess(high / 2) <= 0:
            high /= 2
        if high > LEAST_EPSILON:
            root = float(brentq(excess, high / 2, high, rtol=ROOT_WIDTH, xtol=ROOT_WIDTH * high))
            while root < high and excess(root) > 0:
                root *= 1 + ROOT_WIDTH
            high = min(root, high)
    upper = Fraction(decimal_upper(Fraction(high)))
    shown = {"form": "inner", "epsilon": str(upper), "step": str(inner.step)}
    return Interval(Fraction(0), upper, {}, shown, METHOD)


def _bound(pair: Pair, epsilon: Fraction, inner: Composed) -> float:
    """An upper bound of delta, as a float."""
    ball = pair.delta(fraction(epsilon).exp(), inner)
    upper = upper_fraction(ball)
    if upper is None:
        return 1.0
    nearest = float(upper)
    return nearest if Fraction(nearest) >= upper else math.nextafter(nearest, math.inf)

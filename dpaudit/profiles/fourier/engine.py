"""Epsilon and delta of compositions: discretise, compose, refine until the interval is narrow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import Number, is_infinite, is_symbolic, unknowns
from dpaudit.exact.effort import TooMuch
from dpaudit.grids.discrete import Side, TooFine
from dpaudit.pairs import Pair, largest_loss
from dpaudit.profiles.fourier.profile import Profile, profile_of
from dpaudit.profiles.fourier.search import Parts, Solved, epsilon_of, stack_of
from dpaudit.profiles.fourier.steps import aligned, first_step
from dpaudit.profiles.fourier.witness import witness
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

MAX_GRIDS = 4  # Grids that are tried, each finer than the last.
# Part of the width by which ends are moved outward: room for a checker with errors of its own.
ROUNDING_PARTS = 1 / 64
MAX_TRANSFORM = 2**22  # Numbers of the largest Fourier transform that is made.
# Factor by which a finer grid must narrow the interval; else no finer one follows.
LEAST_NARROWING = 1.2
SMALLEST_FACTOR = (1 / 64, 1 / 4)  # of a step, where there is no lower end and where there is one
MOST_PARTS = 10**13  # rounds: floats hold their number with room
# More are no float's.
MOST_TIMES = 10**300
SMALLEST_DELTA = 1e-280  # smaller deltas are answered by larger ones
# Ratio of the two bounds of delta at which the upper one reflects only the mass cut off.
UNINFORMATIVE_RATIO = 1000


def parts_of(pair: Pair) -> Parts:
    """Independent factors and their counts, which must be whole numbers without symbols."""
    return tuple((factor, _whole(times, factor)) for factor, times in pair.factors)


def _whole(times: Number, factor: Pair) -> int:
    if is_symbolic(times) or times.denominator != 1 or times < 0:
        free = ", ".join(sorted(map(str, unknowns(times))))
        reason = f"bind {free} first" if free else "expected a whole number"
        raise InvalidParameter(f"{type(factor).__name__} composed {times} times: {reason}")
    if times > MOST_TIMES:
        raise Unsupported(
            f"{type(factor).__name__}: its profile is composed at most {float(MOST_TIMES):.0e} "
            "times; use another calculus"
        )
    return int(times)


@dataclass(frozen=True)
class Attempt:
    """Both sides at one step; None is infinity above and 0 below.

    ``lost``: outcomes of infinite loss have delta or more from above, whatever the step.
    """

    step: float
    upper: Solved | None
    lower: Solved | None
    lost: bool

    @property
    def width(self) -> float:
        if self.upper is None:
            return math.inf
        return self.upper.epsilon - (max(self.lower.epsilon, 0.0) if self.lower else 0.0)

    @property
    def effort(self) -> int:
        """Length of the longest arrays that the attempt needed."""
        sides = [solved for solved in (self.upper, self.lower) if solved]
        sizes = [(len(s.composition.stack.masses), s.composition.window.period) for s in sides]
        return max((max(pair) for pair in sizes), default=0)


def epsilon_composed(
    pair: Pair, delta: Fraction, width: float, near: Interval | None = None
) -> Interval:
    """Epsilon of a composition by Fourier sums, refined until it is ``width`` wide.

    That is times epsilon, where that is below 1.
    ``near``: a wider interval of the same, whose step and width say which step to begin with.
    """
    parts = parts_of(pair)
    step = first_step(parts, width)
    if near is not None:
        predicted = _predicted(near, width)
        if math.isfinite(predicted):
            step = aligned(parts, min(max(predicted, step / 4), 2 * step))
    return _attempted(pair, delta, width, step, MAX_GRIDS)


def epsilon_outline(pair: Pair, delta: Fraction, width: float) -> Interval:
    """As :func:`epsilon_composed`, of one attempt: as narrow as it happens to be."""
    return _attempted(pair, delta, width, first_step(parts_of(pair), width), 1)


def _predicted(near: Interval, width: float) -> float:
    """The step at which the width would be the one asked for, as it grows with its square."""
    if "step" not in near.upper_witness or is_infinite(near.upper):
        return math.inf
    width *= min(float(near.upper), 1.0)
    gap = float(near.upper - near.lower)
    return float(Fraction(near.upper_witness["step"])) * math.sqrt(0.8 * width / max(gap, 1e-300))


def _attempted(pair: Pair, delta: Fraction, width: float, first: float, most: int) -> Interval:
    """Epsilon by grids that are refined until both bounds are close, at most ``most`` times."""
    parts, at = parts_of(pair), float(delta)
    total = sum(times for _, times in parts)
    cap = largest_loss(pair)
    if total > MOST_PARTS:
        return _capped(Interval(Fraction(0), rounded_up(math.inf)), cap)
    if at < SMALLEST_DELTA:
        # Epsilon grows as delta falls: a lower end at a larger delta holds.
        larger = _attempted(pair, Fraction(2 * SMALLEST_DELTA), width, first, most)
        interval = Interval(
            larger.lower, rounded_up(math.inf), larger.lower_witness, {}, larger.method
        )
        return _capped(interval, cap)
    tolerance = width * ROUNDING_PARTS
    attempts: list[Attempt] = []
    step: float | None = first
    while step is not None and len(attempts) < most:
        try:
            attempts.append(_attempt(parts, at, step, tolerance))
        except TooFine:
            break
        except TooMuch:
            if not attempts:
                raise
            break  # the attempts before are bounds, of a larger step
        step = _next_step(attempts, width, parts)
    return _capped(_epsilon_interval(attempts), cap)


def _attempt(parts: Parts, delta: float, step: float, tolerance: float) -> Attempt:
    while True:
        try:
            upper, lost = _side(parts, delta, step, Side.UPPER, tolerance)
            lower, _ = _side(parts, delta, step, Side.LOWER, tolerance)
            return Attempt(step, upper, lower, lost)
        except TooFine:
            step = aligned(parts, 4 * step)
            if step > 2.0**20:
                raise


def _side(
    parts: Parts, delta: float, step: float, side: Side, tolerance: float
) -> tuple[Solved | None, bool]:
    # The float may lie on either side of the exact delta.
    delta *= 1 - 1e-15 if side is Side.UPPER else 1 + 1e-15
    stack = stack_of(parts, Fraction(step), delta, side)
    if stack is None:
        return None, False
    return epsilon_of(stack, delta, tolerance), stack.infinite >= delta


def _next_step(attempts: list[Attempt], width: float, parts: Parts) -> float | None:
    """A smaller step where the interval is too wide and a smaller one can be afforded."""
    last = attempts[-1]
    if last.upper is None:
        # A step above the epsilon that is looked for says nothing.
        return None if last.lost else aligned(parts, last.step * SMALLEST_FACTOR[0])
    width *= min(max(last.upper.epsilon, 0.0), 1.0)
    if last.width <= width:
        return None
    order = 2.0
    if len(attempts) > 1:
        shrunk = attempts[-2].width / last.width
        if not shrunk > LEAST_NARROWING:
            return None
        finer = attempts[-2].step / last.step
        order = min(max(math.log(shrunk) / math.log(max(finer, 1.01)), 0.5), 2.0)
    factor = max((0.8 * width / last.width) ** (1 / order), SMALLEST_FACTOR[last.lower is None])
    if last.effort / factor > MAX_TRANSFORM:
        factor = last.effort / MAX_TRANSFORM
    return aligned(parts, last.step * factor) if factor < 0.95 else None


def _epsilon_interval(attempts: list[Attempt]) -> Interval:
    uppers = [a.upper for a in attempts if a.upper]
    lowers = [a.lower for a in attempts if a.lower]
    upper = min(uppers, key=lambda solved: solved.epsilon, default=None)
    lower = max(lowers, key=lambda solved: solved.epsilon, default=None)
    return Interval(
        rounded_down(lower.epsilon) if lower else Fraction(0),
        rounded_up(max(upper.epsilon, 0.0) if upper else math.inf),
        witness(lower) if lower and lower.epsilon > 0 else {},
        witness(upper) if upper else {},
        "tilted Fourier sum",
    )


def _capped(interval: Interval, cap: Number) -> Interval:
    """The interval with its upper end lowered to the largest loss, where that is smaller."""
    if is_infinite(cap):
        return interval
    upper = rounded_up(cap)
    if not is_infinite(interval.upper) and interval.upper <= upper:
        return interval
    shown = {"form": "largest loss"}
    return Interval(interval.lower, upper, interval.lower_witness, shown, "largest loss")


# --- delta ---------------------------------------------------------------------------------------


def delta_composed(pair: Pair, epsilon: Fraction, width: float) -> Interval:
    """Delta of a composition at epsilon >= 0, refined until its relative width is ``width``."""
    parts = parts_of(pair)
    if _beyond(pair, epsilon) or sum(times for _, times in parts) > MOST_PARTS:
        return _extreme_delta(pair, epsilon)
    try:
        interval = delta_on(profile_of(parts, float(epsilon), width), epsilon)
    except TooFine:
        return _extreme_delta(pair, epsilon)
    gap = relative_width(interval)
    if gap > width:
        finer = width * min(width / gap, 1.0)
        interval = delta_on(profile_of(parts, float(epsilon), max(finer, width / 256)), epsilon)
    if interval.upper > UNINFORMATIVE_RATIO * interval.lower and epsilon > 0:
        interval = _not_rising(parts, interval, epsilon, width)
    return interval


def _not_rising(parts: Parts, interval: Interval, epsilon: Fraction, width: float) -> Interval:
    """With the upper end at the power of 2 next below: delta does not rise with epsilon.

    The mass that a grid cuts off depends on the grid, and may be most of an upper bound.
    """
    nearest = Fraction(2) ** (math.frexp(float(epsilon))[1] - 1)
    nearest = nearest / 2 if nearest >= epsilon else nearest
    try:
        other = delta_on(profile_of(parts, float(nearest), width), nearest)
    except TooFine:
        return interval
    if other.upper >= interval.upper:
        return interval
    return replace(interval, upper=other.upper, upper_witness=other.upper_witness)


def relative_width(interval: Interval) -> float:
    """(upper - lower) / upper."""
    return float((interval.upper - interval.lower) / interval.upper) if interval.upper else 0.0


def delta_on(profile: Profile, epsilon: Fraction) -> Interval:
    """Both bounds of one profile at epsilon."""
    at = float(epsilon)
    below, above = math.nextafter(at, -math.inf), math.nextafter(at, math.inf)
    at_low = at if Fraction(at) <= epsilon else below
    at_high = at if Fraction(at) >= epsilon else above
    upper, shows_upper = profile.upper_at(at_low)
    lower, shows_lower = profile.lower_at(at_high)
    return Interval(
        rounded_down(lower),
        min(rounded_up(upper), Fraction(1)),
        witness(shows_lower) if shows_lower else {},
        witness(shows_upper) if shows_upper else {"form": "chernoff"},
        "tilted Fourier sum",
    )


def _beyond(pair: Pair, epsilon: Fraction) -> bool:
    """Whether epsilon is at least the largest loss, for certain."""
    cap = largest_loss(pair)
    return not is_infinite(cap) and bool(rounded_up(cap) <= epsilon)


def _extreme_delta(pair: Pair, epsilon: Fraction) -> Interval:
    if _beyond(pair, epsilon):
        return Interval(Fraction(0), Fraction(0), {}, {"form": "largest loss"}, "largest loss")
    return Interval(Fraction(0), Fraction(1), method="trivial")

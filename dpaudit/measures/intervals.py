"""Two-sided numbers of a profile step: the largest over its pairs, slack included.

A noise event of probability s costs: delta of the mechanism is within (1 + e^epsilon) s of that of
the mechanism without it, since each of its two runs moves by at most s in total variation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit import profiles
from dpaudit.errors import Unsupported
from dpaudit.exact import (
    Number,
    decimal_upper,
    enclose,
    infinity,
    is_infinite,
    unknowns,
    working_precision,
)
from dpaudit.exact.arb import require_order
from dpaudit.measures.calculus import Step
from dpaudit.pairs import Losses, Pair, numbers_in
from dpaudit.profiles import Interval, narrowest

# Steps towards an epsilon at which delta also pays for the failure probability.
MAX_CORRECTIONS = 60
COARSE_RATIO = 100  # All pairs are first evaluated at this many times the wanted width.
# Width of epsilon at which pairs are first told apart, at the least.
SEPARATING_WIDTH = Fraction(1, 50)
# Added to a trial epsilon, and doubled at each correction, so that the search moves on.
FIRST_EXCESS = Fraction(1, 10**12)
# Nats: a failure probability that costs less than 1 at this epsilon is below exp(-700).
MAX_SLACK_EPSILON = Fraction(64)
SLACK_RESOLUTION = Fraction(1, 64)  # Nats to which the largest such epsilon is found.


@dataclass(frozen=True)
class TwoSided:
    """A certified interval, and the rows from which a checker confirms either end."""

    upper: Number
    lower: Fraction | None
    upper_rows: tuple[dict[str, str], ...]
    lower_rows: tuple[dict[str, str], ...]
    method: str

    def __post_init__(self) -> None:
        if self.lower is not None:
            require_order(self.lower, self.upper, "the ends of a profile")


def losses_of(step: Step) -> Losses:
    """The pairs of a profile step.

    Errors: Unsupported for another calculus, or while a symbol has no value.
    """
    losses = step.value
    if not isinstance(losses, Losses):
        raise Unsupported(f"{step.calculus}: expected a step of the profile calculus")
    numbers = (n for pair in (*losses.pairs, *losses.reached) for n in numbers_in(pair))
    free = set[Any]().union(*map(unknowns, (*numbers, losses.slack)))
    if free:
        names = ", ".join(sorted(map(str, free)))
        raise Unsupported(f"{step.node.head}: a number was asked for while {names} have no value")
    return losses


def epsilon_two_sided(step: Step, delta: Fraction, width: float = profiles.WIDTH) -> TwoSided:
    """The smallest certified epsilon at ``delta``, and one that is certainly reached."""
    losses = losses_of(step)
    with _in_floats(step):
        if losses.slack != 0:
            return _with_slack(losses, delta, width)
        return _collected(losses, _epsilon(delta), width)


def delta_two_sided(step: Step, epsilon: Fraction) -> TwoSided:
    """The largest delta at ``epsilon``, from above and from below."""
    losses = losses_of(step)
    with _in_floats(step):
        if losses.slack == 0:
            return _collected(losses, _delta(epsilon), profiles.RELATIVE_WIDTH)
        return _delta_with_slack(losses, epsilon)


@contextmanager
def _in_floats(step: Step) -> Iterator[None]:
    """The engines compute in floats: whose loss is too large for them has other bounds.

    Errors: Unsupported.
    """
    try:
        yield
    except OverflowError:
        raise Unsupported(
            f"{step.node.head}: its privacy loss is too large for floats, in which profiles are "
            "computed; the other calculi bound it"
        ) from None


def _delta_with_slack(losses: Losses, epsilon: Fraction) -> TwoSided:
    """Delta of the pairs and the slack's cost, at the best epsilon up to the one asked for.

    Delta falls with epsilon and the cost grows: beyond the epsilon at which their sum is least, the
    bound there holds on.  The least of all that the search met counts, not where it ended: delta
    of a bounded loss falls steeply to the largest one, and the sum is least just beyond it.
    """
    by_epsilon: dict[Fraction, TwoSided] = {}

    def whole(at: Fraction) -> Fraction:
        if at not in by_epsilon:
            by_epsilon[at] = _collected(losses, _delta(at), profiles.RELATIVE_WIDTH)
        upper = by_epsilon[at].upper
        return Fraction(1) if is_infinite(upper) else min(Fraction(1), upper + _cost(losses, at))

    low, high = Fraction(0), MAX_SLACK_EPSILON
    while high - low > SLACK_RESOLUTION:
        left, right = low + (high - low) * 3 / 8, low + (high - low) * 5 / 8
        low, high = (low, right) if whole(left) <= whole(right) else (left, high)
    whole(min(epsilon, high))
    whole(Fraction(0))  # where the search ends near it, it is not asked
    best = min((at for at in by_epsilon if at <= epsilon), key=whole)
    delta = by_epsilon[best]
    return TwoSided(Fraction(decimal_upper(whole(best))), None, delta.upper_rows, (), delta.method)


@dataclass(frozen=True)
class Asked:
    """A pair's interval: a rough one, and one of a width from a rough one."""

    rough: Callable[[Pair, float], Interval]
    fine: Callable[[Pair, float, Interval | None], Interval]


def _epsilon(delta: Fraction) -> Asked:
    # The outline only tells which pairs are the largest: a coarser width does.
    return Asked(
        lambda pair, width: profiles.epsilon_outline(
            pair, delta, min(COARSE_RATIO * width, max(width, float(SEPARATING_WIDTH)))
        ),
        lambda pair, width, near: _settled_epsilon(pair, delta, width, near),
    )


def _settled_epsilon(pair: Pair, delta: Fraction, width: float, near: Interval | None) -> Interval:
    """An interval; of a small epsilon that is wide another, which begins where that one ended.

    Widths are relative below 1, and the grid's first step is not.
    """
    interval = profiles.epsilon_interval(pair, delta, width, near)
    if (
        near is not None
        or is_infinite(interval.upper)
        or interval.upper >= 1
        or _is_narrow(interval, width)
    ):
        return interval
    return narrowest(interval, profiles.epsilon_interval(pair, delta, width, interval))


def _delta(epsilon: Fraction) -> Asked:
    return Asked(
        lambda pair, width: profiles.delta_interval(pair, epsilon, COARSE_RATIO * width),
        lambda pair, width, near: profiles.delta_interval(pair, epsilon, width),
    )


def _refined(losses: Losses, asked: Asked, width: float) -> dict[Pair, Interval]:
    """Every pair's interval: those that decide the largest ends at ``width``, others rough."""
    pairs = list(dict.fromkeys((*losses.pairs, *losses.reached)))
    if len(pairs) == 1:
        return {pair: asked.fine(pair, width, None) for pair in pairs}
    intervals = {pair: asked.rough(pair, width) for pair in pairs}
    fine = set[Pair]()
    while True:
        deciding = {max(losses.pairs, key=lambda pair: _size(intervals[pair]))}
        if losses.reached:
            deciding.add(max(losses.reached, key=lambda pair: intervals[pair].lower))
        if deciding <= fine:
            return intervals
        for pair in deciding - fine:
            if not _is_narrow(intervals[pair], width):
                intervals[pair] = narrowest(
                    intervals[pair], asked.fine(pair, width, intervals[pair])
                )
        fine |= deciding


def _is_narrow(interval: Interval, width: float) -> bool:
    """Whether an interval is as narrow as was asked for, absolutely and relative to its end."""
    if is_infinite(interval.upper):
        return False
    return bool(
        interval.upper - interval.lower <= Fraction(width) * min(Fraction(1), interval.upper)
    )


def _size(interval: Interval) -> tuple[bool, Number]:
    unbounded = is_infinite(interval.upper)
    return unbounded, Fraction(0) if unbounded else interval.upper


def _collected(losses: Losses, asked: Asked, width: float) -> TwoSided:
    """The largest upper end over all pairs, and the largest lower end over those reached."""
    intervals = _refined(losses, asked, width)
    uppers = [intervals[pair] for pair in losses.pairs]
    upper = (
        infinity() if any(is_infinite(i.upper) for i in uppers) else max(i.upper for i in uppers)
    )
    method = next(i.method for i in uppers if is_infinite(upper) or i.upper == upper)
    rows = tuple(_row(n, i.upper, i.upper_witness) for n, i in enumerate(uppers))
    lowers = [(intervals[pair], n) for n, pair in enumerate(losses.reached)]
    if not lowers:
        return TwoSided(upper, None, rows, (), method)
    best, place = max(lowers, key=lambda row: row[0].lower)
    lower_rows = (_row(place, best.lower, best.lower_witness),)
    return TwoSided(upper, best.lower, rows, lower_rows, method)


def _row(place: int, value: Number, witness: dict[str, str]) -> dict[str, str]:
    return {"pair": str(place), "value": decimal_upper(value), **witness}


def _cost(losses: Losses, epsilon: Fraction) -> Fraction:
    """(1 + e^epsilon) times the slack, rounded up; 1, above any delta, if it is more."""
    with working_precision():
        cost = (1 + enclose(epsilon).exp()) * enclose(losses.slack)
        return Fraction(1) if cost > 1 else Fraction(decimal_upper(cost))


def _with_slack(losses: Losses, delta: Fraction, width: float) -> TwoSided:
    """An epsilon at which delta of the pairs plus the slack's cost is at most ``delta``.

    The cost grows with epsilon: start where nothing is left for it, and pay at each answer.
    """
    epsilon, beyond = Fraction(0), FIRST_EXCESS
    for _ in range(MAX_CORRECTIONS):
        delta_left = delta - _cost(losses, epsilon)
        if delta_left < 0:
            break
        interval = _collected(losses, _epsilon(delta_left), width)
        if is_infinite(interval.upper):
            break
        if interval.upper <= epsilon:
            upper = epsilon
            rows = tuple({**row, "value": decimal_upper(upper)} for row in interval.upper_rows)
            return TwoSided(upper, None, rows, (), interval.method)
        epsilon, beyond = Fraction(decimal_upper(interval.upper + beyond)), 2 * beyond
    return TwoSided(infinity(), None, (), (), "slack above delta")

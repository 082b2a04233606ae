"""Errors that a release must keep: the weights that fit them, and the least budget that does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact.domains import rational
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.releases.items.counts import Affected, Count, Sum
from dpaudit.releases.items.item import Item, Thresholded, Vector
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.post import added
from dpaudit.releases.programs import Program

if TYPE_CHECKING:
    from dpaudit.releases.plan import Plan, Release

FACTORS = tuple(Fraction(2) ** power for power in range(-3, 4))  # of a budget, to compare errors at
LEAST = "least"  # a budget that is to be found
CLOSE = Fraction(51, 50)  # the least budget is found to a fiftieth
DIGITS = 3  # of a budget that is found: the next one above
# Budgets (epsilon, rho or mu) between which it searches: more than 20 protects nobody, and mu above
# it has losses that floats cannot hold.
SMALLEST, LARGEST = Fraction(1, 10**6), Fraction(20)
GUESSES, STEP = (
    2,
    Fraction(27, 25),
)  # by the law of the margin; then steps until one is on each side


def met_by(plan: Plan) -> dict[str, tuple[Fraction, Fraction]]:
    """The margin of each item with a target, and it; errors: as :func:`published_margin`."""
    return {
        item.name: (published_margin(plan, item), item.error_95)
        for item in plan.release.items
        if item.error_95 is not None
    }


def published_margin(plan: Plan, item: Item) -> Fraction:
    """The 95% margin of each number of an item as it is published, after all post-processing.

    Errors: InvalidParameter for an item, or a step, whose margin no plan knows.
    """
    part, moved, consistent = _own_part(item, plan.release)
    halves = plan.halves if consistent else {item.name: plan.margins.half(item.name)}
    return halves[item.name] * getattr(part, "step", Fraction(1)) + moved


def worst_of(plan: Plan) -> Fraction:
    """The largest margin over its target; at most 1 where all are met."""
    return max(margin / target for margin, target in met_by(plan).values())


def check_targets(plan: Plan) -> None:
    """Errors: InvalidParameter for targets that the budget misses, with the least that meets them.

    ``plan``: as it was found, of the budget that was asked for.
    """
    missed = {name: both for name, both in met_by(plan).items() if both[0] > both[1]}
    if not missed:
        return
    name, (margin, target) = next(iter(missed.items()))
    try:
        least = least_budget(plan.release)
        way = f"the least budget that meets all targets is {least.budget.head}"
    except (InvalidParameter, Unsupported) as error:
        way = str(error)
    raise InvalidParameter(
        f"item {name!r}: error_95 would be {float(margin):g}, above {float(target):g}; {way}"
    )


def weighted(release: Release) -> Release:
    """The release with the weights that bring all targets to one budget, where all items have one.

    Gaussian noise has a variance of squared / 2 rho, and Laplace noise a scale of absolute /
    epsilon; a weight is a share of rho, and of a pure budget one of epsilon.
    """
    noisy = [item for item in release.items if not isinstance(item, Program)]
    if any(item.error_95 is None for item in noisy):
        return release
    pure = isinstance(release.budget, PureDP)
    items = []
    for item in release.items:
        if item.error_95 is None:
            items.append(item)
            continue
        part, moved, _ = _own_part(item, release)
        moves, step = part.moves(release.adjacency), getattr(part, "step", Fraction(1))
        # Below half a step noise is 0, whatever the target.
        size = step / max(item.error_95 - moved, step / 2)
        weight = moves.absolute * size if pure else moves.squared * size**2
        items.append(replace(item, weight=weight))
    return replace(release, items=tuple(items))


def _own_part(item: Item, release: Release) -> tuple[Vector | Thresholded, Fraction, bool]:
    """The one part of an item whose published numbers are noisy numbers, and what steps do to it.

    That is how much they add to its margin, and whether that is the one of consistent counts.
    Errors: InvalidParameter for another item: what it computes of noisy numbers may err more; for a
    step whose margin no plan knows, and one that alone misses the target.
    """
    if not isinstance(item, Count | Sum | Affected | Groups):
        raise InvalidParameter(
            f"item {item.name!r}: error_95: a {item.query} has no margin that is known in advance; "
            "give targets to counts, sums and groups"
        )
    items = {item.name: item for item in release.items}
    moved, consistent = added(release.schema, items, release.post, item.name)
    if item.error_95 is not None and moved > item.error_95:
        raise InvalidParameter(
            f"item {item.name!r}: error_95 = {float(item.error_95):g}: the step 'round' alone adds "
            f"{float(moved):g} to its margin; round to less, or give a larger target"
        )
    (part,) = item.parts(release.schema)
    return cast("Vector | Thresholded", part), moved, consistent


def least_budget(release: Release) -> Release:
    """The release with the least budget, to a fiftieth, whose plan meets every target.

    The margin is nearly c / epsilon (c / sqrt(rho)); so the first guess is close, and a bisection
    ends the search.
    Errors: InvalidParameter for no target, and targets that no budget up to ``LARGEST`` meets; as
    :meth:`Release.plan`.
    """
    if all(item.error_95 is None for item in release.items):
        raise InvalidParameter(
            f'budget: "{LEAST}" asks for the least that meets targets; give items error_95'
        )
    power = 2.0 if isinstance(release.budget, ZCDP) else 1.0

    @cache
    def worst(value: Fraction) -> float:
        return float(worst_of(with_value(release, value).searched()))

    high = Fraction(1)
    for _ in range(GUESSES):
        high *= Fraction(min(max(worst(high), 1e-2), 1e2) ** power)
        high = _short(min(max(high, SMALLEST), LARGEST))
    # Noise of a large budget has a margin of 0, which meets all targets.
    while worst(high) > 1:
        if high >= LARGEST:
            raise InvalidParameter(_out_of_reach(with_value(release, LARGEST).searched()))
        high = min(_short(high * STEP), LARGEST)
    low = high / STEP
    while low > SMALLEST and worst(low) <= 1:
        low, high = low / STEP, low
    while high > CLOSE * low:
        middle = _short(Fraction(math.sqrt(low * high)))
        low, high = (low, middle) if worst(middle) <= 1 else (middle, high)
    return with_value(release, _short(high))


def _out_of_reach(plan: Plan) -> str:
    """In words, the target that asks for most of a budget that misses it."""
    weights = {item.name: item.weight for item in weighted(plan.release).items}
    margins = met_by(plan)
    ratios = {name: margin / target for name, (margin, target) in margins.items()}
    name = max(ratios, key=lambda name: (ratios[name] > 1, ratios[name] ** 2 * weights[name]))
    margin, target = margins[name]
    return (
        f"no budget up to {plan.release.budget.head} meets all targets: the error_95 of {name!r} "
        f"is {float(margin):g} there, above {float(target):g}; give a larger target, or tighter "
        f"bounds on what one {plan.release.schema.entity} adds"
    )


def errors_by_budget(
    plan: Plan, factors: Sequence[Fraction] = FACTORS
) -> dict[Fraction, dict[str, float]]:
    """About the 95% margin of each part at multiples of the budget, by epsilon, rho or mu.

    Numbers that are published after post-processing have their :func:`published_margin`, where a
    plan knows it.  Parts without a margin are left out, and budgets at which no noise is
    found.
    """
    by_budget, items = {}, {item.name: item for item in plan.release.items}

    def margin(other: Plan, label: str, part: Vector | Thresholded) -> float:
        half = other.margins.half(label) * getattr(part, "step", Fraction(1))
        try:
            _, moved, consistent = _own_part(items[label], plan.release)
        except (KeyError, InvalidParameter):  # a part of an item, or a margin that no plan knows
            return float(half)
        if consistent:  # least squares change every margin in about the same proportion
            half *= Fraction(plan.halves[label], plan.margins.half(label) or 1)
        return float(half + moved)

    budget = plan.release.budget
    value = Fraction(next(iter(budget.parameters.values())))
    for factor in factors:
        try:
            other = with_value(plan.release, value * factor).searched(estimated=True)
        except (InvalidParameter, Unsupported):
            continue
        by_budget[value * factor] = {
            label: margin(other, label, part)
            for label, part in other.parts.items()
            if isinstance(part, Vector | Thresholded)
        }
    return by_budget


def with_value(release: Release, value: Fraction) -> Release:
    """The release with another epsilon, rho or mu."""
    budget: Any = release.budget
    kinds: Mapping[type, Callable[[], Any]] = {
        PureDP: lambda: PureDP(value),
        ApproxDP: lambda: ApproxDP(value, budget.delta),
        ZCDP: lambda: ZCDP(value),
        GDP: lambda: GDP(value),
    }
    return replace(release, budget=kinds[type(budget)]())


def _short(value: Fraction) -> Fraction:
    """The next number of three significant digits at or above."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - DIGITS + 1)
    return math.ceil(value / unit) * unit


def asks_least(table: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """A plan's budget with 1 in the place of "least", and whether that was there."""
    least_keys = [key for key, value in table.items() if value == LEAST and key != "delta"]
    return {**table, **dict.fromkeys(least_keys, rational(1, "budget"))}, bool(least_keys)

"""Privacy profiles of pairs: epsilon, delta, trade-off and advantage, two-sided and certified.

``delta(epsilon) = sup over events S of P(S) - exp(epsilon) Q(S)`` of a pair (P, Q) of
:mod:`dpaudit.pairs`.  Every interval holds the true value; a narrower one takes longer.
Errors: InvalidParameter for a number outside its domain or a symbol without a value; Unsupported
for a pair without a known profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import exact, is_infinite, unknowns
from dpaudit.exact.domains import non_negative, probability
from dpaudit.pairs import (
    Factor,
    Pair,
    largest_loss,
    numbers_in,
    product,
)
from dpaudit.pairs.core import Replacement, Sample
from dpaudit.pairs.crowd import MAX_OTHERS
from dpaudit.profiles.closed.crowd import crowd_of, delta_crowd, epsilon_crowd
from dpaudit.profiles.closed.inner import delta_inner, epsilon_inner
from dpaudit.profiles.closed.polls import delta_polled, epsilon_polled
from dpaudit.profiles.closed.single import delta_single, epsilon_single
from dpaudit.profiles.closed.tradeoff import tradeoff_from
from dpaudit.profiles.fourier.engine import delta_composed, delta_on, epsilon_composed, parts_of
from dpaudit.profiles.fourier.engine import epsilon_outline as _outline
from dpaudit.profiles.fourier.game import (
    MOST_ROUNDS,
    delta_game,
    epsilon_game,
    is_nearly_played,
    is_played,
)
from dpaudit.profiles.fourier.profile import Profile, profile_of
from dpaudit.profiles.fourier.smooth_interval import WIDTH_TOLERANCE, delta_smooth, epsilon_smooth
from dpaudit.profiles.interval import (
    RELATIVE_WIDTH,
    WIDTH,
    Interval,
    narrowest,
    rounded_down,
    rounded_up,
)

FAR_EPSILON = 60  # Nats: delta here bounds the trade-off at a false-positive rate of 0.
WIDTH_DIVISOR = 4  # Parts of the width, one of which each route may use.
# An interval up to this many times too wide is computed again for half the width.
RETRIED_RATIO = 8
FINE_WIDTH = 2e-6  # Largest relative width asked of a grid for few rounds with little noise.
LOW_SAMPLING_RATE = Fraction(1, 500)  # Sampling rates below this count as low.
# Transforms that fall by themselves are as fast for ends that are so many times nearer.
FOR_LITTLE = 100
WIDTH_RATIO = 10  # If a width is not reached, one this many times as large is tried next.
# Relative: ends as near as this are nearer than any grid of a few thousand nodes.
OUT_OF_GRIDS = Fraction(1, 10**7)

# Fewer rounds of sampled noise go to the grid if their transforms need smoothing: it is as tight,
# and verified in a tenth of the time.
FEWEST_SAMPLED = 300
# For more kinds of rounds, a grid takes longer, and memory that grows with their number.
MOST_KINDS = 24
# Relative width of epsilon from windows of counts at which no grid is needed.
NEAR_EPSILON = Fraction(1, 100)
# Relative width of delta from windows of counts at which no grid is needed.
NEAR_DELTA = Fraction(1, 20)
RATE_ERROR = 1e-7  # Error of a false-negative rate between nodes, for closed forms.
RATE_ERROR_ON_GRIDS = 1e-5  # The same for grids, whose bounds of delta are no closer.
# The most factors of a product that are also bounded one by one.
FEW_FACTORS = 8


def epsilon_interval(
    pair: Pair, delta: Any, width: float = WIDTH, near: Interval | None = None
) -> Interval:
    """Smallest epsilon >= 0 at which the pair's delta is at most the given one.

    ``width``: how far apart the ends may be; where that costs too much they stay wider, and sound.
    ``near``: an interval of the same by :func:`epsilon_outline`, which saves a search.
    delta = 0 is answered by the largest loss, which may be infinite.
    """
    interval = _epsilon(pair, delta, width, partial(epsilon_composed, near=near), near)
    if _is_narrow(interval, width) or pair.is_over_compositions:
        return interval
    if width < WIDTH:
        # If the narrow width was not reached, the answer found at the wider one may be better.
        interval = narrowest(
            interval, epsilon_interval(pair, delta, min(WIDTH_RATIO * width, WIDTH), near)
        )
        if _is_narrow(interval, width):
            return interval

    def ends(part: Pair) -> Interval:
        return epsilon_interval(part, delta, width)

    return _above_parts(pair, _above_fewer(pair, interval, ends), ends)


def epsilon_outline(pair: Pair, delta: Any, width: float) -> Interval:
    """As :func:`epsilon_interval`, and fast: the ends may be further apart than ``width``."""
    return _epsilon(pair, delta, width, _outline)


def _epsilon(
    pair: Pair,
    delta: Any,
    width: float,
    composed: Callable[[Pair, Fraction, float], Interval],
    near: Interval | None = None,
) -> Interval:
    wanted = _number(delta, "delta")
    probability(wanted, "delta")
    _settled(pair, width)
    if wanted == 0 or pair.has_delta:
        return _pure(pair) if wanted == 0 else epsilon_single(pair, wanted)
    if pair.is_over_compositions:
        return epsilon_inner(pair, wanted)
    crowd = epsilon_polled(pair, wanted) or epsilon_crowd(pair, wanted)
    if crowd is not None:
        return _nearest(pair, crowd, NEAR_EPSILON, lambda: composed(pair, wanted, width))
    record = _record(pair)
    if record is not None:
        by_composition = composed(pair, wanted, width)
        narrow = _is_narrow(by_composition, width) or is_infinite(by_composition.upper)
        return by_composition if narrow else epsilon_game(*record, wanted, by_composition, width)
    return _transformed(pair, wanted, width, composed, near)


def _transformed(
    pair: Pair,
    wanted: Fraction,
    width: float,
    composed: Callable[[Pair, Fraction, float], Interval],
    near: Interval | None,
) -> Interval:
    """By transforms: closed ones, or those of grids."""
    few, far = _few_sampled(pair), _moves_far(pair)
    if few or far:
        plain = epsilon_smooth(parts_of(pair), wanted, min(width, WIDTH) / FOR_LITTLE, plain=True)
        if plain is not None and _is_narrow(plain, width):
            return plain
    if few and (_is_seldom(pair) or (far and near is not None)):
        # Where an outline's grid was not enough, or no step is as small as most losses.
        largest_epsilon = math.inf if near is None else float(near.upper)
        smooth = epsilon_smooth(parts_of(pair), wanted, width / WIDTH_DIVISOR, largest_epsilon)
        if smooth is not None and _is_narrow(smooth, width / WIDTH_TOLERANCE):
            return smooth
    # A grid that is finer than asked costs little there.
    interval = (
        composed(
            pair, wanted, min(width / WIDTH_DIVISOR, FINE_WIDTH) if far else width / WIDTH_DIVISOR
        )
        if few
        else epsilon_smooth(parts_of(pair), wanted, width)
    )
    if (
        interval is not None
        and not few
        and not _is_narrow(interval, width)
        and _is_narrow(interval, RETRIED_RATIO * width)
    ):
        # A little less is asked for: what it missed by is a choice of plans.
        again = epsilon_smooth(parts_of(pair), wanted, width / 2)
        interval = interval if again is None else narrowest(interval, again)
    if interval is not None and (
        _is_narrow(interval, width) or (not few and _is_out_of_grids(interval))
    ):
        return interval
    # Few rounds at tiny rates: a quarter, as of the grid.
    finer = width / WIDTH_DIVISOR
    other = epsilon_smooth(parts_of(pair), wanted, finer) if few else _outline(pair, wanted, width)
    if interval is None:
        return composed(pair, wanted, width)
    return interval if other is None else narrowest(interval, other)


def _nearest(
    pair: Pair, crowd: Interval, part: Fraction, by_grid: Callable[[], Interval]
) -> Interval:
    """By windows of counts, and a grid, which takes seconds, where those are not about as near.

    More reports than windows are known of from below are too many for a grid too, or know no more.
    """
    near, report = crowd.upper - crowd.lower <= part * crowd.upper, crowd_of(pair)
    if near or (report is not None and (report.others > MAX_OTHERS or report.is_polled)):
        return crowd
    return narrowest(by_grid(), crowd)


def _is_out_of_grids(interval: Interval) -> bool:
    return bool(interval.upper - interval.lower <= interval.upper * OUT_OF_GRIDS)


def _is_seldom(pair: Pair) -> bool:
    """Whether all rates are tiny."""
    return all(sample.rate < LOW_SAMPLING_RATE for sample in _samples(pair))


def _samples(pair: Pair) -> list[Sample]:
    """Sampled factors, in either direction."""
    samples = (factor.unswapped.sample for factor, _ in parts_of(pair))
    return [sample for sample in samples if sample is not None]


def _moves_far(pair: Pair) -> bool:
    """Whether all sampled noise is at most what a record moves: a grid's losses reach far."""
    moves = [sample.base.gaussian_shift for sample in _samples(pair)]
    return bool(moves) and all(mu is not None and mu >= 1 for mu in moves)


def _is_narrow(interval: Interval, width: float) -> bool:
    """Whether ends are about as near as asked, times epsilon where that is below 1."""
    if is_infinite(interval.upper):
        return False
    return float(interval.upper - interval.lower) <= WIDTH_TOLERANCE * width * min(
        float(interval.upper), 1.0
    )


def _above_parts(pair: Pair, interval: Interval, ends: Callable[[Pair], Interval]) -> Interval:
    """With a lower end of some factors alone, where that is larger.

    An observer may ignore factors (post-processing), so no delta of the product is below that of
    some of its factors.  The factors with a bound of their own are asked, and all of them if
    nothing is known of the product.
    """
    factors = pair.factors
    if not 1 < len(factors) <= FEW_FACTORS:
        return interval
    places_asked = [k for k in range(len(factors)) if interval.lower == 0 or _is_alone(factors[k])]
    by_factors: dict[tuple[int, ...], Interval] = {
        (k,): ends(_some(pair, (k,))) for k in places_asked
    }
    reaching = tuple(k for k in places_asked if by_factors[k,].lower > 0)
    if interval.lower == 0 and 1 < len(reaching) < len(factors):
        by_factors[reaching] = ends(_some(pair, reaching))
    best = max(by_factors, key=lambda places: by_factors[places].lower, default=None)
    if best is None or by_factors[best].lower <= interval.lower:
        return interval
    shown = {**by_factors[best].lower_witness, "factors": " ".join(map(str, best))}
    return replace(interval, lower=by_factors[best].lower, lower_witness=shown)


def _above_fewer(pair: Pair, interval: Interval, ends: Callable[[Pair], Interval]) -> Interval:
    """With the lower end of as many rounds as are played, where there are a few more.

    An observer may ignore the last rounds (post-processing).
    """
    (factor, times), *others = parts_of(pair)
    record = factor.replacement
    if others or record is None or not is_nearly_played(record, times):
        return interval
    fewer = ends(product([(factor, Fraction(MOST_ROUNDS))]))
    if fewer.lower <= interval.lower:
        return interval
    shown = {**fewer.lower_witness, "rounds": str(MOST_ROUNDS)}
    return replace(interval, lower=fewer.lower, lower_witness=shown)


def _some(pair: Pair, places: Sequence[int]) -> Pair:
    """Some factors of a product."""
    return product(pair.factors[k] for k in places)


def _is_alone(factor: Factor) -> bool:
    """Whether a factor has a bound of its own, that products with it have not."""
    pair, times = factor
    record = pair.replacement
    if record is None:
        return False
    return is_played(record, int(times)) or is_nearly_played(record, int(times))


def delta_interval(pair: Pair, epsilon: Any, width: float = RELATIVE_WIDTH) -> Interval:
    """The pair's delta at epsilon >= 0; ``width`` is relative to delta."""
    interval = _delta(pair, epsilon, width)
    if interval.upper - interval.lower <= interval.upper * Fraction(width):
        return interval

    def ends(part: Pair) -> Interval:
        return delta_interval(part, epsilon, width)

    return _above_parts(pair, _above_fewer(pair, interval, ends), ends)


def _delta(pair: Pair, epsilon: Any, width: float) -> Interval:
    """Delta by the first engine that applies: closed form, polls, game, transforms, composition."""
    at = _number(epsilon, "epsilon")
    non_negative(at, "epsilon")
    _settled(pair, width)
    if pair.has_delta:
        return delta_single(pair, at)
    if pair.is_over_compositions:
        return delta_inner(pair, at)
    if len(pair.alternatives) > 1:
        members = [delta_interval(member, at, width) for member in pair.alternatives]
        lower, upper = (
            max(end) for end in zip(*((i.lower, i.upper) for i in members), strict=True)
        )
        return Interval(lower, upper, method="the largest of several pairs")
    crowd = delta_polled(pair, at) or delta_crowd(pair, at)
    if crowd is not None:
        return _nearest(pair, crowd, NEAR_DELTA, lambda: delta_composed(pair, at, width))
    record = _record(pair)
    if record is not None:
        by_composition = delta_composed(pair, at, width)
        narrow = by_composition.upper - by_composition.lower <= by_composition.upper * Fraction(
            width
        )
        return by_composition if narrow else delta_game(*record, at, by_composition, width)
    smooth = None if _few_sampled(pair) else delta_smooth(parts_of(pair), at, width)
    return delta_composed(pair, at, width) if smooth is None else smooth


def advantage_interval(pair: Pair) -> Interval:
    """The total-variation distance of P and Q: delta at epsilon 0."""
    return delta_interval(pair, 0)


def delta_curve(
    pair: Pair, epsilons: Sequence[Any], width: float = RELATIVE_WIDTH
) -> list[Interval]:
    """Delta at many epsilons >= 0, on one grid fine enough for the largest of them."""
    points = [_number(epsilon, "epsilon") for epsilon in epsilons]
    for point in points:
        non_negative(point, "epsilon")
    _settled(pair, width)
    if pair.has_delta:
        return [delta_single(pair, point) for point in points]
    if not points:
        return []
    if crowd_of(pair) is not None or pair.is_over_compositions:
        return [delta_interval(pair, point, width) for point in points]
    profile = _profile(pair, float(max(points)), width)
    return [delta_on(profile, point) for point in points]


def tradeoff_curve(pair: Pair, alphas: Sequence[Any]) -> list[Interval]:
    """Smallest false-negative rates of tests of Q (null) against P at false-positive rates.

    One composition, fine enough for the smallest rate above 0, serves all of them.
    """
    rates = [_number(alpha, "alpha") for alpha in alphas]
    for rate in rates:
        probability(rate, "alpha")
    _settled(pair, WIDTH)
    inner = sorted({rate for rate in rates if rate != 0})
    rates_of = dict(zip(inner, _tradeoffs(pair, inner), strict=True)) if inner else {}
    if 0 in rates:
        far_delta = delta_interval(pair, FAR_EPSILON)
        rates_of[Fraction(0)] = Interval(1 - far_delta.upper, Fraction(1), method=far_delta.method)
    return [rates_of[rate] for rate in rates]


def _tradeoffs(pair: Pair, rates: Sequence[Fraction]) -> list[Interval]:
    """At rates above 0, in order."""
    if pair.has_delta:
        return tradeoff_from(lambda epsilon: _single_bounds(pair, epsilon), rates, RATE_ERROR)
    loss = largest_loss(pair)
    cap = math.inf if is_infinite(loss) else 0.9 * float(rounded_up(loss))
    profile = _profile(pair, min(-math.log(float(rates[0])) / 2, cap), RELATIVE_WIDTH)

    def bounds(epsilon: float) -> tuple[float, float]:
        error = 0.01 * min(RATE_ERROR, float(rates[0]))  # small beside what it is subtracted from
        return profile.lower_at(epsilon, error)[0], profile.upper_at(epsilon, error)[0]

    return tradeoff_from(bounds, rates, RATE_ERROR_ON_GRIDS)


def _single_bounds(pair: Pair, epsilon: float) -> tuple[float, float]:
    delta = delta_single(pair, Fraction(epsilon))
    return float(delta.lower) * (1 - 1e-15), float(delta.upper) * (1 + 1e-15)


def _profile(pair: Pair, epsilon: float, width: float) -> Profile:
    return profile_of(parts_of(pair), epsilon, width)


def _pure(pair: Pair) -> Interval:
    loss = largest_loss(pair)
    if is_infinite(loss):
        return Interval(Fraction(0), loss, method="largest loss")
    shown = {"form": "largest loss"}
    return Interval(rounded_down(loss), rounded_up(loss), shown, shown, "largest loss")


def _number(value: Any, place: str) -> Fraction:
    """An exact fraction; symbols must have been bound."""
    number = exact(value, place)
    if isinstance(number, Fraction):
        return number
    free = ", ".join(sorted(map(str, unknowns(number))))
    raise InvalidParameter(
        f"{place} = {str(number)[:200]}: "
        + (f"bind {free} first" if free else "expected a fraction")
    )


def _settled(pair: Pair, width: float) -> None:
    """Refuse symbols without values, and widths that are not positive numbers."""
    free = set[Any]().union(*map(unknowns, numbers_in(pair)))
    if free:
        names = ", ".join(sorted(map(str, free)))
        raise InvalidParameter(f"{type(pair).__name__}: bind {names} first; a number was asked for")
    if not 0 < width < math.inf:
        raise InvalidParameter(f"width = {width!r}: expected a positive number")


def _record(pair: Pair) -> tuple[Replacement, int] | None:
    """A replaced record's rounds, where they are played as a game."""
    (factor, times), *others = parts_of(pair)
    record = factor.replacement
    if others or record is None or not is_played(record, times):
        return None
    return record, times


def _few_sampled(pair: Pair) -> bool:
    """Whether few rounds of sampled noise, of few kinds."""
    parts = parts_of(pair)
    kinds = sum(f.is_swapped or f.sample is not None for f, _ in parts)
    return 0 < kinds <= MOST_KINDS and sum(times for _, times in parts) < FEWEST_SAMPLED

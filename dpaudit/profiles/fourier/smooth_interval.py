"""Epsilon and delta of products with closed transforms (:mod:`dpaudit.profiles.fourier.smooth`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from scipy import optimize

from dpaudit.exact import enclose, working_precision
from dpaudit.grids.hull import UNIT
from dpaudit.profiles.fourier.plan import Plan, Table
from dpaudit.profiles.fourier.rare import rare, without_one
from dpaudit.profiles.fourier.sampled import OutOfReach
from dpaudit.profiles.fourier.search import Parts
from dpaudit.profiles.fourier.smooth import Product, Series, series, smooth_product
from dpaudit.profiles.fourier.steps import first_step
from dpaudit.profiles.interval import Interval, narrowest, rounded_down, rounded_up

# Tolerance of a root in epsilon, relative to the smoothing's variance or to epsilon.
ROOT_TOLERANCE = 1e-8
COARSEST_WIDTH = 1e-4  # A larger requested width is treated as this when masses are cut.
# Margin for a checker, relative to delta: with few frequencies, many, or a smoothing.
CHECKER_ROOM = (1e-9, 1e-7, 1e-6)
FEW_FREQUENCIES = 200  # Frequencies up to which the first holds.
CHECKER_ERRORS = 3  # Factor on the errors found here, for a checker's own.
REFINEMENTS = 7  # Most attempts.
LEAST_FACTOR = 1 / 64  # Smallest factor by which one attempt reduces the width asked for.
# Share exp(-this) of the width, relative to delta, that the truncation may leave out.
LEFT_OUT_NATS = 3.0
RARE_RATIO = 1.5  # Losses above this many times epsilon are summed apart in a second attempt.
VERY_RARE_RATIO = 4.0  # Losses above this many times epsilon are summed apart at once.
HOPELESS_RATIO = 1000  # Widths so many times the requested one end the search.
WIDTH_GROWTH = 4  # Factor on the width after an attempt that failed.
STEP_GROWTH = 1.5  # Factor by which the step of a bracketing search grows.
LEAST_NARROWING = 1.2  # If an attempt narrows the gap by a smaller factor, it is the last.
WIDTH_TOLERANCE = 1.1  # An interval up to this many times the requested width is accepted.


def epsilon_smooth(
    parts: Parts,
    delta: Fraction,
    width: float = 1e-4,
    near: float = math.inf,
    *,
    plain: bool = False,
) -> Interval | None:
    """Epsilon of a smooth product at delta; None where this route does not apply.

    ``width``: how far apart the ends may be, times the larger one where that is below 1.
    ``near``: an upper bound that is known, which saves a series that says where to look.
    ``plain``: None too where a smoothing would have to be added, or rare losses summed apart.
    """
    log_delta = _log(delta)
    tabulated = _table(parts, _rare(log_delta, width), 0)
    if tabulated is None or Fraction(tabulated[0].infinite) >= delta:
        return None
    goal = _log(delta - Fraction(tabulated[0].infinite))
    table, split = tabulated[1], None if plain else _split(parts, tabulated, goal, width)

    def made(asked: float, near: float, sigma: float) -> Series | None:
        plan = table.for_delta(goal, asked, near, sigma)
        rare = _rare(log_delta, width)
        return None if plan is None else _series_at(parts, rare, plan, plain=plain)

    if plain:
        return _refined(near, made, log_delta, width, settle=False)
    best: Interval | None = None
    if split is None or split.ratio < VERY_RARE_RATIO:
        best = _refined(near, made, log_delta, width, settle=split is None)
    if split is not None and (best is None or not _is_narrow(best, width)):
        nearer = near if best is None else float(best.upper)
        first = min(split.first_guess, nearer * (1 + 1e-6) + 1e-300)
        other = _refined(first, split.series, log_delta, width)
        best = other if best is None or other is None else narrowest(best, other)
        best = best or _refined(near, made, log_delta, width)
    return best


def _is_narrow(interval: Interval, width: float) -> bool:
    """Whether the ends are near enough; no end of 0 is ever that near."""
    upper = float(interval.upper)
    return upper == 0 or float(interval.upper - interval.lower) <= WIDTH_TOLERANCE * width * min(
        upper, 1.0
    )


def _refined(
    near: float,
    made: Callable[[float, float, float], Series | None],
    log_delta: float,
    width: float,
    *,
    settle: bool = True,
) -> Interval | None:
    """The narrowest of a few series, each planned by the one before.

    A plan that is too much work is made again for a coarser answer, which says where to look; not
    so where one does not ``settle`` for it.
    """
    best, sigma, width_asked, last, settled = None, math.inf, width, math.inf, False
    for _ in range(REFINEMENTS):
        made_series = made(width_asked, near, sigma)
        solved = None if made_series is None else _solved(made_series, log_delta)
        if made_series is None or solved is None:
            settled = best is not None
            if not settle:
                break
            width_asked, sigma = WIDTH_GROWTH * width_asked, math.inf
            if width_asked > HOPELESS_RATIO * width:
                break
            continue
        best = solved if best is None else narrowest(best, solved)
        gap, upper = float(solved.upper - solved.lower), float(best.upper)
        if settled or _is_narrow(best, width) or gap > last / LEAST_NARROWING:
            break
        width_asked, last = width, gap
        # The gap grows with sigma squared.
        if made_series.sigma or (made_series.rare and made_series.rare.series.sigma):
            sigma = made_series.plan.sigma * math.sqrt(
                max(0.7 * min(upper, 1.0) * width / gap, LEAST_FACTOR)
            )
        near = min(near, upper * (1 + 1e-6) + 1e-300)
    return best


@dataclass(frozen=True)
class Split:
    """A product whose rare large losses are summed apart (:mod:`dpaudit.profiles.fourier.rare`)."""

    parts: Parts
    log_mass: float
    goal: float
    first_guess: float
    ratio: float

    def series(self, asked: float, near: float, sigma: float) -> Series | None:
        """The series of what remains, and of one round less."""
        tabulated = _table(self.parts, self.log_mass, 0)
        less = _table(self.parts, self.log_mass, 1)
        if tabulated is None or less is None:
            return None
        plans = (
            tabulated[1].for_part(self.goal, asked, near, sigma),
            less[1].for_all(asked, near, sigma),
        )
        if None in plans:
            return None
        first = _series_at(self.parts, self.log_mass, plans[0])
        other = _series_at(self.parts, self.log_mass, plans[1], 1)
        if first is None or other is None:
            return None
        try:
            return replace(first, rare=rare(tabulated[0], other))
        except OutOfReach:
            return None


def _split(parts: Parts, whole: tuple[Product, Table], goal: float, width: float) -> Split | None:
    """Where a loss that is as rare as delta allows is far beyond the epsilon that is looked for."""
    product, table = whole
    if len(product.sampled) != 1 or len(product.times) or product.sampled[0].added:
        return None
    alone = replace(product.sampled[0], cap=math.inf)
    far, least = (alone.kept(mass).largest for mass in (_rare(goal, width), goal - math.log(4)))
    # Beyond the epsilon of all losses, too.
    if alone.times < 2 or not far > max(RARE_RATIO * least, table.largest(goal)):
        return None
    log_mass = float(math.floor((_rare(goal, width) + math.log(2)) / 2))
    tabulated = _table(parts, log_mass, 0)
    if tabulated is None or not math.isfinite(tabulated[0].sampled[0].cap):
        return None
    near = tabulated[1].largest(goal - math.log(2)) + least
    return Split(parts, log_mass, goal, near, far / near) if far > RARE_RATIO * near else None


def _rare(log_delta: float, width: float) -> float:
    """Log of what may be left out, as a part of delta far below a relative width."""
    log_mass = log_delta + math.log(min(width, COARSEST_WIDTH)) - LEFT_OUT_NATS
    return float(math.floor(log_mass)) if math.isfinite(log_mass) else -math.inf


@lru_cache(maxsize=64)
def _table(parts: Parts, log_mass: float, less: int) -> tuple[Product, Table] | None:
    """The product without rare outcomes, and its cumulants; None without closed transforms.

    ``less``: one round less of the one sampled factor.
    """
    product = smooth_product(parts)
    if product is None:
        return None
    shortened = product.kept(log_mass)
    if less:
        shortened = without_one(shortened)
    return shortened, Table.of(shortened)


@lru_cache(maxsize=64)
def _series_at(
    parts: Parts, log_mass: float, plan: Plan, less: int = 0, *, plain: bool = False
) -> Series | None:
    tabulated = _table(parts, log_mass, less)
    return None if tabulated is None else series(tabulated[0], plan, plain=plain)


def _log(delta: Fraction) -> float:
    """log of a number that may be too small for a float, within a few roundings."""
    with working_precision():
        return float(enclose(delta).log().mid())


def _solved(made: Series, log_delta: float) -> Interval | None:
    upper = _end(made, log_delta, 1, made.plan.near)
    lower = None if upper is None else _end(made, log_delta, -1, upper)
    if lower is None or upper is None:
        return None
    return Interval(
        rounded_down(lower),
        rounded_up(max(upper, 0.0)),
        _shown(made, lower, -1),
        _shown(made, upper, 1),
        "closed transforms",
    )


def _end(made: Series, log_delta: float, sign: int, near: float) -> float | None:
    """Where delta plus (1) or minus (-1) its error meets the given one, on the safe side of it.

    It is looked for from ``near`` on.
    """
    # Logs are off by a few roundings of their size; and room for a checker with errors of its own.
    log_delta -= sign * 16 * UNIT * (abs(log_delta) + 8)
    log_delta -= sign * CHECKER_ROOM[2 if made.sigma > 0 else len(made.transform) > FEW_FREQUENCIES]
    low, high = max(made.first, 0.0), made.first + made.period

    def excess(epsilon: float) -> float:
        return max(made.at(epsilon).log(sign, CHECKER_ERRORS) - log_delta, -800.0)

    right = min(near, high)
    # Far below the epsilon of a tilt a series says nothing.
    first = 1 / made.tilt
    step = min(max(right - low, high - right, 1e-300) / 64, first)
    if not right > low:
        right = low
    while excess(right) > 0:
        if right >= high:
            return None
        right, step = min(right + step, high), STEP_GROWTH * step
    left, step = right, min(max((right - low) / 64, 1e-300), first)
    while excess(left) <= 0:
        if left <= low:
            return low if low == 0 or sign > 0 else None
        right, left, step = left, max(left - step, low), STEP_GROWTH * step
    tolerance = ROOT_TOLERANCE * min(made.plan.sigma**2 * (1 + made.tilt), right, 1.0)
    root = float(optimize.brentq(excess, left, right, xtol=max(tolerance, 1e-300)))
    step = max(tolerance, 4e-16 * root)
    for _ in range(60):
        beyond = excess(root + sign * step)
        if sign * beyond <= 0:
            return root + sign * step
        step *= 2
    return None


def _shown(made: Series, epsilon: float, sign: int) -> dict[str, str]:
    """The witness of a bound: the numbers with which the checker repeats the sum."""
    ends = made.at(max(epsilon, made.first))
    other = made.rare and made.rare.series
    product = made.product
    caps = [factor.cap for factor in product.sampled]
    caps += [factor.cap for factor in product.discrete]
    return {
        "form": "closed transforms",
        "step": str(Fraction(first_step(made.product.parts, COARSEST_WIDTH))),
        "smoothing": repr(made.sigma),
        "side": "upper" if sign > 0 else "lower",
        "epsilon": repr(float(epsilon)),
        "delta": repr(float(ends.end(sign))),
        "error": repr(math.exp(min(ends.exponent, 700.0)) * ends.error),
        "tilt": repr(made.tilt),
        "window_first": repr(made.first),
        "period": repr(made.period),
        "frequencies": str(len(made.transform)),
        "aliasing": repr(made.outside),
        "truncation": repr(made.left_out[0]),
        "caps": " ".join(map(repr, caps)) if all(map(math.isfinite, caps)) else "",
        "apart_tilt": repr(other.tilt) if other else "0",
        "apart_smoothing": repr(other.sigma) if other else "0",
    }


def delta_smooth(parts: Parts, epsilon: Fraction, width: float = 1e-3) -> Interval | None:
    """Delta of a smooth product at epsilon; None where this route does not apply.

    ``width`` is relative to delta.
    """
    complete = _table(parts, -math.inf, 0)
    if complete is None:
        return None
    at, best, width_asked = float(epsilon), None, width
    log_delta = complete[1].log_delta(at)
    for _ in range(REFINEMENTS):
        rare = _rare(log_delta, width)
        tabulated = _table(parts, rare, 0)
        plan = None if tabulated is None else tabulated[1].for_epsilon(at, width_asked)
        made_series = None if plan is None else _series_at(parts, rare, plan)
        if (
            made_series is None
            or not made_series.first < at < made_series.first + made_series.period
        ):
            break
        solved = _delta(made_series, at)
        best = solved if best is None else narrowest(best, solved)
        gap, allowed = best.upper - best.lower, Fraction(width) * best.upper
        if gap <= allowed:
            break
        width_asked *= max(float(allowed / gap), LEAST_FACTOR) * 0.8
        log_delta = min(log_delta, _log(best.upper))
    return best


def _delta(made: Series, at: float) -> Interval:
    ends = made.at(at)
    # The float is within one rounding of the exact epsilon.
    moved = 4 * UNIT * (1 + at) * (2 + made.tilt)
    ends = replace(ends, error=ends.error + ends.value * moved, gap=ends.gap * (1 + moved))
    return Interval(
        rounded_down(ends.end(-1)),
        min(rounded_up(ends.end(1)), Fraction(1)),
        _shown(made, at, -1),
        _shown(made, at, 1),
        "closed transforms",
    )

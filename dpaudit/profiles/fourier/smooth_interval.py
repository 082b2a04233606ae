"""Epsilon and delta of products with closed transforms (:mod:`dpaudit.profiles.fourier.smooth`)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from scipy import optimize

from dpaudit.exact import enclose, working_precision
from dpaudit.profiles.fourier.plan import Plan, Table
from dpaudit.profiles.fourier.search import Parts
from dpaudit.profiles.fourier.smooth import Product, Series, series, smooth_product
from dpaudit.profiles.fourier.steps import first_step
from dpaudit.profiles.grid.hull import UNIT
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

TOLERANCE, WIDTH = 1e-8, 1e-4
# For a checker: relative to delta, of few frequencies and of many; and errors like those here.
CHECKER_ROOM, FEW, CHECKER_ERRORS = (1e-9, 1e-6), 200, 3
REFINEMENTS, FINEST = 5, 1 / 64
GROWTH = 1.5


def epsilon_smooth(parts: Parts, delta: Fraction, width: float = 1e-4) -> Interval | None:
    """Epsilon of a smooth product at delta; None where this route does not apply.

    ``width``: how far apart the ends may be, times the larger one where that is below 1.
    """
    known = _table(parts)
    if known is None or Fraction(known[0].infinite) >= delta:
        return None
    product, table = known
    goal = _log(delta - Fraction(product.infinite))
    best, near, sigma = None, math.inf, math.inf
    for _ in range(REFINEMENTS):
        plan = table.for_delta(goal, width, near, sigma)
        found = None if plan is None else _series_at(parts, plan)
        solved = None if found is None else _solved(found, _log(delta))
        if plan is None or found is None or solved is None:
            break
        best = solved if best is None else _narrower(best, solved)
        gap, upper = float(solved.upper - solved.lower), float(best.upper)
        # No end of 0 is ever that near.
        if upper == 0 or float(best.upper - best.lower) <= width * min(upper, 1.0):
            break
        # The gap grows with sigma squared.
        if found.sigma:
            sigma = plan.sigma * math.sqrt(max(0.7 * min(upper, 1.0) * width / gap, FINEST))
        near = min(near, upper * (1 + 1e-6) + 1e-300)
    return best


def _narrower(one: Interval, other: Interval) -> Interval:
    return min(one, other, key=lambda found: found.upper - found.lower)


@lru_cache(maxsize=64)
def _table(parts: Parts) -> tuple[Product, Table] | None:
    """The product's numbers and its cumulants; None for one without closed transforms."""
    product = smooth_product(parts)
    return None if product is None else (product, Table.of(product))


@lru_cache(maxsize=64)
def _series_at(parts: Parts, plan: Plan) -> Series | None:
    known = _table(parts)
    return None if known is None else series(known[0], plan)


def _log(delta: Fraction) -> float:
    """log of a number that may be too small for a float, within a few roundings."""
    with working_precision():
        return float(enclose(delta).log().mid())


def _solved(found: Series, log_delta: float) -> Interval | None:
    ends = [_end(found, log_delta, sign) for sign in (-1, 1)]
    lower, upper = ends
    if lower is None or upper is None:
        return None
    return Interval(
        rounded_down(lower),
        rounded_up(max(upper, 0.0)),
        _shown(found, lower, -1),
        _shown(found, upper, 1),
        "closed transforms",
    )


def _end(found: Series, log_delta: float, sign: int) -> float | None:
    """Where delta plus (1) or minus (-1) its error meets the given one, on the safe side of it."""
    # Logs are off by a few roundings of their size; and room for a checker with errors of its own.
    log_delta -= sign * 16 * UNIT * (abs(log_delta) + 8)
    log_delta -= sign * CHECKER_ROOM[found.sigma > 0 or len(found.transform) > FEW]
    low, high = max(found.first, 0.0), found.first + found.period

    def excess(epsilon: float) -> float:
        ends = found.at(epsilon)
        log_end = replace(ends, error=CHECKER_ERRORS * ends.error).log(sign)
        return max(log_end - log_delta, -800.0)

    right = min(found.plan.near, high)
    step = max(right - low, high - right, 1e-300) / 64
    if not right > low:
        right = low
    while excess(right) > 0:
        if right >= high:
            return None
        right, step = min(right + step, high), GROWTH * step
    left, step = right, max((right - low) / 64, 1e-300)
    while excess(left) <= 0:
        if left <= low:
            return low if low == 0 or sign > 0 else None
        right, left, step = left, max(left - step, low), GROWTH * step
    tolerance = TOLERANCE * min(found.plan.sigma**2 * (1 + found.tilt), right, 1.0)
    root = float(optimize.brentq(excess, left, right, xtol=max(tolerance, 1e-300)))
    step = max(tolerance, 4e-16 * root)
    for _ in range(60):
        beyond = excess(root + sign * step)
        if sign * beyond <= 0:
            return root + sign * step
        step *= 2
    return None


def _shown(found: Series, epsilon: float, sign: int) -> dict[str, str]:
    ends = found.at(max(epsilon, found.first))
    return {
        "form": "closed transforms",
        "step": str(Fraction(first_step(found.product.parts, WIDTH))),
        "smoothing": repr(found.sigma),
        "side": "upper" if sign > 0 else "lower",
        "epsilon": repr(float(epsilon)),
        "delta": repr(float(ends.end(sign))),
        "error": repr(math.exp(min(ends.exponent, 700.0)) * ends.error),
        "tilt": repr(found.tilt),
        "window_first": repr(found.first),
        "period": repr(found.period),
        "frequencies": str(len(found.transform)),
        "aliasing": repr(found.outside),
        "truncation": repr(found.left_out[0]),
    }


def delta_smooth(parts: Parts, epsilon: Fraction, width: float = 1e-3) -> Interval | None:
    """Delta of a smooth product at epsilon; None where this route does not apply.

    ``width`` is relative to delta.
    """
    known = _table(parts)
    if known is None:
        return None
    table = known[1]
    at, best, asked = float(epsilon), None, width
    for _ in range(REFINEMENTS):
        plan = table.for_epsilon(at, asked)
        found = None if plan is None else _series_at(parts, plan)
        if found is None or not found.first < at < found.first + found.period:
            break
        solved = _delta(found, at)
        best = solved if best is None else _narrower(best, solved)
        gap, allowed = best.upper - best.lower, Fraction(width) * best.upper
        if gap <= allowed:
            break
        asked *= max(float(allowed / gap), FINEST) * 0.8
    return best


def _delta(found: Series, at: float) -> Interval:
    ends = found.at(at)
    # The float is within one rounding of the exact epsilon.
    moved = 4 * UNIT * (1 + at) * (2 + found.tilt)
    ends = replace(ends, error=ends.error + ends.value * moved, gap=ends.gap * (1 + moved))
    return Interval(
        rounded_down(ends.end(-1)),
        min(rounded_up(ends.end(1)), Fraction(1)),
        _shown(found, at, -1),
        _shown(found, at, 1),
        "closed transforms",
    )

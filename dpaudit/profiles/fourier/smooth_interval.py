"""Epsilon and delta of products with closed transforms (:mod:`dpaudit.profiles.fourier.smooth`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from scipy import optimize

from dpaudit.exact import enclose, working_precision
from dpaudit.profiles.fourier.search import Parts, gain
from dpaudit.profiles.fourier.smooth import Product, Series, series, smooth_product
from dpaudit.profiles.fourier.steps import first_step
from dpaudit.profiles.grid.hull import UNIT
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

TOLERANCE = 1e-11
WIDTH = 1e-4
TILTS = (-7.0, 14.0)
FAR = 1e300
TILT_RATIO = 0.2


def epsilon_smooth(parts: Parts, delta: Fraction) -> Interval | None:
    """Epsilon of a smooth product at delta; None where this route does not apply."""
    product = smooth_product(parts)
    if product is None or Fraction(product.infinite) >= delta:
        return None
    goal = _log(delta - Fraction(product.infinite))
    tilt = _tilt(lambda t: (product.cumulant(t) + gain(t) - goal) / t)
    found = _series_near(parts, product, tilt)
    return None if found is None else _solved(found, _log(delta))


def _series_near(parts: Parts, product: Product, tilt: float) -> Series | None:
    """The series at the tilt; of sampled factors, which take longer, at one near and kept."""
    if not product.sampled:
        return series(product, tilt)
    return _kept(parts, round(math.log(tilt) / TILT_RATIO))


@lru_cache(maxsize=64)
def _kept(parts: Parts, key: int) -> Series | None:
    product = smooth_product(parts)
    return None if product is None else series(product, math.exp(key * TILT_RATIO))


def _log(delta: Fraction) -> float:
    """log of a number that may be too small for a float, within a few roundings."""
    with working_precision():
        return float(enclose(delta).log().mid())


def _tilt(objective: Callable[[float], float]) -> float:
    """About where the objective is least; it may be infinite far from there."""

    def at(x: float) -> float:
        value = objective(math.exp(x))
        return value if math.isfinite(value) else FAR

    low, high = TILTS
    start = min((low + (high - low) * k / 21 for k in range(22)), key=at)
    best = optimize.minimize_scalar(
        at, bounds=(start - 1, start + 1), method="bounded", options={"xatol": 0.01}
    )
    return math.exp(float(best.x))


def _solved(found: Series, log_delta: float) -> Interval | None:
    low, high = max(found.first, 0.0), found.first + found.period
    ends = []
    for sign in (-1, 1):
        end = _end(found, log_delta, sign, low, high)
        if end is None:
            return None
        ends.append(end)
    lower, upper = ends
    return Interval(
        rounded_down(lower),
        rounded_up(max(upper, 0.0)),
        _shown(found, lower, -1),
        _shown(found, upper, 1),
        "closed transforms",
    )


def _end(found: Series, log_delta: float, sign: int, low: float, high: float) -> float | None:
    """Where delta plus (1) or minus (-1) its error meets the given one, on the safe side of it."""
    # Logs are off by a few roundings of their size.
    log_delta -= sign * 16 * UNIT * (abs(log_delta) + 8)

    def excess(epsilon: float) -> float:
        log_end = found.at(epsilon).log(sign)
        return max(log_end - log_delta, -800.0)

    grid = [low + (high - low) * k / 64 for k in range(64)]
    signs = [excess(e) > 0 for e in grid]
    if not any(signs):
        return 0.0
    last = max(k for k, above in enumerate(signs) if above)
    if last == 63:
        return None
    root = float(optimize.brentq(excess, grid[last], grid[last + 1], xtol=TOLERANCE))
    step = TOLERANCE
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
        "side": "upper" if sign > 0 else "lower",
        "epsilon": repr(float(epsilon)),
        "delta": repr(float(ends.end(sign))),
        "error": repr(math.exp(min(ends.exponent, 700.0)) * ends.error),
        "tilt": repr(found.tilt),
        "window_first": repr(found.first),
        "period": repr(found.period),
        "frequencies": str(len(found.transform)),
        "aliasing": repr(found.outside),
        "truncation": repr(found.left_out),
    }


def delta_smooth(parts: Parts, epsilon: Fraction) -> Interval | None:
    """Delta of a smooth product at epsilon; None where this route does not apply."""
    product = smooth_product(parts)
    if product is None:
        return None
    at = float(epsilon)
    tilt = _tilt(lambda t: product.cumulant(t) + gain(t) - t * at)
    found = _series_near(parts, product, tilt)
    if found is None or not found.first < at < found.first + found.period:
        return None
    ends = found.at(at)
    # The float is within one rounding of the exact epsilon.
    ends = replace(ends, error=ends.error + ends.value * 4 * UNIT * (1 + at) * (2 + found.tilt))
    return Interval(
        rounded_down(ends.end(-1)),
        min(rounded_up(ends.end(1)), Fraction(1)),
        _shown(found, at, -1),
        _shown(found, at, 1),
        "closed transforms",
    )

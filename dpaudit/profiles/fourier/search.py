"""Choice of step, tilt and window, and the epsilon where a composed bound meets delta.

Every choice here is only a choice: whatever the step, tilt or window, the bounds are sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from scipy import optimize

from dpaudit.grids.discrete import Discrete, Grid, NoLower, Side
from dpaudit.pairs import Pair
from dpaudit.profiles.fourier.compose import Composition, Delta, compose, delta_at
from dpaudit.profiles.grid.stack import Stack

Parts = tuple[tuple[Pair, int], ...]
TAIL_SHARE = 1e-7  # Share of delta that the grids of all factors together may leave out.
SMALLEST_TAIL = 1e-300  # near the smallest float
LOG_TILT_RANGE = (-7.0, 11.0)  # Smallest and largest log of a tilt.
SMALL_TILT = 0.1  # below, epsilon may be 0, which is tried first
LARGE_TILT = 100.0  # from here on a window that is too narrow is tried again at a smaller tilt
CHECKER_ROOM = 12  # multiples of the round-off that are left for the checker's own


@dataclass(frozen=True)
class Solved:
    """An epsilon (or a delta) of one side, with the composition and the delta that show it."""

    epsilon: float
    delta: Delta
    composition: Composition


def stack_of(parts: Parts, step: Fraction, delta: float, side: Side) -> Stack | None:
    """The factors on one grid; what is cut off changes delta by its 1e-7th part at most."""
    total = sum(times for _, times in parts)
    grid = Grid(step, max(delta / max(total, 1) * TAIL_SHARE, SMALLEST_TAIL))
    factors = [
        (discrete, n) for pair, n in parts if (discrete := _known(pair, grid, side)) is not None
    ]
    return Stack(tuple(factors), side) if factors else None


def _known(pair: Pair, grid: Grid, side: Side) -> Discrete | None:
    """The discretised pair; None where no lower profile is known (and 0 factors are a bound)."""
    try:
        return pair.on_grid(grid, side)
    except NoLower:
        return None


def tilt_for_delta(stack: Stack, delta: float) -> tuple[float, float]:
    """About the tilt at which Chernoff's bound of epsilon is smallest, and that epsilon."""

    def epsilon(log_tilt: float) -> float:
        t = math.exp(log_tilt)
        return (stack.outline.cumulant(t) + gain(t) - math.log(delta)) / t

    minimum = optimize.minimize_scalar(
        epsilon, bounds=LOG_TILT_RANGE, method="bounded", options={"xatol": 0.01}
    )
    return math.exp(float(minimum.x)), float(minimum.fun)


def tilt_for_epsilon(stack: Stack, epsilon: float) -> tuple[float, float]:
    """About the tilt at which Chernoff's bound of delta is smallest, and the log of that delta."""

    def log_delta(log_tilt: float) -> float:
        t = math.exp(log_tilt)
        return stack.outline.cumulant(t) + gain(t) - t * epsilon

    minimum = optimize.minimize_scalar(
        log_delta, bounds=LOG_TILT_RANGE, method="bounded", options={"xatol": 0.01}
    )
    return math.exp(float(minimum.x)), float(minimum.fun)


def gain(tilt: float) -> float:
    """log of the largest (1 - exp(-y)) exp(-t y)."""
    return tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)


def epsilon_of(stack: Stack, delta: float, tolerance: float) -> Solved | None:
    """The epsilon of the side: delta <= the given one there (UPPER) or >= it (LOWER).

    None where no such epsilon was found: infinity above, 0 below.
    """
    goal = delta - stack.infinite
    if goal <= 0:
        return None
    tilt, chernoff = tilt_for_delta(stack, goal)
    if chernoff <= 0 or tilt < SMALL_TILT:
        at_zero = _at_zero(stack, delta)
        if at_zero is not None:
            return at_zero
    tolerance *= min(1.0, abs(chernoff))
    while True:
        solved = _solve(compose(stack, tilt), delta, chernoff, tolerance)
        # Next to a largest loss the window of a large tilt may be narrower than what is looked for.
        if solved is not None or stack.side is Side.UPPER or chernoff <= 0 or tilt < LARGE_TILT:
            return solved
        tilt /= 8


def _at_zero(stack: Stack, delta: float) -> Solved | None:
    """Epsilon 0, where delta there is small enough for certain (UPPER)."""
    if stack.side is Side.LOWER:
        return None
    composition = compose(stack, tilt_for_epsilon(stack, 0.0)[0])
    if not composition.lowest <= 0 <= composition.highest:
        return None
    delta_there = delta_at(composition, 0.0)
    return Solved(0.0, delta_there, composition) if delta_there.value <= delta else None


def _solve(
    composition: Composition, delta: float, chernoff: float, tolerance: float
) -> Solved | None:
    low, high = composition.lowest, min(max(chernoff, composition.lowest), composition.highest)

    def excess(epsilon: float) -> float:
        value = delta_at(composition, epsilon).value
        return math.log(value / delta) if value > 0 else -800.0

    bracket = _bracket(excess, low, high, composition.highest)
    if bracket is None:
        return None
    root = optimize.brentq(excess, *bracket, xtol=tolerance / 4, rtol=1e-14)
    return _outward(composition, root, delta, tolerance, bracket)


def _bracket(
    excess: Callable[[float], float], low: float, high: float, highest: float
) -> tuple[float, float] | None:
    """Ends with excess > 0 at the left and <= 0 at the right, walking from ``high``."""
    right, step = high, max(high - low, (highest - low) / 64) / 64
    while excess(right) > 0:
        if right >= highest:
            return None
        right, step = min(right + step, highest), step * 1.5
    while step > 0 and right > low:
        left = max(right - step, low)
        if excess(left) > 0:
            return left, right
        right, step = left, step * 1.5
    return None


def _outward(
    composition: Composition,
    root: float,
    delta: float,
    tolerance: float,
    bracket: tuple[float, float],
) -> Solved | None:
    """The first epsilon beyond the root at which the bound holds for certain, with some room.

    The room is for a checker whose own round-off bound may be larger than ours.
    """
    sign = 1 if composition.side is Side.UPPER else -1
    step = tolerance
    for _ in range(40):
        epsilon = root + sign * step
        if not bracket[0] <= epsilon <= bracket[1]:
            break
        delta_there = delta_at(composition, epsilon)
        if sign * (delta - delta_there.value) >= CHECKER_ROOM * delta_there.round_off:
            return Solved(epsilon, delta_there, composition)
        step *= 2
    epsilon = bracket[1] if sign > 0 else bracket[0]
    return Solved(epsilon, delta_at(composition, epsilon), composition)

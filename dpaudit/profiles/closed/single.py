"""Answers of a pair whose delta has a closed form, as Arb balls: no grid, no Fourier sum.

delta(x) at x = exp(epsilon), epsilon of either sign, is the pair's own (:meth:`Pair.delta`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from fractions import Fraction
from typing import Any

from dpaudit.exact import lower_fraction, upper_fraction
from dpaudit.pairs import (
    Pair,
)
from dpaudit.pairs.balls import fraction, number
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

Ball = Any
BALL_PRECISIONS = (200, 500, 1500, 5000)  # Bits, raised until a comparison is decided.
LARGEST_EXPONENT = 40  # an epsilon of 2^40 counts as infinite
# Nats: the lower bound of an infinite epsilon, if delta here is above the given one.
UNREACHED_EPSILON = Fraction(60)
MAX_HALVINGS = 200  # Halvings of epsilon before it counts as 0.
BOUND_BITS = 52  # Bits to which an end of the interval is narrowed.
# Relative width of the interval of delta, and of a step away from an uncertain root.
DELTA_WIDTH = Fraction(1, 10**14)
ROOT_TOLERANCE = 2.0**-50  # Relative error of a root found in floats; exact comparisons correct it.
LOG_OF_ZERO = -1e4  # Stands for the log of delta = 0 in the search.
# Relative distance around a guessed root at which exact comparisons bracket it.
GUESS_MARGIN = Fraction(1, 2**49)

# --- solving -------------------------------------------------------------------------------------


def _precisions() -> Generator[None, None, None]:
    """Rising working precisions, each until the next is asked for; close it afterwards."""
    import flint

    for bits in BALL_PRECISIONS:
        with flint.ctx.workprec(bits):
            yield


def delta_single(pair: Pair, epsilon: Fraction) -> Interval:
    """delta at epsilon, to 12 digits."""
    low, high = Fraction(0), Fraction(1)
    with closing(_precisions()) as precisions:
        for _ in precisions:
            low, high = _ends(pair.delta(fraction(epsilon).exp()))
            if high - low <= DELTA_WIDTH * high:
                break
    shown = {"form": "closed", "epsilon": str(epsilon)}
    return Interval(rounded_down(low), rounded_up(high), shown, shown, "closed form")


def _ends(ball: Ball) -> tuple[Fraction, Fraction]:
    low, high = lower_fraction(ball), upper_fraction(ball)
    return max(low or Fraction(0), Fraction(0)), Fraction(1) if high is None else min(
        max(high, Fraction(0)), Fraction(1)
    )


def epsilon_single(pair: Pair, delta: Fraction) -> Interval:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, between ends of 12 digits.

    If no epsilon suffices, the lower end is ``UNREACHED_EPSILON``, provided that delta there is
    above the given one.
    """
    from dpaudit.exact import infinity

    if _compare(pair, Fraction(0), delta) == -1:
        shown = {"form": "closed", "epsilon": "0"}
        return Interval(Fraction(0), Fraction(0), {}, shown, "closed form")
    bracket = _bracket(lambda epsilon: _compare(pair, epsilon, delta) == -1)
    if bracket is None:
        reached = (
            UNREACHED_EPSILON if _compare(pair, UNREACHED_EPSILON, delta) == 1 else Fraction(0)
        )
        return Interval(reached, infinity(), _shown(reached), method="closed form")
    low, high = _certain(pair, _narrowed(pair, bracket, delta), delta)
    lower, upper = rounded_down(low), rounded_up(high)
    return Interval(lower, upper, _shown(lower), _shown(upper), "closed form")


def _shown(epsilon: Fraction) -> dict[str, str]:
    return {"form": "closed", "epsilon": str(epsilon)}


def _compare(pair: Pair, epsilon: Fraction, delta: Fraction) -> int:
    """-1 where delta(epsilon) <= delta for certain, 1 where not for certain, 2 where open."""
    with closing(_precisions()) as precisions:
        for _ in precisions:
            ball, wanted = pair.delta(fraction(epsilon).exp()), number(delta)
            if ball <= wanted:
                return -1
            if ball > wanted:
                return 1
    return 2


def _certain(
    pair: Pair, bracket: tuple[Fraction, Fraction], delta: Fraction
) -> tuple[Fraction, Fraction]:
    """The left end moved down until delta there is above the given one for certain."""
    low, high = bracket
    step = high * DELTA_WIDTH
    while low > 0 and _compare(pair, low, delta) != 1:
        low, step = max(low - step, Fraction(0)), step * 4
    return low, high


def _bracket(holds: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction] | None:
    """Neighbouring powers of two between which a predicate turns true; None where it never does."""
    powers = (Fraction(2) ** k for k in range(LARGEST_EXPONENT))
    high = next(filter(holds, powers), None)
    if high is None:
        return None
    for _ in range(MAX_HALVINGS):
        if not holds(high / 2):
            break
        high /= 2
    return high / 2, high


def _narrowed(
    pair: Pair, bracket: tuple[Fraction, Fraction], delta: Fraction
) -> tuple[Fraction, Fraction]:
    """Ends close together between which delta crosses, the right one certain.

    Guesses first, around each of which both ends are tried; then what is left is bisected.
    """
    low, high = bracket
    for guess in _guesses(pair, bracket, delta):
        left, right = guess * (1 - GUESS_MARGIN), guess * (1 + GUESS_MARGIN)
        if low < left and right < high and _compare(pair, right, delta) == -1:
            high = right
            if _compare(pair, left, delta) != -1:
                low = left
                break
    while high - low > high / 2**BOUND_BITS:
        middle = (low + high) / 2
        low, high = (low, middle) if _compare(pair, middle, delta) == -1 else (middle, high)
    return low, high


def _guesses(pair: Pair, bracket: tuple[Fraction, Fraction], delta: Fraction) -> Iterator[Fraction]:
    """The largest loss, just below which a small delta is met; a root in floats."""
    from scipy.optimize import brentq

    largest = pair.near_largest_loss
    if largest is not None:
        yield largest

    def excess(epsilon: float) -> float:
        ball = pair.delta(fraction(Fraction(epsilon)).exp()).mid()
        return max(float((ball / number(delta)).log()), LOG_OF_ZERO) if ball > 0 else LOG_OF_ZERO

    low, high = map(float, bracket)
    with closing(_precisions()) as precisions:
        next(precisions)
        if excess(low) > 0 > excess(high):
            yield Fraction(
                float(brentq(excess, low, high, xtol=low * ROOT_TOLERANCE, rtol=ROOT_TOLERANCE))
            )

"""Profiles of one pair in closed form, as Arb balls: no grid, no Fourier sum.

delta(x) of the pair (P, Q) at x = exp(epsilon), epsilon of either sign:
* Normal(mu): Phi(mu/2 - epsilon/mu) - x Phi(-mu/2 - epsilon/mu)  (Balle, Wang 2018, Thm 8)
* LaplaceShift(e): 0 for epsilon >= e, 1 - x for epsilon <= -e, else 1 - exp((epsilon - e) / 2)
* Atoms: sum of max(0, p - x q)
* DiscreteNormal(v, s): F(m) - x F(m - s), F the distribution function of the noise and m the last
  integer below s/2 - v epsilon / s, up to which p > x q; of moderate v and s
* Mixed(base, q): q delta_base(1 + (x - 1)/q) for x > 1 - q, else 1 - x (Balle et al. 2018, Thm 2)
* Tallied(e, r, m): P(T >= t) - x Q(T >= t), t the first number of ones with a ratio of at least x
* Swapped(base): 1 - x + x delta_base(1 / x)
* Spliced(above, below): of ``above`` for x >= 1, of ``below`` for x < 1
* Largest: the largest
* Product of Atoms with few outcomes in all: see :mod:`dpaudit.profiles.closed.enumerated`
* Product with branches, of one Laplace pair at most: see :mod:`dpaudit.profiles.closed.mixtures`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import enclose, is_symbolic, lower_fraction, upper_fraction
from dpaudit.pairs import (
    Atoms,
    DiscreteNormal,
    LaplaceShift,
    Largest,
    Mixed,
    Normal,
    Pair,
    Product,
    Replaced,
    Spliced,
    Swapped,
)
from dpaudit.profiles.closed.enumerated import is_enumerable, outcomes_of
from dpaudit.profiles.closed.mixtures import is_mixture, mixture_delta
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

Ball = Any
PRECISIONS = (200, 500, 1500, 5000)
LARGEST = 40
FAR = Fraction(60)
SMALLEST = 200
BISECTIONS = 52
RELATIVE = Fraction(1, 10**14)
ROOT = 2.0**-50
FLAT = -1e4
CLOSE = Fraction(1, 2**49)
LONGEST_SUM, SHARPEST = 10**4, Fraction(1, 10**5)

_FORMS: dict[type[Pair], Callable[[Any, Ball], Ball]] = {}


def _form(kind: type[Pair]) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _FORMS[kind] = function
        return function

    return register


def has_form(pair: Pair) -> bool:
    """Whether the pair's profile is known in closed form."""
    if isinstance(pair, Product):
        return is_enumerable(pair) or is_mixture(pair)
    if isinstance(pair, DiscreteNormal):
        return _is_summed(pair)
    return type(pair) in _FORMS and all(map(has_form, pair.inner))


def delta_ball(pair: Pair, x: Ball) -> Ball:
    """A ball around delta at x > 0, at the current working precision."""
    return _FORMS[type(pair)](pair, x)


@_form(Normal)
def _normal(pair: Normal, x: Ball) -> Ball:
    mu, epsilon = _number(pair.mu), x.log()
    if mu == 0:
        return _positive(1 - x)
    return _phi(mu / 2 - epsilon / mu) - x * _phi(-mu / 2 - epsilon / mu)


@_form(LaplaceShift)
def _laplace(pair: LaplaceShift, x: Ball) -> Ball:
    largest, epsilon = _number(pair.epsilon), x.log()
    between = 1 - ((epsilon - largest) / 2).exp()
    return _positive(1 - x).max(_positive(between))


@_form(Atoms)
def _atoms(pair: Atoms, x: Ball) -> Ball:
    return _total(_outcomes_of_atoms(pair, _bits()), x)


@lru_cache(maxsize=256)
def _outcomes_of_atoms(pair: Atoms, bits: int) -> list[tuple[Ball, Ball]]:
    return [(_number(p), _number(q)) for p, q in pair.outcomes]


def _is_summed(pair: DiscreteNormal) -> bool:
    """Whether a sum over all integers that matter is short; other noise is the lattice's."""
    if is_symbolic(pair.variance) or is_symbolic(pair.shift) or pair.shift.denominator != 1:
        return False
    return bool(1 <= pair.shift <= LONGEST_SUM and SHARPEST <= pair.variance <= LONGEST_SUM)


@_form(DiscreteNormal)
def _discrete_normal(pair: DiscreteNormal, x: Ball) -> Ball:
    """Next to an integer, either neighbour: the outcome between them counts nothing."""
    shift, bits = int(pair.shift), _bits()
    place = _number(pair.shift) / 2 - _number(pair.variance) * x.log() / shift
    last = math.ceil(float(place.mid())) - 1
    around = (last - 1, last, last + 1)
    if not (place > last - 1 and place < last + 2):
        return _number(0).union(1)
    whole = 1 + 2 * weight_beyond(pair.variance, 1, bits)

    def below(number: int) -> Ball:
        if number < 0:
            return weight_beyond(pair.variance, -number, bits) / whole
        return 1 - weight_beyond(pair.variance, number + 1, bits) / whole

    found = _number(0)
    for number in around:
        found = found.max(below(number) - x * below(number - shift))
    return found


@lru_cache(maxsize=8192)
def weight_beyond(variance: Fraction, first: int, bits: int) -> Ball:
    """Sum of exp(-k^2 / (2 v)) over k >= first >= 1.

    Neighbours have ratios of at most exp(-(2 k + 1) / (2 v)), so that what is left out is at most
    that geometric series.
    """
    step = (-1 / _number(variance)).exp()
    ratio = (-(2 * first + 1) / (2 * _number(variance))).exp()
    term, found, least = _number(1), _number(0), _number(2) ** -bits
    while term > least:
        found += term
        term *= ratio
        ratio *= step
    left = term / (1 - ratio)
    return (found + left.union(0)) * (-(_number(first) ** 2) / (2 * _number(variance))).exp()


def _total(outcomes: list[tuple[Ball, Ball]], x: Ball) -> Ball:
    return sum((_positive(p - x * q) for p, q in outcomes), _number(0))


@_form(Product)
def _product(pair: Product, x: Ball) -> Ball:
    if is_mixture(pair):
        return mixture_delta(pair, x, _number)
    return _total(_outcomes(pair, _bits()), x)


@lru_cache(maxsize=64)
def _outcomes(pair: Product, bits: int) -> list[tuple[Ball, Ball]]:
    """All outcomes at the current precision, which is ``bits``."""
    return outcomes_of(pair, _number)


@_form(Mixed)
def _mixed(pair: Mixed, x: Ball) -> Ball:
    rate = _number(pair.rate)
    inner = 1 + (x - 1) / rate
    if inner > 0:
        return rate * delta_ball(pair.base, inner)
    return (1 - x).union(rate) if not inner <= 0 else 1 - x


@_form(Swapped)
def _swapped(pair: Swapped, x: Ball) -> Ball:
    return 1 - x + x * delta_ball(pair.base, 1 / x)


@_form(Spliced)
def _spliced(pair: Spliced, x: Ball) -> Ball:
    above, below = (delta_ball(part, x) for part in (pair.above, pair.below))
    return above if x >= 1 else below if x < 1 else above.union(below)


@_form(Replaced)
def _replaced(pair: Replaced, x: Ball) -> Ball:
    return delta_ball(pair.spliced, x)


@_form(Largest)
def _largest(pair: Largest, x: Ball) -> Ball:
    first, *others = (delta_ball(part, x) for part in pair.pairs)
    for other in others:
        first = first.max(other)
    return first


def _number(value: Any) -> Ball:
    """A ball at the current precision (arithmetic.enclose has a precision of its own)."""
    return known_ball(value, _bits())


def _bits() -> int:
    import flint

    return int(flint.ctx.prec)


@lru_cache(maxsize=4096)
def known_ball(value: Any, bits: int) -> Ball:
    """A ball around a number, kept for the precision ``bits``, which is the current one."""
    return _ball_of(value) if isinstance(value, (int, Fraction)) else enclose(value)


def _positive(ball: Ball) -> Ball:
    return ball.max(0)


def _phi(x: Ball) -> Ball:
    import flint

    return (-x / flint.arb(2).sqrt()).erfc() / 2


# --- solving -------------------------------------------------------------------------------------


def _precisions() -> Generator[None, None, None]:
    """Rising working precisions, each until the next is asked for; close it afterwards."""
    import flint

    for bits in PRECISIONS:
        with flint.ctx.workprec(bits):
            yield


def _ball_of(value: int | Fraction) -> Ball:
    """A ball around a number that is met once."""
    import flint

    return flint.arb(value.numerator) / flint.arb(value.denominator)


def delta_single(pair: Pair, epsilon: Fraction) -> Interval:
    """delta at epsilon, to 12 digits."""
    low, high = Fraction(0), Fraction(1)
    with closing(_precisions()) as precisions:
        for _ in precisions:
            low, high = _ends(delta_ball(pair, _ball_of(epsilon).exp()))
            if high - low <= RELATIVE * high:
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

    Where no epsilon suffices, the lower end is ``FAR``, if delta there is above the given one.
    """
    from dpaudit.exact import infinity

    if _compare(pair, Fraction(0), delta) == -1:
        shown = {"form": "closed", "epsilon": "0"}
        return Interval(Fraction(0), Fraction(0), {}, shown, "closed form")
    bracket = _bracket(lambda epsilon: _compare(pair, epsilon, delta) == -1)
    if bracket is None:
        reached = FAR if _compare(pair, FAR, delta) == 1 else Fraction(0)
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
            ball, wanted = delta_ball(pair, _ball_of(epsilon).exp()), _number(delta)
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
    step = high * RELATIVE
    while low > 0 and _compare(pair, low, delta) != 1:
        low, step = max(low - step, Fraction(0)), step * 4
    return low, high


def _bracket(holds: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction] | None:
    """Neighbouring powers of two between which a predicate turns true; None where it never does."""
    powers = (Fraction(2) ** k for k in range(LARGEST))
    high = next(filter(holds, powers), None)
    if high is None:
        return None
    for _ in range(SMALLEST):
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
        left, right = guess * (1 - CLOSE), guess * (1 + CLOSE)
        if low < left and right < high and _compare(pair, right, delta) == -1:
            high = right
            if _compare(pair, left, delta) != -1:
                low = left
                break
    while high - low > high / 2**BISECTIONS:
        middle = (low + high) / 2
        low, high = (low, middle) if _compare(pair, middle, delta) == -1 else (middle, high)
    return low, high


def _guesses(pair: Pair, bracket: tuple[Fraction, Fraction], delta: Fraction) -> Iterator[Fraction]:
    """The largest loss, just below which a small delta is met; a root in floats."""
    from scipy.optimize import brentq

    largest = _largest_loss(pair)
    if largest is not None:
        yield largest

    def excess(epsilon: float) -> float:
        ball = delta_ball(pair, _ball_of(Fraction(epsilon)).exp()).mid()
        return max(float((ball / _number(delta)).log()), FLAT) if ball > 0 else FLAT

    low, high = map(float, bracket)
    with closing(_precisions()) as precisions:
        next(precisions)
        if excess(low) > 0 > excess(high):
            yield Fraction(float(brentq(excess, low, high, xtol=low * ROOT, rtol=ROOT)))


def _largest_loss(pair: Pair) -> Fraction | None:
    """About the largest loss, where it is known at once."""
    if isinstance(pair, LaplaceShift):
        return Fraction(float(_number(pair.epsilon).mid()))
    if isinstance(pair, Atoms) and all(q != 0 or p == 0 for p, q in pair.outcomes):
        ratios = [p / q for p, q in _outcomes_of_atoms(pair, _bits()) if q > 0]
        return Fraction(float(max(map(_log, ratios))))
    return None


def _log(ratio: Ball) -> float:
    return float(ratio.log().mid()) if ratio > 0 else -math.inf

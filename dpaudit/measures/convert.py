"""Conversions to (epsilon, delta): rules whose witness lets a checker confirm them in one step."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import (
    Number,
    canonical,
    decimal_lower,
    decimal_upper,
    enclose,
    exact,
    infinity,
    is_infinite,
    is_symbolic,
    unknowns,
    working_precision,
)
from dpaudit.exact.arb import TooManyTerms
from dpaudit.exact.domains import non_negative, probability
from dpaudit.measures.calculus import CALCULI, Converted, Source, Step, order
from dpaudit.measures.intervals import epsilon_two_sided
from dpaudit.profiles import WIDTH

LARGEST_EXPONENT = 100  # an epsilon of 2^100 counts as infinite
MAX_HALVINGS = 4000  # Halvings of epsilon before it counts as 0.
BOUND_BITS = 80  # Bits to which an end is narrowed.
LARGEST_WHOLE_ORDER = 1024  # of a Renyi curve of whole orders
LARGEST_NESTED_ORDER = 256  # the same where a curve's terms are sums themselves
# The largest whole order for a group: its curve is one record's at several times the order.
LARGEST_SCALED_ORDER = 64

BALLE_WANG = Source("Balle, Wang", 2018, "Theorem 8; exact for mu-GDP: Dong, Roth, Su 2022, Cor. 1")
RENYI_TO_DP = Source("Canonne, Kamath, Steinke", 2020, "Proposition 12")
PROFILE_TO_DP = Source(
    "Zhu, Dong, Wang", 2022, "Definition 7, and its composition in Fourier space"
)
MONOTONE = Source("Dwork, Roth", 2014, "Definition 2.4 ((epsilon, delta) is monotone in delta)")


def gaussian_delta(epsilon: Any, mu: Any) -> Any:
    """Ball around Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2), for mu > 0."""
    return normal_cdf(mu / 2 - epsilon / mu) - epsilon.exp() * normal_cdf(-mu / 2 - epsilon / mu)


def normal_cdf(x: Any) -> Any:
    """Ball around the standard normal distribution function, accurate in the lower tail."""
    import flint

    return (-x / flint.arb(2).sqrt()).erfc() / 2


def require_numbers(step: Step, delta: Number = 0) -> None:
    """Errors: Unsupported while a step's value (or delta) holds symbols without values."""
    values = step.value if isinstance(step.value, tuple) else (step.value,)
    calculus = CALCULI.get(step.calculus)
    own = calculus.reserved if calculus else ""
    free = {s for s in set[Any]().union(*map(unknowns, (*values, delta))) if s.name != own}
    if free:
        names = ", ".join(sorted(map(str, free)))
        raise Unsupported(f"{step.node.head}: a number was asked for while {names} have no value")


def from_gdp(step: Step, delta: Fraction, width: float) -> Converted:
    """Smallest epsilon with gaussian_delta(epsilon, mu) <= delta, in a bracket of 12 digits."""
    if is_infinite(step.value) or (delta == 0 and step.value != 0):
        return Converted(infinity(), None, {})
    if step.value == 0:
        return Converted(Fraction(0), Fraction(0), {"epsilon": "0"})
    with working_precision():
        bracket = _bracket(enclose(step.value), enclose(delta))
    if bracket is None:
        return Converted(infinity(), None, {})
    upper_text, lower_text = decimal_upper(bracket[1]), decimal_lower(bracket[0])
    return Converted(Fraction(upper_text), Fraction(lower_text), {"epsilon": upper_text})


def _bracket(mu: Any, delta: Any) -> tuple[Fraction, Fraction] | None:
    """Dyadic ends with delta(lower) >= delta certainly (or lower = 0) and delta(upper) <= delta."""
    proved_below = Fraction(0)

    def below(epsilon: Fraction) -> bool:
        nonlocal proved_below
        ball = gaussian_delta(_dyadic(epsilon), mu)
        if ball >= delta:
            proved_below = max(proved_below, epsilon)
        return bool(ball <= delta)

    if below(Fraction(0)):
        return Fraction(0), Fraction(0)
    crossing = _crossing(below)
    return None if crossing is None else (proved_below, crossing[1])


def _crossing(holds: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction] | None:
    """Positive ends between which a predicate turns true, ``BOUND_BITS`` bits apart.

    None where it is still false at 2^``LARGEST_EXPONENT``; the lower end is 0 where it is still
    true at 2^-``MAX_HALVINGS``.
    """
    powers = (Fraction(2) ** k for k in range(LARGEST_EXPONENT))
    high = next(filter(holds, powers), None)
    if high is None:
        return None
    for _ in range(MAX_HALVINGS):
        if not holds(high / 2):
            break
        high /= 2
    else:
        return Fraction(0), high
    low = high / 2
    for _ in range(BOUND_BITS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def _dyadic(value: Fraction) -> Any:
    import flint

    return flint.arb(value.numerator) / flint.arb(value.denominator)


def renyi_epsilon(curve_at_order: Any, alpha: Any, delta: Any) -> Any:
    """Ball: D_alpha + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1)."""
    return curve_at_order + (1 - 1 / alpha).log() - (delta.log() + alpha.log()) / (alpha - 1)


Search = Callable[[Callable[[Fraction], float]], Fraction]


def _from_curve(
    curve: Callable[[Any], Any], delta: Fraction, search: Search | None = None
) -> Converted:
    """Epsilon at delta from a Renyi curve, at the best order, which is the witness."""
    if delta == 0:
        return Converted(infinity(), None, {})
    with working_precision():
        bound = enclose(delta)

        def objective(a: Fraction) -> float:
            try:
                return float(renyi_epsilon(curve(a), _dyadic(a), bound).mid())
            except TooManyTerms:
                return math.inf

        find = search or _best_order
        alpha = find(objective)
        value = renyi_epsilon(curve(alpha), _dyadic(alpha), bound)
        text = decimal_upper(value) if value.is_finite() else "inf"
    if text == "inf":  # a ball with a middle may have no finite end
        return Converted(infinity(), None, {})
    upper = max(Fraction(text), Fraction(0))
    return Converted(upper, None, {"order": f"{alpha.numerator}/{alpha.denominator}"})


def _best_order(objective: Callable[[Fraction], float], largest: float = 1e9) -> Fraction:
    """A good order: golden-section search over log(order - 1); any order gives a valid bound."""
    golden = (math.sqrt(5) - 1) / 2
    low, high = math.log(1e-6), math.log(largest)

    def at(x: float) -> Fraction:
        return 1 + Fraction(math.exp(x)).limit_denominator(10**6 if x > 0 else 10**12)

    while high - low > 1e-5:
        left, right = high - golden * (high - low), low + golden * (high - low)
        if objective(at(left)) <= objective(at(right)):
            high = right
        else:
            low = left
    return at((low + high) / 2)


def _best_whole_order(objective: Callable[[Fraction], float], largest: int) -> Fraction:
    """A good whole order: doubled while that helps, then the gap around the best one narrowed."""
    values: dict[int, float] = {}

    def at(n: int) -> float:
        if n not in values:
            values[n] = objective(Fraction(n))
        return values[n]

    high = 4
    while high < largest and at(high) < at(high // 2):
        high *= 2
    low = max(2, high // 4)
    while high - low > 2:
        left = low + (high - low) * 2 // 5
        right = max(left + 1, low + (high - low) * 3 // 5)
        low, high = (low, right) if at(left) <= at(right) else (left, high)
    return Fraction(min(range(low, high + 1), key=at))


def least_of_renyi(step: Step, delta: Fraction) -> Fraction:
    """No (epsilon, delta) by a curve of whole orders is below this, whatever the curve: it is >= 0.

    0 for other curves, and other calculi.
    """
    import sympy

    value = step.value
    whole_orders = (
        step.calculus == "rdp" and is_symbolic(value) and value.has(sympy.ceiling(order()))
    )
    if not whole_orders or delta == 0:
        return Fraction(0)
    nested = any(part.function.has(sympy.Sum) for part in value.atoms(sympy.Sum))
    return _least_at_orders(LARGEST_NESTED_ORDER if nested else LARGEST_WHOLE_ORDER, delta)


@cache
def _least_at_orders(largest: int, delta: Fraction) -> Fraction:
    """The least conversion of a curve that is 0, at orders 2 to the largest, rounded down."""
    with working_precision():
        none, bound = _dyadic(Fraction(0)), _dyadic(delta)
        orders = (_dyadic(Fraction(alpha)) for alpha in range(2, largest + 1))
        least = min(
            Fraction(decimal_lower(renyi_epsilon(none, alpha, bound).lower())) for alpha in orders
        )
        return max(least, Fraction(0))


def _whole_order_search(value: Number) -> Search | None:
    """The search for a curve that only changes at whole orders, or has long sums at large ones.

    None for any other curve.
    """
    import sympy

    if not (is_symbolic(value) and value.has(sympy.ceiling)):
        return None
    if not value.has(sympy.ceiling(order())):
        return lambda objective: _best_order(objective, LARGEST_SCALED_ORDER)
    nested = any(part.function.has(sympy.Sum) for part in value.atoms(sympy.Sum))
    largest = LARGEST_NESTED_ORDER if nested else LARGEST_WHOLE_ORDER
    return lambda objective: _best_whole_order(objective, largest)


def from_zcdp(step: Step, delta: Fraction, width: float) -> Converted:
    """Renyi conversion of the line rho * alpha at the best order."""
    if is_infinite(step.value):
        return Converted(infinity(), None, {})
    rho = enclose(step.value)
    return _from_curve(lambda alpha: rho * _dyadic(alpha), delta)


def from_rdp(step: Step, delta: Fraction, width: float) -> Converted:
    """Renyi conversion of the curve at the best order."""
    if is_infinite(step.value):
        return Converted(infinity(), None, {})
    search = _whole_order_search(step.value)
    return _from_curve(lambda alpha: enclose(step.value, {order(): _dyadic(alpha)}), delta, search)


def from_pure(step: Step, delta: Fraction, width: float) -> Converted:
    """epsilon-DP is (epsilon, delta)-DP for every delta >= 0."""
    return Converted(_rounded(step.value), None, {})


def from_approx(step: Step, delta: Fraction, width: float) -> Converted:
    """(epsilon, delta') with delta' <= delta; infinite otherwise."""
    epsilon, own = step.value
    if is_infinite(own) or is_infinite(epsilon):
        return Converted(infinity(), None, {})
    certain = own <= delta if not is_symbolic(own) else bool(enclose(own) <= enclose(delta))
    return Converted(_rounded(epsilon) if certain else infinity(), None, {})


def _rounded(value: Number) -> Number:
    value = canonical(value)
    if not is_symbolic(value) or is_infinite(value):
        return value
    text = decimal_upper(value)
    return infinity() if text == "inf" else Fraction(text)


def from_profile(step: Step, delta: Fraction, width: float) -> Converted:
    """The largest over the pairs; two-sided where some data reach a pair."""
    epsilons = epsilon_two_sided(step, delta, width)
    witness = {"upper": list(epsilons.upper_rows), "lower": list(epsilons.lower_rows)}
    return Converted(epsilons.upper, epsilons.lower, witness)


def to_approx(step: Step, delta: Fraction, width: float = WIDTH) -> Step:
    """The step's guarantee as (epsilon, delta) at the given delta, epsilon rounded outward.

    ``width``: how far apart the two ends of a profile's epsilon may be.

    ``lower`` is set where the conversion is exact and the premise attained.
    Errors: Unsupported while the guarantee or delta still holds free symbols, or for a calculus
    without a conversion; InvalidParameter for delta outside [0, 1).
    """
    delta = exact(delta, "delta")
    probability(delta, "delta")
    calculus = CALCULI.get(step.calculus)
    if calculus is None or calculus.measure.to_approx is None:
        names = ", ".join(CALCULI)
        raise Unsupported(f"{step.calculus}: no conversion to (epsilon, delta); use {names}")
    require_numbers(step, delta)
    result = calculus.measure.to_approx(step, delta, width)
    own_ends = calculus.laws is not None and not calculus.laws.attained
    reached = result.epsilon_lower if step.attained or own_ends else None
    return Step(
        calculus="approx",
        rule=f"convert.{step.calculus}_to_approx",
        cite=calculus.measure.to_approx_cite or BALLE_WANG,
        node=step.node,
        value=(result.epsilon_upper, delta),
        attained=reached is not None,
        premises=(step,),
        in_one_part=step.in_one_part,
        witness=result.witness,
        lower=reached,
    )


def gaussian_mu(epsilon: object, delta: object) -> Fraction:
    """The largest mu, rounded down to 12 digits, for which mu-GDP is (epsilon, delta)-DP.

    Errors: InvalidParameter unless epsilon >= 0 and 0 < delta < 1, both numbers; Unsupported at
    delta = 0, or where epsilon and delta are too small to tell mu from 0.
    Source: Balle and Wang 2018, Theorem 8.
    """
    at, allowed = exact(epsilon, "epsilon"), exact(delta, "delta")
    non_negative(at, "epsilon")
    probability(allowed, "delta")
    if allowed == 0:
        raise Unsupported("gaussian_mu at delta = 0: no Gaussian noise is purely private")
    if unknowns(at) or unknowns(allowed):
        raise InvalidParameter(f"gaussian_mu({at}, {allowed}): expected numbers, not symbols")
    with working_precision():
        e, d = enclose(at), enclose(allowed)
        crossing = _crossing(lambda mu: not gaussian_delta(e, _dyadic(mu)) <= d)
    if crossing is None or crossing[0] == 0:
        raise Unsupported(f"gaussian_mu({at}, {allowed}): no mu was found; choose other values")
    return Fraction(decimal_lower(crossing[0]))

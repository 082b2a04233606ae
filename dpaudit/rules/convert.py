"""Conversions to (epsilon, delta): rules whose witness lets a checker confirm them in one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.arithmetic import (
    Number,
    canonical,
    decimal_lower,
    decimal_upper,
    enclose,
    infinity,
    is_infinite,
    is_symbolic,
    upper_fraction,
    working_precision,
)
from dpaudit.calculus import Source, Step
from dpaudit.errors import Unsupported
from dpaudit.rules.rdp import order

BALLE_WANG = Source("Balle, Wang", 2018, "Theorem 8; exact for mu-GDP: Dong, Roth, Su 2022, Cor. 1")
RENYI_TO_DP = Source("Canonne, Kamath, Steinke", 2020, "Proposition 12")
MONOTONE = Source("Dwork, Roth", 2014, "Definition 2.4 ((epsilon, delta) is monotone in delta)")


def gaussian_delta(epsilon: Any, mu: Any) -> Any:
    """Ball around Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2), for mu > 0."""
    return normal_cdf(mu / 2 - epsilon / mu) - epsilon.exp() * normal_cdf(-mu / 2 - epsilon / mu)


def normal_cdf(x: Any) -> Any:
    """Ball around the standard normal distribution function, accurate in the lower tail."""
    import flint

    return (-x / flint.arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True)
class Converted:
    """A conversion's result: epsilon rounded outward, a lower end where the bound is exact."""

    epsilon_upper: Number
    epsilon_lower: Fraction | None
    witness: dict[str, str]


def _numeric(step: Step) -> None:
    values = step.value if isinstance(step.value, tuple) else (step.value,)
    free = set().union(*(v.free_symbols for v in values if is_symbolic(v))) - {order()}
    if free:
        names = ", ".join(sorted(map(str, free)))
        raise Unsupported(f"{step.node.head}: a number was asked for while {names} have no value")


def from_gdp(step: Step, delta: Fraction) -> Converted:
    """Smallest epsilon with gaussian_delta(epsilon, mu) <= delta, in a bracket of 12 digits."""
    if is_infinite(step.value) or (delta == 0 and step.value != 0):
        return Converted(infinity(), None, {})
    if step.value == 0:
        return Converted(Fraction(0), Fraction(0), {"epsilon": "0"})
    with working_precision():
        lower, upper = _bracket(enclose(step.value), enclose(delta))
        upper_text, lower_text = decimal_upper(upper), decimal_lower(lower)
    return Converted(Fraction(upper_text), Fraction(lower_text), {"epsilon": upper_text})


def _bracket(mu: Any, delta: Any) -> tuple[Fraction, Fraction]:
    """Dyadic ends with delta(lower) >= delta certainly (or lower = 0) and delta(upper) <= delta."""

    def below(epsilon: Fraction) -> bool:
        return bool(gaussian_delta(_dyadic(epsilon), mu) <= delta)

    if below(Fraction(0)):
        return Fraction(0), Fraction(0)
    high = Fraction(1)
    while not below(high):
        high *= 2
    low, known = Fraction(0), Fraction(0)
    for _ in range(80):
        middle = (low + high) / 2
        if below(middle):
            high = middle
        else:
            low = middle
            if gaussian_delta(_dyadic(middle), mu) >= delta:
                known = middle
    return known, high


def _dyadic(value: Fraction) -> Any:
    import flint

    return flint.arb(value.numerator) / flint.arb(value.denominator)


def renyi_epsilon(curve_at_order: Any, alpha: Any, delta: Any) -> Any:
    """Ball: D_alpha + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1)."""
    return curve_at_order + (1 - 1 / alpha).log() - (delta.log() + alpha.log()) / (alpha - 1)


def _from_curve(curve: Callable[[Any], Any], delta: Fraction) -> Converted:
    if delta == 0:
        return Converted(infinity(), None, {})
    with working_precision():
        bound = enclose(delta)
        alpha = _best_order(lambda a: float(renyi_epsilon(curve(a), _dyadic(a), bound).mid()))
        value = renyi_epsilon(curve(alpha), _dyadic(alpha), bound)
        upper = max(Fraction(decimal_upper(value)), Fraction(0)) if value.is_finite() else None
    if upper is None:
        return Converted(infinity(), None, {})
    return Converted(upper, None, {"order": f"{alpha.numerator}/{alpha.denominator}"})


def _best_order(objective: Callable[[Fraction], float]) -> Fraction:
    """A good order: golden-section search over log(order - 1); any order gives a valid bound."""
    import math

    golden = (math.sqrt(5) - 1) / 2
    low, high = math.log(1e-6), math.log(1e9)

    def at(x: float) -> Fraction:
        return 1 + Fraction(math.exp(x)).limit_denominator(10**6 if x > 0 else 10**12)

    while high - low > 1e-5:
        left, right = high - golden * (high - low), low + golden * (high - low)
        if objective(at(left)) <= objective(at(right)):
            high = right
        else:
            low = left
    return at((low + high) / 2)


def from_zcdp(step: Step, delta: Fraction) -> Converted:
    """Renyi conversion of the line rho * alpha at the best order."""
    if is_infinite(step.value):
        return Converted(infinity(), None, {})
    rho = enclose(step.value)
    return _from_curve(lambda alpha: rho * _dyadic(alpha), delta)


def from_rdp(step: Step, delta: Fraction) -> Converted:
    """Renyi conversion of the curve at the best order."""
    if is_infinite(step.value):
        return Converted(infinity(), None, {})
    return _from_curve(lambda alpha: enclose(step.value, {order(): _dyadic(alpha)}), delta)


def from_pure(step: Step, delta: Fraction) -> Converted:
    """epsilon-DP is (epsilon, delta)-DP for every delta >= 0."""
    return Converted(_rounded(step.value), None, {})


def from_approx(step: Step, delta: Fraction) -> Converted:
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
    return Fraction(decimal_upper(value))


CONVERSIONS: dict[str, tuple[Callable[[Step, Fraction], Converted], Source]] = {
    "gdp": (from_gdp, BALLE_WANG),
    "pure": (from_pure, MONOTONE),
    "approx": (from_approx, MONOTONE),
    "rdp": (from_rdp, RENYI_TO_DP),
    "zcdp": (from_zcdp, RENYI_TO_DP),
}


def to_approx(step: Step, delta: Fraction) -> Step:
    """The step's guarantee as (epsilon, delta) at the given delta, epsilon rounded outward.

    ``lower`` is set where the conversion is exact and the premise attained.
    Errors: Unsupported while the guarantee still holds free symbols.
    """
    _numeric(step)
    convert, cite = CONVERSIONS[step.calculus]
    result = convert(step, delta)
    exact = step.attained and result.epsilon_lower is not None
    return Step(
        calculus="approx",
        rule=f"convert.{step.calculus}_to_approx",
        cite=cite,
        node=step.node,
        value=(result.epsilon_upper, delta),
        attained=exact,
        premises=(step,),
        in_one_part=step.in_one_part,
        witness=result.witness,
        lower=result.epsilon_lower if exact else None,
    )


def delta_upper(step: Step, epsilon: Fraction) -> str | None:
    """An upper bound of delta at epsilon from a gdp step, as a decimal string; None otherwise."""
    if step.calculus != "gdp" or is_infinite(step.value):
        return None
    if step.value == 0:
        return "0"
    with working_precision():
        ball = gaussian_delta(_dyadic(epsilon), _dyadic(_above(step.value)))
        return "0" if ball <= 0 else decimal_upper(ball)


def tradeoff_lower(mu: Number, alpha: Fraction) -> str:
    """A lower bound of the false-negative rate Phi(Phi^{-1}(1 - alpha) - mu), as a decimal."""
    import flint

    with working_precision():
        quantile = flint.arb(2).sqrt() * (1 - 2 * _dyadic(alpha)).erfinv()
        ball = normal_cdf(quantile - _dyadic(_above(mu)))
        return "0" if not ball > 0 else decimal_lower(ball)


def _above(value: Number) -> Fraction:
    found = upper_fraction(enclose(value))
    assert found is not None
    return found


def gaussian_mu(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest mu, rounded down to 12 digits, for which mu-GDP is (epsilon, delta)-DP.

    delta > 0.  Source: Balle and Wang 2018, Theorem 8.
    """
    if delta <= 0:
        raise Unsupported("gaussian_mu at delta = 0: no Gaussian noise is purely private")
    with working_precision():
        target, at = _dyadic(delta), _dyadic(epsilon)
        low, high = Fraction(0), Fraction(1)
        while gaussian_delta(at, _dyadic(high)) <= target:
            low, high = high, 2 * high
        for _ in range(80):
            middle = (low + high) / 2
            inside = gaussian_delta(at, _dyadic(middle)) <= target
            low, high = (middle, high) if inside else (low, middle)
        return Fraction(decimal_lower(low))

"""Conversions at random points: brackets, monotonicity, and inverses of each other."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import ZCDP
from dpaudit.measures.convert import gaussian_mu, to_approx
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.sides import delta_sides
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "client", "federated", "output")
mus = st.floats(1e-3, 100).map(lambda v: Fraction(repr(v)))
deltas = st.floats(-100, -0.5).map(lambda v: Fraction(repr(10**v)))
epsilons = st.floats(1e-3, 50).map(lambda v: Fraction(repr(v)))


def delta_of(epsilon: Fraction, mu: Fraction) -> Any:
    e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
    m = mpmath.mpf(mu.numerator) / mu.denominator
    root = mpmath.sqrt(2)
    first, second = mpmath.erfc((e / m - m / 2) / root), mpmath.erfc((e / m + m / 2) / root)
    return (first - mpmath.exp(e) * second) / 2


def ratio(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def gaussian_epsilon(mu: Fraction, delta: Fraction) -> Any:
    return to_approx(GAUSSIAN.fold(Gaussian("a", 1 / mu), SCOPE), delta)


@settings(max_examples=50)
@given(mus, deltas)
def test_the_exact_conversion_brackets_the_truth(mu: Fraction, delta: Fraction) -> None:
    step = gaussian_epsilon(mu, delta)
    upper, lower = step.value[0], step.reached
    with mpmath.workdps(100):
        assert delta_of(upper, mu) <= ratio(delta)
        assert lower == 0 or delta_of(lower, mu) >= ratio(delta)
    assert upper - lower <= upper * Fraction(2, 10**11) + Fraction(1, 10**20)


@settings(max_examples=25)
@given(mus, mus, deltas, deltas)
def test_epsilon_is_monotone(a: Fraction, b: Fraction, c: Fraction, d: Fraction) -> None:
    small, large = sorted((a, b))
    loose, strict = max(c, d), min(c, d)
    assert gaussian_epsilon(small, loose).value[0] <= gaussian_epsilon(large, strict).value[0]
    for node in (Laplace("l", 1 / large), ZCDP(large)):
        step = CONCENTRATED.fold(node, SCOPE)
        assert to_approx(step, loose).value[0] <= to_approx(step, strict).value[0] + Fraction(
            1, 10**6
        )


@settings(max_examples=25)
@given(mus, deltas)
def test_the_renyi_route_is_never_below_the_exact_one(mu: Fraction, delta: Fraction) -> None:
    node = Repeat(Gaussian("a", 2 / mu), 4)
    exact = gaussian_epsilon(mu, delta).value[0]
    for calculus in (CONCENTRATED, RENYI):
        assert to_approx(calculus.fold(node, SCOPE), delta).value[0] >= exact


@settings(max_examples=25)
@given(epsilons, deltas)
def test_calibration_inverts_the_conversion(epsilon: Fraction, delta: Fraction) -> None:
    mu = gaussian_mu(epsilon, delta)
    assume(mu > Fraction(1, 10**6))
    with mpmath.workdps(150):
        assert delta_of(epsilon, mu) <= ratio(delta)
        assert delta_of(epsilon, mu * (1 + Fraction(1, 10**11))) > ratio(delta)
    found = gaussian_epsilon(mu, delta)
    assert found.reached <= epsilon
    bound = delta_sides(GAUSSIAN.fold(Gaussian("a", 1 / mu), SCOPE), epsilon)[1]
    assert bound <= delta * (1 + Fraction(1, 10**10))


@pytest.mark.quality
@settings(max_examples=30)
@given(st.lists(st.floats(0.2, 20), min_size=1, max_size=5))
def test_the_renyi_curve_of_laplace_noise_ends_at_the_pure_loss(scales: list[float]) -> None:
    """D_alpha grows to D_infinity, the largest loss."""
    node = Compose(*(Laplace("l", b) for b in scales))
    pure = PURE.fold(node, SCOPE).value
    assert pure == sum(1 / Fraction(repr(b)) for b in scales)
    curve = RENYI.fold(node, SCOPE).value
    steep = curve.subs(sympy.Symbol("alpha", positive=True), 10**6)
    assert sympy.N(steep, 30) <= pure
    assert float(sympy.N(steep, 30)) >= float(pure) * (1 - 1e-4)

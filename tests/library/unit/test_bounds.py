"""Two-sided answers of an account: epsilon, delta, trade-off, advantage."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from scipy.stats import norm

from dpaudit.accountant.account import account
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import is_infinite
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.iterates import SampledLastIterate
from dpaudit.families.opaque import ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "record", "central", "transcript")
SGD = Repeat(PoissonSampled(Gaussian("g", 1), Fraction(1, 100)), 1000)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, Theorem 8."""
    upper = norm.cdf(mu / 2 - epsilon / mu)
    return float(upper - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("epsilon", [0, 0.5, 3])
def test_gaussian_delta_is_exact_on_both_sides(epsilon: float) -> None:
    bound = account(Gaussian("a", 2), SCOPE).delta(epsilon)
    exact = gaussian_delta(epsilon, 0.5)
    assert bound.lower <= bound.upper
    assert float(bound.lower) == pytest.approx(exact, rel=1e-9)
    assert float(bound.upper) == pytest.approx(exact, rel=1e-9)
    assert bound.lower_method == bound.upper_method == "gdp"


@pytest.mark.parametrize("alpha", [0, 0.001, 0.25, 0.5, 1])
def test_gaussian_tradeoff_is_exact_on_both_sides(alpha: float) -> None:
    bound = account(Gaussian("a", 2), SCOPE).tradeoff(alpha)
    exact = norm.cdf(norm.isf(alpha) - 0.5)
    assert float(bound.lower) == pytest.approx(exact, abs=1e-9)
    assert float(bound.upper) == pytest.approx(exact, abs=1e-9)
    assert bound.lower <= bound.upper


def test_laplace_has_closed_forms() -> None:
    """delta(e) = 1 - exp((e - 1/b)/2); its total variation is 1 - exp(-1/(2b))."""
    opened = account(Laplace("a", 2), SCOPE)
    assert float(opened.delta(Fraction(1, 4)).upper) == pytest.approx(1 - math.exp(-1 / 8))
    assert float(opened.advantage().upper) == pytest.approx(1 - math.exp(-1 / 4))
    assert opened.delta(Fraction(1, 2)).upper == 0
    at = opened.tradeoff(Fraction(1, 4))
    exact = 1 - math.exp(1 / 2) / 4
    assert float(at.lower) == pytest.approx(exact, rel=1e-6)
    assert at.lower <= at.upper
    assert float(at.upper) == pytest.approx(exact, abs=1e-4)


def test_answers_of_a_sampled_composition_agree() -> None:
    opened = account(SGD, SCOPE)
    epsilon = opened.epsilon(1e-5)
    assert 0 < epsilon.width <= 1e-4
    around = opened.delta(epsilon.upper)
    assert 0 < around.lower <= around.upper <= Fraction(1001, 10**8)
    assert float(around.lower) == pytest.approx(1e-5, rel=1e-3)
    advantage = opened.advantage()
    assert 0 < advantage.lower <= advantage.upper < Fraction(1, 2)
    assert float(advantage.upper - advantage.lower) < 1e-3
    tradeoff = opened.tradeoff(Fraction(1, 10))
    assert 0 < tradeoff.lower <= tradeoff.upper <= Fraction(9, 10)
    assert float(tradeoff.upper - tradeoff.lower) < 1e-3
    assert float(tradeoff.lower) >= 1 - 0.1 - float(advantage.upper)


def test_a_hundred_laplaces_at_delta_zero_are_exactly_ten() -> None:
    bound = account(Repeat(Laplace("a", 10), 100), SCOPE).epsilon(0)
    assert (bound.lower, bound.upper) == (10, 10)


def test_an_opaque_leaf_has_no_lower_end() -> None:
    bound = account(PureDP(1), SCOPE).epsilon(1e-5)
    assert (bound.lower, bound.lower_method) == (0, "none")
    assert bound.upper <= 1


@pytest.mark.quality
def test_mixed_declarations_compose() -> None:
    parts = Gaussian("a", 2), Laplace("b", 1), ZCDP(Fraction(1, 10)), ApproxDP(0.1, 1e-7)
    whole = account(Compose(*parts), SCOPE).epsilon(1e-5)
    assert whole.upper_method == "convert.profile_to_approx"
    for part in parts[:3]:
        assert account(part, SCOPE).epsilon(1e-5).lower <= whole.upper
    assert 0 < whole.lower < whole.upper < 8


def test_what_tells_all_is_infinite() -> None:
    opened = account(Compose(Gaussian("a", 1), NonPrivate("raw")), SCOPE)
    assert is_infinite(opened.epsilon(1e-5).upper)
    assert opened.delta(1).upper == 1
    assert opened.tradeoff(Fraction(1, 2)).lower == 0


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "one", None, True])
def test_arguments_outside_their_domain_are_refused(bad: Any) -> None:
    opened = account(SGD, SCOPE)
    for ask in (opened.epsilon, opened.delta, opened.tradeoff):
        with pytest.raises(InvalidParameter):
            ask(bad)
    with pytest.raises(InvalidParameter, match="alpha"):
        opened.tradeoff(2)
    with pytest.raises(InvalidParameter, match="width"):
        account(SGD, SCOPE, width=0)


@pytest.mark.first_case
@pytest.mark.parametrize("node", [Gaussian("a", 1), SGD, Compose(Laplace("a", 1), PureDP(1))])
def test_deltas_fall_and_epsilons_rise(node: Node) -> None:
    opened = account(node, SCOPE)
    deltas = [opened.delta(e).upper for e in (0, 1, 2, 4)]
    assert deltas == sorted(deltas, reverse=True)
    epsilons = [opened.epsilon(d).upper for d in (0.1, 1e-3, 1e-6, 1e-9)]
    assert epsilons == sorted(epsilons)


def test_no_route_is_named() -> None:
    scope = SCOPE.under("replace_one")
    node = SampledLastIterate("w", noise_multiplier=4, steps=10, rate="0.1")
    with pytest.raises(Unsupported, match="SampledLastIterate"):
        account(node, scope).epsilon(1e-5)

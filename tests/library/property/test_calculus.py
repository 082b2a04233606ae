"""Random declarations: independent folds, late or early binding, monotonicity, attainment."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

from dpaudit.accountant.account import Account
from dpaudit.exact import enclose, is_infinite, sympify
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.opaque import NonPrivate, PureDP
from dpaudit.measures.approx import APPROX
from dpaudit.measures.convert import to_approx
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("zero_out", "user", "central", "transcript")
x, y = sympy.symbols("x y", positive=True)
noises = st.fractions(min_value=Fraction(1, 5), max_value=50, max_denominator=50)
small = st.fractions(min_value=Fraction(1, 2), max_value=4, max_denominator=10)


def trees(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda nodes: Compose(*nodes)),
            st.lists(inner, min_size=1, max_size=3).map(lambda nodes: Parallel(*nodes)),
            st.builds(Repeat, inner, st.integers(0, 20)),
        ),
        max_leaves=6,
    )


gaussians = trees(st.builds(Gaussian, st.just("g"), noises))
laplaces = trees(st.builds(Laplace, st.just("l"), noises))
symbols = trees(st.builds(Gaussian, st.just("s"), st.sampled_from([x, 2 * y, x + y, x * y])))
mixed = trees(
    st.one_of(
        st.builds(Gaussian, st.just("g"), small),
        st.builds(Laplace, st.just("l"), small),
        st.builds(PureDP, small),
    )
)


def spend(node: Node, leaf: Any) -> Fraction:
    """The additive fold, written out a second time."""
    if isinstance(node, Compose):
        return sum((spend(c, leaf) for c in node.children), Fraction(0))
    if isinstance(node, Parallel):
        return max(spend(c, leaf) for c in node.children)
    if isinstance(node, Repeat):
        return spend(node.child, leaf) * int(node.times)
    return Fraction(leaf(node))


@settings(max_examples=60)
@given(gaussians)
def test_gaussian_trees_in_three_calculi(node: Node) -> None:
    rho = spend(node, lambda n: 1 / (2 * n.noise_multiplier**2))
    assert CONCENTRATED.fold(node, SCOPE).value == rho
    assert sympify(GAUSSIAN.fold(node, SCOPE).value) ** 2 == sympify(2 * rho)
    assert sympify(RENYI.fold(node, SCOPE).value) == sympify(rho) * order()


@settings(max_examples=60)
@given(laplaces)
def test_laplace_trees_in_two_calculi(node: Node) -> None:
    epsilon = spend(node, lambda n: 1 / n.noise_multiplier)
    assert PURE.fold(node, SCOPE).value == epsilon
    assert APPROX.fold(node, SCOPE).value == (epsilon, 0)


@settings(max_examples=25)
@given(symbols, small, small)
def test_binding_before_or_after_the_fold_is_the_same(node: Node, a: Any, b: Any) -> None:
    values = {x: a, y: b}
    balls = {s: enclose(v) for s, v in values.items()}
    for calculus in (CONCENTRATED, GAUSSIAN):
        late = enclose(calculus.fold(node, SCOPE).value, balls)
        assert late.overlaps(enclose(calculus.fold(node.bind(values), SCOPE).value))


@settings(max_examples=15)
@given(mixed, small)
def test_one_more_release_never_costs_less(node: Node, noise: Fraction) -> None:
    more = Compose(node, Laplace("more", noise))
    for calculus in (CONCENTRATED, GAUSSIAN):
        before, after = (enclose(calculus.fold(n, SCOPE).value) for n in (node, more))
        assert after > before
        assert calculus.fold(more, SCOPE).attained is False


@settings(max_examples=12)
@given(mixed, st.sampled_from([1e-2, 1e-5, 1e-9]))
def test_the_account_is_the_best_route_and_no_route_is_below_the_truth(
    node: Node, delta: float
) -> None:
    """The exact epsilon of the Gaussian part alone is a lower bound for every route."""
    account = Account(node, SCOPE)
    best = account.approximate(delta)
    assert best.value[1] == Fraction(str(delta))
    values = [_epsilon(account, name, Fraction(str(delta))) for name in account.routes()]
    assert best.value[0] == min(values)
    assert best.value[0] >= _reached(node, delta) - 1e-9


def _epsilon(account: Account, route: str, delta: Fraction) -> Any:
    value = to_approx(account.step(route), delta).value[0]
    return math.inf if is_infinite(value) else value


def _reached(node: Node, delta: float) -> float:
    """Epsilon at delta of the Gaussian leaves on one path of parts: some data reach it."""
    rho = _gaussian_part(node)
    mu = math.sqrt(2 * float(rho))
    if mu == 0:
        return 0.0

    def excess(e: float) -> float:
        return float(ndtr(mu / 2 - e / mu) - math.exp(e) * ndtr(-mu / 2 - e / mu)) - delta

    return 0.0 if excess(0) <= 0 else float(brentq(excess, 0, mu * (mu / 2 + 8), xtol=1e-12))


def _gaussian_part(node: Node) -> Fraction:
    leaf: Any = node
    if isinstance(node, Gaussian):
        return 1 / (2 * leaf.noise_multiplier**2)
    if isinstance(node, Compose):
        return sum((_gaussian_part(c) for c in node.children), Fraction(0))
    if isinstance(node, Parallel):
        return _gaussian_part(node.children[0])
    if isinstance(node, Repeat):
        return _gaussian_part(node.child) * int(node.times)
    return Fraction(0)


@settings(max_examples=30)
@given(gaussians, st.randoms(use_true_random=False))
def test_one_access_without_noise_spoils_everything(node: Node, random: Any) -> None:
    spoiled = random.choice([Compose, Parallel])(node, NonPrivate("raw"))
    for calculus in (CONCENTRATED, GAUSSIAN, RENYI):
        step = calculus.fold(spoiled, SCOPE)
        assert is_infinite(step.value)
        assert not step.attained


@pytest.mark.quality
def test_three_thousand_leaves_are_quick() -> None:
    """Numbers with thousands of digits are neither factored nor printed."""
    start = time.process_time()
    node = Compose(*(Gaussian("a", Fraction(1000 + 7 * i, 999)) for i in range(3000)))
    truth = math.fsum((999 / (1000 + 7 * i)) ** 2 for i in range(3000))
    value = GAUSSIAN.fold(node, SCOPE).value
    assert float(enclose(value).mid()) == pytest.approx(math.sqrt(truth), rel=1e-12)
    epsilon = Account(node, SCOPE).approximate(1e-5)
    assert epsilon.attained
    assert len(str(epsilon.node.head)) < 100
    assert time.process_time() - start < 10

"""Small mechanisms, enumerated: every bound holds, and some mechanism comes close to it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from scipy import stats

from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel
from dpaudit.families.events import EventSlack, Group, ProposeTestRelease
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.measures.approx import APPROX
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, LaplaceShift, Largest, Losses, Normal, Pair, Product
from dpaudit.scope import Scope

SCOPE = Scope("replace_one", "record", "central", "output")
EPSILONS = (0.0, 0.2, 0.5, 0.9, 1.0, 1.3, 2.0, 3.0)
Law = dict[Any, float]


def number(value: Any) -> float:
    return float(enclose(value).mid())


def delta(p: Law, q: Law, epsilon: float) -> float:
    """The hockey-stick divergence of two laws on finitely many outcomes."""
    keys = {*p, *q}
    return math.fsum(max(0.0, p.get(k, 0.0) - math.exp(epsilon) * q.get(k, 0.0)) for k in keys)


def both(p: Law, q: Law, epsilon: float) -> float:
    return max(delta(p, q, epsilon), delta(q, p, epsilon))


def response(bit: int, epsilon: float) -> Law:
    high = 1 / (1 + math.exp(-epsilon))
    return {bit: high, 1 - bit: 1 - high}


def total_variation(p: Law, q: Law) -> float:
    return delta(p, q, 0.0)


def approx(node: Node) -> tuple[float, float]:
    epsilon, found = APPROX.fold(node, SCOPE).value
    return number(epsilon), number(found)


def profile(node: Node, epsilon: float) -> float:
    """The upper bound of delta from the pairs, by enumeration of their outcomes."""
    losses: Losses = PROFILE.fold(node, SCOPE).value
    largest = max(of_pair(pair, epsilon) for pair in (*losses.remove, *losses.add))
    return largest + (1 + math.exp(epsilon)) * number(losses.slack)


def of_pair(pair: Pair, epsilon: float) -> float:
    if isinstance(pair, Largest):
        return max(of_pair(inner, epsilon) for inner in pair.pairs)
    laws = [_law(factor) for factor, times in pair.factors for _ in range(int(times))]
    products = itertools.product(*laws)
    outcomes = [(math.prod(p for p, _ in row), math.prod(q for _, q in row)) for row in products]
    return math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in outcomes)


def _law(pair: Pair) -> list[tuple[float, float]]:
    assert isinstance(pair, Atoms)
    return [(number(p), number(q)) for p, q in pair.outcomes]


# --- noise events --------------------------------------------------------------------------------

EVENT = 0.01


def failing(bit: int, epsilon: float, probability: float) -> Law:
    """Randomised response that tells the bit inside an event of this probability."""
    inside = {f"told {bit}": probability}
    return inside | {k: (1 - probability) * v for k, v in response(bit, epsilon).items()}


def moved(law: Law, source: Any, target: Any, mass: float) -> Law:
    """The law with some mass moved: at that distance in total variation."""
    return {**law, source: law[source] - mass, target: law.get(target, 0.0) + mass}


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_an_event_that_tells_all_is_within_its_slack(epsilon: float) -> None:
    laws = [failing(bit, epsilon, EVENT) for bit in (0, 1)]
    node = EventSlack(PureDP(epsilon), EVENT, "tells the bit")
    clean = [response(bit, epsilon) for bit in (0, 1)]
    assert all(total_variation(a, b) <= EVENT + 1e-15 for a, b in zip(laws, clean, strict=True))
    own, slack = approx(node)
    assert both(*laws, own) <= slack
    assert all(both(*laws, x) <= profile(node, x) + 1e-15 for x in EPSILONS)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_the_slack_of_an_event_is_reached(epsilon: float) -> None:
    """Mass enters the set on one side and leaves it on the other: delta + (1 + e^epsilon) p."""
    first, second = (response(bit, epsilon) for bit in (0, 1))
    p, q = moved(first, 1, 0, EVENT), moved(second, 0, 1, EVENT)
    assert total_variation(p, first) == pytest.approx(EVENT)
    assert total_variation(q, second) == pytest.approx(EVENT)
    node = EventSlack(PureDP(epsilon), EVENT, "adversarial")
    own, slack = approx(node)
    assert delta(p, q, own) == pytest.approx(slack, rel=1e-12)
    for x in EPSILONS:
        assert delta(p, q, x) <= profile(node, x) + 1e-15
        if x < epsilon:
            assert delta(p, q, x) == pytest.approx(profile(node, x), rel=1e-12)


def test_two_runs_with_events_are_within_twice_the_slack() -> None:
    epsilon = 0.4
    laws = [failing(bit, epsilon, EVENT) for bit in (0, 1)]
    runs = [{(a, b): law[a] * law[b] for a in law for b in law} for law in laws]
    node = EventSlack(PureDP(epsilon), EVENT, "tells the bit")
    own, slack = approx(Compose(node, node))
    assert both(*runs, own) <= slack
    assert all(both(*runs, x) <= profile(Compose(node, node), x) for x in EPSILONS)
    assert both(*runs, own) > slack / 4


# --- propose, test, release ----------------------------------------------------------------------

BAR, HALF_WIDTH, RELEASE = 3, 4, 0.7


def truncated(epsilon: float) -> dict[int, float]:
    """Discrete Laplace noise on -4..4."""
    weights = {j: math.exp(-epsilon * abs(j)) for j in range(-HALF_WIDTH, HALF_WIDTH + 1)}
    total = sum(weights.values())
    return {j: w / total for j, w in weights.items()}


def outcome(score: int, bit: int, near_stable: bool, test: float, threshold: int) -> Law:
    """Passes where score + noise >= threshold; then tells all but beside a stable data set."""
    passes = sum(w for j, w in truncated(test).items() if score + j >= threshold)
    inner = response(bit, RELEASE) if near_stable else {f"told {bit}": 1.0}
    return {"bottom": 1 - passes, **{k: passes * v for k, v in inner.items()}}


def neighbours(threshold: int, test: float) -> list[tuple[Law, Law]]:
    """Every pair of scores that differ by one at most, the bit changed."""
    return [
        (
            outcome(s, 0, max(s, t) >= BAR, test, threshold),
            outcome(t, 1, max(s, t) >= BAR, test, threshold),
        )
        for s, t in itertools.product(range(8), repeat=2)
        if abs(s - t) <= 1
    ]


@pytest.mark.parametrize("test", [0.5, 1.0])
@pytest.mark.parametrize("threshold", [4, 5, 6])
def test_propose_test_release_holds_for_every_pair_of_scores(threshold: int, test: float) -> None:
    noise = truncated(test)
    unstable = sum(w for j, w in noise.items() if BAR - 1 + j >= threshold)
    # The noise itself is (test, its last mass)-DP between scores one apart.
    node = ProposeTestRelease(ApproxDP(test, noise[HALF_WIDTH]), PureDP(RELEASE), unstable)
    own, bound = approx(node)
    laws = neighbours(threshold, test)
    assert max(both(p, q, own) for p, q in laws) <= bound + 1e-15
    for x in EPSILONS:
        assert max(both(p, q, x) for p, q in laws) <= profile(node, x) + 1e-12


@pytest.mark.parametrize("threshold", [4, 5])
def test_a_false_pass_is_reached(threshold: int) -> None:
    """Just below the bar on both sides, all is told with that probability, at every epsilon."""
    noise = truncated(0.5)
    unstable = sum(w for j, w in noise.items() if BAR - 1 + j >= threshold)
    p, q = (outcome(BAR - 1, bit, False, 0.5, threshold) for bit in (0, 1))
    node = ProposeTestRelease(ApproxDP(0.5, noise[HALF_WIDTH]), PureDP(RELEASE), unstable)
    for x in (1.3, 2.0, 5.0):
        assert delta(p, q, x) == pytest.approx(unstable, rel=1e-12)
        assert profile(node, x) == pytest.approx(unstable, rel=1e-9)


# --- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_of_responders_reach_the_bound(size: int) -> None:
    """Each record answers for itself: k of them together reach k epsilon."""
    epsilon = 0.4
    p: Law = {(): 1.0}
    q: Law = {(): 1.0}
    for _ in range(size):
        p = {(*k, a): v * w for k, v in p.items() for a, w in response(0, epsilon).items()}
        q = {(*k, a): v * w for k, v in q.items() for a, w in response(1, epsilon).items()}
    node = Group(PureDP(Fraction(2, 5)), size)
    bound = number(PURE.fold(node, SCOPE).value)
    assert max(math.log(p[k] / q[k]) for k in p) == pytest.approx(bound, rel=1e-12)
    assert all(delta(p, q, x) <= profile(node, x) + 1e-15 for x in EPSILONS)
    assert delta(p, q, 0.9 * bound) > profile(node, 0.9 * bound) / 16


@pytest.mark.parametrize("size", [2, 4, 7])
@pytest.mark.parametrize(("epsilon", "slack"), [(0.2, 1e-3), (0.0, 1e-2), (0.5, 1e-4)])
def test_the_delta_of_a_group_is_reached(size: int, epsilon: float, slack: float) -> None:
    """The probability of one outcome grows as fast as (epsilon, delta) lets it, from 0."""
    chance = [0.0]
    for _ in range(size):
        chance.append(math.exp(epsilon) * chance[-1] + slack)
    laws = [{"tell": c, "quiet": 1 - c} for c in chance]
    assert chance[-1] < 0.3
    for p, q in itertools.pairwise(laws):
        assert both(p, q, epsilon) <= slack + 1e-15
    own, bound = approx(Group(ApproxDP(epsilon, slack), size))
    assert own == pytest.approx(size * epsilon)
    assert delta(laws[-1], laws[0], own) == pytest.approx(bound, rel=1e-9)


GRID = np.linspace(-60, 60, 240_001)


def continuous(p: Any, q: Any, epsilon: float) -> float:
    return float(np.trapezoid(np.maximum(p(GRID) - math.exp(epsilon) * q(GRID), 0), GRID))


def in_closed_form(pair: Pair, epsilon: float) -> float:
    if isinstance(pair, Normal):
        mu = number(pair.mu)
        cdf = stats.norm.cdf
        return float(cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu))
    assert isinstance(pair, LaplaceShift)
    return max(0.0, -math.expm1((epsilon - number(pair.epsilon)) / 2))


@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.parametrize(
    ("leaf", "law"), [(Gaussian("a", 2), stats.norm), (Laplace("a", 2), stats.laplace)]
)
def test_a_group_has_the_exact_profile_of_its_whole_shift(leaf: Node, law: Any, size: int) -> None:
    """A sum moved by k sensitivities under noise of multiplier 2, integrated on a grid."""
    node = Group(leaf, size)
    losses: Losses = PROFILE.fold(node, SCOPE).value
    (pair,) = losses.remove
    for x in (0.0, 0.3, 1.0, 2.5):
        truth = continuous(law(size / 2).pdf, law(0).pdf, x)
        assert in_closed_form(pair, x) == pytest.approx(truth, abs=1e-6)
        assert in_closed_form(losses.reached_add[0], x) == pytest.approx(truth, abs=1e-6)


@pytest.mark.first_case
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("alpha", [1.5, 2, 3, 8])
def test_the_renyi_bound_of_a_group_is_above_the_truth(size: int, alpha: float) -> None:
    """Laplace and Gaussian together, moved by k sensitivities each: their exact divergences."""
    node = Group(Compose(Laplace("a", 2), Gaussian("b", 3)), size)
    curve = sympy.sympify(RENYI.fold(node, SCOPE).value)
    bound = number(curve.subs(order(), sympy.Rational(str(alpha))))
    e, mu = size / 2, size / 3
    share = alpha / (2 * alpha - 1)
    moments = share * math.exp((alpha - 1) * e) + (1 - share) * math.exp(-alpha * e)
    truth = math.log(moments) / (alpha - 1) + alpha * mu**2 / 2
    assert bound >= truth
    exact = RENYI.fold(Compose(Group(Laplace("a", 2), size), Group(Gaussian("b", 3), size)), SCOPE)
    value = sympy.sympify(exact.value).subs(order(), sympy.Rational(str(alpha)))
    assert number(value) == pytest.approx(truth, rel=1e-12)


def test_a_group_spread_over_parts_does_no_worse_than_in_one() -> None:
    """The rule for Gaussian parts: every split of 4 records over two parts, exactly."""
    worst = max(math.hypot(n / 2, (4 - n) / 3) for n in range(5))
    node = Group(Parallel(Gaussian("a", 2), Gaussian("b", 3)), 4)
    assert number(GAUSSIAN.fold(node, SCOPE).value) == pytest.approx(worst)


def _products(pairs: Sequence[Pair]) -> list[Product]:
    return [pair for pair in pairs if isinstance(pair, Product)]


def test_a_group_over_a_product_moves_every_factor() -> None:
    node = Group(Compose(Laplace("a", 2), Gaussian("b", 3)), 3)
    losses: Losses = PROFILE.fold(node, SCOPE).value
    (found,) = _products(losses.remove)
    assert set(found.parts) == {(LaplaceShift(Fraction(3, 2)), 1), (Normal(1), 1)}

"""Select and Filter: exact values, adaptive runs by enumeration and quadrature, the checker."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
import sympy
from scipy import integrate, stats

from dpaudit.accountant.account import Account
from dpaudit.check.derivation import own_bound
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.families.adaptive import Filter, FilterMeasure, Select, rules
from dpaudit.families.adaptive.node import measure_of
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.events import EventSlack
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiCurve
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Concentrated, LaplaceShift, Largest, Losses, Normal
from dpaudit.scope import Adjacency, Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
ALPHA = order()
z, rho = sympy.symbols("z rho", positive=True)
PLACEHOLDER = Gaussian("g", z)
GUARANTEES = [PureDP(1), ApproxDP(1, 1e-6), ZCDP(rho), RenyiCurve(ALPHA / 2), GDP(0.5)]


def pairs(node: Node) -> Losses:
    found = PROFILE.fold(node, SCOPE).value
    assert isinstance(found, Losses)
    return found


# --- Select --------------------------------------------------------------------------------------


def test_a_selection_is_the_largest_of_its_children() -> None:
    node = Select(Laplace("a", 2), Laplace("b", 1), Laplace("c", 5))
    assert PURE.fold(node, SCOPE).value == 1
    assert CONCENTRATED.fold(node, SCOPE).value == Fraction(1, 2)
    assert GAUSSIAN.fold(Select(Gaussian("a", z), Gaussian("b", 2)), SCOPE).value == sympy.Max(
        1 / z, sympy.Rational(1, 2)
    )
    assert APPROX.fold(Select(ApproxDP(1, 0.1), ApproxDP(2, 0.01)), SCOPE).value == (
        2,
        Fraction(1, 10),
    )
    curve = RENYI.fold(Select(RenyiCurve(ALPHA), RenyiCurve(ALPHA**2 / 4)), SCOPE).value
    assert [curve.subs(ALPHA, a) for a in (2, 4, 8)] == [2, 4, 16]


def test_attained_by_the_program_that_always_runs_the_largest() -> None:
    assert PURE.fold(Select(Laplace("a", 2), Laplace("b", 1)), SCOPE).attained
    assert not PURE.fold(Select(Laplace("a", 2), PureDP(1)), SCOPE).attained
    found = pairs(Select(Laplace("a", 2), Gaussian("b", 1)))
    assert set(found.reached_remove) == {LaplaceShift(Fraction(1, 2)), Normal(1)}


def test_a_selection_is_one_pair_as_every_round_may_choose_anew() -> None:
    node = Select(Laplace("a", 2), Gaussian("b", 1))
    (pair,) = pairs(node).remove
    assert isinstance(pair, Largest)
    assert len(pairs(Compose(node, node, node)).remove) == 1
    parts = pairs(Select(Parallel(Laplace("a", 2), Gaussian("b", 1)), Gaussian("c", 3)))
    assert parts.in_one_part
    assert len(parts.remove) == 1
    slack = Select(EventSlack(Laplace("a", 2), 1e-6, "x"), EventSlack(PureDP(1), 1e-5, "y"))
    assert pairs(slack).slack == Fraction(1, 10**5)


Outcomes = list[tuple[float, float]]


def response(epsilon: float) -> Outcomes:
    high = 1 / (1 + math.exp(-epsilon))
    return [(high, 1 - high), (1 - high, high)]


def delta(outcomes: Outcomes, epsilon: float) -> float:
    return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in outcomes)


def adaptive(first: Outcomes, then: tuple[Outcomes, Outcomes]) -> Outcomes:
    """The first answer chooses which mechanism answers next."""
    return [(p * a, q * b) for (p, q), next_ in zip(first, then, strict=True) for a, b in next_]


@pytest.mark.parametrize("choices", list(itertools.product([0.3, 1.1], repeat=2)))
def test_an_adaptive_choice_is_within_the_composition_of_largest_pairs(choices: Any) -> None:
    """All four adaptive programs of two releases, at epsilons across the whole range."""
    truth = adaptive(response(0.7), (response(choices[0]), response(choices[1])))
    node = Compose(PureDP(0.7), Select(PureDP(0.3), PureDP(1.1)))
    assert PURE.fold(node, SCOPE).value == Fraction(18, 10)
    worst = adaptive(response(0.7), (response(1.1), response(1.1)))
    for epsilon in (-1.0, 0.0, 0.4, 0.9, 1.5, 1.79):
        assert delta(truth, epsilon) <= delta(worst, epsilon) + 1e-15
    assert delta(truth, 1.8) <= 1e-15


# --- Filter --------------------------------------------------------------------------------------


def test_the_guarantee_is_the_cap_in_its_measure() -> None:
    assert PURE.fold(Filter.of(Laplace("a", z), PureDP(1)), SCOPE).value == 1
    assert APPROX.fold(Filter.of(Laplace("a", z), PureDP(1)), SCOPE).value == (1, 0)
    assert APPROX.fold(Filter.of(Laplace("a", z), ApproxDP(1, 1e-6)), SCOPE).value == (
        1,
        Fraction(1, 10**6),
    )
    assert CONCENTRATED.fold(Filter.of(PLACEHOLDER, ZCDP(rho)), SCOPE).value == rho
    assert GAUSSIAN.fold(Filter.of(PLACEHOLDER, GDP(0.5)), SCOPE).value == Fraction(1, 2)
    assert RENYI.fold(Filter.of(PLACEHOLDER, RenyiCurve(ALPHA / 2)), SCOPE).value == ALPHA / 2


def test_what_a_cap_means_in_other_measures() -> None:
    own = Filter.of(PLACEHOLDER, ZCDP(rho))
    assert sympy.simplify(GAUSSIAN.fold(own, SCOPE).value - sympy.sqrt(2 * rho)) == 0
    assert RENYI.fold(own, SCOPE).value == ALPHA * rho
    assert pairs(own).remove == (Normal(sympy.sqrt(2) * sympy.sqrt(rho)),)
    mixed = Filter.of(Select(PLACEHOLDER, Laplace("b", z)), ZCDP(rho))
    assert GAUSSIAN.fold(mixed, SCOPE).value == sympy.oo
    assert pairs(mixed).remove == (Concentrated(rho),)
    assert CONCENTRATED.fold(Filter.of(PLACEHOLDER, GDP(3)), SCOPE).value == Fraction(9, 2)
    assert CONCENTRATED.fold(Filter.of(Laplace("a", z), PureDP(3)), SCOPE).value == Fraction(9, 2)
    assert GAUSSIAN.fold(Filter.of(Laplace("a", z), PureDP(1)), SCOPE).value == (
        GAUSSIAN.fold(PureDP(1), SCOPE).value
    )
    unbounded = Filter.of(Laplace("a", z), ZCDP(rho))
    assert PURE.fold(unbounded, SCOPE).value == sympy.oo
    assert APPROX.fold(unbounded, SCOPE).value == (sympy.oo, 1)
    for budget in (ApproxDP(1, 1e-6), RenyiCurve(ALPHA)):
        node = Filter.of(Laplace("a", z), budget)
        assert CONCENTRATED.fold(node, SCOPE).value == sympy.oo
        assert GAUSSIAN.fold(node, SCOPE).value == sympy.oo
    for same in (ApproxDP(1, 1e-6), PureDP(1)):
        found, own = pairs(Filter.of(Laplace("a", z), same)), pairs(same)
        assert (found.remove, found.add) == (own.remove, own.add)
        assert found.reached == (LaplaceShift(Fraction(1)),)


def test_the_cap_and_never_a_realised_sum() -> None:
    """What the leaves would cost, were their noise fixed, is not in the value."""
    for multiplier in (z, 0.001, 10**6):
        node = Filter(Select(Gaussian("norm", multiplier), Gaussian("step", 1)), "zcdp", 0.5)
        assert CONCENTRATED.fold(node, SCOPE).value == Fraction(1, 2)
        assert GAUSSIAN.fold(node, SCOPE).value == 1
        assert not GAUSSIAN.fold(node, SCOPE).attained
    assert CONCENTRATED.fold(Repeat(node, 3), SCOPE).value == Fraction(3, 2)


@pytest.mark.parametrize("budget", GUARANTEES, ids=lambda n: type(n).__name__)
def test_a_filter_gives_its_budget_back(budget: Node) -> None:
    node = Filter.of(Laplace("a", z), budget)
    assert node.budget == budget
    assert Filter(Laplace("a", z), str(node.measure), node.cap, node.delta) == node
    assert measure_of(budget) == node.measure
    assert node.bind({z: 2}).child == Laplace("a", 2)
    assert node.bind({rho: 2}).budget == budget.bind({rho: 2})


@pytest.mark.parametrize("threshold", [-0.5, 0.4])
@pytest.mark.parametrize("left", [0.0, 0.5])
def test_gaussian_releases_under_a_filter_are_within_the_gaussian_of_the_cap(
    threshold: float, left: float
) -> None:
    """mu1 = 0.6; then mu2 = 0.8 (all that is left) where y1 is above a threshold, else less.

    Where everything is spent on every path, the profile is that of N(1, 1) exactly.
    """
    mu1, cap = 0.6, 1.0

    def after(y: float, epsilon: float) -> float:
        mu2 = 0.8 if y > threshold else 0.8 * left
        loss = mu1 * y - mu1 * mu1 / 2
        return float(stats.norm.pdf(y - mu1)) * gaussian(epsilon - loss, mu2)

    for epsilon in (0.0, 0.7, 2.0):
        parts = [(-9.0, threshold), (threshold, 9.0)]
        truth = math.fsum(
            integrate.quad(after, a, b, args=(epsilon,), epsabs=1e-12, limit=200)[0]
            for a, b in parts
        )
        bound = gaussian(epsilon, cap)
        assert truth <= bound + 1e-9
        full = gaussian(epsilon, 0.6)
        assert truth >= full - 1e-9


def gaussian(epsilon: float, mu: float) -> float:
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    cdf = stats.norm.cdf
    return float(cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu))


def test_a_path_that_spends_everything_reaches_the_cap() -> None:
    """mu2 depends on the past, mu1^2 + mu2^2 = 1 in both branches by a third release."""
    mu1 = 0.6

    def after(y: float, epsilon: float) -> float:
        loss = mu1 * y - mu1 * mu1 / 2
        rest = math.hypot(0.8 * 0.6, 0.8 * 0.8) if y > 0.2 else 0.8
        return float(stats.norm.pdf(y - mu1)) * gaussian(epsilon - loss, rest)

    for epsilon in (0.0, 1.0, 2.5):
        truth = integrate.quad(after, -9, 9, args=(epsilon,), epsabs=1e-12, points=[0.2])[0]
        assert truth == pytest.approx(gaussian(epsilon, 1.0), abs=1e-9)


def tree(left: int, past: tuple[int, ...]) -> Outcomes:
    """A fully adaptive program: the next epsilon (in tenths) is made of past answers."""
    wanted = 1 + (sum(past) * 7 + len(past) * 3) % 5
    if wanted > left:
        return [(1.0, 1.0)]
    found: Outcomes = []
    for answer, (p, q) in enumerate(response(wanted / 10)):
        found += [(p * a, q * b) for a, b in tree(left - wanted, (*past, answer))]
    return found


def test_fully_adaptive_randomised_response_is_within_the_cap() -> None:
    """Enumerated: every path of a program whose parameters and length depend on its answers."""
    outcomes = tree(10, ())
    assert sum(p for p, _ in outcomes) == pytest.approx(1)
    losses = [math.log(p / q) for p, q in outcomes]
    assert 0.5 < max(losses) <= 1 + 1e-12
    assert len({round(loss, 9) for loss in losses}) > 5
    cap = Filter.of(PureDP(z), PureDP(1))
    epsilon = PURE.fold(cap, SCOPE).value
    for x in (0.0, 0.5, float(epsilon)):
        assert delta(outcomes, x) <= delta(response(1.0), x) + 1e-12


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: Filter(PLACEHOLDER, "zcdp", -1),
        lambda: Filter(PLACEHOLDER, "zcdp", math.nan),
        lambda: Filter(PLACEHOLDER, "zcdp", sympy.oo),
        lambda: Filter(PLACEHOLDER, "renyi", 1),
        lambda: Filter(PLACEHOLDER, "zcdp", 1, 1e-6),
        lambda: Filter(PLACEHOLDER, "approx", 1, 1),
        lambda: Filter(PLACEHOLDER, "zcdp", ALPHA),
        lambda: Filter(Repeat(PLACEHOLDER, 2), "zcdp", 1),
        lambda: Filter(Select(Repeat(PLACEHOLDER, 2)), "zcdp", 1),
        lambda: Filter("Gaussian", "zcdp", 1),
        lambda: Filter.of(PLACEHOLDER, PLACEHOLDER),
        lambda: Filter.of(PLACEHOLDER, "zcdp"),
        lambda: Filter.of(PLACEHOLDER, None),
        lambda: Select(),
        lambda: Select("a"),
        lambda: Select([PLACEHOLDER]),
    ],
)
def test_values_outside_their_domain_are_refused(build: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_a_template_without_a_rule_is_named() -> None:
    with pytest.raises(Unsupported, match=r"Filter.Gaussian\('g'\): pure has no rule"):
        Account(Filter(PLACEHOLDER, "pure", 1), SCOPE).step("pure")


def test_a_cap_of_zero_tells_nothing() -> None:
    node = Filter(PLACEHOLDER, "zcdp", 0)
    assert GAUSSIAN.fold(node, SCOPE).value == 0
    assert pairs(node).remove == (Normal(0),)


# --- the checker ---------------------------------------------------------------------------------

RESTATED: list[Node] = [
    Select(Laplace("a", 2), Gaussian("b", 1)),
    Select(ApproxDP(1, 0.1), PureDP(rho)),
    Select(Parallel(Laplace("a", 2), PureDP(1)), Laplace("c", 3)),
    Repeat(Select(Laplace("a", 2), Laplace("b", 1)), 4),
    Compose(Select(Gaussian("a", 1), ZCDP(2)), EventSlack(PureDP(1), 1e-6, "x")),
    *(Filter.of(Laplace("a", z), budget) for budget in GUARANTEES),
    *(Filter.of(Select(PLACEHOLDER, Gaussian("h", z)), budget) for budget in GUARANTEES),
    *(Filter.of(Compose(PLACEHOLDER, Laplace("h", z)), budget) for budget in GUARANTEES),
    Compose(Filter(PLACEHOLDER, FilterMeasure.ZCDP, 0.5), Repeat(Gaussian("b", 2), 3)),
]


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("node", RESTATED, ids=lambda n: n.head[:60])
def test_the_checker_restates_every_rule(
    node: Node, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one release where their number is a choice, which a step's witness need not say."""
    monkeypatch.setattr(rules, "STAND_IN_RELEASES", 1)
    for name in CALCULI:
        theirs = own_bound(node, name, adjacency)
        try:
            ours = CALCULI[name].fold(node, SCOPE.under(adjacency)).value
        except Unsupported:
            assert theirs is None, name
            continue
        if name == "rdp":
            ours, theirs = sympy.sympify(ours), sympy.sympify(theirs(ALPHA))
        pairs_ = zip(ours, theirs, strict=True) if name == "approx" else [(ours, theirs)]
        assert all(a == b or sympy.simplify(a - b) == 0 for a, b in pairs_), (name, ours, theirs)


def test_symbols_of_the_renyi_order_are_told_apart() -> None:
    """A curve may speak of alpha; a noise multiplier may not."""
    other = sympy.Symbol("alpha", positive=True)
    with pytest.raises(Unsupported, match="keeps the symbol alpha for itself"):
        RENYI.fold(Filter(Gaussian("a", other), "zcdp", 1), SCOPE)
    assert float(enclose(Filter.of(PLACEHOLDER, GDP(2)).cap).mid()) == 2

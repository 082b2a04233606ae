"""Noise events, propose-test-release and groups: exact values, reasons, refusals, the checker."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.check.derivation import own_bound
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.families.adaptive import Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.events import EventSlack, Group, ProposeTestRelease
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP, RenyiCurve
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.pairs import (
    Atoms,
    Concentrated,
    LaplaceShift,
    Largest,
    Losses,
    Normal,
    product,
)
from dpaudit.scope import Adjacency, Scope

SCOPE = Scope("replace_one", "user", "central", "transcript")
k = sympy.Symbol("k", integer=True, positive=True)
e = sympy.Symbol("e", positive=True)
PTR = ProposeTestRelease(PureDP(1), ApproxDP(2, 1e-5), 1e-6)
ALPHA = order()
PLAIN = (PURE, APPROX, CONCENTRATED, RENYI, GAUSSIAN)


def number(value: Any) -> float:
    return float(enclose(value).mid())


def pairs(node: Node) -> Losses:
    found = PROFILE.fold(node, SCOPE).value
    assert isinstance(found, Losses)
    return found


# --- noise events --------------------------------------------------------------------------------


def test_an_event_costs_its_probability_on_both_sides() -> None:
    node = EventSlack(ApproxDP(1, 1e-5), 1e-6, "the batch is short")
    epsilon, delta = APPROX.fold(node, SCOPE).value
    assert epsilon == 1
    assert number(delta) == pytest.approx(1e-5 + (1 + math.e) * 1e-6, rel=1e-14)
    twice = APPROX.fold(Repeat(node, 2), SCOPE).value
    assert number(twice[1] / delta) == pytest.approx(2, rel=1e-14)
    assert APPROX.fold(EventSlack(NonPrivate("all"), 0.1, "x"), SCOPE).value == (sympy.oo, 1)
    assert APPROX.fold(EventSlack(PureDP(1), 0, "never"), SCOPE).value == (1, 0)


def test_events_add_to_the_slack_of_a_profile() -> None:
    inner = EventSlack(Gaussian("a", 2), 1e-6, "one")
    assert pairs(inner).slack == Fraction(1, 10**6)
    assert pairs(inner).remove == (Normal(Fraction(1, 2)),)
    assert pairs(inner).reached == ()
    assert pairs(EventSlack(inner, 2e-6, "two")).slack == Fraction(3, 10**6)
    assert pairs(Compose(inner, inner, Gaussian("b", 1))).slack == Fraction(2, 10**6)
    assert pairs(Repeat(inner, 50)).slack == Fraction(50, 10**6)


@pytest.mark.parametrize("calculus", ["pure", "zcdp", "rdp", "gdp"])
def test_other_calculi_say_why_they_have_no_event(calculus: str) -> None:
    with pytest.raises(Unsupported, match=r"all may be told.*use approx\s+or profile"):
        Account(EventSlack(Laplace("a", 2), 1e-6, "x"), SCOPE).step(calculus)


# --- propose, test, release ----------------------------------------------------------------------


def test_both_delta_branches() -> None:
    assert APPROX.fold(PTR, SCOPE).value == (3, Fraction(1, 10**5))
    wide = ProposeTestRelease(PureDP(1), ApproxDP(2, 1e-5), 1e-3)
    assert APPROX.fold(wide, SCOPE).value == (3, Fraction(1, 1000))
    exact = ProposeTestRelease(ApproxDP(1, 1e-6), PureDP(2), 1e-9)
    assert APPROX.fold(exact, SCOPE).value == (3, Fraction(1, 10**6))
    symbolic = ProposeTestRelease(PureDP(e), ApproxDP(2 * e, 0), e / (1 + e))
    assert APPROX.fold(symbolic, SCOPE).value == (3 * e, e / (1 + e))


@pytest.mark.parametrize("calculus", [PURE, CONCENTRATED, RENYI, GAUSSIAN])
def test_a_bottom_outcome_has_infinite_loss_mass(calculus: Any) -> None:
    node = ProposeTestRelease(Laplace("score", 4), Laplace("mean", 2), 1e-9)
    step = calculus.fold(node, SCOPE)
    assert step.value == sympy.oo
    assert not step.attained


def test_the_branches_are_one_pair_as_the_past_may_change_the_branch() -> None:
    node = ProposeTestRelease(Laplace("score", 4), Gaussian("mean", 2), 1e-9)
    found = pairs(node)
    (pair,) = found.remove
    told = Atoms(
        (
            (Fraction(1, 10**9), Fraction(0)),
            (Fraction(0), Fraction(1, 10**9)),
            (1 - Fraction(1, 10**9), 1 - Fraction(1, 10**9)),
        )
    )
    passed = product(((LaplaceShift(Fraction(1, 4)), 1), (Normal(Fraction(1, 2)), 1)))
    assert isinstance(pair, Largest)
    assert set(pair.pairs) == {told, passed}
    assert found.add == found.remove
    assert found.reached == ()
    assert pairs(Compose(node, node)).remove == (product(((pair, 2),)),)


def test_slack_passes_through_a_test() -> None:
    slack = EventSlack(Laplace("score", 4), 1e-8, "rounding")
    node = ProposeTestRelease(slack, EventSlack(Gaussian("m", 1), 1e-7, "short"), 1e-9)
    assert pairs(node).slack == Fraction(11, 10**8)


# --- groups --------------------------------------------------------------------------------------


def test_groups_in_closed_form() -> None:
    assert PURE.fold(Group(Laplace("a", 2), 5), SCOPE).value == Fraction(5, 2)
    assert CONCENTRATED.fold(Group(ZCDP(0.1), 5), SCOPE).value == Fraction(5, 2)
    assert GAUSSIAN.fold(Group(Gaussian("a", 4), k), SCOPE).value == k / 4
    assert RENYI.fold(Group(Gaussian("a", 1), 3), SCOPE).value == 9 * ALPHA / 2
    epsilon, delta = APPROX.fold(Group(ApproxDP(0.1, 1e-6), 10), SCOPE).value
    assert epsilon == 1
    assert number(delta) == pytest.approx(1e-6 * math.expm1(1) / math.expm1(0.1), rel=1e-13)
    assert APPROX.fold(Group(ApproxDP(0, 1e-6), k), SCOPE).value == (0, k / 10**6)
    assert APPROX.fold(Group(ApproxDP(e, 1e-6), 1), SCOPE).value == (e, Fraction(1, 10**6))
    assert APPROX.fold(Group(NonPrivate("all"), 3), SCOPE).value == (sympy.oo, 1)


def test_a_symbolic_epsilon_that_may_be_zero_gets_a_bound_without_a_quotient() -> None:
    maybe = sympy.Symbol("maybe", nonnegative=True)
    _, delta = APPROX.fold(Group(ApproxDP(maybe, 1e-6), k), SCOPE).value
    assert delta.subs({maybe: 0, k: 7}) == sympy.Rational(7, 10**6)
    truth = 1e-6 * math.expm1(0.7) / math.expm1(0.1)
    assert number(delta.subs({maybe: sympy.Rational(1, 10), k: 7})) >= truth


def test_the_item_level_baseline_at_user_level() -> None:
    """(eps/m, delta (e^(eps/m) - 1) / (e^eps - 1)) per item is (eps, delta) for m items."""
    m, delta = 10, Fraction(1, 10**6)
    step = Fraction(1, m)
    own = delta * (sympy.exp(sympy.Rational(1, m)) - 1) / (sympy.exp(1) - 1)
    epsilon, found = APPROX.fold(Group(ApproxDP(step, own), m), SCOPE).value
    assert epsilon == 1
    assert number(found) == pytest.approx(1e-6, rel=1e-14)


def test_renyi_orders_of_groups() -> None:
    """Mironov: (2^c alpha, value) gives (alpha, 3^c value) for 2^c records, at alpha >= 2."""
    curve = RenyiCurve(ALPHA**2)
    bound = RENYI.fold(Group(curve, 3), SCOPE).value
    assert bound == 9 * (4 * sympy.Max(2, ALPHA)) ** 2
    assert RENYI.fold(Group(curve, 4), SCOPE).value == bound
    assert RENYI.fold(Group(curve, 5), SCOPE).value == 27 * (8 * sympy.Max(2, ALPHA)) ** 2
    assert RENYI.fold(Group(curve, 1), SCOPE).value == ALPHA**2
    assert RENYI.fold(Group(RenyiCurve(0.5), 2), SCOPE).value == Fraction(3, 2)
    symbolic = RENYI.fold(Group(curve, k), SCOPE).value
    assert [symbolic.subs({k: n, ALPHA: 3}) for n in (1, 2, 3, 8, 9)] == [
        3**c * (2**c * 3) ** 2 for c in (0, 1, 2, 3, 4)
    ]
    line = RENYI.fold(Group(Compose(Gaussian("a", 1), ZCDP(e)), k), SCOPE).value
    assert sympy.expand(line - k**2 * ALPHA * (e + sympy.Rational(1, 2))) == 0


def test_pairs_of_groups() -> None:
    assert pairs(Group(Gaussian("a", 4), 3)).remove == (Normal(Fraction(3, 4)),)
    assert pairs(Group(Gaussian("a", 4), 3)).reached_add == (Normal(Fraction(3, 4)),)
    both = Compose(Repeat(Laplace("b", 2), 7), Gaussian("a", 1))
    scaled = Compose(Repeat(Laplace("b", Fraction(2, 3)), 7), Gaussian("a", Fraction(1, 3)))
    assert pairs(Group(both, 3)) == pairs(scaled)
    parts = Parallel(Gaussian("a", 1), Gaussian("b", 2))
    assert pairs(Group(parts, 2)).remove == (Normal(2),)
    assert pairs(Group(GDP(0.5), 2)).remove == (Normal(1),)
    assert pairs(Group(GDP(0.5), 2)).reached == ()
    assert pairs(Group(PureDP(1), 2)).remove == pairs(PureDP(2)).remove
    assert pairs(Group(ZCDP(1), 2)).remove == (Concentrated(4),)
    assert pairs(Group(Group(Laplace("a", 6), 2), 3)).remove == (LaplaceShift(1),)
    slack = EventSlack(Gaussian("a", 1), 1e-6, "short")
    assert pairs(Group(slack, 9)).slack == Fraction(1, 10**6)


@pytest.mark.parametrize(
    "child",
    [
        ApproxDP(1, 1e-6),
        Parallel(Gaussian("a", 1), Laplace("b", 1)),
        Select(Gaussian("a", 1), Laplace("b", 1)),
        Compose(PureDP(1), Gaussian("a", 1)),
        Compose(GDP(1), Laplace("a", 1)),
    ],
)
def test_groups_without_a_proved_pair_say_so(child: Node) -> None:
    with pytest.raises(Unsupported, match="no dominating pair is proved for a group"):
        PROFILE.fold(Group(child, 2), SCOPE)


def test_attained_where_the_whole_group_moves_the_query() -> None:
    lipschitz = Assumption("a", "b", Status.DECLARED)
    for calculus, child, wanted in [
        (PURE, Laplace("a", 1), True),
        (PURE, PureDP(1), False),
        (GAUSSIAN, Compose(Gaussian("a", 1), Repeat(Gaussian("b", 2), 3)), True),
        (GAUSSIAN, Parallel(Gaussian("a", 1), Gaussian("b", 2)), True),
        (CONCENTRATED, Group(Gaussian("a", 1), 2), True),
        (CONCENTRATED, Laplace("a", 1), False),
        (RENYI, Laplace("a", 1), True),
        (RENYI, Compose(Laplace("a", 1), Laplace("b", 1)), False),
        (RENYI, Repeat(Gaussian("a", 1), 4), True),
        (GAUSSIAN, Assuming(Gaussian("a", 1), lipschitz), False),
    ]:
        assert calculus.fold(Group(child, 3), SCOPE).attained is wanted, (calculus.name, child)


# --- refusals ------------------------------------------------------------------------------------

LEAF = Laplace("a", 1)


@pytest.mark.parametrize(
    "build",
    [
        lambda: EventSlack(LEAF, 1, "x"),
        lambda: EventSlack(LEAF, -0.1, "x"),
        lambda: EventSlack(LEAF, math.nan, "x"),
        lambda: EventSlack(LEAF, 0.1, ""),
        lambda: EventSlack(LEAF, 0.1, 5),
        lambda: EventSlack("leaf", 0.1, "x"),
        lambda: ProposeTestRelease(LEAF, LEAF, 0),
        lambda: ProposeTestRelease(LEAF, LEAF, 1),
        lambda: ProposeTestRelease(LEAF, LEAF, math.inf),
        lambda: ProposeTestRelease(LEAF, None, 0.1),
        lambda: ProposeTestRelease(0.1, LEAF, LEAF),
        lambda: Group(LEAF, 0),
        lambda: Group(LEAF, 1.5),
        lambda: Group(LEAF, -2),
        lambda: Group(LEAF, math.nan),
        lambda: Group(LEAF, sympy.Symbol("n", positive=True)),
        lambda: Group(2, LEAF),
    ],
)
def test_values_outside_their_domain_are_refused(build: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        build()
    assert "\n" not in str(caught.value)


# --- the checker ---------------------------------------------------------------------------------

RESTATED = [
    EventSlack(ApproxDP(1, 1e-5), 1e-6, "x"),
    EventSlack(Compose(Gaussian("a", 2), Laplace("b", 3)), 1e-6, "x"),
    EventSlack(NonPrivate("all"), 0.5, "x"),
    PTR,
    ProposeTestRelease(Laplace("t", 4), Gaussian("r", 2), 1e-9),
    ProposeTestRelease(Laplace("t", 4), Parallel(Laplace("r", 2), PureDP(e)), 1e-9),
    Repeat(PTR, 5),
    Group(Laplace("a", 2), 5),
    Group(Compose(Laplace("a", 2), Gaussian("b", 1)), 6),
    Group(Parallel(Gaussian("a", 2), Gaussian("b", 1)), 2),
    Group(ApproxDP(0.1, 1e-6), 10),
    Group(PureDP(e), k),
    Group(PureDP(sympy.Symbol("maybe", nonnegative=True)), k),
    Group(ZCDP(e), 4),
    Group(RenyiCurve(ALPHA**2), 6),
    Group(RenyiCurve(ALPHA), 6),
    Group(Repeat(GDP(e), 9), 7),
    Group(Select(Gaussian("a", 2), Laplace("b", 1)), 3),
    Compose(Group(Laplace("a", 2), 5), Group(Group(Gaussian("b", 1), 2), k)),
]


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("node", RESTATED, ids=lambda n: n.head)
def test_the_checker_restates_every_rule(node: Node, adjacency: Adjacency) -> None:
    """Same bounds and 'attained', or no bound on either side."""
    for name in CALCULI:
        theirs = own_bound(node, name, adjacency)
        try:
            ours = CALCULI[name].fold(node, SCOPE.under(adjacency)).value
        except Unsupported:
            assert theirs is None, name
            continue
        if name == "rdp":
            assert _same(sympy.sympify(ours), sympy.sympify(theirs(ALPHA)))
        elif name == "approx":
            assert all(_same(a, b) for a, b in zip(ours, theirs, strict=True)), name
        else:
            assert _same(ours, theirs), (name, ours, theirs)


def _same(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs or sympy.simplify(ours - theirs) == 0)

"""The accountant: routes, the best sound bound, refusals, curves."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

import dpaudit as dp
from dpaudit.accountant.account import Account, account, account_table
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import is_infinite
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.events import Group
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP, RenyiCurve
from dpaudit.families.sampling import PoissonSampled
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "record", "central", "transcript")
x = sympy.Symbol("x", positive=True)


@pytest.mark.parametrize(
    ("node", "routes"),
    [
        (Gaussian("a", 1), ["gdp", "profile", "rdp", "zcdp"]),
        (Laplace("a", 1), ["gdp", "pure", "approx", "profile", "rdp", "zcdp"]),
        (PoissonSampled(Laplace("a", 1), 0.1), ["pure", "approx", "profile", "rdp"]),
        (Compose(Gaussian("a", 1), ZCDP(1)), ["profile", "rdp", "zcdp"]),
        (Compose(Gaussian("a", 1), ApproxDP(1, 0.1)), ["profile"]),
        (Compose(Laplace("a", 1), ApproxDP(1, 0.1)), ["approx", "profile"]),
        (Compose(ApproxDP(1, 0.1), RenyiCurve(1)), []),
        (NonPrivate("raw"), ["gdp", "pure", "approx", "profile", "rdp", "zcdp"]),
    ],
)
def test_routes_cover_every_node(node: Node, routes: list[str]) -> None:
    assert account(node, SCOPE).routes() == routes


def test_the_smallest_bound_wins() -> None:
    """At delta 0 Laplace noise is pure; Gaussian noise alone is exact; the rest is a profile."""
    assert account(Laplace("a", 1), SCOPE).approximate(0).rule == "convert.pure_to_approx"
    assert account(Laplace("a", 1), SCOPE).approximate(0).value[0] == 1
    at_most = account(Laplace("a", 1), SCOPE).approximate(1e-12)
    assert Fraction(999, 1000) < at_most.value[0] < 1
    many = account(Repeat(Laplace("a", 10), 1000), SCOPE)
    assert many.approximate(1e-5).rule == "convert.profile_to_approx"
    for other in ("pure", "rdp", "zcdp", "gdp"):
        assert many.approximate(1e-5).value[0] < many.converted(other, 1e-5).value[0]
    exact = account(Repeat(Gaussian("a", 10), 100), SCOPE).approximate(1e-5)
    assert (exact.rule, exact.attained) == ("convert.gdp_to_approx", True)
    assert exact.value[0] == account(Gaussian("a", 1), SCOPE).approximate(1e-5).value[0]


def test_answers_are_kept() -> None:
    opened = Account(Gaussian("a", 1), SCOPE)
    assert opened.approximate(1e-5) is opened.approximate(Decimal("0.00001"))
    assert opened.step("gdp") is opened.step("gdp")
    assert opened.approximate(1e-5).premises == (opened.step("gdp"),)


@pytest.mark.parametrize(
    "delta",
    [-1, 2, 1, 1.0, float("nan"), float("inf"), "2", "1e-5 ", True, None, np.array([0.1]), 1 + x],
)
def test_delta_outside_its_domain_is_refused(delta: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        account(Laplace("a", 1), SCOPE).approximate(delta)


def test_numpy_and_irrational_deltas_are_numbers() -> None:
    opened = account(Gaussian("a", 1), SCOPE)
    assert opened.approximate(np.float32(1e-5)).value == opened.approximate(1e-5).value
    irrational = opened.approximate(sympy.sqrt(2) / 10**5).value[0]
    assert opened.approximate(1.5e-5).value[0] < irrational < opened.approximate(1.4e-5).value[0]
    with pytest.raises(Unsupported, match="x have no value"):
        opened.approximate(x / 100)


def test_a_tradeoff_takes_the_routes_that_answer() -> None:
    """A group over a choice has no pair, and pure epsilon: its curve was refused.

    Two candidates whose log-odds three records move by 3 each way reach what is compared with.
    """
    opened = account(Group(ExponentialMechanism("c", 2), 3), SCOPE)
    even = 1 / (1 + math.exp(-3))
    truth = even - math.e * (1 - even)
    assert truth > 0.8
    assert truth <= opened.delta(1).upper < 1
    assert opened.epsilon(0).upper == 6
    assert 0 < opened.tradeoff(Fraction(1, 10)).lower <= 1 - even
    assert opened.advantage().upper < 1


def test_a_refusal_names_the_adjacency_that_has_rules() -> None:
    node = dp.Shuffled(dp.RandomizedResponse("answer", 1), 100)
    with pytest.raises(Unsupported, match=r"add_remove; .*; rules cover it under replace_one"):
        account(node, "add_remove").epsilon(1e-5)
    assert account(node, "replace_one").epsilon(1e-5).upper < 1


def test_no_route_and_no_rule_are_named() -> None:
    node = Compose(ApproxDP(1, 0.1), Repeat(RenyiCurve(1), 2))
    with pytest.raises(Unsupported, match=r"Repeat\.RenyiCurve: no one calculus .* in rdp"):
        account(node, SCOPE).approximate(1e-5)
    with pytest.raises(Unsupported, match="no rule for ApproxDP"):
        account(node, SCOPE).step("zcdp")
    with pytest.raises(InvalidParameter, match=r"expected one of pure, approx, zcdp"):
        account(node, SCOPE).step("renyi")
    with pytest.raises(Unsupported, match="x have no value"):
        account(Gaussian("a", x), SCOPE).approximate(1e-5)


@pytest.mark.parametrize(
    ("claim", "calculus"),
    [(PureDP(1), "pure"), (ZCDP(1), "zcdp"), (GDP(1), "gdp"), (ApproxDP(1, 0.01), "approx")],
)
def test_a_claim_is_answered_in_its_own_measure(claim: Node, calculus: str) -> None:
    step = account(Laplace("a", 2), SCOPE).upper(claim)
    assert step.calculus == calculus
    assert claim.states_in == calculus


def test_a_non_private_access_has_no_epsilon() -> None:
    step = account(Compose(Laplace("a", 2), NonPrivate("raw")), SCOPE).approximate(0.5)
    assert is_infinite(step.value[0])
    assert not step.attained


CURVES = {
    "Gaussian": GDP(Fraction(1, 3)),
    "Laplace": Laplace("a", 1),
    "sampled": PoissonSampled(Laplace("a", 1), 0.1),
    "DP-SGD": Repeat(PoissonSampled(Gaussian("g", 1), Fraction(1, 10)), 5),
    "pure": PureDP(1),
    "not private": NonPrivate("raw"),
}


@pytest.mark.first_case
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.quality] * (one == "DP-SGD")) for one in CURVES],
)
def test_curves_hold_the_scalar_answers(name: str) -> None:
    opened = account(CURVES[name], SCOPE)
    for curve, scalar, given in (
        (opened.profile_curve, opened.delta, [0, 0.5, "1.5"]),
        (opened.tradeoff_curve, opened.tradeoff, [Fraction(1, 10), 0.5, "0.9"]),
    ):
        points = curve(given)
        assert [point for point, _ in points] == [Fraction(str(one)) for one in given]
        ends = [(bound.lower, bound.upper) for _, bound in points]
        for (lower, upper), bound in zip(ends, map(scalar, given), strict=True):
            assert max(lower, bound.lower) <= min(upper, bound.upper)
            assert float(abs(lower - bound.lower) + abs(upper - bound.upper)) < 1e-4
        assert all(later[0] <= before[1] for before, later in itertools.pairwise(ends))


def test_a_curve_of_laplace_noise_is_its_exact_one() -> None:
    """Laplace noise of epsilon 1 misses 1 - e * .1 at .1; its Gaussian bound says less."""
    ((_, missed),) = account(Laplace("a", 1), SCOPE).tradeoff_curve([0.1])
    exact = 1 - math.e / 10
    assert float(missed.lower) <= exact <= float(missed.upper)
    assert exact - float(missed.lower) < 1e-6


@pytest.mark.parametrize(("given", "said"), [("x", "epsilon"), (-1, "epsilon"), (math.nan, "")])
def test_a_point_that_is_no_epsilon_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        account(GDP(1), SCOPE).profile_curve([given])


def test_the_table_lists_every_calculus_and_rounds_up() -> None:
    table = account_table(Gaussian("a", 1), SCOPE)
    assert set(table["calculi"]) == {"gdp", "profile", "rdp", "zcdp"}
    assert [row["delta"] for row in table["epsilon"]] == ["1e-3", "1e-5", "1e-6", "1e-9"]
    for row in table["epsilon"]:
        exact = account(Gaussian("a", 1), SCOPE).approximate(Fraction(row["delta"]))
        assert Fraction(row["epsilon_upper"]) == exact.value[0]
    assert account_table(Laplace("a", 4), SCOPE, "0")["epsilon"][0]["epsilon_upper"] == "0.25"
    for delta in ("one", "2", "-1", "nan", "1e999999999"):
        with pytest.raises(InvalidParameter, match="delta"):
            account_table(Laplace("a", 4), SCOPE, delta)


def test_what_a_user_types_first_is_refused_by_its_own_name() -> None:
    account = dp.account(dp.Gaussian("a", 1), "add_remove")
    for alpha in ("1.1", "-0.1"):
        with pytest.raises(
            InvalidParameter, match=rf"alpha = {alpha[:2]}.*: expected a rate from 0"
        ):
            account.tradeoff(alpha)
    assert account.tradeoff(1).upper == 0
    with pytest.raises(InvalidParameter, match=r"not a node; write .*Compose\(\*nodes\)"):
        dp.Compose([dp.Gaussian("a", 1)])  # type: ignore[arg-type]

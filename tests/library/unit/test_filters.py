"""Filters and odometers outside programs: exact sums, refusals before data, caps, JSON."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.accountant.filters import (
    ORDERS,
    Method,
    OpenFilter,
    open_filter,
    open_odometer,
    read_filter,
    read_odometer,
)
from dpaudit.errors import BudgetExceeded, InvalidParameter, Unsupported
from dpaudit.families.adaptive import Filter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Repeat
from dpaudit.families.events import EventSlack
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    NonPrivate,
    ProfilePoints,
    PureDP,
    RenyiCurve,
)
from dpaudit.families.sampling import PoissonSampled
from dpaudit.measures.renyi import order
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "record", "central", "transcript")
ALPHA = order()
x = sympy.Symbol("x", positive=True)
CASES: dict[str, tuple[Node, Method | None, object]] = {
    "pure": (PureDP(1), None, 0.1),
    "approx": (ApproxDP(1, 1e-6), None, (0.1, 1e-7)),
    "zcdp": (ZCDP(1), None, 0.1),
    "rdp": (RenyiCurve(ALPHA), None, [n / 10 for n in ORDERS]),
}


def spent(opened: OpenFilter, charge: object, times: int) -> OpenFilter:
    for _ in range(times):
        opened = opened.spend(charge)
    return opened


# --- exact sums ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_budget_of_one_admits_exactly_ten_tenths(name: str) -> None:
    budget, method, charge = CASES[name]
    opened = spent(open_filter(budget, SCOPE, method), charge, 10)
    assert set(opened.remaining) == {0}
    assert opened.count == 10
    assert not opened.admits(charge)
    assert opened.admits([0] * len(opened.caps))
    with pytest.raises(BudgetExceeded, match="does not fit"):
        opened.spend(charge)


def test_squares_are_added_for_gaussian_budgets() -> None:
    opened = spent(open_filter(GDP(1), SCOPE), 0.1, 100)
    assert opened.remaining == (0,)
    assert not opened.admits(1e-30)
    three = spent(open_filter(GDP(1), SCOPE), Gaussian("a", sympy.sqrt(3)), 3)
    assert three.remaining == (0,)


@pytest.mark.parametrize(
    "charge", [0.1, Fraction(1, 10), Decimal("0.1"), np.float64(0.1), sympy.Rational(1, 10)]
)
def test_any_way_to_write_a_tenth(charge: Any) -> None:
    assert spent(open_filter(PureDP(1), SCOPE), charge, 10).remaining == (0,)


@pytest.mark.parametrize(
    ("budget", "charge", "times"),
    [
        (PureDP(1), Laplace("a", 10), 10),
        (PureDP(1), Compose(Laplace("a", 20), PureDP(0.05)), 10),
        (ApproxDP(1, 1e-5), ApproxDP(0.1, 1e-6), 10),
        (ApproxDP(1, 1e-5), Laplace("a", 4), 4),
        (ZCDP(0.5), Gaussian("a", 10), 100),
        (ZCDP(0.5), Repeat(Gaussian("a", 10), 10), 10),
        (GDP(1), Gaussian("a", 10), 100),
        (RenyiCurve(ALPHA / 2), Gaussian("a", sympy.sqrt(10)), 10),
    ],
)
def test_declarations_are_charges(budget: Node, charge: Node, times: int) -> None:
    opened = spent(open_filter(budget, SCOPE), charge, times)
    assert opened.remaining[0] == 0
    assert not opened.admits(charge)


def test_irrational_charges_are_rounded_up_and_caps_down() -> None:
    root = sympy.sqrt(2)
    opened = open_filter(PureDP(root), SCOPE)
    assert opened.caps[0] ** 2 < 2
    charge = opened.charge(root / 10)
    assert charge is not None
    assert charge[0] ** 2 * 100 > 2
    assert spent(opened, root / 10, 9).admits(Fraction(141, 1000))
    sampled = PoissonSampled(Laplace("a", 1), 0.5)
    assert spent(open_filter(PureDP(1), SCOPE), sampled, 1).spent[0] > Fraction(62, 100)


def test_denominators_do_not_grow_without_end() -> None:
    opened = open_filter(PureDP(10), SCOPE)
    for n in range(3, 200):
        opened = opened.spend(Fraction(1, 2 * n + 1))
    exact = sum((Fraction(1, 2 * n + 1) for n in range(3, 200)), Fraction(0))
    assert exact <= opened.spent[0] < exact + Fraction(1, 10**50)
    assert opened.spent[0].denominator <= 10**62


# --- values --------------------------------------------------------------------------------------


def test_spending_returns_a_new_filter() -> None:
    opened = open_filter(PureDP(1), SCOPE)
    after = opened.spend(0.5)
    assert opened.spent == (0,)
    assert opened.count == 0
    assert after.spent == (Fraction(1, 2),)
    assert opened.spend(0.5) == after
    assert copy.deepcopy(after) == after
    assert hash(opened.spend(0.5)) == hash(after)
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.spent = (Fraction(0),)  # type: ignore[misc]


def test_a_filter_node_opens_its_own_budget() -> None:
    node = Filter(Gaussian("g", x), "zcdp", 0.5)
    assert open_filter(node, SCOPE) == open_filter(ZCDP(0.5), SCOPE)


# The profile of N(1, 1) against N(0, 1), rounded up in the sixth digit.
POINTS = ((0.5, "0.238422"), (1, "0.126937"), (2, "0.0209237"), (4, "0.0000471225"))
PROFILE = ProfilePoints(tuple((e, Fraction(d)) for e, d in POINTS))


@pytest.mark.parametrize(("method", "admitted"), [(None, 16), ("zcdp", 7), ("rdp", 7)])
def test_a_profile_is_a_budget(method: str | None, admitted: int) -> None:
    opened, release = open_filter(PROFILE, SCOPE, method), Gaussian("a", 4)
    while opened.admits(release):
        opened = opened.spend(release)
    assert opened.count == admitted
    account = Account(Repeat(release, opened.count), SCOPE)
    for epsilon, delta in PROFILE.points:
        assert account.delta(epsilon).upper <= delta
    beyond = Account(Repeat(release, 17), SCOPE)
    assert any(beyond.delta(epsilon).lower > delta for epsilon, delta in PROFILE.points)


def test_the_cap_of_a_profile_keeps_its_hardest_point() -> None:
    single = [open_filter(ApproxDP(e, d), SCOPE, "gdp").caps[0] for e, d in PROFILE.points]
    assert open_filter(PROFILE, SCOPE).caps == (min(single),)
    assert float(min(single)) == pytest.approx(1, abs=1e-3)
    for method in ("basic", "advanced"):
        with pytest.raises(Unsupported, match="keeps one point; use gdp, zcdp or rdp"):
            open_filter(PROFILE, SCOPE, method)
    with pytest.raises(Unsupported, match="needs a positive delta"):
        open_filter(ProfilePoints(((1, 0.1), (2, 0))), SCOPE)


def test_a_message_names_what_is_spent_and_the_way_out() -> None:
    opened = open_filter(PureDP(1), SCOPE).spend(0.75)
    with pytest.raises(BudgetExceeded) as caught:
        opened.spend(0.3)
    assert str(caught.value) == (
        "PureDP(epsilon=1): 0.3 of epsilon does not fit: 0.75 of 1 is spent after 1 releases; "
        "use more noise, or stop"
    )
    second = open_filter(ApproxDP(1, 1e-6), SCOPE)
    with pytest.raises(BudgetExceeded, match=r"0\.00001 of delta does not fit"):
        second.spend((0.1, 1e-5))
    with pytest.raises(BudgetExceeded, match="an infinite charge of epsilon"):
        second.spend(NonPrivate("looked"))


def test_what_a_charge_rests_on_is_kept() -> None:
    lipschitz = Assumption("lipschitz", "Every loss is 1-Lipschitz.", Status.DECLARED, "its author")
    opened = open_filter(PureDP(1), SCOPE)
    after = opened.spend(Assuming(Laplace("a", 4), lipschitz)).spend(Laplace("b", 4)).spend(0.1)
    assert opened.assumes == ()
    assert after.assumes == (lipschitz,)
    opaque = after.spend(PureDP(0.1, source="somebody")).spend(PureDP(0.1, source="somebody"))
    assert [a.id.partition(":")[0] for a in opaque.assumes] == ["lipschitz", "opaque"]
    assert read_filter(json.loads(json.dumps(opaque.to_json()))) == opaque
    other = dataclasses.replace(lipschitz, statement="Every loss is 2-Lipschitz.")
    with pytest.raises(InvalidParameter, match="share the id 'lipschitz'"):
        opaque.spend(Assuming(Laplace("a", 400), other))
    meter = open_odometer("pure", SCOPE).spend(Assuming(Laplace("a", 4), lipschitz))
    assert meter.assumes == (lipschitz,)
    assert read_odometer(json.loads(json.dumps(meter.to_json()))) == meter


# --- bad input -----------------------------------------------------------------------------------

BAD_CHARGES = [
    -1,
    -1e-300,
    -0.1,
    math.nan,
    math.inf,
    -math.inf,
    True,
    None,
    "one tenth",
    np.array([0.1]),
    (0.1, 0.1, 0.1),
    [],
    x,
    -sympy.sqrt(2),
    sympy.oo,
    10**2000,
    {},
    Laplace("a", x),
]


@pytest.mark.parametrize("charge", BAD_CHARGES, ids=repr)
@pytest.mark.parametrize("name", ["pure", "approx", "zcdp"])
def test_what_is_no_charge_is_an_error_and_never_zero(name: str, charge: Any) -> None:
    opened = open_filter(CASES[name][0], SCOPE)
    if name == "zcdp" and isinstance(charge, Node):
        charge = Gaussian("a", x)
    for ask in (opened.admits, opened.spend, opened.charge):
        with pytest.raises(InvalidParameter) as caught:
            ask(charge)
        assert "\n" not in str(caught.value)


def test_declarations_without_a_rule_are_named() -> None:
    with pytest.raises(Unsupported, match=r"Gaussian\('a'\): pure has no rule"):
        open_filter(PureDP(1), SCOPE).spend(Gaussian("a", 1))
    with pytest.raises(Unsupported, match="EventSlack"):
        open_filter(ZCDP(1), SCOPE).admits(EventSlack(Gaussian("a", 1), 1e-6, "x"))


def test_huge_charges_are_refused_and_tiny_ones_counted() -> None:
    opened = open_filter(PureDP(1), SCOPE)
    assert not opened.admits(1e300)
    assert not opened.admits(10**900)
    assert opened.spend(5e-324).spent[0] >= Fraction("5e-324")


@pytest.mark.parametrize(
    "build",
    [
        lambda: open_filter(Gaussian("a", 1), SCOPE),
        lambda: open_filter("pure", SCOPE),  # type: ignore[arg-type]
        lambda: open_filter(PureDP(1), "scope"),  # type: ignore[arg-type]
        lambda: open_filter(PureDP(x), SCOPE),
        lambda: open_filter(ApproxDP(1, x / (1 + x)), SCOPE),
        lambda: open_filter(RenyiCurve(ALPHA * x), SCOPE),
        lambda: open_filter(PureDP(1), SCOPE, "sum"),
        lambda: open_filter(PureDP(1), SCOPE, orders=[2]),
        lambda: open_filter(RenyiCurve(ALPHA), SCOPE, orders=[]),
        lambda: open_filter(RenyiCurve(ALPHA), SCOPE, orders=[1]),
        lambda: open_filter(RenyiCurve(ALPHA), SCOPE, orders=[math.nan]),
        lambda: open_filter(RenyiCurve(ALPHA), SCOPE, orders=[1 + x]),
        lambda: open_filter(ApproxDP(1, 1e-6), SCOPE, "rdp", orders=[2, 3]),
        lambda: open_filter(ApproxDP(1, 1e-6), SCOPE, "advanced", share=0),
        lambda: open_filter(ApproxDP(1, 1e-6), SCOPE, "advanced", share=1.5),
    ],
)
def test_bad_budgets_are_refused(build: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        build()
    assert "\n" not in str(caught.value)


# --- JSON ----------------------------------------------------------------------------------------

OPENED = [
    open_filter(PureDP(1), SCOPE),
    open_filter(PureDP(sympy.sqrt(2)), SCOPE).spend(sympy.sqrt(2) / 7),
    open_filter(ApproxDP(1, 1e-6), SCOPE, "advanced", share=0.25).spend((0.01, 1e-9)),
    open_filter(ApproxDP(1, 1e-6), SCOPE, "rdp").spend(Gaussian("a", 90)),
    open_filter(RenyiCurve(ALPHA / 2), SCOPE, orders=[2, 5]).spend(Laplace("a", 9)),
    open_filter(GDP(1), SCOPE).spend(Gaussian("a", 9)).spend(0.5),
    open_filter(PROFILE, SCOPE).spend(Gaussian("a", 9)),
    open_filter(PROFILE, SCOPE, "rdp", orders=[7]).spend(Laplace("a", 9)),
]


@pytest.mark.parametrize("opened", OPENED, ids=lambda f: f"{f.budget.head} {f.method}")
def test_json_there_and_back(opened: OpenFilter) -> None:
    found = read_filter(json.loads(json.dumps(opened.to_json())))
    assert found == opened
    assert found.remaining == opened.remaining


def _changed(**values: Any) -> Any:
    return {**OPENED[0].spend(0.5).to_json(), **values}


@pytest.mark.parametrize(
    "table",
    [
        None,
        [],
        {},
        "filter",
        _changed(spent=["2/1"]),
        _changed(spent=["-1/2"]),
        _changed(spent=["1/2", "0/1"]),
        _changed(spent=[]),
        _changed(spent="1/2"),
        _changed(spent=[0.5]),
        _changed(spent=[["Symbol", "x", {}]]),
        _changed(count=-1),
        _changed(assumes=None),
        _changed(assumes=[{"id": "a"}]),
        _changed(assumes=[{"id": "a", "statement": "", "status": "declared", "evidence": ""}]),
        _changed(count=True),
        _changed(count="1"),
        _changed(scope={}),
        _changed(scope={"adjacency": "add_remove"}),
        _changed(method="sum"),
        _changed(method=None),
        _changed(orders=["2/1"]),
        _changed(share="0/1"),
        _changed(budget={}),
        _changed(budget=OPENED[0].to_json()),
    ],
)
def test_malformed_json_is_refused(table: Any) -> None:
    with pytest.raises(InvalidParameter):
        read_filter(table)

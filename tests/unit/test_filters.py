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

from dpaudit.account import Account
from dpaudit.arithmetic import enclose
from dpaudit.errors import BudgetExceeded, InvalidParameter, Unsupported
from dpaudit.filters import (
    ORDERS,
    Method,
    Odometer,
    OpenFilter,
    open_filter,
    open_odometer,
    read_filter,
    read_odometer,
)
from dpaudit.nodes import (
    GDP,
    ZCDP,
    ApproxDP,
    Assuming,
    Assumption,
    Compose,
    EventSlack,
    Filter,
    Gaussian,
    Laplace,
    Node,
    NonPrivate,
    PoissonSampled,
    PureDP,
    RenyiCurve,
    Repeat,
    Status,
)
from dpaudit.rules.convert import to_approx
from dpaudit.rules.rdp import order
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


# --- caps of (epsilon, delta) budgets, by method -------------------------------------------------


def number(value: Any) -> float:
    return float(enclose(value).mid())


def test_the_advanced_cap_is_the_theorem_solved_for_the_sum() -> None:
    """sqrt(2 log(1/d') S) + S/2 = epsilon, at d' = delta / 2 and at all of delta."""
    for share in (Fraction(1, 2), Fraction(1)):
        opened = open_filter(ApproxDP(2, 1e-6), SCOPE, "advanced", share=share)
        total = float(opened.caps[0])
        wanted = math.sqrt(2 * math.log(1 / (1e-6 * float(share))) * total) + total / 2
        assert wanted == pytest.approx(2, rel=1e-12)
        assert opened.caps[1] == Fraction(1, 10**6) * (1 - share)
    small = open_filter(ApproxDP(1, 1e-6), SCOPE, Method.ADVANCED)
    assert spent(small, 0.01, 333).count == 333
    assert not spent(small, 0.01, 333).admits(0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-3), (8, 1e-10)])
def test_concentrated_and_gaussian_caps_convert_back_to_the_budget(
    epsilon: float, delta: float
) -> None:
    budget = ApproxDP(epsilon, delta)
    rho = open_filter(budget, SCOPE, "zcdp").caps[0]
    mu = sympy.sqrt(sympy.Rational(*open_filter(budget, SCOPE, "gdp").caps[0].as_integer_ratio()))
    for cap, kept in ((ZCDP(rho), 0.995), (GDP(mu), 1 - 1e-9)):
        step = Account(cap, SCOPE).step("zcdp" if isinstance(cap, ZCDP) else "gdp")
        found = float(to_approx(step, Fraction(str(delta))).value[0])
        assert kept * epsilon <= found <= epsilon * (1 + 1e-12)


def test_a_renyi_cap_is_that_of_its_one_order() -> None:
    opened = open_filter(ApproxDP(1, 1e-6), SCOPE, "rdp", orders=[16])
    cost = math.log(1 - 1 / 16) - (math.log(1e-6) + math.log(16)) / 15
    assert float(opened.caps[0]) == pytest.approx(1 - cost, rel=1e-12)
    assert opened.units == ("divergence of order 16",)
    default = open_filter(ApproxDP(1, 1e-6), SCOPE, "rdp")
    rate = [open_filter(ApproxDP(1, 1e-6), SCOPE, "rdp", orders=[n]).caps[0] / n for n in (20, 24)]
    assert default.caps[0] / default.orders[0] >= max(rate)
    with pytest.raises(Unsupported, match="leaves nothing to spend"):
        open_filter(ApproxDP(0.1, 1e-6), SCOPE, "rdp", orders=[2])


def test_every_order_of_a_curve_must_fit() -> None:
    """Laplace noise is cheap at high orders, and dearest, against a line, at low ones."""
    opened = open_filter(RenyiCurve(ALPHA / 8), SCOPE, orders=[2, 64])
    while opened.admits(Laplace("a", 4)):
        opened = opened.spend(Laplace("a", 4))
    assert opened.count == 4
    assert opened.remaining[1] > 4
    assert opened.remaining[0] < Fraction(1, 10)


def test_methods_order_as_they_should() -> None:
    """How many Gaussians of noise 100 fit into (1, 1e-6): zcdp and rdp nearly gdp."""
    leaf, counts = Gaussian("a", 100), {}
    for method in ("zcdp", "rdp", "gdp"):
        opened = open_filter(ApproxDP(1, 1e-6), SCOPE, method)
        charge = opened.charge(leaf)
        assert charge is not None
        counts[method] = int(opened.caps[0] // charge[0])
    assert counts["rdp"] == counts["zcdp"] == 487
    assert counts["gdp"] == 560


@pytest.mark.parametrize(
    ("budget", "method", "error"),
    [
        (PureDP(1), "zcdp", "only method basic keeps"),
        (ZCDP(1), "gdp", "only method zcdp keeps"),
        (GDP(1), "basic", "only method gdp keeps"),
        (ApproxDP(1, 0), "advanced", "needs a positive delta"),
        (ApproxDP(1, 0), "gdp", "needs a positive delta"),
        (ApproxDP(1, 0), "rdp", "needs a positive delta"),
        (ApproxDP(1, 0), "zcdp", "needs a positive delta"),
    ],
)
def test_a_method_that_cannot_keep_a_budget_says_so(budget: Node, method: str, error: str) -> None:
    with pytest.raises(Unsupported, match=error):
        open_filter(budget, SCOPE, method)


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
    "0.1",
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


# --- odometers -----------------------------------------------------------------------------------


def test_a_pure_odometer_is_the_sum() -> None:
    meter = open_odometer("pure", SCOPE)
    assert meter.epsilon_upper == 0
    for _ in range(10):
        meter = meter.spend(0.1)
    assert meter.epsilon_upper == 1
    assert meter.spend(Laplace("a", 2)).epsilon_upper == Fraction(3, 2)


def test_an_approximate_odometer_is_infinite_once_its_delta_is_gone() -> None:
    meter = open_odometer("approx", SCOPE, 1e-6)
    for _ in range(10):
        meter = meter.spend((0.1, 1e-7))
    assert meter.epsilon_upper == 1
    assert meter.spend(0.1).epsilon_upper == Fraction(11, 10)
    assert meter.spend((0, 1e-30)).epsilon_upper == sympy.oo


def test_a_concentrated_odometer_is_near_the_line_that_is_best() -> None:
    """Within a few percent of R + 2 sqrt(R log(41/delta)), never below; and never decreasing."""
    meter, before = open_odometer("zcdp", SCOPE, 1e-6), Fraction(0)
    for n in range(60):
        meter = meter.spend(Fraction(1, 1000) * Fraction(11, 10) ** n)
        total = float(meter.spent[0])
        best = total + 2 * math.sqrt(total * math.log(41e6))
        assert best * (1 - 1e-12) <= meter.epsilon_upper <= 1.07 * best
        assert meter.epsilon_upper >= before
        before = meter.epsilon_upper


def test_a_concentrated_odometer_holds_at_a_stopping_time_chosen_to_break_it() -> None:
    """Gaussian releases of rho 1/50, stopped as soon as the loss passes the bound, 300 at most.

    20,000 runs; the bound fails with probability at most 0.05 each.  False-alarm rate: by
    Hoeffding, a frequency above 0.05 + 0.03 has probability below exp(-2 * 20000 * 0.03^2) < 1e-15.
    """
    meter, bounds = open_odometer("zcdp", SCOPE, 0.05), []
    for _ in range(300):
        meter = meter.spend(Gaussian("a", 5))
        bounds.append(float(meter.epsilon_upper))
    mu = 0.2
    noise = np.random.default_rng(5).standard_normal((20_000, 300))
    losses = np.cumsum(mu * noise + mu * mu / 2, axis=1)
    failed = (losses > np.array(bounds)).any(axis=1).mean()
    assert failed <= 0.08
    assert (losses[:, -1] > 0).mean() > 0.9


def test_odometers_round_trip() -> None:
    for meter in (
        open_odometer("pure", SCOPE).spend(0.3),
        open_odometer("approx", SCOPE, 1e-6).spend((0.3, 1e-9)),
        open_odometer("zcdp", SCOPE, 1e-6).spend(Gaussian("a", 3)),
    ):
        found = read_odometer(json.loads(json.dumps(meter.to_json())))
        assert found == meter
        assert found.epsilon_upper == meter.epsilon_upper


@pytest.mark.parametrize(
    "build",
    [
        lambda: open_odometer("gdp", SCOPE, 1e-6),
        lambda: open_odometer("rdp", SCOPE, 1e-6),
        lambda: open_odometer("pure", SCOPE).spend(NonPrivate("all")),
    ],
)
def test_what_has_no_odometer_says_so(build: Any) -> None:
    with pytest.raises(Unsupported, match="odometer"):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: open_odometer("sum", SCOPE),
        lambda: open_odometer("pure", SCOPE, 1e-6),
        lambda: open_odometer("zcdp", SCOPE, 0),
        lambda: open_odometer("approx", SCOPE),
        lambda: open_odometer("zcdp", SCOPE, 1),
        lambda: open_odometer("zcdp", SCOPE, math.nan),
        lambda: open_odometer("zcdp", SCOPE, x / (1 + x)),
        lambda: open_odometer("pure", None),  # type: ignore[arg-type]
        lambda: open_odometer("pure", SCOPE).spend(-1),
        lambda: open_odometer("pure", SCOPE).spend(math.nan),
        lambda: open_odometer("pure", SCOPE).spend((1, 2)),
        lambda: read_odometer({}),
        lambda: read_odometer(None),
        lambda: read_odometer({**open_odometer("pure", SCOPE).to_json(), "spent": []}),
        lambda: read_odometer({**open_odometer("pure", SCOPE).to_json(), "count": None}),
    ],
)
def test_bad_odometers_are_refused(build: Any) -> None:
    with pytest.raises(InvalidParameter):
        build()


def test_odometers_are_values() -> None:
    meter = open_odometer("pure", SCOPE)
    assert meter.spend(1) == Odometer(meter.measure, SCOPE, Fraction(0), (Fraction(1),), 1)
    assert meter.count == 0

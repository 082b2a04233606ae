"""Filters under any sequence of charges: never above the cap, in any order, nothing lost."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.accountant.filters import OpenFilter, open_filter, open_odometer, read_filter
from dpaudit.errors import BudgetExceeded, DpauditError, InvalidParameter
from dpaudit.exact import enclose, lower_fraction
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiCurve
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.renyi import order
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
BUDGETS: list[tuple[Node, str | None]] = [
    (PureDP(1), None),
    (ApproxDP(1, 0.25), None),
    (ApproxDP(1, 1e-3), "advanced"),
    (ApproxDP(1, 1e-3), "zcdp"),
    (ApproxDP(1, 1e-3), "gdp"),
    (ZCDP(0.5), None),
    (GDP(0.9), None),
]
amounts = st.one_of(
    st.decimals(min_value=0, max_value=1, places=3),
    st.fractions(min_value=0, max_value=1, max_denominator=997),
    st.floats(min_value=0, max_value=2, allow_nan=False),
    st.just(0),
    st.floats(min_value=1e3, max_value=1e300),
)
anything = st.one_of(
    amounts,
    st.floats(),
    st.sampled_from([-1, math.nan, math.inf, -math.inf, None, "one", True, [], -0.0, 10**999]),
)


def driven(opened: OpenFilter, charges: list[Any]) -> tuple[OpenFilter, list[Any]]:
    """The filter after all charges that it takes, and those."""
    taken = []
    for charge in charges:
        try:
            opened = opened.spend(charge)
        except (BudgetExceeded, InvalidParameter):
            continue
        taken.append(charge)
    return opened, taken


@pytest.mark.first_case
@pytest.mark.parametrize(("budget", "method"), BUDGETS, ids=str)
@given(charges=st.lists(anything, max_size=30))
@settings(max_examples=40)
def test_no_sequence_passes_the_cap(budget: Node, method: str | None, charges: list[Any]) -> None:
    opened, taken = driven(open_filter(budget, SCOPE, method), charges)
    assert opened.count == len(taken)
    assert all(0 <= a <= cap for a, cap in zip(opened.spent, opened.caps, strict=True))
    assert all(not isinstance(c, (str, bool, type(None))) and c >= 0 for c in taken)
    squares = 2 if opened.units[0].startswith("squared") else 1
    exact = sum((Fraction(str(c)) ** squares for c in taken), Fraction(0))
    assert exact <= opened.spent[0] <= exact + Fraction(1, 10**25)


@given(charges=st.lists(amounts, max_size=12), permuted=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_charges_that_fit_does_not_matter(charges: list[Any], permuted: Any) -> None:
    opened, taken = driven(open_filter(PureDP(1), SCOPE), charges)
    permuted.shuffle(taken)
    again, all_of_them = driven(open_filter(PureDP(1), SCOPE), taken)
    assert all_of_them == taken
    assert abs(again.spent[0] - opened.spent[0]) <= Fraction(1, 10**25)
    assert again.count == opened.count


@given(charges=st.lists(st.decimals(min_value=0, max_value=1, places=4), max_size=20))
@settings(max_examples=40)
def test_decimals_are_exact_and_refusals_right(charges: list[Any]) -> None:
    opened, total = open_filter(PureDP(1), SCOPE), Fraction(0)
    for charge in charges:
        fits = total + Fraction(charge) <= 1
        assert opened.admits(charge) is fits
        if fits:
            opened, total = opened.spend(charge), total + Fraction(charge)
        assert opened.spent == (total,)
        assert opened.remaining == (1 - total,)


multipliers = st.one_of(
    st.floats(min_value=0.05, max_value=1e6),
    st.floats(),
    st.sampled_from([0, -1, -0.3, math.nan, math.inf, 1e-300, 1e300, 10**400]),
)


@given(noise=st.lists(multipliers, max_size=40), cap=st.sampled_from([0.01, 0.5, 3]))
@settings(max_examples=60)
def test_a_run_with_noise_made_of_released_values_stays_within_its_cap(
    noise: list[float], cap: float
) -> None:
    """Signed, zero, huge and missing norms: sum 1/(2 z^2) over the noise drawn is at most the cap.

    What is no noise is refused by the leaf itself, before any charge.
    """
    opened, drawn = open_filter(Filter(Gaussian("g", 1), "zcdp", cap), SCOPE), []
    for multiplier in noise:
        try:
            leaf = Gaussian("g", multiplier)
            opened = opened.spend(leaf)
        except DpauditError:
            continue
        drawn.append(leaf.noise_multiplier)
    true = sum((1 / (2 * z**2) for z in drawn), Fraction(0))
    assert true <= Fraction(str(cap))
    assert 0 <= opened.spent[0] - true < Fraction(1, 10**20)
    assert len(drawn) == opened.count


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["laplace", "repeat", "pair"]), st.integers(1, 60)), max_size=12
    )
)
@settings(max_examples=25)
def test_declared_charges_are_their_folds(steps: list[tuple[str, int]]) -> None:
    makers = {
        "laplace": lambda n: Laplace("a", n),
        "repeat": lambda n: Repeat(Laplace("a", 7 * n), n % 5),
        "pair": lambda n: Compose(Laplace("a", 3 * n), PureDP(Fraction(1, n + 1))),
    }
    nodes = [makers[name](n) for name, n in steps]
    for calculus, budget in (("pure", PureDP(2)), ("zcdp", ZCDP(1))):
        opened, taken = driven(open_filter(budget, SCOPE), nodes)
        values = [CALCULI[calculus].fold(node, SCOPE).value for node in taken]
        assert opened.spent == (sum(values, Fraction(0)),)
        assert opened.spent[0] <= opened.caps[0]


@pytest.mark.quality
@given(noise=st.lists(st.floats(min_value=0.3, max_value=50), max_size=10))
@settings(max_examples=8)
def test_a_renyi_curve_holds_at_every_order(noise: list[float]) -> None:
    opened = open_filter(RenyiCurve(order() / 2), SCOPE, orders=[2, 3, 32])
    opened, taken = driven(opened, [Laplace("a", z) for z in noise])
    for a, found, cap in zip((2, 3, 32), opened.spent, opened.caps, strict=True):
        assert cap == Fraction(a, 2)
        balls = [enclose(renyi(leaf), {order(): enclose(Fraction(a))}) for leaf in taken]
        exact = sum((lower_fraction(ball) for ball in balls), Fraction(0))
        assert exact <= found <= min(cap, exact + Fraction(1, 10**20))


def renyi(node: Node) -> Any:
    return CALCULI["rdp"].fold(node, SCOPE).value


@pytest.mark.parametrize(("budget", "method"), BUDGETS, ids=str)
@given(charges=st.lists(amounts, max_size=8))
@settings(max_examples=15)
def test_json_keeps_every_filter(budget: Node, method: str | None, charges: list[Any]) -> None:
    opened, _ = driven(open_filter(budget, SCOPE, method), charges)
    assert read_filter(json.loads(json.dumps(opened.to_json()))) == opened


@given(charges=st.lists(st.fractions(min_value=0, max_value=2, max_denominator=50), max_size=15))
@settings(max_examples=25)
def test_an_odometer_never_falls_and_is_above_a_pure_sum_of_nothing(charges: list[Any]) -> None:
    meters = [open_odometer("pure", SCOPE), open_odometer("zcdp", SCOPE, 1e-5)]
    for charge in charges:
        after = [meter.spend(charge) for meter in meters]
        assert all(b.epsilon_upper >= a.epsilon_upper for a, b in zip(meters, after, strict=True))
        assert after[1].epsilon_upper > after[1].spent[0]
        meters = after
    assert meters[0].epsilon_upper == sum(charges, Fraction(0))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_the_filter_node_agrees_with_the_open_filter(seed: int) -> None:
    """Whatever fits, the sum of the realised charges is at most the node's value."""
    node = Filter(Select(Gaussian("norm", 1), Gaussian("step", 1)), "gdp", Fraction(3, 4))
    opened = open_filter(node, SCOPE)
    state = seed
    while opened.count < 50:
        state = (state * 1103515245 + 12345) % 2**31
        leaf = Gaussian("step", Fraction(1 + state % 97, 7))
        if not opened.admits(leaf):
            break
        opened = opened.spend(leaf)
    mu = CALCULI["gdp"].fold(node, SCOPE).value
    assert opened.spent[0] <= mu**2

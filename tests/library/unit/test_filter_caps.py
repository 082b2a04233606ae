"""Caps of (epsilon, delta) budgets, by method."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.accountant.filters import Method, OpenFilter, open_filter
from dpaudit.check.theorem import THEOREMS
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.adaptive.rules import STAND_IN_RELEASES
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose
from dpaudit.families.discrete import RandomizedResponse
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiCurve
from dpaudit.ledger.terms import terms_of
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.convert import to_approx
from dpaudit.measures.renyi import order
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from dpaudit.pairs import LaplaceShift, Normal
from dpaudit.scope import Scope, central

SCOPE = Scope("add_remove", "record", "central", "transcript")


ALPHA = order()


def spent(opened: OpenFilter, charge: object, times: int) -> OpenFilter:
    for _ in range(times):
        opened = opened.spend(charge)
    return opened


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


def test_a_curve_is_kept_at_its_orders_alone() -> None:
    """One answer of 10^9 is cheap up to order 64, and tells 0.3 with a chance of 10^-9.

    At delta = 10^-20 the curve would say 0.1244, by its order 680; delta there is 2.2 10^-10.
    """
    scope = central("replace_one")
    curve, report = RenyiCurve(ALPHA / 10_000), RandomizedResponse("r", "0.3", 10**9)
    opened = open_filter(curve, scope).spend(report)
    best, likely = Fraction("0.1244"), math.exp(0.3)
    truth = (likely - math.exp(best)) / (10**9 + likely - 1)
    assert truth > 2e-10
    assert Account(curve, scope).epsilon("1e-20").upper < best
    kept = [Account(node, scope).delta(best).upper for node in opened.guarantees]
    assert len(kept) == len(opened.orders)
    assert float(min(kept)) >= truth
    with pytest.raises(Unsupported, match="of every order"):
        open_filter(Filter.of(Gaussian("g", 1), curve), scope)
    with pytest.raises(InvalidParameter, match="at some orders only"):
        terms_of("person", scope, curve)
    assert open_filter(ZCDP(1), scope).guarantees == (ZCDP(1),)


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
        (PureDP(1), "zcdp", "needs method basic"),
        (ZCDP(1), "gdp", "needs method zcdp"),
        (GDP(1), "basic", "needs method gdp"),
        (ApproxDP(1, 0), "advanced", "needs a positive delta"),
        (ApproxDP(1, 0), "gdp", "needs a positive delta"),
        (ApproxDP(1, 0), "rdp", "needs a positive delta"),
        (ApproxDP(1, 0), "zcdp", "needs a positive delta"),
    ],
)
def test_a_method_that_cannot_keep_a_budget_says_so(budget: Node, method: str, error: str) -> None:
    with pytest.raises(Unsupported, match=error):
        open_filter(budget, SCOPE, method)


@pytest.mark.parametrize(
    ("child", "budget", "widest"),
    [
        (Gaussian("q", 1), ZCDP("0.5"), 1e-6),
        (Compose(Gaussian("a", 1), Gaussian("b", 1)), GDP("0.5"), 1e-6),
        (Laplace("q", 1), PureDP(2), 1e-4),
        (Laplace("q", 1), ApproxDP(2, "1e-6"), 1e-4),
        (Laplace("q", 1), ZCDP("0.5"), 0.5),
        (Select(Laplace("q", 1), Gaussian("g", 1)), ZCDP("0.5"), 0.4),
    ],
)
def test_what_spends_the_cap_is_reached(child: Node, budget: Node, widest: float) -> None:
    """The lower end is that of releases whose charges are the cap, accounted by themselves."""
    node = Filter.of(child, budget)
    bound = Account(node, SCOPE).epsilon("1e-5")
    assert 0 < float(bound.width) < widest
    losses = CALCULI["profile"].fold(node, SCOPE).value
    load("theorem")
    assert losses == THEOREMS["profile", "Filter"].bound(
        node, {"releases": STAND_IN_RELEASES}, None
    )
    (pair,) = losses.reached_remove
    charged: dict[type, Any] = {
        Normal: lambda p: p.mu**2 / 2,
        LaplaceShift: lambda p: p.epsilon**2 / 2,
    }
    total = sum(charged[type(factor)](factor) * times for factor, times in pair.factors)
    cap = {"zcdp": node.cap, "gdp": node.cap**2 / 2}.get(str(node.measure), node.cap**2 / 2)
    assert total == cap

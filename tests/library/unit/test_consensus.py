"""Routes that must meet: what is asked, what is skipped with its reason, what is a disagreement."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.crosscheck import consensus, oracle
from dpaudit.crosscheck.consensus import Consensus, CrossChecked, Route, claimed, cross_check
from dpaudit.errors import Disagreement, InvalidParameter, Unsupported
from dpaudit.exact import infinity
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.opaque import ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.scope import Scope

ADD_REMOVE = Scope("add_remove", "record", "central", "transcript")  # type: ignore[arg-type]
REPLACE_ONE = ADD_REMOVE.under("replace_one")
LEAF = Gaussian("gaussian", 1)
DELTA = Fraction(1, 10**5)


@pytest.mark.quality
def test_routes_to_one_gaussian_meet() -> None:
    found = cross_check(LEAF, ADD_REMOVE, 1e-5)
    names = {route.name for route in found.routes}
    assert names >= {"gdp", "zcdp", "rdp", "profile", "dp-accounting rdp", "dp-accounting pld"}
    assert "dp-accounting pld, optimistic" in names
    assert {name for name, _ in found.skipped} == {"pure", "approx"}
    assert found.highest_lower.lower <= found.lowest_upper.upper
    assert float(found.highest_lower.lower) == pytest.approx(4.3771781, abs=1e-6)
    assert float(found.lowest_upper.upper) == pytest.approx(4.3771781, abs=1e-6)
    assert all(route.lower <= found.lowest_upper.upper for route in found.routes)


def test_the_table_is_rounded_outward() -> None:
    table = cross_check(Laplace("laplace", 3), ADD_REMOVE, 0, [claimed("theirs", 1 / 3)]).table()
    assert table["delta"] == "0"
    rows = {row["route"]: row for row in table["routes"]}
    assert Fraction(rows["pure"]["epsilon_upper"]) >= Fraction(1, 3)
    assert Fraction(rows["theirs"]["epsilon_upper"]) >= Fraction(1 / 3)
    reasons = {row["route"]: row["reason"] for row in table["skipped"]}
    assert "delta 0" in reasons["dp-accounting rdp"]


@pytest.fixture(scope="module")
def agreed() -> Consensus:
    return cross_check(LEAF, ADD_REMOVE, 1e-5)


@pytest.mark.parametrize("upper", [0.0, 4.37717])
def test_an_upper_bound_below_a_lower_bound_is_a_disagreement(
    agreed: Consensus, upper: float
) -> None:
    with pytest.raises(Disagreement, match=r"theirs says epsilon <= .*one of them is wrong"):
        agreed.against(claimed("theirs", upper))


def test_a_lower_bound_above_an_upper_bound_is_a_disagreement(agreed: Consensus) -> None:
    with pytest.raises(Disagreement, match=r"theirs says epsilon >= 4\.3772"):
        agreed.against(claimed("theirs", math.inf, 4.3772))


@pytest.mark.parametrize(("upper", "lower"), [(4.3772, 0.0), (math.inf, 4.3771), (9.0, 4.0)])
def test_an_interval_that_meets_is_no_disagreement(
    agreed: Consensus, upper: float, lower: float
) -> None:
    found = agreed.against(claimed("theirs", upper, lower))
    assert found.routes[-1].name == "theirs"
    assert found.routes[:-1] == agreed.routes


def test_two_routes_that_the_caller_adds_must_meet_too() -> None:
    found = cross_check(PureDP(1), ADD_REMOVE, 1e-5).against(claimed("one", 0.5))
    with pytest.raises(Disagreement, match=r"one says epsilon <= 0\.5, two says .* >= 0\.75;"):
        found.against(claimed("two", 2.0, 0.75))


@pytest.mark.quality
def test_routes_are_added_as_they_are_asked() -> None:
    with pytest.raises(Disagreement, match="theirs"):
        cross_check(LEAF, ADD_REMOVE, 1e-5, [claimed("theirs", 4.0)])


@pytest.mark.quality
def test_a_route_of_our_own_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consensus, "rdp_epsilon_upper", lambda *_: 4.0)
    with pytest.raises(Disagreement, match="dp-accounting rdp says epsilon <= 4, "):
        cross_check(LEAF, ADD_REMOVE, 1e-5)


@pytest.mark.parametrize(
    ("upper", "lower"), [(math.nan, 0), (-1, 0), (1, math.nan), (1, -1), (1, math.inf)]
)
def test_what_is_no_interval_is_refused(upper: float, lower: float) -> None:
    with pytest.raises(InvalidParameter, match="theirs"):
        claimed("theirs", upper, lower)
    assert claimed("theirs", math.inf) == Route("theirs", Fraction(0), infinity())


@pytest.mark.parametrize("delta", [-0.1, 1, math.nan, "x", None])
def test_a_bad_delta_is_refused(delta: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        cross_check(LEAF, ADD_REMOVE, delta)


def test_what_no_route_covers_is_refused() -> None:
    noise = Gaussian("gaussian", sympy.Symbol("sigma", positive=True))
    with pytest.raises(Unsupported, match="no route answers"):
        cross_check(noise, ADD_REMOVE, 1e-5)


def test_no_privacy_is_infinite_on_every_route() -> None:
    found = cross_check(Compose(NonPrivate("a count"), LEAF), ADD_REMOVE, 1e-5)
    assert {route.upper for route in found.routes} == {infinity()}


def test_opaque_leaves_are_asked_of_our_own_routes_alone() -> None:
    found = cross_check(Compose(PureDP(1), ApproxDP(1, 1e-6)), ADD_REMOVE, 1e-5)
    assert {route.name for route in found.routes} == {"approx", "profile"}
    reasons = dict(found.skipped)
    assert "no event for PureDP" in reasons["dp-accounting pld"]


# --- what is asked of dp-accounting --------------------------------------------------------------


@pytest.mark.quality
def test_no_loss_distribution_is_asked_below_its_round_off() -> None:
    for ask in (oracle.pld_epsilon_upper, oracle.pld_epsilon_lower):
        assert ask(LEAF, ADD_REMOVE, oracle.SMALLEST_DELTA) > 6
        with pytest.raises(Unsupported, match="round-off"):
            ask(LEAF, ADD_REMOVE, oracle.SMALLEST_DELTA / 2)


@pytest.mark.parametrize(
    "ask", [oracle.rdp_epsilon_upper, oracle.pld_epsilon_upper, oracle.pld_epsilon_lower]
)
@pytest.mark.parametrize(
    "node",
    [
        Parallel(LEAF, Laplace("laplace", 1)),
        PureDP(1),
        Gaussian("gaussian", sympy.Symbol("sigma", positive=True)),
        Repeat(LEAF, sympy.Symbol("T", integer=True, positive=True)),
        Compose(*(Gaussian("gaussian", k) for k in range(1, oracle.MOST_EVENTS + 2))),
    ],
    ids=lambda node: node.head,
)
def test_what_it_cannot_be_asked_is_refused(ask: Any, node: Node) -> None:
    with pytest.raises(Unsupported):
        ask(node, ADD_REMOVE, DELTA)


def test_a_sample_under_replace_one_has_no_lower_bound() -> None:
    with pytest.raises(Unsupported, match="replace_one"):
        oracle.pld_epsilon_lower(PoissonSampled(LEAF, 0.5), REPLACE_ONE, DELTA)


@pytest.mark.parametrize(
    ("noise", "count"),
    [(Fraction(1, 100), 1), (Fraction(1, 5), 100), (1, 10**4), (1000, 1), (1000, 10**8)],
)
def test_the_grid_grows_before_the_memory_does(noise: Any, count: int) -> None:
    """PLD of one Gaussian(0.01) on the usual grid takes minutes, then all memory."""
    interval = oracle._interval(Repeat(Gaussian("gaussian", noise), count))
    mu = math.sqrt(count) / noise
    assert interval >= oracle.LEAST_INTERVAL
    assert (mu**2 / 2 + 20 * mu) / interval <= oracle.CELLS_OF_ALL


@pytest.mark.quality
def test_a_loud_gaussian_is_answered_on_a_coarse_grid() -> None:
    node = Gaussian("gaussian", Fraction(1, 100))
    lower, upper = (
        ask(node, ADD_REMOVE, DELTA) for ask in (oracle.pld_epsilon_lower, oracle.pld_epsilon_upper)
    )
    assert 5426 < lower <= upper < 5427


@pytest.mark.parametrize("ask", [oracle.pld_epsilon_upper, oracle.pld_epsilon_lower])
def test_a_composition_that_would_never_end_is_refused(ask: Any) -> None:
    with pytest.raises(Unsupported, match="too long"):
        ask(Repeat(Laplace("laplace", 1), 10**9), ADD_REMOVE, DELTA)


def test_equal_parts_are_counted_together() -> None:
    node = Compose(LEAF, Repeat(Compose(LEAF, Laplace("laplace", 2)), 3), LEAF)
    assert dict(oracle._gathered(node)) == {LEAF: 5, Laplace("laplace", 2): 3}
    tree: Node = LEAF
    for _ in range(300):
        tree = Compose(tree, tree)
    assert oracle._gathered(tree) == [(LEAF, 2**300)]


def test_gaussians_in_one_batch_are_one_gaussian() -> None:
    batch = Compose(Repeat(Gaussian("gaussian", 3), 9), Repeat(Gaussian("other", 4), 16))
    (found, times) = oracle._gathered(Repeat(PoissonSampled(batch, 0.5), 7))[0]
    assert (found.child.noise_multiplier**2, times) == (Fraction(1, 2), 7)  # type: ignore[attr-defined]


def test_negative_divergences_are_not_read_as_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    from dp_accounting.rdp import RdpAccountant

    for value in (-1e-3, math.nan):
        monkeypatch.setattr(
            RdpAccountant, "rdp", property(lambda self, v=value: np.array([v, 1.0]))
        )
        with pytest.raises(Unsupported, match="negative"):
            oracle.rdp_epsilon_upper(LEAF, ADD_REMOVE, DELTA)


@pytest.mark.quality
def test_an_account_can_be_cross_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route that is wrong is found before any number is given."""
    from dpaudit.accountant.account import account
    from dpaudit.crosscheck import oracle

    checked = CrossChecked(Gaussian("a", 1), ADD_REMOVE)
    assert checked.epsilon(1e-5).upper == account(Gaussian("a", 1), ADD_REMOVE).epsilon(1e-5).upper
    monkeypatch.setattr("dpaudit.crosscheck.consensus.rdp_epsilon_upper", lambda *asked: 1.0)
    assert oracle.rdp_epsilon_upper(Gaussian("a", 1), ADD_REMOVE, Fraction(1, 10**5)) > 4
    with pytest.raises(Disagreement, match="dp-accounting rdp says epsilon <= 1"):
        checked.epsilon(1e-6)

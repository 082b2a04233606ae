"""Against dp-accounting 0.6.0, each back end fed with multipliers as that back end reads them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

from dpaudit.accountant.account import Account
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.measures.convert import to_approx
from dpaudit.nodes import Node
from dpaudit.scope import Scope

REPLACE_ONE = Scope("replace_one", "record", "central", "transcript")
DELTA = Fraction(1, 10**5)
GAUSSIANS: list[list[tuple[Fraction, int]]] = [
    [(Fraction(1), 1)],
    [(Fraction(5), 30)],
    [(Fraction("19.3649"), 100), (Fraction("168.8194"), 1900)],
    [(Fraction("1.5"), 2), (Fraction(4), 10), (Fraction(100), 500)],
]


def ours(node: Node, delta: Fraction = DELTA) -> float:
    return float(Account(node, REPLACE_ONE).approximate(delta).value[0])


def declared(make: Callable[[str, Any], Node], parts: list[tuple[Fraction, int]]) -> Node:
    return Compose(*(Repeat(make("leaf", z), count) for z, count in parts))


def event(make: Callable[[float], Any], parts: list[tuple[Fraction, int]]) -> Any:
    composed = [dp_event.SelfComposedDpEvent(make(float(z)), count) for z, count in parts]
    return dp_event.ComposedDpEvent(composed)


@pytest.mark.first_case
@pytest.mark.parametrize("parts", GAUSSIANS, ids=range(len(GAUSSIANS)))
def test_gaussians_against_its_loss_distribution(parts: list[tuple[Fraction, int]]) -> None:
    """Its grid is pessimistic to about 1e-4 at delta 1e-5; ours is exact.

    ADD_OR_REMOVE with the multiplier over the replace-one sensitivity: under REPLACE_ONE its PLD
    accountant doubles the sensitivity once more.
    """
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(event(dp_event.GaussianDpEvent, parts))
    theirs = accountant.get_epsilon(float(DELTA))
    found = ours(declared(Gaussian, parts))
    assert theirs == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize("parts", GAUSSIANS, ids=range(len(GAUSSIANS)))
def test_gaussians_against_its_renyi_accountant(parts: list[tuple[Fraction, int]]) -> None:
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(event(dp_event.GaussianDpEvent, parts))
    theirs = accountant.get_epsilon(float(DELTA))
    account = Account(declared(Gaussian, parts), REPLACE_ONE)
    assert theirs >= float(account.approximate(DELTA).value[0])
    renyi = float(to_approx(account.step("rdp"), DELTA).value[0])
    assert renyi <= theirs * (1 + 1e-9)
    assert renyi == pytest.approx(theirs, rel=0.02)


def test_how_each_back_end_reads_a_multiplier() -> None:
    """Pinned: an upgrade that changes a reading changes these by a factor of two."""
    parts = [(1 / Fraction("0.57735"), 1)]
    readings = {}
    for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE):
        for kind in (PLDAccountant, RdpAccountant):
            accountant = kind(neighboring_relation=relation)
            accountant.compose(event(dp_event.GaussianDpEvent, parts))
            readings[kind.__name__, relation.name] = accountant.get_epsilon(float(DELTA))
    assert readings["PLDAccountant", "ADD_OR_REMOVE_ONE"] == pytest.approx(2.3414, abs=2e-4)
    assert readings["PLDAccountant", "REPLACE_ONE"] == pytest.approx(5.1748, abs=2e-4)
    assert readings["RdpAccountant", "ADD_OR_REMOVE_ONE"] == pytest.approx(2.5412, abs=2e-3)
    assert readings["RdpAccountant", "REPLACE_ONE"] == pytest.approx(2.5412, abs=2e-3)


LAPLACES = [[(Fraction(1), 1)], [(Fraction(2), 3)], [(Fraction(10), 50)], [(Fraction(3), 200)]]


@pytest.mark.first_case
@pytest.mark.parametrize("delta", [Fraction(1, 100), DELTA])
@pytest.mark.parametrize("parts", LAPLACES, ids=range(len(LAPLACES)))
def test_laplace_compositions_against_its_loss_distribution(
    parts: list[tuple[Fraction, int]], delta: Fraction
) -> None:
    """Ours is above its optimistic estimate, and within the slack of the Renyi conversion."""
    (scale, count) = parts[0]
    low = distributions.from_laplace_mechanism(float(scale), pessimistic_estimate=False)
    lower = low.self_compose(count).get_epsilon_for_delta(float(delta))
    found = ours(declared(Laplace, parts), delta)
    assert found >= lower - 1e-9
    assert found <= max(lower * 1.25, lower + 0.05)


@pytest.mark.parametrize("scale", [0.2, 1, 5])
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 100), DELTA, Fraction(1, 10**9)])
def test_one_laplace_release_has_a_closed_form(scale: float, delta: Fraction) -> None:
    """delta(epsilon) = 1 - exp((epsilon - 1/b) / 2): ours is above it, by less than 3 percent."""
    truth = max(0.0, 1 / scale + 2 * math.log1p(-float(delta)))
    found = ours(Laplace("leaf", scale), delta)
    assert truth * (1 - 1e-12) <= found <= truth * 1.05 + 1e-9


def test_laplace_renyi_curves_agree() -> None:
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    parts = [(Fraction(2), 7)]
    accountant.compose(event(dp_event.LaplaceDpEvent, parts))
    theirs = accountant.get_epsilon(float(DELTA))
    found = ours(declared(Laplace, parts))
    assert found <= theirs * (1 + 1e-9)
    assert found == pytest.approx(theirs, rel=0.02)


def test_pure_composition_is_finite_at_delta_zero() -> None:
    """Where its accountants answer infinity."""
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_event.LaplaceDpEvent(10.0))
    assert accountant.get_epsilon(0) == math.inf
    assert ours(Laplace("leaf", 10), Fraction(0)) == 0.1

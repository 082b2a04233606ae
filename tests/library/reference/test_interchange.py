"""Interchange against dp-accounting 0.6.0: its events, certified answers, its calibration."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting import dp_event as d
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpaudit.crosscheck.interchange import HistoryAccountant, from_dp_event
from dpaudit.crosscheck.interchange.accountant import DpauditAccountant
from dpaudit.crosscheck.oracle import pld_epsilon_lower
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit

ADD_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ZERO_OUT = NeighboringRelation.REPLACE_SPECIAL
SCOPE = Scope(Adjacency.ADD_REMOVE, Unit.RECORD, Trust.CENTRAL, Released.TRANSCRIPT)


def dp_sgd(noise: float, rate: float, steps: int) -> Any:
    sample = d.PoissonSampledDpEvent(rate, d.GaussianDpEvent(noise))
    return d.SelfComposedDpEvent(sample, steps)


ADDED: list[Any] = [
    d.GaussianDpEvent(1.0),
    d.SelfComposedDpEvent(d.LaplaceDpEvent(3.0), 7),
    dp_sgd(1.0, 0.01, 1000),
    d.ComposedDpEvent([dp_sgd(2.0, 0.1, 20), d.LaplaceDpEvent(2.0), d.GaussianDpEvent(4.0)]),
    d.DiscreteLaplaceDpEvent(0.5, 2),
]


@cache
def ours_of(place: int, relation: NeighboringRelation) -> float:
    """Our epsilon of one of these, at delta 1e-5."""
    return DpauditAccountant(relation).compose(ADDED[place]).get_epsilon(1e-5)


@pytest.mark.first_case("relation")
@pytest.mark.parametrize("place", range(len(ADDED)))
@pytest.mark.parametrize("relation", [ADD_REMOVE, ZERO_OUT], ids=["add_remove", "zero_out"])
def test_it_is_no_looser_than_the_loss_distributions(
    place: int, relation: NeighboringRelation
) -> None:
    """Their grid costs them about 1e-4; ours is certified to that width."""
    theirs = PLDAccountant(relation).compose(ADDED[place]).get_epsilon(1e-5)
    assert ours_of(place, relation) == pytest.approx(theirs, abs=3e-4)


@pytest.mark.quality
def test_a_mixture_of_two_is_a_sample() -> None:
    """Their own mixture is searched for root by root, half a minute an event."""
    event = d.MixtureOfGaussiansDpEvent(2.0, [0.0, 2.0], [0.9, 0.1])
    theirs = PLDAccountant().compose(dp_sgd(1.0, 0.1, 1)).get_epsilon(1e-5)
    assert DpauditAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(theirs, abs=3e-4)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("place", range(4))
def test_it_is_above_their_optimistic_estimate(place: int) -> None:
    node = from_dp_event(ADDED[place], "add_remove")
    lower = pld_epsilon_lower(node, SCOPE, Fraction(1, 10**5))
    assert ours_of(place, ADD_REMOVE) >= lower


@pytest.mark.parametrize(
    ("event", "theirs"),
    [
        (d.GaussianDpEvent(1.0), 9.99726),
        (d.LaplaceDpEvent(1.0), 2.0),
        (d.RandomizedResponseDpEvent(0.5, 4), 1.6095),
    ],
    ids=["gaussian", "laplace", "response"],
)
def test_a_sum_moves_by_two_norms_under_replace_one(event: Any, theirs: float) -> None:
    """PLD of the Gaussian under REPLACE_ONE; log 5 of the random answer; 2 of the Laplace."""
    ours = DpauditAccountant(REPLACE_ONE).compose(event).get_epsilon(1e-5)
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_trees_have_their_renyi_bound() -> None:
    """Depth 4 at 8 to 15 steps: mu = 2 / 4, where their Renyi conversion is a little looser."""
    event = d.SingleEpochTreeAggregationDpEvent(4.0, [8, 3])
    theirs = RdpAccountant(neighboring_relation=ZERO_OUT).compose(event).get_epsilon(1e-5)
    same = PLDAccountant(ADD_REMOVE).compose(d.GaussianDpEvent(2.0)).get_epsilon(1e-5)
    ours = DpauditAccountant(ZERO_OUT).compose(event).get_epsilon(1e-5)
    assert ours == pytest.approx(same, abs=1e-4)
    assert ours <= theirs


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE, ZERO_OUT])
def test_concentrated_events_have_their_renyi_bound(relation: NeighboringRelation) -> None:
    event = d.ComposedDpEvent([d.ZCDpEvent(0.05, 0.1), d.SelfComposedDpEvent(d.ZCDpEvent(0.01), 3)])
    theirs = RdpAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-6)
    ours = DpauditAccountant(relation).compose(event).get_epsilon(1e-6)
    assert ours == pytest.approx(theirs, rel=5e-3)
    assert ours <= theirs


def test_delta_and_epsilon_are_inverse() -> None:
    accountant = DpauditAccountant().compose(dp_sgd(1.0, 0.01, 1000))
    epsilon = accountant.get_epsilon(1e-5)
    assert accountant.get_delta(epsilon) == pytest.approx(1e-5, rel=1e-2)
    assert accountant.get_delta(epsilon) >= PLDAccountant().compose(
        dp_sgd(1.0, 0.01, 1000)
    ).get_delta(epsilon) * (1 - 1e-2)


def test_calibration_of_dp_sgd() -> None:
    """dp-accounting finds 1.84518 for epsilon 1, delta 1e-6, rate .004, 10^4 steps."""
    found = dp_accounting.calibrate_dp_mechanism(
        DpauditAccountant,
        lambda noise: dp_sgd(noise, 0.004, 10_000),
        1.0,
        1e-6,
        dp_accounting.ExplicitBracketInterval(1.5, 2.5),
        tol=1e-4,
    )
    assert found == pytest.approx(1.8451, abs=3e-4)
    accountant = DpauditAccountant().compose(dp_sgd(found, 0.004, 10_000))
    assert accountant.get_epsilon(1e-6) <= 1.0


@pytest.mark.quality
def test_a_history_is_not_below_another_tools_lower_bound() -> None:
    """sigma 1, rate .01, 1,000 steps, delta 1e-5: a limit theorem says 1.618, at least 1.827."""
    accountant = HistoryAccountant()
    accountant.history = [(1.0, 0.01, 600), (1.0, 0.01, 400)]
    found = accountant.get_epsilon(1e-5)
    assert found >= 1.827
    theirs = PLDAccountant().compose(dp_sgd(1.0, 0.01, 1000)).get_epsilon(1e-5)
    assert found == pytest.approx(theirs, abs=3e-4)

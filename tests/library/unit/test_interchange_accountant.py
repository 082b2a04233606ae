"""dp-accounting's interface: what it supports, refuses and answers, and its calibration."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, UnsupportedEventError
from dp_accounting import dp_event as d

from dpaudit.crosscheck.interchange import from_dp_event
from dpaudit.crosscheck.interchange.accountant import DpauditAccountant
from dpaudit.crosscheck.interchange.kinds import NOTHING
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat

ADD_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ZERO_OUT = NeighboringRelation.REPLACE_SPECIAL
RELATIONS = [ADD_REMOVE, REPLACE_ONE, ZERO_OUT]
# mu-GDP at delta 1e-5 (Balle and Wang 2018, Theorem 8; 50 digits).
EPSILON_OF_MU = {1: 4.3771780956812, 2: 9.9972561457}


def test_it_is_one_of_the_librarys_accountants() -> None:
    accountant = DpauditAccountant()
    assert isinstance(accountant, dp_accounting.PrivacyAccountant)
    assert accountant.neighboring_relation is ADD_REMOVE
    assert isinstance(accountant.ledger, d.NoOpDpEvent)


@pytest.mark.parametrize("relation", [None, 1, "REPLACE_ONE"])
def test_another_relation_is_refused(relation: Any) -> None:
    with pytest.raises(InvalidParameter, match="NeighboringRelation"):
        DpauditAccountant(relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_costs_nothing(relation: NeighboringRelation) -> None:
    accountant = DpauditAccountant(relation)
    for event in (d.NoOpDpEvent(), d.ComposedDpEvent([]), d.PoissonSampledDpEvent(0.0, _leaf())):
        accountant.compose(event)
    assert accountant.declaration == NOTHING
    for delta in (0, 1e-9, 1):
        assert accountant.get_epsilon(delta) == 0
    assert accountant.get_delta(0) == 0


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_has_no_privacy(relation: NeighboringRelation) -> None:
    accountant = DpauditAccountant(relation).compose(_leaf()).compose(d.NonPrivateDpEvent())
    assert accountant.get_epsilon(1e-5) == math.inf
    assert accountant.get_delta(3.0) == 1


def _leaf() -> Any:
    return d.GaussianDpEvent(10.0)


@pytest.mark.parametrize(("relation", "mu"), [(ADD_REMOVE, 1), (REPLACE_ONE, 2), (ZERO_OUT, 1)])
def test_sensitivity_is_that_of_the_relation(relation: NeighboringRelation, mu: int) -> None:
    accountant = DpauditAccountant(relation).compose(_leaf(), 60)
    accountant.compose(d.SelfComposedDpEvent(_leaf(), 40))
    epsilon = accountant.get_epsilon(1e-5)
    assert epsilon >= EPSILON_OF_MU[mu]
    assert epsilon == pytest.approx(EPSILON_OF_MU[mu], rel=1e-9)
    assert accountant.get_delta(epsilon) <= 1e-5 * (1 + 1e-9)
    assert accountant.get_delta(epsilon) == pytest.approx(1e-5, rel=1e-6)


def test_pure_privacy_is_finite_at_delta_zero() -> None:
    accountant = DpauditAccountant().compose(d.LaplaceDpEvent(10.0), 100)
    assert accountant.get_epsilon(0) == 10.0
    assert accountant.get_delta(10.0) == 0


def test_equal_runs_are_counted_and_the_ledger_kept() -> None:
    accountant = DpauditAccountant()
    for event in (_leaf(), _leaf(), d.LaplaceDpEvent(2.0), _leaf()):
        accountant.compose(event)
    gaussian = Gaussian("gaussian", 10, under="add_remove zero_out")
    expected = Compose(Repeat(gaussian, 2), Laplace("laplace", 2), gaussian)
    assert accountant.declaration == expected
    assert accountant.ledger == d.ComposedDpEvent(
        [d.SelfComposedDpEvent(_leaf(), 2), d.LaplaceDpEvent(2.0), _leaf()]
    )


REFUSED = [
    d.UnsupportedDpEvent(),
    d.ComposedDpEvent([_leaf(), d.UnsupportedDpEvent()]),
    d.RepeatAndSelectDpEvent(_leaf(), 0.5, 1.0),
    d.GaussianDpEvent(math.nan),
    d.GaussianDpEvent(-1.0),
    d.GaussianDpEvent(math.inf),
    d.SelfComposedDpEvent(_leaf(), -1),
    d.PoissonSampledDpEvent(1.5, _leaf()),
]


@pytest.mark.parametrize("event", REFUSED, ids=str)
def test_what_it_does_not_support_leaves_it_as_it_was(event: Any) -> None:
    """A NaN multiplier sets dp-accounting's Renyi accountant back to 0."""
    accountant = DpauditAccountant().compose(d.GaussianDpEvent(1.0))
    assert not accountant.supports(event)
    with pytest.raises(UnsupportedEventError):
        accountant.compose(event)
    assert accountant.get_epsilon(1e-5) >= EPSILON_OF_MU[1]
    assert accountant.ledger == d.GaussianDpEvent(1.0)


def test_a_sample_is_refused_under_another_relation() -> None:
    sample = d.SampledWithoutReplacementDpEvent(100, 10, _leaf())
    assert DpauditAccountant(REPLACE_ONE).supports(sample)
    assert not DpauditAccountant(ADD_REMOVE).supports(sample)


@pytest.mark.parametrize("bad", [-1e-9, 1.5, math.nan, math.inf, "x", None])
def test_bad_targets_are_refused(bad: Any) -> None:
    accountant = DpauditAccountant().compose(_leaf())
    with pytest.raises(InvalidParameter, match="delta"):
        accountant.get_epsilon(bad)
    if bad != 1.5:
        with pytest.raises(InvalidParameter, match="epsilon"):
            accountant.get_delta(bad)


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_the_librarys_own_checks_of_counts_hold(count: Any) -> None:
    accountant = DpauditAccountant()
    if count is True:
        assert accountant.compose(_leaf(), count).declaration == from_dp_event(
            _leaf(), "add_remove"
        )
        return
    with pytest.raises((TypeError, ValueError)):
        accountant.compose(_leaf(), count)
    assert accountant.declaration == NOTHING


@pytest.mark.parametrize(("relation", "factor"), [(ADD_REMOVE, 1), (REPLACE_ONE, 2)])
def test_calibration_of_a_multiplier(relation: NeighboringRelation, factor: int) -> None:
    """From its default bracket, which starts at a multiplier of 0; the sigma of mu-GDP is 1/mu."""
    found = dp_accounting.calibrate_dp_mechanism(
        lambda: DpauditAccountant(relation), d.GaussianDpEvent, EPSILON_OF_MU[1], 1e-5
    )
    assert found == pytest.approx(factor, abs=1e-5)
    accountant = DpauditAccountant(relation).compose(d.GaussianDpEvent(found))
    assert accountant.get_epsilon(1e-5) <= EPSILON_OF_MU[1]


def test_calibration_of_a_count() -> None:
    """Laplace(10) is 0.1-DP: twenty fit into epsilon 2 at delta 0, where the library has none."""
    found = dp_accounting.calibrate_dp_mechanism(
        DpauditAccountant,
        lambda count: d.SelfComposedDpEvent(d.LaplaceDpEvent(10.0), count),
        2.0,
        0.0,
        dp_accounting.ExplicitBracketInterval(1, 100),
        discrete=True,
    )
    assert found == 20


@pytest.mark.parametrize("noise", [1, np.int64(1), np.float32(1), 1.0])
def test_an_inner_composition_is_never_dropped(noise: Any) -> None:
    """100 Gaussians inside each sample, also where dp-accounting 0.6.0 drops all but one."""
    inner = d.SelfComposedDpEvent(d.GaussianDpEvent(noise), 100)
    accountant = DpauditAccountant().compose(d.PoissonSampledDpEvent(1.0, inner), 100)
    assert accountant.get_epsilon(1e-5) >= 100**2 / 2

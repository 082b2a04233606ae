"""Cross-checks against dp-accounting 0.6.0: sound delegation agrees, delegation as is does not.

The cases of disagreement are published faults of that release, each with its number.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting import dp_event as d
from dp_accounting.pld import privacy_loss_distribution

from dpaudit.accountant.account import Account
from dpaudit.crosscheck.consensus import claimed, cross_check
from dpaudit.crosscheck.interchange import from_dp_event
from dpaudit.crosscheck.oracle import (
    Backend,
    as_is,
    norms_read,
    pld_epsilon_lower,
    pld_epsilon_upper,
    rdp_epsilon_upper,
    relation_of,
)
from dpaudit.errors import Disagreement
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit

ADD_REMOVE = Scope(Adjacency.ADD_REMOVE, Unit.RECORD, Trust.CENTRAL, Released.TRANSCRIPT)
REPLACE_ONE = ADD_REMOVE.under(Adjacency.REPLACE_ONE)
DELTA = Fraction(1, 10**5)
GAUSSIAN = Gaussian("gaussian", 1)


def disagrees(node: Node, scope: Scope, delta: Any, answer: float) -> str:
    """The message of the disagreement that an unsound answer causes."""
    sound = cross_check(node, scope, delta)
    with pytest.raises(Disagreement, match="dp-accounting as is says epsilon <= ") as caught:
        sound.against(claimed("dp-accounting as is", answer))
    return str(caught.value)


# --- delegation as is ----------------------------------------------------------------------------


def inner_composition(noise: Any, count: int, rate: float, times: int) -> Any:
    inner = d.SelfComposedDpEvent(d.GaussianDpEvent(noise), count)
    return d.SelfComposedDpEvent(d.PoissonSampledDpEvent(rate, inner), times)


@pytest.mark.parametrize("noise", [1, np.int64(1), np.float32(1)], ids=["int", "int64", "float32"])
def test_an_inner_composition_is_dropped_where_the_noise_is_no_float(noise: Any) -> None:
    """It says 1.214, and 1041.1 for the same event with the float 1.0."""
    event = inner_composition(noise, 100, 0.01, 100)
    answer = as_is([event], NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-5, Backend.RDP)
    assert answer == pytest.approx(1.2141, abs=1e-3)
    node = from_dp_event(event, "add_remove")
    assert rdp_epsilon_upper(node, ADD_REMOVE, DELTA) == pytest.approx(1041.146, abs=1e-2)


@pytest.mark.quality
def test_that_inner_composition_costs_354() -> None:
    node = from_dp_event(inner_composition(1, 100, 0.01, 100), "add_remove")
    lower = pld_epsilon_lower(node, ADD_REMOVE, DELTA)
    assert lower == pytest.approx(354.1, abs=0.1)


@pytest.mark.quality
def test_a_dropped_inner_composition_is_a_disagreement() -> None:
    """The same fault where every route is quick: 9 Gaussians a batch, ten batches."""
    event = inner_composition(2, 9, 0.1, 10)
    answer = as_is([event], NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-5, Backend.RDP)
    assert answer == pytest.approx(0.9355, abs=1e-3)
    disagrees(from_dp_event(event, "add_remove"), ADD_REMOVE, DELTA, answer)


@pytest.mark.quality
def test_a_nan_that_wipes_what_was_spent_is_found() -> None:
    """It says 0 after Gaussian(1.0) and Gaussian(nan); the first alone costs 4.377."""
    events = [d.GaussianDpEvent(1.0), d.GaussianDpEvent(math.nan)]
    answer = as_is(events, NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-5, Backend.RDP)
    assert answer == 0
    message = disagrees(from_dp_event(events[0], "add_remove"), ADD_REMOVE, DELTA, answer)
    assert "epsilon >= 4.377178" in message


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("event", "says", "truth"),
    [(d.GaussianDpEvent(1.0), 4.7285, "9.99725"), (d.LaplaceDpEvent(1.0), 1.0028, "1.99997")],
    ids=["gaussian", "laplace"],
)
def test_a_sensitivity_that_is_not_doubled_is_found(event: Any, says: float, truth: str) -> None:
    answer = as_is([event], NeighboringRelation.REPLACE_ONE, 1e-5, Backend.RDP)
    assert answer == pytest.approx(says, abs=1e-4)
    message = disagrees(from_dp_event(event, "replace_one"), REPLACE_ONE, DELTA, answer)
    assert f"epsilon >= {truth}" in message


@pytest.mark.quality
@pytest.mark.parametrize(
    ("steps", "says", "truth", "doubled"),
    [
        (100, 1.4825, "6.509", 11.213),
        pytest.param(1000, 3.5761, "13.578", 20.987, marks=pytest.mark.quality),
    ],
)
def test_a_batch_whose_sensitivity_is_not_doubled_is_found(
    steps: int, says: float, truth: str, doubled: float
) -> None:
    """n = 60,000, b = 600, sigma = C, 1,000 steps: it says 3.576, 13.578 is reached."""
    event = d.SampledWithoutReplacementDpEvent(60_000, 600, d.GaussianDpEvent(1.0))
    run = d.SelfComposedDpEvent(event, steps)
    answer = as_is([run], NeighboringRelation.REPLACE_ONE, 1e-5, Backend.RDP)
    assert answer == pytest.approx(says, abs=1e-3)
    node = from_dp_event(run, "replace_one")
    assert f"epsilon >= {truth}" in disagrees(node, REPLACE_ONE, DELTA, answer)
    assert rdp_epsilon_upper(node, REPLACE_ONE, DELTA) == pytest.approx(doubled, abs=1e-2)


@pytest.mark.parametrize(("delta", "truth"), [("1e-12", "7.238494"), ("1e-14", "7.868736")])
def test_round_off_of_a_loss_distribution_is_found(delta: str, truth: str) -> None:
    """Gaussian(100), 10^4 times (mu = 1): seen 7.2168 and 7.2334 at 1e-12, 7.508 and 7.692 at
    1e-14 on two machines; the round-off of its transforms differs, its sign did not.
    """
    composed = privacy_loss_distribution.from_gaussian_mechanism(100).self_compose(10_000)
    answer = composed.get_epsilon_for_delta(float(delta))
    node = Repeat(Gaussian("gaussian", 100), 10_000)
    assert f"epsilon >= {truth}" in disagrees(node, ADD_REMOVE, Fraction(delta), answer)


@pytest.mark.quality
def test_round_off_under_sampling_is_found() -> None:
    """DP-SGD, sigma 1, rate .01, 10^4 steps, delta 1e-12: seen 10.2988 and 10.3197."""
    event = d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.01, d.GaussianDpEvent(1.0)), 10_000)
    answer = as_is([event], NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-12, Backend.PLD)
    disagrees(from_dp_event(event, "add_remove"), ADD_REMOVE, Fraction(1, 10**12), answer)


@pytest.mark.parametrize("times", [2, 20])
def test_a_count_that_is_dropped_is_found(times: int) -> None:
    """Its PLD accountant composes a random answer once, whatever its count: it says 1.61."""
    answers = d.SelfComposedDpEvent(d.RandomizedResponseDpEvent(0.5, 4), times)
    says = as_is([answers], NeighboringRelation.REPLACE_ONE, 1e-5, Backend.PLD)
    assert says == pytest.approx(math.log(5), abs=1e-3)
    node = from_dp_event(answers, "replace_one")
    disagrees(node, REPLACE_ONE, DELTA, says)
    one_by_one = pld_epsilon_upper(node, REPLACE_ONE, DELTA)
    pure = times * math.log(5)
    assert one_by_one == pytest.approx(pure, rel=1e-3) if times == 2 else says < one_by_one < pure


# --- sound delegation ----------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.long_cases("pld-add_remove")
@pytest.mark.first_case("backend")
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("backend", Backend)
def test_which_back_end_doubles_the_sensitivity(backend: Backend, adjacency: Adjacency) -> None:
    """Probed: the multiplier over the norm as read gives the answer of add_remove at 1."""
    event = d.GaussianDpEvent(float(norms_read(backend, adjacency)))
    found = as_is([event], relation_of(adjacency), 1e-5, backend)
    plain = as_is([d.GaussianDpEvent(1.0)], relation_of(Adjacency.ADD_REMOVE), 1e-5, backend)
    assert found == pytest.approx(plain, rel=1e-6)
    other = d.GaussianDpEvent(2.0 / norms_read(backend, adjacency))
    if adjacency is Adjacency.REPLACE_ONE:
        assert as_is([other], relation_of(adjacency), 1e-5, backend) != pytest.approx(
            plain, rel=0.1
        )


def sampled(noise: Any, rate: Any, times: int) -> Node:
    return Repeat(PoissonSampled(Gaussian("gaussian", noise), rate), times)


AGREED: list[tuple[Node, Scope, str]] = [
    (GAUSSIAN, ADD_REMOVE, "1e-2"),
    (Gaussian("gaussian", Fraction(1, 2)), REPLACE_ONE, "1e-8"),
    (Repeat(Laplace("laplace", 3), 7), REPLACE_ONE, "1e-5"),
    (sampled(1, Fraction(1, 100), 1000), ADD_REMOVE, "1e-5"),
    (sampled(1, Fraction(1, 100), 1000), ADD_REMOVE.under("zero_out"), "1e-8"),
    (sampled(Fraction(3, 5), Fraction(1, 10), 20), ADD_REMOVE, "1e-2"),
    (sampled(Fraction(3, 5), Fraction(1, 10), 20), ADD_REMOVE, "1e-9"),
    (Repeat(PoissonSampled(Laplace("laplace", 2), Fraction(1, 10)), 50), ADD_REMOVE, "1e-8"),
    (Compose(Repeat(Gaussian("gaussian", 20), 100), Laplace("laplace", 2)), ADD_REMOVE, "1e-5"),
    (
        Compose(*(Gaussian("gaussian", k) for k in range(5, 9)), sampled(2, Fraction(1, 50), 30)),
        ADD_REMOVE,
        "1e-6",
    ),
]


# The same declarations as their neighbours, at another delta.
LONG = (3, 5)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.long_cases("6")
@pytest.mark.parametrize(
    ("node", "scope", "delta"),
    [
        pytest.param(*case, id=str(n), marks=[pytest.mark.quality] * (n in LONG))
        for n, case in enumerate(AGREED)
    ],
)
def test_independent_routes_agree(node: Node, scope: Scope, delta: str) -> None:
    found = cross_check(node, scope, Fraction(delta))
    names = {route.name for route in found.routes}
    assert {"profile", "dp-accounting pld", "dp-accounting pld, optimistic"} <= names
    by_name = {route.name: route for route in found.routes}
    closest = float(by_name["dp-accounting pld"].upper)
    assert float(by_name["profile"].upper) <= closest * (1 + 1e-3) + 1e-3


@pytest.mark.first_case
@pytest.mark.long_cases("1e-2-mu1", "1e-5-mu1")
@pytest.mark.parametrize("mu", [Fraction(1, 10), Fraction(1)])
@pytest.mark.parametrize("delta", ["1e-2", "1e-5", "1e-9"])
def test_its_intervals_hold_the_closed_form(mu: Fraction, delta: str) -> None:
    """100 Gaussians through its transforms, round-off allowed for; the truth is exact in mu."""
    node, at = Repeat(Gaussian("gaussian", 10 / mu), 100), Fraction(delta)
    truth = Account(node, ADD_REMOVE).converted("gdp", at)
    assert pld_epsilon_lower(node, ADD_REMOVE, at) <= truth.value[0]
    assert pld_epsilon_upper(node, ADD_REMOVE, at) >= truth.lower

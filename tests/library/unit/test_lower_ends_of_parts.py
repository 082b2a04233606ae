"""A composition is no more private than any of its parts: lower ends of parts hold of the whole."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from scipy import optimize, stats

import dpaudit as dp
from dpaudit import profiles
from dpaudit.accountant.parts import reached_part
from dpaudit.check.profile.conversions import _lower, _marginal
from dpaudit.errors import CertificateRejected
from dpaudit.families.composition.profile_theorem import _composed
from dpaudit.families.tuning import TunedPoisson
from dpaudit.measures.profile import composition
from dpaudit.nodes import Node
from dpaudit.pairs import (
    Allocated,
    LaplaceShift,
    Losses,
    Normal,
    Product,
    Replaced,
    Reshuffled,
    product,
)
from dpaudit.profiles import answers

DELTA = Fraction(1, 10**5)
ZERO_OUT, REPLACE, ADD = (dp.central(name) for name in ("zero_out", "replace_one", "add_remove"))
PASSES = dp.Repeat(dp.ShuffledBatches(dp.Gaussian("g", 1), 100, 1), 10)
ROUNDS = product([(Replaced(Fraction(1), Fraction(1, 100)), Fraction(100))])
WITH_NOISE = product([*ROUNDS.factors, (Normal(Fraction(1, 100)), Fraction(1))])


def lower(node: Node, scope: dp.Scope) -> Fraction:
    return dp.account(node, scope).epsilon(DELTA).lower


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "more",
    [
        pytest.param(dp.ShuffledBatches(dp.Gaussian("g", 100), 100, 1), marks=pytest.mark.quality),
        pytest.param(
            dp.Repeat(dp.ShuffledBatches(dp.Gaussian("g", "0.8"), 100, 1), 5),
            marks=pytest.mark.quality,
        ),
        dp.Gaussian("h", 100),
    ],
)
def test_what_is_reached_by_passes_is_by_more_of_them(more: Node) -> None:
    alone = max(lower(PASSES, ZERO_OUT), lower(more, ZERO_OUT))
    assert alone > 9
    assert lower(dp.Compose(PASSES, more), ZERO_OUT) >= alone * (1 - Fraction(1, 10**4))


def _losses(*reached: Any) -> Losses:
    return Losses((Normal(Fraction(9)),), (Normal(Fraction(9)),), reached, reached)


def test_alternatives_are_chosen_alike_and_a_checker_agrees() -> None:
    noises = (Fraction(1), Fraction(2))
    premises = [
        _losses(*(kind(z, Fraction(9)) for kind in (Allocated, Reshuffled))) for z in noises
    ]
    premises += [_losses(LaplaceShift(Fraction(1))), _losses()]
    mine = composition(premises)
    assert len(mine.reached_remove) == 2
    assert {len(pair.factors) for pair in mine.reached_remove} == {3}
    assert mine == _composed(None, {}, *premises)


# --- factors of products --------------------------------------------------------------------------


@pytest.mark.quality
def test_rounds_that_are_played_are_no_less_beside_noise() -> None:
    alone = profiles.epsilon_interval(ROUNDS, DELTA)
    both = profiles.epsilon_interval(WITH_NOISE, DELTA)
    assert both.lower >= alone.lower > Fraction(72, 100)
    losses = Losses((WITH_NOISE,), (WITH_NOISE,), (WITH_NOISE,), (WITH_NOISE,))
    row = {"pair": "0", "value": str(float(both.lower)), **both.lower_witness}
    doubts: list[Any] = []
    assert _lower(losses, DELTA, [row], doubts) is not None
    assert not doubts
    # Of the other factor it is not shown, nor a larger one of its own.
    other = "01".replace(row["factors"], "")
    assert _lower(losses, DELTA, [{**row, "factors": other}], doubts) is None or doubts
    raised = {**row, "value": "0.75", "epsilon": "0.75"}
    assert _lower(losses, DELTA, [raised], []) is None


@pytest.mark.parametrize("places", ["", "0 0", "1 0", "2", "-1", "1/2"])
def test_factors_that_a_product_has_not_are_refused(places: str) -> None:
    with pytest.raises(CertificateRejected):
        _marginal(WITH_NOISE, places)


@pytest.mark.quality
def test_delta_of_a_product_is_at_least_that_of_its_rounds() -> None:
    alone = profiles.delta_interval(ROUNDS, Fraction(1, 2))
    assert profiles.delta_interval(WITH_NOISE, Fraction(1, 2)).lower >= alone.lower > 0


def test_where_nothing_is_known_of_a_product_its_parts_are_asked() -> None:
    pair = product([(LaplaceShift(Fraction(1)), Fraction(1)), (Normal(Fraction(1)), Fraction(1))])
    nothing = profiles.Interval(Fraction(0), Fraction(9))
    asked: list[Any] = []

    def ends(part: Any) -> profiles.Interval:
        asked.append(part)
        return profiles.Interval(Fraction(len(asked)), Fraction(9))

    found = answers._above_parts(pair, nothing, ends)
    assert asked == [factor for factor, _ in pair.factors]
    assert found.lower == 2
    assert found.lower_witness["factors"] == "1"
    many = Product(tuple((LaplaceShift(Fraction(k)), Fraction(1)) for k in range(1, 12)))
    assert answers._above_parts(many, nothing, ends) is nothing


# --- releases without pairs -----------------------------------------------------------------------

TUNED = TunedPoisson(dp.Gaussian("h", 10), 100)
GAUSSIAN = dp.Gaussian("g", 1)


@pytest.mark.quality
def test_a_search_beside_a_gaussian_leaves_what_that_reaches() -> None:
    """Against the Gaussian's own curve."""

    def delta(epsilon: float) -> float:
        low, high = (float(stats.norm.cdf(s / 2 - epsilon)) for s in (1, -1))
        return low - math.exp(epsilon) * high

    truth = optimize.brentq(lambda epsilon: delta(epsilon) - 1e-5, 1, 9)
    run = dp.account(dp.Compose(GAUSSIAN, TUNED), ADD)
    found = run.epsilon(DELTA)
    assert abs(float(found.lower) - truth) < 1e-9
    assert found.upper > found.lower
    assert abs(float(run.delta(1).lower) - delta(1.0)) < 1e-9


@pytest.mark.parametrize(
    ("node", "rest"),
    [
        (dp.Compose(TUNED, GAUSSIAN, TUNED), GAUSSIAN),
        (dp.Repeat(dp.Compose(TUNED, GAUSSIAN), 3), dp.Repeat(GAUSSIAN, 3)),
        (dp.Parallel(GAUSSIAN, TUNED), GAUSSIAN),
        (dp.Compose(GAUSSIAN, TUNED, GAUSSIAN), dp.Compose(GAUSSIAN, GAUSSIAN)),
        (dp.Compose(GAUSSIAN, dp.ApproxDP(1, "1e-6")), GAUSSIAN),
        (TUNED, None),
        (dp.Compose(TUNED, TUNED), None),
    ],
)
def test_releases_without_a_pair_that_is_reached_are_left_out(
    node: Node, rest: Node | None
) -> None:
    found = reached_part(node, ADD)
    assert (found and found.digest) == (rest and rest.digest)


# --- one run, one round ---------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.long_cases("0")
@pytest.mark.parametrize("shape", ["0", "1"])
def test_a_search_reaches_what_one_run_does(shape: str) -> None:
    """Where all scores are equal the best run is any run."""
    run = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", 1), "0.01"), 100)
    found = dp.account(dp.Tuned(run, "0.1", shape), ADD)
    one = dp.account(run, ADD)
    assert found.epsilon(DELTA).lower == one.epsilon(DELTA).lower > 0
    assert found.delta(1).lower == one.delta(1).lower > 0
    # At K = 0 nothing is shown of any run.
    assert dp.account(TunedPoisson(run, 10), ADD).epsilon(DELTA).lower == 0


@pytest.mark.parametrize(("variance", "times"), [("1/10000", 2), ("1/100000", 10)])
def test_rounds_reach_what_one_of_them_does(variance: str, times: int) -> None:
    """Losses of thousands, of which no grid found anything in several rounds."""
    noise = dp.DiscreteGaussian("count", variance)
    found = dp.account(dp.Repeat(noise, times), ADD).epsilon(DELTA)
    assert found.upper > found.lower >= dp.account(noise, ADD).epsilon(DELTA).lower > 4000

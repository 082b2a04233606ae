"""Groups whose batches are drawn: never above no sampling at all, never below an explicit pair."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom, norm

import dpaudit as dp
from dpaudit.check.theorem import bound
from dpaudit.families.distributed import DistributedSkellam
from dpaudit.kernels.query import Array
from dpaudit.pairs import Normal
from tests.library.cli.bench import accept, certified, mechanism

F = Fraction
REPLACE, ADD, ZERO = (dp.central(a) for a in ("replace_one", "add_remove", "zero_out"))
ONE = dp.Gaussian("mean", 2)
SMALL = dp.Repeat(dp.SampledWithoutReplacement(ONE, 5, 10), 2)
CASES: dict[str, tuple[Any, Any]] = {
    "fixed": (SMALL, REPLACE),
    "allocated": (dp.Repeat(dp.RandomAllocation(ONE, 4), 2), ADD),
    "shuffled": (dp.Repeat(dp.ShuffledBatches(ONE, 20, 5), 2), ZERO),
    "cyclic": (dp.CyclicBatches(dp.Repeat(ONE, 2), 20, 5), ZERO),
    "several": (dp.Compose(ONE, dp.SampledWithoutReplacement(dp.Gaussian("b", 3), 5, 10)), REPLACE),
}


def explicit(size: int, epsilon: float) -> float:
    """delta of one batch of 5 of 10 records of whom ``size`` hold 1/2 or all hold -1/2."""
    y = np.linspace(-15, 15, 20_001)
    drawn = np.arange(size + 1)
    weight = hypergeom(10, size, 5).pmf(drawn)
    with_group = (weight[:, None] * norm.pdf(y, drawn[:, None] / 2, 2)).sum(axis=0)
    without = (weight[:, None] * norm.pdf(y, -drawn[:, None] / 2, 2)).sum(axis=0)
    lost: Array = np.maximum(with_group - math.exp(epsilon) * without, 0)
    return float(np.trapezoid(lost, y))


@pytest.mark.quality
@pytest.mark.first_case("size")
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("epsilon", ["0", "0.3", "1"])
def test_one_release_of_a_batch_is_above_an_explicit_pair(size: int, epsilon: str) -> None:
    node = dp.Group(dp.SampledWithoutReplacement(ONE, 5, 10), size)
    found = dp.account(node, REPLACE).delta(F(epsilon))
    reached = explicit(size, float(epsilon))
    assert reached <= float(found.upper)
    # A shift that grew with the root of the group's size would not do.
    shift = dp.account(dp.GDP(math.sqrt(size) / 4), REPLACE).delta(F(epsilon))
    assert size == 2 or reached > float(shift.upper)


@pytest.mark.long_cases("fixed", "allocated", "several", "shuffled")
@pytest.mark.first_case
@pytest.mark.parametrize("name", CASES)
def test_a_group_in_batches_is_no_worse_than_without_sampling(name: str) -> None:
    node, scope = CASES[name]
    found = dp.account(dp.Group(node, 5), scope).epsilon("1e-5")
    squares = {"several": F(1, 4) + F(1, 9)}.get(name, F(1, 2))
    everybody = dp.account(dp.GDP(5 * math.sqrt(squares)), scope).epsilon("1e-5")
    alone = dp.account(node, scope).epsilon("1e-5")
    assert float(found.upper) <= float(everybody.upper) * (1 + 1e-6)
    assert float(found.lower) >= float(alone.lower) * (1 - 1e-6)
    if name == "cyclic":
        assert float(found.lower) == pytest.approx(float(found.upper), rel=1e-6)


def test_a_group_that_no_public_batch_holds_is_not_said_to_be_in_one() -> None:
    node, scope = CASES["cyclic"]
    losses = dp.account(dp.Group(node, 6), scope).step("profile").value
    assert losses.reached_remove == dp.account(node, scope).step("profile").value.reached_remove
    assert losses.remove == (Normal(6 * losses.reached_remove[0].mu),)


@pytest.mark.parametrize("name", CASES)
def test_the_checker_states_the_same_pairs(name: str) -> None:
    node, scope = CASES[name]
    child = dp.account(node, scope).step("profile").value
    for size in (3, 9):
        group = dp.Group(node, size)
        assert bound("profile", group, [child]) == dp.account(group, scope).step("profile").value


@pytest.mark.parametrize(
    "kind", [dp.DiscreteGaussian, dp.DiscreteLaplace, DistributedSkellam], ids=lambda k: k.__name__
)
def test_a_group_moves_noise_of_whole_numbers_further(kind: Any) -> None:
    node = kind("count", 9, 2) if kind is DistributedSkellam else kind("count", 9)
    step = dp.account(dp.Group(node, 5), REPLACE).step("profile").value
    assert step == dp.account(replace(node, sensitivity=F(5)), REPLACE).step("profile").value
    child = dp.account(node, REPLACE).step("profile").value
    assert bound("profile", dp.Group(node, 5), [child]) == step


@pytest.mark.quality
def test_its_certificate_is_confirmed() -> None:
    case = mechanism("group", dp.Group(SMALL, 3), dp.ApproxDP(12, F(1, 10**5)))
    certificate = certified(case).certificate
    assert certificate["predicate"]["claims"][0]["check"] == "proved"
    accept(certificate)


TREE = dp.CorrelatedGaussian("prefix", 4, 64, "tree", dp.Participation(1, 64))
BUDGETS = dp.IndividualGaussian("sum", noise_multiplier=4, mu=1, rounds=100)


@pytest.mark.parametrize("node", [TREE, BUDGETS], ids=["tree", "budgets"])
@pytest.mark.parametrize("size", [2, 64])
def test_members_that_take_part_alike_move_normal_noise_further(node: Any, size: int) -> None:
    """k times the mu of one record is reached by k records with the same rounds and norms."""
    mu = dp.account(node, ADD).step("gdp").value
    group = dp.Group(node, size)
    found = dp.account(group, ADD).epsilon("1e-5")
    true = dp.account(dp.GDP(size * mu), ADD).epsilon("1e-5")
    assert true.lower * (1 - F(1, 10**6)) <= found.lower <= found.upper
    assert found.upper <= true.upper * (1 + F(1, 10**6))
    child = dp.account(node, ADD).step("profile").value
    assert bound("profile", group, [child]) == dp.account(group, ADD).step("profile").value

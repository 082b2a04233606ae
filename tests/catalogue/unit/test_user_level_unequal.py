"""Users of unequal numbers of items: means over a user's own, declared, run, examined."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.examine import examine
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.user_level.accelerated import UserLevelAcceleratedSGD
from mechanisms.papers.user_level.acsa import one_stage
from mechanisms.papers.user_level.batches import calibrate_batches
from mechanisms.papers.user_level.phased_erm import calibrated_phased_erm, concentration_radius
from mechanisms.papers.user_level.phased_sampled import sampled_phased_erm
from mechanisms.papers.user_level.problem import (
    USERS,
    LinearLoss,
    Problem,
    SquaredDistance,
    UnequalProblem,
    unequal_records,
    within,
)
from tests.support.examined import mechanism

DELTA = Fraction(1, 10**6)


def of(users: int, items: int = 6, fewest: int = 2) -> UnequalProblem:
    return UnequalProblem(Logistic(), users, items, 3, 1.0, 1.0, fewest)


def some_users(count: int, least: int, most: int, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    made = []
    for items in rng.integers(least, most + 1, count):
        x = rng.standard_normal((items, 3))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        made.append(np.column_stack([x, x[:, 0] > 0]))
    return made


def test_a_users_gradient_is_the_mean_over_its_own_items() -> None:
    users, problem = some_users(20, 1, 6), of(20, fewest=1)
    points = np.random.default_rng(1).uniform(-0.5, 0.5, (2, 3))
    found = problem.user_gradients(points, unequal_records(users, 6).values)
    for k, user in enumerate(users):
        alone = Problem(Logistic(), 1, len(user), 3, 1.0, 1.0).user_gradients(points, user[None])
        np.testing.assert_allclose(found[:, k], alone[:, 0], rtol=1e-14, atol=1e-16)
    # The equal problem counts what is missing as items of gradient 0.
    equal = Problem(Logistic(), 20, 6, 3, 1.0, 1.0)
    shorter = equal.user_gradients(points, unequal_records(users, 6).values)
    assert not np.allclose(shorter, found)


def test_equal_users_have_the_same_bits() -> None:
    users = unequal_records(some_users(30, 6, 6), 6).values
    points = np.full((1, 3), 0.2)
    equal = Problem(Logistic(), 30, 6, 3, 1.0, 1.0).user_gradients(points, users)
    np.testing.assert_array_equal(of(30).user_gradients(points, users), equal)


@pytest.mark.parametrize("loss", [Logistic(), LinearLoss(3), SquaredDistance(3), "constant"])
def test_no_user_is_longer_than_a_gradient(loss: Any) -> None:
    """A user of one item among many that are missing, of none, and of items that are no number."""
    features = 4 if isinstance(loss, Logistic) else 3
    problem = replace(of(3), loss=Constant() if loss == "constant" else loss)
    users = np.full((3, 6, features), np.nan)
    users[0, 0], users[2, :3, 0] = 1e3, 7.0
    found = problem.user_gradients(np.zeros((1, 3)), users)
    assert np.linalg.norm(found, axis=2).max() <= 1 + 1e-12
    assert (found[0, 1] == 0).all()


class Constant(SquaredDistance):
    """A gradient that is finite whatever the row holds."""

    def __init__(self) -> None:
        super().__init__(3)

    def gradients(self, parameters: Any, records: Any) -> Array:
        shape = np.broadcast_shapes((*np.shape(parameters)[:1], 1), np.shape(records)[-2:-1])
        return np.ones((*shape, 3))


@pytest.mark.first_case
@pytest.mark.parametrize("made", [calibrated_phased_erm, "sampled"])
def test_the_phased_method_runs_on_them(made: Any) -> None:
    problem = of(4_000, fewest=1)
    program = (
        sampled_phased_erm(problem, 4, 4, DELTA, 0.25, most_rounds=6)
        if made == "sampled"
        else calibrated_phased_erm(problem, 8, DELTA, 0.25, most_rounds=20)
    )
    records = unequal_records(some_users(4_000, 1, 6), 6)
    sampler = Sampler(program.declaration(USERS), USERS, records, rng=np.random.default_rng(2))
    found = program.run(sampler)
    assert not found.halted.any()
    assert np.linalg.norm(found.output) <= 1 + 1e-12


def small(problem: UnequalProblem) -> UserLevelAcceleratedSGD:
    constants = calibrate_batches(8, DELTA, 400, 3)
    return UserLevelAcceleratedSGD(problem, constants, 0.5, 0.3, one_stage(3, 0.55))


def broken_in(problem: UnequalProblem) -> list[str]:
    """What an examination finds, with missing items among what it tries."""
    records = unequal_records(some_users(400, 1, 6), 6)
    made = mechanism("unequal", small(problem))
    found = examine(replace(made, scope=USERS, records=lambda: records), seed=3)
    return [finding.check for finding in found.broken]


@pytest.mark.quality
def test_the_examiner_finds_nothing_wrong_with_it() -> None:
    assert broken_in(of(400)) == []


class Typical(UnequalProblem):
    """Divided by the least number of items of all users: one user decides on every other's."""

    def user_gradients(self, points: Array, users: Array) -> Array:
        items = (~np.isnan(users).all(axis=2)).sum(axis=1)
        means = super().user_gradients(points, users)
        return np.asarray(means * (items / max(1, items.min()))[None, :, None])


@pytest.mark.quality
def test_the_examiner_finds_that_one_user_decides_for_others() -> None:
    equal = of(400)
    assert broken_in(Typical(equal.loss, 400, 6, 3, 1.0, 1.0, 2))


def test_the_radius_is_that_of_the_fewest_items() -> None:
    few, many = concentration_radius(of(400, fewest=1), 5), concentration_radius(of(400), 5)
    assert few == pytest.approx(many * 2**0.5)
    equal = Problem(Logistic(), 400, 2, 3, 1.0, 1.0)
    assert concentration_radius(equal, 5) == many


@pytest.mark.parametrize(
    ("users", "words"),
    [([np.zeros((7, 3))], "1 users, of 7 to 7 items: expected 1 to 6"),
     ([np.zeros((2, 3)), np.zeros((0, 3))], "2 users, of 0 to 2"), ([], "0 users, none")],
)  # fmt: skip
def test_too_many_or_no_items_are_refused(users: list[Array], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        unequal_records(users, 6)


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="at most 6 items"):
        of(10, fewest=7)
    with pytest.raises(InvalidParameter, match="a search set"):
        within(of(10), np.zeros((1, 3)), 0.5)
    program = small(of(400))
    sampler = Sampler(
        program.declaration(USERS), USERS, Records(np.zeros((400, 3, 4))),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    with pytest.raises(InvalidParameter, match="3 items a user, expected 6"):
        program.run(sampler)

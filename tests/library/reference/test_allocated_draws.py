"""A record in several slots of an allocation, beside a million draws of its likelihood ratio."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.errors import InvalidParameter
from dpaudit.exact import decimal_upper
from tests.library.unit.test_local_family import confirmed, converted

F = Fraction
DELTA = F(1, 10**5)
CASES = ((3, 2, 1.0), (5, 3, 2.0), (7, 2, 1.0))


def ratios(slots: int, draws: int, noise: float) -> np.ndarray:
    """dP/dQ at draws from Q: the mean over all sets of slots of the products of their ratios."""
    x = np.random.default_rng(5).standard_normal((1_000_000, slots)) / noise - 1 / (2 * noise**2)
    sets = list(itertools.combinations(range(slots), draws))
    return np.asarray(sum(np.exp(x[:, list(chosen)].sum(axis=1)) for chosen in sets) / len(sets))


@pytest.mark.first_case
@pytest.mark.parametrize(("slots", "draws", "noise"), CASES)
def test_bounds_hold_the_law_of_the_mixture(slots: int, draws: int, noise: float) -> None:
    """Means lie within 6 standard errors of the truth (false alarms below 1e-7)."""
    node = dp.RandomAllocation(dp.Gaussian("gradient", F(str(noise))), slots, draws)
    account, ratio = dp.account(node, "add_remove"), ratios(slots, draws, noise)
    for epsilon in (0.25, 1.0, 2.0):
        x = math.exp(epsilon)
        bound = account.delta(F(str(epsilon)))
        sides = [np.maximum(ratio - x, 0), np.maximum(1 - x * ratio, 0)]
        errors = [6 * float(side.std()) / 1000 for side in sides]
        means = [float(side.mean()) for side in sides]
        for mean, error in zip(means, errors, strict=True):
            assert mean - error <= float(bound.upper)
        assert float(bound.lower) <= max(
            mean + error for mean, error in zip(means, errors, strict=True)
        )
        assert float(bound.upper) <= 1.5 * max(means) + max(errors)


@pytest.mark.quality
def test_the_page_states_its_interval() -> None:
    node = dp.RandomAllocation(dp.Gaussian("gradient", 2), 100, 3)
    found = dp.account(node, "add_remove").epsilon(DELTA)
    assert float(found.lower) == pytest.approx(0.5299, abs=1e-4)
    assert float(found.upper) == pytest.approx(0.5728, abs=1e-4)


def test_all_slots_are_a_composition() -> None:
    leaf = dp.Gaussian("gradient", 3)
    for adjacency in ("add_remove", "replace_one"):
        every = dp.account(dp.RandomAllocation(leaf, 12, 12), adjacency).epsilon(DELTA)
        composed = dp.account(dp.Repeat(leaf, 12), adjacency).epsilon(DELTA)
        assert float(every.upper) == pytest.approx(float(composed.upper), rel=1e-5)
        assert float(every.lower) == pytest.approx(float(composed.lower), rel=1e-5)


@pytest.mark.quality
def test_one_draw_is_what_is_meant_without_a_number() -> None:
    leaf = dp.Gaussian("gradient", 3)
    plain, counted = (
        dp.account(dp.RandomAllocation(leaf, 3, draws), "add_remove").epsilon(DELTA)
        for draws in (None, 1)
    )
    assert plain.upper == counted.upper
    assert "draws" not in dp.RandomAllocation(leaf, 3).row()["parameters"]


def test_other_noise_is_counted_as_often_as_a_record_takes_part() -> None:
    node = dp.RandomAllocation(dp.Laplace("sum", 2), 10, 4)
    assert dp.account(node, "add_remove").epsilon(0).upper == 2


def test_a_group_moves_every_slot_of_each_member() -> None:
    """Two members of one person in the same four slots; the checker has the same pair."""
    node = dp.Group(dp.RandomAllocation(dp.Gaussian("gradient", 3), 9, 4), 2)
    step = converted(node, DELTA)
    moved = dp.Repeat(dp.Gaussian("gradient", F(3, 2)), 4)
    least = dp.account(moved, "add_remove").epsilon(DELTA).upper
    assert F(step.witness["upper"][0]["value"]) == pytest.approx(float(least), rel=1e-4)


@pytest.mark.parametrize("draws", [0, 10, F(1, 2), -1])
def test_draws_that_no_record_can_make_are_refused(draws: object) -> None:
    with pytest.raises(InvalidParameter, match=r"RandomAllocation\.draws"):
        dp.RandomAllocation(dp.Gaussian("gradient", 1), 9, draws)


def test_the_checker_confirms_it_and_refuses_a_smaller_epsilon() -> None:
    node = dp.Repeat(dp.RandomAllocation(dp.Gaussian("gradient", 2), 20, 3), 2)
    step = converted(node, DELTA)
    epsilon = F(step.witness["upper"][0]["value"])
    assert confirmed(step, DELTA, epsilon)
    assert not confirmed(step, DELTA, F(decimal_upper(epsilon * F(95, 100))))

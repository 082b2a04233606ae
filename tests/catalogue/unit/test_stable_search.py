"""Stable subsets of users: enumeration, its sensitivity, and its cap."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.stable_erm.adversarial import Adversarial, Oracle
from mechanisms.papers.stable_erm.stable import (
    Enumeration,
    Flags,
    Lattice,
    UserMean,
    count_subsets,
    deletion_sensitivity,
    diameter_stability,
    kept_means,
    lattice_of,
    local_deletion_sensitivity,
    tabulated,
)
from tests.support.stable import MEAN, column, found


def by_hand(values: Any, unit: float, kappa: int) -> int:
    """The score from its definition, with no tables."""
    n = len(values)

    def mean(deleted: Any) -> float:
        return float(np.mean([values[i] for i in range(n) if i not in deleted]))

    def stable(start: Any) -> bool:
        others = [i for i in range(n) if i not in start]
        for more in range(4 * kappa - len(start) + 1):
            for extra in itertools.combinations(others, more):
                deleted = (*start, *extra)
                for i in range(n):
                    if i not in deleted and abs(mean(deleted) - mean((*deleted, i))) > unit:
                        return False
        return True

    for size in range(2 * kappa + 1):
        if any(stable(start) for start in itertools.combinations(range(n), size)):
            return size
    return 2 * kappa + 1


# --- enumeration ----------------------------------------------------------------------------------


def test_scores_agree_with_the_definition() -> None:
    generator = np.random.default_rng(3)
    seen = set()
    for _ in range(25):
        values = np.round(generator.normal(size=7) * generator.choice([1, 8], size=7), 2)
        unit = float(np.round(generator.uniform(0.3, 4.0), 2))
        score, _ = found(values, unit, 1)
        assert score == by_hand(values, unit, 1)
        seen.add(score)
    assert len(seen) >= 3


@pytest.mark.parametrize("copies", range(7))
def test_copies_of_an_outlier_are_counted(copies: int) -> None:
    """14 users, kappa = 3: the score is 0 up to Delta (n - 4 kappa), then how many there are."""
    for factor, expected in ((0.999, 0), (1.001, copies), (5.0, copies)):
        values = np.zeros(14)
        values[14 - copies :] = factor * 2.0
        score, vector = found(values, 1.0, 3)
        assert score == expected
        if expected and copies:
            assert vector[0] == 0


@pytest.mark.parametrize("stability", ["path", "diameter"])
@pytest.mark.parametrize(("kappa", "count"), [(1, 6), (1, 8), (2, 10), (2, 12)])
def test_the_adversary_has_the_score_and_vector_of_its_closed_form(
    stability: str, kappa: int, count: int
) -> None:
    """All scores, 2 kappa + 1 (never stable) included: enumeration and oracle agree.

    The two vectors are as far apart as any accountant has to take them to be.
    """
    for score, other in itertools.product(range(2 * kappa + 2), repeat=2):
        if abs(score - other) > 1 or score + other + 1 > count:
            continue
        function = Adversarial(score, other, 0.5, stability)
        pair = [function.records(count, version).values for version in (0, 1)]
        exact = [Enumeration(stability).find(function, data, 0.5, kappa) for data in pair]
        oracle = Oracle(score, other, stability)
        oracle.check(count, kappa)
        closed = [oracle.find(function, data, 0.5, kappa) for data in pair]
        for a, b in zip(exact, closed, strict=True):
            assert (a.scores == b.scores).all()
            assert (a.vectors == b.vectors).all()
        assert [a.scores[0] for a in exact] == [score, other]
        if max(score, other) <= 2 * kappa:
            distance = abs(exact[0].vectors - exact[1].vectors).item()
            assert distance == (score + other + 2 if stability == "path" else 2) * 0.5


def test_one_user_moves_the_score_by_one_and_the_vector_by_the_path() -> None:
    generator = np.random.default_rng(8)
    moved = set()
    for _ in range(150):
        data = generator.normal(size=(8, 1, 2)) * generator.choice([1, 6], size=(8, 1, 1))
        other = data.copy()
        other[generator.integers(8)] = generator.normal(size=(1, 2)) * 5
        unit = float(generator.uniform(0.2, 3.0))
        one, two = (Enumeration().find(MEAN, d, unit, 1) for d in (data, other))
        scores = float(one.scores[0]), float(two.scores[0])
        assert abs(scores[0] - scores[1]) <= 1
        moved.add(scores)
        if max(scores) <= 2:
            distance = np.linalg.norm(one.vectors - two.vectors)
            assert distance <= (sum(scores) + 2) * unit * (1 + 1e-12)
    assert len(moved) >= 6


def test_diameter_stability_moves_by_one_and_two_units() -> None:
    generator, search = np.random.default_rng(9), Enumeration("diameter")
    moved = set()
    for _ in range(150):
        data = generator.normal(size=(8, 1, 2)) * generator.choice([1, 6], size=(8, 1, 1))
        other = data.copy()
        other[generator.integers(8)] = generator.normal(size=(1, 2)) * 5
        unit = float(generator.uniform(1.0, 9.0))
        one, two = (search.find(MEAN, d, unit, 1) for d in (data, other))
        scores = float(one.scores[0]), float(two.scores[0])
        assert abs(scores[0] - scores[1]) <= 1
        moved.add(scores)
        if max(scores) <= 2:
            assert np.linalg.norm(one.vectors - two.vectors) <= 2 * unit * (1 + 1e-12)
    assert len(moved) >= 6


def test_a_radius_grows_by_deletions_and_the_box_does_not() -> None:
    """max |f(S) - f(T)| over T that contain S: with it the score would not be of sensitivity 1."""
    lattice = lattice_of(7, 4)
    above = (lattice.deleted[:, None] & lattice.deleted[None]) == lattice.deleted[:, None]
    pairs = [lattice.pairs(i) for i in range(7)]
    one, more = (np.concatenate(side) for side in zip(*pairs, strict=True))
    grown = 0
    for seed in range(20):
        data = np.random.default_rng(seed).normal(size=(7, 1, 1))
        table = tabulated(MEAN, data, lattice.kept)
        gaps = np.abs(table[0, :, 0][:, None] - table[0, :, 0][None])
        radius = np.where(above, gaps, 0.0).max(axis=1)
        box = diameter_stability(table, lattice)[0]
        assert (box[more] <= box[one]).all()
        assert (radius <= box).all()
        grown += bool((radius[more] > radius[one] * (1 + 1e-9)).any())
    assert grown > 0


def test_the_box_holds_the_largest_distance() -> None:
    data = np.random.default_rng(4).normal(size=(7, 1, 3))
    lattice = lattice_of(7, 5)
    table = tabulated(MEAN, data, lattice.kept)
    box = diameter_stability(table, lattice)[0]
    gaps = np.linalg.norm(table[0][:, None] - table[0][None], axis=-1)
    assert gaps.max() <= box[0] <= gaps.max() * math.sqrt(3)
    inside = lattice.deleted & 1 == 1
    assert gaps[inside][:, inside].max() <= box[1] <= box[0]
    line = diameter_stability(table[:, :, :1], lattice)[0, 0]
    assert line == pytest.approx(np.ptp(table[0, :, 0]))


def test_deletion_sensitivity_of_a_mean() -> None:
    values = np.random.default_rng(5).normal(size=9)
    shaped = column(*values)
    local = np.abs(values - values.mean()).max() / 8
    assert local_deletion_sensitivity(MEAN, shaped)[0] == pytest.approx(local)
    longest = deletion_sensitivity(MEAN, shaped, 3)[0]
    brute = max(
        abs(np.delete(values, s).mean() - np.delete(values, (*s, i)).mean())
        for k in range(4)
        for s in itertools.combinations(range(9), k)
        for i in range(9)
        if i not in s
    )
    assert longest == pytest.approx(brute)


def test_kept_sums_do_not_depend_on_deleted_users() -> None:
    """Bit by bit, with a deleted user of any size; the two ways of adding agree."""
    generator = np.random.default_rng(6)
    data = generator.normal(size=(1, 9, 2))
    kept = generator.random((40, 9)) < 0.6
    kept[:, 4] = False
    kept[:, 0] = True
    changed = data.copy()
    changed[0, 4] = [1e300, np.nan]
    assert (kept_means(data, kept) == kept_means(changed, kept)).all()
    for row, mask in enumerate(kept):
        total = np.zeros(2)
        for i in np.flatnonzero(mask):
            total += data[0, i]
        assert (kept_means(data, kept)[0, row] == total / mask.sum()).all()


def test_a_user_that_is_not_a_number_is_deleted() -> None:
    score, vector = found([0.0] * 6 + [np.nan], 1.0, 1)
    assert (score, vector.tolist()) == (1.0, [0.0])
    score, vector = found([0.0] * 4 + [np.nan] * 3, 1.0, 1)
    assert (score, vector.tolist()) == (3.0, [0.0])


def test_too_few_users_never_pass() -> None:
    assert found([0.0] * 5, 1.0, 1)[0] == 3.0
    assert found([0.0] * 6, 1.0, 1)[0] == 0.0


def test_the_lattice_lists_every_small_set_once() -> None:
    for count, most in ((6, 3), (5, 5), (24, 2)):
        lattice = Lattice(count, most)
        assert len(lattice.deleted) == count_subsets(count, most) == len(set(lattice.deleted))
        assert lattice.sizes.max() == most
        without, above = lattice.pairs(1)
        assert (lattice.deleted[without] + 2 == lattice.deleted[above]).all()


@pytest.mark.parametrize("count", [300, 25])
def test_the_cap_is_named_before_data_is_touched(count: int) -> None:
    kappa = 32 if count == 300 else 4
    with pytest.raises(InvalidParameter, match=r"subsets, above the cap of 1048576: use fewer"):
        Enumeration().check(count, kappa)
    with pytest.raises(InvalidParameter, match="have 14893 subsets"):
        Lattice(16, 6, 1000)


@dataclass(frozen=True)
class Counting(UserMean):
    """A statistic that counts how often it is asked."""

    def at(self, users: Array, kept: Flags) -> Array:
        CALLS.append(len(kept))
        return super().at(users, kept)


CALLS: list[int] = []


def test_the_statistic_is_asked_once_for_all_subsets() -> None:
    CALLS.clear()
    Enumeration().find(Counting(), column(*range(9)), 1.0, 1)
    assert [count_subsets(9, 5)] == CALLS

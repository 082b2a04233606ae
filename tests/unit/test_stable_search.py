"""Stable subsets of users: enumeration, its sensitivity, certificates, polynomial searches."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.query import Array
from mechanisms.stable_erm.adversarial import Adversarial, Oracle
from mechanisms.stable_erm.certificate import (
    RULES,
    Certified,
    GradientCertificate,
    Void,
    measured,
    unit_of_radius,
)
from mechanisms.stable_erm.domains import Ball, Box, Everywhere, Lens
from mechanisms.stable_erm.polynomial import GridMean, Ladder, WindowMeanScore
from mechanisms.stable_erm.solver import (
    Absolute,
    Minimiser,
    Pull,
    Quadratic,
    RidgeLogistic,
)
from mechanisms.stable_erm.stable import (
    Enumeration,
    Flags,
    Found,
    Lattice,
    UserMean,
    count_subsets,
    deletion_sensitivity,
    diameter_stability,
    kept_means,
    lattice_of,
    local_deletion_sensitivity,
    path_stability,
    tabulated,
)

MEAN = UserMean()


def users(*values: float) -> Array:
    return np.array(values, dtype=np.float64).reshape(-1, 1, 1)


def found(values: Any, unit: float, kappa: int, search: Any = None) -> tuple[float, Array]:
    shaped = np.asarray(values, dtype=np.float64).reshape(len(values), 1, -1)
    result: Found = (search or Enumeration()).find(MEAN, shaped, unit, kappa)
    return float(result.scores[0]), result.vectors[0]


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


def test_the_adversary_has_the_score_and_vector_of_its_closed_form() -> None:
    """All scores at kappa = 1, 2: enumeration and oracle agree, and the two data sets are apart."""
    for kappa, count in ((1, 8), (2, 12)):
        for score, other in itertools.product(range(2 * kappa + 1), repeat=2):
            if abs(score - other) > 1 or score + other + 1 > count:
                continue
            function = Adversarial(score, other, 0.5)
            pair = [function.records(count, version).values for version in (0, 1)]
            exact = [Enumeration().find(function, data, 0.5, kappa) for data in pair]
            closed = [Oracle(score, other).find(function, data, 0.5, kappa) for data in pair]
            for a, b in zip(exact, closed, strict=True):
                assert (a.scores == b.scores).all()
                assert (a.vectors == b.vectors).all()
            assert [a.scores[0] for a in exact] == [score, other]
            distance = abs(exact[0].vectors - exact[1].vectors).item()
            assert distance == (score + other + 2) * 0.5


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
    shaped = users(*values)
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


# --- certificates ---------------------------------------------------------------------------------


def minimisers() -> list[Minimiser]:
    pull = Pull(0.5, np.array([[0.3, -0.2]]))
    return [
        Minimiser(Quadratic(2.0), Everywhere()),
        Minimiser(Quadratic(1.0), Ball(0.4), pull),
        Minimiser(Absolute(), Box(0.5, 2), pull),
        Minimiser(RidgeLogistic(0.3, 1.0, 1e-8), Ball(1.0), pull),
    ]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("rule", RULES)
def test_a_certificate_is_above_the_enumerated_sensitivity(index: int, rule: str) -> None:
    generator, minimiser = np.random.default_rng(index), minimisers()[index]
    certificate = GradientCertificate(rule)
    features = 3 if isinstance(minimiser.loss, RidgeLogistic) else 2
    ratios = []
    for _ in range(3):
        data = generator.normal(size=(8, 3, features))
        seen = measured(minimiser, data)
        upper = float(certificate.upper(seen, 1)[0])
        lattice = lattice_of(8, 5)
        table = tabulated(minimiser, data, lattice.kept)
        if rule == "diameter":
            exact = float(diameter_stability(table, lattice)[0, 0])
        else:
            exact = float(path_stability(table, lattice, 4)[0, 0])
        assert exact <= upper
        ratios.append(exact / upper)
    applies = rule in ("c1", "c1_sum", "c2c", "diameter") and not (rule == "c2c" and index == 2)
    assert max(ratios) > (0.005 if applies or (rule == "quadratic" and index < 2) else -1)


def test_certified_and_enumerated_give_the_same() -> None:
    generator, minimiser = np.random.default_rng(1), Minimiser(Quadratic(), Box(5.0, 1))
    passed = 0
    for _ in range(30):
        data = generator.normal(size=(9, 4, 1))
        data[0] *= generator.choice([1, 30])
        unit = float(generator.uniform(0.3, 2.0))
        exact = Enumeration().find(minimiser, data, unit, 1)
        for rule in ("c1", "c1_sum", "quadratic"):
            certificate = GradientCertificate(rule)
            fast = Certified(certificate).find(minimiser, data, unit, 1)
            assert (fast.scores == exact.scores).all()
            assert (fast.vectors == exact.vectors).all()
            passed += bool(certificate.upper(measured(minimiser, data), 1)[0] <= unit)
    assert 5 < passed < 85


def test_trials_are_certified_or_enumerated_each_on_its_own() -> None:
    """Three trials around three points, one unit each: as three searches."""
    data = np.random.default_rng(2).normal(size=(7, 2, 1))
    pull = Pull(np.array([0.1, 1.0, 5.0]), np.array([[0.0], [1.0], [-1.0]]))
    units = np.array([0.9, 0.2, 0.05])
    together = Certified().find(Minimiser(Quadratic(), Box(2.0, 1), pull), data, units, 1)
    for t in range(3):
        chosen = np.arange(3) == t
        one = Minimiser(Quadratic(), Box(2.0, 1), pull.of(chosen))
        alone = Enumeration().find(one, data, float(units[t]), 1)
        assert alone.scores[0] == together.scores[t]
        assert (alone.vectors[0] == together.vectors[t]).all()


def test_void_is_declared_and_takes_everything() -> None:
    result = Void().find(MEAN, users(0, 0, 1e9), 1.0, 1)
    assert result.scores.tolist() == [0.0]
    assert "released all the same" in Certified(fallback=Void()).not_private
    assert Certified().not_private == ""


def test_a_residual_raises_the_bound() -> None:
    data = np.random.default_rng(3).normal(size=(8, 3, 1))
    seen = measured(Minimiser(Quadratic()), data)
    worse = replace(seen, residual=seen.residual + 0.1)
    for rule in RULES:
        certificate = GradientCertificate(rule)
        assert certificate.upper(worse, 1)[0] >= certificate.upper(seen, 1)[0] + 0.2 - 1e-12


# --- solvers --------------------------------------------------------------------------------------


def test_the_absolute_loss_is_minimised() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        data, weight = generator.normal(size=(4, 3, 2)), float(generator.uniform(0.02, 3))
        centre = generator.normal(size=(1, 2))
        kept = np.array([[True, True, False, True]])
        at = Absolute().minimise(data, kept, Pull(weight, centre), Box(1.0, 2))[0, 0]
        items = data[kept[0]].reshape(-1, 2)

        def objective(
            theta: Array, items: Array = items, w: float = weight, c: Any = centre
        ) -> float:
            pulled = w / 2 * np.square(theta - c[0]).sum()
            return float(np.abs(theta - items).sum(axis=1).mean() / math.sqrt(2) + pulled)

        for _ in range(60):
            near = np.clip(at + generator.normal(size=2) * 0.1, -1, 1)
            assert objective(at) <= objective(near) + 1e-12


def test_the_logistic_solver_keeps_its_error() -> None:
    generator, rough = np.random.default_rng(1), RidgeLogistic(0.2, 1.0, 1e-3)
    exact = RidgeLogistic(0.2, 1.0, 1e-10)
    data = generator.normal(size=(6, 3, 4))
    kept = np.array([[True] * 6, [True, False] * 3])
    pull = Pull(np.array([0.1, 2.0]), generator.normal(size=(2, 3)))
    near, far = (loss.minimise(data, kept, pull, Ball(0.7)) for loss in (exact, rough))
    assert np.linalg.norm(near - far, axis=-1).max() <= 1e-3
    alone = exact.minimise(data, kept[:1], pull, Ball(0.7))
    assert (alone[:, 0] == near[:, 0]).all()


def test_hostile_items_do_not_break_the_logistic_loss() -> None:
    loss = RidgeLogistic(0.5, 1.0)
    data = np.zeros((4, 2, 3))
    data[0, 0], data[1, 0], data[2, 0] = np.inf, 1e308, np.nan
    assert np.linalg.norm(loss.items(data), axis=-1).max() <= 1 + 1e-12
    at = Minimiser(loss, Ball(1.0)).at(data, np.ones((1, 4), dtype=bool))
    assert np.isfinite(at).all()


def test_projections_onto_a_lens() -> None:
    """Against Dykstra's alternating projections."""
    generator = np.random.default_rng(7)
    one, two = Ball(1.0, np.zeros((1, 3))), Ball(0.7, np.array([[0.9, 0.3, 0.0]]))
    for _ in range(20):
        point = 2 * generator.normal(size=(1, 3))
        at, p, q = point.copy(), np.zeros((1, 3)), np.zeros((1, 3))
        for _ in range(600):
            inside = one.project(at + p)
            p = at + p - inside
            at = two.project(inside + q)
            q = inside + q - at
        assert Lens(one, two).project(point) == pytest.approx(at, abs=2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(0.0), "expected a positive number"),
        (lambda: Box(math.nan, 1), "expected a positive number"),
        (lambda: GradientCertificate("c3"), "expected one of c1"),
        (lambda: Certified(GradientCertificate("diameter")), "certifies diameter stability"),
        (lambda: Adversarial(1, 3), "at most 1 apart"),
        (lambda: Oracle(32, 33).check(20, 32), "users, not 20"),
        (lambda: Enumeration("sideways"), "expected one of path, diameter"),
        (lambda: GridMean(math.inf), "expected a positive number"),
        (lambda: Ladder(0.0), "expected a positive number"),
        (lambda: unit_of_radius("c1", 1.0, 1.0, 1.0, 5, 1), "needs at least 6"),
        (lambda: RidgeLogistic(1e-9, 1.0).steps(0.0, 1.0), "over 100000 steps"),
        (lambda: Minimiser(Absolute()).at(users(1, 2), np.ones((1, 2), dtype=bool)), "positive"),
        (
            lambda: Minimiser(Absolute(), Ball(1.0), Pull(1.0, np.zeros((1, 1)))).at(
                users(1, 2), np.ones((1, 2), dtype=bool)
            ),
            "use a Box",
        ),
        (lambda: Certified().find(MEAN, users(1, 2), 1.0, 1), "minimiser of a convex loss"),
        (lambda: WindowMeanScore().find(MEAN, users(1, 2), 1.0, 1), "expected a GridMean"),
        (lambda: Ladder(1.0).find(MEAN, users(1, 2), 1.0, 1), "minimiser of a smooth loss"),
        (lambda: Ladder(1.0).unit(Minimiser(Quadratic()), 9, 1), "use RidgeLogistic"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


# --- polynomial searches --------------------------------------------------------------------------


def window(values: Any, unit: float, kappa: int, bound: float = 1.0) -> tuple[float, float]:
    result = WindowMeanScore().find(GridMean(bound), users(*values), unit, kappa)
    return float(result.scores[0]), float(result.vectors[0, 0])


def test_windows_are_not_the_exact_score() -> None:
    """Five 0, five 1, one .5: exact 1 (delete the .5), window 2; and nine, kappa = 2: 1 and 2."""
    values = [0.0] * 5 + [1.0] * 5 + [0.5]
    assert found(values, 0.12, 1)[0] == 1
    assert window(values, 0.12, 1)[0] == 2
    assert window([0.0] * 9 + [1.0] * 9 + [0.5], 0.083, 2)[0] == 2


def test_window_scores_are_at_least_exact_and_move_by_one() -> None:
    generator, seen = np.random.default_rng(12), set()
    for _ in range(120):
        kappa = 1
        count = int(generator.integers(6, 10))
        data = np.round(generator.normal(size=count) * generator.choice([0.05, 0.4], size=count), 3)
        other = data.copy()
        other[generator.integers(count)] = np.round(generator.uniform(-1, 1), 3)
        unit = float(generator.uniform(0.02, 0.3))
        one, two = window(data, unit, kappa), window(other, unit, kappa)
        assert abs(one[0] - two[0]) <= 1
        assert one[0] >= found(np.rint(data * 2**24) / 2**24, unit, kappa)[0]
        if max(one[0], two[0]) <= 2:
            assert abs(one[1] - two[1]) <= (one[0] + two[0] + 2) * unit * (1 + 1e-9)
        seen.add(one[0])
    assert len(seen) >= 3


def test_window_scores_move_by_one_at_useful_sizes() -> None:
    generator, seen = np.random.default_rng(13), set()
    for _ in range(300):
        kappa = int(generator.integers(1, 4))
        count = int(generator.integers(4 * kappa + 2, 8 * kappa + 8))
        data = generator.choice([0.0, 0.5, 1.0, -1.0, 0.1], size=count)
        other = data.copy()
        other[0] = generator.choice([0.0, 0.5, 1.0, -1.0, 0.3])
        unit = float(generator.uniform(0.5, 2.5) / count)
        one, two = window(data, unit, kappa), window(other, unit, kappa)
        assert abs(one[0] - two[0]) <= 1
        seen.add(one[0])
    assert len(seen) >= 5


def test_windows_withstand_hostile_users() -> None:
    assert window([np.nan, np.inf, -np.inf, 1e300] + [0.0] * 30, 0.5, 1)[0] <= 3
    assert np.isfinite(window([np.nan, np.inf, -np.inf, 1e300] + [0.0] * 30, 0.5, 1)[1])


LOGISTIC = Minimiser(RidgeLogistic(1.0, 1.0, 1e-9), Ball(1.0))


def test_ladders_move_by_one_and_two_units() -> None:
    """Random neighbours with outliers; the largest distance is well inside 2 units."""
    generator, seen, ratios = np.random.default_rng(14), set(), []
    for _ in range(60):
        ladder, kappa, count = Ladder(float(generator.uniform(0.02, 0.4))), 1, 12
        unit = float(ladder.unit(LOGISTIC, count, kappa)[0])
        data = generator.normal(size=(count, 2, 3)) * 0.2
        data[: int(generator.integers(4))] *= 20
        other = data.copy()
        other[generator.integers(count)] = generator.normal(size=(2, 3)) * 5
        one, two = (ladder.find(LOGISTIC, d, unit, kappa) for d in (data, other))
        assert abs(one.scores[0] - two.scores[0]) <= 1
        seen.add(float(one.scores[0]))
        if max(one.scores[0], two.scores[0]) <= 2:
            ratios.append(float(np.linalg.norm(one.vectors - two.vectors)) / (2 * unit))
    assert len(seen) >= 2
    assert 0.0 < max(ratios) <= 1


def test_a_ladder_refuses_a_unit_that_is_too_small() -> None:
    ladder = Ladder(0.1)
    unit = float(ladder.unit(LOGISTIC, 12, 1)[0])
    with pytest.raises(InvalidParameter, match=r"below Ladder.unit"):
        ladder.find(LOGISTIC, np.zeros((12, 1, 3)), unit * 0.99, 1)


@dataclass(frozen=True)
class Counting(UserMean):
    """A statistic that counts how often it is asked."""

    def at(self, users: Array, kept: Flags) -> Array:
        CALLS.append(len(kept))
        return super().at(users, kept)


CALLS: list[int] = []


def test_the_statistic_is_asked_once_for_all_subsets() -> None:
    CALLS.clear()
    Enumeration().find(Counting(), users(*range(9)), 1.0, 1)
    assert [count_subsets(9, 5)] == CALLS

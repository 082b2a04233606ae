"""Gradient canaries: they are neighbours, they saturate what they should, and starts can help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audits.broken import diff2 as bench
from dpaudit.audit.attack import attack
from dpaudit.audit.bounds.estimators import count_errors, mu_lower
from dpaudit.audit.canaries.gradients import (
    CanaryLoss,
    StartAt,
    adversarial,
    attack_from_starts,
    blank,
    dirac,
    saturating,
    started_at,
)
from dpaudit.audit.graybox import inspect_program
from dpaudit.audit.neighbours import Neighbours
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.scope import Adjacency
from mechanisms.papers.common.losses import Logistic

SIZE, COUNT, RADIUS = 5, 8, 1.5
ERROR = 1e-5


def moved(pair: Neighbours, radius: float = RADIUS, loss: Any = None) -> Array:
    """How far the clipped sum moves at the origin."""
    at = np.zeros((1, SIZE))
    gradients = (loss or CanaryLoss(SIZE)).gradients
    query = ClippedMean(lambda z: gradients(at, z), radius, divisor=1.0)
    first, second = (query.value(records) for records in pair.pair)
    return np.asarray(first - second)[0]


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("make", [saturating, dirac])
def test_canaries_saturate_the_stated_sensitivity(adjacency: Adjacency, make: Any) -> None:
    pair = make(SIZE, COUNT, RADIUS, adjacency, row=3)
    stated = ClippedMean(lambda z: z[None], RADIUS, divisor=1.0).sensitivity(adjacency, COUNT)
    assert pair.adjacency is adjacency
    assert np.linalg.norm(moved(pair)) == pytest.approx(float(stated))


def test_a_dirac_canary_moves_one_coordinate() -> None:
    difference = moved(dirac(SIZE, COUNT, RADIUS, "replace_one", coordinate=2))
    assert np.flatnonzero(difference).tolist() == [2]
    assert difference[2] == pytest.approx(2 * RADIUS)


def test_a_direction_is_normalised() -> None:
    pair = saturating(3, 2, 2.0, "zero_out", direction=[3.0, 0.0, 4.0])
    np.testing.assert_allclose(pair.first.values[0], [1.2, 0.0, 1.6])


def test_a_blank_record_moves_what_has_no_feature() -> None:
    """An all-zero row of a logistic regression with an intercept column that stays."""
    records = np.array([[0.3, -2.0, 1.0, 1.0], [0.1, 0.4, 1.0, 0.0]])
    pair = blank(records, "zero_out", row=0, public=(2, 3))
    assert pair.first.values[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    gradient = Logistic().gradients(np.zeros((1, 3)), pair.first.values)[0, 0]
    assert np.flatnonzero(gradient).tolist() == [2]
    replaced = blank(records, "replace_one", row=1, public=(-1,))
    assert replaced.first.values[1].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert replaced.second.values[1].tolist() == [0.1, 0.4, 1.0, 0.0]


def test_an_adversarial_canary_is_the_best_of_its_candidates() -> None:
    """Against all pairs by hand; and never beyond what clipping allows."""
    rng = np.random.default_rng(4)
    loss, radius = Logistic(), 0.4
    records = np.column_stack([rng.normal(size=(6, SIZE)), rng.integers(0, 2, 6)])
    rows = np.column_stack([rng.normal(size=(7, SIZE)), rng.integers(0, 2, 7)])
    at = np.zeros((1, SIZE))
    pair = adversarial(loss, records, rows, at, radius, "replace_one", row=2)
    found = float(np.linalg.norm(moved(pair, radius, loss)))
    each = []
    for i in range(7):
        for j in range(7):
            if i != j:
                changed = replace(
                    pair, first=_with(records, rows[i]), second=_with(records, rows[j])
                )
                each.append(float(np.linalg.norm(moved(changed, radius, loss))))
    assert found == pytest.approx(max(each))
    assert found <= 2 * radius + 1e-12
    alone = adversarial(loss, records, rows, at, radius, "zero_out", row=2)
    assert float(np.linalg.norm(moved(alone, radius, loss))) <= radius + 1e-12


def _with(records: Array, row: Array) -> Any:
    from dpaudit.kernels.query import Records

    changed = records.copy()
    changed[2] = row
    return Records(changed)


# --- in an audit ---------------------------------------------------------------------------------


def canary_suite(pair: Neighbours, **changes: Any) -> Any:
    program = replace(bench.CORRECT, loss=CanaryLoss(SIZE), features=SIZE - 1)
    return replace(bench.twin, program=program, neighbours=pair, trials=4_000, **changes)


def pair_of(make: Any) -> Neighbours:
    return make(SIZE, sum(bench.SIZES), 1.0, "replace_one")  # type: ignore[no-any-return]


@pytest.mark.first_case
@pytest.mark.parametrize("make", [saturating, dirac])
def test_canaries_audit_a_program_in_gradient_space(make: Any) -> None:
    """Four gradient releases of the bench move by all they may; differences do not move."""
    suite = canary_suite(pair_of(make))
    found = attack(bench.diff2_gd_bench, suite, seed=1, error=ERROR)
    assert found.test is not None
    assert {f.status for f in found.findings} <= {"held", "not_run"}
    bound = mu_lower(count_errors(found.test, 0.0), ERROR).mu_lower
    assert 0.2 < bound < 0.5774


def test_a_canary_shows_a_bug_in_clipping_that_zeros_hide() -> None:
    bug = bench.b6_clipped_after_averaging
    program = replace(bug.program, loss=CanaryLoss(SIZE), features=SIZE - 1)  # type: ignore[type-var]
    pair = saturating(SIZE, sum(bench.SIZES), 30.0, "replace_one")
    found = inspect_program(
        bench.diff2_gd_bench,
        replace(bug, program=program, neighbours=pair),
        seed=1,
        error=ERROR,
        hostile={},
    )
    assert {f.check for f in found.broken} == {"sensitivity on the audited pair"}
    right = inspect_program(bench.diff2_gd_bench, canary_suite(pair), seed=1, error=ERROR)
    assert right.broken == ()


# --- crafted starting points ---------------------------------------------------------------------


def test_a_start_is_where_the_run_starts() -> None:
    suite = started_at(canary_suite(pair_of(saturating)), np.arange(SIZE))
    loss: Any = suite.program.loss  # type: ignore[attr-defined]
    assert loss.initial(4, 3, 0).tolist() == [list(range(SIZE))] * 3
    assert loss.dimension(4) == SIZE
    assert repr(loss) == "StartAt(CanaryLoss(size=5), [0.0, 1.0, 2.0, 3.0, 4.0])"
    assert suite.program.declaration(bench.REPLACE_ONE) == bench.diff2_gd_bench.declaration


class _Narrow(CanaryLoss):
    """Gradients that vanish away from the origin: where a run starts decides what shows."""

    def gradients(self, parameters: Array, records: Array) -> Array:
        near = np.linalg.norm(parameters, axis=1) < 50
        return np.asarray(super().gradients(parameters, records) * near[:, None, None])


def test_the_better_start_is_chosen_and_attacked_on_fresh_trials() -> None:
    suite = canary_suite(pair_of(saturating))
    program = replace(suite.program, loss=_Narrow(SIZE))
    starts = [np.full(SIZE, 1e3), np.zeros(SIZE), np.full(SIZE, -1e3)]
    found = attack_from_starts(
        bench.diff2_gd_bench,
        replace(suite, program=program),
        starts,
        lambda trained: trained.last,
        seed=3,
        trials=4_000,
        selection_trials=1_000,
    )
    assert found.chosen == 1
    assert found.attacked.test is not None
    bound = mu_lower(count_errors(found.attacked.test, 0.0), ERROR).mu_lower
    assert 0.1 < bound < 0.5774


# --- bad input -----------------------------------------------------------------------------------

TABLE = np.ones((3, 2))
BAD: dict[str, Any] = {
    "no size": lambda: CanaryLoss(0),
    "other records": lambda: CanaryLoss(3).gradients(np.zeros((1, 3)), np.zeros((2, 2))),
    "no direction": lambda: saturating(2, 3, 1.0, "zero_out", direction=[0.0, 0.0]),
    "infinite direction": lambda: saturating(2, 3, 1.0, "zero_out", direction=[np.inf, 0.0]),
    "short direction": lambda: saturating(2, 3, 1.0, "zero_out", direction=[1.0]),
    "no radius": lambda: saturating(2, 3, 0.0, "zero_out"),
    "nan radius": lambda: dirac(2, 3, float("nan"), "zero_out"),
    "no row": lambda: dirac(2, 3, 1.0, "zero_out", row=3),
    "no records": lambda: saturating(2, 0, 1.0, "zero_out"),
    "no coordinate": lambda: dirac(2, 3, 1.0, "zero_out", coordinate=2),
    "no column": lambda: blank(TABLE, "zero_out", public=(2,)),
    "no table": lambda: blank(np.ones(3), "zero_out"),
    "adjacency": lambda: saturating(2, 3, 1.0, "neighbour"),
    "candidates": lambda: adversarial(
        Logistic(), TABLE, np.ones((2, 3)), np.zeros(1), 1.0, "zero_out"
    ),
    "no movement": lambda: adversarial(Logistic(), TABLE, TABLE, np.zeros(1), 1.0, "replace_one"),
    "radius of clipping": lambda: adversarial(
        Logistic(), TABLE, TABLE, np.zeros(1), 0.0, "zero_out"
    ),
    "start": lambda: StartAt(CanaryLoss(2), [np.nan, 1.0]),
    "start of another size": lambda: StartAt(CanaryLoss(2), [1.0]).initial(1, 2, 0),
    "no starts": lambda: attack_from_starts(bench.diff2_gd_bench, bench.twin, [], "a", seed=1),
    "no loss": lambda: started_at(replace(bench.twin, program=object()), [1.0]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter):
        BAD[name]()

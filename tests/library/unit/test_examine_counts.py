"""What shows only from some number of records on, or in rows that are no numbers in part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import displacement, examination, examine, made, search, study
from dpaudit.audit.examine.lines import constants_of
from dpaudit.kernels.query import Array, ClippedMean, Norm, Records, clip_rows
from tests.support.examined import mechanism


@dataclass(frozen=True, eq=False)
class Own:
    """A sum by the user's own code, of the rows that are there; moved by 1 at most, it says."""

    compute: Callable[[Array], Array]
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        return np.asarray(self.compute(records.values[records.present]), dtype=float)[None]

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(2.0 if adjacency is dp.Adjacency.REPLACE_ONE else 1.0)


@dataclass(frozen=True, eq=False)
class Once:
    """One release of a query that its field holds."""

    query: Any

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("sum", 2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("sum", self.query)


def inside(rows: Array) -> Array:
    return np.clip(np.nan_to_num(rows[:, :1]), 0, 1)


def total(rows: Array) -> Array:
    return np.asarray(inside(rows).sum(axis=0))


def hidden(rows: Array) -> Array:
    """Wrong: sums below 7 are hidden, and the seventh record moves it by 7."""
    found = total(rows)
    return np.where(found >= 7, found, 0.0)


def wrapped(rows: Array) -> Array:
    """Wrong: 128 records wrap."""
    return np.asarray(inside(rows).astype(np.int8).sum(axis=0, dtype=np.int8))


def long(rows: Array) -> Array:
    """Rows of length 1 at most; what is no number counts as 0 before lengths are taken."""
    rows = np.nan_to_num(rows / 100, posinf=1e100, neginf=-1e100)
    return np.asarray(rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True)))


def longer(rows: Array) -> Array:
    """Wrong: a row with one entry that is no number has no length that is above 1."""
    with np.errstate(all="ignore"):
        rows = rows / 100
        norm = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.nan_to_num(np.where(norm > 1, rows / norm, rows), posinf=0.0, neginf=0.0)


def told(program: Any, adjacency: str, hook: Any = None, *, first: bool = False) -> list[str]:
    made = replace(mechanism("counts", program, adjacency), records_like=hook)
    found = examine(made, seed=1, seconds=20, first=first)
    assert not found.not_examined
    return [f.detail for f in found.broken]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out", "replace_one"])
@pytest.mark.parametrize("compute", [hidden, total])
def test_a_count_that_decides_is_met(
    compute: Any, adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(Once(Own(compute)), adjacency)
    assert bool(found) == (compute is hidden), found
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not told(Once(Own(compute)), adjacency)


@pytest.mark.quality
def test_whole_numbers_that_wrap_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("127 and 128 rows" in text for text in told(Once(Own(wrapped)), "add_remove"))
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not told(Once(Own(wrapped)), "add_remove")


@pytest.mark.quality
@pytest.mark.long_cases("long-False")
@pytest.mark.first_case
@pytest.mark.parametrize(("compute", "wrong"), [(longer, True), (long, False)])
def test_a_part_that_is_no_number_hides_no_length(
    compute: Any, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Once(Own(lambda rows: compute(rows).sum(axis=0)))
    assert bool(told(program, "add_remove")) == wrong
    kept = made.rows_of

    def without(*given: Any) -> Any:
        return {name: row for name, row in kept(*given).items() if "far row, its" not in name}

    monkeypatch.setattr("dpaudit.audit.examine.examination.rows_of", without)
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not told(program, "add_remove")


def scaled_together(rows: Array) -> Array:
    """Wrong: one row above 3e7 scales all."""
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max()
        return np.asarray(rows / largest if largest > 3e7 else rows)[None]


def scaled_alone(rows: Array) -> Array:
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=-1, keepdims=True)
        return np.where(largest > 3e7, rows / largest, rows)[None]


def centred_when_many(rows: Array) -> Array:
    """Wrong: above 300 rows their own mean is taken off."""
    with np.errstate(all="ignore"):
        return np.asarray(rows - rows.mean(axis=0) if len(rows) > 300 else rows)[None]


def as_they_are(rows: Array) -> Array:
    return np.asarray(rows)[None]


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (scaled_together, True),
        (scaled_alone, False),
        (centred_when_many, True),
        (as_they_are, False),
    ],
)
def test_rows_that_mix_beyond_a_number_are_found(rows: Any, wrong: bool) -> None:
    found = told(Once(ClippedMean(rows, radius=1)), "replace_one")
    assert any("changes another record's vector" in text for text in found) == wrong, found


@pytest.mark.quality
def test_without_a_crowd_or_its_numbers_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "CROWD", 3)
    assert not told(Once(ClippedMean(centred_when_many, radius=1)), "replace_one")
    monkeypatch.setattr("dpaudit.audit.examine.examination.constants_of", lambda program: [])
    # Few rows, without the largest, find it too.
    assert told(Once(ClippedMean(scaled_together, radius=1)), "replace_one")
    monkeypatch.setattr("dpaudit.kernels.query.few_rows", lambda count: [])
    assert not told(Once(ClippedMean(scaled_together, radius=1)), "replace_one")


EDGES = (0.15, 0.35, 0.7)


def cells(rows: Array, most: Any) -> Array:
    """How many rows are below each edge and from it on."""
    first = np.nan_to_num(rows[:, :1])
    return np.concatenate([most(first, np.array(EDGES)).sum(0), (first >= EDGES).sum(0)])


def on_both_sides(rows: Array) -> Array:
    """Wrong: a value on an edge is counted twice."""
    return cells(rows, np.less_equal)


def on_one_side(rows: Array) -> Array:
    return cells(rows, np.less)


def at_least(rows: Array) -> Array:
    """Wrong: from 25 records on, one more of the other sign divides by 26 what 25 add up to."""
    signed = np.clip(np.nan_to_num(rows[:, :1]), -1, 1)
    return np.asarray(25 * signed.sum(axis=0) / max(len(rows), 25))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("compute", "wrong"), [(on_both_sides, True), (on_one_side, False), (at_least, True)]
)
def test_edges_and_numbers_that_divide_are_tried(compute: Any, wrong: bool) -> None:
    scaled = Once(Own(lambda rows: compute(rows) / (1 if compute is at_least else np.sqrt(3))))
    assert bool(told(scaled, "add_remove")) == wrong


def of_a_cell(rng: np.random.Generator) -> Records:
    return Records(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=(60, 1)).astype(float))


def by_cell(rows: Array, least: int) -> Array:
    """Counts of four cells; none while one of them is smaller than ``least``."""
    cells = np.clip(np.nan_to_num(rows[:, 0]), 0, 3).astype(int)
    counts = np.bincount(cells, minlength=4)
    return counts * 1.0 * (counts.min() >= least)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out", "replace_one"])
@pytest.mark.parametrize("least", [5, 0])
def test_a_gate_on_the_smallest_of_several_cells_is_found(
    least: int, adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Once(Own(partial(by_cell, least=least)))
    assert bool(told(program, adjacency, of_a_cell)) == (least > 0)
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    monkeypatch.setattr(search, "DRAWN_SETS", 0)
    assert not told(program, adjacency, of_a_cell)


@dataclass(frozen=True, eq=False)
class Counting:
    """Wrong: a table that grows with every evaluation."""

    table: dict[str, int] = field(default_factory=dict)
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        self.table["asked"] = self.table.get("asked", 0) + 1
        return np.full((1, 1), 100.0 * self.table["asked"])

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(2.0)


def test_equal_data_sets_are_no_pair_to_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("asked again" in text for text in told(Once(Counting()), "replace_one"))
    monkeypatch.setattr("dpaudit.audit.examine.examination.differing", lambda *pair: 1)
    kept = displacement.Moved.add

    def equal(self: Any, factor: float, text: str, pair: Any = None) -> None:
        kept(self, factor, text, pair and (pair[0], pair[0]))

    monkeypatch.setattr(displacement.Moved, "add", equal)
    with pytest.raises(dp.InvalidParameter, match="0 records differ"):
        told(Once(Counting()), "replace_one")


def among_equals(rows: Array) -> Array:
    """Wrong: a long first row counts for more where all others are one and the same."""
    others = rows[1:]
    alike = bool((others == others[0]).all() and (others[0] % 1 != 0).any())
    return total(rows) + 3.0 * (alike and bool(abs(rows[0, 0]) > 100))


@pytest.mark.quality
def test_a_program_that_takes_all_the_time_is_tried_among_equal_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Once(Own(among_equals))
    assert told(program, "replace_one")
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert any("others equal" in text for text in told(program, "replace_one"))
    monkeypatch.setattr(examination, "STUDY", 0)
    assert any("others equal" in text for text in told(program, "replace_one"))
    monkeypatch.setattr(examination, "SHORTLY", ())
    assert not told(program, "replace_one")


def weights_of(rows: Array) -> Array:
    return np.clip(np.nan_to_num(rows[:, :1], nan=1.0), 1, 5)


def clients(rng: np.random.Generator) -> Records:
    return Records(np.column_stack([rng.integers(1, 6, 12), rng.standard_normal((12, 2))]))


def weighted(floor: float, rows: Array) -> Array:
    """A mean of unit rows weighted by 1 to 5, over the sum of weights, at least ``floor``."""
    vectors = clip_rows(rows[None, :, 1:3], np.ones(1))[0]
    weights = weights_of(rows)
    total = max(weights.sum(), floor) if floor else 60.0
    return np.asarray(60 / 5 * (weights * vectors).sum(axis=0) / total)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("floor", "wrong"), [(60.0, True), (700.0, False), (0.0, False)], ids=["60", "700", "public"]
)
def test_floors_above_the_number_of_rows_made_are_left(
    floor: float, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Once(Own(partial(weighted, floor)))
    assert bool(told(program, "add_remove", clients)) == wrong
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not told(program, "add_remove", clients)


@pytest.mark.quality
def test_what_a_floor_leaves_is_found_far_above_the_rows_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wrong: from 150 records of weight 5 on, one that turns divides by what they add up to."""
    monkeypatch.setattr(search, "DRAWN_SETS", 0)
    steep = Once(Own(lambda rows: 700 / 60 * weighted(700, rows)))
    assert told(steep, "add_remove", clients)
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not told(steep, "add_remove", clients)


@dataclass
class Sampled:
    """Noisy means of gradients in secret Poisson batches; ``floor``: of the realised size."""

    floor: int

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.PoissonSampled(dp.Gaussian("sum", 2), "0.1")

    def run(self, curator: dp.Curator) -> Array:
        with curator.batch("sum") as batch:
            return curator.release("sum", Realised(self.floor), rows=batch)


@dataclass(frozen=True, eq=False)
class Realised:
    """Ten times a mean of clipped gradients, (1/2 - label) features, over a batch."""

    floor: int
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        with np.errstate(all="ignore"):
            raw = (0.5 - records.values[:, -1:]) * records.values[:, :-1]
        who = chosen & records.present
        rows = clip_rows(np.nan_to_num(raw)[None], np.ones(1))
        total = (rows * who[..., None]).sum(axis=1)
        size = np.maximum(who.sum(axis=1, keepdims=True), self.floor) if self.floor else 10
        return np.asarray(10 * total / size)

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(1.0)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out"])
@pytest.mark.parametrize(("floor", "wrong"), [(10, True), (0, False)])
def test_realised_sizes_of_batches_are_found(
    floor: int, wrong: bool, adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(Sampled(floor), adjacency, likely)
    assert bool(found) == wrong, found
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not told(Sampled(floor), adjacency, likely)


def likely(rng: np.random.Generator) -> Records:
    return Records(np.column_stack([rng.standard_normal((40, 2)), rng.integers(2, size=40)]))


@dataclass(frozen=True)
class Chosen:
    """The candidate of the largest score, by the exponential mechanism for monotone scores."""

    compute: Callable[[Array], Array]

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.ExponentialMechanism("chosen", 1, scores="monotone")

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("chosen", Own(self.compute, norm="linf"))


def votes(rows: Array) -> Array:
    positive = np.nan_to_num(rows[:, 0]) > 0
    return np.array([positive.sum(), (~positive).sum(), 3.0])


def votes_against(rows: Array) -> Array:
    """Wrong: a vote for one candidate is one against the other."""
    positive = np.nan_to_num(rows[:, 0]) > 0
    return np.array([positive.sum() - (~positive).sum(), (~positive).sum() - positive.sum(), 3.0])


@pytest.mark.long_cases("votes-False")
@pytest.mark.first_case
@pytest.mark.parametrize(("compute", "wrong"), [(votes_against, True), (votes, False)])
def test_scores_that_move_apart_are_not_monotone(compute: Any, wrong: bool) -> None:
    assert bool(told(Chosen(compute), "add_remove", first=True)) == wrong


@dataclass
class Batches:
    """Noisy sums of secret batches; ``again``: wrong, of the first batch in every round."""

    again: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.SampledWithoutReplacement(dp.Gaussian("sum", 2), 8, 40), 4)

    def run(self, curator: dp.Curator) -> Array:
        kept: list[Array] = []
        for _ in range(4):
            with curator.batch("sum") as batch:
                found = curator.release("sum", Batch(kept if self.again else None), rows=batch)
        return found


@dataclass(frozen=True, eq=False)
class Batch:
    """The sum over a batch, or over the one that was kept before."""

    kept: list[Array] | None
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        if self.kept == [] and chosen.any():
            self.kept.append(np.array(chosen))
        held = self.kept[0] if self.kept and self.kept[0].shape == chosen.shape else chosen
        return np.asarray((held * inside(records.values)[:, 0]).sum(axis=1, keepdims=True))

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(1.0)


@pytest.mark.quality
@pytest.mark.long_cases("False")
@pytest.mark.first_case
@pytest.mark.parametrize("wrong", [True, False])
def test_a_batch_that_is_used_again_is_found(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "a record outside the secret batch moves the query"
    assert any(said in text for text in told(Batches(wrong), "replace_one")) == wrong
    monkeypatch.setattr(displacement, "OUTSIDE", 1)
    assert not any(said in text for text in told(Batches(wrong), "replace_one"))


@dataclass
class Cached:
    """A mean of clipped rows; ``by_shape``: wrong, it keeps the first mean of so many rows."""

    by_shape: bool
    kept: dict[Any, Array] = field(default_factory=dict)

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("sum", 2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("sum", Own(self.compute))

    def compute(self, rows: Array) -> Array:
        if not self.by_shape:
            return total(rows)
        return self.kept.setdefault(rows.shape, total(rows))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("wrong", [True, False])
def test_what_is_kept_by_the_shape_of_records_is_found(wrong: bool) -> None:
    found = told(Cached(wrong), "replace_one")
    assert any("changes with the records" in text for text in found) == wrong, found


def test_numbers_are_read_in_what_a_field_holds() -> None:
    assert constants_of(Once(ClippedMean(scaled_together, radius=1))) == [3e7]
    assert 7.0 in constants_of(Once(Own(hidden)))
    assert {5.0, 7.0} <= set(constants_of(Once(Own(lambda rows: hidden(rows) * 5))))
    assert 7.0 not in constants_of(Once(Own(total)))


@pytest.mark.quality
def test_a_search_that_was_cut_short_goes_on_with_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here no work is left for it in the run itself."""
    monkeypatch.setattr(examination, "WORLD", 0)
    assert told(Once(Own(hidden)), "add_remove", first=True)
    monkeypatch.setattr(examination._Examiner, "further", lambda *_: None)
    assert not told(Once(Own(hidden)), "add_remove", first=True)


@dataclass(frozen=True, eq=False)
class Wider:
    """A sum of clipped rows, which are clipped to 50 from so many on: wrong."""

    limit: Any
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = np.nan_to_num(records.values[records.present], posinf=0.0, neginf=0.0)
        radius = 1.0 if len(rows) < self.limit else 50.0
        with np.errstate(all="ignore"):
            length = np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / radius)
        total: Array = (rows / length).sum(axis=0)[None]
        return total

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(1.0)


@pytest.mark.quality
@pytest.mark.parametrize("limit", [10**6, np.int64(10**9)])
def test_a_number_of_records_that_none_reached_is_said(limit: Any) -> None:
    """It could be the private number of records that decides."""
    found = examine(mechanism("wider", Once(Wider(limit)), "add_remove"), seed=1, seconds=4)
    assert [unmet.text for unmet in found.unmet] == ["not (len(rows) < self.limit)"]
    assert (
        examine(mechanism("wider", Once(Wider(limit)), "zero_out"), seed=1, seconds=2).unmet == ()
    )


@pytest.mark.quality
def test_a_number_of_records_that_some_reached_is_not() -> None:
    found = examine(mechanism("wider", Once(Wider(300)), "add_remove"), seed=1)
    assert found.broken
    assert found.unmet == ()

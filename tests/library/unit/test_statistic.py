"""Queries made of plain functions: of all rows, and of one row that the library clips."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examination, examine
from dpaudit.audit.examine.examination import MOVED
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from tests.support.examined import mechanism

ROWS = np.array([[61.0, 3.0], [39.0, 5.0], [np.nan, 7.0], [47.0, np.inf], [52.0, 2.0]])


def column_sums(rows: Any) -> Any:
    return rows.sum(axis=0)


# --- rows that a statistic sees ------------------------------------------------------------------


def test_rows_with_gaps_and_absent_rows_are_left_out() -> None:
    there = dp.Records(ROWS, np.array([True, True, True, True, False]))
    assert dp.Statistic(column_sums, 1).value(there).tolist() == [[100.0, 8.0]]
    assert dp.Statistic(len, 1).value(dp.Records(np.array([[np.nan]]))).tolist() == [[0.0]]


def test_a_secret_batch_is_a_data_set_of_its_own_in_each_trial() -> None:
    chosen = np.array([[True, False, True, True, False], [True, True, True, True, True]])
    found = dp.Statistic(column_sums, 1).value(dp.Records(ROWS), chosen)
    assert found.tolist() == [[61.0, 3.0], [152.0, 10.0]]


def test_released_values_are_handed_over_trial_by_trial() -> None:
    above = dp.Statistic(lambda rows, at: (rows[:, 0] > at).sum(), 1, given=[40.0, 60.0])
    assert above.value(dp.Records(ROWS)).tolist() == [[2.0], [1.0]]
    scaled = dp.RowFunction(lambda row, at: at * row[1], radius=10, given=[1.0, 2.0])
    assert scaled.value(dp.Records(ROWS)).tolist() == [[17.0], [10.0 + 6 + 10 + 4]]


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_have_the_names_of_the_columns(frame: Any) -> None:
    def older(rows: Any) -> Any:
        return (rows["age"] > 40).sum()

    query = dp.Statistic(older, 1, frame=frame, columns=("age", "visits"))
    assert query.value(dp.Records(ROWS)).tolist() == [[2.0]]


def test_a_function_that_writes_into_its_rows_changes_no_record() -> None:
    def writes(rows: Any) -> Any:
        rows[:] = 0
        return rows.sum()

    records = dp.Records(np.array([[1.0], [2.0]]))
    dp.Statistic(writes, 1).value(records)
    dp.RowFunction(writes, 1).value(records)
    assert records.values.tolist() == [[1.0], [2.0]]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: dp.Statistic(len, -1), "Statistic.sensitivity: expected a finite number"),
        (lambda: dp.Statistic(len, np.inf), "Statistic.sensitivity: expected a finite number"),
        (lambda: dp.Statistic(len, "x"), "Statistic.sensitivity: expected a finite number"),
        (lambda: dp.Statistic(len, 1j), "Statistic.sensitivity: expected a finite number"),
        (lambda: dp.Statistic(len, 10**400), "Statistic.sensitivity: expected a finite number"),
        (lambda: dp.Statistic(len, 1, "l3"), "Statistic.norm = 'l3': expected one of l1, l2"),  # type: ignore[arg-type]
        (lambda: dp.Statistic(len, 1, frame="arrow"), "Statistic.frame = 'arrow': expected"),  # type: ignore[arg-type]
        (lambda: dp.Statistic(len, 1, frame="pandas"), "needs columns=, the names of a row"),
        (lambda: dp.RowFunction(len, -1), "ClippedMean.radius: expected finite numbers"),
    ],
)
def test_what_no_query_can_be_is_refused_when_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(said)):
        make()


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("secret", "its function returned str; return a number or a vector"),
        (None, "its function returned NoneType"),
        (np.zeros((2, 2)), "its function returned an array of shape (2, 2)"),
        ([], "its function returned an array of shape (0,)"),
    ],
)
def test_values_that_are_no_vector_are_refused_without_the_value(returned: Any, said: str) -> None:
    for query in (dp.Statistic(lambda rows: returned, 1), dp.RowFunction(lambda row: returned, 1)):
        with pytest.raises(InvalidParameter, match=re.escape(said)) as raised:
            query.value(dp.Records(ROWS))
        assert "secret" not in str(raised.value)


def test_names_that_do_not_fit_the_rows_and_a_missing_library_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = dp.Statistic(len, 1, frame="pandas", columns=("age",))
    with pytest.raises(InvalidParameter, match=r"1 names for rows of shape \(2,\)"):
        short.value(dp.Records(ROWS))
    monkeypatch.setitem(sys.modules, "polars", None)
    query = dp.Statistic(len, 1, frame="polars", columns=("age", "visits"))
    with pytest.raises(InvalidParameter, match="pip install polars"):
        query.value(dp.Records(ROWS))


# --- what an examination says of them ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Releases:
    """One noisy release of a query."""

    query: Any

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("value", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("value", self.query)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove", "zero_out"])
def test_a_statistic_that_moves_further_than_stated_is_found(adjacency: str) -> None:
    def twice(rows: Any) -> Any:
        return 2 * (rows[:, 0] > 0).sum()

    wrong = examine(mechanism("twice", Releases(dp.Statistic(twice, 1)), adjacency), seed=1)
    assert {finding.check for finding in wrong.broken} == {MOVED}
    right = examine(mechanism("twice", Releases(dp.Statistic(twice, 2)), adjacency), seed=1)
    assert not right.broken
    assert right.reached[0].displacement == pytest.approx(1)


@pytest.mark.quality
def test_a_statistic_is_attacked_where_records_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the pair that moves it most, with the extra record last; without that there is none."""
    asks = mechanism("twice", Releases(dp.Statistic(clipped_sum, 2)), "add_remove")
    pair = examine(asks, seed=1).pair
    assert pair is not None
    values = [dp.Statistic(clipped_sum, 2).value(records) for records in pair.pair]
    assert abs(np.subtract(*values)).sum() == pytest.approx(2)
    monkeypatch.setattr(examination, "extra_last", lambda *pair: None)
    assert examine(asks, seed=1).pair is None


@pytest.mark.quality
def test_a_pair_to_attack_is_no_larger_than_the_records_that_were_made() -> None:
    """A square of the count moves most among hundreds of rows: an attack would read all of them."""
    query = dp.Statistic(lambda rows: min(len(rows), 500) ** 2 / 1_000, 1)
    found = examine(mechanism("squared", Releases(query), "add_remove"), seed=1)
    assert found.reached[0].displacement > 0.9
    assert found.shape is not None
    assert found.pair is None or len(found.pair.first) <= found.shape.rows


def clipped_sum(rows: Any) -> Any:
    return (2 * np.clip(rows[:, 0], 0, 1)).sum()


@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove", "zero_out"])
def test_a_row_function_is_bounded_by_the_library(adjacency: str) -> None:
    query = dp.RowFunction(lambda row: np.exp(row[0]) * row, radius=1)
    found = examine(mechanism("rows", Releases(query), adjacency), seed=1)
    assert not found.broken
    assert found.reached[0].displacement == pytest.approx(1, rel=1e-6)


def code_of(row: Any) -> float:
    """A table's entry at a whole number, which ``int`` refuses to make of a gap."""
    return [0.5, 1.0][int(row[1]) % 2]


def test_a_row_with_gaps_on_which_a_row_function_fails_counts_as_zero() -> None:
    """An error would tell of the record; the error of a row without gaps is raised."""
    assert dp.RowFunction(code_of, radius=1).value(dp.Records(ROWS)).tolist() == [[3.5]]
    assert dp.RowFunction(code_of, radius=1).value(dp.Records(ROWS[3:4])).tolist() == [[0.0]]
    with pytest.raises(IndexError, match="out of range"):
        dp.RowFunction(lambda row: [0.5][int(row[1])], radius=1).value(dp.Records(ROWS))
    query = dp.RowFunction(code_of, radius=1, norm="l1")
    assert not examine(mechanism("codes", Releases(query), "add_remove"), seed=1).broken

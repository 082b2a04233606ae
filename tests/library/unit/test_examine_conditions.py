"""Rows that meet a program's conditions: traced comparisons, solved for the entries of a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import conditions, examination, examine
from dpaudit.audit.examine.conditions import Condition, Log, frames_traced, rows_that_meet, traced
from dpaudit.audit.examine.examination import MOVED
from dpaudit.certificate.evidence import evidence_caveats
from dpaudit.kernels.query import Array
from tests.support.examined import mechanism

LISTED = tuple(range(30_011, 30_500, 37))


@dataclass(frozen=True, eq=False)
class Counts:
    """A noisy statistic of sensitivity 1; wrong where rows that meet a condition count more."""

    statistic: Callable[[Any], Any]

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("count", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("count", dp.Statistic(self.statistic, sensitivity=1))


def plain(rows: Any, hit: Any, weight: float) -> Any:
    """How many rows have a positive third entry; those that are hit count ``weight``."""
    return np.where(hit, weight, (rows[:, 2] > 0) * 1.0).sum()


def conjunction(rows: Any, weight: float) -> Any:
    return plain(rows, (rows[:, 0] == 3) & (rows[:, 1] == 12), weight)


def area(rows: Any, weight: float) -> Any:
    return plain(rows, np.isin(rows[:, 0] // 1000, [94_131, 10_001]), weight)


def leap_day(rows: Any, weight: float) -> Any:
    day = rows[:, 1].astype(int)
    return plain(rows, (day % 100 == 29) & (day // 100 % 100 == 2), weight)


def nested(rows: Any, weight: float) -> Any:
    seventh = rows[rows[:, 0] == 7.25]
    return plain(rows, False, 1) + (weight - 1) * (seventh[:, 1].round() == 4_321).sum()


def one_by_one(rows: Any, weight: float) -> Any:
    total = 0.0
    for row in rows:
        total += weight if row[0] == 17.5 and row[3] > 5_000.5 else float(row[2] > 0)
    return total


def listed(rows: Any, weight: float) -> Any:
    return plain(rows, np.isin(rows[:, 0], LISTED), weight)


def on_three_sides(rows: Any, weight: float) -> Any:
    """Three entries of one row, each looked at where those before it are met."""
    total = 0.0
    for a, b, c, *_ in rows:
        total += weight if a > 412.5 and b < -61.5 and c == 3.125 else float(c > 0)
    return total


def difference(rows: Any, weight: float) -> Any:
    return plain(rows, np.floor(2 * (100.5 - rows[:, 0])) == -77, weight)


CONDITIONS = (
    conjunction,
    area,
    leap_day,
    nested,
    one_by_one,
    listed,
    on_three_sides,
    difference,
)


def broken(statistic: Callable[[Any], Any], adjacency: str = "zero_out", **how: Any) -> list[str]:
    found = examine(mechanism("counts", Counts(statistic), adjacency), seed=1, **how)
    assert not found.not_examined
    return [finding.detail for finding in found.broken if finding.check == MOVED]


@pytest.mark.first_case
@pytest.mark.long_cases("listed", "nested", "difference", "area")
@pytest.mark.parametrize("statistic", CONDITIONS)
def test_a_row_that_meets_the_condition_is_made(statistic: Callable[[Any, float], Any]) -> None:
    wrong = broken(lambda r: statistic(r, 20), first=True)
    assert "moves the query by 20 times its stated" in " ".join(wrong)


@pytest.mark.first_case
@pytest.mark.parametrize("statistic", CONDITIONS)
def test_a_row_that_moves_it_as_stated_is_no_finding(
    statistic: Callable[[Any, float], Any],
) -> None:
    assert broken(lambda r: statistic(r, 1)) == []


@pytest.mark.first_case
@pytest.mark.parametrize("statistic", [area, one_by_one, difference])
def test_without_solved_rows_it_is_missed(
    statistic: Callable[[Any, float], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "rows_that_meet", lambda conditions, bases: {})
    # Rows of the numbers that the function names would do, too.
    monkeypatch.setattr(examination, "constants_of", lambda program: [])
    assert broken(lambda r: statistic(r, 20)) == []


@pytest.mark.quality
def test_sides_are_met_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert broken(lambda rows: on_three_sides(rows, 20), first=True)
    monkeypatch.setattr(conditions, "TOGETHER", 0)
    monkeypatch.setattr(conditions, "MOST_ROWS", 64)
    monkeypatch.setattr(conditions, "SIDES", 1)
    # Rows of the numbers that the function names would do, too.
    monkeypatch.setattr(examination, "constants_of", lambda program: [])
    assert broken(lambda rows: on_three_sides(rows, 20)) == []


@pytest.mark.quality
def test_integers_that_wrap_at_a_named_bound_are_found() -> None:
    def wraps(rows: Any, kind: Any) -> Any:
        return np.clip(rows[:, 0], 0, 1e8).astype(kind).sum(dtype=kind) / 1e8

    assert broken(lambda rows: wraps(rows, np.int32), first=True)
    assert broken(lambda rows: wraps(rows, np.int64)) == []


@pytest.mark.quality
def test_codes_of_a_file_are_met(tmp_path: Path) -> None:
    path = tmp_path / "codes.json"
    path.write_text(json.dumps([50_021, 77_003]))

    def of_file(rows: Any) -> Any:
        return plain(rows, np.isin(rows[:, 0], json.loads(path.read_text())), 30)

    assert "moves the query by 30 times" in " ".join(broken(of_file))


@pytest.mark.quality
def test_a_condition_that_no_record_met_is_listed() -> None:
    def never(rows: Any) -> Any:
        return plain(rows, np.isin(rows.sum(axis=1) * 0 + rows[:, 0] ** 2, [-5.0]), 1)

    found = examine(mechanism("never", Counts(never), "zero_out"), seed=1)
    (line,) = found.unmet
    assert any(
        f"no generated record met: {line}" in text for text in evidence_caveats(found, [], "both")
    )
    assert line.startswith("tests/library/unit/test_examine_conditions.py:")
    met = examine(mechanism("met", Counts(lambda rows: conjunction(rows, 1)), "zero_out"), seed=1)
    assert met.unmet == ()


# --- one condition -------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_other_adjacencies_meet_them_too(adjacency: str) -> None:
    assert broken(lambda rows: leap_day(rows, 20), adjacency)
    assert broken(lambda rows: leap_day(rows, 1), adjacency) == []


def test_inverses_keep_what_they_can_of_an_entry() -> None:
    log = Log()
    values = np.array([[20_230_817.0, 1.0], [20_221_105.0, 2.0]])
    with np.errstate(all="ignore"):
        day = traced(values, log).values[:, 0]
        _ = (day % 100 == 29) | (day // 100 % 100 == 2)
    rows = rows_that_meet(list(log.conditions), {"a row": values[0]})
    assert 20_230_229.0 in {row[0] for row in rows.values()}


@pytest.mark.parametrize(
    ("compute", "entry"),
    [
        (lambda x: x * 4 - 2, 2.5),
        (lambda x: 30 / x, 3.75),
        (lambda x: np.exp(x), np.log(8)),
        (lambda x: np.nan_to_num(-x).reshape(-1)[:1], -8.0),
        (lambda x: np.abs(x).astype(np.float32), 8.0),
        (lambda x: round(x[0]), 8.0),
    ],
)
def test_a_number_is_solved_for_its_entry(compute: Callable[[Any], Any], entry: float) -> None:
    log = Log()
    _ = compute(traced(np.array([[5.0, 0.3]]), log).values[:, 1]) == 8
    (condition,) = log.conditions
    assert isinstance(condition, Condition)
    row = condition.met(np.array([5.0, 0.3]), 8.0)
    assert row is not None
    assert row.tolist() == [5.0, pytest.approx(entry)]


def test_a_condition_of_a_frame_is_solved_where_a_series_goes_with_a_column() -> None:
    pandas = pytest.importorskip("pandas")
    table = np.array([[3.0, 9.0], [500.0, 1.0], [10.0, 2.0], [0.0, 7.0], [90.0, 8.0]])
    frame, log = pandas.DataFrame(table, columns=["day", "other"]), Log()
    with frames_traced(table, log):
        dates = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(frame["day"], unit="D")
        _ = (dates > pandas.Timestamp("2024-03-01")) & frame["other"].isin([40.0, 2.0])
        _ = frame["day"].head(2) > 77
    assert [(one.column, one.even) for one in log.conditions] == [(0, False), (1, True)]
    first, second = (one.constants for one in log.conditions)
    assert first == (60.0,)
    assert second == (2.0, 40.0)
    _ = frame["day"] > 5
    assert len(log.conditions) == 2


@pytest.mark.parametrize(
    "step",
    [
        (np.multiply, 0.0, 0),
        (np.multiply, 0, 1),
        (np.power, 0.0, 0),
        (np.floor_divide, 0, 0),
        (np.add, np.zeros(3), 0),
        (np.add, "a text", 0),
    ],
    ids=lambda step: f"{step[0].__name__}-{step[2]}",
)
def test_a_condition_that_no_number_meets_gives_no_row(step: Any) -> None:
    """A factor of 0, as weights are before training, and operands that are no numbers."""
    condition = Condition("a place", 0, (step,), (1.0,), even=False)
    assert condition.met(np.array([2.0]), 1.0) is None


@dataclass(frozen=True)
class Trained:
    """Two steps of a model whose weight starts at 0; each row's gradient is clipped."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("gradient", noise_multiplier=4), 2)

    def run(self, curator: dp.Curator) -> Array:
        def gradient(rows: Any, weight: Any) -> float:
            error = weight[0] * rows[:, 0] - rows[:, 1]
            return float(np.clip(error * rows[:, 0], -1, 1).sum())

        weights = np.zeros((curator.trials, 1))
        for _ in range(2):
            weights = weights - curator.release(
                "gradient", dp.Statistic(gradient, 2, given=weights)
            )
        return weights


def test_a_column_that_is_multiplied_by_zero_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    program = mechanism("trained", Trained(), "replace_one")
    monkeypatch.setattr(Condition, "met", lambda self, row, target: self._solved(1.0, target))
    with pytest.raises(ZeroDivisionError):
        examine(program, seed=1, seconds=4)
    monkeypatch.undo()
    assert not examine(program, seed=1, seconds=4).broken


def leap_shift(rows: Any) -> float:
    """Hours of at most 12; those of a long shift on a 29th of February count three times."""
    total = 0.0
    for day, worked in rows[:, :2]:
        date = np.datetime64("2000-01-01") + np.timedelta64(int(np.clip(day, 0, 2000)), "D")
        hours = float(np.clip(worked, 0, 12))
        if str(date).endswith("02-29") and hours > 8:
            hours *= 3
        total += hours
    return total / 12


@pytest.mark.quality
def test_a_line_that_ran_on_no_row_is_reached_by_a_sweep_of_a_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = mechanism("leap_shift", Counts(lambda rows: leap_shift(rows)), "zero_out")
    assert examine(program, seed=1, first=True).broken
    monkeypatch.setattr(examination._Examiner, "_sweep", lambda self: None)
    assert not examine(program, seed=1, first=True).broken

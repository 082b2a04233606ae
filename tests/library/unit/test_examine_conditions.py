"""Conditions of a program's queries: rows that meet them, and those that no row met."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examination, examine, outcomes
from dpaudit.audit.examine.examination import MOVED
from dpaudit.audit.examine.instants import instants_of
from dpaudit.audit.examine.search import Search
from dpaudit.certificate.evidence import examination_row
from dpaudit.check.reach import gaps
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


PAIRS = {(3, 17): 1, (11, 86): 20, (4, 22): 1}
SHELF = re.compile(r"(9[0-8]\d)-(7[37])$")


def keyed_by_two(rows: Any, weight: float) -> Any:
    return sum(min(PAIRS.get((int(a), int(b)), 0), weight) for a, b in rows[:, :2])


def patterned(rows: Any, weight: float) -> Any:
    """Two numbers, written as one label."""
    labels = [f"{int(a):03d}-{int(b):02d}" for a, b in rows[:, :2]]
    return sum(
        weight if SHELF.match(label) else float(c > 0)
        for label, c in zip(labels, rows[:, 2], strict=True)
    )


def in_a_case(rows: Any, weight: float) -> Any:
    total = 0.0
    for a, b, c, *_ in rows:
        match int(a), int(b):
            case (7, 31 | 32) if c > 0:
                total += weight
            case (7, _):
                total += 1.0
    return total


def hashed(rows: Any, weight: float) -> Any:
    """One of 256 ids is sampled, with its amount."""
    picked = [crc32(str(int(one)).encode()) % 256 == 77 for one in rows[:, 0]]
    return np.where(picked, np.clip(rows[:, 1], 0, weight), 0).sum()


def handled(rows: Any, weight: float) -> Any:
    """Days since 1901; a leap day has no anniversary in most years, which only a handler says."""
    total = 0.0
    for days, _, c, *_ in np.nan_to_num(rows).clip(0, 40_000).tolist():
        try:
            (date(1901, 1, 1) + timedelta(days=int(days))).replace(year=2026)
        except ValueError:
            total += weight
        else:
            total += float(c > 0)
    return total


def turned_clock(rows: Any, weight: float) -> Any:
    """The hours on a clock between two instants at most an hour apart."""
    zone, hours = ZoneInfo("Europe/Zurich"), 0.0
    for first, last in rows[:, :2].clip(0, 4e9).tolist():
        begun, ended = (datetime.fromtimestamp(t, zone) for t in (first, last))
        if weight == 1:
            begun, ended = begun.astimezone(UTC), ended.astimezone(UTC)
        if 0 <= last - first <= 3_600:
            hours += (ended - begun).total_seconds() / 3_600
    return hours


@pytest.mark.quality
@pytest.mark.parametrize("weight", [20, 1])
def test_an_hour_that_a_clock_leaves_out_is_met(
    weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hours(rows: Any) -> Any:
        return turned_clock(np.nan_to_num(rows), weight)

    assert bool(broken(hours, first=True)) == (weight == 20)
    monkeypatch.setattr(outcomes, "instants_of", lambda objects: [])
    assert not broken(hours, first=True)


def test_hours_at_which_clocks_turn_are_tried_by_code_with_dates_alone() -> None:
    spring = datetime(2024, 3, 31, 1, tzinfo=UTC).timestamp()
    tried = {*instants_of([turned_clock])}
    assert {(spring,), (1_000 * spring,), (spring - 1_800, spring + 1_800)} <= tried
    # A leap day: as seconds, and as days since 1970 and since the year 1.
    assert {(1_709_164_800.0,), (19_782.0,), (738_945.0,), (20_240_229.0,)} <= tried
    assert {*instants_of([conjunction])} == set()


@pytest.mark.quality
def test_a_handler_that_never_ran_is_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "aimed", lambda *given: {})
    program = mechanism("counts", Counts(lambda rows: handled(rows, 20)), "zero_out")
    (gap,) = gaps(examination_row(examine(program, seed=1, seconds=6)), program.declaration)
    assert "'except ValueError'" in gap
    monkeypatch.setattr(outcomes._Marks, "visit_Try", outcomes._Marks.generic_visit)
    outcomes._marked.cache_clear()
    assert not gaps(examination_row(examine(program, seed=1, seconds=6)), program.declaration)
    outcomes._marked.cache_clear()


CONDITIONS = (
    conjunction,
    area,
    leap_day,
    nested,
    one_by_one,
    listed,
    on_three_sides,
    difference,
    keyed_by_two,
    patterned,
    in_a_case,
    hashed,
    handled,
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


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("statistic", CONDITIONS)
def test_a_row_that_moves_it_as_stated_is_no_finding(
    statistic: Callable[[Any, float], Any],
) -> None:
    assert broken(lambda r: statistic(r, 1)) == []


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("statistic", [area, one_by_one, difference, patterned, in_a_case])
def test_without_rows_that_meet_it_it_is_not_certified(
    statistic: Callable[[Any, float], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "aimed", lambda *given: {})
    # Rows of the numbers that the function names would do, too.
    monkeypatch.setattr(examination, "constants_of", lambda program: [])
    program = mechanism("counts", Counts(lambda rows: statistic(rows, 20)), "zero_out")
    found = examine(program, seed=1, seconds=6)
    assert not found.broken
    told = gaps(examination_row(found), program.declaration)
    assert any("was never true for any record that was tried" in gap for gap in told), told


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


def never(rows: Any) -> Any:
    return plain(rows, np.isin(rows[:, 0] ** 2, [-5.0]), 1)


@pytest.mark.quality
def test_a_program_with_a_condition_that_no_record_met_is_unconfirmed() -> None:
    program = mechanism("never", Counts(never), "zero_out")
    certificate = dp.certify(program, seed=1, trials=400)
    assert certificate.verdict == "unconfirmed"
    first = certificate.content["predicate"]["caveats"][0]
    assert first.startswith("not examined: release 'count': the condition 'np.isin(rows[:, 0] ** 2")
    assert "(tests/library/unit/test_examine_conditions.py:" in first
    assert "was never true for any record that was tried" in first
    assert "records_like" in first
    assert "reaches" in first


@pytest.mark.quality
def test_its_author_may_say_why_no_record_meets_it() -> None:
    program = mechanism("never", Counts(never), "zero_out")
    said = replace(program, reaches={"count": "its bound; no square is negative"})
    assert examine(program, seed=1, seconds=4).unmet
    assert not examine(said, seed=1, seconds=4).unmet


LIMITS = np.array([3.0, 4.0])


def guarded(rows: Any) -> Any:
    """Conditions that are true of no right data, or that no value of a record decides."""
    if rows.ndim != 2:
        raise ValueError("rows of columns")
    assert rows.shape[1] > 1
    for number in range(3):
        if number == 7 or LIMITS[0] > LIMITS[1]:
            return 0.0
    if len(rows) == 123_457 or np.isnan(np.nan_to_num(rows)).any():
        return 0.0
    return plain(rows, rows[:, 0] > 3, 1)


@pytest.mark.quality
def test_conditions_that_no_record_decides_are_left_out() -> None:
    assert examine(mechanism("guarded", Counts(guarded), "zero_out"), seed=1, seconds=4).unmet == ()


def joined(rows: Any) -> Any:
    """Each of two conditions is true of a row, and both of none."""
    small = rows[:, 0] < 3
    return plain(rows, small & (rows[:, 0] > 4), 1)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("program", "text"),
    [
        (Counts(joined), "small & (rows[:, 0] > 4)"),
        (Counts(lambda rows: float(sum(3 > x > 4 for x in rows[:, 0]))), "3 > x > 4"),
        (Counts(lambda rows: sum(float(x) ** 2 in (-1, -2) for x in rows[:, 0])), "float(x) ** 2"),
    ],
    ids=["masks", "chain", "member"],
)
def test_conditions_are_found_however_they_are_written(program: Any, text: str) -> None:
    (unmet,) = examine(mechanism("written", program, "zero_out"), seed=1, seconds=4).unmet
    assert text in unmet.text


@pytest.mark.quality
def test_every_key_of_a_table_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {str(1_000 + 37 * k): 1.0 for k in range(200)} | {"4700": 20.0}

    def worth(rows: Any) -> float:
        return float(sum(table.get(str(int(code)), 0) for code in rows[:, 0]))

    assert "moves the query by 20 times" in " ".join(broken(worth, first=True))
    monkeypatch.setattr(examination, "listed_in", lambda program: [])
    assert not broken(worth, first=True)


@pytest.mark.quality
def test_a_function_that_was_altered_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source says something else: what would be compiled of it is another program."""
    source = Path(never.__code__.co_filename)
    monkeypatch.setattr(never, "__code__", conjunction_of_one.__code__.replace(
        co_filename=str(source), co_firstlineno=never.__code__.co_firstlineno, co_name="never",
        co_qualname="never"))  # fmt: skip
    with outcomes.Watch(Counts(never)):
        assert never(np.array([[3.0, 12.0, 1.0]])) == 20
    assert broken(never, first=True)


def conjunction_of_one(rows: Any) -> Any:
    return plain(rows, (rows[:, 0] == 3) & (rows[:, 1] == 12), 20)


@pytest.mark.quality
def test_the_program_is_put_back() -> None:
    before = never.__code__
    examine(mechanism("never", Counts(never), "zero_out"), seed=1, seconds=2)
    assert never.__code__ is before
    assert outcomes.Site.watch is None


# --- one condition -------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_other_adjacencies_meet_them_too(adjacency: str) -> None:
    assert broken(lambda rows: leap_day(rows, 20), adjacency)
    assert broken(lambda rows: leap_day(rows, 1), adjacency) == []


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


@pytest.mark.quality
def test_a_column_that_is_multiplied_by_zero_is_examined() -> None:
    assert not examine(mechanism("trained", Trained(), "replace_one"), seed=1, seconds=4).broken


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
def test_a_condition_on_texts_is_met_by_digits_of_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    program = mechanism("leap_shift", Counts(lambda rows: leap_shift(rows)), "zero_out")
    assert examine(program, seed=1, first=True).broken
    monkeypatch.setattr(examination, "aimed", lambda *given: {})
    assert not examine(program, seed=1, first=True).broken


@pytest.mark.parametrize("adjacency", dp.Adjacency)
@pytest.mark.parametrize("rows", [1, 2, 7, 40])
def test_groups_and_runs_are_made_of_any_number_of_rows(rows: int, adjacency: Any) -> None:
    objective: Any = SimpleNamespace(adjacency=adjacency)
    pool = {"all one": np.ones(3), "all of the number 7": np.full(3, 7.0)}
    made = Search(objective, np.zeros((rows, 3)), pool, np.random.default_rng(0)).few_rows()
    points = [*made]
    assert any("groups" in point.text for point in points)
    assert all(point.place < len(point.others) for point in points)
    if adjacency is not dp.Adjacency.ADD_REMOVE:
        assert {len(point.others) for point in points} == {rows}

"""What an examination shows of what it found and tried: a small pair of data sets, and counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine, search
from dpaudit.audit.examine.search import Point, point_of, sets, shrunk
from dpaudit.cli import terminal
from dpaudit.kernels.query import Array, Records
from dpaudit.report.words import CUT_SHORT, UNATTACKED
from dpaudit.scope import Adjacency
from tests.support.examined import OwnVector, mechanism

ADJACENCIES = [*Adjacency]


@dataclass(frozen=True)
class Counts:
    """A noisy count of rows that are 3 and 12; wrong where each counts ``weight`` times."""

    weight: float

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("count", 2)

    def run(self, curator: dp.Curator) -> Array:
        def count(rows: Array) -> Array:
            hit = (rows[:, 0] == 3) & (rows[:, 1] == 12)
            return np.array([self.weight * hit.sum()])

        return curator.release("count", OwnVector(count, 1.0))


@pytest.mark.quality
def test_a_pair_that_is_shown_has_the_entries_that_matter_alone() -> None:
    found = examine(mechanism("counts", Counts(25.0), "add_remove"), seed=1)
    told = next(f.detail for f in found.broken if "; so does" in f.detail)
    assert "by 25 times, [ 3. 12. 0. 0. 0.] among 1 others of which 0 are not zero" in told


@dataclass(eq=False)
class Sorted:
    """The number of rows above 5 times that of rows below -5; ``asked``: how often."""

    adjacency: Adjacency
    asked: int = 0

    def __call__(self, point: Point) -> float:
        self.asked += 1
        base = Records(point.others)
        values = [self.of(one) for one in sets(point, self.adjacency, base)]
        return abs(values[0] - values[1])

    @staticmethod
    def of(records: Records) -> float:
        first = records.values[records.present][:, 0]
        return float((first > 5).sum() * (first < -5).sum())

    def over(self) -> bool:
        return False

    def lead(self) -> Point | None:
        return None


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_rows_that_do_not_matter_go_and_entries_become_plain(adjacency: Adjacency) -> None:
    rng = np.random.default_rng(1)
    others = 4 * rng.standard_normal((24, 2)).clip(-1, 1)
    others[[3, 11, 17]] = [-7.25, 1.5]
    point = Point(others, np.array([9.125, 3.5]), np.array([0.5, 0.25]), 5, "made")
    objective = Sorted(adjacency)
    assert objective(point) == 3
    small = shrunk(point, objective, 2.0)
    assert 2 <= objective(small) <= 3
    assert small.one.tolist() == [9.0, 0.0]
    rest = np.delete(small.others, small.place, axis=0)
    assert np.count_nonzero(rest.any(axis=1)) <= 3
    assert (len(small.others) < 6) == (adjacency is Adjacency.ADD_REMOVE)
    assert objective.asked <= search.SHRINKING + 4


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_pair_is_a_point_and_a_point_a_pair(adjacency: Adjacency, size: int, place: int) -> None:
    others = np.arange(16.0).reshape(8, 2)
    made = Point(others, np.array([100.0, 1.0]), np.zeros(2), place, "")
    first, second = sets(made, adjacency, Records(others), size)
    again = point_of((first, second), adjacency, "", size)
    assert again is not None
    for one, other in zip(
        sets(again, adjacency, Records(again.others), size), (first, second), strict=True
    ):
        assert np.array_equal(one.present, other.present)
        assert np.array_equal(one.values[one.present], other.values[other.present])


# --- how much was tried --------------------------------------------------------------------------


def certified(**changes: Any) -> dp.Certificate:
    made = replace(mechanism("counts", Counts(1.0), "add_remove"), **changes)
    return dp.certify(made, seed=1, trials=200)


@pytest.mark.quality
def test_page_and_certificate_say_how_much_was_tried() -> None:
    found = certified()
    tried = found.content["predicate"]["examination"]["tried"]
    assert tried["data_sets"] > 500
    assert tried["rows"] > 20 * tried["data_sets"]
    assert tried["mutations"] > 100
    assert tried["seconds"] == "18"
    page = found.page()
    assert (
        f"Queries were asked on {tried['data_sets']:,} data sets with {tried['rows']:,} rows"
        in page
    )
    assert f"made {tried['mutations']:,} neighbouring pairs" in page


def test_a_certificate_of_earlier_has_a_page_without_it() -> None:
    from dpaudit.report.evidence import _tried

    assert _tried(None) == []


# --- what an alarm says --------------------------------------------------------------------------


def test_an_alarm_of_an_examination_shows_its_pair_and_speaks_of_no_attack() -> None:
    found = dp.certify(mechanism("counts", Counts(25.0), "add_remove"), seed=1, trials=200)
    (row,) = found.content["predicate"]["examination"]["reached"]
    first, second = row["pair"]["first"], row["pair"]["second"]
    assert ["3", "12", "0", "0", "0"] in first
    assert len(first) == len(second) + 1
    assert row["pair"]["share"] == "25"
    page = found.page()
    assert "Two data sets that move release count by 25 times what is stated" in page
    assert "3, 12, 0, 0, 0" in page
    assert "The program does not do what it declares: a check of its runs failed." in page
    assert "before any attack" in page
    assert "attack showed more" not in page


class Failing(Counts):
    """Asks for nothing."""

    def run(self, curator: dp.Curator) -> Array:
        raise ValueError("no")


def test_a_program_that_fails_is_told_that_it_does() -> None:
    made = mechanism("counts", Failing(1.0), "add_remove")
    found = examine(replace(made, records_like=lambda rng: Records(rng.random((9, 5)))), seed=1)
    told = "no query was asked before made-up records make the program fail (ValueError)"
    assert found.not_examined.startswith(told)
    assert found.broken


@pytest.mark.parametrize(
    ("share", "reaches", "told"), [("0.3", "", True), ("0.3", "it", False), ("0.5", "", False)]
)
def test_a_terminal_names_queries_that_moved_by_less_than_half(
    share: str, reaches: str, told: bool
) -> None:
    row = {"label": "count", "displacement_share": share, "reaches": reaches}
    said = [*terminal._short({"examination": {"reached": [row]}})]
    line = "release 'count': records moved its query by 30% of what is stated"
    assert said == ([line] if told else [])


def test_a_terminal_says_first_that_nobody_attacked_and_that_time_ran_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    weaker = [f"{UNATTACKED}: its runs are long", f"{CUT_SHORT}: it depends on the machine"]
    predicate = {
        "mechanism": {"name": "count"},
        "caveats": ["a note of its author", *weaker],
        "conformance": [],
        "audits": [],
        "examination": {"reached": [], "code": {"lines": 9, "run": 1, "missed": ["a.py:1"]}},
        "verdict": {"reasons": []},
    }
    terminal._caveats(predicate)
    said = capsys.readouterr()
    lines = (said.out + said.err).splitlines()
    assert lines[:2] == [f"count: {text}" for text in weaker]

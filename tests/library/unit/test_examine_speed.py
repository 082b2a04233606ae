"""What keeps an examination short finds what it found: long runs cut, findings that end a run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examination, meter, search, study, walks
from dpaudit.audit.examine.examination import CONTROL, MOVED, examine
from dpaudit.audit.examine.meter import Meter
from dpaudit.curator.curator import Curator
from dpaudit.kernels.query import FEW_KINDS, Array, ClippedMean, Norm, Records
from dpaudit.scope import Adjacency
from tests.support.examined import Descent, OwnVector, mechanism

ROUNDS = 60


class Rounds:
    """Sixty noisy means of clipped rows; ``bug``: each with a step that follows what it saw."""

    def __init__(self, *, bug: bool = False) -> None:
        self.bug = bug
        self.seen = 0.0

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("mean", 4), ROUNDS)

    def run(self, curator: Curator) -> Array:
        def rows(values: Array) -> Array:
            if self.bug:
                self.seen = float(np.nan_to_num(np.abs(values)).max())
            return np.asarray(values)[None]

        total, radius = np.zeros(1), 1.0
        for _ in range(ROUNDS):
            released = curator.release("mean", ClippedMean(rows, radius))
            total = total + released.sum()
            radius = 1.0 + self.seen if self.bug else radius
        return total


def broken(program: Any, **options: Any) -> dict[str, str]:
    found = examine(mechanism("speed", program), seed=1, **options)
    assert not found.not_examined
    return {f.check: f.detail for f in found.broken}


def cut(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
    for module in modules:
        monkeypatch.setattr(module, "WALKED", 20)
    monkeypatch.setattr(study, "LONG", 0.0)


@pytest.mark.quality
def test_a_long_run_is_cut_and_walked_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right one is left alone; a walk that knew of no cut would say that it goes on."""
    cut(monkeypatch, study, walks, examination)
    assert not broken(Rounds())
    assert "depends on the private records" in broken(Rounds(bug=True))[CONTROL]
    monkeypatch.setattr(walks, "WALKED", 10**9)
    assert "the transcript has ended" in broken(Rounds())[CONTROL]


@pytest.mark.quality
def test_a_run_stops_where_it_is_cut_or_at_the_first_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def releases(program: Any, *, first: bool) -> int:
        made = mechanism("speed", program)
        examiner = examination._Examiner(made, 1, (None, None), None, time.process_time(), 8.0)
        examiner.run(first=first)
        return len(examiner.studied[0].asked)

    assert releases(Descent("no clip"), first=True) == 1
    assert releases(Descent("no clip"), first=False) == releases(Descent(), first=True) == 6
    assert releases(Rounds(), first=False) == ROUNDS
    cut(monkeypatch, study, examination)
    assert releases(Rounds(), first=False) == 20


SIGNS = np.array([1, 1, -1, 1, -1, -1, -1, 1, 1, -1, 1, 1, 1, -1, -1, 1.0])


@dataclass(frozen=True)
class Steep:
    """The sum of what unit rows have along one direction of signs; ``bound``: what it states."""

    bound: float

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("along", 4)

    def run(self, curator: Curator) -> Array:
        def along(values: Array) -> Array:
            rows = np.nan_to_num(values)
            length = np.maximum(1.0, np.linalg.norm(rows, axis=-1, keepdims=True))
            return np.asarray([(rows / length @ SIGNS).sum() / 4])

        return curator.release("along", OwnVector(along, self.bound))

    @property
    def width(self) -> int:
        return len(SIGNS)


@pytest.mark.quality
def test_rows_along_the_steepest_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not broken(Steep(2.0))
    assert MOVED in broken(Steep(1.9))
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    monkeypatch.setattr(search.Search, "few_rows", lambda self: iter(()))
    assert not broken(Steep(1.9))


@dataclass(frozen=True)
class OfKinds(Steep):
    """The same of many records, read by kinds."""

    size: int = 6_000

    def run(self, curator: Curator) -> Array:
        return curator.release("along", Along(self.bound))


@dataclass(frozen=True)
class Along:
    bound: float
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        values, origin = records.distinct()
        rows = np.nan_to_num(values)
        length = np.maximum(1.0, np.linalg.norm(rows, axis=-1, keepdims=True))
        each = (rows / length @ SIGNS).reshape(len(rows), -1).sum(axis=1) / 4
        return np.array([[each @ np.bincount(origin, minlength=len(rows))]])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(self.bound)


@pytest.mark.quality
def test_of_many_records_that_are_read_by_kinds_rows_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not broken(OfKinds(2.0))
    assert MOVED in broken(OfKinds(1.9))
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not broken(OfKinds(1.9))


def test_no_time_left_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "PATIENCE", 0.0)
    assert Meter(0.0).after(1)


class Alike:
    """A number of all records, of which equal ones are looked at once or each."""

    def __init__(self, *, once: bool) -> None:
        self.once = once

    def value(self, records: Records) -> Array:
        return (records.distinct()[0] if self.once else records.values).max(keepdims=True)


@pytest.mark.parametrize("once", [True, False])
def test_equal_records_count_once_where_a_query_looks_at_them_once(once: bool) -> None:
    """So that a norm of a mean over many equal records is as cheap as the mean."""
    records, counted = Records(np.zeros((5_000, 2))), Meter(math.inf)
    records.distinct()
    counted.add(type("Norm", (Alike,), {})(once=once), records)
    assert counted.spent - meter.EVALUATION == 2 * (FEW_KINDS if once else 5_000)

"""A loader that computes something of all rows changes several records by one row of its source."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import mixing
from dpaudit.storage.opened import opened
from tests.support.blind_programs import ROWS
from tests.support.examined import Stepping, mechanism

Make = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = np.random.default_rng(1).integers(0, 9, (40, 5)) * 1.0
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d,e", comments="")
    return path


def read_by_numpy(path: Path) -> Any:
    return np.loadtxt(path, delimiter=",", skiprows=1)


def read_by_pandas(path: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.read_csv(path).to_numpy(float)


def read_by_lines(path: Path) -> Any:
    return np.array([line.split(",") for line in path.read_text().splitlines()[1:]], dtype=float)


def found(load: Callable[[], dp.Records], together: int = 1) -> list[str]:
    with opened() as files:
        data = load()
    return [finding.detail for finding in mixing(load, data, set(files), together)]


def with_lags(rows: Any) -> Any:
    """Each row of a user beside the user's two rows before: a row is in three records."""
    made = []
    for user in np.unique(rows[:, 0]):
        own = rows[rows[:, 0] == user]
        before = np.vstack([np.zeros((2, rows.shape[1])), own])
        made.append(np.hstack([own, before[1:-1], before[:-2]]))
    return np.vstack(made)


def by_user(rows: Any) -> Any:
    """Sums of the rows of one user each: right, since a row is in one sum."""
    users = np.unique(rows[:, 0])
    return np.array([rows[rows[:, 0] == user].sum(axis=0) for user in users])


RIGHT: list[Make] = [
    lambda rows: rows / 9,
    lambda rows: rows[np.random.default_rng(3).permutation(len(rows))],
    lambda rows: rows[np.random.default_rng(3).choice(len(rows), 20, replace=False)],
    lambda rows: rows[np.random.default_rng().choice(len(rows), 20, replace=False)],
    lambda rows: np.unique(rows, axis=0),
    by_user,
]
WRONG: list[Make] = [
    lambda rows: rows / rows.std(axis=0),
    lambda rows: rows - rows.mean(axis=0),
    lambda rows: rows + np.arange(len(rows))[:, None] * rows.sum(),
]


@pytest.mark.parametrize("read", [read_by_numpy, read_by_pandas, read_by_lines])
def test_a_loader_that_standardises_by_its_file_is_found(read: Any, table: Path) -> None:
    before = table.read_bytes()
    assert not found(lambda: dp.Records(read(table)))
    said = found(lambda: dp.Records(WRONG[0](read(table))))
    assert said == [
        "one row of people.csv, changed or left out, changes several records of records()"
    ]
    assert table.read_bytes() == before


@pytest.mark.parametrize("make", RIGHT)
def test_loaders_by_row_or_by_user_are_left_alone(make: Make, table: Path) -> None:
    assert not found(lambda: dp.Records(make(read_by_numpy(table))))


def test_a_row_may_be_in_as_many_records_as_are_protected_together(table: Path) -> None:
    def load() -> dp.Records:
        return dp.Records(with_lags(read_by_numpy(table)))

    assert found(load)
    assert not found(load, 3)
    assert found(lambda: dp.Records(WRONG[0](read_by_numpy(table))), 3)


@pytest.mark.parametrize("make", WRONG)
def test_loaders_that_mix_rows_are_found(make: Make, table: Path) -> None:
    assert found(lambda: dp.Records(make(read_by_numpy(table))))


def test_the_largest_of_the_rows_is_exchanged_too(table: Path) -> None:
    """Only the row with the largest number changes what all are divided by."""
    rows = read_by_numpy(table)
    rows[17, 2] = 1000.0
    np.savetxt(table, rows, delimiter=",", header="a,b,c,d,e", comments="")
    assert found(lambda: dp.Records(read_by_numpy(table) / read_by_numpy(table).max()))


def test_an_array_that_a_loader_holds_is_a_source() -> None:
    assert found(lambda: dp.Records(ROWS / ROWS.std(axis=0)))
    assert not found(lambda: dp.Records(ROWS / 1.5))
    held = np.array(ROWS)
    assert found(lambda: dp.Records(held / held.std(axis=0)))
    assert np.array_equal(held, ROWS)


def test_a_loader_that_writes_or_never_ends_harms_nothing(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, calls = table.with_name("cache.npy"), [0]

    def load() -> dp.Records:
        calls[0] += 1
        rows = read_by_numpy(table)
        with cache.open("wb") as file:
            np.save(file, rows)
        while calls[0] > 1:
            pass
        return dp.Records(rows)

    monkeypatch.setattr("dpaudit.audit.examine.loader.SECONDS", 0.5)
    load()
    kept, calls[0] = cache.read_bytes(), 0
    assert not found(load)
    assert cache.read_bytes() == kept


def test_without_forks_nothing_is_said(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert not found(lambda: dp.Records(WRONG[0](read_by_numpy(table))))


@pytest.mark.quality
def test_certify_says_so_before_it_runs_on_the_data(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def load() -> dp.Records:
        return dp.Records(WRONG[0](read_by_numpy(table)))

    case = replace(mechanism("reads", Stepping()), records=load)
    certificate = dp.certify(case, seed=1, trials=200)
    assert certificate.verdict == "alarm"
    details = [row["detail"] for row in certificate.content["predicate"]["conformance"]]
    assert any("changes several records of records()" in detail for detail in details)
    monkeypatch.setattr("dpaudit.certificate.on_data.mixing", lambda *_: ())
    assert dp.certify(case, seed=1, trials=200).verdict == "certified under assumptions"

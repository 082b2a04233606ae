"""Records of the data that a program holds, in a field, a closure or its module, are found."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import held_by
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.curator.curator import Curator
from dpaudit.kernels.query import Array, Records
from tests.library.cli.bench import DIGESTS
from tests.support.examined import Stepping, mechanism


def table() -> Array:
    """Two columns: where each row stands, a whole number; made anew, for modules are searched."""
    return np.column_stack([np.arange(24.0), np.random.default_rng(0).integers(0, 90, 24)])


class Holding(Stepping):
    """A right program with something in a field."""

    held: Any = None


class Closing(Stepping):
    """A right program that calls what it is given, whatever that has around it."""

    called: Any = None

    def run(self, curator: Curator) -> Array:
        self.called()
        return super().run(curator)


def holding(held: Any) -> Any:
    program = Holding()
    object.__setattr__(program, "held", held)
    return program


def closing(held: Any) -> Any:
    def called() -> Any:
        return held

    program = Closing()
    object.__setattr__(program, "called", called)
    return program


SEES = ("_has_rows", "_has_numbers", "_has_columns")


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """What is held is not looked for in these ways."""
    for name in names:
        monkeypatch.setattr(f"dpaudit.audit.examine.held._Known.{name}", lambda *_: False)


WRONG: dict[str, Callable[[Records], Any]] = {
    "a copy": lambda data: data.values.copy(),
    "a column as a list": lambda data: data.values[:, 1].tolist(),
    "rows as tuples": lambda data: tuple(map(tuple, data.values[4:14])),
    "whole numbers": lambda data: data.values.astype(int),
    "columns in a row in memory": lambda data: np.asfortranarray(data.values),
    "two rows of the same memory": lambda data: data.values[3:5],
}
RIGHT: dict[str, Any] = {
    "two rows, as any might be": table()[3:5].tolist(),
    "numbers of rows": np.arange(24.0),
    "a grid": np.linspace(0, 90, 7),
    "nothing": np.zeros((24, 2)),
    "no numbers": ["a", [1.0, 2.0], {}],
}


@pytest.mark.parametrize("make", [holding, closing])
@pytest.mark.parametrize("kind", WRONG)
def test_records_of_few_columns_are_found(
    kind: str, make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Records(table())
    case = mechanism("case", make(WRONG[kind](data)))
    (finding,) = held_by(case, data)
    assert finding.detail.startswith("the program holds records of the data")
    assert held_by(case, None) == ()
    # What finds all but shared memory:
    without(monkeypatch, *SEES)
    monkeypatch.setattr("dpaudit.audit.examine.held._runs", lambda _: set())
    assert bool(held_by(case, data)) == (kind == "two rows of the same memory")


@pytest.mark.parametrize("kind", RIGHT)
def test_what_any_program_may_hold_is_left_alone(kind: str) -> None:
    assert held_by(mechanism("case", holding(RIGHT[kind])), Records(table())) == ()


def numbers(columns: int = 2) -> Array:
    """Records of an ordinary data set: long numbers, and whole ones."""
    rng = np.random.default_rng(7)
    long = rng.standard_normal((60, max(1, columns - 1)))
    return np.column_stack([long, rng.poisson(9, 60)])[:, :columns]


def shuffled(values: Array) -> Array:
    return np.random.default_rng(8).permutation(values)


CHANGED: dict[str, Callable[[Array], Any]] = {
    "in float32": lambda v: v.astype(np.float32),
    "in float32, as a list": lambda v: v.astype(np.float32).tolist(),
    "shuffled": shuffled,
    "shuffled, in float32": lambda v: shuffled(v).astype(np.float32),
    "a third of the rows, shuffled": lambda v: shuffled(v)[:20],
    "numbers in order": lambda v: np.sort(v.ravel()),
    "a column shuffled": lambda v: shuffled(v[:, 0]),
    "scaled": lambda v: v * 0.37,
    "standardised": lambda v: ((v - v.mean(axis=0)) / v.std(axis=0)).astype(np.float32),
    "a column scaled, beside others": lambda v: np.column_stack([np.arange(60), -3 * v[:, 0]]),
    "columns as rows, scaled": lambda v: 2.5 * v.T,
}


@pytest.mark.first_case
@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("kind", CHANGED)
def test_records_in_another_order_or_other_units_are_found(
    kind: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Records(numbers(columns))
    case = mechanism("case", holding(CHANGED[kind](data.values)))
    found = held_by(case, data)
    assert found
    assert {f.detail.partition(":")[0] for f in found} == {"the program holds records of the data"}
    # Of other data of the same kind nothing is held.
    other = Records(np.random.default_rng(9).standard_normal(data.values.shape))
    assert held_by(case, other) == ()
    # What finds it:
    without(monkeypatch, *SEES)
    assert bool(held_by(case, data)) == (kind in ("in float32", "in float32, as a list"))
    monkeypatch.setattr("dpaudit.audit.examine.held._in_float32", lambda values: values + np.inf)
    if columns == 1:  # whole numbers are the same in float32
        assert held_by(case, data) == ()


def test_whole_numbers_in_another_order_are_found() -> None:
    """By their column in order; a seventh of them, which any program may have, is left alone."""
    data = Records(numbers()[:, 1:])
    assert held_by(mechanism("case", holding(shuffled(data.values))), data)
    assert held_by(mechanism("case", holding(np.sort(data.values[:8, 0]))), data) == ()


COMMON: dict[str, Any] = {
    "a grid of short decimals": np.linspace(0.05, 0.95, 19),
    "numbers from 0 to 59, shuffled": shuffled(np.arange(60.0)),
    "weights, one of them large": np.where(np.arange(60) == 3, 1.0, 0.001 + 1e-9 * np.arange(60)),
    "who is held out": np.arange(60) % 2.0,
}


@pytest.mark.parametrize("kind", COMMON)
def test_what_data_and_many_a_program_have_in_common_is_left_alone(kind: str) -> None:
    """Decimals, places of rows, one far record, and an indicator."""
    far = np.where(np.arange(60) == 3, 1e7, np.random.default_rng(3).standard_normal(60))
    decimals = np.random.default_rng(4).integers(1, 20, 60) / 20
    columns = [decimals, np.arange(60.0), far, np.arange(60) % 2.0]
    data = Records(np.column_stack(columns))
    assert held_by(mechanism("case", holding(COMMON[kind])), data) == ()


class Unexamined(Holding):
    """Refuses all records that are made up."""

    def run(self, curator: Curator) -> Array:
        raise ValueError


LOSSES = """
import numpy as np
from dpaudit import Records

SUITES = [Records(np.ones((3, 2)))]

def loss(values):
    return 0.0

def loss_of_suites(values):
    return float(len(SUITES))
"""


def test_records_beside_a_function_count_where_it_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "losses_of_suites.py").write_text(LOSSES)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("losses_of_suites")
    assert held_by(mechanism("right", holding(module.loss)), None) == ()
    (finding,) = held_by(mechanism("wrong", holding(module.loss_of_suites)), None)
    assert finding.detail == "the program holds Records: losses_of_suites.SUITES[0]"


def test_a_program_that_was_not_examined_holds_no_records_either() -> None:
    program = Unexamined()
    object.__setattr__(program, "held", table())
    case = replace(mechanism("holds", program), records=lambda: Records(table()))
    assert dp.certify(case, seed=1, trials=200).verdict == "unconfirmed"
    # Asked to run all the same, it is stopped before it sees the data.
    order = Order(case, None, "project", DIGESTS)
    (found,) = certify([order], Options(seed=1, trials=200, run_unproved=True))
    predicate = found.certificate["predicate"]
    assert predicate["verdict"]["status"] == "alarm"
    assert predicate["run"] is None


@pytest.mark.quality
def test_what_records_leaves_in_a_program_stops_it_before_the_run() -> None:
    program = holding(None)

    def records() -> Records:
        object.__setattr__(program, "held", table()[:, 1].tolist())
        return Records(table()[:, [1, 0, 1, 1]])

    case = replace(mechanism("holds", program), records=records)
    certificate = dp.certify(case, seed=1, trials=200)
    assert certificate.verdict == "alarm"
    assert certificate.content["predicate"]["run"] is None

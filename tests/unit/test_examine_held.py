"""Records of the data that a program holds, in a field, a closure or its module, are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import held_by
from dpaudit.curator.curator import Curator
from dpaudit.kernels.query import Array, Records
from tests.examined_for_tests import Stepping, mechanism


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
    monkeypatch.setattr("dpaudit.audit.examine.examination._runs", lambda _: set())
    assert bool(held_by(case, data)) == (kind == "two rows of the same memory")


@pytest.mark.parametrize("kind", RIGHT)
def test_what_any_program_may_hold_is_left_alone(kind: str) -> None:
    assert held_by(mechanism("case", holding(RIGHT[kind])), Records(table())) == ()


def test_what_records_leaves_in_a_program_stops_it_before_the_run() -> None:
    program = holding(None)

    def records() -> Records:
        object.__setattr__(program, "held", table()[:, 1].tolist())
        return Records(table()[:, [1, 0, 1, 1]])

    case = replace(mechanism("holds", program), records=records)
    certificate = dp.certify(case, seed=1, trials=200)
    assert certificate.verdict == "alarm"
    assert certificate.content["predicate"]["run"] is None

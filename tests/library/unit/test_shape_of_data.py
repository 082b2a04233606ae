"""A program is examined in the shape of its data, where a guessed shape shows something broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import Examination, Shape, examine
from dpaudit.audit.residuals import Finding
from dpaudit.certificate import certify as certifying
from dpaudit.certificate import on_data, replay
from dpaudit.certificate.certify import certify
from dpaudit.certificate.on_data import without_guessed_shape
from dpaudit.certificate.order import Options, Order
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array


class Shares:
    """The sum of all numbers, each cut to [0, 1]: right for rows of one number alone."""

    def declaration(self, scope: object) -> object:
        return dp.Laplace("sum", noise_multiplier=1)

    def run(self, curator: dp.Curator) -> object:
        total = dp.Statistic(lambda rows: np.clip(rows, 0, 1).sum(), 1, "l1")
        return curator.release("sum", total)


def _order(program: Any, scope: dp.Scope, records: Any) -> Order:
    mechanism = Mechanism(
        "shares",
        "Shares",
        "a test",
        program,
        scope,
        (dp.Claim(dp.PureDP(1), by="its author"),),
        records=records,
    )
    return Order(mechanism, None, "project", {})


def _numbers(columns: int) -> dp.Records:
    return dp.Records(np.random.default_rng(0).random((60, columns)))


@pytest.mark.parametrize(
    ("adjacency", "rows"), [("add_remove", 40), ("replace_one", 60)], ids=["private", "public"]
)
def test_the_number_of_rows_is_the_datas_where_neighbours_share_it(
    adjacency: str, rows: int
) -> None:
    guessed = Examination(
        findings=(Finding("records", "broken", 1.0, 0.0, "moved", "laplace", 1),),
        shape=Shape(40, (5,)),
    )
    mechanism = _order(Shares(), dp.central(adjacency), lambda: _numbers(1)).mechanism
    with mock.patch.object(on_data, "examine") as asked:
        again = without_guessed_shape(mechanism, guessed, 1)
        assert without_guessed_shape(mechanism, replace(guessed, findings=()), 1).shape
    assert again is asked.return_value
    assert [call.kwargs["shape"] for call in asked.call_args_list] == [Shape(rows, (1,))]


def test_the_datas_columns_are_tried_where_no_others_fit() -> None:
    """How many records the data have stays private."""
    unfit = Examination(not_examined="no shape fits")
    mechanism = _order(Shares(), dp.central("add_remove"), lambda: _numbers(4)).mechanism
    with mock.patch.object(on_data, "examine") as asked:
        assert without_guessed_shape(mechanism, unfit, 1) is asked.return_value
        assert without_guessed_shape(mechanism, replace(unfit, stopped=True), 1).stopped
    assert [call.kwargs["shape"] for call in asked.call_args_list] == [Shape(40, (4,))]


SCALES: dict[str, float] = {}


class Kept:
    """Divides by the largest number of the first data that its module met."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Laplace("shares", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("shares", dp.Statistic(share_of_largest, 1, "l1"))


def share_of_largest(rows: Array) -> float:
    largest = SCALES.setdefault("largest", float(np.max(np.abs(rows), initial=0.0)) or 1.0)
    return float(np.clip(rows[:, 0] / largest, 0, 1).sum())


@pytest.mark.quality
@pytest.mark.long("two examinations, up to the last stages")
def test_an_examination_leaves_what_modules_hold_as_it_was() -> None:
    """So the next one finds again what depends on the first data that a module meets."""
    mechanism = _order(Kept(), dp.central("add_remove"), lambda: _numbers(3)).mechanism
    for seed in (1, 2):
        examination = examine(mechanism, seed=seed, shape=Shape(40, (3,)), seconds=1000)
        assert any("SCALES" in finding.detail for finding in examination.broken)
        assert not SCALES


@pytest.mark.quality
@pytest.mark.parametrize("columns", [1, 5])
def test_the_datas_columns_decide_whether_a_program_is_broken(columns: int) -> None:
    order = _order(Shares(), dp.central("add_remove"), lambda: _numbers(columns))
    (certified,) = certify([order], Options(seed=1))
    examination = certified.certificate["predicate"]["examination"]
    assert examination["records"][1:] == [columns]
    assert str(certified.verdict) == ("certified_under_assumptions" if columns == 1 else "alarm")


@pytest.mark.quality
def test_without_the_second_examination_the_right_program_gets_an_alarm() -> None:
    order = _order(Shares(), dp.central("add_remove"), lambda: _numbers(1))
    unchanged = mock.patch.object(
        certifying, "without_guessed_shape", lambda mechanism, examination, seed: examination
    )
    with unchanged:
        (certified,) = certify([order], Options(seed=1))
    assert str(certified.verdict) == "alarm"


def test_data_that_do_not_load_leave_the_finding() -> None:
    def broken() -> dp.Records:
        raise OSError("no such file")

    order = _order(Shares(), dp.central("add_remove"), broken)
    (certified,) = certify([order], Options(seed=1))
    assert str(certified.verdict) == "alarm"


@pytest.mark.quality
def test_a_replay_takes_the_shape_from_the_certificate() -> None:
    """A replay touches no data, and finds nothing else."""
    order = _order(Shares(), dp.central("add_remove"), lambda: _numbers(1))
    (certified,) = certify([order], Options(seed=1, trials=200))
    command = replay.Command(("shares",), 1, 200)
    assert replay.differences(certified.certificate, [order], command) == []

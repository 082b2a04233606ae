"""Every baseline of paper 3 in one figure: the methods run, the grid is read, learning is asked."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.srgd import one_pass, problem
from lab.learning import Learnt, learning_checks, learning_table
from lab.model import Cell, Result, Results, Size, Status, judge
from lab.running import distinct


def test_the_least_risk_is_least_in_the_ball() -> None:
    rng = np.random.default_rng(3)
    for place in one_pass.STRENGTHS:
        found = one_pass.least(place)
        for _ in range(5):
            w = rng.normal(size=problem.FEATURES)
            w *= problem.RADIUS / np.linalg.norm(w) * rng.random()
            assert one_pass.risk(w, place) > found
    # On the boundary it is the constraint that stops: without it, less is reached.
    outside = one_pass._direction() * one_pass.STRENGTHS[one_pass.BOUNDARY]
    assert one_pass.risk(outside, one_pass.BOUNDARY) < one_pass.least(one_pass.BOUNDARY)


@pytest.mark.parametrize("method", [*one_pass.STEPPED, *one_pass.OTHERS])
def test_every_method_runs_at_its_guarantee(method: str) -> None:
    cell = Cell.of(method=method, n=256, steps=8, place="inside", scale=0.25, seeds=1)
    values = one_pass.run(cell, np.random.default_rng(1))
    assert len(values["excess"]) == 1  # type: ignore[arg-type]
    made = one_pass._programs()[method](256, 8, 1.0)
    from dpaudit.accountant.account import Account

    account = Account(made.declaration(problem.SCOPE), problem.SCOPE)
    assert 0.9 < account.epsilon(problem.DELTA).upper <= 1.0001


def test_grids_are_distinct_and_hold_every_method() -> None:
    for size in Size:
        cells = distinct(one_pass.cells(size))
        assert {c.text("method") for c in cells} == {*one_pass.STEPPED, *one_pass.OTHERS}


def made(ratio: float) -> Results:
    """Results: the accelerated method is ``ratio`` times DP-SGD at 512 steps, and ahead at 8."""
    rows = []
    for cell in one_pass.cells(Size.FULL):
        value = 0.001 * (ratio if cell.text("method") == one_pass.TREE else 1.0)
        if cell.count("steps") == 8:
            value = 0.02 if cell.text("method") == one_pass.TREE else 0.03
        value *= 1 + abs(np.log(cell.number("scale")))
        rows.append(Result(cell, {"excess": [value, value * 1.01], "start": 0.026}))
    return Results(tuple(rows))


def test_the_turn_and_the_ratio_are_read_off_the_grid() -> None:
    findings = one_pass.read(made(2.5))
    assert judge(findings.checks) is Status.HELD
    turns = next(t for t in findings.tables if t.title.startswith("Where"))
    assert all(row[2:] == ("8", "32, 128, 512") for row in turns.rows)
    assert judge(one_pass.read(made(1.0)).checks) is Status.MISSED


def test_acceleration_is_asked_of_the_method_without_it() -> None:
    results = made(2.5)
    found = one_pass.read(results).checks
    own = [check for check in found if check.name.startswith("acceleration in 8 steps")]
    assert len(own) == 4
    assert all(check.status is Status.HELD for check in own)
    slower = [
        Result(r.cell, {"excess": [0.05, 0.051], "start": 0.06})
        if (r.cell.text("method"), r.cell.count("steps")) == (one_pass.TREE, 8)
        else r
        for r in results
    ]
    own = [c for c in one_pass.read(Results(tuple(slower))).checks if "in 8 steps" in c.name]
    assert {check.status for check in own} == {Status.MISSED}


def test_a_method_that_ends_above_its_start_fails() -> None:
    rows = [Learnt("good", 0.2, 0.5), Learnt("bad", 0.6, 0.5, 0.01)]
    assert [c.status for c in learning_checks(rows)] == [Status.HELD, Status.MISSED]
    assert [row[3] for row in learning_table(rows, "risk").rows] == [0.4, 1.2]

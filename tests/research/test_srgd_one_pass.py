"""Every baseline of paper 3 in one figure: the methods run, the grid is read, learning is asked."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import Cell, Result, Results, Size, Status, judge
from experiments.lab.running import distinct
from experiments.srgd import one_pass, problem


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


OWN = {one_pass.PHASED: 4000.0, one_pass.ONLINE: 4096.0, one_pass.ERM: 700.0}  # batch steps


def made(ratio: float, baselines: float = 0.01) -> Results:
    """Results: the accelerated method is ``ratio`` times DP-SGD at 512 steps, and ahead at 8.

    ``baselines``: the least risk of every other baseline.
    """
    rows = []
    for cell in one_pass.cells(Size.FULL):
        method = cell.text("method")
        value = 0.001 * (ratio if method == one_pass.TREE else 1.0)
        if cell.count("steps") == 8:
            value = 0.02 if method == one_pass.TREE else 0.03
        if method in one_pass.OTHERS:
            value = baselines * (3 if cell.count("steps") == 8 else 1)
        value *= 1 + abs(np.log(cell.number("scale")))
        steps = OWN.get(method, cell.number("steps"))
        excess = [value, value * 1.01]
        rows.append(Result(cell, {"excess": excess, "start": 0.026, "batch_steps": steps}))
    return Results(tuple(rows))


def statuses(results: Results, begins: str) -> set[Status]:
    found = [c.status for c in one_pass.read(results).checks if c.name.startswith(begins)]
    assert found
    return set(found)


def test_the_turn_and_the_ratio_are_read_off_the_grid() -> None:
    findings = one_pass.read(made(0.9))
    assert judge(findings.checks) is Status.HELD
    turns = next(t for t in findings.tables if t.title.startswith("Where"))
    assert all(row[2:] == ("8, 32, 128, 512", "none") for row in turns.rows)
    turns = next(t for t in one_pass.read(made(2.5)).tables if t.title.startswith("Where"))
    assert all(row[2:] == ("8", "32, 128, 512") for row in turns.rows)
    for place in one_pass.STRENGTHS:
        assert statuses(made(2.5), f"minimiser {place}, n") == {Status.MISSED}
        assert statuses(made(0.9), f"minimiser {place}, n") == {Status.HELD}


@pytest.mark.parametrize("name", one_pass.CITED)
def test_a_baselines_risk_is_asked_for_in_no_more_steps_than_it_takes(name: str) -> None:
    begins = f"{name}, n"
    assert statuses(made(0.9), begins) == {Status.HELD}
    # A baseline whose risk the accelerated method reaches at no number of steps ...
    assert statuses(made(0.9, baselines=1e-4), begins) == {Status.MISSED}
    # ... or only in more steps than it takes itself.
    quick = [
        Result(r.cell, {**r.values, "batch_steps": 8.0})
        if r.cell.text("method") == one_pass.CITED[name]
        else r
        for r in made(0.9)
    ]
    assert statuses(Results(tuple(quick)), begins) == {Status.MISSED}


def test_steps_to_a_risk_are_the_fewest_or_none() -> None:
    results = made(0.9)
    for target, steps in ((0.05, 8), (0.01, 32), (1e-5, np.inf)):
        assert one_pass.first_steps(results, one_pass.TREE, 2**14, target) == steps
    table = one_pass.read(made(0.9, baselines=1e-4)).tables[0]
    assert {row[4] for row in table.rows} == {"not reached"}


def test_every_method_stands_at_the_steps_that_it_takes() -> None:
    panels = {p.title: p for p in one_pass.read(made(0.9)).panels}
    drawn = {s.label: s for s in panels["n = 16384, minimiser inside"].series}
    assert drawn[one_pass.FTRL].x == drawn[one_pass.BATCHED].x == (8, 32, 128, 512)
    assert drawn[f"{one_pass.PHASED}, single points"].x == (4000,)
    assert drawn[f"{one_pass.ERM}, single points"].x == (700,) * 3
    methods = one_pass._programs()
    assert one_pass.taken(methods[one_pass.TREE](256, 8, 1.0)) == 8
    assert one_pass.taken(methods[one_pass.PHASED](256, 0, 1.0)) == 255
    assert one_pass.taken(methods[one_pass.ONLINE](256, 0, 1.0)) == 256


def test_acceleration_is_asked_of_the_method_without_it() -> None:
    results = made(0.9)
    found = one_pass.read(results).checks
    own = [check for check in found if check.name.startswith("acceleration in 8 steps")]
    assert len(own) == 4
    assert all(check.status is Status.HELD for check in own)
    slower = [
        Result(r.cell, {**r.values, "excess": [0.05, 0.051]})
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

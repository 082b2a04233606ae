"""Every baseline of paper 3 in one figure, and where its method turns: run, read, and refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from experiments.lab.found import load
from experiments.lab.model import Cell, Check, Result, Results, Size, Status
from experiments.lab.papers import Read, load_papers, read_file, read_together
from experiments.lab.running import distinct
from experiments.srgd import every, localized, one_pass, problem, turn
from experiments.srgd.one_pass import BOUNDARY, INSIDE, SCALES, SGD, TREE
from mechanisms.papers.srgd.localized import LocalizedAcceleratedDPSGD
from mechanisms.papers.srgd.phases import halves


@pytest.mark.parametrize("n", localized.SIZES[Size.FULL])
def test_glzw24_spends_the_budget_of_the_others(n: int) -> None:
    made = localized.program(n, 1.0, 1.0)
    account = Account(made.declaration(problem.SCOPE), problem.SCOPE)
    assert 0.999 < account.epsilon(problem.DELTA).upper <= 1


def test_glzw24_grows_as_table_1_cites_it() -> None:
    """n^(1/4) rounds a phase, n^(1/4) n^(7/8) gradients, but for records left over and rounding."""
    for n in (2**8, 2**12, 2**16):
        assert localized.rounds(n) == round(n**0.25)
        made = LocalizedAcceleratedDPSGD(
            localized._problem(n), 3, localized.rounds(n), localized.share(n), 1.0, 0.25, 4
        )
        read = sum(halves(n, 3)[:3])
        expected = n**0.25 * n**0.875 * read / n
        assert made.work.gradients == pytest.approx(expected, rel=0.02)
        assert made.work.batch_steps == 3 * localized.rounds(n)
    # As many settings as the accelerated method has: step sizes, and ridges for numbers of steps.
    grid = localized.cells(Size.FULL)
    of_tree = [c for c in one_pass.cells(Size.FULL) if c.text("method") == TREE]
    for n in localized.SIZES[Size.FULL]:
        own = [c for c in of_tree if c.count("n") == n and c.text("place") == INSIDE]
        assert len(own) == sum(c.count("n") == n for c in grid) == 20
        assert {c.number("scale") for c in own} == {c.number("scale") for c in grid}
        assert {c.count("seeds") for c in own} == {c.count("seeds") for c in grid}


def test_the_cells_of_both_experiments_run() -> None:
    cell = Cell.of(method=localized.NAME, n=256, place=INSIDE, scale=1.0, ridge=1.0, seeds=2)
    values = localized.run(cell, np.random.default_rng(1))
    assert np.shape(values["excess"]) == (2,)
    for size in Size:
        distinct(localized.cells(size))
        distinct(turn.cells(size))
    cell = Cell.of(n=256, place=BOUNDARY, seed=0, most=32)
    found = Results((Result(cell, turn.run(cell, np.random.default_rng(1))),))
    for method in turn.METHODS:
        assert turn.excesses(found, method).shape == (1, 2, len(SCALES))


def runs(tree: float = 0.9) -> Results:
    """``srgd_one_pass``: every mean is .01, the accelerated tree's ``tree`` times that."""
    rows = []
    for cell in one_pass.cells(Size.FULL):
        value = 0.01 * (tree if cell.text("method") == TREE else 1.0)
        steps = cell.count("steps") or 500
        excess = [value, value * 1.01]
        rows.append(Result(cell, {"excess": excess, "start": 0.026, "batch_steps": steps}))
    return Results(tuple(rows))


def of_glzw24(value: float, steps: float = 96.0) -> Results:
    rows = [
        Result(
            cell,
            {"excess": [value, value * 1.01], "start": 0.026, "batch_steps": steps, "gradients": 9},
        )
        for cell in localized.cells(Size.FULL)
    ]
    return Results(tuple(rows))


def of_turn(tree: dict[int, float]) -> Results:
    """By records: the accelerated tree's excess over one-pass DP-SGD's, exactly, in every seed."""
    rows = []
    for cell in turn.cells(Size.FULL):
        over = tree[cell.count("n")]
        value = 0.01 * (1 + cell.count("seed"))
        settings = len(one_pass.STEPS) * len(SCALES)
        values = {m: [value * (over if m == TREE else 1.0)] * settings for m in turn.METHODS}
        rows.append(Result(cell, {**values, "start": 0.26}))
    return Results(tuple(rows))


SIZES = (2**10, 2**12, 2**16, 2**18, 2**20)
AHEAD = dict.fromkeys(SIZES, 0.5)


def findings(
    tree: float = 0.9, glzw24: float = 0.01, turned: dict[int, float] | None = None
) -> tuple[list[Check], tuple[str, ...]]:
    read = every.read(
        {
            "srgd_one_pass": runs(tree),
            "srgd_localized": of_glzw24(glzw24),
            "srgd_turn": of_turn(turned or AHEAD),
        }
    )
    return list(read.checks), read.notes


def statuses(checks: list[Check], begins: str) -> list[Status]:
    return [check.status for check in checks if check.name.startswith(begins)]


def test_glzw24_is_raced_and_can_be_ahead() -> None:
    assert statuses(findings()[0], "GLZW24, n") == [Status.HELD] * 2
    assert statuses(findings(glzw24=0.001)[0], "GLZW24, n") == [Status.MISSED] * 2
    # It takes eight steps: the accelerated method at more of them does not count.
    slow = Results(
        tuple(
            Result(r.cell, {**r.values, "excess": [0.5, 0.51]})
            if (r.cell.text("method"), r.cell.count("steps")) == (TREE, 8)
            else r
            for r in runs()
        )
    )
    of = {"srgd_one_pass": slow, "srgd_turn": of_turn(AHEAD)}
    for steps, expected in ((8.0, Status.MISSED), (32.0, Status.HELD)):
        read = every.read({**of, "srgd_localized": of_glzw24(0.01, steps)})
        assert statuses(list(read.checks), "GLZW24, n") == [expected] * 2


def test_the_figure_has_every_baseline_of_table_1() -> None:
    read = every.read(
        {
            "srgd_one_pass": runs(),
            "srgd_localized": of_glzw24(0.01),
            "srgd_turn": of_turn(AHEAD),
        }
    )
    for panel in read.panels[:2]:
        drawn = " ".join(series.label for series in panel.series)
        assert all(name in drawn for name in ("FKT20", "ZTOH22", "ZTC22", "GLZW24", SGD, TREE))
    raced = {row[0] for row in read.tables[0].rows}
    assert raced == {*one_pass.CITED, every.CITED}


def test_where_it_turns_is_said_of_the_ratios() -> None:
    checks, notes = findings()
    assert statuses(checks, "turn, minimiser") == [Status.HELD] * 2
    assert all("surely behind one-pass DP-SGD at none" in note for note in notes[:2])
    behind = dict.fromkeys(SIZES, 2.0)
    checks, notes = findings(tree=2.0, turned=behind)
    assert statuses(checks, "turn, minimiser") == [Status.MISSED] * 2
    assert "it does not turn up to n = 1048576" in notes[0]
    assert "it does not turn up to n = 65536" in notes[1]
    open_yet = every.turns(INSIDE, {2**10: (2.0, 0.5), 2**12: (0.9, 0.2)})
    assert "at 1024: whether it has turned by n = 4096 is open (0.9 +- 0.2); their" in open_yet
    # Behind at the fewest records, ahead at the most: a power law through passes 1 between them.
    turned = {2**10: 4.0, 2**12: 2.0, 2**16: 0.5, 2**18: 0.5, 2**20: 0.25}
    checks, notes = findings(tree=2.0, turned=turned)
    assert statuses(checks, "turn, minimiser") == [Status.HELD] * 2
    assert "surely behind one-pass DP-SGD at 4096, 16384, 65536, surely ahead at" in notes[0]
    assert "surely behind one-pass DP-SGD at 1024, 4096, 16384, surely ahead at 65536" in notes[1]


def test_a_power_law_is_said_only_where_its_slope_has_a_sure_sign() -> None:
    exact = {2**k: (2.0 ** (14 - k), 0.0) for k in (12, 14, 16)}
    assert "n^-1.00 +- 0.00, and a power law would pass 1 at 2^14.0" in every._law(exact)
    wide = {n: (value, 4 * value) for n, (value, _) in exact.items()}
    assert "no sure sign" in every._law(wide)


def test_the_end_of_a_grid_is_named() -> None:
    """At equal means the first setting is taken, which is no end; the largest step size is one."""
    assert every._at_the_end(of_turn(AHEAD), INSIDE) == ""
    rows = [
        Result(r.cell, {**r.values, SGD: [*[0.02] * 19, 0.001]})
        if r.cell.count("n") == 2**20 else r
        for r in of_turn(AHEAD)
    ]  # fmt: skip
    said = every._at_the_end(Results(tuple(rows)), INSIDE)
    assert "n = 1048576: one-pass DP-SGD is best at the most steps, 512 and the largest" in said


def test_pairs_have_the_error_of_their_differences() -> None:
    """Excess in equal proportion in every seed: the ratio is exact, however far seeds spread."""
    own = of_turn(dict.fromkeys(SIZES, 1.5)).where(n=2**18, place=INSIDE)
    value, margin = turn.ratio(own)
    assert value == pytest.approx(1.5)
    assert margin == pytest.approx(0, abs=1e-12)
    unpaired = [
        Result(r.cell, {**r.values, TREE: [0.01 * (10 - r.cell.count("seed")) * 1.5] * 20})
        for r in own
    ]
    assert turn.ratio(Results(tuple(unpaired)))[1] > 0.3


def test_together_is_not_run_where_one_of_its_results_is_missing(checkout: Path) -> None:
    papers = [load_papers(checkout)["srgd"]]
    found = load(checkout)
    folder = checkout / "experiments" / "results"
    reads = {name: read_file(found[name], folder) for name in every.EVERY.of}
    there = read_together(papers, reads)[every.EVERY.name]
    assert there.findings is not None
    assert there.of == every.EVERY.of
    gone = {**reads, "srgd_turn": Read("srgd_turn", why="no result")}
    missing = read_together(papers, gone)[every.EVERY.name]
    assert missing.findings is None
    assert missing.why == "srgd_turn: no result"


def test_the_committed_page_says_what_was_found(checkout: Path) -> None:
    """Both sentences are of the committed results, and the grid's ends are named."""
    found = load(checkout)
    folder = checkout / "experiments" / "results"
    results = {}
    for name in every.EVERY.of:
        read = read_file(found[name], folder)
        assert read.results is not None
        results[name] = read.results
    page = (folder / f"{every.EVERY.name}.md").read_text("utf-8")
    notes = every.read(results).notes
    assert all(f"- {note}" in page for note in notes)
    assert sum("surely ahead" in note for note in notes) == 2
    assert not math.isnan(every.read(results).checks[0].value)

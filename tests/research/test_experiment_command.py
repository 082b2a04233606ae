"""`python -m experiments run`: listing, exit codes, files, resuming after a kill, processes."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.library.cli.conftest import Invoke, call, spawn

MODULE = """
import time
from experiments.lab.model import *

def cells(size):
    return [Cell.of(n=n, v=VALUE) for n in range(2 if size is Size.QUICK else 4)]

def run(cell, rng):
    with open("ran.txt", "a") as file:
        file.write("cell\\n")
    time.sleep(WAIT)
    return {"v": cell.number("v"), "drawn": rng.random()}

def read(results):
    mean = sum(r.number("v") for r in results) / len(results.rows)
    x = tuple(r.cell.number("n") for r in results)
    y = tuple(r.number("drawn") for r in results)
    panel = Panel("Drawn", "n", "y", (Series("y", x, y),), "linear")
    table = Table("Drawn", ("n", "y"), tuple(zip(x, y)))
    return Findings((table,), (Check("value", mean, 0.0, 1.0, margin=0.5),), (panel,))
"""
EXPERIMENT = '{0} = Experiment("{0}", "Title of {0}", "nobody", {1}, {2}, read, alone=("",))\n'


@pytest.fixture
def experiments(laboratory: Path) -> Path:
    """One experiment for each verdict, and a slow one."""
    folder = laboratory / "experiments"
    for name, value, wait in (
        ("held", 0.5, 0.0), ("missed", 2.0, 0.0), ("unclear", 1.2, 0.0), ("slow", 0.5, 0.4)
    ):  # fmt: skip
        text = MODULE.replace("VALUE", str(value)).replace("WAIT", str(wait))
        (folder / f"{name}.py").write_text(text + EXPERIMENT.format(name, "cells", "run"))
    return laboratory


def test_without_a_name_they_are_listed(lab: Invoke, experiments: Path) -> None:
    rows = json.loads(lab("run", "--json").stdout)
    assert [row["name"] for row in rows] == ["held", "missed", "slow", "unclear"]
    assert rows[0] == {"name": "held", "title": "Title of held", "source": "nobody"}
    assert "held     Title of held (nobody)" in lab("run").stdout


def test_a_project_without_experiments(lab: Invoke, project: Path) -> None:
    result = lab("run")
    assert result.stdout == ""
    assert "no experiments" in result.stderr
    assert "no experiment 'held'" in lab("run", "held", code=2).stderr


@pytest.mark.parametrize(("name", "code"), [("held", 0), ("missed", 1), ("unclear", 3)])
def test_the_exit_code_is_the_verdict(name: str, code: int, lab: Invoke, experiments: Path) -> None:
    result = lab("run", name, "--quick", "--out", "out", "--json", code=code)
    (made,) = json.loads(result.stdout)
    assert made["verdict"] == {0: "held", 1: "missed", 3: "inconclusive"}[code]
    assert made["size"] == "quick"
    assert len(made["cells"]) == 2
    assert made["files"] == [f"out/{name}.{suffix}" for suffix in ("json", "md", "svg")]
    assert f"{name}: 2 of 2 cells" in result.stderr
    assert sorted(p.name for p in Path("out").iterdir()) == sorted(
        [*(f"{name}.{suffix}" for suffix in ("json", "md", "svg")), "seconds.csv"]
    )


def test_several_names_give_the_worst_verdict(lab: Invoke, experiments: Path) -> None:
    result = lab("run", "unclear", "missed", "held", "--quick", code=1)
    assert "value" in result.stdout
    assert result.stdout.count("Checks") == 3
    assert Path("reports/experiments/held.md").exists()


def test_all_of_them_and_names_do_not_go_together(lab: Invoke, experiments: Path) -> None:
    assert "leave out the names" in lab("run", "held", "--all", code=2).stderr
    assert not Path("ran.txt").exists()


def test_all_keeps_what_is_there_of_these_sources_and_says_what_is_left(
    lab: Invoke, experiments: Path
) -> None:
    for name in ("missed", "slow", "unclear"):
        (experiments / "experiments" / f"{name}.py").unlink()
    before = lab("time", "--out", "out").stdout
    assert "not timed" in before
    result = lab("run", "--all", "--out", "out")
    assert result.stderr.splitlines()[-1].split() == ["all", "4", "4", "0", "0", "4", "0"]
    assert len(Path("ran.txt").read_text().split()) == 4
    lab("run", "--all", "--out", "out")
    assert len(Path("ran.txt").read_text().split()) == 4
    lab("run", "--all", "--out", "out", "--seed", "2")
    assert len(Path("ran.txt").read_text().split()) == 8
    lab("run", "--all", "--anew", "--out", "out", "--seed", "2")
    assert len(Path("ran.txt").read_text().split()) == 12
    path = experiments / "experiments" / "held.py"
    path.write_text(path.read_text() + "\n")
    # A process runs one source of a module alone, so the changed one is of another process.
    call("run", "--all", "--out", "out", "--seed", "2", cwd=experiments, module="experiments")
    assert len(Path("ran.txt").read_text().split()) == 16
    times = call("time", "--out", "out", "--seed", "2", cwd=experiments, module="experiments")
    page = times.stdout.splitlines()
    assert page[-1].split() == ["all", "4", "4", "0", "0", "4", "0"]


def test_one_that_cannot_run_leaves_the_others(lab: Invoke, experiments: Path) -> None:
    for name in ("missed", "slow", "unclear"):
        (experiments / "experiments" / f"{name}.py").unlink()
    text = (experiments / "experiments" / "held.py").read_text()
    text = text.replace("rng.random()}", '"no number"}').replace("held", "broken")
    (experiments / "experiments" / "broken.py").write_text(text)
    result = lab("run", "--all", "--quick", "--json", code=2)
    assert [made["experiment"] for made in json.loads(result.stdout)] == ["held"]
    page = Path("reports/experiments/README.md").read_text()
    assert "| [held](held.md) | Title of held | 1 of 1 |  | held |" in page
    assert "broken" not in page
    assert "dpaudit: broken: broken: n=0 v=0.5: drawn: expected a number" in result.stderr


def test_equal_orders_give_equal_files(lab: Invoke, experiments: Path) -> None:
    for folder in ("a", "b"):
        lab("run", "held", "--quick", "--out", folder)
    lab("run", "held", "--quick", "--out", "c", "--seed", 2)
    first, again, other = ((Path(f) / "held.json").read_bytes() for f in "abc")
    assert first == again != other


@pytest.mark.parametrize(
    "arguments", [("--seed", "-1"), ("--seed", 2**128), ("--jobs", 0), ("--size", "huge")]
)
def test_bad_options_are_refused(
    arguments: tuple[object, ...], lab: Invoke, experiments: Path
) -> None:
    lab("run", "held", *arguments, code=2)
    assert not Path("ran.txt").exists()


def test_a_folder_that_cannot_be_written_is_refused_first(lab: Invoke, experiments: Path) -> None:
    Path("taken").write_text("")
    result = lab("run", "held", "--out", "taken/in", code=2)
    assert "taken" in result.stderr
    assert not Path("ran.txt").exists()


def test_an_unknown_name_is_refused_before_any_runs(lab: Invoke, experiments: Path) -> None:
    assert "did you mean held" in lab("run", "held", "helt", code=2).stderr
    assert not Path("ran.txt").exists()


def test_a_killed_run_resumes(experiments: Path) -> None:
    child = spawn("run", "slow", "--out", "out", cwd=experiments, module="experiments")
    ran = experiments / "ran.txt"
    for _ in range(300):
        if list((experiments / "out" / ".experiments").glob("*/*.json")):
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    before = len(ran.read_text().split())
    kept = len(list((experiments / "out" / ".experiments").glob("*/*.json")))
    assert 1 <= kept < 4
    resumed = call("run", "slow", "--out", "out", cwd=experiments, module="experiments")
    assert f"slow: {kept} of 4 cells" in resumed.stderr
    assert len(ran.read_text().split()) == before + 4 - kept
    assert not (experiments / "out" / ".experiments").exists()


@pytest.mark.quality
def test_processes_change_nothing_but_the_time(experiments: Path) -> None:
    for jobs, folder in ((1, "one"), (2, "two")):
        call("run", "held", "--jobs", jobs, "--out", folder, cwd=experiments, module="experiments")
    one, two = ((experiments / f / "held.json").read_bytes() for f in ("one", "two"))
    assert one == two

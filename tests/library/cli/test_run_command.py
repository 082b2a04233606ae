"""`dpaudit run`: a user's data once, its output saved; refusals, and what a ledger remembers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.library.cli.conftest import Invoke


def data(folder: Path) -> Path:
    path = folder / "rows.csv"
    path.write_text("label,a\n" + "".join(f"{i % 2},{i / 10}\n" for i in range(8)))
    return path


def test_a_mechanism_is_run_once_on_data_and_its_ledger_knows(
    dpaudit: Invoke, project: Path
) -> None:
    ledger = ("--set", "ledger=ledger.sqlite")
    dpaudit("ledger", "init", "rows", "--set", "entity=row", "unit=record",
            "adjacency=replace_one", "ledger=ledger.sqlite", "--budget", "mu=0.6")  # fmt: skip
    given = ("run", "held", "--data", data(project), "--set", "label_column=label", "--trials", 200)
    charged = ("--set", "ledger=ledger.sqlite", "dataset=rows", "entity=row")
    made = json.loads(dpaudit(*given, "--out", "out/model.npz", *charged, "--json").stdout)
    assert [Path(name).name for name in made["files"]] == ["model.npz", "model.json", "model.html"]
    assert made["warnings"] == []
    with np.load(project / "out" / "model.npz") as arrays:
        assert arrays["output"].shape == (1, 2)
    (row,) = json.loads(dpaudit("ledger", "show", *ledger, "--json").stdout)
    assert (row["charges"], row["unfinished"], row["head"]) == (1, [], made["head"])
    said = dpaudit(*given, "--out", "out/model.npz", code=2).stderr
    assert "an earlier run wrote it" in said
    assert "does not fit" in dpaudit(*given, "--out", "out/two.npz", *charged, code=2).stderr
    assert sorted(path.name for path in (project / "out").iterdir()) == [
        "model.html",
        "model.json",
        "model.npz",
    ]


@pytest.mark.quality
def test_noise_above_signal_and_ball_is_said_on_standard_error_and_in_json(
    dpaudit: Invoke, project: Path
) -> None:
    """A step of 10,000 leaves the ball of radius 2 at once."""
    (project / "rows.csv").write_text(
        "label,a,b\n" + "".join(f"{i % 2},{i / 10},1\n" for i in range(8))
    )
    of_catalogue = ("run", "catalogue:dp_gd_projected", "--data", "rows.csv", "--out", "m.npz")
    words = ("label_column=label", "epsilon=0.01", "rounds=1", "step_size=1e4")
    made = dpaudit(*of_catalogue, "--set", *words, "--trials", 100, "--json")
    signal, ball = json.loads(made.stdout)["warnings"]
    assert "noise exceeds the signal" in signal
    assert "noise exceeds the ball" in ball
    assert "the set that models stay in is 4 across" in ball
    assert made.stderr.index(signal) < made.stderr.index(ball)


@pytest.mark.quality
def test_dp_sgd_saves_a_model_and_its_certificate_beside_it(dpaudit: Invoke, project: Path) -> None:
    """On a file of one's own with ten features and a label: the weights of every trial, one."""
    rows = np.random.default_rng(0).uniform(-1, 1, (300, 10)).round(4)
    names = ",".join([*"abcdefghij", "label"])
    lines = [",".join(map(str, row)) + f",{int(row[0] > 0)}" for row in rows.tolist()]
    (project / "own.csv").write_text("\n".join([names, *lines, ""]))
    given = ("run", "catalogue:dp_sgd_poisson", "--data", "own.csv", "--set", "label_column=label")
    made = json.loads(dpaudit(*given, "--out", "model.npz", "--trials", 100, "--json").stdout)
    assert made["verdict"] == "certified_under_assumptions"
    with np.load(project / "model.npz") as arrays:
        assert all(np.isfinite(arrays[name]).all() for name in arrays.files)
        assert {arrays[name].shape[-1] for name in arrays.files} == {10}
    certificate = json.loads((project / "model.json").read_text())["predicate"]
    digest = hashlib.sha256((project / "model.npz").read_bytes()).hexdigest()
    assert certificate["run"]["output"] == {"name": "model.npz", "digest": {"sha256": digest}}
    assert "dp_sgd_poisson" in (project / "model.html").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("label,a\n0,.5\n1,\n", "column 'a', line 3, is blank"),
        ("label,a\n0,.5\n1,nan\n", "column 'a', line 3, is blank or NaN"),
        ("label,a\n0,.5\n1,tall\n", "column 'a', line 3, holds what is no number"),
        ("label,a\n0,.5\n1\n", "line 3 has 1 cells"),
        ("label,a\n", "no records"),
        ("", "it is empty"),
        ("label,label\n0,1\n", "columns 1 and 2 have the same name"),
        ("b,a\n0,1\n", "no such column; there are b, a"),
    ],
)
def test_a_file_that_is_no_table_of_numbers_is_refused_before_anything_is_begun(
    text: str, said: str, dpaudit: Invoke, project: Path
) -> None:
    (project / "bad.csv").write_text(text)
    given = ("run", "held", "--data", "bad.csv", "--set", "label_column=label", "--out", "m.npz")
    assert said in dpaudit(*given, code=2).stderr
    assert not list(project.glob("*m.npz")) + list(project.glob(".m.*"))


def test_what_is_refused_before_anything_is_read(dpaudit: Invoke, project: Path) -> None:
    path = data(project)
    given = ("run", "held", "--data", path)
    assert (
        "expected a name that ends in .npz" in dpaudit(*given, "--out", "model.json", code=2).stderr
    )
    half = dpaudit(*given, "--out", "m.npz", "--set", "ledger=x", code=2).stderr
    assert "give all of ledger" in half
    assert (
        "no such column"
        in dpaudit(*given, "--out", "m.npz", "--set", "label_column=b", code=2).stderr
    )
    wrong = dpaudit("run", "refuted", "--data", path, "--out", "m.npz", "--trials", 200, code=1)
    assert "no data were touched" in wrong.stderr
    assert not list(project.glob("*m.npz")) + list(project.glob(".m.*"))


def test_a_projects_ledger_is_charged_by_every_run_unless_the_line_says_not(
    dpaudit: Invoke, project: Path
) -> None:
    """A run that names no account of the project's ledger is refused before it reads data."""
    (project / "dpaudit.toml").write_text('[settings]\nledger = "l.sqlite"\nentity = "row"\n')
    given = ("run", "held", "--data", "none.csv", "--out", "m.npz")
    assert "give all of ledger, dataset" in dpaudit(*given, code=2).stderr
    named = dpaudit(*given, "--set", "dataset=rows", code=2).stderr
    left_out = dpaudit(*given, "--set", "ledger=", code=2).stderr
    assert "none.csv" in named
    assert "none.csv" in left_out


def test_a_shape_is_for_mechanisms_that_have_one(dpaudit: Invoke, project: Path) -> None:
    said = dpaudit("certify", "held", "--shape", "5,2", code=2).stderr
    assert "no for_shape" in said
    assert "expected counts" in dpaudit("certify", "held", "--shape", "x", code=2).stderr


@pytest.mark.quality
def test_phases_of_accelerated_sgd_end_on_persons_of_a_table(
    dpaudit: Invoke, project: Path
) -> None:
    """Algorithm 3 of paper 1 on 1,400 persons of some rows each, with its certificate: it ends."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (1_400 * 3, 3)).round(4).tolist()
    lines = [
        f"{k // 3},{','.join(map(str, row))},{int(row[0] > 0)}"
        for k, row in enumerate(rows)
        if k % 7 != 1
    ]
    (project / "persons.csv").write_text("\n".join(["person,a,b,c,label", *lines, ""]))
    given = (
        "run",
        "catalogue:user_level_phased_erm",
        "--data",
        "persons.csv",
        "--set",
        "label_column=label",
    )
    made = json.loads(
        dpaudit(*given, "unit_column=person", "rows=3", "--out", "m.npz", "--json").stdout
    )
    assert made["verdict"] == "certified_under_assumptions"
    with np.load(project / "m.npz") as arrays:
        assert arrays["output.output"].shape == (1, 3)
        assert np.linalg.norm(arrays["output.output"]) <= 2 + 1e-12  # the radius of the set


OF_CATALOGUE = (
    "run",
    "catalogue:dp_sgd_one_pass",
    "--data",
    "rows.csv",
    "--set",
    "label_column=label",
)


@pytest.mark.quality
def test_free_parameters_are_set_and_the_certificate_states_all_of_them(
    dpaudit: Invoke, project: Path
) -> None:
    """--set once, several values after it; claim and noise are made for them."""
    data(project)
    given = (*OF_CATALOGUE, "--out", "model.npz", "--trials", 100, "--json")
    values = ("epsilon=2", "delta=1e-7", "rounds=4")
    dpaudit(*given, "--set", *values)
    predicate = json.loads((project / "model.json").read_text())["predicate"]
    assert predicate["claims"][0]["stated_text"] == "ApproxDP(epsilon=2, delta=0.0000001)"
    stated = next(text for text in predicate["caveats"] if text.startswith("parameters: "))
    for said in ("epsilon = 2 (set; 1 by default)", "rounds = 4 (set; 20 by default)", "step_size"):
        assert said in stated
    command = predicate["reproduce"]["command"]
    assert all(f"--set {text}" in command for text in ("epsilon=2", "rounds=4"))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("epsilom=2",), "nothing is called 'epsilom'; did you mean 'epsilon'"),
        (("epsilon",), "expected NAME=VALUE"),
        (("epsilon=0",), "expected a number above 0"),
        (("delta=1",), "expected above 0 and below 1"),
        (("rounds=2.5",), "rounds"),
        (("rounds=2", "rounds=3"), "given twice"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_the_file_is_read(
    dpaudit: Invoke, project: Path, values: tuple[str, ...], said: str
) -> None:
    assert not (project / "rows.csv").exists()
    (project / "rows.csv").write_text("no table")
    result = dpaudit(*OF_CATALOGUE, "--out", "model.npz", "--set", *values, code=2)
    assert said in result.stderr
    assert not (project / "model.json").exists()

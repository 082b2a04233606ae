"""`dpaudit audit` of training and of scores, `verify` and `report` of what it writes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpaudit.audit.canaries.commitment import commit
from dpaudit.cli.main import main
from dpaudit.cli.membership import OWN, _read
from dpaudit.membership.data import Data, shared
from dpaudit.membership.entry import audit_training, split
from dpaudit.tabular.columns import Columns
from tests.support.steps import BUGS, data_of

TRAIN = """
import numpy as np

def fit(records, rng):
    present = np.zeros(1000)
    present[records.features[:, 0].astype(int)] = 1
    return present + rng.normal(0, 0.1, 1000)

def score(model, records):
    return model[records.features[:, 0].astype(int)]

def wrong(records, rng):
    return np.zeros(3)[7]

class Hidden:
    def __init__(self, numbers):
        self._numbers = numbers

    def __getitem__(self, places):
        return self._numbers[places]

def hiding(records, rng):
    return Hidden(fit(records, rng))

def never(records, rng):
    raise KeyboardInterrupt("trained")
"""


# Options of `dpaudit audit` for other than training, for files of a table, or for what is written.
OF_OTHERS = {"scores", "score_column", "origin", "labels", "commitment", "generator", "command"}
OF_OTHERS |= {"time_limit", "step", "noise_multiplier", "sampling_rate", "sampling", "reproduce"}
OF_FILES = {"data", "label_column", "unit_column", "out"}


def test_the_function_takes_what_the_command_takes_with_the_same_defaults() -> None:
    """But for ``groups`` and ``progress``, which no text can hold."""
    given = {name.replace("attack", "attacks"): name for name in {*OWN, "seed", "jobs"}}
    taken = inspect.signature(audit_training).parameters
    of_function = set(taken) - {"target", "data", "groups", "progress"}
    assert of_function == set(given) - OF_OTHERS - OF_FILES
    audit: Any = main.commands["audit"]
    options = {option.name: option for option in audit.params} | audit.settings
    for name in of_function - {"seed", "jobs"}:
        default = options[given[name]].default
        expected = float(default) if isinstance(default, str | float) else None
        assert taken[name].default == expected, name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trained_here.py").write_text(TRAIN)
    (tmp_path / "torn.py").write_text("x = 1\ndef fit(:\n")
    (tmp_path / "needy.py").write_text("import not_there\n")
    rng = np.random.default_rng(0)
    features = np.column_stack([np.arange(120.0), rng.normal(size=120)])
    np.savez(tmp_path / "data.npz", features=features, labels=rng.integers(0, 2, 120))
    rows = [f"{int(a)},{b},{int(a) // 2}" for a, b in features]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,who", *rows]))
    (tmp_path / "in.csv").write_text("\n".join(["score", *map(str, rng.normal(2, 1, 400))]))
    (tmp_path / "out.csv").write_text("\n".join(["score", *map(str, rng.normal(0, 1, 400))]))
    for name in ("same.txt", "ones.txt"):
        (tmp_path / name).write_text("1\n" * 30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.quality
@pytest.mark.usefixtures("verified_here")
def test_training_is_audited_verified_and_shown(folder: Path) -> None:
    asked = ["audit", "trained_here:fit", "--data", "data.npz", "--set", "models=8", "--seed", "1"]
    asked += [
        "--set",
        "attack=loss,rmia",
        "--claim",
        "1,1e-5",
        "--out",
        "out",
        "--set",
        "refute_at=0.01",
    ]
    asked += ["--set", "canaries=none"]
    found = run(*asked)
    assert found.exit_code == 1, found.output
    assert "refuted: the trials contradict it" in found.stdout
    verified = run("verify", "--require", "refuted", "out/membership.json", "--json")
    assert verified.exit_code == 0
    assert json.loads(verified.stdout)[0]["verdict"] == "refuted"
    text = Path("out/membership.json").read_text()
    Path("out/membership.json").write_text(text.replace('"refuted"', '"inconclusive"', 1))
    assert run("verify", "--require", "refuted", "out/membership.json").exit_code == 12
    Path("out/membership.json").write_text(text)
    assert run("verify", "out/membership.json").exit_code == 14  # no guarantee is certified
    assert run("report", "out/membership.json", "--out", "pages").exit_code == 0
    assert "Refuted" in Path("pages/membership.html").read_text()


def test_a_population_holds_no_record_under_audit() -> None:
    values = np.arange(40.0) % 25
    audited, population = split(Data(values[:, None]), 0.5, 1)
    assert population is not None
    assert shared(audited, population) == 0
    assert split(Data(np.zeros((8, 1))), 0.5, 1)[1] is None


@pytest.mark.quality
def test_whoever_asks_for_a_verdict_and_gets_none_does_not_exit_with_success(folder: Path) -> None:
    with np.load("data.npz") as arrays:
        features, labels = arrays["features"].copy(), arrays["labels"].copy()
    features[5], labels[5] = features[3], labels[3]
    np.savez("doubled.npz", features=features, labels=labels)
    asked = [
        "audit",
        "trained_here:fit",
        "--data",
        "doubled.npz",
        "--set",
        "models=4",
        "--seed",
        "1",
    ]
    asked += ["--set", "population=0", "--set", "canaries=none"]
    found = run(*asked, "--set", "attack=loss", "--claim", "0.5")
    assert found.exit_code == 3
    assert found.stdout.startswith("no bound: duplicates")
    estimate = run("audit", "--scores", "in.csv", "out.csv", "--claim", "0.5")
    assert estimate.exit_code == 3
    assert estimate.stdout.startswith("an estimate, no bound")


@pytest.mark.parametrize(
    ("name", "written", "said"),
    [
        ("gap.csv", "a,b,y\n1,2,0\n,3,1\n4,5,1\n", "column 'a', line 3, is blank"),
        ("ragged.csv", "a,b,y\n1,2,0\n1,2\n", "line 3 has 2 cells"),
        ("empty.csv", "", "it is empty; expected a line of names"),
        ("nan.csv", "a,y\n1,0\nnan,1\n", "column 'a', line 3, is blank or NaN"),
        ("torn.npz", "PK\x03\x04 torn", "cannot be read as arrays"),
        ("text.npz", "nothing", "cannot be read as arrays"),
    ],
)
def test_files_with_holes_are_refused_and_never_filled_in(
    folder: Path, name: str, written: str, said: str
) -> None:
    Path(name).write_text(written)
    found = run(
        "audit",
        "trained_here:fit",
        "--data",
        name,
        *(["--set", "label_column=y"] * ("csv" in name)),
    )
    assert found.exit_code == 2, found.output
    assert said in found.output


def test_labels_of_a_table_are_classes_numbers_or_words(folder: Path) -> None:
    for cells, classes in (
        (["0", "1.0", "2"], [0, 1, 2]),
        (["0.5", "1"], [0.5, 1.0]),
        (["a", "1"], ["a", "1"]),
        ([True, "false"], [1, 0]),
    ):
        found = Columns("here", {"y": cells}).classes("y")
        assert found.tolist() == classes
        assert {type(one) for one in found.tolist()} == {type(one) for one in classes}
    columns = "first column,y,who\n1,0,x\n2,1,x\n3,1,z\n"
    Path("named.csv").write_text(columns)
    read = _read({"data": Path("named.csv"), "label_column": "first column", "unit_column": "who"})
    assert read.labels is not None
    assert read.labels.tolist() == [1, 2, 3]
    assert read.unit_of.tolist() == [0, 0, 1]
    assert read.features.shape == (3, 1)


def test_users_of_a_table_are_units(folder: Path) -> None:
    found = run(
        *("audit", "trained_here:fit", "--data", "data.csv", "--seed", "1", "--json"),
        *("--set", "unit_column=who", "models=6", "population=0", "attack=loss"),
    )
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["study"]["units"] == 60


def test_scores_are_asked_where_they_come_from(folder: Path) -> None:
    estimate = run("audit", "--scores", "in.csv", "out.csv")
    assert estimate.exit_code == 0
    assert estimate.stdout.startswith("an estimate, no bound")
    assert run("audit", "--scores", "in.csv", "out.csv", "--set", "origin=one_run").exit_code == 2
    asked = ["audit", "--scores", "in.csv", "out.csv", "--set", "origin=independent_runs"]
    assert run(*asked).exit_code == 2
    refuted = run(*asked, "--claim", "0.5", "--json")
    assert refuted.exit_code == 1
    assert json.loads(refuted.stdout)["verdict"] == "refuted"


def test_scores_of_one_run_need_their_labels(folder: Path) -> None:
    labels = commit("coins.json", 600, seed=4)
    labels.save("labels.json")
    scores = labels.included + np.random.default_rng(0).normal(0, 0.2, 600)
    for name, side in (("a.npy", labels.included), ("b.npy", ~labels.included)):
        np.save(name, scores[side])
    found = run(
        "audit", "--scores", "a.npy", "b.npy", "--set", "origin=one_run", "--claim", "1",
        "--set", "labels=labels.json", "--set", "commitment=coins.json",
    )  # fmt: skip
    assert found.exit_code == 1
    assert found.stdout.startswith("refuted: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit"], "Missing argument"),
        (["audit", "x:y", "--scores", "in.csv", "out.csv"], "--scores excludes"),
        (["audit", "--scores", "in.csv", "in.csv"], "members and non-members are the same file"),
        (["audit", "--scores", "same.txt", "ones.txt"], "all 1; the same for every trial"),
        (["audit", "trained_here:never", "--data", "data.npz", "--out", "in.csv/x"],
          "in.csv/x: Not a directory; choose another with --out"),
        (["audit", "trained_here:never", "--data", "data.npz", "--set", "attack=loss", "--set",
          "released=labels"], "needs the signal 'loss'"),
        (["audit", "trained_here:fit", "--data", "data.npz", "--set", "label_column=b"],
         "no such column"),
        (["audit", "--data", "data.npz"], "one TARGET"),
        (["audit", "nowhere:fit", "--data", "data.npz"], "there is no module 'nowhere'"),
        (["audit", "no words:fit", "--data", "data.npz"], "there is no module"),
        (["audit", "trained_here:fat", "--data", "data.npz"], "has no 'fat'"),
        (["audit", "torn:fit", "--data", "data.npz"],
         r"torn.py:2: torn does not import: SyntaxError"),
        (["audit", "needy:fit", "--data", "data.npz"],
         r"needy.py:1: needy does not import: ModuleNotFoundError: No module named 'not_there'"),
        (["audit", "needy:fit", "1", "2", "--claim", "1"], "No module named 'not_there'"),
        (["audit", "trained_here:wrong", "--data", "data.npz"],
         r"trained_here.py:\d+ raised IndexError: index 7 is out of bounds"),
        (["audit", "trained_here:hiding", "--data", "data.npz", "--set", "released=parameters"],
         "shows scores and no parameters"),
        (["audit", "trained_here:fit", "--data", "data.npz", "--set", "attack=x"],
         "expected one of"),
        (["audit", "trained_here:fit", "--data", "data.npz", "--claim", "x"], "expected"),
        (["audit", "trained_here:fit", "--data", "data.csv", "--set", "label_column=z"],
         "no such column"),
        (["audit", "trained_here:fit", "--data", "trained_here.py"], "expected a file .csv"),
        (["audit", "trained_here:fit", "--data", "data.npz", "--claim", "1", "--set", "canaries=x"],
         "canaries = 'x': expected auto, none, or some of spike"),
        (["audit", "trained_here:fit", "--data", "data.npz", "--set", "canaries=spike"],
         "they are made to refute a claim"),
        (["audit", "trained_here:fit", "--data", "data.npz", "--set", "background=0.5"],
         "a share is of the data that train beside canaries"),
        (["audit", "trained_here:wrong", "--data", "data.npz", "--claim", "1"],
         r"trained_here.py:\d+ raised IndexError: index 7 is out of bounds"),
        (["audit", "trained_here:fit", "--data", "data.npz", "--claim", "20",
          "--set", "models=4", "canaries=none"],
         "are needed|no number of guesses"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused(folder: Path, arguments: list[str], said: str) -> None:
    import re

    found = run(*arguments)
    assert found.exit_code == 2, found.output
    assert re.search(said, found.output)


def test_one_step_is_checked(folder: Path) -> None:
    planted = BUGS["NumPy: noise over the batch twice"]
    for name, right in (("wrong", False), ("right", True)):
        text = planted.source if right else planted.source.replace(planted.old, planted.new)
        Path(f"{name}_step.py").write_text(text)
    data = data_of(planted)
    np.savez("step.npz", features=data.features, labels=data.labels)
    asked = ["--data", "step.npz", "--set", "noise_multiplier=1.1", "--set", "sampling_rate=0.1"]
    found = run("audit", "--step", "wrong_step:Logistic", *asked)
    assert found.exit_code == 5, found.output
    assert "noise is too small for what a record moves" in found.stdout
    assert "wrong_step.py:" in found.stdout
    found = run("audit", "--step", "right_step:Logistic", *asked, "--json")
    assert found.exit_code == 3, found.output
    assert json.loads(found.stdout)["faults"] == []
    assert run("audit", "--step", "right_step:Logistic", "--data", "step.npz").exit_code == 2
    assert run("audit", "trained_here:fit", *asked).exit_code == 2

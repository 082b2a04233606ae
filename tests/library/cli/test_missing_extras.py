"""Every command with the libraries of each extra absent: it works, or says what to install."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpaudit import errors
from dpaudit.cli.main import main
from dpaudit.errors import missing_extra
from tests.library.cli.test_release_commands import PLAN

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {
    name: sorted(
        errors._IMPORTED_AS.get(library, library.replace("-", "_"))
        for library in (re.match(r"[\w-]+", line)[0] for line in lines)  # type: ignore[index]
        if library != "dpaudit"
    )
    for name, lines in PROJECT["optional-dependencies"].items()
    if name not in errors._NOT_FOR_USERS
}
CERTIFICATE = str(ROOT / "reports" / "noisy_mean.json")
if not Path(CERTIFICATE).exists():
    CERTIFICATE = str(next(iter(sorted((ROOT / "reports").glob("*.json")))))

FIT = """
import numpy as np
from sklearn.linear_model import LogisticRegression
model = LogisticRegression()
"""
LIMITS = ("--plan", "plan.toml", "--budget", "epsilon=3 delta=1e-5")
# Arguments, by what they try.
COMMANDS: dict[str, tuple[str, ...]] = {
    "init": ("init", "new"),
    "list": ("list", "held"),
    "show": ("show", "held"),
    "account": ("account", "held", "--delta", "1e-5"),
    "audit": ("audit", "held", "--trials", "100", "--seed", "1"),
    "audit a function": ("audit", "json:dumps", "1", "2", "--claim", "1", "--trials", "100"),
    "audit a query": ("audit", "q.sql", "a.duckdb", "a.duckdb", "--claim", "1"),
    "audit a query by URL": ("audit", "q.sql", "sqlite://", "sqlite://", "--claim", "1"),
    "audit training": (
        "audit",
        "--data",
        "rows.csv",
        "--set",
        "label_column=y",
        "fitted:model",
        "--set",
        "models=4",
    ),
    "audit scores": ("audit", "--scores", "rows.parquet", "rows.parquet"),
    "certify": ("certify", "held", "--trials", "100", "--seed", "1"),
    "certify a plan": ("certify", "plan.toml", "--trials", "100", "--seed", "1"),
    "run": ("run", "held", "--data", "rows.parquet", "--out", "model.npz"),
    "verify": ("verify", CERTIFICATE),
    "verify a signature": ("verify", CERTIFICATE, "--key", "officer=officer.pub"),
    "verify a time stamp": (
        "verify",
        CERTIFICATE,
        "--key",
        "officer.pub",
        "--set",
        "authority=root.pem",
    ),
    "verify an identity": (
        "verify",
        CERTIFICATE,
        "--set",
        "identity=a@b.example@https://c.example",
    ),
    "report": ("report", CERTIFICATE, "--format", "md,csv,junit,sarif", "--out", "pages"),
    "check": ("check", "empty"),
    "total": ("ledger", "total", CERTIFICATE),
    "sign": ("sign", CERTIFICATE, "--key", "officer.pem"),
    "a new key": ("sign", "--new-key", "new.pem"),
    "calibrate": (
        *("account", "node.json", "--set", "adjacency=add_remove"),
        *("--budget", "epsilon=1"),
    ),
    "plan": ("release", "plan.toml"),
    "release": ("release", "plan.toml", "--data", "people.csv", "--out", "published"),
    "ledger init": ("ledger", "init", "others", *LIMITS),
    "ledger show": ("ledger", "show", "--set", "ledger=ledger.sqlite"),
    "changes": ("report", CERTIFICATE, CERTIFICATE, "--format", "changes"),
    "archive": ("report", CERTIFICATE, "--format", "archive", "--out", "kept"),
    "fields": ("fields", "--help"),
    "mutate": ("mutate", "held", "--help"),
    "compare": ("compare", "--help"),
}


@pytest.fixture
def folder(project: Path) -> Path:
    """A project with the files that the commands name."""
    (project / "plan.toml").write_text(PLAN)
    (project / "people.csv").write_text("person,age,sex\n1,30,f\n2,40,m\n")
    (project / "rows.csv").write_text("x,y\n" + "1,0\n2,1\n" * 20)
    (project / "rows.parquet").write_bytes(b"PAR1")
    (project / "q.sql").write_text("SELECT 1")
    (project / "a.duckdb").write_bytes(b"")
    (project / "fitted.py").write_text(FIT)
    (project / "officer.pub").write_text("no key")
    (project / "officer.pem").write_text("no key")
    (project / "root.pem").write_text("no certificate")
    (project / "node.json").write_text("{}")
    (project / "empty").mkdir()
    begun = CliRunner().invoke(main, ["ledger", "init", "people", *LIMITS])
    assert begun.exit_code == 0, begun.output
    return project


@pytest.fixture
def absent(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch, unserved: None
) -> str:
    """An extra whose libraries cannot be imported."""
    for library in EXTRAS[request.param]:
        monkeypatch.setitem(sys.modules, library, None)
    return str(request.param)


def without_traceback(arguments: tuple[str, ...]) -> Result:
    done = CliRunner().invoke(main, list(arguments))
    said = f"{done.output}\n{done.stderr}"
    assert done.exit_code != errors.INTERNAL, (arguments, said)
    assert "Traceback" not in said
    assert "ModuleNotFoundError" not in said, (arguments, said)
    return done


# Those that certainly need their extra, tried by `make test` too.
NEEDED = {
    ("tables", "release"),
    ("ledger", "ledger show"),
    ("sign", "sign"),
    ("ml", "audit training"),
}
# Minutes long where nothing is missing, so tried without the extras that they may need alone.
LONG = {"certify a plan": ("tables",), "release": ("tables", "ledger")}
CASES = [
    pytest.param(
        extra,
        name,
        id=f"{extra}: {name}",
        marks=[] if (extra, name) in NEEDED else pytest.mark.quality,
    )
    for extra in EXTRAS
    for name in COMMANDS
    if extra in LONG.get(name, EXTRAS)
]


@pytest.mark.parametrize(("absent", "command"), CASES, indirect=["absent"])
def test_a_command_works_or_says_what_to_install(absent: str, command: str) -> None:
    done = without_traceback(COMMANDS[command])
    if (absent, command) in NEEDED:
        assert done.exit_code == 2
        assert f"pip install 'dpaudit[{absent}]'" in done.stderr


def test_every_command_is_among_them() -> None:
    assert {arguments[0] for arguments in COMMANDS.values()} == set(main.commands)


def test_a_library_is_named_with_the_extras_that_bring_it() -> None:
    said = missing_extra(ModuleNotFoundError("no", name="narwhals.stable"))
    assert said == (
        "narwhals is not installed: pip install 'dpaudit[ml]' or pip install 'dpaudit[tables]'"
    )
    assert missing_extra(ModuleNotFoundError("no", name="nowhere")) == ""
    assert missing_extra(ImportError("no")) == ""
    known = {library for libraries in EXTRAS.values() for library in libraries}
    assert known <= set(errors._extras_of())


def test_a_command_that_needs_it_is_noticed_without_that(
    folder: Path, monkeypatch: pytest.MonkeyPatch, unserved: None
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr(errors, "_extras_of", dict)
    done = CliRunner().invoke(main, ["release", "plan.toml", "--data", "people.csv", "--out", "o"])
    assert "ModuleNotFoundError" in done.stderr


def test_the_docs_name_every_extra_and_what_it_brings(checkout: Path) -> None:
    page = (checkout / "docs" / "install.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.M)
    assert [name for name, _ in rows] == [*EXTRAS, "docs"]
    for name, text in rows:
        for line in PROJECT["optional-dependencies"][name]:
            library = re.match(r"[\w-]+", line)[0]  # type: ignore[index]
            assert library in text, (name, library)

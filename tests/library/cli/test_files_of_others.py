"""No command replaces a file that somebody else made; files of dpaudit are replaced."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpaudit.certificate.certificate import save, statement
from dpaudit.certificate.rendering import EACH, FORMATS, TOGETHER
from dpaudit.cli.main import main
from dpaudit.errors import OutputNotWritable
from dpaudit.report import verifier
from dpaudit.sign import make_keys
from dpaudit.storage import files
from tests.library.cli.bench import pure

ROOT = Path(__file__).parents[3]
THEIRS = b"by hand, with notes on dpaudit\n"
REGISTERED = {
    "product_type": ["Summary statistics"],
    "region": ["EU"],
    "publication_date": ["2027-01-01"],
    "controller": ["A clinic"],
    "purpose": ["A test"],
}
# A browser and a proof kernel take seconds: the latter's file is tested in make quality.
KINDS = [kind for kind in FORMATS if kind not in ("pdf", "coq")]
SHOWN = (*(f"pure{EACH[kind]}" for kind in KINDS if kind in EACH), *TOGETHER.values())
CURVE = ["--dp-sgd", "n=1000 batch=10 epochs=1 sigma=2", "--delta", "1e-5", "--points", "3"]
# Each command that writes to a place that its user names, with the files that it writes.
COMMANDS: list[tuple[list[str], tuple[str, ...]]] = [
    (["report", "pure.json", "--format", ",".join(KINDS), "--out", "."], SHOWN),
    (["check", "reports", "--sarif", "found.sarif"], ("found.sarif",)),
    (
        ["sign", "pure.json", "--key", "key.pem", "--timestamp-query", "query.tsq"],
        ("query.tsq",),
    ),
    (["ledger", "total", "pure.json", "--figure", "figures"], ("figures/budget-1.svg",)),
    (["account", *CURVE, "--figure", "curve.svg"], ("curve.svg",)),
]

PROOF = pytest.param(
    ["report", "pure.json", "--format", "coq", "--out", "."],
    (f"pure{EACH['coq']}",),
    marks=pytest.mark.quality,
)


@pytest.fixture
def folder(verified_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(statement({**pure()["predicate"], "fields": REGISTERED}), tmp_path / "pure.json")
    make_keys(tmp_path / "key.pem")
    (tmp_path / "figures").mkdir()
    (tmp_path / "reports").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("command", "names"), [*COMMANDS, PROOF], ids=lambda one: one[0])
def test_a_file_of_somebody_else_stays_and_one_of_dpaudit_is_replaced(
    command: list[str], names: tuple[str, ...], folder: Path
) -> None:
    paths = [folder / name for name in names]
    run(*command)
    made = [path.read_bytes() for path in paths]
    for path, content in zip(paths, made, strict=True):
        path.write_bytes(content + b"altered")
    run(*command)
    assert [path for path in paths if b"altered" in path.read_bytes()] == []
    for path in paths:
        path.write_bytes(THEIRS)
    refused = run(*command)
    assert refused.exit_code != 0
    assert "a file of this name that dpaudit did not make; move it" in refused.output
    assert {path.read_bytes() for path in paths} == {THEIRS}


@pytest.mark.parametrize("name", ["held.html", "held.json", "index.html"])
def test_certify_refuses_before_it_attacks(
    name: str, dpaudit: Callable[..., Result], project: Path
) -> None:
    path = project / "reports" / name
    path.parent.mkdir()
    path.write_bytes(THEIRS)
    refused = dpaudit("certify", "held", "--seed", "1", code=2)
    assert f"{name}: there is a file of this name" in refused.output
    assert path.read_bytes() == THEIRS
    assert [one.name for one in path.parent.iterdir()] == [name]


def test_a_page_that_verifies_replaces_its_like_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "assets", lambda: {"a": b"b"})
    page = verifier.write_verifier(tmp_path)
    page.write_bytes(page.read_bytes() + b"altered")
    assert b"altered" not in verifier.write_verifier(tmp_path).read_bytes()
    page.write_bytes(THEIRS)
    monkeypatch.setattr(verifier, "assets", lambda: pytest.fail("fetched before the look"))
    with pytest.raises(OutputNotWritable, match="dpaudit did not make"):
        verifier.write_verifier(tmp_path)
    assert page.read_bytes() == THEIRS


def test_a_pipe_is_refused_unread(tmp_path: Path) -> None:
    """Nobody writes into it, so that a read would have no end."""
    os.mkfifo(tmp_path / "curve.svg")
    with pytest.raises(OutputNotWritable, match=r"curve\.svg: no file"):
        files.own_or_absent(tmp_path / "curve.svg", b"")


def test_without_the_look_at_the_mark_the_file_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "own_or_absent", lambda *_: None)
    with pytest.raises(AssertionError):
        test_a_file_of_somebody_else_stays_and_one_of_dpaudit_is_replaced(*COMMANDS[1], folder)


# The form of a project's fields is edited in place, entry by entry.
EDITS = {"fields_command.py"}


def test_commands_write_through_the_one_function_that_looks() -> None:
    """In the command line, reports and comparisons, nothing else replaces files."""
    rooms = ("cli", "report", "compare")
    places = [path for room in rooms for path in (ROOT / "dpaudit" / room).rglob("*.py")]
    places.append(ROOT / "dpaudit" / "certificate" / "rendering.py")
    named = {
        path.name
        for path in places
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for one in node.names
        if one.name in ("write_atomically", "write_together")
    }
    assert named == EDITS

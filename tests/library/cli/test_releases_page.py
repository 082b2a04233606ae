"""The tutorial of docs/releases.md runs as it stands."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from dpaudit.releases import publish as publishing

pytest.importorskip("duckdb")


def blocks(kind: str) -> list[str]:
    page = Path(__file__).parents[3] / "docs" / "releases.md"
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with (tmp_path / "people.csv").open("w", newline="") as stream:
        rows = [[i, i % 90, "fm"[i % 2]] for i in range(2000)]
        csv.writer(stream).writerows([["person", "age", "sex"], *rows])
    (tmp_path / "plan.toml").write_text(blocks("toml")[0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.quality
def test_fifteen_lines_of_python_publish_a_table(folder: Path) -> None:
    (program,) = blocks("python")
    assert len([line for line in program.splitlines() if line]) == 15
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"^by sex \{'sex': 'f'\}: \d+ \+- \d+$", run.stdout, re.M), run.stdout
    assert (folder / "python" / "release.parquet").exists()


def commanded(wanted: set[str]) -> dict[str, str]:
    """Run those of the page's commands; what each printed."""
    (commands,) = blocks("sh")
    said = {}
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "dpaudit"
        if arguments[0] in wanted:
            run = CliRunner().invoke(main, arguments)
            assert run.exit_code == 0, (line, run.output)
            said[" ".join(arguments[:2])] = run.output
    return said


def test_the_commands_publish_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the certificate, which is made and verified below."""
    real = publishing.publish

    def unattacked(*given: Any, **named: Any) -> Any:
        return real(*given, **named | {"trials": 0})

    monkeypatch.setattr(publishing, "publish", unattacked)
    said = commanded({"ledger", "plan", "release"})
    rows = list(csv.DictReader((folder / "published" / "release.csv").open()))
    assert [row["item"] for row in rows] == ["by sex", "by sex", "age"]
    assert "charges: 1" in said["ledger show"]


@pytest.mark.quality
def test_the_commands_run_as_they_are_printed(folder: Path) -> None:
    said = commanded({"ledger", "plan", "release", "verify"})
    assert "\ncertified: 0.999" in said["release plan.toml"]

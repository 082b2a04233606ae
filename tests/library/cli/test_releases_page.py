"""The program of docs/releases.md and the commands of its tutorial run as they stand."""

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
from dpaudit.releases.plan import load_plan

pytest.importorskip("duckdb")
TUTORIAL = "tutorials/table.md"


def blocks(page: str, kind: str) -> list[str]:
    text = (Path(__file__).parents[3] / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{kind}(?: title=\S+)?\n(.*?)^```", text, re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(blocks(TUTORIAL, "toml")[0])
    exec(blocks(TUTORIAL, "python")[0], {})  # noqa: S102 (the page's own program)
    return tmp_path


@pytest.mark.quality
def test_fifteen_lines_of_python_publish_a_table(folder: Path) -> None:
    (program,) = blocks("releases.md", "python")
    assert len([line for line in program.splitlines() if line]) == 15
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"^by sex \{'sex': 'f'\}: \d+ \+- \d+$", run.stdout, re.M), run.stdout
    assert (folder / "python" / "release.parquet").exists()


def test_the_page_says_what_is_suppressed_and_where_the_rule_is(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "releases.md").read_text("utf-8")
    (section,) = re.findall(r"^## Suppression\n(.*?)^## ", text, re.M | re.S)
    targets = publishing.targets_of(tmp_path, "release")
    assert publishing.metadata_file(targets["csv"]).name in section


def commanded(wanted: set[str]) -> dict[str, str]:
    """Run those of the page's commands; the first output of each."""
    said = {}
    for line in "".join(blocks(TUTORIAL, "sh")).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "dpaudit" and arguments[0] in wanted:
            run = CliRunner().invoke(main, arguments)
            stated = re.search(r"# exits with (\d+)", line)
            assert run.exit_code == int(stated[1] if stated else 0), (line, run.output)
            said.setdefault(" ".join(arguments[:3]), run.output)
    return said


@pytest.mark.quality
def test_the_commands_of_populations_and_next_years_plan_run(folder: Path) -> None:
    for line in blocks("releases.md", "sh")[0].splitlines():
        run = CliRunner().invoke(main, shlex.split(line)[1:])
        assert run.exit_code == 0, (line, run.output)
    Path("next.toml").write_text(blocks("releases.md", "toml")[0])
    assert load_plan(folder / "next.toml").title.endswith("2027")


@pytest.mark.quality
@pytest.mark.long("each command of a page")
def test_the_commands_publish_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the certificate, which is made and verified below."""
    real = publishing.publish

    def unattacked(*given: Any, **named: Any) -> Any:
        return real(*given, **named | {"trials": 0})

    monkeypatch.setattr(publishing, "publish", unattacked)
    said = commanded({"ledger", "release"})
    rows = list(csv.DictReader((folder / "published" / "release.csv").open()))
    assert [row["item"] for row in rows] == ["by sex", "by sex", "age"]
    assert "charges: 1" in said["ledger show"]


@pytest.mark.quality
def test_all_commands_run_as_they_are_printed(folder: Path) -> None:
    said = commanded({"ledger", "release", "verify", "report"})
    assert "\ncertified: 0.999" in said["release plan.toml --data"]

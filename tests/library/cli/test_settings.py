"""Settings: the line goes before dpaudit.toml, the file before the default; nothing is ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpaudit.cli.settings import JOBS, PROJECT, UNIT_COLUMN, Command, Setting, on_line, option

TAGS = Setting("tags", "Some words.", "WORD", several=True)
SHARE = Setting("share", "A share.", "SHARE", click.FloatRange(0, 1), 0.5)


@click.command(
    cls=Command, example="tried one --jobs 2", settings={"one": (UNIT_COLUMN, TAGS, SHARE)}
)
@click.argument("word", required=False)
@option(JOBS)
def tried(**given: Any) -> None:
    """Show what is given."""
    click.echo(f"{dict(sorted(given.items()))} {on_line('unit_column')}")


def told(*words: str) -> str:
    done = CliRunner().invoke(tried, list(words), standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.output.strip()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_line_goes_before_the_file_and_the_file_before_the_default(here: Path) -> None:
    none = {"jobs": 1, "share": 0.5, "tags": (), "unit_column": None, "word": None}
    assert told() == f"{none} False"
    (here / "dpaudit.toml").write_text('[settings]\njobs = 2\nunit_column = "who"\n')
    file = none | {"jobs": 2, "unit_column": "who"}
    assert told() == f"{file} False"
    line = file | {"jobs": 3, "unit_column": "whom"}
    assert told("--jobs", "3", "--set", "unit_column=whom") == f"{line} True"
    (here / "below").mkdir()
    (here / "below" / "dpaudit.toml").write_text("[settings]\njobs = 4\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here / "below")
        assert told() == f"{none | {'jobs': 4}} False"


def test_several_may_follow_and_a_word_that_is_none_ends_them() -> None:
    shown = told("--set", "tags=a", "tags=b=c", "share=1", "w", "--jobs", "2")
    assert "'word': 'w'" in shown
    assert "'share': 1.0, 'tags': ('a', 'b=c')" in shown
    assert "'word': 'share=1'" in told("--set", "tags=a", "--", "share=1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "unit_colum=x"), "nothing is called 'unit_colum'; did you mean 'unit_column'"),
        (("--set", "quite=other"), "known are share, tags, unit_column"),
        (("--set", "share"), r"such as share=SHARE: A share\."),
        (("--set", "share=2"), r"--set share: 2.*in the range.*A share\."),
        (("--set", "share=1", "share=0"), "--set share: given 2 times"),
        (("--share", "1"), "--share is no option: write --set share=SHARE"),
        (("--unit", "1"), "--unit is no option: write --set unit_column=NAME"),
        (("--other", "1"), "No such option"),
    ],
)
def test_what_is_none_is_refused_with_what_there_is(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Exception, match=said):
        told(*words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[settings]\njob = 2\n", "did you mean 'jobs'"),
        ("[settings]\njobs = 0\n", "dpaudit.toml: \\[settings\\] jobs: 0 is not in the range"),
        ('[settings]\nunit_column = ["a", "b"]\n', "given 2 times"),
        ("[settings]\nshare = 1\n", "nothing is called 'share'"),
        ("[setting]\njobs = 1\n", "did you mean 'settings'"),
        ("jobs = 1", "nothing is called 'jobs'"),
        ("settings = 1", "expected a table"),
    ],
)
def test_a_file_is_refused_by_its_place(here: Path, text: str, said: str) -> None:
    (here / "dpaudit.toml").write_text(text)
    with pytest.raises(Exception, match=said):
        told()


def test_help_lists_every_setting_and_shells_complete_them() -> None:
    said = CliRunner().invoke(tried, ["--help"]).output
    assert "unit_column=NAME*, tags=WORD, share=SHARE" in said
    assert said.endswith("Example: tried one --jobs 2\n")
    option = next(one for one in tried.params if "--set" in one.opts)
    context = click.Context(tried)
    assert [item.value for item in option.shell_complete(context, "sh")] == ["share="]


def test_only_what_a_project_decides_is_read_from_its_file() -> None:
    assert all(one.project for one in PROJECT.values())
    assert not {"seed", "key", "threshold", "policy", "require", "trusted_root"} & set(PROJECT)

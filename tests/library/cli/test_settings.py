"""Settings: the line goes before dpaudit.toml, the file before the default; nothing is ignored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from dpaudit.cli.commands import free_values
from dpaudit.cli.main import main
from dpaudit.cli.settings import PROJECT, SETTINGS, Command, Setting, on_line, option
from dpaudit.curator.parameters import Cost, Free
from dpaudit.errors import InvalidParameter
from tests.library.cli.test_command_line_size import walked

TAGS = Setting("tags", "WORD+", "Some words.")
SHARE = Setting("share", "0.0..1.0", "A share.", 0.5)
UNIT_COLUMN = SETTINGS["unit_column"]


@click.command(
    cls=Command, example="tried one --jobs 2", settings={"one": (UNIT_COLUMN, TAGS, SHARE)}
)
@click.argument("word", required=False)
@option("jobs")
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
        (("--set", "share"), r"such as share=0.0..1.0: A share\."),
        (("--set", "share=2"), r"--set share: 2.*in the range.*A share\."),
        (("--set", "share=1", "share=0"), "--set share: given 2 times"),
        (("--share", "1"), "--share is no option: write --set share=0.0..1.0"),
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
    assert "unit_column=NAME*, tags=WORD+, share=0.0..1.0" in said
    assert said.endswith("Example: tried one --jobs 2\n")
    option = next(one for one in tried.params if "--set" in one.opts)
    context = click.Context(tried)
    assert [item.value for item in option.shell_complete(context, "sh")] == ["share="]


@pytest.mark.parametrize(
    ("value", "text", "read"),
    [
        ("NUMBER", "1e-5", "1e-5"),
        ("1..", "12", 12),
        ("1..", "0", None),
        ("1..3", "4", None),
        ("1..3", "1.5", None),
        ("0.0..1.0", "0.25", 0.25),
        ("0.0..1.0", "nan", None),
        ("a|b", "b", "b"),
        ("a|b", "c", None),
        ("a|FILE", "c", "c"),
        ("true", "yes", True),
        ("true", "2", None),
        ("FILE", "none.csv", None),
        ("FOLDER", "none", Path("none")),
        ("DAY", "2026-02-30", None),
    ],
)
def test_a_value_is_of_the_kind_that_help_shows(value: str, text: str, read: Any) -> None:
    setting = Setting("it", value, "What it is.")
    if read is None:
        with pytest.raises(InvalidParameter, match=r"here: .*What it is\."):
            setting.read(text, "here")
    else:
        assert setting.read(text, "here") == read


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ledger", "init", "--rho", "1"), "--rho is no option: write --budget"),
        (("ledger", "init", "--delta", "1"), "--delta is no option: write --budget"),
        (("ledger", "charge", "--delta", "1"), "write --set charge_delta=NUMBER"),
        (("ledger", "init", "--method", "rdp"), "write --set composition=NAME"),
        (("verify", "--no-unconfirmed"), "write --set confirmed=true"),
        (("show", "--rho", "1"), "No such option"),
    ],
)
def test_an_option_that_there_was_says_what_to_write(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 2
    assert said in done.output


def test_a_free_parameter_that_is_called_as_a_setting_is_refused() -> None:
    def of_shape(*, rows: Annotated[int, Free("rows", Cost.NOTHING)] = 3) -> None: ...

    mechanism: Any = SimpleNamespace(name="mine", for_shape=of_shape)
    with (
        click.Context(main.commands["run"]),
        pytest.raises(InvalidParameter, match="its parameter rows has the name of a setting"),
    ):
        free_values(mechanism, ())


def test_every_setting_is_of_some_command_or_option() -> None:
    used = {name for _, command in walked(main) for name in command.settings}
    options = {option.name for _, command in walked(main) for option in command.params}
    assert set(SETTINGS) == {one for one in SETTINGS if one in used | options}


def test_only_what_a_project_decides_is_read_from_its_file() -> None:
    assert all(one.project for one in PROJECT.values())
    assert not {"seed", "key", "threshold", "policy", "require", "trusted_root"} & set(PROJECT)

"""Messages advise only what the command that prints them knows."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpaudit.check import process
from dpaudit.cli.main import main
from dpaudit.sign.keys import make_keys

ROOT = Path(__file__).parents[3]
REPORTS = ROOT / "reports"
OPTION, SETTING = re.compile(r"(?<![\w(-])--[a-z][a-z-]+"), re.compile(r"--set ([a-z_]+)=")
# How a message names a command, and what it says of it.
NAMED = re.compile(r"dpaudit ((?:[a-z]+ ?)+)((?:(?!dpaudit |;|`).)*)", re.DOTALL)
EVERYWHERE = {"--json", "--help", "--set"}


def commands(group: click.Group = main, *above: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield " ".join([*above, name]), command
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)


def known(command: click.Command) -> tuple[set[str], set[str]]:
    """A command's options and settings."""
    return {name for one in command.params for name in one.opts} | EVERYWHERE, set(
        getattr(command, "settings", ())
    )


COMMANDS = {name: known(command) for name, command in commands()}


def messages(path: Path) -> Iterator[str]:
    """Texts of a module that are sentences, without its docstrings and arguments of programs.

    None of a module without an option.
    """
    source = path.read_text("utf-8")
    parts = list(ast.walk(ast.parse(source))) if "--" in source else []
    docstrings = {id(part.value) for part in parts if isinstance(part, ast.Expr)}
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            text = part.value
            if id(part) not in docstrings and " " in text and not re.match(r"--[\w-]+=\S", text):
                yield text


def unknown(text: str) -> set[str]:
    """Options and settings that a text names and no command has, or not the one that it names."""
    options = set[str]().union(*(options for options, _ in COMMANDS.values()))
    settings = set[str]().union(*(settings for _, settings in COMMANDS.values()))
    found = set(OPTION.findall(text)) - options
    found |= {name for name in SETTING.findall(text) if name not in settings | {"epsilon"}}
    for words, rest in NAMED.findall(text):
        first, *others = words.split()
        both = " ".join([first, *others[:1]])
        name = both if both in COMMANDS else first
        if name in COMMANDS:
            options, settings = COMMANDS[name]
            found |= set(OPTION.findall(rest)) - options
    return found


def test_every_option_that_a_message_names_exists() -> None:
    """The options of a command, or of the plugin for pytest."""
    plugin = (ROOT / "dpaudit" / "pytest_plugin.py").read_text("utf-8")
    of_plugin = set(re.findall(r'"(--dp-[a-z]+)"', plugin))
    assert len(of_plugin) >= 4
    for path in sorted((ROOT / "dpaudit").rglob("*.py")):
        for text in messages(path):
            assert not unknown(text) - of_plugin, f"{path}: {text}"


def test_an_option_of_no_command_is_found_in_a_message() -> None:
    assert unknown("allow more time with --set minutes=") == {"minutes"}
    assert unknown("or with --more-time") == {"--more-time"}
    assert unknown("`dpaudit sign --replay FILE`") == {"--replay"}
    assert not unknown("`dpaudit verify --replay FILE`")


LINES = [
    "verify {file}",
    "report {file} --out {folder}",
    "report {file} --out {folder} --format archive",
    "report {file} {other} --format changes",
    "sign {file} --key {key}",
    "ledger total {file}",
    "check {reports}",
]


@pytest.mark.parametrize("line", LINES)
def test_a_check_that_runs_out_of_time_is_told_how_to_get_more(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command that verifies files has the setting, and hands it to the checker."""
    given: list[float] = []

    def ended(_handed: Any, seconds: float) -> Iterator[Any]:
        given.append(seconds)
        return iter(())

    monkeypatch.setattr(process, "_child", ended)
    reports = tmp_path / "reports"
    reports.mkdir()
    file, other = (
        Path(shutil.copy(REPORTS / f"{name}.json", reports)) for name in ("dp_gd", "diff2_gd")
    )
    (tmp_path / "dpaudit.toml").touch()
    monkeypatch.chdir(tmp_path)
    key, _ = make_keys(tmp_path / "signer.pem")
    words = line.format(file=file, other=other, folder=tmp_path / "out", key=key, reports=reports)
    ran = CliRunner().invoke(main, [*words.split(), "--set", "seconds=33"])
    assert ran.exit_code != 0
    assert set(given) == {33.0}
    said = f"{ran.output}{ran.exception}"
    assert "--set seconds=" in said
    _, settings = COMMANDS[max((name for name in COMMANDS if words.startswith(name)), key=len)]
    assert set(SETTING.findall(said)) <= settings

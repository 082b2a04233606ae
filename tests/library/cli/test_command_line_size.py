"""How much there is to learn: commands, options, and the length of each command's help."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpaudit.cli.commands import MOVED
from dpaudit.cli.main import main
from tools.commands_page import page

MOST_COMMANDS, MOST_OPTIONS = 16, 90
MOST_LINES = 40  # of help: a screen
COLUMNS = (80, 100)


def walked(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that is no group, with its name."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        yield from walked(command.commands[name], (*path, name))


COMMANDS = dict(walked(main))
HELP = [(), ("ledger",), *COMMANDS]


def test_there_are_few_commands_and_options() -> None:
    options = [
        f"{' '.join(path)} {option.opts[-1]}"
        for path, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option)
    ]
    assert len(main.commands) <= MOST_COMMANDS, sorted(main.commands)
    assert len(options) <= MOST_OPTIONS, options


@pytest.mark.parametrize("path", HELP, ids=" ".join)
@pytest.mark.parametrize("columns", COLUMNS)
def test_help_fits_a_screen_and_ends_with_an_example(path: tuple[str, ...], columns: int) -> None:
    done = CliRunner().invoke(main, [*path, "--help"], terminal_width=columns)
    lines = done.output.splitlines()
    assert len(lines) <= MOST_LINES, f"{len(lines)} lines"
    assert max(map(len, lines)) <= columns, max(lines, key=len)
    assert "Example: dpaudit " in done.output


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_example_is_read(path: tuple[str, ...], tmp_path: Path, monkeypatch: Any) -> None:
    """By the command's own parser; nothing is run."""
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[path]
    program, *words = shlex.split(command.example)
    assert (program, *words[: len(path)]) == ("dpaudit", *path)
    parent = click.Context(main, **main.context_settings)
    command.make_context(path[-1], words[len(path) :], parent)


def test_the_page_of_commands_is_current(checkout: Path) -> None:
    """`python -m tools commands` writes it."""
    assert (checkout / "docs" / "commands.md").read_text("utf-8") == page(main)


@pytest.mark.parametrize("name", MOVED)
def test_a_command_that_there_was_says_what_to_write(name: str) -> None:
    done = CliRunner().invoke(main, [name, "--whatever"])
    assert done.exit_code == 2
    assert f"write dpaudit {MOVED[name]}" in done.output
    assert MOVED[name].split()[0] in main.commands
    assert name not in main.commands

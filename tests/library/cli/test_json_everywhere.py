"""``--json`` is one option of every command, wherever it stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from dpaudit.cli.main import main

Invoke = Callable[..., Any]


@pytest.mark.parametrize("place", range(3))
def test_it_is_taken_wherever_it_stands(dpaudit: Invoke, project: Path, place: int) -> None:
    words = ["show", "held"]
    shown = dpaudit(*words[:place], "--json", *words[place:])
    assert json.loads(shown.output)["declaration"]


def test_behind_two_dashes_it_is_a_name(dpaudit: Invoke, project: Path) -> None:
    assert "--json" in dpaudit("show", "--", "--json", code=2).output


def test_no_command_defines_it_for_itself() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert "--json" not in [word for option in command.params for word in option.opts]

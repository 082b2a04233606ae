"""The page docs/commands.md: every setting, and the help of every command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from dpaudit.cli.settings import SETTINGS

COLUMNS = 100  # of the help on the page
INTRODUCTION = """# Commands and settings

An option is what most calls need; all else is a setting: `--set NAME=VALUE`. Several
may follow, as in `--set models=8 canaries=none`. The first of three that states it counts:

1. the command line;
2. `[settings]` of `dpaudit.toml`, in this folder or above it up to the project's root. It states
   what a project decides once; options of the same name take their default from there too;
3. the default.

```toml
[settings]
jobs = 2
ledger = "https://ledger.example.org/people"
label_column = "outcome"
```

An unknown name is refused, with the nearest that there is. `--set NAME` alone explains a setting.
Settings that could weaken a check are read from the line alone: a `dpaudit.toml` of somebody else
changes no verification.

`eval "$(_DPAUDIT_COMPLETE=bash_source dpaudit)"` (or `zsh_source`, `fish_source`) completes
commands, options and the names of settings.
"""
HEAD = ["| setting | value | what it is |", "|---|---|---|"]


def page(main: click.Group) -> str:
    """The page in Markdown."""
    return "\n".join([INTRODUCTION, *_settings(), *_helps(main, (), None)])


def _settings() -> Iterator[str]:
    for title, project in (("Settings of dpaudit.toml", True), ("For one call", False)):
        yield from (f"## {title}", "", *HEAD)
        for name, one in sorted(SETTINGS.items()):
            if one.project is project:
                usual = f" By default {one.default}." if one.default not in (None, "") else ""
                value = one.value.replace("|", "&#124;")
                yield f"| `{name}` | {value} | {one.help}{usual} |"
        yield ""


def _helps(command: Any, path: tuple[str, ...], parent: click.Context | None) -> Iterator[str]:
    name = path[-1] if path else "dpaudit"
    wide = {"max_content_width": COLUMNS, "terminal_width": COLUMNS}
    context = click.Context(
        command, info_name=name, parent=parent, **command.context_settings | wide
    )
    yield from (f"## {' '.join(('dpaudit', *path))}", "", "```text", command.get_help(context))
    yield from ("```", "")
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            yield from _helps(command.commands[one], (*path, one), context)

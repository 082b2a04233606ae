"""Options and helpers that commands share."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.guarantee import guarantee_in
from dpaudit.errors import InvalidParameter
from dpaudit.storage.fields import refuse_unknown

if TYPE_CHECKING:
    from dpaudit.curator.mechanism import Mechanism
    from dpaudit.project.project import Target

AS_JSON = "dpaudit.as_json"  # key of a run's settings in click's context


def as_json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``as_json``: whether ``--json`` stands anywhere on its command line."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        as_json = bool(click.get_current_context().meta.get(AS_JSON))
        return command(*args, as_json=as_json, **options)

    return run


field_option = click.option(
    "--field",
    "stated",
    multiple=True,
    metavar="NAME=TEXT",
    help="A statement for the certificate; `dpaudit fields` lists names.",
)


WIDEST_NAME = 14  # columns of a command's name in help
# Former commands, and what to write now.
MOVED = {
    "archive": "report FILE --format archive",
    "budget": "ledger total FILE...",
    "calibrate": "account FILE --budget GUARANTEE",
    "diff": "report OLD NEW --format changes",
    "plan": "release PLAN, without --data",
}


class Group(click.Group):
    """Commands, in sections of the help, with an example.

    ``sections``: names of commands by the title of their section, with blanks between.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, str] | None = None,
        example: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.sections, self.example = sections or {}, example

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section; those of none stand under "Commands"."""
        titles = {
            name: title for title, names_of in self.sections.items() for name in names_of.split()
        }
        names = sorted(self.list_commands(ctx), key=lambda name: [*titles, name].index(name))
        for title, names_of in groupby(names, key=lambda name: titles.get(name, "Commands")):
            limit = formatter.width - WIDEST_NAME
            rows = [(name, self.commands[name].get_short_help_str(limit)) for name in names_of]
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.example:
            formatter.write(f"\nExample: {self.example}\n")


class Commands(Group):
    """Commands of which each has ``--json``, taken wherever it stands before ``--``."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        shown = "With any command: JSON on standard output."
        self.params.append(click.Option(["--json"], is_flag=True, expose_value=False, help=shown))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Errors: UsageError for what was a command once, with what to write now."""
        if args[0] in MOVED and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command '{args[0]}': write dpaudit {MOVED[args[0]]}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args.index("--") if "--" in args else len(args)
        ctx.meta[AS_JSON] = "--json" in args[:own]
        words = [word for word in args[:own] if word != "--json"]
        return super().parse_args(ctx, words + args[own:])


def free_values(mechanism: Mechanism, texts: Sequence[str]) -> dict[str, int | float | Fraction]:
    """``NAME=VALUE`` texts of ``--set`` as values of a mechanism's free parameters.

    Errors: InvalidParameter for another name, with the nearest parameter or setting; for a
    parameter that is called as a setting; as :func:`read_values`.
    """
    from dpaudit.curator.parameters import parameters, read_values

    settings = set(getattr(click.get_current_context().command, "settings", ()))
    free = {parameter.name for parameter in parameters(mechanism.for_shape)}
    if both := sorted(free & settings):
        raise InvalidParameter(
            f"{mechanism.name}: its parameter {both[0]} has the name of a setting; rename it"
        )
    refuse_unknown([text.partition("=")[0] for text in texts], free | settings, mechanism.name)
    return read_values(mechanism.name, mechanism.for_shape, texts)


def echo_json(value: Any) -> None:
    """Print a value as JSON to standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


class Warnings(list[str]):
    """Sentences that were said on standard error, in order: JSON holds them too."""

    def __call__(self, text: str) -> None:
        """Say one."""
        self.append(text)
        click.echo(text, err=True)


def quiet() -> contextlib.AbstractContextManager[Any]:
    """Redirect output of a project's modules to standard error."""
    return contextlib.redirect_stdout(sys.stderr)


def resolve_target(target: str) -> Target:
    """The mechanism that a TARGET names, relative to the working folder."""
    from dpaudit.project.project import resolve

    with quiet():
        return resolve(target, Path.cwd())


def calibrate(file: Path, adjacency: str | None, budget: str, *, as_json: bool) -> None:
    """Solve for the one free symbol of the declaration in a file, so that it meets a guarantee."""
    from dpaudit.accountant.calibrate import calibrate as solve
    from dpaudit.crosscheck.interchange.files import load_declaration
    from dpaudit.exact import readable
    from dpaudit.measures.show import show_text
    from dpaudit.scope import central

    wanted = guarantee_in(budget, "--budget")
    if adjacency is None:
        raise InvalidParameter("adjacency: missing; give --set adjacency=, as in add_remove")
    solution = solve(load_declaration(file), central(adjacency), wanted)
    if as_json:
        echo_json(
            {
                "symbol": str(solution.symbol),
                "value": readable(solution.value),
                "guarantee": solution.checked.claim.text,
                "check": str(solution.checked.outcome),
                "refused": None if solution.refused is None else readable(solution.refused),
                "derivation": show_text(solution.step),
            }
        )
    else:
        click.echo(f"{solution.symbol} = {readable(solution.value)}\n{show_text(solution.step)}")

"""The command ``calibrate``, and options and helpers that commands share."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.errors import InvalidParameter
from dpaudit.storage.fields import refuse_unknown

if TYPE_CHECKING:
    from dpaudit.curator.mechanism import Mechanism
    from dpaudit.nodes import Node
    from dpaudit.project.project import Target

ADJACENCIES = ("add_remove", "replace_one", "zero_out")
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


class Commands(click.Group):
    """Commands of which each has ``--json``, taken wherever it stands before ``--``."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        shown = "With any command: JSON on standard output."
        self.params.append(click.Option(["--json"], is_flag=True, expose_value=False, help=shown))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args.index("--") if "--" in args else len(args)
        ctx.meta[AS_JSON] = "--json" in args[:own]
        kept = [word for word in args[:own] if word != "--json"]
        return super().parse_args(ctx, kept + args[own:])


adjacency_option = click.option(
    "--adjacency",
    type=click.Choice(ADJACENCIES),
    required=True,
    help="Which data sets are neighbours.",
)


def free_values(mechanism: Mechanism, texts: Sequence[str]) -> dict[str, int | float | Fraction]:
    """``NAME=VALUE`` texts of ``--set`` as values of a mechanism's free parameters.

    Errors: InvalidParameter for another name, with the nearest parameter or setting; for a
    parameter that is called as a setting; as :func:`read_values`.
    """
    from dpaudit.curator.parameters import parameters, read_values

    settings = set(getattr(click.get_current_context().command, "settings", ()))
    free = {one.name for one in parameters(mechanism.for_shape)}
    if both := sorted(free & settings):
        raise InvalidParameter(
            f"{mechanism.name}: its parameter {both[0]} has the name of a setting; rename it"
        )
    refuse_unknown([text.partition("=")[0] for text in texts], free | settings, mechanism.name)
    return read_values(mechanism.name, mechanism.for_shape, texts)


def echo_json(value: Any) -> None:
    """Print a value as JSON to standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def quiet() -> contextlib.AbstractContextManager[Any]:
    """Redirect output of a project's modules to standard error."""
    return contextlib.redirect_stdout(sys.stderr)


def resolve_target(target: str) -> Target:
    """The mechanism that a TARGET names, relative to the working folder."""
    from dpaudit.project.project import resolve

    with quiet():
        return resolve(target, Path.cwd())


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@adjacency_option
@click.option("--epsilon", type=str, help="With --delta: (epsilon, delta)-DP; alone: pure DP.")
@click.option("--delta", type=str)
@click.option("--rho", type=str, help="zCDP.")
@click.option("--mu", type=str, help="Gaussian DP.")
@as_json_option
def calibrate(
    file: Path,
    *,
    adjacency: str,
    epsilon: str | None,
    delta: str | None,
    rho: str | None,
    mu: str | None,
    as_json: bool,
) -> None:
    """Solve for the one free symbol of the declaration in FILE, so that it meets a guarantee."""
    from dpaudit.accountant.calibrate import calibrate as solve
    from dpaudit.crosscheck.interchange.files import load_declaration
    from dpaudit.exact import readable
    from dpaudit.measures.show import show_text
    from dpaudit.scope import central

    wanted = _guarantee(epsilon, delta, rho, mu)
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


def _guarantee(epsilon: str | None, delta: str | None, rho: str | None, mu: str | None) -> Node:
    from dpaudit.exact.domains import rational
    from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP

    given = {"epsilon": epsilon, "rho": rho, "mu": mu}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1 or (delta is not None and epsilon is None):
        raise InvalidParameter("give one of --epsilon (with or without --delta), --rho and --mu")
    value = rational(str(given[named[0]]), f"--{named[0]}")
    if delta is not None:
        return ApproxDP(value, rational(delta, "--delta"))
    kinds: dict[str, Callable[[Fraction], Node]] = {"epsilon": PureDP, "rho": ZCDP, "mu": GDP}
    return kinds[named[0]](value)


COMMANDS = (calibrate,)

"""The command calibrate, and what commands share."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from dpaudit.nodes import Node
    from dpaudit.project.project import Target

ADJACENCIES = ("add_remove", "replace_one", "zero_out")
as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
adjacency_option = click.option(
    "--adjacency", type=click.Choice(ADJACENCIES), required=True, help="Which data sets differ."
)


def echo_json(value: Any) -> None:
    """A value as JSON on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def quiet() -> contextlib.AbstractContextManager[Any]:
    """What a project's own modules print goes to standard error."""
    return contextlib.redirect_stdout(sys.stderr)


def resolve_target(target: str) -> Target:
    """The mechanism that a TARGET names, seen from the working folder."""
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
    """The value of the one free symbol of the declaration in FILE that meets a guarantee."""
    from dpaudit.accountant.calibrate import calibrate as solve
    from dpaudit.crosscheck.interchange.files import load_declaration
    from dpaudit.exact import readable
    from dpaudit.measures.show import show_text
    from dpaudit.scope import central

    wanted = _guarantee(epsilon, delta, rho, mu)
    found = solve(load_declaration(file), central(adjacency), wanted)
    if as_json:
        echo_json(
            {
                "symbol": str(found.symbol),
                "value": readable(found.value),
                "guarantee": found.checked.claim.text,
                "check": str(found.checked.outcome),
                "refused": None if found.refused is None else readable(found.refused),
                "derivation": show_text(found.step),
            }
        )
    else:
        click.echo(f"{found.symbol} = {readable(found.value)}\n{show_text(found.step)}")


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

"""Commands about declarations alone: rules, calibrate, corpus and score.

What other commands share is here too.
"""

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
@click.option("--markdown", is_flag=True, help="As the page docs/rules.md.")
@as_json_option
def rules(*, markdown: bool, as_json: bool) -> None:
    """Which rule covers which node in which calculus; an empty cell says why."""
    from dpaudit.measures import table

    if as_json:
        echo_json([vars(cell) for cell in table.cells()])
    elif markdown:
        click.echo(table.markdown(), nl=False)
    else:
        for cell in table.cells():
            click.echo(f"{cell.node:26} {cell.calculus:8} {cell.source or f'none: {cell.reason}'}")


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


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@as_json_option
def corpus(*, out: Path, as_json: bool) -> None:
    """Write the corpus anew: declarations with certified intervals of epsilon, as JSON lines."""
    from dpaudit.crosscheck.corpus import generate, write
    from dpaudit.crosscheck.corpus.declarations import questions

    total = sum(1 for _ in questions())
    rows = list(generate(lambda done: _progress("corpus", done, total)))
    write(rows, out)
    echo_json({"rows": len(rows), "file": str(out)}) if as_json else click.echo(f"{len(rows)} rows")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@as_json_option
def score(file: Path | None, *, as_json: bool) -> None:
    """Score the installed accountants on the shipped corpus, or on the one in FILE."""
    from dpaudit.crosscheck.corpus import read, shipped
    from dpaudit.crosscheck.corpus.score import ACCOUNTANTS, within_limits
    from dpaudit.crosscheck.corpus.score import score as scored

    rows = shipped() if file is None else read(_text(file))
    found = []
    for done, name in enumerate(ACCOUNTANTS, start=1):
        with within_limits(name) as accountant:
            found.append(scored(name, accountant, rows).table())
        _progress("score", done, len(ACCOUNTANTS))
    if as_json:
        echo_json(found)
        return
    for row in found:
        click.echo(
            f"{row['accountant']:38} {row['answered']:4} answered of {row['rows']}, "
            f"{row['gave_up']} too slow or too large, "
            f"{row['wrong']} below the truth, {row['infinite']} infinite, "
            f"median excess {row['excess']}, {row['seconds']} s"
        )


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidParameter(f"{file}: {type(error).__name__}; give a corpus file") from None


def _progress(name: str, done: int, total: int) -> None:
    click.echo(f"{name}: {done}/{total}", err=True)


COMMANDS = (rules, calibrate, corpus, score)

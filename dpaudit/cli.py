"""The command line: every command takes ``--json``, writes progress to stderr, and exits by code.

0 certified or verified, 1 refuted or verification failed, 2 usage, 3 inconclusive, 4 unsupported,
5 alarm, 70 an error nobody foresaw.  Heavy imports happen inside commands.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpaudit import __version__
from dpaudit.audit.blackbox.command import attack as attack_command
from dpaudit.commands import COMMANDS
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.mutate.command import mutate_command

if TYPE_CHECKING:
    from dpaudit.certify import Certified, Order
    from dpaudit.project import Target

INTERRUPTED = 130
INTERNAL = 70
LONGEST_ERROR = 600
TRACEBACK = "DPAUDIT_TRACEBACK"
Command = TypeVar("Command", bound=Callable[..., Any])


class Interface(click.Group):
    """Turns every error made on purpose into one line and its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DpauditError as error:
            click.echo(f"dpaudit: {_one_line(error)}", err=True)
            ctx.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            click.echo(
                "dpaudit: interrupted; a `dpaudit certify` with --seed resumes where it stopped",
                err=True,
            )
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            click.echo(f"dpaudit: {_unforeseen(error)}", err=True)
            ctx.exit(INTERNAL)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 3]}..."


def _unforeseen(error: Exception) -> str:
    """Kind and place of an error, without its message, which may quote private data."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__} at {last.filename}:{last.lineno}; its text may quote data and is "
        f"left out, {TRACEBACK}=1 shows it"
    )


@click.group(cls=Interface, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpaudit")
def main() -> None:
    """Differential privacy, accounted, run and attacked from one declaration.

    A TARGET is a name from `dpaudit list`, `catalogue:NAME`, or `path/to/file.py::NAME`.
    """


def _json(command: Command) -> Command:
    option = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
    return option(command)


def _audited(command: Command) -> Command:
    options = (
        click.option("--seed", type=click.IntRange(0, 2**128 - 1), help="Seed of every draw."),
        click.option("--jobs", type=click.IntRange(1, 1024), default=1, help="Worker processes."),
        click.option("--trials", type=click.IntRange(2, 10**9), help="Test trials a side."),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, command)


def _out(help_text: str) -> Callable[[Command], Command]:
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("reports"),
        show_default=True,
        help=help_text,
    )


def _resolve(target: str) -> Target:
    from dpaudit.project import resolve

    with _quiet():
        return resolve(target, Path.cwd())


def _quiet() -> contextlib.AbstractContextManager[Any]:
    """What a project's own modules print goes to standard error."""
    return contextlib.redirect_stdout(sys.stderr)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


@main.command("list")
@_json
def list_command(*, as_json: bool) -> None:
    """Mechanisms of the project at or above this folder, and of the shipped catalogue."""
    from dpaudit import terminal
    from dpaudit.project import catalogue_root, find_root, foreign_catalogue, load, rows

    root = find_root(Path.cwd())
    shipped = catalogue_root()
    with _quiet():
        own = rows(load(root))
    here = "project" if root != shipped else "catalogue"
    listed = [(here, row) for row in own]
    if root != shipped:
        listed += [("catalogue", row) for row in foreign_catalogue(shipped)]
    table = [
        {
            "name": row.name,
            "target": row.name if where == here else f"catalogue:{row.name}",
            "title": row.title,
            "paper": row.source,
            "scope": row.scope,
            "claims": list(row.claims),
            "root": where,
        }
        for where, row in listed
    ]
    _print_json(table) if as_json else terminal.catalogue(table)


@main.command()
@click.argument("target")
@click.option("--latex", is_flag=True, help="The derivation as LaTeX.")
@click.option("--calculus", help="pure, approx, zcdp, rdp or gdp; all that apply by default.")
@_json
def show(target: str, *, latex: bool, calculus: str | None, as_json: bool) -> None:
    """Declaration and derivation of TARGET, each line with its source."""
    from dpaudit import terminal
    from dpaudit.account import Account
    from dpaudit.rules.show import show_latex, show_text

    mechanism = _resolve(target).mechanism
    account = Account(mechanism.declaration, mechanism.scope)
    chosen = [calculus] if calculus else account.routes()
    text = show_latex if latex else show_text
    derivations = {name: text(account.step(name)) for name in chosen}
    checks = [str(claim.check_account(account)) for claim in mechanism.claims]
    if as_json:
        declaration = repr(mechanism.declaration)
        _print_json({"declaration": declaration, "derivations": derivations, "claims": checks})
    else:
        terminal.derivation(mechanism, derivations, checks)


@main.command()
@click.argument("target")
@click.option("--delta", type=str, help="Also epsilon at this delta.")
@_json
def account(target: str, *, delta: str | None, as_json: bool) -> None:
    """What the declaration of TARGET guarantees, as numbers rounded outward."""
    from dpaudit import terminal
    from dpaudit.account import account_table

    mechanism = _resolve(target).mechanism
    numbers = account_table(mechanism.declaration, mechanism.scope, delta)
    table = {"name": mechanism.name, **numbers}
    _print_json(table) if as_json else terminal.account(table)


@main.command()
@click.argument("targets", nargs=-1, required=True)
@_audited
@_json
def audit(
    targets: tuple[str, ...], *, seed: int | None, jobs: int, trials: int | None, as_json: bool
) -> None:
    """Attack TARGETS and judge their claims; touches no data and writes no file."""
    from dpaudit import terminal

    orders = [_without_data(order) for order in _orders(targets)]
    results = _certify(targets, orders, seed, jobs, trials, None)
    rows = [_audit_row(certified) for certified in results]
    _print_json(rows) if as_json else terminal.verdicts(results)
    _exit(results)


@main.command()
@click.argument("targets", nargs=-1, required=True)
@_audited
@_out("Folder for certificates and pages; finished batches are kept here until the end.")
@_json
def certify(
    targets: tuple[str, ...],
    *,
    seed: int | None,
    jobs: int,
    trials: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """Account, run, attack and certify TARGETS; writes NAME.json and NAME.html."""
    from dpaudit import publish, terminal

    orders = _orders(targets)
    _distinct(orders)
    publish.writable(out)
    results = _certify(targets, orders, seed, jobs, trials, out / ".audits")
    written = publish.write(results, out)
    publish.clean(results, out / ".audits")
    rows = [
        {**_audit_row(c), "certificate": str(w.certificate), "page": str(w.page)}
        for c, w in zip(results, written, strict=True)
    ]
    _print_json(rows) if as_json else terminal.verdicts(results, written)
    _exit(results)


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_json
def verify(files: tuple[Path, ...], *, as_json: bool) -> None:
    """Re-derive certificates from their witnesses, without the accountant."""
    from dpaudit import terminal
    from dpaudit.publish import verify_file

    rows = [verify_file(path) for path in files]
    _print_json(rows) if as_json else terminal.verified(rows)
    if not all(row["verified"] for row in rows):
        sys.exit(1)


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_out("Folder for the pages.")
@_json
def report(files: tuple[Path, ...], *, out: Path, as_json: bool) -> None:
    """Render certificates as single-file HTML pages, after verifying them."""
    from dpaudit import publish

    publish.writable(out)
    pages = [{"certificate": str(path), "page": str(publish.render(path, out))} for path in files]
    _print_json(pages) if as_json else click.echo("\n".join(row["page"] for row in pages))


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--with", "copied", help="Copy a shipped mechanism's files, e.g. diff2.")
@_json
def init(folder: Path, *, copied: str | None, as_json: bool) -> None:
    """Start a project: mechanisms/ and audits/, with a first mechanism or a shipped one."""
    from dpaudit.scaffold import start

    written = [str(path) for path in start(folder, copied)]
    if as_json:
        _print_json({"folder": str(folder), "written": written})
    else:
        enter = "" if folder == Path() else f"cd {folder} && "
        click.echo("\n".join([*written, f"next: {enter}dpaudit list"]))


for command in (*COMMANDS, attack_command, mutate_command):
    main.add_command(command)


def _certify(
    targets: Sequence[str],
    orders: Sequence[Order],
    seed: int | None,
    jobs: int,
    trials: int | None,
    store: Path | None,
) -> list[Certified]:
    from dpaudit.certify import Options
    from dpaudit.certify import certify as run
    from dpaudit.terminal import progress

    with progress() as report_progress, _quiet():
        options = Options(
            seed=seed,
            trials=trials,
            jobs=jobs,
            store=store,
            targets=tuple(targets),
            progress=report_progress,
        )
        return run(orders, options)


def _orders(targets: Sequence[str]) -> list[Order]:
    return [_order(target) for target in targets]


def _without_data(order: Order) -> Order:
    return replace(order, mechanism=replace(order.mechanism, records=None))


def _distinct(orders: Sequence[Order]) -> None:
    """Errors: InvalidParameter for two targets that would write the same files."""
    names = [order.mechanism.name for order in orders]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(f"two targets are of {name!r}: certify them one at a time")


def _order(target: str) -> Order:
    from dpaudit.certify import Order
    from dpaudit.project import catalogue_root, digests

    found = _resolve(target)
    root = "catalogue" if found.project.root == catalogue_root() else "project"
    return Order(found.mechanism, found.suite, root, digests(found.project.root))


def _audit_row(certified: Certified) -> dict[str, Any]:
    predicate = certified.certificate["predicate"]
    return {
        "name": certified.mechanism.name,
        "verdict": str(certified.verdict),
        "reasons": predicate["verdict"]["reasons"],
        "claims": [
            {
                "claim": row["stated_text"],
                "reading": row["reading"],
                "check": row["check"],
                "upper": row["upper"],
                "lower": row["lower"],
                "lower_conditional": row["lower_conditional"],
                "verdict": row["verdict"],
            }
            for row in predicate["claims"]
        ],
        "conformance": [row for row in predicate["conformance"] if row["status"] != "held"],
        "seed": predicate["reproduce"]["root_seed"],
    }


def _exit(results: Sequence[Certified]) -> None:
    from dpaudit.audit.verdict import EXIT_CODES, overall

    sys.exit(EXIT_CODES[overall([certified.verdict for certified in results])])

"""The command line: every command takes ``--json``, writes progress to stderr, and exits by code.

Exit codes: 0 certified or verified, 1 refuted or verification failed, 2 usage, 3 inconclusive,
4 unsupported, 5 alarm, 6 unconfirmed, 70 an unexpected error; `certify --all`: 0 if all verdicts
are as expected.
Commands import heavy modules only when they run, so that the command line starts quickly.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.audit_commands import AUDIT_COMMANDS
from dpaudit.cli.commands import (
    Commands,
    as_json_option,
    calibrate,
    echo_json,
    quiet,
    resolve_target,
)
from dpaudit.cli.compare_command import compare_command
from dpaudit.cli.compliance_commands import COMPLIANCE_COMMANDS
from dpaudit.cli.fields_command import fields
from dpaudit.cli.mutate import mutate_command
from dpaudit.cli.release_commands import RELEASE_COMMANDS
from dpaudit.cli.run_command import run
from dpaudit.cli.settings import Command, on_line
from dpaudit.cli.verify import verify
from dpaudit.errors import (
    LEFT_OUT,
    TRACEBACK,
    DpauditError,
    UnknownName,
    described,
    exit_code,
    missing_extra,
)
from dpaudit.version import __version__

if TYPE_CHECKING:
    from dpaudit.project.project import Row

FACTS = ("adjacency", "unit", "records", "sensitivity")  # that --history may leave open
INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT


class Interface(Commands):
    """Turns errors into one line and an exit code; texts of unexpected errors may quote data.

    ``resumes``: what an interrupted command is told of going on, if anything.
    """

    def __init__(self, *args: Any, resumes: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.resumes = resumes

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; print an error as one line, and exit with its code."""
        try:
            return super().invoke(ctx)
        except DpauditError as error:
            if os.environ.get(TRACEBACK) and error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            click.echo(f"dpaudit: {described(error)}", err=True)
            ctx.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            click.echo("; ".join(filter(None, ("dpaudit: interrupted", self.resumes))), err=True)
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            is_complete = isinstance(error, OSError | UnknownName) or missing_extra(error)
            left_out = "" if is_complete else f"; {LEFT_OUT}"
            click.echo(f"dpaudit: {described(error)}{left_out}", err=True)
            ctx.exit(exit_code(error))


SECTIONS = {
    "A project": "init list show fields",
    "Guarantees": "account audit mutate compare",
    "Certificates": "certify run verify report sign check",
    "Tables and budgets": "release ledger",
}


@click.group(
    cls=Interface,
    resumes="a `dpaudit certify` with --seed resumes where it stopped",
    sections=SECTIONS,
    example="dpaudit certify noisy_mean --seed 1",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="dpaudit")
def main() -> None:
    """Differential privacy, accounted, run and attacked from one declaration.

    A TARGET is a name from `dpaudit list`, `catalogue:NAME`, or `path/to/file.py::NAME`.
    Settings (--set) have an order: the line, [settings] of dpaudit.toml, the default.
    """


@main.command("list", cls=Command, example="dpaudit list gaussian sgd")
@click.argument("words", nargs=-1)
@as_json_option
def list_command(words: tuple[str, ...], *, as_json: bool) -> None:
    """Mechanisms of the project at or above this folder, then those of the shipped catalogue.

    With WORDS: the mechanisms whose name, title, source or claims contain every word, with claims.

    Like all commands that take a name, this imports every module of the project and so runs its
    top-level code.  Do not list a project that you would not run.
    """
    from dpaudit.cli import terminal
    from dpaudit.project.project import catalogue_root, find_root, foreign_catalogue, load, rows

    root = find_root(Path.cwd())
    shipped = catalogue_root()
    with quiet():
        local_rows = rows(load(root))
    own_place = "project" if root != shipped else "catalogue"
    listed = [(own_place, row) for row in local_rows]
    if root != shipped:
        listed += [("catalogue", row) for row in foreign_catalogue(shipped)]
    table = [
        {
            "name": row.name,
            "target": row.name if where == own_place else f"catalogue:{row.name}",
            "title": row.title,
            "paper": row.source,
            "scope": row.scope,
            "claims": [asdict(claim) for claim in row.claims],
            "root": where,
            "error": row.error,
        }
        for where, row in listed
        if _holds(row, words)
    ]
    echo_json(table) if as_json else terminal.catalogue(table, filtered=bool(words))


def _holds(row: Row, words: tuple[str, ...]) -> bool:
    """Whether a row contains every word, ignoring case; rows with an error are always shown."""
    claims = (f"{claim.claim} {claim.by} {claim.reading}" for claim in row.claims)
    text = " ".join([row.name, row.title, row.source, row.scope, *claims]).casefold()
    return bool(row.error) or all(word.casefold() in text for word in words)


@main.command(cls=Command, example="dpaudit show noisy_mean --calculus gdp")
@click.argument("target")
@click.option("--latex", is_flag=True, help="The derivations as a LaTeX document that compiles.")
@click.option("--calculus", help="pure, approx, zcdp, rdp or gdp; all that apply by default.")
@as_json_option
def show(target: str, *, latex: bool, calculus: str | None, as_json: bool) -> None:
    """Declaration and derivation of TARGET, each line with its source, and its free parameters."""
    from dpaudit.accountant.account import Account
    from dpaudit.cli import terminal
    from dpaudit.curator.parameters import parameters
    from dpaudit.measures.show import latex_document, show_latex, show_text

    mechanism = resolve_target(target).mechanism
    account = Account(mechanism.declaration, mechanism.scope)
    chosen = [calculus] if calculus else account.routes()
    steps = {name: account.step(name) for name in chosen}
    checks = [str(claim.check_account(account)) for claim in mechanism.claims]
    if latex and not as_json:
        click.echo(latex_document(f"{mechanism.title}, {mechanism.scope}", steps, checks), nl=False)
        return
    text = show_latex if latex else show_text
    derivations = {name: text(step) for name, step in steps.items()}
    if as_json:
        declaration = repr(mechanism.declaration)
        rows = [
            {
                "name": parameter.name,
                "default": parameter.default_text,
                "unit": parameter.free.unit,
                "cost": parameter.free.cost.value,
            }
            for parameter in parameters(mechanism.for_shape)
        ]
        shown = {"declaration": declaration, "derivations": derivations, "claims": checks}
        echo_json(shown | {"parameters": rows})
    else:
        terminal.derivation(mechanism, derivations, checks)


@main.command(
    cls=Command, example="dpaudit account --dp-sgd 'n=6000 batch=60 epochs=9 sigma=1' --points 3"
)
@click.argument("target", required=False)
@click.option("--delta", type=str, help="Also epsilon at this delta.")
@click.option(
    "--dp-sgd",
    type=str,
    metavar="RUN",
    help="A training run instead of a target: n, batch, epochs, sigma, and sampling=poisson, "
    "fixed, allocation, shuffled, kept or cyclic.",
)
@click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The history of a run from another library, as JSON, instead of a target.",
)
@click.option(
    "--budget",
    metavar="GUARANTEE",
    help="TARGET is a JSON file: solve its one free symbol for this.",
)
@click.option("--points", type=int, help="A table of epsilon over the steps, of so many rows.")
@click.option(
    "--sigma-for",
    metavar="EPSILONS",
    help="With --dp-sgd: the sigma that each epsilon needs; sigma= may be left out.",
)
@click.option("--figure", type=click.Path(path_type=Path), help="The table as an SVG figure.")
@as_json_option
def account(
    target: str | None,
    *,
    delta: str | None,
    dp_sgd: str | None,
    history: Path | None,
    budget: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """The guarantees of TARGET's declaration, as numbers rounded outward.

    With --budget: the value of the one free symbol of the declaration in a JSON file TARGET, for
    which it meets the guarantee: EPSILON, 'epsilon=1 delta=1e-6', rho=RHO or mu=MU.
    """
    from dpaudit.accountant.account import account_table
    from dpaudit.cli import terminal
    from dpaudit.cli.curves import RUN, curves

    if sum(given is not None for given in (target, dp_sgd, history)) != 1:
        raise click.UsageError(
            "expected a TARGET, or --dp-sgd with the settings of a run, or --history"
        )
    given = {name: asked.pop(name) for name in ("library", "batches", *FACTS)}
    if budget is not None:
        if target is None or delta or any(asked.values()):
            raise click.UsageError(
                "--budget: give a declaration's JSON file as TARGET, and adjacency="
            )
        calibrate(Path(target), given["adjacency"], budget, as_json=as_json)
        return
    if history is None and (others := [name for name in given if on_line(name)]):
        raise click.UsageError(
            f"{others[0]} needs --history; for --dp-sgd, state how batches are drawn by sampling="
        )
    if dp_sgd is not None:
        from dpaudit.accountant.recipes import from_settings, settings_in

        if asked["sigma_for"] is not None and "sigma" not in settings_in(dp_sgd, RUN):
            table = {"name": "dp-sgd", **curves(None, None, delta, dp_sgd, **asked)}
            echo_json(table) if as_json else terminal.account(table)
            return
        name, declaration, scope = "dp-sgd", *from_settings(dp_sgd)
    elif history is not None:
        from dpaudit.crosscheck.interchange.histories import loader_warning, read_history
        from dpaudit.crosscheck.interchange.stated import Stated

        stated = Stated.of(**{name: given[name] for name in FACTS if on_line(name)})
        name, declaration, scope = str(history), *read_history(history, given["library"], stated)
        warning = loader_warning(declaration, given["batches"] or "poisson", delta or "1e-5")
        if warning:
            click.echo(f"WARNING: {warning}", err=True)
    else:
        mechanism = resolve_target(str(target)).mechanism
        name, declaration, scope = mechanism.name, mechanism.declaration, mechanism.scope
    table = {"name": name, **account_table(declaration, scope, delta)}
    table |= curves(declaration, scope, delta, dp_sgd, **asked)
    echo_json(table) if as_json else terminal.account(table)


@main.command(cls=Command, example="dpaudit init my-project --with noisy_count")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--with", "copied", help="Copy a shipped mechanism's files, e.g. noisy_count.")
@as_json_option
def init(folder: Path, *, copied: str | None, as_json: bool) -> None:
    """Start a project: mechanisms/ and audits/, with a first mechanism or a shipped one."""
    from dpaudit.project.scaffold import start

    written = [str(path) for path in start(folder, copied)]
    if as_json:
        echo_json({"folder": str(folder), "written": written})
    else:
        enter = "" if folder == Path() else f"cd {folder} && "
        click.echo("\n".join([*written, f"next: {enter}dpaudit list"]))


for command in (
    *AUDIT_COMMANDS,
    verify,
    *COMPLIANCE_COMMANDS,
    *RELEASE_COMMANDS,
    fields,
    mutate_command,
    run,
    compare_command,
):
    main.add_command(command)

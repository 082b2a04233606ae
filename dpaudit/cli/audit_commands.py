"""The commands ``audit`` and ``certify``."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpaudit.cli import settings
from dpaudit.cli.blackbox import audit_named, is_function
from dpaudit.cli.commands import (
    as_json_option,
    echo_json,
    field_option,
    free_values,
    quiet,
    resolve_target,
)
from dpaudit.cli.membership import OWN, audit_membership, membership_options, refuse_others
from dpaudit.errors import TRACEBACK, InvalidParameter, UnknownTarget, described, exit_code

if TYPE_CHECKING:
    from dpaudit.certificate.certify import Certified
    from dpaudit.certificate.order import Options, Order, Run
    from dpaudit.certificate.previous import Opened
    from dpaudit.certificate.publish import Failed, Finished
    from dpaudit.curator.mechanism import Mechanism
    from dpaudit.project.project import Project
    from dpaudit.storage.fields import ProjectFields

Command = TypeVar("Command", bound=Callable[..., Any])


def _audited(command: Command) -> Command:
    options = map(settings.option, ("seed", "jobs", "trials"))
    return functools.reduce(lambda wrapped, option: option(wrapped), options, command)


def _out(help_text: str) -> Callable[[Command], Command]:
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("reports"),
        show_default=True,
        help=help_text,
    )


@click.command(cls=settings.Command, example="dpaudit audit noisy_mean --seed 1 --trials 20000")
@click.argument("targets", nargs=-1)
@_audited
@click.option(
    "--method",
    type=click.Choice(["plain", "likelihood", "both"]),
    metavar="NAME",
    help="Declared mechanisms: plain, likelihood or both.",
)
@membership_options
@as_json_option
def audit(targets: tuple[str, ...], *, as_json: bool, method: str | None, **given: Any) -> None:
    """Attack TARGETS and judge their claims; reads no private data and writes no file.

    TARGETS are declared mechanisms, or one of: MODULE:FUNCTION D0 D1, a random function on two JSON
    data sets, with --claim; --command PROGRAM D0 D1, http://... D0 D1 or QUERY.sql D0 D1;
    MODULE:FIT --data FILE, membership inference; --step, --scores and --reproduce take no TARGET.
    """
    from dpaudit.certificate.order import plan
    from dpaudit.certificate.publish import Failed, guarded
    from dpaudit.cli import terminal

    trained = any(given[name] for name in ("data", "scores", "step", "reproduce"))
    foreign = given["command"] is not None
    draws = foreign or bool(targets and is_function(targets[0]))
    declared = not (trained or draws)
    if method is not None and not declared:
        raise click.UsageError("--method: only for declared mechanisms.")
    if trained:
        audit_membership(targets, given, as_json=as_json)
    if not targets and not foreign:
        raise click.UsageError("Missing argument 'TARGETS...', or --scores.")
    if draws:
        audit_named(targets, given, as_json=as_json)
    if given["claim"] is not None:
        raise click.UsageError(
            "--claim: not for declared mechanisms, which have claims of their own."
        )
    refuse_others(OWN, "not for declared mechanisms.")
    given = {name: value for name, value in given.items() if name not in OWN}
    given["method"] = method or "both"
    with terminal.progress() as report_progress, quiet():
        orders, failed = _orders(targets, lambda target: _without_data(order_of(target)))
        run = plan(orders, _options(targets, given, None, report_progress))
        judged = [guarded(_only_judged, run, index, Path()) for index in range(len(run.orders))]
    done = [result for result in judged if not isinstance(result, Failed)]
    failed += [result for result in judged if isinstance(result, Failed)]
    _raise_alone(targets, failed)
    certificates = [result.certificate for result in done]
    if as_json:
        echo_json([*map(_row, certificates), *map(_row_of_all, failed)])
    else:
        terminal.verdicts(certificates)
        _warn(failed)
    sys.exit(_gravest(certificates, failed))


@click.command(cls=settings.Command, example="dpaudit certify noisy_mean --seed 1", further=True)
@click.argument("targets", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every mechanism of the project.")
@_audited
@_out("Folder for certificates and pages; keeps finished batches.")
@click.option("--run-unproved", is_flag=True, help="Run although a claim is refuted or unproved.")
@click.option("--uncovered", is_flag=True, help="Also print metrics outside the guarantee, marked.")
@click.option("--shape", help="For records of this shape, such as 500,11, without data.")
@field_option
@as_json_option
def certify(
    targets: tuple[str, ...],
    *,
    everything: bool,
    out: Path,
    shape: str | None,
    values: tuple[str, ...],
    stated: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Account, attack, certify and run TARGETS; writes NAME.json and NAME.html.

    A mechanism runs on its data once all its claims are proved.  Without --seed this is a release:
    the output goes to NAME.npz, and no file is overwritten.  A metric that records change is
    outside the guarantee and is not printed.

    --all is for every mechanism of the project; with --seed it keeps certificates that an earlier
    run made from the same sources.  It exits with 0 if every verdict is as expected.
    """
    from dpaudit.certificate import publish
    from dpaudit.certificate.order import plan
    from dpaudit.certificate.previous import Opened
    from dpaudit.cli import terminal
    from dpaudit.storage.fields import fields_given

    if everything == bool(targets) or (everything and shape):
        problem = (
            "--all excludes targets and --shape"
            if everything
            else "Missing argument 'TARGETS...', or --all"
        )
        raise click.UsageError(f"{problem}: give either targets or --all.")
    if everything and shape is not None:
        raise click.UsageError("--shape: give the targets that are made for other records.")
    if everything:
        _certify_all(given, out, fields_given(stated), as_json=as_json)
    ordered = partial(order_of, stated=fields_given(stated))
    make: Callable[[str], Order] = ordered
    if values and shape is None:
        raise click.UsageError("--set: give --shape too, the records that it is certified for.")
    if shape is not None:

        def make(target: str) -> Order:
            return shaped(ordered(target), shape, values)

    given["keep"] = publish.keeper(out)
    with terminal.progress(ends=len(targets) == 1) as report_progress, quiet():
        orders, failed = _orders(targets, make)
        _raise_alone(targets, failed)
        _distinct(orders)
        publish.places_for([order.mechanism.name for order in orders], out)
        words = tuple(word for text in values for word in ("--set", text))
        named = targets if shape is None else (*targets, "--shape", shape, *words)
        run = plan(orders, _options(named, given, out / ".audits", report_progress))
        opened = Opened()
        results = [*_each(run, out, keep=False, opened=opened), *failed]
    done = [result for result in results if isinstance(result, publish.Finished)]
    failed = [result for result in results if isinstance(result, publish.Failed)]
    if done:
        checked = {result.files.certificate: dict(result.certificate) for result in done}
        publish.index_of(out, checked, opened)
    _raise_alone(targets, failed)
    certificates = [result.certificate for result in done]
    if as_json:
        echo_json(list(map(_row_of_all, results)))
    else:
        terminal.verdicts(certificates, [result.files for result in done])
        _warn(failed)
    sys.exit(_gravest(certificates, failed))


AUDIT_COMMANDS = (audit, certify)  # what this module adds to the command line


# --- some targets --------------------------------------------------------------------------------


def _orders(
    targets: Sequence[str], make: Callable[[str], Order]
) -> tuple[list[Order], list[Failed]]:
    """The orders of the targets, and the targets that there is no order for."""
    from dpaudit.certificate.publish import Failed

    orders: list[Order] = []
    failed: list[Failed] = []
    for target in targets:
        try:
            orders.append(make(target))
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            failed.append(Failed(target, error))
    return orders, failed


def _only_judged(run: Run, index: int, _out: Path) -> Certified:
    from dpaudit.certificate.certify import certify_one

    return certify_one(run, index)


def _raise_alone(targets: Sequence[str], failed: Sequence[Failed]) -> None:
    """Errors: of the only target."""
    if len(targets) == 1 and failed:
        raise failed[0].error


def _warn(failed: Sequence[Failed]) -> None:
    from dpaudit.cli import terminal

    for failure in failed:
        terminal.warn(f"{failure.name}: not certified: {described(failure.error)}")


def _gravest(certificates: Sequence[Mapping[str, Any]], failed: Sequence[Failed]) -> int:
    """The exit code of some targets: the largest of an error, else of the gravest verdict."""
    from dpaudit.audit.verdict import EXIT_CODES, Verdict, overall

    if failed:
        return max(_code(result.error) for result in failed)
    verdicts = [Verdict(result["predicate"]["verdict"]["status"]) for result in certificates]
    return EXIT_CODES[overall(verdicts)]


def _code(error: Exception) -> int:
    return exit_code(error)


def _options(
    targets: Sequence[str], given: Mapping[str, Any], store: Path | None, progress: Any
) -> Options:
    from dpaudit.certificate.order import Options

    return Options(**given, store=store, targets=tuple(targets), progress=progress)


def _without_data(order: Order) -> Order:
    return replace(order, mechanism=replace(order.mechanism, records=None))


def _distinct(orders: Sequence[Order]) -> None:
    """Errors: InvalidParameter for two targets that would write the same files."""
    names = [order.mechanism.name for order in orders]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(f"two targets name {name!r}: certify them one at a time")


def order_of(
    target: str, stated: Mapping[str, list[str]] | None = None, *, own_data: bool = False
) -> Order:
    """The order for a TARGET: a mechanism with its suite and sources, or a release plan.

    ``stated``: fields that replace those of dpaudit.toml.  ``own_data``: it runs on data of whoever
    asks, for whom the catalogue's file does not speak.
    """
    from dpaudit.project.project import catalogue_root, suite_of
    from dpaudit.storage.fields import stated_above, stated_in

    if target.endswith(".toml"):
        # A release plan, attacked on generated tables.
        from dpaudit.releases import attacked
        from dpaudit.releases.plan import load_plan

        return attacked.order_of(load_plan(Path(target), stated or {}).plan())
    resolved = resolve_target(target)
    project = resolved.project
    if own_data and project.root == catalogue_root():
        statement = stated_above(Path.cwd())
    else:
        statement = stated_in(project.root, project.mechanisms, Path.cwd())
    suite = resolved.suite or suite_of(project, resolved.mechanism)
    return _ordered(project, resolved.mechanism, suite, statement, stated)


def _ordered(
    project: Project, mechanism: Mechanism, suite: Any, statement: ProjectFields, stated: Any
) -> Order:
    """The order for a mechanism; the fields ``stated`` replace those of its file, ``found``."""
    from dpaudit.certificate.order import Order
    from dpaudit.project.project import catalogue_root, implementation, place, suite_file
    from dpaudit.storage.fields import merged

    return Order(
        mechanism,
        suite,
        "catalogue" if project.root == catalogue_root() else "project",
        implementation(project, mechanism, suite),
        merged(statement.of(mechanism.name), stated or {}),
        place(project, mechanism),
        suite_file=suite_file(project, suite),
    )


def _row(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """A certificate as ``certify --json`` prints it."""
    predicate = certificate["predicate"]
    return {
        "name": predicate["mechanism"]["name"],
        "verdict": predicate["verdict"]["status"],
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
        "caveats": predicate["caveats"],
        "seed": predicate["reproduce"]["root_seed"],
    }


# --- all of a project ----------------------------------------------------------------------------


def _certify_all(
    given: Mapping[str, Any], out: Path, stated: Mapping[str, list[str]], *, as_json: bool
) -> None:
    from dpaudit.certificate import publish
    from dpaudit.certificate.order import plan
    from dpaudit.cli.terminal import progress

    with progress(ends=False) as report_progress, quiet():
        orders, refused = _every_order(stated)
        publish.places_for([order.mechanism.name for order in orders], out)
        given = {**given, "keep": publish.keeper(out)}
        run = plan(orders, _options(["--all"], given, out / ".audits", report_progress))
        made = _each(run, out, keep=True)
        results = sorted([*made, *refused], key=lambda result: result.name)
    index = publish.write_index(results, out)
    if as_json:
        echo_json([_row_of_all(result) for result in results])
    else:
        _show_all(results, index)
    sys.exit(_exit_code(results))


def shaped(order: Order, shape: str, given: Sequence[str]) -> Order:
    """The order for records of a shape, as text, at values ``KEY=VALUE`` of free parameters.

    Errors: InvalidParameter for a shape or a value that the mechanism does not have.
    """
    from dpaudit.certificate.training import of_shape, read_shape

    return of_shape(order, *read_shape(shape), free_values(order.mechanism, given))


def orders_of(targets: Sequence[str]) -> list[Order]:
    """The orders of some targets; without targets, of every mechanism of the project."""
    return list(map(order_of, targets)) if targets else _every_order()[0]


def _every_order(given: Mapping[str, list[str]] | None = None) -> tuple[list[Order], list[Failed]]:
    """An order for each mechanism of the project, and the files and suites not loaded.

    Errors: UnknownTarget for a project without mechanisms.
    """
    from dpaudit.certificate.publish import Failed
    from dpaudit.project.project import find_root, load, suite_of
    from dpaudit.storage.fields import stated_in

    project = load(find_root(Path.cwd()))
    refused = [Failed(where, UnknownTarget(why)) for where, why in project.refused.items()]
    if not project.mechanisms and not refused:
        raise UnknownTarget(f"{project.root} holds no mechanism; start one with `dpaudit init`")
    statements, orders = stated_in(project.root, project.mechanisms, Path.cwd()), []
    for _, mechanism in sorted(project.mechanisms.items()):
        try:
            suite = suite_of(project, mechanism)
        except UnknownTarget as error:
            refused.append(Failed(mechanism.name, error))
            continue
        orders.append(_ordered(project, mechanism, suite, statements, given))
    return orders, refused


def _each(
    run: Run, out: Path, *, keep: bool, opened: Opened | None = None
) -> list[Finished | Failed]:
    """Certify all mechanisms of a run; returns results in its order.

    Prints a line to standard error as each of several is finished.
    """
    from dpaudit.certificate.publish import Finished, certify_each

    places = [order.mechanism.name for order in run.orders]
    results: list[Finished | Failed] = []
    for result in certify_each(run, out, keep=keep, opened=opened):
        results.append(result)
        if len(places) == 1 and not keep:
            continue
        summary = _said(result) if isinstance(result, Finished) else described(result.error)
        click.echo(f"{len(results)} of {len(places)}, {result.name}: {summary}", err=True)
    return sorted(results, key=lambda result: places.index(result.name))


def _said(result: Finished) -> str:
    verdict = result.certificate["predicate"]["verdict"]["status"].replace("_", " ")
    return f"{verdict}{', kept' if result.kept else ''}"


def _row_of_all(result: Finished | Failed) -> dict[str, Any]:
    from dpaudit.certificate.publish import Finished

    if not isinstance(result, Finished):
        return {"name": result.name, "error": described(result.error)}
    return {
        **_row(result.certificate),
        "certificate": str(result.files.certificate),
        "page": str(result.files.page),
        "kept": result.kept,
        "surprises": list(result.surprises),
    }


def _show_all(results: Sequence[Finished | Failed], index: Path) -> None:
    from dpaudit.certificate.publish import Finished
    from dpaudit.cli import terminal

    finished = [result for result in results if isinstance(result, Finished)]
    terminal.verdicts([result.certificate for result in finished])
    for result in results:
        for line in (
            result.surprises if isinstance(result, Finished) else (described(result.error),)
        ):
            terminal.warn(f"{result.name}: {line}")
    click.echo(index)


def _exit_code(results: Sequence[Finished | Failed]) -> int:
    """The exit code: 0 if all verdicts are as expected.

    Otherwise the largest code of an error, or the code of the gravest unexpected verdict, or 1 if
    that code is 0.
    """
    from dpaudit.audit.verdict import EXIT_CODES, Verdict, overall
    from dpaudit.certificate.publish import Finished

    codes = [_code(result.error) for result in results if not isinstance(result, Finished)]
    if codes:
        return max(codes)
    surprising = [
        Verdict(result.certificate["predicate"]["verdict"]["status"])
        for result in results
        if isinstance(result, Finished) and result.surprises
    ]
    return (EXIT_CODES[overall(surprising)] or 1) if surprising else 0

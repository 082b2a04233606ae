"""The command that plans and publishes releases of tables, and the commands on ledgers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.commands import Group, as_json_option, echo_json, field_option
from dpaudit.cli.guarantee import caps_in
from dpaudit.cli.settings import Command, on_line, option
from dpaudit.errors import DpauditError, InvalidParameter, described

if TYPE_CHECKING:
    from dpaudit.ledger import Ledger, State
    from dpaudit.releases.plan import Release

BAR_CHARACTERS = 40  # Characters of the longest bar.


def _show_cost(file: Path, given: Mapping[str, Any], *, as_json: bool) -> None:
    """Show the cost and the accuracy of the release in a plan; reads no data.

    For each part: its noise, its 95% error, and for unknown keys the group size that passes the
    threshold.  A bar for each budget from an eighth to eight times the plan's: its largest error.
    For the whole release: its guarantee in every measure, and the rest of the ledger.
    Errors: those of the ledger, after the rest was shown.
    """
    from dpaudit.releases.cost import cost_table, ledger_row

    release = _asked(file, given)
    planned = release.plan()
    ledger = _ledger(release, given["ledger"])
    table = cost_table(planned)
    refused: DpauditError | None = None
    if ledger is not None:
        try:
            with _advised(release, file, given["ledger"]):
                table["ledger"] = ledger_row(ledger, planned)
        except DpauditError as error:
            table["ledger"], refused = {"refuses": described(error)}, error
    echo_json(table) if as_json else _show_plan(table)
    if refused is not None:
        raise refused


def _asked(file: Path, given: Mapping[str, Any]) -> Release:
    """The release of a plan, with the fields and the correction that the options state."""
    from dpaudit.releases.plan import correction_of, load_plan
    from dpaudit.storage.fields import fields_given

    release = load_plan(file, fields_given(given["stated"]))
    return release if given["corrects"] is None else correction_of(release, given["corrects"])


def _ledger(release: Release, url: str | None) -> Ledger | None:
    """The ledger that a plan is charged in: the plan's own, else the one at ``url``.

    Errors: InvalidParameter for another one on the line than the plan's.
    """
    from dpaudit.ledger import open_ledger
    from dpaudit.releases.publish import ledger_of

    other = url is not None and (release.ledger is None or on_line("ledger"))
    return ledger_of(release, open_ledger(str(url)) if other else None)


@contextmanager
def _advised(release: Release, file: Path, url: str | None) -> Iterator[None]:
    """Add to an error about a missing account the command that opens it."""
    from dpaudit.ledger import NoAccount, NoLedger

    try:
        yield
    except (NoAccount, NoLedger) as error:
        options = {"PureDP": "epsilon", "ApproxDP": "epsilon delta", "ZCDP": "rho", "GDP": "mu"}
        names = options[type(release.budget).__name__].split()
        caps = ["--budget", shlex.quote(" ".join(f"{name}=..." for name in names))]
        place = [] if release.ledger is not None else ["--set", f"ledger={shlex.quote(str(url))}"]
        name, plan = shlex.quote(release.schema.name), shlex.quote(str(file))
        command = ["dpaudit ledger init", name, "--plan", plan, *caps, *place]
        fault = str(error).partition("; ")[0]
        raise type(error)(
            f"{fault}; open it, with the total that its releases may spend: {' '.join(command)}"
        ) from None


def _show_errors(by_budget: Mapping[str, Mapping[str, Any]]) -> None:
    """A bar for each budget: the largest error, over the one at the plan's own budget."""
    ratios = {budget: float(row["largest_ratio"]) for budget, row in by_budget.items()}
    if not any(ratios.values()):
        return
    click.echo("Largest error_95 at other budgets, over that of this plan (about):")
    width = max(map(len, ratios))
    for budget, ratio in ratios.items():
        bar = "#" * max(1, round(BAR_CHARACTERS * ratio / max(ratios.values())))
        click.echo(f"  {budget:{width}} {bar} {ratio:.3g}")


def _show_plan(table: dict[str, Any]) -> None:
    """Print what a release would cost, and how accurate it would be."""
    from dpaudit.cli import terminal

    click.echo(
        f"{table['title']}: {table['table']}, one {table['unit']}, {table['adjacency']}, "
        f"budget {table['budget']}"
    )
    if table["bounded"]:
        click.echo(
            f"At most {table['rows_a_unit']} row(s) of one {table['unit']} count; others are cut."
        )
    if table["not_private"]:
        click.echo(f"NOT PRIVATE, chosen by looking at the data: {', '.join(table['not_private'])}")
    columns = ("part", "cells", "noise", "scale", "error_95", "error_95_all", "survives")
    terminal.rows("Parts", columns, [[row[c] for c in columns] for row in table["parts"]])
    for name, half in table["error_95_published"].items():
        margin = f"+- {half} at 95%" if half else "a margin that follows from the numbers drawn"
        click.echo(f"{name}: {margin}, after all post-processing")
    _show_errors(table["error_95_by_budget"])
    for name, parts in table["not_covered"].items():
        if parts:
            click.echo(f"{name}: error_95 covers noise only: {'; '.join(parts)}")
    for name, value in table["guarantee"].items():
        click.echo(f"{name}: {value}")
    if table["accounts"]:
        click.echo(f"accounts: {table['accounts']}")
    if table["ledger"] is None:
        click.echo("no ledger: this release will not be charged anywhere")
        return
    for name, values in table["ledger"].items():
        text = values if isinstance(values, str) else ", ".join(values)
        click.echo(f"ledger {name.replace('_', ' ')}: {text}")


@click.command(cls=Command, example="dpaudit release plan.toml --data people.csv --out published")
@click.argument("file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--data", type=click.Path(path_type=Path), help=".csv, .csv.gz or .parquet, or a folder"
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the published files; one folder for each release.",
)
@option("trials", default=2000, show_default=True)
@click.option("--no-ledger", is_flag=True, help="Publish without charging a ledger.")
@click.option("--corrects", metavar="TITLE", help="The published release that this one corrects.")
@field_option
@as_json_option
def release(
    file: Path,
    *,
    data: Path | None,
    out: Path | None,
    trials: int,
    no_ledger: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Publish the release in PLAN of the table in --data, after its ledger is charged.

    Without --data: show what it would cost and how accurate it would be.  No data is read, and
    nothing is charged or written.

    The plan is certified first, by an attack on generated tables (--trials for each data set).
    Noise is drawn once, from the operating system's entropy.  Values are written exactly, as CSV,
    Parquet and JSON, beside the certificate.  A second run is refused.
    """
    from dpaudit.cli.terminal import progress
    from dpaudit.releases.publish import NO_LEDGER, publish

    if data is None and out is None:
        _show_cost(file, given, as_json=as_json)
        return
    if data is None or out is None:
        raise click.UsageError("give both --data and --out to publish, or neither to see the cost.")
    if no_ledger and on_line("ledger"):
        raise click.UsageError("give either ledger= or --no-ledger")
    planned = _asked(file, given).plan()
    url = given["ledger"]
    ledger = NO_LEDGER if no_ledger else _ledger(planned.release, url)
    with progress() as report, _advised(planned.release, file, url):
        published = publish(
            planned,
            data,
            out,
            ledger=ledger,
            file=file.name,
            trials=trials,
            progress=report,
            notice=_notice,
        )
    files, verdict = [str(path) for path in published.files], published.verdict
    if as_json:
        errata = {"errata": list(published.errata)} if planned.release.corrects else {}
        echo_json({"files": files, "verdict": verdict, "head": published.head, **errata})
        return
    click.echo("\n".join(files))
    click.echo(f"{verdict.replace('_', ' ')}: {published.reason}")
    if published.head is not None:
        click.echo(f"ledger head: {published.head}")
    for line in published.errata:
        click.echo(f"erratum: {line}")


def _notice(changes: Mapping[str, int]) -> None:
    """Tell the operator, apart from all output, which rows the schema's policies change."""
    from dpaudit.tabular import in_rows

    summary = "; ".join(in_rows(text, count) for text, count in changes.items())
    click.echo(f"not private, for you alone (publish it nowhere): {summary}", err=True)


# --- the ledger -----------------------------------------------------------------------------------


@click.group(cls=Group, example="dpaudit ledger init people --plan plan.toml --budget 3,1e-5")
def ledger() -> None:
    """The budgets of data sets, and the charges against them.

    Where it is kept: ledger=FILE|URL, by --set or in dpaudit.toml; by default ledger.sqlite.
    Commands on an account take a plan (.toml) in the place of DATASET: its ledger, its data set.
    """


def _accounts(dataset: str | None, url: str | None) -> tuple[Ledger, list[str]]:
    """The ledger at ``url`` and a data set, or all; of a plan in its place, the plan's own.

    Errors: as :func:`_ledger`; InvalidParameter for a plan that cannot be read.
    """
    from dpaudit.ledger import open_ledger
    from dpaudit.ledger.book import DEFAULT
    from dpaudit.releases.plan import load_plan

    if dataset is not None and Path(dataset).suffix == ".toml":
        planned = load_plan(Path(dataset))
        own, names = _ledger(planned, url), [planned.schema.name]
    else:
        own, names = None, [] if dataset is None else [dataset]
    opened = own or open_ledger(url or DEFAULT)
    return opened, names or opened.names()


@ledger.command(
    "init",
    settings="ledger init",
    cls=Command,
    example="dpaudit ledger init people --plan plan.toml --budget 3,1e-5",
)
@click.argument("dataset")
@click.option(
    "--budget",
    metavar="GUARANTEE",
    help="All that releases may spend: EPSILON, 'epsilon=3 delta=1e-5', rho=, mu=, or "
    "renyi=ORDER:CAP, repeated.",
)
@click.option(
    "--plan", "file", type=click.Path(path_type=Path), help="A plan, for its unit and schema."
)
@as_json_option
def init(
    dataset: str, *, budget: str | None, file: Path | None, as_json: bool, **given: Any
) -> None:
    """Open the account of DATASET, with its cap.

    With --plan it is opened in the plan's ledger, for the plan's unit and schema, and only if the
    cap covers the cost of the plan's release.
    """
    from dpaudit.ledger import open_ledger, terms_of
    from dpaudit.ledger.book import DEFAULT
    from dpaudit.releases.plan import load_plan
    from dpaudit.scope import Released, Scope, Trust

    if budget is None:
        raise InvalidParameter("give the total of the data set: --budget 'epsilon=3 delta=1e-5'")
    cap, renyi = caps_in(budget, "--budget")
    planned = None if file is None else load_plan(file)
    if planned is not None and planned.schema.name != dataset:
        raise InvalidParameter(f"{file}: a plan for {planned.schema.name!r}, not for {dataset!r}")
    entity, unit, adjacency = _unit_of(given, planned)
    terms = terms_of(
        entity,
        Scope(adjacency, unit, Trust.CENTRAL, Released.TRANSCRIPT),  # type: ignore[arg-type]
        cap,
        method=given["composition"],
        renyi=renyi or None,
        schema=None if planned is None else planned.schema.digest,
        populations=given["populations"],
    )
    url = given["ledger"]
    opened = None if planned is None else _ledger(planned, url)
    if planned is not None:
        plan = planned.plan()
        cost = terms.cost(plan.declaration, plan.delta if terms.adds_deltas else None)
        terms.after([Fraction(0)] * len(cost), cost, f"{dataset}: {planned.title}")
    state = (opened or open_ledger(url or DEFAULT)).create(dataset, terms)
    _show([state], as_json=as_json)


def _unit_of(given: Mapping[str, Any], planned: Release | None) -> Iterator[str]:
    """Entity, unit and adjacency, from the options or the plan.

    Errors: InvalidParameter if one is missing, or an option contradicts the plan.
    """
    defaults: dict[str, str] = {"unit": "user"}
    if planned is not None:
        defaults = {
            "entity": planned.schema.entity,
            "unit": str(planned.scope.unit),
            "adjacency": str(planned.adjacency),
        }
    for key in ("entity", "unit", "adjacency"):
        # A plan says more of its data than a file of the whole project.
        value = given[key] if planned is None or on_line(key) else None
        if value is None and key not in defaults:
            raise InvalidParameter(f"{key}: missing; give --set {key}=, or a --plan that states it")
        if planned is not None and value not in (None, defaults[key]):
            raise InvalidParameter(f"{key} = {value}: the plan's is {defaults[key]}")
        yield defaults[key] if value is None else value


@ledger.command("show", settings="ledger show", cls=Command, example="dpaudit ledger show people")
@click.argument("dataset", required=False)
@as_json_option
def show(dataset: str | None, *, ledger: str | None, as_json: bool) -> None:
    """Show cap, spent and remaining budget and the charges of each data set, or of DATASET."""
    opened, names = _accounts(dataset, ledger)
    states = [opened.state(name) for name in names]
    _show(states, {state.name: _charges(opened, state) for state in states}, as_json=as_json)


@ledger.command(
    "charge",
    settings="ledger charge",
    cls=Command,
    example="dpaudit ledger charge people dp_sgd --set entity=person",
)
@click.argument("dataset")
@click.argument("target")
@as_json_option
def charge(
    dataset: str,
    target: str,
    *,
    title: str | None,
    charge_delta: str | None,
    entity: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Charge a mechanism (TARGET, DP-SGD included) that runs outside `dpaudit release`."""
    from dpaudit.certificate.training import refuse_other_unit
    from dpaudit.cli.commands import resolve_target
    from dpaudit.exact.domains import rational

    if not entity:
        raise InvalidParameter("entity: missing; give --set entity=, the unit of the target's data")
    opened, (dataset,) = _accounts(dataset, ledger)
    mechanism = resolve_target(target).mechanism
    refuse_other_unit(mechanism, entity)
    named = title or mechanism.name
    at = None if charge_delta is None else rational(charge_delta, "charge_delta")
    cost = opened.costs(dataset, mechanism.declaration, at)
    release = f"{named}:{mechanism.declaration.digest}"
    digest = mechanism.declaration.digest
    receipt = opened.charge(
        dataset, entity, mechanism.scope, cost, release, named, declaration=digest
    )
    if as_json:
        echo_json({"number": receipt.number, "head": receipt.head})
    else:
        click.echo(f"charge {receipt.number}, head {receipt.head}")


@ledger.command(
    "withdraw",
    settings="ledger withdraw",
    cls=Command,
    example="dpaudit ledger withdraw people 'People, 2026' 'The data were wrong.'",
)
@click.argument("dataset")
@click.argument("title")
@click.argument("reason")
@as_json_option
def withdraw(dataset: str, title: str, reason: str, *, ledger: str | None, as_json: bool) -> None:
    """Withdraw the published release TITLE, and say the REASON on its page.

    Its budget stays spent.  TITLE may be the release's digest.
    """
    from dpaudit.releases.publish import with_errata

    opened, (dataset,) = _accounts(dataset, ledger)
    withdrawn = opened.withdraw(dataset, title, reason)
    corrected = [opened.published(dataset, withdrawn.corrects)] if withdrawn.corrects else []
    errata = [line for life in (withdrawn, *corrected) for line in with_errata(life)]
    if as_json:
        echo_json({"release": withdrawn.release, "errata": errata})
        return
    click.echo(withdrawn.text)
    for line in errata:
        click.echo(f"erratum: {line}")


@ledger.command(
    "verify", settings="ledger verify", cls=Command, example="dpaudit ledger verify people"
)
@click.argument("dataset", required=False)
@click.option("--head", help="A head that was noted earlier; the chain must contain it.")
@as_json_option
def verify(dataset: str | None, *, head: str | None, ledger: str | None, as_json: bool) -> None:
    """Verify the hash chain and the sums of all entries."""
    opened, names = _accounts(dataset, ledger)
    _show([opened.verify(name, head) for name in names], as_json=as_json)


def _charges(ledger: Ledger, state: State) -> list[dict[str, Any]]:
    """The charges of an account up to a state: day, name, cost, and the sum so far."""
    from dpaudit.exact.wire import decode_number
    from dpaudit.ledger.book import CHARGED

    # Another process may have charged since the state was read.
    bodies = [entry.body for entry in ledger.entries(state.name)[: state.length]]
    shown = dict.fromkeys(("cost", "spent"), state.terms.shown)
    return [
        {"date": body["at"][:10], "name": body["title"]}
        | {key: show(list(map(decode_number, body[key]))) for key, show in shown.items()}
        for body in bodies
        if body["kind"] == CHARGED
    ]


def _show(
    states: Sequence[State],
    charges: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    *,
    as_json: bool,
) -> None:
    """``charges``: the history of each account, where it is shown."""
    rows: list[dict[str, Any]] = [
        {
            "dataset": state.name,
            "entity": state.terms.entity,
            "adjacency": str(state.terms.scope.adjacency),
            "method": str(state.terms.method),
            "cap": state.terms.shown(state.terms.caps),
            "spent": state.terms.shown(state.spent),
            "left": state.terms.shown(state.remaining, left=True),
            "charges": state.count,
            "populations": list(state.terms.populations),
            "unfinished": list(state.unfinished),
            "releases": [release.text for release in state.releases],
            "head": state.head,
        }
        | ({"history": charges[state.name]} if charges is not None else {})
        for state in states
    ]
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        for name, value in row.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            if name == "unfinished" and value:
                click.echo(f"charged but never finished; the charges stay spent: {text}")
            elif name == "history":
                for charge in value:
                    costs = ", ".join(charge["cost"]), ", ".join(charge["spent"])
                    click.echo(f"charge {charge['date']} {charge['name']}: {costs[0]} ({costs[1]})")
            elif name == "releases":
                click.echo("".join(f"release {line}\n" for line in value), nl=False)
            elif value or not isinstance(value, list):
                click.echo(f"{name}: {text}")


RELEASE_COMMANDS = (release, ledger)  # what this module adds to the command line

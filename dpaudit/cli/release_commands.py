"""Commands that plan and publish releases of tables, and the commands on ledgers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.commands import ADJACENCIES, as_json_option, echo_json, field_option
from dpaudit.errors import DpauditError, InvalidParameter, described

if TYPE_CHECKING:
    from dpaudit.ledger import Costs, Ledger, State
    from dpaudit.releases.plan import Plan, Release

MEASURES = ("pure", "zcdp", "gdp")
DELTAS = ("1e-5", "1e-6", "1e-9")
BAR = 40  # characters of the longest bar
ledger_option = click.option(
    "--ledger", "url", help="A SQLite file or a URL, if the plan names no ledger."
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@ledger_option
@as_json_option
def plan(file: Path, *, url: str | None, as_json: bool) -> None:
    """Show the cost and the accuracy of the release in FILE; reads no data.

    For each part: its noise, its 95% error, and for unknown keys the group size that passes the
    threshold.  A bar for each budget from an eighth to eight times the plan's: its largest error.
    For the whole release: its guarantee in every measure, and the rest of the ledger.
    """
    from dpaudit.releases.plan import load_plan

    release = load_plan(file)
    planned = release.plan()
    ledger = _ledger(release, url)
    table = {
        "title": release.title,
        "release": release.digest,
        "table": release.schema.name,
        "unit": release.schema.entity,
        "rows_a_unit": release.schema.rows,
        "bounded": release.schema.unit is not None,
        "adjacency": str(release.adjacency),
        "budget": planned.claim.text,
        "not_private": list(release.schema.read_off_data),
        "parts": _parts(planned),
        "not_covered": {
            item.name: list(item.not_covered(release.schema)) for item in release.items
        },
        "error_95_consistent": dict(planned.halves),
        "error_95_by_budget": _by_budget(planned),
        "guarantee": _guarantee(planned),
        "uncharged": release.uncharged,
        "ledger": None,
    }
    refused: DpauditError | None = None
    if ledger is not None:
        try:
            with _advised(release, file, url):
                table["ledger"] = _ledger_row(ledger, planned)
        except DpauditError as error:
            table["ledger"], refused = {"refuses": described(error)}, error
    echo_json(table) if as_json else _show_plan(table)
    if refused is not None:
        raise refused


def _ledger(release: Release, url: str | None) -> Ledger | None:
    """The ledger that a plan is charged in: the plan's own, else the one at ``url``."""
    from dpaudit.ledger import open_ledger
    from dpaudit.releases.publish import ledger_of

    return ledger_of(release, None if url is None else open_ledger(url))


@contextmanager
def _advised(release: Release, file: Path, url: str | None) -> Iterator[None]:
    """Add to an error about a missing account the command that opens it."""
    from dpaudit.ledger import NoAccount, NoLedger

    try:
        yield
    except (NoAccount, NoLedger) as error:
        options = {"PureDP": "epsilon", "ApproxDP": "epsilon delta", "ZCDP": "rho", "GDP": "mu"}
        caps = [f"--{name} ..." for name in options[type(release.budget).__name__].split()]
        place = [] if release.ledger is not None else ["--ledger", shlex.quote(str(url))]
        name, plan = shlex.quote(release.schema.name), shlex.quote(str(file))
        command = ["dpaudit ledger init", name, "--plan", plan, *caps, *place]
        fault = str(error).partition("; ")[0]
        raise type(error)(
            f"{fault}; open it, with the total that its releases may spend: {' '.join(command)}"
        ) from None


def _parts(planned: Plan) -> list[dict[str, str]]:
    from dpaudit.releases.items.item import Choice, Declared, Vector
    from dpaudit.releases.publish import thresholds
    from dpaudit.tabular.schema import text_of

    shown, least = [], thresholds(planned)
    for label, part in planned.parts.items():
        leaf = planned.leaves[label]
        row = {"part": label, "noise": type(leaf).__name__, "error_95": "", "survives": ""}
        row["error_95_all"] = ""
        if isinstance(part, Declared):
            row |= {"scale": f"its own: {part.program.mechanism.name}", "cells": "a program"}
        elif isinstance(part, Choice):
            row["scale"] = f"epsilon {float(leaf.parameters['epsilon']):.6g}"
            row["cells"] = f"{part.times} of {part.candidates}"
            row["error_95"] = f"{part.within(planned.margins)} rows behind"
        else:
            step = getattr(part, "step", Fraction(1))
            deviation = planned.margins.deviation(label) * float(step)
            row["scale"] = f"standard deviation {deviation:.6g}"
            row["error_95"] = text_of(planned.margins.half(label) * step)[0]
            row["cells"] = str(getattr(part, "cells", "unknown keys"))
            if isinstance(part, Vector):
                together = planned.margins.half_of_all(label, part.cells)
                row["error_95_all"] = text_of(together * step)[0]
        if label in least:
            row["survives"] = f"threshold {least[label][0]}, groups of {least[label][1]} at 95%"
        shown.append(row)
    return shown


def _by_budget(planned: Plan) -> dict[str, Any]:
    """About the errors at other budgets, by epsilon, rho or mu: by part, and the largest ratio."""
    from dpaudit.releases.targets import errors_by_budget

    name, value = next(iter(planned.release.budget.parameters.items()))
    found = errors_by_budget(planned)
    own = found.get(Fraction(value), {})
    return {
        f"{name} = {float(at):g}": {
            "largest_ratio": max((errors[k] / own[k] for k in errors if own.get(k)), default=0.0),
            "error_95": errors,
        }
        for at, errors in found.items()
    }


def _show_errors(by_budget: Mapping[str, Mapping[str, Any]]) -> None:
    """A bar for each budget: the largest error, over the one at the plan's own budget."""
    ratios = {budget: float(row["largest_ratio"]) for budget, row in by_budget.items()}
    if not any(ratios.values()):
        return
    click.echo("Largest error_95 at other budgets, over that of this plan (about):")
    width = max(map(len, ratios))
    for budget, ratio in ratios.items():
        bar = "#" * max(1, round(BAR * ratio / max(ratios.values())))
        click.echo(f"  {budget:{width}} {bar} {ratio:.3g}")


def _guarantee(planned: Plan) -> dict[str, str]:
    from dpaudit.exact import decimal_upper

    account, bounds = planned.account, {}
    routes = account.routes()
    names = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu"}
    for name in MEASURES:
        if name in routes:
            bounds[f"{names[name]} ({name})"] = decimal_upper(account.step(name).value, 6)
    if "rdp" in routes:
        from dpaudit.certificate.certificate import conclusion

        rows = conclusion(account.step("rdp"))["curve"]
        upper = [v if v == "inf" else decimal_upper(Fraction(v), 6) for _, v in rows]
        orders = [order for order, _ in rows]
        bounds["renyi"] = ", ".join(
            f"{value} at order {order}" for value, order in zip(upper, orders, strict=True)
        )
    planned_delta = [f"{float(planned.delta):g}"] if planned.delta else []
    named = {Fraction(text): text for text in (*planned_delta, *DELTAS)}
    for text in named.values():
        if planned.delta and Fraction(text) < planned.delta:
            continue
        bound = account.epsilon(Fraction(text))
        bounds[f"epsilon at delta {text}"] = decimal_upper(bound.upper, 6)
    return bounds


def _ledger_row(ledger: Ledger, planned: Plan) -> dict[str, Any]:
    from dpaudit.releases.publish import admitted, costs_of

    costs, row = costs_of(ledger, planned), {"place": ledger.place}
    admitted(ledger, planned)
    first, *populations = ledger.accounts(planned.release.schema.name)
    return (
        row
        | _costs_row(first, costs)
        | {
            f"population {state.name}": [
                f"{name} {', '.join(values)}" for name, values in _costs_row(state, costs).items()
            ]
            for state in populations
        }
    )


def _costs_row(state: State, costs: Costs) -> dict[str, Any]:
    """An account before and after a charge that it admits."""
    after = [a + b for a, b in zip(state.spent, costs[state.name], strict=True)]
    left = tuple(cap - sum_ for cap, sum_ in zip(state.terms.caps, after, strict=True))
    return {
        "cost": state.terms.shown(costs[state.name]),
        "spent": state.terms.shown(state.spent),
        "cap": state.terms.shown(state.terms.caps),
        "left_after": state.terms.shown(left),
    }


def _show_plan(table: dict[str, Any]) -> None:
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
    for name, half in table["error_95_consistent"].items():
        click.echo(f"{name}: +- {half} at 95% once it is consistent with the other counts")
    _show_errors(table["error_95_by_budget"])
    for name, parts in table["not_covered"].items():
        if parts:
            click.echo(f"{name}: error_95 covers noise only: {'; '.join(parts)}")
    for name, value in table["guarantee"].items():
        click.echo(f"{name}: {value}")
    if table["uncharged"]:
        click.echo(f"accounts: {table['uncharged']}")
    if table["ledger"] is None:
        click.echo("no ledger: this release will not be charged anywhere")
        return
    for name, values in table["ledger"].items():
        text = values if isinstance(values, str) else ", ".join(values)
        click.echo(f"ledger {name.replace('_', ' ')}: {text}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--data", required=True, type=click.Path(path_type=Path), help=".csv, .csv.gz or .parquet"
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the published files; one folder for each release.",
)
@click.option("--trials", type=click.IntRange(200, 10**7), default=2000, show_default=True)
@click.option("--no-ledger", is_flag=True, help="Publish without charging a ledger.")
@click.option("--corrects", metavar="TITLE", help="The published release that this one corrects.")
@ledger_option
@field_option
@as_json_option
def release(
    file: Path,
    *,
    data: Path,
    out: Path,
    trials: int,
    no_ledger: bool,
    corrects: str | None,
    url: str | None,
    stated: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish the release in FILE of the table in --data, after its ledger is charged.

    The plan is certified first, by an attack on generated tables (--trials for each data set).
    Noise is drawn once, from the operating system's entropy.  Values are written exactly, as CSV,
    Parquet and JSON, beside the certificate.  A second run is refused.
    """
    from dpaudit.cli.terminal import progress
    from dpaudit.releases.plan import correction_of, load_plan
    from dpaudit.releases.publish import NO_LEDGER, publish
    from dpaudit.storage.fields import fields_given

    asked = load_plan(file, fields_given(stated))
    planned = (asked if corrects is None else correction_of(asked, corrects)).plan()
    if no_ledger and url is not None:
        raise click.UsageError("give either --ledger or --no-ledger")
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

    said = "; ".join(in_rows(text, count) for text, count in changes.items())
    click.echo(f"not private, for you alone (publish it nowhere): {said}", err=True)


# --- the ledger -----------------------------------------------------------------------------------


@click.group()
def ledger() -> None:
    """The budgets of data sets, and the charges against them."""


place_option = click.option(
    "--ledger", "url", default="ledger.sqlite", show_default=True, help="A SQLite file, or a URL."
)


@ledger.command("init")
@click.argument("dataset")
@click.option("--entity", help="The unit: person, household, row, ...; by default the plan's.")
@click.option(
    "--unit",
    type=click.Choice(["record", "user", "client"]),
    help="By default user, or the plan's.",
)
@click.option("--adjacency", type=click.Choice(ADJACENCIES), help="By default the plan's.")
@click.option("--epsilon", help="With --delta: (epsilon, delta); alone: pure.")
@click.option("--delta")
@click.option("--rho", help="zCDP.")
@click.option("--mu", help="Gaussian DP.")
@click.option("--renyi", multiple=True, metavar="ORDER:CAP", help="Repeat for several orders.")
@click.option(
    "--method", help="How (epsilon, delta) is composed: basic, advanced, zcdp, rdp or gdp."
)
@click.option(
    "--plan", "file", type=click.Path(path_type=Path), help="A plan, for its unit and schema."
)
@click.option(
    "--population",
    "populations",
    multiple=True,
    help="An account, opened before, of all data sets of the same persons; it is charged too.",
)
@click.option(
    "--ledger", "url", help="A SQLite file or a URL; by default the plan's, or ledger.sqlite."
)
@as_json_option
def init(dataset: str, *, url: str | None, as_json: bool, **given: Any) -> None:
    """Open the account of DATASET, with its cap.

    With --plan it is opened in the plan's ledger, for the plan's unit and schema, and only if the
    cap covers the cost of the plan's release.
    """
    from dpaudit.ledger import open_ledger, terms_of
    from dpaudit.ledger.book import DEFAULT
    from dpaudit.releases.plan import budget_of, load_plan
    from dpaudit.scope import Released, Scope, Trust

    numbers = {k: given[k] for k in ("epsilon", "delta", "rho", "mu") if given[k] is not None}
    if not numbers and not given["renyi"]:
        raise InvalidParameter(
            "give the budget of the data set: --epsilon (with --delta), --rho, --mu or --renyi"
        )
    planned = None if given["file"] is None else load_plan(given["file"])
    if planned is not None and planned.schema.name != dataset:
        raise InvalidParameter(
            f"{given['file']}: a plan for {planned.schema.name!r}, not for {dataset!r}"
        )
    entity, unit, adjacency = _unit_of(given, planned)
    terms = terms_of(
        entity,
        Scope(adjacency, unit, Trust.CENTRAL, Released.TRANSCRIPT),  # type: ignore[arg-type]
        budget_of(numbers) if numbers else None,
        method=given["method"],
        renyi=_orders(given["renyi"]) or None,
        schema=None if planned is None else planned.schema.digest,
        populations=given["populations"],
    )
    opened = None if planned is None else _ledger(planned, url)
    if planned is not None:
        made = planned.plan()
        cost = terms.cost(made.declaration, made.delta if terms.adds_deltas else None)
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
        asked = given[key]
        if asked is None and key not in defaults:
            raise InvalidParameter(f"--{key}: missing; give it, or a --plan that states it")
        if planned is not None and asked not in (None, defaults[key]):
            raise InvalidParameter(f"--{key} {asked}: the plan's is {defaults[key]}")
        yield defaults[key] if asked is None else asked


def _orders(rows: Sequence[str]) -> dict[object, object]:
    from dpaudit.exact.domains import rational

    caps: dict[object, object] = {}
    for row in rows:
        order, separator, cap = row.partition(":")
        if not separator:
            raise InvalidParameter(f"--renyi {row[:40]}: expected ORDER:CAP")
        caps[rational(order, "--renyi")] = rational(cap, "--renyi")
    return caps


@ledger.command("show")
@click.argument("dataset", required=False)
@place_option
@as_json_option
def show(dataset: str | None, *, url: str, as_json: bool) -> None:
    """Show cap, spent and remaining budget of each data set, or of DATASET."""
    from dpaudit.ledger import open_ledger

    opened = open_ledger(url)
    names = opened.names() if dataset is None else [dataset]
    _show([opened.state(name) for name in names], as_json=as_json)


@ledger.command("charge")
@click.argument("dataset")
@click.argument("target")
@click.option("--title", help="Title of the release; by default the target's name.")
@click.option("--delta", help="The delta of the charge, for accounts that add deltas.")
@click.option("--entity", required=True, help="The unit of the target's data.")
@place_option
@as_json_option
def charge(
    dataset: str,
    target: str,
    *,
    title: str | None,
    delta: str | None,
    entity: str,
    url: str,
    as_json: bool,
) -> None:
    """Charge a mechanism (TARGET, DP-SGD included) that runs outside `dpaudit release`."""
    from dpaudit.certificate.training import refuse_other_unit
    from dpaudit.cli.commands import resolve_target
    from dpaudit.exact.domains import rational
    from dpaudit.ledger import open_ledger

    opened = open_ledger(url)
    mechanism = resolve_target(target).mechanism
    refuse_other_unit(mechanism, entity)
    named = title or mechanism.name
    at = None if delta is None else rational(delta, "--delta")
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


@ledger.command("withdraw")
@click.argument("dataset")
@click.argument("title")
@click.argument("reason")
@place_option
@as_json_option
def withdraw(dataset: str, title: str, reason: str, *, url: str, as_json: bool) -> None:
    """Withdraw the published release TITLE, and say the REASON on its page.

    Its budget stays spent.  TITLE may be the release's digest.
    """
    from dpaudit.ledger import open_ledger
    from dpaudit.releases.publish import with_errata

    found = open_ledger(url).withdraw(dataset, title, reason)
    errata = list(with_errata(found))
    if as_json:
        echo_json({"release": found.release, "errata": errata})
        return
    click.echo(found.text)
    for line in errata:
        click.echo(f"erratum: {line}")


@ledger.command("verify")
@click.argument("dataset", required=False)
@click.option("--head", help="A head that was noted earlier; the chain must contain it.")
@place_option
@as_json_option
def verify(dataset: str | None, *, head: str | None, url: str, as_json: bool) -> None:
    """Verify the hash chain and the sums of all entries."""
    from dpaudit.ledger import open_ledger

    opened = open_ledger(url)
    names = opened.names() if dataset is None else [dataset]
    _show([opened.verify(name, head) for name in names], as_json=as_json)


def _show(states: Sequence[State], *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "dataset": state.name,
            "entity": state.terms.entity,
            "adjacency": str(state.terms.scope.adjacency),
            "method": str(state.terms.method),
            "cap": state.terms.shown(state.terms.caps),
            "spent": state.terms.shown(state.spent),
            "left": state.terms.shown(state.remaining),
            "charges": state.count,
            "populations": list(state.terms.populations),
            "unfinished": list(state.unfinished),
            "releases": [one.text for one in state.releases],
            "head": state.head,
        }
        for state in states
    ]
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        for name, value in row.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            if name == "unfinished" and value:
                click.echo(f"charged but never finished; the charges stay spent: {text}")
            elif name == "releases":
                click.echo("".join(f"release {line}\n" for line in value), nl=False)
            elif value or not isinstance(value, list):
                click.echo(f"{name}: {text}")


RELEASE_COMMANDS = (plan, release, ledger)

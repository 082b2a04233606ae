"""`dpaudit run`: run a mechanism once on private data, and save output and certificate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.commands import as_json_option, echo_json, field_option, quiet, set_option
from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from dpaudit.certificate.training import Account

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("run")
@click.argument("target")
@click.argument("further", nargs=-1, metavar="[KEY=VALUE]...")
@set_option("A free parameter's value; `dpaudit show TARGET` lists them.  Several may follow.")
@click.option("--data", type=FILE, required=True, help=".csv, .parquet, .npy or .npz of records.")
@click.option("--out", type=FILE, required=True, help="The .npz file for the output.")
@click.option(
    "--label", help="Column of the label; it becomes the last one, where programs expect it."
)
@click.option(
    "--unit",
    help="Column that names the unit of each row; one record then holds all rows of a unit.",
)
@click.option(
    "--rows", type=click.IntRange(1), help="With --unit: the most rows that count for one unit."
)
@click.option("--trials", type=click.IntRange(100, 10**9), help="Test trials a side.")
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, help="Worker processes.")
@click.option("--run-unproved", is_flag=True, help="Run although a claim is refuted or unproved.")
@click.option("--ledger", "url", help="Charge the run here: a SQLite file, or a URL.")
@click.option("--dataset", help="With --ledger: the account to charge.")
@click.option("--entity", help="With --ledger: the unit of the data.")
@click.option(
    "--delta", help="With --ledger: the delta of the charge, for accounts that add deltas."
)
@field_option
@as_json_option
def run(
    target: str,
    *,
    further: tuple[str, ...],
    values: tuple[str, ...],
    data: Path,
    out: Path,
    stated: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Run TARGET once on the records in --data, and save its output and certificate.

    The mechanism is adapted to the data's shape if it supports this, attacked on generated records,
    and charged to the ledger.  Then it runs with the operating system's entropy, and OUT.npz,
    OUT.json and OUT.html are written.  A second run is refused; a run that was interrupted before
    it drew noise resumes.  The certificate states what --field and the dpaudit.toml here state, and
    nothing that the authors of a catalogue's mechanism state of their own runs.
    """
    from dpaudit.certificate.certify import Options
    from dpaudit.certificate.training import train
    from dpaudit.cli.audit_commands import order_of
    from dpaudit.cli.terminal import progress, verdicts
    from dpaudit.curator.files import read_records
    from dpaudit.curator.parameters import read_values
    from dpaudit.storage.fields import fields_given
    from dpaudit.storage.files import writable

    if out.suffix != ".npz":
        raise InvalidParameter(f"--out {out}: expected a name that ends in .npz")
    account = _account(given)
    writable(out.parent)
    order = order_of(target, fields_given(stated), own_data=True)
    mechanism = order.mechanism
    set_to = read_values(mechanism.name, mechanism.for_shape, (*values, *further))
    warn = partial(click.echo, err=True)
    columns = {name: given[name] for name in ("label", "unit", "rows")}
    records = read_records(data, warn=warn, **columns)
    with progress() as report, quiet():
        options = Options(
            trials=given["trials"],
            jobs=given["jobs"],
            run_unproved=given["run_unproved"],
            targets=(target,),
            progress=report,
        )
        written = train(order, records, out, options, account, set_to, warn)
    files = [str(path) for path in (written.output, written.files.certificate, written.files.page)]
    verdict = written.certificate["predicate"]["verdict"]
    if as_json:
        echo_json({"files": files, "verdict": verdict["status"], "head": written.head})
        return
    verdicts([written.certificate])
    click.echo("\n".join(files))
    if written.head is not None:
        click.echo(f"ledger head: {written.head}")


def _account(given: dict[str, Any]) -> Account | None:
    from dpaudit.certificate.training import Account
    from dpaudit.exact.domains import rational
    from dpaudit.ledger import open_ledger

    named = [given[name] for name in ("url", "dataset", "entity")]
    if all(value is None for value in (*named, given["delta"])):
        return None
    if None in named:
        raise InvalidParameter("give all of --ledger, --dataset and --entity, or none")
    delta = None if given["delta"] is None else rational(given["delta"], "--delta")
    return Account(open_ledger(given["url"]), given["dataset"], given["entity"], delta)

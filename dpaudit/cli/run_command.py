"""`dpaudit run`: run a mechanism once on private data, and save output and certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.commands import (
    Warnings,
    as_json_option,
    echo_json,
    field_option,
    free_values,
    quiet,
)
from dpaudit.cli.settings import Command, on_line, option
from dpaudit.errors import InvalidParameter

if TYPE_CHECKING:
    from dpaudit.certificate.training import Account

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "run",
    cls=Command,
    example="dpaudit run dp_sgd --data my.csv --out m.npz --set label_column=y",
    further=True,
)
@click.argument("target")
@click.option("--data", type=FILE, required=True, help=".csv, .parquet, .npy or .npz of records.")
@click.option("--out", type=FILE, required=True, help="The .npz file for the output.")
@option("trials")
@option("jobs")
@click.option("--run-unproved", is_flag=True, help="Run although a claim is refuted or unproved.")
@field_option
@as_json_option
def run(
    target: str,
    *,
    values: tuple[str, ...],
    data: Path,
    out: Path,
    stated: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Run TARGET once on the records in --data, and save its output and certificate.

    TARGET takes the data's shape, is attacked on generated records, charged to the ledger, and run
    with the operating system's entropy.  A second run is refused; one that was interrupted before
    it drew noise resumes.  The certificate states what --field and the dpaudit.toml here state.
    """
    from dpaudit.certificate.order import Options
    from dpaudit.certificate.training import train
    from dpaudit.cli.audit_commands import order_of
    from dpaudit.cli.terminal import progress, verdicts
    from dpaudit.curator.files import read_records
    from dpaudit.storage.fields import fields_given
    from dpaudit.storage.files import writable

    if out.suffix != ".npz":
        raise InvalidParameter(f"--out {out}: expected a name that ends in .npz")
    account = _account(given)
    writable(out.parent)
    order = order_of(target, fields_given(stated), own_data=True)
    mechanism = order.mechanism
    set_to = free_values(mechanism, values)
    warn = Warnings()
    label, unit = given["label_column"], given["unit_column"]
    records = read_records(data, label=label, unit=unit, rows=given["rows"], warn=warn)
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
        said = {"verdict": verdict["status"], "head": written.head, "warnings": warn}
        echo_json({"files": files, **said})
        return
    verdicts([written.certificate])
    click.echo("\n".join(files))
    if written.head is not None:
        click.echo(f"ledger head: {written.head}")


def _account(given: dict[str, Any]) -> Account | None:
    from dpaudit.certificate.training import Account
    from dpaudit.exact.domains import rational
    from dpaudit.ledger import open_ledger

    named = [given[name] for name in ("ledger", "dataset", "entity")]
    wants_ledger = any(map(on_line, ("dataset", "entity", "charge_delta")))
    if not given["ledger"] and not wants_ledger:
        return None
    if not all(named):
        raise InvalidParameter(
            "give all of ledger, dataset and entity, or none; --set ledger= charges nothing where "
            "dpaudit.toml names a ledger"
        )
    text = given["charge_delta"]
    delta = None if text is None else rational(text, "charge_delta")
    return Account(open_ledger(given["ledger"]), given["dataset"], given["entity"], delta)

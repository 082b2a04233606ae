"""`dpaudit compare`: every algorithm and baseline of a paper on a user's data, tuned alike."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from dpaudit.cli.commands import Warnings, as_json_option, echo_json, quiet
from dpaudit.cli.settings import Command

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "compare",
    cls=Command,
    example="dpaudit compare --paper srgd --data my.csv --set epsilon=2 delta=1e-6",
    further=True,
)
@click.option(
    "--paper",
    required=True,
    help="A comparison of the catalogue, such as srgd or diff2, or a .py file of your project with "
    "a COMPARISON.",
)
@click.option("--data", type=FILE, required=True, help=".csv, .parquet, .npy or .npz of records.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for table, plot and certificates; reports/PAPER by default.",
)
@as_json_option
def compare_command(
    *,
    paper: str,
    values: tuple[str, ...],
    data: Path,
    label_column: str | None,
    unit_column: str | None,
    rows: int | None,
    public: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare every algorithm and baseline of a paper on the records in --data.

    All have one budget (--set epsilon=2 delta=1e-6), and each is searched over its other free
    parameters equally often, on some records and seeds, and judged on others.  Writes a table, a
    plot, and a certificate of each method as chosen.

    Nothing here is a release: losses are exact, and the choice reads the data unless public=FILE
    names other records.  Publish neither unless the data are public.
    """
    from dpaudit.certificate.order import Options
    from dpaudit.certificate.publish import Failed
    from dpaudit.cli import terminal
    from dpaudit.compare import written
    from dpaudit.compare.comparison import compare
    from dpaudit.compare.find import find
    from dpaudit.curator.files import read_records
    from dpaudit.errors import described
    from dpaudit.storage.files import writable

    with quiet():
        paper_found = find(paper, Path.cwd())
    paper_found.comparison.values(values)  # refused before a file is read
    out = out or Path("reports") / paper_found.comparison.name
    warn = Warnings()
    read = partial(read_records, label=label_column, unit=unit_column, rows=rows, warn=warn)
    records = read(data)
    others = None if public is None else (public.name, read(public))
    out.mkdir(parents=True, exist_ok=True)
    writable(out, written.names(paper_found.comparison.name))
    with terminal.progress() as report, quiet():
        outcome = compare(
            paper_found.comparison, records, values, public=others, progress=_searching
        )
        for text in outcome.warnings:
            warn(text)
        page, plot = written.write(outcome, out)
        results = list(written.certificates(outcome, paper_found, out, Options(progress=report)))
    failed = [result for result in results if isinstance(result, Failed)]
    files = [str(page), str(plot)]
    files += [str(result.files.certificate) for result in results if not isinstance(result, Failed)]
    if as_json:
        echo_json({**written.table(outcome), "warnings": warn, "files": files})
    else:
        terminal.comparison(written.COLUMNS, list(written.cells(outcome)), written.notes(outcome))
        click.echo("\n".join(files))
    for result in failed:
        terminal.warn(f"{result.name}: not certified: {described(result.error)}")
    sys.exit(1 if failed else 0)


def _searching(name: str, done: int, total: int) -> None:
    click.echo(f"searching {name}, {done + 1} of {total}", err=True)

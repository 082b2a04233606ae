"""The command ``python -m experiments run``."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli.commands import as_json_option
from dpaudit.cli.main import Interface
from dpaudit.errors import DpauditError, InvalidParameter

if TYPE_CHECKING:
    from experiments.lab.figures import Figure
    from experiments.lab.model import Cell, Experiment, Size
    from experiments.lab.papers import Read
    from experiments.lab.running import Order
    from experiments.lab.times import Bill

SECONDS = 5.0
TICKS = 10**6
STORE = ".experiments"
LISTED = "statements.md"
SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**128 - 1),
    default=1,
    show_default=True,
    help="Seed of every draw; an interrupted run resumes under the same seed.",
)
JOBS = click.option("--jobs", type=click.IntRange(1, 1024), default=1, help="Worker processes.")


def size_option(said: str) -> Callable[[Any], Any]:
    """All of a grid, or a corner of it."""
    sizes = click.Choice(["quick", "full"])
    return click.option("--size", type=sizes, default="full", show_default=True, help=said)


def out_option(folder: str, said: str, *, exists: bool = False) -> Callable[[Any], Any]:
    """The folder that a command writes to, or reads."""
    kind = click.Path(exists=exists, file_okay=False, path_type=Path)
    return click.option("--out", type=kind, default=Path(folder), show_default=True, help=said)


class _Progress:
    """A line on standard error at the start, every few seconds and at the end, with time left."""

    def __init__(self) -> None:
        from dpaudit.cli.terminal import Pace

        self.pace, self.last = Pace(), -math.inf

    def __call__(self, name: str, done: Sequence[Cell], cells: Sequence[Cell]) -> None:
        total = sum(cell.cost for cell in cells)
        share = round(TICKS * sum(cell.cost for cell in done) / total)
        left = self.pace.left(share, TICKS) if len(done) < len(cells) else ""
        now = time.monotonic()
        if len(done) in (0, len(cells)) or now - self.last > SECONDS:
            self.last = now
            click.echo(f"{name}: {len(done)} of {len(cells)} cells{left}", err=True)


@click.group(
    cls=Interface,
    resumes="the same command resumes where it stopped",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def main() -> None:
    """Utility experiments: grids of cells, checks against bands, tables and plots."""


@main.command("run")
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every experiment, and a README.md of all.")
@size_option("All cells, in minutes, or a corner of the grid, in seconds.")
@click.option("--quick", "size", flag_value="quick", help="The same as --size quick.")
@SEED
@JOBS
@out_option(
    "reports/experiments",
    "Folder for NAME.json, NAME.md and NAME.svg; finished cells are kept here until the end.",
)
@click.option("--anew", is_flag=True, help="With --all: also what is there, of these sources.")
@as_json_option
def run_command(
    names: tuple[str, ...],
    *,
    every: bool,
    size: str,
    seed: int,
    jobs: int,
    out: Path,
    anew: bool,
    as_json: bool,
) -> None:
    """Run the experiments NAMES of this project and judge their checks; without NAMES, list them.

    With --all, a full result in --out of the same seed, grid and sources is kept as it is.

    Exits with 0 where every check held, 1 where one was missed, 3 where one is inconclusive, 2
    where one could not run: the others of the same command run all the same.
    """
    from dpaudit.project.project import find_root
    from dpaudit.storage.files import writable, write_atomically
    from experiments.lab.found import load, named
    from experiments.lab.model import Size
    from experiments.lab.pages import index
    from experiments.lab.running import Order

    root = find_root(Path.cwd())
    found = load(root)
    if every and names:
        raise InvalidParameter("--all runs every experiment: leave out the names")
    if not names and not every:
        _list(found, as_json=as_json)
        return
    for name in names:
        named(found, name, root)
    writable(out)
    made, code = [], 0
    for name in dict.fromkeys(names) or sorted(found):
        try:
            order = Order(root, name, Size(size), seed)
            there = _there(order, out) if every and not anew else None
            made.append(there or _one(order, jobs, out, as_json=as_json))
        except DpauditError as error:
            code = error.exit_code
            click.echo(f"dpaudit: {name}: {' '.join(str(error).split())}", err=True)
    if every:
        write_atomically(out / "README.md", index(made, {}).encode())
        if size == Size.FULL:
            _write_pages(root, out)
        click.echo("\n".join(_bill_lines(root, Size(size), seed, out)), err=True)
    if as_json:
        click.echo(json.dumps(made, ensure_ascii=False, allow_nan=False))
    sys.exit(code or _exit_code([document["verdict"] for document in made]))


@main.command("time")
@size_option("Of all cells, or of the corner of every grid.")
@SEED
@out_option("experiments/results", "Folder of the results.")
def time_command(*, size: str, seed: int, out: Path) -> None:
    """Print what every experiment takes, and what is left for run --all in --out.

    Seconds are of the processor, each cell's as it was last run (seconds.csv); cells that no run
    has timed are estimated by their declared costs at the pace of the others.  Nothing is run.
    """
    from dpaudit.project.project import find_root
    from experiments.lab.model import Size

    for line in _bill_lines(find_root(Path.cwd()), Size(size), seed, out):
        click.echo(line)


def _bill_lines(root: Path, size: Size, seed: int, out: Path) -> list[str]:
    from experiments.lab.found import load
    from experiments.lab.model import Size
    from experiments.lab.pages import table_lines
    from experiments.lab.running import Order
    from experiments.lab.times import bills_table

    found = []
    for name, experiment in load(root).items():
        order, corner = Order(root, name, size, seed), experiment.cells(Size.QUICK)
        whole = _there(order, out) is not None
        found.append(_bill(order, experiment, corner, out, whole=whole))
    return list(table_lines(bills_table(found)))


def _bill(
    order: Order, experiment: Experiment, corner: Sequence[Cell], out: Path, *, whole: bool = False
) -> Bill:
    """The time that an order takes, and that is left of it; ``whole``: its result is there."""
    from experiments.lab.running import distinct, kept_cells
    from experiments.lab.times import FILE, Times, bill

    cells = distinct(order.cells or experiment.cells(order.size))
    kept = kept_cells(order, experiment, out / STORE)
    done = {cell.name for cell in cells if whole or kept.get(cell.name) is not None}
    return bill(order.name, cells, done, Times(out / FILE), corner)


def _say_time(
    order: Order, experiment: Experiment, corner: Sequence[Cell], jobs: int, out: Path
) -> None:
    """Say what a figure's grid takes before it runs: at the pace of its corner, on the same files.

    The corner is run where nothing of either was timed.
    """
    from experiments.lab.model import Size
    from experiments.lab.running import run
    from experiments.lab.times import FILE, Times

    if _bill(order, experiment, corner, out).left is None:
        few = replace(order, size=Size.QUICK, cells=tuple(corner))
        run(few, jobs=jobs, times=Times(out / FILE))
    found = _bill(order, experiment, corner, out)
    click.echo(
        f"{order.name}: {found.done} of {found.cells} cells are done; the others take about "
        f"{found.left:,.0f} s of a processor; if it is stopped, the same command resumes it",
        err=True,
    )


def _there(order: Order, out: Path) -> dict[str, Any] | None:
    """The full result in a folder, of this seed, grid and sources, if it is there."""
    from experiments.lab import pages
    from experiments.lab.found import load
    from experiments.lab.model import Size
    from experiments.lab.papers import read_file
    from experiments.lab.running import sources_of

    experiment = load(order.root)[order.name]
    read = read_file(experiment, out)
    if order.size is not Size.FULL or read.findings is None or read.results is None:
        return None
    if (read.seed, read.sources) != (order.seed, sources_of(order.root, experiment)):
        return None
    return pages.document(order, experiment, read.results, read.findings, read.sources)


@main.command("figure")
@click.argument("names", nargs=-1)
@click.option(
    "--data",
    "given",
    multiple=True,
    metavar="NAME=FILE",
    help="A data set's .csv or .npy file, as california=housing.csv; once for each.",
)
@size_option("The figure's own scale, which may take hours, or a corner of it.")
@SEED
@JOBS
@out_option(
    "reports/figures",
    "Folder for NAME.md and NAME.svg; finished cells are kept here until the end.",
)
def figure_command(
    names: tuple[str, ...], *, given: tuple[str, ...], size: str, seed: int, jobs: int, out: Path
) -> None:
    """Make the figures and tables NAMES of the papers; without NAMES, list them.

    Each says what share of the paper's scale it is.  Full results of this seed in --out, or in
    experiments/results, are shown and not run again.
    """
    from dpaudit.project.project import find_root
    from dpaudit.storage.files import writable
    from experiments.lab import figures
    from experiments.lab.model import Size
    from experiments.lab.pages import lines, write_page
    from experiments.lab.papers import load_figures, load_papers
    from experiments.lab.running import Order

    root = find_root(Path.cwd())
    known = figures.by_name(load_figures(root), load_papers(root).values())
    if not names:
        width = max(map(len, known), default=0)
        for name, figure in sorted(known.items()):
            click.echo(f"{name:{width}}  {figure.title} ({figure.source})")
        return
    files = figures.read_files(given)
    orders = {}
    for name in names:
        if name not in known:
            raise InvalidParameter(f"no figure {name!r}: expected one of {', '.join(known)}")
        grid = known[name].grid(Size(size), files)
        orders[name] = Order(root, name, Size(size), seed, grid)
    writable(out)
    for name, order in orders.items():
        reads = _shown(known[name], order, known[name].grid(Size.QUICK, files), jobs, out)
        findings = known[name].drawn(reads)
        click.echo("\n".join([*lines(known[name], findings), ""]))
        made = f"`python -m experiments figure {' '.join([name, *(f'--data {g}' for g in given)])}`"
        for path in write_page(known[name], made, findings, out):
            click.echo(path)


def _shown(
    figure: Figure, order: Order, corner: Sequence[Cell], jobs: int, out: Path
) -> dict[str, Read]:
    """The results that a figure shows, by experiment: full ones that are there, others run now.

    ``corner``: the quick grid of the figure's own experiment.
    """
    from experiments.lab.found import load
    from experiments.lab.model import Size
    from experiments.lab.papers import read_file
    from experiments.lab.running import sources_of

    found = load(order.root, figures=True)
    folders = (out, order.root / "experiments" / "results")
    reads = {}
    for name in figure.experiments or (figure.name,):
        experiment, of = found[name], replace(order, name=name)
        if order.cells:
            experiment = replace(experiment, cells=lambda _size: order.cells)
        there = (read_file(experiment, folder) for folder in folders)
        kept = [r for r in there if r.findings and r.seed == of.seed and of.size is Size.FULL]
        if not kept and of.size is Size.FULL:
            _say_time(of, experiment, corner or experiment.cells(Size.QUICK), jobs, out)
        reads[name] = kept[0] if kept else _run(of, jobs, out)
        if reads[name].sources != sources_of(of.root, experiment):
            click.echo(f"{name}: made by other sources than there are now", err=True)
        if not kept and of.size is Size.FULL:
            _write(of, experiment, reads[name], out)
    return reads


@main.command("pages")
@out_option("experiments/results", "Folder of the results; the pages go there too.", exists=True)
def pages_command(out: Path) -> None:
    """Make every page anew from the results in --out: of each experiment, and of each paper.

    Nothing is run.  Results of another grid than an experiment now has are left as they are, and
    read *not run* on the page of their paper.  The count of bands in the README.md beside --out is
    made too.
    """
    from dpaudit.project.project import find_root

    for path in _write_pages(find_root(Path.cwd()), out):
        click.echo(path)


def _write_pages(root: Path, out: Path) -> list[Path]:
    from dpaudit.storage.files import write_atomically
    from experiments.lab import errata, listed, pages, turned
    from experiments.lab.found import load
    from experiments.lab.papers import (
        load_claims,
        load_errata,
        load_listed,
        load_papers,
        measured,
        page,
        read_all,
    )
    from experiments.lab.running import Order, sources_of

    experiments = load(root)
    reads = read_all(experiments.values(), out)
    written, documents = [], []
    for name, read in reads.items():
        if read.findings is not None and read.results is not None:
            order = Order(root, name, seed=read.seed)
            given = (order, experiments[name], read.results, read.findings)
            written += pages.write(*given, out, read.sources)
            documents.append(pages.document(*given))
            if read.sources != sources_of(root, experiments[name]):
                of = "other sources than there are now" if read.sources else "sources not recorded"
                click.echo(f"{name}: made by {of}", err=True)
    papers, claims = load_papers(root), load_claims(root)
    for paper in papers.values():
        path = out / f"paper_{paper.name}.md"
        write_atomically(path, page(paper, reads, claims.get(paper.name)).encode())
        written.append(path)
    wrong = {one.paper: [each.place for each in one.errata] for one in load_errata(root)}
    text = listed.page(load_listed(root), measured(papers.values()), wrong)
    write_atomically(out / LISTED, text.encode())
    written.append(out / LISTED)
    for one in load_errata(root):
        path = out / f"errata_{one.paper}.md"
        write_atomically(path, errata.page(one).encode())
        written.append(path)
    missing = {name: read.why for name, read in reads.items() if read.findings is None}
    write_atomically(out / "README.md", pages.index(documents, missing).encode())
    written.append(out / "README.md")
    earlier = out.parent / turned.FILE
    if earlier.is_file():
        path = out / "turned.md"
        write_atomically(path, turned.page(papers, reads, earlier).encode())
        written.append(path)
    beside = out.parent / "README.md"
    if beside.is_file():
        text = pages.counted(beside.read_text("utf-8"), pages.seen(documents))
        write_atomically(beside, text.encode())
        written.append(beside)
    return written


def _one(order: Order, jobs: int, out: Path, *, as_json: bool) -> dict[str, Any]:
    from experiments.lab import pages
    from experiments.lab.found import load

    experiment = load(order.root)[order.name]
    read = _run(order, jobs, out)
    paths, made = _write(order, experiment, read, out)
    if not as_json and read.findings is not None:
        click.echo("\n".join([*pages.lines(experiment, read.findings), "", *paths, ""]))
    return made | {"files": paths}


def _write(
    order: Order, experiment: Experiment, read: Read, out: Path
) -> tuple[list[str], dict[str, Any]]:
    """Write what was run; its files, and its document."""
    from experiments.lab import pages

    assert read.findings is not None  # noqa: S101  (it was run)
    assert read.results is not None  # noqa: S101
    given = (order, experiment, read.results, read.findings)
    paths = [str(path) for path in pages.write(*given, out, read.sources)]
    return paths, pages.document(*given, read.sources)


def _run(order: Order, jobs: int, out: Path) -> Read:
    """Run what is not kept yet, and read it; ``out`` keeps finished cells and their times."""
    from experiments.lab.found import load
    from experiments.lab.papers import Read
    from experiments.lab.protocol import of_result
    from experiments.lab.running import run, sources_of
    from experiments.lab.times import FILE, Times

    experiment = load(order.root, figures=True)[order.name]
    stamp = experiment.protocol.stamp if experiment.protocol else None
    times = Times(out / FILE)
    results = run(order, jobs=jobs, store=out / STORE, progress=_Progress(), times=times)
    findings = of_result(experiment, experiment.read(results), stamp)
    sources = sources_of(order.root, experiment)
    return Read(order.name, findings, results, order.seed, "", sources, experiment.title)


def _exit_code(verdicts: Sequence[str]) -> int:
    from experiments.lab.pages import EXIT_CODES

    codes = {EXIT_CODES[verdict] for verdict in verdicts}
    return next((code for code in (1, 3) if code in codes), 0)


def _list(found: Any, *, as_json: bool) -> None:
    rows = [
        {"name": e.name, "title": e.title, "source": e.source}
        for e in sorted(found.values(), key=lambda e: e.name)
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        click.echo(f"{row['name']:{width}}  {row['title']} ({row['source']})")
    if not rows:
        click.echo("no experiments: add a module to experiments/, beside an __init__.py", err=True)

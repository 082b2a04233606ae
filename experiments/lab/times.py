"""The cost of cells: processor seconds by experiment and cell, kept beside the results."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from dpaudit.storage.csv_text import csv_text
from dpaudit.storage.files import write_atomically
from experiments.lab.model import Cell, Table

FILE = "seconds.csv"
COLUMNS = ("experiment", "cell", "seconds", "sources")
SHOWN = 12  # digits of a digest


@dataclass(frozen=True)
class Times:
    """A table of what every cell took when it was last run, and of which sources it then was.

    Rows of two runs at once may be lost; a row that does not read is as good as none.
    """

    path: Path

    def read(self) -> dict[tuple[str, str], tuple[float, str]]:
        """Processor seconds and sources, by experiment and cell."""
        found = {}
        try:
            for row in csv.DictReader(io.StringIO(self.path.read_text("utf-8"))):
                key = row["experiment"], row["cell"]
                found[key] = float(row["seconds"]), row["sources"]
        except (OSError, ValueError, KeyError, TypeError):
            return found
        return found

    def add(self, experiment: str, cell: Cell, seconds: float, sources: str) -> None:
        """Keep what a cell took."""
        found = self.read()
        found[experiment, cell.name] = seconds, sources[:SHOWN]
        rows = [(*key, f"{taken:.3f}", made) for key, (taken, made) in sorted(found.items())]
        write_atomically(self.path, csv_text(COLUMNS, rows).encode())


@dataclass(frozen=True)
class Bill:
    """The cost of an experiment's grid in processor seconds.

    ``measured``: the sum over the ``timed`` cells; ``estimated``: of the others, by their declared
    costs at the pace of all timed cells of the experiment, or, where there are none, at the median
    pace of those of its quick grid, and None where these are not timed either.  ``left``:
    the part of both that is still to be run.
    """

    experiment: str
    cells: int
    timed: int
    measured: float
    estimated: float | None
    done: int
    left: float | None


def bill(
    experiment: str,
    cells: Sequence[Cell],
    done: set[str],
    times: Times,
    quick: Sequence[Cell] = (),
) -> Bill:
    """The bill of a grid of which the cells named in ``done`` need not be run."""
    known = {name: s for (of, name), (s, _) in times.read().items() if of == experiment}
    timed = [cell for cell in cells if cell.name in known]
    # Cells of a corner are short, and the first one that runs imports what all of them need.
    corner = [known[cell.name] / cell.cost for cell in quick if cell.name in known]
    pace = median(corner) if corner else None
    if timed:
        pace = sum(known[cell.name] for cell in timed) / sum(cell.cost for cell in timed)

    def seconds(some: Sequence[Cell]) -> float | None:
        found = [known.get(c.name, None if pace is None else pace * c.cost) for c in some]
        return None if None in found else sum(s for s in found if s is not None)

    return Bill(
        experiment,
        len(cells),
        len(timed),
        sum(known[cell.name] for cell in timed),
        seconds([cell for cell in cells if cell.name not in known]),
        sum(cell.name in done for cell in cells),
        seconds([cell for cell in cells if cell.name not in done]),
    )


def bills_table(bills: Sequence[Bill]) -> Table:
    """A line an experiment, the most expensive first, and their sum."""
    rows = [_row(b) for b in sorted(bills, key=lambda b: -(b.measured + (b.estimated or 0.0)))]
    rows.append(_row(_total(bills)))
    columns = ("experiment", "cells", "timed", "seconds", "others, about", "done", "left, about")
    return Table("Processor seconds", columns, tuple(rows))


def _total(bills: Sequence[Bill]) -> Bill:
    unknown = sum(b.left is None for b in bills)
    return Bill(
        f"all but {unknown} that nothing was timed of" if unknown else "all",
        sum(b.cells for b in bills),
        sum(b.timed for b in bills),
        sum(b.measured for b in bills),
        sum(b.estimated or 0.0 for b in bills),
        sum(b.done for b in bills),
        sum(b.left or 0.0 for b in bills),
    )


def _row(b: Bill) -> tuple[str | int, ...]:
    estimated, left = (
        "not timed" if seconds is None else f"{seconds:.0f}" for seconds in (b.estimated, b.left)
    )
    return b.experiment, b.cells, b.timed, f"{b.measured:.0f}", estimated, b.done, left

"""Figures and tables of the papers, each made by one command from experiments.

A figure shows results; its page says what share of the paper's own scale they are of.  A figure
with a data set of its own takes the paper's from files that the user gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpaudit.errors import InvalidParameter
from experiments.lab.model import Cell, Check, Experiment, Findings, Results, Size, Table
from experiments.lab.papers import Paper, Read

SLOPE = re.compile(r"\b(slopes?|exponent)\b")
RATE_COLUMNS = ("place", "printed", "measured", "slope", "two standard errors", "band", "found")

Files = Mapping[str, Path]


@dataclass(frozen=True)
class Figure:
    """A figure or a table of a paper, or the plot of one of its sections.

    ``experiments``: the names of the experiments that it shows; where ``own`` is given, that one
    is run instead, on ``cells(size, files)``, and ``files`` lists the data sets whose files it
    takes.  ``show(reads)`` makes tables and panels of what was read, by experiment.
    ``scale(reads)``: in words, the share of the paper's own scale.
    """

    name: str
    title: str
    source: str
    show: Callable[[Mapping[str, Read]], Findings]
    scale: Callable[[Mapping[str, Read]], str]
    experiments: tuple[str, ...] = ()
    own: Experiment | None = None
    cells: Callable[[Size, Files], Sequence[Cell]] | None = None
    files: tuple[str, ...] = ()

    def grid(self, size: Size, files: Files) -> tuple[Cell, ...]:
        """The cells of the figure's own experiment.

        Errors: InvalidParameter for the file of a data set that the figure does not show.
        """
        for name in files:
            if name not in self.files:
                takes = ", ".join(self.files) or "no file"
                raise InvalidParameter(f"{self.name}: data set {name!r}; expected {takes}")
        return tuple(self.cells(size, files)) if self.cells else ()

    def drawn(self, reads: Mapping[str, Read]) -> Findings:
        """The contents of the page: the figure, and the share of the paper's scale."""
        found = self.show(reads)
        missing = [
            f"{name}: not run ({read.why})" for name, read in reads.items() if not read.findings
        ]
        notes = (f"scale: {self.scale(reads)}", *found.notes, *missing)
        return Findings(found.tables, found.checks, found.panels, notes)


def read_files(given: Sequence[str]) -> Files:
    """Files by data set, of words NAME=FILE.

    Errors: InvalidParameter for another word.
    """
    files = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise InvalidParameter(f"--data {text}: expected NAME=FILE, as california=housing.csv")
        files[name] = Path(path)
    return files


def by_name(figures: Iterable[Figure], papers: Iterable[Paper]) -> dict[str, Figure]:
    """Figures of their own, and the table of rates of every paper that measures a slope."""
    made = [*figures, *(rates(paper) for paper in papers)]
    return {figure.name: figure for figure in made}


def rates(paper: Paper) -> Figure:
    """The table of a paper's rates: measured slopes beside printed ones, by statement."""
    names = dict.fromkeys(s.experiment for s in paper.statements if s.experiment)
    return Figure(
        f"rates_{paper.name}",
        f"Rates: {paper.title}",
        "the rates of the paper's theorems and tables",
        show=lambda reads: _rates(paper, reads),
        scale=_measured_sizes,
        experiments=tuple(names),
    )


def _rates(paper: Paper, reads: Mapping[str, Read]) -> Findings:
    rows: list[tuple[str | float, ...]] = []
    for statement in paper.statements:
        read = reads.get(statement.experiment)
        checks = read.findings.checks if read and read.findings else ()
        for check in checks:
            if check.name.startswith(statement.checks) and SLOPE.search(check.name):
                rows.append(_rate(statement.place, statement.says, check))
    return Findings((Table("Measured slopes beside printed rates", RATE_COLUMNS, tuple(rows)),), ())


def _rate(place: str, says: str, check: Check) -> tuple[str | float, ...]:
    from experiments.lab.pages import band, shown, verdict

    margin = shown(check.margin) if check.margin else ""
    return place, says, check.name, check.value, margin, band(check), verdict(check)


def _measured_sizes(reads: Mapping[str, Read]) -> str:
    """The papers print rates of n that no run has; what was run is each grid's numbers."""
    said = []
    for name, read in reads.items():
        checks = read.findings.checks if read.findings else ()
        if read.results is not None and any(SLOPE.search(check.name) for check in checks):
            said.append(f"{name} {_ranges(read.results)}")
    runs = "; ".join(said) or "no run"
    return f"the paper prints rates and no run, so that no share is one; measured are {runs}"


def _ranges(results: Results) -> str:
    """The sizes of a grid: each number that varies, from its least to its largest."""
    names = dict.fromkeys(name for r in results for name, _ in r.cell.parameters)
    ranges = []
    for name in names:
        values = [v for v in results.parameters(name) if not isinstance(v, str)]
        if len(set(values)) > 1:
            ranges.append(f"{name} {min(values):,g} to {max(values):,g}")
    return f"({', '.join(ranges)})" if ranges else "(one size)"


def together(reads: Mapping[str, Read]) -> Findings:
    """Tables, panels and checks of all experiments, in their order."""
    found = [read.findings for read in reads.values() if read.findings is not None]
    return Findings(
        tuple(table for one in found for table in one.tables),
        tuple(check for one in found for check in one.checks),
        tuple(panel for one in found for panel in one.panels),
        tuple(note for one in found for note in one.notes),
    )

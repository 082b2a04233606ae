"""An experiment: a grid of cells, the measurement of one cell, and how the grid is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from dpaudit.compare.search import Protocol
from dpaudit.errors import InvalidParameter

Parameter: TypeAlias = str | int | float
Number: TypeAlias = int | float
Values: TypeAlias = Mapping[str, Number | Sequence[Number]]

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Size(StrEnum):
    """How much of the grid is run: all of it in minutes, or a corner of it in seconds."""

    QUICK = "quick"
    FULL = "full"


class Status(StrEnum):
    """The outcome of a measured value against its band."""

    HELD = "held"
    MISSED = "missed"
    INCONCLUSIVE = "inconclusive"
    WITHHELD = "not judged"


@dataclass(frozen=True)
class Cell:
    """One point of the grid: its parameters by name, and what it costs beside other cells.

    Equal parameters mean equal results under one seed, in whatever grid the cell stands.
    Errors: InvalidParameter for no parameter, one that is not finite, or a cost not positive.
    """

    parameters: tuple[tuple[str, Parameter], ...]
    cost: float = field(default=1.0, compare=False)

    def __post_init__(self) -> None:
        if not self.parameters:
            raise InvalidParameter("Cell: no parameter; name the method and its sizes")
        for name, value in self.parameters:
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidParameter(f"Cell: {name} = {value}; expected a finite number")
        if not (math.isfinite(self.cost) and self.cost > 0):
            raise InvalidParameter(f"Cell.cost = {self.cost}: expected a positive number")

    @classmethod
    def of(cls, cost: float = 1.0, **parameters: Parameter) -> Cell:
        """A cell by keyword: ``Cell.of(method="dp_gd", n=3000)``."""
        return cls(tuple(parameters.items()), cost)

    @property
    def name(self) -> str:
        """The parameters as text, which names the cell within its experiment."""
        return " ".join(f"{name}={value}" for name, value in self.parameters)

    def text(self, name: str) -> str:
        """A parameter that is a word."""
        return str(dict(self.parameters)[name])

    def count(self, name: str) -> int:
        """A parameter that is a whole number."""
        return int(dict(self.parameters)[name])

    def number(self, name: str) -> float:
        """A parameter that is a number."""
        return float(dict(self.parameters)[name])

    def matches(self, conditions: Mapping[str, Parameter]) -> bool:
        """Whether the cell has all these parameters."""
        return set(conditions.items()) <= set(self.parameters)


@dataclass(frozen=True)
class Result:
    """The values that one cell measured."""

    cell: Cell
    values: Values

    def number(self, name: str) -> float:
        """A measured number."""
        return float(np.asarray(self.values[name], dtype=np.float64))

    def numbers(self, name: str) -> list[float]:
        """Measured numbers, one a trial, or whatever the cell lists."""
        return [float(v) for v in np.atleast_1d(np.asarray(self.values[name], dtype=np.float64))]


@dataclass(frozen=True)
class Results:
    """The results of a grid, in the order of its cells."""

    rows: tuple[Result, ...]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.rows)

    def where(self, **conditions: Parameter) -> Results:
        """The results of the cells that have these parameters."""
        return Results(tuple(r for r in self.rows if r.cell.matches(conditions)))

    def one(self, **conditions: Parameter) -> Result:
        """The one result of these parameters.

        Errors: InvalidParameter if there is none, or more than one.
        """
        found = self.where(**conditions).rows
        if len(found) != 1:
            raise InvalidParameter(f"{len(found)} cells have {conditions}; expected one")
        return found[0]

    def parameters(self, name: str) -> list[Parameter]:
        """The values that a parameter takes, each once, in order of appearance."""
        found = (dict(r.cell.parameters).get(name) for r in self.rows)
        return [value for value in dict.fromkeys(found) if value is not None]


@dataclass(frozen=True)
class Check:
    """A measured value and the band it should lie in, both ends included.

    ``margin``: two standard errors of the value, 0 where nothing is random.  A value that is nearer
    to an end of the band than its margin, on either side, is inconclusive; one that is outside
    by more is missed, and so is one that is not a number.  ``source``: who states the band.
    ``by``: the protocol of a comparison of methods.  ``withheld``: why nothing may be concluded
    from the value, such as an unfair comparison; it is then not judged, whatever it is.
    Errors: InvalidParameter for an empty band, or a margin that is negative or not finite.
    """

    name: str
    value: float
    lower: float = -math.inf
    upper: float = math.inf
    margin: float = 0.0
    source: str = ""
    by: Protocol | None = None
    withheld: str = ""

    def __post_init__(self) -> None:
        unbounded = math.isinf(self.lower) and math.isinf(self.upper)
        if not self.lower <= self.upper or unbounded:
            raise InvalidParameter(f"Check {self.name!r}: [{self.lower}, {self.upper}] is no band")
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise InvalidParameter(f"Check {self.name!r}: margin {self.margin} is no margin")

    @property
    def status(self) -> Status:
        """Whether the value lies in its band; not judged where it is withheld."""
        if self.withheld:
            return Status.WITHHELD
        outside = max(self.lower - self.value, self.value - self.upper)
        if math.isnan(self.value) or outside > self.margin:
            return Status.MISSED
        return Status.HELD if outside <= -self.margin else Status.INCONCLUSIVE


@dataclass(frozen=True)
class Table:
    """A table: numbers are shown to four digits, words as they are.

    Errors: InvalidParameter for a row of another length than ``columns``.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Parameter, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidParameter(f"Table {self.title!r}: every row needs {len(self.columns)}")


@dataclass(frozen=True)
class Series:
    """Points of a plot, joined by a line; ``style`` is a line of Matplotlib's, or "" for none.

    ``marker``: "o" where points are marked, or "".  ``error``: half the length of a point's bar.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: str = "-"
    marker: str = "o"
    error: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or len(self.error) not in (0, len(self.x)):
            raise InvalidParameter(f"Series {self.label!r}: x, y and error differ in length")


@dataclass(frozen=True)
class Panel:
    """One pair of axes; ``scale`` is "loglog", "semilogy" or "linear"."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    scale: str = "loglog"


@dataclass(frozen=True)
class Findings:
    """The findings of a grid: tables, checks, the panels of its plot, and sentences beside them."""

    tables: tuple[Table, ...]
    checks: tuple[Check, ...]
    panels: tuple[Panel, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A grid of cells; each is run alone, by a generator of its own, and stored when it is done.

    ``cells(size)`` are distinct; ``run(cell, rng)`` measures one and returns numbers or lists of
    numbers by name; ``read(results)`` makes tables, checks and panels of a whole grid.
    ``protocol``: under which its methods are compared.  ``alone``: how the names of checks begin
    that speak of one method alone (its rate, its bound, its counts).  Every other check compares
    methods, and is judged only if the result records the protocol; all of them without either.
    Errors: InvalidParameter for a name that is no snake_case word.
    """

    name: str
    title: str
    source: str
    cells: Callable[[Size], Sequence[Cell]]
    run: Callable[[Cell, np.random.Generator], Values]
    read: Callable[[Results], Findings]
    protocol: Protocol | None = None
    alone: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidParameter(f"Experiment.name = {self.name!r}: expected a snake_case word")


def judge(checks: Iterable[Check]) -> Status:
    """Missed if one is missed, else inconclusive if one is, else not judged, else held."""
    found = {check.status for check in checks}
    worst = (Status.MISSED, Status.INCONCLUSIVE, Status.WITHHELD)
    return next((status for status in worst if status in found), Status.HELD)

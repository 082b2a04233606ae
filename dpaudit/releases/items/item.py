"""The item of a release, its parts, and the rows that it publishes.

An item reads whole-numbered totals of the table, and turns them into *parts*: vectors of whole
numbers that get noise, or scores among which one candidate is chosen.  A part's sensitivity follows
from the schema's and the item's limits alone; nobody types it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.families.selection import Scores
from dpaudit.releases.contributions import Contribution, Moves, together
from dpaudit.releases.runs import Chosen, Runs
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, Keys, Number, Period, Schema, Total, Within
from dpaudit.tabular.engine import columns_of
from dpaudit.tabular.schema import (
    CUT,
    DROP,
    ERROR,
    NEAREST,
    number,
    shown_in,
    text_of,
    whole_number,
)

GAUSSIAN, LAPLACE = "gaussian", "laplace"
LARGEST_SUM = 2**52  # totals up to which floats hold whole numbers
SQUARES = 2**10  # steps of a product's own grid
Found: TypeAlias = Sequence[Sequence[Keys]]
Exact: TypeAlias = Keys | Runs | Chosen
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Vector:
    """A part that is a vector of whole numbers, with independent noise on each.

    ``contributions``: what one unit adds, block by block; ``step``: what 1 stands for.
    ``chosen_by``: the label of a choice before it, on which its numbers, or their units, depend;
    ``step`` is the largest.  ``rank``: of several that are chosen in turn, which one, from 0.
    """

    label: str
    noise: str
    contributions: tuple[Contribution, ...]
    step: Fraction = Fraction(1)
    share: Fraction = Fraction(1)
    chosen_by: str = ""
    rank: int = 0

    @property
    def cells(self) -> int:
        """How many numbers."""
        return sum(c.cells for c in self.contributions)

    def moves(self, adjacency: Adjacency) -> Moves:
        """How far one unit moves it."""
        return together(self.contributions, adjacency)


@dataclass(frozen=True)
class Choice:
    """A part that names one of ``candidates``, or ``times`` different ones in turn.

    They are the codes of ``column``.
    ``moved``: how far one unit moves one score, by adjacency; ``monotone``: whether all scores go
    one way when a unit comes or goes; ``row``: how much of a score is one row.
    """

    label: str
    column: str
    candidates: int
    moved: int
    moved_by_replacement: int
    monotone: bool
    times: int = 1
    share: Fraction = Fraction(1)
    row: int = 1

    def within(self, margins: Margins) -> int:
        """How many rows the chosen one may be behind the best one, 95 times in 100.

        Source: McSherry, Talwar 2007, Theorem 8: e^(-epsilon gap / 2) a candidate.
        """
        ranks = 2 * math.log(self.candidates / 0.05) / margins.epsilon(self.label) / self.row
        return math.ceil(ranks)

    def by(self, adjacency: Adjacency) -> int:
        """How far one unit moves one score."""
        if adjacency is Adjacency.REPLACE_ONE:
            return self.moved_by_replacement
        return self.moved

    def scores(self, adjacency: Adjacency) -> Scores:
        """How scores differ between neighbours."""
        alike = self.monotone and adjacency is not Adjacency.REPLACE_ONE
        return Scores.MONOTONE if alike else Scores.ANY


@dataclass(frozen=True)
class Thresholded:
    """A part that counts under keys nobody listed, and shows those whose noisy count is large.

    ``contribution``: of one unit; ``delta``: the most that a unit's own keys may show it.
    """

    label: str
    contribution: Contribution
    delta: Fraction
    share: Fraction = Fraction(1)
    noise: str = ""

    def moves(self, adjacency: Adjacency) -> Moves:
        """How far one unit moves the counts."""
        return self.contribution.moves(adjacency)


@dataclass(frozen=True, eq=False)
class Declared:
    """A part with a declaration of its own: a program, whose noise is not solved for."""

    label: str
    program: Any
    share: Fraction = Fraction(0)


Part: TypeAlias = Vector | Choice | Thresholded | Declared


@dataclass(frozen=True, kw_only=True)
class Item(ABC):
    """One item of a release.

    ``weight``: its share of the budget, beside the others'.  ``where``: conditions on columns, all
    of which a row must meet: a key, a list of keys, or ``{from, to}`` for numbers.
    ``groups``: in how many groups one unit counts; ``per_group``: with how many rows in each (1 to
    count units).  ``error_95``: the largest margin that its numbers may have, of noise alone.
    Errors: InvalidParameter for a name, weight, limit or target outside its domain.
    """

    query: ClassVar[str] = ""
    name: str
    weight: Fraction = Fraction(1)
    where: Mapping[str, Any] = field(default_factory=dict)
    groups: int | None = None
    per_group: int | None = None
    error_95: Fraction | None = None

    def __post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not name.strip() or "/" in name:
            raise InvalidParameter(f"item name {name!r}: expected a text without '/'")
        object.__setattr__(self, "weight", number(self.weight, f"item {name!r}: weight"))
        if self.weight <= 0:
            raise InvalidParameter(f"item {name!r}: weight = {self.weight}; expected above 0")
        if self.error_95 is not None:
            target = number(self.error_95, f"item {name!r}: error_95")
            object.__setattr__(self, "error_95", target)
            if target <= 0:
                raise InvalidParameter(f"item {name!r}: error_95 = {target}; expected above 0")
        for limit in ("groups", "per_group"):
            if getattr(self, limit) is not None:
                whole_number(getattr(self, limit), f"item {name!r}: {limit}")

    @abstractmethod
    def parts(self, schema: Schema) -> tuple[Part, ...]:
        """The parts that get noise.  Errors: InvalidParameter for columns that do not fit."""

    @abstractmethod
    def totals(self, schema: Schema) -> tuple[Total, ...]:
        """The totals that are read from the table."""

    @abstractmethod
    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        """The exact whole numbers, or scores, of each part, by label."""

    @abstractmethod
    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        """The published rows, made of released numbers only."""

    def noise_of(self, chosen: str) -> str:
        """The kind of noise, "" where the budget decides.  Errors: InvalidParameter."""
        if chosen not in ("", GAUSSIAN, LAPLACE):
            raise InvalidParameter(
                f"item {self.name!r}: noise = {chosen!r}: expected {GAUSSIAN} or {LAPLACE}, or "
                "none: Gaussian, but where the budget is pure"
            )
        return chosen

    def row(self) -> dict[str, Any]:
        """Everything as JSON."""
        given = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"query": self.query, **{k: v for k, v in given.items() if v not in (None, {}, [])}}

    def conditions(self, schema: Schema) -> tuple[Within, ...]:
        """The conditions, in codes.  Errors: InvalidParameter for keys that are not public."""
        if not isinstance(self.where, Mapping):
            raise InvalidParameter(f"item {self.name!r}: where: expected a table of columns")
        return schema.within(self.where, f"item {self.name!r}: where")

    def limits(self, schema: Schema, cells: int) -> tuple[int, int]:
        """In how many groups a unit counts, and with how many rows in each.

        Errors: InvalidParameter for limits on a table in which every row is a unit.
        """
        groups = min(self.groups or schema.rows, schema.rows, cells)
        return groups, min(self.per_group or schema.rows, schema.rows)

    def bounding(self, schema: Schema, cells: int) -> tuple[int | None, int | None]:
        """The groups, and rows in each, that the engine must enforce beyond the schema's limit."""
        groups, rows = self.limits(schema, cells)
        binding = schema.unit is not None
        return (
            groups if binding and groups < min(schema.rows, cells) else None,
            rows if binding and rows < schema.rows else None,
        )

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """The errors that its noise margin leaves out: cut rows, and values that are changed."""
        totals = self.totals(schema)
        texts = []
        if schema.unit is not None and schema.excess == CUT and any(map(self._cuts, totals)):
            texts.append(f"rows of one {schema.entity} beyond {schema.rows} are left out")
        for total in totals:
            if total.groups is not None:
                texts.append(f"groups of one {schema.entity} beyond {total.groups} are left out")
            if total.per_group is not None and not self._counts_units:
                texts.append(
                    f"rows of one {schema.entity} in one group beyond {total.per_group} are left "
                    "out"
                )
            if total.per_unit is not None:
                texts.append(f"rows of one {schema.entity} beyond {total.per_unit} are left out")
        for name in dict.fromkeys(name for total in totals for name in columns_of(total)):
            column = schema.columns[name]
            if column.missing == DROP:
                texts.append(f"rows without {name} are left out")
            if isinstance(column, Category) and column.other != ERROR:
                does = "are left out" if column.other == DROP else f"count as {column.other}"
                texts.append(f"values of {name} that are no key {does}")
            if isinstance(column, Number) and column.outside == NEAREST:
                ends = " to ".join(shown_in(column, end) for end in (column.lower, column.upper))
                steps = (
                    ""
                    if isinstance(column, Period)
                    else f", and others as the nearest multiple of {text_of(column.step)[0]}"
                )
                texts.append(f"values of {name} outside {ends} count as the nearest bound{steps}")
        return tuple(dict.fromkeys(texts))

    @property
    def _counts_units(self) -> bool:
        """Whether what is counted are units, of which rows beyond the first change nothing."""
        return False

    def _cuts(self, total: Total) -> bool:
        """Whether leaving out rows of a unit changes this total."""
        return not (self._counts_units and not (total.by or total.where or total.needed))

    def always_counts(self, schema: Schema, *columns: str) -> bool:
        """Whether every unit is one row, which no condition and no missing value leaves out."""
        if schema.unit is not None or self.where or schema.where:
            return False
        dropped = any(
            schema.columns[c].missing == DROP or getattr(schema.columns[c], "other", "") == DROP
            for c in columns
        )
        return not dropped


@dataclass(frozen=True)
class Row:
    """One published number: ``value`` exact, ``error`` its 95% margin, ``note`` what it is.

    ``not_covered``: what may make it wrong beyond its margin, in words.  ``processed``: whether a
    step of post-processing changed it; its margin then holds for the changed number.  ``sampled``:
    whether it is an estimate of a population, of which its margin holds.  ``text``: a
    published date, whose ``value`` is None.
    """

    item: str
    keys: tuple[tuple[str, str], ...]
    statistic: str
    value: Fraction | None
    error: Fraction | None
    note: str = ""
    not_covered: tuple[str, ...] = ()
    processed: bool = False
    text: str = ""
    sampled: bool = False

    @property
    def covers(self) -> str:
        """In words, the errors that the margin covers: all that there are, or some only."""
        if self.error is None:
            return "no margin"
        covered = "noise and processing" if self.processed else "noise"
        covered += ", and sampling" * self.sampled
        return f"{covered} only" if self.not_covered else f"all ({covered})"


class Margins(ABC):
    """Public facts about the noise of each part."""

    @abstractmethod
    def half(self, label: str, share: Fraction = Fraction(1, 20)) -> int:
        """The smallest whole k with P(|noise| > k) <= share."""

    @abstractmethod
    def deviation(self, label: str) -> float:
        """The noise's standard deviation, in steps."""

    def half_of_all(self, label: str, cells: int) -> int:
        """The smallest whole k that the noise of all cells together exceeds 5 times in 100.

        Cells have independent noise: each stays within k with the probability 0.95^(1/cells).
        """
        share = Fraction(-math.expm1(math.log(0.95) / cells)).limit_denominator(10**9)
        return self.half(label, share)

    def deviations(self, label: str) -> float:
        """The 95% margin in standard deviations: 1.96 of Gaussian noise, more of Laplace noise."""
        deviation = self.deviation(label)
        # A budget of thousands leaves noise that no float is small enough for.
        return self.half(label) / deviation if deviation else 0.0

    @abstractmethod
    def draws(self, label: str, count: int, rng: np.random.Generator) -> Floats:
        """Noise of the part's law, shape (count,), from a public generator, for simulations."""

    @abstractmethod
    def epsilon(self, label: str) -> float:
        """The epsilon of a private choice: its parameter over the sensitivity of a score."""


def texts(value: Any) -> tuple[str, ...]:
    """One text, or several; errors: InvalidParameter for what is no list."""
    if not isinstance(value, str | tuple | list):
        raise InvalidParameter(f"{str(value)[:40]}: expected a name, or a list of names")
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def _plain(value: Any) -> Any:
    """A setting as JSON without numbers, so that its digest does not depend on how they print."""
    if isinstance(value, Fraction | int | date) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return str(Fraction(str(value)))
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value

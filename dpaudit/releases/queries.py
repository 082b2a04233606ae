"""The items of a release: what is counted, summed or chosen, and how far one unit moves it.

An item reads whole-numbered totals of the table, and turns them into *parts*: vectors of whole
numbers that get noise, or scores among which one candidate is chosen.  What a part moves by follows
from the schema's and the item's limits alone; nobody types a sensitivity.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.families.selection import Scores
from dpaudit.releases.contributions import Contribution, Moves, together
from dpaudit.releases.runs import Chosen, Runs, counts_of, rank_scores
from dpaudit.scope import Adjacency
from dpaudit.tabular import (
    ROWS,
    Bins,
    Category,
    Counted,
    Cut,
    Keys,
    Number,
    Period,
    Schema,
    Term,
    Text,
    Total,
    Within,
    rounded,
    sizes_of,
)
from dpaudit.tabular.engine import columns_of
from dpaudit.tabular.schema import (
    CUT,
    DROP,
    ERROR,
    NEAREST,
    number,
    on_grid,
    refuse_unknown,
    shown_in,
    whole_number,
)
from dpaudit.tabular.schema import text_of as text_of

GAUSSIAN, LAPLACE = "gaussian", "laplace"
LARGEST_SUM = 2**52
SQUARES = 2**10  # steps of a product's own grid
Found: TypeAlias = Sequence[Sequence[Keys]]
Exact: TypeAlias = Keys | Runs | Chosen
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Vector:
    """A part that is a vector of whole numbers, with independent noise on each.

    ``contributions``: what one unit adds, block by block; ``step``: what 1 stands for.
    ``chosen_by``: the label of a choice before it, in whose units it is; ``step`` is the largest.
    """

    label: str
    noise: str
    contributions: tuple[Contribution, ...]
    step: Fraction = Fraction(1)
    share: Fraction = Fraction(1)
    chosen_by: str = ""

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
    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
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
        said = []
        if schema.unit is not None and schema.excess == CUT and any(map(self._cuts, totals)):
            said.append(f"rows of one {schema.entity} beyond {schema.rows} are left out")
        for total in totals:
            if total.groups is not None:
                said.append(f"groups of one {schema.entity} beyond {total.groups} are left out")
            if total.per_group is not None and not self._counts_units:
                said.append(
                    f"rows of one {schema.entity} in one group beyond {total.per_group} are left "
                    "out"
                )
            if total.per_unit is not None:
                said.append(f"rows of one {schema.entity} beyond {total.per_unit} are left out")
        for name in dict.fromkeys(name for total in totals for name in columns_of(total)):
            column = schema.columns[name]
            if column.missing == DROP:
                said.append(f"rows without {name} are left out")
            if isinstance(column, Category) and column.other != ERROR:
                does = "are left out" if column.other == DROP else f"count as {column.other}"
                said.append(f"values of {name} that are no key {does}")
            if isinstance(column, Number) and column.outside == NEAREST:
                ends = " to ".join(shown_in(column, end) for end in (column.lower, column.upper))
                steps = (
                    ""
                    if isinstance(column, Period)
                    else f", and others as the nearest multiple of {text_of(column.step)[0]}"
                )
                said.append(f"values of {name} outside {ends} count as the nearest bound{steps}")
        return tuple(dict.fromkeys(said))

    @property
    def _counts_units(self) -> bool:
        """Whether what is counted are units, of which rows beyond the first change nothing."""
        return isinstance(self, Count) and self.per_group == 1

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
        return self.half(label) / self.deviation(label)

    @abstractmethod
    def draws(self, label: str, count: int, rng: np.random.Generator) -> Floats:
        """Noise of the part's law, shape (count,), from a public generator, for simulations."""

    @abstractmethod
    def epsilon(self, label: str) -> float:
        """The epsilon of a private choice: its parameter over the sensitivity of a score."""


# --- counts, sums, means and variances, by group --------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Grouped(Item):
    """Numbers for every combination of the public keys ``by``; of all rows where it is empty.

    A column of numbers in ``by`` is cut at ``edges[column]``.
    """

    by: tuple[str, ...] = ()
    edges: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        by = texts(self.by)
        object.__setattr__(self, "by", by)
        if len(set(by)) != len(by):
            raise InvalidParameter(f"item {self.name!r}: by names a column twice")
        self.noise_of(self.noise)

    def keys(self, schema: Schema) -> tuple[str | Bins, ...]:
        """The grouping as the engine takes it.  Errors: InvalidParameter for unknown keys."""
        return tuple(self._key(schema, name) for name in self.by)

    def _key(self, schema: Schema, name: str) -> str | Bins:
        place = f"item {self.name!r}: by"
        column = schema.column(name, place)
        if isinstance(column, Category):
            return name
        if isinstance(column, Text):
            raise InvalidParameter(f"{place}: the keys of {name!r} are not public; use groups")
        if name not in self.edges:
            if isinstance(column, Period):
                return name
            raise InvalidParameter(f"{place}: {name!r} holds numbers; give edges.{name}")
        return _bins(name, column, tuple(self.edges[name]), f"item {self.name!r}: edges.{name}")

    def domain(self, schema: Schema) -> list[tuple[tuple[str, str], ...]]:
        """The keys of every cell, in the order of the cells."""
        axes = [_labels(schema, key) for key in self.keys(schema)]
        return [tuple(cell) for cell in product(*axes)]

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """How many keys each column of ``by`` has."""
        return sizes_of(schema, Total(self.name, (ROWS,), self.keys(schema))) or ()

    def cells(self, schema: Schema) -> int:
        """How many cells there are."""
        return prod(self.shape(schema))

    def total(self, schema: Schema, *terms: Term, needed: tuple[str, ...] = ()) -> Total:
        """One grouped total of several terms."""
        cells = self.cells(schema)
        return Total(
            self.name,
            terms,
            self.keys(schema),
            self.conditions(schema),
            needed,
            *self.bounding(schema, cells),
            bounds=self.own_bounds(schema),
        )

    def own_bounds(self, schema: Schema) -> tuple[tuple[str, int, int], ...]:
        """Bounds of columns that are the item's own, in steps."""
        return ()

    def added(self, schema: Schema) -> Contribution:
        """Contribution of a unit to the counts of the cells."""
        cells = self.cells(schema)
        groups, rows = self.limits(schema, cells)
        return Contribution(cells, groups, 0, rows, schema.rows)

    def sums(self, schema: Schema, column: str, low: int, high: int) -> Contribution:
        """Contribution of a unit to sums of terms from ``low`` to ``high`` over its rows."""
        cells = self.cells(schema)
        groups, rows = self.limits(schema, cells)
        largest = max(-low, high, 0)
        if self.always_counts(schema, *self.by, column):
            return Contribution(cells, 1, low, high, None, always=True)
        return Contribution(
            cells, groups, rows * min(low, 0), rows * max(high, 0), schema.rows * largest
        )


@lru_cache(maxsize=64)
def _bins(name: str, column: Number, edges: tuple[Any, ...], place: str) -> Bins:
    """The bins of a column between edges; kept, because many may be asked for many times."""
    codes = tuple(on_grid(column, edge, place) for edge in edges)
    if not codes or any(a >= b for a, b in pairwise(codes)):
        raise InvalidParameter(f"{place}: expected growing numbers")
    return Bins(name, codes)


def _labels(schema: Schema, key: str | Bins) -> list[tuple[str, str]]:
    if isinstance(key, Bins):
        column = schema.ordered(key.column, "by")
        edges = [shown_in(column, edge * column.step) for edge in key.edges]
        first, last = f"below {edges[0]}", f"{edges[-1]} and above"
        between = [f"{a} to below {b}" for a, b in pairwise(edges)]
        return [(key.column, label) for label in (first, *between, last)]
    period = schema.columns[key]
    if isinstance(period, Period):
        return [(key, period.text(code)) for code in range(period.low, period.high + 1)]
    return [(key, label) for label in schema.category(key, "by").domain]


@dataclass(frozen=True, kw_only=True)
class Count(Grouped):
    """The number of rows (of units, with ``per_group = 1``), in all or in every cell of ``by``."""

    query: ClassVar[str] = "count"

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        return (Vector(self.name, self.noise, (self.added(schema),)),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        return (self.total(schema, ROWS),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        return {self.name: found[0][0]}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        error = Fraction(margins.half(self.name))
        return [
            Row(self.name, keys, "count", Fraction(value), error)
            for keys, value in zip(self.domain(schema), released[self.name], strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Valued(Grouped):
    """Numbers made of the values of ``column``.

    ``bounds``: ``{from, to}`` between which values count here, and others as the nearest of them;
    by default those of the schema, which are wider.
    """

    column: str
    bounds: Mapping[str, Any] | None = None

    def valued(self, schema: Schema) -> Number:
        """The column with the item's own bounds.

        Errors: InvalidParameter for bounds that are not on the column's grid, or not in order.
        """
        place = f"item {self.name!r}"
        column = schema.number(self.column, place)
        if self.bounds is None:
            return column
        given: Any = self.bounds
        if not isinstance(given, Mapping):
            raise InvalidParameter(f"{place}: bounds: expected {{from = ..., to = ...}}")
        (within,) = schema.within({self.column: self.bounds}, f"{place}: bounds")
        lower, upper = (code * column.step for code in within.codes)
        return replace(column, lower=lower, upper=upper)

    def own_bounds(self, schema: Schema) -> tuple[tuple[str, int, int], ...]:
        if self.bounds is None:
            return ()
        column = self.valued(schema)
        return ((self.column, column.low, column.high),)

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Also that values outside the item's own bounds are changed."""
        if self.bounds is None:
            return super().not_covered(schema)
        column = self.valued(schema)
        said = between(column, (column.low, column.high))
        clipped = f"values of {self.column} outside {said} count as the nearest bound here"
        return (*super().not_covered(schema), clipped)


@dataclass(frozen=True, kw_only=True)
class Sum(Valued):
    """The sum of a column of numbers, in all or in every cell of ``by``.

    ``unit_total``: ``{from, to}`` between which a unit's total in one cell counts, and others as
    the nearest of them; a unit then moves the sum by that much, however many rows it has.
    ``weights``: a column of numbers from 0, by which each value is multiplied.
    """

    query: ClassVar[str] = "sum"
    unit_total: Mapping[str, Any] | None = None
    weights: str | None = None

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column, weights = self.valued(schema), self._weights(schema)
        low, high = column.low * weights.high, column.high * weights.high
        if max(-low, high) > LARGEST_SUM:
            raise InvalidParameter(
                f"item {self.name!r}: a value times its weight has over 2^52 steps; choose larger "
                "steps"
            )
        # Weights go down to 0.
        ends_of_one = (min(low, 0), max(high, 0)) if self.weights else (low, high)
        sums = self.sums(schema, self.column, *ends_of_one)
        ends = unit_ends(schema, self.column, self.unit_total, f"item {self.name!r}")
        if ends is not None:
            sums = replace(sums, low=max(ends[0], sums.low), high=min(ends[1], sums.high))
        return (Vector(self.name, self.noise, (sums,), column.step * weights.step),)

    def _weights(self, schema: Schema) -> Number:
        """The column of weights; without one, all weights are 1.

        Errors: InvalidParameter for weights below 0, and beside ``unit_total``.
        """
        if self.weights is None:
            return Number(Fraction(0), Fraction(1))
        place = f"item {self.name!r}: weights"
        found = schema.number(self.weights, place)
        if found.low < 0 or self.unit_total is not None or self.weights == self.column:
            raise InvalidParameter(
                f"{place} = {self.weights!r}: expected another column from 0, without unit_total"
            )
        return found

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        ends = unit_ends(schema, self.column, self.unit_total, f"item {self.name!r}")
        factors = [(self.column, 1, 0), *([] if self.weights is None else [(self.weights, 1, 0)])]
        return (replace(self.total(schema, Term(tuple(factors))), ends=ends),)

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Also that totals of a unit are clipped."""
        ends = unit_ends(schema, self.column, self.unit_total, "")
        if ends is None:
            return super().not_covered(schema)
        said = between(schema.number(self.column, ""), ends)
        clipped = f"totals of one {schema.entity} outside {said} count as the nearest bound"
        return (*super().not_covered(schema), clipped)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        return {self.name: found[0][0]}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        step = schema.number(self.column, "").step * self._weights(schema).step
        error, by = margins.half(self.name) * step, f" by {self.weights}" if self.weights else ""
        return [
            Row(self.name, keys, f"sum of {self.column}{by}", value * step, error)
            for keys, value in zip(self.domain(schema), released[self.name], strict=True)
        ]


def unit_ends(
    schema: Schema, name: str, asked: Mapping[str, Any] | None, place: str
) -> tuple[int, int] | None:
    """The steps between which a unit's total of a column counts; None where all of it does.

    Errors: InvalidParameter for ends that are not on the column's grid, or not in order.
    """
    if asked is None:
        return None
    column, place = schema.number(name, place), f"{place}: unit_total"
    if schema.unit is None:
        raise InvalidParameter(f"{place}: every row is a unit; choose bounds of {name!r} instead")
    given: Any = asked
    if not isinstance(given, Mapping) or "to" not in given:
        raise InvalidParameter(f"{place}: expected {{from = ..., to = ...}}")
    refuse_unknown(asked, {"from", "to"}, place)
    if "from" not in asked and column.low < 0:
        raise InvalidParameter(f"{place}.from: missing, and {name!r} can be below 0")
    steps = [number(asked.get(end, 0), f"{place}.{end}") / column.step for end in ("from", "to")]
    low, high = steps
    # Ends on one side of 0 would make totals larger than they are.
    if any(step.denominator != 1 for step in steps) or not low <= 0 <= high or low == high:
        raise InvalidParameter(
            f"{place}: expected multiples of {column.step}, the step of {name!r}, with 0 between "
            "them"
        )
    if max(abs(low), abs(high)) > LARGEST_SUM:
        raise InvalidParameter(f"{place}: over 2^52 steps of {name!r}; choose a larger step")
    return int(low), int(high)


def between(column: Number, ends: tuple[int, int]) -> str:
    """Two numbers of steps in words."""
    return " to ".join(text_of(end * column.step)[0] for end in ends)


@dataclass(frozen=True, kw_only=True)
class Affected(Item):
    """How many units the schema's limits change: by their rows, by values, by a unit's total.

    One number for the limit on rows, where there is a unit, and one for the bounds of ``column``,
    where it is given; with ``unit_total`` one for totals outside it.  A unit moves each by 1.
    """

    query: ClassVar[str] = "affected"
    column: str = ""
    unit_total: Mapping[str, Any] | None = None
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noise_of(self.noise)
        if self.where or self.groups is not None or self.per_group is not None:
            raise InvalidParameter(
                f"item {self.name!r}: all units are counted; leave where, groups, per_group out"
            )

    def _limits_of(self, schema: Schema) -> list[tuple[str, Cut]]:
        """Each limit in words, and for the engine."""
        place, entity = f"item {self.name!r}", schema.entity
        ends = unit_ends(schema, self.column, self.unit_total, place)
        found = []
        if schema.unit is not None:
            found.append((f"count of each {entity} with more rows than {schema.rows}", Cut()))
        if self.column:
            column = schema.ordered(self.column, place)
            said = f"count of each {entity} with a value of {self.column} that is changed"
            found.append((said, Cut(self.column)))
            if ends is not None:
                said = f"count of each {entity} whose total of {self.column} is not"
                found.append((f"{said} {between(column, ends)}", Cut(self.column, ends)))
        if not found:
            raise InvalidParameter(f"{place}: without a unit no row is cut; name a column")
        return found

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        count = len(self._limits_of(schema))
        return (Vector(self.name, self.noise, (Contribution(count, count, 0, 1),)),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        return (Total(self.name, (), cuts=tuple(cut for _, cut in self._limits_of(schema))),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        counts = (value for (value,) in cast("list[tuple[int]]", found[0]))
        return {self.name: tuple(counts)}

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Nothing: every unit counts, with all its rows."""
        return ()

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        error, limits = Fraction(margins.half(self.name)), self._limits_of(schema)
        return [
            Row(self.name, (), statistic, Fraction(value), error)
            for (statistic, _), value in zip(limits, released[self.name], strict=True)
        ]


CENTRED, RATIO = "centred", "ratio"


@dataclass(frozen=True, kw_only=True)
class Averaged(Valued):
    """An item divided by the number of rows, which is an equal part of the item.

    ``counts``: the name of a count of the same cells, whose noisy numbers are taken in the place of
    such a part; after ``consistent`` they are those that are published.
    """

    counts: str | None = None

    @property
    def _count(self) -> str:
        """The label of the part, or of the count, that says how many rows there are."""
        return self.counts or f"{self.name}/count"

    def _own_count(self, schema: Schema, share: Fraction) -> tuple[Part, ...]:
        if self.counts:
            return ()
        return (Vector(self._count, self.noise, (self.added(schema),), share=share),)

    def _without_others(self, values: dict[str, Exact]) -> dict[str, Exact]:
        """The values of the item's own parts."""
        return {label: value for label, value in values.items() if label != self.counts}

    def fits(self, schema: Schema, item: Item | None) -> bool:
        """Whether an item counts the rows of the same cells: all, and no others."""

        def cells(one: Grouped) -> Any:
            edges = [list(one.edges.get(name, ())) for name in one.by]
            return one.by, edges, dict(one.where), one.groups, one.per_group

        whole = schema.column(self.column, f"item {self.name!r}").missing == ERROR
        limits = self.groups is None and self.per_group is None
        return isinstance(item, Count) and whole and limits and cells(self) == cells(item)


@dataclass(frozen=True, kw_only=True)
class Mean(Averaged):
    """The mean of a column: a noisy sum over a noisy count.

    ``method``: ``centred`` sums deviations from the middle of the bounds, which one unit moves by
    half as much; ``ratio`` sums the values themselves.
    """

    query: ClassVar[str] = "mean"
    method: str = CENTRED

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in (CENTRED, RATIO):
            raise InvalidParameter(
                f"item {self.name!r}: method = {self.method!r}: expected {CENTRED} or {RATIO}"
            )

    def _ends(self, schema: Schema) -> tuple[Number, int, int, int]:
        """The column, and the values' factor and bounds in steps, or in half steps."""
        column = self.valued(schema)
        if self.method == RATIO:
            return column, 1, 0, 1
        return column, 2, -(column.low + column.high), 2

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column, times, offset, _ = self._ends(schema)
        low, high = (times * end + offset for end in (column.low, column.high))
        share = Fraction(1, 1 if self.counts else 2)
        return (
            Vector(
                f"{self.name}/sum",
                self.noise,
                (self.sums(schema, self.column, low, high),),
                column.step / times,
                share,
            ),
            *self._own_count(schema, share),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        _, times, offset, _ = self._ends(schema)
        term = Term(((self.column, times, offset),))
        return (self.total(schema, term, ROWS, needed=(self.column,)),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        return self._without_others({f"{self.name}/sum": found[0][0], self._count: found[0][1]})

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        column, times, offset, _ = self._ends(schema)
        unit = column.step / times
        labels = f"{self.name}/sum", self._count
        sums, counts = (released[label] for label in labels)
        spread = margins.deviation(labels[0]), margins.deviation(labels[1])
        widest = max(map(margins.deviations, labels))
        rows = []
        for keys, total, count in zip(self.domain(schema), sums, counts, strict=True):
            centre = Fraction(total, max(count, 1))
            value = min(max((centre - offset) * unit, column.lower), column.upper)
            error = ratio_error(total, count, spread, widest)
            found = None if error is None else (value, error * float(unit))
            ends = column.lower, column.upper
            rows.append(_of_ratio(self.name, keys, f"mean of {self.column}", found, ends))
        return rows


def _of_ratio(
    item: str,
    keys: tuple[tuple[str, str], ...],
    statistic: str,
    found: tuple[Fraction, float] | None,
    ends: tuple[Fraction, Fraction],
) -> Row:
    """The row of a quotient of noisy sums: its value and margin, or that there are too few rows.

    The true value lies between ``ends``, as the published one does: no margin is wider.
    """
    if found is None:
        return Row(item, keys, statistic, None, None, "too few rows beside the noise")
    value, error = found
    margin = min(Fraction(error), max(value - ends[0], ends[1] - value))
    return Row(item, keys, statistic, value, short_up(margin), "margin of a quotient of noisy sums")


def short_up(value: Fraction) -> Fraction:
    """The next number of six significant digits at or above."""
    if value <= 0:
        return Fraction(0)
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 5)
    return math.ceil(value / unit) * unit


def ratio_error(total: int, count: int, spread: tuple[float, float], widest: float) -> float | None:
    """How far total / count is, at 95%, from the quotient without noise; None without a bound.

    The quotients r that are compatible are those with |total - r count| at most ``widest``
    deviations of the noise of total - r count.  They are an interval where count itself is above
    so many deviations.
    Source: Fieller 1954.
    """
    own, other = (widest * s for s in spread)
    if count <= other:
        return None
    ahead = float(count) ** 2 - other**2
    centre = float(total) * count / ahead
    away = math.sqrt((other * total) ** 2 + own**2 * ahead) / ahead
    return abs(centre - total / count) + away


@dataclass(frozen=True, kw_only=True)
class Variance(Averaged):
    """The variance of a column, of its noisy count, centred sum and centred squares.

    Squares are put on a grid of 2^10 steps of their largest, rounded half up.
    """

    query: ClassVar[str] = "variance"

    def _centred(self, schema: Schema) -> tuple[Number, int, int]:
        """The column, the largest deviation in half steps, and the divisor of its square."""
        column = self.valued(schema)
        width = column.high - column.low
        if width**2 > LARGEST_SUM:
            raise InvalidParameter(
                f"item {self.name!r}: {self.column!r} has over 2^26 steps; choose a larger step"
            )
        return column, width, max(1, width**2 // SQUARES)

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column, width, divisor = self._centred(schema)
        share = Fraction(1, 2 if self.counts else 3)
        squares = self.sums(schema, self.column, 0, rounded(width**2, divisor))
        return (
            Vector(
                f"{self.name}/squares",
                self.noise,
                (squares,),
                column.step**2 * divisor / 4,
                share,
            ),
            Vector(
                f"{self.name}/sum",
                self.noise,
                (self.sums(schema, self.column, -width, width),),
                column.step / 2,
                share,
            ),
            *self._own_count(schema, share),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        column, _, divisor = self._centred(schema)
        factor = (self.column, 2, -(column.low + column.high))
        terms = (Term((factor, factor), divisor), Term((factor,)), ROWS)
        return (self.total(schema, *terms, needed=(self.column,)),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        names = (f"{self.name}/squares", f"{self.name}/sum", self._count)
        return self._without_others(dict(zip(names, found[0], strict=True)))

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        column, _, divisor = self._centred(schema)
        names = [f"{self.name}/squares", f"{self.name}/sum", self._count]
        spread = [margins.deviation(name) for name in names]
        widest = max(map(margins.deviations, names))
        rows = []
        columns = (released[name] for name in names)
        for keys, squares, total, count in zip(self.domain(schema), *columns, strict=True):
            size = max(count, 1)
            centre = Fraction(total, size)
            raw = (Fraction(squares * divisor, size) - centre**2) * column.step**2 / 4
            largest = (column.upper - column.lower) ** 2 / 4
            value = min(max(raw, Fraction(0)), largest)
            slopes = (divisor, 2 * float(centre), float(squares * divisor / size - 2 * centre**2))
            deviation = sum((a * b) ** 2 for a, b in zip(slopes, spread, strict=True)) ** 0.5
            # Rounded squares are off by half a step of their grid a row, all in one direction.
            grid = 0.0 if divisor == 1 else divisor / 2
            # To first order; divided by the fewest rows that there may be, which covers the rest.
            fewest = count - widest * spread[2]
            found = None
            if fewest > 0:
                scale = float(column.step**2) / 4
                found = value, (widest * deviation / fewest + grid) * scale
            statistic, ends = f"variance of {self.column}", (Fraction(0), largest)
            rows.append(_of_ratio(self.name, keys, statistic, found, ends))
        return rows


# --- choices: quantiles and the most frequent keys ------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Quantiles(Item):
    """Quantiles of a column, each a point of its public grid, by the exponential mechanism.

    The score of a point t for the quantile a/b of n values is minus b times the distance of a n / b
    from the ranks #{values < t} to #{values <= t} that t has: 0 at the quantile itself, also where
    many values are equal.  Another value moves either end by at most max(a, b - a).
    Source: McSherry, Talwar 2007; Smith 2011 (the utility of quantiles).
    """

    query: ClassVar[str] = "quantiles"
    column: str
    at: tuple[Fraction, ...] = (Fraction(1, 2),)

    def __post_init__(self) -> None:
        super().__post_init__()
        asked: Any = self.at
        listed = asked if isinstance(asked, (tuple, list)) else (asked,)
        at = tuple(number(q, f"item {self.name!r}: at") for q in listed)
        object.__setattr__(self, "at", at)
        if not at or any(not 0 < q < 1 or q.denominator > 10**6 for q in at):
            raise InvalidParameter(
                f"item {self.name!r}: at: expected numbers between 0 and 1, of up to 6 digits"
            )
        if len(set(at)) != len(at):
            raise InvalidParameter(f"item {self.name!r}: at names a quantile twice")
        if self.groups is not None:
            raise InvalidParameter(f"item {self.name!r}: quantiles have no groups")

    def _labels(self) -> list[tuple[str, Fraction]]:
        return [(f"{self.name}/{q.numerator}of{q.denominator}", q) for q in self.at]

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        column = schema.ordered(self.column, f"item {self.name!r}")
        share, (_, rows) = Fraction(1, len(self.at)), self.limits(schema, 1)
        return tuple(
            Choice(
                label,
                self.column,
                column.high - column.low + 1,
                rows * max(q.numerator, q.denominator - q.numerator),
                rows * q.denominator,
                monotone=False,
                share=share,
                row=q.denominator,
            )
            for label, q in self._labels()
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        where, (_, per_unit) = self.conditions(schema), self.bounding(schema, 1)
        by = (self.column,)
        return (Total(self.name, (ROWS,), by, where, sparse=True, per_unit=per_unit),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        counted = found[0][0]
        assert isinstance(counted, Counted)  # noqa: S101  (what a sparse total gives)
        return {label: rank_scores(counted, q) for label, q in self._labels()}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        column = schema.ordered(self.column, "")
        rows = []
        for (label, q), part in zip(self._labels(), self.parts(schema), strict=True):
            assert isinstance(part, Choice)  # noqa: S101  (what its parts are)
            (place,) = released[label]
            value = (column.low + place) * column.step
            dated = isinstance(column, Period)
            rows.append(
                Row(
                    self.name,
                    (),
                    f"quantile {text_of(q)[0]} of {self.column}",
                    None if dated else value,
                    None,
                    f"its rank is within {part.within(margins)} rows of the best point's, at 95%",
                    text=shown_in(column, value) if dated else "",
                )
            )
        return rows


@dataclass(frozen=True, kw_only=True)
class UnitRows(Quantiles):
    """Quantiles of how many rows a unit has, of those that meet ``where``, up to ``schema.rows``.

    Each unit has one number, and one without a row has none.  So it moves a rank by as much as one
    value does, however many rows it has.
    """

    query: ClassVar[str] = "unit_rows"
    column: str = field(default="", init=False)

    def _refuse_rows(self, schema: Schema) -> None:
        if self.per_group is not None:
            raise InvalidParameter(f"item {self.name!r}: all rows of a unit are counted")
        if schema.unit is None:
            raise InvalidParameter(f"item {self.name!r}: every row is a unit, of one row")
        if schema.rows == 1:
            raise InvalidParameter(
                f"item {self.name!r}: rows = 1; let the table have the most that a unit may have"
            )

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        self._refuse_rows(schema)
        share = Fraction(1, len(self.at))
        return tuple(
            Choice(
                label,
                "",
                schema.rows,
                max(q.numerator, q.denominator - q.numerator),
                q.denominator,
                monotone=False,
                share=share,
                row=q.denominator,
            )
            for label, q in self._labels()
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        where = self.conditions(schema)
        return (Total(self.name, (ROWS,), where=where, sparse=True, of_units=True),)

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        rows = []
        for (label, q), part in zip(self._labels(), self.parts(schema), strict=True):
            assert isinstance(part, Choice)  # noqa: S101  (what its parts are)
            (place,) = released[label]
            said = f"quantile {text_of(q)[0]} of the rows of one {schema.entity}"
            within = f"its rank is within {part.within(margins)} units of the best one's, at 95%"
            rows.append(Row(self.name, (), said, Fraction(place + 1), None, within))
        return rows


@dataclass(frozen=True, kw_only=True)
class Top(Item):
    """The ``k`` keys of a column with the most rows, in order, by the exponential mechanism.

    Source: Durfee, Rogers 2019 (peeling).
    """

    query: ClassVar[str] = "top"
    column: str
    k: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups is not None:
            raise InvalidParameter(f"item {self.name!r}: a choice needs no limit on groups")
        whole_number(self.k, f"item {self.name!r}: k")

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        keys = schema.category(self.column, f"item {self.name!r}").domain
        if self.k >= len(keys):
            raise InvalidParameter(f"item {self.name!r}: k = {self.k} of {len(keys)} keys")
        rows = min(self.per_group or schema.rows, schema.rows)
        return (Choice(self.name, self.column, len(keys), rows, rows, monotone=True, times=self.k),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        cells = len(schema.category(self.column, "").domain)
        _, per_group = self.bounding(schema, cells)
        where = self.conditions(schema)
        return (Total(self.name, (ROWS,), (self.column,), where, per_group=per_group, sparse=True),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        counted = found[0][0]
        assert isinstance(counted, Counted)  # noqa: S101  (what a sparse total gives)
        return {self.name: counts_of(counted)}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        keys = schema.category(self.column, "").domain
        return [
            Row(self.name, ((self.column, keys[place]),), "rank", Fraction(rank), None)
            for rank, place in enumerate(released[self.name], start=1)
        ]


# --- keys that nobody listed ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Groups(Item):
    """Counts under keys that are not known in advance; only large noisy counts are shown.

    ``delta``: the most that keys of one unit alone may show it; part of the release's delta.
    Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009.
    """

    query: ClassVar[str] = "groups"
    column: str
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta is not None:
            delta = number(self.delta, f"item {self.name!r}: delta")
            object.__setattr__(self, "delta", delta)
            if not 0 < delta < 1:
                raise InvalidParameter(f"item {self.name!r}: delta = {delta}: between 0 and 1")

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        if not isinstance(schema.column(self.column, f"item {self.name!r}"), Text):
            raise InvalidParameter(
                f"item {self.name!r}: the keys of {self.column!r} are public; use count"
            )
        if self.delta is None:
            raise InvalidParameter(f"item {self.name!r}: delta: expected a number")
        cells = 2 * schema.rows
        groups, rows = self.limits(schema, cells)
        counts = Contribution(cells, groups, 0, rows, schema.rows)
        return (Thresholded(self.name, counts, self.delta),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        limits = self.bounding(schema, schema.rows)
        where = self.conditions(schema)
        return (Total(self.name, (ROWS,), (self.column,), where, (), *limits),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        return {self.name: found[0][0]}

    def not_covered(self, schema: Schema) -> tuple[str, ...]:
        """Also that noise decides which groups are shown."""
        shown = "groups are shown where their noisy count is large: small ones that are look larger"
        return (*super().not_covered(schema), shown)

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        error = Fraction(margins.half(self.name))
        return [
            Row(self.name, ((self.column, key),), "count", Fraction(value), error)
            for key, value in sorted(released[self.name].items())
        ]


# --- ranges ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Ranges(Item):
    """Counts of every dyadic range of bins, from which any range and the distribution follow.

    ``edges``: where the column is cut; the bins are filled up to a power of two.  The published
    distribution function is the least-squares one, made consistent over the tree.
    Source: Hay, Rastogi, Miklau, Suciu 2010, Section 4; Honaker 2015.
    """

    query: ClassVar[str] = "ranges"
    column: str
    edges: tuple[Any, ...]
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", tuple(self.edges))
        self.noise_of(self.noise)

    def _bins(self, schema: Schema) -> Bins:
        column = schema.ordered(self.column, f"item {self.name!r}")
        return _bins(self.column, column, self.edges, f"item {self.name!r}: edges")

    def levels(self, schema: Schema) -> list[int]:
        """How many ranges each level of the tree has, leaves first, the root left out."""
        leaves = 1 << (self._bins(schema).cells - 1).bit_length()
        return [leaves >> level for level in range(leaves.bit_length() - 1)]

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        levels = self.levels(schema)
        groups, rows = self.limits(schema, levels[0])
        # All leaves under a higher range may be this unit's.
        most = min(rows * groups, schema.rows)
        leaves, *above = levels
        blocks = [Contribution(leaves, groups, 0, rows, most)]
        blocks += [Contribution(cells, groups, 0, most, most) for cells in above]
        return (Vector(self.name, self.noise, tuple(blocks)),)

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        bins = self._bins(schema)
        limits = self.bounding(schema, bins.cells)
        return (Total(self.name, (ROWS,), (bins,), self.conditions(schema), (), *limits),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        levels = self.levels(schema)
        counts = found[0][0]
        assert isinstance(counts, tuple)  # noqa: S101  (bins have public places)
        level = [*counts, *[0] * (levels[0] - len(counts))]
        tree = list(level)
        for _ in levels[1:]:
            level = [a + b for a, b in zip(level[::2], level[1::2], strict=True)]
            tree += level
        return {self.name: tuple(tree)}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        levels = self.levels(schema)
        leaves, spread = consistent_tree(released[self.name], levels)
        bins = self._bins(schema)
        # No more than the noise of the leaf alone, of which least squares is no worse.
        leaf = Fraction(margins.half(self.name))
        labels = _labels(schema, bins)
        rows, total = [], Fraction(0)
        for place, keys in enumerate(labels):
            total += leaves[place]
            error = short_up(leaf * Fraction(spread[place] ** 0.5))
            rows.append(
                Row(self.name, (keys,), "count", leaves[place], leaf, "consistent over the tree")
            )
            rows.append(Row(self.name, (keys,), "count up to here", total, error))
        return rows


def consistent_tree(
    released: Sequence[int], levels: Sequence[int]
) -> tuple[list[Fraction], list[float]]:
    """Leaves by least squares over a binary tree, and the variance of each prefix sum.

    Going up, the estimate of a node from its own subtree has weight (2^l - 2^(l-1)) / (2^l - 1);
    going down, what a parent has beyond its children is split among them.  The level below the root
    has no parent.  The variance of a prefix is bounded by that of the nodes that make it up, of
    which there is at most one a level: a prefix of binary address with b ones adds up b nodes.
    Source: Hay, Rastogi, Miklau, Suciu 2010, Theorem 3.
    """
    start, noisy = 0, []
    for cells in levels:
        noisy.append([Fraction(value) for value in released[start : start + cells]])
        start += cells
    up = [noisy[0]]
    for level in range(1, len(levels)):
        own = Fraction(2 ** (level + 1) - 2**level, 2 ** (level + 1) - 1)
        below = [a + b for a, b in zip(up[-1][::2], up[-1][1::2], strict=True)]
        up.append([own * z + (1 - own) * s for z, s in zip(noisy[level], below, strict=True)])
    settled = up[-1]
    for level in range(len(levels) - 2, -1, -1):
        children = up[level]
        gap = [
            (parent - children[2 * i] - children[2 * i + 1]) / 2 for i, parent in enumerate(settled)
        ]
        settled = [child + gap[i // 2] for i, child in enumerate(children)]
    spread = [
        float((place + 1).bit_count() if place + 1 < levels[0] else 2) for place in range(levels[0])
    ]
    return settled, spread


# --- regression -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Regression(Item):
    """Linear regression of ``target`` on ``features``, by noisy sufficient statistics.

    Every column is centred on the middle of its bounds; sums of products of all pairs get noise,
    and the coefficients solve the noisy normal equations with a public ridge of two standard
    deviations of that noise.
    Source: Vu, Slavkovic 2009; Sheffet 2017 (noisy second moments).
    """

    query: ClassVar[str] = "regression"
    target: str
    features: tuple[str, ...]
    noise: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        features = texts(self.features)
        object.__setattr__(self, "features", features)
        names = (*features, self.target)
        if not features or len(set(names)) != len(names):
            raise InvalidParameter(f"item {self.name!r}: expected features, none twice")
        if self.groups is not None or self.per_group is not None:
            raise InvalidParameter(f"item {self.name!r}: a regression has no groups")
        self.noise_of(self.noise)

    def _columns(self, schema: Schema) -> list[tuple[str, Number, int]]:
        found = []
        for name in (*self.features, self.target):
            column = schema.number(name, f"item {self.name!r}")
            width = column.high - column.low
            if width > 2**26:
                raise InvalidParameter(f"item {self.name!r}: {name!r} has over 2^26 steps")
            found.append((name, column, width))
        return found

    def _terms(self, schema: Schema) -> Iterator[tuple[Term, int, int]]:
        """Each sum of products, with its bounds; squares have none below 0."""
        columns = self._columns(schema)
        factors = [(name, 2, -(c.low + c.high)) for name, c, _ in columns]
        for i, (_, _, width) in enumerate(columns):
            divisor = max(1, width // 2**8)
            most = rounded(width, divisor)
            yield Term((factors[i],), divisor), rounded(-width, divisor), most
            for j in range(i + 1):
                other = columns[j][2]
                divisor = max(1, width * other // SQUARES)
                low = 0 if i == j else rounded(-width * other, divisor)
                yield Term((factors[i], factors[j]), divisor), low, rounded(width * other, divisor)

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        rows = schema.rows
        scaled = [Contribution(1, 1, 0, rows)]
        for _, low, high in self._terms(schema):
            scaled.append(Contribution(1, 1, rows * low, rows * high))
        count, *rest = scaled
        share = Fraction(1, 1 + len(rest))
        return (
            Vector(f"{self.name}/count", self.noise, (count,), share=share),
            *(
                Vector(f"{self.name}/{place}", self.noise, (one,), share=share)
                for place, one in enumerate(rest)
            ),
        )

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        terms = (ROWS, *(term for term, _, _ in self._terms(schema)))
        needed = (*self.features, self.target)
        return (Total(self.name, terms, (), self.conditions(schema), needed),)

    def values(self, schema: Schema, found: Found) -> dict[str, Exact]:
        count, *rest = found[0]
        return {
            f"{self.name}/count": count,
            **{f"{self.name}/{place}": one for place, one in enumerate(rest)},
        }

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        import numpy as np

        columns = self._columns(schema)
        size = len(columns)
        second, first = np.zeros((size + 1, size + 1)), iter(enumerate(self._terms(schema)))
        noise = 0.0
        second[0, 0] = max(released[f"{self.name}/count"][0], 1)
        for i, (_, _, width) in enumerate(columns, start=1):
            place, (term, _, _) = next(first)
            value = float(released[f"{self.name}/{place}"][0] * term.divisor) / width
            second[0, i] = second[i, 0] = value
            for j in range(1, i + 1):
                place, (term, _, _) = next(first)
                scale = term.divisor / (width * columns[j - 1][2])
                second[i, j] = second[j, i] = released[f"{self.name}/{place}"][0] * scale
                noise = max(noise, margins.deviation(f"{self.name}/{place}") * scale)
        ridge = 2 * noise * size**0.5 * np.eye(size)
        ridge[0, 0] = 0.0
        solved = np.linalg.lstsq(second[:size, :size] + ridge, second[:size, size], rcond=None)[0]
        return _coefficients(self, columns, [float(c) for c in solved])


def _coefficients(
    item: Regression, columns: list[tuple[str, Number, int]], solved: list[float]
) -> list[Row]:
    """From columns scaled to [-1, 1] back to their own units."""

    def half(column: Number) -> Fraction:
        return (column.upper - column.lower) / 2

    def middle(column: Number) -> Fraction:
        return (column.upper + column.lower) / 2

    target = columns[-1][1]
    slopes = [
        Fraction(c).limit_denominator(10**12) * half(target) / half(column)
        for c, (_, column, _) in zip(solved[1:], columns[:-1], strict=True)
    ]
    intercept = Fraction(solved[0]).limit_denominator(10**12) * half(target) + middle(target)
    intercept -= sum(s * middle(column) for s, (_, column, _) in zip(slopes, columns, strict=False))
    rows = [Row(item.name, (("term", "(intercept)"),), "coefficient", intercept, None)]
    for slope, (name, _, _) in zip(slopes, columns, strict=False):
        rows.append(Row(item.name, (("term", name),), "coefficient", slope, None))
    return rows


# --- items by name --------------------------------------------------------------------------------

QUERIES: dict[str, type[Item]] = {
    kind.query: kind
    for kind in (
        *(Count, Sum, Mean, Variance, Affected),
        *(Quantiles, UnitRows, Top, Groups, Ranges, Regression),
    )
}


def check_counts(schema: Schema, items: Mapping[str, Item]) -> None:
    """Errors: InvalidParameter for ``counts`` that are no count of the same cells."""
    for item in items.values():
        if not isinstance(item, Averaged) or item.counts is None:
            continue
        if not item.fits(schema, items.get(item.counts)):
            raise InvalidParameter(
                f"item {item.name!r}: counts = {item.counts!r}: expected a count of the same by, "
                f"edges and where, without groups and per_group, and missing = {ERROR!r} of "
                f"{item.column!r}"
            )


def with_counts(schema: Schema, items: Sequence[Item]) -> list[Item]:
    """Means and variances with the count of the same cells, where one gets as much of the budget.

    Otherwise a count of their own is closer, which takes a half or a third of their part.
    """
    found = []
    for item in items:
        one = item
        if isinstance(item, Averaged) and item.counts is None:
            own = item.weight / (2 if isinstance(item, Mean) else 3)
            counts = (c.name for c in items if item.fits(schema, c) and c.weight >= own)
            one = replace(item, counts=next(counts, None))
        found.append(one)
    return found


def item_of(table: Mapping[str, Any], place: str) -> Item:
    """The item that a TOML table states.

    ``minimum`` and ``maximum`` are the quantiles at 1/100 and 99/100, or at ``share`` from the end.
    Errors: InvalidParameter naming the key.
    """
    given = dict(table)
    query = str(given.pop("query", ""))
    if query in ("minimum", "maximum"):
        share = number(given.pop("share", "0.01"), f"{place}.share")
        given["at"] = (share if query == "minimum" else 1 - share,)
        query = "quantiles"
    if query == "quantile":
        query = "quantiles"
    if isinstance(given.get("bounds"), Mapping) and "share" in given["bounds"]:
        query = f"{query}, bounds.share"
    kind = QUERIES.get(query)
    if kind is None:
        names = ", ".join((*QUERIES, "quantile", "minimum", "maximum"))
        raise InvalidParameter(f"{place}.query = {query!r}: expected one of {names}")
    refuse_unknown(given, {f.name for f in fields(kind)}, place)
    try:
        return kind(**given)
    except TypeError as error:
        wanted = str(error).partition("argument")[2] or str(error)
        raise InvalidParameter(f"{place} ({query}): missing{wanted}") from None


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

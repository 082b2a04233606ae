"""A plan as a program: the same for the private table and for the tables on which it is attacked.

A reader gives a part's exact whole numbers.  In an attack the records of the curator *are* a table,
one record a unit, and the engine that bounds and sums the private table bounds and sums them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from dpaudit.audit.neighbours import digest_of
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import BOUNDED, Array, Norm, Records
from dpaudit.kernels.random_bits import Whole
from dpaudit.nodes import Node
from dpaudit.releases.items.item import Choice, Declared, Exact, Part, Thresholded, Vector
from dpaudit.releases.plan import Plan, Release
from dpaudit.releases.programs import GENERATED_UNIT, generated, records_of
from dpaudit.releases.runs import Chosen, Runs
from dpaudit.scope import Adjacency, Scope
from dpaudit.tabular import Category, Number, OpenTable, Period, Schema, Table, Text
from dpaudit.tabular.part import arrow_numbers, arrow_texts

Values: TypeAlias = Mapping[str, Exact]
MOST_KEPT = 1000  # generated tables whose values are kept
LISTED = 256  # codes of a column of which many are candidates, in either part of its list


class Reader(Protocol):
    """Where a program's exact values come from."""

    def values(self, records: Records) -> Values:
        """The whole numbers, or scores, of every part, by label."""

    def keys(self, label: str) -> tuple[str, ...]:
        """The keys of a thresholded part, in the order of its vector."""

    def starts(self, part: Choice) -> Whole:
        """Where runs of candidates begin that have the same score in all of the reader's tables."""

    def records(self, columns: Sequence[str], records: Records) -> Records:
        """The rows that a program of the release sees, one a unit."""


def exact_values(release: Release, table: OpenTable) -> dict[str, Exact]:
    """Every part's exact values, from the engine."""
    schema = release.schema
    wanted = [item.totals(schema) for item in release.items]
    totals_found = table.totals([total for totals in wanted for total in totals])
    values: dict[str, Exact] = {}
    start = 0
    for item, totals in zip(release.items, wanted, strict=True):
        values.update(item.values(schema, totals_found[start : start + len(totals)]))
        start += len(totals)
    return values


@dataclass(frozen=True, eq=False)
class PartQuery:
    """A part as a query: its whole numbers, or its scores; bounded by what a unit may contribute.

    ``excluded``: of a choice, the runs in which a candidate was chosen before, (trials,) each.
    ``chosen``: of a vector that depends on a choice, what was chosen, (trials,).
    """

    part: Part
    reader: Reader
    noise_norm: Norm
    excluded: tuple[Array, ...] = ()
    chosen: Array | None = None

    @property
    def norm(self) -> Norm:
        """The norm of the part's noise."""
        return self.noise_norm

    def exact(self, records: Records) -> Exact:
        """The exact values."""
        return self.reader.values(records)[self.part.label]

    def value(self, records: Records, chosen: Any = None) -> Array:
        """The values as floats, shape (1, cells); of a choice its runs, (1 or trials, 2 runs)."""
        exact_value = self.exact(records)
        if isinstance(self.part, Choice):
            assert isinstance(exact_value, Runs)  # noqa: S101  (what its item gives)
            return self._runs(self.part, exact_value)
        if isinstance(exact_value, Chosen):
            # Without a choice so far: at the last candidate, such as the largest bound.
            places = (
                [exact_value.candidates - 1] if self.chosen is None else self.chosen.astype(np.intp)
            )
            each, which = np.unique(places, return_inverse=True)
            return np.array([exact_value.at(int(place)) for place in each], dtype=np.float64)[which]
        if isinstance(exact_value, dict):
            exact_value = tuple(
                exact_value.get(key, 0) for key in self.reader.keys(self.part.label)
            )
        return np.array(exact_value, dtype=np.float64)[None, :]

    def _runs(self, part: Choice, runs: Runs) -> Array:
        """The scores of the reader's runs of candidates, and how many of each are there."""
        starts = self.reader.starts(part)
        scores = runs.at(starts).astype(np.float64)[None, :]
        sizes = np.diff(starts, append=part.candidates).astype(np.float64)[None, :]
        if self.excluded:
            trials = len(self.excluded[0])
            scores, sizes = (np.repeat(row, trials, axis=0) for row in (scores, sizes))
            for places in self.excluded:
                sizes[np.arange(trials), places.astype(np.intp)] -= 1
        return np.hstack([scores, sizes])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """How far one unit moves it, in its noise's norm; ``size`` does not matter."""
        assert not isinstance(self.part, Declared)  # noqa: S101  (its queries are its own)
        if isinstance(self.part, Choice):
            return np.asarray(float(self.part.by(adjacency)))
        moves = self.part.moves(adjacency)
        if self.noise_norm == "l1":
            return np.asarray(float(moves.absolute))
        return np.asarray(float(moves.squared) ** 0.5)


# The engine that the reader asks bounds a unit's contribution.
BOUNDED.add(PartQuery)


@dataclass(frozen=True, eq=False)
class ReleaseProgram:
    """The program of a plan: every part released once, in order."""

    plan: Plan
    reader: Reader

    def __repr__(self) -> str:
        return f"ReleaseProgram({self.plan.release.title!r}, {self.plan.release.digest[:16]})"

    def declaration(self, scope: Scope) -> Node:
        """The plan's noise.

        Errors: InvalidParameter under another scope: noise was made for one adjacency.
        """
        if scope != self.plan.release.scope:
            raise InvalidParameter(
                f"{self!r}: planned under {self.plan.release.scope}, not {scope}"
            )
        return self.plan.declaration

    def run(self, curator: Curator) -> dict[str, Array]:
        """Release every part; arrays (trials, cells), or the runs of what was chosen."""
        released: dict[str, Array] = {}
        for label, part in self.plan.parts.items():
            released[label] = self._one(curator, part, released)
        return released

    def _one(self, curator: Curator, part: Part, before: Mapping[str, Array]) -> Array:
        if isinstance(part, Declared):
            released: Array = part.program.inside(curator, self.reader)
            return released
        if isinstance(part, Choice):
            chosen: list[Array] = []
            for _ in range(part.times):
                query = PartQuery(part, self.reader, "linf", tuple(chosen))
                chosen.append(curator.release(part.label, query)[:, 0])
            return np.stack(chosen, axis=1)
        norm: Norm = "l1" if _is_laplace(self.plan, part) else "l2"
        by = part.chosen_by if isinstance(part, Vector) else ""
        chosen_before = before[by][:, part.rank] if by and isinstance(part, Vector) else None
        query = PartQuery(part, self.reader, norm, chosen=chosen_before)
        return curator.release(part.label, query)


def _is_laplace(plan: Plan, part: Part) -> bool:
    assert isinstance(part, Vector | Thresholded)  # noqa: S101  (no other part has added noise)
    return hasattr(plan.leaves[part.label], "scale")


# --- records that are tables ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GeneratedTables:
    """Reads records as tables: one record a unit, (rows, 1 + columns) numbers each.

    The first number of a row is above 0 where there is a row; then a number is itself, a key its
    place in the domain, a text its place in ``texts``; any other number stands for one of these.
    A column with many codes, of which one is chosen, holds some hundred of them alone: others stand
    for the next one below.  So scores change at a few places, whatever the data, and the attack
    takes no memory for the others, which are as likely as their neighbour, all the same.
    """

    release: Release
    texts: tuple[str, ...] = ("a", "b", "c", "d")

    def keys(self, label: str) -> tuple[str, ...]:
        return self.texts

    def starts(self, part: Choice) -> Whole:
        """Every listed code alone, and all between it and the next."""
        codes = self._listed[part.column]
        starts = np.unique(np.concatenate([codes, codes + 1]))
        return starts[starts < part.candidates]

    @cached_property
    def _listed(self) -> dict[str, Whole]:
        """The codes (from 0) that a generated table may hold in each column of choices.

        Few codes are all taken; of many the first, some evenly spread, and those in conditions.
        """
        schema, codes_of = self.release.schema, dict[str, Whole]()
        for item in self.release.items:
            for part in item.parts(schema):
                if not isinstance(part, Choice):
                    continue
                column, size = schema.columns.get(part.column), part.candidates
                low = column.low if isinstance(column, Number) else 0
                named = [
                    code - low
                    for other in self.release.items
                    for condition in other.conditions(schema)
                    if condition.column == part.column
                    for code in (condition.codes[0], condition.codes[-1])
                ]
                first, spread = np.arange(min(LISTED, size)), np.linspace(0, size - 1, LISTED)
                codes = np.concatenate([first, spread.astype(np.int64), named])
                codes_of[part.column] = np.unique(codes.astype(np.int64))
        return codes_of

    def values(self, records: Records) -> Values:
        # Kept with the records, which never change: a program holds nothing of them.
        stored: dict[str, Values] = records.__dict__.setdefault("_released", {})
        digest = self.release.digest
        if digest not in stored:
            stored[digest] = self._asked(records)
        return stored[digest]

    def _asked(self, records: Records) -> Values:
        """The exact values of a generated table, asked of the engine once for each content.

        An attack and an examination make most of their tables many times over.
        """
        answered = _VALUES.setdefault(self, OrderedDict())
        content = digest_of(records)
        if content not in answered:
            table = Table(self.release.schema.prepared, self.frame(records))
            answered[content] = exact_values(self.release, table.opened(self.release.digest))
        answered.move_to_end(content)
        if len(answered) > MOST_KEPT:
            answered.popitem(last=False)
        return answered[content]

    def records(self, columns: Sequence[str], records: Records) -> Records:
        stored: dict[str, Records] = records.__dict__.setdefault("_rows", {})
        key = f"{self.release.digest} {columns}"
        if key not in stored:
            table = Table(generated(self.release.schema.prepared), self.frame(records))
            stored[key] = records_of(table.opened(self.release.digest), columns, len(records))
        return stored[key]

    def frame(self, records: Records) -> Any:
        """The records' rows as an Arrow table, without those of units that are not present."""
        import pyarrow as pa

        schema = self.release.schema
        values = records.values.reshape(len(records), -1, 1 + len(schema.columns))
        present = (values[:, :, 0] > 0) & records.present[:, None]
        units, rows = np.nonzero(present)
        columns: dict[str, Any] = {}
        columns[schema.unit or GENERATED_UNIT] = arrow_numbers(units, np.int64)
        for place, (name, column) in enumerate(schema.columns.items(), start=1):
            codes = values[units, rows, place]
            if isinstance(column, Period):
                columns[name] = pa.array(self._days(name, column, codes), pa.date32())
            elif isinstance(column, Number):
                columns[name] = arrow_numbers(self._numbers(name, column, codes), np.float64)
            else:
                columns[name] = arrow_texts(self._texts(name, column, codes))
        return pa.table(columns)

    def _numbers(self, name: str, column: Number, codes: Array) -> Array:
        if name not in self._listed:
            return codes
        step = float(column.step)
        inside = np.clip(np.nan_to_num(codes), float(column.lower), float(column.upper))
        listed = self._below(name, np.rint(inside / step) - column.low)
        return np.where(np.isnan(codes), np.nan, (listed + column.low) * step)

    def _days(self, name: str, column: Period, codes: Array) -> list[date | None]:
        numbers = self._numbers(name, column, codes)
        inside = np.clip(np.rint(np.nan_to_num(numbers)), column.low, column.high).astype(np.int64)
        finite = np.isfinite(numbers)
        return [
            column.calendar.first_day(code) if present else None
            for code, present in zip(inside.tolist(), finite.tolist(), strict=True)
        ]

    def _texts(self, name: str, column: Category | Text, codes_given: Array) -> list[str | None]:
        keys = self.texts if isinstance(column, Text) else column.keys
        # The place after the last key, and what is no number, is a value that is missing.
        places = np.nan_to_num(codes_given, nan=float(len(keys)), posinf=0.0, neginf=0.0)
        codes = np.fmod(np.trunc(places), len(keys) + 1).astype(np.int64) % (len(keys) + 1)
        within = codes < len(keys)
        if name in self._listed:
            codes = np.where(within, self._below(name, codes), len(keys))
        return [keys[code] if code < len(keys) else None for code in codes.tolist()]

    def _below(self, name: str, codes: Array | Whole) -> Whole:
        """The next listed code at or below; the first is listed."""
        listed = self._listed[name]
        return listed[np.searchsorted(listed, codes, "right") - 1]


# The engine's answers by table, kept outside of readers, which a run leaves unchanged.
_VALUES: WeakKeyDictionary[GeneratedTables, OrderedDict[str, Values]] = WeakKeyDictionary()


def rows_a_record(schema: Schema) -> int:
    """How many rows the largest unit of a generated table has: more than may count, if it can."""
    return 1 if schema.unit is None else min(schema.rows + 2, 64)

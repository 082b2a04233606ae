"""A program of a catalogue as one item of a release: its own noise, composed with the others'.

Its records are the table's units, one row each: numbers as they are on their grid, keys as their
places.  Its declaration is charged with the rest; its noise is its author's, not solved for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpaudit.curator.curator import Curator, Sampler, Tracer
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Leaf, Node, postorder
from dpaudit.releases.items.item import Declared, Exact, Found, Item, Margins, Part, Row, texts
from dpaudit.scope import Adjacency, Scope
from dpaudit.tabular import Number, OpenTable, Schema, Text, Total

ASKED_OF_RECORDS = ("mixes_records",)  # methods of a query that get the item's own records
GENERATED_UNIT = "dpaudit_unit_of_a_record"


@dataclass(frozen=True, kw_only=True)
class Program(Item):
    """A mechanism, run on ``columns`` of every unit's one row; its output is published as it is.

    ``program``: a mechanism, or its name as commands take it.  A row with a missing value is left
    out, under add_remove alone.
    Errors: InvalidParameter for a table whose units have several rows, or a column of unknown keys.
    """

    query: ClassVar[str] = "program"
    program: Mechanism | str
    columns: tuple[str, ...]
    folder: Path = field(default=Path(), repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", texts(self.columns))
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise InvalidParameter(f"item {self.name!r}: columns: expected some, none twice")
        if self.groups is not None or self.per_group is not None or self.where:
            raise InvalidParameter(f"item {self.name!r}: a program has no groups and no conditions")

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism; one that is named is looked up from the plan's folder."""
        from dpaudit.project.project import resolve

        if isinstance(self.program, Mechanism):
            return self.program
        return resolve(self.program, self.folder.resolve()).mechanism

    def row(self) -> dict[str, Any]:
        """Everything as JSON: what it is called, and what it declares."""
        declared = self.mechanism.program.declaration(self.mechanism.scope)
        return {
            "query": self.query,
            "name": self.name,
            "program": self.mechanism.name,
            "declaration": declared.digest,
            "columns": list(self.columns),
        }

    def parts(self, schema: Schema) -> tuple[Part, ...]:
        if schema.rows != 1:
            raise InvalidParameter(
                f"item {self.name!r}: a program reads one row of each unit; the table has up to "
                f"{schema.rows}, set rows = 1"
            )
        for name in self.columns:
            if isinstance(schema.column(name, f"item {self.name!r}"), Text):
                raise InvalidParameter(f"item {self.name!r}: the keys of {name!r} are not public")
        return (Declared(self.name, self),)

    def declared(self, schema: Schema, scope: Scope) -> Node:
        """Its declaration under the release's scope.

        Errors: InvalidParameter for rows that may be left out where that changes how many there
        are, and for an output that is no one vector of numbers.
        """
        if scope.adjacency is not Adjacency.ADD_REMOVE:
            if schema.where:
                raise InvalidParameter(
                    f"item {self.name!r}: table.where leaves rows out, which a program can bear "
                    "under add_remove alone"
                )
            for name in self.columns:
                column = schema.columns[name]
                if "drop" in (column.missing, getattr(column, "other", "")):
                    raise InvalidParameter(
                        f"item {self.name!r}: {name!r} leaves rows out, which a program can bear "
                        "under add_remove alone; let missing values be errors"
                    )
        node = self.mechanism.program.declaration(scope)
        # Run on rows of zeros, before anything is charged.
        tracer = Tracer(node, scope, Records(np.zeros((1, len(self.columns)))))
        _numbers(self.name, self.mechanism.program.run(tracer))
        return node

    def totals(self, schema: Schema) -> tuple[Total, ...]:
        return ()

    def values(self, schema: Schema, answers: Found) -> dict[str, Exact]:
        return {}

    def rows(self, schema: Schema, released: Mapping[str, Any], margins: Margins) -> list[Row]:
        note = f"output of {self.mechanism.name}, in 64-bit floats"
        return [
            # The shortest decimal that is this float again.
            Row(self.name, (("place", str(i)),), "output", Fraction(str(value)), None, note)
            for i, value in enumerate(released[self.name])
        ]

    def inside(self, curator: Curator, reader: Any) -> Any:
        """The program's output, from a curator whose records are the reader's tables."""
        return self.mechanism.program.run(_Inside(curator, self, reader))  # type: ignore[arg-type]

    def run(
        self, node: Node, scope: Scope, records: Records, rng: np.random.Generator
    ) -> list[Any]:
        """One run on the private records; what it releases, as floats."""
        sampler = Sampler(node, scope, records, rng=rng)
        return [float(v) for v in _numbers(self.name, self.mechanism.program.run(sampler))]


def _numbers(name: str, output: Any) -> Array:
    array = np.asarray(output, dtype=np.float64) if isinstance(output, np.ndarray) else None
    if array is None or array.ndim != 2 or len(array) != 1:
        raise InvalidParameter(
            f"item {name!r}: its program gives {type(output).__name__}, where an array of shape "
            "(trials, numbers) is published"
        )
    return np.asarray(array[0])


def records_of(table: OpenTable, columns: Sequence[str], size: int | None = None) -> Records:
    """One row a unit as records: in any order, or (``size``) at the place that its unit names.

    A unit without a row is a record that is not there.
    """
    rows = table.rows(columns)
    count = max(len(rows), 1) if size is None else size
    values, present = np.zeros((count, len(columns))), np.zeros(count, dtype=bool)
    steps = [
        float(column.step) if isinstance(column, Number) else 1.0
        for column in (table.schema.columns[name] for name in columns)
    ]
    for number, (unit, *codes) in enumerate(rows):
        place = number if size is None else int(unit)
        values[place] = np.array(codes, dtype=np.float64) * steps
        present[place] = True
    return Records(values, present)


def generated(schema: Schema) -> Schema:
    """The schema of a made-up table: a row always says whose it is."""
    return schema if schema.unit is not None else replace(schema, unit=GENERATED_UNIT)


@dataclass(frozen=True, eq=False)
class _Inside:
    """The curator as a program of one item sees it: records are rows of the item's columns."""

    curator: Curator
    item: Program
    reader: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.curator, name)

    def release(self, label: str, query: Any, **given: Any) -> Array:
        """As :meth:`Curator.release`, of a query of rows."""
        return self.curator.release(label, _OfRows(query, self.item, self.reader), **given)


@dataclass(frozen=True, eq=False)
class _OfRows:
    """A query of rows, asked of tables."""

    query: Any
    item: Program
    reader: Any

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.query, name)
        if name in ASKED_OF_RECORDS:
            return lambda records: attribute(self.reader.records(self.item.columns, records))
        return attribute

    def value(self, records: Records, chosen: Any = None) -> Array:
        """The query's value on the tables' rows."""
        value: Array = self.query.value(self.reader.records(self.item.columns, records), chosen)
        return value

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The query's own."""
        sensitivity: Array = self.query.sensitivity(adjacency, size)
        return sensitivity


def labels_in(node: Node) -> set[str]:
    """The labels of a declaration's releases."""
    leaves = (leaf for leaf in postorder(node) if isinstance(leaf, Leaf))
    return {label for leaf in leaves if (label := getattr(leaf, "label", ""))}

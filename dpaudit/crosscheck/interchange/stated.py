"""Facts that a file of another library leaves open, and who states them; its fields and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.crosscheck.interchange.numbers import foreign, foreign_count
from dpaudit.errors import InvalidParameter
from dpaudit.families.events import Group
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit, choose
from dpaudit.storage.evidence import strict_json


@dataclass(frozen=True)
class Stated:
    """Statements about a file by its reader; None where the file says it.

    ``sensitivity``: the largest change of a number before its noise, in the noise's norm.
    ``records``: how many of the file's own units one ``unit`` has, at most.
    """

    adjacency: Adjacency | None = None
    unit: Unit | None = None
    sensitivity: Fraction | None = None
    records: Fraction | None = None

    @classmethod
    def of(
        cls,
        adjacency: Adjacency | str | None = None,
        unit: Unit | str | None = None,
        sensitivity: object = None,
        records: object = None,
    ) -> Stated:
        """Errors: InvalidParameter naming the value that is none of its kind."""
        stated = cls(
            None if adjacency is None else choose(Adjacency, adjacency, "adjacency"),
            None if unit is None else choose(Unit, unit, "unit"),
            None if sensitivity is None else foreign(sensitivity, "sensitivity"),
            None if records is None else foreign_count(records, "records"),
        )
        if stated.records == 0:
            raise InvalidParameter("records = 0: expected at least 1")
        return stated

    def needed(self, name: str, why: str) -> Any:
        """A value that the file does not hold. Errors: InvalidParameter where nobody states it."""
        value = getattr(self, name)
        if value is None:
            raise InvalidParameter(f"{name}: not in the file; state {name}= ({why})")
        return value


@dataclass(frozen=True)
class Reading:
    """A file's declaration, adjacency and unit; None for what it leaves open."""

    node: Node
    adjacency: Adjacency | None
    unit: Unit | None

    def scoped(self, stated: Stated) -> tuple[Node, Scope]:
        """The declaration of what is stated, and its scope.

        Errors: InvalidParameter for what neither file nor statement says, or they say differently.
        """
        adjacency = self.adjacency or stated.needed("adjacency", "add_remove or replace_one")
        if stated.adjacency not in (None, adjacency):
            raise InvalidParameter(f"adjacency = {stated.adjacency}: the file is of {adjacency}")
        unit = stated.unit or self.unit
        if unit is None or (stated.unit is None and stated.records is not None):
            unit = stated.needed("unit", "whom one contribution belongs to: record, user or client")
        node = self._of_several(unit, stated)
        return node, Scope(adjacency, unit, Trust.CENTRAL, Released.TRANSCRIPT)

    def _of_several(self, unit: Unit, stated: Stated) -> Node:
        """The declaration of one unit that has several of the file's own."""
        if self.unit not in (None, Unit.RECORD):
            if unit is not self.unit or stated.records is not None:
                raise InvalidParameter(f"unit, records: the file is of one {self.unit} already")
            return self.node
        if unit is Unit.RECORD:
            if stated.records not in (None, 1):
                raise InvalidParameter("records: one record is one; state another unit")
            return self.node
        if self.unit is None and stated.records is None:
            return self.node
        records = stated.needed("records", f"how many records one {unit} has at most")
        return self.node if records == 1 else Group(self.node, records)


# --- fields of rows ------------------------------------------------------------------------------


def listed(rows: Any, place: str = "history") -> Sequence[Any]:
    """A list. Errors: InvalidParameter naming the place of anything else."""
    if not isinstance(rows, (list, tuple)):
        raise InvalidParameter(f"{place}: expected a list")
    return rows


def field_of(row: Any, name: str) -> Any:
    """A field of a mapping or an object; None where it lacks."""
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


def fields_of(
    row: Any, names: Sequence[str], place: str, more: AbstractSet[str] = frozenset()
) -> list[Any]:
    """The fields of a sequence, mapping or object, all there and no others but ``more``."""
    if isinstance(row, (list, tuple)) and not hasattr(row, "_fields"):
        values = list(row)
    else:
        values = [field_of(row, name) for name in names]
    if len(values) != len(names) or any(value is None for value in values):
        raise InvalidParameter(f"{place}: expected {', '.join(names)}")
    if isinstance(row, Mapping) and (other := set(row) - set(names) - more):
        raise InvalidParameter(f"{place}: {sorted(map(str, other))[0]!r} is none of its fields")
    return values


def read_json(text: str, place: str) -> Any:
    """Parsed JSON, each key of a table once; Infinity is a number, as Python writes it.

    Errors: InvalidParameter for anything else.
    """
    try:
        return strict_json(text, infinite=True)
    except ValueError as error:
        raise InvalidParameter(f"{place}: not JSON ({str(error)[:80]})") from None

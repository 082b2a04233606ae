"""Declarations from and to the events of dp-accounting 0.6, under an adjacency that is stated.

An event's noise is over the clipping norm C; a node's is over the sensitivity under the declared
adjacency, which for a sum of records of norm at most C is C under add_remove and zero_out and 2 C
under replace_one.  A Gaussian or Laplace multiplier is therefore halved on its way in under
replace_one, and doubled on its way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from dpaudit.crosscheck.interchange.kinds import (
    NOTHING,
    OBSTACLES,
    SENSITIVITY_IN_NORMS,
    Kind,
    stated_over,
)
from dpaudit.crosscheck.interchange.rows import MODULE, ROWS, WITHOUT_EVENT, Row, Write
from dpaudit.errors import DpauditError, InvalidParameter, Unsupported
from dpaudit.families.composition import Repeat
from dpaudit.nodes import Node, find_path, postorder
from dpaudit.scope import LONGEST, Adjacency, choose

MAX_NESTING = 100  # Levels of nesting of an event.
MOST_EVENTS = 10_000  # rounds of a Repeat with an index that are written one by one
WHOSE = ("module_name", "class_name")  # of an event that is a named tuple

BY_EVENT: dict[str, Row] = {row.event: row for row in ROWS}
BY_NODE: dict[type[Node], Write] = {kind: write for row in ROWS for kind, write in row.writes}


def from_dp_event(event: Any, adjacency: Adjacency | str) -> Node:
    """The declaration that an event of dp-accounting describes, under the stated adjacency.

    Noise of an event is over the clipping norm.  A declaration with Gaussian noise says under which
    adjacencies its noise multipliers hold, and is accounted for under no other.
    An event is an object, a named tuple (``to_named_tuple``), or either as JSON: a table of its
    fields, or their list.  Zero noise is NonPrivate; what reads no record (NoOp, a rate or count of
    0) is a release that is repeated 0 times.  Nothing is imported or called that the event names.
    Errors: InvalidParameter for a number that is NaN, infinite, negative or of another type;
    Unsupported for an event without a node, or with a field that is not known here.  Both name the
    path inside the event.
    """
    chosen = choose(Adjacency, adjacency, "adjacency")
    node = Reader(chosen, SENSITIVITY_IN_NORMS[chosen], _opened(event).name).read(event)
    return stated_over(node, SENSITIVITY_IN_NORMS[chosen])


@dataclass(frozen=True)
class Opened:
    """An event in one form: whose it is, its name, and its fields as they are."""

    module: Any
    name: str
    fields: Mapping[str, Any] | Sequence[Any]


def _opened(event: Any) -> Opened:
    """An object, a named tuple, or a table or list of JSON."""
    kind = type(event)
    if isinstance(event, tuple) and hasattr(event, "_fields"):
        event = dict(zip(event._fields, event, strict=True))
    if isinstance(event, Mapping):
        module, name = (_text(event.get(each)) for each in WHOSE)
        named = {key: value for key, value in event.items() if key not in WHOSE}
        return Opened(module, name if module == MODULE else kind.__name__, named)
    if isinstance(event, (list, tuple)) and len(event) > 1 and event[0] == MODULE:
        return Opened(MODULE, _text(event[1]), event[2:])
    fields = {each.name: getattr(event, each.name) for each in getattr(kind, "__attrs_attrs__", ())}
    return Opened(kind.__module__, kind.__name__, fields)


def _text(name: Any) -> str:
    return name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)[:LONGEST]


def _named(opened: Opened, row: Row, path: str) -> Any:
    """The fields of an event by name: all of the row's, and no others."""
    given = opened.fields
    if not isinstance(given, Mapping):
        if len(given) > len(row.fields):
            raise Unsupported(f"{path}: {len(given)} fields, where {len(row.fields)} are known")
        given = dict(zip(row.fields, given, strict=False))
    values = {**row.preset, **given}
    if later := sorted(map(str, set(values) - set(row.fields))):
        raise Unsupported(f"{path}: {later[0][:LONGEST]!r} is no field known here")
    if lacking := [name for name in row.fields if name not in values]:
        raise InvalidParameter(f"{path}: expected {', '.join(row.fields)}; not there: {lacking[0]}")
    return SimpleNamespace(**values)


@dataclass(frozen=True)
class Reader:
    """Where a reading stands: the adjacency, its sensitivity in clipping norms, the path."""

    adjacency: Adjacency
    norms: int
    path: str
    depth: int = 0
    done: dict[int, tuple[Any, Node]] = field(default_factory=dict)

    def read(self, event: Any) -> Node:
        """The node of an event; an event that occurs several times is read once."""
        if id(event) not in self.done:
            self.done[id(event)] = (event, self._read(event))
        return self.done[id(event)][1]

    def _read(self, event: Any) -> Node:
        opened = _opened(event)
        if self.depth > MAX_NESTING:
            raise InvalidParameter(f"{opened.name}: events nested deeper than {MAX_NESTING}")
        row = BY_EVENT.get(opened.name) if opened.module == MODULE else None
        if row is None:
            why = OBSTACLES.get(opened.name, "not an event of dp-accounting 0.6")
            raise Unsupported(f"{self.path}: {opened.name}: {why}")
        return row.read(_named(opened, row, self.path), self)

    def below(self, event: Any, place: str) -> Node:
        """The node of an event inside this one; ``place`` names it: ``.event``, ``.events[3]``."""
        path = f"{self.path}{place}.{_opened(event).name}"
        return replace(self, path=path, depth=self.depth + 1).read(event)

    def number(self, event: Any, name: str, kind: Kind) -> Any:
        """A number of the event, as the node has it."""
        return kind.read(getattr(event, name), f"{self.path}.{name}", self.norms)


def to_dp_event(node: Node, adjacency: Adjacency | str) -> Any:
    """The event of dp-accounting that describes a declaration, under the stated adjacency.

    Numbers become floats whose shortest decimal they are, or the next float towards less privacy.
    Errors: Unsupported for a node without an event, symbols without values, or more than
    ``MOST_EVENTS`` different rounds of one Repeat; InvalidParameter for a number no float can hold.
    """
    chosen = choose(Adjacency, adjacency, "adjacency")
    return event_over(node, SENSITIVITY_IN_NORMS[chosen], chosen)


def event_over(node: Node, norms: int, adjacency: Adjacency) -> Any:
    """The event of a declaration, for noise multipliers over a record's norm.

    ``norms``: the sensitivity in such norms, 2 under replace-one, by which multipliers are scaled.
    """
    done: dict[str, Any] = {}
    failed: dict[str, DpauditError] = {}
    for each in postorder(node):
        if each.digest not in done:
            try:
                done[each.digest] = _written(each, Writer(adjacency, norms, each), done, failed)
            except (InvalidParameter, Unsupported) as error:
                failed[each.digest] = _placed(error, node, each, failed)
    if node.digest in failed:
        raise failed[node.digest]
    return done[node.digest]


def _placed(
    error: DpauditError, root: Node, node: Node, failed: Mapping[str, DpauditError]
) -> DpauditError:
    """The error with the node's path, or a child's error as it is."""
    if any(error is failure for failure in failed.values()):
        return error
    return type(error)(f"{find_path(root, node)}: {error}")


def _written(
    node: Node, writer: Writer, done: Mapping[str, Any], failed: Mapping[str, DpauditError]
) -> Any:
    """A node's event from its children's; a Repeat of differing rounds writes its own rounds."""
    if isinstance(node, Repeat) and node.index is not None:
        return writer.write([])
    for child in node.children:
        if child.digest in failed:
            raise failed[child.digest]
    return writer.write([done[child.digest] for child in node.children])


@dataclass(frozen=True)
class Writer:
    """Writer of a node, under an adjacency with its sensitivity in clipping norms."""

    adjacency: Adjacency
    norms: int
    node: Node

    def write(self, children: list[Any]) -> Any:
        """The event of the node, given those of its children."""
        if self.node == NOTHING:
            return self.make("NoOpDpEvent")
        write = BY_NODE.get(type(self.node))
        if write is None:
            name = type(self.node).__name__
            why = WITHOUT_EVENT.get(name, "a node of your own")
            raise Unsupported(f"dp-accounting 0.6 has no event for {name}: {why}")
        return write(self.node, children, self)

    def make(self, name: str, **values: Any) -> Any:
        """An event of dp-accounting."""
        from dp_accounting import dp_event

        return getattr(dp_event, name)(**values)

    def number(self, name: str, kind: Kind) -> Any:
        """A number of the node, as the event has it."""
        return kind.write(getattr(self.node, name), name, self.norms)

    def rounds(self, node: Repeat) -> list[Any]:
        """The events of rounds that differ."""
        times = node.times
        if not isinstance(times, int) and getattr(times, "denominator", None) != 1:
            raise Unsupported(f"{times} different rounds: bind the number first")
        if times > MOST_EVENTS:
            raise Unsupported(f"{times} different rounds: at most {MOST_EVENTS}")
        bound = (node.child.bind({node.index: k}) for k in range(1, int(times) + 1))
        return [event_over(each, self.norms, self.adjacency) for each in bound]

"""Declarations from and to the events of dp-accounting 0.6, under an adjacency that is stated.

An event's noise is over the clipping norm C; a node's is over the sensitivity under the declared
adjacency, which for a sum of records of norm at most C is C under add_remove and zero_out and 2 C
under replace_one.  A Gaussian or Laplace multiplier is therefore halved on its way in under
replace_one, and doubled on its way out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.interchange.rows import MODULE, NORMS, NOTHING, ROWS, UNKNOWN, WRITERS, Row, Write
from dpaudit.nodes import Node, Repeat, find_path, postorder
from dpaudit.scope import Adjacency, choose

DEEPEST = 100
MOST_EVENTS = 10_000

BY_EVENT: dict[str, Row] = {row.event: row for row in ROWS}
BY_NODE: dict[type[Node], Write] = {
    kind: row.write for row in ROWS for kind in row.nodes if row.write is not None
} | WRITERS


def from_dp_event(event: Any, adjacency: Adjacency | str) -> Node:
    """The declaration that an event of dp-accounting describes, under the stated adjacency.

    Zero noise is NonPrivate; what reads no record (NoOp, a rate or count of 0) is a release that is
    repeated 0 times.  Nothing is imported or called that the event names.
    Errors: InvalidParameter for a number that is NaN, infinite, negative or of another type;
    Unsupported for an event without a node.  Both name the path inside the event.
    """
    chosen = choose(Adjacency, adjacency, "adjacency")
    return Reader(chosen, NORMS[chosen], type(event).__name__).read(event)


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
        name = type(event).__name__
        if self.depth > DEEPEST:
            raise InvalidParameter(f"{name}: events nested deeper than {DEEPEST}")
        row = BY_EVENT.get(name) if type(event).__module__ == MODULE else None
        if row is None:
            why = UNKNOWN.get(name, "not an event of dp-accounting 0.6 that has a node")
            raise Unsupported(f"{self.path}: {name}: {why}")
        return row.read(event, self)

    def below(self, event: Any, place: str) -> Node:
        """The node of an event inside this one; ``place`` names it: ``.event``, ``.events[3]``."""
        path = f"{self.path}{place}.{type(event).__name__}"
        return replace(self, path=path, depth=self.depth + 1).read(event)


def to_dp_event(node: Node, adjacency: Adjacency | str) -> Any:
    """The event of dp-accounting that describes a declaration, under the stated adjacency.

    Numbers become floats whose shortest decimal they are, or the next float towards less privacy.
    Errors: Unsupported for a node without an event, symbols without values, or more than
    ``MOST_EVENTS`` different rounds of one Repeat; InvalidParameter for a number no float can hold.
    """
    chosen = choose(Adjacency, adjacency, "adjacency")
    return event_over(node, NORMS[chosen], chosen)


def event_over(node: Node, norms: int, adjacency: Adjacency) -> Any:
    """The event whose noise is over a norm of which the sensitivity is ``norms`` times as much."""
    done: dict[str, Any] = {}
    for each in postorder(node):
        if each.digest not in done:
            writer = Writer(adjacency, norms, node, each)
            done[each.digest] = writer.write([done[child.digest] for child in each.children])
    return done[node.digest]


@dataclass(frozen=True)
class Writer:
    """Where a writing stands: the adjacency, its sensitivity in clipping norms, the node."""

    adjacency: Adjacency
    norms: int
    root: Node
    node: Node

    @property
    def path(self) -> str:
        """Where the node sits in the declaration."""
        return find_path(self.root, self.node)

    def write(self, children: list[Any]) -> Any:
        """The event of the node, given those of its children."""
        if self.node == NOTHING:
            return self.make("NoOpDpEvent")
        write = BY_NODE.get(type(self.node))
        if write is None:
            raise Unsupported(f"{self.path}: dp-accounting 0.6 has no event for {self.node.name}")
        return write(self.node, children, self)

    def make(self, name: str, **values: Any) -> Any:
        """An event of dp-accounting."""
        from dp_accounting import dp_event

        return getattr(dp_event, name)(**values)

    def rounds(self, node: Repeat) -> list[Any]:
        """The events of rounds that differ."""
        times = node.times
        if not isinstance(times, int) and getattr(times, "denominator", None) != 1:
            raise Unsupported(f"{self.path}: {times} different rounds: bind the number first")
        if times > MOST_EVENTS:
            raise Unsupported(f"{self.path}: {times} different rounds: at most {MOST_EVENTS}")
        bound = (node.child.bind({node.index: k}) for k in range(1, int(times) + 1))
        return [event_over(each, self.norms, self.adjacency) for each in bound]

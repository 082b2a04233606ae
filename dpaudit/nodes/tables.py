"""Declarations as JSON tables keyed by digest, read back through an allow-list."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import wire
from dpaudit.nodes import VALUES, LabelledLeaf, Leaf, Node, Several, postorder
from dpaudit.nodes.core import holds_node
from dpaudit.nodes.records import Counts, Sees
from dpaudit.nodes.registry import load

_NAME = re.compile("[A-Za-z][A-Za-z0-9]{0,59}")


def to_table(root: Node) -> dict[str, Any]:
    """A declaration as JSON: ``{"root": digest, "nodes": {digest: row}}``; sharing is kept."""
    return {"root": root.digest, "nodes": {node.digest: node.row() for node in postorder(root)}}


def from_table(table: Any, *, strangers: bool = False) -> Node:
    """The declaration that :func:`to_table` wrote.

    ``strangers``: whether a type that is not known here is read as a :class:`Stranger`.

    Errors: InvalidParameter for unknown node types, malformed rows, or a digest that is not its
    row's.
    """
    if not isinstance(table, dict) or not isinstance(table.get("nodes"), dict):
        raise InvalidParameter("malformed declaration: expected {'root': ..., 'nodes': {...}}")
    load("node")
    rows, built = table["nodes"], dict[str, Node]()
    for digest in _order(rows):
        node = built[digest] = _from_row(rows[digest], built, strangers=strangers)
        if node.digest != digest or node.row() != rows[digest]:
            raise InvalidParameter(f"declaration row {digest[:12]} does not have that digest")
    root = table.get("root")
    if not isinstance(root, str) or root not in built:
        raise InvalidParameter("malformed declaration: its root is not among its nodes")
    return built[root]


class Stranger(Node):
    """A node of a type that only its author's project defines: its row, and nothing about it.

    Its parameters stay in their order on the wire, so its text may differ from its author's.
    """

    counts: ClassVar[Counts] = Counts(sees=Sees.UNKNOWN)

    def __init__(self, type_name: str, parameters: Any, children: Sequence[Node]) -> None:
        if not isinstance(parameters, dict):
            raise InvalidParameter("malformed declaration row")
        self.__dict__["_row"] = {
            "type": type_name,
            "parameters": parameters,
            "children": [child.digest for child in children],
        }
        self.__dict__["_children"] = tuple(children)

    @property
    def is_shipped(self) -> bool:
        return False

    def examine(self) -> None:
        """Its author's project alone knows the domains."""

    @property
    def children(self) -> tuple[Node, ...]:
        return tuple(self.__dict__["_children"])

    @property
    def parameters(self) -> dict[str, Any]:
        return {name: _decode(value) for name, value in self._row["parameters"].items()}

    @property
    def _row(self) -> dict[str, Any]:
        row: dict[str, Any] = self.__dict__["_row"]
        return row

    def row(self) -> dict[str, Any]:
        return self._row

    @property
    def head(self) -> str:
        return f"{self._row['type']}, of its author's project"


def _order(rows: Mapping[str, Any]) -> list[str]:
    """Digests, children before parents; a row that refers to none or to itself is refused."""
    graph = {digest: _child_digests(row) for digest, row in rows.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError:
        raise InvalidParameter("malformed declaration: a node contains itself") from None
    if set(order) != set(rows) or not all(isinstance(d, str) for d in order):
        raise InvalidParameter("malformed declaration: a node refers to one that is missing")
    return order


def _child_digests(row: Any) -> list[str]:
    children = row.get("children") if isinstance(row, dict) else None
    if not isinstance(children, list) or not all(isinstance(c, str) for c in children):
        raise InvalidParameter("malformed declaration row")
    return children


def _from_row(row: Any, built: Mapping[str, Node], *, strangers: bool) -> Node:
    kind = Node.types.get(str(row.get("type")))
    children = [built[c] for c in row["children"]]
    if kind is None and strangers and _NAME.fullmatch(str(row.get("type"))):
        return Stranger(str(row["type"]), row.get("parameters"), children)
    if kind is None or kind in (Node, Leaf, LabelledLeaf, Several, Stranger):
        raise InvalidParameter(f"{str(row.get('type'))[:40]!r} is not a node type")
    if issubclass(kind, Several):
        return kind(*children)
    if not isinstance(row.get("parameters"), dict):
        raise InvalidParameter("malformed declaration row")
    arguments = {k: _decode(v) for k, v in row["parameters"].items()}
    names = [f.name for f in fields(kind) if holds_node(f)]  # type: ignore[arg-type]
    if len(names) != len(children):
        raise InvalidParameter(f"{kind.__name__} on the wire: wrong number of children")
    return _construct(kind, {**arguments, **dict(zip(names, children, strict=True))})  # type: ignore[no-any-return]


def _decode(table: Any) -> Any:
    if not isinstance(table, dict):
        raise InvalidParameter("malformed parameter on the wire")
    if "number" in table:
        return wire.decode_number(table["number"])
    if isinstance(table.get("list"), list):
        return tuple(_decode(item) for item in table["list"])
    if isinstance(table.get("text"), str):
        return table["text"]
    kind = VALUES.get(str(table.get("value")))
    if kind is None or not isinstance(table.get("fields"), dict):
        raise InvalidParameter("malformed parameter on the wire")
    return _construct(kind, {k: _decode(v) for k, v in table["fields"].items()})


def _construct(kind: Any, arguments: Mapping[str, Any]) -> Any:
    try:
        return kind(**arguments)
    except TypeError:
        raise InvalidParameter(f"malformed {kind.__name__} on the wire") from None

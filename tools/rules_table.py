"""Which rule covers which node in which calculus, with its source; an empty cell has a reason."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.measures.calculus import CALCULI, EVERY_ADJACENCY, Rule
from dpaudit.nodes import Node
from dpaudit.nodes.registry import FAMILIES, load
from dpaudit.scope import Adjacency

HEADING = """# Which rule covers which node

Made by `python -m tools rules --markdown`.  A cell names the theorem that the rule cites, and the
adjacencies it is proved for (none named: all of them).  An empty cell says why.
"""


@dataclass(frozen=True)
class Cell:
    """One node type in one calculus: a rule with its source, or the reason why there is none."""

    node: str
    calculus: str
    source: str
    adjacencies: tuple[str, ...]
    reason: str


def shipped() -> list[type[Node]]:
    """The node types of the declaration language, by family, in the order of their definition."""
    load("rules")
    ours = [t for t in Node.types.values() if t.__module__.startswith(f"{FAMILIES}.")]
    return sorted(ours, key=lambda node_type: node_type.__module__)


def cells() -> list[Cell]:
    """Every cell of the table, node by node."""
    return [cell for node in shipped() for name in CALCULI for cell in _cells(node, name)]


def _cells(node: type[Node], name: str) -> list[Cell]:
    """One for each rule, where several hold under adjacencies of their own."""
    reason = CALCULI[name].covers(node)
    rules = CALCULI[name].rules_for(node)
    if not rules:
        return [Cell(node.__name__, name, "", (), "" if isinstance(reason, Rule) else reason or "")]
    return [
        Cell(node.__name__, name, str(rule.cite), _some(rule.adjacencies), "") for rule in rules
    ]


def _some(adjacencies: frozenset[Adjacency]) -> tuple[str, ...]:
    return () if adjacencies == EVERY_ADJACENCY else tuple(sorted(map(str, adjacencies)))


def markdown() -> str:
    """The table as a page: one section a node, one line a calculus."""
    lines = [HEADING]
    for node in shipped():
        summary = (node.__doc__ or "").strip().partition("\n")[0]
        lines += [f"## {node.__name__}", "", summary, "", "| calculus | rule |", "|---|---|"]
        lines += [_line(cell) for name in CALCULI for cell in _cells(node, name)]
        lines.append("")
    return "\n".join(lines)


def _line(cell: Cell) -> str:
    under = f" ({', '.join(cell.adjacencies)})" if cell.adjacencies else ""
    text = f"{cell.source}{under}" if cell.source else f"none: {cell.reason}"
    return f"| {cell.calculus} | {text.replace('|', '/')} |"

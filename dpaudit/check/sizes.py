"""Sizes that one data set cannot have: numbers of records that contradict each other in a tree.

Stated by the names of node types, and asked of each round of a schedule.  The constructors of
declarations have their own, in :mod:`dpaudit.nodes.records`; neither imports the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.reading import require
from dpaudit.exact import readable, replaced, unknowns
from dpaudit.nodes import Node, postorder

# Rounds of schedules that one verification looks at: seconds of work.
MOST_ROUNDS = 20_000
# Which parameter counts all records, and which those of them whom a child sees: a name or a number.
OF_FIXED_SIZE: Mapping[str, tuple[str, str | int]] = {
    "SampledWithoutReplacement": ("population", "batch_size"),
    "SampledWithReplacement": ("population", "draws"),
    "CyclicBatches": ("population", "batch_size"),
    "ShuffledBatches": ("population", "batch_size"),
    "Shuffled": ("population", 1),
}
CUT = "TruncatedPoisson"
BY_COINS = {"PoissonSampled", "RandomAllocation", "CyclicPoisson", CUT}
CLIENTS = {
    "DistributedGaussian",
    "DistributedSkellam",
    "DistributedGaussianVector",
    "DistributedSkellamVector",
}

# The fewest and the most records that fit all that is stated at some place and below.
Ends = tuple[Fraction, Fraction | float]
Round = tuple[tuple[Any, Fraction], ...]
Needed = Mapping[str, frozenset[Any]]


def require_one_data_set(root: Node) -> None:
    """Refuse a declaration whose stated numbers of records contradict each other.

    Collects, from the root down, the rounds in which each node runs, and compares, from the leaves
    up, the numbers of records that each can have.

    Errors: CertificateRejected naming the first node that contradicts.
    """
    nodes = {node.digest: node for node in postorder(root)}  # children before their parents
    needed = _deciding(nodes.values())
    rounds: dict[str, dict[Round, None]] = {digest: {} for digest in nodes}
    rounds[root.digest][()] = None
    count = 0
    for node in reversed(nodes.values()):
        for at in rounds[node.digest]:
            for child in node.children:
                for inner in _rounds_inside(node, at, needed[child.digest]):
                    count += 1
                    require(count <= MOST_ROUNDS, f"{_name(node)}: too many rounds of its sizes")
                    rounds[child.digest][inner] = None
    ends: dict[tuple[str, Round], Ends] = {}
    groups: set[str] = set()
    for digest, node in nodes.items():
        kind = type(node).__name__
        if kind == "Group" or any(child.digest in groups for child in node.children):
            drawn = kind in BY_COINS or kind in OF_FIXED_SIZE
            require(
                not drawn, f"{_name(node)}: a Group below, whose members are drawn each by itself"
            )
            groups.add(digest)
        for at in rounds[digest]:
            inside = [
                [ends[child.digest, r] for r in _rounds_inside(node, at, needed[child.digest])]
                for child in node.children
            ]
            ends[digest, at] = _fitting(node, inside, dict(at))


def _deciding(nodes: Any) -> Needed:
    """For each node the indices of schedules around it on which sizes here and below depend."""
    needed: dict[str, frozenset[Any]] = {}
    for node in nodes:
        inside = frozenset[Any]().union(*(needed[child.digest] for child in node.children))
        index = getattr(node, "index", None)
        if index is not None and index in inside:
            inside = (inside - {index}) | unknowns(node.times)
        needed[node.digest] = inside.union(*map(unknowns, _sizes(node)))
    return needed


def _sizes(node: Node) -> list[Any]:
    """A node's own numbers of records, as they are written."""
    kind = type(node).__name__
    names: tuple[str | int, ...] = OF_FIXED_SIZE.get(kind, ())
    if kind == CUT:
        names = ("population", "batch_size")
    elif kind in CLIENTS:
        names = ("clients",)
    return [getattr(node, name) for name in names if isinstance(name, str)]


def _rounds_inside(node: Any, at: Round, needed: frozenset[Any]) -> Iterator[Round]:
    """The rounds in which a child runs, as values of the indices that decide its sizes."""
    index = getattr(node, "index", None)
    outer = tuple((symbol, k) for symbol, k in at if symbol in needed and symbol != index)
    if index is None or index not in needed:
        yield outer
        return
    times = _number(node.times, dict(at), node)
    require(times <= MOST_ROUNDS, f"{_name(node)}: too many rounds of its sizes")
    for k in range(1, int(times) + 1):
        yield (*outer, (index, Fraction(k)))


def _fitting(node: Node, inside: Sequence[Sequence[Ends]], at: Mapping[Any, Fraction]) -> Ends:
    """The ends for a node: ``inside`` are those of each child, round by round."""
    kind = type(node).__name__
    if not node.is_shipped and inside:
        return Fraction(0), math.inf  # its author's combinator, for which there is no theorem
    flat = [ends for rounds in inside for ends in rounds]
    if kind == "Parallel":
        return sum((max(low for low, _ in r) for r in inside), Fraction(0)), math.inf
    if kind in CLIENTS:
        return _number(node.clients, at, node), math.inf  # type: ignore[attr-defined]
    if kind in OF_FIXED_SIZE:
        every, part = (
            Fraction(name) if isinstance(name, int) else _number(getattr(node, name), at, node)
            for name in OF_FIXED_SIZE[kind]
        )
        for low, high in flat:
            require(low <= part <= high, f"{_name(node)}: {_told(low, high)} below, draws {part}")
        return every, every
    if kind in BY_COINS:
        most: Fraction | float = min((high for _, high in flat), default=math.inf)
        low = max((low for low, _ in flat), default=Fraction(0))
        require(low == 0, f"{_name(node)}: {_told(low, most)} below, and draws a random number")
        if kind != CUT:
            return Fraction(0), most
        every, cut = (_number(size, at, node) for size in _sizes(node))
        require(cut <= most, f"{_name(node)}: {_told(low, most)} below, and draws up to {cut}")
        return Fraction(0), every
    low = max((low for low, _ in flat), default=Fraction(0))
    most = min((high for _, high in flat), default=math.inf)
    require(low <= most, f"{_name(node)}: {_told(low, most)} in one data set")
    return low, most


def _told(low: Fraction, high: Fraction | float) -> str:
    return f"at least {readable(low)} and at most {high} records"


def _number(size: Any, at: Mapping[Any, Fraction], node: Node) -> Fraction:
    size = replaced(size, at)
    is_natural = isinstance(size, Fraction) and size.denominator == 1 and size >= 0
    require(is_natural, f"{_name(node)}: a size is no natural number")
    return Fraction(size)


def _name(node: Node) -> str:
    return node.head[:80]

"""A program with something wrong between it and its curator, or in its declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpaudit.curator.curator import Curator, Program, Sampler
from dpaudit.kernels.query import Array, Query
from dpaudit.nodes import Node
from dpaudit.scope import Scope


class Handed:
    """A curator as a wrong program uses it: everything goes through, some of it changed."""

    def __init__(self, curator: Curator) -> None:
        self.curator = curator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.curator, name)

    def release(self, label: str, query: Query, **options: Any) -> Array:
        """Pass a release on."""
        return self.curator.release(label, query, **options)

    def finish(self, output: Any) -> Any:
        """What the run gives."""
        return output


class Stop(Exception):
    """A wrong program stops early."""


@dataclass(frozen=True)
class Tampered:
    """``program`` run through ``handed``, with ``declare`` between it and its declaration."""

    program: Program
    handed: Callable[[Any], Handed] = Handed
    declare: Callable[[Node], Node] | None = None

    def declaration(self, scope: Scope) -> Node:
        """The program's declaration, changed if ``declare`` changes it."""
        node = self.program.declaration(scope)
        return node if self.declare is None else self.declare(node)

    def run(self, curator: Curator) -> Any:
        """The program's run on a curator that is not quite right."""
        handed = self.handed(curator)
        try:
            output = self.program.run(handed)  # type: ignore[arg-type]
        except Stop:
            output = None
        return handed.finish(output)


@dataclass(frozen=True)
class Instead:
    """Declares as ``program``, runs ``other``."""

    program: Program
    other: Program

    def declaration(self, scope: Scope) -> Node:
        """The right program's declaration."""
        return self.program.declaration(scope)

    def run(self, curator: Curator) -> Any:
        """The other program's run."""
        return self.other.run(curator)


def is_sampler(curator: Any) -> bool:
    """Whether a curator draws, so that a bug in its randomness has a place."""
    return isinstance(curator, Sampler)


def relabelled(node: Node, label: str, change: Callable[[Node], Node | None]) -> Node:
    """The declaration with every leaf of that label changed; a leaf changed to None is dropped.

    Errors: ValueError where nothing would be left.
    """
    found = _changed(node, label, change)
    if found is None:
        raise ValueError("a declaration of nothing")
    return found


def _changed(node: Node, label: str, change: Callable[[Node], Node | None]) -> Node | None:
    if not node.children:
        return change(node) if node.parameters.get("label") == label else node
    children = [_changed(child, label, change) for child in node.children]
    kept = [child for child in children if child is not None]
    if not kept or (len(kept) < len(children) and "nodes" not in node.__dict__):
        return None
    return node.rebuild(node.parameters, kept)

"""What is reached of a composition: the releases that have pairs which some data reach.

Whoever sees a composition may leave releases out after the fact, so that it is no more private than
what is left; adaptive rounds stay what they are without a part of each.  So a lower end holds of
the whole where it holds of the rest, though no calculus of pairs speaks of the releases left out,
or they are near pairs only (a slack).  Of a group that is replaced all but one may be replaced by
equals; a search whose score is the same for all runs shows any one of them.
"""

from __future__ import annotations

from dataclasses import replace

from dpaudit.errors import Unsupported
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.events import Group
from dpaudit.families.tuning import Tuned
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope


def reached_part(node: Node, scope: Scope) -> Node | None:
    """The declaration without releases whose pairs nobody knows to be reached; None of nothing."""
    return _kept(node, scope, {})


def _kept(node: Node, scope: Scope, known: dict[str, Node | None]) -> Node | None:
    if node.digest not in known:
        known[node.digest] = _without(node, scope, known)
    return known[node.digest]


def _without(node: Node, scope: Scope, known: dict[str, Node | None]) -> Node | None:
    if isinstance(node, Repeat):
        child = _kept(node.child, scope, known)
        return None if child is None else replace(node, child=child)
    if isinstance(node, Compose | Parallel):
        kept = [part for child in node.children if (part := _kept(child, scope, known)) is not None]
        if len(kept) == len(node.children):
            return type(node)(*kept)
        return type(node)(*kept) if len(kept) > 1 else next(iter(kept), None)
    if _is_reached(node, scope):
        return node
    if isinstance(node, Tuned):
        return _kept(node.child, scope, known)
    if isinstance(node, Group) and scope.adjacency is Adjacency.REPLACE_ONE:
        return _kept(node.child, scope, known)
    return None


def _is_reached(node: Node, scope: Scope) -> bool:
    """Whether both laws are known to be as far apart as some pair."""
    profile = CALCULI["profile"]
    if not profile.supports(node, scope):
        return False
    try:
        losses = profile.fold(node, scope).value
    except Unsupported:
        return False
    return losses.slack == 0 and bool(losses.reached)

"""The part of a composition whose pairs are attained, as a lower bound for the whole.

An observer may ignore releases (post-processing), so a composition is no more private than any
part of it; this holds for adaptive rounds too, if the same part of each round is ignored.  A lower
bound of the rest is therefore a lower bound of the whole, even if the releases left out have no
pairs, or pairs with a failure probability.  In a group that is replaced, all records but one may be
replaced by equal ones.  A search whose score is the same for all runs may release any of them.
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
    """The declaration without releases whose pairs may not be attained; None if nothing is left."""
    return _kept(node, scope, {})


def _kept(node: Node, scope: Scope, reached_by_digest: dict[str, Node | None]) -> Node | None:
    if node.digest not in reached_by_digest:
        reached_by_digest[node.digest] = _without(node, scope, reached_by_digest)
    return reached_by_digest[node.digest]


def _without(node: Node, scope: Scope, reached_by_digest: dict[str, Node | None]) -> Node | None:
    if isinstance(node, Repeat):
        child = _kept(node.child, scope, reached_by_digest)
        return None if child is None else replace(node, child=child)
    if isinstance(node, Compose | Parallel):
        reached = [
            part
            for child in node.children
            if (part := _kept(child, scope, reached_by_digest)) is not None
        ]
        if len(reached) == len(node.children):
            return type(node)(*reached)
        return type(node)(*reached) if len(reached) > 1 else next(iter(reached), None)
    if _is_reached(node, scope):
        return node
    if isinstance(node, Tuned):
        return _kept(node.child, scope, reached_by_digest)
    if isinstance(node, Group) and scope.adjacency is Adjacency.REPLACE_ONE:
        return _kept(node.child, scope, reached_by_digest)
    return None


def _is_reached(node: Node, scope: Scope) -> bool:
    """Whether the declaration's dominating pairs are attained."""
    profile = CALCULI["profile"]
    if not profile.supports(node, scope):
        return False
    try:
        losses = profile.fold(node, scope).value
    except Unsupported:
        return False
    return losses.slack == 0 and bool(losses.reached)

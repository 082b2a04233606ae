"""Conclusions that are pairs: a step may state others that dominate the theorem's own."""

from __future__ import annotations

from dataclasses import replace

from dpaudit.check.reading import Json
from dpaudit.errors import InvalidParameter
from dpaudit.pairs import Losses, from_wire, told_apart
from dpaudit.pairs.core import all_dominated, at_least


def concluded(stated: Json, own: Losses) -> Losses | None:
    """The pairs that a step states, where they dominate the theorem's own; None where not.

    As many, and each with the form of one of the theorem's: nothing else says that masses sum to 1.
    The attained pairs stay the theorem's.
    """
    if stated == own.to_wire():
        return own
    try:
        remove, add, slack = from_wire(stated)
    except InvalidParameter:
        return None
    sides = ((remove, told_apart(own.remove)), (add, told_apart(own.add)))
    dominates = all(
        len(stated_pairs) == len(own_pairs) and all_dominated(stated_pairs, own_pairs)
        for stated_pairs, own_pairs in sides
    )
    if not dominates or not at_least(slack, own.slack):
        return None
    return replace(own, remove=remove, add=add, slack=slack)

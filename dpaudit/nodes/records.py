"""How many records reach a node, as the nodes of its tree state it: contradictions are refused.

Every node states facts of one data set.  A size that is too large makes a bound too small, so a
declaration whose sizes cannot all be true is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, canonical, is_symbolic, readable, sympify, unknowns
from dpaudit.exact.domains import known_sign

SHOWN_CHARACTERS = 80  # Characters of a node in a message.


class Sees(StrEnum):
    """Which of the records that reach a node its children see.

    ``ALL``: each child all of them.  ``PARTS``: disjoint parts.  ``DRAWN``: as many as the node
    draws, at random.  ``UNKNOWN``: nobody here knows.
    """

    ALL = "all"
    PARTS = "parts"
    DRAWN = "drawn"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Counts:
    """Which of a node's parameters count records, by name, and what its children see.

    ``exactly``, ``at_most``, ``at_least``: how many records reach the node.  ``draws``: how many a
    child sees (a parameter, or the number itself), empty where that is random;
    ``draws_at_most``: a limit of a random number.  ``together``: the guarantee is one for several
    records together, which no draw may part.
    """

    exactly: str = ""
    at_most: str = ""
    at_least: str = ""
    sees: Sees = Sees.ALL
    draws: str | int = ""
    draws_at_most: str = ""
    together: bool = False


@dataclass(frozen=True)
class Stated:
    """A number of records, the node that states it, and what it says of them."""

    value: Number
    node: Any
    words: str

    def __str__(self) -> str:
        return f"{self.node.head[:SHOWN_CHARACTERS]}: {self.words.format(readable(self.value))}"


@dataclass(frozen=True)
class Records:
    """How many records may reach a node: at least, at most; None where nothing is stated.

    ``group``: a node inside whose guarantee is one for several records together.
    """

    least: Stated | None = None
    most: Stated | None = None
    group: Any = None


NOTHING = Records()
EXACTLY, AT_MOST = "declared for {} records", "declared for at most {} records"
AT_LEAST = "declared with the noise of {} clients"
IN_PARTS = "declared for {} records in its parts"


def reaching(node: Any) -> Records:
    """How many records reach a node, from what it states and from what reaches its children.

    Errors: InvalidParameter for sizes that cannot all be true, for sizes below a draw of a random
    number, for a number of records that depends on the round, and for a group below a draw.
    """
    counts, below = node.counts, [child.records for child in node.children]
    if counts.sees is Sees.UNKNOWN:
        return NOTHING
    inside = {Sees.ALL: _same, Sees.PARTS: _parts, Sees.DRAWN: _drawn}[counts.sees](node, below)
    records = _same(node, [_own(node, counts), inside])
    _require_no_round(node, records)
    return replace(records, group=node) if counts.together else records


def _own(node: Any, counts: Counts) -> Records:
    def stated(name: str, words: str) -> Stated | None:
        return Stated(getattr(node, name), node, words) if name else None

    exactly = stated(counts.exactly, EXACTLY)
    least = exactly or stated(counts.at_least, AT_LEAST)
    most = exactly or stated(counts.at_most, AT_MOST)
    return Records(least, most) if least or most else NOTHING


def _same(node: Any, several: Sequence[Records]) -> Records:
    """The statements about one set of records, put together."""
    stating = [each for each in several if each is not NOTHING]
    if len(stating) < 2:
        return stating[0] if stating else NOTHING
    least = _extreme([r.least for r in stating], 1)
    most = _extreme([r.most for r in stating], -1)
    if least is not None and most is not None and _exceeds(least.value, most.value):
        raise InvalidParameter(
            f"{least}; {most}; both are about the one data set that reaches {node.name}: state "
            "one number of records, and put what reads only a part of them into Parallel"
        )
    return Records(least, most, next((r.group for r in stating if r.group is not None), None))


def _extreme(stated: Sequence[Stated | None], sign: int) -> Stated | None:
    """The largest of several numbers, or the smallest for ``sign`` -1."""
    best: Stated | None = None
    for each in stated:
        if each is None or (best is not None and _is_first(best.value, each.value, sign)):
            continue
        if best is None or _is_first(each.value, best.value, sign):
            best = each
        else:
            import sympy

            either = sympy.Max if sign > 0 else sympy.Min
            both = canonical(either(sympify(best.value), sympify(each.value)))
            best = replace(best, value=both)
    return best


def _is_first(value: Number, other: Number, sign: int) -> bool:
    return known_sign(sign * (value - other), strict=False) is True


def _exceeds(value: Number, limit: Number) -> bool:
    """Whether a number may be above a limit, for symbols of a schedule in some round."""
    return known_sign(limit - value, strict=False) is False


def _parts(node: Any, below: Sequence[Records]) -> Records:
    """Disjoint parts: all records are at least their sum, and one part says nothing of the rest."""
    stated = [r.least for r in below if r.least is not None]
    group = next((r.group for r in below if r.group is not None), None)
    if not stated and group is None:
        return NOTHING
    if len(stated) < 2:
        return Records(stated[0] if stated else None, None, group)
    total = canonical(sum((each.value for each in stated), Fraction(0)))
    return Records(Stated(total, node, IN_PARTS), None, group)


def _drawn(node: Any, below: Sequence[Records]) -> Records:
    """The number of records that a sampling node states; refuses contradicting children."""
    counts, name = node.counts, node.name
    most: Stated | None = None
    for child in below:
        if child.group is not None:
            raise InvalidParameter(
                f"{name}.child = {child.group.head[:SHOWN_CHARACTERS]}: expected no Group, whose "
                f"members are drawn or placed each by itself; put Group around {name}"
            )
        if counts.draws:
            drawn = counts.draws
            _require_fits(
                node, child, Fraction(drawn) if isinstance(drawn, int) else getattr(node, drawn)
            )
            continue
        if child.least is not None:
            raise InvalidParameter(
                f"{child.least}, and how many {name} draws is random; draw so many of all by "
                "SampledWithoutReplacement"
            )
        limit = getattr(node, counts.draws_at_most) if counts.draws_at_most else None
        if limit is None:
            most = child.most
        elif child.most is not None and _exceeds(limit, child.most.value):
            raise InvalidParameter(f"{child.most}, and {name} draws up to {readable(limit)}")
    return Records(most=most) if most is not None else NOTHING


def _require_fits(node: Any, child: Records, drawn: Number) -> None:
    """Refuse a child whose stated number of records contradicts the number drawn.

    Errors: InvalidParameter.
    """
    for stated, sign in ((child.least, 1), (child.most, -1)):
        if stated is not None and known_sign(sign * (drawn - stated.value), strict=False) is False:
            only = "; only clients who are drawn add noise" if stated.words == AT_LEAST else ""
            raise InvalidParameter(
                f"{stated}, and runs on the {readable(drawn)} that {node.name} draws{only}"
            )


def _require_no_round(node: Any, records: Records) -> None:
    """Errors: InvalidParameter for a number of records that another round contradicts."""
    index = getattr(node, "index", None)
    if index is None or not is_symbolic(index):
        return
    for stated in (records.least, records.most):
        if stated is not None and index in unknowns(stated.value):
            raise InvalidParameter(
                f"{stated}; every round of {node.name} reads the one data set, so that its number "
                f"of records cannot depend on the round {index}"
            )

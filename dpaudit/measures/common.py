"""Rules that every additive calculus shares, written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpaudit.exact import infinity, maximum, total, total_over
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import NonPrivate
from dpaudit.measures.calculus import Calculus, Source, Step, always, never, one_record
from dpaudit.nodes import Node

NOT_PRIVATE = Source("dpaudit", 2026, "definition of NonPrivate: no finite guarantee is claimed")
UNDER_ASSUMPTION = Source("dpaudit", 2026, "definition of Assuming: a conditional statement")


def repeated(node: Node, premises: tuple[Step, ...]) -> bool:
    """Attained unless the rounds differ and one record saturates each in another part."""
    parted_schedule = getattr(node, "index", None) is not None and premises[0].in_one_part
    return always(node, premises) and not parted_schedule


# Never attained: an assumption may rule out the very data and queries that reach the base's bound.
def unchanged(node: Node, premise: Any) -> Any:
    """The guarantee of the base, under the assumption."""
    return premise


def add_structure(
    calculus: Calculus,
    *,
    compose: Source,
    parallel: Source,
    combine: Callable[[Sequence[Any]], Any] = total,
    repeat: Callable[[Any, Any, Any], Any] = total_over,
    largest: Callable[[Sequence[Any]], Any] = maximum,
    unbounded: Callable[[], Any] = infinity,
) -> None:
    """Register Compose, Repeat, Parallel, Assuming and NonPrivate; the defaults are additive."""

    def composition(node: Compose, *premises: Any) -> Any:
        """Adaptive composition on the same records."""
        return combine(premises)

    def repetition(node: Repeat, premise: Any) -> Any:
        """Adaptive composition of all rounds."""
        return repeat(premise, node.index, node.times)

    def disjoint(node: Parallel, *premises: Any) -> Any:
        """The largest of the parts: one record is in one of them."""
        return largest(premises)

    def no_guarantee(node: NonPrivate) -> Any:
        """An access without noise has no finite guarantee."""
        return unbounded()

    calculus.rule(Compose, cite=compose, attained=one_record)(composition)
    calculus.rule(Repeat, cite=compose, attained=repeated)(repetition)
    calculus.rule(Parallel, cite=parallel, attained=always)(disjoint)
    calculus.rule(Assuming, cite=UNDER_ASSUMPTION, attained=never)(unchanged)
    calculus.rule(NonPrivate, cite=NOT_PRIVATE, attained=never)(no_guarantee)

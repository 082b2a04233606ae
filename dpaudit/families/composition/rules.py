"""The combinators, once for all calculi: each rule follows from the calculus' laws."""

from __future__ import annotations

from typing import Any

from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import NonPrivate
from dpaudit.measures.calculus import (
    Calculus,
    Source,
    Step,
    always,
    in_every_calculus,
    never,
    nothing_chosen,
    one_record,
)
from dpaudit.nodes import Node

NOT_PRIVATE = Source("dpaudit", 2026, "definition of NonPrivate: no finite guarantee is claimed")
UNDER_ASSUMPTION = Source("dpaudit", 2026, "definition of Assuming: a conditional statement")


def repeated(node: Node, premises: tuple[Step, ...]) -> bool:
    """Attained unless the rounds differ and one record saturates each in another part."""
    parted_schedule = getattr(node, "index", None) is not None and premises[0].in_one_part
    return always(node, premises) and not parted_schedule


@in_every_calculus
def structure(calculus: Calculus) -> None:
    """Register Compose, Repeat, Parallel, Assuming and NonPrivate."""
    laws = calculus.laws
    if laws is None:
        return

    def composition(node: Compose, *premises: Any) -> Any:
        """Adaptive composition on the same records."""
        return laws.combine(premises)

    def repetition(node: Repeat, premise: Any) -> Any:
        """Adaptive composition of all rounds."""
        return laws.repeat(premise, node.index, node.times)

    def disjoint(node: Parallel, *premises: Any) -> Any:
        """The largest of the parts: one record is in one of them."""
        return laws.largest(premises)

    # Never attained: an assumption may rule out the very data and queries that reach the bound.
    def unchanged(node: Assuming, premise: Any) -> Any:
        """The guarantee of the base, under the assumption."""
        return laws.conditional(premise)

    def no_guarantee(node: NonPrivate) -> Any:
        """An access without noise has no finite guarantee."""
        return laws.unbounded()

    for node_type, name, rule, cite, attained in (
        (Compose, "composition", composition, laws.compose, one_record),
        (Repeat, "repetition", repetition, laws.compose, repeated),
        (Parallel, "disjoint", disjoint, laws.parallel, always),
        (Assuming, "unchanged", unchanged, UNDER_ASSUMPTION, never),
        (NonPrivate, "no_guarantee", no_guarantee, NOT_PRIVATE, never),
    ):
        reached = attained if laws.attained else never
        several = laws.witness if node_type in (Compose, Parallel) else nothing_chosen
        calculus.rule(node_type, name, cite=cite, attained=reached, witness=several)(rule)

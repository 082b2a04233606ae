"""Composition, repetition, disjoint parts and assumptions, in every calculus of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.check.measures import CheckedMeasure, in_every_measure
from dpaudit.check.theorem import Premise, Theorem, always, never, register


def _one_record(node: Any, premises: Sequence[Premise]) -> bool:
    return always(node, premises) and sum(p.in_one_part for p in premises) <= 1


def _same_part(node: Any, premises: Sequence[Premise]) -> bool:
    parted_schedule = node.index is not None and premises[0].in_one_part
    return always(node, premises) and not parted_schedule


@in_every_measure
def structure(measure: CheckedMeasure) -> None:
    """Register Compose, Repeat, Parallel, Assuming and NonPrivate, from the measure's laws."""
    combine, repeat = measure.combine, measure.repeat
    if combine is None:
        return
    reached = measure.attained
    register(
        {
            (measure.name, "Compose"): Theorem(
                "composition",
                lambda node, *values: combine(values),
                attained=_one_record if reached else never,
            ),
            (measure.name, "Repeat"): Theorem(
                "repetition",
                lambda node, value: repeat(value, node.index, node.times),
                attained=_same_part if reached else never,
            ),
            (measure.name, "Parallel"): Theorem(
                "disjoint",
                lambda node, *values: measure.largest(values),
                attained=always if reached else never,
            ),
            (measure.name, "Assuming"): Theorem("unchanged", lambda node, value: value),
            (measure.name, "NonPrivate"): Theorem("no_guarantee", lambda node: measure.unbounded()),
        }
    )

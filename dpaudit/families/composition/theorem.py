"""Composition, repetition, disjoint parts and assumptions, in every calculus of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import NUMERIC, Premise, Table, Theorem, always, lifted, register
from dpaudit.exact import infinity, maximum, sqrt, total, total_over


def _one_record(node: Any, premises: Sequence[Premise]) -> bool:
    return always(node, premises) and sum(p.in_one_part for p in premises) <= 1


def _same_part(node: Any, premises: Sequence[Premise]) -> bool:
    parted_schedule = node.index is not None and premises[0].in_one_part
    return always(node, premises) and not parted_schedule


def _composed(calculus: str) -> Callable[..., Any]:
    if calculus == "gdp":
        return lambda node, *mus: sqrt(total(mu**2 for mu in mus))
    return lifted(calculus, total)


def _repeated(calculus: str) -> Callable[..., Any]:
    def bound(node: Any, premise: Any) -> Any:
        def over(values: list[Any]) -> Any:
            return total_over(values[0], node.index, node.times)

        if calculus == "gdp":
            return sqrt(total_over(premise**2, node.index, node.times))
        return lifted(calculus, over)(node, premise)

    return bound


def _unbounded(calculus: str) -> Callable[..., Any]:
    found: dict[str, Any] = {
        "approx": (infinity(), Fraction(1)),
        "rdp": lambda a: infinity(),
    }
    return lambda node: found.get(calculus, infinity())


def _structure(calculus: str) -> Table:
    return {
        (calculus, "Compose"): Theorem("composition", _composed(calculus), attained=_one_record),
        (calculus, "Repeat"): Theorem("repetition", _repeated(calculus), attained=_same_part),
        (calculus, "Parallel"): Theorem("disjoint", lifted(calculus, maximum), attained=always),
        (calculus, "Assuming"): Theorem("unchanged", lifted(calculus, lambda values: values[0])),
        (calculus, "NonPrivate"): Theorem("no_guarantee", _unbounded(calculus)),
    }


STRUCTURE: Table = {key: t for name in NUMERIC for key, t in _structure(name).items()}

register(STRUCTURE)

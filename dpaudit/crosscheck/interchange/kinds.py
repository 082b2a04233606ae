"""Kinds of numbers in an event, and how each crosses the border; what a table row may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.crosscheck.interchange.numbers import (
    Rounding,
    foreign,
    foreign_count,
    foreign_rate,
    to_float,
    to_int,
)
from dpaudit.families.additive import Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import NonPrivate
from dpaudit.nodes import Node, stated_under
from dpaudit.scope import Adjacency

# Sensitivity, in clipping norms, of a sum of clipped records.
SENSITIVITY_IN_NORMS = {Adjacency.ADD_REMOVE: 1, Adjacency.ZERO_OUT: 1, Adjacency.REPLACE_ONE: 2}
# A declaration that reads no record: each calculus has rules for it without an assumption.
NOTHING: Node = Repeat(Laplace("no_op", 1), 0)
NO_NOISE = NonPrivate("noise of scale 0")
# Why an event has no node, or has none under an adjacency or with some numbers.
OBSTACLES = {
    "UnsupportedDpEvent": "an operation that nobody described; declare it",
    "MixtureOfGaussiansDpEvent, replaced": "a mixture is not defined under replace_one",
    "RandomizedResponseDpEvent": "is read under replace_one; the event does not say what an absent "
    "record answers: declare its guarantee as PureDP",
}


def stated_over(node: Node, norms: int) -> Node:
    """The declaration whose noise multipliers are over ``norms`` clipping norms, as it says.

    A declaration that reads no record is left unchanged.
    """
    if node == NOTHING:
        return node
    return stated_under(
        node, *(among for among, moved in SENSITIVITY_IN_NORMS.items() if moved == norms)
    )


@dataclass(frozen=True)
class Kind:
    """One kind of number: into a node from an event, and out; each given value, place and norms."""

    read: Callable[[Any, str, int], Any]
    write: Callable[[Any, str, int], Any]


def _noise_in(value: Any, place: str, norms: int) -> Fraction:
    return foreign(value, place) / norms


def _noise_out(value: Any, place: str, norms: int) -> float:
    return to_float(value * norms, place, Rounding.DOWN)


def _norm_in(value: Any, place: str, norms: int) -> Fraction:
    return foreign_count(value, place) * norms


def _norm_out(value: Any, place: str, norms: int) -> int:
    return -(-to_int(value, place) // norms)


NOISE = Kind(_noise_in, _noise_out)
NORM = Kind(_norm_in, _norm_out)
RATE = Kind(lambda v, at, _: foreign_rate(v, at), lambda v, at, _: to_float(v, at, Rounding.UP))
WHOLE = Kind(lambda v, at, _: foreign_count(v, at), lambda v, at, _: to_int(v, at))
LOSS = Kind(lambda v, at, _: foreign(v, at), lambda v, at, _: to_float(v, at, Rounding.UP))


def together(nodes: Sequence[Node]) -> Node:
    """Several declarations on the same records, without those that read none."""
    reading = [node for node in nodes if node != NOTHING]
    return Compose(*reading) if len(reading) > 1 else (reading or [NOTHING])[0]

"""Combinators whose child runs on a secret sample of the records."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number
from dpaudit.exact.domains import count, known_sign, number, positive, rate, refuse
from dpaudit.nodes.core import Node


@dataclass(frozen=True, eq=False, repr=False)
class PoissonSampled(Node):
    """``child`` runs on a secret batch that holds each record with probability ``rate``.

    Under zero_out no query may read the batch's realised number of records.
    """

    child: Node
    rate: Number = number(rate)


@dataclass(frozen=True, eq=False, repr=False)
class SampledWithoutReplacement(Node):
    """``child`` runs on a secret, uniformly random ``batch_size`` of ``population`` records."""

    child: Node
    batch_size: Number = number(count)
    population: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.batch_size, f"{self.name}.batch_size")
        if known_sign(self.population - self.batch_size, strict=False) is False:
            refuse(self.batch_size, f"{self.name}.batch_size", "at most the population")


@dataclass(frozen=True, eq=False, repr=False)
class SampledWithReplacement(Node):
    """``child`` runs on a secret batch of ``draws`` uniform draws, each from all ``population``.

    A record drawn j times counts as j records; the child does not depend on the batch's order.
    """

    child: Node
    draws: Number = number(count)
    population: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.draws, f"{self.name}.draws")
        positive(self.population, f"{self.name}.population")


@dataclass(frozen=True, eq=False, repr=False)
class RandomAllocation(Node):
    """``child`` runs ``slots`` times in sequence, adaptively; each record is in one secret slot.

    Every record draws its slot uniformly and independently of the others ("balls and bins").
    """

    child: Node
    slots: Number = number(count)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.slots, f"{self.name}.slots")

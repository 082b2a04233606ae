"""Combinators whose child runs on a secret sample of the records."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.arithmetic import Number
from dpaudit.domains import count, known_sign, number, positive, rate, refuse
from dpaudit.nodes.core import Node


@dataclass(frozen=True, eq=False, repr=False)
class PoissonSampled(Node):
    """``child`` runs on a secret batch that holds each record with probability ``rate``."""

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

"""Laplace noise, moved by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.exact import Number
from dpaudit.pairs.core import Comparisons, Extremes, Pair, Symmetric, at_least


@dataclass(frozen=True)
class LaplaceShift(Symmetric):
    """Laplace noise of scale 1/epsilon around 1 against around 0: the loss is within epsilon."""

    epsilon: Number

    is_ordered = True
    grows: ClassVar[Comparisons] = {"epsilon": at_least}

    def scaled(self, size: Number) -> Pair | None:
        return LaplaceShift(size * self.epsilon)

    @property
    def extremes(self) -> Extremes:
        return self.epsilon, self.epsilon

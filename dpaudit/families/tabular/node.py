"""Leaves for tables: noise on a vector of whole numbers, and counts under keys nobody listed."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number
from dpaudit.exact.domains import known_sign, number, positive, refuse
from dpaudit.families.discrete.node import preset, whole
from dpaudit.nodes.core import Leaf, labelled


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteGaussianVector(Leaf):
    """Adds i.i.d. k with probability proportional to exp(-k^2 / (2 variance)) to whole numbers.

    Of the vector, of any length, at most ``moved`` coordinates move, each by at most the whole
    number ``sensitivity``, and the squares of their moves add up to at most ``squared``.
    """

    label: str
    variance: Number = number(positive)
    sensitivity: Number = preset(whole, 1)
    moved: Number = preset(whole, 1)
    squared: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        labelled(self.label, type(self))
        one = self.sensitivity**2
        if known_sign(self.squared - one, strict=False) is False:
            refuse(self.squared, f"{self.name}.squared", "at least sensitivity^2")
        if known_sign(self.moved * one - self.squared, strict=False) is False:
            refuse(self.squared, f"{self.name}.squared", "at most moved * sensitivity^2")


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdedDiscreteLaplace(Leaf):
    """Shows the noisy count of every key that is there and whose noisy count is large enough.

    To the count of each key that some row has, k with probability proportional to exp(-|k| / scale)
    is added; it is shown with its key where it is at least ``threshold``.  Between neighbours the
    counts move by at most the whole number ``sensitivity`` in l1-norm; at most ``own`` keys of
    either are not the other's, and their counts are at most ``largest``.
    """

    label: str
    scale: Number = number(positive)
    threshold: Number = number(whole)
    sensitivity: Number = preset(whole, 1)
    own: Number = preset(whole, 1)
    largest: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        labelled(self.label, type(self))
        if known_sign(self.threshold - self.largest - 1, strict=False) is False:
            refuse(self.threshold, f"{self.name}.threshold", "above the largest own count")

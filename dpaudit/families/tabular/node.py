"""Leaves for tables: noise on a vector of whole numbers, and counts under keys nobody listed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact
from dpaudit.exact.domains import known_sign, number, positive, refuse
from dpaudit.families.discrete.node import preset, whole
from dpaudit.nodes.core import LabelledLeaf

Vector: TypeAlias = tuple[tuple[Fraction, Fraction], ...]
MOST_VECTORS = 64  # worst vectors of a release


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteGaussianVector(LabelledLeaf):
    """Adds i.i.d. k with probability proportional to exp(-k^2 / (2 variance)) to whole numbers.

    The squares of the moves of all coordinates, of which there may be any number, add up to at most
    the whole number ``squared``.  ``moves``: vectors of whole numbers, as (size, count) pairs: how
    far the coordinates move is at most one of them, coordinate by coordinate, up to order and sign.
    Empty where only ``squared`` is known.
    Errors: InvalidParameter for sizes or counts that are no whole numbers from 1, over 64 vectors,
    or a ``squared`` that is not the largest of theirs.
    """

    variance: Number = number(positive)
    squared: Number = preset(whole, 1)
    moves: tuple[Vector, ...] = (((Fraction(1), Fraction(1)),),)

    def __post_init__(self) -> None:
        super().__post_init__()
        place = f"{self.name}.moves"
        given: Any = self.moves
        if not isinstance(given, (tuple, list)) or len(given) > MOST_VECTORS:
            raise InvalidParameter(f"{place}: expected at most {MOST_VECTORS} vectors")
        object.__setattr__(self, "moves", tuple(_vector(row, place) for row in given))
        if self.moves and self.squared != max(map(squares, self.moves)):
            refuse(self.squared, f"{self.name}.squared", "the largest sum of squares of its moves")


def squares(vector: Vector) -> Fraction:
    """The sum of squares of a vector of (size, count) pairs."""
    return sum((count * size**2 for size, count in vector), Fraction(0))


def _vector(row: Any, place: str) -> Vector:
    pairs = row if isinstance(row, (tuple, list)) else ()
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise InvalidParameter(f"{place}: expected vectors of (size, count) pairs")
    entries = tuple((_whole(size, place), _whole(count, place)) for size, count in pairs)
    return tuple(sorted(entries, reverse=True))


def _whole(value: Any, place: str) -> Fraction:
    number = exact(value, place)
    if not isinstance(number, Fraction):
        raise InvalidParameter(f"{place}: expected whole numbers, not {number}")
    whole(number, place)
    return number


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdedDiscreteLaplace(LabelledLeaf):
    """Shows the noisy count of every key that is there and whose noisy count is large enough.

    To the count of each key that some row has, k with probability proportional to exp(-|k| / scale)
    is added; it is shown with its key where it is at least ``threshold``.  Between neighbours the
    counts move by at most the whole number ``sensitivity`` in l1-norm; at most ``own`` keys of
    either are not the other's, and their counts are at most ``largest``.
    """

    scale: Number = number(positive)
    threshold: Number = number(whole)
    sensitivity: Number = preset(whole, 1)
    own: Number = preset(whole, 1)
    largest: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        _above_own(self)


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdedDiscreteGaussian(LabelledLeaf):
    """As :class:`ThresholdedDiscreteLaplace`, with discrete Gaussian noise in the place of Laplace.

    The noise is k with probability proportional to exp(-k^2 / (2 variance)); the squares of the
    moves of all counts add up to at most the whole number ``squared``.
    """

    variance: Number = number(positive)
    threshold: Number = number(whole)
    squared: Number = preset(whole, 1)
    own: Number = preset(whole, 1)
    largest: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        _above_own(self)


def _above_own(node: Any) -> None:
    if known_sign(node.threshold - node.largest - 1, strict=False) is False:
        refuse(node.threshold, f"{node.name}.threshold", "above the largest own count")

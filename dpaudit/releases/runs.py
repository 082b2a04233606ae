"""Scores of candidates in a row, of which many have the same: as long as there are changes.

A table of n rows changes a score at most n times along a grid, whatever the number of its points:
scores are kept where they change, and made by one walk over the sorted counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpaudit.kernels.random_bits import Whole
from dpaudit.tabular import Counted


@dataclass(frozen=True, eq=False)
class Runs:
    """Candidates in a row with the same score, run by run; whole numbers, (runs,).

    ``firsts``: the place of the first candidate of each run, growing; ``sizes``: how many it has;
    ``scores``: their score.
    """

    firsts: Whole
    sizes: Whole
    scores: Whole

    def at(self, places: Whole) -> Whole:
        """The scores of some candidates."""
        return self.scores[np.searchsorted(self.firsts, places, "right") - 1]

    def without(self, place: int) -> Runs:
        """These runs without the candidate at a place."""
        run = int(np.searchsorted(self.firsts, place, "right")) - 1
        before = place - int(self.firsts[run])
        after = int(self.sizes[run]) - before - 1
        cut = [(self.firsts[run], before), (place + 1, after)]
        pieces = np.array([(first, size) for first, size in cut if size], dtype=np.int64)
        firsts, sizes = pieces.reshape(-1, 2).T
        return Runs(
            np.concatenate([self.firsts[:run], firsts, self.firsts[run + 1 :]]),
            np.concatenate([self.sizes[:run], sizes, self.sizes[run + 1 :]]),
            np.concatenate(
                [self.scores[:run], self.scores[[run] * len(pieces)], self.scores[run + 1 :]]
            ),
        )


class Chosen(ABC):
    """Whole numbers that depend on which of several candidates was chosen before."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """How many candidates there are."""

    @abstractmethod
    def at(self, place: int) -> tuple[int, ...]:
        """The numbers at one of them; as many at each."""


@dataclass(frozen=True, eq=False)
class ChosenTable(Chosen):
    """Tables of counts, of which one is chosen; behind a smaller one zeros follow."""

    tables: tuple[tuple[int, ...], ...]

    @property
    def candidates(self) -> int:
        return len(self.tables)

    def at(self, place: int) -> tuple[int, ...]:
        table = self.tables[place]
        return table + (0,) * (max(map(len, self.tables)) - len(table))


@dataclass(frozen=True, eq=False)
class ChosenSums(Chosen):
    """Sums of values by cell, in units of a bound, for each bound that may be chosen.

    A bound has 2^``unit_bits`` units, an even number of bits up to 20.  ``cells``, ``codes`` and
    ``counts``: (values,), of which cell, how large, how often; ``ends``: the bounds, growing.  All
    are whole numbers; codes and bounds are at most 2^52.
    """

    cells: Whole
    codes: Whole
    counts: Whole
    ends: Whole
    size: int
    unit_bits: int

    @property
    def candidates(self) -> int:
        return len(self.ends)

    def at(self, place: int) -> tuple[int, ...]:
        """The sums at one of the bounds: values are clipped, and rounded half up to units of it."""
        end, bits = int(self.ends[place]), self.unit_bits // 2
        # Long division, half of the bits at a time: codes have up to 52, and all stays within 63.
        quotient, remainder = np.divmod(np.clip(self.codes, -end, end) << bits, end)
        more, remainder = np.divmod(remainder << bits, end)
        scaled = (quotient << bits) + more + (2 * remainder >= end)
        sums = np.zeros(self.size, dtype=np.int64)
        np.add.at(sums, self.cells, scaled * self.counts)
        return tuple(map(int, sums))


def _interleaved(counted: Counted, between: Whole, there: Whole) -> Runs:
    """Scores ``there`` at the counted places, and ``between`` them, before and behind."""
    places = counted.places
    ends = np.concatenate([[-1], places, [counted.size]])
    sizes = np.ones(2 * len(places) + 1, dtype=np.int64)
    scores = np.empty_like(sizes)
    sizes[::2] = np.diff(ends) - 1
    scores[::2], scores[1::2] = between, there
    nonempty = sizes > 0
    return Runs((np.cumsum(sizes) - sizes)[nonempty], sizes[nonempty], scores[nonempty])


def counts_of(counted: Counted) -> Runs:
    """The count of each candidate."""
    return _interleaved(counted, np.zeros(len(counted.places) + 1, dtype=np.int64), counted.counts)


def rank_scores(counted: Counted, q: Fraction) -> Runs:
    """Minus b times how far a n / b, of q = a / b, is from the ranks that a candidate has.

    Its ranks are #{values below} to #{values not above}; n values in all.
    """
    upto = np.concatenate([[0], np.cumsum(counted.counts)]).astype(np.int64)
    wanted, ends = q.numerator * upto[-1], q.denominator * upto
    below, above = ends[:-1] - wanted, wanted - ends[1:]
    return _interleaved(counted, -np.abs(ends - wanted), -np.maximum(np.maximum(below, above), 0))

"""The posterior of a secret Laplace threshold, given answers: integrals to about twelve digits.

Thresholds tau are in units of their scale; queries q in units of the queries' scale, ``ratio`` of
the one to the other.  A query's answer is no with probability F(ratio tau - q), F the Laplace
distribution function, or with the mean of that over the query's own law, so that given answers tau
has density proportional to

    W(tau) = exp(-|tau|) prod F(ratio tau - q_i) over noes, 1 - F over yeses:

smooth but for 0 and q_i / ratio.  It is integrated by Gauss-Legendre rules on panels that end there
and are halved until the last coefficients of W F and W (1 - F) in Legendre polynomials vanish.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import Array

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
PANEL_POINTS = 16  # Nodes of the Gauss-Legendre rule on each panel.
# Distances from the centre, in noise scales, at which the first panels end.
PANEL_ENDS = np.array([0.0, 1.0, 3.0, 7.0, 15.0, 30.0, 50.0])
# Noise scales beyond the outermost kink over which the density falls by e^-50.
DENSITY_REACH = 50.0
FARTHEST_KINK = 1000.0  # Noise scales: kinks further out are left out.
MAX_DISTANCE = 600.0  # Noise scales: an answer less likely than e^-600 counts as that likely.
# Laws with up to this many levels get a panel end at each; for more, panels are halved where
# needed.
MOST_KINKS = 32
# How near to an end, in units of the queries' scale, a kink needs no panel of its own.
NEAR_END = 1e-5
RULE_TOLERANCE = 1e-12  # Share of an integral that the last coefficients of a panel may have.
MAX_HALVINGS = 40  # Halvings of a panel's width before the integral is given up.


def _rule() -> tuple[Array, Array, Array]:
    """Nodes and weights on [0, 1]; what takes values to their last three coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(PANEL_POINTS)
    last = np.arange(PANEL_POINTS)[-3:]
    to_last = np.polynomial.legendre.legvander(nodes, PANEL_POINTS - 1)[:, last] * (last + 0.5)
    return (nodes + 1) / 2, weights / 2, to_last * weights[:, None]


NODES, WEIGHTS, TO_LAST = _rule()


class Asked(Protocol):
    """One query, the same or another in every row."""

    def take(self, rows: Integers) -> Asked:
        """The query in these rows."""

    def kinks(self) -> list[Array]:
        """Where F bends, each (rows,): those at which panels are to end."""

    def sides(self, at: Array, row: Integers) -> tuple[Array, Array]:
        """P(no) and P(yes) at thresholds (panels, nodes) in units of the queries' scale."""


@dataclass(frozen=True)
class Numbers:
    """A number a row, (rows,)."""

    queries: Array

    def take(self, rows: Integers) -> Numbers:
        return Numbers(self.queries[rows])

    def kinks(self) -> list[Array]:
        return [self.queries]

    def sides(self, at: Array, row: Integers) -> tuple[Array, Array]:
        gap = at - self.queries[row][:, None]
        tail = np.exp(-np.minimum(np.abs(gap), MAX_DISTANCE)) / 2
        return np.where(gap < 0, tail, 1 - tail), np.where(gap < 0, 1 - tail, tail)


class Law:
    """A random query of one law in all rows: levels and their probabilities, (J,).

    F is a sum over levels below and above, each of whose terms falls with the distance.
    """

    def __init__(self, levels: Array, masses: Array, rows: int) -> None:
        order = np.argsort(levels, kind="stable")
        self._levels, masses = levels[order], masses[order]
        self._below = np.concatenate(([0.0], np.cumsum(masses)))
        self._above = np.concatenate((np.cumsum(masses[::-1])[::-1], [0.0]))
        with np.errstate(divide="ignore"):
            logs = np.log(masses)
        # Sums of m_j exp(l_j - l_k) over j <= k, and of m_j exp(l_k - l_j) over j >= k.
        left = np.logaddexp.accumulate(logs + self._levels) - self._levels
        right = np.logaddexp.accumulate((logs - self._levels)[::-1])[::-1] + self._levels
        self._left, self._right = np.exp(left), np.exp(right)
        self._rows = rows

    def take(self, rows: Integers) -> Law:
        other = copy(self)
        other._rows = len(rows)
        return other

    def kinks(self) -> list[Array]:
        return (
            [np.full(self._rows, v) for v in self._levels]
            if len(self._levels) <= MOST_KINKS
            else []
        )

    def sides(self, at: Array, row: Integers) -> tuple[Array, Array]:
        k = np.searchsorted(self._levels, at, side="right")
        last, following = np.maximum(k - 1, 0), np.minimum(k, len(self._levels) - 1)
        left = np.where(k > 0, self._tail(self._left[last], at - self._levels[last]), 0.0)
        gap = self._levels[following] - at
        right = np.where(k < len(self._levels), self._tail(self._right[following], gap), 0.0)
        return self._below[k] - left + right, self._above[k] + left - right

    @staticmethod
    def _tail(size: Array, distance: Array) -> Array:
        return np.asarray(size * np.exp(-np.clip(distance, 0.0, MAX_DISTANCE)) / 2)


class Posterior:
    """The densities of the threshold given several pasts, one a row; at first one, without answers.

    Panels of all rows are in one list, with the row of each.
    """

    def __init__(self, ratio: float) -> None:
        edges = np.concatenate((-PANEL_ENDS[:0:-1], PANEL_ENDS))
        self.rows = 1
        self._ratio = ratio
        self._reach = DENSITY_REACH
        self._asked: list[Asked] = []
        self._said: list[Flags] = []
        # log of what the values have been divided by, a row
        self._level = np.zeros(1)
        self._row = np.zeros(len(edges) - 1, dtype=np.int64)
        self._left, self._width = edges[:-1], np.diff(edges)
        self._values = self._density(self._row, self._left, self._width)
        self._question: Asked = Numbers(np.zeros(1))
        self._told = self._sides(self._question, self._row, self._left, self._width)

    def take(self, rows: Integers) -> None:
        """Keep these rows, in this order; one may be taken more than once."""
        order = np.argsort(self._row, kind="stable")
        counts = np.bincount(self._row, minlength=self.rows)
        starts, counts_taken = np.cumsum(counts) - counts, counts[rows]
        ends = np.cumsum(counts_taken)
        within = np.arange(int(counts_taken.sum())) - np.repeat(ends - counts_taken, counts_taken)
        panels = order[np.repeat(starts[rows], counts_taken) + within]
        self._left, self._width = self._left[panels], self._width[panels]
        self._values = self._values[panels]
        self._told = self._told[0][panels], self._told[1][panels]
        self._row = np.repeat(np.arange(len(rows)), counts_taken)
        self._question = self._question.take(rows)
        self._asked = [question.take(rows) for question in self._asked]
        self._said = [yes[rows] for yes in self._said]
        self._level, self.rows = self._level[rows], len(rows)

    def chances(self, question: Asked) -> tuple[Array, Array]:
        """log P(no), log P(yes) of a query, (rows,), given the rows' pasts."""
        kinks = [kink / self._ratio for kink in question.kinks()]
        self._cover(max((float(np.max(np.abs(kink))) for kink in kinks), default=FARTHEST_KINK))
        for kink in kinks:
            # Panels end at every row's kink.
            place, room = kink[self._row] - self._left, NEAR_END / self._ratio
            inside = (place > room) & (self._width - place > room)
            self._cut(inside, place[inside])
        for halvings in range(MAX_HALVINGS + 1):
            self._question = question
            self._told = self._sides(question, self._row, self._left, self._width)
            weighed = [self._values * side for side in self._told]
            no, yes = map(self._integral, weighed)
            missed = self._missed(weighed[0], no) | self._missed(weighed[1], yes)
            if halvings == MAX_HALVINGS or not missed.any():
                break
            self._cut(missed, self._width[missed] / 2)
        return np.log(no / (no + yes)), np.log(yes / (no + yes))

    def learn(self, yes: Flags) -> None:
        """Take every row's answer to the query that :meth:`chances` was asked into its past."""
        no_values, yes_values = self._told
        values = self._values * np.where(yes[self._row][:, None], yes_values, no_values)
        largest = np.zeros(self.rows)
        np.maximum.at(largest, self._row, values.max(axis=1))
        self._values = values / largest[self._row][:, None]
        self._level = self._level + np.log(largest)
        self._asked.append(self._question)
        self._said.append(yes)

    # --- values at the nodes ---------------------------------------------------------------------

    def _sides(
        self, question: Asked, row: Integers, left: Array, width: Array
    ) -> tuple[Array, Array]:
        """P(no) and P(yes) at every node of panels of these rows, (panels, nodes)."""
        return question.sides((left[:, None] + width[:, None] * NODES) * self._ratio, row)

    def _density(self, row: Integers, left: Array, width: Array) -> Array:
        """W at the nodes of panels of these rows."""
        logs = -np.abs(left[:, None] + width[:, None] * NODES) - self._level[row][:, None]
        for question, yes in zip(self._asked, self._said, strict=True):
            no_side, yes_side = self._sides(question, row, left, width)
            logs += np.log(np.where(yes[row][:, None], yes_side, no_side))
        return np.asarray(np.exp(logs))

    def _integral(self, values: Array) -> Array:
        """Over all panels of every row, (rows,)."""
        panels = (values @ WEIGHTS) * self._width
        return np.asarray(np.bincount(self._row, panels, self.rows), dtype=np.float64)

    def _missed(self, values: Array, integrals: Array) -> Flags:
        """Panels on which the rule may miss a 10^-12th of the whole."""
        last = np.abs(values @ TO_LAST).max(axis=1) * self._width
        return np.asarray(last > RULE_TOLERANCE * integrals[self._row])

    # --- panels ----------------------------------------------------------------------------------

    def _cover(self, farthest: float) -> None:
        """Panels up to ``DENSITY_REACH`` beyond the farthest kink, on either side of 0."""
        while self._reach < min(farthest, FARTHEST_KINK) + DENSITY_REACH:
            rows = np.arange(self.rows)
            for left in (-2 * self._reach, self._reach):
                self._add(rows, np.full(self.rows, left), np.full(self.rows, self._reach))
            self._reach *= 2

    def _cut(self, which: Flags, place: Array) -> None:
        """Cut these panels in two, so far from their left ends."""
        row, left, width = self._row[which], self._left[which], self._width[which]
        uncut = ~which
        self._row, self._values = self._row[uncut], self._values[uncut]
        self._left, self._width = self._left[uncut], self._width[uncut]
        self._add(
            np.concatenate((row, row)),
            np.concatenate((left, left + place)),
            np.concatenate((place, width - place)),
        )

    def _add(self, row: Integers, left: Array, width: Array) -> None:
        self._values = np.concatenate((self._values, self._density(row, left, width)))
        self._row = np.concatenate((self._row, row))
        self._left = np.concatenate((self._left, left))
        self._width = np.concatenate((self._width, width))

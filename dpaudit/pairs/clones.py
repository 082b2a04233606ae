"""One report hidden among those of others: shuffling.

Masses of :class:`Clones` are those of :mod:`dpaudit.grids.counts`; masses of :class:`Blanket`,
whose report is hidden where it is none, too, are bounded from above:

With n = others + 1, a = rate, b = rest, s = told, d = s tanh(epsilon / 2), let T be
binomial(n, a), L binomial(n - T, q) given T, q = b / (1 - a), and W a sum of T fair signs.  Counts
T = t, L = l and W have

    P = (D + d W) / (n a), Q = (D - d W) / (n a) times their probability,
    D = s t + (1 - s) l a / b:

t / (n a) and l / (n b) of it is the probability of n - 1 reports with one fewer that is counted, or
of the rest (Balle, Bell, Gascon, Nissim 2019, Lemma 5.3, is this with P and Q).

So delta(x) is the mean of ((1 - x) D + (1 + x) d W)_+ / (n a), convex in D and W.  Fair signs that
are added to W make it larger (Jensen).  Given t, L / (n - t) is the mean of n - t coins, which is
below that of fewer coins in convex order: l is replaced by (n - t) / m times a binomial(m, q)
number, m = n - t for the largest t, whose law no t changes.  Each value of that is moved to the two
nodes around it, its mean kept, which is larger in the same order.  A node y alone is a law of T
with weights times D and slopes d / D, D = s t + (1 - s) (n - t) y a / (b m), as in
:mod:`dpaudit.grids.counts`.  Few counts are taken as they are, l by l.

From below: Clones, the counts without L.

Rounding.  As there; a mean of nodes that rounding moves by a part of it moves every D by no larger
part.  Binomial windows are those of n, or n - t, trials where n - 1 or a trial less are needed,
within three steps: exp(-x^2 / (2 v + 2 x / 3)) grows by at most exp(9 / 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, settled, tanh
from dpaudit.exact.later import Later
from dpaudit.pairs.core import Extremes, Pair, Report, Symmetric
from dpaudit.pairs.tallied import Tallied

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

MOST_EXACT_OUTCOMES = 2**22  # Outcomes up to which each is evaluated.
MAX_OUTCOMES = 2**27  # Outcomes beyond which the pair is refused.
# Standard deviations from the mean at which counts of the other reports are evaluated.
COUNT_NODES = (0.4, 1.2, 2.0, 3.0, 5.0)
FEW_COUNT_NODES = (0.75, 2.5)  # The same if there are more than MANY_OUTCOMES outcomes.
MANY_OUTCOMES = 2**17  # Outcomes above which fewer counts of the other reports are evaluated.


@dataclass(frozen=True)
class Clones(Symmetric):
    """One report hidden among ``others``: the shuffled counts (A + I, C - A + J), seen.

    C is binomial(others, rate), A binomial(C, 1/2).  The report counts with probability ``told``:
    then (I, J) is (1, 0) or (0, 1), the first e^epsilon times as likely under P, the second under
    Q; else (0, 0).
    """

    epsilon: Number
    told: Number
    rate: Number
    others: Number

    @property
    def extremes(self) -> Extremes:
        """All of the others may be counted where the one report is."""
        return self.epsilon, self.epsilon

    def counts(self, side: grids.Side) -> grids.Counts:
        """The law of T.

        Errors: NoLower from below for more others than floats hold; as :func:`known_loss`.
        """
        others = grids.fewer(int(self.others), side)
        grids.known_loss(self.epsilon)
        own_share, other_share = (
            grids.as_float(self.told, "told"),
            grids.as_float(settled(1 - self.told), "1 - told"),
        )
        rate, unseen = (
            grids.as_float(self.rate, "rate"),
            grids.as_float(settled(1 - self.rate), "1 - rate"),
        )
        low, masses = grids.binomial_masses(others, rate, rate / unseen)
        weights = own_share * np.append(0.0, masses) + other_share * np.append(masses, 0.0)
        t = low + np.arange(len(weights))
        scale = own_share * t + other_share * (rate / unseen) * (others + 1.0 - t)
        return grids.Counts(low, weights, scale, grids.UNIT * (16 * len(masses) + 64))

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        counts = self.counts(side)
        move = grids.as_float(self.told * tanh(self.epsilon / 2), "told")
        form = grids.form_of(grids.grouped(counts, move, side), self.epsilon, counts.relative)
        cells = grids.cells_from(form, grid, 1)
        if side is grids.Side.UPPER:
            lost = min(2 * grids.LEFT * (1 + len(cells.p)), 1.0)
            cells = replace(cells, infinite=(cells.infinite[0] + lost, cells.infinite[1] + lost))
        return cells.discrete(side)

    @property
    def report(self) -> Report | None:
        return Report(self.epsilon, self.told, self.rate, self.others)

    def among(self, others: Number) -> Pair:
        return replace(self, others=others)


@dataclass(frozen=True)
class Polled(Clones):
    """One answer of two among ``others``, of whom any number k hold the one or the other value.

    The largest profile, over k, of Ber(p) + Bin(k, p) + Bin(others - k, 1 - p) against the same
    with Ber(1 - p) first, p = e^epsilon / (1 + e^epsilon): the ones, counted.  In a product each
    has a k of its own.  Those are no further apart than :attr:`clones`, told = 1, rate = 2 (1 - p).
    """

    @property
    def clones(self) -> Clones:
        """The dominating pair of an attacker who sees which other answers were drawn at random."""
        return Clones(self.epsilon, self.told, self.rate, self.others)

    @property
    def least(self) -> Tallied:
        """The pair in which all others hold the same value: a lower bound."""
        return Tallied(self.epsilon, self.rate / 2, self.others)

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        return (self.clones if side is grids.Side.UPPER else self.least).on_grid(grid, side)

    @property
    def report(self) -> Report | None:
        return Report(self.epsilon, self.told, self.rate, self.others, is_polled=True)

    @property
    def lower(self) -> Pair:
        return self.least


@dataclass(frozen=True)
class Blanket(Symmetric):
    """Clones whose report is hidden where it is not counted, too.

    Each of ``others`` is at ``rate`` counted on either side, 1/2 each, at ``rest`` one of the rest,
    and else known.  The report counts with probability ``told``, as in :class:`Clones`; else it is
    one of the rest.  The two counts and the number of the rest are seen.
    """

    epsilon: Number
    told: Number
    rate: Number
    rest: Number
    others: Number

    @property
    def clones(self) -> Clones:
        """The pair without the number of the rest, which is dominated by this one."""
        return Clones(self.epsilon, self.told, self.rate, self.others)

    @property
    def extremes(self) -> Extremes:
        """All of the others may be counted where the one report is."""
        return self.epsilon, self.epsilon

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """From below, what is seen of clones alone."""
        if side is grids.Side.LOWER:
            return self.clones.on_grid(grid, side)
        cells = grids.cells_from(self._masses(), grid, 1)
        lost = min(2 * grids.NEIGHBOUR_RATIO * grids.LEFT * (1 + len(cells.p)), 1.0)
        cells = replace(cells, infinite=(cells.infinite[0] + lost, cells.infinite[1] + lost))
        return cells.discrete(side)

    def _masses(self) -> grids.Closed:
        """Errors: Unsupported for chances, and losses, that floats do not hold."""
        n = grids.fewer(int(self.others), grids.Side.UPPER) + 1
        grids.known_loss(self.epsilon)
        own_masses, other = (
            grids.as_float(self.told, "told"),
            grids.as_float(settled(1 - self.told), "1 - told"),
        )
        move = grids.as_float(self.told * tanh(self.epsilon / 2), "told")
        rate, per_rest = (
            grids.as_float(self.rate, "rate"),
            grids.as_float(settled(self.rate / self.rest), "rest"),
        )
        hidden = grids.as_float(settled(self.rest / (1 - self.rate)), "rest")
        first, law = grids.binomial_masses(
            n, rate, grids.as_float(settled(self.rate / (1 - self.rate)), "rate")
        )
        odds = grids.as_float(settled(self.rest / (1 - self.rate - self.rest)), "rest")
        t = first + np.arange(len(law), dtype=np.float64)

        def counts(
            rest: grids.Floats, at: grids.Floats, masses: grids.Floats, terms: int
        ) -> grids.Counts:
            scale = own_masses * at + other * per_rest * rest
            weights = masses * scale / (n * rate)
            return grids.Counts(first, weights, scale, grids.UNIT * (16 * (len(law) + terms) + 64))

        most = math.sqrt(2 * grids.TAIL_NATS * float(t[-1])) / 2 + 2
        widest = min(2 * grids.reach_of(n - first, hidden) + 1, n + 1)
        few = n - int(t[-1])
        states = len(t) * widest * most
        if states <= MOST_EXACT_OUTCOMES or few == 0:
            if states > MAX_OUTCOMES:
                raise Unsupported("reports that are hardly ever counted, or hardly ever not")
            rows = [(k, *grids.binomial_masses(n - int(k), hidden, odds)) for k in t]
            indices = np.concatenate([low + np.arange(len(masses)) for _, low, masses in rows])
            at = np.concatenate([np.full(len(masses), k) for k, _, masses in rows])
            each = np.concatenate([m * own for (_, _, own), m in zip(rows, law, strict=True)])
            alone = counts(indices.astype(np.float64), at, each, widest)
            with np.errstate(divide="ignore"):
                slopes = np.where(alone.scale > 0, move / alone.scale, 0.0)
            return grids.form_of((at, slopes, alone.weights), self.epsilon, alone.relative)
        low, masses = grids.binomial_masses(few, hidden, odds)
        near = COUNT_NODES if len(t) * most <= MANY_OUTCOMES else FEW_COUNT_NODES
        layers = [
            counts((n - t) * (node / few), t, share * law, len(masses))
            for node, share in zip(*_nodes(low, masses, near), strict=True)
        ]
        parts = [grids.grouped(layer, move, grids.Side.UPPER) for layer in layers]
        signs, slopes, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
        off = 2 * layers[0].relative
        return grids.form_of((signs, slopes, mass), self.epsilon, layers[0].relative + off, off)

    @property
    def report(self) -> Report | None:
        return Report(self.epsilon, self.told, self.rate, self.others, self.rest)

    @property
    def lower(self) -> Pair:
        return self.clones

    def among(self, others: Number) -> Pair:
        return replace(self, others=others)


def _nodes(
    low: int, masses: grids.Floats, near: tuple[float, ...]
) -> tuple[grids.Floats, grids.Floats]:
    """Some values and masses on them, the mean kept: each mass is shared by its neighbours."""
    at = low + np.arange(len(masses), dtype=np.float64)
    mean = float(at @ masses)
    spread = math.sqrt(float((at - mean) ** 2 @ masses))
    wanted = np.rint([mean + sign * k * spread for k in near for sign in (1, -1)])
    inside = np.clip(wanted, at[0], at[-1])
    nodes: grids.Floats = np.unique(np.concatenate((inside, [at[0], at[-1]]))).astype(np.float64)
    if len(nodes) == 1:
        return nodes, np.ones(1)
    cell = np.minimum(np.searchsorted(nodes, at, side="right") - 1, len(nodes) - 2)
    share = (at - nodes[cell]) / (nodes[cell + 1] - nodes[cell])
    left = np.bincount(cell, masses * (1 - share), len(nodes)).astype(np.float64)
    right = np.bincount(cell + 1, masses * share, len(nodes)).astype(np.float64)
    return nodes, left + right

"""One report among clones, hidden among others where it is none: masses from above.

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
:mod:`dpaudit.profiles.grid.clones`.  Few counts are taken as they are, l by l.

From below: Clones, the counts without L.

Rounding.  As there; a mean of nodes that rounding moves by a part of it moves every D by no larger
part.  Binomial windows are those of n, or n - t, trials where n - 1 or a trial less are needed,
within three steps: exp(-x^2 / (2 v + 2 x / 3)) grows by at most exp(9 / 2).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpaudit.errors import Unsupported
from dpaudit.exact import settled, tanh
from dpaudit.pairs import Blanket
from dpaudit.profiles.grid.cells import UNIT, Cells
from dpaudit.profiles.grid.clones import (
    LEFT,
    REACH,
    Counts,
    binomial_masses,
    fewer,
    form_of,
    grouped,
    known_loss,
    reach_of,
)
from dpaudit.profiles.grid.discrete import Discrete, Floats, Grid, Side, discretise, discretiser
from dpaudit.profiles.grid.masses import Closed, as_float, cells_from

# Outcomes that are taken one by one; nodes, in standard deviations from the mean.
FEW, MOST = 2**22, 2**27
NODES, NODES_OF_MANY = (0.4, 1.2, 2.0, 3.0, 5.0), (0.75, 2.5)
MANY = 2**17
STEPS = 100.0


def _form(pair: Blanket) -> Closed:
    """Errors: Unsupported for chances, and losses, that floats do not hold."""
    n = fewer(int(pair.others), Side.UPPER) + 1
    known_loss(pair.epsilon)
    told, other = as_float(pair.told, "told"), as_float(settled(1 - pair.told), "1 - told")
    move = as_float(pair.told * tanh(pair.epsilon / 2), "told")
    rate, per_rest = as_float(pair.rate, "rate"), as_float(settled(pair.rate / pair.rest), "rest")
    hidden = as_float(settled(pair.rest / (1 - pair.rate)), "rest")
    first, law = binomial_masses(n, rate, as_float(settled(pair.rate / (1 - pair.rate)), "rate"))
    odds = as_float(settled(pair.rest / (1 - pair.rate - pair.rest)), "rest")
    t = first + np.arange(len(law), dtype=np.float64)

    def counts(rest: Floats, at: Floats, masses: Floats, terms: int) -> Counts:
        scale = told * at + other * per_rest * rest
        weights = masses * scale / (n * rate)
        return Counts(first, weights, scale, UNIT * (16 * (len(law) + terms) + 64))

    most = math.sqrt(2 * REACH * float(t[-1])) / 2 + 2
    widest = min(2 * reach_of(n - first, hidden) + 1, n + 1)
    few = n - int(t[-1])
    states = len(t) * widest * most
    if states <= FEW or few == 0:
        if states > MOST:
            raise Unsupported("reports that are hardly ever counted, or hardly ever not")
        rows = [(k, *binomial_masses(n - int(k), hidden, odds)) for k in t]
        rest = np.concatenate([low + np.arange(len(masses)) for _, low, masses in rows])
        at = np.concatenate([np.full(len(masses), k) for k, _, masses in rows])
        each = np.concatenate([m * own for (_, _, own), m in zip(rows, law, strict=True)])
        alone = counts(rest.astype(np.float64), at, each, widest)
        with np.errstate(divide="ignore"):
            slopes = np.where(alone.scale > 0, move / alone.scale, 0.0)
        return form_of((at, slopes, alone.weights), pair.epsilon, alone.relative)
    low, masses = binomial_masses(few, hidden, odds)
    near = NODES if len(t) * most <= MANY else NODES_OF_MANY
    layers = [
        counts((n - t) * (node / few), t, share * law, len(masses))
        for node, share in zip(*_nodes(low, masses, near), strict=True)
    ]
    parts = [grouped(layer, move, Side.UPPER) for layer in layers]
    signs, slopes, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
    off = 2 * layers[0].relative
    return form_of((signs, slopes, mass), pair.epsilon, layers[0].relative + off, off)


def _nodes(low: int, masses: Floats, near: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Some values and masses on them, the mean kept: each mass is shared by its neighbours."""
    at = low + np.arange(len(masses), dtype=np.float64)
    mean = float(at @ masses)
    spread = math.sqrt(float((at - mean) ** 2 @ masses))
    wanted = np.rint([mean + sign * k * spread for k in near for sign in (1, -1)])
    inside = np.clip(wanted, at[0], at[-1])
    nodes: Floats = np.unique(np.concatenate((inside, [at[0], at[-1]]))).astype(np.float64)
    if len(nodes) == 1:
        return nodes, np.ones(1)
    cell = np.minimum(np.searchsorted(nodes, at, side="right") - 1, len(nodes) - 2)
    share = (at - nodes[cell]) / (nodes[cell + 1] - nodes[cell])
    left = np.bincount(cell, masses * (1 - share), len(nodes)).astype(np.float64)
    right = np.bincount(cell + 1, masses * share, len(nodes)).astype(np.float64)
    return nodes, left + right


@discretiser(Blanket)
def _blanket(pair: Blanket, grid: Grid, side: Side) -> Discrete:
    if side is Side.LOWER:
        return discretise(pair.clones, grid, side)
    cells: Cells = cells_from(_form(pair), grid, 1)
    lost = min(2 * STEPS * LEFT * (1 + len(cells.p)), 1.0)
    cells = replace(cells, infinite=(cells.infinite[0] + lost, cells.infinite[1] + lost))
    return cells.discrete(side)

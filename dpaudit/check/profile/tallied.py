"""The number of ones among binary reports, one of which is told from the others, on a grid.

With l = rare, h = e^epsilon l, m = others, n = m + 1, o = l / (1 - l) and B the binomial law of the
others' ones: t ones have, conditioned on the one report, the mass h B(t - 1) + (1 - h) B(t) under P
and l B(t - 1) + (1 - l) B(t) under Q.  As B(t) t = B(t - 1) o (n - t), the loss is the logarithm of

    (h t + (1 - h) o (n - t)) / (l n),

a sum of positive terms.  The numbers that no B of the window is next to are left out, and may lie
anywhere: under either law at most ``tail``.
"""

from __future__ import annotations

import math

from dpaudit.check.profile.cells import UNIT, Cells, Grid, NotConfirmed, ball, split
from dpaudit.check.profile.clones import (
    FARTHEST,
    MOST_CELLS,
    MOST_OTHERS,
    MOST_OUTCOMES,
    SMALLEST,
    _clones_law,
    _float,
)
from dpaudit.exact import is_symbolic
from dpaudit.exact.arrays import np
from dpaudit.pairs.core import Tally


def tallied(pair: Tally, grid: Grid) -> Cells:
    """Errors: NotConfirmed for a size or a chance not computed with."""
    if is_symbolic(pair.others) or pair.others.denominator != 1 or pair.others < 0:
        raise NotConfirmed("a number of others that is no whole number")
    others = int(pair.others)
    epsilon, rare = ball(pair.epsilon), ball(pair.rare)
    likely = rare * epsilon.exp()
    if not (0 < epsilon < FARTHEST and rare > 0 and likely < 1 and others < MOST_OTHERS):
        raise NotConfirmed("binary reports of these chances")
    log_tail = -math.log(min(grid.tail, SMALLEST) / 8)
    first, law = _clones_law(others, rare, log_tail)
    before, own = np.append(0.0, law), np.append(law, 0.0)
    high, less = _float(likely), _float(1 - likely)
    t = first + np.arange(len(own), dtype=np.float64)
    zeros = _float((1 - likely) * rare / (1 - rare)) * (others + 1 - t)
    losses = np.log((high * t + zeros) / (_float(rare) * (others + 1)))
    p = high * before + less * own
    # At the window's ends one of two terms is unknown: it is left out.
    inside = np.ones(len(t), dtype=bool)
    inside[0], inside[-1] = first == 0, first + len(law) == others + 1
    losses, p = losses[inside], p[inside]
    low, high_end = math.floor(losses[0] / grid.h) - 1, math.ceil(losses[-1] / grid.h) + 1
    if high_end - low > MOST_CELLS or len(p) > MOST_OUTCOMES:
        raise NotConfirmed("too many outcomes")
    a, b = split(losses, p, grid.h, low, high_end - low)
    lost = min(grid.tail, SMALLEST) * (1 + 1e-9)
    shift = UNIT * (32 + 8 * float(np.max(np.abs(losses))))
    relative = UNIT * (25 * len(law) + len(p) + 64)
    outside = lost, lost
    return Cells(low, a, b, np.zeros(len(a) + 1), outside, outside, relative, shift)

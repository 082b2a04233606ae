"""One report among the clones of others: masses by the number that are counted.

Write s = told, d = s tanh(epsilon / 2), B for the law of C, w_t = s B(t - 1) + (1 - s) B(t) for
that of T, the sum of the two counts, which is the same under P and Q, and W = 2 a - t for their
difference, a the first.  Given T = t, a is binomial(t, 1/2) up to the factor 1 + v under P and
1 - v under Q, where

    v = d W / D_t,    D_t = s t + k (others + 1 - t),    k = (1 - s) rate / (1 - rate):

P(t, a) = C(t, a) 2^-t (w_t + B(t - 1) d W / t), and B(t) / B(t - 1) is a ratio of whole numbers
times rate / (1 - rate).

Many t at once.  delta(x) is the sum over t of w_t E phi(c_t W_t), c_t = d / D_t, with
phi(v) = (1 + v - x (1 - v))_+ convex and W_t a sum of t fair signs, a martingale in t.  So for t
in t1..t2, (t2, largest c_t) is above, where |c W| <= 1, and (t1, smallest c_t) is below.

Rounding.  A binomial law is a cumulative product of ratios from its middle, over a window outside
of which it has at most ``LEFT``, divided by its sum; each ratio is within 8 roundings.  The mass
outside counts as infinite loss above; left out below, it is far less than ``relative`` times the
mass of either tail of the loss, as those are at least exp(-LARGEST_LOSS) / 4.
More others than floats hold.  One other more adds a report to the counts that is drawn alike under
P and under Q: whoever sees the counts may draw it.  So delta does not rise with their number, and
from above as many as are computed with serve for more.

Sources: Feldman, McMillan, Talwar 2021, Theorem 3.1; 2022, Theorem 3.2 (the pair).  The masses by t
and the convex order are dpaudit's own, proved above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import Unsupported
from dpaudit.exact import Number
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import (
    Floats,
    NoLower,
    Reals,
    Side,
)
from dpaudit.grids.masses import NO_OUTCOMES, Closed, as_float

LEFT = 1e-36  # Mass of the counts that are left out of a binomial.
# Nats: the loss of one report above which floats cannot hold the probabilities.
LARGEST_LOSS = 30.0
# Nats of a Chernoff bound beyond which a binomial has a mass of at most ``LEFT``.
TAIL_NATS = math.log(4 / LEFT)
MOST_OTHERS = 2**40  # numbers of reports that floats hold with room
# If a law leaves out at most ``LEFT``, that of one trial more or less leaves out at most this
# many times as much.
NEIGHBOUR_RATIO = 100.0
MAX_GROUPS = 2**13  # Values of t are merged with their neighbours into about this many groups.
BLOCK_NUMBERS = 2**19  # Outcomes evaluated at a time.


@dataclass(frozen=True)
class Counts:
    """Masses of t = first, first + 1, ... and D_t; how far a mass may be off."""

    first: int
    weights: Floats
    scale: Floats
    relative: float


def reach_of(trials: float, rate: float) -> int:
    """So far from its mean a binomial law has at most ``LEFT`` / 2 (Bernstein's inequality)."""
    spread = trials * rate * (1 - rate)
    return (
        math.ceil(TAIL_NATS / 3 + math.sqrt(TAIL_NATS * TAIL_NATS / 9 + 2 * TAIL_NATS * spread)) + 1
    )


def binomial_masses(trials: int, rate: float, odds: float) -> tuple[int, Floats]:
    """First k and masses of a binomial law on a window around its mean, of sum 1."""
    middle = min(int((trials + 1) * rate), trials)
    reach = reach_of(trials, rate)
    low, high = max(middle - reach, 0), min(middle + reach, trials)
    up, down = np.arange(middle, high), np.arange(middle, low, -1)
    above = np.cumprod((trials - up) * (odds / (up + 1.0)))
    below = np.cumprod(down / ((trials - down + 1.0) * odds)) if low < middle else np.zeros(0)
    masses = np.concatenate((below[::-1], [1.0], above))
    return low, masses / masses.sum()


def known_loss(epsilon: Number) -> float:
    """Epsilon of one report as a float.

    Errors: Unsupported above ``LARGEST_LOSS``, where floats hold the probabilities no longer.
    """
    loss = as_float(epsilon, "epsilon")
    if loss > LARGEST_LOSS:
        raise Unsupported(
            f"a shuffled profile of reports at epsilon = {loss:g}: at most {LARGEST_LOSS:g} is "
            "known here, and a report's own epsilon holds without it"
        )
    return loss


def fewer(others: int, side: Side) -> int:
    """As many others as are computed with, which serve for more from above.

    Errors: NoLower from below for more.
    """
    if others > MOST_OTHERS and side is Side.LOWER:
        raise NoLower(f"{others} other reports: at most {MOST_OTHERS} are computed with")
    return min(others, MOST_OTHERS)


def grouped(counts: Counts, move: float, side: Side) -> tuple[Floats, Floats, Floats]:
    """(number of signs, c, mass) of groups of neighbouring t."""
    t = counts.first + np.arange(len(counts.weights), dtype=np.float64)
    size = max(int(t[-1]) // MAX_GROUPS, 1)
    with np.errstate(divide="ignore"):
        slopes = np.where(t > 0, move / counts.scale, 0.0)
    starts = np.arange(0, len(t), size)
    mass = np.add.reduceat(counts.weights, starts)
    if side is Side.UPPER:
        signs = t[np.minimum(starts + size, len(t)) - 1]
        slopes = np.maximum.reduceat(slopes, starts) * (1 + 8 * UNIT * (size > 1))
        if size > 1 and np.max(signs * slopes) > 0.9:
            return t, np.where(t > 0, move / counts.scale, 0.0), counts.weights
        return signs, slopes, mass
    return t[starts], np.minimum.reduceat(slopes, starts) * (1 - 8 * UNIT * (size > 1)), mass


def outcomes(
    signs: Floats, slopes: Floats, mass: Floats
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Losses >= 0, P masses and Q masses of outcomes W >= 0; those of W < 0 mirror them.

    An outcome of W = 0 has half of its mass here.
    """
    most = int(math.sqrt(2 * TAIL_NATS * float(signs[-1]))) // 2 + 2
    rows = max(BLOCK_NUMBERS // most, 1)
    for start in range(0, len(signs), rows):
        t, c, w = (m[start : start + rows, None] for m in (signs, slopes, mass))
        apart = np.mod(t, 2) + 2 * np.arange(most)
        ratios = np.maximum(t - apart[:, :-1], 0.0) / (t + apart[:, :-1] + 2)
        law = np.cumprod(np.hstack((np.ones_like(t), ratios)), axis=1)
        law[:, 0] *= np.where(t[:, 0] % 2 == 0, 0.5, 1.0)
        law *= w / (2 * law.sum(axis=1, keepdims=True))
        v = c * apart
        held = (law > 0) & (v < 1)
        v, law = v[held], law[held]
        yield np.log1p(v) - np.log1p(-v), law * (1 + v), law * (1 - v)


def form_of(
    groups: tuple[Floats, Floats, Floats], loss: Number, relative: float, off: float = 0.0
) -> Closed:
    """Groups of (number of signs, c, mass), in ascending order of signs, as masses between losses.

    ``loss``: the largest; ``relative`` of every mass, ``off`` of every c.
    Errors: as :func:`known_loss`.
    """
    epsilon = known_loss(loss)
    # No outcome inside of the windows has a larger loss.
    apart = np.minimum(groups[0], np.sqrt(2 * TAIL_NATS * groups[0]) + 4)
    farthest = float(np.max(groups[1] * apart)) * (1 + 32 * UNIT + off)
    span = epsilon if farthest > 0.9 else 2 * math.atanh(farthest)
    span *= 1 + 64 * UNIT

    def masses(edges: Reals) -> tuple[Reals, Reals]:
        p, q = np.zeros(len(edges)), np.zeros(len(edges))
        for losses, more, less in outcomes(*groups):
            for at, weights, other in ((losses, more, less), (-losses, less, more)):
                cell = np.searchsorted(edges, at, side="left") - 1
                p += np.bincount(cell, weights, len(edges))[: len(edges)]
                q += np.bincount(cell, other, len(edges))[: len(edges)]
        return p[:-1], q[:-1]

    most = int(math.sqrt(2 * TAIL_NATS * float(groups[0][-1]))) + 4
    largest = math.exp(epsilon)
    # Products of ratios, 1 - v, and sums within a block and over blocks.
    relative += UNIT * (16 * most + 8 * largest + BLOCK_NUMBERS + len(groups[0]) + 64)
    # 1 - v is at least 2 / (1 + exp(loss)).
    return Closed(masses, NO_OUTCOMES, (-span, span), (32 * UNIT + off) * (1 + largest), relative)

"""Masses of a pair on a grid of losses: what the checker composes.

Write h for the step, x_i = exp(i h).  The cell (i h, (i + 1) h] of loss with masses (p, q) is
split into P masses a and b on its lower and upper node that keep p and q:

    b (1 - exp(-h)) = p - x_i q,        a (exp(h) - 1) = x_{i+1} q - p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.exact import enclose, is_symbolic
from dpaudit.exact.arrays import Floats, np
from dpaudit.exact.effort import spend

Ball = Any
Mass = tuple[Ball, Ball]
UNIT = 2.0**-53  # half a unit in the last place of a float
BITS = 512  # precision of the masses at the edges of cells
MOST_NODES = 2**21  # nodes of a grid: 16 MB an array
# A mass that is too small to be split, in P or Q.
SPILL = 2.0**-400


class NotConfirmed(Exception):
    """The checker cannot confirm this in the way asked for."""


@dataclass(frozen=True)
class Cells:
    """Cells from node ``first`` on; their masses (a, b), and masses ``on`` the nodes themselves.

    ``below`` and ``above``: (P, Q) masses outside.  ``infinite``: P mass where Q has none, and Q
    mass where P has none.  ``relative``: error of every mass; ``shift``: how far the loss of a mass
    may lie from its node.
    """

    first: int
    a: Floats
    b: Floats
    on: Floats
    below: tuple[float, float]
    above: tuple[float, float]
    relative: float
    shift: float = 0.0
    infinite: tuple[float, float] = (0.0, 0.0)

    def swapped(self, h: float) -> Cells:
        """Cells of (Q, P): losses change sign."""
        falling = np.exp(-(self.first + np.arange(len(self.on))) * h)
        reach = max(abs(self.first), abs(self.first + len(self.a))) * h
        return Cells(
            -(self.first + len(self.a)),
            (self.b * falling[1:])[::-1],
            (self.a * falling[:-1])[::-1],
            (self.on * falling)[::-1],
            (self.above[1], self.above[0]),
            (self.below[1], self.below[0]),
            self.relative + UNIT * (8 + 4 * reach),
            self.shift,
            (self.infinite[1], self.infinite[0]),
        )


@dataclass(frozen=True)
class Grid:
    """Step h; P and Q masses that may be left out at either end."""

    step: Fraction
    tail: float

    @property
    def h(self) -> float:
        """The step as a float."""
        return float(self.step)


def ball(value: Any) -> Ball:
    """A ball at the precision of the context."""
    import flint

    spend()
    if isinstance(value, Fraction):
        return flint.arb(value.numerator) / flint.arb(value.denominator)
    return enclose(value) if is_symbolic(value) else flint.arb(value)


def is_sharp(value: Ball) -> bool:
    """Whether a ball is positive and within one rounding."""
    return bool(value > 0 and float(value.rad()) <= UNIT * float(value.mid()))


def up(value: Ball) -> float:
    """A float of at least a ball's upper end, by one rounding at most; never negative."""
    top = float(value.upper())
    if not math.isfinite(top):
        raise NotConfirmed("a mass is not finite")
    return max(math.nextafter(top, math.inf), 0.0) if top != 0 else 0.0


def both_up(mass: Mass) -> tuple[float, float]:
    """Both masses as floats from above."""
    return up(mass[0]), up(mass[1])


def split(losses: Floats, p: Floats, h: float, first: int, count: int) -> tuple[Floats, Floats]:
    """P masses for the lower and the upper node of the cells that losses lie in.

    Both masses of a loss are kept.  ``count`` cells from node ``first`` on hold all losses.
    """
    node = np.clip(np.floor(losses / h).astype(np.int64), first, first + count - 1)
    remainder = np.clip(losses - node * h, 0.0, h)
    parts = np.expm1(h - remainder) / math.expm1(h), np.expm1(-remainder) / math.expm1(-h)
    a, b = (np.bincount(node - first, p * part, count).astype(np.float64) for part in parts)
    return a, b


def mixture(mass: Mass, r: Ball) -> Mass:
    """Masses under ((1 - r) Q + r P, Q)."""
    p, q = mass
    return (1 - r) * q + r * p, q

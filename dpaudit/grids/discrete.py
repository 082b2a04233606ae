"""The contract between one-step pairs and the engine that composes them.

A pair (P, Q) on a grid is a :class:`Discrete`: masses of P on the losses
``(first + i) * step``.  The Q mass of a node is its P mass times ``exp(-loss)``; ``infinite`` is P
mass where Q has none; whatever mass Q has left sits at loss -infinity and never counts.  With
x = exp(epsilon), a Discrete stands for the convex, piecewise linear function

    g(x) = infinite + sum_i masses[i] * max(0, 1 - x * exp(-(first + i) * step)).

* side UPPER: g(x) >= delta(x) of the pair for every x >= 0 ("dominates");
* side LOWER: g(x) <= delta(x) for every x >= 0 ("is dominated");

where each mass (and ``infinite``) may be off by the factor 1 +- ``relative``, which the engine
adds or subtracts (every term of g is positive, so g is off by no more than that factor).  The
masses need not sum to 1: both orders survive composition for any finite measures, because
delta_{A x B}(x) = integral of delta_A(x dQ_B/dP_B) dP_B.

``grid.step`` is the width h of the cells of loss; ``grid.tail`` is the P mass that may be cut at
either end (UPPER: moved up, to the first node or to infinity; LOWER: dropped).  Three usual ways to
a Discrete:

* :mod:`dpaudit.grids.cells`: P and Q masses of the cells ``(i h, (i+1) h]`` of loss
  -> ``Cells(...).discrete(side)`` (connect-the-dots above, chord gap below);
* :mod:`dpaudit.grids.values`: bounds of delta at the nodes ``exp(i h)``;
* :mod:`dpaudit.grids.chords`: delta itself at the nodes, as balls.

Source: Zhu, Dong, Wang 2022, Theorem 10 (domination survives composition); Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022 (connect-the-dots).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import Unsupported
from dpaudit.exact.effort import spend

Reals = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
MAXIMUM_NODES = 2**21  # nodes of a grid: 16 MB an array
# A mass too small to matter: the engine moves every bound by ten times it for each factor.
NEGLIGIBLE_MASS = 1e-300
MISSING_MASS = 2.0**-40  # Mass by which rounding may make a total differ from 1.


class Side(Enum):
    """Which way a discretised profile may err."""

    UPPER = "upper"
    LOWER = "lower"


class TooFine(Unsupported):
    """A grid on which a pair has more nodes than ``MAXIMUM_NODES``: take a larger step."""


class NoLower(Unsupported):
    """A pair of which only an upper profile is known; compositions leave it out from below."""


@dataclass(frozen=True)
class Grid:
    """Losses that are multiples of ``step`` (> 0); P mass ``tail`` may be cut at either end."""

    step: Fraction
    tail: float

    @property
    def width(self) -> float:
        """The step as a float; every node is (integer) * width up to one relative rounding."""
        return float(self.step)


@dataclass(frozen=True)
class Discrete:
    """Masses of P at the losses (first + i) * step and at infinite loss; see the module's text."""

    step: Fraction
    first: int
    masses: Reals
    infinite: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        sound = np.all(np.isfinite(self.masses)) and np.all(self.masses >= 0)
        if not (sound and 0 <= self.infinite < np.inf and 0 <= self.relative < 1):
            raise Unsupported("a discretised profile with masses that are not finite and positive")

    @property
    def losses(self) -> Reals:
        """Losses of the nodes, each within one rounding of its exact value."""
        return (self.first + np.arange(len(self.masses))) * float(self.step)

    def trimmed(self) -> Discrete:
        """This pair without the empty nodes at its ends.

        If all nodes are empty, one of ``NEGLIGIBLE_MASS`` is kept.
        """
        full = np.flatnonzero(self.masses)
        if not len(full):
            return Discrete(self.step, 0, np.array([NEGLIGIBLE_MASS]), self.infinite, self.relative)
        low, high = full[0], full[-1] + 1
        return Discrete(
            self.step, self.first + int(low), self.masses[low:high], self.infinite, self.relative
        )


def checked(discrete: Discrete, side: Side, name: str) -> Discrete:
    """The grid's profile with total mass 1, which is the value of every profile at x = 0.

    If an upper side has less, the rest is added as infinite loss.
    Errors: Unsupported, with the pair's ``name``, if a lower side has more.
    """
    spend(len(discrete.masses), "a privacy profile on a grid")
    excess = float(np.sum(discrete.masses)) + discrete.infinite - 1
    room = MISSING_MASS + discrete.relative * (2 + max(excess, 0.0))
    if side is Side.UPPER and excess < -room:
        return replace(discrete, infinite=discrete.infinite - excess)
    if side is Side.LOWER and excess > room:
        raise Unsupported(f"{name}: a lower profile of mass {1 + excess:g}")
    return discrete

"""Several runs of discrete Gaussian noise, each moved by the same whole number: their profile.

Of j runs with noise d_1, .., d_j of variance v around the moved answer, the loss is
(s / v) (D + j s / 2), D = d_1 + .. + d_j: the sum tells what all of them do.  D's masses are powers
of a polynomial; small ones are left out, and what is missing of 1 is added from above.  With t the
first D whose loss is at least epsilon,
    delta = sum over D >= t of P(D) (1 - exp(epsilon - (s / v) (D + j s / 2))),
and any other t has less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.pairs.balls import bits, number
from dpaudit.pairs.core import Lattice
from dpaudit.pairs.discrete_normal import weight_beyond

Ball = Any
Floats = NDArray[np.float64]
# Sums of all counts together; more of them take seconds.
MOST_SUMS = 1_000_000


@dataclass(frozen=True)
class Tails:
    """Of t, t + 1, ..: masses P(D >= t), and those with weights exp(-(s / v) (D - t)).

    ``missing``: what all masses are short of 1.
    """

    first: int
    masses: list[Ball]
    weighted: list[Ball]
    missing: Ball

    @cached_property
    def floats(self) -> tuple[Floats, Floats]:
        """Both, roughly."""
        masses, weighted = (
            np.array([float(ball.mid()) for ball in row]) for row in (self.masses, self.weighted)
        )
        return masses, weighted


@dataclass(frozen=True)
class Sums:
    """``noise`` up to ``last`` times, at the precision at which this is made.

    ``log_least``: of masses that may be left out.
    """

    noise: Lattice
    last: int
    log_least: float
    kept: dict[int, Tails] = field(default_factory=dict)

    def reach(self, count: int) -> int:
        """D is farther from 0 with about the least mass: its tails are below a normal's."""
        return math.isqrt(int(2 * count * self.noise.variance * -self.log_least)) + 1

    @property
    def are_few(self) -> bool:
        """Whether all masses of all counts are computed in seconds."""
        return self.last * (2 * self.reach(self.last) + 1) <= MOST_SUMS

    @cached_property
    def slope(self) -> Ball:
        """s / v."""
        return number(self.noise.shift) / number(self.noise.variance)

    def beyond(self, first: int) -> Ball:
        """P(d >= first) in one run."""
        whole = 1 + 2 * weight_beyond(self.noise.variance, 1, bits())
        if first >= 1:
            return weight_beyond(self.noise.variance, first, bits()) / whole
        return 1 - weight_beyond(self.noise.variance, 1 - first, bits()) / whole

    @cached_property
    def _powers(self) -> list[Any]:
        """The masses of D of 1, 2, .. runs, from -reach on."""
        import flint

        v, width = number(self.noise.variance), self.reach(1)
        whole = 1 + 2 * weight_beyond(self.noise.variance, 1, bits())
        one = flint.arb_poly(
            [(-number(k * k) / (2 * v)).exp() / whole for k in range(-width, width + 1)]
        )
        found, reached = [one], width
        for count in range(2, self.last + 1):
            more, reach = found[-1] * one, min(self.reach(count), reached + width)
            cut = reached + width - reach
            found.append(flint.arb_poly([more[cut + k] for k in range(2 * reach + 1)]))
            reached = reach
        return found

    def tails(self, count: int) -> Tails:
        """Of ``count`` runs."""
        if count not in self.kept:
            power, falling = self._powers[count - 1], (-self.slope).exp()
            masses, weighted = [number(0)], [number(0)]
            for k in range(power.length() - 1, -1, -1):
                masses.append(masses[-1] + power[k])
                weighted.append(weighted[-1] * falling + power[k])
            missing = (1 - masses[-1]).max(number(0))
            first = -(power.length() - 1) // 2
            self.kept[count] = Tails(first, masses[::-1], weighted[::-1], missing)
        return self.kept[count]

    def delta(self, count: int, epsilon: Ball) -> tuple[Ball, Ball]:
        """From below and from above; next to a loss, of either place."""
        if count == 0:
            found = (1 - epsilon.exp()).max(number(0))
            return found, found
        tails = self.tails(count)
        middle = count * number(self.noise.shift) / 2
        place = epsilon / self.slope - middle
        about, last = math.ceil(float(place.mid())), len(tails.masses) - 1
        found = number(0)
        for t in (about - 1, about, about + 1):
            k = min(max(t - tails.first, 0), last)
            share = (epsilon - self.slope * (k + tails.first + middle)).exp()
            found = found.max(tails.masses[k] - share * tails.weighted[k])
        near = place > about - 2 and place < about + 1
        return found, (found if near else tails.masses[0]) + tails.missing

    def about(self, count: int, epsilon: float) -> float:
        """In floats, roughly."""
        if count == 0:
            return max(-math.expm1(min(epsilon, 1.0)), 0.0)
        tails, slope = self.tails(count), float(self.slope.mid())
        masses, weighted = tails.floats
        middle = count * float(self.noise.shift) / 2
        k = min(max(math.ceil(epsilon / slope - middle) - tails.first, 0), len(masses) - 1)
        share = math.exp(min(epsilon - slope * (k + tails.first + middle), 0.0))
        return float(masses[k] - share * weighted[k])

"""Laplace noise within bounds, moved by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpaudit.exact import Number, infinity
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, number, positive
from dpaudit.pairs.core import Extremes, Symmetric
from dpaudit.pairs.laplace import LaplaceShift

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")


@dataclass(frozen=True)
class TruncatedLaplaceShift(Symmetric):
    """Laplace noise of scale 1/epsilon on [-bound, bound] around 0 against around 1; bound > 1.

    With w = 1 / (2 - 2 E), E = e^(-bound epsilon), delta is w (2 - E + x E - 2 e^(-epsilon/2)
    sqrt(x)) where both sides have an outcome of loss log x; below e^-epsilon it falls in a line,
    and above e^epsilon the outcomes that one side alone has are left.
    """

    epsilon: Number
    bound: Number

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """The three pieces, as one at the nearest x of the middle one."""
        epsilon = number(self.epsilon)
        most, cut = epsilon.exp(), (-number(self.bound) * epsilon).exp()
        inner = x.max(1 / most).min(most)
        weight = 1 / (2 - 2 * cut)
        middle = weight * (2 - cut + inner * cut - 2 * (inner / most).sqrt())
        alone = weight * cut * (most - 1)
        return positive(middle + (1 - alone) * positive(1 / most - x))

    def loss_masses(self, tail: float) -> grids.Closed | None:
        """As of Laplace noise; the outcomes that one side alone has take their mass from the ends.

        Losses of Laplace noise's middle part have masses 2 w times as large.
        """
        noise = LaplaceShift(self.epsilon).loss_masses(tail)
        if noise is None:
            return None
        epsilon = grids.as_float(self.epsilon, "epsilon")
        bound = grids.as_float(self.bound, "bound")
        weight = -1 / (2 * math.expm1(-bound * epsilon))
        near = -weight * math.expm1(-(bound - 1) * epsilon)
        alone = -weight * math.exp(-(bound - 1) * epsilon) * math.expm1(-epsilon)
        far = near * math.exp(-epsilon)
        at = np.array([-math.inf, -epsilon, epsilon, math.inf])
        often = np.array([0.0, far, near, alone])
        ends = grids.Outcomes(at, often, often[::-1].copy())

        def masses(edges: grids.Reals) -> tuple[grids.Reals, grids.Reals]:
            p, q = noise.masses(edges)
            return 2 * weight * p, 2 * weight * q

        relative = noise.relative + 16 * grids.UNIT * (1 + bound * epsilon + 1 / (bound - 1))
        return grids.Closed(masses, ends, noise.span, noise.edge_error, relative)

    @property
    def extremes(self) -> Extremes:
        return infinity(), infinity()

"""Pairs of which Renyi divergences are known, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpaudit.exact import Number
from dpaudit.exact.effort import spend
from dpaudit.exact.later import Later
from dpaudit.pairs.core import Comparisons, Divergence, Symmetric, at_least

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

# Relative margin for rounding: the exponent, up to 1e4 in size, carries a few rounding errors.
EXPONENT_ROUNDING = 1e-11


@dataclass(frozen=True)
class Concentrated(Symmetric):
    """The envelope of all pairs whose Renyi divergences are at most rho times the order (zCDP)."""

    rho: Number

    grows: ClassVar[Comparisons] = {"rho": at_least}

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """delta(epsilon) <= min over alpha > 1 of the Renyi bound with D_alpha <= rho alpha.

        Source: Canonne, Kamath, Steinke 2020, Proposition 12; at epsilon = 0 also Pinsker's
        inequality, delta <= sqrt(rho / 2).
        """
        if side is grids.Side.LOWER:
            raise grids.NoLower(
                "Concentrated: only upper bounds are known for whatever is rho-zCDP"
            )
        rho, h = grids.as_float(self.rho, "rho"), grid.width
        if rho == 0:
            return grids.Discrete(grid.step, 0, np.array([1.0]))
        rho *= 1 + 2.0**-50
        reach = rho + 2 * math.sqrt(rho * -math.log(max(grid.tail, 1e-300))) + h
        last = math.ceil(reach / h)
        if 2 * last > grids.MAXIMUM_NODES or reach > 5_000:
            raise grids.TooFine(f"step {h:g}: too many nodes for rho = {rho:g}; take a larger one")
        right = concentrated_delta(np.arange(last + 1) * h, rho)
        x = np.exp(-np.arange(1, last + 1) * np.longdouble(h))
        left = 1 - x + x * right[1:]
        values = np.concatenate((left[::-1], right)) * (1 + np.longdouble(1e-13))
        return grids.from_values(values, -last, 1 + 1e-13, grid.step, side)

    @property
    def divergence(self) -> Divergence | None:
        return Divergence(None, self.rho)


@dataclass(frozen=True)
class Renyi(Symmetric):
    """The envelope of all pairs of Renyi divergence at most ``epsilon`` at ``order``, both ways."""

    order: Number
    epsilon: Number

    grows: ClassVar[Comparisons] = {"epsilon": at_least}

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """delta(e) <= exp((a - 1)(epsilon - e)) (1 - 1/a)^a / (a - 1), and at most 1.

        Source: Canonne, Kamath, Steinke 2020, Proposition 12, at the one order a that is known.
        """
        if side is grids.Side.LOWER:
            raise grids.NoLower(
                "Renyi: only upper bounds are known for whatever has that divergence"
            )
        excess, h = grids.as_float(self.order - 1, "order - 1"), grid.width
        largest = grids.as_float(self.epsilon, "epsilon") * (1 + 2.0**-50)
        # An order that rounds to 1 has an excess all the same.
        beyond = float(_gain(np.array([excess], dtype=np.longdouble))[0])
        reach = largest + max(beyond - math.log(max(grid.tail, 1e-300)), 0.0) / excess + h
        last = math.ceil(min(reach, 1e300) / h)
        if 2 * last > grids.MAXIMUM_NODES or reach > 5_000:
            raise grids.TooFine(
                f"step {h:g}: too many nodes for order 1 + {excess:g}; take a larger one"
            )
        losses = np.arange(last + 1) * np.longdouble(h)
        right = np.minimum(
            np.exp(excess * (largest - losses) + beyond) * (1 + EXPONENT_ROUNDING), 1
        )
        x = np.exp(-losses[1:])
        left = 1 - x + x * right[1:]
        values = np.concatenate((left[::-1], right)) * (1 + np.longdouble(1e-13))
        return grids.from_values(np.minimum(values, 1), -last, 1 + 1e-13, grid.step, side)

    @property
    def divergence(self) -> Divergence | None:
        return Divergence(self.order, self.epsilon)


def concentrated_delta(epsilon: grids.Reals, rho: float) -> grids.Long:
    """An upper bound of delta at every epsilon >= 0 for rho-zCDP; any order is sound.

    Far below rho the best order is 1 + exp(epsilon - rho), about, which may be 1 in any float.
    """
    rho_long, at = np.longdouble(rho), epsilon.astype(np.longdouble)
    excess = np.maximum((at + rho_long) / (2 * rho_long) - 1, 1e-9)
    for _ in range(40):
        spend(len(at) / 5, "the privacy profile of zCDP on a grid")
        slope = (2 * excess + 1) * rho_long - at + np.log(excess) - np.log1p(excess)
        curvature = 2 * rho_long + 1 / (excess * (1 + excess))
        better = np.maximum(excess - slope / curvature, excess / 4)
        if np.array_equal(better, excess):
            break
        excess = better
    log_delta = excess * ((1 + excess) * rho_long - at) + _gain(excess)
    pinsker = np.sqrt(rho_long / 2)
    bound: grids.Long = np.minimum(np.exp(np.minimum(log_delta, 0)), np.minimum(pinsker, 1))
    return bound


def _gain(excess: grids.Long) -> grids.Long:
    """log of (1 - 1/alpha)^alpha / (alpha - 1), in terms of alpha - 1."""
    gain: grids.Long = excess * np.log(excess) - (1 + excess) * np.log1p(excess)
    return gain

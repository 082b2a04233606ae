"""Random allocation: one record takes part in one of t slots, chosen uniformly.

The pair is P = (1/t) sum_i N(e_i / z, I), Q = N(0, I).  Under Q its likelihood ratio is the mean R
of X_i = exp(x_i / z - 1 / (2 z^2)), i = 1, ..., t, which are independent with E X_i = 1, and

    delta of (P, Q) = E_Q (R - x)_+,     delta of (Q, P) = E_Q (1 - x R)_+.

Both are expectations of convex functions of R.  So a law that is larger (smaller) than R's in the
convex order dominates (is dominated) in both directions at once;
:mod:`dpaudit.grids.averages` makes such laws on a grid, and the Q mass of a node or cell
times its (mean) ratio is its P mass.

(P, Q) dominates every adaptive release with normal noise: let the record's contribution to slot i
be u_i, |u_i| <= 1, chosen after the slots before i.  From x alone, drawn from P or Q,
    y_i = z (u_i x_i + (I - u_i u_i^T)^{1/2} w_i),   w_i standard normal,
has the law of slot i, N(u_i, z^2 I) in the record's slot and N(0, z^2 I) elsewhere (what the other
records contribute is known and added).  The release is a post-processing of x; with |u_i| = 1
fixed it is x itself, so that the pair is also reached.

Outside the range of these laws the bounds stay sound but are loose: R_t decreases in t in the
convex order (a reversed martingale), so that fewer slots dominate, and t = 1 is N(1/z, 1) against
N(0, 1); from below, R >= X_i / t gives delta_t(x) >= delta_1(t x).
Source: Chua, Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha, Zhang 2025, "Balls-and-Bins
sampling for DP-SGD" (the dominating pair); Feldman, Shenfeld 2025, "Privacy amplification by random
allocation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, canonical, enclose
from dpaudit.exact.later import Later
from dpaudit.pairs.core import Pair, Slots
from dpaudit.pairs.normal import Normal

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

LARGEST_SLOTS = 2**20  # slots of a lower bound: more lose less
LARGEST_CUT = 8.0  # multiples of the grid's tail that may be left out
# Smallest and largest noise multiplier for which the grid is accurate.
ACCURATE_NOISE = Fraction(2, 25), Fraction(10**6)


@dataclass(frozen=True)
class Allocated(Pair):
    """The mixture over i of N(e_i / z, I) against N(0, I) in ``slots`` dimensions.

    z = ``noise_multiplier``: one record takes part in one of the slots, chosen uniformly.
    """

    noise_multiplier: Number
    slots: Number

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        cells = self._mean_cells(grid, side)
        return self._loose(grid, side) if cells is None else cells.discrete(side)

    def _swapped_on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        cells = self._mean_cells(grid, side)
        if cells is not None:
            return cells.swapped().discrete(side)
        return self._loose(grid, side) if side is grids.Side.UPPER else grids.trivial(grid.step)

    def _mean_cells(self, grid: grids.Grid, side: grids.Side) -> grids.Cells | None:
        """Cells of the mean ratio's law; for an upper side perhaps of fewer slots, which dominate.

        None where only loose bounds are known.
        """
        noise, slots = check_allocated(self)
        if slots == 1:
            return Normal(1 / noise).cells(grid)
        low, high = map(enclose, ACCURATE_NOISE)
        if not (
            low <= enclose(noise) <= high and (side is grids.Side.UPPER or slots <= LARGEST_SLOTS)
        ):
            return None
        return allocated_cells(Allocated(noise, min(slots, LARGEST_SLOTS)), grid, side)

    def _loose(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """Bounds of (P, Q) for any noise and slots; the upper one is also a bound of (Q, P)."""
        noise = Normal(1 / self.noise_multiplier).on_grid(grid, side)
        if side is grids.Side.UPPER:
            return noise
        down = math.ceil(
            float(enclose(self.slots).log().upper()) / grid.width * (1 + 8 * grids.UNIT)
        )
        return replace(noise, first=noise.first - down)

    @property
    def slotted(self) -> Slots | None:
        return Slots(self.noise_multiplier, self.slots, others_move=False)


def allocated_cells(pair: Allocated, grid: grids.Grid, side: grids.Side) -> grids.Cells | None:
    """P and Q masses of the grid's cells of a law that dominates the pair, or is dominated by it.

    Either way in both directions: ``.swapped()`` serves (Q, P).  None where more than a few tails
    would have to be cut.
    """
    law, cut = grids.law_of_mean(pair.noise_multiplier, int(pair.slots), grid.step, grid.tail, side)
    if max(cut) > LARGEST_CUT * grid.tail:
        return None
    if law.span / grid.step > grids.MAXIMUM_NODES:
        raise grids.TooFine(
            f"step {grid.width:g}: too fine for random allocation; take a larger one"
        )
    if side is grids.Side.UPPER:
        # The cell (k step, (k + 1) step] of each node; the two steps differ by a power of two.
        ratio = law.width / grid.step
        at = law.first + np.arange(len(law.masses))
        cells: grids.Indices = -(-(at * ratio.numerator) // ratio.denominator) - 1
    else:
        held = law.masses > 0
        law = replace(law, masses=law.masses[held], moments=law.moments[held])
        cells = np.ceil(np.log(law.moments / law.masses) / grid.width).astype(np.int64) - 1
    first = int(cells.min())
    p, q = (_summed(cells - first, masses) for masses in (law.moments, law.masses))
    relative = law.relative + (len(law.masses) + 16) * grids.UNIT
    return grids.Cells(grid.step, first, p, q, (0.0, cut[1]), (cut[0], 0.0), relative)


def _summed(cells: grids.Indices, masses: grids.Floats) -> grids.Floats:
    sums: grids.Floats = np.bincount(cells, weights=masses).astype(np.float64)
    return sums


def check_allocated(pair: Allocated) -> tuple[Number, int]:
    """The noise multiplier and the number of slots.

    Errors: InvalidParameter unless the noise is positive and the number whole and positive.
    """
    slots, noise = canonical(pair.slots), pair.noise_multiplier
    if not (enclose(noise) > 0):
        raise InvalidParameter(f"noise_multiplier = {noise}: expected a positive number")
    if not (isinstance(slots, (int, Fraction)) and slots >= 1 and slots == int(slots)):
        raise InvalidParameter(f"slots = {slots}: expected a whole number, 1 or more")
    return noise, int(slots)

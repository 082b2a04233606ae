"""Random allocation: one record takes part in one of t slots, chosen uniformly.

The pair is P = (1/t) sum_i N(e_i / z, I), Q = N(0, I).  Under Q its likelihood ratio is the mean R
of X_i = exp(x_i / z - 1 / (2 z^2)), i = 1, ..., t, which are independent with E X_i = 1, and

    delta of (P, Q) = E_Q (R - x)_+,     delta of (Q, P) = E_Q (1 - x R)_+.

Both are expectations of convex functions of R.  So a law that is larger (smaller) than R's in the
convex order dominates (is dominated) in both directions at once;
:mod:`dpaudit.profiles.grid.averages` makes such laws on a grid, and the Q mass of a node or cell
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
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, canonical, enclose
from dpaudit.pairs import Allocated, Normal
from dpaudit.profiles.grid.averages import law_of_mean
from dpaudit.profiles.grid.cells import UNIT, Cells, trivial
from dpaudit.profiles.grid.discrete import (
    MAXIMUM_NODES,
    Discrete,
    Floats,
    Grid,
    Side,
    TooFine,
    discretise,
    discretiser,
    swapped_discretiser,
)
from dpaudit.profiles.grid.masses import cells_of

Indices = NDArray[np.int64]
LARGEST_SLOTS = 2**20
LARGEST_CUT = 8.0
NOISES = Fraction(2, 25), Fraction(10**6)


# --- cells of the mean ratio ---------------------------------------------------------------------


def allocated_cells(pair: Allocated, grid: Grid, side: Side) -> Cells | None:
    """P and Q masses of the grid's cells of a law that dominates the pair, or is dominated by it.

    Either way in both directions: ``.swapped()`` serves (Q, P).  None where more than a few tails
    would have to be cut.
    """
    law, cut = law_of_mean(pair.noise_multiplier, int(pair.slots), grid.step, grid.tail, side)
    if max(cut) > LARGEST_CUT * grid.tail:
        return None
    if law.span / grid.step > MAXIMUM_NODES:
        raise TooFine(f"step {grid.width:g}: too fine for random allocation; take a larger one")
    if side is Side.UPPER:
        # The cell (k step, (k + 1) step] of each node; the two steps differ by a power of two.
        ratio = law.width / grid.step
        at = law.first + np.arange(len(law.masses))
        cells: Indices = -(-(at * ratio.numerator) // ratio.denominator) - 1
    else:
        held = law.masses > 0
        law = replace(law, masses=law.masses[held], moments=law.moments[held])
        cells = np.ceil(np.log(law.moments / law.masses) / grid.width).astype(np.int64) - 1
    first = int(cells.min())
    p, q = (_summed(cells - first, masses) for masses in (law.moments, law.masses))
    relative = law.relative + (len(law.masses) + 16) * UNIT
    return Cells(grid.step, first, p, q, (0.0, cut[1]), (cut[0], 0.0), relative)


def _summed(cells: Indices, masses: Floats) -> Floats:
    found: Floats = np.bincount(cells, weights=masses).astype(np.float64)
    return found


# --- the discretisers ----------------------------------------------------------------------------


@discretiser(Allocated)
def _allocated(pair: Allocated, grid: Grid, side: Side) -> Discrete:
    cells = _known_cells(pair, grid, side)
    return _loose(pair, grid, side) if cells is None else cells.discrete(side)


@swapped_discretiser(Allocated)
def _swapped(base: Allocated, grid: Grid, side: Side) -> Discrete:
    cells = _known_cells(base, grid, side)
    if cells is not None:
        return cells.swapped().discrete(side)
    return _loose(base, grid, side) if side is Side.UPPER else trivial(grid.step)


def _known_cells(pair: Allocated, grid: Grid, side: Side) -> Cells | None:
    """Cells of the mean ratio, or of fewer slots above; None where only loose bounds are known."""
    noise, slots = check_allocated(pair)
    if slots == 1:
        return cells_of(Normal(1 / noise), grid, 1)
    low, high = map(enclose, NOISES)
    if not (low <= enclose(noise) <= high and (side is Side.UPPER or slots <= LARGEST_SLOTS)):
        return None
    return allocated_cells(Allocated(noise, min(slots, LARGEST_SLOTS)), grid, side)


def _loose(pair: Allocated, grid: Grid, side: Side) -> Discrete:
    """Bounds of (P, Q) for any noise and slots; the upper one is also a bound of (Q, P)."""
    found = discretise(Normal(1 / pair.noise_multiplier), grid, side)
    if side is Side.UPPER:
        return found
    down = math.ceil(float(enclose(pair.slots).log().upper()) / grid.width * (1 + 8 * UNIT))
    return replace(found, first=found.first - down)


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

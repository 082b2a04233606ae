"""Discretisers of the pairs with closed forms, and of mixtures, swaps and splices of any others."""

from __future__ import annotations

from dpaudit.errors import Unsupported
from dpaudit.pairs import (
    Atoms,
    DiscreteNormal,
    LaplaceShift,
    Mixed,
    Normal,
    Pair,
    Replaced,
    Spliced,
    Swapped,
)
from dpaudit.profiles.grid import blanket as _blanket
from dpaudit.profiles.grid import clones as _clones
from dpaudit.profiles.grid import lattice as _lattice
from dpaudit.profiles.grid.convolved import mixture_of, turned
from dpaudit.profiles.grid.discrete import (
    Discrete,
    Grid,
    NoLower,
    Side,
    discretise,
    discretiser,
    swapped_discretiser_of,
)
from dpaudit.profiles.grid.families import spliced
from dpaudit.profiles.grid.masses import cells_of
from dpaudit.profiles.grid.values import joined

# Imported for what they register.
_REGISTERED = (_blanket.__name__, _clones.__name__, _lattice.__name__)


def _closed(pair: Pair, grid: Grid, side: Side) -> Discrete:
    cells = cells_of(pair, grid, 1)
    if cells is None:
        raise Unsupported(f"{type(pair).__name__}: no closed form")
    return cells.discrete(side)


for _kind in (Normal, LaplaceShift, DiscreteNormal, Atoms):
    discretiser(_kind)(_closed)


@discretiser(Mixed)
def _mixed(pair: Mixed, grid: Grid, side: Side) -> Discrete:
    cells = cells_of(pair, grid, 1)
    if cells is not None:
        return cells.discrete(side)
    base = discretise(pair.base, grid, side)
    return base if pair.rate == 1 else mixture_of(base, pair.rate, grid, side)


@discretiser(Swapped)
def _swapped(pair: Swapped, grid: Grid, side: Side) -> Discrete:
    cells = cells_of(pair, grid, 1)
    if cells is not None:
        return cells.discrete(side)
    own = swapped_discretiser_of(pair.base)
    if own is not None:
        return own(pair.base, grid, side)
    if side is Side.LOWER:
        raise NoLower(f"{type(pair.base).__name__} swapped: only an upper profile is known")
    return turned(discretise(pair.base, grid, side), grid)


@discretiser(Spliced)
def _spliced(pair: Spliced, grid: Grid, side: Side) -> Discrete:
    """Cells above loss 0 from one pair, below from the other; an atom at 0 takes the rest.

    Source: Zhu, Dong, Wang 2022, Proposition 30 (sampling without replacement, replace-one).
    """
    above, below = cells_of(pair.above, grid, 1), cells_of(pair.below, grid, 1)
    if above is not None and below is not None:
        return spliced(above, below).discrete(side)
    return joined(discretise(pair.above, grid, side), discretise(pair.below, grid, side), side)


@discretiser(Replaced)
def _replaced(pair: Replaced, grid: Grid, side: Side) -> Discrete:
    """One pair for all triples; from below the sampled one is a pair of its own."""
    if side is Side.LOWER:
        raise NoLower("a replaced record: what is reached in all rounds is its sampled pair")
    return discretise(pair.spliced, grid, side)

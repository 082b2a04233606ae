"""Pairs whose P and Q masses between any two losses have a closed form.

A pair registers two functions: its masses between successive edges of loss, and the span of losses
outside of which P and Q both have mass at most ``tail``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.arithmetic import Number, enclose
from dpaudit.curves.cells import UNIT, Cells
from dpaudit.curves.discrete import (
    MAXIMUM_NODES,
    Discrete,
    Floats,
    Grid,
    Side,
    TooFine,
    discretiser,
)
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.pairs import Pair

NORMAL_FACTOR = 32 * UNIT
LARGEST_LOSS = 1e7


@dataclass(frozen=True)
class Closed:
    """Masses between edges of loss, (edges) -> (P, Q); the span of losses; the stated errors.

    Cells are (e_i, e_{i+1}]; ``edge_error`` bounds how far an edge's true loss lies from the
    number given, ``relative`` the relative error of every tail of P and Q.
    """

    masses: Callable[[Floats], tuple[Floats, Floats]]
    span: tuple[float, float]
    edge_error: float
    relative: float


Maker = Callable[[Any, float], Closed]
_MAKERS: dict[type[Pair], Maker] = {}


def closed_form(kind: type[Pair]) -> Callable[[Maker], Maker]:
    """Register the function (pair, tail) -> Closed of one type."""

    def register(function: Maker) -> Maker:
        _MAKERS[kind] = function
        discretiser(kind)(_discrete)
        return function

    return register


def closed(pair: Pair, tail: float) -> Closed | None:
    """The pair's closed form, None where it has none."""
    maker = _MAKERS.get(type(pair))
    return None if maker is None else maker(pair, tail)


def as_float(value: Number, place: str) -> float:
    """The nearest float (within one rounding) of an exact number."""
    result = float(enclose(value).mid())
    if not math.isfinite(result):
        raise InvalidParameter(f"{place} = {value}: expected a number of moderate size")
    return result


def cells_of(pair: Pair, grid: Grid, lean: int) -> Cells | None:
    """Cells of a closed pair; edges lie below their nodes (lean 1) or above (lean -1)."""
    form = closed(pair, grid.tail)
    if form is None:
        return None
    h = grid.width
    low, high = (min(max(end, -LARGEST_LOSS), LARGEST_LOSS) for end in form.span)
    first, last = math.floor(low / h) - 1, math.ceil(high / h) + 1
    if last - first > MAXIMUM_NODES:
        raise TooFine(f"step {h:g}: more than {MAXIMUM_NODES} nodes; take a larger one")
    inner = np.arange(first, last + 1) * h - lean * form.edge_error
    p, q = form.masses(np.concatenate(([-np.inf], inner, [np.inf])))
    ends = ((float(p[0]), float(q[0])), (float(p[-1]), float(q[-1])))
    relative = form.relative + 2 * form.edge_error
    return Cells(grid.step, first, p[1:-1], q[1:-1], *ends, relative)


def _discrete(pair: Pair, grid: Grid, side: Side) -> Discrete:
    cells = cells_of(pair, grid, 1)
    if cells is None:
        raise Unsupported(f"{type(pair).__name__}: no closed form")
    return cells.discrete(side)

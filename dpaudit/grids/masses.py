"""Pairs whose P and Q masses between any two losses have a closed form.

A pair knows two things: its masses between successive edges of loss, and the span of losses
outside of which P and Q both have mass at most ``tail``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, enclose, readable
from dpaudit.grids.cells import UNIT, Cells, Masses
from dpaudit.grids.discrete import MAXIMUM_NODES, Grid, Reals, TooFine

NORMAL_FACTOR = 32 * UNIT  # relative error of a normal mass
LARGEST_LOSS = 1e7  # nats; losses beyond count as infinite
LEAST_ACCURATE = 1e-290  # Results closer to 0 than this lose their digits as floats.
# The least 1 - rate: a float's rounding of the rate changes it by a millionth of itself at most.
NEAREST_TO_ONE = 1e-10


@dataclass(frozen=True)
class Outcomes:
    """Single outcomes: their losses (infinite ones included), P masses and Q masses."""

    losses: Reals
    p: Reals
    q: Reals


# The outcomes of a pair without atoms.
NO_OUTCOMES = Outcomes(np.zeros(0), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Closed:
    """A pair as smooth masses between edges of loss, (edges) -> (P, Q), and single outcomes.

    Cells are (e_i, e_{i+1}]; ``edge_error`` bounds how far the true loss of an edge or an outcome
    lies from the number given, ``relative`` the relative error of every tail of P and Q.
    """

    masses: Callable[[Any], tuple[Reals, Reals]]
    outcomes: Outcomes
    span: tuple[float, float]
    edge_error: float
    relative: float


@lru_cache(maxsize=4096)
def as_float(value: Number, place: str) -> float:
    """The nearest float (within one rounding) of an exact number.

    Errors: Unsupported for a number that no float is close to; another calculus may answer.
    """
    result = float(enclose(value).mid())
    if (
        not math.isfinite(result)
        or 0 < abs(result) < LEAST_ACCURATE
        or (result == 0) != (value == 0)
    ):
        raise Unsupported(f"{place} = {readable(value)}: expected a number of moderate size")
    return result


def as_rate(value: Number) -> float:
    """The nearest float of a sampling rate, of which 1 - rate is close too.

    Errors: Unsupported for a rate so near to 1 that a float rounds the difference away.
    """
    rate = as_float(value, "rate")
    if value != 1 and enclose(1 - value) < NEAREST_TO_ONE:
        raise Unsupported(
            f"rate = {readable(value)}: expected 1, or a rate that is below 1 by 1e-10 at least"
        )
    return rate


def cells_from(form: Closed, grid: Grid, lean: int) -> Cells:
    """Cells of a closed form; edges lie below their nodes (lean 1) or above (lean -1)."""
    h = grid.width
    low, high = (min(max(end, -LARGEST_LOSS), LARGEST_LOSS) for end in form.span)
    first, last = math.floor(low / h) - 1, math.ceil(high / h) + 1
    if last - first > MAXIMUM_NODES:
        raise TooFine(f"step {h:g}: more than {MAXIMUM_NODES} nodes; take a larger one")
    inner = np.arange(first, last + 1) * h - lean * form.edge_error
    p, q = form.masses(np.concatenate(([-np.inf], inner, [np.inf])))
    atoms, ends = _placed(form.outcomes, inner, first)
    relative = form.relative + 2 * form.edge_error
    return Cells(
        grid.step,
        first,
        p[1:-1],
        q[1:-1],
        (float(p[0]) + ends[0], float(q[0]) + ends[1]),
        (float(p[-1]) + ends[2], float(q[-1]) + ends[3]),
        relative,
        atoms,
        _one_sided(form.outcomes),
    )


def _one_sided(outcomes: Outcomes) -> tuple[float, float]:
    """P mass where Q has none, and Q mass where P has none: outcomes of infinite loss."""
    p, q, infinite = outcomes.p, outcomes.q, ~np.isfinite(outcomes.losses)
    return float(p[infinite & (q == 0)].sum()), float(q[infinite & (p == 0)].sum())


def _placed(
    outcomes: Outcomes, edges: Reals, first: int
) -> tuple[Masses, tuple[float, float, float, float]]:
    """Outcomes by cell, in ascending order of loss, and the masses (P, Q) below and above.

    A mass of 0 at a finite loss is one too small for a float.
    """
    finite = np.flatnonzero(np.isfinite(outcomes.losses))
    order = finite[np.argsort(outcomes.losses[finite], kind="stable")]
    losses, p, q = (m[order] for m in (outcomes.losses, outcomes.p, outcomes.q))
    cell = np.searchsorted(edges, losses, side="left") - 1
    low, high = cell < 0, cell >= len(edges) - 1
    inside = ~(low | high)
    ends = tuple(float(m[side].sum()) for side in (low, high) for m in (p, q))
    atoms = Masses(first + cell[inside], p[inside], q[inside])
    return atoms, (ends[0], ends[1], ends[2], ends[3])

"""Pairs with branches that are seen: each branch's loss is its base's plus log(p / q).

delta(x) is the sum over branches of p delta_base(x q / p), and of p where q = 0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpaudit.errors import Unsupported
from dpaudit.pairs import Branched, Pair
from dpaudit.profiles.closed.single import Ball, delta_ball, has_form
from dpaudit.profiles.closed.single import _form as register_form
from dpaudit.profiles.closed.single import _number as number_ball
from dpaudit.profiles.grid.cells import UNIT
from dpaudit.profiles.grid.discrete import Discrete, Floats, Grid, Side, discretiser
from dpaudit.profiles.grid.families import atom_loss
from dpaudit.profiles.grid.masses import Closed, Outcomes, as_float, cells_of, closed, closed_form


@register_form(Branched)
def form_of(pair: Branched, x: Ball) -> Ball:
    """delta at x, at the precision of the context."""
    import flint

    value = flint.arb(0)
    for p, ratio, base in _balls(pair, flint.ctx.prec):
        if ratio is None:
            value += p
        else:
            value += p * delta_ball(base, x * ratio)
    return value


@lru_cache(maxsize=4096)
def _balls(pair: Branched, bits: int) -> list[tuple[Ball, Ball | None, Pair]]:
    """(p, q / p, base) of every branch under P, at a precision; None where q = 0."""
    known = [(p, q, base) for p, q, base in pair.branches if p != 0]
    if not all(has_form(base) for _, _, base in known):
        raise Unsupported("branches over a pair without a closed form")
    return [
        (number_ball(p), None if q == 0 else number_ball(q) / number_ball(p), base)
        for p, q, base in known
    ]


@closed_form(Branched)
def closed_of(pair: Branched, tail: float) -> Closed | None:
    """Masses by loss; None where a base has no closed form."""
    parts, one_sided = [], []
    for p, q, base in pair.branches:
        if p == 0 or q == 0:
            one_sided.append((as_float(p, "P mass"), as_float(q, "Q mass")))
            continue
        form = closed(base, tail)
        if form is None:
            return None
        parts.append((as_float(p, "P mass"), as_float(q, "Q mass"), atom_loss(p, q), form))
    return _joined(parts, one_sided)


def _joined(
    parts: list[tuple[float, float, float, Closed]], one_sided: list[tuple[float, float]]
) -> Closed:
    def masses(edges: Floats) -> tuple[Floats, Floats]:
        p, q = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        for p_mass, q_mass, loss, form in parts:
            own_p, own_q = form.masses(edges - loss)
            p += p_mass * own_p
            q += q_mass * own_q
        return p, q

    ends = np.array([math.inf if q == 0 else -math.inf for _, q in one_sided])
    losses = [form.outcomes.losses + loss for _, _, loss, form in parts]
    p_masses = [p * form.outcomes.p for p, _, _, form in parts]
    q_masses = [q * form.outcomes.q for _, q, _, form in parts]
    outcomes = Outcomes(
        np.concatenate((*losses, ends)),
        np.concatenate((*p_masses, [p for p, _ in one_sided])),
        np.concatenate((*q_masses, [q for _, q in one_sided])),
    )
    spans = [(form.span[0] + loss, form.span[1] + loss) for _, _, loss, form in parts] or [(0, 0)]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    farthest = max(abs(span[0]), abs(span[1]), *(abs(loss) for _, _, loss, _ in parts), 0.0)
    worst = [(form.edge_error, form.relative) for *_, form in parts] or [(0.0, 0.0)]
    return Closed(
        masses,
        outcomes,
        span,
        max(edge for edge, _ in worst) + 8 * UNIT * farthest,
        max(relative for _, relative in worst) + 4 * UNIT * (len(parts) + 4),
    )


def discrete_of(pair: Pair, grid: Grid, side: Side) -> Discrete:
    """Cells of a closed form.

    Errors: Unsupported where there is none.
    """
    cells = cells_of(pair, grid, 1)
    if cells is None:
        raise Unsupported("branches over a pair without a closed form")
    return cells.discrete(side)


discretiser(Branched)(discrete_of)

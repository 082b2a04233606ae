"""Branches that an observer sees, each with a pair of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, infinity, is_infinite, log
from dpaudit.exact.later import Later
from dpaudit.pairs.atoms import largest_of
from dpaudit.pairs.balls import Ball, Delta, number
from dpaudit.pairs.cases import Case
from dpaudit.pairs.core import Branch, Extremes, Pair, delta_of

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")


@dataclass(frozen=True)
class Branched(Pair):
    """Branches (p, q, base): taken with mass p under P and q under Q, seen, then the base's pair.

    delta(x) is the sum of p delta_base(x q / p), and p where q = 0; either side's masses sum to 1.
    """

    branches: tuple[Branch, ...]

    @property
    def swapped(self) -> Pair:
        return Branched(tuple((q, p, base.swapped) for p, q, base in self.branches))

    @property
    def inner(self) -> tuple[Pair, ...]:
        return tuple(base for _, _, base in self.branches)

    @property
    def seen(self) -> tuple[Branch, ...]:
        return self.branches

    @property
    def extremes(self) -> Extremes:
        """Over branches that are taken, log(p / q) plus the base's."""
        ends = [(p, q, base.extremes) for p, q, base in self.branches]
        return _largest((q, p, end[0]) for p, q, end in ends), _largest(
            (p, q, end[1]) for p, q, end in ends
        )

    def _dominates_alike(self, other: Branched) -> bool:
        mass = [branch[:2] for branch in self.branches] == [b[:2] for b in other.branches]
        bases = zip(self.inner, other.inner, strict=False)
        return mass and all(ours.dominates(theirs) for ours, theirs in bases)

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """A branch adds p times delta of its base at x q / p, and p where q = 0."""
        return sum(
            (branch_delta(*branch, x, of or delta_of) for branch in self.branches), number(0)
        )

    def loss_masses(self, tail: float) -> grids.Closed | None:
        """A branch's loss is its base's plus log(p / q)."""
        parts, one_sided = [], []
        for p, q, base in self.branches:
            if p == 0 or q == 0:
                one_sided.append((grids.as_float(p, "P mass"), grids.as_float(q, "Q mass")))
                continue
            form = base.loss_masses(tail)
            if form is None:
                return None
            parts.append(
                (
                    grids.as_float(p, "P mass"),
                    grids.as_float(q, "Q mass"),
                    grids.atom_loss(p, q),
                    form,
                )
            )
        return _joined(parts, one_sided)

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        cells = self.cells(grid)
        if cells is None:
            raise Unsupported("branches over a pair without a closed form")
        return cells.discrete(side)

    @property
    def case_count(self) -> int:
        counts = [base.case_count for base in self.inner]
        return sum(counts) if all(counts) else 0

    @property
    def cases(self) -> Iterator[Case]:
        for p, q, base in self.branches:
            yield from (Case(p, q).joined(case) for case in base.cases)

    @property
    def lower(self) -> Pair:
        return Branched(tuple((p, q, base.lower) for p, q, base in self.branches))


def _largest(branches: Iterable[tuple[Number, Number, Number]]) -> Number:
    taken = [(p, q, own) for p, q, own in branches if p != 0]
    return largest_of(
        infinity() if q == 0 or is_infinite(own) else log(p / q) + own for p, q, own in taken
    )


def branch_delta(p: Number, q: Number, base: Pair, x: Ball, of: Delta) -> Ball:
    """The delta that one branch adds: 0 if P never takes it, and p if only P does."""
    if p == 0:
        return number(0)
    if q == 0:
        return number(p)
    return number(p) * of(base, x * (number(q) / number(p)))


def _joined(
    parts: list[tuple[float, float, float, grids.Closed]], one_sided: list[tuple[float, float]]
) -> grids.Closed:
    """The closed form of a mixture of branches, each shifted by its loss log(p / q).

    ``one_sided``: (p, q) of branches that only one of P and Q takes.
    """

    def masses(edges: grids.Floats) -> tuple[grids.Floats, grids.Floats]:
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
    outcomes = grids.Outcomes(
        np.concatenate((*losses, ends)),
        np.concatenate((*p_masses, [p for p, _ in one_sided])),
        np.concatenate((*q_masses, [q for _, q in one_sided])),
    )
    spans = [(form.span[0] + loss, form.span[1] + loss) for _, _, loss, form in parts] or [(0, 0)]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    farthest = max(abs(span[0]), abs(span[1]), *(abs(loss) for _, _, loss, _ in parts), 0.0)
    worst = [(form.edge_error, form.relative) for *_, form in parts] or [(0.0, 0.0)]
    return grids.Closed(
        masses,
        outcomes,
        span,
        max(edge for edge, _ in worst) + 8 * grids.UNIT * farthest,
        max(relative for _, relative in worst) + 4 * grids.UNIT * (len(parts) + 4),
    )

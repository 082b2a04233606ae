"""Sums in which every record has its own budget: who has what left never leaves the session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.individual import IndividualGaussian
from dpaudit.kernels.base import Generator, kernel
from dpaudit.kernels.query import Array, ClippedMean, Norm, Query, Records
from dpaudit.scope import Adjacency

MAX_REMEMBERED = 4  # Data sets whose individual budgets a round remembers.
BUDGET_ROUNDING = 1e-9  # Share of a record's budget kept back for floating-point error.


@dataclass(frozen=True, eq=False)
class Budgeted:
    """A clipped sum in which a record's vector is cut by what it has left after ``before``.

    ``budget``: squared radii that a record may pay.  A function of the records and of what was
    released: what is left is made anew of the rounds before, whatever the records are.
    """

    norm: ClassVar[Norm] = "l2"

    own: ClippedMean
    budget: float
    before: tuple[Budgeted, ...] = ()
    _left: dict[int, tuple[Records, Array]] = field(default_factory=dict)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The sensitivity of the clipped sum."""
        return self.own.sensitivity(adjacency, size)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The sum over all rows.  Errors: InvalidParameter on a secret batch."""
        if chosen is not None:
            raise InvalidParameter("IndividualGaussian: its sums are of all rows, of no batch")
        rows, _ = self._cut(records, self.left(records))
        weights = self.own.public_weights(len(records)) * records.present
        return np.asarray(np.einsum("n,tnd->td", weights, rows)) + self.own.plus

    def left(self, records: Records) -> Array:
        """Each record's remaining budget before this round, in squared radii: (1 or trials, n)."""
        chain = [*self.before, self]
        start = next(
            (k for k in range(len(chain) - 1, 0, -1) if chain[k]._known(records) is not None), 0
        )
        stored = chain[start]._known(records)
        budget_left: Array = np.full((1, len(records)), self.budget) if stored is None else stored
        for query in chain[start:-1]:
            query._keep(records, budget_left)
            budget_left = np.maximum(budget_left - query._cut(records, budget_left)[1], 0.0)
        self._keep(records, budget_left)
        return budget_left

    def _known(self, records: Records) -> Array | None:
        stored = self._left.get(id(records))
        return stored[1] if stored is not None and stored[0] is records else None

    def _keep(self, records: Records, left: Array) -> None:
        if len(self._left) >= MAX_REMEMBERED:
            self._left.clear()
        self._left[id(records)] = records, left

    def _cut(self, records: Records, left: Array) -> tuple[Array, Array]:
        """Every record's vector (trials, n, d), and what it costs (trials, n), in squared radii."""
        rows = self.own._clipped(records.values)
        radius = np.atleast_1d(np.asarray(self.own.radius, dtype=np.float64))[:, None]
        safe = np.where(radius > 0, radius, 1.0)
        lengths = np.linalg.norm(rows, axis=-1) / safe
        allowed = np.sqrt(left)
        share = np.where(lengths > allowed, allowed / np.maximum(lengths, 1e-300), 1.0)
        # A NaN costs the whole rest of the budget; otherwise the record would never be cut again.
        paid = np.square(lengths)
        return rows * share[..., None], np.where(paid < left, paid, left)


@kernel(IndividualGaussian)
class IndividualGaussianKernel(GaussianKernel):
    """A clipped sum, each record's vector cut by what it has left, + N(0, scale^2 I)."""

    memory: ClassVar[bool] = True

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._before: tuple[Budgeted, ...] = ()

    def prepared(
        self, query: Query, adjacency: Adjacency, size: int, rng: Generator | None
    ) -> Query:
        """The query with every record's budget; errors: InvalidParameter for no clipped mean."""
        if not isinstance(query, ClippedMean) or query.weights is not None:
            raise InvalidParameter(
                f"release {self.leaf.label!r}: an IndividualGaussian releases a ClippedMean of "
                "equal weights, whose vectors it can charge"
            )
        spent = float((enclose(self.leaf.mu * self.leaf.noise_multiplier) ** 2).mid())
        budgeted = self.budgeted(query, spent * (1 - BUDGET_ROUNDING))
        self._before = (*self._before, budgeted)
        return budgeted

    def budgeted(self, query: ClippedMean, budget: float) -> Budgeted:
        """The query after all rounds before."""
        return Budgeted(query, budget, self._before)

    @staticmethod
    def releases(leaf: Any) -> int:
        return int(leaf.rounds)

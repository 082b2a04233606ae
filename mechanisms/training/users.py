"""Users drawn by coins, each with a bounded number of records: user-level DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import dpaudit as dp
from dpaudit.kernels.query import Array, Norm, clip_rows
from dpaudit.scope import Adjacency, Released, Trust, Unit
from mechanisms.classics.dp_sgd import gradients

STEPS, MOST, BATCH = 20, 2, 50


@dataclass(frozen=True, eq=False)
class OfUsers:
    """sum_u sum_j clip(g(x_uj), 1) / divisor over the first ``most`` records j that user u has.

    A user's rows are records, NaN throughout where it has none.  One user more or less moves the
    sum by most / divisor, with all records at once; replaced by another, by twice that.
    Source: McMahan, Ramage, Talwar, Zhang 2018, Algorithm 1; Charles and others 2024, Section 3.
    """

    weights: Array
    most: int = MOST
    divisor: float = BATCH
    norm: Norm = field(default="l2", init=False)

    def counted(self, values: Array) -> NDArray[np.bool_]:
        """Which records of users count, shape (users, records)."""
        has = ~np.isnan(values).all(axis=-1)
        return np.asarray(has & (np.cumsum(has, axis=1) <= self.most))

    def value(self, records: dp.Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Of users that are there, in ``chosen`` (trials, users) where a batch is drawn."""
        users, most, width = records.values.shape
        rows = gradients(self.weights, records.values.reshape(users * most, width))
        clipped = clip_rows(rows, np.ones(1)).reshape(len(rows), users, most, -1)
        owned = (clipped * self.counted(records.values)[..., None]).sum(axis=2)
        drawn = records.present if chosen is None else records.present & chosen
        return np.asarray((owned * drawn[..., None]).sum(axis=1) / self.divisor)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """All records of a user together, twice where another user takes its place."""
        replaced = 2 if adjacency == Adjacency.REPLACE_ONE else 1
        return np.asarray(replaced * self.most / self.divisor)


@dataclass(frozen=True)
class UserSgd:
    """Logistic regression; a user is rows of two features and a label of 0 or 1.

    Coins draw users, who bring their first two records along.
    """

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of once what a user moves, on a secret batch of users, 20 times."""
        return dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", 1), rate="0.05"), STEPS)

    def run(self, curator: dp.Curator) -> Array:
        """The last weights, shape (trials, 2)."""
        weights = np.zeros((curator.trials, 2))
        for _ in range(STEPS):
            with curator.batch("gradient") as batch:
                found = curator.release("gradient", self.query(weights), rows=batch)
            weights = weights - found / 2
        return weights

    def query(self, weights: Array) -> dp.Query:
        """The sum of a batch's gradients, over the mean number of users in one."""
        return OfUsers(weights)


def records_like(rng: np.random.Generator) -> dp.Records:
    """Made-up users of up to four records."""
    labels = rng.integers(2, size=(24, 4, 1))
    rows = np.concatenate([rng.standard_normal((24, 4, 2)), labels], axis=-1)
    rows[rng.random((24, 4)) < 0.3] = np.nan
    return dp.Records(rows)


user_sampled_sgd = dp.Mechanism(
    "user_sampled_sgd",
    "DP-SGD over Poisson batches of users, two records of each",
    "McMahan, Ramage, Talwar and Zhang 2018, Algorithm 1",
    UserSgd(),
    dp.Scope(Adjacency.ADD_REMOVE, Unit.USER, Trust.CENTRAL, Released.TRANSCRIPT),
    [dp.Claim(dp.ApproxDP(2, "1e-5"), by="this page")],
    records_like=records_like,
)

"""DP-SGD on one page: logistic regression by clipped gradients over secret Poisson batches."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import expit

import dpaudit as dp
from dpaudit.kernels.query import Array


class DpSgd:
    """Records hold two features, then a label of 0 or 1; a batch has 50 of them on average."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of once the clipping radius, on a secret batch, at each of 20 steps."""
        return dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", 1), rate="0.05"), 20)

    def run(self, curator: dp.Curator) -> Array:
        """The last weights, shape (trials, 2)."""
        weights = np.zeros((curator.trials, 2))
        for _ in range(20):
            mean = dp.ClippedMean(partial(gradients, weights), radius=1, divisor=50)
            with curator.batch("gradient") as batch:
                weights = weights - curator.release("gradient", mean, rows=batch) / 2
        return weights


def gradients(weights: Array, values: Array) -> Array:
    """Of the logistic loss at each record, shape (trials, records, 2)."""
    return (expit(weights @ values[:, :2].T) - values[:, 2])[..., None] * values[:, :2]


claim = dp.Claim(dp.ApproxDP(2, "1e-5"), by="this page")
source = "Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang 2016, Algorithm 1"
title, scope = "DP-SGD over Poisson batches", dp.central("add_remove")
poisson_sgd = dp.Mechanism("poisson_sgd", title, source, DpSgd(), scope, [claim])

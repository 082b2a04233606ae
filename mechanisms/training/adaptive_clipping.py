"""DP-SGD whose clipping radius follows a quantile of the gradients' norms."""

from __future__ import annotations

from functools import partial

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array
from mechanisms.classics.dp_sgd import gradients

STEPS, BATCH = 20, 50
QUANTILE, SPEED = 0.5, 0.2
COUNTS = 5  # noise of the fraction that is not clipped, over its sensitivity of 1/2


class AdaptivelyClipped:
    """Records hold two features, then a label of 0 or 1; a batch has 50 of them on average.

    Each step releases the sum of gradients, and how many less half of a batch were within the
    radius: counts of 1/2 and -1/2, which one record moves by 1/2.  Both are of one batch, so that
    their losses add as those of one Gaussian release: noise z_g and z_b, in sensitivities, are as
    private as 1 / sqrt(1/z_g^2 + 1/z_b^2).  z_g is what is left for 1.
    Source: Andrew, Thakkar, McMahan, Ramaswamy 2021, Algorithm 1 and Theorem 1.
    """

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Together the noise of DP-SGD with a multiplier of 1: 1/z_g^2 = 1 - 1/25."""
        noise = dp.Compose(dp.Gaussian("gradient", "1.0206207262"), dp.Gaussian("within", COUNTS))
        return dp.Repeat(dp.PoissonSampled(noise, rate="0.05"), STEPS)

    def run(self, curator: dp.Curator) -> tuple[Array, Array]:
        """The last weights (trials, 2), and the radius of each step (trials, 20)."""
        weights, radius = np.zeros((curator.trials, 2)), np.full(curator.trials, 0.1)
        radii = []
        for _ in range(STEPS):
            radii.append(radius)
            with curator.batch("gradient") as batch:
                mean = self.mean(weights, radius)
                found = curator.release("gradient", mean, rows=batch)
                within = curator.release("within", self.within(weights, radius), rows=batch)[:, 0]
            weights = weights - found / 2
            radius = np.clip(radius * np.exp(-SPEED * (within + 0.5 - QUANTILE)), 1e-3, 1e3)
        return weights, np.stack(radii, axis=1)

    def mean(self, weights: Array, radius: Array) -> dp.Query:
        """Of gradients, clipped to the radius of this step."""
        return dp.ClippedMean(partial(gradients, weights), radius=radius, divisor=BATCH)

    def within(self, weights: Array, radius: Array) -> dp.Query:
        """1/2 or -1/2 of each record, by whether its gradient is clipped, over the batch size."""

        def signs(values: Array) -> Array:
            norms = np.linalg.norm(gradients(weights, values), axis=-1)
            return np.where(norms <= radius[:, None], 0.5, -0.5)[..., None]

        return dp.ClippedMean(signs, radius=0.5, divisor=BATCH)


adaptively_clipped_sgd = dp.Mechanism(
    "adaptively_clipped_sgd",
    "DP-SGD clipped at a private quantile",
    "Andrew, Thakkar, McMahan and Ramaswamy 2021, Algorithm 1",
    AdaptivelyClipped(),
    dp.central("add_remove"),
    [dp.Claim(dp.ApproxDP(2, "1e-5"), by="this page")],
)

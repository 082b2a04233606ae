"""Logistic regression of which the last weights alone are shown."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

import dpaudit as dp
from dpaudit.families.iterates import LastIterate
from dpaudit.kernels.iterations import Iterations
from dpaudit.kernels.query import Array, clip_rows

STEPS, RATE, RIDGE = 50, 0.2, 1.0


class LastShown:
    """Records hold features, cut to length 1, then a label of which the sign of y - 1/2 counts.

    Gradients have norm 1 at most and slopes in [0, 1/4], so that a step of 1/5 with a ridge of 1 is
    4/5-Lipschitz whatever the records are, and no clip acts.
    """

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Noise of five times what one record moves in each of 50 steps."""
        return LastIterate("weights", 5, STEPS, contraction="0.8")

    def run(self, curator: dp.Curator) -> Array:
        """The last weights, shape (trials, 2)."""

        def gradient(weights: Array) -> dp.Query:
            def rows(values: Array) -> Array:
                features = clip_rows(values[None, :, :2], np.ones(1))[0]
                labels = np.where(values[:, 2] > 0.5, 1.0, 0.0)
                slopes = expit(weights @ features.T) - labels
                return np.asarray(slopes[..., None] * features)

            return dp.ClippedMean(rows, radius=1)

        return curator.release("weights", Iterations(gradient, np.zeros(2), RATE, RIDGE))


last_iterate = dp.Mechanism(
    "last_iterate",
    "Logistic regression by its last iterate",
    "Bok, Su and Altschuler 2024, Theorem 4.2",
    LastShown(),
    dp.central("zero_out"),
    [dp.Claim(dp.GDP("0.6"), by="this page")],
)

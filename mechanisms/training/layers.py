"""DP-SGD on a network of two layers, each clipped by itself."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array, clip_rows

STEPS, BATCH, HIDDEN = 10, 50, 3
RADII = (0.5, 1.0)  # of the first layer's gradient, and of the second's
FIRST = 2 * HIDDEN


def layers(weights: Array, values: Array) -> tuple[Array, Array]:
    """Gradients of (tanh(x W) v - y)^2 / 2 at each record: (trials, n, 6) and (trials, n, 3)."""
    inner = weights[:, :FIRST].reshape(-1, 2, HIDDEN)
    outer = weights[:, FIRST:]
    x, y = values[:, :2], values[:, 2]
    hidden = np.tanh(np.einsum("ni,tih->tnh", x, inner))
    error = np.einsum("tnh,th->tn", hidden, outer) - y
    back = error[..., None] * outer[:, None] * (1 - hidden**2)
    first = np.einsum("ni,tnh->tnih", x, back).reshape(len(weights), len(values), FIRST)
    return first, error[..., None] * hidden


def clipped(weights: Array, values: Array) -> Array:
    """Both layers, each clipped to its radius, one behind the other: (trials, n, 9)."""
    both = zip(layers(weights, values), RADII, strict=True)
    return np.concatenate([clip_rows(rows, np.array([r])) for rows, r in both], axis=-1)


class Layered:
    """Records hold two features, then a number; a batch has 50 of them on average.

    A record moves the sum of both by sqrt(C_1^2 + C_2^2) at most, to which the library clips what
    the layers' own clips leave: that never acts, and bounds the release whatever they do.
    Source: McMahan, Ramage, Talwar, Zhang 2018, Section 3 (per-layer clipping).
    """

    def declaration(self, scope: dp.Scope) -> dp.Node:
        """Gaussian noise of the whole radius, on a secret batch, at each of 10 steps."""
        return dp.Repeat(dp.PoissonSampled(dp.Gaussian("gradient", 1), rate="0.05"), STEPS)

    def run(self, curator: dp.Curator) -> Array:
        """The last weights, shape (trials, 9)."""
        weights = np.tile(np.linspace(-0.5, 0.5, FIRST + HIDDEN), (curator.trials, 1))
        for _ in range(STEPS):
            with curator.batch("gradient") as batch:
                found = curator.release("gradient", self.query(weights), rows=batch)
            weights = weights - found / 2
        return weights

    def query(self, weights: Array) -> dp.Query:
        """The mean over a batch of both layers' gradients."""
        return dp.ClippedMean(partial(clipped, weights), radius=math.hypot(*RADII), divisor=BATCH)


layered_sgd = dp.Mechanism(
    "layered_sgd",
    "DP-SGD with each layer clipped by itself",
    "McMahan, Ramage, Talwar and Zhang 2018, Section 3",
    Layered(),
    dp.central("add_remove"),
    [dp.Claim(dp.ApproxDP("1.7", "1e-5"), by="this page")],
)

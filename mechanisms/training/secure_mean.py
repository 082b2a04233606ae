"""A mean under secure aggregation: rotated, rounded, in shares, modulo a small number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import dpaudit as dp
from dpaudit.families.distributed.rotated import RotatedTotals, rounded_squares, unrotated
from dpaudit.kernels.query import Array
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit

CLIENTS, DROPOUTS, DIMENSION, TRIES = 12, 2, 4, 3
RADIUS, GRAIN, VARIANCE, MODULUS = 1.0, 0.125, 70, 128
SQUARES = rounded_squares(RADIUS, GRAIN, DIMENSION, beta=0.6065)


@dataclass(frozen=True)
class SecureMean:
    """The mean of a vector of each of 12 clients, of three numbers and length at most 1.

    Each client rotates its vector by signs that all have drawn together and a Hadamard matrix,
    counts it in eighths, rounds it at random to whole numbers of squares of at most 74, and adds
    discrete Gaussian noise of variance 70 to each.  Only the sums modulo 128 are seen, as the
    representatives from -64 to 63; noise of ten clients and more is certain.

    The modulus is small: where a sum and its noise, of standard deviation 26, are beyond 64 they
    wrap, which costs the mean and not the guarantee.
    Source: Kairouz, Liu, Steinke 2021, Algorithms 1 and 2.
    """

    modulus: int = MODULUS

    def declaration(self, scope: Scope) -> dp.Node:
        """The clients' noise, for squares of one rounded vector."""
        return dp.DistributedGaussianVector(
            "total", VARIANCE, CLIENTS, DROPOUTS, SQUARES, self.modulus
        )

    def run(self, curator: dp.Curator) -> Array:
        """The estimated mean, shape (trials, 3)."""
        trials = curator.trials
        signs = curator.coin(lambda rng: rng.choice([-1.0, 1.0], (trials, DIMENSION)))
        shape = (trials, TRIES, CLIENTS, DIMENSION)
        dither = curator.coin(lambda rng: rng.random(shape))
        total = curator.release("total", self.query(signs, dither))
        return np.asarray(unrotated(total, signs)[:, :3] * GRAIN / CLIENTS)

    def query(self, signs: Array, dither: Array) -> RotatedTotals:
        """What is summed."""
        return RotatedTotals(lambda values: values[None], RADIUS, GRAIN, signs, dither, SQUARES)


def records_like(rng: np.random.Generator) -> dp.Records:
    """Made-up vectors, a client each."""
    return dp.Records(rng.standard_normal((CLIENTS, 3)))


secure_mean = dp.Mechanism(
    "secure_mean",
    "A mean under secure aggregation modulo 128, rotated and in shares of noise",
    "Kairouz, Liu, Steinke 2021, Algorithms 1 and 2",
    SecureMean(),
    Scope(Adjacency.ZERO_OUT, Unit.CLIENT, Trust.DISTRIBUTED, Released.TRANSCRIPT),
    [dp.Claim(dp.GDP("0.3253"), by="this page")],  # sqrt(74 / (700 - 1 / 12)), rounded up
    records_like=records_like,
)

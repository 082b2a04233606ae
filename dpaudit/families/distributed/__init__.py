"""Noise that clients add up before anybody sees it: secure aggregation with drop-outs."""

from dpaudit.families.distributed.node import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellam,
    DistributedSkellamVector,
)

__all__ = [
    "DistributedGaussian",
    "DistributedGaussianVector",
    "DistributedSkellam",
    "DistributedSkellamVector",
]

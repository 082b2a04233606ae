"""Noise that clients add up before anybody sees it: secure aggregation with drop-outs."""

from dpaudit.families.distributed.node import DistributedGaussian, DistributedSkellam

__all__ = ["DistributedGaussian", "DistributedSkellam"]

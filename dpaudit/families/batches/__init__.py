"""Batches of one size: in an order that is public, in a secret one, and cut from Poisson ones."""

from dpaudit.families.batches.node import CyclicBatches, ShuffledBatches, TruncatedPoisson

__all__ = ["CyclicBatches", "ShuffledBatches", "TruncatedPoisson"]

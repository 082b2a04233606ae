"""Correlated noise over secret batches of groups that take turns."""

from dpaudit.families.banded.node import CyclicPoisson

__all__ = ["CyclicPoisson"]

"""Composition, repetition, disjoint parts, and a statement under an assumption."""

from dpaudit.families.composition.node import Assuming, Compose, Parallel, Repeat

__all__ = ["Assuming", "Compose", "Parallel", "Repeat"]

"""Noisy sums in which every record has a budget of its own."""

from dpaudit.families.individual.node import IndividualGaussian

__all__ = ["IndividualGaussian"]

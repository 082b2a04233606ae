"""Noise for tables: vectors of whole numbers, and counts under keys nobody listed."""

from dpaudit.families.tabular.node import DiscreteGaussianVector, ThresholdedDiscreteLaplace

__all__ = ["DiscreteGaussianVector", "ThresholdedDiscreteLaplace"]

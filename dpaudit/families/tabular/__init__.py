"""Noise for tables: vectors of whole numbers, and counts under keys nobody listed."""

from dpaudit.families.tabular.node import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)

__all__ = ["DiscreteGaussianVector", "ThresholdedDiscreteGaussian", "ThresholdedDiscreteLaplace"]

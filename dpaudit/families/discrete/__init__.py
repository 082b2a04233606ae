"""Discrete noise, and randomised response."""

from dpaudit.families.discrete.node import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "RandomizedResponse", "TruncatedDiscreteLaplace"]

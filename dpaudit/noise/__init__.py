"""Noise beyond Gaussian and Laplace: discrete draws, noise correlated over rounds, selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpaudit.nodes import ExponentialMechanism, Node, StableRelease
from dpaudit.noise.choosing import ExponentialMechanismKernel
from dpaudit.noise.correlated import CorrelatedGaussianKernel
from dpaudit.noise.coupled import CoupledGaussianKernel, ProposeTestReleaseKernel
from dpaudit.noise.discrete import discrete_gaussian, discrete_laplace
from dpaudit.noise.kernels import EXACT as EXACT_ADDITIVE
from dpaudit.noise.kernels import (
    DiscreteGaussianKernel,
    DiscreteLaplaceKernel,
    GridGaussianKernel,
    GridLaplaceKernel,
    arithmetic_of,
)
from dpaudit.noise.random_queries import RandomQueryKernel
from dpaudit.noise.stable import (
    GridStableReleaseKernel,
    StableReleaseKernel,
    TruncatedDiscreteLaplaceLaw,
)
from dpaudit.noise.tabular import (
    DiscreteGaussianVectorKernel,
    ExactChoiceKernel,
    ThresholdedDiscreteLaplaceKernel,
)
from dpaudit.noise.threshold import AboveThresholdKernel

EXACT: Mapping[type[Node], type[Any]] = {
    **EXACT_ADDITIVE,
    StableRelease: GridStableReleaseKernel,
    ExponentialMechanism: ExactChoiceKernel,
}

__all__ = [
    "EXACT",
    "AboveThresholdKernel",
    "CorrelatedGaussianKernel",
    "CoupledGaussianKernel",
    "DiscreteGaussianKernel",
    "DiscreteGaussianVectorKernel",
    "DiscreteLaplaceKernel",
    "ExactChoiceKernel",
    "ExponentialMechanismKernel",
    "GridGaussianKernel",
    "GridLaplaceKernel",
    "GridStableReleaseKernel",
    "ProposeTestReleaseKernel",
    "RandomQueryKernel",
    "StableReleaseKernel",
    "ThresholdedDiscreteLaplaceKernel",
    "TruncatedDiscreteLaplaceLaw",
    "arithmetic_of",
    "discrete_gaussian",
    "discrete_laplace",
]

"""Noise whose draws are exact: discrete Laplace and Gaussian, also on a grid for real values."""

from __future__ import annotations

from dpaudit.noise.discrete import discrete_gaussian, discrete_laplace
from dpaudit.noise.kernels import (
    EXACT,
    DiscreteGaussianKernel,
    DiscreteLaplaceKernel,
    GridGaussianKernel,
    GridLaplaceKernel,
    arithmetic_of,
)

__all__ = [
    "EXACT",
    "DiscreteGaussianKernel",
    "DiscreteLaplaceKernel",
    "GridGaussianKernel",
    "GridLaplaceKernel",
    "arithmetic_of",
    "discrete_gaussian",
    "discrete_laplace",
]

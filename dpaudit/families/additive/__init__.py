"""Gaussian and Laplace noise, added to a query of bounded sensitivity."""

from dpaudit.families.additive.node import Gaussian, Laplace

__all__ = ["Gaussian", "Laplace"]

"""Differential privacy, accounted, run and attacked from one declaration of the algorithm."""

__version__ = "0.1.0"

"""Releases of stable statistics: coupled noise, distances, stable release."""

from dpaudit.families.stability.node import CoupledGaussian, Distance, StableRelease

__all__ = ["CoupledGaussian", "Distance", "StableRelease"]

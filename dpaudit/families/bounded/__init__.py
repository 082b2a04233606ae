"""Noise whose privacy loss is bounded, or is bounded outside a mass delta."""

from dpaudit.families.bounded.node import Staircase, StudentT, TruncatedLaplace, Tulap

__all__ = ["Staircase", "StudentT", "TruncatedLaplace", "Tulap"]

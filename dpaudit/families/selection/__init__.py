"""Selection: exponential mechanism, report-noisy-max, and above-threshold."""

from dpaudit.families.selection.node import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerExponentialMechanism,
    NoisyComparisons,
    ReportNoisyMax,
    Scores,
    SelectionNoise,
)

__all__ = [
    "AboveThreshold",
    "ExponentialMechanism",
    "IntegerExponentialMechanism",
    "NoisyComparisons",
    "ReportNoisyMax",
    "Scores",
    "SelectionNoise",
]

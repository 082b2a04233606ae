"""Secret batches: Poisson, without and with replacement, and random allocation."""

from dpaudit.families.sampling.node import (
    ZERO,
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)

__all__ = [
    "ZERO",
    "PoissonSampled",
    "RandomAllocation",
    "SampledWithReplacement",
    "SampledWithoutReplacement",
]

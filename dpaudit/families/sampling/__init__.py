"""Secret batches: Poisson, without and with replacement, and random allocation."""

from dpaudit.families.sampling.node import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)

__all__ = [
    "PoissonSampled",
    "RandomAllocation",
    "SampledWithReplacement",
    "SampledWithoutReplacement",
]

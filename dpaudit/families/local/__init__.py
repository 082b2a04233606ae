"""The local and the shuffled model: reports that say little, and many of them shuffled."""

from dpaudit.families.local.node import (
    Shuffled,
    SubsetResponse,
    cap_response,
    hadamard_response,
    subset_selection,
)

__all__ = [
    "Shuffled",
    "SubsetResponse",
    "cap_response",
    "hadamard_response",
    "subset_selection",
]

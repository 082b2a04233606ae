"""Gaussian noise correlated over the rounds of one release: tree and matrix mechanisms."""

from dpaudit.families.correlated.node import (
    SINGLE,
    BandedToeplitz,
    CorrelatedGaussian,
    Factorisation,
    LowerTriangular,
    Participation,
)

__all__ = [
    "SINGLE",
    "BandedToeplitz",
    "CorrelatedGaussian",
    "Factorisation",
    "LowerTriangular",
    "Participation",
]

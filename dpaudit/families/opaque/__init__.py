"""Guarantees that are stated, not derived: somebody else's proof, by its source."""

from dpaudit.families.opaque.node import (
    GDP,
    ZCDP,
    ApproxDP,
    Laws,
    MixtureOfGaussians,
    NonPrivate,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)

RDP = RenyiDP

__all__ = [
    "GDP",
    "RDP",
    "ZCDP",
    "ApproxDP",
    "Laws",
    "MixtureOfGaussians",
    "NonPrivate",
    "ProfilePoints",
    "PureDP",
    "RenyiCurve",
    "RenyiDP",
]

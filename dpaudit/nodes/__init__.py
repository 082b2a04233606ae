"""The declaration language: leaves (one noise each) and combinators, as immutable values.

One file a family; importing this package makes every node type known to the wire.
"""

from dpaudit.nodes.adaptive import Filter, Measure, Select
from dpaudit.nodes.combinators import Assuming, Compose, Parallel, Repeat
from dpaudit.nodes.core import (
    VALUES,
    Assumption,
    Leaf,
    Node,
    Several,
    Status,
    digest_each,
    find_path,
    postorder,
)
from dpaudit.nodes.correlated import (
    SINGLE,
    BandedToeplitz,
    CorrelatedGaussian,
    Factorisation,
    LowerTriangular,
    Participation,
)
from dpaudit.nodes.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.nodes.events import EventSlack, Group, ProposeTestRelease
from dpaudit.nodes.noise import Gaussian, Laplace
from dpaudit.nodes.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    NonPrivate,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)
from dpaudit.nodes.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.nodes.selection import (
    AboveThreshold,
    ExponentialMechanism,
    ReportNoisyMax,
    Scores,
    SelectionNoise,
)
from dpaudit.nodes.stability import CoupledGaussian, Distance, StableRelease
from dpaudit.nodes.tabular import DiscreteGaussianVector, ThresholdedDiscreteLaplace

RDP = RenyiDP

__all__ = [
    "GDP",
    "RDP",
    "SINGLE",
    "VALUES",
    "ZCDP",
    "AboveThreshold",
    "ApproxDP",
    "Assuming",
    "Assumption",
    "BandedToeplitz",
    "Compose",
    "CorrelatedGaussian",
    "CoupledGaussian",
    "DiscreteGaussian",
    "DiscreteGaussianVector",
    "DiscreteLaplace",
    "Distance",
    "EventSlack",
    "ExponentialMechanism",
    "Factorisation",
    "Filter",
    "Gaussian",
    "Group",
    "Laplace",
    "Leaf",
    "LowerTriangular",
    "Measure",
    "Node",
    "NonPrivate",
    "Parallel",
    "Participation",
    "PoissonSampled",
    "ProfilePoints",
    "ProposeTestRelease",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "RenyiCurve",
    "RenyiDP",
    "Repeat",
    "ReportNoisyMax",
    "SampledWithReplacement",
    "SampledWithoutReplacement",
    "Scores",
    "Select",
    "SelectionNoise",
    "Several",
    "StableRelease",
    "Status",
    "ThresholdedDiscreteLaplace",
    "TruncatedDiscreteLaplace",
    "digest_each",
    "find_path",
    "postorder",
]

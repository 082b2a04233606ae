"""The declaration language: leaves (one noise each) and combinators, as immutable values.

One file a family; importing this package makes every node type known to the wire.
"""

from dpaudit.nodes.combinators import Assuming, Compose, Parallel, Repeat
from dpaudit.nodes.core import (
    VALUES,
    Assumption,
    Leaf,
    Node,
    Several,
    Status,
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
from dpaudit.nodes.sampling import PoissonSampled, SampledWithoutReplacement

__all__ = [
    "GDP",
    "SINGLE",
    "VALUES",
    "ZCDP",
    "ApproxDP",
    "Assuming",
    "Assumption",
    "BandedToeplitz",
    "Compose",
    "CorrelatedGaussian",
    "Factorisation",
    "Gaussian",
    "Laplace",
    "Leaf",
    "LowerTriangular",
    "Node",
    "NonPrivate",
    "Parallel",
    "Participation",
    "PoissonSampled",
    "ProfilePoints",
    "PureDP",
    "RenyiCurve",
    "RenyiDP",
    "Repeat",
    "SampledWithoutReplacement",
    "Several",
    "Status",
    "find_path",
    "postorder",
]

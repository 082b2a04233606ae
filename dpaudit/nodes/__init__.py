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
from dpaudit.nodes.noise import Gaussian, Laplace
from dpaudit.nodes.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.nodes.sampling import PoissonSampled, SampledWithoutReplacement

__all__ = [
    "GDP",
    "VALUES",
    "ZCDP",
    "ApproxDP",
    "Assuming",
    "Assumption",
    "Compose",
    "Gaussian",
    "Laplace",
    "Leaf",
    "Node",
    "NonPrivate",
    "Parallel",
    "PoissonSampled",
    "PureDP",
    "Repeat",
    "SampledWithoutReplacement",
    "Several",
    "Status",
    "find_path",
    "postorder",
]

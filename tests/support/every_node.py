"""A node of every shipped type: with symbols where it takes them, and with numbers alone."""

from __future__ import annotations

from fractions import Fraction

import sympy

from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.bounded import Staircase, StudentT, TruncatedLaplace, Tulap
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.correlated import BandedToeplitz, CorrelatedGaussian, Participation
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellam,
    DistributedSkellamVector,
)
from dpaudit.families.events import EventSlack, Group, ProposeTestRelease
from dpaudit.families.individual import IndividualGaussian
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.families.local import Shuffled, SubsetResponse
from dpaudit.families.opaque import (
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
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.families.selection import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerExponentialMechanism,
    NoisyComparisons,
    ReportNoisyMax,
)
from dpaudit.families.stability import CoupledGaussian, StableRelease
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.nodes import Assumption, Node, Status

x, y = sympy.symbols("x y", positive=True)
k, K = sympy.symbols("k K", positive=True, integer=True)
T = sympy.Function("T", positive=True, integer=True)
ALPHA = sympy.Symbol("alpha", positive=True)
LIPSCHITZ = Assumption("lipschitz", "Every loss is 1-Lipschitz.", Status.DECLARED, "by its author")
LEAF = Gaussian("a", 1)
G, L = Gaussian("g", 4), Laplace("l", 5)

EVERY_TYPE: list[Node] = [
    Gaussian("gradient", 1.5),
    Laplace("count", Fraction(2, 3)),
    PureDP(0.1, "vote", "somebody 2020"),
    ApproxDP(1, 1e-5),
    ZCDP(x / 3, label="sum"),
    GDP(sympy.sqrt(2)),
    NonPrivate("the mean of the columns"),
    Compose(LEAF, Laplace("b", 2), LEAF),
    Parallel(LEAF, Gaussian("b", 2)),
    Repeat(LEAF, 10),
    Repeat(Gaussian("a", x * T(k)), K - 1, k),
    PoissonSampled(Laplace("a", 2), 0.01),
    PoissonSampled(LEAF, 0.01, "zero"),
    SampledWithoutReplacement(Laplace("a", 2), 10, K + 9),
    SampledWithReplacement(Laplace("a", 2), 10, K),
    RandomAllocation(LEAF, K, 2),
    CyclicBatches(LEAF, K, 1),
    ShuffledBatches(LEAF, 600, 20),
    TruncatedPoisson(LEAF, 0.01, 1000, 30),
    CyclicPoisson(
        CorrelatedGaussian("rows", x, 16, BandedToeplitz((1, 0.5)), Participation(4, 4)), 4, 0.1
    ),
    Assuming(LEAF, LIPSCHITZ),
    RenyiDP(2, 0.5, source="somebody"),
    RenyiCurve(x * ALPHA, label="sum"),
    ProfilePoints(((0, 0.1), (1, Fraction(1, 1000))), source="somebody"),
    Laws(((1, Fraction(1, 2)), (0, Fraction(1, 2))), source="somebody"),
    MixtureOfGaussians(x, ((1, 0.5), (2, Fraction(1, 4))), source="somebody"),
    EventSlack(LEAF, 1e-6, "more than k records in the batch"),
    ProposeTestRelease(Laplace("score", 4), Gaussian("mean", x), 1e-9),
    Group(LEAF, K),
    Select(LEAF, Laplace("b", 2)),
    Filter(Select(Gaussian("norm", x), Gaussian("step", y)), "zcdp", 0.5),
    DiscreteGaussian("count", x, 2),
    DiscreteGaussianVector("cells", x, 5, (((2, 1), (1, 1)), ((1, 3),))),
    ThresholdedDiscreteLaplace("towns", 2, 31, 3, 2, 1),
    ThresholdedDiscreteGaussian("towns", 9, 31, 3, 2, 1),
    DiscreteLaplace("count", 0.5, K),
    TruncatedDiscreteLaplace("threshold", 2, 31),
    RandomizedResponse("bit", 1, 4),
    Staircase("mean", x, Fraction(1, 3)),
    Tulap("count", x, Fraction(1, 10**6)),
    StudentT("median", x, 3),
    TruncatedLaplace("sum", x, 12),
    DistributedGaussian("total", 2, 10, 3, 2),
    DistributedSkellam("total", Fraction(1, 2), 10, 3),
    DistributedGaussianVector("sums", 2, 10, 3, 2, 256),
    DistributedSkellamVector("sums", 3, 10, 3, 2),
    LastIterate("model", x, K, 1, y),
    SampledLastIterate("model", x, K, Fraction(1, 10), 1, y),
    IndividualGaussian("sum", x, y, 100),
    Tuned(LEAF, Fraction(1, 10), 0),
    TunedPoisson(LEAF, x),
    SubsetResponse("page", 1, Fraction(1, 4), Fraction(1, 20)),
    Shuffled(RandomizedResponse("bit", 1, 4), K),
    ExponentialMechanism("iterate", 2 * x, "monotone"),
    IntegerExponentialMechanism("median", 2, "monotone"),
    ReportNoisyMax("iterate", 0.1, "gumbel"),
    AboveThreshold("stop", 0.5, 0.25, 3),
    NoisyComparisons("answers", 4, 8, 5.5, 24),
    StableRelease("stable", 0.5, 32, x),
    CoupledGaussian("inliers", x, 2, 160, Fraction(3, 400)),
    CorrelatedGaussian("prefix", x, 16, BandedToeplitz((1, 0.5)), Participation(4, 3)),
]

# Each with an adjacency under which it has rules.
IN_NUMBERS: list[tuple[Node, str]] = [
    (Filter(Select(G, Gaussian("h", 2)), "zcdp", Fraction(1, 2)), "replace_one"),
    (Compose(G, Repeat(L, 3), Parallel(L, G)), "add_remove"),
    (Assuming(G, LIPSCHITZ), "add_remove"),
    (CorrelatedGaussian("c", 3, 4), "add_remove"),
    (DiscreteGaussian("d", 4), "replace_one"),
    (DiscreteLaplace("d", 4, 3), "replace_one"),
    (TruncatedDiscreteLaplace("d", 4, 50, 2), "replace_one"),
    (RandomizedResponse("r", Fraction(1, 3), 3), "replace_one"),
    (Staircase("s", 1, Fraction(3, 8)), "replace_one"),
    (Tulap("t", 1, Fraction(1, 10**6)), "add_remove"),
    (StudentT("t", 4, Fraction(5, 2)), "replace_one"),
    (TruncatedLaplace("t", 2, 12), "add_remove"),
    (DistributedGaussian("d", 1, 9, 2), "replace_one"),
    (DistributedSkellam("d", 1, 9, 2), "replace_one"),
    (DistributedGaussianVector("d", 1, 9, 2, 2, 64), "replace_one"),
    (DistributedSkellamVector("d", 1, 9, 2, 2), "replace_one"),
    (EventSlack(L, Fraction(1, 10**6), "an event"), "add_remove"),
    (ProposeTestRelease(L, G, Fraction(1, 10**6)), "add_remove"),
    (Group(G, 2), "add_remove"),
    (PureDP(1, source="s"), "add_remove"),
    (ApproxDP(1, Fraction(1, 10**6), source="s"), "add_remove"),
    (ZCDP(Fraction(1, 8), source="s"), "add_remove"),
    (GDP(Fraction(1, 2), source="s"), "add_remove"),
    (RenyiDP(4, Fraction(1, 2), source="s"), "add_remove"),
    (RenyiCurve(ALPHA / 8, source="s"), "add_remove"),
    (ProfilePoints(((1, "1/100"), (2, "1/1000")), source="s"), "add_remove"),
    (Laws((("3/4", "1/4"), ("1/8", "3/4"), ("1/8", "0")), source="s"), "replace_one"),
    (MixtureOfGaussians(2, ((1, "1/8"), ("5/2", "1/16")), source="s"), "add_remove"),
    (MixtureOfGaussians(2, ((1, "1/8"), ("5/2", "1/16")), source="s"), "replace_one"),
    (Compose(G, NonPrivate("looked")), "add_remove"),
    (Repeat(PoissonSampled(G, Fraction(1, 10)), 8), "add_remove"),
    (Repeat(PoissonSampled(G, Fraction(1, 10), "zero"), 8), "replace_one"),
    (Repeat(SampledWithoutReplacement(L, 5, 50), 3), "replace_one"),
    (SampledWithReplacement(L, 2, 10), "replace_one"),
    (RandomAllocation(G, 9), "add_remove"),
    (ExponentialMechanism("e", 1), "add_remove"),
    (IntegerExponentialMechanism("e", 1), "add_remove"),
    (ReportNoisyMax("m", 1, "gumbel"), "add_remove"),
    (AboveThreshold("a", 1, 1), "add_remove"),
    (NoisyComparisons("n", 4, 8, 5, 3), "add_remove"),
    (StableRelease("s", Fraction(1, 2), 3, 20), "replace_one"),
    (SubsetResponse("page", 1, Fraction(1, 4), Fraction(1, 20)), "replace_one"),
    (Shuffled(RandomizedResponse("r", 1, 3), 9), "replace_one"),
    (LastIterate("model", 10, 100, Fraction(9, 10)), "replace_one"),
    (SampledLastIterate("model", 4, 10**4, Fraction(1, 10), Fraction(9, 10)), "zero_out"),
    (IndividualGaussian("sum", 4, 1, 100), "add_remove"),
    (Tuned(L, Fraction(1, 10)), "add_remove"),
    (TunedPoisson(L, 10), "add_remove"),
    (CyclicBatches(L, 20, 5), "replace_one"),
    (ShuffledBatches(G, 20, 5), "zero_out"),
    (TruncatedPoisson(G, Fraction(1, 10), 20, 12), "add_remove"),
    (
        CyclicPoisson(
            CorrelatedGaussian("r", 4, 8, BandedToeplitz((1, 0.5)), Participation(4, 2)),
            2,
            Fraction(1, 10),
        ),
        "add_remove",
    ),
    (
        CyclicPoisson(
            CorrelatedGaussian("r", 4, 8, "tree", Participation(4, 2)), 2, Fraction(1, 10)
        ),
        "add_remove",
    ),
    (CoupledGaussian("c", 2, 1, 30, Fraction(1, 100)), "replace_one"),
    (DiscreteGaussianVector("v", 4, 12, (((2, 3),),)), "add_remove"),
    (ThresholdedDiscreteLaplace("t", 2, 4, sensitivity=2, own=2, largest=1), "add_remove"),
    (ThresholdedDiscreteGaussian("t", 4, 8, squared=2, own=2, largest=1), "add_remove"),
]

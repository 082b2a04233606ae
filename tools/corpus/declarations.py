"""The declarations of the corpus: families of nodes over grids of parameters, deltas and scopes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from dpaudit.families.adaptive import Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.events import EventSlack, Group
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled, RandomAllocation, SampledWithoutReplacement
from dpaudit.families.selection import AboveThreshold, ExponentialMechanism, ReportNoisyMax
from dpaudit.nodes import Node

SHALLOW = ("0.01", "0.0001", "0.00001", "1e-8")
DEEP = ("0.00001", "1e-12", "1e-20")
PURE = ("0", "0.000001")


@dataclass(frozen=True)
class Question:
    """One row without its answer."""

    family: str
    node: Node
    adjacency: str
    delta: str


def questions() -> Iterator[Question]:
    """Every row of the corpus, in order."""
    for family, adjacency, deltas, nodes in FAMILIES:
        for node, delta in product(nodes(), deltas):
            yield Question(family, node, adjacency, delta)


def _gaussian() -> Iterator[Node]:
    for multiplier, times in product(("0.5", "1", "5", "100"), (1, 10, 10_000)):
        yield Repeat(Gaussian("noise", Fraction(multiplier)), times)


def _laplace() -> Iterator[Node]:
    for scale, times in product(("0.5", "1", "10"), (1, 10, 1000)):
        yield Repeat(Laplace("noise", Fraction(scale)), times)


def _poisson() -> Iterator[Node]:
    settings = (
        ("1", "0.01", 1000),
        ("1", "0.01", 10_000),
        ("0.6", "0.001", 10_000),
        ("2", "0.1", 100),
        ("4", "0.004", 10_000),
        ("0.8", "0.5", 10),
        ("10", "0.2", 1000),
        ("1.1", "0.02", 1),
    )
    for multiplier, rate, times in settings:
        yield Repeat(
            PoissonSampled(Gaussian("gradient", Fraction(multiplier)), Fraction(rate)), times
        )


def _poisson_laplace() -> Iterator[Node]:
    for scale, rate, times in (("1", "0.01", 1000), ("2", "0.1", 100), ("0.5", "0.05", 10)):
        yield Repeat(PoissonSampled(Laplace("noise", Fraction(scale)), Fraction(rate)), times)


def _batches() -> Iterator[Node]:
    for multiplier, batch, population, times in (
        ("0.5", 600, 60_000, 1000),
        ("1", 100, 1000, 100),
        ("2", 256, 50_000, 5000),
        ("1", 1, 10, 10),
    ):
        inner = Gaussian("gradient", Fraction(multiplier))
        yield Repeat(SampledWithoutReplacement(inner, batch, population), times)


def _mixed() -> Iterator[Node]:
    gaussians = [Gaussian(f"g{i}", Fraction(10 + i, 2)) for i in range(20)]
    laplaces = [Laplace(f"l{i}", Fraction(20 + i, 2)) for i in range(20)]
    yield Compose(*gaussians, *laplaces)
    yield Compose(Repeat(Gaussian("g", 2), 3), Laplace("l", 1), PureDP(Fraction(1, 2)))
    yield Compose(
        Repeat(PoissonSampled(Gaussian("gradient", 1), Fraction(1, 100)), 1000),
        Gaussian("evaluation", 20),
        Laplace("count", 10),
    )
    yield Compose(Repeat(Gaussian("g", 3), 5), ApproxDP(Fraction(1, 2), Fraction(1, 10**10)))
    yield Parallel(Repeat(Laplace("a", 2), 5), Gaussian("b", 1))
    yield Repeat(Compose(Gaussian("g", 10), Laplace("l", 10)), 50)


def _discrete() -> Iterator[Node]:
    for variance, times in (("1", 1), ("4", 10), ("100", 1000), ("0.25", 3)):
        yield Repeat(DiscreteGaussian("noise", Fraction(variance)), times)
    for scale, times in (("1", 1), ("2", 10), ("20", 500)):
        yield Repeat(DiscreteLaplace("noise", Fraction(scale)), times)
    for epsilon, choices, times in (("1", 2, 10), ("0.1", 2, 1000), ("2", 5, 3)):
        yield Repeat(RandomizedResponse("answer", Fraction(epsilon), choices), times)
    yield Repeat(TruncatedDiscreteLaplace("noise", 2, 200), 5)


def _selection() -> Iterator[Node]:
    for epsilon, times in (("1", 1), ("0.1", 100), ("0.05", 500)):
        yield Repeat(ExponentialMechanism("choice", Fraction(epsilon)), times)
        yield Repeat(ReportNoisyMax("choice", Fraction(epsilon)), times)
    yield Repeat(AboveThreshold("halt", Fraction(1, 4), Fraction(1, 2)), 3)


def _correlated() -> Iterator[Node]:
    for multiplier, rounds in (("4", 1), ("4", 16), ("10", 1000), ("2", 7)):
        yield CorrelatedGaussian("prefix sums", Fraction(multiplier), rounds)


def _allocation() -> Iterator[Node]:
    for multiplier, slots, epochs in (("1", 100, 10), ("2", 10, 1), ("1", 1000, 3)):
        yield Repeat(RandomAllocation(Gaussian("gradient", Fraction(multiplier)), slots), epochs)


def _combined() -> Iterator[Node]:
    yield Select(Gaussian("a", 2), Laplace("b", 1))
    yield Repeat(Select(Gaussian("a", 4), Gaussian("b", 2)), 5)
    yield Group(Gaussian("a", 5), 3)
    yield Group(Laplace("a", 10), 3)
    yield Group(PureDP(Fraction(1, 4)), 2)
    yield EventSlack(Repeat(Laplace("a", 10), 20), Fraction(1, 10**10), "an accident of the noise")


FAMILIES = (
    ("gaussian", "add_remove", DEEP, _gaussian),
    ("gaussian", "replace_one", SHALLOW, _gaussian),
    ("laplace", "add_remove", (*PURE, "0.001"), _laplace),
    ("laplace", "replace_one", PURE, _laplace),
    ("poisson_gaussian", "add_remove", (*SHALLOW, "1e-12", "1e-20"), _poisson),
    ("poisson_laplace", "add_remove", PURE, _poisson_laplace),
    ("batch_gaussian", "replace_one", SHALLOW, _batches),
    ("mixed", "add_remove", SHALLOW, _mixed),
    ("discrete", "add_remove", DEEP, _discrete),
    ("selection", "replace_one", SHALLOW, _selection),
    ("correlated", "zero_out", SHALLOW, _correlated),
    ("allocation", "add_remove", SHALLOW, _allocation),
    ("combined", "add_remove", SHALLOW, _combined),
)

"""Filters whose leaves have noise of their own: each once, and all of them within the cap."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.curator.curator import Sampler
from dpaudit.errors import DpauditError, InvalidParameter, Undeclared, Unsupported
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.adaptive.node import amount
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.families.opaque import GDP, ZCDP, PureDP
from dpaudit.families.selection import IntegerExponentialMechanism
from dpaudit.families.tabular import DiscreteGaussianVector
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import central

COUNT = DiscreteGaussianVector("count", 2, 1, ())  # rho = 1/4
LAPLACE = DiscreteLaplace("sum", 2, 1)  # epsilon = 1/2
CHOICE = IntegerExponentialMechanism("mode", 1)  # rho = log(e - 1) - 1 + 1 / (e - 1) = .12330


def sampler(node: Node) -> Sampler:
    records = Records(np.full((4, 1), 1.0))
    return Sampler(node, central("add_remove"), records, rng=np.random.default_rng(1))


def release(curator: Sampler, label: str, **given: float) -> None:
    total = ClippedMean(lambda rows: rows[None], radius=1.0, divisor=1)
    curator.release(label, total, **given)


@pytest.mark.parametrize(
    ("child", "cap"),
    [
        (COUNT, ZCDP("1/4")),
        (Compose(COUNT, COUNT), ZCDP("1/2")),
        (Compose(LAPLACE, LAPLACE), PureDP(1)),
        (Compose(COUNT, CHOICE), ZCDP("0.37331")),
        (CHOICE, PureDP(1)),
    ],
    ids=str,
)
def test_a_cap_that_holds_them_all_is_opened_and_a_smaller_one_is_not(
    child: Node, cap: Node
) -> None:
    sampler(Filter.of(child, cap))
    value = amount(cap)
    smaller = type(cap)(value * Fraction(999, 1000))  # type: ignore[call-arg]
    with pytest.raises(InvalidParameter, match="together, above the cap"):
        sampler(Filter.of(child, smaller))


def test_each_leaf_is_released_once_and_without_a_multiplier() -> None:
    curator = sampler(Filter.of(Compose(COUNT, COUNT), ZCDP(1)))
    with pytest.raises(DpauditError, match="fixes its noise"):
        release(curator, "count", noise_multiplier=9)
    release(curator, "count")
    release(curator, "count")
    with pytest.raises(Undeclared, match="all 2 declared uses are spent"):
        release(curator, "count")


def test_what_has_no_charge_is_refused() -> None:
    with pytest.raises(Unsupported, match="no charge under a pure filter"):
        sampler(Filter.of(COUNT, PureDP(1)))
    with pytest.raises(Unsupported, match="cannot be run"):
        sampler(Filter.of(Select(COUNT, Gaussian("mean", 1)), ZCDP(1)))
    sampler(Filter.of(Compose(Gaussian("mean", 1)), GDP(1)))

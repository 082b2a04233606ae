"""Both ends of an interval are confirmed by the checker, and no smaller upper end is."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpaudit.accountant.account import Account
from dpaudit.check.profile.conversions import confirm_conversion
from dpaudit.exact import decimal_upper
from dpaudit.families.adaptive import Filter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteGaussian
from dpaudit.families.opaque import ZCDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from dpaudit.scope import central

CONFIRMED: list[Node] = [
    Filter.of(Gaussian("q", 1), ZCDP("0.5")),
    Filter.of(Laplace("q", 1), PureDP(2)),
    DiscreteGaussian("x", 100, 400),
    PoissonSampled(DiscreteGaussian("x", 1, 40), Fraction(1, 1000)),
    CorrelatedGaussian("sums", 4, 256, "tree_honaker"),
]


@pytest.mark.parametrize("node", CONFIRMED, ids=lambda node: node.name)
def test_both_ends_are_confirmed_by_the_checker(node: Node) -> None:
    """And not the upper one when it is moved inwards by a ten-millionth."""
    load("theorem")
    delta, opened = Fraction(1, 10**5), Account(node, central("add_remove"))
    step, losses = opened.converted("profile", delta), opened.step("profile").value
    assert step.lower is not None
    text = decimal_upper(step.value[0])
    found = confirm_conversion(losses, delta, text, step.witness)
    assert found is not None
    assert (found.reached, found.doubt, found.reached_doubted) == (step.lower, None, False)
    lowered = decimal_upper(step.lower * Fraction(9_999_999, 10**7))
    row = {**step.witness["upper"][0], "value": lowered, "epsilon": lowered}
    witness = {**step.witness, "upper": [row] * len(step.witness["upper"])}
    assert confirm_conversion(losses, delta, lowered, witness) is None

"""Delta of accounts where it is 0 or tiny, where numbers are extreme, and where a slack is paid."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpaudit import (
    Compose,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeat,
    account,
)
from dpaudit.exact import is_infinite
from dpaudit.families.discrete import TruncatedDiscreteLaplace
from dpaudit.families.events import EventSlack, Group, ProposeTestRelease
from dpaudit.nodes import Node
from dpaudit.scope import central

F = Fraction
SCOPE = central("add_remove")
PASSES = ProposeTestRelease(TruncatedDiscreteLaplace("t", 1, 40), Laplace("r", 3), F(1, 10**6))
SLACK = EventSlack(Compose(Laplace("l", 1), Gaussian("g", 1)), F(1, 10**6), "a rare event")


@pytest.mark.first_case
@pytest.mark.parametrize("epsilon", [F(3, 10), F(1), F(20), F(300)])
@pytest.mark.parametrize("node", [Laplace("l", 4), Repeat(Laplace("l", 40), 10)])
def test_delta_is_0_beyond_the_largest_loss(node: Node, epsilon: Fraction) -> None:
    found = account(node, SCOPE).delta(epsilon)
    assert found.upper == found.lower == 0


@pytest.mark.parametrize(
    "node",
    [
        Compose(Gaussian("g", 1), Laplace("l", 1)),
        PoissonSampled(Gaussian("g", 1), F(1, 1000)),
        DiscreteGaussian("d", 1),
    ],
)
def test_a_tiny_delta_is_positive(node: Node) -> None:
    found = account(node, SCOPE).delta(300)
    assert 0 <= found.lower <= found.upper < F(1, 10**290)
    assert found.upper > 0


def test_discrete_noise_that_is_very_small_is_answered() -> None:
    found = account(DiscreteGaussian("d", F(6, 10**4)), SCOPE)
    # The two outcomes without noise are told apart up to a loss of 1 / (2 variance) = 833.
    assert found.delta(300).lower > 1 - F(1, 10**9)
    assert 833 < found.epsilon(F(1, 10**5)).upper < 1100
    assert not is_infinite(
        account(DiscreteGaussian("d", F(1, 10**9)), SCOPE).epsilon(F(1, 9)).upper
    )


def test_a_thousand_answers_with_a_huge_epsilon() -> None:
    found = account(Repeat(RandomizedResponse("r", 700), 1000), SCOPE)
    assert found.delta(20).lower > F(99, 100)
    assert found.epsilon(F(1, 10**5)).upper <= 700_000


@pytest.mark.quality
def test_a_group_of_long_runs() -> None:
    run = Repeat(PoissonSampled(Gaussian("g", 1), F(1, 1000)), 1000)
    assert not is_infinite(account(Group(run, 5), SCOPE).epsilon(F(1, 10**5)).upper)


@pytest.mark.parametrize("node", [pytest.param(PASSES, marks=pytest.mark.quality), SLACK])
def test_delta_never_grows_with_epsilon_where_a_slack_is_paid(node: Node) -> None:
    opened = account(node, SCOPE)
    found = [opened.delta(F(e)).upper for e in (0, 3, 10, 20, 60)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < F(1, 100)
    # No bound is below what the noise event alone may cost.
    assert found[-1] >= F(1, 10**6)
    assert math.isfinite(found[0])


def test_delta_does_not_rise_where_the_largest_of_several_pairs_is_far() -> None:
    """It was 1 from an epsilon of 8 on, where a part of the test's own probability is left."""
    node = ProposeTestRelease(Laplace("test", 1), Gaussian("mean", 1), Fraction(1, 10**5))
    opened = account(node, SCOPE)
    uppers = [opened.delta(epsilon).upper for epsilon in (1, 5, 8, 20, 60)]
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[-1] < Fraction("1.001e-5")


@pytest.mark.parametrize("loss", [F(1, 2), F(7, 5), F(9, 4)])
def test_with_a_slack_delta_fits_what_epsilon_says(loss: Fraction) -> None:
    """A bounded loss has a cliff: beyond it the slack alone is paid, as at the cliff."""
    opened = account(EventSlack(Laplace("test", 1 / loss), F(1, 10**12), "a rare event"), SCOPE)
    asked = F(1, 10**8)
    epsilon = opened.epsilon(asked).upper
    assert epsilon <= loss + F(1, 10**3)
    for beyond in (epsilon, epsilon + F(1, 4), F(9)):
        assert opened.delta(beyond).upper <= asked

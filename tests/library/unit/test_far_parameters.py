"""Parameters far outside of what anybody runs: an answer, if only an infinite one, and no error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.check.profile.cells import ball
from dpaudit.check.profile.closed import delta_by
from dpaudit.check.profile.values import _bound
from dpaudit.exact import enclose, infinity, is_infinite, maximum
from dpaudit.families.adaptive import Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.batches import TruncatedPoisson
from dpaudit.families.batches.rules import chance_of_cut
from dpaudit.families.batches.theorem import _cut
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.discrete import DiscreteGaussian, RandomizedResponse
from dpaudit.families.events import EventSlack, Group
from dpaudit.families.local import SubsetResponse
from dpaudit.families.opaque import ZCDP, PureDP, RenyiDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.families.tuning import TunedPoisson
from dpaudit.grids.discrete import Grid, Side
from dpaudit.nodes import Node
from dpaudit.pairs import Renyi
from dpaudit.scope import central

F = Fraction
HUGE, TINY = F(10**9), F(1, 10**30)
# Kinds of huge losses whose Gaussian corners are no numbers that SymPy can compare.
INCOMPARABLE = (
    Select(RandomizedResponse("a", HUGE), PureDP(HUGE + 1)),
    Parallel(Laplace("a", 1 / HUGE), RandomizedResponse("b", 2 * HUGE)),
)


@pytest.mark.parametrize("node", INCOMPARABLE, ids=lambda node: type(node).__name__)
def test_huge_losses_of_two_kinds_are_joined(node: Node) -> None:
    account = Account(node, central("zero_out"))
    assert is_infinite(account.converted("gdp", "0.1").value[0])
    assert account.delta(0).upper == 1


def test_the_largest_of_numbers_beyond_comparison_is_no_less_than_either() -> None:
    """What is infinite, or a number that is known, is found among others as before."""
    beyond = Account(RandomizedResponse("a", HUGE), central("zero_out")).step("gdp").value
    assert maximum([beyond, infinity()]) == infinity()
    assert not enclose(maximum([beyond, F(3)])) <= 3
    assert maximum([F(1), F(2)]) == 2


@pytest.mark.long_cases("discrete")
@pytest.mark.parametrize(
    "node",
    [
        TunedPoisson(
            Compose(DiscreteGaussian("a", F(1, 10**4), F(1000)), PureDP(F(1))), F(1, 1000)
        ),
        TunedPoisson(ZCDP(10**6), F(1)),
    ],
    ids=["discrete", "concentrated"],
)
def test_a_curve_whose_ball_has_no_finite_end_is_infinite(node: Node) -> None:
    assert is_infinite(Account(node, central("zero_out")).epsilon("0.0001").upper)


@pytest.mark.parametrize("order", [1 + TINY, 1 + F(1, 10**17), 1 + F(1, 10**9)])
def test_an_order_next_to_one_says_nothing_and_raises_nothing(order: Fraction) -> None:
    node = Compose(RenyiDP(order, F(1)), PureDP(F(1)))
    assert is_infinite(Account(node, central("zero_out")).epsilon("0.01").upper)


@pytest.mark.parametrize("order", [F(5, 4), F(2), F(40)])
def test_a_renyi_bound_on_a_grid_is_that_of_its_order(order: Fraction) -> None:
    """exp((a - 1)(d - e)) (1 - 1/a)^a / (a - 1), in floats from the excess alone."""
    found = Renyi(order, F(1, 2)).on_grid(Grid(F(1, 64), 1e-15), Side.UPPER)
    a, at = float(order), 1.0
    bound = np.exp((a - 1) * (0.5 - at)) * (1 - 1 / a) ** a / (a - 1)
    losses = (found.first + np.arange(len(found.masses))) / 64
    above = losses > at
    delta = np.sum(found.masses[above] * -np.expm1(at - losses[above])) + found.infinite
    assert bound <= delta <= bound * 1.001


def test_a_slack_costs_no_more_at_a_larger_epsilon() -> None:
    """The least of the sum is at 0 here: 0.2 and next to nothing of ten among 10^9."""
    rare = RandomizedResponse("a", F(2980, 513), F(10**9))
    account = Account(EventSlack(rare, F(1, 10), "a noise event"), central("zero_out"))
    assert account.delta(10).upper <= account.delta(0).upper


def test_a_group_that_steps_do_well_for_at_one_epsilon_does_no_worse_above_it() -> None:
    """1,000 reports of a set of one in a million, each of epsilon 4.7: S grows as e^epsilon."""
    report = SubsetResponse("a", F(383, 82), F(1, 10**6))
    account = Account(Group(report, F(1000)), central("zero_out"))
    assert account.delta(10).upper <= account.delta(1).upper < F(1, 5)


def test_the_checker_uses_no_order_above_the_declared_one() -> None:
    """At order 1 + 10^-12 a loss of 4 * 10^10 is as likely as ever: 1 + 10^-9 would rule it out."""
    for pair in (Renyi(1 + F(1, 10**12), F(1)), Renyi(1 + TINY, F(1))):
        assert delta_by(pair, ball(F(4 * 10**10)).exp(), _bound) > ball(F(7, 10))


@pytest.mark.first_case
@pytest.mark.parametrize(
    "node",
    [
        Repeat(Laplace("a", F(1)), F(10**400)),
        Repeat(PoissonSampled(Gaussian("a", F(1)), F(1, 2)), F(10**400)),
        Repeat(PoissonSampled(Gaussian("a", F(1, 10**308)), F(1, 2)), F(3)),
    ],
    ids=["rounds", "sampled rounds", "no noise"],
)
def test_what_no_float_holds_is_answered_by_another_calculus(node: Node) -> None:
    found = Account(node, central("add_remove")).epsilon("1e-5")
    assert 0 < found.lower < found.upper
    assert found.upper > 10**300


def test_a_cut_of_more_records_than_integrals_are_found_for_is_certain() -> None:
    """FLINT would end the process where the chance of a cut is no number."""
    many = 10**30
    node = TruncatedPoisson(Gaussian("a", F(1)), F(1, 2), F(many), F(many // 2))
    assert chance_of_cut(node) == _cut(node) == 1
    few = TruncatedPoisson(Gaussian("a", F(1)), F(1, 2), F(10), F(9))
    assert float(chance_of_cut(few)) == pytest.approx(1 / 512, rel=1e-12)
    assert float(_cut(few)) == pytest.approx(1 / 512, rel=1e-12)

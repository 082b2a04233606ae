"""Sampled mechanisms against dp-accounting 0.6.0, published numbers and our own profiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant

from dpaudit.accountant.account import Account
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import RenyiCurve
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.measures.convert import to_approx
from dpaudit.measures.renyi import RENYI, order
from dpaudit.nodes import Node
from dpaudit.scope import Scope

ADD_REMOVE = Scope("add_remove", "record", "central", "transcript")
REPLACE_ONE = ADD_REMOVE.under("replace_one")
DELTA = Fraction(1, 10**5)
ORDERS = [*range(2, 41), 64, 100, 128, 200, 256]


def curve(node: Node, scope: Scope) -> Callable[[int], float]:
    value = RENYI.fold(node, scope).value
    return lambda alpha: float(enclose(value, {order(): enclose(Fraction(alpha))}).mid())


def epsilon(node: Node, scope: Scope, delta: Fraction = DELTA) -> float:
    return float(to_approx(RENYI.fold(node, scope), delta).value[0])


@pytest.mark.parametrize(
    ("rate", "z"),
    [("0.01", "1"), ("0.001", "0.6"), ("0.25", "2"), ("0.5", "10"), ("0.004", "1.845")],
)
def test_poisson_gaussian_curves_are_the_same(rate: str, z: str) -> None:
    ours = curve(PoissonSampled(Gaussian("g", Fraction(z)), Fraction(rate)), ADD_REMOVE)
    compute = rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian
    theirs = compute(float(rate), float(z), ORDERS)
    for alpha, value in zip(ORDERS, theirs, strict=True):
        assert ours(alpha) == pytest.approx(value, rel=1e-9, abs=1e-13)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("share", "z"),
    [("0.01", "0.5"), ("0.01", "2"), ("0.1", "6"), ("0.2", "5.8467"), ("0.001", "15")],
)
def test_gaussian_batches_have_the_same_curves(share: str, z: str) -> None:
    """Where both follow Theorem 27: up to order 256."""
    batch = Fraction(share)
    leaf = Gaussian("g", Fraction(z))
    node = SampledWithoutReplacement(leaf, batch.numerator, batch.denominator)
    ours = curve(node, REPLACE_ONE)
    compute = rdp_privacy_accountant._compute_rdp_sample_wor_gaussian
    for alpha in [a for a in ORDERS if a <= 64]:
        theirs = float(compute(float(share), float(z), [alpha])[0])
        assert ours(alpha) == pytest.approx(theirs, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(
    ("alpha", "share", "z", "general", "gaussian"),
    [
        (9, "0.005", 30, 3.153922e-6, 5.006151e-7),
        (9, "0.01", 6, 7.388039e-5, 5.106169e-5),
        (6, "0.01", 10, 2.036678e-5, 1.208854e-5),
        (48, "0.001", 15, 1.182043e-6, 4.283799e-7),
    ],
)
def test_both_theorems_of_batches(
    alpha: int, share: str, z: int, general: float, gaussian: float
) -> None:
    """Values computed apart from this project, with 60 digits; Theorem 9 needs the curve alone."""
    batch = Fraction(share)
    line = RenyiCurve(order() / (2 * Fraction(z) ** 2))
    for child, value in ((line, general), (Gaussian("g", z), gaussian)):
        node = SampledWithoutReplacement(child, batch.numerator, batch.denominator)
        assert curve(node, REPLACE_ONE)(alpha) == pytest.approx(value, rel=5e-7)


def test_poisson_dp_sgd() -> None:
    """The records of the Renyi route; theirs may use orders between whole ones."""
    node = Repeat(PoissonSampled(Gaussian("g", 1), Fraction(1, 100)), 10_000)
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    accountant.compose(event, 10_000)
    theirs = accountant.get_epsilon(1e-5)
    assert theirs == pytest.approx(6.712, abs=1e-3)
    assert theirs <= epsilon(node, ADD_REMOVE) <= theirs * 1.002
    assert epsilon(node, ADD_REMOVE, Fraction(1, 10**20)) == pytest.approx(14.333, abs=1e-3)


@pytest.mark.quality
def test_batches_at_the_true_sensitivity() -> None:
    """n = 60,000, batch 600, noise of the clipping norm: half the sensitivity of replacing."""
    leaf = Gaussian("g", Fraction(1, 2))
    node = Repeat(SampledWithoutReplacement(leaf, 600, 60_000), 1000)
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    event = dp_event.SampledWithoutReplacementDpEvent(60_000, 600, dp_event.GaussianDpEvent(0.5))
    accountant.compose(event, 1000)
    found = epsilon(node, REPLACE_ONE)
    assert found == pytest.approx(20.987, abs=1e-3)
    assert found == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)
    unaware = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    read_as_one = dp_event.SampledWithoutReplacementDpEvent(
        60_000, 600, dp_event.GaussianDpEvent(1.0)
    )
    unaware.compose(read_as_one, 1000)
    assert unaware.get_epsilon(1e-5) < 3.6 < 13.36 < found


def bvr(full: Any, batch: int, n: int, z: str, steps: int) -> Node:
    """Full-batch Gaussians of total mu ``full``, and local steps on batches of the records."""
    local = SampledWithoutReplacement(Gaussian("local", Fraction(z)), batch, n)
    return Compose(Gaussian("full", 1 / full), Repeat(local, steps))


def test_local_steps_of_bvr() -> None:
    """n = 40, b = 8, 40 steps, z = 5.8467, full-batch mu = 1/3: the Renyi route says 2.456."""
    node = bvr(Fraction(1, 3), 8, 40, "5.8467", 40)
    assert epsilon(node, REPLACE_ONE) == pytest.approx(2.456, abs=1e-3)


BVR = [
    (1651, 10, 2000, 20, 10, 13, "3.634161e-3", "1.584094e-2", "3.674235", 2.2027),
    (10_000, 10, 500, 10, 10, 80, "4.242641e-4", "1.272792e-3", "3.674235", 2.0739),
    (10_000, 10, 500, 10, 10, 10, "1.224745e-3", "3.674235e-3", "6.123724", 0.6383),
    (100_000, 4, 400, 10, 20, 800, "9.486833e-5", "2.846050e-4", "3.674235", 2.2167),
]


@pytest.mark.parametrize("row", BVR, ids=range(len(BVR)))
def test_calibrated_bvr(row: Any) -> None:
    """The Renyi totals of four calibrated runs, computed apart from this project.

    Whole orders cost at most 3e-3 of epsilon where theirs lie in between.
    """
    n, clients, rounds, interval, local, batch, first, second, z, expected = row
    restarts = math.ceil(rounds / interval)
    terms = restarts / float(first) ** 2 + (rounds - restarts) / float(second) ** 2
    full = Fraction(repr(2 / (n * clients) * math.sqrt(terms)))
    steps = (local - 1) * math.ceil(rounds / clients)
    found = epsilon(bvr(full, batch, n, z, steps), REPLACE_ONE)
    assert expected - 6e-5 <= found <= expected * 1.003


BOTH = [
    (Repeat(PoissonSampled(Gaussian("g", 1), Fraction(1, 100)), 100), ADD_REMOVE),
    (Repeat(PoissonSampled(Laplace("l", 2), Fraction(1, 10)), 20), ADD_REMOVE),
    (PoissonSampled(Compose(Laplace("l", 2), Gaussian("g", 3)), Fraction(1, 5)), ADD_REMOVE),
    (Repeat(SampledWithoutReplacement(Gaussian("g", 2), 1, 50), 100), REPLACE_ONE),
    (Repeat(SampledWithoutReplacement(Laplace("l", 2), 1, 5), 10), REPLACE_ONE),
]


@pytest.mark.first_case
@pytest.mark.long_cases("3-delta1", "4-delta1")
@pytest.mark.parametrize(
    "delta", [pytest.param(Fraction(1, 100), marks=pytest.mark.quality), DELTA]
)
@pytest.mark.parametrize(("node", "scope"), BOTH, ids=range(len(BOTH)))
def test_renyi_bounds_are_never_below_what_is_reached(
    node: Node, scope: Scope, delta: Fraction
) -> None:
    """The profile's lower end is reached by some data; every route's upper end is above it."""
    account = Account(node, scope)
    reached = account.converted("profile", delta).reached
    assert reached is not None
    for calculus in account.routes():
        upper = to_approx(account.step(calculus), delta).value[0]
        assert float(reached) <= float(upper), calculus


def test_a_sampled_laplace_release_is_pure() -> None:
    node = PoissonSampled(Laplace("l", 1), Fraction(1, 10))
    account = Account(node, ADD_REMOVE)
    assert float(account.approximate(Fraction(0)).value[0]) == pytest.approx(
        math.log(1 + 0.1 * (math.e - 1)), rel=1e-9
    )

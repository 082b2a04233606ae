"""Conditions, hard instances, the two-point detector, and the formulas of bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import central
from mechanisms.papers.kl import bounds
from mechanisms.papers.kl.condition import (
    GrowthCondition,
    KLCondition,
    check_growth,
    check_kl,
    growth_to_kl,
    kl_to_growth,
)
from mechanisms.papers.kl.instances import (
    HuberLinear,
    TwoPointInstance,
    huber_fingerprint_instance,
)
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.reduction import GrowthReduction, ReducedToGrowth
from tests.support.claims import value
from tests.support.kernels import NoNoise

POINTS = np.random.default_rng(0).normal(size=(400, 2)) * np.geomspace(1e-3, 1, 400)[:, None]


# --- conditions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [2.0, 3.0, 1.5])
def test_powers_are_kl_with_their_published_constant(tau: float) -> None:
    """F = ||u||^tau / tau: kappa = tau/(tau-1), gamma = tau^(-1/kappa); a smaller gamma fails."""
    kappa = tau / (tau - 1)
    right = KLCondition(tau ** (-1 / kappa), kappa)

    def height(points: Array) -> Array:
        return np.asarray(np.linalg.norm(points, axis=1) ** tau / tau)

    def slope(points: Array) -> Array:
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(points * norms ** (tau - 2))

    assert check_kl(right, height, slope, 0.0, POINTS).held
    found = check_kl(KLCondition(0.99 * right.gamma, kappa), height, slope, 0.0, POINTS)
    assert not found.held
    assert found.worst == pytest.approx(0.99**-kappa)
    growth = kl_to_growth(right)
    distance = np.linalg.norm
    assert check_growth(growth, height, lambda p: distance(p, axis=1), 0.0, POINTS).held
    assert growth.tau == pytest.approx(tau)
    assert growth.lam == pytest.approx(1 / (tau * right.gamma))
    back = growth_to_kl(GrowthCondition(tau ** (-1 / tau), tau))
    assert (back.gamma, back.kappa) == pytest.approx((tau ** (1 / tau), kappa))


def test_a_non_convex_function_under_pl() -> None:
    """w^2 + 3 sin(w)^2 is PL with mu = 1/32 (Karimi, Nutini, Schmidt 2016), not with mu = 1."""

    def height(w: Array) -> Array:
        return np.asarray((w**2 + 3 * np.sin(w) ** 2)[:, 0])

    def slope(w: Array) -> Array:
        return np.asarray(2 * w + 3 * np.sin(2 * w))

    points = np.linspace(-10, 10, 4001)[:, None]
    assert check_kl(KLCondition.of_pl(1 / 32), height, slope, 0.0, points).held
    assert not check_kl(KLCondition.of_pl(1.0), height, slope, 0.0, points).held


def test_bounds_on_the_start_and_the_region() -> None:
    condition = KLCondition(2.0, 1.5)
    assert condition.starting_gap_upper(3.0) == pytest.approx(6**1.5)
    assert condition.radius(8.0) == pytest.approx(3 * 2 * 2)
    assert KLCondition.of_pl(0.5).gamma == 1.0
    with pytest.raises(InvalidParameter, match="kappa = 1"):
        KLCondition(1.0, 1.0).radius(1.0)
    with pytest.raises(InvalidParameter, match="kappa = 1"):
        kl_to_growth(KLCondition(1.0, 1.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: KLCondition(0.0, 2.0),
        lambda: KLCondition(1.0, 0.9),
        lambda: KLCondition(math.nan, 2.0),
        lambda: KLCondition(1.0, math.inf),
        lambda: GrowthCondition(1.0, 1.0),
        lambda: GrowthCondition(-1.0, 2.0),
        lambda: check_kl(KLCondition(1.0, 2.0), lambda p: p, lambda p: p, 0.0, np.empty((0, 1))),
        lambda: check_kl(KLCondition(1.0, 2.0), lambda p: p, lambda p: p, 0.0, np.ones(3)),
        lambda: TwoPointInstance(10, 1, 2.0),
        lambda: TwoPointInstance(10, 10, 2.0),
        lambda: TwoPointInstance(10, 2, 1.5),
        lambda: huber_fingerprint_instance(0, 2, 1.0, 1.0, 1.0),
        lambda: huber_fingerprint_instance(5, 2, 0.0, 1.0, 1.0),
        lambda: GrowthReduction(1.0, 1.0, 1.0, 1.0),
        lambda: GrowthReduction(2.0, 0.0, 1.0, 1.0),
        lambda: bounds.zcdp_to_dp(0.0, 0.1),
        lambda: bounds.rho_for_dp(1.0, 1.0),
        lambda: bounds.one_dimensional_lower(2.0, 10, 1.0, 0.0),
        lambda: bounds.one_dimensional_lower(1.5, 10, 0.5, 0.0),
        lambda: bounds.one_dimensional_lower(2.0, 10, 0.5, 0.1),
        lambda: bounds.kl_lower(KLCondition(1.0, 1.0), 1.0, 1, 10, 1.0),
    ],
)
def test_bad_parameters_are_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()


# --- the Huber instance --------------------------------------------------------------------------


def test_the_repaired_huber_instance_is_what_its_proof_needs() -> None:
    """Convex at midpoints, smooth across the edge, Lipschitz, minimised at -sum x / (2 n lam)."""
    instance = huber_fingerprint_instance(40, 3, 0.2, 1.5, 0.7)
    loss, records = instance.loss, instance.records
    assert np.count_nonzero(records.any(axis=1)) == math.ceil(math.sqrt(3) / 0.2)
    assert np.linalg.norm(records[0]) == pytest.approx(1.5)
    assert loss.lam == pytest.approx(9 * 1.5 / (2 * 40 * 0.7))
    pairs = np.random.default_rng(1).normal(size=(2, 500, 3)) * 4
    middle = loss.huber(pairs.mean(axis=0))
    assert (middle <= loss.huber(pairs).mean(axis=0) + 1e-9).all()
    points = pairs[0]
    slopes = np.linalg.norm(loss.gradients(points, records), axis=-1)
    assert slopes.max() <= instance.lipschitz_upper <= 5 * 1.5 + 1e-9
    step = 1e-6
    for axis in range(3):
        moved = points + step * np.eye(3)[axis]
        numeric = (loss.values(moved, records) - loss.values(points, records)) / step
        assert numeric == pytest.approx(loss.gradients(points, records)[..., axis], abs=1e-4)
    assert np.linalg.norm(instance.minimiser) <= 0.7
    assert instance.excess(instance.minimiser[None])[0] == pytest.approx(0, abs=1e-12)
    inside = points / 4
    expected = loss.lam * np.square(inside - instance.minimiser).sum(axis=1)
    near = np.linalg.norm(inside, axis=1) <= 4 * 0.7
    assert instance.excess(inside)[near] == pytest.approx(expected[near])
    far = instance.excess(np.eye(3) * 4 * 0.7)
    assert (far >= 4 * 9 * 1.5 * 0.7 / 40 - 1e-9).all()


def test_the_printed_huber_function_is_not_convex() -> None:
    """4D ||w|| beyond radius 4D: at 4D it lies above the chord from 3D to 5D, 16 > 14.5."""
    edge = 4.0

    def printed(radius: float) -> float:
        return radius**2 if radius <= edge else edge * radius

    assert printed(4.0) == 16 > (printed(3.0) + printed(5.0)) / 2 == 14.5
    repaired = HuberLinear(1, 1.0, 1.0).huber(np.array([[3.0], [4.0], [5.0]]))
    assert repaired.tolist() == [9, 16, 24]


# --- formulas ------------------------------------------------------------------------------------


def test_conversions_are_inverse_and_as_published() -> None:
    assert bounds.zcdp_to_dp(1.0, 1e-5) == pytest.approx(7.7861, abs=5e-5)
    for rho in (1e-6, 0.1, 2.25, 100.0):
        assert bounds.rho_for_dp(bounds.zcdp_to_dp(rho, 1e-6), 1e-6) == pytest.approx(rho)


def test_lower_bounds_meet_where_conditions_do() -> None:
    """Growth of tau = 2 is KL of kappa = 2; both fall as n^-2; L0 D at worst."""
    growth, condition = GrowthCondition(0.5, 2.0), KLCondition(2.0, 2.0)
    one = bounds.growth_lower(growth, 1.0, 4, 100, 0.5)
    assert one == pytest.approx(bounds.kl_lower(condition, 1.0, 4, 100, 0.5))
    assert one == pytest.approx(0.5 * (2 / (0.5 * 50)) ** 2)
    assert bounds.kl_lower(condition, 1.0, 4, 1000, 0.5) == pytest.approx(one / 100)
    assert bounds.convex_lower(2.0, 3.0, 4, 100, 0.5) == pytest.approx(6 * 2 / 50)
    assert bounds.convex_lower(2.0, 3.0, 10**8, 100, 0.5) == 6.0
    assert bounds.one_dimensional_lower(2.0, 100, 0.5, 0.0) == pytest.approx(0.25 / 2500)
    assert bounds.kl_spider_rate(condition, 1.0, 4, 100, 1.0) == pytest.approx(0.04**2)
    assert bounds.adaptive_rate(condition, 1.0, 4, 100, 1.0) == pytest.approx(0.04**2)
    assert len({row[0] for row in bounds.RATES}) == len(bounds.RATES) == 10


@pytest.mark.parametrize("tau", [2.0, 3.0, 4.5])
def test_the_least_diameter_makes_the_first_regulariser_smooth(tau: float) -> None:
    """Its largest second derivative, at the edge of the first ball and by differences, is L1."""
    smoothness, error, lipschitz = 0.7, 0.01, 1.5
    least = GrowthReduction(tau, error, 1.0, lipschitz).diameter_lower(smoothness)
    reduction = GrowthReduction(tau, error, least, lipschitz)
    stage, step = reduction.stages[0], 1e-6

    def slope(at: float) -> float:
        return float(reduction.regulariser_gradient(stage, np.array([[at]])).item())

    second = (slope(stage.radius) - slope(stage.radius * (1 - step))) / (stage.radius * step)
    assert second == pytest.approx(smoothness, rel=1e-5)
    assert reduction.diameter_lower(2 * smoothness) == pytest.approx(least / 2)


def test_the_reduction_runs_and_costs_its_budget() -> None:
    """Stages around the last output; without noise it ends at the minimum, -1/2."""
    problem = KLProblem(Bowl(), 0, 50, 2.0)
    reduction = GrowthReduction(2.0, 0.5, 1.0, 2.0)
    program = ReducedToGrowth(problem, reduction, Fraction(1), 150)
    scope, count = central("replace_one"), reduction.count
    assert count == 4
    node = program.declaration(scope)
    assert value(node, "zcdp") == 1
    assert value(program.declaration(central("zero_out")), "zcdp", "zero_out") == Fraction(1, 4)
    rng, records = np.random.default_rng(0), Records(np.zeros((50, 1)))
    kernels = {Gaussian: NoNoise}
    curator = Sampler(node, scope, records, rng=rng, trials=2, kernels=kernels)
    assert program.run(curator) == pytest.approx(np.full((2, 1), -0.5), abs=0.05)
    assert len(curator.transcript) == count * 150
    for bad in ({"rho": 0}, {"steps": 0}, {"reduction": replace(reduction, lipschitz=1.0)}):
        with pytest.raises(InvalidParameter):
            replace(program, **bad)


class Bowl:
    """(w + 1/2)^2 for every record."""

    def dimension(self, features: int) -> int:
        return 1

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, 1))

    def values(self, parameters: Any, records: Any) -> Array:
        return np.asarray((np.asarray(parameters) + 0.5) ** 2 * np.ones(len(records)))

    def gradients(self, parameters: Any, records: Any) -> Array:
        slopes = 2 * (np.asarray(parameters) + 0.5)
        return np.repeat(slopes[:, None], len(records), axis=1)


def test_the_reduction_s_stages() -> None:
    """tau = 2: k = ceil of log2(2 L0^2 / (2 Delta)), lam_i^2 halves, ||.||^2 regularisers."""
    reduction = GrowthReduction(2.0, 0.01, 2.0, 1.0)
    assert reduction.count == math.floor(math.log2(100)) + 1 == 7
    assert reduction.lam == pytest.approx(4 ** (1 / 4) * (0.02 / 4) ** (1 / 4))
    lams = [stage.lam for stage in reduction.stages]
    assert [a / b for a, b in pairwise(lams)] == pytest.approx([2**0.5] * 6)
    assert sum(stage.share for stage in reduction.stages) == pytest.approx(1)
    stage = reduction.stages[0]
    away = np.array([[0.0, 0.0], [1.0, 2.0]])
    assert reduction.regulariser(stage, away) == pytest.approx([0, 5 * stage.lam**2])
    gradient = reduction.regulariser_gradient(stage, away)
    assert gradient == pytest.approx(2 * stage.lam**2 * away)
    edge = reduction.regulariser_gradient(stage, np.array([[stage.radius, 0.0]]))
    assert np.linalg.norm(edge) == pytest.approx(0.5), "half of L0 at the region's edge"

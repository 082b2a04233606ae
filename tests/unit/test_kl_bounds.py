"""Conditions, hard instances, the two-point detector, and the formulas of bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from audits.kl import two_point_detection
from dpaudit.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.kernels import GaussianKernel, Generator
from dpaudit.nodes import Gaussian
from dpaudit.query import Array, Records
from dpaudit.scope import central
from mechanisms.kl import bounds
from mechanisms.kl.baselines import FixedNoisyGD
from mechanisms.kl.condition import (
    GrowthCondition,
    KLCondition,
    check_growth,
    check_kl,
    growth_to_kl,
    kl_to_growth,
)
from mechanisms.kl.instances import (
    TRUSTED,
    ApproximatePrivacy,
    GaussianPrivacy,
    HuberLinear,
    TwoPointInstance,
    average_excess_lower,
    best_instance,
    huber_fingerprint_instance,
    two_point_detector,
    two_point_growth_instance,
)
from mechanisms.kl.problem import KLProblem
from mechanisms.kl.reduction import GrowthReduction, ReducedToGrowth
from tests.claims_for_tests import value

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


# --- two points ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kappa", "differing"), [(2.0, 2), (2.0, 10), (3.0, 4), (5.0, 20)])
def test_no_point_is_good_for_both_data_sets(kappa: float, differing: int) -> None:
    """Excess risks sum to at least r^kappa everywhere, and are 0 at the two minimisers."""
    instance = TwoPointInstance(100, differing, kappa)
    points = np.linspace(-TRUSTED, TRUSTED, 2001)[:, None]
    first, second = (instance.excess(points, side) for side in (0, 1))
    assert (first + second >= instance.gap * (1 - 1e-9)).all()
    assert min(first.min(), second.min()) >= -1e-12
    offset = instance.loss.offset
    for side, sign in ((0, 1), (1, -1)):
        assert instance.excess(np.array([[sign * offset]]), side)[0] == pytest.approx(0, abs=1e-12)
        means = instance.loss.values(points, instance.records(side)).mean(axis=1)
        least = offset * (1 - instance.share)
        assert means - least == pytest.approx(instance.excess(points, side), abs=1e-12)
    assert (np.abs(instance.loss.gradients(points, instance.records(0))) <= 1).all()
    step = 1e-7
    numeric = (instance.excess(points + step, 0) - instance.excess(points - step, 0)) / (2 * step)
    exact = instance.loss.gradients(points, instance.records(0)).mean(axis=1)[:, 0]
    smooth = (np.abs(np.abs(points[:, 0]) - offset) > 1e-3) & (np.abs(points[:, 0]) < 0.36)
    assert numeric[smooth] == pytest.approx(exact[smooth], abs=1e-5)


@pytest.mark.parametrize(("kappa", "where"), [(2.0, 0.5), (3.0, 0.4444), (4.0, 0.4219)])
def test_slopes_pass_1_where_published(kappa: float, where: float) -> None:
    """tau v^(tau-1) <= 1 up to v = tau^(-1/(tau-1)) only: 1/2, .444, .422; TRUSTED is below all."""
    instance = TwoPointInstance(1_000, 10, kappa)
    loss, step = instance.loss, 1e-4
    for beyond, steep in ((where - step, False), (where + step, True)):
        slope = loss.gradients(np.array([[loss.offset + beyond]]), np.array([[1.0]]))
        assert (abs(slope.item()) > 1) is steep
    assert where > TRUSTED


@pytest.mark.parametrize(
    ("share", "below", "above"), [(0.002, -0.993, 1.001), (0.01, -0.965, 1.005)]
)
def test_growth_fails_beyond_the_published_points(share: float, below: float, above: float) -> None:
    """kappa = 2: F - min F >= |w - a|^2 from about -.993 to 1.001 (r = .002), and no further."""
    instance = TwoPointInstance(1_000, round(1_000 * share), 2.0)
    loss, weight = instance.loss, (1 + instance.share) / 2
    points = np.linspace(-1.2, 1.2, 24_001)[:, None]
    kinds = loss.values(points, np.array([[1.0], [-1.0]]))
    excess = weight * kinds[:, 0] + (1 - weight) * kinds[:, 1] - loss.offset * (1 - instance.share)
    grows = excess >= (points[:, 0] - loss.offset) ** 2 - 1e-12
    inside = points[:, 0][grows]
    assert inside.min() == pytest.approx(below, abs=1e-3)
    assert inside.max() == pytest.approx(above, abs=1e-3)
    assert grows[(points[:, 0] > below + 2e-3) & (points[:, 0] < above - 2e-3)].all()


def test_records_differ_as_said_and_are_rounded() -> None:
    instance = two_point_growth_instance(101, 0.25, 2.0)
    assert instance.differing == 5
    assert (instance.records(0) != instance.records(1)).sum() == 5


def test_the_best_number_of_differing_records() -> None:
    """By exhaustion; and a larger mu allows a smaller excess."""
    little, more = GaussianPrivacy(0.4), GaussianPrivacy(0.8)
    best = best_instance(60, 2.0, little)
    every = [average_excess_lower(TwoPointInstance(60, m, 2.0), little) for m in range(2, 60, 2)]
    assert average_excess_lower(best, little) == max(every)
    assert average_excess_lower(best, more) < average_excess_lower(best, little)
    with pytest.raises(InvalidParameter, match="at least 3"):
        best_instance(1, 2.0, little)


HALF = GaussianPrivacy(0.5)


@pytest.mark.parametrize(("epsilon", "delta", "differing"), [(0.3, 0.0, 1), (0.3, 0.01, 3)])
def test_groups_under_approximate_privacy(epsilon: float, delta: float, differing: int) -> None:
    """By applying x -> e^epsilon x + delta once a record, and both errors equal."""
    total = 0.0
    for _ in range(differing):
        total = math.exp(epsilon) * total + delta
    rate = (1 - total) / (1 + math.exp(differing * epsilon))
    distance = ApproximatePrivacy(epsilon, delta).distance_upper(differing)
    assert distance == pytest.approx(1 - 2 * rate, rel=1e-12)


def test_the_paper_s_quarter_is_safe_but_at_the_largest_delta() -> None:
    """1/epsilon differing records: .269 (1/(n eps))^kappa for pure, .24 at Theorem 8's delta."""
    size, epsilon = 4_000, 0.01
    instance = two_point_growth_instance(size, epsilon, 2.0)
    pure = average_excess_lower(instance, ApproximatePrivacy(epsilon))
    assert pure / (1 / (size * epsilon)) ** 2 == pytest.approx(1 / (1 + math.e), rel=1e-9)
    largest = -math.expm1(-epsilon) / 16
    loose = average_excess_lower(instance, ApproximatePrivacy(epsilon, largest))
    assert loose / (1 / (size * epsilon)) ** 2 == pytest.approx(0.24, abs=0.003)
    quarter = bounds.one_dimensional_lower(2.0, size, epsilon, largest)
    assert loose < quarter < pure


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianPrivacy(0.0),
        lambda: GaussianPrivacy(math.inf),
        lambda: ApproximatePrivacy(0.0),
        lambda: ApproximatePrivacy(1.0, -0.1),
        lambda: ApproximatePrivacy(1.0, 1.0),
        lambda: ApproximatePrivacy(1.0, math.nan),
    ],
)
def test_privacy_that_means_nothing_is_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()
    assert ApproximatePrivacy(1.0).distance_upper(10_000) == 1.0


class NoNoise(GaussianKernel):
    """Adds nothing."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return np.array(values)


def make(problem: KLProblem) -> FixedNoisyGD:
    return FixedNoisyGD(problem, Fraction(1, 8), 60, 0.05, radius=TRUSTED)


@pytest.mark.parametrize(("kernel", "flagged"), [(NoNoise, True), (None, False)])
def test_the_detector_flags_code_without_noise_and_not_the_private_one(
    kernel: Any, flagged: bool
) -> None:
    """mu = 1/2: an average excess that no private code can have; error rate 1e-4."""
    instance = best_instance(40, 2.0, HALF)
    kernels = {Gaussian: kernel} if kernel else {}
    found = two_point_detection(make, instance, HALF, trials=500, seed=3, kernels=kernels)
    assert found.flagged is flagged
    assert (found.measured_upper < found.lower) is flagged


@pytest.mark.parametrize("bad", [np.empty((0, 1)), np.zeros(3), np.full((2, 1), math.nan)])
def test_the_detector_refuses_what_is_no_output(bad: Array) -> None:
    with pytest.raises(InvalidParameter, match="trials, 1"):
        two_point_detector(TwoPointInstance(10, 2, 2.0), bad, bad, HALF)
    with pytest.raises(InvalidParameter, match="error"):
        two_point_detector(
            TwoPointInstance(10, 2, 2.0), np.zeros((1, 1)), np.zeros((1, 1)), HALF, 0
        )


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

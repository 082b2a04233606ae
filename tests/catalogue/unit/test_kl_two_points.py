"""The two-point instance, what any private output costs on it, and the detector made of that."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audits.kl import two_point_detection
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.kernels.query import Array
from mechanisms.papers.kl import bounds
from mechanisms.papers.kl.baselines import FixedNoisyGD
from mechanisms.papers.kl.instances import (
    TRUSTED,
    ApproximatePrivacy,
    GaussianPrivacy,
    TwoPointInstance,
    average_excess_lower,
    best_instance,
    two_point_detector,
    two_point_growth_instance,
)
from mechanisms.papers.kl.problem import KLProblem
from tests.support.kernels import NoNoise


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

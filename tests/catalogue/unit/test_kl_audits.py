"""How near the audits under the KL condition come to what is accounted, and never above it.

Bounds at 95% on fixed seeds; a bound above the truth, or a miss of a band, has a chance of 5%.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from audits.broken import kl_bench as kl
from audits.kl import Turning, canary
from audits.kl_adaptive import pulled
from dpaudit.audit.attack import attack
from dpaudit.audit.bounds.estimators import Counts, count_errors, mu_lower
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from mechanisms.papers.kl import catalogue

ERROR = 1e-4
MU = math.sqrt(2)


def lens(mechanism: Mechanism, suite: Suite, trials: int, observe: Any = None) -> float:
    """The GDP lens at 95%; every conformance check of a correct implementation holds."""
    found = attack(mechanism, suite, seed=77, trials=trials, error=ERROR, observe=observe)
    assert all(f.status != "broken" for f in found.findings)
    assert found.test is not None
    return mu_lower(count_errors(found.test, suite.threshold), 0.05).mu_lower


@pytest.mark.quality
def test_kl_spider_s_canary_attains_anchors_and_differences_together() -> None:
    """8,000 trials a side: at least 92% of mu = sqrt(2 rho); anchors alone would give 89%."""
    assert 0.92 * MU <= lens(kl.kl_spider_bench, kl.spider_twin, 8_000) <= MU


@pytest.mark.quality
def test_the_solver_s_transcript_and_its_last_output() -> None:
    """The average of the iterates carries about 92% of mu when the projection is inactive."""
    assert 0.93 * MU <= lens(kl.solver_bench, kl.solver_twin, 10_000) <= MU
    last = lens(kl.solver_bench, kl.solver_twin, 10_000, observe=output)
    assert 0.85 * MU <= last <= MU


@pytest.mark.parametrize(
    ("true", "trials", "expected"),
    [(2**0.5, 100_000, 1.399), (2.0, 100_000, 1.986), (2.7**0.5, 100_000, 1.625),
     (2**0.5, 10_000, 1.354), (2.0, 10_000, 1.939), (2.7**0.5, 10_000, 1.598)],
)  # fmt: skip
def test_the_lens_reads_what_was_published(true: float, trials: int, expected: float) -> None:
    """At the expected counts of a mu-GDP test; published values are of one run each."""
    errors = round(trials * float(ndtr(-true / 2)))
    counts = Counts(errors, trials, errors, trials)
    spread = (
        6
        * math.sqrt(2 * ndtr(true / 2) * ndtr(-true / 2) / trials)
        / math.exp(-((true / 2) ** 2) / 2)
        * math.sqrt(2 * math.pi)
    )
    found = mu_lower(counts, 0.05).mu_lower
    assert found <= true
    assert abs(found - expected) <= spread


def output(found: Any) -> Any:
    return np.asarray(found)


@pytest.mark.quality
def test_a_filter_is_filled_where_rounds_cost_the_same() -> None:
    """Mode filter, some twenty rounds: at least 85% of mu, though the last charge seldom fits."""
    problem = pulled(kl.ADAPTIVE_BENCH.problem, 20, 0.12)
    program = replace(kl.ADAPTIVE_BENCH, mode="filter", problem=problem)
    mechanism = kl.mechanism("filled", program)
    suite = kl.planted("none", mechanism)
    assert 0.85 * MU <= lens(mechanism, suite, 1_000) <= MU


def test_a_selection_is_attacked_by_its_choices() -> None:
    """Norms that move by 2 L0/n in opposite directions: a response randomised at epsilon = 1.

    Its point at threshold 0 has mu = 2 Phi^-1(e / (1 + e)) = 1.2318; 4,000 trials a side.
    """
    true = 2 * float(ndtri(math.e / (1 + math.e)))
    assert 0.92 * true <= lens(kl.selection_bench, kl.selection_twin, 4_000) <= true


def test_the_turning_canary_is_the_gradient_of_its_loss() -> None:
    """Central differences at random points; a field with a curl would be no loss's gradient."""
    turning = Turning(3.0, 2.5, excess=7.0)
    points = np.random.default_rng(1).normal(size=(20, 3))
    signs, step = np.array([[1.0], [-1.0], [0.0]]), 1e-6
    exact = turning.gradients(points, signs)
    for axis, shift in enumerate(step * np.eye(3)):
        slopes = turning.values(points + shift, signs) - turning.values(points - shift, signs)
        assert np.allclose(slopes / (2 * step), exact[..., axis], rtol=1e-6, atol=1e-6)


def test_the_turning_canary_exceeds_every_clip() -> None:
    """By 1,000, so that a clip that was deleted cannot stay unseen."""
    found = canary(catalogue.SPIDER.schedule)
    gradient = found.gradients(np.zeros((1, 3)), np.array([[1.0]]))
    assert np.linalg.norm(gradient) >= 999 * catalogue.SPIDER.schedule.lipschitz

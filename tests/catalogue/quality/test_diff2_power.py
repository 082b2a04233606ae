"""Power and validity of DIFF2's audits over seeds, in the paper's small settings.

DIFF2-GD: mu = sqrt(1/3), exact epsilon 2.34143 at delta 1e-5; 20,000 trials a side, threshold 0.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from audits.broken import diff2_bvr
from audits.broken.diff2 import diff2_gd_bench, twin
from audits.diff2 import suite as suite_of
from dpaudit.audit.attack import ReplayTask
from dpaudit.audit.attacked import TEST, TRAINING
from dpaudit.audit.bounds.estimators import (
    TestScores,
    TrainingScores,
    choose_threshold,
    count_errors,
    epsilon_lower,
    epsilon_of_gaussian,
    mu_lower,
)
from dpaudit.audit.engine import plan, run_batches
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from mechanisms.papers.diff2.catalogue import diff2_gd_client

EXACT = 2.341427
TRIALS = 20_000


def scores_of(
    mechanism: Mechanism, suite: Suite, seed: int, trials: int, part: int = TEST
) -> list[np.ndarray]:
    """Scores of one audit, of either side."""
    task = ReplayTask(
        suite.program,
        mechanism.declaration,
        mechanism.scope,
        suite.neighbours.pair,
        suite.kernels,
    )
    found = []
    for side in (0, 1):
        results = run_batches(task, plan(0, side, part, trials, 2_000), root_seed=seed)
        found.append(np.concatenate([row["scores"] for row in results.values()]))
    return found


def lens_epsilon(
    seed: int, mechanism: Mechanism = diff2_gd_bench, suite: Suite = twin, trials: int = TRIALS
) -> float:
    """The GDP-lens bound of one audit, at 95%."""
    counts = count_errors(TestScores(*scores_of(mechanism, suite, seed, trials)), 0.0)
    return epsilon_of_gaussian(mu_lower(counts, 0.05).mu_lower, 1e-5)


@pytest.mark.first_case
@pytest.mark.parametrize("seed", [1, 2])
def test_lens_reaches_85_percent_of_the_exact_epsilon(seed: int) -> None:
    """False alarms: the bound falls below 85% in fewer than 1 seed in 1,000, above in under 5%."""
    assert 0.85 * EXACT <= lens_epsilon(seed) <= EXACT


def test_lens_over_forty_seeds() -> None:
    """At least 95% of seeds reach 85%; at most 5% plus two standard errors exceed the truth."""
    bounds = np.array([lens_epsilon(seed) for seed in range(100, 140)])
    assert np.mean(bounds >= 0.85 * EXACT) >= 0.95
    assert np.mean(bounds > EXACT) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / len(bounds))


def test_the_lens_reaches_85_percent_with_clients_as_units() -> None:
    """10,000 trials a side; the same mu, so that the same exact epsilon bounds it."""
    bound = lens_epsilon(1, diff2_gd_client, suite_of(diff2_gd_client), trials=10_000)
    assert 0.85 * EXACT <= bound <= EXACT


def local_epsilon(suite: Suite, seed: int, error: float) -> float:
    """The (epsilon, 1e-5) bound of an audit of local steps, 20,000 trials a side."""
    mechanism = diff2_bvr.diff2_bvr_bench
    training = TrainingScores(*scores_of(mechanism, suite, seed, 4_000, TRAINING))
    threshold = choose_threshold(training, 1e-5, TRIALS, 0.05)
    test = TestScores(*scores_of(mechanism, suite, seed, TRIALS))
    return epsilon_lower(count_errors(test, threshold), 1e-5, error).epsilon_lower


def test_a_known_batch_in_all_steps_is_refuted_at_1e_4() -> None:
    """B18: above 1.5752, the right mechanism's epsilon, which its twin stays below."""
    assert local_epsilon(diff2_bvr.b18_fixed_batch, seed=7, error=1e-4) > 1.5752
    assert 0.3 < local_epsilon(diff2_bvr.bvr_twin, seed=7, error=0.05) < 1.5752

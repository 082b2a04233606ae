"""Learned scores: a statistic fitted on training trials, counted on test trials it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.audit.attacked import (
    FIRST,
    SECOND,
    TEST,
    TRAINING,
    Attacked,
    Progress,
    Results,
    run_independently,
    tidy,
)
from dpaudit.audit.bounds.estimators import TestScores, TrainingScores
from dpaudit.audit.engine import Batch, Task, run_batches
from dpaudit.audit.suite import Suite
from dpaudit.kernels.query import Array

LEAST_TRAINING = 1_000  # trials on which a score is learned
# Share of the largest variance: no direction's variance is taken to be smaller.
RELATIVE_RIDGE = 1e-12
LEAST_VARIANCE = 1e-80  # keeps a covariance of equal numbers invertible
Score = Callable[[Mapping[str, Array]], Array]
Fit = Callable[[Mapping[str, Array], Mapping[str, Array]], Score]


@dataclass(frozen=True, eq=False)
class GaussianScore:
    """The log-likelihood ratio of two normal laws fitted to features of either side, (trials, k).

    It is optimal if the features are normal (quadratic discriminant analysis); a bound from test
    trials is valid for any score.  Covariances are shrunk towards their diagonal by k over the
    number of trials, so that no direction looks noiseless by chance.
    Source: Friedman (1989), regularised discriminant analysis.
    """

    means: tuple[Array, Array]
    factors: tuple[Array, Array]

    @classmethod
    def fit(cls, first: Array, second: Array) -> GaussianScore:
        """Fit to features of the first and of the second data set."""
        sides = [_finite(first), _finite(second)]
        means = tuple(side.mean(axis=0) for side in sides)
        factors = tuple(_factor(side) for side in sides)
        return cls((means[0], means[1]), (factors[0], factors[1]))

    def __call__(self, features: Array) -> Array:
        """Scores, shape (trials,): large means the first data set."""
        values = _finite(features)
        log_density, two = (
            _log_density(values - mean, factor)
            for mean, factor in zip(self.means, self.factors, strict=True)
        )
        return np.asarray(log_density - two)


def attack_features(
    suite: Suite,
    task: Task,
    fit: Fit,
    *,
    seed: int,
    index: int = 0,
    trials: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    name: str,
) -> Attacked:
    """Run a task that returns features, fit a score on training trials, score the others.

    The score is fitted on training trials only, so a bound from the test scores is valid for any
    fit.  ``name`` labels the attack.
    Errors: as :func:`dpaudit.audit.engine.run_batches`.
    """
    certified = suite.trials if trials is None else trials
    training = max(LEAST_TRAINING, certified // 5)

    def run(batches: list[Batch]) -> Results:
        return run_batches(task, batches, root_seed=seed, jobs=jobs, progress=progress)

    results = run_independently(run, index, training, certified)
    gathered = {
        (part, side): _gathered(results, part, side)
        for part in (TRAINING, TEST)
        for side in (FIRST, SECOND)
    }
    score = fit(gathered[TRAINING, FIRST], gathered[TRAINING, SECOND])
    scores = {key: tidy([score(features)]) for key, features in gathered.items()}
    return Attacked(
        suite=suite,
        trials=certified,
        training_trials=training,
        seed=seed,
        attack=name,
        training=TrainingScores(scores[TRAINING, FIRST], scores[TRAINING, SECOND]),
        test=TestScores(scores[TEST, FIRST], scores[TEST, SECOND]),
        findings=(),
    )


def _gathered(results: Mapping[Any, Mapping[str, Any]], part: int, side: int) -> dict[str, Array]:
    rows = [results[key] for key in sorted(results) if key[1:3] == (side, part)]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def _finite(features: Array) -> Array:
    flat = np.asarray(features, dtype=np.float64).reshape(len(features), -1)
    return np.nan_to_num(flat, nan=0.0, posinf=1e100, neginf=-1e100)


def _factor(side: Array) -> Array:
    """A square root of the precision: columns over standard deviations in its own directions."""
    trials, width = side.shape
    covariance = np.atleast_2d(np.cov(side, rowvar=False)) if trials > 1 else np.eye(width)
    weight = min(1.0, width / trials)
    shrunk = (1 - weight) * covariance + weight * np.diag(np.diag(covariance))
    values, vectors = np.linalg.eigh(shrunk)
    least = max(float(values.max(initial=0.0)) * RELATIVE_RIDGE, LEAST_VARIANCE)
    return np.asarray(vectors / np.sqrt(np.maximum(values, least)))


def _log_density(centred: Array, factor: Array) -> Array:
    """Normal log density up to the constant that both sides share."""
    with np.errstate(over="ignore"):
        squares = np.square(centred @ factor).sum(axis=1)
    log_scale = -0.5 * float(np.log(np.square(factor).sum(axis=0)).sum())
    return np.asarray(-0.5 * np.minimum(squares, 1e200) - log_scale)

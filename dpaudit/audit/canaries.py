"""Audits that see scores of canaries and nothing else.

:func:`audit_scores`: two independent samples, scores of canaries that were in the data and of
canaries that were not, from as many independent runs.  :func:`audit_one_run`: one run with many
canaries, whose labels are drawn and committed to first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpaudit.audit.binormal import choose_smoothed
from dpaudit.audit.canary_means import Means, choose_means
from dpaudit.audit.canary_results import ScoresAudit, judged
from dpaudit.audit.canary_terms import CanaryTerms, Target
from dpaudit.audit.estimators import Counts, TestScores, TrainingScores, _scores
from dpaudit.audit.one_run_audit import OneRunAudit, audit_one_run
from dpaudit.audit.power import limit_of_scores, smallest_epsilon
from dpaudit.audit.selection import Event, Sizes, epsilon_needed, mu_needed
from dpaudit.errors import InvalidParameter

__all__ = ["OneRunAudit", "ScoresAudit", "audit_one_run", "audit_scores"]

FloatArray = npt.NDArray[np.float64]

TRAINING_SHARE = 0.1
_LARGEST = float(np.finfo(np.float64).max)


def audit_scores(
    scores_in: npt.ArrayLike,
    scores_out: npt.ArrayLike,
    *,
    claim: object,
    independent_runs: bool,
    confidence: float = 0.95,
    refute_at: float = 1e-4,
    seed: int = 0,
) -> ScoresAudit:
    """Test a claim on scores of canaries in the data and of canaries left out, shape (trials,).

    A share of both samples, drawn by ``seed``, chooses a threshold and a direction; the rest counts
    it, and the exact joint test of :mod:`dpaudit.audit.joint` compares the counts with the claim's
    region.  Claims of zCDP and of a Renyi divergence are tested on means of the score instead where
    those promise more (:mod:`dpaudit.audit.canary_means`).  ``lower`` and the verdict may rest on
    different choices: each is valid at its own error rate.  ``claim``: PureDP, ApproxDP, ZCDP,
    RenyiDP or GDP.

    ``independent_runs``: say True where every score comes from a run of its own, and each "in"
    differs from an "out" by one neighbouring step; no bound holds without that, nothing in the
    scores shows it, and the result repeats it.  Scores of many canaries in one run are dependent:
    :func:`audit_one_run` is for them.

    Errors: InvalidParameter unless ``independent_runs`` is True; for an empty sample, NaN (infinite
    scores are allowed), another shape, a bad claim or seed, a confidence outside (0.5, 1),
    ``refute_at`` outside [1e-12, 0.5).
    Source: Nasr et al. (2023) for audits by canaries; Berger and Boos (1994) for the test.
    """
    if independent_runs is not True:
        raise InvalidParameter(
            f"independent_runs = {independent_runs!r}: the bounds of audit_scores hold for scores "
            "of independent runs only, say True where they are; scores of many canaries in one run "
            "go to audit_one_run"
        )
    terms = CanaryTerms.of(claim, confidence, refute_at, seed)
    samples = _scores(scores_in, "scores_in"), _scores(scores_out, "scores_out")
    training, test = _split(samples, seed)
    shown, decisive = (
        _choose(training, test, terms.target, error) for error in (terms.shown, terms.refute_at)
    )
    limit = limit_of_scores(*samples, terms.target.delta, terms.shown)
    return replace(_scores_result(terms, test, shown, decisive, training), limit=limit)


@dataclass(frozen=True)
class _Chosen:
    """The event "score > threshold"; ``favours`` 0 is "in", 1 is "out".

    "At most" adds nothing: the region of a claim is the same for complements under (Q, P).
    ``means``: what is bet on in its place, where training says that it shows more.
    """

    threshold: float
    favours: int
    means: Means | None = None

    def count(self, test: TestScores) -> Counts:
        sides = (test.alternative, test.null)
        mine, other = sides[self.favours], sides[1 - self.favours]
        fired = int(np.count_nonzero(other > self.threshold))
        return Counts(fired, other.size, int(np.count_nonzero(mine <= self.threshold)), mine.size)

    def lower(self, target: Target, test: TestScores, error: float) -> float:
        """Lower bound in the claim's measure, wrong with probability at most ``error``."""
        if self.means is not None:
            return self.means.lower(test, error)
        return target.lower(self.count(test), error)

    def p_value(self, target: Target, test: TestScores, error: float) -> float:
        if self.means is not None:
            return min(1.0, self.means.p_value(test, target.claimed))
        return min(1.0, target.p_value(self.count(test), error))

    def strongest(self, target: Target, test: TestScores, error: float) -> float:
        """The largest bound that these trials could have given."""
        sizes = test.alternative.size, test.null.size
        most = target.strongest(*(sizes if self.favours == 0 else sizes[::-1]), error)
        return most if self.means is None else max(most, self.means.strongest(*sizes, error))


def _split(
    samples: tuple[FloatArray, FloatArray], seed: int
) -> tuple[TrainingScores | None, TestScores]:
    """A random share of each sample for training; None where a sample has but one score."""
    if min(x.size for x in samples) < 2:
        return None, TestScores(*samples)
    rng = np.random.default_rng(seed)
    # Infinite scores become the largest floats, which have a threshold between them.
    mixed = [np.clip(rng.permutation(x), -_LARGEST, _LARGEST) for x in samples]
    cut = [max(1, int(TRAINING_SHARE * x.size)) for x in mixed]
    training, test = (
        [x[part] for x, part in zip(mixed, parts, strict=True)]
        for parts in ([slice(None, n) for n in cut], [slice(n, None) for n in cut])
    )
    return TrainingScores(*training), TestScores(*test)


def _choose(
    training: TrainingScores | None, test: TestScores, target: Target, error: float
) -> _Chosen:
    """The event of the largest bound predicted at ``error``, in either direction.

    Where a sample is one score there is no training: the event is "above 0", fixed beforehand.
    Bounds on rho and Renyi divergences are ordered as those on mu are.
    """
    if training is None:
        return _Chosen(0.0, 0)
    sizes = test.alternative.size, test.null.size
    event, favours = _event(training, sizes, target, error)
    means = choose_means(training, target.guarantee, min(sizes), error)
    if means is None or means.promised <= _promised(event, sizes, favours, target, error):
        return _Chosen(event.threshold, favours)
    return _Chosen(event.threshold, favours, means)


def _event(
    training: TrainingScores, sizes: tuple[int, int], target: Target, error: float
) -> tuple[Event, int]:
    """The event of the largest bound predicted, and the sample it favours."""
    needed = epsilon_needed(target.delta) if target.measure == "epsilon" else mu_needed
    mirrored = TrainingScores(training.null, training.alternative)
    first = choose_smoothed(training, Sizes(*sizes), error, needed)
    second = choose_smoothed(mirrored, Sizes(*sizes[::-1]), error, needed)
    return (second, 1) if second.predicted > first.predicted else (first, 0)


def _promised(
    event: Event, sizes: tuple[int, int], favours: int, target: Target, error: float
) -> float:
    """The bound at the counts that training expects."""
    trials, others = sizes if favours == 0 else sizes[::-1]
    missed, fired = round((1 - event.rate) * trials), round(event.other_rate * others)
    return target.lower(Counts(fired, others, missed, trials), error)


def _scores_result(
    terms: CanaryTerms,
    test: TestScores,
    shown: _Chosen,
    decisive: _Chosen,
    training: TrainingScores | None,
) -> ScoresAudit:
    target, error = terms.target, terms.refute_at
    counts, refuting = shown.count(test), decisive.count(test)
    p_value = decisive.p_value(target, test, error)
    mine, other = refuting.trials_alternative, refuting.trials_null
    bound = decisive.lower(target, test, error)
    achievable = decisive.strongest(target, test, error)
    lower = shown.lower(target, test, terms.shown)
    is_epsilon = target.measure == "epsilon"
    epsilon = lower if is_epsilon else target.epsilon_lower(counts, terms.shown)
    smallest = smallest_epsilon(Sizes(mine, other), target.region.reference, target.delta, error)
    words = f"; {mine:,} and {other:,} test scores show it from an epsilon of about {smallest:.4g}"
    # The p-value decides; the bound at the same counts may stop a little below the claim.
    return ScoresAudit(
        **judged(target.claimed, bound, achievable, words, refuted=p_value <= error),
        claim=target.words,
        measure=target.measure,
        claimed=target.claimed,
        delta=target.delta,
        lower=lower,
        decisive=bound,
        epsilon_lower=epsilon,
        confidence=terms.confidence,
        refute_at=error,
        achievable=achievable,
        seed=terms.seed,
        p_value=p_value,
        threshold=decisive.threshold,
        favours=("in", "out")[decisive.favours],
        hits=mine - refuting.false_negatives,
        trials=mine,
        other_hits=refuting.false_positives,
        other_trials=other,
        training=(training.alternative.size, training.null.size) if training else (0, 0),
        smallest_epsilon=smallest,
        limit=math.inf,
        means="" if decisive.means is None else decisive.means.words,
    )

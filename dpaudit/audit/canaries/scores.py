"""Audits that see scores of canaries and nothing else.

:func:`audit_scores`: two samples, scores of canaries that were in the data and of canaries that
were not; what can be made of them depends on where they come from, which it asks.
:func:`audit_one_run`: one run with many canaries, whose labels are drawn and committed to first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from dpaudit.audit.bounds.binormal import choose_smoothed
from dpaudit.audit.bounds.estimators import Counts, TestScores, TrainingScores, _scores
from dpaudit.audit.bounds.power import limit_of_scores, smallest_epsilon
from dpaudit.audit.bounds.selection import Event, Sizes, epsilon_needed, mu_needed
from dpaudit.audit.canaries.commitment import Labels
from dpaudit.audit.canaries.means import Means, choose_means
from dpaudit.audit.canaries.one_run import OneRunAudit, audit_one_run
from dpaudit.audit.canaries.results import OneRunResult, ScoresAudit, ScoresEstimate, judged
from dpaudit.audit.canaries.terms import CanaryTerms, ScoreTest
from dpaudit.audit.roc import FALSE_POSITIVE_RATES, advantage, area, true_positive_rate_at
from dpaudit.errors import InvalidParameter

__all__ = [
    "OneRunAudit",
    "Origin",
    "ScoresAudit",
    "ScoresEstimate",
    "audit_one_run",
    "audit_scores",
]

FloatArray = npt.NDArray[np.float64]

TRAINING_SHARE = 0.1  # share of the scores on which a threshold is chosen
_LARGEST = float(np.finfo(np.float64).max)


class Origin(StrEnum):
    """How two samples of scores came about, which decides what may be made of them.

    ``independent_runs``: every score is of a run of its own.  ``one_run``: all are of one run, with
    labels that :func:`dpaudit.audit.canaries.commitment.commit` drew before it.  ``neither``:
    members and non-members that somebody else chose, or scores of runs that share anything.
    """

    INDEPENDENT_RUNS = "independent_runs"
    ONE_RUN = "one_run"
    NEITHER = "neither"


@overload
def audit_scores(
    scores_in: npt.ArrayLike,
    scores_out: npt.ArrayLike,
    *,
    origin: Literal["independent_runs"],
    claim: object,
    confidence: float | str = ...,
    refute_at: float | str = ...,
    seed: int = ...,
) -> ScoresAudit: ...
@overload
def audit_scores(
    scores_in: npt.ArrayLike,
    scores_out: npt.ArrayLike,
    *,
    origin: Literal["one_run"],
    claim: object,
    labels: Labels | None,
    confidence: float | str = ...,
    refute_at: float | str = ...,
    seed: int = ...,
) -> OneRunResult: ...
@overload
def audit_scores(
    scores_in: npt.ArrayLike,
    scores_out: npt.ArrayLike,
    *,
    origin: Literal["neither"],
    claim: object = ...,
) -> ScoresEstimate: ...
@overload
def audit_scores(
    scores_in: npt.ArrayLike,
    scores_out: npt.ArrayLike,
    *,
    origin: str,
    claim: object = ...,
    labels: Labels | None = ...,
    confidence: float | str = ...,
    refute_at: float | str = ...,
    seed: int = ...,
) -> ScoresAudit | OneRunResult | ScoresEstimate: ...
def audit_scores(
    scores_in: npt.ArrayLike,
    scores_out: npt.ArrayLike,
    *,
    origin: str,
    claim: object = None,
    labels: Labels | None = None,
    confidence: float | str = 0.95,
    refute_at: float | str = 1e-4,
    seed: int = 0,
) -> ScoresAudit | OneRunResult | ScoresEstimate:
    """Test a claim on scores of canaries in the data and of canaries left out, shape (trials,).

    ``origin`` (:class:`Origin`) says how the scores came about; no bound can tell by itself, and a
    fixed scorer that never saw the data separates members from non-members that drifted.

    *independent_runs*: each score of a run of its own, each "in" one neighbouring step from an
    "out", on the caller's word.  A share of both samples, drawn by ``seed``, chooses a threshold
    and a direction; the rest counts it, and the exact joint test of
    :mod:`dpaudit.audit.bounds.joint` compares the counts with the claim's region.  Claims of zCDP
    and of a Renyi divergence are tested on means of the score instead where those promise more
    (:mod:`dpaudit.audit.canaries.means`).  ``lower`` and the verdict may rest on different choices:
    each is valid at its own error rate.  *one_run*: ``labels`` are those the library drew and
    committed to before the run; ``scores_in`` are in the order of the canaries included,
    ``scores_out`` of the others, and the bound is that of :func:`audit_one_run`.  *neither*: an
    estimate, without bound or verdict.  ``claim``: PureDP, ApproxDP, ZCDP, RenyiDP or GDP.

    Errors: InvalidParameter for an empty sample, NaN (infinite scores are allowed), another shape,
    scores that are all the same, another origin, labels that are missing, superfluous or of other
    numbers, a bad claim or seed, a confidence outside (0.5, 1), ``refute_at`` outside [1e-12, 0.5).
    Source: Nasr et al. (2023) for audits by canaries; Berger and Boos (1994) for the test.

    >>> import dpaudit as dp, numpy as np
    >>> rng = np.random.default_rng(1)
    >>> audit = dp.audit_scores(
    ...     rng.normal(3, 1, 2_000),
    ...     rng.normal(0, 1, 2_000),
    ...     origin="independent_runs",
    ...     claim=dp.GDP(1),
    ... )
    >>> str(audit.verdict), audit.lower > 2
    ('refuted', True)
    """
    if origin not in list(Origin):
        raise InvalidParameter(f"origin = {origin!r}: expected one of {', '.join(Origin)}")
    samples = _scores(scores_in, "scores_in"), _scores(scores_out, "scores_out")
    first = samples[0][0]
    if sum(side.size for side in samples) > 2 and all((side == first).all() for side in samples):
        raise InvalidParameter(
            f"scores_in, scores_out: all {first:g}; the same for every trial tells nothing"
        )
    if labels is not None and origin != Origin.ONE_RUN:
        raise InvalidParameter(f"labels: they belong to one_run; the origin is {origin!r}")
    if origin == Origin.NEITHER:
        return estimated(*samples, _NOT_DRAWN)
    terms = CanaryTerms.of(claim, confidence, refute_at, seed)
    if origin == Origin.ONE_RUN:
        return _of_one_run(samples, labels, terms)
    training, test = _split(samples, seed)
    shown, decisive = (
        _choose(training, test, terms.target, error) for error in (terms.shown, terms.refute_at)
    )
    limit = limit_of_scores(*samples, terms.target.delta, terms.shown)
    return replace(_scores_result(terms, test, shown, decisive, training), limit=limit)


_NOT_DRAWN = (
    "who is a member was not drawn by coins of this library, nor is each score of a run of its own,"
    " so that members may differ from non-members in more than having been seen; for a bound let"
    " dpaudit.audit.canaries.commitment.commit draw the labels before training"
)


def estimated(scores_in: FloatArray, scores_out: FloatArray, reason: str) -> ScoresEstimate:
    """The two samples' operating characteristics, with the reason why they are no bound."""
    return ScoresEstimate(
        reason=reason,
        auc=area(scores_in, scores_out),
        advantage=advantage(scores_in, scores_out),
        true_positive_rates=tuple(
            (rate, true_positive_rate_at(scores_in, scores_out, rate))
            for rate in FALSE_POSITIVE_RATES
        ),
        members=scores_in.size,
        non_members=scores_out.size,
    )


def _of_one_run(
    samples: tuple[FloatArray, FloatArray], labels: Labels | None, terms: CanaryTerms
) -> OneRunResult:
    if labels is None:
        raise InvalidParameter(
            "labels: one_run needs those that commit() drew before the run; without them say "
            "origin='neither', for an estimate"
        )
    included = labels.included
    expected = int(included.sum()), int((~included).sum())
    if expected != tuple(side.size for side in samples):
        raise InvalidParameter(
            f"scores: {samples[0].size} in and {samples[1].size} out; the labels include "
            f"{expected[0]} canaries and leave out {expected[1]}"
        )
    scores = np.empty(labels.canaries)
    scores[included], scores[~included] = samples
    return OneRunAudit(labels.canaries, terms, None).bound(scores, labels)


@dataclass(frozen=True)
class _Chosen:
    """The event "score > threshold"; ``favours``: the sample in which it is likelier (0 in, 1 out).

    The event "score <= threshold" would add nothing: it is the complement, and a claim allows the
    same for complements with the samples exchanged.
    ``means``: a test on means of the scores that replaces the event, if training favours it.
    """

    threshold: float
    favours: int
    means: Means | None = None

    def count(self, test: TestScores) -> Counts:
        sides = (test.alternative, test.null)
        mine, other = sides[self.favours], sides[1 - self.favours]
        fired = int(np.count_nonzero(other > self.threshold))
        return Counts(fired, other.size, int(np.count_nonzero(mine <= self.threshold)), mine.size)

    def lower(self, target: ScoreTest, test: TestScores, error: float) -> float:
        """Lower bound in the claim's measure, wrong with probability at most ``error``."""
        if self.means is not None:
            return self.means.lower(test, error)
        return target.lower(self.count(test), error)

    def p_value(self, target: ScoreTest, test: TestScores, error: float) -> float:
        if self.means is not None:
            return min(1.0, self.means.p_value(test, target.claimed))
        return min(1.0, target.p_value(self.count(test), error))

    def strongest(self, target: ScoreTest, test: TestScores, error: float) -> float:
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
    training: TrainingScores | None, test: TestScores, target: ScoreTest, error: float
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
    training: TrainingScores, sizes: tuple[int, int], target: ScoreTest, error: float
) -> tuple[Event, int]:
    """The event of the largest bound predicted, and the sample it favours."""
    needed = epsilon_needed(target.delta) if target.measure == "epsilon" else mu_needed
    mirrored = TrainingScores(training.null, training.alternative)
    first = choose_smoothed(training, Sizes(*sizes), error, needed)
    second = choose_smoothed(mirrored, Sizes(*sizes[::-1]), error, needed)
    return (second, 1) if second.predicted > first.predicted else (first, 0)


def _promised(
    event: Event, sizes: tuple[int, int], favours: int, target: ScoreTest, error: float
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
    """The audit's result: ``decisive`` gives p-value, bound and verdict, ``shown`` the shown bound.

    Each was chosen on the training scores for its own error: ``terms.refute_at`` and
    ``terms.shown``.
    """
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

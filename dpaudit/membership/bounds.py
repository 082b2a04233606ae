"""Lower bounds from the scores of many models, valid however records of one model depend.

A study draws a fair coin for each unit in each model.  Training all models is one mechanism of all
those coins, in which flipping one coin changes one model by one step between neighbours; so

* *one run*: guesses of the target models' coins, pooled over models, obey the theorem of
  :mod:`dpaudit.audit.bounds.one_run` with (target models) x (units in play) canaries.  Nothing is
  assumed about the dependence of records that share a model.
* *independent runs*: one unit, chosen beforehand, has one independent trial a target model: two
  binomial counts, and Clopper-Pearson.  All other units are part of the mechanism's randomness.

Which units are in play, how many guesses are made (so: who is abstained on), the threshold, and
which of the two bounds is used, are chosen on *reference* models; their coins are open from the
start and never counted.  Attacks see no coin of a target.

*multiplied*: runs one after the other, each with an e-value against the claim, multiplied; valid at
any time one stops.  Given the past, with p(v) the p-value of "at least v correct", any
non-decreasing f >= 0 has E f(correct) <= f(0) + sum over v >= 1 of (f(v) - f(v - 1)) p(v), by
summation by parts; f over that sum is an e-value.

Sources: Steinke, Nasr and Jagielski (2023); Clopper and Pearson (1934); Ville (1939).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, ndtri

from dpaudit.audit.bounds.binormal import choose_smoothed
from dpaudit.audit.bounds.estimators import (
    Counts,
    TestScores,
    TrainingScores,
    count_errors,
    epsilon_lower,
    mu_lower,
)
from dpaudit.audit.bounds.guessing import Sealed, _best_number, _fit
from dpaudit.audit.bounds.one_run import one_run_epsilon_lower, one_run_p_value, one_run_price
from dpaudit.audit.bounds.one_run_curves import one_run_mu_lower
from dpaudit.audit.bounds.selection import Sizes, epsilon_needed, mu_needed
from dpaudit.audit.canaries.terms import ScoreTest
from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import FloatArray

BoolArray = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]

FEWEST_UNITS = 8
MOST_ODDS = 20_000
_LEAST_A_SIDE = 4
_SEARCHED = 10**7


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on ``measure`` (epsilon at ``delta``, or mu), wrong with probability ``error``.

    ``method``: one_run, with counts correct, guesses, canaries; or independent_runs, with counts
    false_positives, trials_null, false_negatives, trials_alternative.  ``witness``: the numbers
    from which a checker confirms it.
    """

    method: str
    measure: str
    value: float
    delta: float
    error: float
    counts: Mapping[str, int]
    witness: Mapping[str, float] = field(default_factory=dict)

    @property
    def words(self) -> str:
        c = self.counts
        if self.method == "one_run":
            return (
                f"{c['correct']:,} of {c['guesses']:,} guesses correct, {c['canaries']:,} coins in "
                "play"
            )
        hits = c["trials_alternative"] - c["false_negatives"]
        return (
            f"{hits:,} of {c['trials_alternative']:,} models with the record above the threshold, "
            f"{c['false_positives']:,} of {c['trials_null']:,} without"
        )


@dataclass(frozen=True, eq=False)
class Known:
    """Scores and coins of reference models, (references, units): all that choices are made on."""

    scores: FloatArray
    included: BoolArray


@dataclass(frozen=True, eq=False)
class Guessing:
    """Which units are guessed, how often in all, and the odds of a score; from references alone."""

    units: Places
    guesses: int
    odds: Callable[[FloatArray], Any]
    promised: float


@dataclass(frozen=True)
class Trial:
    """One unit and an event on its score; ``favours`` 1: members score low."""

    unit: int
    threshold: float
    favours: int
    promised: float


# --- one run -------------------------------------------------------------------------------------


def choose_guessing(known: Known, targets: int, target: ScoreTest, error: float) -> Guessing:
    """The units and the number of guesses that promise the most from ``targets`` models.

    Odds are a logistic model of all reference scores in normal ranks; a unit's worth is how much
    its own reference coins would have been told by them.
    """
    odds = _odds(known)
    told = odds(known.scores)
    worth = np.mean(log_expit(np.where(known.included, told, -told)), axis=0)
    order = np.argsort(-worth, kind="stable")
    best: Guessing | None = None
    for count in _subset_sizes(order.size, target.delta):
        units = np.sort(order[:count])
        canaries = targets * count
        # As many odds as there will be guesses to choose from, in the references' proportions.
        size = min(canaries, MOST_ODDS)
        ordered = -np.sort(-np.abs(told[:, units]), axis=None)
        sample = ordered[((np.arange(size) + 0.5) / size * ordered.size).astype(int)]
        scale = canaries / size
        number = max(1, round(_best_number(sample, canaries, target.delta, error) * scale))
        number = min(number, canaries)
        expected = float(np.sum(expit(sample[: max(1, round(number / scale))]))) * scale
        promised = one_run_lower(target, (int(expected), number, canaries), error)
        if best is None or promised > best.promised:
            best = Guessing(units, number, odds, promised)
    assert best is not None  # noqa: S101 (there is at least one size)
    return best


def _subset_sizes(units: int, delta: float) -> list[int]:
    """All units; where delta costs by the coin, also the half, the quarter, ... most telling."""
    sizes = [units]
    while delta > 0 and sizes[-1] // 2 >= FEWEST_UNITS:
        sizes.append(sizes[-1] // 2)
    return sizes


def _odds(known: Known) -> Callable[[FloatArray], Any]:
    flat = np.sort(known.scores, axis=None)

    def ranks(scores: FloatArray) -> FloatArray:
        below = np.searchsorted(flat, scores, "left")
        above = np.searchsorted(flat, scores, "right")
        # Beyond the references' ends: half a score.
        return np.asarray(ndtri(np.clip((below + above) / 2, 0.5, flat.size - 0.5) / flat.size))

    scores, labels = known.scores.ravel(), known.included.ravel()
    chosen: Places = np.arange(scores.size)
    if scores.size > MOST_ODDS:
        chosen = np.random.default_rng(0).choice(scores.size, MOST_ODDS, replace=False)
    rank = ranks(scores[chosen])
    fitted = _fit(rank, np.arange(rank.size), labels[chosen])

    def odds(at: FloatArray) -> Any:
        return fitted(ranks(at).ravel()).reshape(np.shape(at))

    return odds


def count_guesses(
    chosen: Guessing, scores: FloatArray, sealed: Sealed, seed: int
) -> tuple[int, int, int]:
    """(correct, guesses, canaries): the surest guesses of the chosen units in all target models.

    ``scores`` (targets, units); ``sealed``: the coins, flattened from (targets, units).
    """
    targets, units = scores.shape
    odds = chosen.odds(scores[:, chosen.units]).ravel()
    places = (np.arange(targets)[:, None] * units + chosen.units).ravel()
    lot = np.random.default_rng(seed).random(odds.size)
    surest = np.lexsort((lot, -np.abs(odds)))[: chosen.guesses]
    # Odds of exactly 0 are guessed by lot.
    guessed_in = np.where(odds == 0, lot < 0.5, odds > 0)[surest]
    correct = sealed.count(places[surest], guessed_in)
    return correct, chosen.guesses, int(odds.size)


def one_run_lower(target: ScoreTest, counted: tuple[int, int, int], error: float) -> float:
    """The one-run bound in the claim's measure; the number of guesses is fixed beforehand."""
    if target.measure == "mu":
        return one_run_mu_lower(*counted, error)
    return one_run_epsilon_lower(*counted, target.delta, error)


def one_run_bound(target: ScoreTest, counted: tuple[int, int, int], error: float) -> LowerBound:
    """The bound with its witness, the price of a unit of cost at the bound's epsilon."""
    value = one_run_lower(target, counted, error)
    witness = {}
    if target.measure == "epsilon":
        witness["price"] = one_run_price(*counted, value, target.delta) if value > 0 else 0.0
    counts = dict(zip(("correct", "guesses", "canaries"), counted, strict=True))
    return LowerBound("one_run", target.measure, value, target.delta, error, counts, witness)


# --- independent runs of one unit ----------------------------------------------------------------


def choose_trial(known: Known, targets: int, target: ScoreTest, error: float) -> Trial | None:
    """The unit and the event on its score that promise the most; None where sides are too small."""
    best: Trial | None = None
    # How many deviations apart a unit's scores in and out are on the references.
    inside = known.included
    counts = np.maximum(inside.sum(axis=0), 1), np.maximum((~inside).sum(axis=0), 1)
    means = [
        np.where(side, known.scores, 0).sum(axis=0) / count
        for side, count in zip((inside, ~inside), counts, strict=True)
    ]
    spread = known.scores.std(axis=0) + 1e-12
    separated = np.abs((means[0] - means[1]) / spread)
    for unit in np.argsort(-separated)[:FEWEST_UNITS]:
        trial = _trial(known, int(unit), targets, target, error)
        if trial is not None and (best is None or trial.promised > best.promised):
            best = trial
    return best


def _trial(known: Known, unit: int, targets: int, target: ScoreTest, error: float) -> Trial | None:
    inside = known.included[:, unit]
    if min(inside.sum(), (~inside).sum()) < _LEAST_A_SIDE:
        return None
    scores = known.scores[:, unit]
    half = max(1, targets // 2)
    needed = epsilon_needed(target.delta) if target.measure == "epsilon" else mu_needed
    best: Trial | None = None
    for favours in (0, 1):
        sides = (scores[inside], scores[~inside])
        training = TrainingScores(*(sides if favours == 0 else sides[::-1]))
        event = choose_smoothed(training, Sizes(half, half), error, needed)
        missed, fired = round((1 - event.rate) * half), round(event.other_rate * half)
        promised = runs_lower(target, Counts(fired, half, missed, half), error)
        if best is None or promised > best.promised:
            best = Trial(unit, event.threshold, favours, promised)
    return best


def runs_lower(target: ScoreTest, counts: Counts, error: float) -> float:
    """Clopper-Pearson in the claim's measure."""
    if target.measure == "mu":
        return mu_lower(counts, error).mu_lower
    return epsilon_lower(counts, target.delta, error).epsilon_lower


def runs_bound(
    trial: Trial, scores: FloatArray, included: BoolArray, target: ScoreTest, error: float
) -> LowerBound:
    """The bound from one unit's scores in the target models; no bound (0) where a side is empty."""
    inside = included[:, trial.unit]
    own = scores[:, trial.unit]
    if inside.all() or not inside.any():
        counts = {"false_positives": 0, "trials_null": 0, "false_negatives": 0}
        counts |= {"trials_alternative": 0}
        return LowerBound("independent_runs", target.measure, 0.0, target.delta, error, counts)
    sides = (own[inside], own[~inside])
    test = TestScores(*(sides if trial.favours == 0 else sides[::-1]))
    found = count_errors(test, trial.threshold)
    if target.measure == "mu":
        by_mu = mu_lower(found, error, written=True)
        value, rates = by_mu.mu_lower, by_mu
    else:
        by_epsilon = epsilon_lower(found, target.delta, error, written=True)
        value, rates = by_epsilon.epsilon_lower, by_epsilon  # type: ignore[assignment]
    return LowerBound(
        "independent_runs",
        target.measure,
        value,
        target.delta,
        error,
        {
            "false_positives": found.false_positives,
            "trials_null": found.trials_null,
            "false_negatives": found.false_negatives,
            "trials_alternative": found.trials_alternative,
        },
        {
            "threshold": trial.threshold,
            "false_positive_rate_upper": rates.false_positive_rate_upper,
            "false_negative_rate_upper": rates.false_negative_rate_upper,
        },
    )


# --- the better of the two, chosen on references -------------------------------------------------


def bound_of(
    known: Known,
    scores: FloatArray,
    included: BoolArray,
    target: ScoreTest,
    error: float,
    seed: int,
) -> LowerBound:
    """The bound at ``error`` from target scores and coins, (targets, units).

    Every choice is made on ``known``; the coins are sealed until the guesses are made.
    """
    targets = scores.shape[0]
    guessing = choose_guessing(known, targets, target, error)
    trial = choose_trial(known, targets, target, error)
    if trial is not None and trial.promised > guessing.promised:
        return runs_bound(trial, scores, included, target, error)
    sealed = Sealed(np.ascontiguousarray(included).ravel())
    return one_run_bound(target, count_guesses(guessing, scores, sealed, seed), error)


def strongest(target: ScoreTest, targets: int, units: int, error: float) -> float:
    """The largest bound that this many target models and units could give: no guess wrong."""
    coins = targets * units
    pooled = max(
        one_run_lower(target, (number, number, max(number, targets)), error)
        for number in {coins, max(1, coins // 4), max(1, coins // 16)}
    )
    half = targets // 2
    single = runs_lower(target, Counts(0, half, 0, targets - half), error) if half else 0.0
    return max(pooled, single)


def coins_needed(target: ScoreTest, error: float) -> int | None:
    """The fewest coins (models x units) of which a bound above the claim can come; None: none."""
    number = 1
    while number <= _SEARCHED:
        if one_run_lower(target, (number, number, number), error) > target.claimed:
            low, high = number // 2, number
            while high - low > 1:
                middle = (low + high) // 2
                reached = one_run_lower(target, (middle, middle, middle), error) > target.claimed
                low, high = (low, middle) if reached else (middle, high)
            return high
        number *= 2
    return None


# --- runs multiplied -----------------------------------------------------------------------------


def run_log_e_value(
    correct: int, guesses: int, canaries: int, epsilon: float, delta: float, expected: float
) -> float:
    """Log of an e-value of one run against (epsilon, delta)-DP; ``guesses`` fixed beforehand.

    ``expected``: the share of correct guesses hoped for, from earlier runs; it costs power alone.
    Errors: as :func:`dpaudit.audit.bounds.one_run.one_run_p_value`; InvalidParameter unless 0 <
    expected < 1.
    """
    if not 0 < expected < 1:
        raise InvalidParameter(f"expected = {expected!r}: expected a share in (0, 1)")
    allowed = float(expit(epsilon))
    rate = max(expected, allowed)
    gain, loss = math.log(rate / allowed), math.log1p(-rate) - math.log1p(-allowed)
    counts = np.arange(guesses + 1)
    logs = counts * gain + (guesses - counts) * loss
    if gain == 0:
        return 0.0
    top = float(logs.max())
    values = np.exp(logs - top)
    tails = np.array(
        [one_run_p_value(v, guesses, canaries, epsilon, delta) for v in range(1, guesses + 1)]
    )
    mean = values[0] + float(np.sum(np.diff(values) * tails))
    return float(np.log(values[correct] / mean)) - 1e-9


def multiplied_lower(
    runs: Sequence[tuple[int, int, int]],
    epsilons: Sequence[float],
    *,
    delta: float,
    error: float,
    expected: float,
) -> float:
    """The largest epsilon of an increasing list such that it and all before it are refuted.

    ``runs``: (correct, guesses, canaries) of independent runs, or of each given the past.  To be
    wrong the product against the smallest true claim must reach 1 / error: Ville (1939).
    """
    if not epsilons or any(b <= a for a, b in pairwise(epsilons)):
        raise InvalidParameter("epsilons: expected an increasing list")

    def refuted(epsilon: float) -> bool:
        log = math.fsum(run_log_e_value(*run, epsilon, delta, expected) for run in runs)
        return log >= -math.log(error)

    return max(takewhile(refuted, epsilons), default=0.0)

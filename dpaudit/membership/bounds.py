"""Lower bounds from the scores of many models; records of one model may depend on each other.

A study draws a fair coin for each unit in each model.  Training all models is one mechanism whose
input is all those coins: flipping one coin replaces one model's data set by a neighbour.  Hence two
bounds:

* *one run*: guesses of the target models' coins, pooled over models, obey the theorem of
  :mod:`dpaudit.audit.bounds.one_run` with (target models) x (chosen units) canaries.  The theorem
  assumes nothing about the dependence of records that share a model.
* *independent coins* and *independent runs*: one unit, chosen beforehand, has one independent coin
  in each target model.  A bound on epsilon comes from guesses of them
  (:mod:`dpaudit.membership.coins`), one on mu from two binomial counts and Clopper-Pearson limits.
  All other units count as randomness of the mechanism.

Reference models decide which units are used, how many guesses are made, the threshold, and which of
the two bounds is reported.  Their coins are known from the start and never counted.  Attacks see no
coin of a target model.

*multiplied*: independent or adaptive runs, each with an e-value against the claim.  The product of
the e-values is valid at any stopping time.  Proof that a run gives an e-value: let p(v) be the
p-value of "at least v correct" given the past.  Summation by parts gives, for any non-decreasing
f >= 0, E f(correct) <= f(0) + sum over v >= 1 of (f(v) - f(v - 1)) p(v); f over that sum is an
e-value.

Sources: Steinke, Nasr and Jagielski (2023); Clopper and Pearson (1934); Ville (1939); Gonzalez,
Dulce-Rubio, Ramdas and Ribero (2025).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
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
    epsilon_of_gaussian,
    mu_lower,
)
from dpaudit.audit.bounds.guessing import Sealed, _best_number, _fit
from dpaudit.audit.bounds.one_run import one_run_epsilon_lower, one_run_p_value, one_run_price
from dpaudit.audit.bounds.one_run_curves import one_run_mu_lower
from dpaudit.audit.bounds.selection import Sizes, mu_needed
from dpaudit.audit.bounds.weighted import mu_of_delta
from dpaudit.audit.canaries.terms import ScoreTest
from dpaudit.errors import InvalidParameter
from dpaudit.membership.coins import best_number, coins_lower, strongest_coins
from dpaudit.membership.data import FloatArray

BoolArray = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]

FEWEST_UNITS = 8  # in the smallest subset of units, and candidates for the runs of one unit
MOST_ODDS = 20_000  # scores used for fitting and choosing; more cost time and change little
_ALONE = 2  # units, the most telling ones, whose own coins are considered
_LEAST_ALONE = 64  # reference models: with fewer the most telling of many units is so by chance
_LEAST_A_SIDE = 4  # reference models with, and without, a unit before it is considered
# An imagined study: scores of references, the largest mu over the claim's, and the precision.
_SAMPLED, _MOST_TIMES, _PRECISION = 2**13, 10.0, 0.01
# Coins; the search for the number needed ends here.  A bound on mu takes far longer for each.
_SEARCHED = {"epsilon": 10**7, "mu": 10**4}


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on ``measure`` (epsilon at ``delta``, or mu), wrong with probability ``error``.

    ``method``: one_run or independent_coins, with counts correct, guesses, canaries; or
    independent_runs, with counts false_positives, trials_null, false_negatives and
    trials_alternative.  ``witness``: the numbers from which a checker confirms it.
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
        if self.method != "independent_runs":
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
    """Scores and coins of the reference models, (references, units); the basis of all choices."""

    scores: FloatArray
    included: BoolArray


@dataclass(frozen=True, eq=False)
class Guessing:
    """The guessed units, the total number of guesses, and the log odds of membership by score.

    ``promised``: the bound that the references predict.  All of it comes from references alone.
    ``alone``: the coins of one unit, which are independent.
    """

    units: Places
    guesses: int
    odds: Callable[[FloatArray], Any]
    promised: float
    alone: bool = False


@dataclass(frozen=True)
class Trial:
    """One unit and a threshold on its score; with ``favours`` 1 members score below it.

    ``promised``: the bound that the references predict.
    """

    unit: int
    threshold: float
    favours: int
    promised: float


# --- one run -------------------------------------------------------------------------------------


def choose_guessing(known: Known, targets: int, target: ScoreTest, error: float) -> Guessing:
    """The units and the number of guesses with the largest predicted bound from ``targets`` models.

    A logistic model of the reference scores, by normal ranks, gives the log odds of membership.
    Units are ranked by the mean log likelihood of their own reference coins under that model.
    """
    if target.measure == "epsilon" and known.scores.shape[1] == 1:
        return _alone(known, 0, targets, target.delta, error)
    odds = _odds(known)
    log_odds = odds(known.scores)
    mean_log_likelihood = np.mean(log_expit(np.where(known.included, log_odds, -log_odds)), axis=0)
    order = np.argsort(-mean_log_likelihood, kind="stable")
    best: Guessing | None = None
    for count in _subset_sizes(order.size, target.delta):
        units = np.sort(order[:count])
        canaries = targets * count
        # The odds expected among the targets: quantiles of the references' odds, at most MOST_ODDS.
        size = min(canaries, MOST_ODDS)
        ordered = -np.sort(-np.abs(log_odds[:, units]), axis=None)
        sample = ordered[((np.arange(size) + 0.5) / size * ordered.size).astype(int)]
        scale = canaries / size
        guesses = max(1, round(_best_number(sample, canaries, target.delta, error) * scale))
        guesses = min(guesses, canaries)
        expected = float(np.sum(expit(sample[: max(1, round(guesses / scale))]))) * scale
        promised = one_run_lower(target, (int(expected), guesses, canaries), error)
        if best is None or promised > best.promised:
            best = Guessing(units, guesses, odds, promised)
    assert best is not None  # noqa: S101 (there is at least one size)
    if target.measure == "epsilon" and len(known.scores) >= _LEAST_ALONE:
        for unit in order[:_ALONE]:
            single = _alone(known, int(unit), targets, target.delta, error)
            best = single if single.promised > best.promised else best
    return best


def _alone(scores: Known, unit: int, targets: int, delta: float, error: float) -> Guessing:
    """Guesses of one unit's coins by the odds of its own references."""
    own = Known(scores.scores[:, [unit]], scores.included[:, [unit]])
    odds = _odds(own)
    ordered = -np.sort(-np.abs(odds(own.scores)), axis=None)
    # The odds expected among the targets: quantiles of the references' odds.
    sample = ordered[((np.arange(targets) + 0.5) / targets * ordered.size).astype(int)]
    guesses, promised = best_number(sample, ordered.size, targets, delta, error)
    return Guessing(np.array([unit]), guesses, odds, promised, alone=True)


def _subset_sizes(units: int, delta: float) -> list[int]:
    """Sizes of subsets to try: all units, and with delta > 0 also half, a quarter, and so on.

    Each coin in play adds to the price of delta, so fewer and better units may give more.
    """
    sizes = [units]
    while delta > 0 and sizes[-1] // 2 >= FEWEST_UNITS:
        sizes.append(sizes[-1] // 2)
    return sizes


def _odds(references: Known) -> Callable[[FloatArray], Any]:
    flat = np.sort(references.scores, axis=None)

    def ranks(scores: FloatArray) -> FloatArray:
        below = np.searchsorted(flat, scores, "left")
        above = np.searchsorted(flat, scores, "right")
        # Half a score at either end keeps the normal quantile finite.
        return np.asarray(ndtri(np.clip((below + above) / 2, 0.5, flat.size - 0.5) / flat.size))

    scores, labels = references.scores.ravel(), references.included.ravel()
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
    """Count the most confident guesses on the chosen units: (correct, guesses, canaries).

    ``scores`` (targets, units); ``sealed``: the coins, flattened from (targets, units).
    """
    targets, units = scores.shape
    odds = chosen.odds(scores[:, chosen.units]).ravel()
    places = (np.arange(targets)[:, None] * units + chosen.units).ravel()
    lot = np.random.default_rng(seed).random(odds.size)
    surest = np.lexsort((lot, -np.abs(odds)))[: chosen.guesses]
    # Log odds of exactly 0 are guessed by a coin.
    guessed_in = np.where(odds == 0, lot < 0.5, odds > 0)[surest]
    correct = sealed.count(places[surest], guessed_in)
    return correct, chosen.guesses, int(odds.size)


def one_run_lower(target: ScoreTest, counted: tuple[int, int, int], error: float) -> float:
    """The one-run bound in the claim's measure, from (correct, guesses, canaries).

    The number of guesses must be fixed before any is checked.
    """
    if target.measure == "mu":
        return one_run_mu_lower(*counted, error)
    return one_run_epsilon_lower(*counted, target.delta, error)


def guessed_bound(
    chosen: Guessing, target: ScoreTest, counted: tuple[int, int, int], error: float
) -> LowerBound:
    """The bound of what :func:`count_guesses` counted."""
    if not chosen.alone:
        return one_run_bound(target, counted, error)
    value = float(coins_lower(*counted, target.delta, error)[0])
    counts = dict(zip(("correct", "guesses", "canaries"), counted, strict=True))
    return LowerBound("independent_coins", target.measure, value, target.delta, error, counts)


def one_run_bound(target: ScoreTest, counted: tuple[int, int, int], error: float) -> LowerBound:
    """The one-run bound with the checker's witness: its price at the bound's epsilon."""
    value = one_run_lower(target, counted, error)
    witness = {}
    if target.measure == "epsilon":
        witness["price"] = one_run_price(*counted, value, target.delta) if value > 0 else 0.0
    counts = dict(zip(("correct", "guesses", "canaries"), counted, strict=True))
    return LowerBound("one_run", target.measure, value, target.delta, error, counts, witness)


# --- independent runs of one unit ----------------------------------------------------------------


def choose_trial(known: Known, targets: int, error: float) -> Trial | None:
    """The unit and threshold with the largest predicted bound; None with too few references."""
    best: Trial | None = None
    # Units by the distance, in deviations, between their mean scores as members and otherwise.
    inside = known.included
    counts = np.maximum(inside.sum(axis=0), 1), np.maximum((~inside).sum(axis=0), 1)
    means = [
        np.where(side, known.scores, 0).sum(axis=0) / count
        for side, count in zip((inside, ~inside), counts, strict=True)
    ]
    spread = known.scores.std(axis=0) + 1e-12
    separated = np.abs((means[0] - means[1]) / spread)
    for unit in np.argsort(-separated)[:FEWEST_UNITS]:
        trial = _trial(known, int(unit), targets, error)
        if trial is not None and (best is None or trial.promised > best.promised):
            best = trial
    return best


def _trial(references: Known, unit: int, targets: int, error: float) -> Trial | None:
    inside = references.included[:, unit]
    if min(inside.sum(), (~inside).sum()) < _LEAST_A_SIDE:
        return None
    scores = references.scores[:, unit]
    half = max(1, targets // 2)
    best: Trial | None = None
    for favours in (0, 1):
        sides = (scores[inside], scores[~inside])
        training = TrainingScores(*(sides if favours == 0 else sides[::-1]))
        event = choose_smoothed(training, Sizes(half, half), error, mu_needed)
        missed, fired = round((1 - event.rate) * half), round(event.other_rate * half)
        promised = mu_lower(Counts(fired, half, missed, half), error).mu_lower
        if best is None or promised > best.promised:
            best = Trial(unit, event.threshold, favours, promised)
    return best


def runs_bound(
    trial: Trial, scores: FloatArray, included: BoolArray, target: ScoreTest, error: float
) -> LowerBound:
    """The bound from one unit's scores in the target models.

    It is 0 if all target models, or none, were trained on the unit.
    """
    inside = included[:, trial.unit]
    unit_scores = scores[:, trial.unit]
    if inside.all() or not inside.any():
        counts = {"false_positives": 0, "trials_null": 0, "false_negatives": 0}
        counts |= {"trials_alternative": 0}
        return LowerBound("independent_runs", target.measure, 0.0, target.delta, error, counts)
    member_and_other = (unit_scores[inside], unit_scores[~inside])
    test = TestScores(*(member_and_other if trial.favours == 0 else member_and_other[::-1]))
    error_counts = count_errors(test, trial.threshold)
    rates = mu_lower(error_counts, error, written=True)
    return LowerBound(
        "independent_runs",
        target.measure,
        rates.mu_lower,
        target.delta,
        error,
        {
            "false_positives": error_counts.false_positives,
            "trials_null": error_counts.trials_null,
            "false_negatives": error_counts.false_negatives,
            "trials_alternative": error_counts.trials_alternative,
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

    Every choice depends on ``known`` alone; the coins stay sealed until the guesses are made.
    """
    targets = scores.shape[0]
    guessing = choose_guessing(known, targets, target, error)
    trial = choose_trial(known, targets, error) if target.measure == "mu" else None
    if trial is not None and trial.promised > guessing.promised:
        return runs_bound(trial, scores, included, target, error)
    sealed = Sealed(np.ascontiguousarray(included).ravel())
    return guessed_bound(guessing, target, count_guesses(guessing, scores, sealed, seed), error)


def telling(known: Known) -> FloatArray:
    """How much the scores tell of each unit's coins, in nats a coin, (units,); at most 0."""
    odds = _odds(known)(known.scores)
    return np.asarray(np.mean(log_expit(np.where(known.included, odds, -odds)), axis=0))


def of_one_side(known: Known) -> int:
    """How many scores of a unit, at either end of them, are all of members or all of others."""
    most = 0
    for scores, included in zip(known.scores.T, known.included.T, strict=True):
        for side in (True, False):
            other = scores[included != side]
            if other.size:
                own = scores[included == side]
                ends = np.count_nonzero(own > other.max()), np.count_nonzero(own < other.min())
                most = max(most, *map(int, ends))
    return most


def promised(known: Known, targets: int, target: ScoreTest, error: float) -> float:
    """The bound of :func:`bound_of` for so many target models, judged on ``known`` alone."""
    trial = choose_trial(known, targets, error) if target.measure == "mu" else None
    pooled = choose_guessing(known, targets, target, error).promised
    return pooled if trial is None else max(pooled, trial.promised)


def noticed(target: ScoreTest, targets: int, units: int, error: float) -> float | None:
    """The least epsilon of Gaussian sums whose best attack promises a bound above the claim.

    To 1%; ``units`` of equal parts in each model.  None where ten times the claim's mu is too
    little, or the claim is of another measure or of delta 0.
    """
    least = mu_of_delta(target.claimed, target.delta) if target.measure == "epsilon" else 0.0
    if not least > 0:
        return None
    models = max(_LEAST_ALONE, _SAMPLED // units)
    included = np.arange(models * units) % 2 == 0
    quantiles = ndtri((np.arange(included.sum()) + 0.5) / included.sum())
    noise = np.empty(included.size)
    noise[included], noise[~included] = quantiles, quantiles
    order = np.random.default_rng(0).permutation(included.size)
    included, noise = (each[order].reshape(models, units) for each in (included, noise))

    def refuted(mu: float) -> bool:
        known = Known(mu * included + noise, included)
        return promised(known, targets, target, error) > target.claimed

    low, high = 0.0, math.log(_MOST_TIMES)
    if not refuted(least * _MOST_TIMES):
        return None
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(least * math.exp(middle)) else (middle, high)
    return epsilon_of_gaussian(least * math.exp(high), target.delta)


@lru_cache(maxsize=1_000)
def strongest(target: ScoreTest, targets: int, units: int, error: float) -> float:
    """The largest bound that this many target models and units can give: with every guess right."""
    coins = targets * units
    pooled = max(
        one_run_lower(target, (number, number, max(number, targets)), error)
        for number in {coins, max(1, coins // 4), max(1, coins // 16)}
    )
    if target.measure == "epsilon":
        return max(pooled, strongest_coins(targets, target.delta, error))
    half = targets // 2
    single = mu_lower(Counts(0, half, 0, targets - half), error).mu_lower if half else 0.0
    return max(pooled, single)


def coins_needed(target: ScoreTest, error: float) -> int | None:
    """The fewest coins (models x units) that can give a bound above the claim; None if none can."""
    number = 1
    while number <= _SEARCHED.get(target.measure, 0):
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

    ``expected``: the predicted share of correct guesses, from earlier runs; a bad prediction costs
    power, not validity.
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


def refused_after(
    known: Known, scores: FloatArray, included: BoolArray, target: ScoreTest, error: float
) -> int | None:
    """Target models until an anytime-valid test refuses the claim of epsilon; None if it does not.

    The test multiplies an e-value for each model, looks after each, and is wrong with probability
    at most ``error`` whenever it stops.  The number of guesses in each model, and the share that
    is expected to be correct, come from the references.
    Source: Ville (1939); Gonzalez et al. (2025), sequential audits.
    """
    targets = scores.shape[0]
    chosen = choose_guessing(known, targets, target, error)
    guesses = max(1, round(chosen.guesses / targets))

    def guessed(of: FloatArray, coins: BoolArray) -> npt.NDArray[np.intp]:
        odds = chosen.odds(of[:, chosen.units])
        surest = np.argsort(-np.abs(odds), axis=1, kind="stable")[:, :guesses]
        right = (odds > 0) == coins[:, chosen.units]
        return np.asarray(np.take_along_axis(right, surest, axis=1).sum(axis=1))

    in_references = guessed(known.scores, known.included)
    total = in_references.size * guesses
    expected = (float(in_references.sum()) + 1) / (total + 2)
    settings = (guesses, chosen.units.size, target.claimed, target.delta, expected)
    by_count = [run_log_e_value(correct, *settings) for correct in range(guesses + 1)]
    wealth = np.cumsum(np.take(by_count, guessed(scores, included)))
    reached = np.flatnonzero(wealth >= -math.log(error))
    return int(reached[0]) + 1 if reached.size else None

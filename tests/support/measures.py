"""How often each estimator's bound exceeds the truth, in independent runs under a true claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from dpaudit.audit.bounds import variational
from dpaudit.audit.bounds.bands import rates_upper, score_band
from dpaudit.audit.bounds.betting import bets_against, parameter_lower, play
from dpaudit.audit.bounds.estimators import (
    Counts,
    TestScores,
    TrainingScores,
    choose_threshold,
    count_errors,
    epsilon_lower,
)
from dpaudit.audit.bounds.guessing import Sealed, fixed_guesses, learned_guesses
from dpaudit.audit.bounds.joint import joint_epsilon_lower, joint_mu_lower, joint_rho_lower
from dpaudit.audit.bounds.one_run import chosen_epsilon_lower, one_run_epsilon_lower
from dpaudit.audit.bounds.selection import Sizes, choose_trained, epsilon_needed
from dpaudit.measures.region import ApproxRegion
from tests.support.nulls import ROUNDING, Null

ERROR = 0.05
# Training parts a cell, each shared by as many runs: what is measured is the mean over them.
PARTS = 4

Generator = np.random.Generator
Measure = Callable[[Null, int, int, Generator], tuple[int, ...]]
Pair = tuple[int, int]


# --- one event, fixed beforehand: binomial counts ------------------------------------------------


def count_refuted(outcomes: npt.NDArray[np.int64], refuted: Callable[[int, int], bool]) -> int:
    """Rows (hits, alarms) for which ``refuted`` holds, asked for as few distinct rows as possible.

    The answer is taken to grow with hits and to fall with alarms, as bounds of both counts do: a
    row with more hits and fewer alarms than a refuted one is refuted too, and conversely.
    """
    pairs, counts = np.unique(outcomes, axis=0, return_counts=True)
    spread = np.maximum(outcomes.std(axis=0), 0.5)
    excess = (pairs[:, 0] - outcomes[:, 0].mean()) / spread[0]
    excess = excess - (pairs[:, 1] - outcomes[:, 1].mean()) / spread[1]
    known, answer = np.zeros(len(pairs), dtype=bool), np.zeros(len(pairs), dtype=bool)
    low, high = float(excess.min()) - 1, float(excess.max()) + 1
    while not known.all():
        open_ = np.flatnonzero(~known)
        at = open_[np.argmin(np.abs(excess[open_] - (low + high) / 2))]
        hits, alarms = pairs[at]
        if refuted(int(hits), int(alarms)):
            high = float(excess[at])
            implied = (pairs[:, 0] >= hits) & (pairs[:, 1] <= alarms)
            answer |= implied & ~known
        else:
            low = float(excess[at])
            implied = (pairs[:, 0] <= hits) & (pairs[:, 1] >= alarms)
        known |= implied
    return int(counts[answer].sum())


def at_fixed_event(
    above: Callable[[Null, Counts], bool],
) -> Measure:
    """Runs of binomial counts of the null's own event, at which its claim holds with equality."""

    def measure(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
        drawn = [rng.binomial(size, rate, runs) for rate in (null.hits, null.alarms)]

        def refuted(hits: int, alarms: int) -> bool:
            return above(null, Counts(alarms, size, size - hits, size))

        return (count_refuted(np.stack(drawn, axis=1), refuted),)

    return measure


def clopper_pearson(null: Null, counts: Counts) -> bool:
    return epsilon_lower(counts, null.delta, ERROR).epsilon_lower > null.epsilon + ROUNDING


def joint(null: Null, counts: Counts) -> bool:
    return joint_epsilon_lower(counts, null.delta, ERROR) > null.epsilon + ROUNDING


def joint_mu(null: Null, counts: Counts) -> bool:
    return null.mu is not None and joint_mu_lower(counts, ERROR) > null.mu + ROUNDING


def joint_rho(null: Null, counts: Counts) -> bool:
    return null.rho is not None and joint_rho_lower(counts, ERROR) > null.rho + ROUNDING


def bets(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """A bet on the null's event, looked at all along; the claim refuted is the true one."""
    regions = [ApproxRegion(null.epsilon, null.delta)]
    expected = (null.hits, null.alarms)
    placed = bets_against(regions, [1.0], pairs=size, error=ERROR, expected=expected)
    above = 0
    for _ in range(runs):
        sides = (rng.random(size) < rate for rate in expected)
        above += parameter_lower(placed, play(placed, placed.start(), *sides), ERROR) > 0
    return (above,)


# --- scores --------------------------------------------------------------------------------------


def scores(null: Null, size: int, runs: int, rng: Generator) -> Iterator[TestScores]:
    for _ in range(runs):
        yield TestScores(null.draw(rng, 0, size), null.draw(rng, 1, size))


def trained(
    null: Null, size: int, runs: int, rng: Generator
) -> Iterator[tuple[TrainingScores, list[TestScores]]]:
    """Training scores, a quarter as many, and the test scores of the runs that share them."""
    few = max(20, size // 4)
    for part in np.array_split(np.arange(runs), min(runs, PARTS)):
        training = TrainingScores(null.draw(rng, 0, few), null.draw(rng, 1, few))
        yield training, list(scores(null, size, part.size, rng))


def trained_threshold(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """Clopper-Pearson at the threshold that training predicts to be best."""
    above = 0
    for training, tests in trained(null, size, runs, rng):
        threshold = choose_threshold(training, null.delta, size, ERROR)
        above += sum(clopper_pearson(null, count_errors(test, threshold)) for test in tests)
    return (above,)


def trained_event(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """The joint bound at the event that training predicts to be best."""
    above, needed = 0, epsilon_needed(null.delta)
    for training, tests in trained(null, size, runs, rng):
        event = choose_trained(training, Sizes(size, size), ERROR, needed)
        counts = (count_errors(test, event.threshold) for test in tests)
        outcomes = [(size - c.false_negatives, c.false_positives) for c in counts]

        def refuted(hits: int, alarms: int) -> bool:
            return joint(null, Counts(alarms, size, size - hits, size))

        above += count_refuted(np.array(outcomes, dtype=np.int64), refuted)
    return (above,)


def band(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """All bounds of one band, with one error."""
    above = np.zeros(3, dtype=int)
    for test in scores(null, size, runs, rng):
        found = score_band(test, ERROR)
        above += [
            found.epsilon_lower(null.delta) > null.epsilon + ROUNDING,
            null.mu is not None and found.mu_lower() > null.mu + ROUNDING,
            null.rho is not None and found.rho_lower() > null.rho + ROUNDING,
        ]
    return tuple(above.tolist())


def whole_band(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """Bands with any rate of either side outside: order statistics of uniform scores.

    Rates of a continuous law have the same joint law whatever it is; atoms only merge some.
    """
    uppers = rates_upper(np.arange(size), size, ERROR / 2)
    above = 0
    for _ in range(runs):
        # The rate of the first k scores is below its bound just before the (k + 1)th score.
        sides = (np.sort(rng.random(size)) for _ in range(2))
        above += any(bool(np.any(side > uppers)) for side in sides)
    return (above,)


def variational_rho(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """Renyi divergences by a trained function; the rho they show."""
    above = 0
    for training, tests in trained(null, size, runs, rng):
        witness = variational.renyi_witness(training, variational.ORDERS, size, ERROR)
        bounds = (variational.renyi_lower(test, witness, ERROR) for test in tests)
        above += sum(bound / witness.order > (null.rho or 0) + ROUNDING for bound in bounds)
    return (above,)


def variational_mu(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """Weighted events against mu-GDP."""
    above = 0
    for training, tests in trained(null, size, runs, rng):
        bounds = (variational.mu_lower(training, test, ERROR) for test in tests)
        above += sum(bound > (null.mu or 0) + ROUNDING for bound in bounds)
    return (above,)


# --- one run: size is the number of canaries -----------------------------------------------------


def included(null: Null, size: int, rng: Generator) -> tuple[npt.NDArray[np.bool_], npt.ArrayLike]:
    """Labels by fair coins and the canaries' scores: of P if included, of Q if not."""
    labels = rng.random(size) < 0.5
    return labels, np.where(labels, null.draw(rng, 0, size), null.draw(rng, 1, size))


@cache
def least_refuting(guesses: int, canaries: int, epsilon: float, delta: float) -> int:
    """The least number of correct guesses whose bound exceeds ``epsilon``; the bound grows."""
    low, high = -1, guesses + 1
    while high - low > 1:
        middle = (low + high) // 2
        bound = one_run_epsilon_lower(middle, guesses, canaries, delta, ERROR)
        low, high = (low, middle) if bound > epsilon + ROUNDING else (middle, high)
    return high


def one_run(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """A tenth of the canaries guessed, the highest and the lowest scores."""
    guesses = size // 10
    needed, above = least_refuting(guesses, size, null.epsilon, null.delta), 0
    for run in range(runs):
        labels, found = included(null, size, rng)
        chosen = fixed_guesses(np.asarray(found), guesses, run)
        above += int(np.sum(labels[chosen.places] == chosen.guessed_in)) >= needed
    return (above,)


def one_run_chosen(null: Null, size: int, runs: int, rng: Generator) -> tuple[int, ...]:
    """Number and places of the guesses learned from scores and labels opened for it."""
    above = 0
    for run in range(runs):
        labels, found = included(null, size, rng)
        sealed = Sealed(labels)
        chosen = learned_guesses(np.asarray(found), sealed, null.delta, ERROR, run)
        correct = sealed.count(chosen.places, chosen.guessed_in)
        total = (chosen.places.size, chosen.canaries)
        bound = chosen_epsilon_lower(correct, *total, null.delta, ERROR)
        above += bound > null.epsilon + ROUNDING
    return (above,)

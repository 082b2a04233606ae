"""Which canaries of one run to guess: learned from labels that are then never counted.

Labels are *sealed*: they are opened a set at a time, each set chosen from the scores and the labels
already open, and only labels still sealed can be counted.  That order is what the bound for chosen
guesses asks for (:mod:`dpaudit.audit.bounds.one_run`); how well a score was modelled affects power
alone.

First a random share of the labels is opened, then those with middle scores, where a guess is worth
little; they show how the odds grow with the score.  A logistic model in normal ranks, with slopes
that may change in the tails, predicts the other odds and the bound for each number of guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri

from dpaudit.audit.bounds.one_run import ChosenTest
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]

PILOT_SHARE = 0.05  # Share of the labels opened first, to fit the odds,
PILOT_LABELS = 100  # but at least this many labels,
MOST_PILOT = 0.2  # and at most this share of all of them.
# Standardised scores at which the piecewise linear log odds may change slope.
_ODDS_KNOTS = (0.8, 1.5, 2.2)
# Inverse prior variances of the intercept, the slope (mean 1) and its changes at the knots.
_PRIOR_PRECISION = np.array([1e-3, 0.05, *[4.0] * (2 * len(_ODDS_KNOTS))])
_CAUTION_ERRORS = 0.5  # Standard errors by which a record's log odds are moved towards 0.
_SEARCH_ROUNDS = 3  # Rounds in which labels are opened and the number of guesses is chosen again.
_GUESSES_RATIO = 1.3  # Ratio of consecutive numbers of guesses that are tried.
_EPSILON_STEP = 0.01  # Resolution in epsilon of the predicted bound.


@dataclass(eq=False)
class Sealed:
    """Labels of canaries (True: included), shape (canaries,): opened, or counted, never both."""

    _included: BoolArray = field(repr=False)

    def __post_init__(self) -> None:
        self._open: BoolArray = np.zeros(self._included.size, dtype=np.bool_)
        self._counted = False

    @property
    def opened(self) -> BoolArray:
        return self._open.copy()

    def open(self, places: Places) -> None:
        """Open these labels: none of them can be counted any more."""
        if self._counted:
            raise InvalidParameter("labels: guesses were counted; no label can be opened after it")
        self._open[places] = True

    def read(self) -> tuple[Places, BoolArray]:
        """Places and labels of all that are open."""
        places = np.flatnonzero(self._open)
        return places, self._included[places]

    def count(self, places: Places, guessed_in: BoolArray) -> int:
        """How many guesses of sealed labels are correct; once.

        Errors: InvalidParameter for an open label, a place guessed twice, or a second count.
        """
        if self._counted:
            raise InvalidParameter("labels: guesses were counted already, and can be only once")
        if self._open[places].any() or np.unique(places).size != places.size:
            raise InvalidParameter("guesses: each must be of another label that is still sealed")
        self._counted = True
        return int(np.count_nonzero(self._included[places] == guessed_in))


@dataclass(frozen=True, eq=False)
class Guesses:
    """Guessed labels at ``places``; ``canaries`` counts those not opened before the run's scores.

    The pilot's labels are a set fixed beforehand: given them, the mechanism is as private in the
    labels left, of which there are ``canaries``.
    """

    places: Places
    guessed_in: BoolArray
    canaries: int


def fixed_guesses(scores: FloatArray, guesses: int, seed: int) -> Guesses:
    """Guess "in" for the highest half of ``guesses`` scores, "out" for the lowest; ties by lot."""
    order = np.lexsort((np.random.default_rng(seed).random(scores.size), scores))
    lowest, highest = order[: guesses // 2], order[scores.size - (guesses - guesses // 2) :]
    guessed_in = np.arange(guesses) >= lowest.size
    return Guesses(np.concatenate([lowest, highest]), guessed_in, scores.size)


def learned_guesses(
    scores: FloatArray, sealed: Sealed, delta: float, error: float, seed: int
) -> Guesses:
    """Open labels until the rest can be guessed well; shape of ``scores``: (canaries,)."""
    rng = np.random.default_rng(seed)
    size = scores.size
    # Normal quantiles of mid-ranks: ties share one, infinities are the ends.
    ordered = np.sort(scores)
    below = np.searchsorted(ordered, scores, "left")
    above = np.searchsorted(ordered, scores, "right")
    ranks = np.asarray(ndtri((below + above) / (2.0 * scores.size)))
    share = max(PILOT_SHARE, min(MOST_PILOT, PILOT_LABELS / size))
    sealed.open(np.flatnonzero(rng.random(size) < share)[: size - 1])
    unopened = size - int(np.count_nonzero(sealed.opened))
    lot = rng.random(size)
    for stage in range(_SEARCH_ROUNDS):
        odds = _fit(ranks, *sealed.read())(ranks)
        places = np.flatnonzero(~sealed.opened)
        worth = np.abs(odds) + 1e-6 * np.abs(ranks)
        places = places[np.lexsort((lot[places], -worth[places]))]
        best = _best_number(np.abs(odds[places]), unopened, delta, error)
        if stage == _SEARCH_ROUNDS - 1 or 8 * best > 3 * places.size:
            break
        sealed.open(places[2 * best :])
    chosen = places[:best]
    return Guesses(chosen, np.asarray(odds[chosen] > 0), unopened)


def _best_number(odds: FloatArray, canaries: int, delta: float, error: float) -> int:
    """The number of guesses, most certain first, with the largest bound at their expected count."""
    steps = np.geomspace(1, odds.size, 2 + int(np.log(odds.size) / np.log(_GUESSES_RATIO)))
    numbers = np.unique(np.round(steps).astype(int))
    correct = np.floor(np.cumsum(expit(odds))[numbers - 1] + 1e-9).astype(int)
    test, best, bound = ChosenTest(canaries, delta, error), odds.size, 0.0
    for hits, number in zip(correct.tolist(), numbers.tolist(), strict=True):
        reached = _beyond(partial(test.refutes, hits, number), bound)
        if reached > bound:
            best, bound = number, reached
    # Where no number of guesses promises anything, all of them are the best try.
    return best


def _beyond(refutes: Callable[[float], bool], bound: float) -> float:
    """About the largest epsilon refuted, where that is clearly above ``bound``; else ``bound``."""
    if not refutes(bound + _EPSILON_STEP):
        return bound
    low, high = bound + _EPSILON_STEP, bound + 2 * _EPSILON_STEP
    while refutes(high):
        low, high = high, bound + 2 * (high - bound)
    while high - low > _EPSILON_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return low


def _features(ranks: FloatArray) -> FloatArray:
    tails = [
        tail
        for knot in _ODDS_KNOTS
        for tail in (np.maximum(ranks - knot, 0), np.minimum(ranks + knot, 0))
    ]
    return np.stack([np.ones_like(ranks), ranks, *tails], axis=1)


def _fit(ranks: FloatArray, places: Places, labels: BoolArray) -> Callable[[FloatArray], Any]:
    """Log-odds of "in", drawn towards 0 by half a standard deviation: Newton on the posterior."""
    features = _features(ranks[places])
    prior = np.zeros(features.shape[1])
    prior[1] = 1.0
    weights = prior.copy()
    for _ in range(40):
        chance = expit(features @ weights)
        gradient = features.T @ (labels - chance) - _PRIOR_PRECISION * (weights - prior)
        curvature = (features * (chance * (1 - chance))[:, None]).T @ features + np.diag(
            _PRIOR_PRECISION
        )
        step = np.linalg.solve(curvature, gradient)
        weights = weights + np.clip(step, -3, 3)
        if np.abs(step).max() < 1e-6:
            break
    covariance = np.linalg.inv(curvature)

    def odds(at: FloatArray) -> Any:
        rows = _features(at)
        mean = rows @ weights
        deviation = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
        return np.sign(mean) * np.maximum(np.abs(mean) - _CAUTION_ERRORS * deviation, 0.0)

    return odds

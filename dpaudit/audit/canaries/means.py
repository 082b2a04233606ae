"""Means of scores: what canaries show of a divergence beyond any one threshold.

One event shows at most 2 / pi of the divergence of two close Gaussians.  Claims of zCDP and of a
Renyi divergence are tested on means of a log density ratio of the score, fitted on training scores,
where those promise the larger bound (:mod:`dpaudit.audit.bounds.variational`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpaudit.audit.blackbox.divergence import Divergence, divergence
from dpaudit.audit.blackbox.draws import Draws, TestDraws, TrainingDraws, read_output
from dpaudit.audit.bounds.estimators import FloatArray, TestScores, TrainingScores
from dpaudit.audit.target import Target
from dpaudit.nodes import Node

_FEWEST_SCORES = 500  # Training scores a side below which no bet is chosen.
# Factor on a predicted bound: it is the best of many, fitted on few scores.
_PROMISE_DISCOUNT = 0.8
_BEYOND_ALL_SCORES = 1e6  # A score larger than every other one.


@dataclass(frozen=True, eq=False)
class Means:
    """A bet on means of a function of the score, fixed on training scores."""

    question: Divergence

    @property
    def words(self) -> str:
        return self.question.score.words.replace("output 0", "the score")

    @property
    def promised(self) -> float:
        """The bound to expect, in the claim's measure."""
        of_order = 1.0 if self.question.measure == "rho" else self.question.witness.order
        return _PROMISE_DISCOUNT * self.question.witness.predicted * of_order

    def lower(self, test: TestScores, error: float) -> float:
        """Lower bound in the claim's measure, wrong with probability at most ``error``."""
        return self.question.lower(self._scored(test), error)

    def p_value(self, test: TestScores, claimed: float) -> float:
        """P-value of the claim; Ville (1939)."""
        return self.question.p_value(self._scored(test), claimed)

    def strongest(self, trials: int, other_trials: int, error: float) -> float:
        """The bound if every score were as far on its side as the function looks."""
        sides = np.full(trials, _BEYOND_ALL_SCORES), np.full(other_trials, -_BEYOND_ALL_SCORES)
        return self.question.lower(TestScores(*sides), error)

    def _scored(self, test: TestScores) -> TestScores:
        score = self.question.score
        sides = (_draws(side) for side in (test.alternative, test.null))
        return TestScores(*(score(TestDraws(each.values, each.about)) for each in sides))


def choose_means(
    training: TrainingScores | None, claim: Node, pairs: int, error: float
) -> Means | None:
    """The bet that promises the largest bound from ``pairs`` test scores a side, if there is one.

    None for claims that bound no divergence, and without 500 training scores a side.
    """
    if training is None or min(training.alternative.size, training.null.size) < _FEWEST_SCORES:
        return None
    sides = (_draws(side) for side in (training.alternative, training.null))
    first, second = (TrainingDraws(each.values, each.about) for each in sides)
    best = divergence(None, first, second, Target.of(claim), pairs, error)
    return None if best is None else Means(best)


def _draws(scores: FloatArray) -> Draws:
    return read_output(scores, scores.size, "scores")

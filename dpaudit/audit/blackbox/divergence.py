"""A question about a mean: how far outputs of one data set diverge from those of the other.

A claim of zCDP or of a Renyi divergence bounds means of every function of the outputs, and one
event shows only a part of them.  The function is a log density ratio estimated on training draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.draws import Draws, TrainingDraws
from dpaudit.audit.blackbox.events import Measurement
from dpaudit.audit.blackbox.features import Feature, raw_columns
from dpaudit.audit.blackbox.learned import linear_score, summed_ratios
from dpaudit.audit.bounds.estimators import TestScores, TrainingScores
from dpaudit.audit.bounds.variational import (
    MAXIMUM_ORDER,
    ORDERS,
    RenyiWitness,
    renyi_lower,
    renyi_p_value,
    renyi_witness,
)
from dpaudit.audit.target import Target

Array = npt.NDArray[Any]
# Share of the error for the bound on the divergence; tests of events get the rest.
DIVERGENCE_SHARE = 0.35
# Numbers of cells of the histograms from which a witness is fitted; both are tried.
HISTOGRAM_CELLS = (16, 48)
MOST_SCORES = 2_000_000  # scores kept: 16 MB
MEASURES = ("rho", "renyi_epsilon")  # measures that are divergences


@dataclass(frozen=True, eq=False)
class Divergence:
    """A score of outputs and the bet on its means; both are fixed on training draws."""

    score: Measurement
    witness: RenyiWitness
    measure: str

    def p_value(self, test: TestScores, claimed: float) -> float:
        """P-value of the claim; ``claimed`` is its rho, or its divergence at the witness's order.

        Source: Ville (1939); see :mod:`dpaudit.audit.bounds.variational`.
        """
        slack = claimed * (1 + 1e-12)
        order = self.witness.order
        return renyi_p_value(test, self.witness, slack * order if self.measure == "rho" else slack)

    def lower(self, test: TestScores, error: float) -> float:
        """Lower bound in the claim's measure, wrong with probability at most ``error``."""
        bound = renyi_lower(test, self.witness, error)
        return bound / self.witness.order * (1 - 1e-15) if self.measure == "rho" else bound


@dataclass(frozen=True, eq=False)
class Asked:
    """A divergence, and the scores of test draws that had no part in choosing it."""

    question: Divergence
    test: TestScores

    @property
    def words(self) -> str:
        """The sentence of its refutation, up to the claim."""
        return f"means of {self.question.score.words} differ by more than"

    def weighted_p(self, claimed: float) -> float:
        """The p-value over its share of the error."""
        return self.question.p_value(self.test, claimed) / DIVERGENCE_SHARE

    def lower(self, error: float) -> float:
        """The lower bound at its share of an error."""
        return self.question.lower(self.test, error * DIVERGENCE_SHARE)


def divergence(
    own: Measurement | None,
    first: TrainingDraws,
    second: TrainingDraws,
    target: Target,
    pairs: int,
    error: float,
) -> Divergence | None:
    """The one that promises the largest bound from ``pairs`` test draws a side at ``error``.

    Scores are fitted on the first half of the training draws, and bets on the second.  Returns None
    if the claim bounds no divergence, or if every predicted bound is 0.
    """
    if target.measure not in MEASURES:
        return None
    orders = _orders(target)
    divergences = [
        Divergence(score, renyi_witness(scores, orders, pairs, error), target.measure)
        for score, scores in _scored(own, first, second)
        if orders
    ]
    best = max(divergences, key=_promised, default=None)
    return best if best is not None and _promised(best) > 0 else None


def _promised(candidate: Divergence) -> float:
    return candidate.witness.predicted


def _orders(target: Target) -> tuple[float, ...]:
    if target.measure == "rho":
        return ORDERS
    order = float(target.guarantee.parameters["order"])
    return (order,) if 1 <= order <= MAXIMUM_ORDER else ()


def _scored(
    own: Measurement | None, first: TrainingDraws, second: TrainingDraws
) -> Iterator[tuple[Measurement, TrainingScores]]:
    halves = [
        [side.rows(slice(0, side.trials // 2)), side.rows(slice(side.trials // 2, None))]
        for side in (first, second)
    ]
    fit, judge = ([half[part] for half in halves] for part in (0, 1))
    for score in _scores(own, fit[0], fit[1]):
        yield score, TrainingScores(score(judge[0]), score(judge[1]))


def _scores(
    own: Measurement | None, first: TrainingDraws, second: TrainingDraws
) -> Iterator[Measurement]:
    """Log ratios of cells of the caller's score; else of each output, and of their best sum."""
    if own is not None:
        inputs: list[tuple[Measurement, ...]] = [(own,)]
    else:
        columns = raw_columns(first)
        inputs = [tuple(Feature("column", (i,)) for i in columns)]
        if len(columns) > 1:
            inputs.append((linear_score(first, second, tuple(columns)),))
    for measurements in inputs:
        for cells in HISTOGRAM_CELLS:
            yield summed_ratios(measurements, first, second, cells)


def scores_of(score: Measurement, draws: Draws, room: int) -> Array:
    """The scores of the first ``room`` draws, which no draw has influenced."""
    return np.asarray(score(draws.rows(slice(0, room))), dtype=np.float64)

"""The result of an attack on a suite, and the numbering of its trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from dpaudit.audit.bounds.estimators import TestScores, TrainingScores
from dpaudit.audit.engine import Batch, plan
from dpaudit.audit.residuals import Finding
from dpaudit.audit.suite import BATCH_TRIALS, Suite
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.uses import grouped
from dpaudit.errors import Dependent, InvalidParameter
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.storage.batches import Arrays, Key

TRAINING, TEST = 0, 1  # parts of an audit's trials, in keys of batches
FIRST, SECOND = 0, 1  # its two data sets, in keys of batches
SCORE_DECIMALS = 9  # decimals kept of a score: rounding errors of walks are smaller
LARGEST_SCORE = 1e100  # stands for an infinite score, so that sums stay finite
Progress = Callable[[int, int], None]
Results: TypeAlias = dict[Key, Arrays]


@dataclass(frozen=True, eq=False)
class Attacked:
    """The observations of one audit, before any bound; ``stored``: the folder of its batches."""

    suite: Suite
    trials: int
    training_trials: int
    seed: int
    attack: str
    training: TrainingScores | None
    test: TestScores | None
    findings: tuple[Finding, ...]
    stored: Path | None = None


def checked_declaration(mechanism: Mechanism, suite: Suite) -> Node:
    """The declaration that a suite's program and its mechanism share.

    Errors: as :func:`attack`.
    """
    adjacency, tried = mechanism.scope.adjacency, suite.neighbours.adjacency
    if adjacency is not tried:
        raise InvalidParameter(
            f"suite of {mechanism.name!r}: its data sets are neighbours under {tried}; the "
            f"mechanism's scope says {adjacency}"
        )
    declaration = suite.program.declaration(mechanism.scope)
    if declaration != mechanism.declaration:
        raise InvalidParameter(
            f"suite of {mechanism.name!r}: its program declares other noise than the mechanism"
        )
    size = grouped(declaration)[1]
    if suite.neighbours.size > size:
        raise InvalidParameter(
            f"suite of {mechanism.name!r}: its data sets may differ in {suite.neighbours.size} "
            f"records; the declaration is for {size}: declare a Group of as many"
        )
    return declaration


def run_independently(
    run: Callable[[list[Batch]], Results],
    index: int,
    training: int,
    certified: int,
    together: int = BATCH_TRIALS,
) -> Results:
    """Run the batches of one audit, with one trial a batch if trials would share public coins.

    Bounds count trials as independent, and a public order of the records is drawn once a run.
    """
    try:
        return run(batches_of(index, training, certified, together))
    except Dependent:
        return run(batches_of(index, training, certified, 1))


def batches_of(
    index: int, training: int, certified: int, together: int = BATCH_TRIALS
) -> list[Batch]:
    """The batches of one audit: training and test trials of either side."""
    sizes = ((TRAINING, training), (TEST, certified))
    return [
        batch
        for part, trials in sizes
        for side in (FIRST, SECOND)
        for batch in plan(index, side, part, trials, together)
    ]


def tidy(scores: list[Array]) -> Array:
    """Scores of several batches as one array, finite and rounded (see :func:`_scores`)."""
    finite: Array = np.clip(np.concatenate(scores), -LARGEST_SCORE, LARGEST_SCORE)
    return finite.round(SCORE_DECIMALS)

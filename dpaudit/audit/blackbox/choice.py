"""Which events go to the test, and what share of the error each may spend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.cells import batches_of, measured, threshold_batches
from dpaudit.audit.blackbox.draws import Draws, TrainingDraws, joined
from dpaudit.audit.blackbox.events import Event, Measurement, Member, Relation
from dpaudit.audit.blackbox.evidence import Batch, Candidate, Edge, ranked
from dpaudit.audit.blackbox.features import About, Depth, Feature, features_of, raw_columns
from dpaudit.audit.blackbox.learned import learned_batches
from dpaudit.audit.blackbox.mirror import Complement, Without

Array = npt.NDArray[Any]
CHOSEN_SHARE = 0.85  # share of the error for events chosen on training draws
NOVEL_SHARE = 0.05  # share of the error for outputs that no training draw had
CANONICAL_SHARE = 0.10  # share of the error for events fixed beforehand
REVEALED_SHARE = 0.20  # share of the error for outputs that reveal the data set
MOST_EVENTS = 6  # events that share the error; more would leave each too little
PLAIN_PENALTY = 0.0  # standard errors subtracted from the evidence of an event about raw outputs
# Standard errors subtracted from an event about a function of the outputs: many are tried.
FEATURE_PENALTY = 1.5
EVIDENCE_DECAY = 0.8  # An event's weight is exp(this times (its evidence - the best evidence)).
# The joint test of an event and its mirror is worth slightly less than both tests apart.
MIRROR_DISCOUNT = 0.9
# Relative reduction of the shares, so that their floating-point sum stays below the total.
SHARE_ROUNDING = 1e-12
LEAST_SHARE = 1e-9  # a smaller share of the error could refute nothing
# Standard deviations of evidence; twice as many, and no learned event is tried.
DECISIVE_EVIDENCE = 6.0
SCORED_FEATURES = 24  # features besides the outputs that a learned score reads
MOST_SEEN_VALUES = 2_000  # distinct outputs up to which being unseen is itself an event


@dataclass(frozen=True, eq=False)
class Question:
    """An event, the side it favours, the share of the error it spends, and where it comes from.

    ``evidence``: standard errors beyond the claim that training predicts for the test.
    """

    event: Event
    favours: int
    share: float
    origin: str
    mirror: Event | None = None
    evidence: float = 0.0


def candidates(
    first: TrainingDraws,
    second: TrainingDraws,
    edge: Edge,
    test_trials: int,
    depth: Depth = Depth.BITS,
) -> list[Candidate]:
    """The strongest event of every family, simple ones first and learned ones where needed."""
    features = features_of(first, depth)
    batches = [batch for f in features for batch in _batches(f, first, second)]
    simple = ranked(batches, edge, test_trials, len(features) * 8)
    if first.columns == 1 or (simple and simple[0].evidence > 2 * DECISIVE_EVIDENCE):
        return simple
    # Raw columns, then the features whose events showed most.
    raw = [Feature("column", (i,)) for i in raw_columns(first)]
    named = {f.words: f for f in features if isinstance(f, Feature) and not f.is_code}
    best = dict.fromkeys(c.family.rpartition(" ")[0] for c in simple)
    others = [named[name] for name in best if name in named and named[name] not in raw]
    used = raw + others[:SCORED_FEATURES]
    scores = list(learned_batches(first, second, used, raw_columns(first)))
    learned = ranked(scores, edge, test_trials, len(scores) * 2)
    return sorted([*simple, *learned], key=lambda c: -c.evidence)


def low_bits_evidence(first: TrainingDraws, second: TrainingDraws, edge: Edge) -> float:
    """Evidence against the claim in digits below those of :attr:`Depth.ROUNDED`, in training.

    In standard errors beyond the claim, less what the best of a family shows by chance.  It is only
    reported: the verdict does not use it.
    """
    rounded = features_of(first, Depth.ROUNDED)
    deep = [feature for feature in features_of(first, Depth.BITS) if feature not in rounded]
    batches = [batch for feature in deep for batch in _batches(feature, first, second)]
    strongest = ranked(batches, edge, first.trials, 1)
    return strongest[0].evidence if strongest else 0.0


def scored_candidates(
    score: Measurement, first: TrainingDraws, second: TrainingDraws, edge: Edge, test_trials: int
) -> list[Candidate]:
    """The strongest thresholds and atoms of one score."""
    batches = list(threshold_batches(measured(score, first, second), "score", PLAIN_PENALTY))
    return ranked(batches, edge, test_trials, MOST_EVENTS)


def _batches(
    feature: Feature | About, first: TrainingDraws, second: TrainingDraws
) -> Iterator[Batch]:
    sides = measured(feature, first, second)
    plain = PLAIN_PENALTY if feature.words.startswith("output ") else FEATURE_PENALTY
    yield from batches_of(sides, feature.words, plain=plain, ordered=not feature.is_code)


def mirrored(ranked_events: Sequence[Candidate]) -> list[Candidate]:
    """The best event of either side as one question.

    An event that favours P is one whose complement favours Q; the less likely of both is taken.
    """
    best: dict[int, Candidate] = {}
    for candidate in ranked_events:
        event, side = candidate.event, candidate.favours
        if candidate.chance > 0.5:
            event, side = Complement(event), 1 - side
        if candidate.evidence > 0:
            best.setdefault(side, replace(candidate, event=event, favours=side))
    if len(best) < 2:
        return []
    first, second = best[0], best[1]
    events = Without(first.event, second.event), Without(second.event, first.event)
    evidence = MIRROR_DISCOUNT * math.hypot(first.evidence, second.evidence)
    return [Candidate(events[0], 0, evidence, "mirrored", first.chance, events[1])]


def chosen(events: Sequence[Candidate], total: float = CHOSEN_SHARE) -> list[Question]:
    """The strongest events, each with a share of the error that falls with its evidence."""
    few = events[:MOST_EVENTS]
    if not few:
        return []
    weights = np.exp([EVIDENCE_DECAY * min(c.evidence - few[0].evidence, 0.0) for c in few])
    shares = total * (1 - SHARE_ROUNDING) * weights / weights.sum()
    return [
        Question(c.event, c.favours, float(share), "training", c.mirror, c.evidence)
        for c, share in zip(few, shares, strict=True)
        if share >= LEAST_SHARE
    ]


def novel(first: TrainingDraws, second: TrainingDraws) -> list[Question]:
    """Outputs unlike any training draw: rare events that training need not have seen."""
    events = list(_novel_events(joined([first, second], TrainingDraws)))
    return [
        Question(event, side, NOVEL_SHARE / (2 * len(events)), "unlike all training draws")
        for event in events
        for side in (0, 1)
    ]


def _novel_events(draws: TrainingDraws) -> Iterator[Event]:
    yield Outlying.of(draws)
    row = Feature("row") if draws.columns > 1 else Feature("column", (0,))
    outputs_seen = np.unique(row(draws))
    if outputs_seen.size <= min(MOST_SEEN_VALUES, math.isqrt(draws.trials) * 4):
        yield Member(row, Relation.NOT_AMONG, outputs_seen)


@dataclass(frozen=True, eq=False)
class Outlying:
    """Some output lies outside ``low`` to ``high``, far beyond what training draws took."""

    low: Array
    high: Array

    @classmethod
    def of(cls, draws: TrainingDraws) -> Outlying:
        """Three times the range of the finite values, column by column."""
        finite = np.where(np.isfinite(draws.values), draws.values.astype(float), np.nan)
        empty = np.isnan(finite).all(axis=0)
        low = np.where(empty, -np.inf, np.nanmin(np.where(empty, 0.0, finite), axis=0))
        high = np.where(empty, np.inf, np.nanmax(np.where(empty, 0.0, finite), axis=0))
        with np.errstate(invalid="ignore"):
            width = np.where(empty, 0.0, high - low)
        return cls(low - width, high + width)

    @property
    def words(self) -> str:
        return "some output is far outside the range of all training draws"

    @property
    def code(self) -> str:
        if self.low.size > 4:
            return ""
        return f"((x < {self.low.tolist()}) | (x > {self.high.tolist()})).any(1)"

    def __call__(self, draws: Draws) -> Array:
        x = draws.values
        return np.asarray(((x < self.low) | (x > self.high)).any(axis=1))

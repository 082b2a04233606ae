"""`audit_domain`: the pair of neighbours is searched for, then audited on draws of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from dpaudit.audit import engine
from dpaudit.audit.blackbox.cells import batches_of, measured
from dpaudit.audit.blackbox.choice import FEATURE_PENALTY, PLAIN_PENALTY, candidates
from dpaudit.audit.blackbox.domains import Pair, pairs_of_domain
from dpaudit.audit.blackbox.draws import Draws, TrainingDraws, alike
from dpaudit.audit.blackbox.entry import audit_function
from dpaudit.audit.blackbox.evidence import Edge, ranked
from dpaudit.audit.blackbox.features import Feature, features_of
from dpaudit.audit.blackbox.result import FunctionAudit
from dpaudit.audit.blackbox.sampler import CallFailed, Mechanism, Part, Sampler, checked_mechanism
from dpaudit.audit.blackbox.terms import Attack, checked_terms

MOST_PAIRS = 96  # pairs of data sets that enter the race
FAR_PAIRS = 64  # of which those farthest apart, the others by chance
# In each round of the race: draws for each pair, and how many pairs go on.
RACE_ROUNDS = ((500, 16), (3_000, 4), (10_000, 1))
SEARCH_RUN = 2  # number of the search's streams of random numbers
# Score of a pair on which only one side raises: above that of every other pair.
ONE_SIDE_RAISED_SCORE = 1e6
QUICK_FEATURES = 14  # features that the first rounds read


@dataclass(frozen=True, eq=False, repr=False)
class DomainAudit:
    """The pair that the search settled on, and the audit of it on draws the search never saw."""

    d0: Any
    d1: Any
    audit: FunctionAudit
    pairs: int
    search_seconds: float

    @property
    def verdict(self) -> str:
        return self.audit.verdict

    @property
    def epsilon_lower(self) -> float:
        return self.audit.epsilon_lower

    def __str__(self) -> str:
        return f"{self.audit}; the worst of {self.pairs:,} pairs"

    def __repr__(self) -> str:
        return f"DomainAudit({self.audit!r}, pairs={self.pairs})"

    def _repr_html_(self) -> str:
        return self.audit._repr_html_()

    def to_json(self) -> dict[str, Any]:
        """The audit's fields, with the number of pairs tried."""
        return {
            **self.audit.to_json(),
            "pairs_tried": self.pairs,
            "search_seconds": self.search_seconds,
        }


def audit_domain(
    mechanism: Mechanism,
    domain: Any,
    relation: Any,
    *,
    claim: Any,
    trials: int,
    confidence: float | str = 0.95,
    refute_at: float | str = 1e-4,
    seed: int,
    attack: Attack = None,
    generator: str | None = None,
) -> DomainAudit:
    """Test a claim about a mechanism on the neighbours of a domain that speak most against it.

    ``domain``: a sequence of data sets, a function of a generator that draws one, or a Box of
    arrays.  ``relation``: "add_remove", "replace_one", "each_by_one", "total_by_one",
    neighbours(data) -> data sets, or are_neighbours(a, b) -> bool.  The pair is found by successive
    halving on streams of their own; the audit of it is :func:`audit_function` with ``trials`` draws
    a side that the search never saw, so its verdict and bound hold at their stated rates.

    Errors: as :func:`audit_function`, and InvalidParameter for a domain without neighbours.

    >>> import dpaudit as dp
    >>> def noisy_count(data, rng, size):
    ...     return rng.laplace(sum(data), 0.5, size)
    >>> audit = dp.audit_domain(
    ...     noisy_count,
    ...     [[0, 0], [0, 1], [1, 1]],
    ...     "replace_one",
    ...     claim=dp.PureDP(1),
    ...     trials=20_000,
    ...     seed=1,
    ... )
    >>> str(audit.verdict), audit.pairs
    ('refuted', 2)
    """
    terms = checked_terms(claim, trials, confidence, refute_at, seed, attack, generator)
    started = perf_counter()
    pairs = _thinned(
        pairs_of_domain(domain, relation, engine.generator(seed, (SEARCH_RUN,))),
        engine.generator(seed, (SEARCH_RUN, 1)),
    )
    race = Race(checked_mechanism(mechanism), seed, terms.target.edge, trials)
    best = race.winner(pairs)
    seconds = perf_counter() - started
    audit = audit_function(
        mechanism,
        *best,
        claim=claim,
        trials=trials,
        confidence=confidence,
        refute_at=refute_at,
        seed=seed,
        attack=attack,
        generator=generator,
    )
    return DomainAudit(*best, audit, len(pairs), seconds)


def _thinned(pairs: Sequence[Pair], rng: np.random.Generator) -> list[Pair]:
    """At most ``MOST_PAIRS`` pairs: the most distant of each data set, and some at random."""
    if len(pairs) <= MOST_PAIRS:
        return list(pairs)
    far = _spread(pairs, FAR_PAIRS)
    others = rng.choice(len(pairs), MOST_PAIRS - len(far), replace=False)
    chosen = dict.fromkeys([*far, *others.tolist()])
    return [pairs[i] for i in chosen]


def _spread(pairs: Sequence[Pair], most: int) -> list[int]:
    """The first (farthest) pairs, but few that share a data set."""
    used: dict[bytes, int] = {}
    indices = []
    for index, (a, _) in enumerate(pairs):
        key = np.asarray(a).tobytes() if not isinstance(a, str) else a.encode()
        if used.get(key, 0) < 3:
            used[key] = used.get(key, 0) + 1
            indices.append(index)
        if len(indices) == most:
            break
    return indices


@dataclass(frozen=True, eq=False)
class Race:
    """Successive halving: the pairs with the strongest events go on, with more draws each round."""

    mechanism: Mechanism
    seed: int
    edge: Edge
    trials: int
    calls: list[int] = field(default_factory=list)

    def winner(self, pairs: Sequence[Pair]) -> Pair:
        """The pair that looks worst for the claim on search draws."""
        racing = list(range(len(pairs)))
        for number, (draws, survivors) in enumerate(RACE_ROUNDS):
            if len(racing) == 1:
                break
            size = min(draws, max(self.trials // 4, 50))
            scores = [self._score(pairs[i], number, i, size) for i in racing]
            order = np.argsort([-score for score in scores], kind="stable")
            racing = [racing[i] for i in order[:survivors]]
        return pairs[racing[0]]

    def _score(self, pair: Pair, number: int, index: int, size: int) -> float:
        """Predicted evidence of the strongest event; large where only one side raises."""
        sampler = Sampler(self.mechanism, pair, self.seed, run=SEARCH_RUN)
        sides = [self._draw(sampler, side, number, index, size) for side in (0, 1)]
        if None in sides:
            return -np.inf if sides[0] is sides[1] else ONE_SIDE_RAISED_SCORE
        first, second = alike(*(TrainingDraws(d.values, d.about) for d in sides if d is not None))
        if number < len(RACE_ROUNDS) - 1:
            return self._quick(first, second)
        events = candidates(first, second, self.edge, self.trials)
        return events[0].evidence if events else -np.inf

    def _draw(
        self, sampler: Sampler, side: int, number: int, index: int, size: int
    ) -> Draws | None:
        try:
            return replace(sampler, run=SEARCH_RUN + 1 + number).call(
                side, Part.SEARCH, index, size
            )
        except CallFailed:
            return None

    def _quick(self, first: TrainingDraws, second: TrainingDraws) -> float:
        batches = [
            batch
            for feature in _quick_features(features_of(first))
            for batch in batches_of(
                measured(feature, first, second),
                feature.words,
                plain=PLAIN_PENALTY if feature.kind == "column" else FEATURE_PENALTY,
                ordered=not feature.is_code,
            )
        ]
        events = ranked(batches, self.edge, self.trials, 1)
        return events[0].evidence if events else -np.inf


def _quick_features(features: Sequence[Any]) -> list[Feature]:
    """The first columns and what is cheap of the rest."""
    ordinary = [feature for feature in features if isinstance(feature, Feature)]
    columns = [feature for feature in ordinary if feature.kind == "column"]
    cheap = ("total", "largest", "smallest", "row", "lowest_bit", "missing", "argmax", "difference")
    others = [feature for feature in ordinary if feature.kind in cheap]
    return columns[: QUICK_FEATURES // 2] + others[:QUICK_FEATURES]

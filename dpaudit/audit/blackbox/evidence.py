"""How strongly training counts speak against a claim: a signed root of the likelihood ratio.

It ranks candidate events and predicts their tests; no bound and no verdict is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.events import Event
from dpaudit.measures.region import Region

Array = npt.NDArray[Any]
# Half a count, applied against a finding: counts are treated as normal variables.
CONTINUITY_CORRECTION = 0.5
# Standard deviations: events whose evidence is this close to the best count as ties.
TIE_MARGIN = 0.25
PRIOR_SCALES = (0.03, 0.3, 3.0)  # standard deviations of the effects that are thought possible
GROSS_PRIOR_SCALES = (3.0,)  # The same for the effects of blatant bugs.
_SMALLEST_LOG = -700.0  # log of a chance that floats no longer hold
# Rows of counts evaluated at once: this many fit into the processor's cache.
_ROWS_PER_BLOCK = 2_000


@dataclass(frozen=True, eq=False)
class Batch:
    """Candidate events of one family, counted on training draws of both data sets.

    ``make(i)`` builds the i-th event; ``penalty`` is the evidence that the best of such a family
    shows by chance, in standard errors.
    """

    make: Callable[[int], Event]
    hits: Array
    others: Array
    trials: tuple[int, int]
    penalty: float
    family: str


@dataclass(frozen=True, eq=False)
class Candidate:
    """An event, the side it favours (0: P over Q), and its evidence as predicted for the test.

    ``chance`` is how often it happened in training; ``mirror`` a disjoint event for the other side.
    """

    event: Event
    favours: int
    evidence: float
    family: str
    chance: float = 0.0
    mirror: Event | None = None


@dataclass(frozen=True, eq=False)
class Edge:
    """The boundary of a region, tabulated once: pairs (largest(q), q)."""

    region: Region
    logs: Array = field(init=False)
    slopes: Array = field(init=False)
    q: Array = field(init=False)
    p: Array = field(init=False)

    def __post_init__(self) -> None:
        angles = np.sin(np.linspace(0.02, np.pi / 2, 500)[:-1]) ** 2
        q = np.unique(np.concatenate([np.geomspace(1e-8, 1e-3, 150), angles, 1 - angles]))
        # Where a step in q is a leap in p, the boundary needs points by p as well.
        q = np.unique(np.concatenate([q, np.interp(angles[::2], self.region.largest(q), q)]))
        p = self.region.largest(q)
        logs = [_log(p), _log(1 - p), _log(q), _log(1 - q)]
        slopes = np.gradient(logs[0] - logs[1], logs[2] - logs[3])
        values = {"q": q, "p": p, "logs": np.array(logs), "slopes": np.clip(slopes, 0.01, 1.5)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def evidence(self, hits: Array, trials: int, others: Array, other_trials: int) -> Array:
        """Signed root of twice the log-likelihood ratio against the edge; positive outside.

        Half a hit is taken from ``hits`` and given to ``others``, so that few counts are no proof.
        """
        a = np.maximum(np.asarray(hits, dtype=float) - CONTINUITY_CORRECTION, 0.0)
        b = np.minimum(np.asarray(others, dtype=float) + CONTINUITY_CORRECTION, other_trials)
        weights = np.stack([a, trials - a, b, other_trials - b], axis=1)
        best = np.concatenate(
            [
                np.max(weights[start : start + _ROWS_PER_BLOCK] @ self.logs, axis=1)
                for start in range(0, max(len(a), 1), _ROWS_PER_BLOCK)
            ]
        )
        p, q = a / trials, b / other_trials
        free = weights[:, 0] * _log(p) + weights[:, 1] * _log(1 - p)
        free += weights[:, 2] * _log(q) + weights[:, 3] * _log(1 - q)
        root = np.sqrt(2 * np.maximum(free - best, 0.0))
        return np.asarray(np.where(p > np.interp(q, self.q, self.p), root, -root))

    def evidence_of(self, hits: int, trials: int, others: int, other_trials: int) -> float:
        """The evidence of one pair of counts."""
        evidence = self.evidence(np.array([hits]), trials, np.array([others]), other_trials)
        return float(evidence[0])

    def spread(self, hits: Array, trials: int, others: Array, other_trials: int) -> Array:
        """Standard error of the log odds of p beyond the edge."""
        a, b = np.asarray(hits, dtype=float), np.asarray(others, dtype=float)
        slope = np.interp(b / other_trials, self.q, self.slopes)
        own = 1 / (a + 0.5) + 1 / (trials - a + 0.5)
        return np.asarray(np.sqrt(own + slope**2 * (1 / (b + 0.5) + 1 / (other_trials - b + 0.5))))


def shrunk(z: Array, spread: Array, sizes: Sequence[float] = PRIOR_SCALES) -> Array:
    """Evidence as posterior mean: an excess in log odds is N(0, s^2), s unknown among three sizes.

    A small excess is shrunk little if there are many hits and strongly if there are few; a huge
    excess is hardly shrunk at all.
    """
    scales = np.array(sizes)[:, None]
    ratio = (scales / spread) ** 2
    logs = -(z**2) / 2 / (1 + ratio) - np.log1p(ratio) / 2
    weight = np.exp(logs - logs.max(axis=0))
    factor = (weight * ratio / (1 + ratio)).sum(axis=0) / weight.sum(axis=0)
    return np.asarray(np.where(z > 0, z * factor, z))


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(values), _SMALLEST_LOG))


def ranked(batches: Sequence[Batch], edge: Edge, test_trials: int, most: int) -> list[Candidate]:
    """The most promising events of both directions, the best first.

    A family's best are kept, and their evidence scaled to ``test_trials``: a z-value grows with the
    square root of the trials.
    """
    events = [
        candidate
        for batch in batches
        if batch.hits.size
        for candidate in _best(batch, edge, test_trials)
    ]
    events.sort(key=lambda candidate: -candidate.evidence)
    return events[:most]


def _best(batch: Batch, edge: Edge, test_trials: int) -> list[Candidate]:
    """The strongest event of a batch in each direction, and the strongest for a gross excess.

    Among events of nearly the same evidence, the one with the most hits is taken: its evidence
    varies least by chance.
    """
    n, m = batch.trials
    scale = (test_trials / max(n, 1)) ** 0.5
    events = []
    for side in (0, 1):
        counts = (batch.hits, n, batch.others, m) if side == 0 else (batch.others, m, batch.hits, n)
        spread = edge.spread(*counts)
        raw = edge.evidence(*counts) - batch.penalty
        z = shrunk(raw, spread) * scale
        near = np.flatnonzero(z >= z.max() - TIE_MARGIN * scale)
        places = [
            int(near[np.argmin(spread[near])]),
            int(np.argmax(shrunk(raw, spread, GROSS_PRIOR_SCALES))),
        ]
        for i, kind in zip(dict.fromkeys(places), ("", ", gross"), strict=False):
            family = f"{batch.family}{kind}"
            chance = float(batch.hits[i] + batch.others[i]) / max(n + m, 1)
            events.append(Candidate(batch.make(i), side, float(z[i]), family, chance))
    return events

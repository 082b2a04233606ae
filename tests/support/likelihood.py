"""Programs whose true epsilon is known, and audits of them by likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import dpaudit as dp
from dpaudit.audit.bounds.weighted import Bet, CountedLosses, PilotLosses, Sought
from dpaudit.curator.proposal import Proposal, proposed
from dpaudit.kernels.query import Array, ClippedMean, Records
from tests.support.kernels import Written

SCOPE = dp.central("zero_out")
VALUES = np.array([[1.0], [0.0], [0.0]])
PAIR = Records(VALUES), Records(VALUES, np.array([False, True, True]))
ROUNDS = 4


def mean(**options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None], 1.0, **{"divisor": 1.0, **options})


def turned(seen: Array, **options: Any) -> ClippedMean:
    """A record's number, its sign by what was released before."""
    sign = np.where(seen > 0, 1.0, -1.0)[:, None, :]
    return mean(**options) if not seen.any() else ClippedMean(
        lambda z: z[None] * sign, 1.0, **{"divisor": 1.0, **options}
    )  # fmt: skip


def _once(curator: Any) -> None:
    curator.release("a", mean())


def _laplace(curator: Any) -> None:
    curator.release("a", mean(norm="l1"))


def _adaptive(curator: Any) -> None:
    seen = np.zeros((curator.trials, 1))
    for _ in range(ROUNDS):
        seen = curator.release("a", turned(seen))


def _sampled(curator: Any) -> None:
    seen = np.zeros((curator.trials, 1))
    for _ in range(ROUNDS):
        with curator.batch("a") as batch:
            seen = curator.release("a", turned(seen), rows=batch)


def _in_turns(curator: Any) -> None:
    for k in range(len(VALUES)):
        curator.release("a", mean(), rows=curator.part(k, (1,) * len(VALUES)))


class _Votes:
    """Two candidates, of which each record votes for one: randomised response of one record."""

    norm = "linf"

    def sensitivity(self, adjacency: Any, size: int) -> Array:
        return np.array(1.0)

    def value(self, records: Records, chosen: Any = None) -> Array:
        votes = (records.values[:, 0] * records.present).sum()
        return np.array([[votes, 1.0 - votes]])


def _votes(curator: Any) -> None:
    curator.release("a", _Votes())


# Programs with a shift for each delta, and the chance that a batch holds the loud record.
PROGRAMS: dict[str, tuple[Written, float]] = {
    "gaussian": (Written(dp.Gaussian("a", 1), _once), 0.0),
    "laplace": (Written(dp.Laplace("a", 1), _laplace), 0.0),
    "response": (Written(dp.ExponentialMechanism("a", 1), _votes), 0.0),
    "adaptive": (Written(dp.Repeat(dp.Gaussian("a", 4), ROUNDS), _adaptive), 0.0),
    "correlated": (Written(dp.CorrelatedGaussian("a", 2, len(VALUES)), _in_turns), 0.0),
    "sampled": (
        Written(dp.Repeat(dp.PoissonSampled(dp.Gaussian("a", 1), "0.1"), ROUNDS), _sampled), 0.4
    ),
}  # fmt: skip


@lru_cache
def truth(name: str, delta: str) -> float:
    """The accounted epsilon, which these data sets attain; of a response by one vote of two."""
    if name == "response":  # p = 1 / (1 + e^-1/2) and delta = p - e^epsilon (1 - p)
        return math.log(math.exp(0.5) - float(delta) * (1 + math.exp(0.5)))
    return float(dp.account(PROGRAMS[name][0].node, SCOPE).epsilon(delta).upper)


def losses(
    name: str, kind: Any, runs: int, shift: float, seed: Sequence[int], pair: Any = PAIR
) -> Any:
    program, include = PROGRAMS[name]
    found, _ = proposed(
        program, program.node, SCOPE, pair, rng=np.random.default_rng(seed), trials=runs,
        proposal=Proposal(shift, include),
    )  # fmt: skip
    return kind(found.losses, found.log_weights)


def shift_of(name: str, delta: str) -> float:
    """A shift that a short search on runs of its own prefers."""
    sought = Sought("epsilon", float(delta))
    tried = [(0.0, -1.0)]
    for k, shift in enumerate((0.5, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 30.0, 60.0)):
        pilot = losses(name, PilotLosses, 400, shift, (9, k))
        tried.append((shift, Bet.of(pilot, sought, 200, 0.05).promise(pilot, 200)))
    return max(tried, key=lambda one: one[1])[0]


def bounds(name: str, delta: str, audits: int, runs: int = 200) -> Array:
    """Bounds of many audits of one program, each with a pilot of its own."""
    sought, shift = Sought("epsilon", float(delta)), shift_of(name, delta)
    pilots = losses(name, PilotLosses, 50 * audits, shift, (1,))
    counted = losses(name, CountedLosses, runs * audits, shift, (2,))
    found = []
    for k in range(audits):
        pilot, one = (
            type(of)(of.losses[k * n : (k + 1) * n], of.log_weights[k * n : (k + 1) * n])
            for of, n in ((pilots, 50), (counted, runs))
        )
        found.append(Bet.of(pilot, sought, runs, 0.05).lower(one))
    return np.array(found)

"""Poisson batches of groups that take turns: record i is in group i modulo their number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from dpaudit.families.banded import CyclicPoisson
from dpaudit.kernels.batches import (
    Batches,
    Generator,
    Indices,
    Mask,
    Places,
    as_float,
    batches,
    log_choose,
    times_log,
)


@batches(CyclicPoisson)
class TurnsBatches(Batches):
    """A batch a round, by coins of the records whose group's turn it is; one use of the noise."""

    within_use: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def __init__(self, sampling: Any) -> None:
        super().__init__(sampling)
        self.rate = as_float(sampling.rate)
        self.slots = int(sampling.child.rounds)
        self.groups = int(sampling.groups)

    def eligible(self, slot: int, size: int) -> Mask:
        return np.asarray(np.arange(size) % self.groups == slot % self.groups)

    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        """Which records are in the batch of each round, (rounds, trials, size)."""
        coins = rng.random((size, self.slots, trials)) < self.rate
        turns = np.array([self.eligible(slot, size) for slot in range(self.slots)])
        return np.asarray(coins.transpose(1, 2, 0) & turns[:, None, :])

    def outcomes(self, kinds: Sequence[Indices], size: int) -> Iterator[tuple[Places, float]]:
        """How many of each kind came in each turn of their group: independent binomials."""
        cells = []
        for slot, kind in itertools.product(range(self.slots), kinds):
            members = kind[self.eligible(slot, size)[kind]]
            if len(members):
                cells.append((slot, members))
        for counts in itertools.product(*(range(len(members) + 1) for _, members in cells)):
            places, log = np.zeros((self.slots, 1, size), dtype=bool), 0.0
            for (slot, members), count in zip(cells, counts, strict=True):
                places[slot, 0, members[:count]] = True
                log += log_choose(len(members), count) + times_log(count, self.rate)
                log += times_log(len(members) - count, 1 - self.rate)
            yield places, log

    def share(self, records: int) -> float:
        return self.rate

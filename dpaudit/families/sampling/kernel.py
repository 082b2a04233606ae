"""Batches by coins, of one size, and in one slot each: how they are drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.families.sampling import PoissonSampled, RandomAllocation, SampledWithoutReplacement
from dpaudit.kernels.batches import (
    Counts,
    Generator,
    Indices,
    Latent,
    Places,
    as_float,
    batches,
    log_choose,
    log_multinomial,
    summing,
    times_log,
)
from dpaudit.scope import Adjacency

# Choices of slots that are listed: more than a replay tells apart.
MOST_CHOICES = 5000


@batches(PoissonSampled)
class PoissonBatches(Latent):
    """Each record by a coin of its own."""

    independent: ClassVar[bool] = True

    def __init__(self, sampling: Any) -> None:
        super().__init__(sampling)
        self.rate = as_float(sampling.rate)

    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        return self.rate > rng.random((size, trials)).T

    def counts(self, sizes: Sequence[int]) -> Iterator[Counts]:
        for chosen_counts in itertools.product(*(range(size + 1) for size in sizes)):
            yield tuple((count,) for count in chosen_counts)

    def log_probability(self, sizes: Sequence[int], counts: Counts) -> float:
        """Independent binomials."""
        ways = sum(log_choose(n, k) for n, (k,) in zip(sizes, counts, strict=True))
        hits = sum(k for (k,) in counts)
        misses = sum(sizes) - hits
        return ways + times_log(hits, self.rate) + times_log(misses, 1 - self.rate)

    def share(self, records: int) -> float:
        return self.rate


@batches(SampledWithoutReplacement)
class FixedBatches(Latent):
    """A uniform set of ``batch_size`` records."""

    def __init__(self, sampling: Any) -> None:
        super().__init__(sampling)
        self.size = self.most = int(as_float(sampling.batch_size))
        self.population = as_float(sampling.population)

    def check(self, records: int, adjacency: Adjacency) -> None:
        in_place(self.sampling, self.population, records, adjacency)

    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        few = 4 * self.size <= size
        members = (_distinct if few else _smallest)(trials, size, self.size, rng)
        chosen = np.zeros((trials, size), dtype=bool)
        np.put_along_axis(chosen, members, True, axis=1)
        return chosen

    def counts(self, sizes: Sequence[int]) -> Iterator[Counts]:
        for chosen_counts in summing(self.size, sizes):
            yield tuple((count,) for count in chosen_counts)

    def log_probability(self, sizes: Sequence[int], counts: Counts) -> float:
        """Multivariate hypergeometric."""
        ways = sum(log_choose(n, k) for n, (k,) in zip(sizes, counts, strict=True))
        return ways - log_choose(sum(sizes), sum(k for (k,) in counts))

    def share(self, records: int) -> float:
        return as_float(self.sampling.batch_size) / self.population


@batches(RandomAllocation)
class AllocatedBatches(Latent):
    """Each record in slots of its own choice, drawn anew each pass."""

    independent: ClassVar[bool] = True

    def __init__(self, sampling: Any) -> None:
        super().__init__(sampling)
        self.slots = int(as_float(sampling.slots))
        self.draws = int(as_float(sampling.participations))
        choices = math.comb(self.slots, self.draws)
        self.choices = self.slots if self.draws == 1 else min(choices, MOST_CHOICES)

    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        if self.draws == 1:
            return (rng.random((size, trials)).T * self.slots).astype(np.int64)
        rank = rng.random((size, trials, self.slots)).argsort(axis=2).argsort(axis=2)
        return np.ascontiguousarray((rank < self.draws).transpose(2, 1, 0))

    def counts(self, sizes: Sequence[int]) -> Iterator[Counts]:
        if not sizes:
            yield ()
            return
        for first in summing(sizes[0], [sizes[0]] * self.choices):
            yield from ((first, *others) for others in self.counts(sizes[1:]))

    def log_probability(self, sizes: Sequence[int], counts: Counts) -> float:
        """Independent multinomials over the choices of slots."""
        ways = sum(log_multinomial(row) for row in counts)
        return ways - sum(sizes) * math.log(math.comb(self.slots, self.draws))

    def outcomes(self, kinds: Sequence[Indices], size: int) -> Iterator[tuple[Places, float]]:
        if self.draws == 1:
            yield from super().outcomes(kinds, size)
            return
        sizes = [len(kind) for kind in kinds]
        first_choices = itertools.islice(
            itertools.combinations(range(self.slots), self.draws), self.choices
        )
        chosen = np.zeros((self.choices, self.slots), dtype=bool)
        np.put_along_axis(chosen, np.array(list(first_choices)), True, axis=1)
        for counts in self.counts(sizes):
            places = np.zeros((self.slots, 1, size), dtype=bool)
            for kind, row in zip(kinds, counts, strict=True):
                places[:, 0, kind] = np.repeat(chosen, row, axis=0).T
            yield places, self.log_probability(sizes, counts)
        if self.choices < math.comb(self.slots, self.draws) and kinds:
            raise InvalidParameter(f"{self.sampling.head}: too many choices of slots to list all")

    def share(self, records: int) -> float:
        return self.draws / self.slots


def in_place(sampling: Any, population: float, records: int, adjacency: Adjacency) -> None:
    """Errors: InvalidParameter under add_remove, or for another number of records."""
    if adjacency is Adjacency.ADD_REMOVE:
        raise InvalidParameter(f"{sampling.head}: no fixed population under add_remove")
    if population != records:
        raise InvalidParameter(f"{sampling.head}: declared for another number of records")


def _smallest(trials: int, size: int, batch_size: int, rng: Generator) -> Indices:
    """The records with the smallest of independent uniform numbers."""
    uniform = rng.random((size, trials)).T
    return np.argpartition(uniform, batch_size - 1, axis=1)[:, :batch_size]


def _distinct(trials: int, size: int, batch_size: int, rng: Generator) -> Indices:
    """The first ``batch_size`` different ones of records drawn with replacement."""
    drawn = rng.integers(0, size, (trials, batch_size + batch_size**2 // size + 8))
    while True:
        order = np.argsort(drawn, axis=1, kind="stable")
        values = np.take_along_axis(drawn, order, axis=1)
        new = np.ones(drawn.shape, dtype=bool)
        new[:, 1:] = values[:, 1:] != values[:, :-1]
        fresh = np.empty_like(new)
        np.put_along_axis(fresh, order, new, axis=1)
        first_draws = fresh & (np.cumsum(fresh, axis=1) <= batch_size)
        if (np.count_nonzero(first_draws, axis=1) == batch_size).all():
            return drawn[first_draws].reshape(trials, batch_size)
        drawn = np.concatenate([drawn, rng.integers(0, size, (trials, batch_size))], axis=1)

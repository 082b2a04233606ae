"""Batches in a public order, in a secret one, and cut from Poisson ones: how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.composition import Repeat
from dpaudit.families.sampling.kernel import PoissonBatches, in_place
from dpaudit.kernels.batches import (
    Batches,
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
)
from dpaudit.scope import Adjacency


class _InPlace(Batches):
    """Batches of one size, a record in one of them; a child that is repeated keeps the order."""

    draws = 1

    def __init__(self, sampling: Any) -> None:
        super().__init__(sampling)
        self.population = int(as_float(sampling.population))
        self.size = self.most = int(as_float(sampling.batch_size))
        self.slots = self.population // self.size
        self.rounds = repeats(sampling)

    def check(self, records: int, adjacency: Adjacency) -> None:
        in_place(self.sampling, self.population, records, adjacency)

    def share(self, records: int) -> float:
        return 1 / self.slots


def repeats(sampling: Any) -> int:
    """How often a pass comes back to each of its batches: as often as the child is repeated."""
    child = sampling.child
    return int(as_float(child.times)) if isinstance(child, Repeat) else 1


@batches(CyclicBatches)
class BlocksInOrder(_InPlace):
    """Batch k: the k-th block of rows.  A public order: ``Curator.permute`` first."""

    public: ClassVar[bool] = True

    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        return np.broadcast_to(np.arange(size) // self.size, (trials, size))

    def outcomes(self, kinds: Sequence[Indices], size: int) -> Iterator[tuple[Places, float]]:
        """The one there is."""
        yield np.arange(size)[None] // self.size, 0.0


@batches(ShuffledBatches)
class BlocksOfAnOrder(_InPlace, Latent):
    """Batch k: the k-th block of rows in a uniform order."""

    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        order = rng.random((size, trials)).T.argsort(axis=1)
        places = np.empty((trials, size), dtype=np.int64)
        blocks = np.broadcast_to(np.arange(size) // self.size, (trials, size))
        np.put_along_axis(places, order, blocks, axis=1)
        return places

    def counts(self, sizes: Sequence[int]) -> Iterator[Counts]:
        """Tables of so many of each kind in each batch, of which each is full."""
        for columns in self._columns(tuple(sizes), self.slots):
            yield tuple(zip(*columns, strict=True))

    def _columns(self, left: tuple[int, ...], slots: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        if slots == 0:
            yield ()
            return
        for column in summing(self.size, left):
            left_over = tuple(n - k for n, k in zip(left, column, strict=True))
            yield from ((column, *others) for others in self._columns(left_over, slots - 1))

    def log_probability(self, sizes: Sequence[int], counts: Counts) -> float:
        """Ways to fill the slots with these counts, of all ways."""
        ways = sum(log_multinomial(row) for row in counts)
        return ways - log_multinomial([self.size] * self.slots)


@batches(TruncatedPoisson)
class CutBatches(PoissonBatches):
    """Each record by a coin; of more than ``batch_size``, a uniform choice of so many."""

    independent: ClassVar[bool] = False

    def __init__(self, sampling: Any) -> None:
        super().__init__(sampling)
        self.most = int(as_float(sampling.batch_size))
        self.population = int(as_float(sampling.population))

    def check(self, records: int, adjacency: Adjacency) -> None:
        if records > self.population:
            raise InvalidParameter(
                f"{self.sampling.head}: declared for at most {self.population} records; a bound of "
                "how many there may be is part of the guarantee"
            )

    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        came = super().assign(trials, size, rng)
        turn = np.where(came, rng.random((size, trials)).T, 2.0)
        return came & (turn.argsort(axis=1).argsort(axis=1) < self.most)

    def coupled(self, trials: int, size: int, rng: Generator) -> Places:
        """Cut in the order of the rows."""
        came = super().assign(trials, size, rng)
        return came & (np.cumsum(came, axis=1) <= self.most)

    def counts(self, sizes: Sequence[int]) -> Iterator[Counts]:
        for counts in super().counts(sizes):
            if sum(k for (k,) in counts) <= self.most:
                yield counts

    def log_probability(self, sizes: Sequence[int], counts: Counts) -> float:
        """For a full batch: at least that many records came, and each subset is equally likely."""
        if sum(k for (k,) in counts) < self.most:
            return super().log_probability(sizes, counts)
        ways = sum(log_choose(n, k) for n, (k,) in zip(sizes, counts, strict=True))
        full = float(_chance(self.sampling.rate, sum(sizes), self.most).mid())
        log_full = math.log(full) if full > 0 else -math.inf
        return ways - log_choose(sum(sizes), self.most) + log_full

    def share(self, records: int) -> float:
        return kept_share(self.sampling.rate, records, self.most)


@lru_cache(maxsize=256)
def kept_share(rate: Any, records: int, most: int) -> float:
    """E min(T, B) / n, T binomial(n, q): q P(T' <= B - 2) + B / n P(T >= B), T' of n - 1."""
    if most >= records:
        return as_float(rate)
    few = 1 - _chance(rate, records - 1, most - 1)
    return float((enclose(rate) * few + _chance(rate, records, most) * most / records).mid())


def _chance(rate: Any, records: int, most: int) -> Any:
    """P(binomial(records, rate) >= most), an Arb ball."""
    import flint

    q = enclose(rate)
    if most <= 0:
        return flint.arb(1)
    if most > records:
        return flint.arb(0)
    return q.beta_lower(most, records - most + 1, regularized=True)

"""Secret batches: how the batches below a sampling are drawn, and how likely each outcome is.

A sampling is no leaf: it has no density of its own, but decides on which records its child's leaves
are released.  Batches that are drawn together are a pass: ``slots`` of them, ``rounds`` times each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose, unknowns
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from dpaudit.scope import Adjacency

Generator = np.random.Generator
Mask = NDArray[np.bool_]
Places = NDArray[Any]
Indices = NDArray[np.intp]
Counts = tuple[tuple[int, ...], ...]  # of each kind of records, in each slot


class Batches(ABC):
    """How the batches of one sampling node are drawn.

    ``slots``: batches that one assignment of records makes; ``rounds``: how often they come, in the
    same order.  ``within_use``: a pass is one use of a leaf with memory, a release a batch.
    ``size``: records in every batch, 0 where that varies; ``most``: at most so many,
    0 for any number.  ``draws``: slots of a pass that each record is in,
    0 for any number.  ``public``: no coin decides.
    ``independent``: every record has coins of its own, whoever the others are.
    Errors: InvalidParameter for a node with symbols.
    """

    slots = 1
    rounds = 1
    size = 0
    most = 0
    within_use: ClassVar[bool] = False
    draws = 0
    public: ClassVar[bool] = False
    independent: ClassVar[bool] = False

    def __init__(self, sampling: Any) -> None:
        self.sampling = sampling

    @property
    def length(self) -> int:
        """Batches of one pass."""
        return max(1, self.slots * self.rounds)

    def slot(self, index: int) -> int:
        """The slot of batch number ``index`` of all that are drawn, from 0."""
        return index % self.slots

    def eligible(self, slot: int, size: int) -> Mask:
        """The records, (size,), that can be in the batch of a slot."""
        return np.ones(size, dtype=bool)

    def check(self, records: int, adjacency: Adjacency) -> None:  # noqa: B027  (any, for most)
        """Errors: InvalidParameter for a number of records that was not declared."""

    @abstractmethod
    def assign(self, trials: int, size: int, rng: Generator) -> Places:
        """Who is in which batch, (trials, size): truth values of one batch, or numbers of slots.

        Where a record can be in several: truth values of all slots, (slots, trials, size).
        Equal generators give the records that two data sets share the same places.
        """

    def coupled(self, trials: int, size: int, rng: Generator) -> Places:
        """As :meth:`assign`, of data sets that differ in the last record: no other one moves."""
        return self.assign(trials, size, rng)

    @abstractmethod
    def outcomes(self, kinds: Sequence[Indices], size: int) -> Iterator[tuple[Places, float]]:
        """Assignments, (1, size), that stand for all, and their log probabilities.

        ``kinds``: indices of records that are equal; they stand for one another.
        """

    @abstractmethod
    def share(self, records: int) -> float:
        """The chance that one of so many records is in a given batch."""


class Latent(Batches):
    """Batches by coins under which records are exchangeable: outcomes by counts of each kind."""

    @abstractmethod
    def counts(self, sizes: Sequence[int]) -> Iterator[Counts]:
        """All ways in which records of so many of each kind can be spread over the slots."""

    @abstractmethod
    def log_probability(self, sizes: Sequence[int], counts: Counts) -> float:
        """The log probability of one way."""

    def outcomes(self, kinds: Sequence[Indices], size: int) -> Iterator[tuple[Places, float]]:
        sizes = [len(kind) for kind in kinds]
        for counts in self.counts(sizes):
            places: Places = np.zeros((1, size), dtype=np.int64 if self.draws == 1 else np.bool_)
            for kind, row in zip(kinds, counts, strict=True):
                if self.draws == 1:
                    places[0, kind] = np.repeat(np.arange(self.slots), row)
                else:
                    places[0, kind[: row[0]]] = True
            yield places, self.log_probability(sizes, counts)


BATCHES: dict[type[Node], type[Batches]] = {}
BatchesType = TypeVar("BatchesType", bound=type[Batches])


def batches(node_type: type[Node]) -> Callable[[BatchesType], BatchesType]:
    """Class decorator: how the batches below a type of node are drawn.

    Errors: InvalidParameter where another module registered one for it.
    """

    def register(cls: BatchesType) -> BatchesType:
        registered = BATCHES.get(node_type)
        if registered is not None and registered.__module__ != cls.__module__:
            raise InvalidParameter(
                f"{node_type.__name__}: its batches are drawn by {registered.__qualname__} of "
                f"{registered.__module__}; give yours a node type of its own"
            )
        BATCHES[node_type] = cls
        return cls

    return register


def draws_batches(node: Node) -> bool:
    """Whether a node's child runs on batches that a curator draws."""
    load("kernel")
    return type(node) in BATCHES


@lru_cache(maxsize=1024)
def batches_of(sampling: Node) -> Batches:
    """How the batches below a sampling are drawn; errors: InvalidParameter for symbols."""
    load("kernel")
    for name, value in sampling.parameters.items():
        if unknowns(value):
            raise InvalidParameter(f"{sampling.head}: bind {name} to a number before a run")
    return BATCHES[type(sampling)](sampling)


def in_slot(places: Places, slot: int) -> Mask:
    """The batch of one slot, (trials, n), of what :meth:`Batches.assign` gave."""
    if places.ndim == 3:
        return np.asarray(places[slot])
    return places if places.dtype == bool else np.asarray(places == slot)


def as_float(value: Any) -> float:
    """A parameter without symbols, as the nearest float."""
    return float(enclose(value).mid())


# --- counting ------------------------------------------------------------------------------------


def summing(total: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Counts at most ``sizes`` that sum to ``total``, in order; of thousands of kinds, too."""
    room = [*accumulate(reversed(sizes), initial=0)][::-1]  # from a place on
    if not 0 <= total <= room[0]:
        return
    counts, place = [0] * len(sizes), 0
    while True:
        remaining = total - sum(counts[:place])
        for k in range(place, len(sizes)):
            counts[k] = max(0, remaining - room[k + 1])
            remaining -= counts[k]
        yield tuple(counts)
        # The last place that can have one more, of those after it.
        after = 0
        for place in reversed(range(len(sizes))):
            if after and counts[place] < sizes[place]:
                break
            after += counts[place]
        else:
            return
        counts[place] += 1
        place += 1


def log_choose(n: int, k: int) -> float:
    """log of n over k."""
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def log_multinomial(counts: Sequence[int]) -> float:
    """log of (sum of counts)! / product of counts!."""
    return float(gammaln(sum(counts) + 1) - sum(gammaln(c + 1) for c in counts))


def times_log(count: int, rate: float) -> float:
    """count * log(rate), 0 where the count is."""
    if count == 0:
        return 0.0
    return count * math.log(rate) if rate > 0 else -math.inf

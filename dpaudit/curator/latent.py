"""Latent coins of a secret batch: all that can happen, where the records allow, or a few draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dpaudit.curator.coins import Generator, draw_batch
from dpaudit.curator.entitlement import Mask, sampling_numbers
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node

MOST_OUTCOMES = 64


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Batches that stand for all, and the logarithms of their probabilities.

    ``masks``: each (trials, n), or (1, n) for all trials.  ``exact``: whether they are all there
    are, up to records that are equal; otherwise equally likely draws.
    """

    masks: Sequence[Mask]
    logs: NDArray[np.float64]
    exact: bool


def drawn(
    sampling: Node, trials: int, size: int, generators: Sequence[Callable[[], Generator]]
) -> Outcomes:
    """Independent draws of the batch, one a generator."""
    masks = [draw_batch(sampling, trials, size, make()) for make in generators]
    return Outcomes(masks, np.full(len(masks), -math.log(len(masks))), exact=False)


def enumerated(sampling: Node, records: Records) -> Outcomes | None:
    """How many of each kind of equal records a batch holds; None where there are too many ways.

    Without replacement: multivariate hypergeometric; Poisson: independent binomials.  A function
    of the batch that takes equal records for one another has the same law over these outcomes.
    """
    # Records of one kind are equal in values and in presence.
    kind = 2 * records.distinct()[1] + records.present
    kinds = [np.flatnonzero(kind == k) for k in np.unique(kind)]
    sizes = [len(kind) for kind in kinds]
    counts = list(itertools.islice(_counts(sampling, sizes), MOST_OUTCOMES + 1))
    if len(counts) > MOST_OUTCOMES:
        return None
    logs = np.array([_log_probability(sampling, sizes, count) for count in counts])
    likely = np.flatnonzero(logs > -np.inf)
    masks = [_mask(kinds, counts[k], len(records)) for k in likely]
    return Outcomes(masks, logs[likely], exact=True)


def _counts(sampling: Node, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if isinstance(sampling, PoissonSampled):
        yield from itertools.product(*(range(size + 1) for size in sizes))
        return
    yield from _summing(int(sampling_numbers(sampling)[0]), sizes)


def _summing(total: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Counts at most ``sizes`` that sum to ``total``."""
    if len(sizes) == 1:
        if total <= sizes[0]:
            yield (total,)
        return
    for first in range(max(0, total - sum(sizes[1:])), min(total, sizes[0]) + 1):
        for rest in _summing(total - first, sizes[1:]):
            yield (first, *rest)


def _log_probability(sampling: Node, sizes: Sequence[int], counts: Sequence[int]) -> float:
    ways = sum(_log_choose(n, k) for n, k in zip(sizes, counts, strict=True))
    if isinstance(sampling, PoissonSampled):
        (rate,) = sampling_numbers(sampling)
        hits, misses = sum(counts), sum(sizes) - sum(counts)
        return ways + _times_log(hits, rate) + _times_log(misses, 1 - rate)
    return ways - _log_choose(sum(sizes), sum(counts))


def _times_log(count: int, rate: float) -> float:
    if count == 0:
        return 0.0
    return count * math.log(rate) if rate > 0 else -math.inf


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _mask(kinds: Sequence[NDArray[np.intp]], counts: Sequence[int], size: int) -> Mask:
    mask = np.zeros((1, size), dtype=bool)
    for kind, count in zip(kinds, counts, strict=True):
        mask[0, kind[:count]] = True
    return mask

"""Latent coins of secret batches: all that can happen, where the records allow, or a few draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.batches import Generator, Mask, Places, batches_of
from dpaudit.kernels.query import Query, Records
from dpaudit.nodes import Node

MOST_OUTCOMES = 64  # batches that are enumerated exactly; more are drawn
MOST_WAYS = 4096  # of which those that move nothing are told from one another to no end


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Assignments of records to batches that stand for all, and the logarithms of their chances.

    ``masks``: as ``Batches.assign`` gives them, each (trials, n), or (1, n) for all trials.
    ``exact``: whether they are all there are, up to records that are equal or move nothing;
    otherwise equally likely draws.
    """

    masks: Sequence[Places]
    logs: NDArray[np.float64]
    exact: bool


def drawn(
    sampling: Node, trials: int, size: int, generators: Sequence[Callable[[], Generator]]
) -> Outcomes:
    """Independent draws of the batches of a pass, one a generator."""
    masks = [batches_of(sampling).assign(trials, size, make()) for make in generators]
    return Outcomes(masks, np.full(len(masks), -math.log(len(masks))), exact=False)


def enumerated(
    sampling: Node, records: Records, asked: Iterable[tuple[Query, Mask]] | None = None
) -> Outcomes | None:
    """All batches in which the queries differ, exactly; None where there are too many.

    ``asked``: the queries of a pass, with the trials that they were on in; None for all functions
    of how many records of each kind are in each batch.  Equal records stand for one another where
    no query has weights, and records that move no query are left out: the values have the same
    joint law over these outcomes as over all batches.
    """
    queries = [] if asked is None else list(asked)
    public = batches_of(sampling).public
    kinds = 2 * records.distinct()[1] + records.present
    # In blocks, a batch's rows in their order follow from how many of each kind it has.
    blocks = np.count_nonzero(np.diff(kinds)) + 1 == len(np.unique(kinds))
    by_counts = ("exchangeable", "of_rows_in_order") if blocks else ("exchangeable",)
    alike = public or all(
        any(getattr(query, name, False) for name in by_counts) for query, _ in queries
    )
    silent = np.full(len(records), bool(queries))
    for query, on in queries:
        silent_rows = getattr(query, "silent", None)
        silent &= False if silent_rows is None else silent_rows(records, on)
    if not (alike or silent.any()):
        return None
    # Records of one kind are equal in values and in presence.
    kind = kinds if alike else np.arange(len(records))
    return _ways(sampling, np.where(silent, -1, kind).astype(np.int64).tobytes())


@lru_cache(maxsize=256)
def _ways(sampling: Node, kinds: bytes) -> Outcomes | None:
    """The outcomes for records of these kinds; -1: they move nothing."""
    kind, drawn_as = np.frombuffer(kinds, dtype=np.int64), batches_of(sampling)
    silent = kind < 0
    groups = [np.flatnonzero(kind == k) for k in np.unique(kind[~silent])]
    if silent.any() and not drawn_as.independent:
        groups.append(np.flatnonzero(silent))
    ways = drawn_as.outcomes(groups, len(kind))
    first_ways = list(itertools.islice(ways, MOST_WAYS + 1))
    # Outcomes that differ in nothing but who of the silent is where are one.
    merged: dict[bytes, tuple[Places, float]] = {}
    for places, log in first_ways:
        key = places[..., ~silent].tobytes()
        before = merged.get(key, (places, -np.inf))
        merged[key] = before[0], float(np.logaddexp(before[1], log))
    if len(first_ways) > MOST_WAYS or len(merged) > MOST_OUTCOMES:
        return None
    likely = [(places, log) for places, log in merged.values() if log > -np.inf]
    return Outcomes([p for p, _ in likely], np.array([log for _, log in likely]), exact=True)

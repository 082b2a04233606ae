"""Latent coins of secret batches: all that can happen, where the records allow, or a few draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.batches import Generator, Places, batches_of
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node

MOST_OUTCOMES = 64


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Assignments of records to batches that stand for all, and the logarithms of their chances.

    ``masks``: as ``Batches.assign`` gives them, each (trials, n), or (1, n) for all trials.
    ``exact``: whether they are all there are, up to records that are equal; otherwise equally
    likely draws.
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


def enumerated(sampling: Node, records: Records) -> Outcomes | None:
    """How many of each kind of equal records each batch holds; None where there are too many ways.

    A function of the batches that takes equal records for one another has the same law over these
    outcomes.
    """
    # Records of one kind are equal in values and in presence.
    kind = 2 * records.distinct()[1] + records.present
    kinds = [np.flatnonzero(kind == k) for k in np.unique(kind)]
    ways = batches_of(sampling).outcomes(kinds, len(records))
    found = list(itertools.islice(ways, MOST_OUTCOMES + 1))
    if len(found) > MOST_OUTCOMES:
        return None
    logs = np.array([log for _, log in found])
    likely = np.flatnonzero(logs > -np.inf)
    return Outcomes([found[k][0] for k in likely], logs[likely], exact=True)

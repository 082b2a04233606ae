"""Queries of secure aggregation: sums over clients of what each has rounded to whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, ClippedMean, Records, client_weights
from dpaudit.scope import Adjacency, choose


@dataclass(frozen=True, eq=False)
class ClientTotals(ClippedMean):
    """sum_p round(mean of client p's clipped rows / (grain radius)), over clients who stay.

    Records are laid out client by client, ``client_sizes`` of each.  Clipping as in
    :class:`ClippedMean`, ``radius`` public; the mean of a client's rows is counted in units of
    ``grain`` times the radius, and rounded half up, coordinate by coordinate (``dimension`` of
    them).  ``gone``: clients (numbers from 0) who drop out and add nothing: public.
    The integer vector moves by at most ``units_moved`` in squares.
    Errors: InvalidParameter for a grain that is not positive, clients who are not there, no client
    who stays, a secret batch.
    Source: Kairouz, Liu, Steinke 2021, Algorithm 1, with rounding to the nearest.
    """

    client_sizes: tuple[int, ...] = ()
    grain: float = 1.0
    dimension: int = 1
    gone: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None or self.divisor is not None:
            raise InvalidParameter("ClientTotals: weights and divisor are those of clients")
        client_weights(self.client_sizes)
        if not (math.isfinite(self.grain) and self.grain > 0):
            raise InvalidParameter(f"ClientTotals.grain = {self.grain}: expected positive")
        everybody = range(len(self.client_sizes))
        if not set(self.gone) < set(everybody):
            raise InvalidParameter(
                f"ClientTotals.gone = {self.gone}: expected some of {len(everybody)} clients, "
                "numbered from 0, and one that stays"
            )

    @property
    def exchangeable(self) -> bool:
        """Equal records of different clients do not stand for one another."""
        return False

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Whole numbers, shape (trials, dimension); 0 where the radius is."""
        if chosen is not None:
            raise InvalidParameter("ClientTotals: clients, not records, are missing: no batches")
        if len(records) != sum(self.client_sizes):
            raise InvalidParameter(
                f"ClientTotals: {len(records)} records, not {sum(self.client_sizes)}"
            )
        kinds, origin = records.distinct()
        client = np.repeat(np.arange(len(self.client_sizes)), self.client_sizes)
        weights = np.zeros((len(self.client_sizes), len(kinds)))
        each = records.present / np.asarray(self.client_sizes)[client]
        np.add.at(weights, (client, origin), each)
        weights = np.delete(weights, list(self.gone), axis=0)
        rows = self._clipped(kinds)
        unit = self.grain * np.broadcast_to(self.radius, rows.shape[:1])
        with np.errstate(all="ignore"):
            scaled = rows / np.where(unit > 0, unit, 1.0)[:, None, None]
            means = np.einsum("pk,tkd->tpd", weights, scaled)
            rounded = np.floor(means + 0.5).sum(axis=1)
        return np.asarray(np.where((unit > 0)[:, None], rounded, 0.0))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The root of ``units_moved``; 0 where the radius is."""
        adjacency = choose(Adjacency, adjacency, "ClientTotals.sensitivity: adjacency")
        smallest = min(self.client_sizes)
        moved = units_moved(adjacency, smallest, self.grain, self.dimension)
        return np.where(self.radius > 0, math.sqrt(moved), 0.0)


def units_moved(adjacency: Adjacency, records: int, grain: float, dimension: int) -> int:
    """The largest sum of squares by which one record moves a client's rounded mean.

    Before rounding the mean over ``records`` moves by r = 2 / (records grain) units under
    replace_one, half that where a record is zeroed out; rounding moves either end by at most
    sqrt(dimension) / 2; and a sum of squares of whole numbers is whole.
    Errors: InvalidParameter under add_remove, where a mean has no sensitivity.

    >>> from dpaudit.families.distributed.totals import units_moved
    >>> units_moved("replace_one", records=100, grain=0.001, dimension=4)
    484
    """
    adjacency = choose(Adjacency, adjacency, "units_moved: adjacency")
    if adjacency is Adjacency.ADD_REMOVE:
        raise InvalidParameter("a mean over a client's records: use zero_out or replace_one")
    factor = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    far = factor / (records * grain) + math.sqrt(dimension)
    # More than floating point can have taken from the root, or moved a value before rounding.
    return math.floor(far * far * (1 + 1e-9))

"""Whether the batches of a loader are drawn as declared: every record by a coin of its own.

``sizes`` and row numbers of successive batches are tested against Poisson sampling at a rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
from scipy.stats import binom, binomtest, chi2

from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Array, Data
from dpaudit.membership.step.runs import leaves, rows_of

MOST = 400  # batches that are looked at


@dataclass(frozen=True)
class Drawn:
    """Successive batches of ``count`` records: row numbers, or None where rows are unknown."""

    count: int
    sizes: tuple[int, ...]
    rows: tuple[Array, ...] | None


def drawn(batches: Iterable[Any], data: Data) -> Drawn:
    """The rows that batches hold, found by their content; row numbers are taken as they are.

    Errors: InvalidParameter for a loader without batches.
    """
    table = {key: place for place, key in enumerate(_keys(data.features))}
    unique = len(table) == len(data)
    sizes: list[int] = []
    rows: list[Array] | None = [] if unique else None
    for batch in islice(batches, MOST):
        part = rows_of(batch)
        sizes.append(len(part))
        if part.ndim == 1 and part.dtype.kind in "iu" and data.features.ndim > 1:
            places = part.tolist()
        else:
            places = [table.get(key) for key in _keys(part.astype(data.features.dtype))]
            if part.dtype != data.features.dtype and None in places:
                narrow = _keys(data.features.astype(part.dtype))
                lookup = {key: place for place, key in enumerate(narrow)}
                places = [lookup.get(key) for key in _keys(part)]
        if None in places or (places and max(places) >= len(data)):
            rows = None
        elif rows is not None:
            rows.append(np.array(places, dtype=np.intp))
    if not sizes:
        raise InvalidParameter("loader(): it gives no batch")
    return Drawn(len(data), tuple(sizes), None if rows is None else tuple(rows))


def contents(batches: Iterable[Any]) -> set[bytes]:
    """The rows of all batches: features, labels and weights, in single precision.

    Rows may have been multiplied by a matrix, whose rounding depends on the batch.
    """
    rows: set[bytes] = set()
    for batch in batches:
        given = (batch.features, batch.labels) if hasattr(batch, "features") else batch
        parts = [np.asarray(part) for _, part in leaves(given)]
        rounded = [part.astype(np.float32) if part.dtype.kind == "f" else part for part in parts]
        rows.update(map(b"".join, zip(*map(_keys, rounded), strict=True)))
    return rows


def faults(lots: Drawn, rate: float | None, error: float) -> list[str]:
    """How the batches differ from Poisson sampling, in words; each at this error rate.

    ``rate``: None for the batches' own mean.
    """
    count, steps, total = lots.count, len(lots.sizes), sum(lots.sizes)
    used = total / (count * steps)
    texts = []
    if lots.rows is not None:
        texts += _repeats(lots.rows, count, used, error)
    if rate is not None and binomtest(total, count * steps, rate).pvalue < error:
        texts.append(f"a record is in {used:.3g} of the batches, and {rate:g} is declared")
    if 0 < used < 1 and steps > 1:
        texts += _sizes(lots.sizes, count, used, error)
    return texts


def _sizes(sizes: Sequence[int], count: int, rate: float, error: float) -> list[str]:
    most = float(np.max(binom.pmf(np.unique(sizes), count, rate)))
    if len(set(sizes[:-1])) == 1 and most ** max(len(sizes) - 2, 0) < error:
        return [f"all batches have {sizes[0]} records, so no record is drawn by a coin of its own"]
    spread = float(np.sum((np.array(sizes) - np.mean(sizes)) ** 2)) / (count * rate * (1 - rate))
    if float(chi2.cdf(spread, len(sizes) - 1)) < error:
        return ["the batches' sizes vary less than those of records drawn each by a coin"]
    return []


def _repeats(rows: Sequence[Array], count: int, rate: float, error: float) -> list[str]:
    if any(len(np.unique(batch)) < len(batch) for batch in rows):
        return ["a record is twice in one batch"]
    shared = sum(len(np.intersect1d(a, b)) for a, b in pairwise(rows))
    # Given one batch, each of its records is in the next by a coin of the rate.
    met = sum(len(a) for a in rows[:-1])
    if met and float(binom.sf(shared - 1, met, rate)) < error:
        return ["a record of one batch is more often in the next, as where a batch is used twice"]
    if met and float(binom.cdf(shared, met, rate)) < error:
        return ["a record of one batch is missing in the next, as where records are shuffled"]
    return []


def _keys(rows: Array) -> list[bytes]:
    return [np.ascontiguousarray(row).tobytes() for row in rows]

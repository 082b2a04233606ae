"""Synthetic data: attacks on a released table by distances and density ratios.

The generator is the training, and the released table is the model.  A record's score says how
closely the table reproduces it.  Attacks that calibrate scores by reference models apply on top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Array, Data, FloatArray
from dpaudit.membership.targets import Released

KINDS = ("nearest", "density_ratio")  # of scores for synthetic records


@dataclass(frozen=True, eq=False)
class SyntheticTarget:
    """``fitted(records, rng) -> table`` (rows, columns), released whole.

    ``kind`` nearest: minus the distance to the nearest synthetic row, in deviations of each column
    (Yeom et al. 2018's loss has no counterpart here; Hilprecht et al. 2019, Monte Carlo attack).
    density_ratio: log density of the table at the record less that of ``reference`` records, by
    Gaussian kernels (van Breugel et al. 2023, DOMIAS, equation (2)).
    Errors: InvalidParameter for another kind, or a density ratio without reference records.
    """

    fitted: Callable[[Data, np.random.Generator], Any]
    kind: str = "nearest"
    reference: Data | None = None
    released: Released = Released.SCORES

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidParameter(f"kind = {self.kind!r}: expected one of {', '.join(KINDS)}")
        if self.kind == "density_ratio" and self.reference is None:
            raise InvalidParameter("density_ratio: give reference records, in no training")

    @property
    def words(self) -> str:
        name = getattr(self.fitted, "__qualname__", type(self.fitted).__name__)
        return f"{name}, a generator: {self.kind.replace('_', ' ')} of its table"

    def fit(self, records: Data, rng: np.random.Generator) -> FloatArray:
        table = np.asarray(self.fitted(records, rng), dtype=np.float64)
        if table.ndim != 2 or len(table) == 0:
            raise InvalidParameter(f"generator: a table of shape {table.shape}; expected (n, d)")
        return table

    def score(self, model: FloatArray, records: Data) -> Array:
        from sklearn.neighbors import KernelDensity, NearestNeighbors

        queried = _flat(records)
        base = model if self.reference is None else _flat(self.reference)
        deviation = base.std(axis=0)
        scale = np.where(deviation > 0, deviation, 1.0)
        table, rows = model / scale, queried / scale
        if self.kind == "nearest":
            distances, _ = NearestNeighbors(n_neighbors=1).fit(table).kneighbors(rows)
            return np.asarray(-distances[:, 0])
        densities = []
        for side in (table, base / scale):
            width = len(side) ** (-1 / (side.shape[1] + 4))  # Scott's rule
            densities.append(KernelDensity(bandwidth=width).fit(side).score_samples(rows))
        return np.asarray(densities[0] - densities[1])


def _flat(records: Data) -> FloatArray:
    return records.features.reshape(len(records), -1).astype(np.float64)

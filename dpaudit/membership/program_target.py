"""Declared mechanisms as targets: the attacker sees the last model of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.membership.data import Array, Data
from dpaudit.membership.targets import Released


@dataclass(frozen=True, eq=False)
class ProgramTarget:
    """A mechanism whose program has a ``loss`` and returns models; audits its records ``rows``.

    An excluded record is zeroed out: it contributes nothing to any query, and the number of records
    stays public.  The two data sets are neighbours under zero_out; under replace_one they are if
    the data may hold a record that contributes nothing.  The attacker sees only the final model's
    scores; `dpaudit audit` attacks the declared noise.

    Errors: InvalidParameter for a mechanism without records or loss, or rows out of range.
    """

    mechanism: Mechanism
    rows: Sequence[int]
    released: Released = Released.SCORES
    _records: Records = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_records", self.mechanism.load())
        count = len(self._records)
        if not self.rows or not all(0 <= row < count for row in self.rows):
            raise InvalidParameter(f"rows: expected some of 0 to {count - 1}")
        if not hasattr(self._loss, "values"):
            raise InvalidParameter(f"{self.mechanism.name}: its program has no loss to score by")

    @property
    def words(self) -> str:
        claims = "; ".join(claim.text for claim in self.mechanism.claims)
        return f"{self.mechanism.title} ({self.mechanism.name}: {claims}), last model"

    @property
    def _loss(self) -> Any:
        program: Any = self.mechanism.program
        return getattr(program, "loss", None) or getattr(
            getattr(program, "gradient", None), "loss", None
        )

    @property
    def data(self) -> Data:
        """The audited records; the first column is the row's number in the mechanism's records."""
        rows = np.asarray(self.rows)
        return Data(np.column_stack([rows, self._records.values[rows]]))

    def fit(self, records: Data, rng: np.random.Generator) -> Array:
        present = np.ones(len(self._records), dtype=bool)
        present[np.asarray(self.rows)] = False
        present[records.features[:, 0].astype(int)] = True
        members = Records(self._records.values, present)
        mechanism = self.mechanism
        sampler = Sampler(mechanism.declaration, mechanism.scope, members, rng=rng, trials=1)
        trained: Any = mechanism.program.run(sampler)
        return np.asarray(trained.last)

    def score(self, model: Array, records: Data) -> Array:
        values = self._loss.values(model, np.ascontiguousarray(records.features[:, 1:]))
        return np.asarray(-np.asarray(values)[0])

"""A release's synthetic records as the target of a membership audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from dpaudit.releases.items.item import Vector
from dpaudit.releases.plan import Plan
from dpaudit.releases.program import GeneratedTables
from dpaudit.releases.publish import published_rows
from dpaudit.releases.synthetic import NAME, synthesised
from dpaudit.tabular import Category, Number, Schema


def generator(plan: Plan) -> Callable[[Any, np.random.Generator], Array]:
    """The plan as a generator for membership audits, ``SyntheticTarget(generator(plan))``.

    Its records have all columns of the schema, as numbers: a value, or the place of a key.  Noise
    is drawn from the audit's own generator, by the law of the plan's.
    Errors: InvalidParameter for a plan without synthetic records, or records of other columns.
    """
    release = plan.release
    columns = tuple(release.schema.columns)
    if release.synthetic is None or release.synthetic.columns != columns:
        raise InvalidParameter(
            f"{release.title!r}: expected a plan with {NAME} records of all its columns, in order"
        )
    reader = GeneratedTables(release)

    def fitted(records: Any, rng: np.random.Generator) -> Array:
        features = np.asarray(records.features, dtype=np.float64).reshape(len(records.features), -1)
        present = np.ones((len(features), 1))
        values = reader.values(Records(np.hstack([present, features])))
        drawn = {}
        for label, part in plan.parts.items():
            assert isinstance(part, Vector)  # noqa: S101  (what counts are)
            exact = np.array(values[label], dtype=np.float64)
            drawn[label] = (exact + plan.margins.draws(label, exact.size, rng)).astype(int).tolist()
        synthetic = synthesised(plan, published_rows(plan, drawn))
        assert synthetic is not None  # noqa: S101  (the release asks for records)
        cells = [
            _numbers(release.schema, n, c)
            for n, c in zip(columns, zip(*synthetic.records, strict=True), strict=True)
        ]
        return np.stack(cells, axis=1)

    return fitted


def _numbers(schema: Schema, name: str, cells: Sequence[str]) -> Array:
    """A column's cells as the numbers that records of an audit have."""
    column = schema.columns[name]
    if isinstance(column, Number):
        return np.array([float(column.value(cell, NAME)) for cell in cells])
    assert isinstance(column, Category)  # noqa: S101  (texts have no counts)
    return np.array([float(column.domain.index(cell)) for cell in cells])

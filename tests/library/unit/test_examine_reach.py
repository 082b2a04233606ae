"""How far an examination has to reach before it supports a certificate."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine, shapes
from dpaudit.audit.examine.examination import MOVED
from dpaudit.check.conformance import FEWEST_RECORDS
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.scope import Adjacency
from tests.support.examined import mechanism


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """A sum of clipped residuals of a model with ``weights`` (trials, d), centred by the data."""

    weights: Array
    centred: bool

    @property
    def norm(self) -> Norm:
        return "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = np.nan_to_num(records.values, posinf=0.0, neginf=0.0).clip(-1e9, 1e9)
        rows = rows - rows.mean(axis=0) if self.centred else rows
        length = np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        kept = rows / length * records.present[:, None]
        total: Array = kept.sum(axis=0)[None] + 0 * self.weights
        return total

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0)


@dataclass(frozen=True, eq=False)
class Fit:
    """One noisy step of a model of five weights."""

    centred: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("gradient", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        weights = np.zeros((curator.trials, 5))
        return curator.release("gradient", WeightedSum(weights, self.centred))


# --- the records that are made -------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove", "zero_out"])
def test_a_field_called_weights_says_nothing_of_the_number_of_records(adjacency: str) -> None:
    wrong = examine(mechanism("fit", Fit(centred=True), adjacency), seed=1)
    assert wrong.shape is not None
    assert wrong.shape.rows >= FEWEST_RECORDS
    assert MOVED in {finding.check for finding in wrong.broken}
    right = examine(mechanism("fit", Fit(centred=False), adjacency), seed=1)
    assert not right.not_examined
    assert not right.broken


def test_taken_for_weights_of_records_it_hides_the_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "ClippedMean", WeightedSum)
    found = examine(mechanism("fit", Fit(centred=True)), seed=1)
    assert found.shape is not None
    assert found.shape.rows == 1


# --- hooks ---------------------------------------------------------------------------------------


def nothing(rng: np.random.Generator) -> Any:
    return np.zeros((8, 5))


def no_row(rng: np.random.Generator) -> Records:
    return Records(np.zeros((0, 5)))


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (nothing, "fit: its records_like hook returned ndarray; return dpaudit.Records(rows)"),
        (lambda rng: None, "returned NoneType"),
        (no_row, "raised InvalidParameter: Records: shape (0, 5)"),
        (lambda rng: rng.nothing(), "raised AttributeError (tests/library/unit/"),
    ],
)
def test_a_hook_that_makes_no_records_is_refused_before_anything_runs(hook: Any, said: str) -> None:
    made = replace(mechanism("fit", Fit(centred=False)), records_like=hook)
    with pytest.raises(InvalidParameter, match=re.escape(said)):
        examine(made, seed=1)


def test_data_of_another_type_are_refused_by_name() -> None:
    rows: Any = np.zeros((8, 5))
    made = replace(mechanism("fit", Fit(centred=False)), records=lambda: rows)
    with pytest.raises(InvalidParameter, match="fit: its records hook returned ndarray"):
        made.load()

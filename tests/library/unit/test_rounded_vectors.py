"""Discrete noise is added to whole numbers: distances are those after rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine
from dpaudit.audit.examine.examination import MOVED
from dpaudit.families.additive.kernel import DiscreteKernel, DiscreteLaplaceKernel
from dpaudit.families.distributed import DistributedGaussianVector
from dpaudit.families.tabular import DiscreteGaussianVector
from dpaudit.kernels.base import Kernel
from dpaudit.kernels.query import Array
from tests.support.examined import mechanism

LEAVES = {
    "gaussian": DiscreteGaussianVector("sum", 8, 100, moves=()),
    "distributed": DistributedGaussianVector("sum", 8, 12, 4, 100),
}


@dataclass(frozen=True)
class Sums:
    """Sums of rows that are cut to norm 5, and then to whole numbers unless they stay ``real``."""

    leaf: dp.Node
    real: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.leaf

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("sum", dp.ClippedMean(self._rows, radius=5, divisor=1))

    def _rows(self, rows: Any) -> Any:
        norms = np.linalg.norm(rows, axis=-1, keepdims=True)
        cut = rows * np.minimum(1, 5 / np.maximum(norms, 1e-300))
        return cut[None] if self.real else np.trunc(cut)[None]


def broken(name: str, *, real: bool) -> set[str]:
    """The checks that find something; where that is wanted, the first of them alone."""
    found = examine(mechanism("sums", Sums(LEAVES[name], real)), seed=1, first=real)
    return {finding.check for finding in found.broken}


@pytest.mark.first_case
@pytest.mark.parametrize("name", LEAVES)
def test_real_vectors_move_further_than_their_clip(name: str) -> None:
    assert MOVED in broken(name, real=True)


@pytest.mark.quality
@pytest.mark.parametrize("name", LEAVES)
def test_whole_vectors_move_no_further(name: str) -> None:
    assert broken(name, real=False) == set()


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", LEAVES)
def test_before_rounding_nothing_would_be_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (DiscreteKernel, *DiscreteKernel.__subclasses__()):
        monkeypatch.setattr(kind, "apart", Kernel.apart)
    assert MOVED not in broken(name, real=True)


def test_one_number_moves_by_no_more_than_a_whole_sensitivity() -> None:
    """20,000 pairs of numbers at most 3 apart, seed 1."""
    session = DiscreteLaplaceKernel(dp.DiscreteLaplace("count", 2, 3), 20_000)
    rng = np.random.default_rng(1)
    values = rng.uniform(-9, 9, (20_000, 1))
    others = values + rng.uniform(-3, 3, values.shape)
    assert (session.apart(values, others, np.full(20_000, 3.0)) <= 3).all()

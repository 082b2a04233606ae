"""An update that stretches distances is told as one, not as a question that follows the records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine, study
from dpaudit.audit.examine.displacement import UNSOUND
from dpaudit.kernels.iterations import Iterations
from dpaudit.kernels.query import Array
from tests.support.examined import mechanism


@dataclass(frozen=True)
class Last:
    """The last of three noisy steps on the mean of clipped pulls to the first column, or away."""

    away: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.LastIterate("weights", 5, 3, contraction="0.94")

    def run(self, curator: dp.Curator) -> Array:
        def gradient(w: Array) -> dp.ClippedMean:
            def rows(values: Array) -> Array:
                apart = w[:, None] - np.clip(np.nan_to_num(values[:, :1]), -1, 1)[None]
                return -4 * apart if self.away else np.clip(apart, -1, 1)

            return dp.ClippedMean(rows, radius=1)

        return curator.release("weights", Iterations(gradient, np.zeros(1), 0.2, 0.3))


def told(*, away: bool) -> list[str]:
    found = examine(mechanism("last", Last(away)), seed=1, seconds=2, first=True)
    return [f.detail for f in found.broken]


@pytest.mark.quality
def test_an_update_that_stretches_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(away=True)
    assert any(UNSOUND in text for text in found), found
    assert not any("what it asks depends" in text for text in found)
    assert not told(away=False)
    monkeypatch.setattr(study.Asking, "alone", lambda *_: False)
    monkeypatch.setattr("dpaudit.audit.examine.walks.unsound", lambda *_: ())
    assert not any(UNSOUND in text for text in told(away=True))

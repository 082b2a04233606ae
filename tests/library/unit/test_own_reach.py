"""How far a program's own loss moves its releases, where no pair saturates them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine
from dpaudit.certificate.evidence import evidence_caveats
from dpaudit.kernels.query import ClippedMean
from dpaudit.report.words import TOGETHER
from tests.support.examined import mechanism


class Half:
    """A mean of rows that are ``length`` long at most, clipped to 1."""

    def __init__(self, length: float) -> None:
        self.length = length

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("mean", 4)

    def run(self, curator: Any) -> Any:
        def rows(values: Any) -> Any:
            return self.length * np.tanh(np.asarray(values))[None, :, :1]

        return curator.release("mean", ClippedMean(rows, 1.0))


class Centred(Half):
    """Rows less their mean: of rows without numbers among others nothing is left."""

    def run(self, curator: Any) -> Any:
        return curator.release("mean", ClippedMean(lambda v: (v - v.mean(axis=0))[None], 1.0))


def test_a_query_that_whole_runs_move_too_far_is_none_that_no_record_moved() -> None:
    found = examine(mechanism("centred", Centred(1.0)), seed=1)
    assert any("times its stated" in finding.detail for finding in found.broken)
    assert max(part.displacement for part in found.reached) > 1


def said(length: float) -> list[str]:
    found = examine(mechanism("reach", Half(length)), seed=1)
    return [text for text in evidence_caveats(found, (), "plain") if TOGETHER in text]


@pytest.mark.quality
def test_a_loss_that_cannot_reach_its_clip_says_what_it_reaches_at_most() -> None:
    (text,) = said(0.5)
    assert text.startswith("the program's own loss reached at most 50% of what its releases")
    assert said(2.0) == []

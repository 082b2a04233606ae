"""The audit of a new project sees leaks through absolute values, norms and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from audits.noisy_mean import noisy_mean as suite
from audits.noisy_mean import pair
from dpaudit.audit.attack import attack
from dpaudit.kernels.query import clip_rows
from mechanisms.noisy_mean import NoisyMean, noisy_mean

ERROR = 5e-5


class Leaking(NoisyMean):
    """Clips each row, but after a change that is made of all of them."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def run(self, curator: Any) -> Any:
        query = dp.ClippedMean(lambda rows: self.change(rows)[None], radius=1)
        return curator.release("mean", query)


LEAKS = {
    "the largest absolute value": lambda r: r / np.abs(r).max(),
    "weights by norms": lambda r: 5 * r / np.linalg.norm(r, axis=1).sum(),
    "sums of absolute values": lambda r: r + np.abs(r).sum(0),
    "mean square": lambda r: r + (r**2).mean(),
}


def broken(pair: dp.Neighbours, program: Any) -> set[str]:
    found = attack(
        noisy_mean, dp.Suite("noisy_mean", program, pair, trials=400), seed=1, error=ERROR
    )
    return {finding.check for finding in found.findings if finding.status == "broken"}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_seen(leak: str) -> None:
    assert "stated sensitivities" in broken(pair, Leaking(LEAKS[leak]))


def test_what_it_was_before_is_blind() -> None:
    """+1 and -1 among zeros have the same absolute values, norms and weights."""
    first, second = np.zeros((10, 2)), np.zeros((10, 2))
    first[0, 0], second[0, 0] = 1.0, -1.0
    old = dp.Neighbours(
        dp.Records(first), dp.Records(second), dp.Adjacency.REPLACE_ONE, "one row is +1 or -1"
    )
    for name in ("the largest absolute value", "weights by norms"):
        assert broken(old, Leaking(LEAKS[name])) == set()


def test_nothing_is_seen_in_the_right_program() -> None:
    """False alarms: 5e-5.  It moves the mean by more than nine tenths of its sensitivity."""
    assert broken(pair, suite.program) == set()
    one, other = (clip_rows(rows.values, np.array(1.0)) for rows in pair.pair)
    moved = (one - other).mean(0)
    assert 0.9 < np.linalg.norm(moved) / (2 / len(pair.first)) <= 1

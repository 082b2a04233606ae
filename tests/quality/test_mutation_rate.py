"""Every mutant of a whole mechanism, each with its right twin: what `certify` says of them.

The catalogue's figures are in docs/mutation.md (`make mutants-certify`, hours).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpaudit.mutate.report import rate, twins
from dpaudit.mutate.run import CERTIFIED, Order, run


@pytest.mark.quality
def test_no_mutant_of_the_noisy_mean_is_certified(checkout: Path) -> None:
    ran = run(Order("catalogue:noisy_mean", checkout))
    survivors = [f"{r.where} {r.name}" for r in ran.results if r.status == CERTIFIED]
    assert len(ran.results) >= 8
    assert rate(ran.results) == 1.0, survivors
    assert twins(ran.results)["flagged"] == 0

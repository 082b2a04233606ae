"""A million rows: programs of papers 1, 3 and 4 beside plain NumPy loops of the same steps."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.million import CASES, FEATURES, ROWS, Case, measured

AIM, BUSY = 2.0, 1.25  # times the loop; and what a busy machine adds to a ratio


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mechanism.name)
def test_a_run_takes_at_most_twice_the_time_of_a_loop(case: Case) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(-1, 1, (ROWS, FEATURES)), rng.random(ROWS) < 0.5])
    found = measured(case, rows)
    assert found["times_the_loop"] <= AIM * BUSY
    assert found["megabytes_above_records"] < 400

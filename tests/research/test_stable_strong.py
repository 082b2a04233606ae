"""Algorithm 5's rate at an epsilon that floats can hold: its program, and what is read of it."""

from __future__ import annotations

import math

import pytest

from experiments.lab.model import Cell, Result, Results, Size, Status
from experiments.stable_erm import rates, strong
from mechanisms.papers.stable_erm.problem import erm_phases


def test_rounding_is_small_and_phases_are_those_printed() -> None:
    for cell in strong.cells(Size.FULL):
        at = cell.count("users"), cell.count("log10_items"), cell.count("dimension")
        assert strong.rounding(*at) < rates.MOST_ROUNDING
        assert strong.last_phase(*at) < 0.05
        made = strong.program(*at)
        assert made.phases.count == erm_phases(at[0], 10 ** at[1])
        # The noise of the first phase is a quarter of the ball or less: the rate is not trivial.
        assert rates.spread(made.phases) * math.sqrt(at[2]) < 0.25


def of_rate(steeper: float = 0.0) -> Results:
    """Excess that is Table 1's with its logarithms, or steeper in n."""
    rows = []
    for cell in strong.cells(Size.FULL):
        n, k, d = (cell.count(name) for name in ("users", "log10_items", "dimension"))
        rate = strong.logarithms(n, k, d) * d / (n**2 * 10.0**k) * n**-steeper
        values = {
            "excess": [rate * (1 + 0.01 * j) for j in range(3)], "largest": [rate, 1.1 * rate],
            "tilt": 2.0, "far": 1.0, "passed": 1.0, "rate": rate, "phases": 65, "kappa": 472,
        }  # fmt: skip
        rows.append(Result(cell, values))
    return Results(tuple(rows))


@pytest.mark.parametrize(("steeper", "status"), [(0.0, Status.HELD), (0.5, Status.MISSED)])
def test_the_slope_in_n_is_judged_with_logarithms_taken_out(steeper: float, status: Status) -> None:
    found = {c.name.rpartition(" ")[2]: c for c in strong.read(of_rate(steeper)).checks[1:4]}
    assert {found[axis].status for axis in ("m", "d")} == {Status.HELD}
    assert found["n"].status is status
    assert found["n"].value == pytest.approx(-2 - steeper, abs=1e-6)


def test_a_phase_that_is_bottom_is_missed() -> None:
    rows = of_rate().rows
    failed = Result(rows[0].cell, {**rows[0].values, "passed": 0.9})
    first = strong.read(Results((failed, *rows[1:]))).checks[0]
    assert first.status is Status.MISSED


def test_one_size_has_no_slope() -> None:
    cell = strong.cells(Size.QUICK)
    assert len(cell) == 1
    alone = Results((Result(cell[0], of_rate().rows[0].values),))
    assert not [c for c in strong.read(alone).checks if "slope" in c.name]
    assert isinstance(cell[0], Cell)


def test_the_first_grid_had_noise_for_rounding_above_its_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At epsilon = 8 and m = 1e16: what the rule of the grid now refuses."""
    monkeypatch.setattr(strong, "EPSILON", 8)
    strong.program.cache_clear()
    strong.last_phase.cache_clear()
    assert strong.last_phase(32_768, 16, 4) > 1
    strong.program.cache_clear()
    strong.last_phase.cache_clear()

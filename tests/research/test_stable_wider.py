"""Rates of Algorithms 3, 5 and 6 over wider ranges: public grids, and what is a check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.lab.model import Cell, Result, Results, Size, Status
from experiments.lab.papers import read_file
from experiments.lab.running import distinct
from experiments.stable_erm import rates, wider


def test_grids_are_distinct_and_chosen_by_public_numbers() -> None:
    for size in Size:
        distinct(wider.cells(size))
    for kind, axes in wider.GRIDS.items():
        for grid in axes.values():
            for users, exponent, d in grid:
                made = wider.program(kind, users, exponent, d)
                phases = getattr(made, "phases", made)
                first = getattr(phases, "sizes", (users,))[0]
                stated, spread = rates._stated(phases, first), rates.spread(phases)
                assert 1 - stated / spread <= 1 / 39  # for rounding
                walk = wider.walk(kind, users, exponent, d)
                assert walk == "" if kind == "strong_sco" else 0 < float(walk) < 0.02
                assert phases.count >= 7
                # The tilts up to 2 leave shares below 1.
                kink = np.sqrt(d) * rates.SHARP_LEVEL * rates.MODULUS * (kind in rates.STRONG)
                assert 2 * np.sqrt(d) * spread + kink <= 1


def test_a_run_at_twice_the_users_is_the_run_scaled() -> None:
    """What a slope in n of Algorithm 3 says, and why it is no check."""
    (kind,) = wider.SCALED
    cell = Cell.of(algorithm=kind, axis="users", seed=0, sizes=2)
    excess = wider.run(cell, np.random.default_rng(3))["excess"]
    fewer, more = np.reshape(np.asarray(excess), (2, -1)) / [
        [wider.rate(kind, *size)] for size in wider.GRIDS[kind]["users"][:2]
    ]
    np.testing.assert_allclose(fewer, more, rtol=1e-4)


def made(power: float) -> Results:
    """Results whose worst excess is the rate with its logarithms taken out, to a power of the size.

    ``power`` is added to the exponents of Table 1.
    """
    rng, rows = np.random.default_rng(5), []
    for cell in wider.cells(Size.FULL):
        kind, axis = cell.text("algorithm"), cell.text("axis")
        slopes = rates.SLOPES[kind in rates.STRONG]
        excess: list[float] = []
        for size in wider.GRIDS[kind][axis]:
            x = size[0 if axis == "users" else 2]
            value = wider.logarithms(kind, *size) * x ** (slopes[axis] + power)
            excess += list(value * (1 + 0.01 * rng.standard_normal()) * np.array([0.1, 1, 0.5, 0]))
        values = {"excess": excess, "far": [1e9] * cell.count("sizes"), "passed": 1.0}
        rows.append(Result(cell, values))
    return Results(tuple(rows))


def test_slopes_are_judged_but_those_that_hold_by_construction() -> None:
    for power, expected in ((0.0, Status.HELD), (0.3, Status.MISSED), (-0.3, Status.MISSED)):
        checks = wider.read(made(power)).checks
        slopes = {c.name: c.status for c in checks if "slope in" in c.name}
        assert set(slopes.values()) == {expected}
        assert {name.split(",")[0] + name[-2:] for name in slopes} == {
            "Algorithm 3 d",
            *(f"Algorithm {k} {axis}" for k in (5, 6) for axis in "nd"),
        }  # fmt: skip
    table = next(t for t in wider.read(made(0.0)).tables if t.title.startswith("Slopes"))
    assert len(table.rows) == 6


def test_a_certificate_that_failed_is_missed() -> None:
    rows = [Result(r.cell, {**r.values, "passed": 0.99}) for r in made(0.0)]
    checks = wider.read(Results(tuple(rows))).checks
    assert {c.status for c in checks if "certificate" in c.name} == {Status.MISSED}


def test_the_error_of_a_slope_is_the_jackknifes() -> None:
    """Leaving out one of seeds that are alike changes nothing; of seeds that differ it does."""
    own = made(0.0).where(algorithm="strong_sco", axis="users")
    alike = Results(tuple(Result(r.cell, own.rows[0].values) for r in own))
    assert wider.slope(alike, bare=True)[1] == pytest.approx(0, abs=1e-12)
    assert wider.slope(own, bare=True)[1] > 1e-4


def test_what_the_statements_say_of_the_committed_result_is_so(checkout: Path) -> None:
    """Algorithm 3 is the same at every n; over the rate Algorithm 6's excess falls."""
    read = read_file(wider.stable_wider, checkout / "experiments" / "results")
    assert read.findings is not None, read.why
    table = read.findings.tables[0]
    over = table.columns.index("excess over it")
    along = {
        kind: [float(row[over]) for row in table.rows if row[:2] == (rates.NAMES[kind], "n")]
        for kind in wider.KINDS
    }
    assert max(along["erm"]) / min(along["erm"]) < 1.0001
    assert along["strong_sco"] == sorted(along["strong_sco"], reverse=True)
    # Algorithm 5 falls faster than its band has it, and over the rate levels off.
    (slope,) = (c for c in read.findings.checks if c.name.startswith("Algorithm 5") and
                c.name.endswith("slope in n"))  # fmt: skip
    assert slope.value + slope.margin < slope.lower
    assert max(along["strong_erm"]) == along["strong_erm"][0]
    assert along["strong_erm"][-1] == pytest.approx(along["strong_erm"][-2], rel=0.05)
    (walk,) = {wider.walk("strong_erm", 65_536, 12, 4)}
    assert 0.33 < float(walk) < 0.4  # "a third of the rate"

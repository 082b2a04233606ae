"""Algorithm 3's risk: losses, the share of epsilon on secret batches, what the grid says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from experiments.lab.learning import BAND, TITLE
from experiments.lab.model import Cell, Findings, Result, Results, Size, Status, judge
from experiments.lab.papers import Agreement, Read, agreement
from experiments.lab.running import distinct
from experiments.user_level import phased, problem
from experiments.user_level.statements import USER_LEVEL


def test_the_distance_is_one_lipschitz_with_its_derivative() -> None:
    loss, rng = phased.Distance(3), np.random.default_rng(2)
    x, z = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(loss.values(x, z)[1], np.linalg.norm(x[1] - z, axis=1))
    gradients = loss.gradients(x, z)
    np.testing.assert_allclose(np.linalg.norm(gradients, axis=-1), 1)
    step = np.array([1e-6, 0, 0])
    slope = (loss.values(x + step, z) - loss.values(x - step, z)) / 2e-6
    np.testing.assert_allclose(gradients[..., 0], slope, atol=1e-8)
    assert (loss.gradients(z[:1], z)[0, 0] == 0).all()


@pytest.mark.parametrize("loss", phased.ROUNDS)
def test_the_least_risk_is_least(loss: str) -> None:
    rng = np.random.default_rng(1)
    assert all(phased.excess(loss, x / 2) > 0 for x in rng.normal(size=(20, 5)) / 3)
    if loss == phased.SMOOTH:
        mean = problem.MEAN / problem.BIAS * phased.BIAS
        assert phased.excess(loss, mean) == pytest.approx(0, abs=1e-9)
        assert phased.excess(loss, np.zeros(5)) == pytest.approx(phased.BIAS**2 / 2, rel=1e-6)


def test_a_loss_that_is_not_smooth_runs_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(phased.ROUNDS, phased.SHARP, 15)
    cell = Cell.of(loss=phased.SHARP, reads=phased.ALL, users=2048, items=64, draws=1)
    values = phased.run(cell, np.random.default_rng(1))
    (found,) = values["risk"]  # type: ignore[misc]
    assert values["halted"] == 0
    assert found < 0.5 * float(values["start"])  # type: ignore[arg-type]


@pytest.mark.quality
def test_rounds_on_secret_batches_add_up_to_epsilon() -> None:
    made = problem.problem(16384, 16)
    share = phased.share(made, 1.0, 30)
    program = phased.program(phased.SMOOTH, phased.SECRET, 16384, 16)
    costs = [
        p.rounds * math.log1p(p.batch / p.users * math.expm1(2 * share)) for p in program.phases
    ]
    assert phased.EPSILON / 2 < max(costs) <= phased.EPSILON


def made(ratio: float) -> Results:
    rows = []
    for cell in phased.cells(Size.FULL):
        value = 0.1 * ratio ** math.log2(cell.number("users") / 4096)
        risks = [value, 1.02 * value]
        rows.append(Result(cell, {"risk": risks, "halted": 0, "gradients": 7, "start": 0.4}))
    return Results(tuple(rows))


def statements(found: Findings) -> dict[str, Agreement]:
    """What is found of every statement that this experiment decides, by its words."""
    own = [s for s in USER_LEVEL.statements if s.experiment == "user_level_phased"]
    read = Read("user_level_phased", found)
    return {f"{s.place}: {s.says}": agreement(s, read)[0] for s in own}


def test_the_grid_is_read_and_its_statements_are_decided() -> None:
    assert distinct(phased.cells(Size.FULL))
    good, bad = phased.read(made(0.7)), phased.read(made(2.0))
    assert judge(good.checks) is Status.HELD
    assert judge(bad.checks) is Status.MISSED
    assert list(statements(good).values()) == [Agreement.AGREES] * 7
    assert list(statements(bad).values()) == [Agreement.DOES_NOT] * 7


def test_a_steeper_risk_is_no_slower_and_has_another_rate() -> None:
    """n^-1.3: the theorems bound from above, so that one statement holds and the other does not."""
    for words, found in statements(phased.read(made(0.4))).items():
        other = Agreement.DOES_NOT if "has that rate" in words else Agreement.AGREES
        assert found is other, words


def test_a_flatter_risk_is_slower_than_the_theorem() -> None:
    """n^-.15: it falls with n, and ends below its start, and does not do what is printed."""
    for words, found in statements(phased.read(made(0.9))).items():
        one_n = "from which no slope" in words
        assert found is (Agreement.AGREES if one_n else Agreement.DOES_NOT), words


def test_every_n_is_beside_its_start() -> None:
    """A method that learns at the largest n alone is missed at the others."""
    rows = list(made(0.7).rows)
    cells = phased.cells(Size.FULL)
    found = phased.read(Results(tuple(rows)))
    (table,) = (table for table in found.tables if table.title == TITLE)
    assert len(table.rows) == len(cells) == 20
    worse = replace(rows[0], values={**rows[0].values, "risk": [0.5, 0.51]})
    missed = [c.name for c in phased.read(Results((worse, *rows[1:]))).checks
              if c.status is Status.MISSED and BAND in c.source]  # fmt: skip
    name = f"{phased.SMOOTH}, {phased.ALL}, n = 4096, m = 16: share of its start's value that is"
    assert missed == [f"{name} left"]


def test_the_theorems_rate_is_judged_with_its_own_constants() -> None:
    """2 x 2 (1/sqrt(n m) + sqrt(5)/(8 n sqrt m)) at n = 4096, m = 16, of the smooth loss."""
    expected = 4 * (1 / 256 + math.sqrt(5) / (8 * 4096 * 4))
    assert phased._rate(phased.SMOOTH, 4096, 16) == pytest.approx(expected)
    assert phased._rate(phased.SHARP, 4096, 16) == pytest.approx(expected / 2)

"""Algorithm 3's risk: losses, the share of epsilon on secret batches, what the grid says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.user_level import phased, problem
from lab.model import Cell, Result, Results, Size, Status, judge
from lab.papers import Agreement, Read, agreement
from lab.running import distinct


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


def test_the_grid_is_read_and_its_statements_are_decided() -> None:
    assert distinct(phased.cells(Size.FULL))
    good, bad = phased.read(made(0.7)), phased.read(made(2.0))
    assert judge(good.checks) is Status.HELD
    assert judge(bad.checks) is Status.MISSED
    from experiments.user_level.statements import USER_LEVEL

    own = [s for s in USER_LEVEL.statements if s.experiment == "user_level_phased"]
    read = Read("user_level_phased", good)
    assert [agreement(s, read)[0] for s in own] == [Agreement.AGREES] * 3

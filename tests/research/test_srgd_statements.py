"""What decides paper 3's statements: each check is seen to miss where what it guards is gone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.errors import InvalidParameter
from experiments.lab.model import Cell, Check, Findings, Result, Results, Size, Status
from experiments.srgd import acceleration, costs, problem, risk, statements
from mechanisms.papers.claims_page import printed
from mechanisms.papers.srgd.constants import theorem_5_8
from mechanisms.papers.srgd.rows import Clipped


def own(findings: Findings, begins: str) -> list[Check]:
    found = [check for check in findings.checks if check.name.startswith(begins)]
    assert found
    return found


def risks(of: float, power: float) -> Findings:
    """Every method at ``of`` times the rate to this power of what it falls by."""
    rows = []
    for cell in risk.cells(Size.FULL):
        n = cell.number("n")
        value = of * risk.rate(2**10) * (risk.rate(n) / risk.rate(2**10)) ** power
        rows.append(Result(cell, {"excess": [value, 1.001 * value], "rounds": 8}))
    return risk.read(Results(tuple(rows)))


@pytest.mark.parametrize("method", risk.AS_PRINTED)
def test_printed_constants_are_asked_for_the_rate_and_its_fall(method: str) -> None:
    good = own(risks(1.5, 1.0), f"{method}: ")
    assert len(good) == 2
    assert {c.status for c in good} == {Status.HELD}
    assert [c.status for c in own(risks(2.5, 1.0), f"{method}: excess")] == [Status.MISSED]
    assert [c.status for c in own(risks(1.5, 0.1), f"{method}: log-log")] == [Status.MISSED]


def test_theorem_5_12_runs_with_its_own_noise_and_clip() -> None:
    program = risk.as_printed(2**10)
    gradient = program.gradient
    assert (gradient.rounds, gradient.beta, gradient.rows) == (32, 384, Clipped(Fraction(12)))
    # beta R^2 / T^2, whatever n: 24 L R / sqrt n.
    assert float(gradient.beta) * problem.RADIUS**2 / 32**2 == risk.literal_term(2**10)
    account = Account(program.declaration(problem.SCOPE), problem.SCOPE)
    assert account.epsilon(problem.DELTA).upper < 0.41  # Corollary 5.11 has more than is needed


def test_theorem_5_8_has_no_batch_at_the_sizes_that_run() -> None:
    def made(n: int) -> int:
        return theorem_5_8(n, problem.FEATURES, problem.EPSILON, problem.DELTA, radius=2).batch

    for n in (2**18, statements.LEAST - 1):
        with pytest.raises(InvalidParameter, match="batch = 0"):
            made(n)
    with pytest.raises(InvalidParameter, match=f"asks for {statements.ROUNDS} rounds"):
        made(2**18)
    assert made(statements.LEAST) == 1


def counted(power: float, batch_power: float) -> Findings:
    rows = []
    for cell in costs.cells(Size.FULL):
        n, method = cell.number("n"), cell.text("method")
        gradients, steps = n**power, n**batch_power
        if method in costs.OURS:
            gradients, steps = 2 * n, n ** costs.STEP_SLOPES[method]
        values = {"gradients": gradients, "declared_gradients": gradients, "row_steps": 1}
        rows.append(Result(cell, {**values, "steps": steps, "declared_steps": steps}))
    return costs.read(Results(tuple(rows)))


@pytest.mark.parametrize("method", [m for m in costs.GROWTHS if m not in costs.PUT_IN])
def test_a_growth_beyond_two_logarithms_is_seen(method: str) -> None:
    power, batch = costs.GROWTHS[method]
    name = f"{costs.CITED[method]}: log-log slope"
    assert {c.status for c in own(counted(power, batch), name)} == {Status.HELD}
    gradients, steps = own(counted(power + 0.4, batch + 0.4), name)
    assert (gradients.status, steps.status) == (Status.MISSED, Status.MISSED)


def test_a_growth_that_is_put_in_is_a_table() -> None:
    found = counted(1.0, 0.5)
    (table,) = (t for t in found.tables if "put in" in t.title)
    named = {row[0] for row in table.rows}
    assert named == {*costs.OURS.values(), *(costs.CITED[m] for m in costs.PUT_IN)}
    assert not any("slope" in c.name and c.name.startswith(tuple(named)) for c in found.checks)


def test_a_gap_above_the_printed_bound_is_seen() -> None:
    def read(gap: float) -> list[Check]:
        values = {"gap": [gap / t**1.05 for t in acceleration.ROUNDS]}
        rows = (Result(Cell.of(method=m, d=400), values) for m in acceleration.SLOPES)
        return own(acceleration.read(Results(tuple(rows))), "bound, ")

    assert {c.status for c in read(0.1)} == {Status.HELD}
    assert {c.status for c in read(100.0)} == {Status.MISSED}
    start = acceleration._gap(np.zeros((1, acceleration.DIMENSION)))
    assert math.isclose(start, 0.1247, abs_tol=1e-4)


def test_what_is_refuted_is_corollary_5_7() -> None:
    """As the page says beside its count of the refuted claims."""
    found = [row for row in printed() if row.paper == "srgd" and row.outcome == "refuted"]
    assert found
    assert {row.statement.partition(":")[0] for row in found} == {"proof of Corollary 5.7"}
    assert "Every refuted claim is one of Corollary 5.7" in statements.SRGD.setting

"""DIFF2's utility bounds: their slopes and values, that they hold, and what refuses bad input."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import Logistic, squared_gradient_norm
from mechanisms.papers.diff2.bvr_noise import InfeasibleBatchSize, Plan, diff2_bvr_noise_paper
from mechanisms.papers.diff2.framework import Diff2, LocalDescent
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.diff2.theory import (
    Budget,
    Problem,
    diff2_bvr_bound,
    diff2_bvr_step_size,
    diff2_bvr_theory_params,
    diff2_gd_auto,
    diff2_gd_bound,
    diff2_gd_step_size,
    diff2_gd_theory_params,
    dp_gd_auto,
)
from tests.support.kernels import sampled

SIZES = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
PROBLEM = Problem(smoothness=0.35, gradient_bound=1.145, gap=math.log(2), dimension=20)


def budget(total: int, **options: Any) -> Budget:
    return Budget(3, Fraction(1, 10**5), total, **options)


# --- DIFF2-GD ------------------------------------------------------------------------------------


def test_slopes_of_the_least_bounds() -> None:
    """DP-GD -1, DIFF2-GD -4/3 in the number of records, within .02."""
    logs = np.log(SIZES)
    for chooser, slope in ((dp_gd_auto, -1), (diff2_gd_auto, -4 / 3)):
        bounds = [chooser(PROBLEM, budget(n)).gradient_norm_upper for n in SIZES]
        assert np.polyfit(logs, np.log(bounds), 1)[0] == pytest.approx(slope, abs=0.02)


def test_values_at_ten_thousand_records() -> None:
    """Printed: 4.942e-3 at R = 394 and, on a coarser grid, 7.26e-4 at R = 2522, T = 133, u = 2."""
    plain = dp_gd_auto(PROBLEM, budget(10**4))
    assert plain.gradient_norm_upper == pytest.approx(4.942e-3, rel=2e-4)
    assert abs(plain.rounds - 394) <= 1
    best = diff2_gd_auto(PROBLEM, budget(10**4))
    assert 0.99 * 7.26e-4 < best.gradient_norm_upper <= 7.26e-4
    assert best.share == 2
    for rounds, every, printed in ((2522, 133, 7.26e-4), (4467, 236, 7.27e-4)):
        noise = budget(10**4).noise(19, rounds - 19, 2)
        found = diff2_gd_bound(PROBLEM, rounds, every, noise)
        assert found == pytest.approx(printed, rel=1e-3)
        assert found >= best.gradient_norm_upper


def test_the_bound_by_hand() -> None:
    """2 gap/(eta R) + 2 sigma_1^2 C1^2 d at eta = 1/(2 sqrt(T d) sigma_2 C2) < 1/(2L)."""
    noise = Noise(Fraction(1, 10), Fraction(1, 2))
    problem = Problem(smoothness=2.0, gradient_bound=3.0, gap=0.5, dimension=4)
    step = 1 / (2 * math.sqrt(5 * 4) * 0.5 * 2.0)
    assert diff2_gd_step_size(problem, 5, noise) == pytest.approx(step, rel=1e-14)
    expected = 2 * 0.5 / (step * 40) + 2 * 0.01 * 9 * 4
    assert diff2_gd_bound(problem, 40, 5, noise) == pytest.approx(expected, rel=1e-14)
    assert diff2_gd_step_size(problem, 5, Noise(1, 0)) == 1 / 4


@pytest.mark.parametrize("chooser", [diff2_gd_theory_params, diff2_gd_auto, dp_gd_auto])
def test_a_choice_is_of_one_piece(chooser: Any) -> None:
    """Its noise is what the budget buys for its schedule; its bound and step size are its own."""
    spent = budget(10**4, calibration="tight")
    found = chooser(PROBLEM, spent)
    restarts = -(-found.rounds // found.restart_every)
    assert found.noise == spent.noise(restarts, found.rounds - restarts, found.share)
    again = diff2_gd_bound(PROBLEM, found.rounds, found.restart_every, found.noise)
    assert found.gradient_norm_upper == again
    assert found.step_size == diff2_gd_step_size(PROBLEM, found.restart_every, found.noise)
    assert found.gradient_norm_upper < chooser(PROBLEM, budget(10**4)).gradient_norm_upper


def test_no_schedule_nearby_has_a_smaller_bound() -> None:
    found = diff2_gd_auto(PROBLEM, budget(10**4))
    rng = np.random.default_rng(0)
    for _ in range(300):
        rounds = int(found.rounds * np.exp(rng.normal(0, 1))) + 1
        every = min(rounds, int(found.restart_every * np.exp(rng.normal(0, 1))) + 1)
        restarts = -(-rounds // every)
        noise = budget(10**4).noise(
            restarts, rounds - restarts, float(rng.choice([1.25, 2.0, 4.0]))
        )
        other = diff2_gd_bound(PROBLEM, rounds, every, noise)
        assert other > 0.999 * found.gradient_norm_upper


def test_the_schedule_of_theorem_4_3() -> None:
    """tau = (G^2 sqrt(d)/(L N eps))^(2/3) at N = 10^4, and T = tau R."""
    found = diff2_gd_theory_params(PROBLEM, budget(10**4))
    tau = (1.145**2 * math.sqrt(20) / (0.35 * 3e4)) ** (2 / 3)
    assert found.restart_every == round(tau * found.rounds)
    target = (0.35 * 1.145 * 20) ** (2 / 3) / 3e4 ** (4 / 3)
    assert found.rounds == math.ceil(1 + 0.35 / target + 0.35**2 * 20 / (3e4 * target) ** 2)
    logs = [math.log(diff2_gd_theory_params(PROBLEM, budget(n)).gradient_norm_upper) for n in SIZES]
    assert np.polyfit(np.log(SIZES), logs, 1)[0] == pytest.approx(-4 / 3, abs=0.05)


def test_the_bound_holds_on_a_run() -> None:
    """Mean squared gradient norm of 400 outputs, five standard errors above, against the bound.

    Logistic loss on 40 unit rows: G = 1, L = 1/4, gap at most log 2; nothing is clipped.
    """
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    rows = np.hstack(
        [rows / np.linalg.norm(rows, axis=1, keepdims=True), rng.integers(0, 2, (40, 1))]
    )
    problem = Problem(smoothness=0.25, gradient_bound=1.0, gap=math.log(2), dimension=3)
    for every in (1, 6):
        restarts = -(-30 // every)
        noise = budget(40).noise(restarts, 30 - restarts, 1 if every == 1 else 2)
        program = Diff2(
            Logistic(), 3, (20, 20), 30, every, 1.0, 0.25,
            diff2_gd_step_size(problem, every, noise), noise,
        )  # fmt: skip
        run = sampled(program, Records(rows), central("replace_one"), seed=1, trials=400)
        assert run.entitlements.counts()
        outputs = program.run(_again(program, rows)).output
        norms = squared_gradient_norm(Logistic(), outputs, rows)
        measured = norms.mean() + 5 * norms.std() / 20
        assert measured <= diff2_gd_bound(problem, 30, every, noise)
        assert norms.mean() > 1e-6


def _again(program: Diff2, rows: Any) -> Any:
    from dpaudit.curator.curator import Sampler

    scope = central("replace_one")
    return Sampler(
        program.declaration(scope), scope, Records(rows), rng=np.random.default_rng(2), trials=400
    )


# --- DIFF2-BVR-L-SGD -----------------------------------------------------------------------------

PLAN = Plan(10_000, 10, 500, 10, 10, 80)


def test_the_local_bound_by_hand() -> None:
    """2 gap/(eta K R) + 2e sigma_1^2 C1^2 d, and each branch of eta in turn."""
    problem = Problem(smoothness=2.0, gradient_bound=3.0, gap=0.5, dimension=4)
    plan, quiet = Plan(100, 2, 20, 5, 3, 4), Noise(Fraction(1, 10), 0)
    local = 1 / (2 * math.sqrt(2 * math.e * (12 * 0.25 + 3 * 4 / 4 + 3 * 4 * 0.01 * 4)))
    assert diff2_bvr_step_size(problem, plan, quiet, Fraction(1, 10), 0.5) == pytest.approx(local)
    loud = replace(quiet, sigma_2=Fraction(9))
    server = 1 / (2 * math.sqrt(2 * math.e * 5) * 3 * 9 * 2 * 2)
    assert diff2_bvr_step_size(problem, plan, loud, Fraction(1, 10), 0.5) == pytest.approx(server)
    big = replace(plan, steps=1, batch_size=100)
    assert diff2_bvr_step_size(problem, big, quiet, Fraction(0), 0.0) == 1 / 4
    expected = 2 * 0.5 / (local * 3 * 20) + 2 * math.e * 0.01 * 9 * 4
    assert diff2_bvr_bound(problem, plan, quiet, Fraction(1, 10), 0.5) == pytest.approx(expected)


def test_the_schedule_of_theorem_f_4() -> None:
    found = diff2_bvr_theory_params(PROBLEM, 100_000, 4, 20, 30, 0.1, 3, 1e-5)
    reach = 3 * 4e5
    tau = (1.145**2 * math.sqrt(20) / (0.35 * reach)) ** (2 / 3)
    assert found.plan.restart_every == round(tau * found.plan.rounds)
    target = (0.35 * 1.145 * 20) ** (2 / 3) / reach ** (4 / 3)
    first = 0.35 / 20 + 0.1 + 0.35 / math.sqrt(600) + 0.35 * math.sqrt(20 / 3 / 20) / 30
    second = 0.35**2 * 20 / (4 * (1e5 * 3 * target) ** 2)
    assert found.plan.rounds == math.ceil(1 + first / target + second)
    noise, sigma = diff2_bvr_noise_paper(3, 1e-5, found.plan)
    assert (found.noise, found.sigma) == (noise, sigma)
    again = diff2_bvr_bound(PROBLEM, found.plan, noise, sigma, 0.1)
    assert found.gradient_norm_upper == again
    alike = diff2_bvr_theory_params(PROBLEM, 100_000, 4, 20, 30, 0.0, 3, 1e-5)
    assert alike.plan.rounds < found.plan.rounds
    with pytest.raises(InfeasibleBatchSize):
        diff2_bvr_theory_params(PROBLEM, 100_000, 4, 20, 10_000, 0.1, 3, 1e-5)


def test_a_local_schedule_runs() -> None:
    """The chosen parameters make a program whose declaration holds the claim."""
    found = diff2_bvr_theory_params(PROBLEM, 1_000, 4, 4, 3, 0.0, 3, 1e-5)
    plan = replace(found.plan, rounds=8, restart_every=2)
    noise, sigma = diff2_bvr_noise_paper(3, 1e-5, plan)
    made = Diff2(
        Logistic(), 3, (1_000,) * 4, 8, 2, 1.145, 0.35, found.step_size, noise,
        routine=LocalDescent(4, 3, sigma, 0.35),
    )  # fmt: skip
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (4_000, 4)).round(1)
    rows[:, 3] = rows[:, 3] > 0
    sampler = sampled(made, Records(rows), central("replace_one"), seed=1, trials=2)
    assert all(low == total for total, low, _ in sampler.entitlements.counts().values())


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["smoothness", "gradient_bound", "gap", "dimension"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "1", None, True])
def test_problems_hold_positive_numbers(field: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=field):
        replace(PROBLEM, **{field: value})


@pytest.mark.parametrize(
    "given",
    [(0, 1e-5, 10), (math.nan, 1e-5, 10), (3, 1, 10), (3, 0, 10), (3, 1e-5, 0), (3, 1e-5, 2.5),
     (3, 1e-5, True), (3, 1e-5, 10, "loose")],
)  # fmt: skip
def test_budgets_are_checked(given: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameter):
        Budget(*given)


def test_too_few_records_or_senseless_searches_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="the theory needs at least"):
        diff2_gd_theory_params(PROBLEM, budget(5))
    with pytest.raises(InvalidParameter, match="no run makes so many"):
        diff2_gd_theory_params(PROBLEM, budget(10**30))
    for shares in ((), (1.0, 2.0), (math.nan,), (math.inf,)):
        with pytest.raises(InvalidParameter, match="shares"):
            diff2_gd_auto(PROBLEM, budget(10**4), shares=shares)
    for rounds in (0, -1, 2.5):
        with pytest.raises(InvalidParameter, match="most_rounds"):
            diff2_gd_auto(PROBLEM, budget(10**4), most_rounds=rounds)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="most_rounds"):
            dp_gd_auto(PROBLEM, budget(10**4), most_rounds=rounds)  # type: ignore[arg-type]
    assert diff2_gd_auto(PROBLEM, budget(10**4), most_rounds=50).rounds <= 50
    for zeta in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="heterogeneity"):
            diff2_bvr_step_size(PROBLEM, PLAN, Noise(1, 1), Fraction(1), zeta)

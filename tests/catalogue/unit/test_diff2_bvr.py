"""DIFF2-BVR-L-SGD: its ledgers, its calibration, what it computes without noise, its worst case."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audits.diff2 import opposed, suite, worst_case
from dpaudit.accountant.account import account
from dpaudit.accountant.claim import Outcome
from dpaudit.audit.attack import attack
from dpaudit.audit.bounds.estimators import choose_threshold, count_errors, epsilon_lower
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import LeastSquares
from mechanisms.papers.diff2.bvr_noise import (
    InfeasibleBatchSize,
    Plan,
    diff2_bvr_noise_numeric,
    diff2_bvr_noise_paper,
    largest_batch,
)
from mechanisms.papers.diff2.catalogue import (
    TIGHT_PLAN,
    TIGHT_SIGMA,
    diff2_bvr_local_sgd,
    diff2_bvr_local_sgd_tight,
)
from mechanisms.papers.diff2.framework import Diff2, LocalDescent, turns
from mechanisms.papers.diff2.noise import Noise
from tests.support.kernels import NoNoise, replayer, sampled

SCOPE = central("replace_one")


def program(clients: tuple[int, ...] = (6, 6), **changes: Any) -> Diff2:
    given: dict[str, Any] = {
        "loss": LeastSquares(),
        "features": 2,
        "client_sizes": clients,
        "rounds": 5,
        "restart_every": 2,
        "gradient_radius": 1e6,
        "difference_radius": 1e6,
        "step_size": 0.05,
        "noise": Noise(0.1, 0.2),
        "routine": LocalDescent(steps=3, batch_size=2, sigma=0.5, radius=1e6),
    }
    return Diff2(**{**given, **changes})


def regression(n: int = 12) -> Records:
    return Records(np.random.default_rng(0).uniform(-1, 1, size=(n, 3)))


# --- declaration ---------------------------------------------------------------------------------


def test_each_client_has_a_ledger_of_its_own_turns() -> None:
    """Round r is the turn of client r mod P (counted from 0): 1, 0, 1, 0, 1 of two clients."""
    local = program().declaration(SCOPE).children[-1]
    assert local == Parallel(
        *(
            Repeat(SampledWithoutReplacement(Gaussian(f"local {k}", 0.5), 2, 6), 2 * own)
            for k, own in ((0, 2), (1, 3))
        )
    )
    assert [turns(7, 3, k) for k in range(3)] == [2, 3, 2]
    assert [turns(4, 1, 0), turns(1, 2, 0)] == [4, 0]


@pytest.mark.parametrize("clients", [(6, 6), (12,), (3, 4, 5)])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_run_uses_its_declaration_up(clients: tuple[int, ...], steps: int) -> None:
    routine = LocalDescent(steps, batch_size=2, sigma=1, radius=1e6)
    made = program(clients, routine=routine)
    counts = sampled(made, regression(), SCOPE, seed=1, trials=2).entitlements.counts()
    assert all(low == high == total for total, low, high in counts.values())
    local = sum(total for label, (total, *_) in counts.items() if label.startswith("local"))
    assert local == 5 * (steps - 1)


@pytest.mark.quality
def test_a_client_s_own_guarantee_is_no_worse_than_the_run_s() -> None:
    """Larger clients weigh less; the run's declaration charges the smallest for all."""
    made = program((20, 40), noise=Noise(0.15, 0.25), rounds=4)
    whole = account(made.declaration(SCOPE), SCOPE).epsilon(1e-5)
    own = [account(made.client_declaration(SCOPE, k), SCOPE).epsilon(1e-5) for k in range(2)]
    assert own[1].upper < own[0].lower
    assert float(own[0].upper) == pytest.approx(float(whole.upper), abs=2e-4)


@pytest.mark.parametrize(
    "change",
    [{"steps": 0}, {"batch_size": 0}, {"radius": -1.0}, {"radius": math.nan}, {"sigma": -1}],
)
def test_bad_local_parameters_are_refused(change: dict[str, Any]) -> None:
    given = {"steps": 2, "batch_size": 2, "sigma": 1, "radius": 1.0, **change}
    with pytest.raises(InvalidParameter):
        LocalDescent(**given)


def test_a_batch_above_the_smallest_client_is_refused_before_a_run() -> None:
    made = program((2, 10), routine=LocalDescent(2, 3, 1, 1.0))
    with pytest.raises(InvalidParameter, match="smallest client has 2"):
        made.declaration(SCOPE)


# --- without noise -------------------------------------------------------------------------------


def last(made: Diff2, records: Records) -> Any:
    return made.run(sampled_without_noise(made, records)).last


def sampled_without_noise(made: Diff2, records: Records) -> Sampler:
    return Sampler(
        made.declaration(SCOPE),
        SCOPE,
        records,
        rng=np.random.default_rng(0),
        trials=1,
        kernels={Gaussian: NoNoise},
    )


def test_one_local_step_is_the_gradient_descent_routine() -> None:
    one = program(routine=LocalDescent(1, 2, 1, 1.0))
    plain = replace(one, routine=Diff2.routine)
    np.testing.assert_array_equal(last(one, regression()), last(plain, regression()))


def test_one_client_and_full_batches_make_k_r_steps_of_gradient_descent() -> None:
    """P = 1, b = n, no noise: every local estimate is the exact gradient (they telescope)."""
    data = regression()
    made = program((12,), routine=LocalDescent(4, 12, 1, 1e6))
    steps = replace(made, rounds=20, restart_every=1, routine=Diff2.routine)
    np.testing.assert_allclose(last(made, data), last(steps, data), atol=1e-12)


# --- calibration ---------------------------------------------------------------------------------

TABLE_B = [
    ((1651, 10, 2000, 20, 10, 13), 3, "3.634161e-3 1.584094e-2 .5652669", 13),
    ((10000, 10, 500, 10, 10, 80), 3, "4.242641e-4 1.272792e-3 .09185587", 82),
    ((10000, 10, 500, 10, 10, 10), 1, "1.224745e-3 3.674235e-3 1.224745", 10),
    ((100000, 4, 400, 10, 20, 800), 3, "9.486833e-5 2.846050e-4 9.185587e-3", 823),
]


@pytest.mark.parametrize(("sizes", "epsilon", "printed", "most"), TABLE_B)
def test_the_closed_form(sizes: Any, epsilon: int, printed: str, most: int) -> None:
    plan = Plan(*sizes)
    noise, sigma_3 = diff2_bvr_noise_paper(epsilon, 1e-5, plan)
    found = [float(enclose(s).mid()) for s in (noise.sigma_1, noise.sigma_2, sigma_3)]
    assert found == pytest.approx([float(s) for s in printed.split()], rel=2e-7)
    assert largest_batch(epsilon, 1e-5, plan) == most
    with pytest.raises(InfeasibleBatchSize, match=f"up to {most}"):
        diff2_bvr_noise_paper(epsilon, 1e-5, replace(plan, batch_size=most + 1))


def test_budget_shares_that_leave_nothing_are_refused() -> None:
    plan = Plan(1651, 10, 2000, 20, 10, 13)
    with pytest.raises(InvalidParameter, match="2/3"):
        diff2_bvr_noise_paper(3, 1e-5, plan, 2, 3)
    with pytest.raises(InvalidParameter, match="< 1"):
        diff2_bvr_noise_numeric(3, 1e-5, plan, 1.5, 1.5)


@pytest.mark.quality
def test_the_numeric_calibration_has_no_floor() -> None:
    """Setting 5.2, where Lemma B.7 has no solution: its floor of 44 x .1305 is above the budget."""
    plan = Plan(40, 2, 8, 4, 11, 8)
    noise, sigma_3 = diff2_bvr_noise_numeric(3, 1e-5, plan, 6, 6)
    assert 0.3 < sigma_3 < 1.461675
    made = setting_5_2(sigma_3, noise)
    bound = account(made.declaration(SCOPE), SCOPE).epsilon(1e-5)
    assert 2.99 < bound.upper <= 3


# --- the worst case ------------------------------------------------------------------------------


def setting_5_2(sigma_3: Any = Fraction("1.461675"), noise: Noise | None = None) -> Diff2:
    return program(
        (40, 40),
        rounds=8,
        restart_every=4,
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=0.1,
        noise=noise or Noise(Fraction("0.15"), Fraction("0.259808")),
        routine=LocalDescent(11, 8, sigma_3, 1.0),
    )


@pytest.mark.quality
def test_the_two_sided_profile_of_the_spec_s_setting() -> None:
    """[1.5575, 1.5751], where the Renyi route says 2.456."""
    opened = account(setting_5_2().declaration(SCOPE), SCOPE)
    bound = opened.epsilon(1e-5)
    assert 1.5575 <= bound.lower <= bound.upper <= Fraction("1.57511")
    assert float(opened.converted("rdp", 1e-5).value[0]) == pytest.approx(2.456, abs=1e-3)


@pytest.mark.quality
def test_the_scores_are_exact_log_likelihood_ratios() -> None:
    """E_D[exp(-score)] = E_D'[exp(score)] = 1: within 5 standard errors, false alarms 1e-6."""
    made, pair = worst_case(setting_5_2()), opposed((40, 40)).pair
    for own, sign in ((0, -1), (1, 1)):
        sampler = sampled(made, pair[own], SCOPE, seed=own, trials=2000)
        replay = replayer(made, pair, SCOPE).inspect(sampler.transcript, own=own)
        assert replay.attack == "exact"
        ratios = np.exp(sign * replay.scores)
        assert abs(ratios.mean() - 1) < 5 * ratios.std() / 2000**0.5 < 0.1
        assert sign * replay.scores.mean() < -0.05


@pytest.mark.quality
def test_the_catalogue_s_audit_stays_below_the_account() -> None:
    """200 trials a side: above the truth with probability 5% at most; nothing is broken."""
    mechanism = diff2_bvr_local_sgd
    attacked = attack(mechanism, suite(mechanism), seed=5, trials=200, error=1e-4)
    assert attacked.attack == "exact"
    assert {finding.status for finding in attacked.findings} == {"held"}
    assert attacked.training is not None
    assert attacked.test is not None
    threshold = choose_threshold(attacked.training, 1e-5, 200, 0.05)
    found = epsilon_lower(count_errors(attacked.test, threshold), 1e-5, 0.05)
    upper = account(mechanism.declaration, SCOPE).epsilon(1e-5).upper
    assert found.epsilon_lower <= upper == pytest.approx(1.86662, abs=1e-4)


@pytest.mark.quality
def test_the_tight_entry_has_the_least_local_noise_and_a_batch_the_paper_cannot_have() -> None:
    """A thousandth less noise is not proved; the server's noise is the printed one."""
    mechanism, plan = diff2_bvr_local_sgd_tight, TIGHT_PLAN
    (claim,) = mechanism.claims
    assert claim.check(mechanism.declaration, SCOPE).outcome is Outcome.PROVED
    routine = mechanism.program.routine
    assert (routine.sigma, routine.batch_size) == (TIGHT_SIGMA, 50)
    assert mechanism.program.noise == diff2_bvr_local_sgd.program.noise
    less = replace(routine, sigma=TIGHT_SIGMA * Fraction("0.999"))
    changed = replace(mechanism.program, routine=less).declaration(SCOPE)
    assert claim.check(changed, SCOPE).outcome is not Outcome.PROVED
    with pytest.raises(InfeasibleBatchSize, match="up to 13"):
        diff2_bvr_noise_paper(3, 1e-5, plan)

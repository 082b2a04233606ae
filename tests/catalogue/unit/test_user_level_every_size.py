"""Theorems 3.1 and 4.1 over n: a closed bound above every phase's own, large phases that run."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Records
from mechanisms.papers.user_level.accelerated import SCORE, UserLevelAcceleratedSGD
from mechanisms.papers.user_level.acsa import one_stage
from mechanisms.papers.user_level.batches import printed_batches
from mechanisms.papers.user_level.catalogue import HYPOTHESIS, SMALL
from mechanisms.papers.user_level.entries import LIPSCHITZ, LOSS, RADIUS, SMOOTHNESS
from mechanisms.papers.user_level.every_size import EverySize
from mechanisms.papers.user_level.phased_erm import printed_phased_erm
from mechanisms.papers.user_level.problem import USERS, Problem, SquaredDistance
from mechanisms.papers.user_level.smoothing import smoothed_smoothness, smoothing_radius


def sized(users: int = 2) -> Problem:
    return Problem(LOSS, users, 10, 10, RADIUS, LIPSCHITZ)


def of(epsilon: int) -> EverySize:
    return EverySize(sized(), Fraction(epsilon), SMALL, SMOOTHNESS)


@pytest.mark.parametrize(("epsilon", "least"), list(HYPOTHESIS.items()))
def test_the_catalogue_has_the_least_users_of_the_hypothesis(epsilon: int, least: int) -> None:
    assert of(epsilon).hypothesis() == least


def test_it_is_proved_at_every_size_of_the_hypothesis_at_epsilon_1() -> None:
    """To n = 1e30; at epsilon = 10 from 28,999 on, and nothing is shown from 18,259 to there."""
    assert of(1).least() == HYPOTHESIS[1]
    large = of(10)
    assert not large.proved(HYPOTHESIS[10])
    assert large.least() == 28_999
    assert not large.proved(28_998)
    assert not replace(of(1), delta=Fraction(1, 10**10)).proved(HYPOTHESIS[1])


@pytest.mark.first_case
@pytest.mark.parametrize(("epsilon", "users"), [(1, 198_325), (1, 262_144), (3, 65_535)])
def test_the_bound_is_above_every_phase(epsilon: int, users: int) -> None:
    """At powers of two, too, where a phase is added; the last phase is the worst of all."""
    program = printed_phased_erm(sized(users), epsilon, SMALL, SMOOTHNESS)
    own = of(epsilon)
    closed, batch = float(own.bound(users)), float(own._batch(users))
    slacks = [float(phase.constants.slack) for phase in program.phases]
    assert max(slacks) == slacks[-1]
    assert min(phase.batch for phase in program.phases) >= batch
    assert max(slacks) * (1 + np.exp(epsilon)) <= closed <= 1e-8


@pytest.mark.quality
def test_the_rounds_of_the_last_phase_have_an_account_below_the_claim() -> None:
    """By the exact curves, which share nothing with the closed bound."""
    program = printed_phased_erm(sized(198_325), 1, SMALL, SMOOTHNESS)
    assert float(Account(program.phases[-1].node(("s", "g")), USERS).epsilon(SMALL).upper) < 0.52


def test_a_bound_that_leaves_the_rounds_out_is_below_a_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The comparison above is red where a phase's batch is taken a quarter too large."""
    own, batch = of(1), EverySize._batch
    monkeypatch.setattr(EverySize, "_batch", lambda self, users: batch(self, users) * 5 / 4)
    program = printed_phased_erm(sized(198_325), 1, SMALL, SMOOTHNESS)
    assert min(phase.batch for phase in program.phases) < float(own._batch(198_325))
    slack = float(program.phases[-1].constants.slack)
    assert float(own.bound(198_325)) < slack * (1 + np.e)


def test_without_the_growth_of_phases_nothing_is_proved() -> None:
    """c q n^(1-q) epsilon / 160 < p / 2: an earlier phase, of more rounds, may cost more."""
    assert not replace(of(1), shrink=Fraction(1, 1000)).proved(10**7)


def test_probabilities_of_many_flips_are_above_the_binomials() -> None:
    from scipy.stats import binom

    for coins in (60, 120):
        chernoff = np.exp(-6) * (6 * np.e / (coins + 1)) ** (coins + 1)
        for batch in (100, 4_000, 10**6):
            assert binom.sf(coins, batch - 1, 6 / batch) <= chernoff


@pytest.mark.first_case
@pytest.mark.parametrize(("epsilon", "users"), [(1, 713_134), (3, 262_143)])
def test_theorem_4_1_has_more_rounds_and_its_bound_is_above_them(epsilon: int, users: int) -> None:
    """Of the smoothed loss, of smoothness L sqrt(d) / r, delta below 1 / (m n) at every n."""
    problem, delta = sized(users), Fraction(1, 10**32)
    own = EverySize(sized(), Fraction(epsilon), delta, None, coins=120)
    assert own.proved(users)
    width = smoothing_radius(users, 10, 10, problem.diameter, epsilon)
    smooth = smoothed_smoothness(LIPSCHITZ, 10, width)
    program = printed_phased_erm(problem, epsilon, delta, smooth)
    plain = printed_phased_erm(problem, epsilon, delta, SMOOTHNESS)
    assert program.phases[0].constants.rounds > 30 * plain.phases[0].constants.rounds
    slacks = [float(phase.constants.slack) for phase in program.phases]
    closed = float(own.bound(users))
    assert max(slacks) == slacks[-1]
    assert max(slacks) * (1 + np.exp(epsilon)) <= closed <= 1e-32
    with_fewer = EverySize(sized(), Fraction(epsilon), delta, None, coins=40)
    assert not with_fewer.proved(users)


@pytest.mark.quality
def test_a_phase_of_24_000_users_runs_its_test_of_concentration() -> None:
    """Noise as printed.  Users that agree pass every round, users in two halves halt the first.

    False alarm: a run of users that agree halts with probability at most 2 exp(-K / 80) < 1e-99,
    one of two halves, score K / 2, passes a round with no more.
    """
    problem, rounds = Problem(SquaredDistance(3), 24_000, 2, 3, 1.0, 2.0), 2
    constants = printed_batches(24_000, 24_000, 3, 1, SMALL, rounds)
    program = UserLevelAcceleratedSGD(problem, constants, 0.2, 0.3, one_stage(rounds, 1.3))
    rng = np.random.default_rng(3)
    agree = rng.uniform(-0.05, 0.05, (24_000, 2, 3))
    halves = agree + np.where(np.arange(24_000) % 2, 0.5, -0.5)[:, None, None]
    for users, halts in ((agree, False), (halves, True)):
        declared = program.declaration(USERS)
        sampler = Sampler(declared, USERS, Records(users), rng=np.random.default_rng(4))
        found = program.run(sampler)
        assert found.halted.tolist() == [halts]
        asked = [event.label for event in sampler.transcript].count(SCORE)
        assert asked == (1 if halts else rounds)

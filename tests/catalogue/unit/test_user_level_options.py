"""Options of paper 1: sampled tests, plain means, counts, textbook noise; and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from audits import user_level_options as audits
from dpaudit.accountant.account import Account
from dpaudit.audit.attack import attack
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import NonPrivate
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.common.losses import LeastSquares
from mechanisms.papers.user_level import catalogue, options_catalogue
from mechanisms.papers.user_level.above import AboveThresholdCounts
from mechanisms.papers.user_level.baselines import OnePassQuery, UserLevelPhasedSGDBaseline
from mechanisms.papers.user_level.batches import appendix_d_batch
from mechanisms.papers.user_level.constants import kappa
from mechanisms.papers.user_level.entries import LOSS, PROBLEM
from mechanisms.papers.user_level.phased_erm import calibrated_phased_erm
from mechanisms.papers.user_level.phased_sgd import calibrated_phased_sgd
from mechanisms.papers.user_level.problem import USERS, LinearLoss, Problem, user_records
from mechanisms.papers.user_level.readings import SecretBatchSGD
from mechanisms.papers.user_level.sampled import SampledOutlierQuery, sampled_constants
from mechanisms.papers.user_level.textbook import gaussian_mechanism, laplace_mechanism
from mechanisms.papers.user_level.winsorized import UserLevelLDPSGD

DELTA = Fraction(1, 10**6)
AUDITS = {k: v for k, v in vars(audits).items() if isinstance(v, Suite)}
SAMPLED: Any = options_catalogue.user_level_accelerated_sgd_sampled_tests.program


# --- a test a round, on secret batches ------------------------------------------------------------


def test_the_catalogue_holds_constants_of_sampled_tests() -> None:
    """All false passes of five rounds cost delta / 2, before amplification; a batch is even."""
    made = sampled_constants(1, 1, DELTA, options_catalogue.ROUNDS)
    held = options_catalogue.SAMPLED
    assert (made.groups, made.test_scale, made.threshold) == (
        held.groups,
        held.test_scale,
        held.threshold,
    )
    assert made.noise <= held.noise <= made.noise + Fraction(1, 10**8)
    assert options_catalogue.ROUNDS * made.false_pass <= DELTA / 2 * Fraction(1_000_002, 1_000_000)
    assert made.noise / made.unit == kappa(Fraction(1), DELTA / 10)


def test_sampling_a_test_with_its_release_amplifies_both() -> None:
    """Far below the five rounds on all users; and any one release says less than the batch."""
    declared = options_catalogue.user_level_accelerated_sgd_sampled_tests.declaration
    upper = float(Account(declared, USERS).epsilon(DELTA).upper)
    share = SAMPLED.constants.groups / PROBLEM.users
    textbook = 5 * math.log1p(share * math.expm1(2))
    assert 0.5 < upper < 0.76 < textbook


def test_a_batch_is_scored_by_its_own_members() -> None:
    """Of three places, two in the batch: the score counts them, and the mean is theirs."""
    constants = SAMPLED.constants
    places = np.concatenate([np.zeros(238), np.full(238, 5.0), np.full(24, 9.0)])
    query = SampledOutlierQuery(lambda users: users[:, 0][None], 1.0, constants, 1)
    records = Records(places[:, None, None])
    chosen = np.zeros((3, 500), dtype=bool)
    chosen[0, :238] = True
    chosen[1, 238:476] = True
    chosen[2, np.r_[0:119, 238:357]] = True
    found = query.value(records, chosen)
    score = found[:, 0] * float(constants.score_sensitivity) + float(constants.threshold)
    assert score == pytest.approx([238, 238, 119])
    assert found[:2, 1] == pytest.approx([0.0, 5.0])
    with pytest.raises(InvalidParameter, match="secret batch"):
        query.value(records)


def by_cost() -> list[Any]:
    """Secret batches, every one drawn and counted, take seconds; so do runs one by one."""
    slow = [pytest.mark.quality]
    return [
        pytest.param(k, marks=slow if "sampled" in k or "order" in k else [])
        for k in sorted(AUDITS)
    ]


@pytest.mark.first_case
@pytest.mark.parametrize("name", by_cost())
def test_audits_of_the_options(name: str) -> None:
    mechanism: Mechanism = getattr(options_catalogue, AUDITS[name].mechanism)
    for suite in AUDITS[name].all:
        attacked = attack(mechanism, suite, seed=7, error=5e-5)
        assert [f.check for f in attacked.findings if f.status == "broken"] == []
        assert attacked.attack == "exact"


def test_every_suite_attacks_the_declaration_of_its_mechanism() -> None:
    """In every phase that it attacks."""
    for first in AUDITS.values():
        mechanism: Mechanism = getattr(options_catalogue, first.mechanism)
        for suite in first.all:
            assert suite.program.declaration(mechanism.scope) == mechanism.declaration


@pytest.mark.parametrize(("outliers", "halts"), [(0, False), (16, False), (200, True)])
def test_outliers_are_removed_or_stop_the_run(outliers: int, halts: bool) -> None:
    """800 users: 2% far away are left out; 25% halt all of 400 runs (e^-47 else)."""
    mean: Any = catalogue.outlier_removed_mean.program
    program = replace(mean, users=800, items=1, bound=9.0)
    rows = np.random.default_rng(2).normal(scale=0.01, size=(800, 1, 2))
    rows[:outliers] += 6.0
    sampler = Sampler(
        program.declaration(USERS), USERS, Records(rows), rng=np.random.default_rng(0), trials=400
    )
    released = program.run(sampler)
    stopped = np.isnan(released).all(axis=1)
    assert stopped.mean() == 1 if halts else stopped.mean() < 0.1
    if not halts:
        kept = rows[outliers:, 0].mean(axis=0)
        noise = float(catalogue.WEIGHTED.noise) * program.radius / math.sqrt((~stopped).sum())
        assert np.abs(np.nanmean(released, axis=0) - kept).max() < 6 * noise


# --- batches of Appendix D ------------------------------------------------------------------------


def test_batches_of_appendix_d() -> None:
    """n_i eps / sqrt(T) + log(n m d e^eps / delta) / eps; it is below n_i, where nothing holds."""
    found = appendix_d_batch(10**7, 62_482, 10, 1.0, 1e-8, 400)
    assert found == pytest.approx(62_482 / 20 + math.log(1e16) + 1)
    with pytest.raises(InvalidParameter, match="needs K T >= n_i"):
        appendix_d_batch(10**7, 62_482, 10, 0.01, 1e-8, 2)
    program: Any = options_catalogue.user_level_phased_erm_appendix_d.program
    assert isinstance(program, SecretBatchSGD)
    users, constants = program.phases[0]
    assert 20 <= constants.batch < users
    assert constants.batch * constants.rounds >= users
    assert isinstance(program.declaration(USERS).children[0].children[0], NonPrivate)
    for phases in ((), ((constants.batch, constants),)):
        with pytest.raises(InvalidParameter):
            SecretBatchSGD(phases)


# --- plain means ----------------------------------------------------------------------------------


def test_a_plain_mean_over_groups_moves_by_its_share() -> None:
    """2 L eta m / C; one user's items come first in its group of T steps of 1 of m items."""
    problem = Problem(LinearLoss(1), 8, 2, 1, 1e9, 1.0)
    users = np.zeros((8, 2, 1))
    users[0] = 1.0
    start = np.zeros((1, 1))
    query = OnePassQuery(problem, start, 0.1, groups=4)
    one, two = (query.value(Records(rows))[0, 0] for rows in (users, -users))
    stated = float(query.sensitivity(Adjacency.REPLACE_ONE, 8))
    assert stated == pytest.approx(2 * 0.1 * 2 / 4)
    # Averages of T = 4 iterates: the pass moves by 1 - (m - 1) / (2 T) of that.
    assert abs(one - two) == pytest.approx(stated * (1 - 1 / 8))


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (LeastSquares(), "clipping gradients does not make one"),
        (replace(LOSS, norm=4.0), "4-Lipschitz"),
    ],
)
def test_a_pass_over_another_loss_is_refused(loss: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        UserLevelPhasedSGDBaseline(replace(PROBLEM, loss=loss), Fraction(5), 2, 0.5, 2.5, "none")


def test_too_few_users_for_groups() -> None:
    with pytest.raises(InvalidParameter, match="it needs at least 4000"):
        UserLevelPhasedSGDBaseline(PROBLEM, Fraction(5), 2, 0.5, 2.5, "none", groups=1000)


# --- counts, and textbook noise -------------------------------------------------------------------


@pytest.mark.parametrize(("direction", "first"), [("above", 2), ("below", 0)])
def test_a_stream_halts_where_it_is_told_to(direction: str, first: int) -> None:
    """Counts 0, 0, 90 and 100 of 100 against 50, noise of 1: wrong with probability e^-9."""
    program = AboveThresholdCounts(1, (4.0, 3.0, 2.0, 1.0), 50, Fraction(4), direction)
    rows = np.full((100, 1, 1), 2.5)
    rows[:10] = 1.0
    sampler = Sampler(
        program.declaration(USERS), USERS, Records(rows), rng=np.random.default_rng(1), trials=20
    )
    found = program.run(sampler)
    assert found.halted.all()
    assert (found.index == first).mean() > 0.9


def test_streams_refuse() -> None:
    for wrong in ({"levels": ()}, {"target": 0}, {"epsilon": Fraction(0)}, {"direction": "up"}):
        with pytest.raises(InvalidParameter):
            replace(options_catalogue.above_threshold.program, **wrong)  # type: ignore[type-var]


def test_the_textbook_noise_is_refused_where_its_lemma_fails() -> None:
    """Lemma A.5 holds up to epsilon = 9.73 at delta = 1e-6."""
    node = gaussian_mechanism("a", Fraction("9.7"), DELTA)
    assert float(Account(node, USERS).delta(Fraction("9.7")).upper) <= 1e-6
    with pytest.raises(InvalidParameter, match=r"delta = 1.149e-06 there"):
        gaussian_mechanism("a", 10, DELTA)
    assert float(Account(laplace_mechanism("b", 2), USERS).step("pure").value) == 2


def test_local_reports_give_every_coordinate() -> None:
    """Three parameters, hardly any noise: a step against the users' common gradient."""
    problem = Problem(LinearLoss(3), 64, 2, 3, 1e9, 1.0)
    program = UserLevelLDPSGD(problem, 2, 32, Fraction(2_000), 0.25, 0.5)
    slope = np.array([0.5, -0.25, 0.125])
    rows = Records(np.tile(slope, (64, 2, 1)))
    rng = np.random.default_rng(0)
    local = Scope(USERS.adjacency, USERS.unit, "local", USERS.released)  # type: ignore[arg-type]
    sampler = Sampler(program.declaration(local), local, rows, rng=rng, trials=3)
    found: Any = program.run(sampler)
    assert found.output == pytest.approx(np.tile(-slope, (3, 1)), abs=0.01)
    assert float(Account(program.declaration(local), local).step("pure").value) == 2_000
    with pytest.raises(InvalidParameter, match="two a rotated coordinate"):
        replace(program, each=6)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "words"),
    [
        ([np.zeros((2, 3)), np.zeros((4, 3))], r"users of 2 to 4 items: .*Theorems 2.1 and 3.1"),
        ([np.zeros((2, 3)), np.zeros((0, 3))], r"Theorems 2.1 and 3.1 are for n >= 1 users of m"),
        ([], "n >= 1 users"),
    ],
)
def test_users_of_unequal_or_no_items_are_refused(users: list[Array], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        user_records(users)


def test_equal_users_become_rows() -> None:
    assert user_records([np.ones((2, 3)), np.zeros((2, 3))]).values.shape == (2, 2, 3)


@pytest.mark.parametrize("budget", [(sympy.sqrt(2), DELTA), (1, sympy.Symbol("delta"))])
def test_a_budget_that_is_no_fraction_is_refused(budget: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidParameter, match="expected a rational number"):
        calibrated_phased_sgd(PROBLEM, *budget)


@pytest.mark.parametrize("epsilon", [11, 0, -1, math.nan, math.inf])
def test_an_epsilon_beyond_the_theorems_is_refused_by_name(epsilon: float) -> None:
    makers: tuple[Any, ...] = (
        lambda: calibrated_phased_sgd(PROBLEM, epsilon, DELTA),
        lambda: calibrated_phased_erm(PROBLEM, epsilon, DELTA, 2.5),
        lambda: sampled_constants(epsilon, 1, DELTA, 5),
        lambda: laplace_mechanism("a", epsilon),
    )
    for make in makers:
        with pytest.raises(InvalidParameter, match=r"Theorems 2.1 and 3.1|finite|number"):
            make()


def test_too_few_users_are_told_how_many_are_needed() -> None:
    small = replace(PROBLEM, users=100)
    with pytest.raises(InvalidParameter, match="needs at least 2 C = 1600"):
        calibrated_phased_sgd(small, 1, DELTA)
    with pytest.raises(InvalidParameter, match="it needs at least"):
        calibrated_phased_erm(small, 1, DELTA, 2.5)
    with pytest.raises(InvalidParameter, match="it needs more"):
        replace(SAMPLED, problem=small)


def test_secret_batches_are_never_without_replacement_of_all() -> None:
    program: Any = catalogue.user_level_accelerated_sgd_secret_batches.program
    ((users, constants),) = program.phases
    assert constants.batch < users

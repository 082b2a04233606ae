"""Programs of stable releases: phases, batches, bottoms, projections, calibration, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.families.composition import Assuming
from dpaudit.families.opaque import NonPrivate
from dpaudit.families.stability import StableRelease
from dpaudit.kernels.query import Records
from dpaudit.nodes import Leaf, postorder
from dpaudit.scope import central
from mechanisms.papers.stable_erm import build
from mechanisms.papers.stable_erm import catalogue as stable
from mechanisms.papers.stable_erm.bounds import Size
from mechanisms.papers.stable_erm.calibration import (
    USERS,
    Constants,
    calibrate_del_output_pert,
    del_output_pert_paper,
    printed_constants,
)
from mechanisms.papers.stable_erm.certificate import Certified, GradientCertificate, Void
from mechanisms.papers.stable_erm.domains import Ball, Everywhere
from mechanisms.papers.stable_erm.phased import PhasedERM, PhasedSCO
from mechanisms.papers.stable_erm.problem import (
    DeltaRule,
    Problem,
    erm_weight,
    sampling_distance,
    sco_weight,
)
from mechanisms.papers.stable_erm.release import (
    DeletionStableOutputPerturbation,
    StableQuery,
    StronglyConvexOutputPerturbation,
)
from mechanisms.papers.stable_erm.solver import Minimiser, Quadratic
from mechanisms.papers.stable_erm.stable import Enumeration, UserMean
from tests.support.stable import ABSOLUTE, SMALL, run, sampler, users

# --- one release ----------------------------------------------------------------------------------


def test_a_mean_is_released_with_its_noise() -> None:
    program = DeletionStableOutputPerturbation(8, 2.0, SMALL)
    released = run(program, users(8), 20_000)
    passed = ~np.isnan(released[:, 0])
    mean = users(8).mean(axis=1).mean()
    assert released[passed].mean() == pytest.approx(mean, abs=4.9 * 6 / math.sqrt(passed.sum()))
    assert released[passed].std() == pytest.approx(6.0, rel=0.03)
    assert passed.all()


def test_an_outlier_is_left_out_or_nothing_is_released() -> None:
    data = np.zeros((8, 1, 1))
    data[3] = 1e6
    released = run(DeletionStableOutputPerturbation(8, 1.0, SMALL), data, 5_000)
    bottom = np.isnan(released[:, 0])
    lowest = math.exp(-2) / (1 + 2 * math.exp(-2))
    assert bottom.mean() == pytest.approx(lowest, abs=4.9 * math.sqrt(lowest / 5_000))
    assert np.abs(released[~bottom]).max() < 3 * 6


def test_queries_refuse_what_a_score_is_not_bounded_for() -> None:
    query = StableQuery(UserMean(), Enumeration(), 1.0, 1, 8)
    for adjacency in ("zero_out", "add_remove"):
        with pytest.raises(InvalidParameter, match="null user"):
            query.sensitivity(USERS.under(adjacency).adjacency, 8)
    with pytest.raises(InvalidParameter, match="for 8 users was given 9"):
        query.sensitivity(USERS.adjacency, 9)
    with pytest.raises(InvalidParameter, match="no secret batch"):
        query.value(Records(users(8)), np.ones((1, 8), dtype=bool))
    for unit in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="expected a positive number"):
            StableQuery(UserMean(), Enumeration(), unit, 1, 8)


def test_the_cap_is_met_before_data_is_touched() -> None:
    curator = sampler(stable.deletion_stable_output_perturbation.program, np.zeros((300, 1, 1)))
    with pytest.raises(InvalidParameter, match="300 users with up to 129 deleted have about 1e8"):
        stable.deletion_stable_output_perturbation.program.run(curator)
    assert curator.transcript == []
    assert curator.entitlements.counts()["release"] == (1, 0, 0)


def test_too_few_users_are_told_how_many_are_needed() -> None:
    with pytest.raises(InvalidParameter, match=r"kappa = 32: it needs at least 4 kappa \+ 2 = 130"):
        DeletionStableOutputPerturbation(129, 1.0, stable.PRINTED)
    with pytest.raises(InvalidParameter, match="batch 3: 100 users are too few"):
        PhasedSCO(replace(stable.SCO_PROBLEM, users=800), stable.PRINTED, 3, 1.0)


def test_stability_and_constants_must_agree() -> None:
    with pytest.raises(InvalidParameter, match="calibrate with distance='diameter'"):
        DeletionStableOutputPerturbation(8, 1.0, SMALL, UserMean(), Enumeration("diameter"))


@pytest.mark.parametrize("scope", [central("replace_one"), USERS.under("zero_out")])
def test_noise_is_declared_for_users_under_replace_one(scope: Any) -> None:
    for mechanism in (
        stable.deletion_stable_output_perturbation,
        stable.stable_phased_erm,
        stable.strongly_convex_sco,
    ):
        with pytest.raises(InvalidParameter, match="replace_one of a user"):
            mechanism.program.declaration(scope)


def test_a_void_fallback_has_no_guarantee() -> None:
    program = DeletionStableOutputPerturbation(
        8, 1.0, SMALL, Minimiser(Quadratic()), Certified(GradientCertificate("c1"), Void())
    )
    assert any(isinstance(node, NonPrivate) for node in postorder(program.declaration(USERS)))
    exact = replace(program, search=Certified())
    assert not any(isinstance(node, NonPrivate) for node in postorder(exact.declaration(USERS)))
    assert isinstance(exact.declaration(USERS), Assuming)


# --- from a budget --------------------------------------------------------------------------------


def test_programs_are_made_from_a_budget() -> None:
    """Calibrated by default, with less noise than printed; shares of the budget as in the paper."""
    problem = replace(ABSOLUTE, users=3_000)
    printed, ours = (
        build.phased_erm(problem, 1, Fraction(1, 10), constants=name, count=2)
        for name in ("paper", "calibrated")
    )
    assert printed.constants == del_output_pert_paper(Fraction(1, 2), Fraction(1, 20))
    assert ours.constants.noise_multiplier < printed.constants.noise_multiplier / 5
    leaf = ours.constants.leaf("phase")
    assert Account(leaf, USERS).epsilon(Fraction(1, 20)).upper <= Fraction(1, 2)
    batches = build.phased_sco(problem, 1, Fraction(1, 10))
    assert batches.constants == stable.SMALL
    assert batches.count == 6  # floor(log2(3000 / 26))
    assert build.phased_erm(problem, 1, Fraction(1, 10)).count == 15  # ceil(log2(30000))
    assert ours.weight == pytest.approx(erm_weight(problem, problem.domain.diameter))
    assert ours.rule.beta == pytest.approx(1 / (3_000 * 10) / 2)  # beta / T


def test_strongly_convex_programs_are_made_from_a_budget() -> None:
    """The ball is sigma (sqrt(d) + sqrt(2 ln(1/beta))); lambda is made for R', or 2 R' (SCO)."""
    problem = Problem(Quadratic(), Ball(3.0), 3_000, 10, 2, 2.0)
    erm = build.strongly_convex_erm(problem, 1, Fraction(1, 10), count=2)
    sco = build.strongly_convex_sco(problem, 1, Fraction(1, 10))
    beta = 1 / (2 * 3_000**2 * 10)
    for program, more in ((erm, 0.0), (sco, sampling_distance(problem, beta))):
        expected = program.first.deviation * (math.sqrt(2) + math.sqrt(2 * math.log(1 / beta)))
        assert program.radius == pytest.approx(expected + more)
    assert erm.phases.weight == pytest.approx(erm_weight(problem, erm.radius))
    assert sco.phases.weight == pytest.approx(sco_weight(problem, 2 * sco.radius))
    assert [p.rule.beta for p in (erm.first, sco.first)] == [beta, beta]
    assert (erm.phases.rule.beta, sco.phases.rule.beta) == (beta / 2, beta / sco.phases.count)
    assert erm.phases.count == 2
    assert erm.first.constants == sco.first.constants == sco.phases.constants
    leaf = erm.phases.constants.leaf("phase")
    assert Account(leaf, USERS).epsilon(Fraction(1, 40)).upper <= Fraction(1, 4)


def test_budgets_that_build_nothing() -> None:
    with pytest.raises(InvalidParameter, match="expected paper or calibrated"):
        build.constants_for(1, Fraction(1, 10), "printed")
    with pytest.raises(InvalidParameter, match="none for diameter stability"):
        build.constants_for(1, Fraction(1, 10), "paper", "diameter")
    with pytest.raises(InvalidParameter, match="at least one phase"):
        build.phased_erm(ABSOLUTE, 1, Fraction(1, 10), count=0)
    with pytest.raises(InvalidParameter, match="60 users are too few"):
        build.phased_erm(ABSOLUTE, 1, Fraction(1, 10**6), constants="paper")


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(2, 0.1), (1, 0.6)])
def test_printed_constants_keep_to_their_theorem(epsilon: Any, delta: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"Theorem 3\.3 is stated for"):
        del_output_pert_paper(epsilon, delta)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 0.1), (-1, 0.1), (1, 0), (1, 1), (math.nan, 0.1), (math.inf, 0.1)]
)
def test_budgets_outside_their_domain(epsilon: Any, delta: Any) -> None:
    for make in (del_output_pert_paper, calibrate_del_output_pert):
        with pytest.raises(InvalidParameter):
            make(epsilon, delta)


def test_both_readings_of_the_root_are_private() -> None:
    narrow, wide = (printed_constants(Fraction(1), Fraction(1, 10**6), c) for c in
                    ("sqrt2ln", "2sqrtln"))  # fmt: skip
    assert wide.noise_multiplier / narrow.noise_multiplier == pytest.approx(math.sqrt(2), rel=1e-6)
    with pytest.raises(InvalidParameter, match="expected sqrt2ln, 2sqrtln"):
        del_output_pert_paper(1, Fraction(1, 10**6), "sqrt")


def test_no_noise_suffices_where_the_lowest_threshold_is_too_likely() -> None:
    with pytest.raises(InvalidParameter, match="raise kappa"):
        calibrate_del_output_pert(1, Fraction(1, 10**6), kappa=3)


@pytest.mark.parametrize(
    ("bar", "kappa", "noise"), [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 10**7, 1), (1, 1, math.nan)]
)
def test_constants_outside_their_domain(bar: Any, kappa: Any, noise: Any) -> None:
    with pytest.raises(InvalidParameter):
        Constants(bar, kappa, noise)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Size(0, 1, 0.1), "users = 0"),
        (lambda: Size(1, 1, 0.5), "expected in"),
        (lambda: replace(ABSOLUTE, lipschitz=math.nan), "Problem.lipschitz"),
        (lambda: StronglyConvexOutputPerturbation(ABSOLUTE, SMALL), "modulus 0"),
        (lambda: PhasedERM(ABSOLUTE, SMALL, -1, 1.0), "whole number of phases"),
        (lambda: PhasedERM(ABSOLUTE, SMALL, 1, math.inf), "weight = inf"),
        (lambda: erm_weight(ABSOLUTE, Everywhere().diameter), "need a bounded domain"),
        (lambda: DeltaRule("loose"), "expected one of line3"),
        (lambda: DeltaRule("paper", gamma=1.0), "expected one of c1"),
        (lambda: DeltaRule("c1", gamma=math.nan), "DeltaRule.gamma = nan"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


# --- the catalogue --------------------------------------------------------------------------------


def test_every_release_of_the_catalogue_is_a_stable_one() -> None:
    for mechanism in (
        stable.deletion_stable_output_perturbation,
        stable.deletion_stable_output_perturbation_calibrated,
        stable.strongly_convex_output_perturbation,
        stable.window_mean_score,
        stable.ladder_stable_output_perturbation,
    ):
        leaves = [node for node in postorder(mechanism.declaration) if isinstance(node, Leaf)]
        assert [type(leaf) for leaf in leaves] == [StableRelease]
        assert mechanism.scope == USERS


@pytest.mark.parametrize(
    "mechanism",
    [
        stable.strongly_convex_output_perturbation,
        stable.window_mean_score,
        stable.ladder_stable_output_perturbation,
    ],
    ids=lambda m: m.name,
)
def test_entries_with_data_run(mechanism: Any) -> None:
    records = mechanism.records()
    curator = Sampler(mechanism.declaration, USERS, records, rng=np.random.default_rng(3), trials=2)
    output = mechanism.program.run(curator)
    metrics = mechanism.evaluate(output)
    assert metrics[0].value == 1.0
    assert np.isfinite(output).all()

"""Baselines of Accelerated-DP-SRGD: what they declare and claim, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.claim import Outcome
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Status
from dpaudit.scope import Unit
from mechanisms.papers.srgd import baselines_catalogue as catalogue
from mechanisms.papers.srgd.baselines import (
    AcceleratedDPSGD,
    DPSGDOnePass,
    DPSGDPoisson,
    nesterov_agd,
)
from mechanisms.papers.srgd.geometry import EtaSchedule, project_l2_ball, tau
from mechanisms.papers.srgd.localized import LocalizedAcceleratedDPSGD
from mechanisms.papers.srgd.online import DPFTRL, DPOnlineToBatch, online_to_batch_clip
from mechanisms.papers.srgd.phased_erm import PhasedERM
from mechanisms.papers.srgd.phased_sgd import PhasedSGD
from mechanisms.papers.srgd.phases import all_phases, cited_multiplier, cited_step_size, halves
from mechanisms.papers.srgd.problem import blocks
from tests.support.claims import agrees, epsilon, number, outcome, value
from tests.support.srgd_baselines import (
    ADD_REMOVE,
    CATALOGUE,
    PROGRAMS,
    REPLACE_ONE,
    SUITES,
    ZERO_OUT,
    problem,
    regression,
    run,
)

# --- declarations ---------------------------------------------------------------------------------


def test_fresh_noise_is_declared_batch_by_batch_with_half_of_it_under_replace_one() -> None:
    expected = Parallel(*(Gaussian(f"batch {t}", 2) for t in range(4)))
    for name in ("accelerated", "one_pass"):
        assert PROGRAMS[name](4).declaration(REPLACE_ONE) == expected
        assert PROGRAMS[name](2).declaration(ZERO_OUT) == expected


def test_the_other_declarations() -> None:
    half = Fraction(1, 2)
    poisson = Repeat(PoissonSampled(Gaussian("gradient", 3), half), 4)
    assert PROGRAMS["poisson"](3).declaration(ADD_REMOVE) == poisson
    assert PROGRAMS["ftrl"](3).declaration(ZERO_OUT) == CorrelatedGaussian("gradient", 3, 4, "tree")
    prefixes = CorrelatedGaussian("difference", half * 3, 4, "tree")
    assert PROGRAMS["online"](3).declaration(REPLACE_ONE) == prefixes
    local = [Repeat(PoissonSampled(Gaussian(f"phase {i}", 3), half), 3) for i in range(2)]
    assert PROGRAMS["localized"](3).declaration(ZERO_OUT) == Parallel(*local)


@pytest.mark.parametrize("name", ["phased_sgd", "phased_erm"])
def test_what_rests_on_convexity_declares_it_and_certifies_nothing_silently(name: str) -> None:
    node = PROGRAMS[name]().declaration(ZERO_OUT)
    assert isinstance(node, Assuming)
    assert node.assumption.status is Status.DECLARED
    assert "convex" in node.assumption.statement
    slack = Fraction(1, 100) if name == "phased_erm" else Fraction(0)
    phases = [Gaussian(f"phase {i}", 1 / (1 + slack)) for i in range(3)]
    assert node.base == Parallel(*phases)


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"poisson"}))
def test_reading_by_position_has_no_meaning_under_add_remove(name: str) -> None:
    with pytest.raises(InvalidParameter, match="zero_out"):
        PROGRAMS[name]().declaration(ADD_REMOVE)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_noise_is_declared_for_one_record_only(name: str) -> None:
    with pytest.raises(InvalidParameter, match="record"):
        PROGRAMS[name]().declaration(replace(ZERO_OUT, unit=Unit.USER))


# --- numbers --------------------------------------------------------------------------------------


def test_mu_in_symbols() -> None:
    """1/z for fresh noise, sqrt(floor(log2 T) + 1)/z for the tree, twice that if replaced."""
    z = sympy.Symbol("z", positive=True)
    fresh, tree = PROGRAMS["accelerated"](z), PROGRAMS["ftrl"](z)
    for scope, moved in ((ZERO_OUT, 1), (REPLACE_ONE, 2)):
        adjacency = str(scope.adjacency)
        for program, levels in ((fresh, 1), (tree, 3), (PROGRAMS["online"](z), 3)):
            derived = value(program.declaration(scope), "gdp", adjacency)
            assert sympy.simplify(derived - moved * sympy.sqrt(levels) / z) == 0


def test_exact_epsilon_of_phased_sgd_as_cited() -> None:
    """4 sqrt(log(1/delta))/epsilon at (1, 1e-6): .545 if replaced, .260 if zeroed out."""
    program = PROGRAMS["phased_sgd"](cited_multiplier(1, Fraction(1, 10**6)))
    assert agrees(epsilon(program.declaration(REPLACE_ONE), "1e-6"), "0.545")
    assert agrees(epsilon(program.declaration(ZERO_OUT), "1e-6", "zero_out"), "0.260")


def test_phased_erm_pays_for_its_solver() -> None:
    program = PROGRAMS["phased_erm"](cited_multiplier(1, Fraction(1, 10**6)))
    found = number(value(program.declaration(REPLACE_ONE), "gdp"))
    assert found == pytest.approx(2.01 / (4 * np.sqrt(np.log(1e6))), rel=1e-12)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_claim_of_the_catalogue_is_proved_and_a_smaller_one_is_not(name: str) -> None:
    mechanism = CATALOGUE[name]
    adjacency = str(mechanism.scope.adjacency)
    for claim in mechanism.claims:
        node = mechanism.declaration
        assert outcome(claim.guarantee, node, adjacency) == Outcome.PROVED
    last = mechanism.claims[-1].guarantee
    key = "mu" if "mu" in last.parameters else "epsilon"
    values = {**last.parameters, key: last.parameters[key] * Fraction(999, 1000)}
    less = last.rebuild(values, [])
    assert outcome(less, mechanism.declaration, adjacency) != Outcome.PROVED


@pytest.mark.parametrize(
    ("name", "rate", "rounds", "noise"),
    [
        ("dp_sgd_poisson", 1 / 20, 60, catalogue.POISSON_NOISE),
        ("localized_accelerated_dp_sgd", 1 / 8, 16, catalogue.LOCALIZED_NOISE),
    ],
)
def test_secret_batches_against_another_accountant(
    name: str, rate: float, rounds: int, noise: Fraction
) -> None:
    """dp-accounting's loss distributions, which round up: epsilon in [.99, 1.01] at 1e-6."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(float(noise)))
    found = PLDAccountant().compose(event, rounds).get_epsilon(1e-6)
    assert found == pytest.approx(1, abs=0.01)
    assert CATALOGUE[name].claims[0].text == "ApproxDP(epsilon=1, delta=0.000001)"


def test_the_catalogue_is_the_inventory() -> None:
    assert set(CATALOGUE) == set(SUITES) == {
        "accelerated_dp_sgd", "dp_sgd_one_pass", "dp_sgd_poisson",
        "dp_sgd_one_pass_replace_one", "dp_gd_projected", "dp_ftrl", "phased_sgd",
        "dp_online_to_batch", "phased_erm", "phased_erm_in_batches",
        "localized_accelerated_dp_sgd",
    }  # fmt: skip
    for name in ("phased_sgd", "phased_erm", "phased_erm_in_batches"):
        assert isinstance(CATALOGUE[name].declaration, Assuming)
    for name in ("phased_sgd", "dp_online_to_batch", "phased_erm", "localized_accelerated_dp_sgd"):
        assert CATALOGUE[name].source.startswith("reconstructed")


PHASED = {"phased_sgd", "phased_erm", "phased_erm_in_batches"}


@pytest.mark.first_case
@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - PHASED))
def test_on_real_data_it_beats_the_start(name: str) -> None:
    """One seeded run of all 16,150 rows; phased ones take seconds, and are left to certify."""
    mechanism = CATALOGUE[name]
    sampler = sampled_on_data(mechanism)
    assert mechanism.evaluate is not None
    start, end = mechanism.evaluate(sampler)
    assert end.value < start.value - 0.03


def sampled_on_data(mechanism: Mechanism) -> Any:
    assert mechanism.records is not None
    rng = np.random.default_rng(1)
    curator = Sampler(mechanism.declaration, mechanism.scope, mechanism.records(), rng=rng)
    return mechanism.program.run(curator)


# --- bad input ------------------------------------------------------------------------------------

BAD: list[Callable[[], Any]] = [
    lambda: problem(size=0),
    lambda: problem(radius=0.0),
    lambda: problem(radius=float("nan")),
    lambda: problem(clip=float("inf")),
    lambda: problem(clip=-1.0),
    lambda: AcceleratedDPSGD(problem(), 25, 1.0, 1),
    lambda: AcceleratedDPSGD(problem(), 0, 1.0, 1),
    lambda: AcceleratedDPSGD(problem(), 4, 0.0, 1),
    lambda: AcceleratedDPSGD(problem(), 4, 1.0, 0),
    lambda: DPSGDOnePass(problem(), 4, float("nan"), 1),
    lambda: DPSGDOnePass(problem(), 25, 1.0, 1),
    lambda: DPSGDPoisson(problem(), 0, 0.5, 1.0, 1),
    lambda: DPSGDPoisson(problem(), 3, 0, 1.0, 1),
    lambda: DPSGDPoisson(problem(), 3, 1.5, 1.0, 1),
    lambda: DPFTRL(problem(), 25, 1.0, 1),
    lambda: DPFTRL(problem(), 4, 1.0, 1, strategy="oak"),
    lambda: DPOnlineToBatch(problem(), 4, 1.0, 1, clip=0.0),
    lambda: DPOnlineToBatch(problem(), 4, 1.0, 1, clip=1.0, power=0),
    lambda: PhasedSGD(problem(), 5, 0.1, 1.0, 1),
    lambda: PhasedSGD(problem(), 3, 8.1, 1.0, 1),
    lambda: PhasedSGD(problem(), 3, 0.1, -1.0, 1),
    lambda: PhasedERM(problem(), 3, 0.1, 1.0, 1, slack=0),
    lambda: PhasedERM(problem(), 0, 0.1, 1.0, 1),
    lambda: LocalizedAcceleratedDPSGD(problem(), 2, 3, 2, 0.1, 1.0, 1),
    lambda: LocalizedAcceleratedDPSGD(problem(), 2, 3, 1, 0.0, 1.0, 1),
    lambda: nesterov_agd(problem(), regression(), 0, 1.0),
    lambda: cited_multiplier(0, 0.1),
    lambda: cited_multiplier(1, 1),
    lambda: cited_step_size(problem(), 0, 1.0, 0.1),
    lambda: online_to_batch_clip(3, 1.0, 1.0, float("inf")),
    lambda: project_l2_ball(np.zeros(3), 1.0),
    lambda: project_l2_ball(np.zeros((1, 3)), -1.0),
    lambda: tau(-1),
    lambda: EtaSchedule.LINEAR.eta(-2),
]


@pytest.mark.parametrize("wrong", BAD)
def test_bad_parameters_are_refused_before_data_is_touched(wrong: Callable[[], Any]) -> None:
    with pytest.raises(InvalidParameter):
        wrong()


def test_another_number_of_records_than_was_declared_is_refused() -> None:
    for name in sorted(set(PROGRAMS) - {"poisson"}):
        with pytest.raises(InvalidParameter, match="records"):
            run(PROGRAMS[name](), regression(rows=20))


def test_layouts() -> None:
    assert blocks(10, 3) == (3, 3, 3, 1)
    assert blocks(9, 3) == (3, 3, 3)
    assert halves(13, 3) == (6, 3, 1, 3)
    assert [all_phases(n) for n in (2, 3, 4, 16_150)] == [1, 1, 2, 13]
    assert sum(halves(16_150, 13)) == 16_150


def test_a_ball_s_projection_is_the_nearest_point() -> None:
    points = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e308, 1e308], [np.nan, 1.0]])
    expected = np.array([[0.6, 0.8], [0.3, 0.4], [0, 0], [0.5**0.5, 0.5**0.5], [np.nan, 1.0]])
    with np.errstate(all="raise"):
        np.testing.assert_allclose(project_l2_ball(points, 1.0), expected, rtol=1e-15)
    assert project_l2_ball(points, np.inf) is points


def test_cited_constants() -> None:
    """R/L min(4/sqrt(n), epsilon/(2 sqrt(d log(1/delta)))), R = 50, L = 1e6, n = 24."""
    noise = number(cited_multiplier(2, 0.01))
    assert noise == pytest.approx(2 * np.log(100) ** 0.5)
    assert cited_step_size(problem(), 3, 1.0, 0.01) == pytest.approx(
        5e-5 / (2 * (3 * np.log(100)) ** 0.5)
    )
    assert cited_step_size(problem(), 3, 100.0, 0.01) == pytest.approx(5e-5 * 4 / 24**0.5)
    shipped = CATALOGUE["phased_sgd"].program
    assert isinstance(shipped, PhasedSGD)
    assert float(enclose(shipped.noise_multiplier).mid()) == pytest.approx(4 * np.log(1e6) ** 0.5)


def test_a_program_in_batches_declares_what_its_like_does_and_its_attack_is_in_batches() -> None:
    """The catalogue's first phase is solved in batches, and every phase of the attacked program."""
    program: Any = CATALOGUE["phased_erm_in_batches"].program
    assert CATALOGUE["phased_erm_in_batches"].declaration == CATALOGUE["phased_erm"].declaration
    solved = [
        query.work(size) == query.in_batches(size)
        for query, size in ((program.query(program.problem.start(1), i, n), n)
                            for i, n in enumerate((8_075, 4_037)))
    ]  # fmt: skip
    assert solved == [True, False]
    attacked: Any = SUITES["phased_erm_in_batches"].program
    query = attacked.query(attacked.problem.start(1), 0, 32)
    assert (
        query.work(32)
        == query.in_batches(32)
        != replace(program, problem=attacked.problem)
        .query(attacked.problem.start(1), 0, 32)
        .work(32)
    )

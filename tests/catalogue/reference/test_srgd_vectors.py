"""Accelerated-DP-SRGD against numbers and closed forms worked out elsewhere."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.correlated.node import Factorisation
from dpaudit.families.correlated.strategies import prefix_matrix
from dpaudit.measures.convert import gaussian_mu
from dpaudit.scope import Scope, central
from mechanisms.papers.srgd import catalogue
from mechanisms.papers.srgd.accelerated import output_weights
from mechanisms.papers.srgd.constants import (
    Reading,
    as_float,
    least_multiplier,
    privacy_constant,
    theorem_5_8,
    theorem_5_12,
)
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.gradient import prefix_sums
from mechanisms.papers.srgd.prefix_noise import Method, prefix_noise_bound, prefix_noise_tail
from mechanisms.papers.srgd.sensitivity import Conditions, srg_sensitivity_bound, srg_sensitivity_of
from mechanisms.papers.srgd.strategies import (
    column_norm,
    largest_prefix_error,
    mean_prefix_error,
    optimal_rmse,
    output_error,
)
from tests.support.claims import agrees
from tests.support.optimisation import ToRecord, program, states, without_noise

ZERO_OUT = central("zero_out")
MECHANISMS = [v for v in vars(catalogue).values() if isinstance(v, Mechanism)]


def value(node: Any, scope: Scope = ZERO_OUT) -> Any:
    return Account(node, scope).step("gdp").value


# --- Algorithm 1 ----------------------------------------------------------------------------------


def test_three_rounds_by_hand() -> None:
    """f(x, d) = (x - d)^2 / 2, d = 1, 2, 3, beta = 4: all values are dyadic, so exact."""
    of = program(ToRecord(), 3)
    found = list(states(of, without_noise(of, np.array([[1.0], [2.0], [3.0]]))))
    sums = [4 * float(s.prefix.total[0, 0]) for s in found]
    assert sums == [-1, -2.5, -3.84375]
    assert np.diff(sums).tolist() == [-1.5, -1.34375]
    assert [float(s.z[0, 0]) for s in found] == [0.25, 0.875, 1.8359375]
    assert [float(s.y[0, 0]) for s in found] == [0.25, 0.5625, 1.0390625]
    assert [float(s.x[0, 0]) for s in found] == pytest.approx([0.25, 0.71875, 1.3578125], rel=1e-15)


# T, strategy: the noisiest prefix sum and the mean, and y_T, at mu = 1 and unit sensitivity.
ERRORS = [
    (16, "identity", "4.000 2.915 21.81"), (16, "independent_prefix", "4.000 4.000 11.57"),
    (16, "tree", "4.472 3.211 14.67"), (16, "sqrt_toeplitz", "1.944 1.797 11.60"),
    (16, "smooth_binary", "3.000 - 13.17"), (16, "tree_honaker", "3.723 2.663 -"),
    (16, "optimal", "1.857 1.689 -"), (32, "optimal", "2.079 1.892 -"),
    (32, "tree", "5.477 3.897 -"), (32, "tree_honaker", "4.441 3.156 -"),
    (100, "identity", "10.00 7.106 326"), (100, "independent_prefix", "10.00 10.00 72.9"),
    (100, "tree", "6.481 4.725 102.4"), (100, "sqrt_toeplitz", "2.531 2.371 81.9"),
    (100, "smooth_binary", "4.472 - 95.97"), (100, "tree_honaker", "5.154 3.734 -"),
    (256, "tree", "8.485 6.003 -"), (256, "sqrt_toeplitz", "2.831 2.669 -"),
    (1000, "tree", "9.487 7.027 1233"), (1000, "sqrt_toeplitz", "3.265 3.102 929"),
    (1000, "independent_prefix", "31.62 31.62 730"),
]  # fmt: skip


def test_how_much_each_release_weighs_in_the_output() -> None:
    w = output_weights(16)
    assert w[[0, 1, 2, -2, -1]] == pytest.approx([-1, -0.988971, -0.970588, -0.176471, -0.0625],
                                                 abs=6e-7)  # fmt: skip


@pytest.mark.parametrize(("rounds", "name", "printed"), ERRORS)
def test_errors_of_strategies(rounds: int, name: str, printed: str) -> None:
    """Fresh noise beats the tree in y_T, which it does not in the noisiest prefix sum."""
    strategy: Any = optimal_rmse(rounds) if name == "optimal" else Factorisation(name)
    measures = (largest_prefix_error, mean_prefix_error, output_error)
    for measure, digits in zip(measures, printed.split(), strict=True):
        if digits != "-":
            assert measure(strategy, rounds) == pytest.approx(float(digits), rel=1.2e-3)


def test_the_optimal_strategy_has_unit_columns_and_is_least() -> None:
    strategy = optimal_rmse(24)
    assert column_norm(strategy, 24) == pytest.approx(1, abs=1e-8)
    least = mean_prefix_error(strategy, 24)
    assert all(least < mean_prefix_error(other, 24) for other in Factorisation)
    with pytest.raises(InvalidParameter, match="sqrt_toeplitz"):
        optimal_rmse(513)


# --- the declaration, in symbols -----------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "moves"), [("zero_out", 1), ("replace_one", 2)])
def test_mu_in_symbols(adjacency: str, moves: int) -> None:
    """mu = C_clip sqrt(floor(log2 T) + 1) / (B beta sigma), and twice that under replace_one."""
    clip, batch, beta, sigma = sympy.symbols("C_clip B beta sigma", positive=True)
    rounds = sympy.Symbol("T", positive=True, integer=True)
    scope = central(adjacency)
    node = prefix_sums(scope, clip=clip, batch=batch, beta=beta, sigma=sigma, rounds=rounds)
    levels = sympy.floor(sympy.log(rounds, 2)) + 1
    assert value(node, scope) == moves * clip * sympy.sqrt(levels) / (batch * beta * sigma)
    assert Account(node, scope).step("gdp").attained


E1 = [
    ((1, 1, 1, 1, "1"), "1"), ((10, 1, 1, 1, "2"), "1"), ((100, 4, 50, 8, ".1"), ".264575"),
    ((1024, 12, 1024, 2048, "1e-4"), ".189779"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "printed"), E1)
def test_mu_in_numbers(setting: Any, printed: str) -> None:
    rounds, clip, batch, beta, sigma = setting
    numbers = {"clip": clip, "batch": batch, "beta": beta, "sigma": Fraction(sigma)}
    one = value(prefix_sums(ZERO_OUT, rounds=rounds, **numbers))
    replaced = central("replace_one")
    assert agrees(as_float(one), printed, units=0.6)
    assert value(prefix_sums(replaced, rounds=rounds, **numbers), replaced) == 2 * one


# --- the printed constants -----------------------------------------------------------------------

# (epsilon, delta), T: sigma B beta / C of Corollary 5.7, of Lemma 5.6, of 5.11, and the least.
MULTIPLIERS = [
    (".5 1e-6 32", "17.17 26.59 48.55 19.74"), ("1 1e-5 32", "7.883 12.21 22.30 9.138"),
    ("1 1e-6 32", "8.582 13.30 24.28 10.35"), ("1 1e-6 100", "9.893 15.35 27.98 11.18"),
    ("1 1e-6 1024", "12.14 18.00 34.33 14.01"), ("4 1e-6 100", "2.473 3.838 6.996 3.158"),
    ("8 1e-6 100", "1.237 1.919 3.498 1.728"), ("10 1e-6 32", ".858 1.330 2.427 1.325"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "printed"), MULTIPLIERS)
def test_printed_noise(setting: str, printed: str) -> None:
    epsilon, delta, rounds = map(Fraction, setting.split())
    readings = (Reading.AS_PRINTED, Reading.LEMMA_5_6, Reading.COROLLARY_5_11)
    found = [reading.multiplier(rounds, epsilon, delta) for reading in readings]
    found.append(least_multiplier(epsilon, delta, rounds))
    for multiplier, digits in zip(found, printed.split(), strict=True):
        assert agrees(as_float(multiplier), digits, units=1.01)


@pytest.mark.parametrize("reading", Reading)
def test_a_reading_states_this_noise_of_another_epsilon(reading: Reading) -> None:
    """sigma of the reading at that epsilon is sigma as printed at the other."""
    for rounds in (2, 32, 100):
        epsilon = reading.stated_epsilon(Fraction(rounds), Fraction(3))
        there = reading.multiplier(Fraction(rounds), epsilon, Fraction(1, 10**6))
        here = Reading.AS_PRINTED.multiplier(Fraction(rounds), Fraction(3), Fraction(1, 10**6))
        assert as_float(there) == pytest.approx(as_float(here), rel=1e-14)


def test_readings_take_symbols() -> None:
    rounds = sympy.Symbol("T", positive=True, integer=True)
    epsilon, loss = sympy.symbols("epsilon L", positive=True)
    found = Reading.AS_PRINTED.multiplier(rounds, epsilon, sympy.exp(-loss))
    assert float(found.subs({rounds: 32, epsilon: 1, loss: sympy.log(10**6)})) == pytest.approx(
        8.582482534, rel=1e-9
    )


def test_theorem_5_12_end_to_end() -> None:
    """n = 10^6, B = T = 1000, L = R = M = 1: mu = .092272, epsilon .36416 at 1e-6."""
    found = theorem_5_12(10**6, 1000, 1, Fraction("1e-6"))
    assert (found.rounds, found.batch, found.beta, found.clip) == (1000, 1000, 24_000, 12)
    assert agrees(as_float(found.sigma), "1.71356e-5")
    node = _node(found)
    assert agrees(as_float(value(node)), ".092272")
    assert agrees(float(Account(node, ZERO_OUT).epsilon(Fraction("1e-6")).upper), ".36416", 1.1)


def test_theorem_5_8_end_to_end() -> None:
    """n = 10^10, delta = 1/n: T = 5.6065e7, beta = 3.1433e10, and exact epsilon 1.2149.

    The printed sigma is for B = 178.4, which is rounded down to 178 here.
    """
    found = theorem_5_8(10**10, 100, 1, Fraction(1, 10**10))
    assert (found.rounds, found.batch) == (56_064_792, 178)
    assert as_float(found.clip) == pytest.approx(177_292, abs=1)
    assert as_float(found.beta) == pytest.approx(3.1433e10, rel=2e-5)
    assert as_float(found.sigma * 178 / sympy.Rational("178.4")) == pytest.approx(7.85e-7, rel=1e-3)
    node = _node(found)
    assert agrees(as_float(value(node)), ".205398", units=3)
    assert agrees(float(Account(node, ZERO_OUT).epsilon(Fraction(1, 10**10)).upper), "1.2149", 1)


def test_theorem_5_8_needs_millions_of_records() -> None:
    """B < 1 below n = 10^6.2."""
    with pytest.raises(InvalidParameter, match="batch = 0"):
        theorem_5_8(10**6, 10, 1, Fraction(1, 10**6))
    enough = round(10**6.3)
    assert theorem_5_8(enough, 10, 1, Fraction(1, enough)).batch == 1


def test_where_lemma_5_9_covers_regime_a() -> None:
    """beta >= 2 M T up to n = 10^24.4 with the constants of Theorem 5.8, and not far above it."""
    for exponent, covered in ((10, True), (24, True), (25, False)):
        found = theorem_5_8(10**exponent, 100, 1, Fraction(1, 10**exponent))
        assert bool(enclose(found.beta) >= 2 * found.rounds) == covered
    constant = as_float(privacy_constant(10**10, Fraction(1, 10**10)))
    assert constant == pytest.approx(177_292.436, rel=1e-8)


def _node(constants: Any) -> Any:
    return prefix_sums(
        ZERO_OUT,
        clip=constants.clip,
        batch=constants.batch,
        beta=constants.beta,
        sigma=constants.sigma,
        rounds=constants.rounds,
    )


# --- sensitivity without clipping ----------------------------------------------------------------

SENSITIVITY = [
    ((10**4, 100, 1, ".25", 4, 10, 50), "47.3407 .490099 .010332 6.00518 .013871 .248194"),
    ((65536, 256, 1, ".25", 4, 10, 128), "61.3583 .496109 .002043 5.97791 .002389 .048862"),
    ((10**6, 1000, 1, "1", 2, 100, 2000), "133.098 .499001 .000290 9.98585 6.9e-5 .002901"),
]


@pytest.mark.parametrize(("setting", "printed"), SENSITIVITY)
@pytest.mark.parametrize("schedule", EtaSchedule)
def test_worst_case_sensitivity(setting: Any, printed: str, schedule: EtaSchedule) -> None:
    """(1, 1e-6): half to the guarantee, the rest to the event.  The halved schedule halves C*."""
    size, rounds, lipschitz, smooth, diameter, dimension, beta = setting
    tail = Fraction("1e-6") / (2 * (1 + Fraction("2.718281828459")))
    spread = prefix_noise_bound(rounds, dimension, tail)
    conditions = Conditions(
        lipschitz=lipschitz,
        smoothness=Fraction(smooth),
        diameter=diameter,
        beta=beta,
        rounds=rounds,
        dimension=dimension,
        schedule=schedule,
    )
    found = srg_sensitivity_bound(
        conditions, batch=size // rounds, mu=gaussian_mu(1, Fraction("5e-7")), tail=tail
    )
    half = 1 if schedule is EtaSchedule.LINEAR else 2
    got = (spread, conditions.growth, found.noise_share, half * found.norm)
    got += (half * as_float(found.sigma), half * found.noise_bound)
    for number, digits in zip(got, printed.split(), strict=True):
        assert agrees(float(number), digits, units=0.6)
    assert found.event.probability == tail


PREFIX_NOISE = [
    (32, 10, 599.6, 37.5), (100, 10, 947.0, 45.2), (100, 100, 2995, 88.2),
    (1024, 10, 1852, 73.3), (16, 1, 133, 21.9),
]  # fmt: skip


@pytest.mark.parametrize(("rounds", "dimension", "paper", "exact"), PREFIX_NOISE)
def test_prefix_noise(rounds: int, dimension: int, paper: float, exact: float) -> None:
    tail = Fraction("1e-6")
    printed = prefix_noise_bound(rounds, dimension, tail, method=Method.PAPER)
    found = prefix_noise_bound(rounds, dimension, tail)
    assert printed == pytest.approx(paper, rel=2e-3)
    assert found == pytest.approx(exact, abs=0.06)
    levels = rounds.bit_length() ** 0.5
    assert Fraction("0.9999e-6") <= prefix_noise_tail(rounds, dimension, found / levels) <= tail


def test_prefix_noise_against_another_library() -> None:
    """The chi-square tails of SciPy, at a length they bound; and in 56 million rounds."""
    from scipy.stats import chi2

    for rounds, strategy in ((100, "tree"), (37, "sqrt_toeplitz"), (20, "tree_honaker")):
        matrix = prefix_matrix(Factorisation(strategy), rounds)
        squares = np.square(matrix).sum(axis=1)
        tails = chi2.sf(12.0**2 / squares, 3).sum()
        found = prefix_noise_tail(rounds, 3, 12, Factorisation(strategy))
        assert tails <= float(found) <= tails * (1 + 1e-6)
    many = 56_065_000
    assert 400 < prefix_noise_bound(many, 100, Fraction(1, 10**16)) < 430


def test_theorem_5_12_is_covered_without_clipping() -> None:
    """beta >= 16 M T: C* <= (8 c_M + 4) L at b_max = (2 c_M + 1) L / M, P <= delta^2 / (4 T)."""
    constants = theorem_5_12(10**6, 1000, 1, Fraction("1e-6"))
    for diameter in (1, 2):
        conditions = Conditions(1, 1, diameter, constants.beta, constants.rounds, 10)
        found = srg_sensitivity_of(conditions, sigma=constants.sigma, noise_bound=3)
        assert found.norm <= constants.clip == 12
        assert found.event.probability <= Fraction("1e-12") / 4000


# --- the catalogue -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: str(m.name))
def test_every_claim_comes_out_as_the_catalogue_says(mechanism: Mechanism) -> None:
    account = Account(mechanism.declaration, mechanism.scope)
    found = [claim.check_account(account).outcome for claim in mechanism.claims]
    assert found == list(mechanism.expectations)


def test_what_corollary_5_7_comes_to() -> None:
    """(1, 1e-6) in 32 rounds is 1.224; in 1024 rounds 8 is 12.25; the natural logarithm is worse.

    Rounds of a power of two, where log2(T) + 1 is the exact number of levels.
    """
    for entry, exact in (
        (catalogue.accelerated_dp_srgd_corollary_5_7, "1.224"),
        (catalogue.accelerated_dp_srgd_corollary_5_7_large_epsilon, "12.25"),
        (catalogue.accelerated_dp_srgd_corollary_5_7_equation_19, "1.2149"),
    ):
        delta = entry.claims[0].guarantee.parameters["delta"]
        epsilon = Account(entry.declaration, entry.scope).epsilon(delta).upper
        assert agrees(float(epsilon), exact, units=0.6)


def test_i_i_d_data_are_named_as_what_the_claim_rests_on() -> None:
    entry = catalogue.accelerated_dp_srgd_theorem_5_8_iid
    (checked,) = (claim.check(entry.declaration, entry.scope) for claim in entry.claims)
    assert checked.outcome == "unproved"
    assert "iid_data" in checked.reason
    smooth = catalogue.accelerated_dp_srgd_theorem_5_8
    step = smooth.claims[0].check(smooth.declaration, smooth.scope).step
    assert step is not None
    rests_on = [(a.id.partition(":")[0], str(a.status)) for a in step.assumptions()]
    assert rests_on == [("slack", "declared"), ("lipschitz_smooth", "declared")]
    assert (
        float(Account(smooth.declaration, smooth.scope).epsilon(Fraction(1, 10**10)).upper) < 1e-3
    )

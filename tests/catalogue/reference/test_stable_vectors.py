"""Output perturbation at stable subsets (Ghazi et al. 2023): printed and derived numbers.

Independent sources: the project's own table for the paper, computed with other code; enumeration in
30-digit arithmetic; the closed form of a normal law.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from dpaudit.accountant.account import Account
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import GDP
from dpaudit.families.stability.kernel import TruncatedDiscreteLaplaceLaw
from mechanisms.papers.stable_erm import bounds, floors
from mechanisms.papers.stable_erm import catalogue as stable
from mechanisms.papers.stable_erm.bounds import Size
from mechanisms.papers.stable_erm.calibration import (
    USERS,
    Constants,
    calibrate_del_output_pert,
    del_output_pert_paper,
    printed_constants,
    profile,
)
from mechanisms.papers.stable_erm.certificate import unit_of_radius

# claim, kappa, sigma / Delta printed, least at the same eps_bar and kappa, best, its eps_bar, kappa
TABLE = [
    ((1, "1e-5"), 27, 2244.775, 388.04, 309.6, 0.5, 21),
    ((1, "1e-6"), 32, 2878.427, 526.86, 424.04, 0.5, 25),
    ((".5", "1e-6"), 62, 11116.679, 1892.7, 1472.2, 0.25, 47),
    ((1, ".01"), 13, 755.283, 81.96, 45.9, 0.45, 7),
    ((1, ".1"), 9, 421.805, 26.25, 10.98, 0.3, 3),
]


@pytest.mark.parametrize(("claim", "kappa", "noise", "least", "best", "bar", "size"), TABLE)
def test_printed_and_calibrated_constants(
    claim: Any, kappa: int, noise: float, least: float, best: float, bar: float, size: int
) -> None:
    budget = Fraction(claim[0]), Fraction(claim[1])
    printed = del_output_pert_paper(*budget)
    assert printed.kappa == kappa
    assert float(printed.noise_multiplier) == pytest.approx(noise, abs=5e-4)
    same = calibrate_del_output_pert(*budget, epsilon_bar=printed.epsilon_bar, kappa=kappa)
    assert float(same.noise_multiplier) == pytest.approx(least, rel=2e-4)
    found = calibrate_del_output_pert(*budget)
    assert float(found.noise_multiplier) == pytest.approx(best, rel=2e-3)
    assert (float(found.epsilon_bar), found.kappa) == (bar, size)


def test_the_exact_profile_needs_five_and_a_half_times_less_noise() -> None:
    """At (1, 1e-6): 5.46 at the same kappa, 6.79 with kappa chosen too."""
    delta = Fraction(1, 10**6)
    printed = del_output_pert_paper(1, delta)
    same = calibrate_del_output_pert(1, delta, epsilon_bar=Fraction(1, 2), kappa=32)
    best = calibrate_del_output_pert(1, delta)
    assert printed.noise_multiplier / same.noise_multiplier == pytest.approx(5.4634, abs=1e-3)
    assert printed.noise_multiplier / best.noise_multiplier == pytest.approx(6.788, abs=2e-3)


def test_the_catalogue_holds_what_calibration_finds() -> None:
    delta = Fraction(1, 10**6)
    assert calibrate_del_output_pert(1, delta) == stable.CALIBRATED
    assert calibrate_del_output_pert(1, Fraction(1, 10)) == stable.SMALL
    diameter = calibrate_del_output_pert(
        1, delta, epsilon_bar=Fraction(1, 2), kappa=25, distance="diameter"
    )
    assert diameter == stable.CALIBRATED_DIAMETER
    assert float(diameter.noise_multiplier) == pytest.approx(15.709, abs=1e-3)


@pytest.mark.parametrize("constants", [stable.CALIBRATED, stable.SMALL, stable.CALIBRATED_DIAMETER])
def test_calibrated_noise_is_the_least_that_the_accountant_accepts(constants: Constants) -> None:
    delta = Fraction(1, 10) if constants.kappa == 3 else Fraction(1, 10**6)
    shorter = Constants(
        constants.epsilon_bar,
        constants.kappa,
        constants.noise_multiplier * Fraction(9999, 10000),
        constants.distance,
    )
    assert Account(constants.leaf("r"), USERS).epsilon(delta).upper <= 1
    assert Account(shorter.leaf("r"), USERS).epsilon(delta).upper > 1


def test_the_toy_calibration() -> None:
    """(4, .05): eps_bar 1.4, kappa 2, 4.908; outside the theorem's range, by the profile only."""
    found = calibrate_del_output_pert(4, Fraction(1, 20))
    assert (found.epsilon_bar, found.kappa) == (Fraction(7, 5), 2)
    assert float(found.noise_multiplier) == pytest.approx(4.908, abs=5e-4)
    assert float(printed_constants(Fraction(4), Fraction(1, 20)).noise_multiplier) == pytest.approx(
        55.094, abs=5e-4
    )


@pytest.mark.parametrize(
    ("e", "kappa", "z", "rows"),
    [
        (1.0, 2, 10.0, ".505746 .377068 .231226 .108422 .0674508"),
        (2.0, 4, 10.0, ".765982 .700683 .609769"),
    ],
)
def test_profiles_of_the_search(e: float, kappa: int, z: float, rows: str) -> None:
    law = TruncatedDiscreteLaplaceLaw(e, kappa)
    for step, delta in enumerate(rows.split()):
        assert profile(step / 2, law, z, "path") == pytest.approx(float(delta), rel=4e-6)


def test_the_threshold_law() -> None:
    printed = [0.065722, 0.108357, 0.178650, 0.294544, 0.178650, 0.108357, 0.065722]
    law = TruncatedDiscreteLaplaceLaw(0.5, 3)
    assert np.exp(law.log_masses) == pytest.approx(printed, abs=5e-7)
    with mpmath.workdps(30):
        masses = [mpmath.exp(-mpmath.mpf("0.5") * abs(r - 3)) for r in range(7)]
        total = mpmath.fsum(masses)
        for score in range(8):
            passing = mpmath.fsum(masses[score:]) / total
            assert math.exp(law.log_passes[score]) == pytest.approx(float(passing), rel=1e-13)


# users, items, kappa: line 3, "paper", "tight" at G = mu = 1, beta = 1e-3
UNITS = [
    (1_000, 100, 32, 0.033761, 0.0172025, 0.00333413),
    (10_000, 100, 32, 0.0038835, 0.00175106, 0.000388596),
    (100_000, 10_000, 718, 2.03386e-4, 9.36345e-5, 1.67299e-5),
]


@pytest.mark.parametrize(("users", "items", "kappa", "line3", "paper", "tight"), UNITS)
def test_units(
    users: int, items: int, kappa: int, line3: float, paper: float, tight: float
) -> None:
    size = Size(users, items, 1e-3)
    for rule, printed in (("line3", line3), ("paper", paper), ("tight", tight)):
        found = bounds.erm_deletion_sensitivity_bound(1.0, 1.0, size, kappa, rule)
        assert found == pytest.approx(printed, rel=1e-4), rule


def test_break_even_against_plain_output_perturbation() -> None:
    """(1, 1e-6), n = 10^4: 3.6e9 items a user at the printed constants, 3.1e6 with ours."""
    users, one = 10_000, Size(10_000, 1, 1e-3)
    mu = 1 / 4.2242  # the analytic Gaussian at (1, 1e-6)
    exact = Account(GDP(Fraction(str(round(mu, 4)))), USERS).epsilon(Fraction(1, 10**6))
    assert float(exact.upper) == pytest.approx(1, abs=2e-3)
    naive = 2 / users / mu
    assert naive == pytest.approx(8.449e-4, rel=1e-3)
    printed = float(stable.PRINTED.noise_multiplier) * bounds.erm_deletion_sensitivity_bound(
        1.0, 1.0, one, 32, "paper"
    )
    assert printed == pytest.approx(50.4, rel=1e-3)
    assert bounds.break_even_items(printed, naive) == pytest.approx(3.6e9, rel=0.02)
    ours = float(stable.CALIBRATED.noise_multiplier) * bounds.erm_deletion_sensitivity_bound(
        1.0, 1.0, Size(users, 10**6, 1e-3), 25, "tight"
    )
    assert bounds.break_even_items(ours * 1e3, naive) == pytest.approx(3.1e6, rel=0.05)


# rule, how gamma (or the bound) is set, constants, sigma sqrt(m), break-even items a user
WHO_WINS = [
    ("line3", "", stable.PRINTED, 111.8, 1.7e10),
    ("paper", "", stable.PRINTED, 50.4, 3.6e9),
    ("tight", "", stable.CALIBRATED, 1.49, 3.1e6),
    ("c1", "paper", stable.PRINTED, 1504, 3.2e12),
    ("diameter", "tight", stable.CALIBRATED_DIAMETER, 2.14, 6.4e6),
    ("quadratic", "tight", stable.CALIBRATED, 0.289, 1.2e5),
]


@pytest.mark.parametrize(("rule", "radius", "constants", "noise", "items"), WHO_WINS)
def test_who_wins_from_how_many_items_on(
    rule: str, radius: str, constants: Constants, noise: float, items: float
) -> None:
    """n = 10^4, (1, 1e-6), G = mu = 1, beta = 1e-3, against sigma = 8.449e-4 of plain noise."""
    size, users, kappa = Size(10_000, 1, 1e-3), 10_000, constants.kappa
    if radius:
        gamma = bounds.gradient_radius(1.0, size, radius)
        unit = float(unit_of_radius(rule, gamma, 1.0, 1.0, users, kappa))
    else:
        many = Size(users, 10**6, 1e-3) if rule == "tight" else size
        root = math.sqrt(many.items)
        unit = bounds.erm_deletion_sensitivity_bound(1.0, 1.0, many, kappa, rule) * root
    found = float(constants.noise_multiplier) * unit
    assert found == pytest.approx(noise, rel=4e-3)
    assert bounds.break_even_items(found, 8.449e-4) == pytest.approx(items, rel=0.04)


def test_noise_scales_as_the_theorem_says() -> None:
    """sigma is proportional to G / (mu n sqrt(m)) and, up to logarithms, to 1 / epsilon^2."""
    unit = bounds.erm_deletion_sensitivity_bound
    one = unit(1.0, 1.0, Size(10_000, 100, 1e-3), 32, "line3")
    assert unit(3.0, 0.5, Size(10_000, 100, 1e-3), 32, "line3") == pytest.approx(6 * one)
    assert unit(1.0, 1.0, Size(10_000, 400, 1e-3), 32, "line3") == pytest.approx(one / 2)
    twice = unit(1.0, 1.0, Size(20_000, 100, 1e-3), 32, "line3") / one
    assert twice == pytest.approx(0.5, rel=0.04)
    small, large = (del_output_pert_paper(e, Fraction(1, 10**6)) for e in (Fraction(1, 20), 1))
    ratio = small.noise_multiplier / large.noise_multiplier
    assert ratio == pytest.approx(20**2, rel=0.1)
    tails = [del_output_pert_paper(1, Fraction(1, 10**k)).noise_multiplier for k in (6, 12)]
    logs = math.log(2.6487e12 + 2) / math.log(2.6487e6 + 2)
    assert tails[1] / tails[0] == pytest.approx(logs**1.5, rel=0.08)


def test_sums_drawn_without_replacement() -> None:
    """N = 1000 (500 of each sign), m = 50: exact 99.9 % quantile 22, tight 33.4, paper 92.9."""
    paper, tight = (
        bounds.without_replacement_vector_bound(1.0, 50, 1000, 1e-3, rule)
        for rule in ("paper", "tight")
    )
    assert paper == pytest.approx(92.9, abs=0.06)
    assert tight == pytest.approx(33.4, abs=0.06)
    values = np.repeat([1.0, -1.0], 500)
    generator = np.random.default_rng(5)
    sums = np.abs([generator.permutation(values)[:50].sum() for _ in range(4_000)])
    assert np.quantile(sums, 0.999) < tight


def test_the_population_and_noise_bounds() -> None:
    size = Size(100, 25, 0.01)
    found = bounds.erm_population_distance_bound(2.0, 0.5, size)
    assert found == pytest.approx(30 * 2 * math.sqrt(math.log(200)) / (0.5 * 50), rel=1e-12)
    assert bounds.erm_population_excess_bound(2.0, 0.5, size) == pytest.approx(
        16 / (0.5 * 2500), rel=1e-12
    )
    assert bounds.gaussian_norm_bound(1, 1e-3) > norm.isf(5e-4)
    user = bounds.excess_risk("user", "sco", 1.0, 1.0, 4, size)
    assert user == pytest.approx(2 / 500 + 1 / 50)
    assert bounds.excess_risk("item", "erm", 1.0, 1.0, 4, size) == pytest.approx(2 / 100)
    strong = bounds.strongly_convex_risk("user", "sco", 3.0, 2.0, 4, size)
    assert strong == pytest.approx(4.5 * (4 / (100**2 * 25) + 1 / (100 * 25)))
    strong = bounds.strongly_convex_risk("item", "erm", 3.0, 2.0, 4, size)
    assert strong == pytest.approx(4.5 * 4 / 100**2)


def test_floors_hold_where_they_are_shown() -> None:
    """n = 200, m = 4, epsilon 1: d = 400 is inside sqrt(d) <= n <= d, 100 above, 10^5 below."""
    inside, above, below = (floors.Scale(d, 200, 4, 1.0) for d in (400, 100, 10**5))
    assert floors.lower_bound_erm(1.0, 1.0, inside) == pytest.approx(0.05)
    assert floors.lower_bound_sco(1.0, 1.0, inside) == pytest.approx(0.05 + 1 / math.sqrt(800))
    assert floors.lower_bound_erm(1.0, 1.0, above) == floors.lower_bound_erm(1.0, 1.0, below) == 0
    assert floors.lower_bound_sco(1.0, 1.0, below) == pytest.approx(1 / math.sqrt(800))
    strong = floors.strongly_convex_lower_bound_sco(3.0, 2.0, inside)
    assert strong == pytest.approx(4.5 * (400 / (200**2 * 4) + 1 / 800))
    strong = floors.strongly_convex_lower_bound_erm(3.0, 2.0, inside)
    assert strong == pytest.approx(4.5 * 400 / (200**2 * 4))
    assert floors.fingerprinting_users(0.1, 0.5, inside) == pytest.approx(20)
    law = floors.hard_instance(2.0, 4.0, 9, 4, np.random.default_rng(0))
    assert law.bound == 0.5
    assert law.deviation == pytest.approx(0.5 / 3000)
    assert np.abs(law.mean).max() <= law.deviation / 2
    for wrong in ((0, 1, 1, 1.0), (1, 1, 1, math.nan)):
        with pytest.raises(InvalidParameter, match="expected a positive number"):
            floors.Scale(*wrong)
    with pytest.raises(InvalidParameter, match="alpha"):
        floors.fingerprinting_users(0.0, 1.0, inside)


def test_users_made_of_items_have_the_law_of_independent_items() -> None:
    """Covariance of (x_i1, ..., x_im) is deviation^2 I (Lemma D.3); false alarms: 1e-6 a entry."""
    generator = np.random.default_rng(11)
    count, per_user, deviation = 40_000, 3, 2.0
    items = deviation / math.sqrt(per_user) * generator.standard_normal((count, 1))
    users = floors.user_to_item(items, per_user, deviation, generator)[:, :, 0]
    covariance = users.T @ users / count
    allowed = 4.9 * deviation**2 * math.sqrt(2 / count)
    assert np.abs(covariance - deviation**2 * np.eye(per_user)).max() < allowed
    assert users.mean(axis=1) == pytest.approx(items[:, 0])


def test_truncated_gaussians_stay_inside() -> None:
    law = floors.TruncatedGaussian(np.zeros(2), 1.0, 1.5)
    drawn = law.sample(5_000, np.random.default_rng(2))
    norms = np.linalg.norm(drawn, axis=1)
    assert norms.max() <= 1.5
    cut = math.exp(-(1.5**2) / 2)  # P(||N(0, I_2)|| > 1.5); false-alarm rate 1e-6
    assert (norms == 0).mean() == pytest.approx(cut, abs=4.9 * math.sqrt(cut / 5_000))

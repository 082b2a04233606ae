"""DIFF2-GD's noise and totals against numbers computed elsewhere (50-digit and SciPy recipes)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest

from dpaudit.accountant.account import account
from dpaudit.exact import enclose
from dpaudit.scope import Scope
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.diff2.catalogue import Diff2, diff2_gd_program
from mechanisms.papers.diff2.noise import diff2_noise_paper

SCOPE = Scope("replace_one", "record", "central", "transcript")  # type: ignore[arg-type]


def number(value: Any) -> float:
    return float(enclose(value).mid())


def agrees(value: float, printed: str) -> bool:
    """Equal to the printed digits: within half a unit of the last place."""
    mantissa, _, exponent = printed.partition("e")
    places = len(mantissa.partition(".")[2])
    return abs(value - float(printed)) <= 0.5001 * 10.0 ** (int(exponent or 0) - places)


def program(
    n: int, p: int, rounds: int, every: int, epsilon: Any, delta: Any, u: Any, **options: Any
) -> Diff2:
    return diff2_gd_program(
        Logistic(),
        3,
        (n,) * p,
        rounds=rounds,
        restart_every=every,
        epsilon=epsilon,
        delta=delta,
        u=u,
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=0.1,
        **{"calibration": "paper", **options},
    )


SMALL = [
    ((1000, 1, 100, 10, 1, 1e-6, 2), "10 90 .04816638 .14449913 .185695 .77018"),
    ((20, 2, 20, 5, 3, 1e-5, 1.25), "4 16 .19364917 .77459667 .577350 2.34143"),
    ((500, 4, 37, 37, 0.5, 1e-5, 1.5), "1 36 .012 .10182338 .102062 .34833"),
    ((1000, 10, 50, 7, 3, 1e-5, 1.25), "8 42 .00109545 .00501996 .577350 2.34143"),
    ((100, 5, 10, 1, 2, 1e-5, 1), "10 0 .03224903 - .392232 1.52156"),
]


@pytest.mark.parametrize(("setting", "printed"), SMALL)
def test_small_settings(setting: tuple[Any, ...], printed: str) -> None:
    restarts, differences, sigma_1, sigma_2, mu, epsilon = printed.split()
    found = program(*setting)
    assert (found.restarts, found.rounds - found.restarts) == (int(restarts), int(differences))
    assert agrees(number(found.noise.sigma_1), sigma_1)
    assert sigma_2 == "-" or agrees(number(found.noise.sigma_2), sigma_2)
    opened = account(found.declaration(SCOPE), SCOPE)
    assert agrees(number(opened.step("gdp").value), mu)
    assert agrees(float(opened.approximate(setting[5]).value[0]), epsilon)


MULTIPLIERS = [
    (3, 1, 1, "9.383364e-3", "-", "77.4597", "-"),
    (3, 6, 1.25, "4.287181e-3", "1.914988e-2", "35.3907", "158.0823"),
    (3, 20, 1.25, "2.345841e-3", "2.045057e-2", "19.3649", "168.8194"),
    (3, 60, 1.25, "1.367849e-3", "2.080273e-2", "11.2916", "171.7265"),
    (3, 200, 1.25, "7.418200e-4", "2.092932e-2", "6.1237", "172.7715"),
    (5, 1, 1, "5.934560e-3", "-", "48.9898", "-"),
    (5, 20, 1.25, "1.483640e-3", "1.293407e-2", "12.2474", "106.7708"),
    (5, 200, 1.25, "4.691682e-4", "1.323686e-2", "3.8730", "109.2703"),
]


@pytest.mark.parametrize(("epsilon", "every", "u", "sigma_1", "sigma_2", "z_1", "z_2"), MULTIPLIERS)
def test_noise_multipliers_of_the_experiments(
    epsilon: int, every: int, u: Any, sigma_1: str, sigma_2: str, z_1: str, z_2: str
) -> None:
    """R = 2000, n_min = 1651, P = 10: sigma as printed, and z = sigma N / 2 in the declaration."""
    found = program(1651, 10, 2000, every, epsilon, 1e-5, u)
    leaves = [repeat.children[0] for repeat in found.declaration(SCOPE).children]
    sigmas = [found.noise.sigma_1, found.noise.sigma_2]
    for sigma, printed, z, leaf in zip(
        sigmas, (sigma_1, sigma_2), (z_1, z_2), leaves, strict=False
    ):
        assert agrees(number(sigma), printed)
        assert agrees(number(leaf.parameters["noise_multiplier"]), z)
    assert len(leaves) == (1 if z_2 == "-" else 2)


TOTALS = [
    (0.5, 48, "0.102062", "0.34833", "0.142211"),
    (1, 25, "0.2", "0.72552", "0.268051"),
    (3, 9, "0.577350", "2.34143", "0.719117"),
    (5, 6, "0.912871", "3.94002", "1.121242"),
    (10, 4, "1.581139", "7.51128", "2.000446"),
]


@pytest.mark.parametrize(("epsilon", "order", "mu", "exact", "tight"), TOTALS)
@pytest.mark.parametrize(("n", "p", "rounds", "every", "u"), [(7, 3, 11, 4, 2), (90, 1, 5, 9, 1.1)])
def test_totals_depend_on_the_claim_alone(
    epsilon: Any, order: int, mu: str, exact: str, tight: str, n: int, p: int, rounds: int,
    every: int, u: Any,
) -> None:  # fmt: skip
    """mu = sqrt(epsilon / alpha) for the constants as printed, and the largest mu for the tight."""
    paper = account(program(n, p, rounds, every, epsilon, 1e-5, u).declaration(SCOPE), SCOPE)
    assert agrees(number(paper.step("gdp").value), mu)
    assert number(paper.step("gdp").value) == pytest.approx(math.sqrt(epsilon / order), rel=1e-14)
    assert agrees(float(paper.approximate(1e-5).value[0]), exact)
    best = program(n, p, rounds, every, epsilon, 1e-5, u, calibration="tight")
    opened = account(best.declaration(SCOPE), SCOPE)
    assert agrees(number(opened.step("gdp").value), tight)
    reached = opened.approximate(1e-5).value[0]
    assert reached <= Fraction(str(epsilon))
    assert float(reached) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.3, "1e-4"), (3, "1e-5"), (8, "1e-9"), (2, "1e-400")]
)
def test_the_order_and_the_noise_in_fifty_digits(epsilon: Any, delta: str) -> None:
    """sigma_i^2 = 4 u_i alpha N_i / (N^2 epsilon), with alpha = 1 + ceil(2 log(1/delta) / eps)."""
    with mpmath.workdps(50):
        eps, u = mpmath.mpf(str(epsilon)), mpmath.mpf("1.25")
        alpha = 1 + mpmath.ceil(2 * -mpmath.log(mpmath.mpf(delta)) / eps)
        first = mpmath.sqrt(4 * u * alpha * 4 / (40**2 * eps))
        second = mpmath.sqrt(4 * u / (u - 1) * alpha * 16 / (40**2 * eps))
    noise = diff2_noise_paper(epsilon, Fraction(delta), 40, 4, 16, 1.25)
    assert number(noise.sigma_1) == pytest.approx(float(first), rel=1e-15)
    assert number(noise.sigma_2) == pytest.approx(float(second), rel=1e-15)

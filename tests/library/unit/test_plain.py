"""Numbers in plain words: never below the truth, never above one, close to 50-digit arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.accountant.interpretation import (
    PRIORS,
    _from_points,
    has_mu,
    in_plain_words,
    mean_posterior,
)
from dpaudit.certificate.certificate import PROFILE_DELTAS, points_of, profile_steps
from dpaudit.errors import CertificateRejected
from dpaudit.exact import decimal_upper, enclose, working_precision
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.report import render_html
from dpaudit.report.model import Table
from dpaudit.report.view import build
from tests.library.cli.bench import accept, certified, forged, mechanism, scope

MULTIPLIERS = [Fraction(1, 20), Fraction(1, 3), Fraction(1), Fraction(7, 4), Fraction(20)]
FALSE_POSITIVE_RATE = mpmath.mpf("0.001")


def words(node: Node) -> dict[str, Any]:
    found = in_plain_words(Account(node, scope()))
    assert found is not None
    return found


def true_posterior(prior: mpmath.mpf, mu: mpmath.mpf) -> mpmath.mpf:
    """E[1 / (1 + odds exp(-loss))], the loss N(mu^2/2, mu^2): over runs with the record."""
    odds = (1 - prior) / prior

    def weighted(z: Any) -> Any:
        return mpmath.npdf(z) / (1 + odds * mpmath.exp(-(mu**2 / 2 + mu * z)))

    return mpmath.quad(weighted, [-14, -8, -4, -2, 0, 2, 4, 8, 14])


def rounds_up_to(shown: str, true: mpmath.mpf) -> bool:
    return bool(true <= mpmath.mpf(shown) <= min(mpmath.mpf(1), true * (1 + mpmath.mpf("1.1e-5"))))


@pytest.mark.first_case
@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_the_words_are_those_of_the_gaussian(multiplier: Fraction) -> None:
    found = words(Gaussian("a", multiplier))
    with mpmath.workdps(50):
        mu = mpmath.mpf(multiplier.denominator) / multiplier.numerator
        assert rounds_up_to(found["membership_guess_upper"], mpmath.ncdf(mu / 2))
        quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * FALSE_POSITIVE_RATE - 1)
        power = mpmath.ncdf(mu + quantile)
        assert rounds_up_to(found["true_positive_rate_at_0.001_upper"], power)
        for prior, shown in found["posterior"]:
            true = true_posterior(mpmath.mpf(prior), mu)
            assert rounds_up_to(shown, true), (prior, shown, true)


def test_the_posterior_against_simulation() -> None:
    """2,000,000 draws; five standard errors, so a false alarm has probability below 1e-6."""
    mu, draws = 0.5, np.random.default_rng(11).normal(size=2_000_000)
    for prior, shown in words(Gaussian("a", 2))["posterior"]:
        odds = (1 - float(prior)) / float(prior)
        posterior = 1 / (1 + odds * np.exp(-(mu**2 / 2 + mu * draws)))
        error = 5 * posterior.std() / np.sqrt(draws.size)
        assert posterior.mean() - error <= float(shown) <= posterior.mean() + error + 1e-5


def test_the_guess_and_the_power_against_simulation() -> None:
    """1,000,000 draws a side; five standard errors."""
    mu, size = 1.0, 1_000_000
    rng = np.random.default_rng(12)
    without, holding = rng.normal(0, 1, size), rng.normal(mu, 1, size)
    found = words(Gaussian("a", 1))
    right = ((holding > mu / 2).mean() + (without <= mu / 2).mean()) / 2
    assert abs(right - float(found["membership_guess_upper"])) < 5 * 0.5 / np.sqrt(2 * size)
    power = (holding > 3.090232306167813).mean()
    shown = float(found["true_positive_rate_at_0.001_upper"])
    assert abs(power - shown) < 5 * np.sqrt(shown / size)


@pytest.mark.first_case
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(4)])
def test_a_dominated_mechanism_stays_below(prior: str, scale: Fraction) -> None:
    """Laplace noise: its exact mean posterior is below that of the Gaussian that dominates it."""
    shown = dict(words(Laplace("a", scale))["posterior"])[prior]
    p, b = float(prior), float(scale)
    x = np.linspace(-60 * b, 60 * b + 1, 2_000_001)
    one, other = (np.exp(-np.abs(x - at) / b) / (2 * b) for at in (1.0, 0.0))
    mean = np.trapezoid(one * p * one / (p * one + (1 - p) * other), x)
    assert mean < float(shown)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_randomized_response_stays_below(epsilon: float) -> None:
    shown = dict(words(PureDP(epsilon, source="x"))["posterior"])["0.1"]
    kept = np.exp(epsilon) / (1 + np.exp(epsilon))
    mean = sum(a * 0.1 * a / (0.1 * a + 0.9 * b) for a, b in ((kept, 1 - kept), (1 - kept, kept)))
    assert mean < float(shown)


@pytest.mark.parametrize("multiplier", [Fraction(1, 10), Fraction(1, 60), Fraction(1, 300)])
def test_no_chance_is_above_one(multiplier: Fraction) -> None:
    found = words(Gaussian("a", multiplier))
    shown = [found["membership_guess_upper"], found["true_positive_rate_at_0.001_upper"]]
    for text in (*shown, *(text for _, text in found["posterior"])):
        assert 0.5 < float(text) <= 1


def test_nothing_released_leaves_every_chance_as_it_was() -> None:
    found = words(PureDP(0, source="x"))
    assert float(found["membership_guess_upper"]) == pytest.approx(0.5, rel=1e-5)
    assert float(found["true_positive_rate_at_0.001_upper"]) == pytest.approx(0.001, rel=2e-5)
    for prior, shown in found["posterior"]:
        assert float(prior) <= float(shown) <= float(prior) * (1 + 1.1e-5)


def test_more_noise_says_less() -> None:
    rows = [words(Gaussian("a", multiplier)) for multiplier in (1, 2, 4)]
    guesses = [float(row["membership_guess_upper"]) for row in rows]
    assert guesses == sorted(guesses, reverse=True)


@pytest.mark.parametrize("node", [NonPrivate("looked"), Compose(Gaussian("a", 1), NonPrivate("b"))])
def test_no_words_without_a_finite_bound(node: Node) -> None:
    account = Account(node, scope())
    assert in_plain_words(account, points_of(profile_steps(account))) is None


def words_of_points(node: Node, adjacency: str = "replace_one") -> dict[str, Any]:
    account = Account(node, scope(adjacency))
    assert not has_mu(account)
    found = in_plain_words(account, points_of(profile_steps(account)))
    assert found is not None
    return found


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-6", "0.01", "0.1"])
def test_words_of_points_hold_for_the_worst_mechanism_and_are_close(
    epsilon: str, delta: str
) -> None:
    """Randomised response that tells all with probability delta attains (epsilon, delta)."""
    found = words_of_points(ApproxDP(Fraction(epsilon), Fraction(delta), source="x"))
    fails, kept = float(delta), math.exp(float(epsilon)) / (1 + math.exp(float(epsilon)))
    first = np.array([fails, (1 - fails) * kept, (1 - fails) * (1 - kept), 0.0])
    second = first[::-1]
    close = 1.02
    guess = (1 + np.abs(first - second).sum() / 2) / 2
    assert guess - 1e-9 <= float(found["membership_guess_upper"]) < guess * close
    power = fails + 0.001 * math.exp(float(epsilon))
    assert power - 1e-9 <= float(found["true_positive_rate_at_0.001_upper"]) < power * 1.05 + 1e-4
    for prior, shown in found["posterior"]:
        p = float(prior)
        mean = np.nansum(p * first**2 / (p * first + (1 - p) * second))
        assert mean - 1e-9 <= float(shown) < mean * close + 1e-3


def test_words_of_points_of_a_gaussian_are_close_to_its_own() -> None:
    """Its profile at as many points, by the formula for mu; both rounded up."""
    node = Gaussian("a", 1)
    account = Account(node, scope())
    exact = words(node)
    points = [
        (Fraction(account.approximate(d).value[0]), d)
        for d in (*PROFILE_DELTAS, Fraction(decimal_upper(account.delta(0).upper, 6)))
    ]
    rounded = sorted((Fraction(decimal_upper(e)), d) for e, d in points)
    found = _from_points([point for point in rounded if point[0] > 0])
    for name in ("membership_guess_upper", "true_positive_rate_at_0.001_upper"):
        assert float(exact[name]) <= float(found[name]) * (1 + 1e-5) < float(exact[name]) * 1.2
    for (_, one), (_, other) in zip(exact["posterior"], found["posterior"], strict=True):
        assert float(one) <= float(other) * (1 + 1e-5) < float(one) * 1.12


@pytest.mark.quality
def test_dp_sgd_has_words_a_profile_and_a_trade_off_curve() -> None:
    """A sampled mechanism has no mu; its certificate holds all, and the checker re-derives it."""
    sampled = Repeat(PoissonSampled(Gaussian("g", 1), Fraction(1, 100)), 100)
    case = mechanism("case", sampled, ApproxDP(2, Fraction(1, 10**6)), adjacency="add_remove")
    found = certified(case).certificate
    accept(found)
    stated = found["predicate"]["derivation"]["upper_bounds"]
    assert {"profile", "tradeoff"} <= {row["measure"] for row in stated}
    shown = found["predicate"]["in_plain_words"]
    assert 0.5 < float(shown["membership_guess_upper"]) < 0.6
    page = render_html(found)
    assert "No number" not in page
    assert page.count("<figure ") == 2
    criteria = next(one for one in build(found).sections if one.anchor == "criteria")
    (bounds,) = [block.rows for block in criteria.blocks if isinstance(block, Table)]
    assert all(any(letter.isdigit() for letter in row[2].text) for row in bounds)
    silent = {**found, "predicate": {**found["predicate"], "in_plain_words": None}}
    assert render_html(silent).count("No number") == 2

    def better(change: Any) -> None:
        with pytest.raises(CertificateRejected):
            accept(forged(found, change))

    better(lambda p: p["in_plain_words"].update(membership_guess_upper="0.501"))
    better(lambda p: p["in_plain_words"]["posterior"][1].__setitem__(1, "0.1001"))
    for row in (0, 1):
        at = next(i for i, b in enumerate(stated) if b["measure"] == ("profile", "tradeoff")[row])
        value = ("1e-12", "0.9999")[row]
        better(
            lambda p, at=at, value=value: p["derivation"]["upper_bounds"][at]["curve"][
                4
            ].__setitem__(1, value)
        )


def test_an_irrational_mu_is_taken_from_above() -> None:
    found = words(GDP(sympy.sqrt(2), source="x"))
    with mpmath.workdps(50):
        assert rounds_up_to(found["membership_guess_upper"], mpmath.ncdf(mpmath.sqrt(2) / 2))


def test_the_mean_posterior_is_a_certified_ball() -> None:
    with working_precision():
        ball = mean_posterior(Fraction(1, 10), enclose(Fraction(1, 2)))
    with mpmath.workdps(40):
        true = true_posterior(mpmath.mpf("0.1"), mpmath.mpf("0.5"))
        excess = mpmath.mpf(ball.upper().str(40, radius=False)) - true
    assert abs(excess) < 1e-15
    assert float(ball.rad()) < 1e-25

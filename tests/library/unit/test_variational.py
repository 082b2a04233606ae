"""Variational bounds: fair by enumeration, valid, and stronger than any one event can be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpaudit.audit.bounds import variational, variational_mu
from dpaudit.audit.bounds.estimators import TestScores, TrainingScores
from dpaudit.audit.bounds.variational import (
    ORDERS,
    RenyiWitness,
    renyi_lower,
    renyi_witness,
    rho_lower,
)
from dpaudit.audit.bounds.variational_mu import GaussianWitness, gaussian_witness, mu_lower
from dpaudit.errors import InvalidParameter

ERROR = 0.05


def gaussian(mu: float, size: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Log-likelihood ratios of N(mu, 1) against N(0, 1)."""
    first, second = (mu * (rng.normal(mean, 1, size) - mu / 2) for mean in (mu, 0))
    return first, second


def split(mu: float, size: int, seed: int, part: float = 0.2) -> tuple[TrainingScores, TestScores]:
    rng, known = np.random.default_rng(seed), round(part * size)
    return (
        TrainingScores(*gaussian(mu, known, rng)),
        TestScores(*gaussian(mu, size - known, rng)),
    )


def divergence(p: Any, q: Any, order: float) -> float:
    if order == 1:
        return float(np.sum(p * np.log(p / q)))
    return float(np.log(np.sum(p**order * q ** (1 - order))) / (order - 1))


@pytest.mark.parametrize("order", [1.0, 1.25, 2.0, 8.0, 32.0])
@pytest.mark.parametrize("seed", range(10))
def test_no_pair_within_the_claim_makes_the_bet_favourable(order: float, seed: int) -> None:
    """Finite alphabets, arbitrary functions: the mean of a factor at the true r, and above it."""
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.full(6, 0.7)) + 1e-9 for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    values = np.clip(np.log(p / q) + rng.normal(0, 0.3, 6), -4, 3)
    values = values - values.max()
    r = divergence(p, q, order) / order
    for centre in (float(q @ np.exp(order * values)), float(rng.uniform(0.05, 1))):
        prices = variational._price(values, order, centre)
        for claimed in (r, r + 0.1):
            gains = variational._gain(values, order, centre, claimed)
            full = 1 / max(-gains.min(), prices.max())
            for stake in (0.01 * full, 0.5 * full, 0.99 * full):
                assert (1 + stake * (p @ gains)) * (1 - stake * (q @ prices)) <= 1 + 1e-12


@pytest.mark.parametrize("order", [1.0, 1.25, 2.0, 8.0])
def test_the_likelihood_ratio_attains_the_divergence(order: float) -> None:
    """At g = log(P / Q) and the true centre both means vanish: the bound has no slack."""
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    values = np.log(p / q)
    values = values - values.max()
    centre = float(q @ np.exp(order * values))
    r = divergence(p, q, order) / order
    assert p @ variational._gain(values, order, centre, r) == pytest.approx(0, abs=1e-12)
    assert q @ variational._price(values, order, centre) == pytest.approx(0, abs=1e-12)
    assert p @ variational._gain(values, order, centre, 0.9 * r) > 1e-3 * r


def test_orders_near_one_tend_to_kullback_leibler() -> None:
    values = np.linspace(-3, 0, 7)
    near, limit = (variational._gain(values, order, 0.4, 0.2) for order in (1 + 1e-7, 1.0))
    assert near == pytest.approx(limit, abs=1e-5)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_weighted_events_are_fair_under_the_gaussian_claim(mu: float) -> None:
    training, _ = split(1.1, 20_000, 1)
    witness = gaussian_witness(training, 10_000, ERROR)
    weights, prices = np.array(witness.weights), np.exp(witness.epsilons)
    z = np.linspace(-6, 6, 25)[:, None]
    thresholds = np.sort(z + np.linspace(0, 3, weights.size), axis=1)
    gains = np.sum(weights * ndtr(mu - thresholds), axis=1)
    paid = np.sum(weights * prices * ndtr(-thresholds), axis=1)
    allowed = variational_mu._profile_sum_upper(mu, weights, np.array(witness.epsilons))
    assert np.all(gains - paid <= allowed)
    matched = (ndtri(ndtr(-np.array(witness.epsilons) / mu - mu / 2)) + mu).clip(-30, 30)
    best = np.sum(weights * (ndtr(matched) - prices * ndtr(matched - mu)))
    assert best == pytest.approx(allowed, abs=1e-9)


def test_training_promises_about_what_the_events_show() -> None:
    training, _ = split(1.0, 50_000, 1)
    events = np.array(variational_mu._events(training))
    reach = variational.reach_of(training, 40_000, ERROR)
    promised = [variational_mu._priced(events, mu, reach)[0] for mu in (0.2, 1.0, 5.0)]
    assert 0.85 < promised[1] < 1.02
    assert promised[1] > max(promised[0], promised[2])


def test_too_little_noise_is_found_where_no_single_event_can_find_it() -> None:
    """A claim of 0.5-zCDP, noise 5% too small: rho is 0.554, at 1e5 draws a side.

    Even if their probabilities were known exactly, events of probability 1e-5 or more, at any
    order and in both directions, show less than the claim.
    """
    mu = 1 / 0.95
    q = np.geomspace(1e-5, 1 - 1e-5, 4_000)
    p = ndtr(ndtri(q) + mu)
    a = 1 + np.geomspace(1e-3, 300, 200)[:, None]
    two_point = max(
        float(np.max(np.logaddexp(power(u, v, a), power(1 - u, 1 - v, a)) / (a - 1) / a))
        for u, v in ((p, q), (q, p))
    )
    assert two_point < 0.5
    for seed in range(3):
        bound = rho_lower(*split(mu, 100_000, seed), ERROR)
        assert 0.52 < bound < mu**2 / 2


def power(u: Any, v: Any, order: Any) -> Any:
    return order * np.log(u) + (1 - order) * np.log(v)


@pytest.mark.quality
def test_bounds_of_means_near_the_truth() -> None:
    """False alarms, nine bounds at an error of 1e-3: 1% together."""
    for mu in (0.5, 1.0, 2.0):
        training, test = split(mu, 100_000, 11)
        assert 0.87 * mu**2 / 2 < rho_lower(training, test, 1e-3) < mu**2 / 2
        assert 0.94 * mu < mu_lower(training, test, 1e-3) < mu
        witness = renyi_witness(training, [2.0], 80_000, 1e-3)
        assert 0.6 * mu**2 < renyi_lower(test, witness, 1e-3) < mu**2


@pytest.mark.quality
def test_false_alarms() -> None:
    """150 runs: more than 18 bounds above the truth have probability 1e-4 if the rate is 5%.

    Witnesses are trained once for fifty runs; any witness must be valid.
    """
    above = np.zeros(3)
    for block, mu in enumerate((0.3, 1.0, 2.0)):
        training, _ = split(mu, 600, block, part=0.5)
        witnesses = [renyi_witness(training, orders, 300, ERROR) for orders in (ORDERS, [2.0])]
        for seed in range(50):
            _, test = split(mu, 600, 1_000 * block + seed, part=0.5)
            above += (
                mu_lower(training, test, ERROR) > mu,
                *(renyi_lower(test, w, ERROR) > w.order * mu**2 / 2 for w in witnesses),
            )
    assert np.all(above <= 18)


def test_bounds_shrink_with_the_error_and_not_with_the_input_order() -> None:
    training, test = split(1.0, 20_000, 2)
    bounds = [rho_lower(training, test, error) for error in (0.2, 0.05, 1e-4)]
    assert bounds == sorted(bounds, reverse=True)
    ordered = TestScores(np.sort(test.alternative), np.sort(test.null))
    assert rho_lower(training, ordered, ERROR) == pytest.approx(bounds[1], rel=0.1)
    known = TrainingScores(np.sort(training.alternative), np.sort(training.null))
    assert rho_lower(known, test, ERROR) == pytest.approx(bounds[1], rel=0.1)


def test_directions() -> None:
    """A sign that only D0 gives, and one that only D1 gives, in 2% of trials."""
    rng = np.random.default_rng(0)
    sign, none = np.where(rng.random(8_000) < 0.02, np.inf, 0.0), np.zeros(8_000)
    for sides, direction in (((sign, none), 1), ((none, -sign), -1)):
        training = TrainingScores(*(side[:4_000] for side in sides))
        test = TestScores(*(side[4_000:] for side in sides))
        witness = renyi_witness(training, ORDERS, 4_000, ERROR)
        assert witness.sign == direction
        assert rho_lower(training, test, ERROR) > 0.02
        assert 0.1 < mu_lower(training, test, ERROR) < 4


def test_scores_that_tell_nothing_show_nothing() -> None:
    rng = np.random.default_rng(1)
    noise = [rng.normal(0, 1, 2_000) for _ in range(4)]
    for sides in (noise, [np.zeros(50)] * 4, [np.full(1, 2.0)] * 4):
        training, test = TrainingScores(*sides[:2]), TestScores(*sides[2:])
        assert rho_lower(training, test, 1e-3) == 0
        assert mu_lower(training, test, 1e-3) == 0


def test_sizes_may_differ() -> None:
    training, test = split(1.5, 20_000, 4)
    uneven = TestScores(test.alternative, test.null[:9_000])
    assert 0.8 < rho_lower(training, uneven, ERROR) < 1.125
    assert 1.3 < mu_lower(training, uneven, ERROR) < 1.5


def test_scores_of_the_wrong_scale_still_work() -> None:
    """A score that is half the log-likelihood ratio, and one shifted: g is scaled, r is not."""
    training, test = split(1.0, 50_000, 5)
    plain = rho_lower(training, test, ERROR)
    for scale, shift in ((2 / 3, 0.0), (1.0, 5.0)):
        known = TrainingScores(*(scale * s + shift for s in (training.alternative, training.null)))
        unseen = TestScores(*(scale * s + shift for s in (test.alternative, test.null)))
        assert rho_lower(known, unseen, ERROR) == pytest.approx(plain, rel=0.02)


def test_bad_input() -> None:
    training, test = split(1.0, 100, 0)
    witness = renyi_witness(training, [2.0], 80, ERROR)
    wrong: Any = test
    with pytest.raises(InvalidParameter, match="expected TrainingScores"):
        renyi_witness(wrong, [2.0], 80, ERROR)
    with pytest.raises(InvalidParameter, match="expected TrainingScores"):
        mu_lower(wrong, test, ERROR)
    wrong = training
    for bound in (rho_lower, mu_lower):
        with pytest.raises(InvalidParameter, match="expected TestScores"):
            bound(training, wrong, ERROR)
    with pytest.raises(InvalidParameter, match="expected TestScores"):
        renyi_lower(wrong, witness, ERROR)
    for orders in ([], [0.5], [math.nan], [math.inf], [2e4]):
        with pytest.raises(InvalidParameter, match="order"):
            renyi_witness(training, orders, 80, ERROR)
    for error in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidParameter, match="error"):
            renyi_lower(test, witness, error)
    for pairs in (0, -1):
        with pytest.raises(InvalidParameter, match="pairs"):
            renyi_witness(training, [2.0], pairs, ERROR)
        with pytest.raises(InvalidParameter, match="pairs"):
            gaussian_witness(training, pairs, ERROR)


@pytest.mark.parametrize(
    "change",
    [
        {"order": 0.9},
        {"sign": 0},
        {"scale": 0.0},
        {"scale": math.nan},
        {"low": -math.inf},
        {"high": math.nan},
        {"low": 9.0, "high": 8.0},
        {"centre": 0.0},
        {"centre": 1.5},
        {"stake": -0.1},
        {"stake": 1e9},
        {"stake": math.nan},
    ],
)
def test_witnesses_that_could_lose_more_than_all_are_refused(change: dict[str, Any]) -> None:
    good = RenyiWitness(2.0, 1, 1.0, -1.0, 1.0, 0.5, 0.1, 0.0)
    with pytest.raises(InvalidParameter):
        replace(good, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": (2.0,)},
        {"weights": (-0.1,)},
        {"epsilons": (1.0,)},
        {"centre": 2.0},
        {"stake": 0.5},
    ],
)
def test_events_that_could_lose_more_than_all_are_refused(change: dict[str, Any]) -> None:
    good = GaussianWitness((0.0,), (1.0,), (0.0,), 0.3, 0.1)
    with pytest.raises(InvalidParameter):
        replace(good, **change)

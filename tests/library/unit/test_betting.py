"""Bets: fair under every pair a claim allows, resumable to the last bit, valid and powerful."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit.audit.bounds.betting import (
    Bets,
    Tally,
    ValueTally,
    bets_against,
    log_averaged,
    log_multiplied,
    log_wealth,
    parameter_lower,
    play,
    play_values,
    renewed,
    supporting_line,
)
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import ApproxRegion, GaussianRegion, Region, zcdp_region

ERROR = 0.05
LAPLACE = (0.5, 0.5 * math.exp(-1))
REGIONS: dict[str, Region] = {
    "pure": ApproxRegion(0.8),
    "approximate": ApproxRegion(3.0, 1e-3),
    "perfect": ApproxRegion(0.0, 0.0),
    "gaussian": GaussianRegion(1.0),
    "concentrated": zcdp_region(0.5),
}


def draws(rates: tuple[float, float], pairs: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.random(pairs) < rates[0], rng.random(pairs) < rates[1]


def against(region: Region, expected: tuple[float, float] | None = LAPLACE) -> Bets:
    return bets_against([region], [1.0], pairs=1_000, error=ERROR, expected=expected)


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("expected", [None, LAPLACE, (1e-3, 0.0), (1.0, 0.999)])
def test_no_allowed_pair_of_rates_makes_a_bet_favourable(name: str, expected: Any) -> None:
    """All four outcomes of a pair, weighted by the probabilities at the edge of the claim."""
    region = REGIONS[name]
    bets = against(region, expected)
    q = np.concatenate([np.linspace(0, 1, 201), np.geomspace(1e-9, 0.1, 100)])
    p = region.largest(q)[:, None]
    hit, miss, other_hit, other_miss = (np.exp(part[0]) for part in bets.factors())
    mean = (p * hit + (1 - p) * miss) * (q[:, None] * other_hit + (1 - q[:, None]) * other_miss)
    assert np.all(mean <= 1 + 1e-12)
    assert np.max(mean, axis=0).min() > 1 - 1e-3
    lower = 0.5 * p
    smaller = lower * hit + (1 - lower) * miss
    assert np.all(smaller <= p * hit + (1 - p) * miss + 1e-15)


@pytest.mark.first_case
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("q", [1e-7, 1e-3, 0.2, 0.5, 0.97, 1 - 1e-6])
def test_supporting_lines_support(name: str, q: float) -> None:
    region = REGIONS[name]
    slope, intercept = supporting_line(region, q)
    near = np.clip(q * np.linspace(0.99, 1.01, 201), 0, 1)
    everywhere = np.concatenate([np.linspace(0, 1, 201), near, np.geomspace(1e-12, 1, 50)])
    edge = region.largest(everywhere)
    assert np.all(slope * everywhere + intercept >= edge * (1 - 1e-11))
    here = float(region.largest(np.array([q]))[0])
    assert slope * q + intercept <= here * (1 + 2e-4)


def test_the_bet_is_the_likelihood_ratio_of_the_nearest_true_pair() -> None:
    """At its own alternative, no other stake grows faster, and the growth is the divergence."""
    region = ApproxRegion(0.8)
    bets = against(region)
    p0, q0, slope = (
        float(table[0, 0]) for table in (bets.first_centre, bets.second_centre, bets.slope)
    )
    p, q = LAPLACE

    def growth(stake: float) -> float:
        return (
            p * math.log1p(stake * (1 - p0))
            + (1 - p) * math.log1p(-stake * p0)
            + q * math.log1p(-stake * slope * (1 - q0))
            + (1 - q) * math.log1p(stake * slope * q0)
        )

    def divergence(first: float, second: float) -> float:
        return first * math.log(first / second) + (1 - first) * math.log((1 - first) / (1 - second))

    edges = np.linspace(0.15, 0.3, 3_001).tolist()
    nearest = min(divergence(p, math.exp(0.8) * e) + divergence(q, e) for e in edges)
    best = max(map(growth, np.linspace(0.01, 0.2, 400)))
    assert best == pytest.approx(nearest, rel=5e-3)
    assert best <= nearest * (1 + 1e-4)


def test_wealth_against_fifty_digits() -> None:
    bets = against(ApproxRegion(1.0, 1e-5))
    tally = replace(bets.start(), pairs=10**9, first_hits=5 * 10**8 + 7, second_hits=2 * 10**8)
    with mpmath.workdps(50):
        total = mpmath.mpf(0)
        for p0, q0, slope, stake, weight in zip(
            bets.first_centre[0],
            bets.second_centre[0],
            bets.slope[0],
            bets.stake[0],
            bets.weights[0],
            strict=True,
        ):
            c, p0, q0, s = (mpmath.mpf(float(x)) for x in (stake, p0, q0, slope))
            total += mpmath.mpf(float(weight)) * (
                (1 + c * (1 - p0)) ** tally.first_hits
                * (1 - c * p0) ** (tally.pairs - tally.first_hits)
                * (1 - c * s * (1 - q0)) ** tally.second_hits
                * (1 + c * s * q0) ** (tally.pairs - tally.second_hits)
            )
        truth = mpmath.log(total)
    value = float(log_wealth(bets, tally)[0])
    assert value <= truth
    assert value == pytest.approx(float(truth), abs=1e-5)


@pytest.mark.parametrize("cuts", [(1,), (999, 1_000), (4_096, 4_097, 9_000), (5, 5, 11_000)])
def test_batches_of_any_size_give_one_tally(cuts: tuple[int, ...]) -> None:
    regions = [ApproxRegion(epsilon) for epsilon in (0.2, 0.6, 0.9)]
    bets = bets_against(regions, [0.2, 0.6, 0.9], pairs=10_000, error=ERROR, expected=LAPLACE)
    first, second = draws(LAPLACE, 12_000, 0)
    whole, parts = play(bets, bets.start(), first, second), bets.start()
    values = play_values(bets, bets.start_values(), first, second)
    batched = bets.start_values()
    for x, y in zip(np.split(first, cuts), np.split(second, cuts), strict=True):
        parts = Tally(**json.loads(json.dumps(asdict(play(bets, parts, x, y)))))
        batched = ValueTally(**json.loads(json.dumps(asdict(play_values(bets, batched, x, y)))))
    assert parts == whole
    assert batched == values
    assert whole.log_peaks == pytest.approx(values.log_peaks, abs=1e-8)
    assert type(parts.pairs) is int
    assert parts.first_hits == np.count_nonzero(first)


@pytest.mark.quality
def test_false_alarms_over_all_looks() -> None:
    """250 runs at the edge of the claim, looked at after each pair, two kinds of bets.

    More than 26 false alarms happen with probability 2e-4 if the rate is 5%.
    """
    edge = math.exp(0.8) * 0.2, 0.2
    for expected in (edge, None):
        bets = against(ApproxRegion(0.8), expected)
        alarms = 0
        for seed in range(250):
            tally = play(bets, bets.start(), *draws(edge, 3_000, seed))
            alarms += tally.p_values()[0] <= ERROR
        assert alarms <= 26


def test_laplace_is_refuted_soon() -> None:
    """0.8 of Laplace(1) within 1,400 pairs in 75% of runs; 200 runs, 0.80 expected.

    Fewer than 134 of 200 would happen with probability 1e-5 at 80%.
    """
    bets = bets_against([ApproxRegion(0.8)], [0.8], pairs=1_400, error=ERROR, expected=LAPLACE)
    found = sum(
        play(bets, bets.start(), *draws(LAPLACE, 1_400, seed)).p_values()[0] <= ERROR
        for seed in range(200)
    )
    assert found >= 134


def test_the_larger_the_gap_the_earlier_the_stop() -> None:
    bets = bets_against([ApproxRegion(0.8)], [0.8], pairs=1_400, error=ERROR, expected=LAPLACE)
    gross = play(bets, bets.start(), *draws((0.9, 0.1), 150, 1))
    assert gross.p_values()[0] < 1e-4


def test_epsilon_is_a_confidence_sequence() -> None:
    epsilons = np.linspace(0.05, 1.5, 30).tolist()
    bets = bets_against(
        [ApproxRegion(e, 1e-5) for e in epsilons],
        epsilons,
        pairs=20_000,
        error=ERROR,
        expected=LAPLACE,
    )
    tally, bounds = bets.start(), []
    for seed in range(20):
        tally = play(bets, tally, *draws(LAPLACE, 1_000, seed))
        bounds.append(parameter_lower(bets, tally, ERROR))
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]
    assert 0.9 <= bounds[-1] < 1
    assert parameter_lower(bets, tally, 1e-9) < bounds[-1]
    assert parameter_lower(bets, bets.start(), ERROR) == 0


def test_renewed_bets_carry_the_wealth() -> None:
    """Two events one after the other: log wealth adds up, the peak is kept, JSON keeps both."""
    one, two = against(ApproxRegion(0.5)), against(ApproxRegion(0.5), (0.7, 0.3))
    first = play(one, one.start(), *draws(LAPLACE, 700, 0))
    renewal = renewed(one, first, two)
    assert renewal.pairs == 0
    assert renewal.log_peaks == first.log_peaks
    apart = play(two, two.start(), *draws((0.7, 0.3), 900, 1))
    after = play(two, renewal, *draws((0.7, 0.3), 900, 1))
    assert after == Tally(**json.loads(json.dumps(asdict(after))))
    total = log_wealth(one, first) + log_wealth(two, apart)
    assert log_wealth(two, after) == pytest.approx(total)
    peak = max(first.log_peaks[0], log_wealth(one, first)[0] + apart.log_peaks[0])
    assert after.log_peaks[0] == pytest.approx(peak)
    with pytest.raises(InvalidParameter, match="parameters"):
        renewed(one, first, bets_against([ApproxRegion(1.0)], [2.0], pairs=9, error=ERROR))


def test_a_gap_in_the_refuted_claims_ends_the_bound() -> None:
    epsilons = [0.1, 0.2, 0.3]
    bets = bets_against([*map(ApproxRegion, epsilons)], epsilons, pairs=9, error=ERROR)
    tally = replace(bets.start(), log_peaks=(9.0, 1.0, 9.0))
    assert parameter_lower(bets, tally, ERROR) == 0.1


def test_a_witness_function_is_a_randomised_event() -> None:
    """A clipped linear score of two Gaussians, against a claim of too small a mu."""
    rng = np.random.default_rng(3)
    first, second = rng.normal(2, 1, 4_000), rng.normal(0, 1, 4_000)
    values = [np.clip(side / 2, 0, 1) for side in (first, second)]
    expected = float(values[0].mean()), float(values[1].mean())
    for mu, refuted in ((1.0, True), (2.0, False)):
        bets = bets_against([GaussianRegion(mu)], [mu], pairs=4_000, error=0.01, expected=expected)
        tally = play_values(bets, bets.start_values(), *values)
        assert (tally.log_peaks[0] > math.log(100)) is refuted


def test_values_that_are_indicators_are_events() -> None:
    bets = against(ApproxRegion(0.5))
    first, second = draws(LAPLACE, 2_000, 8)
    tally = play(bets, bets.start(), first, second)
    values = play_values(bets, bets.start_values(), first * 1.0, second * 1.0)
    assert values.log_peaks[0] == pytest.approx(tally.log_peaks[0], abs=1e-9)
    assert len(values.log_wealth[0]) == bets.stake.shape[1]


def test_e_values_multiply_and_average() -> None:
    assert log_multiplied([1.5, -0.5, 2.0]) == 3.0
    mean = math.log((math.exp(1.0) + math.exp(3.0)) / 2)
    assert log_averaged([1.0, 3.0]) == pytest.approx(mean, abs=1e-12)
    assert log_averaged([1.0, 3.0]) <= mean
    assert log_averaged([-math.inf, -math.inf]) == -math.inf
    assert log_averaged([800.0, 0.0]) == pytest.approx(800 - math.log(2))
    for bad in ([], [math.nan, 1.0]):
        for combine in (log_multiplied, log_averaged):
            with pytest.raises(InvalidParameter):
                combine(bad)


def test_no_pairs_leave_a_tally_as_it_was() -> None:
    bets = against(ApproxRegion(0.5))
    nothing = np.zeros(0, dtype=bool)
    assert play(bets, bets.start(), nothing, nothing) == bets.start()
    assert play_values(bets, bets.start_values(), nothing, nothing) == bets.start_values()
    assert np.array(bets.start_values().log_wealth).shape == bets.stake.shape  # one row a claim
    assert bets.start().p_values() == (1.0,)


def test_bad_pairs() -> None:
    bets, other = against(ApproxRegion(0.5)), against(ApproxRegion(0.6))
    yes, two = np.ones(3, dtype=bool), np.ones(2, dtype=bool)
    with pytest.raises(InvalidParameter, match="as many of each"):
        play(bets, bets.start(), yes, two)
    with pytest.raises(InvalidParameter, match="Boolean"):
        play(bets, bets.start(), np.ones(3), yes)
    with pytest.raises(InvalidParameter, match="Boolean"):
        play(bets, bets.start(), np.ones((3, 1), dtype=bool), yes)
    with pytest.raises(InvalidParameter, match="its own"):
        play(bets, other.start(), yes, yes)
    for value in (math.nan, -0.1, 1.1, math.inf):
        with pytest.raises(InvalidParameter, match="in \\[0, 1\\]"):
            play_values(bets, bets.start_values(), np.array([value]), np.array([0.5]))


@pytest.mark.parametrize(
    "options",
    [
        {"pairs": 0},
        {"pairs": 10**10},
        {"error": 0.0},
        {"error": 1.0},
        {"expected": (math.nan, 0.5)},
        {"expected": (0.5, 1.5)},
        {"parameters": []},
        {"parameters": [1.0, 2.0]},
        {"regions": [], "parameters": []},
        {"regions": [ApproxRegion(1.0)] * 2, "parameters": [2.0, 1.0]},
    ],
)
def test_bad_bets(options: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "regions": [ApproxRegion(1.0)],
        "parameters": [1.0],
        "pairs": 100,
        "error": ERROR,
        "expected": LAPLACE,
    } | options
    with pytest.raises(InvalidParameter):
        bets_against(given.pop("regions"), given.pop("parameters"), **given)


@pytest.mark.parametrize(("name", "value"), [("stake", 5.0), ("stake", -0.1), ("weights", 0.9)])
def test_unfair_bets_are_refused(name: str, value: float) -> None:
    bets = against(ApproxRegion(0.5))
    changed: dict[str, Any] = {name: np.full_like(bets.stake, value)}
    with pytest.raises(InvalidParameter):
        replace(bets, **changed)


@pytest.mark.parametrize("counts", [(1.0, 0, 0), (1, 2, 0), (-1, 0, 0), (True, 0, 0), (3, 0, -1)])
def test_tallies_of_impossible_counts_are_refused(counts: Any) -> None:
    with pytest.raises(InvalidParameter):
        Tally("", counts[0], counts[1], counts[2], (0.0,))


@pytest.mark.parametrize("q", [0.0, 1.0, -1.0, math.nan])
def test_lines_at_impossible_rates(q: float) -> None:
    with pytest.raises(InvalidParameter):
        supporting_line(ApproxRegion(1.0), q)

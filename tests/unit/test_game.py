"""Rounds of a replaced record's batches, played as a game: both ends, and the checker's own."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import dpaudit as dp
from dpaudit.check.profile import game as checked
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.nodes.pairs import Mixed, Normal, Pair, Replaced, Spliced, product
from dpaudit.profiles.answers import delta_interval, epsilon_interval
from dpaudit.profiles.fourier import game
from dpaudit.profiles.grid.triangles import Rounds, at_place

F = Fraction
RECORD, TIMES, DELTA = Replaced(F(2), F(1, 10)), 40, F(1, 1000)
ROUNDS = product([(RECORD, F(TIMES))])
REPLACED = dp.central("replace_one")


def test_one_triangle_is_an_integral_over_the_plane() -> None:
    """delta of (P, Q) and of (Q, P), by a sum over a fine grid of the plane, to its error."""
    mu, rate, place = 1.5, 0.1, -0.4
    side = mu * math.sqrt(1 + place)
    far = np.array([side / 2, math.sqrt(mu * mu - side * side / 4)])
    axis = np.arange(-9, 9, 0.02)
    one, two = np.meshgrid(axis, axis)

    corners = ((0.0, 0.0), tuple(far.tolist()), (side, 0.0))
    y, x, other = (stats.norm.pdf(one - a) * stats.norm.pdf(two - b) for a, b in corners)
    p, q = (1 - rate) * y + rate * x, (1 - rate) * y + rate * other
    losses = np.array([0.02, 0.3, 1.0])
    forth, off, back, back_off = at_place(mu, rate, place, losses)
    for i, loss in enumerate(losses):
        for value, top, bottom in ((forth, p, q), (back, q, p)):
            direct = np.maximum(top - math.exp(loss) * bottom, 0).sum() * 0.02**2
            assert value[i] == pytest.approx(direct, rel=2e-4)
    assert max(off.max(), back_off.max()) < 1e-11
    # Of the checker's, by other points.
    for made, value in ((checked._order, forth), (checked._back, back)):
        assert np.allclose(made(mu, rate, 1 + place, losses)[0], value, rtol=0, atol=1e-12)


def test_along_the_path_losses_above_0_fall_and_those_below_rise() -> None:
    """Seven rates and lengths; where the two differ the splice of a cell would not dominate."""
    losses = np.linspace(0.01, 3, 40)
    for mu, rate in ((0.1, 0.5), (0.5, 0.01), (1, 0.3), (2, 0.01), (2, 0.7), (3, 0.1), (4, 1e-3)):
        path = [at_place(mu, rate, place, losses) for place in np.linspace(-1, 1, 9)]
        for first, second in pairwise(path):
            assert np.all(second[0] <= first[0] + first[1] + second[1])
            assert np.all(second[2] >= first[2] - first[3] - second[3])


def test_other_triangles_are_nowhere_above_those_of_the_path() -> None:
    """Forty triangles in the disc, drawn with seed 0: within the largest of the path's, to 1e-6."""
    mu, rate, loss = 2.0, 0.2, 0.5
    draws = np.random.default_rng(0)
    best = at_place(mu, rate, -1.0, np.array([loss]))[0][0]
    axis = np.arange(-8, 10, 0.05)
    one, two = np.meshgrid(axis, axis)
    for _ in range(40):
        corners = draws.uniform(-1, 1, (3, 2))
        lengths = [np.linalg.norm(corners[i] - corners[i - 1]) for i in range(3)]
        y, x, other = corners * mu / max(lengths)
        laws = [
            (1 - rate) * np.exp(-((one - y[0]) ** 2 + (two - y[1]) ** 2) / 2)
            + rate * np.exp(-((one - z[0]) ** 2 + (two - z[1]) ** 2) / 2)
            for z in (x, other)
        ]
        p, q = (law / (2 * math.pi) for law in laws)
        assert np.maximum(p - math.exp(loss) * q, 0).sum() * 0.05**2 <= best + 1e-6


def test_both_ends_lie_between_what_was_known() -> None:
    """Above every fixed order of the sampled pair, and below one pair for all rounds."""
    found = epsilon_interval(ROUNDS, DELTA)
    assert found.upper - found.lower < 0.2
    assert found.upper < epsilon_interval(product([(RECORD.spliced, F(TIMES))]), DELTA).upper - 0.5
    for forth in (0, 13, TIMES):
        orders = [(RECORD.sampled, F(forth)), (RECORD.sampled.swapped, F(TIMES - forth))]
        assert epsilon_interval(product(orders), DELTA).lower < found.upper
    assert found.lower > epsilon_interval(product([(RECORD.sampled, F(TIMES))]), DELTA).upper + 0.1
    at = delta_interval(ROUNDS, found.upper)
    assert at.lower <= DELTA * F(1001, 1000)
    assert delta_interval(ROUNDS, found.lower).upper >= DELTA * F(999, 1000)


def test_the_checker_confirms_both_ends_and_nothing_beyond() -> None:
    found = epsilon_interval(ROUNDS, DELTA)
    assert found.upper_witness["form"] == found.lower_witness["form"] == "game"
    assert confirm_upper(ROUNDS, F(found.upper), DELTA, found.upper_witness)
    assert confirm_lower(ROUNDS, found.lower, DELTA, found.lower_witness)
    assert not confirm_upper(ROUNDS, found.lower, DELTA, found.upper_witness)
    assert not confirm_lower(ROUNDS, F(found.upper), DELTA, found.lower_witness)
    # At epsilon 0, where a float below it is none of the game's.
    most = delta_interval(ROUNDS, 0)
    assert confirm_upper(ROUNDS, F(0), F(most.upper), {**found.upper_witness, "epsilon": "0"})
    # Of other pairs such a row shows nothing.
    other = product([(RECORD, F(TIMES)), (Mixed(Normal(F(1)), F(1, 2)), F(2))])
    assert not confirm_upper(other, F(found.upper) + 9, DELTA, found.upper_witness)
    huge = {**found.upper_witness, "nodes": "100000000"}
    assert not confirm_upper(ROUNDS, F(found.upper), DELTA, huge)


def test_without_triangles_between_the_upper_end_would_be_too_low(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the sampled pair's two orders from above: below what triangles reach, and refused."""
    found = epsilon_interval(ROUNDS, DELTA)

    def narrowed(self: Rounds, first: float, second: float) -> tuple[object, float]:
        return above(self, *((-1.0, -1.0) if first < 0 else (1.0, 1.0)))

    above = Rounds.above
    monkeypatch.setattr(Rounds, "above", narrowed)
    game.played.cache_clear()
    wrong = epsilon_interval(ROUNDS, DELTA)
    game.played.cache_clear()
    assert wrong.upper < found.lower
    assert not confirm_upper(ROUNDS, F(wrong.upper), DELTA, wrong.upper_witness)


@pytest.mark.parametrize(
    ("batch", "population", "noise", "times"),
    [(1, 2, 1, 2), (9, 10, 3, 5), (1, 100, F(1, 2), 30), (600, 60_000, 4, 100), (1, 10**6, 1, 9)],
)
def test_ends_are_in_order_at_other_sizes(
    batch: int, population: int, noise: Fraction, times: int
) -> None:
    run = dp.Repeat(dp.SampledWithoutReplacement(dp.Gaussian("g", noise), batch, population), times)
    share = F(batch, population)
    one_way: Pair = Mixed(Normal(1 / F(noise)), share)
    bound = dp.account(run, REPLACED).epsilon("1e-4")
    before = epsilon_interval(product([(one_way, F(times))]), "1e-4")
    both = product([(Spliced(one_way, one_way.swapped), F(times))])
    assert bound.lower <= bound.upper
    assert bound.upper <= epsilon_interval(both, "1e-4").upper + F(1, 1000)
    assert bound.lower >= before.lower - F(1, 1000)


def test_one_round_is_exact_and_a_whole_batch_is_its_child() -> None:
    noisy = dp.Gaussian("g", 1)
    once = dp.account(dp.SampledWithoutReplacement(noisy, 10, 100), REPLACED).delta(F(1, 2))
    sampled = Mixed(Normal(F(1)), F(1, 10))
    exact = max(delta_interval(p, F(1, 2)).lower for p in (sampled, sampled.swapped))
    assert abs(once.upper - exact) < F(1, 10**9)
    assert abs(once.lower - exact) < F(1, 10**9)
    whole = dp.account(dp.SampledWithoutReplacement(noisy, 100, 100), REPLACED).epsilon("1e-5")
    assert whole.upper == dp.account(noisy, REPLACED).epsilon("1e-5").upper

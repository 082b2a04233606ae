"""Rounds of a replaced record's batches, played as a game: both ends, and the checker's own."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, ctx
from scipy import special, stats

import dpaudit as dp
from dpaudit.check.profile import game as checked
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Floats
from dpaudit.pairs import Mixed, Normal, Pair, Replaced, Spliced, product
from dpaudit.profiles.answers import delta_interval, epsilon_interval
from dpaudit.profiles.fourier import game
from dpaudit.profiles.grid import triangles
from dpaudit.profiles.grid.triangles import NDTR_FACTOR, Rounds, at_place

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
    (forth, off, under), (back, back_off, back_under) = at_place(mu, rate, place, losses)
    for i, loss in enumerate(losses):
        for value, mass, top, bottom in ((forth, under, p, q), (back, back_under, q, p)):
            direct = np.maximum(top - math.exp(loss) * bottom, 0).sum() * 0.02**2
            assert value[i] == pytest.approx(direct, rel=2e-4)
            event = bottom[top > math.exp(loss) * bottom].sum() * 0.02**2
            assert mass[i] == pytest.approx(event, rel=2e-2)
    assert max(off.max(), back_off.max()) < 1e-11
    # Of the checker's, by other points.
    for made, value in ((checked._order, forth), (checked._back, back)):
        assert np.allclose(made(mu, rate, 1 + place, losses)[0], value, rtol=0, atol=1e-12)


@pytest.mark.quality
def test_thin_triangles_are_the_accountants_from_few_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """delta and Q to their errors; the accountant takes 300,000 points of the thinnest one."""
    points: list[int] = []
    tail = checked._cdf
    monkeypatch.setattr(checked, "_cdf", lambda z: (points.append(z.shape[-1]), tail(z))[1])
    for mu, rate in ((0.3, 0.01), (2.0, 0.6), (4.0, 0.3)):
        losses = np.geomspace(1e-4, 3, 12) * min(mu, 1)
        for square in (1e-6, 1e-3, 0.3):
            orders = at_place(mu, rate, square - 1, losses)
            for made, (value, off, under) in zip(
                (checked._order, checked._back), orders, strict=True
            ):
                delta, q, own_off = made(mu, rate, square, losses)
                assert np.all(np.abs(delta - value) <= (off + own_off) / 100)
                assert np.allclose(q, under, rtol=1e-11, atol=1e-20)
    assert max(points) < 60_000


def test_along_the_path_losses_above_0_fall_and_those_below_rise() -> None:
    """Seven rates and lengths; where the two differ the splice of a cell would not dominate."""
    losses = np.linspace(0.01, 3, 40)
    for mu, rate in ((0.1, 0.5), (0.5, 0.01), (1, 0.3), (2, 0.01), (2, 0.7), (3, 0.1), (4, 1e-3)):
        path = [at_place(mu, rate, place, losses) for place in np.linspace(-1, 1, 9)]
        for first, second in pairwise(path):
            (forth, off, _), (back, back_off, _) = first
            (next_forth, next_off, _), (next_back, next_back_off, _) = second
            assert np.all(next_forth <= forth + off + next_off)
            assert np.all(next_back >= back - back_off - next_back_off)


def test_other_triangles_are_nowhere_above_those_of_the_path() -> None:
    """Forty triangles in the disc, drawn with seed 0: within the largest of the path's, to 1e-6."""
    mu, rate, loss = 2.0, 0.2, 0.5
    draws = np.random.default_rng(0)
    best = at_place(mu, rate, -1.0, np.array([loss]))[0][0][0]
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


@pytest.mark.quality
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


@pytest.mark.quality
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


@pytest.mark.quality
def test_without_triangles_between_the_upper_end_would_be_too_low(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the sampled pair's two orders from above: below what triangles reach, and refused."""
    found = epsilon_interval(ROUNDS, DELTA)

    def narrowed(self: Rounds, first: float, second: float) -> Floats:
        return raised(self, *((-1.0, -1.0) if first < 0 else (1.0, 1.0)))

    raised = Rounds._raised
    monkeypatch.setattr(Rounds, "_raised", narrowed)
    game.played.cache_clear()
    monkeypatch.setattr("dpaudit.profiles.interval.require_order", lambda *ends: None)
    wrong = epsilon_interval(ROUNDS, DELTA)
    game.played.cache_clear()
    assert wrong.upper < found.lower
    assert not confirm_upper(ROUNDS, F(wrong.upper), DELTA, wrong.upper_witness)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("batch", "population", "noise", "times"),
    [
        (1, 2, 1, 2),
        (9, 10, 3, 5),
        pytest.param(1, 100, F(1, 2), 30, marks=pytest.mark.quality),
        (600, 60_000, 4, 100),
        (1, 10**6, 1, 9),
    ],
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


@pytest.mark.quality
def test_two_rounds_are_those_of_enumerated_mechanisms() -> None:
    """Every triangle of 17 as outcomes on a plane of squares: the game by sums over all outcomes.

    Sums on squares of 1/16 err by less than 1e-6; triangles between the 17 are at most 1e-4 above.
    """
    mu, rate = 1.5, 0.2
    axis = np.arange(-8, 9.5, 1 / 16)
    one, two = np.meshgrid(axis, axis)
    laws = []
    for place in (-np.cos(np.linspace(0, math.pi, 17))).tolist():
        side = mu * math.sqrt(1 - abs(place))
        corners = ((0.0, 0.0), (side / 2, math.sqrt(mu * mu - side * side / 4)), (side, 0.0))
        y, x, other = (stats.norm.pdf(one - a) * stats.norm.pdf(two - b) for a, b in corners)
        laws_of = [((1 - rate) * y + rate * z).ravel() / 256 for z in (x, other)]
        laws.append(laws_of if place <= 0 else laws_of[::-1])
    at = np.arange(-12, 12, 0.01)
    once = np.zeros(len(at))
    for p, q in laws:
        losses = np.log(p / q)
        order = np.argsort(losses)
        first = np.searchsorted(losses[order], at)
        p_above, q_above = (np.append(np.cumsum(v[order][::-1])[::-1], 0.0) for v in (p, q))
        once = np.maximum(once, p_above[first] - np.exp(at) * q_above[first])
    both = game.played(Replaced(F(mu), F(rate)), 2, 0)
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        twice = max(float(p @ np.interp(epsilon - np.log(p / q), at, once)) for p, q in laws)
        ends = [
            float(np.interp(epsilon, np.arange(len(s.delta)) * s.size.step, s.delta)) for s in both
        ]
        assert ends[1] - 1e-5 <= twice <= ends[0] + 1e-5
        assert ends[0] - ends[1] < 0.02 * twice + 1e-6


def test_the_normal_distribution_is_within_its_factor_of_arb() -> None:
    points = np.concatenate((np.linspace(-37, 0, 400), np.linspace(0, 9, 60)))
    with ctx.workprec(200):
        for z, found in zip(points.tolist(), special.ndtr(points).tolist(), strict=True):
            true = (-arb(z) / arb(2).sqrt()).erfc() / 2
            assert abs(arb(found) / true - 1) < NDTR_FACTOR * UNIT


@pytest.mark.quality
def test_small_deltas_are_narrow_and_confirmed() -> None:
    """At 1e-10 and 1e-16, where sums without a tilt have errors above delta."""
    for exponent in (10, 16):
        delta = F(1, 10**exponent)
        found = epsilon_interval(ROUNDS, delta)
        assert found.upper - found.lower < found.upper / 40
        assert found.upper_witness["form"] == found.lower_witness["form"] == "game"
        assert confirm_upper(ROUNDS, F(found.upper), delta, found.upper_witness)
        assert confirm_lower(ROUNDS, found.lower, delta, found.lower_witness)
    without = {**found.upper_witness, "tilt": "0.0"}
    assert not confirm_upper(ROUNDS, F(found.upper), delta, without)


@pytest.mark.quality
def test_later_questions_are_answered_by_one_solution() -> None:
    game.played.cache_clear()
    for delta in (F(1, 500), F(1, 1000), F(1, 9999), F(1, 10**5)):
        epsilon_interval(ROUNDS, delta)
    delta_interval(ROUNDS, 9)
    assert game.played.cache_info().misses == 1


@pytest.mark.quality
def test_the_checker_plays_as_near_from_below_where_delta_lies_on_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Below the loss of a batch without the record delta is 1 - x: rounding must decide nothing."""

    def apart(times: int) -> float:
        _, below = game.played(Replaced(Fraction(2), Fraction(1, 100)), times, 0)
        size = below.size
        shape = checked.Shape(size.step, len(below.delta), size.cells, size.tilt, size.tail)
        again = checked._rounds(2.0, 0.01, times, shape, -1)
        seen = below.delta > 1e-6
        return float(np.abs(again[seen] / below.delta[seen] - 1).max())

    def furthest() -> float:
        game.played.cache_clear()
        checked._rounds.cache_clear()
        return max(apart(times) for times in (31, 50))

    assert furthest() < 1e-7
    monkeypatch.setattr(triangles, "LINE_ROUNDING", 0.0)
    monkeypatch.setattr(checked, "ON_THE_LINE", 0.0)
    assert furthest() > 1e-4
    game.played.cache_clear()
    checked._rounds.cache_clear()

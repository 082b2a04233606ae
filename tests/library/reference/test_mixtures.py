"""Mixtures of Gaussians, beside integrals of their densities and beside dp_accounting."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import flint
import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event as d
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld import privacy_loss_mechanism as plm
from scipy.special import ndtr

import dpaudit as dp
from dpaudit.check.profile.closed import delta_by
from dpaudit.crosscheck.interchange import from_dp_event, to_dp_event
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import MixtureOfGaussians
from dpaudit.families.opaque.rules import mixture
from dpaudit.pairs import NormalMixture, Pair

Moves = tuple[tuple[F | int, F | str], ...]
TWICE: Moves = ((1, "0.18"), (2, "0.01"))
SCOPE = dp.central("add_remove")
MANY: Moves = tuple((F(j, 10), F(1, 50)) for j in range(1, 13))
# Noise, moves, epsilon: little and much noise, faint chances, many lengths, no standing still.
EXTREMES: list[tuple[F, Moves, float]] = [
    (F(1), TWICE, 0.5),
    (F(1, 10), ((1, "1e-12"),), 2.0),
    (F(1, 10), ((1, "1e-12"), (3, "1e-3")), 50.0),
    (F(10**4), ((1, "0.5"), (7, "1e-12")), 1e-5),
    (F(10**4), ((F(1, 1000), "0.5"), (10, "0.5")), 0.02),
    (F(1), ((F(1, 1000), "0.9"), (1, "0.1")), -0.3),
    (F(5, 2), MANY, 4.0),
    (F(1), TWICE, 35.0),
    (F(1), TWICE, -0.2),
    (F(1), TWICE, -0.3),
]


def integral(pair: Pair, x: mp.mpf) -> mp.mpf:
    """The integral of (p - x q)+, q standard normal: on the side of p = x q that is less likely."""
    moves, chances = ([mp.mpf(n.numerator) / n.denominator for n in law] for law in fields(pair))
    still = 1 - sum(chances)

    def excess(t: mp.mpf) -> mp.mpf:
        parts = (w * mp.exp(m * t - m * m / 2) for m, w in zip(moves, chances, strict=True))
        return still + mp.fsum(parts) - x

    if x <= still:
        return 1 - x
    low, high = mp.mpf(-(10**7)), mp.mpf(10**7)
    for _ in range(140):
        low, high = (
            ((low + high) / 2, high) if excess((low + high) / 2) < 0 else (low, (low + high) / 2)
        )
    way, unit = 1 if low > 0 else -1, 1 / (1 + abs(low))
    ends = [unit * mp.mpf(2) ** (mp.mpf(k) / 2) for k in range(-10, 60)]
    cuts = [low, *(low + way * end for end in ends if end < 40 + max(moves))]
    beyond = way * mp.quad(lambda t: excess(t) * mp.npdf(t), cuts, maxdegree=4)
    return beyond if low > 0 else 1 - x - beyond


def parts(ball: Any) -> tuple[mp.mpf, mp.mpf]:
    middle, radius = (mp.mpf(part.str(40, radius=False)) for part in (ball.mid(), ball.rad()))
    return middle, radius


def fields(pair: Pair) -> tuple[list[F], list[F]]:
    assert isinstance(pair, NormalMixture)
    return [F(m) for m in pair.moves], [F(w) for w in pair.chances]


@pytest.mark.first_case
@pytest.mark.parametrize(("noise", "moves", "epsilon"), EXTREMES)
def test_delta_is_that_of_the_densities(noise: F, moves: Moves, epsilon: float) -> None:
    pair = mixture(MixtureOfGaussians(noise, moves))
    with mp.workdps(30), flint.ctx.workprec(200):
        truth = integral(pair, mp.exp(mp.mpf(epsilon)))
        x = flint.arb(epsilon).exp()
        for found in (pair.delta(x), delta_by(pair, x)):
            middle, radius = parts(found)
            assert abs(middle - truth) <= radius + 1e-9 * truth
            assert radius <= 1e-6 * truth
        back = 1 - mp.exp(epsilon) + mp.exp(epsilon) * integral(pair, mp.exp(-mp.mpf(epsilon)))
        for found in (pair.swapped.delta(x), delta_by(pair.swapped, x)):
            middle, radius = parts(found)
            assert abs(middle - back) <= radius + 1e-9 * back + 1e-30


def test_a_delta_beyond_all_floats_is_enclosed() -> None:
    pair = mixture(MixtureOfGaussians(1, TWICE))
    with mp.workdps(30), flint.ctx.workprec(200):
        truth, x = integral(pair, mp.exp(36)), flint.arb(36).exp()
        assert 0 < truth < 1e-60
        assert float((pair.delta(x) / delta_by(pair, x) - 1).mid()) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("adjacency", ["REMOVE", "ADD"])
def test_delta_is_dp_accountings(adjacency: str) -> None:
    theirs = plm.MixtureGaussianPrivacyLoss(
        1.0, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01], adjacency_type=plm.AdjacencyType[adjacency]
    )
    pair = mixture(MixtureOfGaussians(1, TWICE))
    pair = pair if adjacency == "REMOVE" else pair.swapped
    for epsilon in (0.1, 0.2, 1.0, 3.0):
        if adjacency == "ADD" and epsilon > 0.2:
            continue
        found = float(pair.delta(flint.arb(epsilon).exp()).mid())
        assert found == pytest.approx(
            theirs.get_delta_for_epsilon([epsilon])[0], rel=1e-5, abs=1e-12
        )


@pytest.mark.quality
@pytest.mark.parametrize("rounds", [1, 100])
@pytest.mark.parametrize(
    ("noise", "moves"),
    [(1, TWICE), (2, ((1, "0.1"), (2, "0.1"))), (5, ((F(1, 10), "0.3"), (3, "1e-6")))],
)
def test_rounds_are_no_looser_than_dp_accountings(noise: int, moves: Moves, rounds: int) -> None:
    """Theirs rounds up by at most 1e-4 of a loss each, which is as far as it is above ours."""
    lengths, chances = ([float(F(str(n))) for n in part] for part in zip(*moves, strict=True))
    theirs = pld.from_mixture_gaussian_mechanism(
        noise, [0.0, *lengths], [1 - sum(chances), *chances], value_discretization_interval=1e-3
    )
    bound = dp.account(dp.Repeat(MixtureOfGaussians(noise, moves), rounds), SCOPE).epsilon("1e-5")
    epsilon = theirs.self_compose(rounds).get_epsilon_for_delta(1e-5)
    assert float(bound.upper) <= epsilon * (1 + 1e-6)
    assert float(bound.lower) >= epsilon * (1 - 5e-3)


def test_moves_in_any_direction_are_dominated() -> None:
    """Forty mixtures in a plane, each at one x, beside the mixture on a line of longer moves.

    delta in the plane is a sum over 32,761 cells, which is off by less than 1e-4.
    """
    rng = np.random.default_rng(7)
    axis = np.linspace(-9, 9, 181)
    cell = (axis[1] - axis[0]) ** 2
    a, b = np.meshgrid(axis, axis)
    for _ in range(40):
        lengths, weights = rng.uniform(0.2, 2, 3), rng.dirichlet(np.ones(4))
        ways = rng.uniform(0, 2 * np.pi, 3)
        shorter = lengths * rng.uniform(0.3, 1, 3)
        q = np.exp(-(a**2 + b**2) / 2) / (2 * np.pi)
        p = weights[3] * q
        for m, w, way in zip(shorter, weights, ways, strict=False):
            p = p + w * np.exp(-((a - m * np.cos(way)) ** 2 + (b - m * np.sin(way)) ** 2) / 2) / (
                2 * np.pi
            )
        x = np.exp(rng.uniform(-1, 1.5))
        t = np.linspace(-8, 10, 4001)
        there = weights[3] * ndtr(-t) + sum(
            w * ndtr(m - t) for m, w in zip(lengths, weights, strict=False)
        )
        assert np.maximum(p - x * q, 0).sum() * cell <= np.max(there - x * ndtr(-t)) + 1e-4
        assert np.maximum(q - x * p, 0).sum() * cell <= np.max(ndtr(t) - x * (1 - there)) + 1e-4


def test_an_event_is_read_and_written() -> None:
    for moves in (TWICE, ((1, "0.5"), (3, "0.5")), ((F(1, 3), F(1, 7)), (2, F(1, 3)))):
        node = MixtureOfGaussians(2, moves)
        event = to_dp_event(node, "add_remove")
        back = from_dp_event(event, "add_remove")
        assert isinstance(back, MixtureOfGaussians)
        assert to_dp_event(back, "add_remove").sensitivities == event.sensitivities
        if moves[0][0] == 1:
            assert to_dp_event(back, "add_remove") == event
        pairs = dp.account(back, SCOPE).epsilon("1e-5"), dp.account(node, SCOPE).epsilon("1e-5")
        assert pairs[0].upper >= pairs[1].lower
        assert float(pairs[0].upper) == pytest.approx(float(pairs[1].upper), abs=2e-4)


def test_rounded_shares_of_an_event_give_way_to_the_longest_move() -> None:
    event = d.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.5, 0.5 + 1e-10])
    node = from_dp_event(event, "add_remove")
    assert isinstance(node, MixtureOfGaussians)
    assert dict(node.moves) == {2: F("0.5000000001"), 1: F("0.4999999999")}
    event = d.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25 - 1e-10])
    node = from_dp_event(event, "add_remove")
    assert isinstance(node, MixtureOfGaussians)
    assert dict(node.moves) == {2: F(1, 4), 1: F(1, 4)}


def test_what_is_no_mixture_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="sum 1 at most"):
        MixtureOfGaussians(1, ((1, "0.6"), (2, "0.5")))
    with pytest.raises(InvalidParameter, match="moves"):
        MixtureOfGaussians(1)


def test_one_length_is_plain_noise_and_equal_lengths_are_one() -> None:
    sure = dp.account(MixtureOfGaussians(1, ((1, "0.5"), (1, "0.5"))), SCOPE)
    plain = dp.account(dp.Gaussian("g", 1), SCOPE).epsilon("1e-5")
    assert sure.epsilon("1e-5").upper == plain.upper
    sample = dp.account(dp.PoissonSampled(dp.Gaussian("g", 1), "0.01"), SCOPE).epsilon("1e-5")
    split = dp.account(MixtureOfGaussians(1, ((1, "0.004"), (1, "0.006"))), SCOPE).epsilon("1e-5")
    assert float(split.upper) == pytest.approx(float(sample.upper), abs=2e-4)
    assert float(split.lower) <= float(sample.upper)


def test_a_replaced_record_is_told_from_above_and_mixed_from_below() -> None:
    bound = dp.account(MixtureOfGaussians(1, TWICE), "replace_one").epsilon("1e-5")
    alone = dp.account(MixtureOfGaussians(1, TWICE), SCOPE).epsilon("1e-5")
    assert alone.lower <= bound.lower <= alone.upper < bound.upper

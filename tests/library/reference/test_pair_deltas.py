"""Formulas and sums that accountant and checker share: against integrals and sums of densities."""

from __future__ import annotations

import math
from fractions import Fraction as F

import flint
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from dpaudit.errors import Unsupported
from dpaudit.exact import enclose, log
from dpaudit.pairs import (
    Branched,
    DiscreteNormal,
    Drawn,
    DrawnMoves,
    LaplaceShift,
    Mixed,
    Normal,
    NormalMixture,
    Opposed,
    Pair,
    Replaced,
    Tallied,
    drawn,
)

Reals = NDArray[np.float64]
# Where densities are summed: fine next to the kinks of Laplace noise at 0 and 1.
STEP = 1e-4
AT: Reals = np.arange(-30, 30, STEP) + STEP / 2
EPSILONS = [-2.0, -0.3, 0.0, 0.4, 1.1, 3.0]


def normal(mean: float) -> Reals:
    return norm.pdf(AT, mean)


def laplace(mean: float, epsilon: float) -> Reals:
    return epsilon / 2 * np.exp(-epsilon * np.abs(AT - mean))


def mixed(rate: float, present: Reals, absent: Reals) -> Reals:
    return rate * present + (1 - rate) * absent


def moved(chances: list[float], moves: list[float]) -> Reals:
    return np.sum([c * normal(m) for c, m in zip(chances, moves, strict=True)], axis=0)


GROUP = binom.pmf(range(5), 4, 0.3).tolist()
SAMPLED = Mixed(Normal(F(3, 2)), F(1, 5))
CASES: dict[str, tuple[Pair, Reals, Reals]] = {
    "normal": (Normal(F(3, 2)), normal(1.5), normal(0)),
    "laplace": (LaplaceShift(F(2)), laplace(1, 2), laplace(0, 2)),
    "sampled": (SAMPLED, mixed(0.2, normal(1.5), normal(0)), normal(0)),
    "sampled, swapped": (SAMPLED.swapped, normal(0), mixed(0.2, normal(1.5), normal(0))),
    "group": (
        Drawn(F(1, 2), F(3, 10), F(4)),
        moved(GROUP, [0, 0.5, 1, 1.5, 2]),
        normal(0),
    ),
    "group, last move": (
        DrawnMoves((F(1, 2), F(3, 2)), F(3, 10), F(4)),
        moved(GROUP, [0, 0.5, 1.5, 1.5, 1.5]),
        normal(0),
    ),
    "mixture": (
        NormalMixture((F(1, 3), F(2)), (F(1, 2), F(1, 5))),
        moved([0.3, 0.5, 0.2], [0, 1 / 3, 2]),
        normal(0),
    ),
    "opposed": (
        Opposed(F(3, 2), F(1, 5)),
        mixed(0.2, normal(1.5), normal(0)),
        mixed(0.2, normal(-1.5), normal(0)),
    ),
    "sampled Laplace": (
        Mixed(LaplaceShift(F(2)), F(1, 5)),
        mixed(0.2, laplace(1, 2), laplace(0, 2)),
        laplace(0, 2),
    ),
}


def integral(first: Reals, second: Reals, epsilon: float) -> float:
    """By the rule of midpoints, within 1e-7 for densities of slopes of at most 2."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * STEP)


def stated(pair: Pair, epsilon: float) -> float:
    with flint.ctx.workprec(128):
        return float(pair.delta(enclose(F(epsilon)).exp()).mid())


# Whole numbers that hold all mass but 1e-12 of the laws below.
COUNTS: Reals = np.arange(-60.0, 61.0)


def whole_noise(variance: float, shift: int) -> Reals:
    weights = np.exp(-((COUNTS - shift) ** 2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def ones(own: float, rare: float, others: int) -> Reals:
    return np.convolve(binom.pmf(np.arange(others + 1), others, rare), [1 - own, own])


SUMS: dict[str, tuple[Pair, Reals, Reals]] = {
    "whole numbers": (DiscreteNormal(F(9, 2), F(3)), whole_noise(4.5, 3), whole_noise(4.5, 0)),
    "ones": (
        Tallied(log(F(3)), F(1, 5), F(40)),
        ones(0.6, 0.2, 40),
        ones(0.2, 0.2, 40),
    ),
}


def sum_is(name: str) -> bool:
    """Whether delta is the sum over outcomes, both ways round."""
    pair, first, second = SUMS[name]
    return all(
        abs(stated(used, e) - float(np.maximum(p - math.exp(e) * q, 0.0).sum())) < 1e-9
        for used, p, q in ((pair, first, second), (pair.swapped, second, first))
        for e in EPSILONS
    )


@pytest.mark.parametrize("name", SUMS)
def test_delta_is_the_sum_over_outcomes(name: str) -> None:
    assert sum_is(name)


@pytest.mark.parametrize("kind", [DiscreteNormal, Tallied])
def test_a_sum_that_is_wrong_is_found(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    right = kind.delta
    monkeypatch.setattr(kind, "delta", lambda pair, x, of=None: right(pair, x * 1.0001, of))
    assert not all(map(sum_is, SUMS))


NAMES = ("normal", "laplace", "sampled", "opposed", "group", "mixture")


def agrees(name: str) -> bool:
    pair, first, second = CASES[name]
    found = [abs(stated(pair, e) - integral(first, second, e)) for e in EPSILONS]
    return max(found) < 1e-7


@pytest.mark.parametrize("name", CASES)
def test_delta_is_the_integral(name: str) -> None:
    assert agrees(name)


@pytest.mark.parametrize("kind", [Normal, LaplaceShift, Mixed, Opposed, Drawn, NormalMixture])
def test_a_formula_that_is_wrong_is_found(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    right = kind.delta
    monkeypatch.setattr(kind, "delta", lambda pair, x, of=None: right(pair, x * 1.001, of))
    assert not all(agrees(name) for name in NAMES)


@pytest.mark.parametrize("start", [-5.0, 0.3, 40.0])
def test_a_group_s_place_is_enclosed_wherever_its_search_begins(
    start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong place makes a wide ball, never a false one."""
    pair = CASES["group"][0]
    with flint.ctx.workprec(192):
        for epsilon in (F(-1, 5), F(2, 5), F(3)):
            x = enclose(epsilon).exp()
            true = pair.delta(x)
            with monkeypatch.context() as patch:
                patch.setattr(drawn, "_start", lambda pair, y: start)
                assert pair.delta(x).contains(true.mid())
            with monkeypatch.context() as patch:
                patch.setattr(drawn, "_terms", lambda weights, moves, t: [t * 0 + 1] * 4)
                assert pair.delta(x).contains(true.mid())


def test_chances_below_0_are_refused() -> None:
    pair = NormalMixture((F(1), F(2)), (F(1, 2), F(-1, 5)))
    with pytest.raises(Unsupported, match="none below 0"):
        pair.delta(flint.arb(2))


def test_what_is_made_of_pairs_adds_their_deltas() -> None:
    """A splice takes either side; branches are weighted, their losses moved by log(p / q)."""
    record = Replaced(F(3, 2), F(1, 5))
    for epsilon in EPSILONS:
        side = SAMPLED if epsilon >= 0 else SAMPLED.swapped
        assert stated(record, epsilon) == pytest.approx(stated(side, epsilon), rel=1e-12)
        branches = Branched(((F(1, 4), F(1, 2), Normal(F(1))), (F(3, 4), F(1, 2), SAMPLED)))
        moved = [
            stated(base, epsilon + shift)
            for base, shift in (
                (Normal(F(1)), math.log(2)),
                (SAMPLED, math.log(2 / 3)),
            )
        ]
        assert stated(branches, epsilon) == pytest.approx(moved[0] / 4 + moved[1] * 3 / 4, rel=1e-9)

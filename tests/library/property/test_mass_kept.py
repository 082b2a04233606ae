"""No profile loses mass: what a grid cannot hold counts as infinite loss from above."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest

from dpaudit.errors import DpauditError
from dpaudit.exact import is_infinite
from dpaudit.grids.discrete import Discrete, Grid, NoLower, Side, TooFine
from dpaudit.pairs import (
    Allocated,
    Atoms,
    Branched,
    Concentrated,
    DiscreteNormal,
    LaplaceShift,
    Mixed,
    Normal,
    Pair,
    Renyi,
    Scored,
    Spliced,
    Thresholded,
    largest,
    largest_loss,
    product,
)
from dpaudit.profiles import delta_interval, epsilon_interval

F = Fraction
RESPONSE = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))
TOLD = Atoms(((F(1, 10), F(0)), (F(9, 10), F(1))))
RARE = Atoms(((F(1, 10**9), F(1, 10**280)), (1 - F(1, 10**9), 1 - F(1, 10**280))))
BASES: list[Pair] = [
    *(Normal(mu) for mu in (F(1, 10**4), F(1), F(8), F(45))),
    *(LaplaceShift(e) for e in (F(1, 1000), F(1), F(50), F(500))),
    RESPONSE,
    TOLD,
    RARE,
    *(
        DiscreteNormal(F(v), F(s))
        for v, s in (
            (1, 1), (1, 40), (1, 300), (F("0.05"), 9), (F("0.0005"), 1), (100, 7), (100, 400),
            (10**4, 3), (10**6, 40_000), (10**9, 5),
        )
    ),
]  # fmt: skip
MIXED = [Mixed(base, F(1, 3)) for base in BASES]
RARE_AND_OFTEN = [Mixed(base, rate) for base in BASES for rate in (F(1, 1000), F(999, 1000))]
OTHERS: list[Pair] = [
    Concentrated(F(1, 50)),
    Concentrated(F(30)),
    Renyi(F(8), F(1, 10)),
    Allocated(F(1), F(7)),
    Allocated(F(1, 2), F(7)).swapped,
    Branched(((F(1, 2), F(1, 3), Normal(F(1))), (F(1, 2), F(2, 3), DiscreteNormal(F(1), F(40))))),
    Branched(((F(1, 4), F(0), Normal(F(0))), (F(3, 4), F(1), LaplaceShift(F(3))))),
    Scored(F(1, 4), F(8), F(8), F(9), F(1)),
    Thresholded(F(1, 2), F(6), F(1), F(1, 10)),
    largest((Normal(F(1)), LaplaceShift(F(2)))),
    Spliced(Mixed(Normal(F(2)), F(1, 4)), Mixed(Normal(F(2)), F(1, 4)).swapped),
    Mixed(product(((RESPONSE, F(3)), (Normal(F(1)), F(1)))), F(1, 10)),
]
PAIRS = [
    *BASES,
    *MIXED,
    *(pytest.param(pair, marks=pytest.mark.quality) for pair in RARE_AND_OFTEN),
    *(pytest.param(pair.swapped, marks=pytest.mark.quality) for pair in MIXED + RARE_AND_OFTEN),
    *OTHERS,
]
GRIDS = [Grid(F(1, 64), 1e-12), Grid(F(1, 2), 1e-12), Grid(F(1, 8), 1e-250)]


def _unguarded(pair: Pair, grid: Grid, side: Side) -> Discrete | None:
    """What the pair itself gives, past the check of its total."""
    try:
        return pair._on_grid(grid, side)
    except (NoLower, TooFine):
        return None


@pytest.mark.first_case("pair", by=type)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.text[:60])
def test_upper_masses_are_whole_and_lower_ones_no_more_than_whole(pair: Pair) -> None:
    known = False
    for grid in GRIDS:
        upper, lower = (_unguarded(pair, grid, side) for side in (Side.UPPER, Side.LOWER))
        if upper is not None:
            known = True
            assert upper.masses.sum() + upper.infinite >= 1 - 1e-12
        if lower is not None:
            assert lower.masses.sum() + lower.infinite <= 1 + 1e-12
    assert known or isinstance(pair, (LaplaceShift, Mixed))


def _slow(pair: Pair) -> bool:
    return not isinstance(pair, (Normal, LaplaceShift, Atoms, DiscreteNormal))


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=[pytest.mark.quality] if _slow(pair) else [])
        for pair in (*BASES, *OTHERS)
    ],
    ids=lambda pair: pair.text[:60],
)
def test_an_upper_delta_is_positive_unless_the_loss_is_bounded(pair: Pair) -> None:
    loss = largest_loss(pair)
    at = F(60) if is_infinite(loss) else F(float(loss)) * F(99, 100)
    found = delta_interval(pair, at)
    assert found.upper > 0
    assert 0 <= found.lower <= found.upper <= 1
    composed = delta_interval(product(((pair, F(3)),)), 3 * at)
    assert composed.upper > 0
    assert composed.lower <= composed.upper


class _Cut(Pair):
    """A pair that drops what it finds too rare."""


def test_a_pair_that_drops_mass_is_made_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def dropping(pair: Any, grid: Grid, side: Side) -> Discrete:
        return Discrete(grid.step, 0, np.array([0.75]))

    monkeypatch.setattr(_Cut, "_on_grid", dropping)
    assert _Cut().on_grid(GRIDS[0], Side.UPPER).infinite == 0.25

    def adding(pair: Any, grid: Grid, side: Side) -> Discrete:
        return Discrete(grid.step, 0, np.array([1.25]))

    monkeypatch.setattr(_Cut, "_on_grid", adding)
    with pytest.raises(DpauditError, match=r"mass 1\.25"):
        _Cut().on_grid(GRIDS[0], Side.LOWER)


# --- the truth, from sums of outcomes in high precision -----------------------------------------


def _lattice_delta(variance: Fraction, shift: int, epsilon: Fraction, rate: Fraction) -> Any:
    """delta of the sampled discrete Gaussian as a plain sum over integers (Arb)."""
    with flint.ctx.workprec(300):
        v, r, x = (flint.arb(n.numerator) / n.denominator for n in (variance, rate, epsilon))
        x = x.exp()
        reach = shift + int(60 * math.sqrt(variance)) + 60
        weight = {k: (-flint.arb(k * k) / (2 * v)).exp() for k in range(-reach - shift, reach + 1)}
        total = sum(weight.values(), flint.arb(0))
        whole = flint.arb(0)
        for k in range(-reach, reach + 1):
            p, q = weight[k - shift], weight[k]
            whole += ((1 - r) * q + r * p - x * q).max(0)
        return whole / total


FAR_APART = [
    (F(1), 40, F(1, 1000), F(873)),
    (F("0.05"), 9, F(1), F(1)),
    pytest.param(F(100), 400, F(1), F(970), marks=pytest.mark.quality),
    pytest.param(F("0.0005"), 1, F(1), F(900), marks=pytest.mark.quality),
]


@pytest.mark.parametrize(("variance", "shift", "rate", "epsilon"), FAR_APART)
def test_discrete_noise_that_is_far_apart(
    variance: Fraction, shift: int, rate: Fraction, epsilon: Fraction
) -> None:
    pair = Mixed(DiscreteNormal(variance, F(shift)), rate)
    truth = _lattice_delta(variance, shift, epsilon, rate)
    for counted in (pair, product(((pair, F(1)),))):
        found = delta_interval(counted, epsilon)
        assert flint.arb(float(found.lower)) <= truth
        assert not truth > flint.arb(float(found.upper)) * (1 + flint.arb(1e-11))
        delta = F(1, 10**5)
        ends = epsilon_interval(counted, delta)
        if not is_infinite(ends.upper):
            assert not _lattice_delta(variance, shift, ends.upper, rate) > flint.arb(1e-5) * (
                1 + flint.arb(1e-11)
            )
        if ends.lower:
            assert not _lattice_delta(variance, shift, ends.lower, rate) < flint.arb(1e-5) * (
                1 - flint.arb(1e-11)
            )

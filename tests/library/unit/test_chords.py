"""Profiles on a grid from delta alone: the accountant's and the checker's, around the truth."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F

import flint
import numpy as np
import pytest

from dpaudit.check.profile import values as checked
from dpaudit.check.profile.cells import Grid as CheckedGrid
from dpaudit.check.profile.nodes import Nodes
from dpaudit.exact import enclose
from dpaudit.grids import Discrete, Grid, Side, by_chords, chords
from dpaudit.pairs import Atoms, LaplaceShift, Mixed, Normal, Pair

STEP, TAIL = F(1, 64), 1e-12
PAIRS: list[Pair] = [
    Normal(F(1)),
    Normal(F(1, 20)),
    LaplaceShift(F(1)),
    Mixed(Normal(F(1)), F(1, 10)),
    Mixed(LaplaceShift(F(2)), F(1, 4)).swapped,
    Atoms(((F(9, 10), F(1, 2)), (F(1, 10), F(1, 2)))),
    Atoms(((F(9, 10), F(1)), (F(1, 10), F(0)))),
]
LOSSES = [F(k, 7) for k in range(-21, 22)]


def on(first: int, masses: np.ndarray, infinite: float, loss: F) -> float:
    losses = (first + np.arange(len(masses))) * float(STEP)
    return infinite + float(masses @ np.maximum(0.0, 1 - np.exp(float(loss) - losses)))


def side_of(pair: Pair, side: Side) -> Callable[[F], float]:
    found: Discrete = by_chords(pair.delta, Grid(STEP, TAIL), side)
    return lambda loss: on(found.first, found.masses, found.infinite, loss)


def below(pair: Pair) -> Callable[[F], float]:
    found: Nodes = checked.nodes_below(pair, CheckedGrid(STEP, TAIL))
    return lambda loss: on(found.first, found.masses, found.infinite, loss)


def truth(pair: Pair, loss: F) -> float:
    with flint.ctx.workprec(200):
        return float(pair.delta(enclose(loss).exp()).mid())


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.text[:40])
def test_chords_hold_the_profile_between_them(pair: Pair) -> None:
    upper, lower, other = side_of(pair, Side.UPPER), side_of(pair, Side.LOWER), below(pair)
    for loss in LOSSES:
        delta = truth(pair, loss)
        for bound in (lower, other):
            assert bound(loss) <= delta + 1e-15
        assert upper(loss) >= delta - 1e-15
        assert upper(loss) - delta < 1e-3


@pytest.mark.parametrize("pair", PAIRS[:2], ids=lambda pair: pair.text[:40])
def test_chords_that_are_not_lowered_are_no_lower_bound(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chords, "_joint", lambda u, v: 0.0)
    monkeypatch.setattr(checked, "_gap", lambda u, v, width: 0.0)
    for bound in (side_of(pair, Side.LOWER), below(pair)):
        assert any(bound(loss) > truth(pair, loss) + 1e-9 for loss in LOSSES)

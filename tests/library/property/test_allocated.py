"""Orders that hold for random allocation at any noise, number of slots and grid."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpaudit.grids.discrete import Discrete, Grid, Side
from dpaudit.pairs import Allocated, Normal, Pair

Floats = NDArray[np.float64]
EPSILONS = np.linspace(-4, 6, 201)
NOISES = st.fractions(Fraction(1, 4), Fraction(6), max_denominator=50)
SLOTS = st.integers(1, 60)
STEPS = st.sampled_from([Fraction(1, 20), Fraction(1, 100), Fraction(3, 1024)])
TAIL = 1e-12


def profile(found: Discrete) -> Floats:
    ratios = np.exp(EPSILONS[:, None] - found.losses)
    return found.infinite + np.maximum(0, 1 - ratios) @ found.masses


def side_of(pair: Pair, step: Fraction, side: Side) -> Floats:
    return profile(pair.on_grid(Grid(step, TAIL), side))


@settings(max_examples=8)
@given(NOISES, SLOTS, STEPS)
def test_lower_below_upper_and_between_the_trivial_profiles(
    noise: Fraction, slots: int, step: Fraction
) -> None:
    pair = Allocated(noise, Fraction(slots))
    for direction in (pair, pair.swapped):
        lower, upper = (side_of(direction, step, side) for side in (Side.LOWER, Side.UPPER))
        assert np.all(lower <= upper * (1 + 1e-9))
        assert np.all(lower >= 0)
        assert np.all(upper >= 1 - np.exp(EPSILONS) - 1e-9)
        assert np.all(lower <= 1 + 1e-9)
        assert np.all(np.diff(upper) <= 1e-9)


@pytest.mark.quality
@settings(max_examples=6)
@given(NOISES, SLOTS, st.integers(1, 60))
def test_more_slots_give_less(noise: Fraction, slots: int, more: int) -> None:
    """R is a reversed martingale in the number of slots."""
    few, many = (Allocated(noise, Fraction(n)) for n in (slots, slots + more))
    for direction in ("remove", "add"):
        low, high = (p if direction == "remove" else p.swapped for p in (many, few))
        lower = side_of(low, Fraction(1, 100), Side.LOWER)
        assert np.all(lower <= side_of(high, Fraction(1, 100), Side.UPPER) * (1 + 1e-9))
        single = side_of(Normal(1 / noise), Fraction(1, 100), Side.UPPER)
        assert np.all(lower <= single * (1 + 1e-9))


@pytest.mark.quality
@settings(max_examples=6)
@given(NOISES, SLOTS, st.fractions(Fraction(1, 20), Fraction(2), max_denominator=40))
def test_more_noise_gives_less(noise: Fraction, slots: int, more: Fraction) -> None:
    quiet, loud = (Allocated(n, Fraction(slots)) for n in (noise, noise + more))
    for low, high in ((loud, quiet), (loud.swapped, quiet.swapped)):
        lower = side_of(low, Fraction(1, 100), Side.LOWER)
        assert np.all(lower <= side_of(high, Fraction(1, 100), Side.UPPER) * (1 + 1e-9))


@pytest.mark.quality
@settings(max_examples=6)
@given(NOISES, SLOTS)
def test_the_two_directions_are_one_law(noise: Fraction, slots: int) -> None:
    """delta_add(x) = 1 - x + x delta_remove(1 / x), within the two sides."""
    pair, step = Allocated(noise, Fraction(slots)), Fraction(1, 200)
    x = np.exp(EPSILONS)
    for low, high in ((pair, pair.swapped), (pair.swapped, pair)):
        lower = low.on_grid(Grid(step, TAIL), Side.LOWER)
        turned = np.maximum(0, 1 - np.exp(-EPSILONS[:, None] - lower.losses)) @ lower.masses
        upper = side_of(high, step, Side.UPPER)
        assert np.all(1 - x + x * turned <= upper + 1e-9 * (1 + x))

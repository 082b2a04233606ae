"""Stacks of many factors: arrays that are let go."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.grids.discrete import Side
from dpaudit.pairs import Mixed, Normal
from dpaudit.profiles.fourier.compose import compose
from dpaudit.profiles.fourier.search import stack_of
from dpaudit.profiles.grid.stack import Stack

F = Fraction
PARTS = tuple((Mixed(Normal(F(1, 1 + k)), F(1, 50 + k)), 1 + k) for k in range(7))


def stack() -> Stack:
    made = stack_of(PARTS, F(1, 512), 1e-5, Side.UPPER)
    assert made is not None
    return made


def test_a_composition_keeps_no_array_of_all_factors_and_says_the_same_again() -> None:
    made = stack()
    before = made.masses.copy()
    tilted = made.tilted(2.0)
    mean, variance = made.moments(tilted)
    found = compose(made, 2.0)
    assert not {"masses", "losses", "sums", "outline"} & set(made.__dict__)
    assert np.array_equal(made.masses, before)
    again = compose(made, 2.0)
    assert np.array_equal(again.transform, found.transform)
    # What is made in place is what the formulas say.
    terms = before * np.exp(2.0 * made.losses)
    sums = np.add.reduceat(terms, made.starts)
    assert np.array_equal(tilted.masses, terms / np.repeat(sums, made.sizes))
    assert np.array_equal(mean, np.add.reduceat(tilted.masses * made.losses, made.starts))
    centred = made.losses - np.repeat(mean, made.sizes)
    assert variance == pytest.approx(np.add.reduceat(tilted.masses * centred**2, made.starts))

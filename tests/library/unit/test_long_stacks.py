"""Stacks of many factors: sums a few factors at a time, arrays that are let go."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.grids.discrete import Side
from dpaudit.pairs import Mixed, Normal
from dpaudit.profiles.fourier import spectrum
from dpaudit.profiles.fourier.compose import compose
from dpaudit.profiles.fourier.search import stack_of
from dpaudit.profiles.fourier.spectrum import at_angles, at_frequencies, rows_of
from dpaudit.profiles.grid.stack import Stack

F = Fraction
PARTS = tuple((Mixed(Normal(F(1, 1 + k)), F(1, 50 + k)), 1 + k) for k in range(7))


def stack() -> Stack:
    made = stack_of(PARTS, F(1, 512), 1e-5, Side.UPPER)
    assert made is not None
    return made


@pytest.mark.parametrize("at_once", [1, 300, 2**19])
def test_sums_of_a_few_factors_at_a_time_are_those_of_each(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(spectrum, "AT_ONCE", at_once)
    made, period = stack(), 4096
    tilted = made.tilted(1.0)
    centres = np.arange(len(PARTS), dtype=np.int64)
    rows = rows_of(made, tilted.masses, centres)
    frequencies = np.array([0, 1, 5, 2000], dtype=np.int64)
    angles = frequencies * (2 * math.pi / period)
    truth = np.empty((len(PARTS), len(frequencies)), dtype=np.complex128)
    for k, (discrete, _) in enumerate(made.factors):
        start = made.starts[k]
        masses = tilted.masses[start : start + made.sizes[k]]
        n = discrete.first + np.arange(len(masses)) - centres[k]
        truth[k] = np.exp(-1j * np.outer(angles, n)) @ masses
    assert np.abs(at_frequencies(rows, frequencies, period) - truth).max() < 1e-12
    assert np.abs(at_angles(rows, angles) - truth).max() < 1e-9


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

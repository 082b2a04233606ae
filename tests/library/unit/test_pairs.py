"""Pairs: mirrors that are the pair itself, and hashes that are remembered."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

from dpaudit.pairs import Atoms, Mixed, Normal

HIGH, LOW = Fraction(3, 4), Fraction(1, 4)


def test_a_pair_that_lists_the_same_outcomes_swapped_is_its_own_mirror() -> None:
    same = Atoms(((HIGH, LOW), (LOW, HIGH)))
    assert same.swapped is same
    assert same.swapped.swapped == same


def test_a_pair_with_other_outcomes_is_not() -> None:
    half = Fraction(1, 2)
    other = Atoms(((HIGH, half), (LOW, half)))
    assert other.swapped == Atoms(((half, HIGH), (half, LOW)))
    assert other.swapped.swapped == other


def test_a_remembered_hash_stays_in_its_process() -> None:
    pair = Mixed(Normal(Fraction(1, 3)), Fraction(1, 2))
    assert hash(pair) == hash(Mixed(Normal(Fraction(1, 3)), Fraction(1, 2)))
    state = pickle.dumps(pair)
    assert b"_hash" not in state
    assert copy.copy(pair) == pair

"""Pairs: mirrors that are the pair itself, and hashes that are remembered."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from fractions import Fraction

from dpaudit.pairs import Atoms, Mixed, Normal
from dpaudit.pairs.core import ByText
from dpaudit.pairs.several import Product

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


def test_pairs_are_sorted_by_their_texts_of_which_only_the_beginnings_are_made() -> None:
    atoms = Atoms(((HIGH, LOW), (LOW, HIGH)))
    more = Atoms(((HIGH, LOW), (LOW, Fraction(1, 2)), (Fraction(0), LOW)))
    normals = [Normal(Fraction(n)) for n in (1, 10, 2, "1.5")]
    products = [Product(((atoms, Fraction(n)), (normals[0], Fraction(1)))) for n in (1, 2, 10)]
    mixed = [Mixed(pair, Fraction(1, n)) for pair in (*normals, atoms) for n in (2, 3)]
    pairs = [more, *products, *mixed, *normals, atoms, *normals]
    for start in range(len(pairs)):
        turned = pairs[start:] + pairs[:start]
        assert sorted(turned, key=ByText) == sorted(turned, key=lambda pair: pair.text)
    made = []

    class Long(Normal):
        def pieces(self) -> Iterator[str]:
            for piece in ("Long", *"0" * int(self.mu), "1", *"0" * 100):
                made.append(piece)
                yield piece

    assert sorted([Long(Fraction(0)), Long(Fraction(3))], key=ByText)[0].mu == 3
    assert len(made) < 10

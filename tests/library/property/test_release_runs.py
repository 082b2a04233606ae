"""Scores kept where they change are those of every candidate, and are drawn by the same law."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpaudit.families.selection import IntegerExponentialMechanism
from dpaudit.families.tabular.kernel import ExactRunsKernel
from dpaudit.kernels.random_bits import bits_of, uniform_below
from dpaudit.releases.runs import Runs, counts_of, rank_scores
from dpaudit.tabular import Counted

COUNTS = st.lists(st.sampled_from([0, 0, 0, 1, 2, 7]), min_size=1, max_size=30)
AT = st.fractions(0, 1, max_denominator=100).filter(lambda q: 0 < q < 1)


def counted(counts: Sequence[int]) -> Counted:
    row = np.array(counts, dtype=np.int64)
    places = np.flatnonzero(row).astype(np.int64)
    return Counted(places, row[places], len(counts))


def every(runs: Runs, size: int) -> list[int]:
    return [int(score) for score in runs.at(np.arange(size, dtype=np.int64))]


def each_one(counts: Sequence[int], q: Fraction) -> list[int]:
    """One candidate after the other, as it is defined."""
    wanted = q.numerator * sum(counts)
    scores = []
    for place, count in enumerate(counts):
        below = sum(counts[:place])
        first, last = q.denominator * below, q.denominator * (below + count)
        scores.append(-max(first - wanted, wanted - last, 0))
    return scores


@given(COUNTS, AT)
def test_ranks_and_counts_are_those_of_every_candidate(counts: list[int], q: Fraction) -> None:
    given_rows = counted(counts)
    for runs, known in (
        (rank_scores(given_rows, q), each_one(counts, q)),
        (counts_of(given_rows), counts),
    ):
        assert every(runs, len(counts)) == known
        assert runs.sizes.sum() == len(counts)
        assert (runs.firsts == np.cumsum(runs.sizes) - runs.sizes).all()
        assert len(runs.sizes) <= 2 * np.count_nonzero(counts) + 1


@given(COUNTS, st.data())
def test_who_was_chosen_is_not_there_and_all_others_are(
    counts: list[int], data: st.DataObject
) -> None:
    runs, gone = counts_of(counted(counts)), []
    for _ in range(min(3, len(counts) - 1)):
        left = [place for place in range(len(counts)) if place not in gone]
        gone.append(data.draw(st.sampled_from(left)))
        runs = runs.without(gone[-1])
    there = {
        first + i: score
        for first, size, score in zip(
            runs.firsts.tolist(), runs.sizes.tolist(), runs.scores.tolist(), strict=True
        )
        for i in range(size)
    }
    assert there == {p: count for p, count in enumerate(counts) if p not in gone}


def drawn(counts: Sequence[int], trials: int, halve: int = 1) -> np.ndarray:
    """How often each candidate is chosen; ``halve``: of runs of so many times too few."""
    kernel = ExactRunsKernel(IntegerExponentialMechanism("q", Fraction(1)), 1)
    runs, bits = counts_of(counted(counts)), bits_of(np.random.default_rng(3))
    sizes = np.maximum(runs.sizes // halve, 1)
    found = kernel.choices(runs.scores, sizes, 1, trials, bits)
    places = runs.firsts[found] + uniform_below(runs.sizes[found], bits)
    return np.bincount(places, minlength=len(counts))


@pytest.mark.parametrize("counts", [[0] * 5 + [3] + [0] * 9 + [1, 2], [4, 0, 0, 0, 0, 0, 0]])
def test_candidates_of_a_run_are_drawn_by_the_law_of_the_mechanism(counts: list[int]) -> None:
    """Chi-square of 20,000 draws at 1e-6; runs counted too short fail it."""
    law = np.exp(np.array(counts) / 2)
    law *= 20_000 / law.sum()
    assert chisquare(drawn(counts, 20_000), law).pvalue > 1e-6
    assert chisquare(drawn(counts, 20_000, halve=3), law).pvalue < 1e-6

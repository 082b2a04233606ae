"""Noisy maxima and thresholds: all neighbours on a grid, by quadrature of the noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.families.selection import AboveThreshold, ReportNoisyMax, Scores, SelectionNoise
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.zcdp import CONCENTRATED
from tests.support.enumeration import (
    ROUNDING,
    SCOPE,
    Guarantee,
    Masses,
    Vector,
    atoms,
    fold,
    largest_loss,
    moves,
    neighbours,
    number,
    renyi,
    softmax,
)

x = sympy.Symbol("x", positive=True)


# --- report noisy max ----------------------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
Function = Callable[[Any], Any]


def laplace_density(z: Any) -> Any:
    return np.exp(-np.abs(z)) / 2


def laplace_below(z: Any) -> Any:
    return np.where(z < 0, np.exp(-np.abs(z)) / 2, 1 - np.exp(-np.abs(z)) / 2)


NOISES: dict[SelectionNoise, tuple[Function, Function]] = {
    SelectionNoise.LAPLACE: (laplace_density, laplace_below),
    SelectionNoise.EXPONENTIAL: (
        lambda z: np.where(z >= 0, np.exp(-np.abs(z)), 0.0),
        lambda z: np.where(z >= 0, -np.expm1(-np.abs(z)), 0.0),
    ),
    SelectionNoise.GUMBEL: (
        lambda z: np.exp(-z - np.exp(-z)),
        lambda z: np.exp(-np.exp(-z)),
    ),
}


def grid(points: Sequence[float], scale: float = 1.0) -> tuple[Any, Any]:
    """Gauss-Legendre nodes and weights on short pieces that break at the given points."""
    ends = sorted(set(points))
    low, high = ends[0] - 45 * scale, ends[-1] + 45 * scale
    breaks = [low, *ends, high]
    pieces = [
        np.linspace(a, b, 1 + max(1, math.ceil((b - a) / scale)))
        for a, b in itertools.pairwise(breaks)
    ]
    starts = np.concatenate([piece[:-1] for piece in pieces])
    widths = np.concatenate([np.diff(piece) for piece in pieces])
    z = starts[:, None] + widths[:, None] * (NODES + 1) / 2
    return z.ravel(), (widths[:, None] * WEIGHTS / 2).ravel()


def winners(scores: Vector, epsilon: float, noise: SelectionNoise) -> Masses:
    """P(candidate i has the largest score plus noise), by quadrature; scale 2 / epsilon."""
    density, below = NOISES[noise]
    places = [s * epsilon / 2 for s in scores]
    z, weights = grid(places)
    found = []
    for i, place in enumerate(places):
        others = [below(z - p) for j, p in enumerate(places) if j != i]
        found.append(float(np.sum(weights * density(z - place) * np.prod(others, axis=0))))
    return found


def test_the_quadrature_is_right() -> None:
    """Sums are 1; Gumbel noise is the exponential mechanism; two candidates in closed form."""
    for noise in SelectionNoise:
        assert math.fsum(winners((0.0, -1.0, -4.0), 1.5, noise)) == pytest.approx(1, abs=1e-12)
    gumbel = winners((0.0, -1.0, -4.0), 1.5, SelectionNoise.GUMBEL)
    assert gumbel == pytest.approx(softmax((0.0, -1.0, -4.0), 1.5), rel=1e-10)
    behind = winners((0.0, -2.0), 1.5, SelectionNoise.EXPONENTIAL)[1]
    assert behind == pytest.approx(math.exp(-1.5) / 2, rel=1e-11)


@pytest.mark.first_case("noise")
@pytest.mark.parametrize("scores", Scores)
@pytest.mark.parametrize("noise", SelectionNoise)
@pytest.mark.parametrize("epsilon", [0.4, 2.0])
def test_noisy_max_on_all_neighbours(epsilon: float, noise: SelectionNoise, scores: Scores) -> None:
    guarantee = Guarantee(ReportNoisyMax("a", epsilon, noise, scores))
    known: dict[Vector, Masses] = {}

    def run(vector: Vector) -> Masses:
        if vector not in known:
            known[vector] = winners(vector, epsilon, noise)
        return known[vector]

    for first, second in neighbours(scores):
        guarantee.holds(run(first), run(second))


@pytest.mark.parametrize("scores", Scores)
@pytest.mark.parametrize("noise", [SelectionNoise.LAPLACE, SelectionNoise.EXPONENTIAL])
def test_a_candidate_far_behind_reaches_the_loss(noise: SelectionNoise, scores: Scores) -> None:
    """Behind two others: that both have low noise, which would spare it, is unlikely enough."""
    epsilon = 1.2
    up, down = (1.0, -1.0) if scores is Scores.ANY else (1.0, 0.0)
    first = winners((-30.0, 0.0, 0.0), epsilon, noise)
    second = winners((-30.0 + up, down, down), epsilon, noise)
    bound = number(fold(PURE, ReportNoisyMax("a", epsilon, noise, scores)))
    assert math.log(second[0] / first[0]) == pytest.approx(bound, rel=1e-6)
    assert PURE.fold(ReportNoisyMax("a", epsilon, noise, scores), SCOPE).attained


@pytest.mark.parametrize("scores", Scores)
@pytest.mark.parametrize("noise", [SelectionNoise.LAPLACE, SelectionNoise.EXPONENTIAL])
def test_the_reached_pairs_are_runs(noise: SelectionNoise, scores: Scores) -> None:
    """Gaps of half the largest move either way, and (exponential) from a tie."""
    epsilon, step = 1.2, 2.0 if scores is Scores.ANY else 1.0
    losses = fold(PROFILE, ReportNoisyMax("a", epsilon, noise, scores))
    starts = [-step / 2, 0.0][: len(losses.reached_remove)]
    for start, pair in zip(starts, losses.reached_remove, strict=True):
        p, q = (winners((g, 0.0), epsilon, noise) for g in (-start, -start - step))
        found = atoms(pair)
        assert sorted(found[0]) == pytest.approx(sorted(p), rel=1e-10)
        assert sorted(found[1]) == pytest.approx(sorted(q), rel=1e-10)
        assert largest_loss(*found) == pytest.approx(largest_loss(p, q), rel=1e-9)


def test_exponential_noise_has_no_bounded_range() -> None:
    """At a tie the two losses are further apart than epsilon: epsilon^2 / 8 would be wrong."""
    p = winners((0.0, 0.0), 1.0, SelectionNoise.EXPONENTIAL)
    q = winners((1.0, -1.0), 1.0, SelectionNoise.EXPONENTIAL)
    losses = [math.log(a / b) for a, b in zip(p, q, strict=True)]
    assert max(losses) - min(losses) == pytest.approx(1 + math.log(2 - math.exp(-1)), rel=1e-9)
    assert renyi(p, q, 1.001) > 1 / 8 * 1.001
    assert number(fold(CONCENTRATED, ReportNoisyMax("a", 1, "exponential"))) > 1 / 8


# --- above threshold -----------------------------------------------------------------------------


def transcripts(length: int, answers: int) -> Iterator[tuple[bool, ...]]:
    """Every transcript: it ends with the list of queries or with the last yes."""
    for size in range(1, length + 1):
        for said in itertools.product((False, True), repeat=size):
            stopped = sum(said) == answers and said[-1]
            if stopped or (size == length and sum(said) < answers):
                yield said


class Threshold:
    """P(transcript) of above-threshold with its own scales, by quadrature over one noise."""

    def __init__(self, node: AboveThreshold) -> None:
        self.wide = 1 / float(node.epsilon_threshold)
        self.fresh = 2 * float(node.answers) / float(node.epsilon_query)

    def __call__(self, queries: Vector, said: tuple[bool, ...]) -> float:
        z, weights = grid((0.0, *queries), min(self.wide, self.fresh))
        mass = laplace_density(z / self.wide) / self.wide
        for query, yes in zip(queries, said, strict=False):
            below = laplace_below((z - query) / self.fresh)
            above = laplace_below((query - z) / self.fresh)
            mass = mass * (above if yes else below)
        return float(np.sum(weights * mass))


THRESHOLDS = [
    AboveThreshold("a", Fraction(1, 2), Fraction(1, 2)),
    AboveThreshold("a", 1, Fraction(1, 4)),
    AboveThreshold("a", Fraction(1, 2), Fraction(1, 2), 1, "monotone"),
    AboveThreshold("a", Fraction(1, 3), Fraction(4, 3), 2),
    AboveThreshold("a", Fraction(1, 3), Fraction(4, 3), 2, "monotone"),
]


@pytest.mark.first_case
@pytest.mark.parametrize("node", THRESHOLDS, ids=repr)
def test_above_threshold_on_all_neighbours(node: AboveThreshold) -> None:
    """Lists of three queries, every move of each query, every transcript."""
    guarantee, run = Guarantee(node), Threshold(node)
    for first in ((0.0, 0.0, 0.0), (1.0, -3.0, 2.0)):
        said = list(transcripts(3, int(node.answers)))
        p = [run(first, s) for s in said]
        assert math.fsum(p) == pytest.approx(1, abs=1e-11)
        for move in moves(3, node.scores):
            second = tuple(a + b for a, b in zip(first, move, strict=True))
            q = [run(second, s) for s in said]
            guarantee.holds(p, q)
            guarantee.holds(q, p)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("node", THRESHOLDS, ids=repr)
def test_many_noes_nearly_reach_the_loss(node: AboveThreshold) -> None:
    """1,000 noes at queries that rise, then yeses at queries far below that fall (or stay)."""
    run, many, yeses = Threshold(node), 1000, int(node.answers)
    fall = -1.0 if node.scores is Scores.ANY else 0.0
    said = (False,) * many + (True,) * yeses
    first = (0.0,) * many + (-40.0,) * yeses
    second = (1.0,) * many + (-40.0 + fall,) * yeses
    loss = math.log(run(first, said) / run(second, said))
    bound = number(fold(PURE, node))
    assert bound * 0.99 <= loss <= bound + ROUNDING


def test_above_threshold_of_the_textbook() -> None:
    """Scales 2/epsilon and 4/epsilon are an even split of epsilon: epsilon-DP."""
    node = AboveThreshold("a", x / 2, x / 2)
    assert fold(PURE, node) == x
    assert PURE.fold(node, SCOPE).attained
    assert fold(PROFILE, node).reached == ()

"""What AboveThreshold's answers tell of its threshold, against sums of exponentials, 80 digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit.families.selection import AboveThreshold
from dpaudit.families.selection.threshold_kernel import AboveThresholdKernel
from dpaudit.kernels.posterior import MAX_DISTANCE, Law, Numbers, Posterior

RELATIVE = 1e-11


def exact(answers: Sequence[bool], queries: Sequence[float], ratio: float) -> Any:
    """P(answers): between kinks the density times all tails is a sum of exponentials."""
    with mpmath.workdps(80):
        rate, asked = mpmath.mpf(ratio), [mpmath.mpf(float(q)) for q in queries]
        cuts = sorted({mpmath.mpf(0), *(q / rate for q in asked)})
        ends = [mpmath.ninf, *cuts, mpmath.inf]
        parts = (_piece(answers, asked, rate, low, high) for low, high in itertools.pairwise(ends))
        return mpmath.fsum(parts)


def _piece(answers: Sequence[bool], asked: list[Any], rate: Any, low: Any, high: Any) -> Any:
    """The integral between neighbouring kinks: exponents with their coefficients, multiplied."""
    rising = high <= 0
    terms: dict[Any, Any] = {mpmath.mpf(1 if rising else -1): mpmath.mpf(1) / 2}
    for yes, query in zip(answers, asked, strict=True):
        before = high <= query / rate
        half, own = mpmath.exp(-query if before else query) / 2, rate if before else -rate
        found: dict[Any, Any] = {}
        for exponent, coefficient in terms.items():
            sign = 1 if before != yes else -1
            if sign < 0:
                found[exponent] = found.get(exponent, 0) + coefficient
            found[exponent + own] = found.get(exponent + own, 0) + sign * coefficient * half
        terms = found
    return mpmath.fsum(c * _integral(k, low, high) for k, c in terms.items())


def _integral(exponent: Any, low: Any, high: Any) -> Any:
    if exponent == 0:
        return high - low
    ends = [mpmath.exp(exponent * end) if mpmath.isfinite(end) else 0 for end in (low, high)]
    return (ends[1] - ends[0]) / exponent


def found_log(answers: Sequence[bool], queries: Sequence[float], ratio: float) -> float:
    """log P(answers), answer by answer."""
    posterior, total = Posterior(ratio), 0.0
    for yes, query in zip(answers, queries, strict=True):
        chances = posterior.chances(Numbers(np.array([float(query)])))
        total += float(chances[int(yes)][0])
        posterior.learn(np.array([bool(yes)]))
    return total


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0, 3.0, 7.3])
@pytest.mark.parametrize(("count", "spread"), [(1, 3.0), (5, 0.3), (5, 15.0), (25, 3.0)])
def test_answers_have_their_probabilities_to_eleven_digits(
    ratio: float, count: int, spread: float
) -> None:
    draw = np.random.default_rng([count, int(spread)])
    for share in (0.0, 0.4):
        queries = draw.normal(0, spread, count).tolist()
        answers = (draw.random(count) < share).tolist()
        with mpmath.workdps(80):
            expected = float(mpmath.log(exact(answers, queries, ratio)))
        found = found_log(answers, queries, ratio)
        assert found == pytest.approx(expected, abs=RELATIVE, rel=1e-12)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("query", [-120.0, 120.0, 40.0, 1e-9, 0.0])
def test_rare_answers_have_their_probabilities(ratio: float, query: float) -> None:
    """Down to e^-120; kinks far out, at 0, and all but at 0."""
    no, yes = Posterior(ratio).chances(Numbers(np.array([query])))
    with mpmath.workdps(80):
        expected = [float(mpmath.log(exact([said], [query], ratio))) for said in (False, True)]
    assert float(no[0]) == pytest.approx(expected[0], rel=1e-11, abs=1e-15)
    assert float(yes[0]) == pytest.approx(expected[1], rel=1e-11, abs=1e-15)


def test_a_hundred_noes_at_one_place() -> None:
    """The threshold is pushed far beyond its kink, where nothing cuts a panel but need."""
    queries, answers = [0.25] * 100, [False] * 100
    with mpmath.workdps(80):
        expected = float(mpmath.log(exact(answers, queries, 0.5)))
    assert found_log(answers, queries, 0.5) == pytest.approx(expected, abs=RELATIVE)


def test_answers_beyond_all_tails_count_as_very_rare() -> None:
    no, yes = Posterior(0.5).chances(Numbers(np.array([1e9])))
    assert float(no[0]) == pytest.approx(-MAX_DISTANCE - math.log(2))
    assert float(yes[0]) == 0


def test_rows_taken_twice_go_their_own_ways() -> None:
    posterior, queries = Posterior(0.5), Numbers(np.array([1.0, -2.0, 1.0]))
    posterior.take(np.zeros(3, dtype=np.int64))
    posterior.chances(queries)
    posterior.learn(np.array([False, False, True]))
    posterior.take(np.array([2, 0]))
    found = posterior.chances(Numbers(np.array([3.0, -1.0])))
    assert posterior.rows == 2
    for row, (said, asked, at) in enumerate([(True, 1.0, 3.0), (False, 1.0, -1.0)]):
        alone = found_log([said, False], [asked, at], 0.5) - found_log([said], [asked], 0.5)
        assert float(found[0][row]) == pytest.approx(alone, abs=1e-13)


# --- queries that are random ----------------------------------------------------------------------


def mixed(levels: Any, masses: Any, answers: Sequence[bool], ratio: float) -> float:
    """P(answers) of queries drawn from the law: every sequence of levels as a row of its own."""
    count = len(answers)
    indices = np.array(list(itertools.product(range(len(levels)), repeat=count)))
    posterior, total = Posterior(ratio), np.zeros(len(indices))
    posterior.take(np.zeros(len(indices), dtype=np.int64))
    for k, yes in enumerate(answers):
        total += posterior.chances(Numbers(levels[indices[:, k]]))[int(yes)]
        posterior.learn(np.full(len(indices), yes))
    return math.fsum(np.exp(total) * masses[indices].prod(axis=1))


@pytest.mark.parametrize("count", [1, 3, 50])
@pytest.mark.parametrize("answers", [(False,), (True,), (False, True), (False, False)])
def test_a_law_is_the_mixture_of_its_levels(count: int, answers: tuple[bool, ...]) -> None:
    """50 levels: more than have a panel end each."""
    draw = np.random.default_rng(count)
    levels, masses = draw.normal(-1, 4, count), draw.dirichlet(np.ones(count))
    posterior, total = Posterior(0.5), 0.0
    for yes in answers:
        total += float(posterior.chances(Law(levels, masses, 1))[int(yes)][0])
        posterior.learn(np.array([yes]))
    assert math.exp(total) == pytest.approx(mixed(levels, masses, answers, 0.5), rel=1e-10)


def test_sixteen_thousand_levels() -> None:
    """One no and one yes, each against all levels asked on their own; far ones of mass 0."""
    levels = np.linspace(-500, 500, 16_384)
    masses = np.exp(-np.square(levels + 3) / 50)
    masses /= masses.sum()
    found = Posterior(0.5).chances(Law(levels, masses, 1))
    rows = Posterior(0.5)
    near = np.flatnonzero(masses > 1e-16)[::-1]
    rows.take(np.zeros(len(near), dtype=np.int64))
    for side, asked in zip(found, rows.chances(Numbers(levels[near])), strict=True):
        expected = math.fsum(masses[near] * np.exp(asked))
        assert math.exp(float(side[0])) == pytest.approx(expected, rel=1e-10)


# --- the kernel ----------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", [1, 2, 3])
def test_every_sequence_of_answers_has_its_probability(answers: int) -> None:
    """All 2^4 sequences as trials of one session, with queries that depend on the answers."""
    leaf = AboveThreshold("bit", Fraction(1, 3), Fraction(1, 2), answers=answers)
    sequences = list(itertools.product((False, True), repeat=4))
    possible = [s for s in sequences if _is_possible(s, answers)]
    trials, rounds = len(possible), np.array(possible)
    session, scale = AboveThresholdKernel(leaf, trials), np.full(trials, 2.5)
    asked, total = np.zeros((trials, 4)), np.zeros(trials)
    for k in range(4):
        asked[:, k] = 2.5 * (0.7 * k - 1.0 + 0.4 * rounds[:, :k].sum(axis=1))
        released, values = rounds[:, k : k + 1].astype(np.float64), asked[:, k : k + 1]
        assert session.residual(released, values, scale).shape == (trials, 1)
        total += session.log_density(released, values, scale)
    assert math.fsum(np.exp(total)) == pytest.approx(1.0, abs=1e-12)
    ratio = 3 / (4 * answers)
    for row, said in enumerate(possible):
        length = _length(said, answers)
        expected = float(exact(said[:length], (asked[row, :length] / 2.5).tolist(), ratio))
        assert math.exp(total[row]) == pytest.approx(expected, rel=1e-11)


def _length(said: Sequence[bool], answers: int) -> int:
    """How many answers say something: all up to the last yes that counts."""
    reached = np.cumsum(said) >= answers
    return int(np.argmax(reached)) + 1 if reached.any() else len(said)


def _is_possible(said: Sequence[bool], answers: int) -> bool:
    return all(said[_length(said, answers) :])


def test_trials_of_one_past_share_their_work() -> None:
    """One row while all is alike; one for every different query of trials that go on."""
    leaf = AboveThreshold("bit", Fraction(1, 2), Fraction(1, 2))
    session, scale = AboveThresholdKernel(leaf, 500), np.full(500, 4.0)
    released = np.zeros((500, 1))
    released[100:] = 1.0
    session.log_density(released, np.full((500, 1), 2.0), scale)
    assert session._posterior.rows == 1
    values = np.arange(500.0)[:, None] / 100
    density = session.log_density(np.ones((500, 1)), values, scale)
    assert session._posterior.rows == 100
    assert (density[100:] == 0).all()
    for trial in (0, 57, 99):
        expected = exact([False, True], [0.5, values[trial, 0] / 4], 0.5) / exact(
            [False], [0.5], 0.5
        )
        assert math.exp(density[trial]) == pytest.approx(float(expected), rel=1e-11)

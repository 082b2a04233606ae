"""Ties, hostile data and rounding: what a score of sensitivity 1 must withstand bit by bit."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from audits.broken.stable_erm_search import TotalMinusDeleted
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.stable_erm.calibration import Constants
from mechanisms.papers.stable_erm.certificate import RULES, Certified, GradientCertificate, measured
from mechanisms.papers.stable_erm.data import records_of_lists
from mechanisms.papers.stable_erm.domains import Ball, Box
from mechanisms.papers.stable_erm.phased import PhasedERM
from mechanisms.papers.stable_erm.problem import DeltaRule, Problem
from mechanisms.papers.stable_erm.release import (
    DeletionStableOutputPerturbation,
    StronglyConvexOutputPerturbation,
)
from mechanisms.papers.stable_erm.solver import (
    Absolute,
    Loss,
    Minimiser,
    Pull,
    Quadratic,
    RidgeLogistic,
)
from mechanisms.papers.stable_erm.stable import (
    Enumeration,
    Flags,
    Statistic,
    UserMean,
    lattice_of,
    steps,
    tabulated,
)
from tests.support.stable import SMALL, run, sampler, users

# --- ties -----------------------------------------------------------------------------------------


def jumps(statistic: Statistic, pairs: int) -> int:
    """In how many pairs of neighbours the score moves by more than 1.

    Units are among the longest steps that the first data set attains, bit by bit; the replaced
    user becomes large.
    """
    generator, found = np.random.default_rng(58), 0
    levels, lattice = np.array([0, 0.1, 0.2, 0.3, 0.7, 1.0]), lattice_of(7, 5)
    for _ in range(pairs):
        one = generator.choice(levels, size=(7, 1, 1))
        two = one.copy()
        two[-1] = generator.choice([1e7 / 3, 1e5 / 7])
        longest = steps(tabulated(statistic, one, lattice.kept), lattice, 4)
        unit = float(generator.choice(np.unique(longest[longest > 0])[-4:]))
        first, second = (
            Enumeration().find(statistic, data, unit, 1).scores[0] for data in (one, two)
        )
        found += abs(first - second) > 1
    return int(found)


def test_kept_sums_have_a_score_of_sensitivity_one_and_differences_have_not() -> None:
    """Total minus deleted breaks it in some of 200 adversarial pairs, kept sums in none."""
    assert jumps(UserMean(), 200) == 0
    assert jumps(TotalMinusDeleted(), 200) >= 5


@pytest.mark.quality
def test_of_1500_adversarial_pairs_kept_sums_break_none() -> None:
    assert jumps(UserMean(), 1_500) == 0
    assert jumps(TotalMinusDeleted(), 1_500) >= 47


# --- any deterministic function -------------------------------------------------------------------


@dataclass(frozen=True)
class Any1:
    """A function of the kept users' numbers, in their order: (1, subsets, 1)."""

    function: Callable[[Array], float]
    trials: int = 1

    def of(self, chosen: Flags) -> Any1:
        return self

    def at(self, users: Array, kept: Flags) -> Array:
        return np.array([[[self.function(users[row, 0, 0])] for row in kept]])


def coverage(values: Array) -> float:
    """How many of 8 sets the users cover together; a user's number is a bit mask."""
    return float(int(np.bitwise_or.reduce(values.astype(np.int64), initial=0)).bit_count())


def scattered(values: Array) -> float:
    """One of a few numbers, by a hash of the bytes: most are alike."""
    return float(crc32(values.tobytes()) % 61 == 0) * 7.0


def ordered(values: Array) -> float:
    """Depends on the order of the kept users, and is not continuous."""
    return float((values * np.arange(1, len(values) + 1)).sum() % 5)


FUNCTIONS = {
    "coverage": coverage,
    "largest": lambda v: float(v.max(initial=0)),
    "median": lambda v: float(np.median(v)) if len(v) else 0.0,
    "scattered": scattered,
    "ordered": ordered,
    "product": lambda v: float(np.prod(v % 3)),
}


@pytest.mark.first_case
@pytest.mark.parametrize("stability", ["path", "diameter"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_algorithm_1_needs_no_property_of_the_function(name: str, stability: str) -> None:
    """Random neighbours, kappa = 1, by enumeration: scores one apart, vectors as accounted."""
    generator, search = np.random.default_rng(len(name)), Enumeration(stability)
    statistic, seen = Any1(FUNCTIONS[name]), Counter[float]()
    for _ in range(25):
        one = generator.integers(0, generator.choice([4, 20, 256]), size=(7, 1, 1)).astype(float)
        two = one.copy()
        two[generator.integers(7)] = float(generator.integers(0, 256))
        unit = float(generator.choice([0.5, 1.0, 2.0, 40.0]))
        first, second = (search.find(statistic, data, unit, 1) for data in (one, two))
        scores = float(first.scores[0]), float(second.scores[0])
        assert abs(scores[0] - scores[1]) <= 1
        seen[scores[0]] += 1
        if max(scores) <= 2:
            apart = float(np.abs(first.vectors - second.vectors).max())
            assert apart <= (sum(scores) + 2 if stability == "path" else 2) * unit
    assert len(seen) >= 2


# --- a certificate that fails ---------------------------------------------------------------------

HOSTILE = {
    "not a number": np.nan,
    "infinite": np.inf,
    "huge": 1e300,
    "far": -1e6,
    "tiny": 1e-300,
}


@pytest.mark.parametrize("rule", [r for r in RULES if r != "diameter"])
@pytest.mark.parametrize("place", HOSTILE)
def test_a_certificate_that_fails_is_an_enumeration(rule: str, place: str) -> None:
    """Never an error, a warning, a bottom of its own: what the exact search gives."""
    minimiser, data = Minimiser(Quadratic(), Ball(5.0)), users(7, 2, 2) * 0.1
    data[2] = HOSTILE[place]
    program = DeletionStableOutputPerturbation(
        7, 0.3, SMALL, minimiser, Certified(GradientCertificate(rule))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certified, exact = (
            replace(program, search=search).query().value(Records(data))
            for search in (program.search, Enumeration())
        )
        released = run(program, data, 4)
    assert np.isfinite(certified).all()
    assert (certified == exact).all()
    assert released.shape == (4, 2)


def test_a_search_that_could_not_end_is_refused_whatever_the_data() -> None:
    """A certificate would pass on equal users; whether it does must not decide what happens."""
    problem = Problem(Quadratic(), Ball(1.0), 300, 1, 1, 1.0)
    program = StronglyConvexOutputPerturbation(
        problem, Constants(Fraction(1, 2), 32, 500), DeltaRule("c1", gamma=1.0), Certified()
    )
    for data in (np.zeros((300, 1, 1)), np.linspace(-9, 9, 300)[:, None, None]):
        curator = sampler(program, data)
        with pytest.raises(InvalidParameter, match=r"have about 1e\d+ subsets, above the cap"):
            program.run(curator)
        assert curator.transcript == []


# --- rounding -------------------------------------------------------------------------------------


def test_gradient_norms_are_taken_after_centring() -> None:
    """Users within 1e-8 of 1: norms to six digits, against exact fractions."""
    data = 1 + 1e-8 * users(9, 3, 1)
    seen = measured(Minimiser(Quadratic()), data)
    means = [sum(map(Fraction, user[:, 0].tolist()), Fraction(0)) / 3 for user in data]
    middle = sum(means, Fraction(0)) / 9
    exact = [float(abs(mean - middle)) for mean in means]
    assert seen.norms[0] == pytest.approx(exact, rel=1e-6)


@dataclass(frozen=True)
class Counted(Quadratic):
    """Counts solves and passes of gradients."""

    def minimise(self, users: Array, kept: Flags, pull: Pull, domain: Any) -> Array:
        PASSES["solves"] += 1
        return super().minimise(users, kept, pull, domain)

    def gradients(self, points: Array, users: Array, pull: Pull, domain: Any) -> Array:
        PASSES["gradients"] += 1
        return super().gradients(points, users, pull, domain)


PASSES: Counter[str] = Counter()


def test_a_certified_round_is_one_solve_and_one_pass_of_gradients() -> None:
    """And one more of each on rows of zeros, once, so that errors come before data is touched."""
    PASSES.clear()
    problem = Problem(Counted(), Box(1.0, 1), 40, 10, 1, 2.0)
    certificate = Certified(GradientCertificate("quadratic"))
    program = PhasedERM(problem, SMALL, 5, 0.1, DeltaRule("quadratic", gamma=5.0), certificate)
    run(program, users(40, 10) * 0.1, 3)
    assert PASSES == {"solves": 6, "gradients": 6}


# --- users that do not fit ------------------------------------------------------------------------


def test_users_have_equally_many_items() -> None:
    two, three = np.zeros((2, 1)), np.zeros((3, 1))
    assert records_of_lists([two, two]).values.shape == (2, 2, 1)
    with pytest.raises(InvalidParameter, match=r"unequal numbers of items.*m \(Theorem 3.1\)"):
        records_of_lists([two, three])
    for empty in ([], [two, np.zeros((0, 1))], [two, np.zeros(2)], [two, [["secret"]]]):
        with pytest.raises(InvalidParameter, match="null user") as error:
            records_of_lists(empty)  # type: ignore[arg-type]
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("loss", [Quadratic(), RidgeLogistic(0.5, 1.0)])
def test_records_of_another_number_of_items_are_refused(loss: Loss) -> None:
    problem = Problem(loss, Ball(1.0), 8, 4, 3, 1.0)
    program = StronglyConvexOutputPerturbation(problem, SMALL, DeltaRule("c1", gamma=1.0))
    with pytest.raises(InvalidParameter, match=r"3 items a user, expected 4: every user has equal"):
        run(program, users(8, 3, 3))
    pulled = Problem(Absolute(), Box(1.0, 3), 8, 4, 3, 1.0)
    phases = PhasedERM(pulled, SMALL, 1, 1.0, DeltaRule("c1", gamma=1.0))
    curator = sampler(phases, users(8, 5, 3))
    with pytest.raises(InvalidParameter, match="5 items a user, expected 4"):
        phases.run(curator)
    assert curator.transcript == []

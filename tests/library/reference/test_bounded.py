"""Staircase, canonical, Student's and truncated Laplace noise, beside sums of their densities."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from numpy.typing import NDArray
from scipy.stats import kstest, t

import dpaudit as dp
from dpaudit.crosscheck.interchange import from_pld
from dpaudit.errors import InvalidParameter
from dpaudit.families.bounded import Staircase, StudentT, TruncatedLaplace, Tulap
from dpaudit.families.opaque import Laws, ProfilePoints
from dpaudit.kernels.base import kernel_of
from dpaudit.pairs import StudentShift, TruncatedLaplaceShift, staircase_shift
from dpaudit.pairs.balls import number

Floats = NDArray[np.float64]
SCOPE = dp.central("add_remove")
E = math.e


def staircase(y: Floats) -> Floats:
    """epsilon 1, share 3/10."""
    step = np.floor(np.abs(y))
    falls = step + (np.abs(y) - step >= 0.3)
    return np.asarray((1 - 1 / E) / (2 * (0.3 + 0.7 / E)) * np.exp(-falls))


def student(y: Floats) -> Floats:
    """Scale 2, three degrees of freedom."""
    return np.asarray(1 / (math.sqrt(3) * math.pi) / (1 + y**2 / 12) ** 2)


def truncated(y: Floats) -> Floats:
    """Scale 2, bound 5."""
    inside = np.exp(-np.abs(y) / 2) / (4 * (1 - math.exp(-2.5)))
    return np.where(np.abs(y) <= 5, inside, 0.0)


def tulap(y: Floats) -> Floats:
    """epsilon 1, delta 1/100: discrete Laplace plus uniform noise, its tails cut off."""
    cut = 0.01 / E / (1 - 1 / E + 0.02 / E)
    step = math.floor(-math.log(cut * (1 + 1 / E)))  # F(-1/2 - k) = e^(-k) / (e + 1) at whole k
    inside = (cut * (1 + 1 / E) * E**step - 1 / E) / (1 - 1 / E)
    whole = math.tanh(0.5) * np.exp(-np.abs(np.rint(y)))
    return np.where(np.abs(y) <= step + 0.5 - inside, whole / (1 - 2 * cut), 0.0)


NOISES: dict[str, tuple[dp.Node, Callable[[Floats], Floats]]] = {
    "staircase": (Staircase("s", 1, "0.3"), staircase),
    "student": (StudentT("s", 2, 3), student),
    "truncated": (TruncatedLaplace("s", 2, 5), truncated),
    "tulap": (Tulap("s", 1, "0.01"), tulap),
}


def summed(density: Callable[[Floats], Floats], epsilon: float, move: float = 1.0) -> float:
    """The integral of (p - e^epsilon q)_+ by sums over a grid whose points no edge meets."""
    width = 1 / 1000
    y = (np.arange(-60_000, 61_000) + 0.4471) * width
    return float(np.maximum(density(y) - math.exp(epsilon) * density(y - move), 0).sum() * width)


@pytest.mark.parametrize("name", NOISES)
def test_delta_is_that_of_the_densities(name: str) -> None:
    node, density = NOISES[name]
    for epsilon in (Fraction(0), Fraction(1, 4), Fraction(9, 10)):
        known = summed(density, float(epsilon))
        bound = dp.account(node, SCOPE).delta(epsilon)
        assert float(bound.lower) - 2e-4 <= known <= float(bound.upper) + 2e-4


@pytest.mark.parametrize("name", NOISES)
def test_a_smaller_move_tells_no_more(name: str) -> None:
    node, density = NOISES[name]
    most = float(dp.account(node, SCOPE).delta("1/4").upper)
    assert all(summed(density, 0.25, move) <= most + 2e-4 for move in (0.3, 0.7))


@pytest.mark.first_case
@pytest.mark.parametrize("name", NOISES)
def test_noise_is_drawn_and_weighed_as_declared(name: str) -> None:
    """False-alarm rate 1e-6 a noise; the density is that of this file, the residual normal."""
    node, density = NOISES[name]
    session = kernel_of(node)(node, 1)
    session.spread = np.random.default_rng(2)
    scale = np.full(50_000, 3.0 * session.multiplier(node))
    values = np.full((50_000, 1), 7.0)
    released = session.sample(values, scale, np.random.default_rng(1))
    assert kstest(session.residual(released, values, scale)[:, 0], "norm").pvalue > 1e-6
    moved = (released - values)[:20, 0] / 3
    weights = np.exp(session.log_density(released, values, scale))[:20] * 3
    assert weights == pytest.approx(density(moved), rel=1e-9)
    wrong = session.sample(values, 1.2 * scale, np.random.default_rng(1))
    assert kstest(session.residual(wrong, values, scale)[:, 0], "norm").pvalue < 1e-6


def test_a_vector_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="one by one"):
        kernel_of(Tulap("s", 1, 0))(Tulap("s", 1, 0), 1).admit(np.ones(1), 2)


def test_special_cases_are_known_pairs() -> None:
    """A staircase of half steps is a fair coin of epsilon; one degree of freedom is Cauchy's."""
    half = staircase_shift(Fraction(1), Fraction(1, 2))
    assert float(half.delta(number(1)).mid()) == pytest.approx(math.tanh(0.5), rel=1e-12)
    cauchy = StudentShift(Fraction(2), Fraction(1))
    assert float(cauchy.delta(number(1)).mid()) == pytest.approx(
        2 * math.atan(0.25) / math.pi, rel=1e-12
    )
    assert float(cauchy.extremes[0]) == pytest.approx(2 * math.asinh(0.25), rel=1e-12)


def test_many_degrees_of_freedom_keep_their_digits() -> None:
    """The places lie 10^5 scales out, where only the tail of the noise has digits."""
    student = StudentShift(Fraction(1), Fraction(10**6))
    y, step = np.linspace(-20, 40, 600_001, retstep=True)
    p, q = t.pdf(y, 10**6, loc=1), t.pdf(y, 10**6)
    for x in (1, 3, 50):
        summed = float(np.maximum(p - x * q, 0).sum() * step)
        assert float(student.delta(number(x)).mid()) == pytest.approx(summed, rel=1e-6)
    far = student.delta(number(Fraction(10) ** 6))
    assert 0 < far < 1e-30


def test_truncated_noise_has_the_same_profile_by_its_masses_and_by_delta() -> None:
    """Its own masses make the grid, delta makes chords; a symmetric profile mirrors at 1."""
    pair = TruncatedLaplaceShift(Fraction(1, 2), Fraction(5))
    for x in (Fraction(3, 10), Fraction(7, 10), Fraction(13, 10), Fraction(3)):
        here, there = (float(pair.delta(number(at)).mid()) for at in (x, 1 / x))
        assert here == pytest.approx(float(1 - x) + float(x) * there, abs=1e-12)
    masses = pair.loss_masses(1e-12)
    assert masses is not None
    p, q = masses.masses(np.linspace(-0.5, 0.5, 3))
    assert p.sum() + masses.outcomes.p.sum() == pytest.approx(1, abs=1e-12)
    assert q.sum() + masses.outcomes.q.sum() == pytest.approx(1, abs=1e-12)
    at_one = p[1] - q[1] + np.maximum(masses.outcomes.p - masses.outcomes.q, 0).sum()
    assert at_one == pytest.approx(float(pair.delta(number(1)).mid()), abs=1e-12)


@pytest.mark.quality
def test_a_distribution_of_another_tool_is_accounted() -> None:
    theirs = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
    node = from_pld(theirs, "dp_accounting, Gaussian noise 2", 64)
    bound = float(dp.account(dp.Repeat(node, 4), SCOPE).epsilon("1e-5").upper)
    exact = float(dp.account(dp.Repeat(dp.Gaussian("g", 2), 4), SCOPE).epsilon("1e-5").lower)
    assert exact <= bound <= exact * 1.01
    with pytest.raises(InvalidParameter, match="points=1"):
        from_pld(theirs, "somebody", 1)
    optimistic = pld.from_gaussian_mechanism(2.0, pessimistic_estimate=False)
    with pytest.raises(InvalidParameter, match="from below"):
        from_pld(optimistic, "somebody", 64)
    assert isinstance(node, ProfilePoints)


def test_two_laws_are_accounted_in_the_order_that_is_stated() -> None:
    node = Laws((("1/2", "0"), ("1/2", "1")), source="a poll")
    delta = [dp.account(node, dp.central(a)).delta(10).upper for a in ("add_remove", "replace_one")]
    assert [float(d) for d in delta] == pytest.approx([0.5, 0.5], abs=1e-5)
    assert float(dp.account(dp.Repeat(node, 2), SCOPE).delta(10).upper) == pytest.approx(0.75, 1e-5)
    with pytest.raises(InvalidParameter, match="sum 1"):
        Laws((("1/2", "1"),))

"""Right noise raises no alarm: of few values, at every scale, and where floats are coarse.

Every test has a false-alarm rate of at most 1e-6 a check unless it says otherwise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from benchmarks.false_alarms import CASES, SCALES, Case, alarms, draw
from dpaudit.audit.examine import noise
from dpaudit.audit.examine.noise import Release, drawn_alone, log_chance_of_ties
from dpaudit.audit.residuals import check_residuals
from dpaudit.check import laws
from dpaudit.families.additive.kernel import DiscreteLaplaceKernel, GaussianKernel
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.kernels.base import KERNELS, Kernel, exact_kernels, kernel_of
from dpaudit.kernels.query import Array
from dpaudit.nodes.registry import load

# Leaves whose noise is that of others: paths of several steps, and what a search draws.
OTHERS = {"SampledLastIterate", "Tuned", "TunedPoisson"}


def test_every_kernel_is_measured() -> None:
    load("kernel")
    measured = {type(case.leaf(Fraction(1))).__name__ for case in CASES.values()}
    shipped = {k.__name__ for k, v in KERNELS.items() if v.__module__.startswith("dpaudit.")}
    assert shipped <= measured | OTHERS
    exact = {leaf.__name__ for leaf in exact_kernels()}
    assert exact <= {type(case.leaf(Fraction(1))).__name__ for case in CASES.values()}


@pytest.mark.first_case
@pytest.mark.long_cases("stable release on a grid")
@pytest.mark.parametrize("name", CASES)
def test_right_noise_raises_no_alarm(name: str) -> None:
    """30 runs at the smallest and the largest loss; more in the benchmark."""
    for epsilon in (SCALES[0], SCALES[-1]):
        _, broken, _, tied = alarms(CASES[name], epsilon, 30)
        assert (broken, tied) == (0, 0)


@pytest.mark.quality
@pytest.mark.parametrize("name", CASES)
def test_right_noise_raises_alarms_at_its_rate(name: str) -> None:
    """1,500 runs at 5%: at most 125 alarms (nominal 75 at most, chance below 1e-7 each)."""
    for epsilon in SCALES:
        _, broken, counted, tied = alarms(CASES[name], epsilon, 1_500)
        assert (broken, tied) == (0, 0)
        assert counted <= 125


@pytest.mark.first_case
@pytest.mark.parametrize("epsilon", ["1", "8", "64"])
@pytest.mark.parametrize("exact", [False, True])
def test_noise_drawn_alone_of_right_kernels_is_held(epsilon: str, exact: bool) -> None:
    """Discrete noise that repeats nearly always, and added noise around a sum of 10^9."""
    scale = 1 / Fraction(epsilon)
    many = np.arange(12.0)
    for leaf, value in (
        (DiscreteLaplace("a", scale), many),
        (dp.Laplace("a", scale), many + 1e9),
        (dp.Gaussian("a", scale), many + 1e9),
    ):
        kernel = exact_kernels()[type(leaf)] if exact else kernel_of(leaf)
        uses = [Release(leaf, kernel, value, kernel.multiplier(leaf), "") for _ in range(3)]
        found = drawn_alone({"a": uses}, seed=1)
        assert found.status == "held", found.detail


class Seeded(DiscreteLaplaceKernel):
    """The same noise from every generator."""

    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        return super().sample(values, scale, np.random.default_rng(5))


def test_seeded_noise_of_few_values_is_seen() -> None:
    leaf = DiscreteLaplace("a", 1)
    uses = [Release(leaf, Seeded, np.arange(3.0), 1.0, "")]
    assert "same from another generator" in drawn_alone({"a": uses}, seed=1).detail
    # Of noise that is 0 but for one draw in 10^27, nothing can be told.
    still = DiscreteLaplace("a", Fraction(1, 64))
    uses = [Release(still, Seeded, np.arange(3.0), 1 / 64, "")]
    assert drawn_alone({"a": uses}, seed=1).status == "held"


@pytest.mark.quality
def test_the_chance_of_ties_is_a_bound() -> None:
    """3,000 pairs of samples of six at each law: at most 380 alarms at 0.1 (chance 1e-6)."""
    rng = np.random.default_rng(1)
    for law in (lambda n: rng.integers(0, 2, n), lambda n: rng.integers(0, 9, n), rng.random):
        hits = sum(
            log_chance_of_ties(np.array(law(6)), np.array(law(6))) <= math.log(0.1)
            for _ in range(3_000)
        )
        assert hits <= 380
    same = rng.random(200)
    assert log_chance_of_ties(same, same) < -600
    half = np.where(np.arange(200) < 100, same, rng.random(200))
    assert log_chance_of_ties(same, half) < -300
    assert log_chance_of_ties(same, rng.random(200)) == 0


def test_a_check_by_ties_alone_would_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above goes red where the law's own chance of ties is taken away."""
    monkeypatch.setattr(noise, "log_chance_of_ties", lambda a, b: -99.0 * (a == b).all())
    leaf = DiscreteLaplace("a", Fraction(1, 64))
    uses = [Release(leaf, kernel_of(leaf), np.arange(12.0), 1 / 64, "")]
    assert drawn_alone({"a": uses}, seed=1).status == "broken"


def test_residuals_without_numbers_of_their_own_would_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Uniform numbers that equal batches share make equal residuals."""
    monkeypatch.setattr(
        Kernel, "uniforms", lambda self, *shape: np.random.default_rng(0).random(shape)
    )
    _, found = draw(CASES["discrete Laplace"], Fraction(64), 8, 4, 1)
    assert any(f.status == "broken" for f in check_residuals({"a": found}, 1e-6))


@pytest.mark.parametrize("value", [0.0, 1e6, 1e12, 1e15, 4e15])
@pytest.mark.parametrize("leaf", [dp.Gaussian("a", "0.1"), dp.Laplace("a", "0.1")], ids=repr)
def test_residuals_are_normal_where_floats_are_coarse(leaf: Any, value: float) -> None:
    """At 4e15 floats are half a unit apart, five times the scale."""
    _, found = draw(Case(lambda _: leaf, (value,)), Fraction(1), 4_000, 2, 1)
    assert [f for f in check_residuals({"a": found}, 1e-6) if f.status == "broken"] == []
    # With the noise that was declared twice as large it is seen, as long as any noise shows.
    if value < 1e15:
        small = check_residuals({"a": found / 2}, 1e-6)
        assert any(f.status == "broken" for f in small)


def test_noise_on_a_grid_keeps_large_values() -> None:
    """A value of 2^29 scales and more was cut to 2^29."""
    leaf = dp.Laplace("a", "0.01")
    kernel = exact_kernels()[dp.Laplace](leaf, 1_000)
    values, scale = np.full((1_000, 1), 1e12), np.full(1_000, 0.01)
    drawn = kernel.sample(values, scale, np.random.default_rng(1))
    assert np.abs(drawn - values).max() < 1


class Silent(GaussianKernel):
    """No noise at all."""

    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        return np.array(values)


def test_silence_is_seen_where_noise_would_show() -> None:
    leaf = dp.Gaussian("a", 1)
    for value in (0.0, 1e3, 1e12):
        uses = [Release(leaf, Silent, np.full(3, value), 1.0, "")]
        assert "no noise in 3 of 3" in drawn_alone({"a": uses}, seed=1).detail


@pytest.mark.parametrize("size", [1, 3, 30, 1_000, 300_000])
def test_bounds_of_variances_are_above_the_exact_tails(size: int) -> None:
    from scipy.stats import chi2

    for z in (-6, -2, -0.5, 0.5, 2, 6):
        variance = 1 + z * math.sqrt(2 / size)
        if variance <= 0:
            continue
        exact = 2 * min(chi2.cdf(variance * size, size), chi2.sf(variance * size, size))
        assert laws.p_value("variance bound", variance, size, 1) >= min(1.0, exact)


def test_all_checks_of_a_run_share_less_than_one_in_a_million() -> None:
    from dpaudit.audit.verdict import DecisionBudget

    for audits in (1, 3):
        budget = DecisionBudget(bounds=4, audits=audits)
        assert audits * budget.conformance + noise.ERROR < 1e-6

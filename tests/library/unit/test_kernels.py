"""Kernels: the law of what is drawn, and E_D1[exp(score)] = 1 for every exact density."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.accountant.account import account
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.additive.kernel import GaussianKernel, LaplaceKernel
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import PureDP
from dpaudit.kernels.base import KERNELS, kernel_of
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from tests.support.kernels import (
    REPLACE_ONE,
    ZERO_OUT,
    IndependentTreeKernel,
    MixedGaussian,
    Releases,
    Stated,
    TreeGaussian,
    mean_exponential,
    registered,
    replayer,
    sampled,
    tiles,
    total,
    zeroed,
)

STEPS = 7
PAIR = zeroed([[0.4, -0.8], [0.1, 0.3]], 0)


@pytest.fixture(autouse=True)
def new_mechanisms() -> Iterator[None]:
    """The tree and the mixture are known in these tests, and leave no trace."""
    tables: tuple[dict[Any, Any], ...] = (KERNELS, Node.types, CALCULI["gdp"]._rules)
    load("kernel")
    load("rules")
    before = [dict(table) for table in tables]
    with registered():
        assert all(len(table) == len(b) + 2 for table, b in zip(tables, before, strict=True))
        yield
    assert [dict(table) for table in tables] == before


def prefix_sum(step: int) -> ClippedMean:
    """The sum of the clipped vectors of all records that arrived by a step: (time, vector)."""

    def arrived(values: Array) -> Array:
        return (values[:, 1:] * (values[:, :1] <= step))[None]

    return ClippedMean(arrived, radius=1.0, divisor=1.0)


def tree(noise_multiplier: Any) -> Releases:
    node = TreeGaussian("sum", noise_multiplier, STEPS)
    return Releases(node, tuple(("sum", prefix_sum(t)) for t in range(1, STEPS + 1)))


STREAM = zeroed([[1.0, 2.0], [3.0, 0.5], [6.0, -0.2]], 0)


def test_gaussian_noise_has_the_declared_scale_in_each_trial() -> None:
    """Kolmogorov-Smirnov at level 1e-4 for each of two scales."""
    query = Stated(total, bound=np.repeat([0.5, 3.0], 10_000))
    program = Releases(Gaussian("sum", 4), (("sum", query),))
    (event,) = sampled(program, PAIR[0], REPLACE_ONE, seed=1, trials=20_000).transcript
    noise: Any = event.released - total(PAIR[0])
    for part, scale in ((noise[:10_000], 2.0), (noise[10_000:], 12.0)):
        assert stats.kstest(part.ravel() / scale, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(noise[:10_000].T)[0, 1]) < 0.04


def test_laplace_noise_has_the_declared_scale_in_each_trial() -> None:
    """Kolmogorov-Smirnov at level 1e-4 for each of two scales."""
    query = Stated(total, bound=np.repeat([0.5, 3.0], 10_000), norm="l1")
    program = Releases(Laplace("sum", 4), (("sum", query),))
    (event,) = sampled(program, PAIR[0], REPLACE_ONE, seed=2, trials=20_000).transcript
    noise: Any = event.released - total(PAIR[0])
    for part, scale in ((noise[:10_000], 2.0), (noise[10_000:], 12.0)):
        assert stats.kstest(part.ravel() / scale, "laplace").pvalue > 1e-4
    assert abs(np.corrcoef(noise[:10_000].T)[0, 1]) < 0.04


@pytest.mark.parametrize("kernel", [GaussianKernel, LaplaceKernel])
def test_densities_are_those_of_scipy(kernel: Any) -> None:
    rng = np.random.default_rng(3)
    released, values = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    scale = rng.uniform(0.1, 4.0, 5)
    law: Any = stats.norm if kernel is GaussianKernel else stats.laplace
    expected = law.logpdf(released, values, scale[:, None]).sum(axis=1)
    session = kernel(None, 5)
    np.testing.assert_allclose(session.log_density(released, values, scale), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", [GaussianKernel, LaplaceKernel])
def test_a_scale_of_zero_is_a_point_mass(kernel: Any) -> None:
    values = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    released = np.array([[1.0, 2.0], [1.0, 2.0 + 1e-15], [1.0, 2.0]])
    density = kernel(None, 3).log_density(released, values, np.array([0.0, 0.0, 1.0]))
    assert density[:2].tolist() == [0.0, -np.inf]
    assert np.isfinite(density[2])
    residual = kernel(None, 3).residual(released, values, np.array([0.0, 0.0, 1.0]))
    assert np.isnan(residual).tolist() == [[True, True], [True, True], [False, False]]


def one_release(leaf: Node, norm: Any) -> Releases:
    return Releases(leaf, (("sum", ClippedMean(lambda z: z[None], 1.0, divisor=1.0, norm=norm)),))


EXACT = {
    "gaussian": one_release(Gaussian("sum", 2), "l2"),
    "laplace": one_release(Laplace("sum", 1), "l1"),
    "several": Releases(
        Compose(Repeat(Gaussian("g", 3), 2), Laplace("l", 2)),
        (
            ("g", ClippedMean(lambda z: z[None], 1.0, divisor=1.0)),
            ("l", ClippedMean(lambda z: z[None], 0.5, divisor=1.0, norm="l1")),
            ("g", ClippedMean(lambda z: z[None] ** 2, 0.2, divisor=1.0)),
        ),
    ),
}


@pytest.mark.first_case
@pytest.mark.parametrize("program", EXACT.values(), ids=EXACT.keys())
def test_the_likelihood_ratio_has_mean_one(program: Releases) -> None:
    """E_D1[p0/p1] = 1 within 5 standard errors: false-alarm rate 6e-7."""
    for pair in (PAIR, PAIR[::-1]):
        mean, error = mean_exponential(program, pair, ZERO_OUT, seed=4, trials=100_000)
        assert error < 0.005
        assert mean == pytest.approx(1, abs=5 * error)


@pytest.mark.parametrize("weight", [0.1, 0.7])
def test_the_likelihood_ratio_of_a_mixture_has_mean_one(weight: float) -> None:
    """Within 5 standard errors: false-alarm rate 6e-7."""
    program = one_release(MixedGaussian("sum", 1, weight), "l2")
    mean, error = mean_exponential(program, PAIR, ZERO_OUT, seed=5, trials=100_000)
    assert error < 0.005
    assert mean == pytest.approx(1, abs=5 * error)


def test_the_likelihood_ratio_of_tree_noise_has_mean_one() -> None:
    """Within 5 standard errors: false-alarm rate 6e-7."""
    mean, error = mean_exponential(tree(3), STREAM, ZERO_OUT, seed=6, trials=100_000)
    assert error < 0.005
    assert mean == pytest.approx(1, abs=5 * error)


def test_tree_noise_treated_as_independent_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean is 6.1, not 1: exp(a'Sa/2 - q/2) with S the true covariance, q the assumed norm.

    The tolerance, 35%, is 5 standard errors: false-alarm rate 6e-7.
    """
    nodes = np.array([[float(k in tiles(t)) for k in range(1, 8)] for t in range(1, 8)])
    covariance = 1.195**2 * nodes @ nodes.T
    shift = 1 / np.diag(covariance)
    exact = np.exp(0.5 * shift @ covariance @ shift - 0.5 * shift.sum())
    assert exact == pytest.approx(6.1, abs=0.05)

    transcript = sampled(tree(1.195), STREAM[1], ZERO_OUT, seed=7, trials=300_000).transcript
    monkeypatch.setitem(KERNELS, TreeGaussian, IndependentTreeKernel)
    wrong = replayer(tree(1.195), STREAM, ZERO_OUT).scores(transcript)
    assert np.exp(wrong).mean() == pytest.approx(exact, rel=0.35)


def test_tree_noise_is_accounted_and_attacked_like_any_other() -> None:
    """One record sits in 3 nodes of 7 steps: mu = sqrt(3)/z, and scores are N(+-mu^2/2, mu^2).

    Kolmogorov-Smirnov at level 1e-4 on each side.
    """
    program = tree(3)
    mu = float(account(program.declaration(ZERO_OUT), ZERO_OUT).step("gdp").value)
    assert mu == pytest.approx(3**0.5 / 3)
    for own, sign in ((0, 1), (1, -1)):
        transcript = sampled(program, STREAM[own], ZERO_OUT, seed=8 + own, trials=20_000).transcript
        scores = replayer(program, STREAM, ZERO_OUT).scores(transcript)
        assert stats.kstest((scores - sign * mu**2 / 2) / mu, "norm").pvalue > 1e-4


def test_a_kernel_with_memory_starts_anew_with_each_use() -> None:
    short, long = TreeGaussian("sum", 3, 3), TreeGaussian("sum", 3, 4)
    query = ClippedMean(lambda z: z[None], 1.0, divisor=1.0)
    program = Releases(Compose(long, Repeat(short, 2)), (("sum", query),) * 10)
    sampler = sampled(program, PAIR[1], ZERO_OUT, seed=9, trials=4_000)
    noise = np.stack([e.released[:, 0] - 0.1 for e in sampler.transcript])
    related = np.abs(np.corrcoef(noise)) > 0.2
    trees = [np.arange(4), np.arange(4, 7), np.arange(7, 10)]
    expected = np.zeros((10, 10), dtype=bool)
    for ends in trees:
        for i in ends:
            for j in ends:
                shared = set(tiles(int(i - ends[0]) + 1)) & set(tiles(int(j - ends[0]) + 1))
                expected[i, j] = bool(shared)
    np.testing.assert_array_equal(related, expected)
    mean, error = mean_exponential(program, PAIR, ZERO_OUT, seed=10, trials=20_000)
    assert mean == pytest.approx(1, abs=5 * error)


def test_a_label_keeps_the_parameters_that_its_session_was_opened_with() -> None:
    """Trials that are masked differently are at different uses, but share one session."""
    query = ClippedMean(lambda z: z[None], 1.0, divisor=1.0)
    noises = Compose(MixedGaussian("a", 1, 0.5), MixedGaussian("a", 2, 0.5))
    mean, error = mean_exponential(
        Releases(noises, (("a", query),) * 2), PAIR, ZERO_OUT, seed=13, trials=20_000
    )
    assert mean == pytest.approx(1, abs=5 * error)
    mixed = Compose(MixedGaussian("a", 1, 0.5), MixedGaussian("a", 1, 0.7))
    trees = Compose(TreeGaussian("a", 1, 1), TreeGaussian("a", 1, 4), TreeGaussian("a", 1, 1))
    for node in (mixed, trees):
        with pytest.raises(InvalidParameter, match="different parameters"):
            sampled(Releases(node, ()), PAIR[0], ZERO_OUT, seed=1)


def test_a_kernel_with_memory_needs_every_trial() -> None:
    program = tree(3)
    sampler = sampled(Releases(program.node, ()), STREAM[0], ZERO_OUT, seed=11, trials=2)
    with pytest.raises(InvalidParameter, match="memory"):
        sampler.release("sum", prefix_sum(1), on=np.array([True, False]))
    assert sampler.entitlements.counts() == {"sum": (7, 0, 0)}


RESIDUAL_PROGRAMS = {
    **EXACT,
    "tree": tree(2),
    "mixture": one_release(MixedGaussian("sum", 1, 0.4), "l2"),
}


@pytest.mark.parametrize("name", RESIDUAL_PROGRAMS)
def test_residuals_of_declared_noise_are_standard_normal(name: str) -> None:
    """Kolmogorov-Smirnov at level 1e-4 per label; uses are uncorrelated within 5 deviations."""
    program = RESIDUAL_PROGRAMS[name]
    pair = STREAM if name == "tree" else PAIR
    transcript = sampled(program, pair[1], ZERO_OUT, seed=12, trials=5_000).transcript
    replay = replayer(program, pair, ZERO_OUT).inspect(transcript, own=1)
    for noise in replay.residuals.values():
        assert noise.shape[0] == 5_000
        assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
        columns = np.atleast_2d(np.corrcoef(noise.reshape(5_000, -1).T))
        assert np.abs(columns - np.eye(len(columns))).max() < 5 / 5_000**0.5


def test_extreme_laplace_noise_has_a_finite_residual() -> None:
    released = np.array([[1e6], [-1e6], [0.0]])
    residual = LaplaceKernel(None, 3).residual(released, np.zeros((3, 1)), np.ones(3))
    assert np.isfinite(residual).all()
    assert residual[0] == -residual[1] > 30
    assert residual[2] == 0


def test_a_leaf_without_a_kernel_is_named() -> None:
    with pytest.raises(Unsupported, match=r"PureDP\('x'.*Gaussian, .*Laplace"):
        kernel_of(PureDP(1, "x"))

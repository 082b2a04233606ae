"""Excess risk bounds and Table 1, against runs with known optima and formulas written out again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.srgd.bounds import (
    Geometry,
    Rate,
    excess_risk_bound_5_1,
    excess_risk_bound_5_8,
    excess_risk_bound_5_12,
    excess_risk_bound_5_13,
    pathwise_excess_risk_upper,
    recursive_error_upper,
)
from mechanisms.papers.srgd.geometry import EtaSchedule, nesterov_step, project_l2_ball
from mechanisms.papers.srgd.table1 import resqueing_gradients, table1_complexities

HALVED = EtaSchedule.HALVED
RUNS, D, T, RADIUS = 300, 4, 12, 1.0
Norms = Callable[[Array], Array]


def norms(vectors: Array) -> Array:
    return np.linalg.norm(vectors, axis=-1)


class Quadratics:
    """F(x) = (x - c)'Q(x - c)/2, a problem a trial, with c in the ball and ||Q|| = 1."""

    def __init__(self, rng: np.random.Generator) -> None:
        root = rng.standard_normal((RUNS, D, D)) * rng.uniform(0, 1, (RUNS, 1, D)) ** 3
        q = root @ root.swapaxes(1, 2)
        self.q = q / np.linalg.norm(q, ord=2, axis=(1, 2))[:, None, None]
        self.best = project_l2_ball(rng.standard_normal((RUNS, D)), RADIUS)

    def gradient(self, x: Array) -> Array:
        return np.einsum("tij,tj->ti", self.q, x - self.best)

    def excess(self, x: Array) -> Array:
        return 0.5 * ((x - self.best) * self.gradient(x)).sum(axis=1)


class Linear:
    """F(x) = a.x, least on the sphere at -a/||a||; smooth with any constant."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.a = rng.standard_normal((RUNS, D))
        self.best = -self.a / norms(self.a)[:, None]

    def gradient(self, x: Array) -> Array:
        return self.a

    def excess(self, x: Array) -> Array:
        return (self.a * (x - self.best)).sum(axis=1)


def run(
    problem: Quadratics | Linear, rng: np.random.Generator, beta: float, error: float, noise: float
) -> tuple[Array, dict[str, Array]]:
    """Algorithm 1 with errors and noise added: the last excess, and the norms U1 asks for.

    In half of the trials both point away from the minimiser, which is the worst direction.
    """
    x = z = y = np.zeros((RUNS, D))
    seen: dict[str, list[Array]] = {"errors": [], "estimates": [], "noises": []}
    away = (np.arange(RUNS) % 2 == 0)[:, None]
    for t in range(T):
        q, b = (s * rng.standard_normal((RUNS, D)) for s in (error, noise))
        outward = (z - problem.best) / np.maximum(norms(z - problem.best), 1e-300)[:, None]
        q = np.where(away, -norms(q)[:, None] * outward, q)
        b = np.where(away, norms(b)[:, None] * outward, b)
        estimate = problem.gradient(x) + q
        weighted = HALVED.eta(t) / beta * estimate - b
        for name, value in zip(seen, (q, estimate, b), strict=True):
            seen[name].append(norms(value))
        x, y, z = nesterov_step(x, z, weighted, t, HALVED, RADIUS)
    return problem.excess(y), {name: np.array(values) for name, values in seen.items()}


@pytest.mark.parametrize("kind", [Quadratics, Linear])
@pytest.mark.parametrize(
    ("beta", "error", "noise"), list(product((1.0, 3.0), (0.0, 0.1, 1.0), (0.0, 0.03, 0.5)))
)
def test_the_pathwise_bound_is_never_violated(
    kind: type[Quadratics] | type[Linear], beta: float, error: float, noise: float
) -> None:
    """300 runs a setting, with projection, half of them adversarial: no run exceeds U1."""
    rng = np.random.default_rng(7)
    problem = kind(rng)
    excess, seen = run(problem, rng, beta, error, noise)
    for start in (2 * RADIUS, float(norms(problem.best).max())):
        upper = pathwise_excess_risk_upper(Geometry(beta, 2 * RADIUS, start), **seen)
        assert upper.shape == (RUNS,)
        assert (excess <= upper + 1e-12).all()
    if error == noise == 0 and kind is Quadratics:
        assert excess.max() > 0.02 * upper.max()


def test_the_pathwise_bound_needs_smoothness_and_its_schedule() -> None:
    """With beta a quarter of the smoothness runs exceed it; eta_t = t + 1 is refused."""
    rng = np.random.default_rng(3)
    excess, seen = run(Quadratics(rng), rng, 0.25, 0.0, 0.0)
    upper = pathwise_excess_risk_upper(Geometry(0.25, 2.0, 2.0), **seen)
    assert (excess > upper).any()
    with pytest.raises(InvalidParameter, match="HALVED"):
        pathwise_excess_risk_upper(Geometry(1.0, 2.0, 2.0, EtaSchedule.LINEAR), **seen)


def test_without_error_and_noise_it_is_nesterov_s_rate() -> None:
    """beta start^2 / (2 eta_{0:T-1}), eta_{0:T-1} = T (T + 1) / 4."""
    nothing = np.zeros(T)
    found = pathwise_excess_risk_upper(Geometry(2.0, 5.0, 3.0), nothing, np.ones(T), nothing)
    assert found == pytest.approx(2 * 9 / 2 / (T * (T + 1) / 4))


def test_every_term_of_the_pathwise_bound() -> None:
    """T = 2, written out: eta = 1/2, 1 and eta_{0:t} = 1/2, 3/2."""
    q, g, b = (0.3, 0.2), (0.7, 1.1), (0.05, 0.4)
    beta, wide, start = 2.0, 3.0, 1.5
    expected = beta / 2 * start**2
    for t, (eta, total) in enumerate([(0.5, 0.5), (1.0, 1.5)]):
        expected += total * (
            q[t] * g[t] / beta + q[t] * b[t] / eta + b[t] * g[t] / eta + beta * b[t] ** 2 / eta**2
        )
        expected += 2 * beta * wide * b[t] + eta * wide * q[t]
    found = pathwise_excess_risk_upper(Geometry(beta, wide, start), q, g, b)
    assert found == pytest.approx(expected / 1.5, rel=1e-14)


def test_theorem_5_1_repaired_and_as_printed() -> None:
    geometry = Geometry(beta=2.0, diameter=4.0, start=1.0, norm=2.0)
    k, f, b = np.array([0.3, 0.2]), np.array([0.4, 0.1]), np.array([0.05, 0.02])
    repaired = excess_risk_bound_5_1(geometry, k, f, b)
    assert repaired == pytest.approx(pathwise_excess_risk_upper(geometry, k, f + k, b))
    linear = replace(geometry, schedule=EtaSchedule.LINEAR)
    printed = 0.0
    for t, (eta, total) in enumerate([(1, 1), (2, 3)]):
        printed += total * (
            2 * k[t] * (f[t] + k[t]) / 2
            + 3 * k[t] * b[t] / eta
            + k[t] * eta * 2 / total
            + 3 * 2 * b[t] * 2 / total
            + 2 * b[t] ** 2 / eta**2
        )
    found = excess_risk_bound_5_1(linear, k, f, b, "paper")
    assert found == pytest.approx(printed / 6 + 2 * 4 / 6, rel=1e-14)


def test_the_high_probability_error_of_the_recursive_gradient() -> None:
    """K_t at Q = 2, B = 9, T = 3, gamma = .01, written out."""
    found = recursive_error_upper(2.0, 9, 3, 0.01)
    written = [2 * math.sqrt(3 * (t + 1) * math.log(1800)) / 3 / ((t + 1) / 2) for t in range(3)]
    assert found == pytest.approx(written, rel=1e-14)


def test_the_error_bound_holds_with_its_probability() -> None:
    """Sums of i.i.d. unit vectors, 4,000 runs: exceeded by at most gamma (it is loose: never)."""
    rng = np.random.default_rng(11)
    steps, batch, gamma = 6, 4, 0.05
    rows = rng.standard_normal((4000, steps, batch, 2))
    rows /= norms(rows)[..., None]
    eta = np.array([HALVED.eta(t) for t in range(steps)])
    errors = norms(np.cumsum(rows.mean(axis=2), axis=1)) / eta
    upper = recursive_error_upper(1.0, batch, steps, gamma)
    assert (errors > upper).any(axis=1).mean() <= gamma
    assert errors.max() > 0.3 * upper.min()


def test_theorem_5_13_repaired_holds_on_average() -> None:
    """Mean excess over 4,000 i.i.d. data sets, plus 5 standard errors, is below the bound.

    False alarms below 1e-6.  f(x, d) = ||x - d||^2 / 2 / 3 on the unit ball, d a unit vector with
    mean m: smooth with 1/3, at most 2/3 steep, F - F* = ||x - m||^2 / 6.
    """
    rng = np.random.default_rng(5)
    runs, batch, steps, beta = 4000, 4, 8, 1.0
    centre = np.array([0.4, 0.0])
    angles = np.where(rng.random((runs, steps, batch)) < 0.7, 0.0, np.pi)
    records = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    noises = np.full(steps, 0.05)
    x = z = y = np.zeros((runs, 2))
    for t in range(steps):
        gradient = (x[:, None] - records[:, t]).mean(axis=1) / 3
        b = rng.standard_normal((runs, 2))
        b *= noises[t] / norms(b)[:, None]
        x, y, z = nesterov_step(x, z, HALVED.eta(t) / beta * gradient - b, t, HALVED, 1.0)
    excess = np.square(y - centre).sum(axis=1) / 6
    upper = excess_risk_bound_5_13(Geometry(beta, 2.0, 1.0), 2 / 3, batch, noises)
    assert excess.mean() + 5 * excess.std() / math.sqrt(runs) < upper.item()


def test_theorem_5_13_written_out() -> None:
    geometry = Geometry(beta=2.0, diameter=4.0, start=1.0, norm=2.0)
    b, lip, batch = np.array([0.05, 0.02]), 1.5, 9
    expected = 2 / 2 * 1.0
    for t, (eta, total) in enumerate([(0.5, 0.5), (1.0, 1.5)]):
        expected += total * (
            2 * lip**2 / 3 / 2
            + 2 * lip / 3 * b[t] / eta
            + lip * b[t] / eta
            + 2 * b[t] ** 2 / eta**2
        )
        expected += 2 * 2 * 4 * b[t]
    found = excess_risk_bound_5_13(geometry, lip, batch, b)
    assert found == pytest.approx(expected / 1.5, rel=1e-13)
    printed = 0.0
    for t, (eta, total) in enumerate([(1, 1), (2, 3)]):
        printed += total * (
            8 * lip**2 / 3 / 2 + 5 * lip * b[t] / eta + 3 * 2 * b[t] * 2 + 2 * b[t] ** 2 / eta**2
        )
    linear = replace(geometry, schedule=EtaSchedule.LINEAR)
    found = excess_risk_bound_5_13(linear, lip, batch, b, "paper")
    assert found == pytest.approx(printed / 6 + 2 * 4 / 6, rel=1e-13)


def test_rates() -> None:
    setting = Rate(n=10_000, dimension=25, epsilon=0.5, lipschitz=2.0, radius=3.0, smoothness=0.5)
    private = 5 / (0.5 * 10_000)
    assert excess_risk_bound_5_8(setting) == pytest.approx(6 * (0.01 + private))
    assert excess_risk_bound_5_8(setting, "paper") == pytest.approx(6 * (100 + private))
    # B = 25, T = 400
    terms = 25 / 1e4 + 25 / (0.5 * 1e6 * 20) + 0.02 + private + 25 / (0.25 * 1e6 * 400)
    assert excess_risk_bound_5_12(setting, 25) == pytest.approx(6 * terms)
    printed = 3 * (1.5 * 625 / 1e8 + 3.5 / 100 + (2 + 1.5 / 5) * private)
    assert excess_risk_bound_5_12(setting, 25, "paper") == pytest.approx(printed)
    with pytest.raises(InvalidParameter, match="sqrt"):
        excess_risk_bound_5_12(setting, 101)


BAD_NORMS = [np.array([]), np.ones((2, 2, 2)), np.array([-1.0]), np.array([np.nan])]


@pytest.mark.parametrize("bad", BAD_NORMS)
def test_what_is_no_norm_is_refused(bad: Array) -> None:
    geometry = Geometry(1.0, 1.0, 1.0)
    with pytest.raises(InvalidParameter):
        pathwise_excess_risk_upper(geometry, bad, bad, bad)
    with pytest.raises(InvalidParameter):
        excess_risk_bound_5_13(geometry, 1.0, 1, bad)


def test_bad_parameters_are_refused() -> None:
    geometry, one = Geometry(1.0, 1.0, 1.0), np.ones(3)
    for wrong in (
        lambda: Geometry(0.0, 1.0, 1.0),
        lambda: Geometry(1.0, math.inf, 1.0),
        lambda: Geometry(1.0, 1.0, math.nan),
        lambda: pathwise_excess_risk_upper(geometry, one, one, np.ones(2)),
        lambda: excess_risk_bound_5_1(geometry, one, one, one, "printed"),  # type: ignore[arg-type]
        lambda: recursive_error_upper(1.0, 1, 3, 0.0),
        lambda: recursive_error_upper(1.0, 0, 3, 0.1),
        lambda: Rate(0, 1, 1.0),
        lambda: Rate(10, 1, math.inf),
        lambda: table1_complexities(0),
        lambda: table1_complexities(2.5),  # type: ignore[arg-type]
        lambda: resqueing_gradients(10, 10, 0.0),
    ):
        with pytest.raises(InvalidParameter):
            wrong()


def test_table_1() -> None:
    """The six rows as printed, at n = 2^16."""
    rows = {row.algorithm: row for row in table1_complexities(2**16)}
    found = {
        name: (
            row.gradients.formula,
            row.batch_steps.formula if row.batch_steps else "",
            row.single_epoch,
            row.convexity_for_privacy,
        )
        for name, row in rows.items()
    }
    assert found == {
        "ours, minimiser inside C": ("2n", "~n^(1/4)", True, False),
        "ours, no assumption": ("2n", "n^(1/2)", True, False),
        "FKT20": ("n", "~n", True, True),
        "ZTC22": ("2n", "n", True, False),
        "ZTOH22": ("~n", "~n^(1/2)", False, True),
        "GLZW24": ("~n^(9/8)", "~n^(1/4)", False, False),
    }
    ours = rows["ours, no assumption"]
    assert (ours.gradients.leading, ours.gradients.exact) == (2**17, True)
    assert ours.batch_steps is not None
    assert (ours.batch_steps.leading, ours.batch_steps.exact) == (256, True)
    assert rows["GLZW24"].gradients.leading == pytest.approx(2**18)
    assert not rows["GLZW24"].gradients.exact
    both = resqueing_gradients(1000, 2000, 1.0)
    assert both.leading == pytest.approx(500 + 1e4)

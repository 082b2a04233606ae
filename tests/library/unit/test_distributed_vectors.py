"""Vectors of clients' noise modulo a number: bends, bounds, checker, runs, audits, bad input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.special import ive
from scipy.stats import norm

import dpaudit as dp
from dpaudit.audit.attack import attack
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.check.theorem import bound
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose, is_infinite
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellamVector,
    curvature,
    theorem,
)
from dpaudit.families.distributed.kernel import (
    DistributedGaussianVectorKernel,
    DistributedSkellamVectorKernel,
    ExactGaussianVectorKernel,
)
from dpaudit.families.tabular import DiscreteGaussianVector
from tests.library.cli.bench import DIGESTS, accept

F = Fraction
SCOPE = dp.central("replace_one")
Gauss, Skellam = DistributedGaussianVector, DistributedSkellamVector
NODES: dict[str, Any] = {
    "few": Gauss("total", F(1, 2), 3),
    "even": Gauss("total", F(1, 2), 4, 2, 3),
    "many": Gauss("total", 1, 30, 5, 4),
    "wide": Gauss("total", 40, 30, 0, 50),
    "skellam": Skellam("total", 1, 30, 5, 4),
    "one": Skellam("total", 3, 1),
    "long": Skellam("total", 100, 4, 0, 90),
}
REACH = 400


def law(node: Any) -> np.ndarray:
    """Masses at -400..400, by convolution in floats or by SciPy's Bessel functions."""
    k = np.arange(-REACH, REACH + 1)
    if isinstance(node, Skellam):
        return np.asarray(ive(k, float(node.total)))
    one = np.exp(-(k**2) / (2 * float(node.variance)))
    one = np.asarray(one / one.sum())
    found = one
    for _ in range(node.left - 1):
        found = np.convolve(found, one)[REACH:-REACH]
    return np.asarray(found)


def mu_of(node: Any) -> float:
    return float(enclose(dp.account(node, SCOPE).step("gdp").value).mid())


@pytest.mark.parametrize("name", NODES)
def test_the_law_bends_no_more_than_is_said(name: str) -> None:
    """Second differences of logs, where masses have digits; and the bound is nearly reached."""
    node = NODES[name]
    allowed = curvature.least_variance(node)
    assert allowed == theorem._allowed(node)
    masses = law(node)
    near = np.abs(np.arange(-REACH, REACH + 1)) <= 6 * math.sqrt(float(node.total))
    logs = np.log(masses[near])
    bend = -np.diff(logs, 2)
    assert bend.max() <= 1 / float(allowed) * (1 + 1e-6) + 1e-9
    assert bend.max() >= 0.98 / float(allowed) - 1e-9


@pytest.mark.first_case
@pytest.mark.parametrize("name", NODES)
def test_normal_noise_of_mu_is_at_least_as_telling_at_every_threshold(name: str) -> None:
    """One coordinate moved by s, s^2 at most the squares: tests noise >= k, of either law."""
    node, masses = NODES[name], law(NODES[name])
    tails = np.cumsum(masses[::-1])[::-1]
    for move in range(1, math.isqrt(int(node.squared)) + 1):
        mu = mu_of(node) * move / math.sqrt(float(node.squared))
        for k in range(-20, 40):
            level, power = tails[REACH + k], tails[REACH + k - move]
            if level > 1e-12 and power < 1 - 1e-12:
                assert norm.isf(level) - norm.isf(power) <= mu + 1e-9


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("kind", [Gauss, Skellam])
def test_moves_of_several_coordinates_are_dominated_too(kind: Any) -> None:
    """(2, 1) and (1, 2), squares of 5, by the outer product of two laws, at six epsilons."""
    node = kind("t", 1, 12, 2, 5)
    masses = law(node)[REACH - 60 : REACH + 61]
    account = dp.account(node, SCOPE)
    second = np.outer(masses, masses)
    for moves in ((2, 1), (1, 2), (-2, 1)):
        first = np.outer(np.roll(masses, moves[0]), np.roll(masses, moves[1]))
        for epsilon in (0.0, 0.2, 0.5, 1.0, 1.5, 2.0):
            delta = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
            found = account.delta(F(str(epsilon)))
            assert delta <= float(found.upper) + 1e-12
            assert found.upper <= (1.1 if kind is Gauss else 3) * delta
            # (2, 1) is what the lower end is of: 5 is 4 and 1.
            assert 0.99 * delta <= found.lower <= delta * (1 + 1e-9)


@pytest.mark.quality
def test_four_coordinates_reach_what_one_does_not() -> None:
    """7 is 4, 1, 1 and 1: one coordinate moved by 2 gave .769 and no more."""
    bound = dp.account(Gauss("t", 1, 90, 0, 7), SCOPE).epsilon("1e-5")
    assert bound.upper * F(999, 1000) < bound.lower < bound.upper < F(105, 100)


def test_without_the_images_the_bound_would_be_false(monkeypatch: pytest.MonkeyPatch) -> None:
    """E of the Poisson sum, set to 0: the law of three halves bends more than that allows."""
    node = Gauss("left out", F(1, 2), 3)
    monkeypatch.setattr(curvature, "_gaussian_bend", lambda n: 1 / enclose(n.total))
    curvature.least_variance.cache_clear()
    bend = -np.diff(np.log(law(node)[REACH - 4 : REACH + 5]), 2)
    assert bend.max() > 1 / float(curvature.least_variance(node)) * (1 + 1e-4)
    curvature.least_variance.cache_clear()


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("calculus", ["gdp", "zcdp", "profile"])
def test_the_checker_states_the_same(name: str, calculus: str) -> None:
    step = dp.account(NODES[name], SCOPE).step(calculus)
    assert bound(calculus, NODES[name], []) == step.value


def test_the_checker_refuses_a_variance_that_bends_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An accountant whose bend is 1% too small states what the checker does not."""
    node = Skellam("cheated", 7, 9)
    right = curvature._skellam_bend
    monkeypatch.setattr(curvature, "_skellam_bend", lambda v: right(v) * 99 / 100)
    assert bound("gdp", node, []) != dp.account(node, SCOPE).step("gdp").value
    curvature.least_variance.cache_clear()


def divergence(masses: np.ndarray, move: int, order: int) -> float:
    p, q = masses[60 + move : -60], masses[60 : -60 - move]
    return math.log(float((p * (p / q) ** (order - 1)).sum())) / (order - 1)


@pytest.mark.parametrize("name", ["many", "skellam"])
def test_renyi_divergences_are_below_ours_and_ours_below_the_papers(name: str) -> None:
    """(2, 0, ...) and (1, 1, 1, 1), orders 2 to 16; both papers' theorems for the same moves.

    Kairouz, Liu, Steinke 2021, Theorem 1; Agarwal, Kairouz, Liu 2021, Theorem 3.5 with l1-norm 4.
    """
    node, masses = NODES[name], law(NODES[name])[REACH - 120 : REACH + 121]
    half = mu_of(node) ** 2 / 2
    variance = float(node.total)
    for order in range(2, 17):
        ours = order * half
        for found in (divergence(masses, 2, order), 4 * divergence(masses, 1, order)):
            assert 0.7 * ours <= found <= ours
        if name == "skellam":
            more = min(((2 * order - 1) * 4 + 24) / (4 * variance**2), 12 / (2 * variance))
            assert ours <= (order * 4 / (2 * variance) + more) * 1.04
    if name == "many":
        tau = 10 * sum(math.exp(-2 * math.pi**2 * k / (k + 1)) for k in range(1, node.left))
        dimension = 4
        stated = min(4 / variance + tau * dimension / 2, (2 / math.sqrt(variance) + tau * 2) ** 2)
        assert half <= stated / 2


def test_many_clients_are_as_one_vector_of_discrete_gaussian_noise() -> None:
    found = dp.account(Gauss("t", 10, 100, 10, 100), SCOPE).epsilon("1e-5")
    whole = dp.account(DiscreteGaussianVector("t", 900, 100, ()), SCOPE).epsilon("1e-5")
    assert float(found.upper) == pytest.approx(float(whole.upper), rel=1e-6)
    alone = dp.account(DistributedGaussian("t", 10, 100, 10, 10), SCOPE).epsilon("1e-5")
    assert alone.lower <= found.lower <= alone.upper <= found.upper * F(1001, 1000)
    assert float(found.upper - found.lower) < 0.002


def test_drop_outs_cost_and_a_modulus_is_free() -> None:
    ends = [mu_of(Gauss("t", 10, 100, gone, 100)) for gone in (0, 10, 30)]
    assert ends == sorted(ends)
    assert len(set(ends)) == 3
    assert mu_of(Gauss("t", 10, 100, 10, 100, 64)) == ends[1]
    # What wraps is not known to reach the law of what does not.
    assert dp.account(Gauss("t", 10, 100, 10, 100, 64), SCOPE).epsilon("1e-5").lower == 0


def test_too_little_noise_has_no_bound_and_says_so() -> None:
    node = Skellam("t", F(1, 10), 2)
    assert is_infinite(dp.account(node, SCOPE).step("gdp").value)
    assert is_infinite(dp.account(node, SCOPE).step("zcdp").value)
    assert math.isinf(float(dp.account(node, SCOPE).epsilon("1e-5").upper))


# --- runs and audits -----------------------------------------------------------------------------


def whole(rows: Any) -> Any:
    """Rows that are cut to norm 5, their entries cut to whole numbers: rounding could lengthen."""
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.trunc(rows * np.minimum(1, 5 / np.maximum(norms, 1e-300)))[None]


@dataclass(frozen=True)
class Totals:
    """Sums of clipped vectors of two whole numbers of all clients."""

    node: dp.Node

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Any:
        query = dp.ClippedMean(whole, radius=5, divisor=1)
        return curator.release("total", query)


class EverybodyStays(DistributedGaussianVectorKernel):
    """Shares that count on all clients, of whom a third drop out."""

    def __init__(self, leaf: Any, trials: int) -> None:
        fewer = leaf.variance * leaf.left / leaf.clients
        super().__init__(leaf, trials)
        self._less = DistributedGaussianVectorKernel(
            Gauss(leaf.label, fewer, leaf.clients, leaf.dropouts, leaf.squared), trials
        )

    def draw(self, count: int, bits: Any) -> Any:
        return self._less.draw(count, bits)


class TooFewSkellams(DistributedSkellamVectorKernel):
    """Poisson means of a quarter of the variance."""

    def draw(self, count: int, bits: Any) -> Any:
        rng = np.random.default_rng([int(word) for word in bits(4)])
        quarter = self._variance / 4
        return rng.poisson(quarter, count) - rng.poisson(quarter, count)


# One coordinate moves by 6 and another by 8, a sum of squares of 100; sums wrap at 32 and at 63.
AUDITED: dict[str, Any] = {
    "plain": Gauss("total", 8, 12, 4, 100),
    "wrapped": Gauss("total", 8, 12, 4, 100, 32),
    "far": Gauss("total", 4000, 12, 4, 100, 2**20),
    "skellam": Skellam("total", 8, 12, 4, 100, 63),
    "skellam far": Skellam("total", 4000, 12, 4, 100),
}


def suite_of(node: Any, **options: Any) -> tuple[dp.Mechanism, dp.Suite]:
    rows = np.zeros((6, 2))
    rows[0] = 3, 4
    pair = dp.Neighbours(dp.Records(rows), dp.Records(-rows), dp.Adjacency.REPLACE_ONE, "signs")
    claim = dp.Claim(dp.ApproxDP(9, "1e-3"), by="a test")
    of = dp.Mechanism("total", "Total", "a test", Totals(node), SCOPE, [claim])
    return of, dp.Suite("total", of.program, pair, trials=2000, **options)


@pytest.mark.parametrize("name", AUDITED)
def test_right_noise_is_not_flagged_and_its_scores_are_ratios(name: str) -> None:
    """False alarms: 1e-4; E exp(-score) is 1 under the first data set, to five standard errors."""
    of, suite = suite_of(AUDITED[name])
    found = attack(of, suite, seed=5, trials=4000, error=1e-4)
    assert {f.status for f in found.findings} <= {"held", "not_run"}
    assert found.attack == "exact"
    assert found.test is not None
    one, other = np.asarray(found.test.alternative), np.asarray(found.test.null)
    turned = []
    for sign in (1, -1):
        both = np.exp(-sign * one), np.exp(sign * other)
        turned.append(all(abs(r.mean() - 1) <= 5 * r.std() / math.sqrt(len(r)) for r in both))
    assert any(turned)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("plain", EverybodyStays),
        ("wrapped", EverybodyStays),
        ("far", EverybodyStays),
        ("skellam far", TooFewSkellams),
    ],
)
def test_too_little_noise_is_found(name: str, bug: type) -> None:
    of, suite = suite_of(AUDITED[name], kernels={type(AUDITED[name]): bug})
    found = attack(of, suite, seed=5, trials=4000, error=1e-4)
    assert "variance of total" in {f.check for f in found.findings if f.status == "broken"}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", AUDITED)
def test_a_total_is_certified_and_its_certificate_confirmed(name: str) -> None:
    of, suite = suite_of(AUDITED[name])
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5, trials=1000))[0]
    assert found.certificate["predicate"]["verdict"]["status"].startswith("certified")
    assert accept(found.certificate).unconfirmed == ()


@pytest.mark.parametrize("kind", ["draws", "exact", "skellam"])
def test_draws_are_of_the_law_also_modulo(kind: str) -> None:
    """Chi-square over residues that are seen at least five times on average: z below 5."""
    node: Any = Gauss("t", F(1, 2), 5, 2, 1, 6)
    if kind == "skellam":
        node = Skellam("t", 2, 3, 1, 1, 6)
    classes = {
        "draws": DistributedGaussianVectorKernel,
        "exact": ExactGaussianVectorKernel,
        "skellam": DistributedSkellamVectorKernel,
    }
    kernel = classes[kind](node, 20_000)
    at = np.full((20_000, 2), 2.0)
    drawn = kernel.sample(at, np.ones(20_000), np.random.default_rng(3))
    assert set(np.unique(drawn)) == {-3.0, -2.0, -1.0, 0.0, 1.0, 2.0}
    masses = law(node)
    k = np.arange(-REACH, REACH + 1)
    expected = np.array([masses[(k + 2 - r) % 6 == 0].sum() for r in range(-3, 3)]) * 40_000
    seen = np.array([(drawn == r).sum() for r in range(-3, 3)])
    squares = float(((seen - expected) ** 2 / expected).sum())
    assert abs(squares - 6) <= 5 * math.sqrt(12)
    logs = kernel.log_density(drawn, at, np.ones(20_000))
    stated = np.log(expected / 40_000)[(drawn + 3).astype(int)].sum(axis=1)
    np.testing.assert_allclose(logs, stated, atol=1e-9)


@pytest.mark.parametrize("kind", [Gauss, Skellam])
def test_formulas_of_much_noise_are_its_log_masses(kind: Any) -> None:
    node = kind("t", 3000, 4)
    kernel = DistributedSkellamVectorKernel if kind is Skellam else DistributedGaussianVectorKernel
    k = np.arange(-600, 601).astype(float)
    known = np.log(ive(np.abs(k), 12_000)) if kind is Skellam else None
    if known is None:
        known = -(k**2) / 24_000 - math.log(math.sqrt(2 * math.pi * 12_000))
    np.testing.assert_allclose(kernel(node, 1).log_mass(k), known, atol=1e-7)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Gauss, Skellam])
def test_what_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(InvalidParameter, match="dropouts = 5: expected fewer than the clients"):
        kind("t", 1, 5, 5)
    with pytest.raises(InvalidParameter, match="variance"):
        kind("t", 0, 5)
    with pytest.raises(InvalidParameter, match="expected a sum of at most"):
        kind("t", 10**9, 10)
    with pytest.raises(InvalidParameter, match="a number, not a symbol"):
        kind("t", sympy.Symbol("x", positive=True), 5)
    with pytest.raises(InvalidParameter, match="modulus = 1: expected 0 or at least 2"):
        kind("t", 1, 5, 0, 1, 1)
    with pytest.raises(InvalidParameter, match="squared"):
        kind("t", 1, 5, 0, F(1, 2))

"""Sums of clients' noise under secure aggregation: laws, bounds, checker, audits, bad input."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from scipy.stats import skellam

import dpaudit as dp
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.audit.attack import attack
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.check.theorem import bound
from dpaudit.errors import InvalidParameter
from dpaudit.families.distributed import DistributedGaussian, DistributedSkellam, rules
from dpaudit.families.distributed.kernel import DistributedGaussianKernel, DistributedSkellamKernel
from dpaudit.families.distributed.masses import masses_of
from dpaudit.families.distributed.theorem import _masses
from dpaudit.kernels.random_bits import bits_of
from dpaudit.kernels.samplers import gaussian_units
from dpaudit.pairs import Atoms
from tests.library.cli.bench import DIGESTS, accept

F = Fraction
SCOPE = dp.central("replace_one")
UNIT = 10**40
NODES: dict[str, Any] = {
    "few": DistributedGaussian("total", F(1, 4), 3),
    "many": DistributedGaussian("total", 1, 30, 5, 2),
    "wide": DistributedGaussian("total", 40, 30),
    "faint": DistributedSkellam("total", F(1, 10), 2),
    "skellam": DistributedSkellam("total", 1, 30, 5, 2),
}


def law(node: Any) -> np.ndarray:
    """Masses at -600..600 by convolution in floats, or by SciPy: an independent computation."""
    k = np.arange(-600, 601)
    if isinstance(node, DistributedSkellam):
        return np.asarray(skellam.pmf(k, float(node.total) / 2, float(node.total) / 2))
    one = np.exp(-(k**2) / (2 * float(node.variance)))
    one /= one.sum()
    found = one
    for _ in range(node.left - 1):
        found = np.convolve(found, one)[600:-600]
    return found


def delta_of(node: Any, epsilon: float) -> float:
    p = law(node)
    q = np.roll(p, int(node.sensitivity))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("name", NODES)
def test_masses_are_those_of_the_sum_and_the_checkers_are_the_same(name: str) -> None:
    """Polynomials of balls and Bessel functions, against Fourier sums, and floats."""
    node = NODES[name]
    found = masses_of(node)
    assert list(found) == _masses(node)
    known = law(node)[600 : 600 + len(found)]
    np.testing.assert_allclose(np.array(found, dtype=float) / UNIT, known, atol=1e-14)
    total = 2 * sum(found) - found[0]
    assert UNIT - 3 * len(found) < total <= UNIT


@pytest.mark.first_case("name")
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0, 2.0])
def test_deltas_hold_the_truth(name: str, epsilon: float) -> None:
    known = dp.account(NODES[name], SCOPE).delta(F(str(epsilon)))
    truth = delta_of(NODES[name], epsilon)
    assert float(known.lower) <= truth + 1e-13
    assert truth - 1e-13 <= float(known.upper)
    assert float(known.upper) <= 1.03 * truth + 1e-12


@pytest.mark.parametrize("name", NODES)
def test_pairs_hold_every_smaller_move_and_sum_to_one(name: str) -> None:
    """The hockey-stick divergence of the pair from above, of every move up to the largest."""
    node = NODES[name]
    losses = dp.account(node, SCOPE).step("profile").value
    (above,), (below,) = losses.remove, losses.reached_remove
    p = law(node)
    for pair in (above, below):
        assert isinstance(pair, Atoms)
        assert sum(a for a, _ in pair.outcomes) == sum(b for _, b in pair.outcomes) == 1
    for x in (0.3, 1.0, 1.5, 4.0):
        sums = [
            sum(max(float(a) - x * float(b), 0.0) for a, b in pair.outcomes)
            for pair in (above, below)
        ]
        for move in range(1, int(node.sensitivity) + 1):
            for sign in (1, -1):
                true = float(np.maximum(p - x * np.roll(p, sign * move), 0).sum())
                assert true <= sums[0] + 1e-13
        assert sums[1] <= true + 1e-13


@pytest.mark.parametrize("name", NODES)
def test_the_checker_states_the_same_pairs(name: str) -> None:
    step = dp.account(NODES[name], SCOPE).step("profile")
    assert bound("profile", NODES[name], []) == step.value


def truth_of_skellam(node: Any, delta: str) -> float:
    """Epsilon by Bessel functions at 60 digits, and by halving."""
    with mpmath.workdps(60):
        total, move = mpmath.mpf(int(node.total)), int(node.sensitivity)
        half = [mpmath.exp(-total) * mpmath.besseli(k, total) for k in range(250)]
        pairs = [(half[abs(k - move)], half[abs(k)]) for k in range(-200, 200)]
        low, high = mpmath.mpf(0), mpmath.mpf(2)
        while high - low > mpmath.mpf(10) ** -15:
            middle = (low + high) / 2
            ratio = mpmath.exp(middle)
            lost = mpmath.fsum(p - ratio * q for p, q in pairs if p > ratio * q)
            low, high = (middle, high) if lost > mpmath.mpf(delta) else (low, middle)
        return float(high)


@pytest.mark.quality
def test_what_is_reached_at_tiny_deltas_is_not_above_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Masses are units of 1e-40: what rounding took away made the first outcome the loudest."""
    deltas = ("1e-33", "1e-38", "1e-50")
    node = DistributedSkellam("t", 1, 100, 10)
    true = [truth_of_skellam(node, delta) for delta in deltas]

    def reached(node: Any) -> list[float]:
        return [float(dp.account(node, SCOPE).epsilon(delta).lower) for delta in deltas]

    found = reached(node)
    assert all(0.85 * t < f <= t for f, t in zip(found, true, strict=True))
    assert float(dp.account(node, SCOPE).epsilon(deltas[0]).upper) >= true[0]
    claim = Claim(dp.ApproxDP(2, F("1e-45")), by="a test")
    assert claim.check(node, SCOPE).outcome is not Outcome.REFUTED
    monkeypatch.setattr(rules, "_rising", lambda outcomes: outcomes)
    named_otherwise = reached(replace(node, label="u"))  # nothing is known of it yet
    assert max(f - t for f, t in zip(named_otherwise, true, strict=True)) > 1


def test_many_clients_are_as_private_as_one_discrete_gaussian() -> None:
    """Kairouz, Liu, Steinke 2021, Theorem 1: apart by at most 10 sum exp(-2 pi^2 s^2 k / (k+1)).

    For 90 clients of variance 1 that is 10 (89) e^-9.9 < .05 in the loss; it is far less.
    """
    ours = dp.account(DistributedGaussian("t", 1, 100, 10), SCOPE).epsilon("1e-5")
    whole = dp.account(dp.DiscreteGaussian("t", 90), SCOPE).epsilon("1e-5")
    assert float(ours.upper) == pytest.approx(float(whole.upper), rel=1e-6)
    skellams = dp.account(DistributedSkellam("t", 1, 100, 10), SCOPE).epsilon("1e-5")
    assert abs(float(skellams.upper / whole.upper) - 1) < 0.03


def test_the_renyi_bound_of_skellam_noise_holds_here_too() -> None:
    """Agarwal, Kairouz, Liu 2021, Theorem 3.5, at orders 2 to 16, summed over the law."""
    node = DistributedSkellam("t", 1, 25, 0, 2)
    p, q = law(node)[540:-540], law(node)[538:-542]
    for order in range(2, 17):
        divergence = math.log(float((p * (p / q) ** (order - 1)).sum())) / (order - 1)
        stated = order * 4 / 50 + min(((2 * order - 1) * 4 + 12) / (4 * 625), 6 / 50)
        assert 0.8 * order * 4 / 50 <= divergence <= stated


def test_more_drop_outs_leave_less_noise() -> None:
    found = [
        dp.account(DistributedSkellam("t", 1, 40, gone), SCOPE).epsilon("1e-5")
        for gone in (0, 10, 30)
    ]
    assert found[0].upper < found[1].lower <= found[1].upper < found[2].lower


# --- runs and audits -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Total:
    """The sum of clipped whole numbers of all clients."""

    node: dp.Node

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Any:
        query = dp.ClippedMean(lambda v: v[None], radius=1, divisor=1)
        return curator.release("total", query)


class EverybodyStays(DistributedGaussianKernel):
    """Noise of a share that counts on all clients, of whom some drop out."""

    def draw(self, count: int, bits: Any) -> Any:
        left = self.leaf.left * self.leaf.left // int(self.leaf.clients)
        drawn = gaussian_units([F(1)], np.zeros(count * left, dtype=np.int64), bits)
        return drawn.reshape(count, left).sum(axis=1)


class TooFewSkellams(DistributedSkellamKernel):
    """Poisson means of a quarter of the variance."""

    def draw(self, count: int, bits: Any) -> Any:
        rng = np.random.default_rng([int(word) for word in bits(4)])
        quarter = float(self.leaf.total) / 4
        return rng.poisson(quarter, count) - rng.poisson(quarter, count)


def suite_of(node: Any, **options: Any) -> tuple[dp.Mechanism, dp.Suite]:
    rows = np.zeros((6, 1))
    rows[0] = 1
    other = -rows
    pair = dp.Neighbours(dp.Records(rows), dp.Records(other), dp.Adjacency.REPLACE_ONE, "1 or -1")
    claim = dp.Claim(dp.ApproxDP(4, "1e-3"), by="a test")
    of = dp.Mechanism("total", "Total", "a test", Total(node), SCOPE, [claim])
    return of, dp.Suite("total", of.program, pair, trials=2000, **options)


AUDITED = {
    "gaussian": DistributedGaussian("total", 1, 12, 4, 2),
    "skellam": DistributedSkellam("total", 1, 12, 4, 2),
}


@pytest.mark.parametrize("name", AUDITED)
def test_right_noise_is_not_flagged_and_its_scores_are_ratios(name: str) -> None:
    """False alarms: 1e-4; E exp(-score) is 1 under the first data set, to five standard errors."""
    of, suite = suite_of(AUDITED[name])
    found = attack(of, suite, seed=5, trials=4000, error=1e-4)
    assert {f.status for f in found.findings} <= {"held", "not_run"}
    assert found.attack == "exact"
    assert found.test is not None
    ratios = np.exp(-np.asarray(found.test.alternative))
    spread = float(ratios.std() / math.sqrt(len(ratios)))
    other = np.exp(np.asarray(found.test.null))
    more = float(other.std() / math.sqrt(len(other)))
    near = abs(ratios.mean() - 1) <= 5 * spread, abs(other.mean() - 1) <= 5 * more
    reverse = np.exp(np.asarray(found.test.alternative)), np.exp(-np.asarray(found.test.null))
    turned = [abs(r.mean() - 1) <= 5 * r.std() / math.sqrt(len(r)) for r in reverse]
    assert all(near) or all(turned)


@pytest.mark.parametrize(
    ("name", "bug"), [("gaussian", EverybodyStays), ("skellam", TooFewSkellams)]
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


def test_draws_are_of_the_law() -> None:
    """Chi-square over values that are seen at least five times on average: z below 5."""
    for node, kind in (
        (NODES["few"], DistributedGaussianKernel),
        (NODES["faint"], DistributedSkellamKernel),
    ):
        drawn = kind(node, 1).draw(20_000, bits_of(np.random.default_rng(3)))
        expected = 20_000 * law(node)
        kept = expected >= 5
        seen = np.array([(drawn == k).sum() for k in np.arange(-600, 601)[kept]])
        squares = float(((seen - expected[kept]) ** 2 / expected[kept]).sum())
        assert abs(squares - kept.sum()) <= 5 * math.sqrt(2 * kept.sum())


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DistributedGaussian, DistributedSkellam])
def test_what_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(InvalidParameter, match="dropouts = 5: expected fewer than the clients"):
        kind("t", 1, 5, 5)
    with pytest.raises(InvalidParameter, match="variance"):
        kind("t", 0, 5)
    with pytest.raises(InvalidParameter, match="variance = 1001: expected a sum of at most 10000"):
        kind("t", 1001, 10)
    with pytest.raises(InvalidParameter, match="a number, not a symbol"):
        kind("t", sympy.Symbol("x", positive=True), 5)
    with pytest.raises(InvalidParameter, match="clients"):
        kind("t", 1, F(5, 2))
    with pytest.raises(InvalidParameter, match="sensitivity"):
        kind("t", 1, 5, 0, 0)

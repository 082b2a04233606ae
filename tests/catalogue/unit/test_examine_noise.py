"""Kernels that are wrong, and whose own residuals agree with them; right ones are left alone.

False alarms of the right ones: at most 1e-10 each.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine
from dpaudit.check.assumptions import DRAWN
from dpaudit.errors import CertificateRejected
from dpaudit.families.additive.kernel import GaussianKernel, LaplaceKernel
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.families.correlated.kernel import CorrelatedGaussianKernel
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.kernels.base import KERNELS, kernel_of
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from mechanisms.papers.user_level import catalogue
from tests.support import own_leaves
from tests.support.examined import mechanism

ROUNDS = 6


class Means:
    """As many noisy means as are declared, of four coordinates or one."""

    def __init__(self, declared: Node, width: int = 4, norm: str = "l2") -> None:
        self.declared, self.width, self.norm = declared, width, norm

    def declaration(self, scope: dp.Scope) -> Node:
        return self.declared

    def run(self, curator: dp.Curator) -> list[Array]:
        query: Any = dp.ClippedMean(
            lambda values: values[None, :, : self.width],
            1.0,
            divisor=20,
            norm=self.norm,  # type: ignore[arg-type]
        )
        return [curator.release("mean", query) for _ in range(ROUNDS)]


GAUSSIAN = dp.Repeat(dp.Gaussian("mean", noise_multiplier=3), ROUNDS)
TREE = CorrelatedGaussian(
    "mean", 3, rounds=ROUNDS, strategy="tree", participation=Participation(ROUNDS, 1)
)


def drawn(program: Means) -> tuple[str, str]:
    """Status and detail of the check of noise drawn alone."""
    found = examine(mechanism("noise", program, "zero_out"), seed=5)
    (row,) = (f for f in found.findings if f.check == DRAWN)
    return row.status, row.detail


class OwnResidual(GaussianKernel):
    """The residual is what the wrong sample was made of."""

    seen = 0

    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        return np.asarray(rng.standard_normal(shape))

    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        self.seen += 1
        return np.asarray(values + scale[:, None] * self.wrong(values.shape, rng))

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        return np.random.default_rng(len(released)).standard_normal(values.shape)


class HalfTheNodes(OwnResidual):
    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        return np.asarray(rng.standard_normal(shape) * (np.arange(shape[1]) % 2))


class OneRoundShort(OwnResidual):
    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        return np.asarray(rng.standard_normal(shape) * (self.seen != ROUNDS - 1))


class SeedARound(OwnResidual):
    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        return np.asarray(np.random.default_rng(self.seen).standard_normal(shape))


class OneForAll(OwnResidual):
    """The same number for every coordinate."""

    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        return np.asarray(np.repeat(rng.standard_normal((shape[0], 1)), shape[1], axis=1))


class Kept(OwnResidual):
    """The first round's noise in all rounds."""

    noise: Any = None

    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        if self.noise is None:
            self.noise = rng.standard_normal(shape)
        return np.asarray(self.noise)


class RootTwo(OwnResidual):
    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        return np.asarray(rng.standard_normal(shape) / np.sqrt(2))


class QuietAlone(OwnResidual):
    """Half of the noise where there is one trial."""

    def wrong(self, shape: tuple[int, ...], rng: Any) -> Array:
        return np.asarray(rng.standard_normal(shape) * (0.5 if shape[0] == 1 else 1.0))


class SilentAtZero(OwnResidual):
    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        noisy = super().sample(values, scale, rng)
        return np.where((values == 0).all(axis=1, keepdims=True), values, noisy)


@pytest.mark.quality
def test_right_noise_is_left_alone() -> None:
    assert [drawn(Means(declared))[0] for declared in (GAUSSIAN, TREE)] == ["held"] * 2


WRONG = (
    HalfTheNodes,
    OneRoundShort,
    SeedARound,
    OneForAll,
    Kept,
    RootTwo,
    QuietAlone,
    SilentAtZero,
)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_noise_of_a_declared_gaussian(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_of(dp.Gaussian("mean", noise_multiplier=1))
    monkeypatch.setitem(KERNELS, dp.Gaussian, kind)
    status, detail = drawn(Means(GAUSSIAN))
    assert status == "broken"
    assert "release 'mean'" in detail
    assert "tests/catalogue/unit/test_examine_noise.py:" in detail


@pytest.mark.quality
def test_wrong_noise_of_a_declared_laplace(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = dp.Repeat(dp.Laplace("mean", noise_multiplier=3), ROUNDS)
    assert drawn(Means(declared, norm="l1"))[0] == "held"

    class Normal(LaplaceKernel):
        def sample(self, values: Array, scale: Array, rng: Any) -> Array:
            return np.asarray(
                values + np.sqrt(2) * scale[:, None] * rng.standard_normal(values.shape)
            )

    monkeypatch.setitem(KERNELS, dp.Laplace, Normal)
    status, detail = drawn(Means(declared, norm="l1"))
    assert status == "broken"
    assert "shape" in detail


class OneLevelShort(CorrelatedGaussianKernel):
    """The node of rounds 1 to 4 carries no noise of its own, and the residual says that it does."""

    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        whole = self._round == 4
        released = super().sample(values, 0 * scale if whole else scale, rng)
        self._scale = np.array(scale)
        return released

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        return np.random.default_rng(self._round).standard_normal(values.shape)


class Unrelated(CorrelatedGaussianKernel):
    """Every prefix with fresh noise of one node: the right variance of the first alone."""

    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        released = self.centre(values) + scale[:, None] * rng.standard_normal(values.shape)
        self._remember(values, scale, np.zeros_like(values), np.zeros_like(values))
        return np.asarray(released)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("kind", [OneLevelShort, Unrelated])
def test_wrong_noise_of_a_tree(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_of(TREE)
    monkeypatch.setitem(KERNELS, CorrelatedGaussian, kind)
    status, detail = drawn(Means(TREE))
    assert status == "broken"
    # Its law is restated: nothing but the draws may be wrong.
    assert "log_density" not in detail


@pytest.mark.first_case
@pytest.mark.parametrize(
    "leaf",
    [own_leaves.OwnStaircase("mean", 1), own_leaves.Cauchy("mean", 2)],
    ids=["staircase", "cauchy"],
)
def test_somebody_elses_noise_is_held_against_its_density(
    leaf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Means(dp.Repeat(leaf, ROUNDS), width=1, norm="l1")
    assert drawn(program)[0] == "held"
    right = KERNELS[type(leaf)]

    class Halved(right):  # type: ignore[misc, valid-type]
        """Half of the noise that its density says, and a residual that agrees."""

        def sample(self, values: Array, scale: Array, rng: Any) -> Array:
            return np.asarray((values + super().sample(values, scale, rng)) / 2)

        def residual(self, released: Array, values: Array, scale: Array) -> Array:
            return np.asarray(super().residual(2 * released - values, values, scale))

    monkeypatch.setitem(KERNELS, type(leaf), Halved)
    status, detail = drawn(program)
    assert status == "broken"
    assert ".sample, or the log_density or residual that it is held against, is wrong" in detail


class WholeCount:
    """A count with exact noise."""

    def declaration(self, scope: dp.Scope) -> Node:
        return DiscreteLaplace("count", 2)

    def run(self, curator: dp.Curator) -> Array:
        rows = dp.clipped_sum(lambda values: np.ones((1, len(values), 1)), 1, norm="l1")
        return curator.release("count", rows)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("seed", "status"), [(None, "enforced"), (3, "declared")])
def test_whose_bits_a_run_drew_is_what_its_certificate_says(seed: int | None, status: str) -> None:
    case = replace(
        mechanism("count", WholeCount(), "add_remove"),
        claims=(dp.Claim(dp.PureDP("0.5"), by="dpaudit's tests"),),
        records=lambda: dp.Records(np.ones((5, 1))),
    )
    certificate = dp.certify(case, seed=seed, trials=200)
    rows = {row["id"]: row for row in certificate.content["predicate"]["assumptions"]}
    assert (rows["random_bits"]["status"], rows["real_arithmetic"]["status"]) == (
        status,
        "enforced",
    )
    wrong = {"enforced": "declared", "declared": "enforced"}[status]
    forged = copy.deepcopy(certificate.content)
    for row in forged["predicate"]["assumptions"]:
        if row["id"] == "random_bits":
            row["status"] = wrong
    with pytest.raises(CertificateRejected, match=r"random_bits|digest"):
        dp.verify(forged)


@pytest.mark.quality
def test_a_value_that_is_packed_is_drawn_around_as_it_is() -> None:
    """The mean of random inliers: their number, chances and points in one vector."""
    found = examine(catalogue.outlier_removed_mean_random, seed=5)
    (row,) = (f for f in found.findings if f.check == DRAWN)
    assert row.status == "held"

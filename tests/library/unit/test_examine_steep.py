"""The program on a loss as steep as its clips: for which programs there is one, and what it shows.

A logistic loss of rows in the unit ball reaches a quarter of the clip here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import Examination, Shape, examine
from dpaudit.audit.examine.steep import Quadratic, holds_loss, on_quadratics, steeper
from dpaudit.certificate.order import Options, Order, plan
from dpaudit.kernels.query import Array
from tests.support.examined import OwnMean, mechanism

SIZE, CLIP = 20, 4.0
FOUND = Examination(shape=Shape(SIZE, (3,)))


@dataclass(frozen=True)
class Unit:
    """The logistic loss of rows that are scaled into the unit ball."""

    def dimension(self, features: int) -> int:
        return features

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, features))

    def values(self, parameters: Array, records: Array) -> Array:
        raise NotImplementedError

    def gradients(self, parameters: Array, records: Array) -> Array:
        rows = records[:, :-1] / np.maximum(1, np.linalg.norm(records[:, :-1], axis=1))[:, None]
        sign = np.where(records[:, -1] > 0, 1.0, -1.0)
        slopes = -sign / (1 + np.exp(sign * (parameters @ rows.T)))
        return np.asarray(slopes[..., None] * rows)


@dataclass(frozen=True)
class Longer:
    """A clipped mean, times a number of the records unless it is the mean ``alone``."""

    mean: dp.ClippedMean
    alone: bool
    norm: str = "l2"

    def sensitivity(self, adjacency: Any, size: int) -> Array:
        return self.mean.sensitivity(adjacency, size)

    def value(self, records: dp.Records, chosen: Any = None) -> Array:
        share = 1.0 if self.alone else np.tanh(records.values.sum())
        return np.asarray(share * self.mean.value(records, chosen))


@dataclass(frozen=True)
class Descent:
    """Three steps of descent; ``kind``: whose code clips, or what the declaration says."""

    loss: Any = Unit()
    kind: str = ""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        if self.kind == "of this loss" and not isinstance(self.loss, Unit):
            return dp.Repeat(dp.Gaussian("step", noise_multiplier=3), 3)
        node = dp.Repeat(dp.Gaussian("step", noise_multiplier=2), 3)
        if self.kind == "assuming":
            return dp.Assuming(
                node, dp.Assumption("public_bound", "its bound is public", "declared")
            )
        return node

    def run(self, curator: dp.Curator) -> Array:
        at = self.loss.initial(2, curator.trials, 0)
        for _ in range(3):
            gradients = partial(self.loss.gradients, at)
            query: Any = dp.ClippedMean(gradients, CLIP, divisor=SIZE)
            if self.kind == "own clip":
                query = OwnMean(lambda records, _, query=query: query.value(records), CLIP)
            if self.kind in ("of the mean", "of the mean and the records"):
                query = Longer(query, self.kind == "of the mean")
            at = at - curator.release("step", query)
        return at


def case(program: Any) -> dp.Mechanism:
    return replace(mechanism("descent", program), claims=(dp.Claim(dp.GDP(2), by="a test"),))


def test_the_gradient_is_that_of_the_loss() -> None:
    rng, loss, step = np.random.default_rng(1), Quadratic(), 1e-6
    at, rows = rng.normal(size=(2, 3)), rng.normal(size=(5, 4))
    for batch in (rows, np.stack([rows, 2 * rows])):
        found = loss.gradients(at, batch)
        for place in range(3):
            moved = step * np.eye(3)[place]
            slope = (loss.values(at + moved, batch) - loss.values(at - moved, batch)) / (2 * step)
            np.testing.assert_allclose(found[..., place], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.quality
def test_it_reaches_the_clip_that_the_own_loss_does_not() -> None:
    examination = examine(case(Descent()), seed=1)
    assert examination.reach[0] < 0.3
    assert not examination.full
    made = steeper(case(Descent()), examination, 1)
    assert made is not None
    assert made.reach == pytest.approx(1.0, rel=1e-3)
    assert made.program == Descent(Quadratic())


def test_a_function_of_clipped_means_has_one() -> None:
    made = steeper(case(Descent(kind="of the mean")), FOUND, 1)
    assert made is not None
    assert made.reach == pytest.approx(1.0, rel=1e-2)


@pytest.mark.parametrize(
    "kind", ["own clip", "of this loss", "assuming", "of the mean and the records"]
)
def test_a_guarantee_that_may_be_of_some_losses_alone_has_none(kind: str) -> None:
    assert steeper(case(Descent()), FOUND, 1) is not None
    assert steeper(case(Descent(kind=kind)), FOUND, 1) is None


@pytest.mark.quality
def test_a_pair_that_moves_all_that_is_declared_needs_none() -> None:
    assert steeper(case(Descent()), replace(FOUND, full=True), 1) is None
    whole = examine(case(Descent(Quadratic())), seed=1)
    assert whole.full


def test_losses_are_found_in_fields_of_fields() -> None:
    @dataclass(frozen=True)
    class Outer:
        parts: tuple[Any, ...]
        number: int = 3

    nested = Outer((Descent(), "text"))
    assert on_quadratics(nested) == Outer((Descent(Quadratic()), "text"))
    none = Outer(("text", Unit))
    assert on_quadratics(none) is none
    assert holds_loss(nested)
    assert not holds_loss(none)


def test_a_program_that_refuses_the_loss_has_none() -> None:
    @dataclass(frozen=True)
    class Strict(Descent):
        def __post_init__(self) -> None:
            if not isinstance(self.loss, Unit):
                raise TypeError

    assert not holds_loss(Strict())
    assert steeper(case(Strict()), FOUND, 1) is None


@pytest.mark.quality
def test_the_certificate_has_it_as_a_stand_in_and_pays_for_it() -> None:
    certificate = dp.certify(case(Descent()), seed=1, trials=400)
    rows = certificate.content["predicate"]["audits"]
    lenses = {row["id"]: row for row in rows if row["id"].endswith("lens")}
    assert sorted(lenses) == ["lens", "stand_in:lens"]
    stand_in = lenses["stand_in:lens"]
    assert stand_in["differs"] == ["loss is Quadratic, not Unit"]
    mu = {name: float(row["lower_bounds"][0]["mu"]) for name, row in lenses.items()}
    assert mu["stand_in:lens"] > 2 * mu["lens"]
    assert dp.verify(certificate).verdict == certificate.verdict
    with_loss, without = (
        plan([Order(case(program), None, "", {})], Options()).budget.audits
        for program in (Descent(), Descent(loss=Descent))
    )
    assert (with_loss, without) == (2, 1)

"""Certificates against enumeration; solvers of the minimisers they look at; refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.stable_erm.adversarial import Adversarial, Oracle
from mechanisms.papers.stable_erm.certificate import (
    RULES,
    Certified,
    GradientCertificate,
    Void,
    measured,
    unit_of_radius,
)
from mechanisms.papers.stable_erm.domains import Ball, Box, Everywhere, Lens
from mechanisms.papers.stable_erm.polynomial import GridMean, Ladder, WindowMeanScore
from mechanisms.papers.stable_erm.solver import (
    Absolute,
    Minimiser,
    Pull,
    Quadratic,
    RidgeLogistic,
)
from mechanisms.papers.stable_erm.stable import (
    Enumeration,
    diameter_stability,
    lattice_of,
    path_stability,
    tabulated,
)
from tests.support.stable import MEAN, column

# --- certificates ---------------------------------------------------------------------------------


def minimisers() -> list[Minimiser]:
    pull = Pull(0.5, np.array([[0.3, -0.2]]))
    return [
        Minimiser(Quadratic(2.0), Everywhere()),
        Minimiser(Quadratic(1.0), Ball(0.4), pull),
        Minimiser(Absolute(), Box(0.5, 2), pull),
        Minimiser(RidgeLogistic(0.3, 1.0, 1e-8), Ball(1.0), pull),
    ]


@pytest.mark.first_case
@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("rule", RULES)
def test_a_certificate_is_above_the_enumerated_sensitivity(index: int, rule: str) -> None:
    generator, minimiser = np.random.default_rng(index), minimisers()[index]
    certificate = GradientCertificate(rule)
    features = 3 if isinstance(minimiser.loss, RidgeLogistic) else 2
    ratios = []
    for _ in range(3):
        data = generator.normal(size=(8, 3, features))
        seen = measured(minimiser, data)
        upper = float(certificate.upper(seen, 1)[0])
        lattice = lattice_of(8, 5)
        table = tabulated(minimiser, data, lattice.kept)
        if rule == "diameter":
            exact = float(diameter_stability(table, lattice)[0, 0])
        else:
            exact = float(path_stability(table, lattice, 4)[0, 0])
        assert exact <= upper
        ratios.append(exact / upper)
    applies = rule in ("c1", "c1_sum", "c2c", "diameter") and not (rule == "c2c" and index == 2)
    assert max(ratios) > (0.005 if applies or (rule == "quadratic" and index < 2) else -1)


@pytest.mark.parametrize(
    ("rule", "least", "most"), [("c1", 10, 28), ("quadratic", 1.2, 4.5), ("c2", 1.2, 4.5)]
)
def test_how_far_certificates_are_above_the_enumerated_value(
    rule: str, least: float, most: float
) -> None:
    """A mean of 16 users, kappa = 2: c1 pays for every step of the path, the others do not."""
    minimiser, kappa = Minimiser(Quadratic(), Everywhere()), 2
    lattice = lattice_of(16, 4 * kappa + 1)
    for seed in range(2):
        data = np.random.default_rng(seed).normal(size=(16, 100, 1))
        table = tabulated(minimiser, data, lattice.kept)
        exact = float(path_stability(table, lattice, 4 * kappa)[0, 0])
        found = float(GradientCertificate(rule).upper(measured(minimiser, data), kappa)[0])
        assert least <= found / exact <= most


def test_certified_and_enumerated_give_the_same() -> None:
    generator, minimiser = np.random.default_rng(1), Minimiser(Quadratic(), Box(5.0, 1))
    passed = 0
    for _ in range(30):
        data = generator.normal(size=(9, 4, 1))
        data[0] *= generator.choice([1, 30])
        unit = float(generator.uniform(0.3, 2.0))
        exact = Enumeration().find(minimiser, data, unit, 1)
        for rule in ("c1", "c1_sum", "quadratic"):
            certificate = GradientCertificate(rule)
            fast = Certified(certificate).find(minimiser, data, unit, 1)
            assert (fast.scores == exact.scores).all()
            assert (fast.vectors == exact.vectors).all()
            passed += bool(certificate.upper(measured(minimiser, data), 1)[0] <= unit)
    assert 5 < passed < 85


def test_trials_are_certified_or_enumerated_each_on_its_own() -> None:
    """Three trials around three points, one unit each: as three searches."""
    data = np.random.default_rng(2).normal(size=(7, 2, 1))
    pull = Pull(np.array([0.1, 1.0, 5.0]), np.array([[0.0], [1.0], [-1.0]]))
    units = np.array([0.9, 0.2, 0.05])
    together = Certified().find(Minimiser(Quadratic(), Box(2.0, 1), pull), data, units, 1)
    for t in range(3):
        chosen = np.arange(3) == t
        one = Minimiser(Quadratic(), Box(2.0, 1), pull.of(chosen))
        alone = Enumeration().find(one, data, float(units[t]), 1)
        assert alone.scores[0] == together.scores[t]
        assert (alone.vectors[0] == together.vectors[t]).all()


def test_void_is_declared_and_takes_everything() -> None:
    result = Void().find(MEAN, column(0, 0, 1e9), 1.0, 1)
    assert result.scores.tolist() == [0.0]
    assert "released all the same" in Certified(fallback=Void()).not_private
    assert Certified().not_private == ""


def test_a_residual_raises_the_bound() -> None:
    data = np.random.default_rng(3).normal(size=(8, 3, 1))
    seen = measured(Minimiser(Quadratic()), data)
    worse = replace(seen, residual=seen.residual + 0.1)
    for rule in RULES:
        certificate = GradientCertificate(rule)
        assert certificate.upper(worse, 1)[0] >= certificate.upper(seen, 1)[0] + 0.2 - 1e-12


class _Unknown:
    """A loss of whose modulus nothing is known."""

    modulus = lipschitz = smoothness = 1.0
    error = 0.0


UNKNOWN: Any = _Unknown()

# --- solvers --------------------------------------------------------------------------------------


def test_the_absolute_loss_is_minimised() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        data, weight = generator.normal(size=(4, 3, 2)), float(generator.uniform(0.02, 3))
        centre = generator.normal(size=(1, 2))
        kept = np.array([[True, True, False, True]])
        at = Absolute().minimise(data, kept, Pull(weight, centre), Box(1.0, 2))[0, 0]
        items = data[kept[0]].reshape(-1, 2)

        def objective(
            theta: Array, items: Array = items, w: float = weight, c: Any = centre
        ) -> float:
            pulled = w / 2 * np.square(theta - c[0]).sum()
            return float(np.abs(theta - items).sum(axis=1).mean() / math.sqrt(2) + pulled)

        for _ in range(60):
            near = np.clip(at + generator.normal(size=2) * 0.1, -1, 1)
            assert objective(at) <= objective(near) + 1e-12


def test_the_logistic_solver_keeps_its_error() -> None:
    generator, rough = np.random.default_rng(1), RidgeLogistic(0.2, 1.0, 1e-3)
    exact = RidgeLogistic(0.2, 1.0, 1e-10)
    data = generator.normal(size=(6, 3, 4))
    kept = np.array([[True] * 6, [True, False] * 3])
    pull = Pull(np.array([0.1, 2.0]), generator.normal(size=(2, 3)))
    near, far = (loss.minimise(data, kept, pull, Ball(0.7)) for loss in (exact, rough))
    assert np.linalg.norm(near - far, axis=-1).max() <= 1e-3
    alone = exact.minimise(data, kept[:1], pull, Ball(0.7))
    assert (alone[:, 0] == near[:, 0]).all()


def test_hostile_items_do_not_break_the_logistic_loss() -> None:
    loss = RidgeLogistic(0.5, 1.0)
    data = np.zeros((4, 2, 3))
    data[0, 0], data[1, 0], data[2, 0] = np.inf, 1e308, np.nan
    assert np.linalg.norm(loss.items(data), axis=-1).max() <= 1 + 1e-12
    at = Minimiser(loss, Ball(1.0)).at(data, np.ones((1, 4), dtype=bool))
    assert np.isfinite(at).all()


def test_projections_onto_a_lens() -> None:
    """Against Dykstra's alternating projections."""
    generator = np.random.default_rng(7)
    one, two = Ball(1.0, np.zeros((1, 3))), Ball(0.7, np.array([[0.9, 0.3, 0.0]]))
    for _ in range(20):
        point = 2 * generator.normal(size=(1, 3))
        at, p, q = point.copy(), np.zeros((1, 3)), np.zeros((1, 3))
        for _ in range(600):
            inside = one.project(at + p)
            p = at + p - inside
            at = two.project(inside + q)
            q = inside + q - at
        assert Lens(one, two).project(point) == pytest.approx(at, abs=2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(0.0), "expected a positive number"),
        (lambda: Box(math.nan, 1), "expected a positive number"),
        (lambda: GradientCertificate("c3"), "expected one of c1"),
        (lambda: Certified(GradientCertificate("diameter")), "certifies diameter stability"),
        (lambda: Adversarial(1, 3), "at most 1 apart"),
        (lambda: Oracle(32, 33).check(20, 32), "users, not 20"),
        (lambda: Enumeration("sideways"), "expected one of path, diameter"),
        (lambda: GridMean(math.inf), "expected a positive number"),
        (lambda: Ladder(0.0), "expected a positive number"),
        (lambda: unit_of_radius("c1", 1.0, 1.0, 1.0, 5, 1), "needs at least 6"),
        (lambda: RidgeLogistic(1e-9, 1.0).steps(0.0, 1.0), "over 100000 steps"),
        (lambda: Minimiser(Absolute()).at(column(1, 2), np.ones((1, 2), dtype=bool)), "positive"),
        (
            lambda: Minimiser(Absolute(), Ball(1.0), Pull(1.0, np.zeros((1, 1)))).at(
                column(1, 2), np.ones((1, 2), dtype=bool)
            ),
            "use a Box",
        ),
        (lambda: Certified().find(MEAN, column(1, 2), 1.0, 1), "minimiser of a convex loss"),
        (
            lambda: Certified().find(Minimiser(UNKNOWN), column(1, 2), 1.0, 1),
            "_Unknown does not enforce: use Quadratic, Absolute, RidgeLogistic",
        ),
        (lambda: WindowMeanScore().find(MEAN, column(1, 2), 1.0, 1), "expected a GridMean"),
        (lambda: Ladder(1.0).find(MEAN, column(1, 2), 1.0, 1), "minimiser of a smooth loss"),
        (lambda: Ladder(1.0).unit(Minimiser(Quadratic()), 9, 1), "use RidgeLogistic"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()

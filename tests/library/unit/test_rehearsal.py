"""Runs on zeros say what noise does to a model, by no formula of the program's."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.curator import rehearsal
from dpaudit.curator.rehearsal import rehearse

ROWS = dp.Records(np.ones((60, 4)))
ROUNDS, DIMENSION = 6, 4
BALL = r"noise exceeds the ball: .* by about ([\d.e+]+), .* stay in is ([\d.e+]+) across"


@dataclass(frozen=True)
class Descent:
    """Noisy descent on the mean of |w - x|^2 / 2 from 0, in the ball of a radius or in none.

    ``shared``: each round reads rows of its own, the noise is a tree's, and steps are differences
    of its sums.
    """

    step: float
    radius: float = math.inf
    shared: bool = False
    normalised: bool = False
    averaged: bool = False
    noise: float = 3.0

    def declaration(self, scope: dp.Scope) -> dp.Node:
        if self.shared:
            return dp.CorrelatedGaussian("g", self.noise, ROUNDS, strategy="tree")
        return dp.Repeat(dp.Gaussian("g", self.noise), ROUNDS)

    def run(self, curator: dp.Curator) -> Any:
        w = path = np.zeros((curator.trials, DIMENSION))
        before = 0.0
        for k in range(ROUNDS):
            block = curator.part(k, (10,) * ROUNDS) if self.shared else None
            gradient = dp.ClippedMean(lambda v, w=w: w[:, None] - v, 1, divisor=50)
            release = curator.release("g", gradient, rows=block)
            direction, before = release - before, release if self.shared else 0.0
            if self.normalised:
                direction = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
            w = w - self.step * direction
            norm = np.maximum(np.linalg.norm(w, axis=-1, keepdims=True), 1e-300)
            w = w * np.minimum(1.0, self.radius / norm)
            path = path + w
        return path / ROUNDS if self.averaged else w


def said(program: Descent, records: dp.Records = ROWS, adjacency: str = "zero_out") -> list[str]:
    return rehearse(mechanism(program, adjacency), records)


def mechanism(program: Descent, adjacency: str = "zero_out") -> dp.Mechanism:
    claim = dp.Claim(dp.GDP(100), by="this test")
    return dp.Mechanism("m", "m", "this test", program, dp.central(adjacency), [claim])


def lengths(sentences: list[str]) -> tuple[float, float]:
    (found,) = (m for s in sentences if (m := re.search(BALL, s)))
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_noise_that_crosses_the_ball_is_said_with_its_length_and_the_diameter(
    shared: bool, averaged: bool
) -> None:
    """Beside the noise of a run in the whole space, at the same seed."""
    program = Descent(step=0.1, radius=0.001, shared=shared, averaged=averaged)
    length, across = lengths(said(program))
    assert across == pytest.approx(2 * program.radius, rel=1e-3)
    assert lengths(said(replace(program, radius=1e-4))) == (length, pytest.approx(2e-4, rel=1e-3))
    zeros = dp.Records(np.zeros(ROWS.values.shape))
    unbounded = mechanism(replace(program, radius=math.inf))
    free = rehearsal._run(unbounded, zeros, rehearsal.AS_DECLARED)[1]
    assert length == pytest.approx(float(np.linalg.norm(free)), rel=0.01)


@pytest.mark.parametrize(
    "program",
    [
        Descent(step=0.1, radius=2.0),
        Descent(step=0.1),
        Descent(step=1e9),
        Descent(step=1e-9, radius=1e-6),
        Descent(step=0.1, radius=1e-3, normalised=True),
    ],
)
def test_nothing_is_said_of_a_ball_that_holds_the_noise_or_of_none(program: Descent) -> None:
    """Steps of one length are not in proportion to noise; long ones amplify it, clipped or not."""
    assert not [sentence for sentence in said(program) if "ball" in sentence]


def test_nothing_is_said_where_a_program_fails_on_releases_that_are_far() -> None:
    @dataclass(frozen=True)
    class Failing(Descent):
        def run(self, curator: dp.Curator) -> Any:
            w = super().run(curator)
            if float(np.abs(w).max()) == self.radius / math.sqrt(DIMENSION):
                raise ValueError(w)
            return w

    assert said(Failing(step=0.1, radius=1e-3)) == []


@dataclass(frozen=True)
class Sampled(Descent):
    """Noisy descent on secret batches of half of the rows."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", self.noise), 0.5), ROUNDS)

    def run(self, curator: dp.Curator) -> Any:
        w = np.ones((curator.trials, DIMENSION)) * self.radius / 4
        for _ in range(ROUNDS):
            with curator.batch("g") as batch:
                query = dp.ClippedMean(lambda v, w=w: w[:, None] - v, 1, divisor=50)
                w = w - self.step * curator.release("g", query, rows=batch)
            norm = np.linalg.norm(w, axis=-1, keepdims=True)
            w = w * np.minimum(1.0, self.radius / norm)
        return w


def test_trials_that_are_compared_draw_the_same_noise_and_the_same_batches() -> None:
    """Gradients at zero records differ from batch to batch as much as a little noise does."""
    length, across = lengths(said(Sampled(step=1.0, radius=0.05)))
    assert across == pytest.approx(0.1, rel=1e-3)
    assert length == pytest.approx(3.0 / 50 * math.sqrt(ROUNDS * DIMENSION), rel=0.9)


def test_a_rehearsal_runs_a_program_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    before = Descent.run

    def counted(self: Descent, curator: dp.Curator) -> Any:
        runs.append(curator.trials)
        return before(self, curator)

    monkeypatch.setattr(Descent, "run", counted)
    assert said(Descent(step=0.1, radius=0.001))
    assert runs == [1, len(rehearsal.MOVES)]


def test_records_whose_number_is_private_are_made_up() -> None:
    few, many = (dp.Records(np.ones((count, 4))) for count in (3, 400))
    program = Descent(step=0.1, radius=0.005, noise=90.0)
    assert said(program, few, "add_remove") == said(program, many, "add_remove")
    assert (
        "that 100 records can contribute"
        in said(replace(program, noise=900.0), few, "add_remove")[0]
    )

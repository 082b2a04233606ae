"""Losses whose optimum is known, and a run of Accelerated-DP-SRGD state by state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.curator.curator import Curator, Sampler, Tracer
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import central
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD, State
from mechanisms.papers.srgd.gradient import StochasticRecursiveGradient
from mechanisms.papers.srgd.problem import BoundedLogistic
from mechanisms.papers.srgd.rows import Clipped

ZERO_OUT = central("zero_out")
IDLE = Clipped(10**9)


@dataclass
class ToRecord:
    """||x - d||^2 / 2; counts what it is asked for."""

    size: int = 1
    asked: int = 0

    def dimension(self, features: int) -> int:
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, self.size))

    def values(self, parameters: Any, records: Any) -> Array:
        rows = parameters[:, None, :] - records[None, :, :]
        return np.asarray(np.square(rows).sum(-1) / 2)

    def gradients(self, parameters: Any, records: Any) -> Array:
        self.asked += int(np.count_nonzero(np.abs(records).sum(-1)))
        return np.asarray(parameters[:, None, :] - records[None, :, :])


@dataclass(frozen=True)
class Quadratic:
    """x^T Q x / 2 - b^T x, whatever the record."""

    matrix: Array
    linear: Array

    def dimension(self, features: int) -> int:
        return self.matrix.shape[1]

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, self.matrix.shape[1]))

    def values(self, parameters: Any, records: Any) -> Array:
        values = 0.5 * np.einsum("ti,ij,tj->t", parameters, self.matrix, parameters)
        return np.repeat((values - parameters @ self.linear)[:, None], len(records), axis=1)

    def gradients(self, parameters: Any, records: Any) -> Array:
        rows = parameters @ self.matrix.T - self.linear
        return np.repeat(rows[:, None, :], len(records), axis=1)


@dataclass(frozen=True)
class Hubers(Quadratic):
    """A mean of Huber losses of a_i.x - b_i, whatever the record; ``matrix`` holds the a_i."""

    def values(self, parameters: Any, records: Any) -> Array:
        off = np.abs(parameters @ self.matrix.T - self.linear)
        values = np.where(off <= 1, off**2 / 2, off - 0.5).mean(axis=1)
        return np.repeat(values[:, None], len(records), axis=1)

    def gradients(self, parameters: Any, records: Any) -> Array:
        off = np.clip(parameters @ self.matrix.T - self.linear, -1, 1)
        rows = off @ self.matrix / len(self.linear)
        return np.repeat(rows[:, None, :], len(records), axis=1)


def program(loss: Any, rounds: int, size: int = 0, **options: Any) -> AcceleratedDPSRGD:
    """Accelerated-DP-SRGD with a clip that is idle and noise that is none to speak of."""
    radius = options.pop("radius", float("inf"))
    settings = {"features": 0, "beta": 4, "sigma": 1e-9, "rows": IDLE} | options
    gradient = StochasticRecursiveGradient(loss, size=size or rounds, rounds=rounds, **settings)
    return AcceleratedDPSRGD(gradient, radius)


def without_noise(of: Any, records: Array | None = None) -> Tracer:
    """A curator that adds no noise, over one record a round if none are given."""
    rows = np.ones((of.gradient.size, 1)) if records is None else records
    return Tracer(of.declaration(ZERO_OUT), ZERO_OUT, Records(rows))


def states(of: AcceleratedDPSRGD, curator: Curator) -> Iterator[State]:
    """The iterates after round 0, 1, ..., as ``run`` makes them."""
    state = of.start(curator.trials)
    for t in range(of.gradient.rounds):
        prefix = of.gradient.release(curator, t, state.x, state.previous, state.prefix)
        state = of.after(state, prefix, t)
        yield state


def sampler(of: Any, records: Array, trials: int = 1, seed: int = 0) -> Sampler:
    """A curator with the declared noise."""
    rng = np.random.default_rng(seed)
    return Sampler(of.declaration(ZERO_OUT), ZERO_OUT, Records(records), rng=rng, trials=trials)


def logistic_rows(size: int, features: int, seed: int = 5) -> Array:
    """Rows on the unit sphere, with the sign of their first entry as the target."""
    rows = np.random.default_rng(seed).standard_normal((size, features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.hstack([rows, rows[:, :1] > 0])


def logistic(rounds: int, size: int, rows: Any, **options: Any) -> AcceleratedDPSRGD:
    """Logistic regression in three dimensions, on the ball of radius 2."""
    settings = {"beta": 2 * rounds, "sigma": Fraction(1, 100)} | options
    gradient = StochasticRecursiveGradient(
        BoundedLogistic(norm=1.0), 3, size, rounds, rows=rows, **settings
    )
    return AcceleratedDPSRGD(gradient, radius=2.0)

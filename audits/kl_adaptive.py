"""Audits of adaptive noisy gradient descent: C4, where all norms are silent, and C5, aligned.

On ``Pulled`` with no pull both data sets have a mean gradient of norm L0 / n: noisy norms are
noise, and often negative.  With a pull every round costs about the same, and a filter is filled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from audits.kl import REPLACED, turned_round
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.query import Array
from mechanisms.kl import adaptive_catalogue as catalogue
from mechanisms.kl.adaptive import AdaptiveNoisyGD, GradientNormAtStart
from mechanisms.kl.problem import KLProblem
from mechanisms.kl.select import SelectStationaryIterate

TRIALS = 2_000
# So many that the attack can show an epsilon of 7 at delta = 1e-3 (no 1-zCDP code has over 5.42).
MANY = 36_000
# The few runs that go on are cut here: what an attacker of the first rounds sees is less.
ROUNDS = 60


@dataclass(frozen=True)
class Pulled:
    """Linear losses along axis 1: a record of sign s has slope s ``length``, a 0 has ``pull``."""

    size: int
    length: float
    pull: float = 0.0

    def dimension(self, features: int) -> int:
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, self.size))

    def slopes(self, records: ArrayLike) -> Array:
        """The slope of each record, (n,)."""
        signs = np.asarray(records)[:, 0]
        return np.asarray(np.where(signs == 0, self.pull, signs * self.length))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        return np.asarray(np.asarray(parameters)[:, :1] * self.slopes(records))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        slopes = self.slopes(records)
        found = np.zeros((len(np.asarray(parameters)), len(slopes), self.size))
        found[:, :, 0] = slopes
        return found


def pulled(problem: KLProblem, dimension: int, share: float) -> KLProblem:
    """The same n and L0 with all other records pulling at ``share`` L0."""
    loss = Pulled(dimension, problem.lipschitz, share * problem.lipschitz)
    return replace(problem, loss=loss, features=0, start=())


def silent(program: AdaptiveNoisyGD) -> AdaptiveNoisyGD:
    """On the line, with no pull, and not for long: the worst case for printed charges."""
    line = pulled(program.problem, 1, 0.0)
    return replace(program, problem=line, rounds_at_most=ROUNDS)


def steady(program: AdaptiveNoisyGD) -> AdaptiveNoisyGD:
    """Some twenty rounds of about the same cost."""
    return replace(program, problem=pulled(program.problem, 20, 0.015))


def _suite(name: str, program: object, pair: Neighbours = REPLACED, trials: int = TRIALS) -> Suite:
    return Suite(mechanism=name, program=program, neighbours=pair, trials=trials)  # type: ignore[arg-type]


def norm(program: GradientNormAtStart) -> GradientNormAtStart:
    """With a pull that dwarfs the canary: the norm moves by all of the mean gradient's move."""
    return replace(program, problem=pulled(program.problem, 1, 0.5))


adaptive_noisy_gd = _suite("adaptive_noisy_gd", steady(catalogue.CORRECTED))
adaptive_noisy_gd_filter = _suite("adaptive_noisy_gd_filter", steady(catalogue.FILTERED))
adaptive_noisy_gd_paper = _suite(
    "adaptive_noisy_gd_paper", silent(catalogue.SIGNED), turned_round(100_000), MANY
)
adaptive_noisy_gd_paper_clipped = _suite(
    "adaptive_noisy_gd_paper_clipped", silent(catalogue.CLIPPED), turned_round(100_000)
)
select_stationary_iterate = _suite(
    "select_stationary_iterate", SelectStationaryIterate(steady(catalogue.CORRECTED))
)
select_noisy_argmin = _suite(
    "select_noisy_argmin", SelectStationaryIterate(steady(catalogue.CORRECTED), "noisy_argmin")
)
private_gradient_norm = _suite("private_gradient_norm", norm(catalogue.NORM))

suites = [
    adaptive_noisy_gd,
    adaptive_noisy_gd_filter,
    adaptive_noisy_gd_paper,
    adaptive_noisy_gd_paper_clipped,
    select_stationary_iterate,
    select_noisy_argmin,
    private_gradient_norm,
]

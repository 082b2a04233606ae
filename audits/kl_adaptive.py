"""Audits of adaptive noisy gradient descent, corrected, where every round costs about the same.

So a filter is filled; the readings of the printed charges are in ``kl_readings``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from audits.kl import REPLACED
from dpaudit.audit.suite import Suite
from dpaudit.kernels.query import Array
from mechanisms.papers.kl import adaptive_catalogue as catalogue
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD
from mechanisms.papers.kl.problem import KLProblem

TRIALS = 2_000


EXCESS = 1e3  # so that a clip that was deleted shows


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


def pulled(problem: KLProblem, dimension: int, share: float, excess: float = 1.0) -> KLProblem:
    """The same n and L0 with all other records pulling at ``share`` L0.

    ``excess``: times L0, the canary's slope, which is clipped to L0.
    """
    loss = Pulled(dimension, excess * problem.lipschitz, share * problem.lipschitz)
    return replace(problem, loss=loss, features=0, start=())


def steady(program: AdaptiveNoisyGD) -> AdaptiveNoisyGD:
    """Some twenty rounds of about the same cost."""
    return replace(program, problem=pulled(program.problem, 20, 0.015, EXCESS))


def suite(name: str, program: AdaptiveNoisyGD) -> Suite:
    """The worst case of an entry, some twenty rounds of it."""
    return Suite(name, steady(program), REPLACED, TRIALS)


adaptive_noisy_gd_proof = suite("adaptive_noisy_gd_proof", catalogue.PROVED)

suites = [adaptive_noisy_gd_proof]

"""Choosing a nearly stationary point among released ones: privately, or for free.

Source: Menart, Ullah, Arora, Bassily, Guzman, Theorem 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, sqrt
from dpaudit.families.composition import Compose
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD
from mechanisms.papers.kl.problem import KLProblem, moves

SELECT = "select"
METHODS = ("exponential", "noisy_argmin")


@dataclass(frozen=True, eq=False)
class StationarityScores:
    """Minus the norm of the clipped mean gradient at each candidate, (trials, candidates).

    ``points``: public, (trials, d) each, NaN where a trial has no such candidate: its score is
    minus infinity.  One record moves a score by no more than the mean gradient.
    """

    problem: KLProblem
    points: Sequence[Array]

    @property
    def norm(self) -> Norm:
        return "linf"

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        return np.stack([self._score(point, records, chosen) for point in self.points], axis=-1)

    def _score(self, point: Array, records: Records, chosen: NDArray[np.bool_] | None) -> Array:
        there = np.asarray(np.isfinite(point).all(axis=-1))
        mean = self.problem.mean_gradient(np.where(there[:, None], point, 0.0))
        norms = np.linalg.norm(mean.value(records, chosen), axis=-1)
        return np.where(there, -norms, -np.inf)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return self.problem.mean_gradient(self.points[0]).sensitivity(adjacency, size)

    def mixes_records(self, records: Records) -> bool:
        """Whether one record changes another's vector: an audit's check."""
        return self.problem.mean_gradient(np.nan_to_num(self.points[0])).mixes_records(records)


def selection_epsilon(rho: Fraction, factor: int) -> Number:
    """epsilon of weights exp(-n sqrt(rho) / (2 L0) ||grad||): factor sqrt(rho).

    A score moves by ``factor`` L0 / n: epsilon / 2 times score over sensitivity is that weight.
    By bounded range it is epsilon^2 / 8-zCDP: rho / 2 under replace_one.
    Source: Menart et al. 2023, Theorem 5; Cesar and Rogers 2021 for bounded range.
    """
    return factor * sqrt(rho)


def exponential_choice(curator: Curator, problem: KLProblem, points: Sequence[Array]) -> Array:
    """One of the released points, (trials, d), by the exponential mechanism declared as "select".

    Errors: InvalidParameter for no point, or a trial without any.
    """
    _some(points)
    scores = StationarityScores(problem, tuple(points))
    picked = curator.release(SELECT, scores)
    return _at(points, np.argmax(picked, axis=-1))


def noisy_argmin(points: Sequence[Array], norms: Sequence[Array]) -> Array:
    """The released point with the least *raw* noisy norm, (trials, d): post-processing, free.

    ``norms``: as released, negative ones included (cut at 0 they would tie); NaN where off.
    Additive error at most twice the largest noise.
    Errors: as :func:`exponential_choice`.
    """
    _some(points)
    table = np.stack(list(norms)[: len(points)], axis=-1)
    there = np.isfinite(np.stack([p[:, 0] for p in points], axis=-1))
    ranked = np.where(there & ~np.isnan(table), table, np.inf)
    return _at(points, np.argmin(ranked, axis=-1))


def noisy_argmin_error(program: AdaptiveNoisyGD) -> float:
    """sigma_norm sqrt(2 log(2 n sqrt(rho) / beta)): none is off by more, but with chance beta."""
    return program.norm_noise * math.sqrt(2 * math.log(2 * program.scale / program.beta))


def _some(points: Sequence[Array]) -> None:
    if not points or not np.isfinite(np.stack(points)).all(axis=-1).any(axis=0).all():
        raise InvalidParameter("select: a trial has no released point to choose from")


def _at(points: Sequence[Array], index: NDArray[np.intp]) -> Array:
    stacked = np.stack(points)
    return np.asarray(stacked[index, np.arange(stacked.shape[1])])


@dataclass(frozen=True, eq=False)
class Selected:
    """What a run gives: the chosen point, and the last one, (trials, d) each."""

    output: Array
    last: Array


@dataclass(frozen=True)
class SelectStationaryIterate:
    """Adaptive noisy gradient descent, then one of its points with a small gradient.

    ``method``: "exponential" (rho / 2 more under replace_one, by bounded range) or "noisy_argmin"
    (no more).
    Errors: InvalidParameter for another method.
    Source: Menart et al. 2023, Theorem 5.
    """

    descent: AdaptiveNoisyGD
    method: str = "exponential"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidParameter(f"method = {self.method!r}: expected {' or '.join(METHODS)}")

    def declaration(self, scope: Scope) -> Node:
        """The descent's filter, and the selection if it reads the data."""
        own = self.descent.declaration(scope)
        if self.method == "noisy_argmin":
            return own
        factor = moves(scope, type(self).__name__)
        epsilon = selection_epsilon(self.descent.rho, factor)
        return Compose(own, ExponentialMechanism(SELECT, epsilon))

    def run(self, curator: Curator) -> Selected:
        """Run on a curator; points are (trials, d)."""
        walked = self.descent.run(curator)
        if self.method == "noisy_argmin":
            return Selected(noisy_argmin(walked.path, walked.norms), walked.output)
        picked = exponential_choice(curator, self.descent.problem, walked.path)
        return Selected(picked, walked.output)

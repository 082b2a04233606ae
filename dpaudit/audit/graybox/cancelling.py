"""The attack that cancels noise: releases combined so that dependent noises remove one another."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dpaudit.audit.attacked import Attacked, Progress, checked_declaration
from dpaudit.audit.engine import Batch
from dpaudit.audit.graybox.correlation import check_dependence
from dpaudit.audit.learned import attack_features
from dpaudit.audit.residuals import DEFAULT_ERROR
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Program, Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope

MOST_RELEASES = 32  # releases whose noises are compared
LEAST_VARIANCE = 1e-9  # Lower limit of the variances, so that a covariance can be inverted.


@dataclass(frozen=True, eq=False)
class _Noises:
    """The noise of every release under each hypothesis: the first data set, or the second."""

    program: Program
    declaration: Node
    scope: Scope
    pair: tuple[Records, Records]
    releases: int
    kernels: Mapping[type[Node], type[Any]] = field(default_factory=dict)

    def __call__(self, batch: Batch, generator: np.random.Generator) -> dict[str, Array]:
        side = batch.key[1]
        sampler = Sampler(
            self.declaration,
            self.scope,
            self.pair[side],
            rng=generator,
            trials=batch.trials,
            kernels=self.kernels,
        )
        sampler.independent = True
        with contextlib.redirect_stdout(sys.stderr):
            self.program.run(sampler)
            coins = int(generator.integers(2**63))
            replayer = Replayer(self.program, self.declaration, self.scope, self.pair, coins=coins)
            replay = replayer.inspect(sampler.transcript, own=side)
        if not replay.residuals:
            raise InvalidParameter("no release on known rows: nothing to combine")
        own, other = (self._stacked(r) for r in (replay.residuals, replay.opposite))
        first, second = (own, other) if side == 0 else (other, own)
        return {"first": first, "second": second}

    def _stacked(self, residuals: Mapping[str, Array]) -> Array:
        """(trials, releases, d): label after label, short vectors filled with zeros."""
        width = max(values.shape[2] for values in residuals.values())
        padded = [
            np.pad(values, ((0, 0), (0, 0), (0, width - values.shape[2])))
            for values in residuals.values()
        ]
        return np.nan_to_num(np.concatenate(padded, axis=1)[:, : self.releases])


def cancelling_attack(
    mechanism: Mechanism,
    suite: Suite,
    *,
    seed: int,
    index: int = 0,
    trials: int | None = None,
    releases: int = MOST_RELEASES,
    error: float = DEFAULT_ERROR,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Attacked:
    """Learn how the noises of a run's releases depend on one another, and attack through that.

    On training trials the covariance S of the first ``releases`` standardised noises is estimated;
    the score is the log ratio of normal densities with that covariance, 1/2 (b' S^-1 b - a' S^-1 a)
    summed over coordinates, a and b what the noises were under the first and the second data set.
    Where noise is reused S is singular, and the score sees through it.  Test trials are fresh, so
    bounds are valid for any S.  The findings are those of
    :func:`dpaudit.audit.graybox.correlation.check_dependence` at ``error``.
    Errors: InvalidParameter for no releases on known rows, or fewer than 1; otherwise as
    :func:`dpaudit.audit.attack.attack`.
    """
    if releases < 1:
        raise InvalidParameter(f"releases = {releases}: expected at least 1")
    declaration = checked_declaration(mechanism, suite)
    pair = suite.neighbours.pair
    task = _Noises(suite.program, declaration, mechanism.scope, pair, releases, suite.kernels)
    columns: list[Array] = []
    attacked = attack_features(
        suite,
        task,
        partial(_fit, columns),
        seed=seed,
        index=index,
        trials=trials,
        jobs=jobs,
        progress=progress,
        name="noise combined across releases",
    )
    findings = check_dependence({"releases": columns[0]}, error)
    return replace(attacked, findings=findings)


def _fit(columns: list[Array], first: Mapping[str, Array], second: Mapping[str, Array]) -> Any:
    own = np.concatenate([first["first"], second["second"]])
    columns.append(own)
    rows = np.moveaxis(own, 1, 2).reshape(-1, own.shape[1])
    used = rows[np.any(rows != 0, axis=1)]
    covariance = used.T @ used / max(1, len(used))
    values, vectors = np.linalg.eigh(covariance)
    factor = vectors / np.sqrt(np.maximum(values, LEAST_VARIANCE))
    return partial(_score, factor)


def _score(factor: Array, row: Mapping[str, Array]) -> Array:
    squares = [
        np.square(np.moveaxis(row[name], 1, 2) @ factor).sum(axis=(1, 2))
        for name in ("second", "first")
    ]
    return np.asarray(0.5 * (squares[0] - squares[1]))

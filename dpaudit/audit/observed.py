"""Attackers who see part of a run: some releases only, or the output only (the last iterate).

A bound for such an attacker must come from a score that is a function of what it sees.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dpaudit.audit.attacked import Attacked, Progress, checked_declaration
from dpaudit.audit.engine import Batch
from dpaudit.audit.learned import GaussianScore, attack_features
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Event, Program, Request, Sampler
from dpaudit.curator.entitlement import PUBLIC_COIN, Entitlements
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.replayer import Walk
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope

UNSEEN_DRAWS = 8  # Draws of the unseen releases over which a density is averaged.
UNSEEN_STREAM = 0x556E73  # Number of the random stream of unseen releases ("Uns" in ASCII).
Observe = Sequence[str] | Callable[[Any], Array]


class PartialWalk(Walk):
    """Walks along the releases that are seen; the others it draws itself, as declared.

    Its density is that of the seen releases given the drawn ones: averaged over independent draws
    it is an unbiased estimate of the marginal likelihood, and a function of what is seen alone.
    """

    def __init__(
        self, seen: frozenset[str], unseen: np.random.Generator, *arguments: Any, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._seen = seen
        self._unseen = unseen

    def _answer(self, request: Request) -> Array:
        if request.label in self._seen:
            return super()._answer(request)
        value = self._value(request, request.first_draw)
        with np.errstate(all="ignore"):
            drawn = request.session.sample(value, request.scale, self._unseen)
        return np.where(request.mask[:, None], drawn, np.nan)


@dataclass(frozen=True, eq=False)
class _Setting:
    program: Program
    declaration: Node
    scope: Scope
    pair: tuple[Records, Records]
    kernels: Mapping[type[Node], type[Any]] = field(default_factory=dict)

    def sampled(
        self, side: int, trials: int, generator: np.random.Generator
    ) -> tuple[Sampler, Any]:
        """A run on one data set, and its output."""
        sampler = Sampler(
            self.declaration,
            self.scope,
            self.pair[side],
            rng=generator,
            trials=trials,
            kernels=self.kernels,
        )
        sampler.independent = True
        return sampler, self.program.run(sampler)


@dataclass(frozen=True, eq=False)
class _Releases:
    """Scores a batch of runs by the releases that are seen."""

    setting: _Setting
    seen: frozenset[str]
    draws: int

    def __call__(self, batch: Batch, generator: np.random.Generator) -> dict[str, Array]:
        with contextlib.redirect_stdout(sys.stderr):
            sampler, _ = self.setting.sampled(batch.key[1], batch.trials, generator)
            observed = [e for e in sampler.transcript if e.label in self.seen | {PUBLIC_COIN}]
            coins = int(generator.integers(2**63))
            first, second = (
                self._density(r, observed, batch.trials, coins) for r in self.setting.pair
            )
        with np.errstate(invalid="ignore"):
            scores = first - second
        return {"scores": np.where(np.isnan(scores), 0.0, scores)}

    def _density(self, records: Records, seen: list[Event], trials: int, coins: int) -> Array:
        log_densities = [self._walked(records, seen, trials, coins, k) for k in range(self.draws)]
        return np.asarray(np.logaddexp.reduce(log_densities) - np.log(self.draws))

    def _walked(
        self, records: Records, seen: list[Event], trials: int, coins: int, draw: int
    ) -> Array:
        setting = self.setting
        # The same draws on both data sets: what they add to either density cancels best.
        unseen = np.random.default_rng(
            np.random.SeedSequence(coins, spawn_key=(UNSEEN_STREAM, draw))
        )
        walk = PartialWalk(
            self.seen,
            unseen,
            setting.declaration,
            setting.scope,
            records,
            seen or [Event(PUBLIC_COIN, np.zeros(trials), np.ones(trials, dtype=bool))],
            coins=coins,
        )
        setting.program.run(walk)
        return walk.log_density


@dataclass(frozen=True, eq=False)
class _Outputs:
    """The attacker's observations: a feature of the output of every run."""

    setting: _Setting
    observe: Callable[[Any], Array]

    def __call__(self, batch: Batch, generator: np.random.Generator) -> dict[str, Array]:
        with contextlib.redirect_stdout(sys.stderr):
            _, output = self.setting.sampled(batch.key[1], batch.trials, generator)
            shown = np.asarray(self.observe(output), dtype=np.float64)
        if shown.ndim == 0 or len(shown) != batch.trials:
            raise InvalidParameter(
                f"observe gave shape {shown.shape}: expected ({batch.trials}, ...), one row a trial"
            )
        return {"features": shown.reshape(batch.trials, -1)}


def attack_observed(
    mechanism: Mechanism,
    suite: Suite,
    observe: Observe,
    *,
    seed: int,
    index: int = 0,
    trials: int | None = None,
    draws: int = UNSEEN_DRAWS,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Attacked:
    """Attack what ``observe`` shows: the releases of some labels, or a function of the output.

    Labels: the score is the log ratio of the two likelihoods of the seen releases, each averaged
    over ``draws`` runs in which the unseen releases are drawn as declared; exact where the seen
    releases do not depend on the unseen ones.  A function ``output -> (trials, ...)``, such as
    ``lambda trained: trained.last``: two normal laws fitted on training trials.  Either score is
    a function of the observed values and of its own coins, and test trials are fresh, so bounds
    are valid even if the score is poor.
    Errors: InvalidParameter for no label, one that is not declared, fewer than 1 draw, or an
    output of another shape; Diverged where the unseen decides which releases are made, or in
    which trials; otherwise as :func:`dpaudit.audit.attack.attack`.
    """
    declaration = checked_declaration(mechanism, suite)
    if draws < 1:
        raise InvalidParameter(f"draws = {draws}: expected at least 1")
    setting = _Setting(
        suite.program, declaration, mechanism.scope, suite.neighbours.pair, suite.kernels
    )
    options: dict[str, Any] = {
        "seed": seed,
        "index": index,
        "trials": trials,
        "jobs": jobs,
        "progress": progress,
    }
    if callable(observe):
        outputs = _Outputs(setting, observe)
        return attack_features(suite, outputs, _fit, name="learned from the output", **options)
    labels = _labels(declaration, observe)
    shown = ", ".join(sorted(labels))
    releases = _Releases(setting, labels, draws)
    return attack_features(suite, releases, _as_they_are, name=f"releases of {shown}", **options)


def _fit(first: Mapping[str, Array], second: Mapping[str, Array]) -> Any:
    return partial(_scored, GaussianScore.fit(first["features"], second["features"]))


def _scored(score: GaussianScore, row: Mapping[str, Array]) -> Array:
    return score(row["features"])


def _as_they_are(first: Mapping[str, Array], second: Mapping[str, Array]) -> Any:
    return lambda row: row["scores"]


def _labels(declaration: Node, observe: Sequence[str]) -> frozenset[str]:
    declared = sorted(e.label for e in Entitlements(declaration, 1))
    labels = [observe] if isinstance(observe, str) else list(observe)
    for label in labels:
        if label not in declared:
            raise InvalidParameter(f"observe {label!r}: declared labels are {', '.join(declared)}")
    if not labels:
        raise InvalidParameter("observe: name at least one label, or give a function of the output")
    return frozenset(labels)

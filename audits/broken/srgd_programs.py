"""Planted bugs in the program of Accelerated-DP-SRGD: what it asks for, keeps and declares.

Numbers and setting are those of ``audits.broken.srgd``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from audits.broken.srgd import (
    BATCH,
    BETA,
    CORRECT,
    GRADIENT,
    ROUNDS,
    TWICE,
    declared,
    planted,
)
from dpaudit.curator.curator import Curator
from dpaudit.families.composition import Compose
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.geometry import project_l2_ball, tau
from mechanisms.papers.srgd.gradient import LABEL, StochasticRecursiveGradient
from mechanisms.papers.srgd.problem import Solution
from mechanisms.papers.srgd.rows import Rows


@dataclass(frozen=True)
class Rounds(AcceleratedDPSRGD):
    """Algorithm 1, as a step that may be another's."""

    def run(self, curator: Curator) -> Solution:
        state = self.start(curator.trials)
        x, previous, y, z = state.x, state.previous, state.y, state.z
        for t in range(self.gradient.rounds):
            ahead, here = self.round(curator, t, x, previous)
            schedule, share = self.gradient.schedule, tau(t + 1)
            y = project_l2_ball(x - here / schedule.eta(t), self.radius)
            z = project_l2_ball(z - ahead, self.radius)
            previous, x = x, (1 - share) * y + share * z
        return Solution(y, x)

    def round(self, curator: Curator, t: int, x: Array, previous: Array) -> tuple[Array, Array]:
        """G_t as the z-step and as the y-step take it."""
        found = self.ask(curator, t, t, x, previous)
        return found, found

    def ask(
        self, curator: Curator, t: int, part: int, x: Array, previous: Array, label: str = LABEL
    ) -> Array:
        """The release of round t on a part."""
        query = self.gradient.clip_weighted_differences(t, x, previous)
        return curator.release(label, query, rows=curator.part(part, self.gradient.sizes))


@dataclass(frozen=True)
class _TwoReleases(Rounds):
    """Asks for a second release, for the y-step (10)."""

    def round(self, curator: Curator, t: int, x: Array, previous: Array) -> tuple[Array, Array]:
        return self.ask(curator, t, t, x, previous), self.ask(curator, t, t, x, previous)


def _unnoised(curator: Any) -> Array:
    """S / beta, out of the curator's own memory."""
    return np.asarray(curator._sessions[LABEL]._sum)


@dataclass(frozen=True)
class _WeightedOnce(Rounds):
    """The y-step takes S / (beta eta) + b, not (S / beta + b) / eta (11)."""

    def round(self, curator: Curator, t: int, x: Array, previous: Array) -> tuple[Array, Array]:
        found = self.ask(curator, t, t, x, previous)
        total = _unnoised(curator)
        return found, total + (found - total) * self.gradient.schedule.eta(t)


@dataclass(frozen=True)
class _UnnoisedStep(Rounds):
    """The y-step takes S / beta (12)."""

    def round(self, curator: Curator, t: int, x: Array, previous: Array) -> tuple[Array, Array]:
        return self.ask(curator, t, t, x, previous), _unnoised(curator)


@dataclass(frozen=True)
class _StopsEarly(AcceleratedDPSRGD):
    """Stops when S / beta is long (12)."""

    def run(self, curator: Curator) -> Solution:
        state = self.start(curator.trials)
        for t in range(self.gradient.rounds):
            prefix = self.gradient.release(curator, t, state.x, state.previous, state.prefix)
            if np.abs(_unnoised(curator)).max() > 0:
                break
            state = self.after(state, prefix, t)
        return Solution(state.y, state.x)


@dataclass(frozen=True)
class _NormOfRecords(Rounds):
    """Clips at a norm that is made of all records, and says so to the curator (19)."""

    def ask(
        self, curator: Any, t: int, part: int, x: Array, previous: Array, label: str = LABEL
    ) -> Array:
        held = curator._records
        norm = 1.0 + float(np.abs(held.values[held.present]).mean())
        right: Any = self.gradient.clip_weighted_differences(t, x, previous)
        query = ClippedMean(right.per_record, norm, divisor=right.divisor)
        return np.asarray(
            curator.release(label, query, rows=curator.part(part, self.gradient.sizes))
        )


@dataclass(frozen=True)
class _PreviousBatch(Rounds):
    """Takes the second term of the difference on the batch before (13)."""

    def round(self, curator: Curator, t: int, x: Array, previous: Array) -> tuple[Array, Array]:
        gradient, eta = self.gradient, self.gradient.schedule.eta
        found = self._term(curator, t, partial(_weighted, gradient, x, eta(t)))
        if t:
            found = self._term(curator, t - 1, partial(_weighted, gradient, previous, -eta(t - 1)))
        return found, found

    def _term(self, curator: Curator, part: int, rows: Rows) -> Array:
        query = self.gradient.rows.query(rows, float(BATCH * BETA))
        return curator.release(LABEL, query, rows=curator.part(part, self.gradient.sizes))


def _weighted(
    gradient: StochasticRecursiveGradient, x: Array, weight: float, records: Array
) -> Array:
    return weight * gradient.loss.gradients(x, records)


@dataclass(frozen=True)
class _Overlapping(Rounds):
    """Reads batch 0 in rounds 0 and 1 (14)."""

    def round(self, curator: Curator, t: int, x: Array, previous: Array) -> tuple[Array, Array]:
        found = self.ask(curator, t, max(t - 1, 0), x, previous)
        return found, found


@dataclass(frozen=True)
class _RunsOn(Rounds):
    """Runs twice the rounds that it declares (17)."""

    def declaration(self, scope: Scope) -> Node:
        return CORRECT.declaration(scope)


b10_two_releases = planted(
    "10: a second release for the y-step", "conformance", program=_TwoReleases(GRADIENT)
)
b11_weighted_once = planted(
    "11: the y-step takes b_t, not b_t / eta_t", "conformance", program=_WeightedOnce(GRADIENT)
)
b12_unnoised_step = planted(
    "12: the y-step takes S without noise", "conformance", program=_UnnoisedStep(GRADIENT)
)
b12_stops_early = planted(
    "12: stops by S without noise", "conformance", program=_StopsEarly(GRADIENT)
)
b13_previous_batch = planted(
    "13: the second term on the batch before", "conformance", program=_PreviousBatch(GRADIENT)
)
b19_norm_of_records = planted(
    "19: clips at a norm made of private records",
    "conformance",
    program=_NormOfRecords(GRADIENT),
)
b14_overlapping = planted(
    "14: a batch in two rounds", "conformance", program=_Overlapping(GRADIENT)
)
b17_runs_on = planted(
    "17: runs on for twice the declared rounds", "conformance", program=_RunsOn(TWICE)
)


# --- programs that declare what they ask for, with the noise of less ------------------------------


@dataclass(frozen=True)
class _TwoTrees(_TwoReleases):
    """Declares the second tree too, each with the noise of one (10)."""

    def declaration(self, scope: Scope) -> Node:
        first = self.gradient.declaration(scope)
        second = CorrelatedGaussian("second", first.parameters["noise_multiplier"], ROUNDS)
        return Compose(first, second)

    def round(self, curator: Curator, t: int, x: Array, previous: Array) -> tuple[Array, Array]:
        found = self.ask(curator, t, t, x, previous)
        return found, self.ask(curator, t, t, x, previous, "second")


@dataclass(frozen=True)
class _DeclaredOverlap(_Overlapping):
    """Declares two participations with the noise of one (14)."""

    def declaration(self, scope: Scope) -> Node:
        noise = self.gradient.declaration(scope).parameters["noise_multiplier"]
        return CorrelatedGaussian(LABEL, noise, ROUNDS, "tree", Participation(2))


srgd_b10, b10_two_trees = declared(
    "srgd_b10", "10: two independent trees, for z and for y", _TwoTrees(GRADIENT), "refuted"
)
srgd_b14, b14_declared_overlap = declared(
    "srgd_b14",
    "14: two participations with the noise of one",
    _DeclaredOverlap(GRADIENT),
    "refuted",
)

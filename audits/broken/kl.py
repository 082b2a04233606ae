"""Planted bugs under the KL condition, in a query, a sampler kernel, or a program.

Numbers B1 to B19 are those of the project's audit plan for this paper; those in a declaration or
a claim are in ``kl_declared``.
``*_twin`` are audits of the correct benches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audits.broken.kl_bench import (
    ADAPTIVE_BENCH,
    LINEAR,
    SCHEDULE,
    SOLVER_BENCH,
    SPIDER_BENCH,
    adaptive_bench,
    adaptive_twin,
    kl_spider_bench,
    parts_of,
    planted,
    selection_bench,
    selection_twin,
    solver_bench,
    solver_twin,
    spider_twin,
)
from dpaudit.curator.curator import Curator
from dpaudit.families.adaptive import Filter
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.opaque import ZCDP
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.families.selection.kernel import ExponentialMechanismKernel
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.kl.adaptive import (
    GRADIENT,
    NORM,
    RELEASES,
    AdaptiveNoisyGD,
    PrivateGradientNorm,
)
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.proximal import RegularizedNoisyGD
from mechanisms.papers.kl.schedule import Phase
from mechanisms.papers.kl.spider import KLSpider, Plan

__all__ = [
    "adaptive_bench",
    "adaptive_twin",
    "kl_spider_bench",
    "selection_bench",
    "selection_twin",
    "solver_bench",
    "solver_twin",
    "spider_twin",
]


# --- a query -------------------------------------------------------------------------------------


class Trusting(ClippedMean):
    """Clips nothing."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        return ClippedMean(self.per_record, 1e300).value(records, chosen)


class ClippedAfterAveraging(ClippedMean):
    """Clips the mean, not the record (B11)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        mean = ClippedMean(self.per_record, 1e300).value(records, chosen)
        norms = np.linalg.norm(mean, axis=-1, keepdims=True)
        return np.asarray(mean * np.minimum(1.0, self.radius / np.maximum(norms, 1e-300)))


class Summed(ClippedMean):
    """Gives the sum where it states the mean's sensitivity (B18)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        return super().value(records, chosen) * len(records)


class FirstRows(ClippedMean):
    """The mean of the first ten records, with the sensitivity of a mean over all (B19)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        return super().value(records.rows(0, 10), chosen)


@dataclass(frozen=True)
class _Asks(KLProblem):
    """Asks another kind of query of the same clipping norm."""

    kind: type[ClippedMean] = ClippedMean
    slope: float = 1.0

    def mean_gradient(self, x: Array) -> ClippedMean:
        right = super().mean_gradient(x)
        return self.kind(lambda z: self.slope * right.per_record(z), right.radius)


def _asking(kind: type[ClippedMean], slope: float = 1.0) -> RegularizedNoisyGD:
    wrong = _Asks(**parts_of(LINEAR), kind=kind, slope=slope)
    return replace(SOLVER_BENCH, problem=wrong)


@dataclass(frozen=True)
class _Unnormalised(KLSpider):
    """Steps of estimate / (4 L1), differences noised as if they were normalised (B6)."""

    def stepped(self, x: Array, estimate: Array, phase: Phase) -> Array:
        return x - estimate / (4 * self.schedule.smoothness)

    def updated(
        self, curator: Curator, estimate: Array, moved: tuple[Array, Array], plan: Plan, on: Any
    ) -> Array:
        radius = self.gradient_change(plan.phase)
        right = self.problem.mean_difference(moved[1], moved[0], radius)
        query = Trusting(right.per_record, radius)
        released = curator.release(plan.difference.label, query, on=on)
        return np.where(on[:, None], estimate + released, estimate)


b6_unnormalised = planted(
    "B6: un-normalised steps, noise unchanged",
    kl_spider_bench,
    "conformance",
    program=_Unnormalised(SPIDER_BENCH.problem, SCHEDULE),
)
b11_clipped_after_averaging = planted(
    "B11: clips the mean, not the record",
    solver_bench,
    "refuted",
    "conformance",
    program=_asking(ClippedAfterAveraging, slope=50.0),
)
b18_sum_for_mean = planted(
    "B18: noise of the mean on the sum",
    solver_bench,
    "refuted",
    "conformance",
    program=_asking(Summed),
)
b19_minibatch = planted(
    "B19: a batch of 10 with the sensitivity of 50",
    solver_bench,
    "refuted",
    "conformance",
    program=_asking(FirstRows),
)


# --- a sampler kernel ----------------------------------------------------------------------------


class RootTwoTooLittle(GaussianKernel):
    """Standard deviation divided by sqrt(2) (B12)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return super().sample(values, scale / 2**0.5, rng)


class Reused(GaussianKernel):
    """Draws its noise once and scales it at every release (B7)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        drawn = self.__dict__.setdefault("drawn", rng.standard_normal(values.shape))
        return np.asarray(values + scale[:, None] * drawn)


class Argmin(ExponentialMechanismKernel):
    """The best candidate, without noise (B14)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return self.centre(values)


b7_reused_noise = planted(
    "B7: one draw for all anchors", kl_spider_bench, "conformance", kernels={Gaussian: Reused}
)
b12_root_two = planted(
    "B12: standard deviation / sqrt(2)",
    solver_bench,
    "refuted",
    "conformance",
    kernels={Gaussian: RootTwoTooLittle},
)
b14_argmin = planted(
    "B14: argmin of exact norms",
    selection_bench,
    "refuted",
    kernels={ExponentialMechanism: Argmin},
)


# --- a program -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Unasked(PrintedAdaptiveNoisyGD):
    """The printed listing under a cap of rho, without asking whether a charge fits."""

    def declaration(self, scope: Scope) -> Node:
        return Filter.of(RELEASES, ZCDP(self.rho))

    def round(self, curator: Curator, now: Any, unit: float) -> None:
        now.on = now.on & self.goes_on(now.spent, unit)
        if not now.on.any():
            return
        mean = self.problem.mean_gradient(now.x)
        query = PrivateGradientNorm(mean)
        chosen = self.norm_noise / unit
        noisy = curator.release(NORM, query, on=now.on, noise_multiplier=chosen)[:, 0]
        sigma = np.where(now.on, self.gradient_noise(noisy), self.floor)
        released = curator.release(GRADIENT, mean, on=now.on, noise_multiplier=sigma / unit)
        now.norms.append(noisy)
        now.spent = now.spent + np.where(now.on, self.charge(noisy, sigma, unit), 0.0)
        self._step(now, released)


@dataclass(frozen=True)
class _Unlimited(_Unasked):
    """Goes on whatever was spent (B17)."""

    def goes_on(self, spent: Array, unit: float) -> Any:
        return np.ones(len(spent), dtype=bool)


@dataclass(frozen=True)
class _OneMore(KLSpider):
    """Makes one more difference a phase than its noise was made for (B4)."""

    def phase(self, curator: Curator, x: Array, plan: Plan) -> tuple[Array, Array]:
        return super().phase(curator, x, plan._replace(steps=plan.steps + 1))


class Seen(ClippedMean):
    """Keeps what it saw of the records."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        found = super().value(records, chosen)
        if records.values.any():
            self.__dict__.setdefault("seen", []).append(found)
        return found


@dataclass(frozen=True)
class _Peeking(KLSpider):
    """Stops by the canary's part of the exact gradient (B8)."""

    def phase(self, curator: Curator, x: Array, plan: Plan) -> tuple[Array, Array]:
        right = self.problem.mean_gradient(x)
        query = Seen(right.per_record, right.radius)
        estimate = curator.release(plan.anchor.label, query)
        # Seen along one axis, so that the two data sets stop apart on a bench this symmetric.
        on = np.asarray(query.__dict__["seen"][-1][:, 0] > 0)
        made = on.astype(np.float64)
        if not on.any():
            return x, made
        after = np.where(on[:, None], self.stepped(x, estimate, plan.phase), x)
        self.updated(curator, estimate, (x, after), plan, on)
        return after, made


@dataclass(frozen=True)
class _ExactNorm(AdaptiveNoisyGD):
    """The noise of a gradient is made of its exact first coordinate, not of the noisy norm (B9)."""

    def round(self, curator: Curator, now: Any, unit: float) -> None:
        right = self.problem.mean_gradient(now.x)
        query = Seen(right.per_record, right.radius)
        chosen = self.norm_noise / unit
        now.on = now.on & curator.admits(NORM, chosen, on=now.on)
        if not now.on.any():
            return
        curator.release(NORM, PrivateGradientNorm(query), on=now.on, noise_multiplier=chosen)
        exact = query.__dict__["seen"][-1][:, 0]
        sigma = np.broadcast_to(self.gradient_noise(np.abs(exact)), now.on.shape)
        now.on = now.on & curator.admits(GRADIENT, sigma / unit, on=now.on)
        if now.on.any():
            released = curator.release(GRADIENT, right, on=now.on, noise_multiplier=sigma / unit)
            self._step(now, released)


class _RadiusFromData(ClippedMean):
    """States a radius that it took from the records (B15)."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        seen = self.__dict__.get("kept", [0.0])
        return np.asarray(super().sensitivity(adjacency, size) * (1 + seen[-1]))


@dataclass(frozen=True)
class _GapFromData(KLSpider):
    """Takes F0, and with it every length, from the sum of the records (B15)."""

    def run(self, curator: Curator) -> Any:
        x, kept = self.problem.initial(curator.trials), [0.0]
        for plan in self.plans(1):
            right = self.problem.mean_gradient(x)

            def per_record(values: Array, right: ClippedMean = right) -> Array:
                kept.append(float(np.abs(values.sum() - 1)))
                return right.per_record(values)

            query = _RadiusFromData(per_record, right.radius)
            query.__dict__["kept"] = kept
            estimate = curator.release(plan.anchor.label, query)
            x = self.stepped(x, estimate, plan.phase)
        return x


_PRINTED = parts_of(ADAPTIVE_BENCH)
b1_signed_norm = planted(
    "B1: printed charges, from the signed norm",
    adaptive_bench,
    "conformance",
    program=_Unasked(**_PRINTED, reading="signed"),
)
b2_half_charges = planted(
    "B2: printed charges, norms cut at 0",
    adaptive_bench,
    "conformance",
    program=_Unasked(**_PRINTED, reading="clipped"),
)
b17_asked_too_late = planted(
    "B17: the filter is asked after the query",
    adaptive_bench,
    "conformance",
    program=_Unlimited(**_PRINTED, reading="from_the_noise"),
)
b4_one_more = planted(
    "B4: one difference more than the noise was made for",
    kl_spider_bench,
    "conformance",
    program=_OneMore(SPIDER_BENCH.problem, SCHEDULE),
)
b8_exact_stop = planted(
    "B8: stops by an exact gradient",
    kl_spider_bench,
    "conformance",
    program=_Peeking(SPIDER_BENCH.problem, SCHEDULE),
)
b9_exact_norm = planted(
    "B9: noise made of the exact norm",
    adaptive_bench,
    "conformance",
    program=_ExactNorm(**_PRINTED),
)
b15_gap_from_data = planted(
    "B15: F0 computed from the records",
    kl_spider_bench,
    "conformance",
    program=_GapFromData(SPIDER_BENCH.problem, SCHEDULE),
)

"""Planted bugs in DIFF2-GD, at four places: query, sampler kernel, program, declaration.

Numbers B1 to B16 are those of the project's audit plan for this paper.  The setting is two clients
of 20 records, 20 rounds, a restart every 5, (epsilon, delta) = (3, 1e-5), constants as printed:
mu = sqrt(1/3) = 0.57735.  ``twin`` is the same audit of the correct implementation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from audits.diff2 import neighbours, worst_case
from dpaudit.accountant.claim import Claim
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.diff2.catalogue import PAPER_MU, REPLACE_ONE, STATED, diff2_gd_program
from mechanisms.papers.diff2.framework import Diff2, Trained
from mechanisms.papers.diff2.noise import Noise

SIZES = (20, 20)
CORRECT = worst_case(
    diff2_gd_program(
        WorstCase(size=5, curvature=1.0),
        0,
        SIZES,
        rounds=20,
        restart_every=5,
        epsilon=3,
        delta=Fraction(1, 10**5),
        calibration="paper",
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=0.1,
    )
)
SETTING = Setting(
    controller="the test bench",
    unit_entity="record",
    unit_bound="one row",
    covered=("20 noisy releases",),
)


def mechanism(name: str, title: str, program: Diff2, claims: tuple[Claim, ...]) -> Mechanism:
    """A mechanism in the setting above."""
    source = "Murata and Suzuki 2023, Algorithms 1 to 3; wrong on purpose unless it says correct"
    return Mechanism(name, title, source, program, REPLACE_ONE, claims, SETTING)


def planted(bug: str, *caught_by: str, program: Diff2 = CORRECT, kernel: Any = None) -> Suite:
    """An audit of the correct declaration with one wrong part."""
    return Suite(
        mechanism="diff2_gd_bench",
        program=program,
        neighbours=neighbours(SIZES),
        kernels={} if kernel is None else {Gaussian: kernel},
        caught_by=caught_by,
        bug=bug,
    )


diff2_gd_bench = mechanism(
    "diff2_gd_bench", "DIFF2-GD in the bench setting, correct", CORRECT, (STATED, PAPER_MU)
)
twin = planted("none: the correct twin")


# --- a query -------------------------------------------------------------------------------------


class HalfSensitivity(ClippedMean):
    """States C / (n P): the factor 2 of replace_one is missing (B1)."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return super().sensitivity(adjacency, size) / 2


@dataclass(frozen=True)
class _HalfSensitivity(Diff2):
    def gradient_query(self, x: Array) -> ClippedMean:
        return _as(HalfSensitivity, super().gradient_query(x))

    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        return _as(HalfSensitivity, super().difference_query(x, previous))


class ClippedAfterAveraging(ClippedMean):
    """Clips each client's mean instead of each record (B6)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        with np.errstate(all="ignore"):
            rows = self.per_record(records.values)
        blocks = rows.reshape(rows.shape[0], len(SIZES), SIZES[0], -1).mean(axis=2)
        norms = np.linalg.norm(blocks, axis=-1)
        radius = np.broadcast_to(self.radius, norms.shape[:1])[:, None]
        scale = np.where(norms > radius, radius / np.where(norms > 0, norms, 1.0), 1.0)
        return np.asarray((blocks * scale[..., None]).mean(axis=1))


@dataclass(frozen=True)
class _ClippedAfterAveraging(Diff2):
    def gradient_query(self, x: Array) -> ClippedMean:
        return _as(ClippedAfterAveraging, super().gradient_query(x))

    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        return _as(ClippedAfterAveraging, super().difference_query(x, previous))


class Unclipped(ClippedMean):
    """Trusts smoothness: differences are not clipped (B7)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        trusting = ClippedMean(self.per_record, 1e300, self.weights)
        return trusting.value(records, chosen)


@dataclass(frozen=True)
class _UnclippedDifferences(Diff2):
    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        return _as(Unclipped, super().difference_query(x, previous))


def _as(kind: type[ClippedMean], query: ClippedMean) -> ClippedMean:
    return kind(query.per_record, query.radius, query.weights)


def _wrong(kind: type[Diff2], **changes: Any) -> Diff2:
    """The correct program with methods of another class."""
    return kind(**{**CORRECT.__dict__, **changes})


b1_half_sensitivity = planted(
    "B1: sensitivity C/(nP) under replace_one",
    "refuted",
    "conformance",
    program=_wrong(_HalfSensitivity),
)
b6_clipped_after_averaging = planted(
    "B6: clips the mean, not the record",
    "refuted",
    "conformance",
    program=_wrong(_ClippedAfterAveraging),
)
b7_unclipped_differences = planted(
    "B7: trusts smoothness, a record is ten times less smooth",
    "refuted",
    "conformance",
    program=_wrong(_UnclippedDifferences, loss=WorstCase(size=5, curvature=10.0)),
)


# --- a sampler kernel ----------------------------------------------------------------------------


class TooLittle(GaussianKernel):
    """Standard deviation divided by ``divisor``."""

    divisor = 1.0

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return super().sample(values, scale / self.divisor, rng)


class RootTwoTooLittle(TooLittle):
    """B2."""

    divisor = 2**0.5


class FifthTooLittle(TooLittle):
    """B3: too little by 1.2, which the slack of the printed claim hides."""

    divisor = 1.2


class Reused(GaussianKernel):
    """Draws its noise once and scales it at every release (B11)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        drawn = self.__dict__.setdefault("drawn", rng.standard_normal(values.shape))
        return np.asarray(values + scale[:, None] * drawn)


class NoNoise(GaussianKernel):
    """Adds nothing."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return np.array(values)


b2_root_two = planted("B2: standard deviation / sqrt(2)", "refuted", kernel=RootTwoTooLittle)
b3_fifth = planted("B3: standard deviation / 1.2", "conformance", kernel=FifthTooLittle)
b11_reused_noise = planted("B11: one draw for all releases", "conformance", kernel=Reused)
no_noise = planted("no noise at all", "refuted", "conformance", kernel=NoNoise)


# --- a program -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SwappedLabels(Diff2):
    """Releases gradients with the noise of differences, and the reverse (B12 in the program)."""

    def run(self, curator: Curator) -> Trained:
        x = previous = self.loss.initial(self.features, curator.trials, self.start_seed)
        estimate = np.zeros_like(x)
        for r in range(self.rounds):
            if r % self.restart_every == 0:
                estimate = curator.release("difference", self.gradient_query(x))
            else:
                step = self.difference_query(x, previous)
                estimate = estimate + curator.release("gradient", step)
            previous, x = x, x - self.step_size * estimate
        return Trained(x, x)


@dataclass(frozen=True)
class _FloorRestarts(Diff2):
    """Declares floor(R/T) restarts and makes ceil(R/T) (B14)."""

    @property
    def restarts(self) -> int:
        return self.rounds // self.restart_every


@dataclass(frozen=True)
class _Peeking(Diff2):
    """Stops when a gradient norm it has peeked at, without noise, is large (B26)."""

    def run(self, curator: Curator) -> Trained:
        x = previous = self.loss.initial(self.features, curator.trials, self.start_seed)
        estimate = np.zeros_like(x)
        seen: list[Array] = []
        for r in range(self.rounds):
            if r % self.restart_every == 0:
                peek = partial(self._peek, x, seen)
                query = replace(self.gradient_query(x), per_record=peek)
                estimate = curator.release("gradient", query)
            else:
                step = self.difference_query(x, previous)
                estimate = estimate + curator.release("difference", step)
            if r >= self.restart_every and float(seen[-1].sum()) > 0:
                break
            previous, x = x, x - self.step_size * estimate
        return Trained(x, x)

    def _peek(self, x: Array, seen: list[Array], values: Array) -> Array:
        rows = self.loss.gradients(x, values)
        seen.append(rows[0, :, 0])
        return rows


class RadiusFromData(ClippedMean):
    """Clips at the largest norm among the records, and says so to the curator (B16)."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        seen: list[float] = self.__dict__.get("_seen", [0.0])
        return super().sensitivity(adjacency, size) * (1.0 + seen[-1])


@dataclass(frozen=True)
class _RadiusFromData(Diff2):
    """Keeps the sum of the records of the round before, and scales the next radius with it."""

    def run(self, curator: Curator) -> Trained:
        x = previous = self.loss.initial(self.features, curator.trials, self.start_seed)
        estimate, seen = np.zeros_like(x), [0.0]
        for r in range(self.rounds):
            right = self.gradient_query(x) if r % self.restart_every == 0 else None
            right = right or self.difference_query(x, previous)
            query = RadiusFromData(partial(_seeing, right, seen), right.radius, right.weights)
            query.__dict__["_seen"] = seen
            label = "gradient" if r % self.restart_every == 0 else "difference"
            released = curator.release(label, query)
            estimate = released if label == "gradient" else estimate + released
            previous, x = x, x - self.step_size * estimate
        return Trained(x, x)


def _seeing(right: ClippedMean, seen: list[float], values: Array) -> Array:
    seen.append(float(np.abs(values.sum() - 1.0)))
    return right.per_record(values)


b12_swapped_labels = planted(
    "B12: noise of the two releases swapped", "conformance", program=_wrong(_SwappedLabels)
)
b16_radius_from_data = planted(
    "B16: a radius made of private records", "conformance", program=_wrong(_RadiusFromData)
)
peeking = planted(
    "B26: stops by a value it has seen without noise", "conformance", program=_wrong(_Peeking)
)


# --- a declaration -------------------------------------------------------------------------------


def _declared(name: str, title: str, program: Diff2) -> tuple[Mechanism, Suite]:
    """A mechanism whose own declaration is wrong, under the paper's claims, and its audit."""
    suite = Suite(
        mechanism=name,
        program=program,
        neighbours=neighbours(SIZES),
        caught_by=("accountant", "refuted") if "B14" not in title else ("conformance",),
        bug=title,
    )
    return mechanism(name, title, program, (STATED, PAPER_MU)), suite


SQUARED = Noise(CORRECT.noise.sigma_1**2, CORRECT.noise.sigma_2**2)
SWAPPED = Noise(CORRECT.noise.sigma_2, CORRECT.noise.sigma_1)
SAME = Noise(CORRECT.noise.sigma_1, CORRECT.noise.sigma_1)

diff2_gd_b4, b4_variance_as_deviation = _declared(
    "diff2_gd_b4", "B4: variance passed as standard deviation", replace(CORRECT, noise=SQUARED)
)
diff2_gd_b12, b12_swapped_sigmas = _declared(
    "diff2_gd_b12", "B12: sigma_1 and sigma_2 swapped", replace(CORRECT, noise=SWAPPED)
)
diff2_gd_b13, b13_one_sigma = _declared(
    "diff2_gd_b13", "B13: sigma_1 in every round", replace(CORRECT, noise=SAME)
)
diff2_gd_b14, b14_floor_restarts = _declared(
    "diff2_gd_b14",
    "B14: floor(R/T) restarts declared, ceil(R/T) made",
    _wrong(_FloorRestarts, restart_every=19),
)

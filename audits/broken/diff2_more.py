"""More planted bugs in DIFF2-GD: how far a release moves, and what its noise was made for.

Numbers are those of the project's audit plan for this paper; the setting, its correct twin and the
other bugs are in ``audits.broken.diff2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from audits.broken.diff2 import CORRECT, SIZES, mechanism, planted
from audits.diff2 import neighbours, worst_case
from dpaudit.audit.suite import Suite
from dpaudit.exact import enclose
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.distributed import DistributedGaussianVector
from dpaudit.families.distributed.kernel import DistributedGaussianVectorKernel
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array, ClippedMean, Records, clip_rows
from dpaudit.kernels.random_bits import Bits, Whole
from dpaudit.scope import Adjacency
from mechanisms.papers.common.losses import Logistic, WorstCase
from mechanisms.papers.diff2.catalogue import (
    DELTA,
    EPSILON,
    PAPER_MU,
    STATED,
    TIGHT_MU,
    diff2_gd_program,
    diff2_gd_shares,
)
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.diff2.shares import SharedDiff2, shares_for

LARGE_STEPS = 20.0


def _wrong(kind: type[Diff2], **changes: Any) -> Diff2:
    """The correct program with methods of another class."""
    return kind(**{**CORRECT.__dict__, **changes})


def _calibrated(
    sizes: tuple[int, ...], step_size: float = 0.1, u: object = Fraction(5, 4)
) -> Diff2:
    """The printed constants for clients of these sizes."""
    return diff2_gd_program(
        Logistic(),
        3,
        sizes,
        rounds=20,
        restart_every=5,
        epsilon=EPSILON,
        delta=DELTA,
        calibration="paper",
        u=u,
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=step_size,
    )


# --- noise that does not follow the radius -------------------------------------------------------


class UnsquaredRadius(GaussianKernel):
    """Variance sigma_2^2 C_r in difference rounds, as the prose of Section 3 prints (B5)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        if self.leaf.label != "difference":
            return super().sample(values, scale, rng)
        # scale = sigma_2 C_r, so that sqrt(sigma_2 scale) = sigma_2 sqrt(C_r).
        sigma = float(self.leaf.noise_multiplier) * 2 / (len(SIZES) * SIZES[0])
        return super().sample(values, np.sqrt(sigma * scale), rng)


class StaleRadius(ClippedMean):
    """States the sensitivity of another radius than it clips at (B10)."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        other = replace(self, radius=self.__dict__["_stale"])
        return ClippedMean.sensitivity(other, adjacency, size)


@dataclass(frozen=True)
class _StaleRadius(Diff2):
    """Noises a restart with the radius of the difference round before (B10)."""

    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        found = super().difference_query(x, previous)
        self.__dict__["_radius"] = found.radius
        return found

    def gradient_query(self, x: Array) -> ClippedMean:
        right = super().gradient_query(x)
        if not x.any():
            return right
        stale = StaleRadius(right.per_record, right.radius, right.weights)
        stale.__dict__["_stale"] = self.__dict__["_radius"]
        return stale


b5_unsquared_radius = planted(
    "B5: variance sigma_2^2 C, C below 1: too much noise", "conformance", kernel=UnsquaredRadius
)
MOST_TO_DIFFERENCES = worst_case(_calibrated(SIZES, step_size=LARGE_STEPS, u=5))
diff2_gd_b5 = mechanism(
    "diff2_gd_b5",
    "DIFF2-GD, a fifth of the budget for restarts, correct",
    MOST_TO_DIFFERENCES,
    (STATED, PAPER_MU),
)
b5_large_steps = replace(
    planted(
        "B5: variance sigma_2^2 C, steps so large that C is above 1",
        "refuted",
        "conformance",
        program=MOST_TO_DIFFERENCES,
        kernel=UnsquaredRadius,
    ),
    mechanism="diff2_gd_b5",
)
b10_stale_radius = planted(
    "B10: a restart noised with the radius of a difference",
    "refuted",
    "conformance",
    program=_wrong(_StaleRadius),
)


# --- queries that move further -------------------------------------------------------------------


class Unclipped(ClippedMean):
    """Does not clip what it is given; states the sensitivity of its radius."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        return ClippedMean(self.per_record, 1e300, self.weights).value(records, chosen)


@dataclass(frozen=True)
class _ClippedGradients(Diff2):
    """Clips the two gradients at C1, and subtracts (B8)."""

    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        right = super().difference_query(x, previous)

        def rows(values: Array) -> Array:
            radius = np.full(len(x), self.gradient_radius)
            now, before = self.loss.gradients(x, values), self.loss.gradients(previous, values)
            return clip_rows(now, radius) - clip_rows(before, radius)

        return Unclipped(rows, right.radius, right.weights)


class Accumulated(ClippedMean):
    """Adds what earlier queries of the block found, without their noise (B9)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        own = super().value(records, chosen)
        earlier: list[ClippedMean] = self.__dict__["_earlier"]
        return np.asarray(own + sum(query.value(records, chosen) for query in earlier))


@dataclass(frozen=True)
class _NoiseFreeAccumulator(Diff2):
    """Releases v_r = d_r + v_{r-1} with v_{r-1} free of noise, noised as if it were d_r (B9)."""

    def gradient_query(self, x: Array) -> ClippedMean:
        right = super().gradient_query(x)
        self.__dict__["_block"] = [right]
        return right

    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        right = super().difference_query(x, previous)
        block: list[ClippedMean] = self.__dict__["_block"]
        found = Accumulated(right.per_record, right.radius, right.weights)
        found.__dict__["_earlier"] = list(block)
        block.append(right)
        return found


b8_clipped_gradients = planted(
    "B8: clips the two gradients, not their difference; a record ten times less smooth",
    "refuted",
    "conformance",
    program=_wrong(_ClippedGradients, loss=WorstCase(size=5, curvature=10.0, slope=0.01)),
)
b9_noise_free_accumulator = planted(
    "B9: adds differences to the estimate before noise",
    "refuted",
    "conformance",
    program=_wrong(_NoiseFreeAccumulator),
)


# --- a declaration -------------------------------------------------------------------------------

UNEQUAL = (20, 60)


def _declared(name: str, title: str, program: Diff2) -> tuple[Any, Suite]:
    """A mechanism whose own noise is too little for the paper's claims, and its audit."""
    suite = Suite(
        mechanism=name,
        program=program,
        neighbours=neighbours(program.client_sizes),
        caught_by=("accountant", "refuted"),
        bug=title,
    )
    return mechanism(name, title, program, (STATED, PAPER_MU)), suite


LARGEST_CLIENT = worst_case(
    replace(_calibrated(UNEQUAL), noise=_calibrated((max(UNEQUAL),) * 2).noise)
)
HALVED = replace(
    CORRECT, noise=Noise(CORRECT.noise.sigma_1 / 2, CORRECT.noise.sigma_2 / 2)
)  # what zero_out needs

# --- noise in shares -----------------------------------------------------------------------------

SHARING = (20,) * 10
SHARED = worst_case(
    SharedDiff2(
        **{
            **_calibrated(SHARING).__dict__,
            "shares": shares_for(
                EPSILON,
                DELTA,
                SHARING,
                (4, 16),
                dropouts=4,
                units=64,
                dimension=5,
                modulus=2**20,
                gone=((9,), (6, 7, 8, 9), ()),
            ),
        }
    )
)


class EverybodyStays(DistributedGaussianVectorKernel):
    """Each client adds the P-th part of the noise; those who drop out take theirs away (B27)."""

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        fewer = float(enclose(leaf.left * leaf.total / leaf.clients).mid())
        self._spread = math.sqrt(fewer - 1 / 12)

    def draw(self, count: int, bits: Bits) -> Whole:
        rng = np.random.default_rng([int(word) for word in bits(4)])
        return np.asarray(np.rint(self._spread * rng.standard_normal(count)).astype(np.int64))


diff2_gd_shared_bench = replace(
    mechanism("diff2_gd_shared_bench", "DIFF2-GD in shares, correct", SHARED, (TIGHT_MU,)),
    scope=diff2_gd_shares.scope,
)
b27_everybody_stays = Suite(
    mechanism="diff2_gd_shared_bench",
    program=SHARED,
    neighbours=neighbours(SHARING),
    kernels={DistributedGaussianVector: EverybodyStays},
    caught_by=("refuted", "conformance"),
    bug="B27: shares of noise are not divided by the number of survivors",
)


diff2_gd_b15, b15_largest_client = _declared(
    "diff2_gd_b15", "B15: noise calibrated for the largest client", LARGEST_CLIENT
)
diff2_gd_b17, b17_zeroed_out = _declared(
    "diff2_gd_b17", "B17: noise calibrated for a record taken out, quoted as replaced", HALVED
)

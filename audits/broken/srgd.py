"""Planted bugs in Accelerated-DP-SRGD: in a query, a sampler kernel, a declaration.

Those in the program are in ``srgd_programs.py``.
Numbers are those of the project's audit plan for this paper.  The setting is 16 rounds of 3
records, the tree, clipping norm 1, beta = 4, and the sigma that makes mu = 1 under zero_out: so
(epsilon, delta) = (4.3772, 1e-5).  ``twin`` is the same audit of the correct implementation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audits.srgd import neighbours
from dpaudit.accountant.claim import Claim
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.exact import Number, sqrt
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.correlated.kernel import CorrelatedGaussianKernel
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array, ClippedMean, Query, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, central
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.gradient import StochasticRecursiveGradient, prefix_sums
from mechanisms.papers.srgd.rows import Clipped, Rows

ROUNDS, BATCH, BETA, LEVELS = 16, 3, 4, 5
SIGMA = sqrt(Fraction(LEVELS)) / (BATCH * BETA)
ZERO_OUT, REPLACE_ONE = central("zero_out"), central("replace_one")
LINEAR = WorstCase(size=2, curvature=0.0, slope=1.0)
HUGE = WorstCase(size=2, curvature=0.0, slope=1e3)
GRADIENT = StochasticRecursiveGradient(
    loss=LINEAR,
    features=0,
    size=ROUNDS * BATCH,
    rounds=ROUNDS,
    beta=BETA,
    sigma=SIGMA,
    rows=Clipped(1),
)
CORRECT = AcceleratedDPSRGD(GRADIENT)
OPPOSED = replace(CORRECT, gradient=replace(GRADIENT, sigma=2 * SIGMA))
CLAIMS = (
    Claim(GDP(1), by="calibrated: the least noise of the tree"),
    Claim(ApproxDP(Fraction("4.3773"), Fraction(1, 10**5)), by="the exact curve of mu = 1"),
)
SETTING = Setting(
    controller="the test bench",
    unit_entity="record",
    unit_bound="one row, in one batch",
    covered=("16 noisy prefix sums",),
)


def mechanism(name: str, title: str, program: Any, scope: Scope = ZERO_OUT) -> Mechanism:
    """A mechanism in the setting above."""
    source = "Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1; wrong on purpose unless said"
    return Mechanism(name, title, source, program, scope, CLAIMS, SETTING)


def planted(
    bug: str,
    *caught_by: str,
    program: Any = CORRECT,
    pair: Neighbours | None = None,
    kernel: Any = None,
    bench: str = "srgd_bench",
) -> Suite:
    """An audit of the correct declaration with one wrong part."""
    return Suite(
        mechanism=bench,
        program=program,
        neighbours=neighbours(program.gradient) if pair is None else pair,
        kernels={} if kernel is None else {CorrelatedGaussian: kernel},
        caught_by=caught_by,
        bug=bug,
    )


def among(canary: float, fellows: tuple[float, ...], batch: int = 0) -> Neighbours:
    """A batch that holds the canary, zeroed out in the second data set, and its fellows."""
    values = np.zeros((ROUNDS * BATCH, 1))
    start = batch * BATCH
    values[start] = canary
    values[start + 1 : start + 1 + len(fellows), 0] = fellows
    return Neighbours(
        Records(values),
        Records(values, np.arange(len(values)) != start),
        Adjacency.ZERO_OUT,
        f"record {canary:g} of batch {batch} is zeroed out; its fellows are {fellows}",
    )


srgd_bench = mechanism("srgd_bench", "Accelerated-DP-SRGD in the bench setting, correct", CORRECT)
srgd_bench_replace_one = mechanism(
    "srgd_bench_replace_one", "The same under replace_one, correct", OPPOSED, REPLACE_ONE
)
twin = planted("none: the correct twin")
twin_replace_one = planted(
    "none: the correct twin, replace_one",
    program=OPPOSED,
    pair=neighbours(OPPOSED.gradient, Adjacency.REPLACE_ONE),
    bench="srgd_bench_replace_one",
)


# --- a query -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flipping:
    """Gradients of norm 1 that point one way at an iterate and the other way 1e-6 further on."""

    size: int = 2

    def dimension(self, features: int) -> int:
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, self.size))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        height = np.abs(np.sin(1e6 * np.asarray(parameters)[:, :1])) / 1e6
        return np.asarray(height * np.asarray(records)[:, 0])

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        along = np.where(np.sin(1e6 * np.asarray(parameters)[:, 0]) < 0, -1.0, 1.0)
        signs = np.asarray(records)[:, 0]
        rows = np.zeros((len(along), len(signs), self.size))
        rows[..., 0] = along[:, None] * signs
        return rows


class HalfSensitivity(ClippedMean):
    """States C / (B beta) under replace_one too (7)."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return super().sensitivity(Adjacency.ZERO_OUT, size)


class UnclippedMean(ClippedMean):
    """States a radius, and clips nothing (4, 6)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        trusting = ClippedMean(self.per_record, 1e300, divisor=self.divisor)
        return trusting.value(records, chosen)


class ClippedAfterAveraging(ClippedMean):
    """Clips the mean of the batch (5)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = self.per_record(records.values) * records.present[:, None]
        mean = rows.mean(axis=1)
        norm = np.linalg.norm(mean, axis=-1, keepdims=True)
        return np.asarray(mean / np.maximum(norm, 1.0) / BETA)


class DividedByPresent(ClippedMean):
    """Divides by the number of records that are there (15)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        there = max(int(np.count_nonzero(records.present)), 1)
        return np.asarray(super().value(records, chosen) * (BATCH / there))


class MedianRadius(ClippedMean):
    """Clips to the median norm of the batch (19)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = self.per_record(records.values) * records.present[:, None]
        norms = np.linalg.norm(rows, axis=-1, keepdims=True)
        radius = np.median(norms, axis=1, keepdims=True)
        clipped = rows * np.minimum(1.0, radius / np.maximum(norms, 1e-300))
        return np.asarray(clipped.sum(axis=1) / self.divisor)


@dataclass(frozen=True)
class Wrong(Clipped):
    """Rows by another query, stated to be clipped."""

    kind: type[ClippedMean] = ClippedMean

    def query(self, rows: Rows, divisor: float) -> Query:
        return self.kind(rows, float(self.norm), divisor=divisor)


def _querying(
    kind: type[ClippedMean], program: AcceleratedDPSRGD = CORRECT, **changes: Any
) -> AcceleratedDPSRGD:
    """The program with another query."""
    gradient = replace(program.gradient, rows=Wrong(1, kind), **changes)
    return replace(program, gradient=gradient)


b4_each_gradient_clipped = planted(
    "4: clips each gradient (here of norm C), not the weighted difference",
    "refuted",
    "conformance",
    program=_querying(UnclippedMean, loss=Flipping()),
    pair=among(1.0, (), batch=12),
)
b5_clipped_after_averaging = planted(
    "5: clips the mean, not the record",
    "refuted",
    "conformance",
    program=_querying(ClippedAfterAveraging, loss=HUGE),
    pair=among(9.0, (-1.0, -1.0)),
)
b6_unclipped = planted(
    "6: no clipping, a gradient of ten times the norm",
    "refuted",
    "conformance",
    program=_querying(UnclippedMean, loss=replace(LINEAR, slope=10.0)),
)
b7_zero_out_constant = planted(
    "7: sensitivity of zero_out under replace_one",
    "refuted",
    "conformance",
    program=_querying(HalfSensitivity, OPPOSED),
    pair=neighbours(OPPOSED.gradient, Adjacency.REPLACE_ONE),
    bench="srgd_bench_replace_one",
)
b15_divided_by_present = planted(
    "15: divides by the records that are there",
    "refuted",
    "conformance",
    program=_querying(DividedByPresent),
    pair=among(1.0, (-1.0, -1.0)),
)
b19_median_radius = planted(
    "19: clips to the median norm of the batch",
    "refuted",
    "conformance",
    program=_querying(MedianRadius, loss=HUGE),
    pair=among(1.0, (1.0,)),
)


# --- a sampler kernel ----------------------------------------------------------------------------


class FreshTree(CorrelatedGaussianKernel):
    """Draws all nodes of a prefix anew in every round (8)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        deviation = np.sqrt(self.nodes(self._round)) * scale[:, None]
        released = self.centre(values) + deviation * rng.standard_normal(values.shape)
        self.advance(values, scale)
        return np.asarray(released)

    def nodes(self, t: int) -> int:
        """How many nodes' noise prefix t carries."""
        return t.bit_count()


class OneNodeEach(FreshTree):
    """Independent noise of one node in every prefix (16)."""

    def nodes(self, t: int) -> int:
        return 1


class OneVector(CorrelatedGaussianKernel):
    """The same noise in every node (9)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        drawn = self.__dict__.setdefault("drawn", rng.standard_normal(values.shape))
        noise = self._round.bit_count() * scale[:, None] * drawn
        released = self.centre(values) + noise
        self.advance(values, scale)
        return np.asarray(released)


class SquaredDeviation(CorrelatedGaussianKernel):
    """Takes sigma^2 for the standard deviation (18)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        fresh = scale[:, None] ** 2 * rng.standard_normal(values.shape)
        noise = self._past.known(self._round) + fresh
        released = self.centre(values) + noise
        self._remember(values, scale, noise, fresh)
        return np.asarray(released)


b8_fresh_tree = planted("8: nodes drawn anew in every round", "conformance", kernel=FreshTree)
b9_one_vector = planted("9: the same noise in every node", "conformance", kernel=OneVector)
b16_one_node_each = planted(
    "16: independent noise of one node in every prefix", "conformance", kernel=OneNodeEach
)
b18_squared_deviation = planted(
    "18: sigma^2 drawn as the deviation", "refuted", "conformance", kernel=SquaredDeviation
)


# --- a declaration -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _NoBeta(AcceleratedDPSRGD):
    """Declares sigma over C / B, the move of S and not of S / beta (18)."""

    def declaration(self, scope: Scope) -> Node:
        return prefix_sums(scope, clip=1, batch=BATCH, beta=1, sigma=SIGMA, rounds=ROUNDS)


def declared(
    name: str, title: str, program: AcceleratedDPSRGD, *caught_by: str
) -> tuple[Mechanism, Suite]:
    """A mechanism whose own declaration is wrong, under the claims of mu = 1, and its audit."""
    return (
        mechanism(name, title, program),
        planted(title, "accountant", *caught_by, program=program, bench=name),
    )


def _sigma(value: Number, gradient: StochasticRecursiveGradient = GRADIENT) -> AcceleratedDPSRGD:
    return replace(CORRECT, gradient=replace(gradient, sigma=value))


UNIT = Fraction(1, BATCH * BETA)
TWICE = replace(GRADIENT, rounds=2 * ROUNDS, size=2 * ROUNDS * BATCH)
srgd_b1, b1_printed_sigma = declared(
    "srgd_b1",
    "1: sigma of Corollary 5.7 as printed, no root of 2 and a level too few",
    _sigma(UNIT * sqrt(Fraction(LEVELS - 1, 2))),
    "refuted",
)
srgd_b2, b2_levels_ignored = declared(
    "srgd_b2", "2: sigma = C / mu, levels ignored", _sigma(UNIT), "refuted"
)
srgd_b3, b3_a_level_too_few = declared(
    "srgd_b3", "3: floor(log2 T) levels", _sigma(UNIT * sqrt(Fraction(LEVELS - 1)))
)
srgd_b17, b17_tree_for_half = declared(
    "srgd_b17", "17: noise for T rounds, 2 T run", _sigma(SIGMA, TWICE)
)
srgd_b18, b18_beta_forgotten = declared(
    "srgd_b18", "18: beta forgotten in the declaration", _NoBeta(GRADIENT), "refuted"
)

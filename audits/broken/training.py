"""Planted bugs in what training does: each breaks the declared guarantee."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpaudit as dp
from audits.training.common import FAR, PAIR, TURNED, ZEROED
from audits.training.last_iterate import pair as LONG
from audits.training.secure_mean import PAIR as POINTING
from audits.training.users import OWNED
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.banded.kernel import TurnsBatches
from dpaudit.families.correlated.kernel import CorrelatedGaussianKernel
from dpaudit.families.distributed.kernel import DistributedGaussianVectorKernel
from dpaudit.families.distributed.rotated import RotatedTotals
from dpaudit.families.iterates import SampledLastIterate
from dpaudit.families.iterates.kernel import SampledLastIterateKernel
from dpaudit.kernels.base import Generator
from dpaudit.kernels.iterations import Iterations
from dpaudit.kernels.query import Array
from dpaudit.scope import Adjacency
from mechanisms.classics.dp_sgd import gradients
from mechanisms.training.adam import BATCH, DpAdam
from mechanisms.training.adaptive_clipping import AdaptivelyClipped
from mechanisms.training.last_iterate import RATE
from mechanisms.training.layers import RADII, Layered
from mechanisms.training.microbatches import (
    AT_ONCE,
    RECORDS,
    TOGETHER,
    Accumulated,
    InPieces,
    Microbatched,
)
from mechanisms.training.sampled_last_iterate import SampledLastShown
from mechanisms.training.secure_mean import GRAIN, MODULUS, RADIUS, SQUARES, SecureMean
from mechanisms.training.turns import TreeInTurns
from mechanisms.training.users import OfUsers, UserSgd


@dataclass(frozen=True)
class CleanMoments(DpAdam):
    """The second moment is of the clean gradient, which the query left behind."""

    def query(self, weights: Array) -> dp.Query:
        kept: list[Array] = []
        object.__setattr__(self, "_kept", kept)

        def rows(values: Array) -> Array:
            found = gradients(weights, values)
            kept.append(found.sum(axis=1))
            return found

        return dp.ClippedMean(rows, radius=1, divisor=BATCH)

    def squared(self, found: Array) -> Array:
        last = self.__dict__["_kept"][-1]
        return np.broadcast_to(np.square(last / BATCH), found.shape)


@dataclass(frozen=True)
class ClippedOnce(DpAdam):
    """The mean of the batch is clipped, not each gradient."""

    def query(self, weights: Array) -> dp.Query:
        def rows(values: Array) -> Array:
            found = gradients(weights, values)
            return np.broadcast_to(found.sum(axis=1, keepdims=True), found.shape)

        return dp.ClippedMean(rows, radius=1, divisor=BATCH)


class WholeCounts(AdaptivelyClipped):
    """Counts are 1 and 0, which a record moves by 1, and the noise is that of 1/2."""

    def within(self, weights: Array, radius: Array) -> dp.Query:
        def counts(values: Array) -> Array:
            norms = np.linalg.norm(gradients(weights, values), axis=-1)
            return np.where(norms <= radius[:, None], 0.0, 1.0)[..., None]

        return _Halved(counts, radius=1, divisor=BATCH)


@dataclass(frozen=True, eq=False)
class _Halved(dp.ClippedMean):
    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(super().sensitivity(adjacency, size) / 2)


class OldRadius(AdaptivelyClipped):
    """Noise is made for the first radius, gradients are clipped to that of the step."""

    def mean(self, weights: Array, radius: Array) -> dp.Query:
        right: Any = super().mean(weights, radius)
        return _Fixed(right.per_record, radius=radius * 2, divisor=BATCH)


@dataclass(frozen=True, eq=False)
class _Fixed(dp.ClippedMean):
    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(replace(self, radius=self.radius / 2).stated(adjacency, size))

    def stated(self, adjacency: Adjacency, size: int) -> Array:
        return super().sensitivity(adjacency, size)


class LargestLayer(Layered):
    """Noise for the larger of both radii, not for both together."""

    def query(self, weights: Array) -> dp.Query:
        right: Any = super().query(weights)
        return _LargestRadius(right.per_record, radius=right.radius, divisor=BATCH)


@dataclass(frozen=True, eq=False)
class _LargestRadius(dp.ClippedMean):
    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(max(RADII) / BATCH)


@dataclass(frozen=True)
class OnceTheRadius(InPieces):
    """A microbatch's mean moves by twice the radius, and once is stated."""

    def query(self, weights: Array) -> dp.Query:
        return _Once(weights, TOGETHER)


@dataclass(frozen=True, eq=False)
class _Once(Microbatched):
    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(super().sensitivity(adjacency, size) / 2)


class NoiseOfAPiece(GaussianKernel):
    """Noise over the number of pieces that were accumulated."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return super().sample(values, scale * AT_ONCE / RECORDS, rng)


@dataclass(frozen=True)
class FlushedTwice(InPieces):
    """What the last piece holds is added once more when all are in."""

    def query(self, weights: Array) -> dp.Query:
        right: Any = super().query(weights)
        return _Flushed(right.whole, AT_ONCE)


@dataclass(frozen=True, eq=False)
class _Flushed(Accumulated):
    def value(self, records: dp.Records, chosen: Any = None) -> Array:
        last = records.rows(len(records) - self.at_once, len(records))
        return super().value(records, chosen) + self.whole.value(last)


class Uncentred(DistributedGaussianVectorKernel):
    """Sums are lifted to 0..M - 1, where the representatives nearest to 0 are declared."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return np.asarray(np.mod(super().sample(values, scale, rng), MODULUS))


class TooFarLifted(DistributedGaussianVectorKernel):
    """The lift takes residues to -M / 2 + 1..M / 2: the one in the middle to the wrong end."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        found = super().sample(values, scale, rng)
        return np.asarray(np.where(found == -MODULUS // 2, MODULUS // 2, found))


@dataclass(frozen=True)
class AnyRounding(SecureMean):
    """The first rounding counts, wherever it is; squares are stated as if it were drawn again."""

    def query(self, signs: Array, dither: Array) -> RotatedTotals:
        return _AnyRounding(lambda v: v[None], RADIUS, GRAIN, signs, dither, SQUARES)


@dataclass(frozen=True, eq=False)
class _AnyRounding(RotatedTotals):
    def rounded(self, scaled: Array) -> Array:
        return np.asarray(np.floor(scaled + self.dither[:, 0]))


class OneCoinForAllTurns:
    """A record's first coin is that of every turn."""

    def __init__(self, sampling: Any, trials: int) -> None:
        self.turns, self.trials = TurnsBatches(sampling), trials
        self.used, self.coins = 0, np.zeros((0, 0))

    def draw(self, size: int, rng: Generator) -> Array:
        """The next batch, shape (trials, size)."""
        eligible = self.turns.eligible(self.used, size)
        if not self.used:
            self.coins = rng.random((self.trials, size))
        self.used += 1
        return np.asarray((self.coins < self.turns.rate) & eligible)


class TwiceTheRate(OneCoinForAllTurns):
    """Coins of twice the rate."""

    def draw(self, size: int, rng: Generator) -> Array:
        eligible = self.turns.eligible(self.used, size)
        self.used += 1
        return np.asarray((rng.random((self.trials, size)) < 2 * self.turns.rate) & eligible)


class LeavesWithoutNoise(CorrelatedGaussianKernel):
    """Of a tree's nodes, those of one round are released with next to no noise."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        fresh = scale[:, None] * rng.standard_normal(values.shape)
        fresh = fresh / 100 if self._round % 2 else fresh
        noise = self._past.known(self._round) + fresh
        released = self.centre(values) + noise
        self._remember(values, scale, noise, fresh)
        return released


def _suite(name: str, program: Any, pair: dp.Neighbours, bug: str, **options: Any) -> dp.Suite:
    return dp.Suite(name, program, pair, trials=1_000, bug=bug, **options)


class EveryStepReadsAll(SampledLastIterateKernel):
    """No batch is drawn."""

    def below(self) -> float:
        return np.inf


class OneBatchForAll(SampledLastIterateKernel):
    """The batch of the first step is that of all."""

    def marks(self, trials: int, size: int, rng: Generator) -> Array | None:
        found = super().marks(trials, size, rng)
        return None if found is None else np.repeat(found[:, :1], found.shape[1], axis=1)


class LessNoiseInside(SampledLastIterateKernel):
    """Nine tenths of the noise in steps that are not shown."""

    def tape(self, shape: tuple[int, int], rng: Generator) -> Array:
        return super().tape(shape, rng) * 0.9


HIDDEN: dict[str, dict[Any, Any]] = {
    "every_step_reads_all": {SampledLastIterate: EveryStepReadsAll},
    "one_batch_for_all": {SampledLastIterate: OneBatchForAll},
    "less_noise_inside": {SampledLastIterate: LessNoiseInside},
}


class Stretched(SampledLastShown):
    """A ridge that takes steps past the least point, and further away than they were."""

    def run(self, curator: dp.Curator) -> Array:
        def gradient(weights: Array) -> dp.Query:
            return dp.ClippedMean(lambda v: 0 * weights[:, None] - v[None, :, :2], radius=1)

        return curator.release("weights", Iterations(gradient, np.zeros(2), RATE, 12.0))


class AllRecords(UserSgd):
    """Users bring all records that they have."""

    def query(self, weights: Array) -> dp.Query:
        return _AllCounted(weights)


@dataclass(frozen=True, eq=False)
class _AllCounted(OfUsers):
    def counted(self, values: Array) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(values).all(axis=-1))


class NoiseForARecord(UserSgd):
    """Noise is for what one record moves, though a user brings two."""

    def query(self, weights: Array) -> dp.Query:
        return _OfARecord(weights)


@dataclass(frozen=True, eq=False)
class _OfARecord(OfUsers):
    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(super().sensitivity(adjacency, size) / self.most)


BROKEN = [
    *(
        _suite("sampled_last_iterate", SampledLastShown(), LONG, bug, kernels=kernels)
        for bug, kernels in HIDDEN.items()
    ),
    _suite("sampled_last_iterate", Stretched(), LONG, "updates_stretch"),
    _suite("dp_adam", CleanMoments(), PAIR, "clean_moments"),
    _suite("dp_adam", ClippedOnce(), PAIR, "clipped_once"),
    _suite("adaptively_clipped_sgd", WholeCounts(), PAIR, "whole_counts"),
    _suite("adaptively_clipped_sgd", OldRadius(), PAIR, "old_radius"),
    _suite("layered_sgd", LargestLayer(), FAR, "largest_layer"),
    _suite("user_sampled_sgd", AllRecords(), OWNED, "all_records_of_a_user"),
    _suite("user_sampled_sgd", NoiseForARecord(), OWNED, "noise_for_a_record"),
    _suite("microbatched_gd", OnceTheRadius(TOGETHER), TURNED, "once_the_radius"),
    _suite(
        "accumulated_gd",
        InPieces(),
        ZEROED,
        "noise_of_a_piece",
        kernels={dp.Gaussian: NoiseOfAPiece},
    ),
    _suite("accumulated_gd", FlushedTwice(), ZEROED, "flushed_twice"),
    _suite(
        "secure_mean",
        SecureMean(),
        POINTING,
        "uncentred_lift",
        kernels={dp.DistributedGaussianVector: Uncentred},
    ),
    _suite(
        "secure_mean",
        SecureMean(),
        POINTING,
        "wrong_end_of_the_lift",
        kernels={dp.DistributedGaussianVector: TooFarLifted},
    ),
    _suite("secure_mean", AnyRounding(), POINTING, "any_rounding"),
    *(
        _suite("tree_in_turns", TreeInTurns(), PAIR, bug, kernels=kernels)
        for bug, kernels in (
            ("one_coin_for_all_turns", {dp.CyclicPoisson: OneCoinForAllTurns}),
            ("twice_the_rate_of_turns", {dp.CyclicPoisson: TwiceTheRate}),
            ("leaves_without_noise", {dp.CorrelatedGaussian: LeavesWithoutNoise}),
        )
    ),
]

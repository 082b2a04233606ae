"""Planted bugs in DIFF2-BVR-L-SGD's local steps: batches, noise, declaration, output.

Numbers B18 to B25 are those of the project's audit plan for this paper.  The setting is two clients
of 40 records, 8 rounds, a restart every 4, 11 local steps on batches of 8: the right mechanism's
epsilon at 1e-5 lies in [1.5575, 1.5751], where the paper's claim is 3.  ``bvr_twin`` is the same
audit of the correct implementation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from audits.broken.diff2 import SETTING
from audits.diff2 import opposed, worst_case
from dpaudit.accountant.claim import Claim
from dpaudit.audit.suite import Suite
from dpaudit.curator.coins import Generator, draw_batch
from dpaudit.curator.curator import Curator
from dpaudit.curator.entitlement import Mask
from dpaudit.curator.mechanism import Mechanism
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.diff2.catalogue import DELTA, EPSILON, PAPER, REPLACE_ONE
from mechanisms.papers.diff2.framework import Diff2, LocalDescent, turns
from mechanisms.papers.diff2.noise import Noise

SIZES = (40, 40)
STEPS, BATCH = 11, 8
TRIALS = 4_000
LOCAL = LocalDescent(STEPS, BATCH, Fraction("1.461675"), radius=1.0)
CORRECT = worst_case(
    Diff2(
        loss=WorstCase(size=5, curvature=1.0),
        features=0,
        client_sizes=SIZES,
        rounds=8,
        restart_every=4,
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=0.1,
        noise=Noise(Fraction("0.15"), Fraction("0.259808")),
        routine=LOCAL,
    )
)
CLAIMS = (
    Claim(ApproxDP(EPSILON, DELTA), by=f"{PAPER}, Proposition E.2"),
    Claim(ApproxDP(Fraction("1.5752"), DELTA), by="the exact profile of a local step, composed"),
)


def mechanism(name: str, title: str, program: Diff2) -> Mechanism:
    """A mechanism in the setting above."""
    source = (
        "Murata and Suzuki 2023, Algorithms 1, 2 and 4; wrong on purpose unless it says correct"
    )
    return Mechanism(name, title, source, program, REPLACE_ONE, CLAIMS, SETTING)


def planted(
    bug: str,
    *caught_by: str,
    program: Diff2 = CORRECT,
    kernels: dict[type[Node], Any] | None = None,
    of: str = "diff2_bvr_bench",
) -> Suite:
    """An audit of a declaration with one wrong part."""
    return Suite(
        mechanism=of,
        program=program,
        neighbours=opposed(SIZES),
        trials=TRIALS,
        kernels=kernels or {},
        caught_by=caught_by,
        bug=bug,
    )


diff2_bvr_bench = mechanism(
    "diff2_bvr_bench", "DIFF2-BVR-L-SGD in the bench setting, correct", CORRECT
)
bvr_twin = planted("none: the correct twin")


# --- batches -------------------------------------------------------------------------------------


class FixedBatch:
    """The first records, in every step and every trial (B18)."""

    def __init__(self, sampling: Node, trials: int) -> None:
        self.sampling, self.trials = sampling, trials

    def draw(self, size: int, rng: Generator) -> Mask:
        return np.broadcast_to(np.arange(size) < BATCH, (self.trials, size))


class SecretFixedBatch(FixedBatch):
    """Drawn once, and used in all steps of a run (B18)."""

    def draw(self, size: int, rng: Generator) -> Mask:
        if "drawn" not in self.__dict__:
            self.drawn = draw_batch(self.sampling, self.trials, size, rng)
        return self.drawn


class BatchOfARound(FixedBatch):
    """Drawn at the first step of a round, and used in all its steps (B19)."""

    used = 0

    def draw(self, size: int, rng: Generator) -> Mask:
        if self.used % (STEPS - 1) == 0:
            self.drawn = draw_batch(self.sampling, self.trials, size, rng)
        self.used += 1
        return self.drawn


class CyclicBatch(FixedBatch):
    """The blocks of a random partition, one after another (B20)."""

    used = 0

    def draw(self, size: int, rng: Generator) -> Mask:
        if self.used == 0:
            self.places = rng.random((self.trials, size)).argsort(axis=1) // BATCH
        self.used += 1
        return np.asarray(self.places == (self.used - 1) % (size // BATCH))


class PoissonBatch(FixedBatch):
    """Every record by a coin of its own (B25)."""

    def draw(self, size: int, rng: Generator) -> Mask:
        rate = BATCH / float(self.sampling.parameters["population"])
        return np.asarray(rng.random((self.trials, size)) < rate)


class RealisedMean(ClippedMean):
    """Divides by how many records the batch holds, not by what it should hold (B25)."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        total = super().value(records, chosen)
        if chosen is None:
            return total
        return np.asarray(total * BATCH / np.maximum(chosen.sum(axis=1), 1)[:, None])


@dataclass(frozen=True)
class _RealisedMeans(LocalDescent):
    def query(self, program: Diff2, x: Array, previous: Array) -> ClippedMean:
        right = super().query(program, x, previous)
        return RealisedMean(right.per_record, right.radius, divisor=right.divisor)


def _batches(rule: type[FixedBatch]) -> dict[type[Node], Any]:
    return {SampledWithoutReplacement: rule}


def _with(routine: type[LocalDescent], **changes: Any) -> Diff2:
    """The correct program with another local routine."""
    return replace(CORRECT, routine=routine(**{**LOCAL.__dict__, **changes}))


b18_fixed_batch = planted(
    "B18: one batch, known and holding the record, in all steps",
    "conformance",
    "inspection",
    kernels=_batches(FixedBatch),
)
b18_secret_fixed_batch = planted(
    "B18: one secret batch in all steps",
    "conformance",
    "inspection",
    kernels=_batches(SecretFixedBatch),
)
b19_batch_of_a_round = planted(
    "B19: one batch a round, in all its steps",
    "conformance",
    "inspection",
    kernels=_batches(BatchOfARound),
)
b20_cyclic_partition = planted(
    "B20: a partition in cycles, accounted as sampling",
    "conformance",
    "inspection",
    kernels=_batches(CyclicBatch),
)
b25_poisson = planted(
    "B25: a Poisson batch over its realised size, accounted as without replacement",
    "conformance",
    "inspection",
    program=_with(_RealisedMeans),
    kernels=_batches(PoissonBatch),
)


# --- noise, declaration, output ------------------------------------------------------------------


class HalfLocalNoise(GaussianKernel):
    """Half the standard deviation in local steps (B23)."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        local = self.leaf.label.startswith("local")
        return super().sample(values, scale / (2 if local else 1), rng)


@dataclass(frozen=True)
class _WrongPopulation(LocalDescent):
    """Declares batches out of all clients' records (B21)."""

    def declaration(self, program: Diff2, scope: Scope) -> list[Node]:
        return [Parallel(*(self.ledger(program, scope, k) for k in range(program.clients)))]

    def ledger(self, program: Diff2, scope: Scope, client: int) -> Node:
        noise = Gaussian(f"local {client}", self.sigma * self.batch_size / 2)
        sampled = SampledWithoutReplacement(noise, self.batch_size, sum(program.client_sizes))
        return Repeat(sampled, (self.steps - 1) * turns(program.rounds, program.clients, client))


def _calibrated(bug: str, name: str, multiplier: str) -> tuple[Mechanism, Suite]:
    """The right declaration of local noise that a wrong account found enough."""
    program = _with(LocalDescent, sigma=Fraction(multiplier) * 2 / BATCH)
    return mechanism(name, bug, program), planted(bug, "accountant", program=program, of=name)


@dataclass(frozen=True)
class _LowestLoss(LocalDescent):
    """Returns the local iterate of the lowest training loss, which it has peeked at (B24)."""

    def step(
        self,
        curator: Curator,
        program: Diff2,
        x: Array,
        previous: Array,
        estimate: Array,
        turn: int,
    ) -> tuple[Array, Array]:
        after, _ = super().step(curator, program, x, previous, estimate, turn)
        seen: list[Array] = self.__dict__["_seen"]
        candidates = np.stack([x, after])
        losses = np.stack(
            [program.loss.values(point, seen[-1]).mean(axis=1) for point in candidates]
        )
        best = np.take_along_axis(candidates, losses.argmin(axis=0)[None, :, None], axis=0)
        return after, best[0]

    def query(self, program: Diff2, x: Array, previous: Array) -> ClippedMean:
        right = super().query(program, x, previous)
        return replace(right, per_record=_Peeking(right.per_record, self.__dict__["_seen"]))


class _Peeking:
    """Keeps the records it is asked about."""

    def __init__(self, per_record: Any, seen: list[Array]) -> None:
        self.per_record, self.seen = per_record, seen

    def __call__(self, values: Array) -> Array:
        self.seen.append(values)
        return np.asarray(self.per_record(values))


def _peeking() -> Diff2:
    program = _with(_LowestLoss)
    program.routine.__dict__["_seen"] = []
    return program


diff2_bvr_b21, b21_wrong_rate = _calibrated(
    "B21: noise calibrated at the rate b over all clients' records", "diff2_bvr_b21", "3.028"
)
diff2_bvr_b22, b22_naive_amplification = _calibrated(
    "B22: noise calibrated by gamma^2 times the Renyi curve", "diff2_bvr_b22", "2.814"
)
b23_half_noise = planted(
    "B23: half the standard deviation in local steps",
    "conformance",
    "inspection",
    kernels={Gaussian: HalfLocalNoise},
)
b24_lowest_loss = planted(
    "B24: returns the local iterate of lowest loss", "conformance", "inspection", program=_peeking()
)
WRONG_POPULATION = _with(
    _WrongPopulation
)  # no suite: the curator refuses it before data is touched

"""What outlier removal is held against: phased SGD with group privacy, full batches, winsorising.

Bodies that the paper only cites are reconstructions, and say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming, Parallel
from dpaudit.families.events import Group
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.srgd.problem import BoundedLogistic
from mechanisms.papers.user_level.accelerated import BatchSolver, check_batch
from mechanisms.papers.user_level.batches import (
    BatchConstants,
    calibrate_batches,
    users_needed,
)
from mechanisms.papers.user_level.constants import budget
from mechanisms.papers.user_level.phased_erm import concentration_radius
from mechanisms.papers.user_level.phased_sgd import Solution, with_rest
from mechanisms.papers.user_level.problem import (
    LinearLoss,
    Problem,
    check_scope,
    positive,
    users_of,
    whole,
)
from mechanisms.papers.user_level.sgd import one_pass_sgd

PHASE = "phase"


# --- Feldman, Koren, Talwar 2020 ------------------------------------------------------------------


def non_expansive(evidence: str) -> Assumption:
    """What the sensitivity of a plain pass of SGD rests on."""
    return Assumption(
        "non_expansive_steps",
        "every record's loss is convex, L-Lipschitz and beta-smooth, and no step exceeds 2 / beta",
        Status.DECLARED,
        evidence,
    )


@singledispatch
def regularity(loss: object) -> tuple[float, float]:
    """(L, beta) of a loss that is convex, L-Lipschitz and beta-smooth for every record.

    L = 0 says that clipping keeps it so, to whatever norm.  Register a loss here to have passes
    over it accounted for.
    Errors: InvalidParameter for any other loss: its clipped gradients may drive two runs apart.
    """
    raise InvalidParameter(
        f"{type(loss).__name__}: privacy of a plain pass rests on a convex, Lipschitz and smooth "
        "loss, and clipping gradients does not make one: register it with regularity()"
    )


@regularity.register
def _logistic(loss: BoundedLogistic) -> tuple[float, float]:
    return loss.norm, loss.norm**2 / 4


@regularity.register
def _linear(loss: LinearLoss) -> tuple[float, float]:
    return 0.0, 0.0


@dataclass(frozen=True, eq=False)
class OnePassQuery:
    """The mean over groups of the average of one pass over their items, less the start.

    A user's m items move its group's by at most 2 L step m: each step by 2 L step, and no other
    step expands the distance.
    Source: Feldman, Koren, Talwar 2020, Lemma 4.4 and Section 4.2.
    """

    problem: Problem
    start: Array
    step: float
    groups: int = 1
    norm: Norm = field(default="l2", init=False)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        users = users_of(records.values, self.problem.items)
        found = one_pass_sgd(self.problem, self.start, users, self.groups, self.step)
        return np.asarray(found.mean(axis=1))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        if adjacency is not Adjacency.REPLACE_ONE:
            raise InvalidParameter(f"one pass of SGD under {adjacency}: expected replace_one")
        moved = 2 * self.problem.lipschitz * self.step * self.problem.items
        return np.array(moved / self.groups)


@dataclass(frozen=True)
class UserLevelPhasedSGDBaseline:
    """Phased SGD with noise for all items of a user: halves of the users, steps eta / 4^i.

    ``step``: eta, eta / 4 at most 2 / ``smoothness``, on which privacy rests; so it does on the
    loss, of which ``evidence`` says why it is convex, smooth and Lipschitz for every record.
    ``groups``: runs of a phase, whose plain mean is released: no test, no outlier removed.
    Errors: InvalidParameter for a larger step, too few users for the phases, or a loss that is not
    known to be regular (:func:`regularity`), or only beyond L and ``smoothness``.
    Source: Feldman, Koren, Talwar 2020, Algorithm 2 (a reconstruction); noise at user level and
    groups: dpaudit 2026.
    """

    problem: Problem
    noise_multiplier: Fraction
    count: int
    step: float
    smoothness: float
    evidence: str
    groups: int = 1

    def __post_init__(self) -> None:
        whole(self.count, "count")
        whole(self.groups, "groups")
        positive(self.step, "step")
        if self.problem.users >> self.count < self.groups:
            raise InvalidParameter(
                f"{self.problem.users} users are too few for {self.count} phases of {self.groups} "
                f"groups: it needs at least {self.groups * 2**self.count}"
            )
        if not 0 <= self.smoothness * self.step / 4 <= 2:
            raise InvalidParameter(f"step = {self.step}: a quarter of it exceeds 2 / smoothness")
        self.check_loss()

    def check_loss(self) -> None:
        """Errors: InvalidParameter for a loss on which this privacy cannot rest."""
        lipschitz, smoothness = regularity(self.problem.loss)
        if lipschitz > self.problem.lipschitz or smoothness > self.smoothness:
            raise InvalidParameter(
                f"{type(self.problem.loss).__name__}: {lipschitz:g}-Lipschitz and {smoothness:g}-"
                f"smooth, beyond L = {self.problem.lipschitz:g} or beta = {self.smoothness:g}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """n/2, n/4, ..., and the rest."""
        halves = [self.problem.users >> i for i in range(1, self.count + 1)]
        return with_rest(halves, self.problem.users)

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        labels = (f"{PHASE} {i + 1}" for i in range(self.count))
        noise = Parallel(*(Gaussian(label, self.noise_multiplier) for label in labels))
        return Assuming(noise, non_expansive(self.evidence))

    def query(self, phase: int, start: Array) -> OnePassQuery:
        """What phase 0, 1, ... asks for."""
        return OnePassQuery(self.problem, start, self.step / 4 ** (phase + 1), self.groups)

    def run(self, curator: Curator) -> Solution:
        point = self.problem.start(curator.trials)
        for i in range(self.count):
            rows = curator.part(i, self.sizes)
            moved = curator.release(f"{PHASE} {i + 1}", self.query(i, point), rows=rows)
            point = self.problem.project(point + moved)
        return Solution(point, np.zeros(curator.trials, dtype=bool))


@dataclass(frozen=True)
class GroupPrivatePhasedSGD:
    """Phased SGD accounted for items, as a guarantee for groups of ``items``.  Declared, not run.

    Source: Feldman, Koren, Talwar 2020, Theorem 4.4, by group privacy (Lowy, Liu, Asi 2024,
    footnote 2).
    """

    items: int
    noise_multiplier: Fraction
    count: int
    evidence: str

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        labels = (f"{PHASE} {i + 1}" for i in range(self.count))
        noise = Parallel(*(Gaussian(label, self.noise_multiplier) for label in labels))
        return Assuming(Group(noise, self.items), non_expansive(self.evidence))

    def run(self, curator: Curator) -> Solution:
        """Errors: Unsupported: run the baseline with noise for all items of a user."""
        raise Unsupported("group privacy of items: run user_level_phased_sgd_baseline instead")


# --- Asi, Liu 2024 --------------------------------------------------------------------------------


@dataclass(frozen=True)
class FullBatchOutlierRemovedDPSGD:
    """Projected gradient steps on all users of a phase, outliers removed; a phase's mean iterate.

    Phases of n/2, n/4, ... users, steps ``step`` / 4^i; ``constants``: one of each phase.
    Errors: InvalidParameter for a batch of more users than a phase has.
    Source: Asi, Liu 2024, as described by Lowy, Liu, Asi 2024; its schedule is a reconstruction.
    """

    problem: Problem
    constants: tuple[BatchConstants, ...]
    radius: float
    step: float

    def __post_init__(self) -> None:
        positive(self.radius, "radius")
        positive(self.step, "step")
        for constants, size in zip(self.constants, self.sizes, strict=False):
            check_batch(constants.batch, size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """n/2, n/4, ..., and the rest."""
        halves = [self.problem.users >> i for i in range(1, len(self.constants) + 1)]
        return with_rest(halves, self.problem.users)

    @property
    def gradients(self) -> int:
        """Gradients of one item that a run takes: the sum of T_i K_i m."""
        return sum(c.rounds * c.batch for c in self.constants) * self.problem.items

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        return Parallel(
            *(c.node(f"score {i}", f"gradient {i}") for i, c in enumerate(self.constants, 1))
        )

    def run(self, curator: Curator) -> Solution:
        start = point = self.problem.start(curator.trials)
        on = np.ones(curator.trials, dtype=bool)
        for i, constants in enumerate(self.constants):
            rows, labels = curator.part(i, self.sizes), (f"score {i + 1}", f"gradient {i + 1}")
            solver, total = BatchSolver(self.problem, self.radius, constants), np.zeros_like(point)
            for _ in range(constants.rounds):
                if not on.any():
                    return Solution(start, ~on)
                on, noisy = solver.round(curator, point, on, labels, rows)
                slope = np.where(on[:, None], noisy, 0.0)
                point = self.problem.project(point - self.step / 4 ** (i + 1) * slope)
                total = total + point
            point = total / constants.rounds
        return Solution(np.where(on[:, None], point, start), ~on)


def own_schedule(
    problem: Problem, epsilon: object, delta: object, smoothness: float
) -> FullBatchOutlierRemovedDPSGD:
    """T = ceil(beta (R / L) sqrt(n m)) rounds in every phase that the users suffice for.

    So beta (n m)^(3/2) gradients, as Figure 1 counts them; steps of 1 / beta in the first phase.
    Errors: InvalidParameter for too few users, with how many are needed.
    Source: Asi, Liu 2024, by their gradient complexity; phases n/2, n/4, ...: a reconstruction.
    """
    positive(smoothness, "smoothness")
    budgeted = budget(epsilon, delta)
    spread = smoothness * problem.diameter / problem.lipschitz
    rounds = math.ceil(spread * math.sqrt(problem.users * problem.items))
    needed = users_needed(*budgeted, rounds)
    sizes = [problem.users >> i for i in range(1, 1 + int(math.log2(problem.users)))]
    enough = [size for size in sizes if size - size % 2 >= needed]
    if not enough:
        raise InvalidParameter(
            f"{problem.users} users are too few for {rounds} rounds: half of them go to phase 1, "
            f"which needs at least {needed}"
        )
    constants = tuple(calibrate_batches(*budgeted, size, rounds) for size in enough)
    tau = concentration_radius(problem, rounds * len(enough))
    return FullBatchOutlierRemovedDPSGD(problem, constants, tau, 4 / smoothness)

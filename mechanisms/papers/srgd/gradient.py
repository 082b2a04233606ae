"""Stochastic recursive gradients: noisy prefix sums of weighted gradient differences.

Round t reads batch t alone, and every record is in one batch: D_t(d) = eta_t g(x_t, d) -
eta_(t-1) g(x_(t-1), d), S_t = sum over rounds of the batch means of D, and what is released is
S_t / beta plus noise that is correlated over the rounds.
Source: Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1, lines 4 and 5, and Lemma 5.6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact, sqrt
from dpaudit.exact.domains import positive
from dpaudit.families.additive import Gaussian
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.correlated.node import Factorisation, Strategy
from dpaudit.kernels.query import Array, Query
from dpaudit.nodes import Node
from dpaudit.scope import Scope, choose
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.srgd.constants import Constants, as_float
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.prefix_noise import named
from mechanisms.papers.srgd.problem import Work, blocks, moves, whole
from mechanisms.papers.srgd.rows import Clipped, RowBound, Run
from mechanisms.papers.srgd.schedule import square_strategy

LABEL = "prefix"
MOST_ROUNDS = 100_000


def prefix_sums(
    scope: Scope,
    *,
    clip: Any,
    batch: Any,
    beta: Any,
    sigma: Any,
    rounds: Any,
    strategy: Strategy | str = Factorisation.TREE,
) -> Node:
    """Noise sigma on the nodes of prefix sums whose rows move by C_clip / (B beta), in symbols too.

    One record, zeroed out, moves one row by that, and by twice that where it is replaced; so that
    mu = C_clip sens(C) / (B beta sigma) under zero_out, sens(C) = sqrt(floor(log2 T) + 1) for the
    tree, and 2 mu under replace_one.
    Errors: InvalidParameter under add_remove: a record more moves the later ones to other batches;
    for another unit than a record, which has rows in several batches; without a trusted curator.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemma 5.6, with exact levels and moves.
    """
    factor = moves(scope, "a prefix sum over batches")
    return CorrelatedGaussian(LABEL, sigma * batch * beta / (factor * clip), rounds, strategy)


@dataclass(frozen=True)
class Prefix:
    """The last release, and the noisy prefix sum of all rounds so far: (trials, p) each."""

    released: Array
    total: Array


@dataclass(frozen=True)
class StochasticRecursiveGradient:
    """S_t / beta + noise, S_t / eta_t an estimate of the gradient at x_t.

    ``size`` records lie batch by batch: T = ``rounds`` batches of B = floor(n / T), public and
    fixed; the last n - B T records are never read.  ``sigma`` is the noise of a node, in units of
    S / beta.  ``rows``: what bounds a row: clipped, unless something else is stated.
    A row that is not finite counts as zero; B stays.
    Errors: InvalidParameter for counts that are not positive, T > n, beta or sigma not positive.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1, lines 4 and 5.
    """

    loss: Loss
    features: int
    size: int
    rounds: int
    beta: Number
    sigma: Number
    rows: RowBound
    strategy: Strategy = Factorisation.TREE
    schedule: EtaSchedule = EtaSchedule.LINEAR

    def __post_init__(self) -> None:
        for name in ("size", "rounds"):
            whole(getattr(self, name), name)
        if self.rounds > self.size:
            raise InvalidParameter(
                f"rounds = {self.rounds}: every round reads records of its own, and there are "
                f"{self.size}; use at most as many rounds"
            )
        for name in ("beta", "sigma"):
            value = exact(getattr(self, name), name)
            positive(value, name)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "schedule", choose(EtaSchedule, self.schedule, "schedule"))
        object.__setattr__(self, "strategy", named(self.strategy))

    @property
    def batch(self) -> int:
        """B = floor(n / T)."""
        return self.size // self.rounds

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The public blocks: T batches, and the records that are never read.

        Errors: InvalidParameter for more rounds than can be run.
        """
        if self.rounds > MOST_ROUNDS:
            raise InvalidParameter(
                f"rounds = {self.rounds}: at most {MOST_ROUNDS} can be run; account for more"
            )
        return blocks(self.size, self.rounds)

    @property
    def work(self) -> Work:
        """2 B T - B gradients of one record: round 0 takes one a record, later rounds two."""
        return Work(2 * self.batch * self.rounds - self.batch, self.rounds)

    def declaration(self, scope: Scope) -> Node:
        """Correlated noise on the prefix sums, under what the rows' bound rests on.

        Errors: those of :func:`prefix_sums`.
        """
        noise = prefix_sums(
            scope,
            clip=self.rows.largest,
            batch=self.batch,
            beta=self.beta,
            sigma=self.sigma,
            rounds=self.rounds,
            strategy=self.rows.strategy(self.strategy, self.rounds),
        )
        return self.rows.declared(noise)

    def batch_declaration(self, scope: Scope, t: int) -> Node:
        """What a run tells of a record of batch t: mu_t = C_t ||C[:, t]|| / (B beta sigma).

        Records of late batches are in fewer sums; the guarantee is the largest of these.
        Errors: those of :func:`prefix_sums`; InvalidParameter for no such round; Unsupported for a
        strategy that is not square, of which a column says too much.
        """
        if not 0 <= t < self.rounds:
            raise InvalidParameter(f"batch {t} of {self.rounds}: no such round")
        strategy = self.rows.strategy(self.strategy, self.rounds)
        squared = sum(row[t] ** 2 for row in square_strategy(strategy, self.rounds)[t:])
        moved = moves(scope, "a prefix sum over batches") * self.rows.largest * sqrt(squared)
        return self.rows.declared(Gaussian(LABEL, self.sigma * self.batch * self.beta / moved))

    def admit(self, method: str, radius: float) -> None:
        """Errors: InvalidParameter where the rows' bound does not hold in this program."""
        run = Run(
            method=method,
            radius=radius,
            rounds=self.rounds,
            dimension=self.loss.dimension(self.features),
            beta=self.beta,
            sigma=self.sigma,
            strategy=self.strategy,
            schedule=self.schedule,
        )
        self.rows.admit(run)

    def start(self, trials: int) -> Prefix:
        """No release yet."""
        nothing = np.zeros((trials, self.loss.dimension(self.features)))
        return Prefix(nothing, nothing)

    def release(
        self, curator: Curator, t: int, x: Array, previous: Array, before: Prefix
    ) -> Prefix:
        """G_t = S_t / beta + noise after round t, the only access to batch t."""
        rows = curator.part(t, self.sizes)
        released = curator.release(LABEL, self.clip_weighted_differences(t, x, previous), rows=rows)
        return self.accumulate(t, before, released)

    def accumulate(self, t: int, before: Prefix, released: Array) -> Prefix:
        """Post-processing: what is released adds up rows over their shares C_t / max C.

        The two prefixes are one object as long as all shares were 1.
        """
        share = self.rows.share(t)
        if share == 1.0 and before.total is before.released:
            return Prefix(released, released)
        return Prefix(released, before.total + share * (released - before.released))

    def clip_weighted_differences(self, t: int, x: Array, previous: Array) -> Query:
        """(1 / (B beta)) sum over the batch of eta_t g(x) - eta_(t-1) g(previous), row by row.

        Clipped row by row, the difference and not its two gradients, before anything is averaged;
        round 0 is the gradient at x alone.
        Source: Choquette-Choo, Ganesh, Thakurta 2024, proof of Corollary 5.7.
        """
        weights = self.schedule.eta(t), self.schedule.eta(t - 1)
        rows = partial(weighted_differences, self.loss, x, previous, weights, self.rows.share(t))
        return self.rows.query(rows, self.batch * as_float(self.beta))

    def on_loss(self, loss: Loss, features: int) -> StochasticRecursiveGradient:
        """The same estimator and noise for another loss."""
        return replace(self, loss=loss, features=features)


def weighted_differences(
    loss: Loss,
    x: Array,
    previous: Array,
    weights: tuple[float, float],
    share: float,
    records: Array,
) -> Array:
    """eta_t g(x) - eta_(t-1) g(previous) of each record, over ``share``: (trials, n, p)."""
    now, then = weights
    rows = now * loss.gradients(x, records)
    if then:
        rows = rows - then * loss.gradients(previous, records)
    return rows if share == 1.0 else rows / share


def of_constants(
    constants: Constants,
    loss: Loss,
    features: int,
    size: int,
    *,
    rows: RowBound | None = None,
    strategy: Strategy = Factorisation.TREE,
    schedule: EtaSchedule = EtaSchedule.LINEAR,
) -> StochasticRecursiveGradient:
    """The estimator with these constants on ``size`` records; rows are clipped at C by default.

    Errors: InvalidParameter where the constants are for another batch size.
    """
    if constants.batch != size // constants.rounds:
        raise InvalidParameter(
            f"constants for batches of {constants.batch}: {size} records in {constants.rounds} "
            f"rounds make batches of {size // constants.rounds}"
        )
    return StochasticRecursiveGradient(
        loss=loss,
        features=features,
        size=size,
        rounds=constants.rounds,
        beta=constants.beta,
        sigma=constants.sigma,
        rows=Clipped(constants.clip) if rows is None else rows,
        strategy=strategy,
        schedule=schedule,
    )

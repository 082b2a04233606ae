"""Phased ERM whose solver reads batches: gradients that are almost linear in the records.

A *reconstruction*: Choquette-Choo, Ganesh, Thakurta 2024 only cite it (Table 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import Array, Records
from mechanisms.papers.srgd.phased_erm import PhasedERM, RegularisedMinimum
from mechanisms.papers.srgd.phases import halves
from mechanisms.papers.srgd.problem import Work

BATCH = 33  # 4 / BATCH < 1/8: what a batch adds to the variance
PASSES_TO_CONDITION = 4  # inner steps of an epoch, in units of smoothness / strong convexity
RARE = 2.0**-20  # how often, at most, the certificate fails and descent is run instead
SEED = 20_220_601


@dataclass(frozen=True, eq=False)
class BatchedMinimum(RegularisedMinimum):
    """As its parent, by stochastic descent with variance reduction where that takes less gradients.

    An epoch takes the gradient over all rows at its snapshot x, then ``inner`` projected steps of
    length 1 / (smoothness + ridge) along grad_B(x_j) - grad_B(x) + grad(x), B being ``BATCH`` rows
    drawn by *public* coins; the mean of its points is the next snapshot.  In expectation over the
    coins the gap falls by ``shrink`` an epoch, for any convex L-Lipschitz M-smooth losses, and
    ``epochs``, public too, bring it below what is asked for but for a share RARE of the coins.
    Then one projected step of descent from x to y certifies ||y - x*|| <= M / (2 ridge) ||x - y||,
    since it brings any point nearer by M / (M + 2 ridge).  Where that is above half of the accuracy
    the parent's descent is run instead, so that the accuracy holds whatever the data and the coins
    are: only the time of a run tells which it was.
    Source: Xiao, Zhang 2014, Theorem 3.1, and Konecny, Liu, Richtarik, Takac 2016, Theorem 1, for
    batches (alpha(b) <= 1 / b); the certificate is ours.
    """

    @cached_property
    def inner(self) -> int:
        """Steps of an epoch."""
        return math.ceil(PASSES_TO_CONDITION * (self.smoothness + self.ridge) / self.ridge)

    @cached_property
    def shrink(self) -> float:
        """Factor of the expected gap an epoch; below 1/2."""
        noise = 4 / BATCH
        condition = (self.smoothness + self.ridge) / self.ridge
        return (condition + noise * (self.inner + 1)) / ((1 - noise) * self.inner)

    @cached_property
    def epochs(self) -> int:
        """Epochs after which the certificate holds for all but a share RARE of the coins."""
        away = min(self.problem.clip / self.ridge, 2 * self.problem.radius)
        # ||x - y|| <= 2 ||x - x*||, ridge / 2 ||x - x*||^2 <= gap <= L away at the start.
        near = self.accuracy * self.ridge / (2 * max(self.smoothness, self.ridge))
        first = 2 * self.problem.clip * away / (self.ridge * near**2)
        return max(1, math.ceil(math.log(first / RARE) / -math.log(self.shrink)))

    def in_batches(self, size: int) -> Work:
        """What epochs over ``size`` rows take, and the certificate after them."""
        each = size + 2 * BATCH * (self.inner - 1)
        return Work(self.epochs * each + size, self.epochs * self.inner + 1)

    def work(self, size: int) -> Work:
        """What is taken over ``size`` rows, but for a certificate that fails."""
        batched, descent = self.in_batches(size), Work(self.steps * size, self.steps)
        return batched if batched.gradients < descent.gradients else descent

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The solver's last point, shape (trials, d)."""
        size = len(records)
        if chosen is not None or self.work(size) != self.in_batches(size):
            return super().value(records, chosen)
        coins, snapshot = np.random.default_rng([SEED, size]), self.centre
        for _ in range(self.epochs):
            snapshot = self._epoch(records, snapshot, coins)
        length = 2 / (self.smoothness + 2 * self.ridge)
        found = self.problem.project(snapshot - length * self._gradient(snapshot, records))
        apart = np.linalg.norm(found - snapshot, axis=-1) * self.smoothness / (2 * self.ridge)
        if (apart <= self.accuracy / 2).all():
            return found
        return super().value(records)

    def _epoch(self, records: Records, snapshot: Array, coins: np.random.Generator) -> Array:
        full, length = self._gradient(snapshot, records), 1 / (self.smoothness + self.ridge)
        x = self.problem.project(snapshot - length * full)
        total = x.copy()
        for _ in range(self.inner - 1):
            batch = records.in_order(coins.integers(len(records), size=BATCH))
            moved = self._gradient(x, batch) - self._gradient(snapshot, batch)
            x = self.problem.project(x - length * (moved + full))
            total += x
        return total / self.inner

    def _gradient(self, x: Array, records: Records) -> Array:
        """The gradient of the mean over the rows, and of the ridge."""
        mean = self.problem.mean_gradient(x, float(len(records))).value(records)
        return np.asarray(mean + self.ridge * (x - self.centre))


@dataclass(frozen=True)
class PhasedERMInBatches(PhasedERM):
    """:class:`PhasedERM` with :class:`BatchedMinimum`: ~n gradients in ~sqrt(n) batch steps.

    With the cited step size, about 1 / sqrt(n), smoothness / ridge grows as sqrt(n): an epoch has
    that many steps, and takes about n gradients.
    Source: Zhang, Thekumparampil, Oh, He 2022, for any solver (as cited in Table 1).
    """

    @property
    def work(self) -> Work:
        """Gradients and steps of all phases' solvers."""
        sizes = halves(self.problem.size, self.phases)
        start = self.problem.start(1)
        each = [self.query(start, i, sizes[i]).work(sizes[i]) for i in range(self.phases)]
        return Work(sum(w.gradients for w in each), sum(w.batch_steps for w in each))

    def query(self, centre: Array, phase: int, size: int) -> BatchedMinimum:
        """The minimum of phase ``phase`` (from 0) over ``size`` rows."""
        plain = super().query(centre, phase, size)
        return BatchedMinimum(**{f.name: getattr(plain, f.name) for f in fields(plain)})

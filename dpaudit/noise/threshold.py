"""The kernel of AboveThreshold: one answer a query, against a secret threshold drawn once.

Released is 1 for yes and 0 for no; after the last yes every answer is 1, and says nothing.  The
threshold stands at 0: a program subtracts its public part from the query.
Source: Dwork, Roth 2014, Algorithm 1 and Theorem 3.24; Lyu, Su, Li 2017, Algorithm 1.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, ndtri

from dpaudit.arithmetic import enclose, is_symbolic
from dpaudit.errors import InvalidParameter
from dpaudit.kernels import Generator, Kernel, kernel
from dpaudit.nodes import AboveThreshold
from dpaudit.noise.digests import TINY, hashed
from dpaudit.query import Array, Norm

Flags = NDArray[np.bool_]
MOST_QUERIES = 2**40
# Thresholds of a density, in units of their scale: the rest of the law, e^-50, is left out.
REACH, STEPS = 50.0, 501
FARTHEST = 300.0
# Nats: independent batches of answers coincide with probability e^-60.
ENOUGH = 60.0


@kernel(AboveThreshold)
class AboveThresholdKernel(Kernel):
    """1 where value + Laplace(scale) >= threshold, else 0; threshold ~ Laplace(ratio scale).

    ``scale`` is 2 answers sensitivity / epsilon_query, the same for every query; ratio =
    epsilon_query / (2 answers epsilon_threshold).  One number a trial and query.  Densities weight
    a grid of thresholds by the answers so far: those of yes and no, given the past, sum to 1 and
    are right to 1e-2.
    """

    norm: ClassVar[Norm] = "l1"
    continuous: ClassVar[bool] = False
    memory: ClassVar[bool] = True
    endless: ClassVar[bool] = True

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._answers = _whole(leaf)
        ratio = enclose(leaf.epsilon_query) / (2 * self._answers * enclose(leaf.epsilon_threshold))
        self._ratio = float(ratio.mid())
        self._nodes = np.linspace(-REACH, REACH, STEPS)
        # One row a trial, or one for all trials while they have one past.
        rows = 1 if self._answers == 1 else trials
        self._weights = np.tile(np.exp(-np.abs(self._nodes)), (rows, 1))
        self._left = np.full(trials, self._answers)
        self._threshold: Array | None = None
        self._scale: Array | None = None

    @staticmethod
    def multiplier(leaf: Any) -> float:
        """Scale of a query's noise over the sensitivity."""
        return float((2 * _whole(leaf) / enclose(leaf.epsilon_query)).mid())

    @staticmethod
    def releases(leaf: Any) -> int:
        """One use answers as many queries as are asked: a no costs nothing."""
        return MOST_QUERIES

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for a vector, or another sensitivity than the first query's."""
        if dimension != 1:
            raise InvalidParameter(f"{self.leaf.head}: one number a query, not {dimension}")
        if (scale <= 0).any():
            raise InvalidParameter(f"{self.leaf.head}: a query of sensitivity 0 needs no test")
        if self._scale is not None and (scale != self._scale).any():
            raise InvalidParameter(
                f"{self.leaf.head}: its queries share a threshold, so they need one sensitivity"
            )

    def thresholds(self, scale: Array, rng: Generator) -> Array:
        """The secret thresholds, (trials,), drawn at the first query."""
        if self._threshold is None:
            self._threshold = self._ratio * scale * rng.laplace(size=len(scale))
        return self._threshold

    def noise(self, scale: Array, rng: Generator) -> Array:
        """A query's own noise, (trials,)."""
        return np.asarray(scale * rng.laplace(size=len(scale)))

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        threshold = self.thresholds(scale, rng)
        return self._answered(values[:, 0] + self.noise(scale, rng) >= threshold, scale)

    def centre(self, values: Array) -> Array:
        return np.where((self._left == 0)[:, None], 1.0, (values >= 0).astype(np.float64))

    def advance(self, values: Array, scale: Array) -> None:
        self._answered(values[:, 0] >= 0, scale)

    def _answered(self, yes: Flags, scale: Array) -> Array:
        over = self._left == 0
        self._left = self._left - (yes & ~over)
        self._scale = np.array(scale)
        return np.where(over | yes, 1.0, 0.0)[:, None]

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        yes, over = released[:, 0] == 1, self._left == 0
        said = yes | (released[:, 0] == 0)
        below, above = self._branches(values[:, 0] / scale)
        log_no, log_yes = self._outcomes(below, above)
        # With one answer the trials that say yes are over: the others' past is one of noes.
        shared = len(self._weights) == 1
        told = below if shared else np.where(yes[:, None], above, below)
        weights = self._weights * told
        self._weights = weights / weights.max(axis=1, keepdims=True)
        self._answered(yes, scale)
        found = np.where(over, np.where(yes, 0.0, -np.inf), np.where(yes, log_yes, log_no))
        return np.where(said, found, -np.inf)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """The outcome as a uniform number of its share of [0, 1], mapped to normal; NaN at rest.

        NaN too where a batch's answers are so certain that two batches may well have the same:
        the uniform numbers are made of them.
        """
        share = np.exp(self._outcomes(*self._branches(values[:, 0] / scale))[0])
        share = np.where(self._left == 0, 1.0, share)
        drawn = hashed(released, 1)[:, 0]
        outcome = np.where(released[:, 0] == 0, share * drawn, share + (1 - share) * drawn)
        found = ndtri(np.clip(outcome, TINY, 1 - 2.0**-53))
        told = float((entr(share) + entr(1 - share)).sum()) > ENOUGH
        return np.where((self._left > 0) & told, found, np.nan)[:, None]

    def _branches(self, queries: Array) -> tuple[Array, Array]:
        """P(no) and P(yes) at every threshold of the grid, (rows, STEPS)."""
        alive = queries[self._left > 0]
        if len(self._weights) == 1 and (alive == alive[:1]).all():
            queries = alive[:1] if alive.size else queries[:1]
        elif len(self._weights) == 1:
            self._weights = np.tile(self._weights, (self.trials, 1))
        gap = self._nodes * self._ratio - queries[:, None]
        tail = np.exp(-np.minimum(np.abs(gap), FARTHEST)) / 2
        return np.where(gap < 0, tail, 1 - tail), np.where(gap < 0, 1 - tail, tail)

    def _outcomes(self, below: Array, above: Array) -> tuple[Array, Array]:
        """log P(no), log P(yes) given the past, (rows,)."""
        no, yes = (np.einsum("rg,rg->r", self._weights, branch) for branch in (below, above))
        whole = no + yes
        return np.asarray(np.log(no / whole)), np.asarray(np.log(yes / whole))


def _whole(leaf: Any) -> int:
    if is_symbolic(leaf.answers):
        raise InvalidParameter(f"{leaf.head}: bind its answers to a number before a run")
    return int(leaf.answers)

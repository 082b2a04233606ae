"""The kernel of AboveThreshold: one answer a query, against a secret threshold drawn once.

Released is 1 for yes and 0 for no; after the last yes every answer is 1, and says nothing.  The
threshold stands at 0: a program subtracts its public part from the query.
Source: Dwork, Roth 2014, Algorithm 1 and Theorem 3.24; Lyu, Su, Li 2017, Algorithm 1.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose, is_symbolic
from dpaudit.kernels.base import Generator, Kernel
from dpaudit.kernels.digests import LEAST_PROBABILITY
from dpaudit.kernels.posterior import Asked, Numbers, Posterior
from dpaudit.kernels.query import Array, Norm

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
MOST_QUERIES = 2**40  # stands for any number of queries


class AboveThresholdKernel(Kernel):
    """1 where value + Laplace(scale) >= threshold, else 0; threshold ~ Laplace(ratio scale).

    ``scale`` is 2 answers sensitivity / epsilon_query, the same for every query; ratio =
    epsilon_query / (2 answers epsilon_threshold).  One number a trial and query.  Densities
    integrate over the threshold given the answers so far (:mod:`dpaudit.kernels.posterior`): those
    of yes and no sum to 1, and are right to 1e-9.
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
        self._posterior = Posterior(self._ratio)
        # The row of every trial's past; trials of one past share one.
        self._row = np.zeros(trials, dtype=np.int64)
        self._known: tuple[Array, Array, Array] | None = None
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

    def follow(self, released: Array, values: Array, scale: Array) -> None:
        """How many answers are left; the threshold's density, which takes long, is not."""
        self._answered(released[:, 0] == 1, scale)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        yes, over = released[:, 0] == 1, self._left == 0
        possible = yes | (released[:, 0] == 0)
        log_no, log_yes = self._outcomes(values, scale)
        self._answered(yes, scale)
        # Answers of the trials that go on are taken into their pasts.
        self._known = None
        alive = np.flatnonzero(self._left > 0)
        if len(alive):
            self._share_rows(alive, yes[alive])
            self._posterior.learn(_first(self._row[alive], yes[alive]))
        log_chances = np.where(over, np.where(yes, 0.0, -np.inf), np.where(yes, log_yes, log_no))
        return np.where(possible, log_chances, -np.inf)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """The outcome as a uniform number of its share of [0, 1], mapped to normal; NaN at rest."""
        share = np.exp(self._outcomes(values, scale)[0])
        drawn = self.uniforms(len(released))
        outcome = np.where(released[:, 0] == 0, share * drawn, share + (1 - share) * drawn)
        scores = ndtri(np.clip(outcome, LEAST_PROBABILITY, 1 - 2.0**-53))
        return np.where(self._left > 0, scores, np.nan)[:, None]

    def _outcomes(self, values: Array, scale: Array) -> tuple[Array, Array]:
        """log P(no), log P(yes) of every trial given its past, (trials,); 0 where it is over."""
        state = self._seen(values)
        if self._known is None or not np.array_equal(self._known[0], state):
            self._known = np.array(state), *self._found(values, scale)
        return self._known[1:]

    def _seen(self, values: Array) -> Array:
        """The values by which two queries of all trials are distinguished."""
        return values

    def _found(self, values: Array, scale: Array) -> tuple[Array, Array]:
        log_no, log_yes = np.zeros(self.trials), np.zeros(self.trials)
        alive = np.flatnonzero(self._left > 0)
        if len(alive):
            no, yes = self._posterior.chances(self._query(values, scale, alive))
            rows = self._row[alive]
            log_no[alive], log_yes[alive] = no[rows], yes[rows]
        return log_no, log_yes

    def _query(self, values: Array, scale: Array, alive: Integers) -> Asked:
        """The queries to the trials that go on, by the rows of their pasts."""
        queries = values[alive, 0] / scale[alive]
        self._share_rows(alive, queries)
        return Numbers(_first(self._row[alive], queries))

    def _share_rows(self, alive: Integers, what: NDArray[Any]) -> None:
        """One row for the trials with one past and the same ``what``; no rows for others."""
        pairs = np.stack((self._row[alive].astype(np.float64), what.astype(np.float64)))
        kinds, own = np.unique(pairs, axis=1, return_inverse=True)
        rows = kinds[0].astype(np.int64)
        self._row[alive] = own.ravel()
        if len(rows) != self._posterior.rows or (rows != np.arange(len(rows))).any():
            self._posterior.take(rows)


def _first(rows: Integers, values: NDArray[Any]) -> NDArray[Any]:
    """The common value of the trials of each row, (rows,)."""
    return np.asarray(values[np.unique(rows, return_index=True)[1]])


def _whole(leaf: Any) -> int:
    if is_symbolic(leaf.answers):
        raise InvalidParameter(f"{leaf.head}: bind its answers to a number before a run")
    return int(leaf.answers)

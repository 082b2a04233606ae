"""Multinomial logistic regression in NumPy, one gradient a record, with ghost norms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from dpaudit.errors import InvalidParameter
from mechanisms.papers.common.factors import Factors
from mechanisms.papers.common.losses import Array

_quiet = np.errstate(all="ignore")


@dataclass(frozen=True)
class Softmax:
    """Cross-entropy ``log sum_k exp(w_k.x + b_k) - (w_y.x + b_y)`` of ``classes`` linear scores.

    The target is a class's number, 0 to classes - 1; any other is no class, and its row has the
    gradient of the first term alone.  Parameters pack W (classes, features) row by row, then b.
    A gradient has norm at most sqrt(2) ||(x, 1)||, and the loss is ||(x, 1)||^2 / 2 smooth.
    Raises InvalidParameter for fewer than two classes.
    Source: Boehning 1992, "Multinomial Logistic Regression Algorithm", for the smoothness.
    """

    classes: int

    def __post_init__(self) -> None:
        if type(self.classes) is not int or self.classes < 2:
            raise InvalidParameter(f"Softmax.classes = {self.classes!r}: expected 2 or more")

    def dimension(self, features: int) -> int:
        """Return ``classes * (features + 1)``."""
        return self.classes * (features + 1)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Return zeros (trials, dimension); the seed is not used."""
        return np.zeros((trials, self.dimension(features)))

    @_quiet
    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the losses (trials, n), in nats."""
        scores, own, _ = self._scores(parameters, records)
        chosen = np.where(own, scores, 0.0).sum(axis=-1)
        return np.asarray(logsumexp(scores, axis=-1) - chosen)

    @_quiet
    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the gradients (trials, n, dimension), packed as the parameters are."""
        made = self.factors(parameters, records)
        outer = made.left[..., :, None] * made.right[..., None, :]
        trials, n = outer.shape[:2]
        inner = outer[..., :-1].reshape(trials, n, -1)
        return np.concatenate([inner, outer[..., -1]], axis=-1)

    @_quiet
    def factors(self, parameters: ArrayLike, records: ArrayLike) -> Factors:
        """Return the same gradients as (p - e_y) (x) (x, 1), with no rest."""
        scores, own, x = self._scores(parameters, records)
        left = np.asarray(softmax(scores, axis=-1) - own)
        right = np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)
        return Factors(left, right, np.zeros((*left.shape[:2], 0)))

    def pack(self, outer: Array, rest: Array) -> Array:
        """Return sums of outer products (trials, classes, features + 1), packed."""
        trials = len(outer)
        return np.concatenate([outer[..., :-1].reshape(trials, -1), outer[..., -1]], axis=1)

    def _scores(self, parameters: ArrayLike, records: ArrayLike) -> tuple[Array, Array, Array]:
        """Return scores and which class is a row's own, (trials, n, classes), and the features."""
        theta = np.asarray(parameters, dtype=np.float64)
        rows = np.asarray(records, dtype=np.float64)
        x, target = rows[..., :-1], rows[..., -1]
        if theta.ndim != 2 or theta.shape[1] != self.dimension(x.shape[-1]):
            raise InvalidParameter(
                f"parameters of shape {theta.shape}: expected (trials, "
                f"{self.dimension(x.shape[-1])}) for {x.shape[-1]} features"
            )
        split = self.classes * x.shape[-1]
        weights = theta[:, :split].reshape(len(theta), self.classes, -1)
        scores = np.matmul(x, weights.swapaxes(1, 2)) + theta[:, None, split:]
        return np.asarray(scores), target[..., None] == np.arange(self.classes), x

"""The kernel of the exponential mechanism: which candidate was chosen, as a row of 0 and one 1."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from dpaudit.exact import enclose
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.kernels.base import Generator, Kernel, kernel
from dpaudit.kernels.query import Array, Norm


@kernel(ExponentialMechanism)
class ExponentialMechanismKernel(Kernel):
    """Chooses candidate i with probability proportional to exp(values_i / scale).

    The query gives one score a candidate, (trials, candidates), higher is better, and states how
    far any one score moves; scale is 2 sensitivity / epsilon.  A score of minus infinity is that of
    a candidate that is not there.  Released: 1 at the chosen candidate, 0 elsewhere.
    """

    norm: ClassVar[Norm] = "linf"
    continuous: ClassVar[bool] = False

    @staticmethod
    def multiplier(leaf: Any) -> float:
        """2 / epsilon: the scale over the sensitivity of a score."""
        return float((2 / enclose(leaf.epsilon)).mid())

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        """The largest of values / scale plus Gumbel noise."""
        noise = rng.gumbel(size=values.shape)
        return _chosen(np.where(scale[:, None] > 0, _logits(values, scale) + noise, values))

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        logits = log_softmax(_logits(values, scale), axis=-1)
        exact = np.where((released == _chosen(values)).all(axis=-1), 0.0, -np.inf)
        picked = np.where(released == 1, logits, 0.0).sum(axis=-1)
        return np.where(scale > 0, picked, exact)

    def centre(self, values: Array) -> Array:
        """The best candidate."""
        return _chosen(values)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """None: one choice among candidates is no noise that could be standardised."""
        return np.full(values.shape, np.nan)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The most that a score differs by; candidates that are on neither list differ by 0."""
        same = values == others
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(same, 0.0, np.abs(values - others)).max(axis=-1))


def _logits(values: Array, scale: Array) -> Array:
    safe = np.where(scale > 0, scale, 1.0)
    return np.asarray(values / safe[:, None])


def _chosen(values: Array) -> Array:
    return np.asarray(np.eye(values.shape[-1])[np.argmax(values, axis=-1)])

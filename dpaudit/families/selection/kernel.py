"""The kernel of the exponential mechanism: which candidate was chosen, as a row of 0 and one 1."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.selection import ExponentialMechanism, NoisyComparisons
from dpaudit.families.selection.node import Scores
from dpaudit.kernels.base import Generator, Kernel, kernel
from dpaudit.kernels.query import Array, Norm
from dpaudit.kernels.random_bits import Whole


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
        return _chosen(np.where(scale[:, None] > 0, logits_of(values, scale) + noise, values))

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        logits = log_softmax(logits_of(values, scale), axis=-1)
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
        """The most that a score differs by; candidates that are on neither list differ by 0.

        Monotone scores all move one way, by the sensitivity at most: of two that move apart, the
        sum of what they move by is what epsilon / 2 has to pay for.
        """
        same = values == others
        with np.errstate(invalid="ignore"):
            moved = np.where(same, 0.0, values - others)
        up, down = np.maximum(moved.max(axis=-1), 0.0), np.maximum(-moved.min(axis=-1), 0.0)
        one_way = self.leaf.scores is Scores.MONOTONE
        return np.asarray(up + down if one_way else np.maximum(up, down))


def logits_of(values: Array, scale: Array) -> Array:
    """Scores over their scale."""
    safe = np.where(scale > 0, scale, 1.0)
    return np.asarray(values / safe[:, None])


def _chosen(values: Array) -> Array:
    return one_hot(np.argmax(values, axis=-1), values.shape[-1])


def one_hot(places: Whole, size: int) -> Array:
    """Zeros with a 1 at the place of each choice; shape (*places.shape, size)."""
    hot = np.zeros((*places.shape, size))
    np.put_along_axis(hot, places[..., None], 1.0, axis=-1)
    return hot


@kernel(NoisyComparisons)
class NoisyComparisonsKernel(Kernel):
    """1 where value + Laplace(scale) >= Laplace(ratio scale), else 0; both noises anew each time.

    ``scale`` is query_scale times the sensitivity, ratio = threshold_scale / query_scale.  One
    number a trial; the threshold stands at 0.
    """

    norm: ClassVar[Norm] = "l1"
    continuous: ClassVar[bool] = False

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        ratio = enclose(leaf.threshold_scale) / enclose(leaf.query_scale)
        self._ratio = float(ratio.mid())

    @staticmethod
    def multiplier(leaf: Any) -> float:
        """Scale of a query's noise over the sensitivity."""
        return float(enclose(leaf.query_scale).mid())

    @staticmethod
    def releases(leaf: Any) -> int:
        """One a query."""
        return int(leaf.answers)

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for a vector."""
        if dimension != 1:
            raise InvalidParameter(f"{self.leaf.head}: one number a query, not {dimension}")

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        query = scale * rng.laplace(size=len(values))
        threshold = self._ratio * scale * rng.laplace(size=len(values))
        return np.asarray(values[:, 0] + query >= threshold, dtype=np.float64)[:, None]

    def centre(self, values: Array) -> Array:
        return np.asarray(values >= 0, dtype=np.float64)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        """log P(yes) = log P(sum of both noises <= value), and of no at minus the value."""
        yes = released[:, 0] == 1
        possible = yes | (released[:, 0] == 0)
        at = np.where(yes, values[:, 0], -values[:, 0]) / np.where(scale > 0, scale, 1.0)
        # log P(noise <= at), the query's noise of scale 1 and the threshold's of scale ratio.
        short, long = sorted((self._ratio, 1.0))
        far = np.abs(at)
        remainder = long**2 - short**2 * np.exp(-far * (1 / short - 1 / long))
        log_tail = np.log(remainder / (2 * (long**2 - short**2))) - far / long
        return np.where(possible, np.where(at > 0, np.log1p(-np.exp(log_tail)), log_tail), -np.inf)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """None: an answer is no noise that could be standardised."""
        return np.full(values.shape, np.nan)

"""AboveThreshold on queries that are random themselves: latent coins of a secret batch, say.

A query is a number, or its law: a session draws a level for every use, and sums densities over the
levels, so that no coin is ever seen.
"""

from __future__ import annotations

import numpy as np

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.selection import AboveThreshold
from dpaudit.families.selection.threshold_kernel import AboveThresholdKernel
from dpaudit.kernels.base import Generator, kernel
from dpaudit.kernels.posterior import Asked, Integers, Law
from dpaudit.kernels.query import Array

QUANTILE_END = 1e-12  # Mass at either end of a law in which quantiles are not compared.


def query_law(levels: Array, masses: Array) -> Array:
    """The value of a random query, (1, 1 + 2 J): J, its levels and their probabilities."""
    return np.concatenate([[len(levels)], levels, masses])[None]


def _law(values: Array) -> tuple[Array, Array]:
    """Levels and probabilities, (J,), of the law that all trials share."""
    count = values.shape[1] // 2
    if values[0, 0] != count:
        raise InvalidParameter("AboveThreshold: expected one number a query, or its law")
    if values.strides[0] and (values != values[:1]).any():
        raise Unsupported("AboveThreshold: a random query needs one law for all trials")
    return values[0, 1 : 1 + count], values[0, 1 + count :]


@kernel(AboveThreshold)
class RandomQueryKernel(AboveThresholdKernel):
    """As its base, for numbers and for laws that are the same in all trials.

    Errors: Unsupported for a law under more than one answer.
    """

    def admit(self, scale: Array, dimension: int) -> None:
        law = dimension > 1 and dimension % 2 == 1
        if law and self._answers > 1:
            raise Unsupported(f"{self.leaf.head}: a random query under one answer only")
        super().admit(scale, 1 if law else dimension)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        if values.shape[1] > 1:
            levels, masses = _law(values)
            uniform = rng.random(len(values))
            places = np.searchsorted(masses.cumsum(), uniform, side="right")
            values = levels[np.minimum(places, len(levels) - 1), None]
        return super().sample(values, scale, rng)

    def centre(self, values: Array) -> Array:
        return super().centre(self._mean(values))

    def advance(self, values: Array, scale: Array) -> None:
        super().advance(self._mean(values), scale)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The largest distance of two laws' quantiles, without the last 1e-12 at either end."""
        if values.shape[1] == 1:
            return super().apart(values, others, stated)
        # The largest distance of quantiles of the same order.
        laws = [_ordered(*law) for law in (_law(values), _law(others))]
        orders = np.clip(
            np.concatenate([reached for _, reached in laws]), QUANTILE_END, 1 - QUANTILE_END
        )
        first, second = (
            levels[np.minimum(np.searchsorted(reached, orders), len(levels) - 1)]
            for levels, reached in laws
        )
        return np.full(len(values), float(np.abs(first - second).max()))

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """A law stays as it is."""
        return super().away(values, others, shift) if values.shape[1] == 1 else values

    def _mean(self, values: Array) -> Array:
        if values.shape[1] == 1:
            return values
        levels, masses = _law(values)
        return np.full((len(values), 1), float(levels @ masses))

    def _seen(self, values: Array) -> Array:
        if values.shape[1] == 1:
            return values
        _law(values)
        return values[:1]

    def _query(self, values: Array, scale: Array, alive: Integers) -> Asked:
        if values.shape[1] == 1:
            return super()._query(values, scale, alive)
        levels, masses = _law(values)
        self._share_rows(alive, np.zeros(len(alive)))
        return Law(levels / scale[0], masses, self._posterior.rows)


def _ordered(levels: Array, masses: Array) -> tuple[Array, Array]:
    """Levels in order, and how much of the law is at each or below."""
    order = np.argsort(levels, kind="stable")
    return levels[order], masses[order].cumsum()

"""AboveThreshold on queries that are random themselves: latent coins of a secret batch, say.

A query is a number, or its law: a session draws a level for every use, and sums densities over the
levels, so that no coin is ever seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr, ndtri

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.kernels import Generator, kernel
from dpaudit.nodes import AboveThreshold
from dpaudit.noise.digests import TINY, hashed
from dpaudit.noise.threshold import ENOUGH, AboveThresholdKernel
from dpaudit.query import Array

# Thresholds of a density, in units of their scale: the rest of the law, e^-50, is left out.
REACH, STEPS, FARTHEST, CHUNK = 50.0, 501, 300.0, 2_048
# Of a law's quantiles: what is left of either end.
END = 1e-12


def query_law(levels: Array, masses: Array) -> Array:
    """What a random query gives, (1, 1 + 2 J): J, its levels and their probabilities."""
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
    """As its base for numbers; of laws, the same in all trials, densities are right to 1e-2.

    Errors: Unsupported for a law under more than one answer.
    """

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._nodes = np.linspace(-REACH, REACH, STEPS)
        self._weights = np.exp(-np.abs(self._nodes))
        self._kept: tuple[Array, tuple[Array, Array]] | None = None

    def admit(self, scale: Array, dimension: int) -> None:
        law = dimension > 1 and dimension % 2 == 1
        if law and self._answers > 1:
            raise Unsupported(f"{self.leaf.head}: a random query under one answer only")
        super().admit(scale, 1 if law else dimension)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        if values.shape[1] > 1:
            levels, masses = _law(values)
            uniform = rng.random(len(values))
            found = np.searchsorted(masses.cumsum(), uniform, side="right")
            values = levels[np.minimum(found, len(levels) - 1), None]
        return super().sample(values, scale, rng)

    def centre(self, values: Array) -> Array:
        return super().centre(self._mean(values))

    def advance(self, values: Array, scale: Array) -> None:
        super().advance(self._mean(values), scale)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """Of two laws: how far their quantiles are apart, all but the last 1e-12 at either end."""
        if values.shape[1] == 1:
            return super().apart(values, others, stated)
        return np.full(len(values), _furthest(_law(values), _law(others)))

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        if values.shape[1] == 1:
            return super().log_density(released, values, scale)
        yes, over = released[:, 0] == 1, self._left == 0
        said = yes | (released[:, 0] == 0)
        below, above = self._sides(values, scale)
        no, passed = float(self._weights @ below), float(self._weights @ above)
        # Trials that say yes are over: what the others have said so far is no, and no again.
        self._weights = self._weights * below / (self._weights * below).max()
        self._answered(yes, scale)
        told = np.where(yes, np.log(passed / (no + passed)), np.log(no / (no + passed)))
        found = np.where(over, np.where(yes, 0.0, -np.inf), told)
        return np.where(said, found, -np.inf)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """As the base's."""
        if values.shape[1] == 1:
            return super().residual(released, values, scale)
        no, yes = (float(self._weights @ side) for side in self._sides(values, scale))
        share = no / (no + yes)
        drawn = hashed(released, 1)[:, 0]
        outcome = np.where(released[:, 0] == 0, share * drawn, share + (1 - share) * drawn)
        found = ndtri(np.clip(outcome, TINY, 1 - 2.0**-53))
        alive = self._left > 0
        told = float(alive.sum() * (entr(share) + entr(1 - share))) > ENOUGH
        return np.where(alive & told, found, np.nan)[:, None]

    def _mean(self, values: Array) -> Array:
        if values.shape[1] == 1:
            return values
        levels, masses = _law(values)
        return np.full((len(values), 1), float(levels @ masses))

    def _sides(self, values: Array, scale: Array) -> tuple[Array, Array]:
        """P(no) and P(yes) at every threshold of the grid, (STEPS,); kept while the law stays."""
        levels, masses = _law(values)
        levels = levels / scale[0]
        if self._kept is None or not np.array_equal(self._kept[0], levels):
            below, above = np.zeros(STEPS), np.zeros(STEPS)
            for start in range(0, len(levels), CHUNK):
                part = slice(start, start + CHUNK)
                gap = self._nodes * self._ratio - levels[part, None]
                tail = np.exp(-np.minimum(np.abs(gap), FARTHEST)) / 2
                below += masses[part] @ np.where(gap < 0, tail, 1 - tail)
                above += masses[part] @ np.where(gap < 0, 1 - tail, tail)
            self._kept = levels, (below, above)
        return self._kept[1]


def _furthest(one: tuple[Array, Array], two: tuple[Array, Array]) -> float:
    """The largest distance of quantiles of the same order."""
    laws = [_ordered(*law) for law in (one, two)]
    orders = np.clip(np.concatenate([reached for _, reached in laws]), END, 1 - END)
    first, second = (
        levels[np.minimum(np.searchsorted(reached, orders), len(levels) - 1)]
        for levels, reached in laws
    )
    return float(np.abs(first - second).max())


def _ordered(levels: Array, masses: Array) -> tuple[Array, Array]:
    """Levels in order, and how much of the law is at each or below."""
    order = np.argsort(levels, kind="stable")
    return levels[order], masses[order].cumsum()

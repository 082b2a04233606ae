"""The kernel of correlated Gaussian noise: noisy prefix sums of the rows it is given.

Release t is x_1 + ... + x_t + e_t with e = B Z (see :mod:`dpaudit.families.correlated.strategies`),
and the running sum stays in the session.  Given the past, e_t is a part that the past decides plus
K_tt z'_t, with z'_t fresh N(0, s^2 I).
Source: Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.exact import is_symbolic
from dpaudit.families.correlated.node import CorrelatedGaussian, Factorisation, Strategy
from dpaudit.families.correlated.strategies import (
    fenwick,
    is_toeplitz,
    prefix_column,
    prefix_root,
)
from dpaudit.kernels.base import Generator, Kernel, exact_match, kernel, normal_scores
from dpaudit.kernels.query import Array

# Rounding error of values, relative to a round's noise, above which residuals are left out.
MAX_ROUNDING_SHARE = 1e-4


class Past(Protocol):
    """The part of round t's noise that earlier rounds determine; arrays are (trials, d)."""

    def known(self, t: int) -> Array | float:
        """The sum of K_tu z'_u over u < t."""

    def weight(self, t: int) -> float:
        """K_tt."""

    def push(self, t: int, noise: Array, fresh: Array) -> None:
        """Round t's prefix noise e_t, and z'_t."""


@dataclass(eq=False, repr=False)
class Chain:
    """e_t = e_b + z_t for an earlier round b = ``start(t)``, 0 for none.

    ``kept(t)``: the rounds that one after t may start from; other noise is forgotten.
    """

    start: Callable[[int], int]
    kept: Callable[[int], tuple[int, ...]]
    _noise: dict[int, Array] = field(default_factory=dict)

    def known(self, t: int) -> Array | float:
        return self._noise[self.start(t)] if self.start(t) else 0.0

    def weight(self, t: int) -> float:
        return 1.0

    def push(self, t: int, noise: Array, fresh: Array) -> None:
        self._noise[t] = noise
        self._noise = {u: self._noise[u] for u in self.kept(t)}


class Rows:
    """Any other strategy: every z' is kept, ``earlier(t)`` is K_t1 ... K_t(t-1).

    ``weights``: K_11, K_22, ..., one a round.
    """

    def __init__(self, earlier: Callable[[int], Array], weights: Array) -> None:
        self._earlier = earlier
        self._weights: list[float] = weights.tolist()
        self._fresh: Array | None = None
        self._shaped: Array | None = None  # the same numbers, a round as it was given
        self._shape: tuple[int, ...] = ()

    def known(self, t: int) -> Array | float:
        if self._fresh is None:
            return 0.0
        combined: Array = self._earlier(t).dot(self._fresh[: t - 1])
        return combined.reshape(self._shape)

    def weight(self, t: int) -> float:
        return self._weights[t - 1]

    def push(self, t: int, noise: Array, fresh: Array) -> None:
        if self._shaped is None:
            self._shape = fresh.shape
            self._shaped = np.zeros((len(self._weights), *fresh.shape))
            self._fresh = self._shaped.reshape(len(self._weights), fresh.size)
        self._shaped[t - 1] = fresh


def past_of(strategy: Strategy, rounds: int) -> Past:
    """The memory of a strategy: O(log T) rows for the tree, 1 for identity, T where B is dense.

    Errors: InvalidParameter as :func:`dpaudit.families.correlated.strategies.prefix_root`.
    """
    if strategy is Factorisation.TREE:
        return Chain(lambda t: t & (t - 1), fenwick)
    if strategy is Factorisation.IDENTITY:
        return Chain(lambda t: t - 1, lambda t: (t,))
    if strategy is Factorisation.INDEPENDENT_PREFIX:
        return Chain(lambda t: 0, lambda t: ())
    if is_toeplitz(strategy):
        # Turned once: a product with a row that runs backwards would copy it every round.
        turned = np.ascontiguousarray(prefix_column(strategy, rounds)[::-1])
        return Rows(lambda t: turned[len(turned) - t : -1], np.full(rounds, turned[-1]))
    root = prefix_root(strategy, rounds)
    return Rows(lambda t: root[t - 1, : t - 1], root.diagonal())


@kernel(CorrelatedGaussian)
class CorrelatedGaussianKernel(Kernel):
    """x_1 + ... + x_t + (B Z)_t, with independent N(0, s^2) entries in Z; one use, T releases.

    Its values are the rows x_t; s, the scale, is that of the first round in all of them, since
    rounds share noise.
    """

    memory: ClassVar[bool] = True

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._past = past_of(leaf.strategy, self.releases(leaf))
        self._round = 1
        self._sum: Array | float = 0.0
        self._scale: Array | None = None

    @staticmethod
    def releases(leaf: Any) -> int:
        if is_symbolic(leaf.rounds):
            raise InvalidParameter(f"{leaf.head}: bind its rounds to a number before a run")
        return int(leaf.rounds)

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for another scale than the first round's."""
        if self._scale is not None and (scale != self._scale).any():
            raise InvalidParameter(
                f"release {self.leaf.label!r}, round {self._round}: its rounds share noise, so "
                "their queries need one sensitivity; clip every round to the same radius"
            )

    def centre(self, values: Array) -> Array:
        return np.asarray(self._sum + values)

    def advance(self, values: Array, scale: Array) -> None:
        self._remember(values, scale, np.zeros_like(values), np.zeros_like(values))

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        fresh = scale[:, None] * rng.standard_normal(values.shape)
        noise = self._past.known(self._round) + self._past.weight(self._round) * fresh
        released = self.centre(values) + noise
        self._remember(values, scale, noise, fresh)
        return released

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        weight = abs(self._past.weight(self._round))
        fresh = self._fresh(released, values)
        shift = fresh * self._past.weight(self._round)
        with np.errstate(all="ignore"):
            rounded = (
                np.spacing(np.abs(self.centre(values)))
                > MAX_ROUNDING_SHARE * weight * scale[:, None]
            )
        scores = normal_scores(released, released - shift, weight * scale, self.uniforms)
        # Rounding of earlier rounds is not known: it is small, or nothing can be said.
        return np.where(rounded, np.nan, scores)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        fresh = self._fresh(released, values)
        safe = np.where(scale > 0, scale, 1.0)
        squares = np.square(fresh / safe[:, None]).sum(axis=-1)
        deviation = safe * abs(self._past.weight(self._round))
        normaliser = values.shape[-1] * (np.log(deviation) + 0.5 * math.log(2 * math.pi))
        exact = exact_match(released, self.centre(values))
        self._remember(values, scale, released - self.centre(values), fresh)
        return np.where(scale > 0, -0.5 * squares - normaliser, exact)

    def _fresh(self, released: Array, values: Array) -> Array:
        """z'_t, shape (trials, d)."""
        noise = released - self.centre(values)
        earlier_part, weight = self._past.known(self._round), self._past.weight(self._round)
        return np.asarray((noise - earlier_part) / weight)

    def _remember(self, values: Array, scale: Array, noise: Array, fresh: Array) -> None:
        self._past.push(self._round, noise, fresh)
        self._sum = self.centre(values)
        self._scale = np.array(scale)
        self._round += 1

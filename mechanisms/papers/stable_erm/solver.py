"""Regularised empirical risk minimisers as functions of the kept users, with certified error.

L(theta; y) is the mean over the kept users of the mean over a user's items of a convex loss, plus
weight/2 ||theta - centre||^2 with public weight and centre.  Every solver is deterministic, starts
from a public point, and gives a point within ``error`` of the minimiser over the domain.
Source: Ghazi et al. 2023, Algorithms 2 and 3 (line "argmin").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from scipy.special import expit

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.stable_erm.domains import Box, Domain, Everywhere
from mechanisms.papers.stable_erm.stable import Flags, kept_means, user_means

MOST_STEPS = 100_000
MOST_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class Pull:
    """weight/2 ||theta - centre||^2: ``weight`` (trials,) or a number, ``centre`` (trials, d)."""

    weight: Array | float
    centre: Array

    def column(self, points: Array) -> Array:
        """The weight, shaped to fit points (trials, ..., d)."""
        return np.reshape(np.asarray(self.weight), (-1, *[1] * (points.ndim - 1)))

    def of(self, chosen: Flags) -> Pull:
        """The pulls of some trials."""
        weight = np.asarray(self.weight)
        return Pull(weight[chosen] if weight.ndim else weight, self.centre[chosen])


class Loss(Protocol):
    """A convex loss of an item: modulus mu, Lipschitz and smoothness constants G and H on a domain.

    ``lipschitz`` and ``smoothness`` leave out what all users share (a ridge): it cancels in every
    difference of users' gradients.  ``error``: how far ``minimise`` may be from the minimiser.
    """

    @property
    def modulus(self) -> float: ...
    @property
    def lipschitz(self) -> float: ...
    @property
    def smoothness(self) -> float: ...
    @property
    def error(self) -> float: ...

    def dimension(self, features: int) -> int:
        """How many parameters there are for so many features an item."""

    def minimise(self, users: Array, kept: Flags, pull: Pull, domain: Domain) -> Array:
        """(trials, subsets, d)."""

    def gradients(self, points: Array, users: Array, pull: Pull, domain: Domain) -> Array:
        """Each user's mean (sub)gradient at points (trials, d), (trials, users, d).

        Without the pull and a ridge; at a minimiser subgradients are those that show it is one.
        """

    def common(self, points: Array) -> Array:
        """The gradient that all users share, (trials, d)."""


@dataclass(frozen=True)
class Quadratic:
    """modulus/2 ||theta - x||^2; its minimiser is the projection of a weighted mean, exactly.

    ``lipschitz`` is a statement about the items and the domain, on which no guarantee rests.
    """

    modulus: float = 1.0
    lipschitz: float = 1.0
    error: float = field(default=0.0, init=False)

    @property
    def smoothness(self) -> float:
        return self.modulus

    def dimension(self, features: int) -> int:
        return features

    def minimise(self, users: Array, kept: Flags, pull: Pull, domain: Domain) -> Array:
        means = kept_means(user_means(users)[None], kept)
        weight = pull.column(means)
        free = (self.modulus * means + weight * pull.centre[:, None]) / (self.modulus + weight)
        return domain.project(np.asarray(free))

    def gradients(self, points: Array, users: Array, pull: Pull, domain: Domain) -> Array:
        return np.asarray(self.modulus * (points[:, None] - user_means(users)[None]))

    def common(self, points: Array) -> Array:
        return np.zeros_like(points)


@dataclass(frozen=True)
class Absolute:
    """sum_j |theta_j - x_j| / sqrt(d): convex, 1-Lipschitz, not smooth, exact with a pull.

    Per coordinate the minimiser is a median: of the N items and of centre + (N - 2k) / (sqrt(d)
    weight N), k = 0, ..., N.
    Errors: InvalidParameter on a domain that is no product of intervals, or without a pull.
    """

    modulus: float = field(default=0.0, init=False)
    lipschitz: float = field(default=1.0, init=False)
    smoothness: float = field(default=math.inf, init=False)
    error: float = field(default=0.0, init=False)

    def dimension(self, features: int) -> int:
        return features

    def minimise(self, users: Array, kept: Flags, pull: Pull, domain: Domain) -> Array:
        _separable(domain)
        n, items, d = users.shape
        total = n * items
        counts = kept.sum(axis=1) * items
        values = np.where(np.repeat(kept, items, axis=1)[..., None], users.reshape(-1, d), np.inf)
        k = np.arange(total + 1)
        share = np.where(k <= counts[:, None], 1 - 2 * k / np.maximum(counts, 1)[:, None], -np.inf)
        weight = np.reshape(np.asarray(pull.weight), (-1, 1, 1, 1))
        if not (weight > 0).all():
            raise InvalidParameter("Absolute: expected a pull of positive weight")
        pulled = pull.centre[:, None, None] + share[None, ..., None] / (math.sqrt(d) * weight)
        values = np.broadcast_to(values[None], (len(pulled), *values.shape))
        both = np.sort(np.concatenate([values, pulled], axis=2), axis=2)
        return domain.project(both[:, :, total])

    def gradients(self, points: Array, users: Array, pull: Pull, domain: Domain) -> Array:
        n, items, d = users.shape
        slope = 1 / math.sqrt(d)
        signs = np.sign(points[:, None, None] - users[None])
        ties = (signs == 0).sum(axis=(1, 2))
        drag = n * items * pull.column(points) * (points - pull.centre)
        share = -(signs.sum(axis=(1, 2)) * slope + drag) / np.maximum(ties, 1) / slope
        filled = np.where(signs == 0, np.clip(share, -1, 1)[:, None, None], signs)
        return np.asarray(slope * filled.sum(axis=2) / items)

    def common(self, points: Array) -> Array:
        return np.zeros_like(points)


@dataclass(frozen=True)
class RidgeLogistic:
    """log(1 + exp(-y theta.x)) + modulus/2 ||theta||^2; items are (x, y), y in {0, 1} or {-1, 1}.

    Features are scaled down to norm at most ``feature_norm`` = G, so that H = G^2 / 4 for any item;
    an item that is not finite counts as x = 0.  Projected gradient steps, as many as bring the
    ``error`` from the domain's diameter.
    Errors: InvalidParameter where that takes more than 100,000 steps, or the domain is unbounded.
    """

    modulus: float
    feature_norm: float
    error: float = 1e-6

    @property
    def lipschitz(self) -> float:
        return self.feature_norm

    @property
    def smoothness(self) -> float:
        return self.feature_norm**2 / 4

    def dimension(self, features: int) -> int:
        return features - 1

    def steps(self, weight: float, diameter: float) -> int:
        """How many steps give the error: each shrinks the distance by (1 - mu / L)^(1/2).

        Source: Nesterov 2004, Theorem 2.2.8 (projected gradient steps of length 1 / L).
        """
        modulus = self.modulus + weight
        shrink = -0.5 * math.log1p(-modulus / (modulus + self.smoothness))
        needed = math.log(max(diameter / self.error, 1.0)) / shrink
        if not needed < MOST_STEPS:
            raise InvalidParameter(
                f"RidgeLogistic: an error of {self.error} takes over {MOST_STEPS} steps; use a "
                "larger modulus, a bounded domain or a larger error"
            )
        return math.ceil(needed) + 1

    def minimise(self, users: Array, kept: Flags, pull: Pull, domain: Domain) -> Array:
        items = self.items(users)
        start = domain.project(pull.centre)[:, None]
        points = np.repeat(start, len(kept), axis=1) + 0.0
        weight = pull.column(points)
        length = 1 / (self.modulus + self.smoothness + weight)
        for _ in range(self.steps(float(np.min(pull.weight)), domain.diameter)):
            slopes = self._kept_gradients(points, items, kept)
            slopes += self.modulus * points + weight * (points - pull.centre[:, None])
            points = domain.project(points - length * slopes)
        return points

    def gradients(self, points: Array, users: Array, pull: Pull, domain: Domain) -> Array:
        return self._user_gradients(points[:, None], self.items(users))[:, 0]

    def common(self, points: Array) -> Array:
        return self.modulus * points

    def items(self, users: Array) -> Array:
        """-y x for every item, (n, items, d), scaled to the feature norm."""
        with np.errstate(all="ignore"):
            known = np.where(np.isfinite(users).all(axis=-1, keepdims=True), users, 0.0)
            x, sign = known[..., :-1], np.where(known[..., -1:] > 0, -1.0, 1.0)
            largest = np.abs(x).max(axis=-1, keepdims=True, initial=0.0)
            unit = x / np.where(largest > 0, largest, 1.0)
            norm = np.linalg.norm(unit, axis=-1, keepdims=True)
            inside = largest * norm <= self.feature_norm
            shrunk = unit * (self.feature_norm / np.where(norm > 0, norm, 1.0))
            return np.asarray(sign * np.where(inside, x, shrunk))

    def _kept_gradients(self, points: Array, items: Array, kept: Flags) -> Array:
        """Means over the kept users, (trials, subsets, d), one user's gradient after another."""
        if points.size * items.size <= MOST_NUMBERS * points.shape[-1]:
            each = np.where(kept[None, :, :, None], self._user_gradients(points, items), 0.0)
            total = np.add.accumulate(each, axis=2)[:, :, -1] + 0.0
        else:
            total = np.zeros_like(points)
            for i in range(len(items)):
                mine = self._user_gradients(points, items[i : i + 1])[:, :, 0]
                total += np.where(kept[None, :, i, None], mine, 0.0)
        return np.asarray(total / kept.sum(axis=1)[None, :, None])

    def _user_gradients(self, points: Array, items: Array) -> Array:
        """(trials, subsets, users, d); sums over features and items in a fixed order."""
        margins = np.zeros((*points.shape[:2], *items.shape[:2]))
        for j in range(items.shape[-1]):
            margins += points[:, :, None, None, j] * items[None, None, :, :, j]
        weights = expit(margins)[..., None] * items[None, None]
        return np.asarray(weights.sum(axis=3) / items.shape[1])


@dataclass(frozen=True, eq=False)
class Minimiser:
    """argmin over a domain of the loss of the kept users, plus a pull; None pulls nowhere."""

    loss: Loss
    domain: Domain = Everywhere()
    pull: Pull | None = None

    @property
    def trials(self) -> int:
        return 1 if self.pull is None else len(self.pull.centre)

    @property
    def modulus(self) -> Array:
        """Strong convexity of the objective, (trials,)."""
        weight = 0.0 if self.pull is None else self.pull.weight
        return np.broadcast_to(self.loss.modulus + np.asarray(weight), (self.trials,))

    def of(self, chosen: Flags) -> Minimiser:
        if self.pull is None or self.trials == 1:
            return self
        return replace(self, pull=self.pull.of(chosen), domain=self.domain.of(chosen))

    def pulled(self, features: int) -> Pull:
        """The pull, of weight 0 where there is none."""
        if self.pull is not None:
            return self.pull
        return Pull(0.0, np.zeros((1, self.loss.dimension(features))))

    def at(self, users: Array, kept: Flags) -> Array:
        return self.loss.minimise(users, kept, self.pulled(users.shape[-1]), self.domain)


def _separable(domain: Domain) -> None:
    if not isinstance(domain, (Box, Everywhere)):
        raise InvalidParameter(
            f"Absolute on a {type(domain).__name__}: its coordinates are minimised one by one; "
            "use a Box"
        )

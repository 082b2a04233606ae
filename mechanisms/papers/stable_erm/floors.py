"""Appendix D: floors under the error of any private optimiser, and the instances behind them.

Rates without their hidden constants.  The condition on delta is lost in the text; delta <= 1/n^2 is
meant to be safe, and no theorem is claimed here.
Source: Ghazi et al. 2023, Appendix D; Levy et al. 2021; Kamath et al. 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array


@dataclass(frozen=True)
class Scale:
    """Dimension d, users n of m items each, and epsilon.

    Errors: InvalidParameter for numbers that are not positive.
    """

    dimension: int
    users: int
    items: int
    epsilon: float

    def __post_init__(self) -> None:
        for name in ("dimension", "users", "items", "epsilon"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"{name} = {value}: expected a positive number")

    @property
    def private(self) -> float:
        """sqrt(d) / (epsilon n sqrt(m)) for n >= sqrt(d) / epsilon; 0 where none is shown."""
        if self.users * self.epsilon < math.sqrt(self.dimension):
            return 0.0
        return math.sqrt(self.dimension / self.items) / (self.epsilon * self.users)

    @property
    def empirical(self) -> float:
        """The same for n <= d / epsilon^2 as well, where sampling does not hide it."""
        return self.private if self.users * self.epsilon**2 <= self.dimension else 0.0


def lower_bound_sco(lipschitz: float, radius: float, scale: Scale) -> float:
    """R G (1 / sqrt(n m) + sqrt(d) / (epsilon n sqrt(m))), convex losses.

    Source: Levy et al. 2021, as Ghazi et al. 2023, Section 1.2, state it.
    """
    return radius * lipschitz * (1 / math.sqrt(scale.users * scale.items) + scale.private)


def lower_bound_erm(lipschitz: float, radius: float, scale: Scale) -> float:
    """R G sqrt(d) / (epsilon n sqrt(m)) for sqrt(d)/epsilon <= n <= d/epsilon^2, else 0."""
    return radius * lipschitz * scale.empirical


def strongly_convex_lower_bound_sco(lipschitz: float, modulus: float, scale: Scale) -> float:
    """(G^2/mu) (1 / (n m) + d / (epsilon^2 n^2 m)).  Source: Theorem D.7."""
    sampled = 1 / (scale.users * scale.items)
    return lipschitz**2 / modulus * (sampled + scale.private**2)


def strongly_convex_lower_bound_erm(lipschitz: float, modulus: float, scale: Scale) -> float:
    """(G^2/mu) d / (epsilon^2 n^2 m) for sqrt(d)/epsilon <= n <= d/epsilon^2.  Theorem D.8."""
    return lipschitz**2 / modulus * scale.empirical**2


@dataclass(frozen=True)
class TruncatedGaussian:
    """Z 1[||Z|| <= bound] for Z ~ N(mean, deviation^2 I): the hard instance of the lower bounds.

    Source: Ghazi et al. 2023, Definition D.1.
    """

    mean: Array
    deviation: float
    bound: float

    def sample(self, count: int, generator: np.random.Generator) -> Array:
        """Draws, (count, d)."""
        drawn = self.mean + self.deviation * generator.standard_normal((count, len(self.mean)))
        return np.where(np.linalg.norm(drawn, axis=1, keepdims=True) <= self.bound, drawn, 0.0)


def hard_instance(
    lipschitz: float, modulus: float, dimension: int, items: int, generator: np.random.Generator
) -> TruncatedGaussian:
    """Items for mu/2 ||theta - x||^2 on a ball of radius B = G/mu: deviation B / (1000 sqrt(d)).

    The mean is within deviation / sqrt(m) in every coordinate.  The loss is 2 G-Lipschitz on the
    ball, where the proof says G: a constant.  Source: Theorem D.7, with psi = 1.
    """
    bound = lipschitz / modulus
    deviation = bound / (1000 * math.sqrt(dimension))
    mean = deviation / math.sqrt(items) * generator.uniform(-1, 1, size=dimension)
    return TruncatedGaussian(mean, deviation, bound)


def fingerprinting_users(alpha: float, deviation: float, scale: Scale) -> float:
    """d deviation / (50 alpha epsilon sqrt(m)): users without whom an error alpha is impossible.

    Source: Ghazi et al. 2023, Lemma D.6 (24 for 50 without truncation, Kamath et al. 2019).
    """
    if not alpha > 0:
        raise InvalidParameter(f"alpha = {alpha}: expected a positive number")
    return scale.dimension * deviation / (50 * alpha * scale.epsilon * math.sqrt(scale.items))


def user_to_item(
    items: Array, per_user: int, deviation: float, generator: np.random.Generator
) -> Array:
    """Users made of items (n, d): x_ij = y_i + z_ij - mean_j z_ij, (n, per_user, d).

    Where y_i ~ N(chi, deviation^2 / m I), the x_ij are i.i.d. N(chi, deviation^2 I); an item that
    changes is a user that changes, so a user-level guarantee of what follows is one per item.
    Source: Ghazi et al. 2023, Lemma D.3.
    """
    drawn = deviation * generator.standard_normal((len(items), per_user, items.shape[1]))
    return np.asarray(items[:, None] + drawn - drawn.mean(axis=1, keepdims=True))

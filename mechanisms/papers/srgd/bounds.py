"""Excess risk: a pathwise upper bound that is proved, and the paper's right-hand sides evaluated.

Everywhere t = 0..T-1, b_t is the noise in G_t = eta_t grad_t / beta - b_t, and q_t = grad_t -
grad F(x_t) is the estimate's error.  ``constants``: ``paper`` evaluates what is printed, which is
not always provable; ``repaired`` what is.
Source: Choquette-Choo, Ganesh, Thakurta 2024, Theorems 5.1, 5.8, 5.12 and 5.13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.problem import real, whole

Constants = Literal["paper", "repaired"]
ROUNDING = 1e-12


@dataclass(frozen=True)
class Geometry:
    """What every bound speaks of.

    ``beta``: at least the smoothness M of the risk; ``diameter``: of the constraint set C;
    ``start``: an upper bound on the distance from z_0 to a minimiser (the diameter is one).
    ``norm``: the bound R on the norm of points of C that the paper writes ||C|| (its own proofs
    use it as a diameter as well); by default the diameter.
    """

    beta: float
    diameter: float
    start: float
    schedule: EtaSchedule = EtaSchedule.HALVED
    norm: float | None = None

    def __post_init__(self) -> None:
        for name in ("beta", "diameter", "start"):
            real(getattr(self, name), f"Geometry.{name}")
        object.__setattr__(self, "norm", real(self.norm or self.diameter, "Geometry.norm"))

    def weights(self, steps: int) -> tuple[Array, Array]:
        """eta_t and eta_{0:t}, each of shape (steps, 1)."""
        rounds = range(whole(steps, "steps"))
        pairs = np.array([(self.schedule.eta(t), self.schedule.total(t)) for t in rounds])
        return pairs[:, :1], pairs[:, 1:]

    @property
    def radius(self) -> float:
        """The paper's R, or ||C||."""
        return float(self.norm or self.diameter)


def pathwise_excess_risk_upper(
    geometry: Geometry, errors: ArrayLike, estimates: ArrayLike, noises: ArrayLike
) -> Array:
    """An upper bound on F(y_T) - F* for *every* data and noise: U1, shape (trials,).

    (1 / eta_{0:T-1}) [ (beta/2) start^2 + sum_t eta_{0:t} (||q|| ||grad|| / beta + ||q|| ||b|| /
    eta_t + ||b|| ||grad|| / eta_t + beta ||b||^2 / eta_t^2) + 2 beta D ||b|| + eta_t D ||q|| ],
    for a convex F that is beta-smooth on a convex C of diameter D, any gradient estimates and any
    noise; ``errors``, ``estimates`` and ``noises`` are ||q_t||, ||grad_t|| and ||b_t||, (T, trials)
    or (T,).
    Errors: InvalidParameter for arrays that are no norms, or a schedule with eta_t^2 > eta_{0:t}.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, the proof of Theorem 5.1 with the potential
    eta_{0:t-1} (F(y_t) - F*) + (beta/2) ||z_t - x*||^2, for which it closes.  y_{t+1} minimises
    <grad - beta b / eta, .> + (beta/2) ||. - x_t||^2 over C; comparing it with (1 - tau) y_t +
    tau z_{t+1} gives every term, with ||y_{t+1} - x_t|| <= ||grad|| / beta + ||b|| / eta_t.
    """
    q, g, b = (_norms(a, name) for a, name in _named(errors, estimates, noises))
    if not q.shape == g.shape == b.shape:
        raise InvalidParameter(f"norms of shapes {q.shape}, {g.shape}, {b.shape}: expected one")
    eta, total = geometry.weights(len(q))
    if (eta**2 > total * (1 + ROUNDING)).any():
        raise InvalidParameter("U1 needs eta_t^2 <= eta_{0:t}: use EtaSchedule.HALVED")
    beta, wide = geometry.beta, geometry.diameter
    growth = total * (q * g / beta + (q + g) * b / eta + beta * b**2 / eta**2)
    growth += 2 * beta * wide * b + eta * wide * q
    return np.asarray((beta / 2 * geometry.start**2 + growth.sum(axis=0)) / total[-1])


def recursive_error_upper(
    spread: float, batch: int, steps: int, gamma: float, schedule: EtaSchedule = EtaSchedule.HALVED
) -> Array:
    """K_t with ||q_t|| <= K_t for all t, with probability 1 - gamma over i.i.d. data; (steps,).

    K_t = Q sqrt(3 (t+1) log(6T/gamma)) / (sqrt(B) eta_t), Q = ``spread`` a bound on how far one
    record's weighted gradient difference is from its mean.  It speaks of i.i.d. data: utility
    alone may rest on it, never privacy.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Theorem 5.1 (by Hayes 2005).
    """
    real(spread, "spread")
    if not 0 < gamma < 1:
        raise InvalidParameter(f"gamma = {gamma}: expected a probability between 0 and 1")
    rounds = range(whole(steps, "steps"))
    eta = np.array([schedule.eta(t) for t in rounds])
    scale = math.sqrt(3 * math.log(6 * steps / gamma) / whole(batch, "batch"))
    return np.asarray(spread * scale * np.sqrt(np.arange(1, steps + 1)) / eta)


def excess_risk_bound_5_1(
    geometry: Geometry,
    error_bounds: ArrayLike,
    gradients: ArrayLike,
    noises: ArrayLike,
    constants: Constants = "repaired",
) -> Array:
    """Theorem 5.1's right-hand side, holding with the probability that ||q_t|| <= K_t does.

    ``error_bounds``: K_t, from :func:`recursive_error_upper`; ``gradients``: ||grad F(x_t)||;
    ``noises``: ||b_t||; each (T,) or (T, trials).  ``repaired`` is U1 with ||grad_t|| <=
    ||grad F(x_t)|| + K_t.  ``paper``: (1/eta_{0:T}) [ sum eta_{0:t} (2 K (||grad F|| + K) / beta +
    3 K ||b|| / eta + K eta R / eta_{0:t} + 3 beta ||b|| R / eta_{0:t} + beta ||b||^2 / eta^2) +
    beta R^2 ], as printed: its divisor, its first constant and a dropped L ||b|| / tau keep it from
    being proved.
    """
    k, f, b = (_norms(a, name) for a, name in _named(error_bounds, gradients, noises))
    k, f, b = np.broadcast_arrays(k, f, b)
    if _is_repaired(constants):
        return pathwise_excess_risk_upper(geometry, k, k + f, b)
    eta, total = geometry.weights(len(k))
    beta, wide = geometry.beta, geometry.radius
    inside = 2 * k * (f + k) / beta + 3 * k * b / eta + beta * b**2 / eta**2
    growth = total * inside + k * eta * wide + 3 * beta * b * wide
    last = geometry.schedule.total(len(k))
    return np.asarray((growth.sum(axis=0) + beta * wide**2) / last)


def excess_risk_bound_5_13(
    geometry: Geometry,
    lipschitz: float,
    batch: int,
    noises: ArrayLike,
    constants: Constants = "repaired",
) -> Array:
    """Theorem 5.13's right-hand side on E F(y_T) - F*, with independent batch gradients.

    ``noises``: ||b_t||, (T,) or (T, trials), fixed; the expectation is over i.i.d. data.
    ``repaired``: U1 with E||q_t|| <= 2 L / sqrt(B) and ||grad_t|| <= L, without eta_t D ||q_t||,
    since q_t has mean 0 given z_t.  ``paper``: (1/eta_{0:T}) [ sum eta_{0:t} (8 L^2 / (sqrt(B)
    beta) + 5 L ||b|| / eta + 3 beta ||b|| R + beta ||b||^2 / eta^2) + beta R^2 ], as printed: the
    third term lacks a division by eta_{0:t}.
    """
    real(lipschitz, "lipschitz")
    b, root = _norms(noises, "noises"), math.sqrt(whole(batch, "batch"))
    eta, total = geometry.weights(len(b))
    if _is_repaired(constants):
        error = np.full_like(b, 2 * lipschitz / root)
        whole_bound = pathwise_excess_risk_upper(geometry, error, np.full_like(b, lipschitz), b)
        return np.asarray(whole_bound - (eta * geometry.diameter * error).sum(axis=0) / total[-1])
    beta, wide = geometry.beta, geometry.radius
    inside = 8 * lipschitz**2 / (root * beta) + 5 * lipschitz * b / eta
    inside = inside + 3 * beta * b * wide + beta * b**2 / eta**2
    last = geometry.schedule.total(len(b))
    return np.asarray(((total * inside).sum(axis=0) + beta * wide**2) / last)


# --- rates: up to a constant and factors polylogarithmic in n and 1/delta ------------------------


@dataclass(frozen=True)
class Rate:
    """The setting of a rate: n records, p parameters, epsilon, and L, M, R of the problem."""

    n: int
    dimension: int
    epsilon: float
    lipschitz: float = 1.0
    radius: float = 1.0
    smoothness: float = 1.0

    def __post_init__(self) -> None:
        whole(self.n, "Rate.n")
        whole(self.dimension, "Rate.dimension")
        for name in ("epsilon", "lipschitz", "radius", "smoothness"):
            real(getattr(self, name), f"Rate.{name}")

    @property
    def scale(self) -> float:
        """L R: the excess risk of any point."""
        return self.lipschitz * self.radius

    @property
    def privacy(self) -> float:
        """sqrt(p) / (epsilon n)."""
        return math.sqrt(self.dimension) / (self.epsilon * self.n)


def excess_risk_bound_5_8(setting: Rate, constants: Constants = "repaired") -> float:
    """Theorem 5.8 without its constant and polylog: a rate, *no* bound on any one run.

    L R (1/sqrt(n) + sqrt(p)/(epsilon n)); ``paper`` evaluates the last display of its proof, which
    prints sqrt(n) for 1/sqrt(n).
    """
    root = math.sqrt(setting.n)
    sampling = 1 / root if _is_repaired(constants) else root
    return setting.scale * (sampling + setting.privacy)


def excess_risk_bound_5_12(setting: Rate, batch: int, constants: Constants = "repaired") -> float:
    """Theorem 5.12 without its constant and polylog: a rate, *no* bound on any one run.

    ``repaired``: the terms its proof ends with, L R [B/n + sqrt(B p) / (epsilon n^(3/2) sqrt(T)) +
    2/sqrt(n) + sqrt(p)/(epsilon n) + p/(epsilon^2 n^(3/2) T)], T = n/B.  ``paper``: the first
    display, M R^2 B^2/n^2 + (L + M R) R/sqrt(n) + (L + M R/sqrt(B)) R sqrt(p)/(epsilon n), which
    does not follow from them.
    Errors: InvalidParameter for a batch above sqrt(n).
    """
    if whole(batch, "batch") > math.sqrt(setting.n):
        raise InvalidParameter(f"batch = {batch}: Theorem 5.12 needs at most sqrt(n)")
    n, p, epsilon = float(setting.n), setting.dimension, setting.epsilon
    if not _is_repaired(constants):
        curved = setting.smoothness * setting.radius
        terms = (
            curved * batch**2 / n**2,
            (setting.lipschitz + curved) / math.sqrt(n),
            (setting.lipschitz + curved / math.sqrt(batch)) * setting.privacy,
        )
        return setting.radius * sum(terms)
    steps = n / batch
    mixed = math.sqrt(batch * p) / (epsilon * math.pow(n, 1.5) * math.sqrt(steps))
    squared = p / (epsilon**2 * math.pow(n, 1.5) * steps)
    sampling = batch / n + 2 / math.sqrt(n)
    return setting.scale * (sampling + mixed + setting.privacy + squared)


# --- checks --------------------------------------------------------------------------------------


def _named(*arrays: ArrayLike) -> list[tuple[ArrayLike, str]]:
    return list(zip(arrays, ("errors", "gradients", "noises"), strict=True))


def _norms(values: ArrayLike, name: str) -> Array:
    """Norms as (T, trials).

    Errors: InvalidParameter for another shape, or numbers that are negative or not finite.
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or found.size == 0:
        raise InvalidParameter(f"{name}: shape {found.shape}, expected (T,) or (T, trials)")
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise InvalidParameter(f"{name}: expected norms, finite and not negative")
    return found


def _is_repaired(constants: str) -> bool:
    if constants not in ("paper", "repaired"):
        raise InvalidParameter(f"constants = {constants!r}: expected paper or repaired")
    return constants == "repaired"

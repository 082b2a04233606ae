"""Hard instances, repaired where the print is not what its proof needs, and what they detect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.kl.problem import chance
from mechanisms.papers.srgd.problem import real, whole

LARGEST_EXPONENT = 700.0
TRUSTED = math.exp(-1)  # the two-point losses are 1-Lipschitz, and grow, on |w| <= 1/e


@dataclass(frozen=True)
class HuberLinear:
    """f(w; x) = <w, x> + lam H(w), H = ||w||^2 up to ||w|| = 4D, 8D ||w|| - 16 D^2 beyond.

    Convex, 2 lam smooth, and Lipschitz with ||x|| + 8 lam D.
    Source: Menart et al. 2023, Theorem 7; the print has 4D ||w|| beyond, neither convex nor
    differentiable.
    """

    size: int
    lam: float
    diameter: float

    def __post_init__(self) -> None:
        whole(self.size, "HuberLinear.size")
        real(self.lam, "HuberLinear.lam")
        real(self.diameter, "HuberLinear.diameter")

    def dimension(self, features: int) -> int:
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, self.size))

    def huber(self, points: ArrayLike) -> Array:
        """H at points (..., d)."""
        norms = np.linalg.norm(np.asarray(points, dtype=np.float64), axis=-1)
        edge = 4 * self.diameter
        return np.asarray(np.where(norms <= edge, norms**2, 2 * edge * norms - edge**2))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        points, rows = np.asarray(parameters), np.asarray(records)
        return np.asarray(points @ rows.T + self.lam * self.huber(points)[:, None])

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        points, rows = np.asarray(parameters), np.asarray(records)
        norms = np.linalg.norm(points, axis=-1, keepdims=True)
        pull = (
            2 * self.lam * points * np.minimum(1.0, 4 * self.diameter / np.maximum(norms, 1e-300))
        )
        return np.asarray(rows + pull[:, None, :])


@dataclass(frozen=True, eq=False)
class HuberInstance:
    """A data set (n, d) on which every private minimiser is far off, and its constants."""

    loss: HuberLinear
    records: Array
    lipschitz_upper: float
    smoothness: float

    @property
    def minimiser(self) -> Array:
        """-sum x_i / (2 n lam), of norm at most D, shape (d,)."""
        return np.asarray(-self.records.mean(axis=0) / (2 * self.loss.lam))

    def excess(self, points: ArrayLike) -> Array:
        """F(w) - min F at points (m, d)."""
        value = np.asarray(self.loss.values(points, self.records)).mean(axis=1)
        least = self.loss.values(self.minimiser[None], self.records).mean()
        return np.asarray(value - least)


def huber_fingerprint_instance(
    size: int, dimension: int, epsilon: float, lipschitz: float, diameter: float, seed: int = 0
) -> HuberInstance:
    """N = min(ceil(sqrt(d) / eps), n) records of random signs L0 / sqrt(d), the others 0.

    lam = N L0 / (2 n D).  Random signs stand for a fingerprinting code.
    Source: Menart et al. 2023, Theorem 7.
    """
    whole(size, "size")
    whole(dimension, "dimension")
    wanted = math.ceil(math.sqrt(dimension) / real(epsilon, "epsilon"))
    marked = min(wanted, size)
    lam = marked * real(lipschitz, "lipschitz") / (2 * size * real(diameter, "diameter"))
    records = np.zeros((size, dimension))
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(marked, dimension))
    records[:marked] = signs * lipschitz / math.sqrt(dimension)
    loss = HuberLinear(dimension, lam, diameter)
    return HuberInstance(loss, records, lipschitz + 8 * lam * diameter, 2 * lam)


@dataclass(frozen=True)
class TwoPointLoss:
    """On the line: f(w; +1) = a - w up to a, (w - a)^tau beyond; f(w; -1) its mirror image.

    1-Lipschitz and of (1, tau)-growth on |w| <= 1/e only (the print says on any ball, which fails).
    Source: Menart et al. 2023, Theorem 8.
    """

    offset: float
    tau: float

    def dimension(self, features: int) -> int:
        return 1

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, 1))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        beyond = self._beyond(parameters, records)
        return np.where(beyond > 0, np.maximum(beyond, 0.0) ** self.tau, -beyond)

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        beyond, signs = self._beyond(parameters, records), np.asarray(records)[:, 0]
        slope = self.tau * np.maximum(beyond, 0.0) ** (self.tau - 1)
        return np.asarray((signs * np.where(beyond > 0, slope, -1.0))[..., None])

    def _beyond(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        return np.asarray(np.asarray(records)[:, 0] * np.asarray(parameters) - self.offset)


@dataclass(frozen=True)
class TwoPointInstance:
    """Two data sets of signs that differ in ``differing`` of ``size`` records, minimised at +-a.

    a = r^(kappa - 1) / 2, r = differing / size.  At every w the two excess risks sum to at least
    (2a)^tau = r^kappa.
    Errors: InvalidParameter unless 1 <= differing < size, size + differing is even, kappa >= 2.
    """

    size: int
    differing: int
    kappa: float

    def __post_init__(self) -> None:
        whole(self.size, "TwoPointInstance.size")
        whole(self.differing, "TwoPointInstance.differing")
        if real(self.kappa, "TwoPointInstance.kappa") < 2:
            raise InvalidParameter(f"TwoPointInstance.kappa = {self.kappa}: expected at least 2")
        if self.differing >= self.size or (self.size + self.differing) % 2:
            raise InvalidParameter(
                f"TwoPointInstance: {self.differing} of {self.size} records differ; expected fewer "
                "than all, and an even sum"
            )

    @property
    def share(self) -> float:
        """r."""
        return self.differing / self.size

    @property
    def gap(self) -> float:
        """r^kappa: what the two excess risks sum to, at least."""
        return float(self.share**self.kappa)

    @property
    def loss(self) -> TwoPointLoss:
        """Its loss."""
        offset = float(0.5 * self.share ** (self.kappa - 1))
        return TwoPointLoss(offset, self.kappa / (self.kappa - 1))

    def records(self, side: int) -> Array:
        """Signs (n, 1): (1 + r)/2 of +1 in data set 0, (1 - r)/2 in data set 1."""
        plus = (self.size + (self.differing if side == 0 else -self.differing)) // 2
        return np.where(np.arange(self.size) < plus, 1.0, -1.0)[:, None]

    def excess(self, points: ArrayLike, side: int) -> Array:
        """F(w) - min F of one data set at points (m, 1), cut to |w| <= 1/e; min F = a (1 - r)."""
        inside = np.clip(np.asarray(points, dtype=np.float64), -TRUSTED, TRUSTED)
        kinds = self.loss.values(inside, np.array([[1.0], [-1.0]]))
        weight = (1 + self.share) / 2 if side == 0 else (1 - self.share) / 2
        least = self.loss.offset * (1 - self.share)
        return np.asarray(weight * kinds[:, 0] + (1 - weight) * kinds[:, 1] - least)


def two_point_growth_instance(size: int, epsilon: float, kappa: float) -> TwoPointInstance:
    """The instance with 1/epsilon differing records, rounded so that the signs come out whole.

    Source: Menart et al. 2023, Theorem 8.
    """
    wanted = max(1, round(1 / real(epsilon, "epsilon")))
    return TwoPointInstance(size, wanted + (whole(size, "size") + wanted) % 2, kappa)


class Privacy(Protocol):
    """A guarantee, as far as two data sets that differ in a group of records are told apart."""

    def distance_upper(self, differing: int) -> float:
        """At least the total variation distance of the outputs on two such data sets."""


@dataclass(frozen=True)
class GaussianPrivacy:
    """mu-GDP: 2 Phi(m mu / 2) - 1 for m differing records.

    Errors: InvalidParameter unless mu is positive and finite.
    Source: Dong, Roth, Su 2022, Theorem 2.14.
    """

    mu: float

    def __post_init__(self) -> None:
        real(self.mu, "GaussianPrivacy.mu")

    def distance_upper(self, differing: int) -> float:
        return 2 * float(ndtr(differing * self.mu / 2)) - 1


@dataclass(frozen=True)
class ApproximatePrivacy:
    """(epsilon, delta)-DP: 1 - 2 (1 - delta_m) / (1 + e^(m epsilon)) for m differing records.

    delta_m = delta (e^(m epsilon) - 1) / (e^epsilon - 1), at most 1.
    Errors: InvalidParameter unless epsilon is positive and finite, and delta in [0, 1).
    Source: Vadhan 2017, Lemma 2.2 (groups); Kairouz, Oh, Viswanath 2015 (both errors at once).
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        real(self.epsilon, "ApproximatePrivacy.epsilon")
        if self.delta != 0:
            chance(self.delta, "ApproximatePrivacy.delta")

    def distance_upper(self, differing: int) -> float:
        exponent = differing * self.epsilon
        if exponent > LARGEST_EXPONENT:
            return 1.0
        lost = min(1.0, self.delta * math.expm1(exponent) / math.expm1(self.epsilon))
        return 1 - 2 * (1 - lost) / (1 + math.exp(exponent))


def average_excess_lower(instance: TwoPointInstance, privacy: Privacy) -> float:
    """gap (1 - TV) / 2 <= the average over both data sets of E min(excess, gap).

    Source: Menart et al. 2023, Theorem 8 (Le Cam's two points).
    """
    return instance.gap * (1 - privacy.distance_upper(instance.differing)) / 2


def best_instance(size: int, kappa: float, privacy: Privacy) -> TwoPointInstance:
    """The number of differing records that makes :func:`average_excess_lower` largest."""
    counts = range(2 - whole(size, "size") % 2, size, 2)
    found = [TwoPointInstance(size, m, kappa) for m in counts]
    if not found:
        raise InvalidParameter(f"size = {size}: expected at least 3 records")
    return max(found, key=lambda one: average_excess_lower(one, privacy))


@dataclass(frozen=True)
class Detection:
    """The measured average excess, from above, against what privacy forces it to be at least."""

    measured_upper: float
    lower: float
    flagged: bool


def two_point_detector(
    instance: TwoPointInstance,
    first: Array,
    second: Array,
    privacy: Privacy,
    error: float = 1e-4,
) -> Detection:
    """Flags outputs (trials, 1) on the two data sets that are too good for what is claimed.

    The measured mean of min(excess, gap), which lies in [0, gap], plus Hoeffding's band.  A
    mechanism that keeps its claim is flagged with probability at most ``error``; no attacker is
    needed.
    Errors: InvalidParameter for no trial, outputs that are not finite, or another error rate.
    """
    chance(error, "error")
    means, spread = [], 0.0
    for side, points in enumerate((first, second)):
        rows = np.asarray(points, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 1 or not len(rows) or not np.isfinite(rows).all():
            raise InvalidParameter(f"outputs of shape {rows.shape}: expected finite (trials, 1)")
        means.append(float(np.minimum(instance.excess(rows, side), instance.gap).mean()))
        spread += 1 / len(rows)
    # Hoeffding for the half sum of two independent means of values in [0, gap].
    band = instance.gap / 2 * math.sqrt(spread * math.log(1 / error) / 2)
    upper, lower = sum(means) / 2 + band, average_excess_lower(instance, privacy)
    return Detection(upper, lower, upper < lower)

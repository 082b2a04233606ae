"""Kernels of means over random inliers, and of releases that a noisy test lets pass.

Inner coins are latent: a session draws them, and a density averages over draws of its own, the same
on both data sets, since they are made of what was released.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.families.additive import Laplace
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.discrete import TruncatedDiscreteLaplace
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.stability import CoupledGaussian
from dpaudit.families.stability.kernel import TruncatedDiscreteLaplaceLaw
from dpaudit.kernels.base import SCALE_ROUNDING, Generator, Kernel, kernel, kernel_of, normal_scores
from dpaudit.kernels.digests import hashed, is_bottom, tested_residual
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node

Flags = NDArray[np.bool_]
COIN_DRAWS = 32  # Draws of the inner coins over which a density is averaged.


def packed(probabilities: Array, points: Array) -> Array:
    """The kernel's input, (trials, 1 + C + C d): the number C, probabilities, points.

    probabilities: (trials, C), of each point to be an inlier; points: (trials, C, d).
    """
    trials, count = probabilities.shape
    head = np.full((trials, 1), float(count))
    return np.hstack([head, probabilities, points.reshape(trials, -1)])


def unpacked(values: Array) -> tuple[Array, Array]:
    """Probabilities (trials, C) and points (trials, C, d)."""
    count = int(values[0, 0])
    points = values[:, 1 + count :].reshape(len(values), count, -1)
    return values[:, 1 : 1 + count], points


def mean_of(weights: NDArray[Any], points: Array) -> Array:
    """The weighted mean of points, (trials, d); 0 where no weight is positive."""
    total = weights.sum(axis=1)
    safe = np.where(total > 0, total, 1.0)
    return np.asarray(np.einsum("tc,tcd->td", weights, points) / safe[:, None])


@kernel(CoupledGaussian)
class CoupledGaussianKernel(Kernel):
    """The mean of the points that independent coins choose, + N(0, scale^2 I); 0 if they are none.

    Its query packs probabilities and points (:func:`packed`), and states one unit of the leaf.  The
    mean and the coins never leave the session.  Where every probability is 0 or 1 densities are
    exact, else averages over 32 draws.
    """

    draws: ClassVar[int] = COIN_DRAWS

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._noise = GaussianKernel(leaf, trials)
        self.averaged = False

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for what cannot be a number of points with their coordinates."""
        if dimension < 3:
            raise InvalidParameter(
                f"release {self.leaf.label!r}: expected points with their probabilities (packed)"
            )

    def centre(self, values: Array) -> Array:
        """The mean with probabilities for weights."""
        return mean_of(*unpacked(values))

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """The points, each moved by as much as their mean moves."""
        probabilities, points = unpacked(values)
        centre = self.centre(values)
        moved = super().away(centre, self.centre(others), shift) - centre
        return packed(probabilities, points + moved[:, None, :])

    def inliers(self, probabilities: Array, rng: Generator) -> Flags:
        """Who is chosen, (trials, C)."""
        return np.asarray(rng.random(probabilities.shape) < probabilities)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        probabilities, points = unpacked(values)
        chosen = self.inliers(probabilities, rng).astype(np.float64)
        return self._noise.sample(mean_of(chosen, points), scale, rng)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        probabilities, points = unpacked(values)
        random = _random(probabilities)
        density = self._noise.log_density(released, mean_of(probabilities, points), scale)
        if random.any():
            self.averaged = True
            coins = hashed(released, self.draws * probabilities.shape[1])[0]
            given = (released[random], probabilities[random], points[random], scale[random])
            density[random] = self._averaged_density(coins.reshape(self.draws, 1, -1), *given)
        return density

    def _averaged_density(
        self, coins: Array, released: Array, probabilities: Array, points: Array, scale: Array
    ) -> Array:
        chosen = ((row < probabilities).astype(np.float64) for row in coins)
        log_densities = [
            self._noise.log_density(released, mean_of(weights, points), scale) for weights in chosen
        ]
        return np.asarray(np.logaddexp.reduce(log_densities) - np.log(self.draws))

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """The noise where no coin is random; NaN elsewhere, since the mean is not known."""
        noise = normal_scores(released, self.centre(values), scale, self.uniforms)
        return np.where(_random(unpacked(values)[0])[:, None], np.nan, noise)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The largest move over draws of shared coins, over ``always`` + flipped coins.

        Infinite where more than ``flips`` coins differ, or one by more than ``rate``; a coin whose
        point differs, one at most, is among ``always``.
        """
        (p, x), (q, y) = unpacked(values), unpacked(others)
        same = (x == y).all(axis=2)
        moved = np.where(same, np.abs(p - q), 0.0)
        rate = float(enclose(self.leaf.rate).mid())
        flips, always = float(self.leaf.flips), float(enclose(self.leaf.always).mid())
        wrong = (moved > rate * SCALE_ROUNDING).any(axis=1) | ((moved > 0).sum(axis=1) > flips)
        wrong |= (~same).sum(axis=1) > 1
        coins = np.random.default_rng(0).random((COIN_DRAWS, 1, p.shape[1]))
        distances = [_move(((u < p) * 1.0, x), ((u < q) * 1.0, y), same, always) for u in coins]
        return np.asarray(np.where(wrong, np.inf, np.max(distances, axis=0)))


def _random(probabilities: Array) -> Flags:
    return np.asarray(((probabilities > 0) & (probabilities < 1)).any(axis=1))


def _move(one: tuple[Any, Array], two: tuple[Any, Array], same: Flags, always: float) -> Array:
    flipped = ((one[0] != two[0]) & same).sum(axis=1)
    distance = np.linalg.norm(mean_of(*one) - mean_of(*two), axis=-1)
    return np.asarray(distance / (always + flipped))


class LaplaceTest:
    """Whether score + Laplace noise >= 0; ``width``: the noise multiplier."""

    def __init__(self, leaf: Any) -> None:
        self.width = float(enclose(leaf.noise_multiplier).mid())

    def noise(self, trials: int, rng: Generator) -> Array:
        """The score's noise, (trials,)."""
        return np.asarray(self.width * rng.laplace(size=trials))

    def log_tails(self, score: Array) -> tuple[Array, Array]:
        """log P(bottom) and log P(pass), (trials,)."""
        far = score / self.width
        tail = np.exp(-np.abs(far)) / 2
        near, other = np.log1p(-tail), -np.abs(far) - np.log(2)
        return np.where(far < 0, near, other), np.where(far < 0, other, near)


class TruncatedDiscreteLaplaceTest:
    """Whether score + truncated discrete Laplace noise >= 0; the score is a whole number."""

    def __init__(self, leaf: Any) -> None:
        if leaf.sensitivity != 1:
            raise Unsupported(f"{leaf.head}: a run needs a test of sensitivity 1")
        self.law = TruncatedDiscreteLaplaceLaw(
            float(enclose(1 / leaf.scale).mid()), int(leaf.bound)
        )

    def noise(self, trials: int, rng: Generator) -> Array:
        """The score's noise, (trials,)."""
        return np.asarray(self.law.sample(trials, rng) - self.law.kappa, dtype=np.float64)

    def log_tails(self, score: Array) -> tuple[Array, Array]:
        """log P(bottom) and log P(pass), (trials,); a score above the bound always passes."""
        levels = self.law.levels(np.maximum(self.law.kappa - score, 0.0))
        return self.law.log_bottoms[levels], self.law.log_passes[levels]


Test = LaplaceTest | TruncatedDiscreteLaplaceTest
TESTS: dict[type[Node], type[Test]] = {
    Laplace: LaplaceTest,
    TruncatedDiscreteLaplace: TruncatedDiscreteLaplaceTest,
}


@kernel(ProposeTestRelease)
class ProposeTestReleaseKernel(Kernel):
    """Releases by the release's kernel where score + the test's noise >= 0, else bottom (NaN).

    Values are (score, value of the release): the score in units of its sensitivity, its threshold
    at 0; the query states the sensitivity of the release.  Its label is that of the release, and
    its norm the l2 norm, in which a release of one number in l1 is bounded as well.
    Errors: Unsupported for a test that is no Laplace leaf, plain or truncated and discrete, or a
    release that cannot be sampled; InvalidParameter for a release in l1 of several numbers.
    Source: Dwork, Lei 2009, Section 3 (propose-test-release).
    """

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._test = _test_of(leaf)(leaf.test)
        self._release = kernel_of(leaf.release)(leaf.release, trials)
        self._false_pass = float(enclose(leaf.false_pass).mid())

    @staticmethod
    def multiplier(leaf: Any) -> float:
        _test_of(leaf)
        return float(kernel_of(leaf.release).multiplier(leaf.release))

    @property
    def averaged(self) -> bool:
        """Whether densities were averages over latent coins."""
        return bool(getattr(self._release, "averaged", False))

    def admit(self, scale: Array, dimension: int) -> None:
        if dimension < 2:
            raise InvalidParameter(
                f"release {self.leaf.release.label!r}: expected a score, then the value to release"
            )
        if self._release.norm != self.norm and dimension > 2:
            raise InvalidParameter(
                f"release {self.leaf.release.label!r}: {self._release.norm} noise behind a test is "
                f"for one number, not {dimension - 1}"
            )
        self._release.admit(scale, dimension - 1)

    def centre(self, values: Array) -> Array:
        return np.asarray(self._release.centre(values[:, 1:]))

    def noise(self, trials: int, rng: Generator) -> Array:
        """The score's noise, (trials,)."""
        return self._test.noise(trials, rng)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        passed = values[:, 0] + self.noise(len(values), rng) >= 0
        noisy = self._release.sample(values[:, 1:], scale, rng)
        return np.where(passed[:, None], noisy, np.nan)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        bottom = is_bottom(released)
        shown = np.where(bottom[:, None], 0.0, released)
        density = self._release.log_density(shown, values[:, 1:], scale)
        failing, passing = self._test.log_tails(values[:, 0])
        return np.where(bottom, failing, passing + density)

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """The score moves by whole numbers, which every test knows, the release as of its noise."""
        score = np.rint(super().away(values[:, :1], others[:, :1], shift))
        score = np.where(shift[:, None] > 0, score, values[:, :1])
        return np.hstack([score, self._release.away(values[:, 1:], others[:, 1:], shift)])

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """A column for the test's outcome, then those of the release: :func:`tested_residual`."""
        shown = np.where(is_bottom(released)[:, None], 0.0, released)
        self._release.spread = self.spread
        noise = self._release.residual(shown, values[:, 1:], scale)
        failing = self._test.log_tails(values[:, 0])[0]
        return tested_residual(released, failing, noise, self.uniforms)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The score moves by at most 1; the release by ``stated`` if either data set is stable.

        Stable: it passes more often than ``false_pass``.
        """
        moved = np.abs(values[:, 0] - others[:, 0]) * stated
        best = np.maximum(values[:, 0], others[:, 0])
        stable = np.exp(self._test.log_tails(best)[1]) > self._false_pass * SCALE_ROUNDING
        distance = self._release.apart(values[:, 1:], others[:, 1:], stated)
        return np.asarray(np.where(stable, np.maximum(moved, distance), moved))


def _test_of(leaf: Any) -> type[Test]:
    if type(leaf.test) not in TESTS:
        raise Unsupported(f"{leaf.head}: a run needs a Laplace leaf as its test")
    return TESTS[type(leaf.test)]

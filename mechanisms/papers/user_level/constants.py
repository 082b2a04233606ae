"""Constants of the test and the noise of Algorithm 1: as printed, and calibrated.

A release is a test of concentration with Laplace noise of scale b on the score (sensitivity
2 (C - 1) / C), then a mean over inliers with Gaussian noise.  If one of two neighbours scores at
least rho C + 1 the mean is stable; if neither does, either passes with probability at most
exp(-(theta - rho C - 1) / b) / 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.stability import CoupledGaussian
from dpaudit.kernels.query import Array
from dpaudit.nodes import Leaf
from dpaudit.scope import choose
from mechanisms.papers.common.budgets import rational
from mechanisms.papers.user_level.points import even

DIGITS = Decimal(1).scaleb(-9)
ROOM = 1.000001
HALT = 1e-3
LARGEST_EPSILON = 10
DEFAULT_CORE = Fraction(4, 5)
DEFAULT_SHARE = Fraction(1, 4)


class Inliers(StrEnum):
    """How points enter the mean: by coins, or with their probabilities for weights."""

    RANDOM = "random"
    WEIGHTED = "weighted"


@dataclass(frozen=True)
class ReleaseConstants:
    """One test and release over ``groups`` points, C.

    ``test_scale``: b, of the Laplace noise on the score; ``threshold``: theta; ``core``: rho;
    ``noise``: standard deviation over the radius tau; ``inliers``: random or weighted.
    Errors: InvalidParameter for an odd C or C < 6; for rho outside [2/3, 1) or a threshold at or
    below rho C + 1, where the proof has no core; for noise that is not positive.
    """

    groups: int
    test_scale: Fraction
    threshold: Fraction
    core: Fraction
    noise: Fraction
    inliers: str = Inliers.WEIGHTED

    def __post_init__(self) -> None:
        object.__setattr__(self, "inliers", choose(Inliers, self.inliers, "inliers"))
        if not hasattr(self.groups, "__index__") or self.groups < 6 or self.groups % 2:
            raise InvalidParameter(
                f"groups = {self.groups}: expected an even number from 6 on (odd ones break the "
                "bound on the diameter of the inliers)"
            )
        if not Fraction(2, 3) <= self.core < 1:
            raise InvalidParameter(f"core = {self.core}: expected 2/3 <= rho < 1")
        if not self.threshold > self.core * self.groups + 1:
            raise InvalidParameter(
                f"threshold = {float(self.threshold):g}: expected more than rho C + 1 = "
                f"{float(self.core * self.groups + 1):g}"
            )
        for name in ("test_scale", "noise"):
            if not getattr(self, name) > 0:
                raise InvalidParameter(f"{name}: expected a positive number")

    @property
    def score_sensitivity(self) -> Fraction:
        """2 (C - 1) / C."""
        return Fraction(2 * (self.groups - 1), self.groups)

    @property
    def movable(self) -> int:
        """Points other than the replaced one whose probability may change: floor((1 - rho) C)."""
        return math.floor((1 - self.core) * self.groups)

    @property
    def unit(self) -> Fraction:
        """What one unit of the release is, over tau.

        Random: 4 / (rho C), and the mean moves by 2 + B of them, B binomial.  Weighted: the whole
        sensitivity, 4 (6 (1 - rho) + 2) / (rho C).
        """
        step = 4 / (self.core * self.groups)
        return step if self.inliers == Inliers.RANDOM else step * (6 * (1 - self.core) + 2)

    @property
    def false_pass(self) -> Fraction:
        """exp(-(theta - rho C - 1) / b) / 2, rounded up."""
        margin = float((self.threshold - self.core * self.groups - 1) / self.test_scale)
        return Fraction(f"{max(math.exp(-margin) / 2 * ROOM, 1e-300):.12e}")

    def node(self, label: str) -> ProposeTestRelease:
        """Test, then release; the label is the release's."""
        test = Laplace(f"{label} test", self.test_scale / self.score_sensitivity)
        return ProposeTestRelease(test, self.leaf(label), self.false_pass)

    def leaf(self, label: str) -> Leaf:
        """The release's noise, in units."""
        multiplier = self.noise / self.unit
        if self.inliers == Inliers.WEIGHTED:
            return Gaussian(label, multiplier)
        rate = Fraction(6, self.groups)
        return CoupledGaussian(label, multiplier, 2, self.movable, rate)


def rounded_up(value: float | Number) -> Fraction:
    """To nine digits after the point."""
    found = Decimal(str(float(value))).quantize(DIGITS, rounding=ROUND_CEILING)
    return Fraction(found)


def budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """As fractions; errors: InvalidParameter for epsilon outside (0, 10], delta outside (0, 1)."""
    found = rational(epsilon, "epsilon"), rational(delta, "delta")
    if not 0 < found[0] <= LARGEST_EPSILON:
        raise InvalidParameter(
            f"epsilon = {float(found[0]):g}: Theorems 2.1 and 3.1 are for 0 < epsilon <= 10"
        )
    if not 0 < found[1] < 1:
        raise InvalidParameter(f"delta = {float(found[1]):g}: expected 0 < delta < 1")
    return found


def kappa(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The least Gaussian noise multiplier for (epsilon, delta), rounded up.

    Source: Balle and Wang 2018, Theorem 8.
    """
    from dpaudit.measures.convert import gaussian_mu

    return rounded_up(1 / gaussian_mu(epsilon, delta)) + Fraction(DIGITS)


def calibrate_release(
    epsilon: object,
    delta: object,
    inliers: str = Inliers.WEIGHTED,
    core: Fraction = DEFAULT_CORE,
    share: Fraction = DEFAULT_SHARE,
) -> ReleaseConstants:
    """Constants of one phase at (epsilon, delta): ``share`` of epsilon goes to the test.

    b = 2 / eps1; C the least even number at which cohesive data halt with probability 1e-3 at
    most; theta = rho C + 3 + b log(e^eps1 / (2 delta)), so that a false pass has at most delta.
    Random inliers: the least noise by the exact mixture over the flipped coins.
    Errors: as :func:`budget`; for a share outside (0, 1).
    """
    epsilon, delta = budget(epsilon, delta)
    if not 0 < share < 1:
        raise InvalidParameter(f"share = {share}: expected 0 < share < 1")
    test = epsilon * share
    scale, rest = 2 / test, epsilon - test
    bar = float(scale) * (float(test) - math.log(2 * float(delta)))
    room = 3 + bar - float(scale) * math.log(2 * HALT)
    groups = even(room / float(1 - core))
    threshold = core * groups + 3 + rounded_up(bar)
    made = ReleaseConstants(groups, scale, threshold, core, Fraction(1), inliers)
    if made.inliers == Inliers.WEIGHTED:
        noise = kappa(rest, delta) * made.unit
    else:
        noise = mixture_noise(rest, delta, made) * made.unit
    return ReleaseConstants(groups, scale, threshold, core, noise, inliers)


def mixture_noise(epsilon: Fraction, delta: Fraction, constants: ReleaseConstants) -> Fraction:
    """The least multiplier z with sum_k P(B = k) delta_G(epsilon; (2 + k) / z) <= delta, up.

    B is binomial (floor((1 - rho) C), 6 / C).  Source: dpaudit 2026, by joint convexity (Balle,
    Barthe, Gaboardi 2018).
    """
    from scipy.optimize import brentq
    from scipy.stats import binom

    k = np.arange(constants.movable + 1)
    masses = binom.pmf(k, constants.movable, 6 / constants.groups)

    def excess(multiplier: float) -> float:
        found = masses @ gaussian_delta(float(epsilon), (2 + k) / multiplier)
        return float(np.log(found) - np.log(float(delta)))

    low = float(kappa(epsilon, delta))
    return rounded_up(brentq(excess, low, low * (3 + constants.movable)) * (1 + 1e-7))


def gaussian_delta(epsilon: float, moves: Array) -> Array:
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) of every mu in ``moves``."""
    first, second = log_ndtr(moves / 2 - epsilon / moves), log_ndtr(-moves / 2 - epsilon / moves)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(epsilon + second - first, 0.0)))


def printed_release(
    users: int, items: int, epsilon: object, delta: object, inliers: str = Inliers.RANDOM
) -> ReleaseConstants:
    """As Algorithm 1 prints them: C even, Lap(20/epsilon), 4 C / 5, 100 tau log^2(n/delta)/(eps C).

    rho = 2/3, which is ours: the paper's proof names no core.
    Errors: as :func:`budget`.
    Source: Lowy, Liu, Asi 2024, Algorithm 1.
    """
    epsilon, delta = budget(epsilon, delta)
    groups = even(printed_groups(users, items, float(epsilon), float(delta)))
    noise = 100 * math.log(users / float(delta)) ** 2 / (float(epsilon) * groups)
    return ReleaseConstants(
        groups, 20 / epsilon, Fraction(4 * groups, 5), Fraction(2, 3), rounded_up(noise), inliers
    )


def printed_groups(users: int, items: int, epsilon: float, delta: float) -> float:
    """C = 100 log(20 n m e^epsilon / delta) / epsilon, a real number."""
    return 100 * (math.log(20 * users * items / delta) + epsilon) / epsilon

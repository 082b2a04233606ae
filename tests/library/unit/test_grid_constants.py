"""Constants of grids that are proved beside their code, against 50 digits."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from scipy import special

from dpaudit.grids.cells import UNIT
from dpaudit.grids.noise import mixed_losses, rounded_rest
from dpaudit.pairs import Thresholded, discrete_normal, scored


def test_the_kernel_of_dense_discrete_noise() -> None:
    """K >= 0 on a unit cell, integral 7/5760: its two parts are Taylor's remainders."""
    t, d = sympy.symbols("t d", nonnegative=True)
    half = sympy.Rational(1, 2)
    kernel = d**2 * (1 - 2 * d**2) / 48
    assert sympy.expand(kernel - ((d**2 / 2) / 24 - d**4 / 24)) == 0
    assert sympy.solveset(kernel < 0, d, sympy.Interval(0, half)) == sympy.EmptySet
    whole = 2 * sympy.integrate(kernel.subs(d, half - t), (t, 0, half))
    assert whole == sympy.Rational(7, 5760) < sympy.Rational(1, 822)


@pytest.mark.parametrize("z", [0.0, 0.742, 1.0, 2.334, 6.0, 20.0, 37.0])
def test_sums_of_dense_discrete_noise(z: float) -> None:
    """One integer, and 50: the rule of ``_dense`` is within the factor that it states.

    At a variance of 200, where the remainder is seen, and 10^6: f has to vary little in a cell.
    """
    with mpmath.workdps(50):
        variance = mpmath.mpf(200 if z < 7 else 10**6)
        scale = mpmath.sqrt(variance)
        root = mpmath.sqrt(2 * mpmath.pi)
        first = int(z * scale)
        for count in (1, 50):
            law = [mpmath.exp(-mpmath.mpf(k) ** 2 / (2 * variance)) / (root * scale)
                   for k in range(first, first + count)]  # fmt: skip
            ends = [(first - 0.5) / scale, (first + count - 0.5) / scale]
            slopes = [e * mpmath.exp(-e * e / 2) / root for e in ends]
            between = (
                mpmath.erfc(ends[0] / mpmath.sqrt(2)) - mpmath.erfc(ends[1] / mpmath.sqrt(2))
            ) / 2
            found = between + (slopes[1] - slopes[0]) / (24 * variance)
            far = ends[1]
            allowed = (far**4 + 6 * far**2 + 3) / (600 * variance**2)
            assert abs(found / mpmath.fsum(law) - 1) <= allowed
    assert discrete_normal.DENSE_VARIANCE > 1e8


def test_mills_ratios_are_apart_by_mu() -> None:
    """R(z) <= (|z| + mu + 2) / mu (R(z) - R(z + mu)) from z = -mu / 2 on."""
    for mu in np.geomspace(scored.SMALLEST_MU, scored.LARGEST_MU, 60):
        z = np.linspace(-mu / 2, 37, 400)
        ratio, beyond = (special.erfcx(x / math.sqrt(2)) for x in (z, z + mu))
        apart = (ratio - beyond) * (np.abs(z) + mu + 2) / mu
        assert (apart >= ratio * (1 - 1e-8)).all()


def truth(pair: Thresholded, epsilon: float) -> mpmath.mpf:
    """The largest delta over all pairs of scores, by its definition."""
    e, kappa = mpmath.mpf(pair.epsilon.numerator) / pair.epsilon.denominator, int(pair.kappa)
    total = mpmath.fsum(mpmath.exp(-e * abs(j)) for j in range(-kappa, kappa + 1))
    law = [mpmath.exp(-e * abs(j)) / total for j in range(-kappa, kappa + 1)]
    fails = [mpmath.fsum(law[:s]) for s in range(2 * kappa + 1)] + [mpmath.mpf(1)]
    found = mpmath.mpf(0)
    for s in range(2 * kappa + 1):
        mu = mpmath.mpf(str(float(pair.offset))) + mpmath.mpf(str(float(pair.slope))) * (2 * s + 1)
        for a, b in ((s, s + 1), (s + 1, s)):
            p, t = (mpmath.fsum(law[x:]) for x in (a, b))
            value = max(fails[a] - mpmath.exp(epsilon) * fails[b], 0)
            if p > 0:
                loss = epsilon + mpmath.log(t / p) if t > 0 else -mpmath.inf
                moved = (
                    mpmath.ncdf(mu / 2 - loss / mu)
                    - mpmath.exp(loss) * mpmath.ncdf(-mu / 2 - loss / mu)
                    if t > 0
                    else 1
                )
                value += p * moved
            found = max(found, value)
    return found


@pytest.mark.parametrize("setting", ["7/10 12 .005 .00005", "1/2 8 .05 .002", "2 4 1.5 .2"])
def test_the_largest_over_all_scores_is_above_the_truth_and_near(setting: str) -> None:
    """Float values a blur before, times 1 + ROUNDING / mu: also where Q_s - x Q_t cancels."""
    e, kappa, offset, slope = (Fraction(word) for word in setting.split())
    pair = Thresholded(e, kappa, offset, slope)
    family = scored.family_of(pair)
    factor = 1 + scored.RATIO_ROUNDING * (1 + 1 / float(family.mu.min()))
    with mpmath.workdps(50):
        for epsilon in (0.0, float(e) / 2, float(e) * (1 - 1e-14), float(e), 2 * float(e)):
            at = np.array([epsilon - scored._blur(pair, epsilon)])
            found = float(family.deltas(at).max()) * factor
            known = truth(pair, epsilon)
            assert known <= found <= known * (1 + 1e-6), epsilon


def test_losses_of_a_sample_are_within_what_is_stated_near_rate_1() -> None:
    """Eight roundings of the loss, and of what 1 - rate loses, without which it is not enough."""
    short = 0
    for rest in [Fraction(6, 7 * 10**k) for k in range(1, 10)]:
        rate = float(1 - rest)
        losses = np.linspace(-60, 5, 400)
        with mpmath.workdps(50):
            one = mpmath.mpf((1 - rest).numerator) / (1 - rest).denominator
            truth = [mpmath.log1p(one * mpmath.expm1(mpmath.mpf(loss))) for loss in losses]
            pairs = zip(mixed_losses(losses, rate), truth, strict=True)
            off = np.array([float(abs(mpmath.mpf(float(found)) - loss)) for found, loss in pairs])
        farthest = 8 * UNIT * float(max(map(abs, truth)))
        assert (off <= farthest + 8 * rounded_rest(rate)).all()
        short += int((off > farthest).any())
    assert short >= 5

"""The checker's series for sampled normal pairs against other integrals, whatever the witness.

References: one round by the closed form, 60 digits; with a Laplace leaf and for two rounds by
quadrature over the other factor's loss; moments by Arb's own integration; many rounds by the bounds
of other witnesses, which must all meet.  Each error term is needed: without it a bound is false.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import flint
import mpmath
import numpy as np
import pytest

from dpaudit.check.profile import rule, sampled, transforms
from dpaudit.check.profile.cells import NotConfirmed, ball
from dpaudit.check.profile.transforms import smooth_bound
from dpaudit.pairs import LaplaceShift, Mixed, Normal, Pair, Swapped

F = Fraction
Factors = Sequence[tuple[Pair, int]]
# Relative, of a reference by quadrature; digits of it.
NEAR, DIGITS = 1e-9, 60
ENDS = ("1e-7", "1/1000000", "1/2", "999/1000", "0.9999999", "0.999999999999")


def drawn_pair(draw: random.Random) -> Pair:
    """Noise .3 to 100, rates 1e-7 to next to 1, in either direction."""
    noise = F(f"{10 ** draw.uniform(-0.52, 2):.3g}")
    rate = (
        F(draw.choice(ENDS)) if draw.random() < 0.2 else F(f"{10 ** draw.uniform(-7, -0.05):.3g}")
    )
    pair = Mixed(Normal(1 / noise), rate)
    return pair.swapped if draw.random() < 0.5 else pair


def likely_epsilon(pair: Pair, draw: random.Random) -> Fraction:
    """About a loss that occurs."""
    base = pair.base if isinstance(pair, Swapped) else pair
    assert isinstance(base, Mixed)
    assert isinstance(base.base, Normal)
    mu, rate, x = float(base.base.mu), float(base.rate), draw.uniform(0, 4)
    x = -x if isinstance(pair, Swapped) else x + mu
    loss = abs(math.log1p(rate * math.expm1(mu * x - mu * mu / 2)))
    return F(f"{max(loss, 1e-9) * draw.uniform(0.2, 1.5):.4g}")


def likely_tilt(factors: Factors, epsilon: Fraction, draw: random.Random) -> float:
    """Near the saddle, so that most witnesses say something; now and then at an end."""
    if draw.random() < 0.15:
        return draw.choice([1.1e-6, 1e-3, 1.0, 30.0, 1e3, 9e6])
    best, found = math.inf, 1.0
    with flint.ctx.workprec(64):
        for k in range(18):
            tilt = 2.0 ** (k - 2)
            try:
                size = float(
                    (transforms._log_moment(factors, ball(tilt)) - tilt * ball(epsilon)).mid()
                )
            except NotConfirmed:
                break
            if size < best:
                best, found = size, tilt
    return found * draw.uniform(0.5, 2)


def one_round(pair: Pair, epsilon: Any) -> Any:
    """delta of a sampled normal pair (Balle, Barthe, Gaboardi 2018, Theorem 2) or of it swapped."""
    if isinstance(pair, Swapped):
        return 1 - mpmath.exp(epsilon) + mpmath.exp(epsilon) * one_round(pair.base, -epsilon)
    assert isinstance(pair, Mixed)
    assert isinstance(pair.base, Normal)
    mu, q = (mpmath.mpf(v.numerator) / v.denominator for v in (pair.base.mu, pair.rate))
    y = 1 + mpmath.expm1(epsilon) / q
    if y <= 0:
        return -mpmath.expm1(epsilon)
    above = [mpmath.erfc((mpmath.log(y) / mu + s * mu / 2) / mpmath.sqrt(2)) / 2 for s in (-1, 1)]
    return q * (above[0] - y * above[1])


def with_laplace(pair: Pair, e: Fraction, epsilon: Fraction) -> Any:
    """E over Laplace's loss of the other's profile: atoms at -+e, exp(u / 2) between them."""
    with mpmath.workdps(DIGITS):
        size, at = mpmath.mpf(e.numerator) / e.denominator, exact(epsilon)
        ends = one_round(pair, at - size) / 2 + mpmath.exp(-size) / 2 * one_round(pair, at + size)

        def inside(u: Any) -> Any:
            return mpmath.exp((u - size) / 2) / 4 * one_round(pair, at - u)

        _, q, swapped = numbers_of(pair)
        end = at + mpmath.log(1 - q) if swapped else at - mpmath.log(1 - q)
        cuts = [*mpmath.linspace(-size, size, 5), *([end] if -size < end < size else [])]
        return ends + integral(inside, cuts)


def two_rounds(pair: Pair, epsilon: Fraction) -> Any:
    """E over the first round's loss of the second's profile."""
    with mpmath.workdps(DIGITS):
        (mu, q, swapped), at = numbers_of(pair), exact(epsilon)

        def inside(x: Any) -> Any:
            ratio = 1 - q + q * mpmath.exp(mu * x - mu * mu / 2)
            if swapped:
                return mpmath.npdf(x) * one_round(pair, at + mpmath.log(ratio))
            return mpmath.npdf(x) * ratio * one_round(pair, at - mpmath.log(ratio))

        cuts = [mpmath.mpf(k) for k in (-16, -8, -3, 0, 3, 8)] + [8 + mu, 16 + mu]
        # The other's profile is a line from there on, and smooth, but not analytic.
        end = -mpmath.log(1 - q) - at if swapped else at - mpmath.log(1 - q)
        inner = 1 + mpmath.expm1(end) / q
        if inner > 0:
            x = mpmath.log(inner) / mu + mu / 2
            cuts += [x] if cuts[0] < x < cuts[-1] else []
        return integral(inside, cuts)


def numbers_of(pair: Pair) -> tuple[Any, Any, bool]:
    """mu, the rate, whether the pair is swapped."""
    base = pair.base if isinstance(pair, Swapped) else pair
    assert isinstance(base, Mixed)
    assert isinstance(base.base, Normal)
    mu, rate = (mpmath.mpf(v.numerator) / v.denominator for v in (base.base.mu, base.rate))
    return mu, rate, isinstance(pair, Swapped)


def integral(function: Any, cuts: list[Any]) -> Any:
    """By tanh-sinh between the cuts, until it is known to ``NEAR``."""
    found, error = mpmath.quad(function, sorted(cuts), error=True)
    assert error <= NEAR * 1e-3 * abs(found) + 1e-28, (found, error)
    return found


def bounds(factors: Factors, tilt: float, epsilon: Fraction, sigma: Fraction) -> list[Fraction]:
    """From below and from above; 0 and 1 where the checker refuses."""
    found = []
    for sign, nothing in ((-1, F(0)), (1, F(1))):
        try:
            found.append(smooth_bound(factors, tilt, epsilon, sign, sigma))
        except NotConfirmed:
            found.append(nothing)
    return found


def exact(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def is_held(factors: Factors, draw: random.Random, truth: Any, epsilon: Fraction) -> int:
    """Asserts that a witness at random encloses the truth; how many ends say something."""
    some = F(f"{min(float(epsilon) * 10 ** draw.uniform(-1.5, 0.5), 0.99):.4g}")
    sigma = draw.choice([F(0), F("1e-9"), some, some, some, some, F("0.999999")])
    tilt = likely_tilt(factors, epsilon, draw)
    low, high = map(exact, bounds(factors, tilt, epsilon, sigma))
    assert low <= truth * (1 + NEAR) + 1e-25, (factors, tilt, epsilon, sigma)
    assert truth * (1 - NEAR) <= high + 1e-25, (factors, tilt, epsilon, sigma)
    return int(low > 0) + int(high < 1)


def rounds_of(kind: str, draw: random.Random) -> int:
    pair = drawn_pair(draw)
    epsilon = likely_epsilon(pair, draw)
    if kind == "one":
        with mpmath.workdps(60):
            truth = one_round(pair, exact(epsilon))
        return is_held([(pair, 1)], draw, truth, epsilon)
    if kind == "laplace":
        e = F(draw.randint(1, 30), 10)
        factors = [(pair, 1), (LaplaceShift(e), 1)]
        return is_held(factors, draw, with_laplace(pair, e, epsilon), epsilon)
    return is_held([(pair, 2)], draw, two_rounds(pair, epsilon), epsilon)


@pytest.mark.first_case
@pytest.mark.long_cases("one-6")
@pytest.mark.parametrize(("kind", "cases"), [("one", 6), ("laplace", 1), ("two", 1)])
def test_no_witness_leaves_the_reference_outside(kind: str, cases: int) -> None:
    draw = random.Random(f"rule {kind}")
    for _ in range(cases):
        rounds_of(kind, draw)


@pytest.mark.quality
@pytest.mark.parametrize(("kind", "cases"), [("one", 150), ("laplace", 40), ("two", 40)])
def test_no_witness_of_many_leaves_the_reference_outside(kind: str, cases: int) -> None:
    """A third of the witnesses make no sense by design: those ends say nothing."""
    draw = random.Random(f"rule, many {kind}")
    assert sum(rounds_of(kind, draw) for _ in range(cases)) > cases / 4


@pytest.mark.quality
@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_many_rounds_meet(seed: int) -> None:
    draw = random.Random(seed)
    pair, times = drawn_pair(draw), round(10 ** draw.uniform(1, 6))
    epsilon, low, high = F(f"{10 ** draw.uniform(-1, 1):.4g}"), F(0), F(1)
    for _ in range(4):
        sigma = F(f"{10 ** draw.uniform(-3, -0.5):.4g}")
        tilt = likely_tilt([(pair, times)], epsilon, draw)
        below, above = bounds([(pair, times)], tilt, epsilon, sigma)
        low, high = max(low, below), min(high, above)
    assert low <= high


# --- moments -------------------------------------------------------------------------------------


def misses(pair: sampled.Factor, tilt: float, unit: float, count: int, at: Sequence[int]) -> float:
    """How many of its own errors a moment of the rule is off at most, by Arb's integrals."""
    with flint.ctx.workprec(192):
        t = ball(tilt)
        change, errors, mean = rule.moments(sampled.parameters_at(pair, t), 1.0, unit, count)
        whole, worst = sampled.moment(pair, t), 0.0
        for j in at:
            w = ball(unit) * j
            found = (1 + flint.acb(complex(change[j]))) * flint.acb(0, w * ball(mean)).exp()
            gap = abs(found - sampled.moment(pair, flint.acb(t, w)) / whole).lower()
            worst = max(worst, float(gap) / max(float(errors[j]), 1e-300))
        return worst


def moment_cases(draw: random.Random, cases: int) -> int:
    done = 0
    for _ in range(cases):
        pair = drawn_pair(draw)
        unit, count = 10 ** draw.uniform(-4, 2), round(10 ** draw.uniform(0, 3))
        try:
            tilt = 10 ** draw.uniform(-6, 2.5)
            assert misses(pair, tilt, unit, count, (1, count)) <= 1, (pair, tilt, unit, count)
            done += 1
        except NotConfirmed:
            continue
    return done


@pytest.mark.quality
def test_moments_are_within_their_errors() -> None:
    assert moment_cases(random.Random(5), 12) >= 6


@pytest.mark.quality
def test_many_moments_are_within_their_errors() -> None:
    assert moment_cases(random.Random(6), 400) >= 200


NEXT_TO_ONE = Mixed(Normal(F(9)), 1 - F(1, 10**15)).swapped
STEEP = Mixed(Normal(F(1)), F(1, 100))


def test_rates_next_to_one_are_refused_and_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 - q has no precision left in a float."""
    case = (NEXT_TO_ONE, 1.6e-3, 0.36, 5, (1, 5))
    with pytest.raises(NotConfirmed, match="rate"):
        misses(*case)
    with flint.ctx.workprec(128), pytest.raises(NotConfirmed, match="rate"):
        sampled.Pairs(Mixed(Normal(F(2)), 1 - F(1, 10**15)), ball(2))
    monkeypatch.setattr(rule, "RATES", (0.0, 1.0))
    monkeypatch.setattr(rule, "bend", lambda pair, x, loss: 8 * np.abs(loss))
    assert misses(*case) > 1e3


@pytest.mark.parametrize("cap", [math.inf, 6.0])
def test_the_rule_needs_what_is_outside(cap: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short panels show the error: charged, all is well; not charged, it is seen."""
    monkeypatch.setattr(rule, "EXPONENT", -8.0)
    pair = STEEP if math.isinf(cap) else sampled.Capped(STEEP, cap)
    case = (pair, 2.0, 1.0, 40, (10, 40))
    assert misses(*case) <= 1
    bound = rule._log_outside
    monkeypatch.setattr(rule, "_log_outside", lambda *given: bound(*given) - 80)
    assert misses(*case) > 1


def test_the_rule_needs_its_ellipses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels that are too long for their phase are refused; not charged, they are wrong."""
    monkeypatch.setattr(rule, "FOLLOWED", 1e3)
    case = (STEEP, 2.0, 8.0, 40, (10, 40))
    with pytest.raises(NotConfirmed, match="panels"):
        misses(*case)
    bound = rule._log_most
    monkeypatch.setattr(rule, "_log_most", lambda *given: bound(*given) - 200)
    assert misses(*case) > 1


# --- the series ----------------------------------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.long_cases("True-none")
@pytest.mark.parametrize(
    ("smoothed", "term"),
    [(True, "none"), (True, "gap"), (False, "none"), (False, "window"), (False, "left out")],
)
def test_the_series_needs_its_terms(
    smoothed: bool, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gap of a smoothed law; window and frequencies of one that has no gap to hide them."""
    pair = STEEP if smoothed else Mixed(Normal(F(1)), F(1))
    factors = [(STEEP if smoothed else Normal(F(1)), 1)]
    if term == "gap":
        monkeypatch.setattr(transforms, "_density", lambda *given: ball(0))
        monkeypatch.setattr(transforms, "_rest", lambda *given: ball(0))
    elif term == "window":
        window = transforms._half_window
        monkeypatch.setattr(transforms, "_half_window", lambda *given: window(*given) / 4)
    elif term == "left out":
        left_out = transforms._left_out
        monkeypatch.setattr(
            transforms, "_left_out", lambda *given: (left_out(*given)[0] // 4, ball(0))
        )
    held = []
    for tilt in (1.0, 2.0, 5.0):
        low, high = map(exact, bounds(factors, tilt, F(1, 2), F(1, 5) * smoothed))
        assert (low, high) != (0, 1)
        held.append(low <= one_round(pair, mpmath.mpf(1) / 2) <= high)
    assert all(held) == (term == "none")


@pytest.mark.first_case
@pytest.mark.parametrize("sigma", ["-1/1000", "1", "1e300", "1e-300"])
def test_smoothing_that_makes_no_sense_is_refused(sigma: str) -> None:
    with pytest.raises(NotConfirmed):
        smooth_bound([(STEEP, 1)], 2.0, F(1, 2), 1, F(sigma))

"""The checker's Fourier sum encloses delta at the ends of every range that a prover may choose.

The prover chooses tilt, step and epsilon; the window, its centre and the frequencies follow from
them.  The reference composes the same node masses exactly, in Arb at 400 bits (120 digits).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, arb_poly, ctx

from dpaudit.check.profile import fourier as profile_fourier
from dpaudit.check.profile.cells import UNIT, Grid, NotConfirmed
from dpaudit.check.profile.fourier import delta_bound
from dpaudit.check.profile.nodes import Nodes, lower_nodes, upper_nodes
from dpaudit.check.profile.onestep import cells
from dpaudit.pairs import Mixed, Normal

Factors = Sequence[tuple[Nodes, int]]
TILTS = (1.000001e-6, 1.8e-6, 4e-6, 1e-4, 1e-2, 0.5, 1.0, 7.0, 1e2, 1e4, 1e6, 9.99e6)
STEPS = (1.0000001e-12, 1e-11, 1e-9, 1e-7, 1e-4, 2.0**-10, 0.03, 0.9, 9.99)


def exact(number: Fraction) -> Any:
    return arb(number.numerator) / arb(number.denominator)


def composed(factors: Factors, step: Fraction, epsilon: Fraction) -> Any:
    """Ball around delta of the node masses as they stand."""
    product, first = arb_poly([1]), 0
    finite, every = arb(1), arb(1)
    for nodes, times in factors:
        product *= arb_poly([arb(m) for m in nodes.masses.tolist()]) ** times
        first += nodes.first * times
        whole = sum((arb(m) for m in nodes.masses.tolist()), arb(0))
        finite *= whole**times
        every *= (whole + arb(nodes.infinite)) ** times
    found = every - finite
    for k, mass in enumerate(product.coeffs()):
        loss = step * (first + k)
        if loss > epsilon:
            found += mass * -(exact(epsilon - loss)).expm1()
    return found


def random_factor(draw: random.Random, h: float, tilt: float) -> Nodes:
    """A few node masses of any sizes, within what a tilt and a step allow."""
    size = draw.choice([2, 3, 8, 40])
    reach = min(600.0, 9e6 / tilt)
    largest = max(int(min(reach / h, 2**40)) - size, 1)
    first = draw.choice([0, -1, -size // 2, -draw.randint(1, largest), draw.randint(0, largest)])
    deepest = draw.choice([0, 3, 30, 280])
    masses = np.array([10.0 ** -(deepest * draw.random()) for _ in range(size)])
    if draw.random() < 0.3:
        masses[draw.randrange(size)] = 0.0
    if draw.random() < 0.5:
        masses /= masses.sum()
    infinite = draw.choice([0.0, 0.0, 1e-30, 0.01])
    shift = draw.choice([0.0, 0.0, 1e-9]) * h
    return Nodes(max(first, -largest), masses, infinite, 64 * UNIT, shift)


def random_case(draw: random.Random) -> tuple[Factors, Fraction, float, Fraction]:
    h = draw.choice(STEPS) if draw.random() < 0.7 else 10 ** draw.uniform(-11.9, 0.9)
    tilt = draw.choice(TILTS) if draw.random() < 0.7 else 10 ** draw.uniform(-5.9, 6.9)
    tilt = min(tilt, 499 / h)
    step = Fraction(h)
    factors = [
        (random_factor(draw, h, tilt), draw.choice([1, 2, 5, 30]))
        for _ in range(draw.choice([1, 1, 2]))
    ]
    low = sum(n.first * times for n, times in factors)
    high = sum((n.first + len(n.masses) - 1) * times for n, times in factors)
    place = draw.choice([low - 3, draw.randint(low, high), draw.randint(low, high), high - 1, high])
    inside = draw.choice([Fraction(0), Fraction(1, 10**9), Fraction(draw.random()), Fraction(1, 2)])
    return factors, step, tilt, max((place + inside) * step, Fraction(0))


def violations(seeds: range) -> Counter[str]:
    """How often a bound was on the right side, on the wrong one, and refused."""
    found: Counter[str] = Counter()
    for seed in seeds:
        factors, step, tilt, epsilon = random_case(random.Random(seed))
        moved = Fraction(sum(times * nodes.shift for nodes, times in factors))
        for sign in (1, -1):
            try:
                bound = delta_bound(factors, step, tilt, epsilon, sign)
            except NotConfirmed:
                found["refused"] += 1
                continue
            with ctx.workprec(400):
                # Losses may lie anywhere within the shift of their nodes.
                truth = composed(factors, step, epsilon - sign * moved)
                wrong = exact(bound) < truth if sign > 0 else exact(bound) > truth
                found["wrong" if wrong else "right"] += 1
    return found


@pytest.mark.first_case
@pytest.mark.parametrize("by_fft", [False, True], ids=["direct sums", "FFT"])
def test_bounds_are_on_their_side_at_extreme_tilts_and_steps(
    by_fft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_fft:
        monkeypatch.setattr(profile_fourier, "DIRECT_KEPT", 0)
    found = violations(range(25))
    assert found["wrong"] == 0
    assert found["right"] > 30


@pytest.mark.quality
@pytest.mark.parametrize("by_fft", [False, True], ids=["direct sums", "FFT"])
def test_bounds_are_on_their_side_in_twenty_thousand_cases(
    by_fft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_fft:
        monkeypatch.setattr(profile_fourier, "DIRECT_KEPT", 0)
    found = violations(range(1000, 11_000))
    assert found["wrong"] == 0
    assert found["right"] > 10_000


@pytest.mark.first_case
@pytest.mark.parametrize("tilt", [1.1e-6, 1.8e-6, 4e-6, 1e-5, 1e-3, 1.0])
def test_a_small_tilt_proves_and_refutes_nothing_false(tilt: float) -> None:
    """Two rounds of Gaussian(10) at rate 1/100: delta(.008) > 1e-10 > delta(.05) = 0, about."""
    pair, step = Mixed(Normal(Fraction(1, 10)), Fraction(1, 100)), Fraction(1, 2**16)
    found = cells(pair, Grid(step, 1e-25))
    upper, lower = [(upper_nodes(found), 2)], [(lower_nodes(found, float(step)), 2)]
    for epsilon in (Fraction(8, 1000), Fraction(845, 100_000), Fraction(5, 100)):
        with ctx.workprec(300):
            above = composed(lower, step, epsilon)
            below = composed(upper, step, epsilon)
            assert exact(delta_bound(upper, step, tilt, epsilon, 1)) >= below.mid()
            assert exact(delta_bound(lower, step, tilt, epsilon, -1)) <= above.mid()


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "cos", "sin", "angle"])
def test_numpy_keeps_to_four_roundings(name: str) -> None:
    """The error bounds count on it; at the ends of every range and at random places inside."""
    draw = np.random.default_rng(5)
    small = 10.0 ** draw.uniform(-300, 0, 400)
    ranges = {
        "exp": np.concatenate([draw.uniform(-708, 700, 2000), -small, small]),
        "expm1": np.concatenate([draw.uniform(-745, 700, 1000), -small, small]),
        "log": np.concatenate([10.0 ** draw.uniform(-307, 300, 2000), draw.uniform(0.9, 1.1, 500)]),
        "cos": np.concatenate([draw.uniform(-7, 7, 3000), small]),
        "sin": np.concatenate([draw.uniform(-7, 7, 3000), -small]),
        "angle": draw.uniform(-math.pi, math.pi, 2000),
    }  # fmt: skip
    at = ranges[name]
    if name == "angle":
        points = np.exp(1j * at)
        found = np.angle(points)
        wanted = [mpmath.atan2(mpmath.mpf(z.imag), mpmath.mpf(z.real)) for z in points.tolist()]
    else:
        found = getattr(np, name)(at)
        with mpmath.workdps(60):
            wanted = [getattr(mpmath, name)(mpmath.mpf(x)) for x in at.tolist()]
    with mpmath.workdps(60):
        worst = max(
            abs(mpmath.mpf(f) - w) / max(abs(w), mpmath.mpf(2) ** -1000)
            for f, w in zip(found.tolist(), wanted, strict=True)
        )
    assert worst <= 4 * UNIT

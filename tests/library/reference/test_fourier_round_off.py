"""The Fourier sum's stated round-off against the same sum in 300-bit arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy import fft

from dpaudit.check.profile import fourier as check_fourier
from dpaudit.check.profile import game as check_game
from dpaudit.grids.discrete import Side
from dpaudit.pairs import LaplaceShift, Mixed, Normal
from dpaudit.profiles.fourier import game
from dpaudit.profiles.fourier.compose import Composition, _summed, compose
from dpaudit.profiles.fourier.search import Parts, stack_of, tilt_for_delta
from dpaudit.profiles.fourier.transform import FFT_FACTOR

SGD: Parts = ((Mixed(Normal(Fraction(1)), Fraction(1, 100)), 10_000),)
NOISES: Parts = ((LaplaceShift(Fraction(1)), 1_000),)
BOTH: Parts = ((Normal(Fraction(1, 10)), 50), (LaplaceShift(Fraction(1, 5)), 20))


def reference(found: Composition, kappa: int, terms: int, beyond: float) -> arb:
    """sum_j scale_j Re(Phi_j exp(i theta_j kappa) (S(t) - beyond S(t + 1))), Phi as computed."""
    period, count = found.window.period, len(found.transform)
    total = arb(0)
    for j, value in enumerate(found.transform):
        theta = 2 * arb.pi() * j / period
        sums = []
        for rate in (found.tilt, found.tilt + 1):
            step = acb(-arb(rate) * arb(found.stack.width), theta)
            sums.append(step.exp() * (1 - (step * terms).exp()) / (1 - step.exp()))
        own = j == 0 or (j == count - 1 and count == period // 2 + 1 and period % 2 == 0)
        phase = acb(arb(0), theta * kappa).exp()
        term = acb(value.real, value.imag) * phase * (sums[0] - arb(beyond) * sums[1])
        total += term.real * (1 if own else 2) / period
    return total


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize(
    ("parts", "delta", "step"),
    [(SGD, 1e-5, 2.0**-12), (SGD, 1e-30, 2.0**-11),
     (NOISES, 1e-3, 2.0**-10), (BOTH, 1e-9, 2.0**-9)],
)  # fmt: skip
def test_it_covers_the_sum_s_own_rounding(
    parts: Parts, delta: float, step: float, side: Side
) -> None:
    """Transform errors aside, which are bounded apart; at most a quarter of the room is used."""
    stack = stack_of(parts, Fraction(step), delta, side)
    assert stack is not None
    found = compose(stack, tilt_for_delta(stack, delta - stack.infinite)[0])
    exact = replace(found, rounding=np.zeros_like(found.rounding))
    window = found.window
    with ctx.workprec(300):
        for share, beyond in ((0.1, 1.0), (0.5, math.exp(-step / 3)), (0.9, math.exp(step / 2))):
            kappa = window.first + int(share * window.period)
            terms = window.first + window.period - 1 - kappa
            value, room = _summed(exact, kappa, terms, beyond)
            assert abs(arb(value) - reference(found, kappa, terms, beyond)) <= arb(room) / 4
            assert room > 0


def test_a_transform_of_any_radix_is_within_its_stated_error() -> None:
    """Lengths have factors 2, 3 and 5; each radix's constant, and the errors of several, in Arb."""
    for radix in (2, 3, 4, 5):
        assert (radix + 6) * math.sqrt(radix) <= 11.4 * math.log2(radix)
    for least in (*range(16, 400), 99_991, 2**20 + 1):
        rest = fft.next_fast_len(least, real=True)
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        assert rest == 1
    assert FFT_FACTOR > 2 * 11.4
    draw = np.random.default_rng(5)
    for size in (243, 625, 3 * 5**3, 2**4 * 3**2 * 5):
        masses = draw.random(size) ** 8
        found, norm = fft.rfft(masses), math.sqrt(size * float(masses @ masses))
        with ctx.workprec(120):
            for j in range(0, size // 2 + 1, 17):
                turn = acb(0, -2 * arb.pi() * j / size).exp()
                exact = sum((acb(float(m)) * turn**k for k, m in enumerate(masses)), acb(0))
                off = abs(acb(found[j].real, found[j].imag) - exact)
                assert off <= FFT_FACTOR * 2.0**-53 * math.log2(size) * norm


def test_the_checkers_constants_are_those_of_every_radix_too() -> None:
    """Either transform forward has 12 log2 N, one back 8 log2 N: of a factor 2, the tightest."""
    for radix in (2, 3, 4, 5):
        assert (radix + 6) * math.sqrt(radix) <= 12 * math.log2(radix)
        assert radix + 6 <= 8 * math.log2(radix)
    assert check_fourier.FFT_FACTOR > 2 * 12
    assert min(check_game.FFT_FACTOR, game.ERROR_FACTOR * FFT_FACTOR) > 2 * 12 + 8


@pytest.mark.parametrize("size", [2**9, 3 * 2**7, 5 * 2**6])
def test_sums_by_transforms_are_within_their_stated_error(size: int) -> None:
    """Of masses and of delta under a tilt, whose entries are far apart in size, in Arb."""
    draw = np.random.default_rng(7)
    half = size // 2
    masses = draw.random(half) * np.exp(-np.arange(half) / 3)
    line = draw.random(half) * np.exp(np.arange(half) / 40)
    sums = np.fft.irfft(np.fft.rfft(line, size) * np.fft.rfft(masses, size), size)
    norms = math.sqrt(float(masses @ masses) * float(line @ line))
    allowed = check_game.FFT_FACTOR * math.log2(size) * 2.0**-53 * norms
    with ctx.workprec(160):
        for n in range(0, 2 * half - 1, 11):
            first = max(n - half + 1, 0)
            exact = sum(
                (
                    arb(float(masses[k])) * float(line[n - k])
                    for k in range(first, min(n + 1, half))
                ),
                arb(0),
            )
            assert abs(arb(float(sums[n])) - exact) <= allowed

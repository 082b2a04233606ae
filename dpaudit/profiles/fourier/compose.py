"""The composed profile of a stack at one tilt, by a truncated Fourier sum with every error bounded.

Notation: h the step, t > 0 the tilt, N the period (number of losses in the window), theta_j =
2 pi j / N; factor f has masses p_n at losses n h, occurs T_f times, M_f = sum p_n exp(t n h),
K = sum T_f log M_f, and tilted masses p~_n = p_n exp(t n h) / M_f.  With
    phi_f(j) = sum_n p~_n exp(-i theta_j (n - c_f)),    Phi(j) = prod_f phi_f(j)^T_f,
    C = sum_f T_f c_f   (c_f: the index nearest the tilted mean),
Phi is the transform of the composed tilted masses at indices C + m, folded with period N into the
window m = A, ..., A + N - 1.  For epsilon = k h + s (k integer, 0 <= s < h), kappa = k - C in the
window and W = A + N - 1 - kappa,
    delta(epsilon) = infinite + exp(K - t k h) F + above,
    F = (1/N) sum_j Re[Phi(j) exp(i theta_j kappa) G(j)]   over all j mod N
    G(j) = S(t) - exp(s) S(t + 1),
    S(v) = sum_{m=1}^{W} r^m = r (1 - r^W) / (1 - r),   r = exp(-v h + i theta_j).
infinite = P mass of the composition with some loss infinite; above = P mass of losses beyond the
window.  Phi(-j) is the conjugate of Phi(j): the sum runs over j = 0 once and 1..J twice, and the
frequencies J < j <= N/2 are bounded.

The errors, all outward:
* alias: losses outside the window have tilted mass at most
      B = min_s exp(K(t+s) - K(t) - s (C + A + N) h) + min_s exp(K(t-s) - K(t) + s (C + A - 1) h),
  and each is counted with a weight (1 - exp(-y)) exp(-t y) <= exp(s) min(1, 1 / (1 + t)):
  F is too large by at most that times B, never too small; above <= exp(K - t (C+A+N) h) B.
* truncation (frequencies left out): |G(j)| <= exp((t + 3) h) N / j, so the part of F left out is at
  most 2 exp((t + 3) h) (1 + log N) max_{J<j<=N/2} prod_f (|phi_f(j)| + E_f)^T_f.
* round-off: each computed phi_f(j) is within E_f = FFT_FACTOR u log2(N) sqrt(N) ||p~_f||_2
  (u = 2^-53), hence
      |Phi^ - Phi| <= |Phi^| expm1(sum_f T_f (E_f / |phi_f| + 16 u)), times |G(j)|, 2/N, summed.
  The FFT: N has factors 2, 3 and 5 only, so that it is stages of twiddles and r-point
  transforms, r in 2, 3, 4, 5.  An output of such a transform is a sum of r products, of at most
  r + 6 operations each (twiddle included), and is within (r + 6) u sum |a_j| <= (r + 6) u sqrt(r)
  ||a||_2; its r outputs together within (r + 6) sqrt(r) u times their own norm sqrt(r) ||a||_2.
  (r + 6) sqrt(r) <= 11.4 log2 r, so all stages together stay within 12 u log2(N) of the norm
  sqrt(N) ||p~_f||_2; FFT_FACTOR leaves as much again for the packing of reals.  As Higham 2002,
  Theorem 24.2, which is of radix 2.
* masses: a relative error r of masses and tilting makes every term of the profile err by the
  factor (1 +- r) per factor of the composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dpaudit.exact.effort import spend
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import NEGLIGIBLE_MASS, Reals, Side, TooFine
from dpaudit.profiles.fourier.transform import Complexes, transform
from dpaudit.profiles.grid.stack import Stack

ALIAS_EXPONENT = 42.0  # nats: e^-42 is below a float's rounding
MAXIMUM_PERIOD = 2**23  # losses of a window: 128 MB
TERM_ROUNDINGS = 128  # Rounding errors of one term, in units of the last place of its parts' sizes.
# Exponents, in units of the stack's scale, that are tried for a Chernoff bound of the window.
WINDOW_SHIFTS = tuple(0.04 * 1.5**k for k in range(10))


@dataclass(frozen=True)
class Window:
    """Composed losses (centre + first) h, ..., (centre + first + period - 1) h.

    ``outside`` bounds the tilted mass of losses outside.
    """

    centre: int
    first: int
    period: int
    outside: float


@dataclass(frozen=True)
class Kernel:
    """Parts of the Fourier sum that do not depend on epsilon, at j = 0, 1, ...

    ``turn``: exp(i theta_j (A - 1)); ``ratios``: r / (1 - r) at the rates t and t + 1; ``weighted``
    and ``rounding``: Phi and its error, times 2/N (1/N where j is its own mirror image); ``sizes``:
    the sums of ``|weighted * ratio|``.
    """

    indices: NDArray[np.int64]
    turn: Complexes
    ratios: tuple[Complexes, Complexes]
    weighted: Complexes
    rounding: Reals
    sizes: tuple[float, float]


@dataclass(frozen=True)
class Composition:
    """Everything that the Fourier sum of one side needs at one tilt."""

    stack: Stack
    tilt: float
    cumulant: float
    window: Window
    transform: Complexes
    rounding: Reals
    left_out: float
    relative: float

    @property
    def side(self) -> Side:
        return self.stack.side

    @cached_property
    def kernel(self) -> Kernel:
        """The part of the sum that does not depend on epsilon."""
        h, window = self.stack.width, self.window
        j, period = np.arange(len(self.transform)), window.period
        angle = 2 * math.pi / period
        scale = np.full(len(j), 2 / period)
        scale[0] = 1 / period
        if len(scale) == period // 2 + 1 and period % 2 == 0:
            scale[-1] = 1 / period
        exponents = [-rate * h + 1j * angle * j for rate in (self.tilt, self.tilt + 1)]
        first, second = (np.exp(e) / -np.expm1(e) for e in exponents)
        weighted = scale * self.transform
        return Kernel(
            j,
            np.exp(1j * angle * (j * ((window.first - 1) % period) % period)),
            (first, second),
            weighted,
            scale * self.rounding,
            (float(np.sum(np.abs(weighted * first))), float(np.sum(np.abs(weighted * second)))),
        )

    @property
    def lowest(self) -> float:
        """Smallest epsilon inside the window."""
        return (self.window.centre + self.window.first) * self.stack.width

    @property
    def highest(self) -> float:
        """Largest epsilon inside the window."""
        last = self.window.centre + self.window.first + self.window.period - 2
        return last * self.stack.width


def compose(stack: Stack, tilt: float) -> Composition:
    """The composition of the stack at a tilt; TooFine where the period would be too long."""
    tilted = stack.tilted(tilt)
    mean, variance = stack.moments(tilted)
    cumulant = math.fsum(stack.times * tilted.logs)
    centres = np.rint(mean / stack.width).astype(np.int64)
    window = _window(stack, tilt, cumulant, centres, float(stack.times @ variance))
    phi = transform(stack, tilted, centres, window.period)
    # A composition is kept for its epsilon, beside those of other steps.
    stack.release()
    return Composition(
        stack, tilt, cumulant, window, phi.values, phi.errors, phi.left_out, tilted.relative
    )


def _window(
    stack: Stack, tilt: float, cumulant: float, centres: NDArray[np.int64], variance: float
) -> Window:
    """A window outside of which Chernoff's bound is exp(-ALIAS_EXPONENT) at either end."""
    h = stack.width
    centre = sum(int(c) * t for c, (_, t) in zip(centres, stack.factors, strict=True))
    unit = math.sqrt(2 * ALIAS_EXPONENT / (variance + h * h))
    budget = ALIAS_EXPONENT + stack.slack
    high = _reach(stack, tilt, cumulant, unit, budget) / h - centre
    low = -_reach(stack, tilt, cumulant, -unit, budget) / h - centre
    if not high - low < MAXIMUM_PERIOD:
        raise TooFine(f"step {h:g}: more than {MAXIMUM_PERIOD} losses; take a larger one")
    first = math.floor(low) - 2
    period = fft.next_fast_len(max(math.ceil(high) + 2 - first, 16), real=True)
    return Window(centre, first, int(period), 2 * math.exp(-ALIAS_EXPONENT))


def _reach(stack: Stack, tilt: float, cumulant: float, unit: float, budget: float) -> float:
    """Loss beyond which (unit < 0: minus the loss below which) the tilted mass is exp(-budget).

    The best of several shifts, found on the outline, then for certain.
    """
    shifts = [unit * factor for factor in WINDOW_SHIFTS]
    near = stack.outline.cumulant(tilt)
    rough = [(stack.outline.cumulant(tilt + s) - near + budget) / abs(s) for s in shifts]
    shift = shifts[min(range(len(shifts)), key=rough.__getitem__)]
    return (stack.cumulant(tilt + shift) - cumulant + budget) / abs(shift)


# --- delta at one epsilon ------------------------------------------------------------------------


@dataclass(frozen=True)
class Delta:
    """Delta at one epsilon from one side, with what was added or taken away (all >= 0)."""

    value: float
    round_off: float
    alias: float
    truncation: float
    masses: float


def delta_at(composition: Composition, epsilon: float) -> Delta:
    """The side's bound of delta at epsilon, which must lie inside the window."""
    stack, window = composition.stack, composition.window
    h, tilt = stack.width, composition.tilt
    k = math.floor(Fraction(epsilon) / stack.step)
    epsilon_left = float(Fraction(epsilon) - k * stack.step)
    kappa = k - window.centre
    terms = window.first + window.period - 1 - kappa
    value, round_off = _summed(composition, kappa, terms, math.exp(epsilon_left))
    exponent = composition.cumulant - tilt * k * h
    left_out = 2 * math.exp(min((tilt + 3) * h, 700.0)) * (1 + math.log(window.period))
    left_out *= composition.left_out
    outside = math.exp(epsilon_left) * window.outside
    above = math.exp(-tilt * max(terms, 0) * h) * window.outside
    return _outward(composition, exponent, value, round_off, (outside, above), left_out)


def _summed(composition: Composition, kappa: int, terms: int, beyond: float) -> tuple[float, float]:
    """F, and what rounding may change in it; ``beyond`` is exp(s).

    The rounding error of a term is less than ``TERM_ROUNDINGS`` units of roundoff of its parts'
    sizes: phases, ratios and the pairwise sum of up to 2^16 terms have at most 10, 25 and 40.
    """
    kernel, period = composition.kernel, composition.window.period
    spend(len(kernel.indices) / 10, "a Fourier sum")
    h, tilt = composition.stack.width, composition.tilt
    turned = kernel.indices * (kappa % period) % period
    phases = np.exp(1j * (2 * math.pi / period) * turned)
    back = kernel.turn * np.conj(phases)
    remainders = [math.exp(-rate * h * terms) for rate in (tilt, tilt + 1)]
    first, second = (r * (1 - e * back) for r, e in zip(kernel.ratios, remainders, strict=True))
    weights = first - beyond * second
    value = float(np.sum((kernel.weighted * phases * weights).real))
    size = kernel.sizes[0] * (1 + remainders[0]) + beyond * kernel.sizes[1] * (1 + remainders[1])
    errors = np.sqrt(weights.real**2 + weights.imag**2) * kernel.rounding
    return value, float(np.sum(errors)) + TERM_ROUNDINGS * UNIT * size


def _outward(
    composition: Composition,
    exponent: float,
    value: float,
    round_off: float,
    alias: tuple[float, float],
    left_out: float,
) -> Delta:
    """Delta from its Fourier sum, with every error added outward."""
    stack = composition.stack
    # An upper end must not underflow to 0; a lower one may.
    least = -700.0 if stack.side is Side.UPPER else -math.inf
    factor = math.exp(min(max(exponent, least), 700.0))
    relative = (
        math.expm1(min(stack.total * composition.relative, 700.0))
        + stack.relative
        + 8 * UNIT * (abs(composition.cumulant) + abs(exponent) + 8)
    )
    sign = 1 if stack.side is Side.UPPER else -1
    wrapped = alias[1] if sign > 0 else alias[0]
    inside = factor * (value + sign * (round_off + left_out + wrapped))
    masses = relative * abs(inside)
    certain = 1e-12 + stack.relative + 1e-13 * stack.total
    total = inside + sign * masses + stack.infinite * max(1 + sign * certain, 0.0)
    total += sign * stack.total * 10 * NEGLIGIBLE_MASS
    return Delta(
        float(min(max(total, 0.0), 1.0)),
        factor * round_off,
        factor * wrapped,
        factor * left_out,
        masses,
    )

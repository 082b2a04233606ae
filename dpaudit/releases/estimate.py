"""Privacy cost of a plan's noise, estimated in floats to compare plans; never a bound.

The cumulant functions K(s) = log E exp(s L) of the privacy losses L of parts add up.  For t > 0,
delta at epsilon is an integral along the line s = t + i w,

    delta = 1/pi int_0^inf Re exp(K(s) - epsilon s) / (s (s + 1)) dw,

because (1 - exp(epsilon - L))_+ has the transform 1 / (s (s + 1)).  A sum of some thousand terms
takes the place of a composition; the plan that it chooses is then composed exactly.
Source: Alghamdi, Gomez, Asoodeh, Calmon, Kosut, Sankar 2023 (saddle-point accountant).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.families.tabular import DiscreteGaussianVector, ThresholdedDiscreteLaplace

Numbers: TypeAlias = NDArray[Any]  # shape (terms,), real or complex
Cumulant: TypeAlias = Callable[[Numbers], Numbers]
TILTS = np.geomspace(1e-2, 1e3, 200)  # over epsilon
# The sum's period in standard deviations and in decays; where it ends, in deviations of `BLUR`.
DEVIATIONS, DECAYS, END = 12.0, 40.0, 6.0
MOST_TERMS = 2**11  # of a series
# A normal loss of this part of epsilon, or of the deviation, lets the sum of Laplace noise end.
BLUR = 1 / 150, 1 / 60
GAIN = 1.002  # of an amount, by which another kind of noise must do better
# Search over an amount's logarithm: the precision, the first of steps that double, their number.
CLOSE, FIRST, STEPS = 1e-4, 0.02, 12
FARTHEST = 1e3  # an excess beyond which it says no more
TINY = 1e-300  # keeps a logarithm finite
SMALLEST = 1e-12  # an epsilon of which the sum has digits
WIDE = 25  # a variance above which discrete Gaussian noise costs as continuous noise does


def cumulant_of(leaf: Any, rho: float) -> Cumulant:
    """K of a leaf; of one that is not listed here, that of Gaussian noise of the same rho."""
    if isinstance(leaf, DiscreteLaplace | ThresholdedDiscreteLaplace):
        return _laplace(float(leaf.scale), float(leaf.sensitivity))
    if isinstance(leaf, DiscreteGaussianVector):
        variance = float(leaf.variance)
        if leaf.moves and variance < WIDE:
            vector = max(leaf.moves, key=lambda row: sum(n * size**2 for size, n in row))
            return _gaussian_on_integers(variance, [(float(s), float(n)) for s, n in vector])
        rho = float(leaf.squared) / (2 * variance)
    return lambda s: rho * s * (s + 1)


def _laplace(scale: float, move: float) -> Cumulant:
    """Losses are move / scale below 0, minus that from the move on, and a lattice between."""
    most = move / scale

    def known(s: Numbers) -> Numbers:
        # Sum over z = 1 .. move - 1 of exp(-z / scale + s (move - 2 z) / scale), over exp(s most).
        step = -(1 + 2 * s) / scale
        between = np.exp(step) * np.expm1(step * (move - 1)) / np.expm1(step)
        between *= -math.expm1(-1 / scale)
        ends = 1 + np.exp(-(1 + 2 * s) * most)
        return np.asarray(s * most + np.log((ends + between) / (1 + math.exp(-1 / scale))))

    return known


def _gaussian_on_integers(variance: float, vector: Sequence[tuple[float, float]]) -> Cumulant:
    """K of discrete Gaussian noise on a vector of (size, count) whole moves."""
    most = math.ceil(7 * math.sqrt(variance)) + 1
    places = np.arange(-most, most + 1)
    total = np.exp(-(places**2) / (2 * variance)).sum()

    def known(s: Numbers) -> Numbers:
        logs_each = np.zeros_like(s)
        for size, count in vector:
            # exp(s (size^2 - 2 z size) / 2 v) shifts the masses by s size: rho s (s + 1) and more.
            away = np.round(np.real(s) * size)[:, None]
            outcomes = places - away
            exponents = -(outcomes**2) - 2 * s[:, None] * size * outcomes
            largest = np.real(exponents).max(axis=1)
            sums = np.exp((exponents - largest[:, None]) / (2 * variance)).sum(axis=1)
            logs = np.log(np.where(sums == 0, TINY, sums) / total) + (largest + s * size**2) / (
                2 * variance
            )
            logs_each = logs_each + count * logs
        return np.asarray(logs_each)

    return known


@dataclass(frozen=True)
class Line:
    """Where the integral is summed: ``s``, shape (terms,), and the weight of each term."""

    s: Numbers
    weights: Numbers

    def log_delta(self, total: Numbers, epsilon: float) -> float:
        """log delta of a cumulant on the line; -inf where the sum is not positive."""
        exponents = total - epsilon * self.s
        first = float(np.real(exponents[0]))
        total_mass = float(np.real(np.exp(exponents - first) @ self.weights))
        return first + math.log(total_mass) if total_mass > 0 else -math.inf


def line_of(cumulants: Sequence[Cumulant], epsilon: float) -> Line:
    """The line through the saddle point, on which the terms fall fastest."""

    def total(s: Numbers) -> Numbers:
        return np.asarray(sum(cumulant(s) for cumulant in cumulants))

    if epsilon < SMALLEST:
        raise ArithmeticError(f"an epsilon of {epsilon}")
    t = TILTS / epsilon
    with np.errstate(over="ignore", invalid="ignore"):
        height = total(t) - t * epsilon + t * np.log(t) - (1 + t) * np.log1p(t)
    at = float(t[np.nanargmin(height)])
    near = total(at * np.array([0.95, 1.0, 1.05]))
    deviation = math.sqrt(max(float(near[0] - 2 * near[1] + near[2]), 0.0)) / (0.05 * at)
    step = 2 * math.pi / (DECAYS / at + DEVIATIONS * deviation)
    blur = max(BLUR[0] * epsilon, BLUR[1] * deviation)
    terms = min(MOST_TERMS, math.ceil(END / blur / step))
    s = at + 1j * step * np.arange(terms)
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(blur**2 / 2 * s * (s + 1)) / (s * (s + 1)) * step / math.pi
    if not np.isfinite(weights).all():
        raise ArithmeticError(f"an epsilon of {epsilon}, whose integral no floats hold")
    weights[0] /= 2
    return Line(s, weights)


@dataclass(frozen=True)
class Excess:
    """How far choices of noise exceed a budget of (epsilon, delta), as log of delta over its own.

    ``leaf``: a part's leaf of its first (0) or second kind (1) at an amount, with its rho, by the
    part's label.  ``fixed``: the rho of noise that no amount changes.
    """

    epsilon: float
    delta: float
    labels: Sequence[str]
    leaf: Callable[[str, int, float], tuple[Any, float]]
    fixed: float

    def __call__(self, amount: float, choices: Sequence[frozenset[str]]) -> list[float]:
        """One number for each choice of the parts that have their second kind; most <= 0 keep."""

        @cache
        def leaf(label: str, kind: int) -> tuple[Any, float]:
            return self.leaf(label, kind, amount)

        first = [cumulant_of(*leaf(label, int(label in choices[0]))) for label in self.labels]
        line = line_of([*first, lambda s: self.fixed * s * (s + 1)], self.epsilon)

        @cache
        def on_line(label: str, kind: int) -> Numbers:
            return cumulant_of(*leaf(label, kind))(line.s)

        excesses = []
        for choice in choices:
            chosen = {label: int(label in choice) for label in self.labels}
            pure = [_pure(leaf(*each)[0]) for each in chosen.items()]
            if not self.fixed and sum(pure) <= self.epsilon:
                excesses.append(-FARTHEST)
                continue
            total = self.fixed * line.s * (line.s + 1)
            total = sum((on_line(*each) for each in chosen.items()), total)
            excesses.append(line.log_delta(total, self.epsilon) - math.log(self.delta))
        return excesses


def _pure(leaf: Any) -> float:
    """The pure epsilon of Laplace noise; infinite of other noise."""
    return float(leaf.sensitivity / leaf.scale) if isinstance(leaf, DiscreteLaplace) else math.inf


Excesses: TypeAlias = Callable[[float, Sequence[frozenset[str]]], list[float]]


def largest_amount(excess: Excesses, choice: frozenset[str], start: float) -> float:
    """The largest amount at which a choice keeps the budget; 0 where none does.

    Errors: ArithmeticError for a start that is no positive float.
    """
    if not 0 < start < math.inf:
        raise ArithmeticError(f"an amount of {start}")

    def over(log_amount: float) -> float:
        return max(min(excess(math.exp(log_amount), [choice])[0], FARTHEST), -FARTHEST)

    low = high = math.log(start)
    step = FIRST if over(low) <= 0 else -FIRST
    for _ in range(STEPS):
        low, high = high, high + step
        if (over(high) <= 0) is (step < 0):
            return math.exp(float(brentq(over, low, high, xtol=CLOSE)))
        step *= 2
    return 0.0


def climbed(
    excess: Excesses, choice: frozenset[str], free: frozenset[str], start: float
) -> tuple[float, frozenset[str]]:
    """The largest amount of a choice that no change of one part makes larger, and that choice."""
    amount = largest_amount(excess, choice, start)
    while amount:
        changed = [choice ^ {label} for label in sorted(free)]
        over = excess(amount, [choice, *changed])[1:]
        other = changed[min(range(len(changed)), key=over.__getitem__)]
        larger = largest_amount(excess, other, amount)
        if not larger > amount * GAIN:
            break
        amount, choice = larger, other
    return amount, choice


def gaussian_rho(epsilon: float, delta: float) -> float:
    """The rho of Gaussian noise that has a delta at an epsilon."""
    low, high = -60.0, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        mu = math.sqrt(2 * math.exp(middle))
        reached = ndtr(mu / 2 - epsilon / mu)
        reached -= math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
        low, high = (middle, high) if reached < delta else (low, middle)
    return math.exp(low)

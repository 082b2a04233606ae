"""Leaves of somebody else's, each whole in one place: node, rules and kernel; no theorem.

``OwnStaircase``: the noise of least expected size at a pure epsilon (Geng and Viswanath 2014).
``Cauchy``: noise of scale z times the sensitivity, whose two directions have pairs of their own.
``Twice``: a combinator, annotated by the module's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpaudit import nodes
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose, exp, log, sqrt, upper_fraction
from dpaudit.exact.domains import number, positive
from dpaudit.families.opaque import PureDP
from dpaudit.kernels.base import Generator, Kernel, kernel
from dpaudit.kernels.query import Array
from dpaudit.measures.calculus import Source, always
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.pairs import Losses

GENG = Source("Geng, Viswanath", 2014, "Theorem 1 (epsilon-DP of the staircase density)")
CAUCHY = Source("Nissim, Raskhodnikova, Smith", 2007, "Lemma 2.7 (admissible Cauchy noise)")
TWICE = Source("Dwork, Rothblum, Vadhan", 2010, "Section III.A")


@dataclass(frozen=True, eq=False, repr=False)
class OwnStaircase(nodes.Leaf):
    """OwnStaircase noise of ``epsilon`` and step share 1/2, in units of the sensitivity."""

    label: str
    epsilon: Number = number(positive)


@PURE.rule(OwnStaircase, "staircase", cite=GENG, attained=always)
def staircase(node: OwnStaircase) -> Number:
    """Densities at x and at x + 1 differ by e^epsilon everywhere, one way or the other."""
    return node.epsilon


class OneNumber(Kernel):
    """Noise that is proved for one number: moving several coordinates by less each loses more."""

    def admit(self, scale: Array, dimension: int) -> None:
        if dimension != 1:
            raise InvalidParameter(f"{self.leaf.head}: one number a release, not {dimension}")


@kernel(OwnStaircase)
class OwnStaircaseKernel(OneNumber):
    """Steps of height e^(-k epsilon) on [k, k + 1), the first half of each one step higher."""

    norm = "l1"

    @staticmethod
    def multiplier(leaf: Any) -> float:
        return 1.0

    def _decay(self) -> float:
        return float(np.exp(-float(self.leaf.epsilon)))

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        decay = self._decay()
        shape = values.shape
        sign = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
        step = rng.geometric(1 - decay, shape) - 1
        first = rng.random(shape) < 1 / (1 + decay)
        where = step + np.where(first, 0.0, 0.5) + rng.random(shape) / 2
        return values + scale[:, None] * sign * where

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        decay, away = self._decay(), np.abs((released - values) / scale[:, None])
        steps = np.floor(away) + (away - np.floor(away) >= 0.5)
        height = np.log((1 - decay) / (1 + decay)) - np.log(scale)[:, None]
        return (height + steps * np.log(decay)).sum(-1)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        decay, noise = self._decay(), (released - values) / scale[:, None]
        away, whole = np.abs(noise), np.floor(np.abs(noise))
        part = away - whole
        inside = np.minimum(part, 0.5) + decay * np.maximum(part - 0.5, 0)
        beyond = decay**whole * (1 - (1 - decay) * inside * 2 / (1 + decay)) / 2
        tail = np.clip(beyond, 1e-300, 0.5)
        return np.where(noise < 0, ndtri(tail), -ndtri(tail))


@dataclass(frozen=True, eq=False, repr=False)
class Cauchy(nodes.Leaf):
    """Cauchy noise of scale ``noise_multiplier`` times the sensitivity."""

    label: str
    noise_multiplier: Number = number(positive)


def largest_loss(scale: Number) -> Number:
    """log of the largest of (1 + x^2) / (1 + (x + 1/z)^2): with h = 1/(2z), 2 asinh(h)."""
    half = 1 / (2 * scale)
    return 2 * log(half + sqrt(half**2 + 1))


@PURE.rule(Cauchy, "cauchy", cite=CAUCHY, attained=always)
def cauchy(node: Cauchy) -> Number:
    """The largest privacy loss of a shift by the whole sensitivity."""
    return largest_loss(node.noise_multiplier)


@PROFILE.rule(Cauchy, "cauchy_pairs", cite=CAUCHY)
def cauchy_pairs(node: Cauchy) -> Losses:
    """Randomised response of that loss dominates, in either direction by a pair of its own."""
    found = upper_fraction(enclose(largest_loss(node.noise_multiplier))) or Fraction(0)
    pairs: Losses = PROFILE.of_leaf(PureDP(found))
    return pairs


@kernel(Cauchy)
class CauchyKernel(OneNumber):
    """values + scale times a standard Cauchy variable, one number a release."""

    norm = "l1"

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return values + scale[:, None] * rng.standard_cauchy(values.shape)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        noise = (released - values) / scale[:, None]
        return -(np.log(np.pi * scale)[:, None] + np.log1p(noise**2)).sum(-1)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        noise = (released - values) / scale[:, None]
        tail = np.clip(np.arctan2(1, np.abs(noise)) / np.pi, 1e-300, 0.5)
        return np.where(noise < 0, ndtri(tail), -ndtri(tail))


@dataclass(frozen=True, eq=False, repr=False)
class Twice(nodes.Node):
    """``child`` runs two times."""

    child: nodes.Node


@PURE.rule(Twice, "twice", cite=TWICE, attained=always)
def twice(node: Twice, epsilon: Number) -> Number:
    """Adaptive composition."""
    return 2 * epsilon


__all__ = ["Cauchy", "OwnStaircase", "Twice", "exp"]

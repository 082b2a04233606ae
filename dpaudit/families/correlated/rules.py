"""Correlated Gaussian noise: mu = ||C u|| / z at the largest move C u of the means.

Given the past, row i of C X + Z is Gaussian and moves by (C u)_i, which the past decides; so the
privacy loss is that of Gaussian releases with sum of squares at most max ||C u||^2, adaptively
chosen or not.  Reached by moves u_t that all point one way, where such a u attains the maximum and
C X + Z is what is released, up to an invertible map: that is so for square strategies.  Where fewer
numbers than rows of C come out (blocks of a tree, combined), the bound is valid and not reached.
"""

from __future__ import annotations

from dpaudit.exact import Number, is_symbolic, sqrt
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.correlated.moves import Move, largest_move
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, Step
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Losses, Normal

ADAPTIVE = Source(
    "Denisov, McMahan, Rush, Smith, Thakurta",
    2022,
    "Theorem 2.1 (adaptive rows; dpaudit.families.correlated.rules repeats the argument)",
)

PURE.absent(CorrelatedGaussian, reason="Gaussian noise has no finite largest privacy loss")
APPROX.absent(
    CorrelatedGaussian, reason="its (epsilon, delta) curve is converted from gdp at a given delta"
)


def _move(node: CorrelatedGaussian) -> Move:
    return largest_move(node.strategy, node.rounds, node.participation)


def is_reached(node: Node, premises: tuple[Step, ...]) -> bool:
    """Whether some move attains the bound exactly (nothing was rounded or over-counted)."""
    if not isinstance(node, CorrelatedGaussian):
        return False
    move = _move(node)
    return move.reached is not None and bool(move.reached == move.upper)


def quotient(squared: Number, noise_multiplier: Number) -> Number:
    """sqrt(squared) / z, as one square root where both are fractions."""
    if is_symbolic(squared) or is_symbolic(noise_multiplier):
        return sqrt(squared) / noise_multiplier
    return sqrt(squared / noise_multiplier**2)


@GAUSSIAN.rule(CorrelatedGaussian, "correlated", cite=ADAPTIVE, attained=is_reached)
def correlated(node: CorrelatedGaussian) -> Number:
    """max ||C u|| / z over the moves u of one record."""
    return quotient(_move(node).upper, node.noise_multiplier)


@CONCENTRATED.rule(CorrelatedGaussian, "concentrated", cite=ADAPTIVE, attained=is_reached)
def concentrated(node: CorrelatedGaussian) -> Number:
    """max ||C u||^2 / (2 z^2)."""
    return _move(node).upper / (2 * node.noise_multiplier**2)


@RENYI.rule(CorrelatedGaussian, "renyi", cite=ADAPTIVE, attained=is_reached)
def renyi(node: CorrelatedGaussian) -> Number:
    """alpha max ||C u||^2 / (2 z^2)."""
    return order() * _move(node).upper / (2 * node.noise_multiplier**2)


@PROFILE.rule(CorrelatedGaussian, "profile", cite=ADAPTIVE)
def profile(node: CorrelatedGaussian) -> Losses:
    """N(mu, 1) against N(0, 1); below it what a known move reaches."""
    move = _move(node)
    above = (Normal(quotient(move.upper, node.noise_multiplier)),)
    if move.reached is None:
        return Losses(above, above)
    below = (Normal(quotient(move.reached, node.noise_multiplier)),)
    return Losses(above, above, below, below)

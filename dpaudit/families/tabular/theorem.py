"""Vectors of whole numbers with noise, and thresholded counts.

Proofs stand beside the accountant's rules of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import Premise, Row, Table, Theorem, register
from dpaudit.exact import exp, infinity, is_infinite, is_symbolic, sqrt
from dpaudit.families.discrete.theorem import laplace_losses
from dpaudit.pairs import Atoms, Concentrated, DiscreteNormal, Losses, Normal, Pair, joined, product


def _listed(node: Any, premises: Sequence[Premise] = ()) -> bool:
    return len(node.moves) > 0


def _between_cells(node: Any) -> Any:
    """mu of noise of variance v: squares over v less (1 + 1/v) / 12, for 1/2 <= v."""
    v = node.variance
    if is_symbolic(v) or v < Fraction(1, 2):
        return infinity()
    return sqrt(node.squared / (v - (1 + 1 / v) / 12))


def _vector(node: Any, witness: Row) -> Losses:
    mu = _between_cells(node)
    if not is_infinite(mu) and (witness.get("normal") is True or not _listed(node)):
        normal = Normal(mu)
        return Losses(remove=(normal,), add=(normal,))
    if not _listed(node):
        pair: Pair = Concentrated(node.squared / (2 * node.variance))
        return Losses(remove=(pair,), add=(pair.swapped,))
    products = []
    for vector in node.moves:
        coordinates = [(DiscreteNormal(node.variance, size), count) for size, count in vector]
        products.append(product(coordinates))
    pairs = tuple(products)
    return Losses(remove=pairs, add=pairs, reached_remove=pairs, reached_add=pairs)


def _shown(node: Any) -> Any:
    tail = exp((node.largest - node.threshold) / node.scale) / (exp(-1 / node.scale) + 1)
    return tail * node.own


def _thresholded(node: Any, witness: Row) -> Losses:
    (noise,) = laplace_losses(node, witness).remove
    return _with_own(noise, _shown(node))


def _thresholded_gaussian(node: Any, witness: Row) -> Losses:
    """The first term of a Gaussian tail, over 1 less the ratio of the next, over sqrt(6.28 v)."""
    v, away = node.variance, node.threshold - node.largest
    first, ratio = exp(-away * away / (v + v)), exp(-away / v)
    shown = node.own * first / (1 - ratio) / sqrt(v * Fraction(628, 100))
    mu = _between_cells(node)
    squares = node.squared / (2 * v)
    return _with_own(Concentrated(squares) if is_infinite(mu) else Normal(mu), shown)


def _with_own(noise: Pair, shown: Any) -> Losses:
    """Noise on the common counts, and with probability ``shown`` a key of one side alone."""
    zero = Fraction(0)
    bit = Atoms(((shown, zero), (zero, shown), (1 - shown, 1 - shown)))
    return Losses(remove=(joined((noise, bit)),), add=(joined((noise.swapped, bit)),))


TABULAR: Table = {
    ("zcdp", "DiscreteGaussianVector"): Theorem(
        "discrete_gaussian_vector", lambda n: n.squared / (2 * n.variance), attained=_listed
    ),
    ("rdp", "DiscreteGaussianVector"): Theorem(
        "discrete_gaussian_vector_curve", lambda n: lambda a: a * n.squared / (2 * n.variance)
    ),
    ("gdp", "DiscreteGaussianVector"): Theorem("discrete_gaussian_vector_cells", _between_cells),
    ("profile", "DiscreteGaussianVector"): Theorem(
        "discrete_gaussian_vector_pair", _vector, reads=True
    ),
    ("approx", "ThresholdedDiscreteLaplace"): Theorem(
        "thresholded", lambda n: (n.sensitivity / n.scale, _shown(n))
    ),
    ("profile", "ThresholdedDiscreteLaplace"): Theorem(
        "thresholded_pair", _thresholded, reads=True
    ),
    ("profile", "ThresholdedDiscreteGaussian"): Theorem(
        "thresholded_gaussian_pair", _thresholded_gaussian, reads=True
    ),
}

register(TABULAR)

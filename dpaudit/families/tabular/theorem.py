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
    shown, zero = _shown(node), Fraction(0)
    bit = Atoms(((shown, zero), (zero, shown), (1 - shown, 1 - shown)))
    (noise,) = laplace_losses(node, witness).remove
    pair = joined((noise, bit))
    return Losses(remove=(pair,), add=(pair,))


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
}

register(TABULAR)

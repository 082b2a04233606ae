"""Pairs of finite distributions as tests count them: at 40 digits, and as floats.

No formula is shared with the rules: hockey sticks, divergences and trade-offs are sums over
outcomes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy
from scipy.special import ndtri

from dpaudit.exact import enclose
from dpaudit.families.selection import Scores
from dpaudit.measures.approx import APPROX
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit

SCOPE = Scope(Adjacency.ADD_REMOVE, Unit.RECORD, Trust.CENTRAL, Released.TRANSCRIPT)
ROUNDING = 1e-11

Outcomes = list[tuple[Any, Any]]
Masses = Sequence[float]
Vector = tuple[float, ...]


def fold(calculus: Any, node: Node) -> Any:
    """What a calculus concludes of a node."""
    return calculus.fold(node, SCOPE).value


# --- at 40 digits (inside mpmath.workdps) --------------------------------------------------------


def big(value: Any) -> Any:
    """The midpoint of an enclosure of 160 bits."""
    return mpmath.mpf(enclose(value).mid().str(45, radius=False))


def outcomes(pair: Any) -> Outcomes:
    """(P, Q) masses of atoms."""
    assert isinstance(pair, Atoms)
    return [(big(p), big(q)) for p, q in pair.outcomes]


def hockey_stick(pair: Outcomes, loss: Any) -> Any:
    """sup_S P(S) - e^loss Q(S)."""
    return mpmath.fsum(max(mpmath.mpf(0), p - mpmath.exp(mpmath.mpf(loss)) * q) for p, q in pair)


def divergence(pair: Outcomes, alpha: str) -> Any:
    """Renyi divergence of P from Q."""
    a = mpmath.mpf(alpha)
    return mpmath.log(mpmath.fsum(p**a * q ** (1 - a) for p, q in pair)) / (a - 1)


def relative_entropy(pair: Outcomes) -> Any:
    """Kullback-Leibler divergence of P from Q."""
    return mpmath.fsum(p * mpmath.log(p / q) for p, q in pair)


def curve(node: Node, alpha: str) -> Any:
    """The Renyi curve of a node at an order."""
    return big(fold(RENYI, node).subs(order(), sympy.Rational(alpha)))


def close(found: Any, truth: Any, digits: int = 20) -> bool:
    """Equal to some digits, relative above 1 and absolute below."""
    return bool(abs(found - truth) <= mpmath.mpf(10) ** -digits * max(1, abs(truth)))


def gaussian_curve(mu: Any, alpha: Any) -> Any:
    """Phi(Phi^{-1}(1 - alpha) - mu)."""
    return mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * alpha) - mu)


# --- discrete Laplace noise ----------------------------------------------------------------------


def laplace(scale: Fraction, bound: int | None = None) -> Callable[[int], Any]:
    """Mass of the discrete Laplace noise at an integer."""
    a = mpmath.exp(-1 / mpmath.mpf(scale.numerator) * scale.denominator)
    inside = range(-bound, bound + 1) if bound is not None else None
    whole = (1 + a) / (1 - a) if inside is None else mpmath.fsum(a ** abs(j) for j in inside)

    def mass(j: int) -> Any:
        return a ** abs(j) / whole if inside is None or j in inside else mpmath.mpf(0)

    return mass


def moved(mass: Callable[[int], Any], shift: int, reach: int) -> Outcomes:
    """The noise around ``shift`` against the noise around 0, on -reach..reach."""
    return [(mass(j - shift), mass(j)) for j in range(-reach, reach + 1)]


def reach(scale: Fraction) -> int:
    """Far enough for the tail to be below 1e-40."""
    return int(100 * scale) + 40


# --- as floats -----------------------------------------------------------------------------------


ORDERS = (1.01, 1.5, 2.0, 8.0, 100.0)
EPSILONS = (-1.0, -0.2, 0.0, 0.1, 0.4, 0.9, 1.4, 2.2)


def number(value: Any) -> float:
    """The float nearest to an exact number."""
    return float(enclose(value).mid())


def curve_at(node: Node, alpha: float) -> float:
    """The Renyi curve at an order."""
    return number(fold(RENYI, node).subs(order(), sympy.Rational(str(alpha))))


def atoms(pair: Any) -> tuple[Masses, Masses]:
    """P masses and Q masses of atoms."""
    p, q = zip(*((number(a), number(b)) for a, b in pair.outcomes), strict=True)
    return p, q


def stick(p: Masses, q: Masses, epsilon: float) -> float:
    """sup_S P(S) - e^epsilon Q(S)."""
    return math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


def largest_loss(p: Masses, q: Masses) -> float:
    """The largest absolute log-likelihood ratio."""
    return max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True))


def renyi(p: Masses, q: Masses, alpha: float) -> float:
    """Renyi divergence of P from Q."""
    moments = math.fsum(
        a * math.exp((alpha - 1) * math.log(a / b)) for a, b in zip(p, q, strict=True)
    )
    return math.log(moments) / (alpha - 1)


def least_mu(p: Masses, q: Masses) -> float:
    """The smallest mu whose curve is below all corners of the trade-off polygon."""
    ordered = sorted(zip(p, q, strict=True), key=lambda pair: -pair[0] / pair[1])
    best = 0.0
    for cut in range(1, len(ordered)):
        power = math.fsum(a for a, _ in ordered[:cut])
        positive = math.fsum(b for _, b in ordered[:cut])
        best = max(best, float(ndtri(power) - ndtri(positive)))
    return best


class Guarantee:
    """A node's guarantee in every calculus, as numbers, to hold any pair of runs against."""

    def __init__(self, node: Node) -> None:
        self.epsilon = number(fold(PURE, node))
        assert fold(APPROX, node) == (fold(PURE, node), 0)
        self.rho = number(fold(CONCENTRATED, node))
        self.mu = number(fold(GAUSSIAN, node))
        self.curve = {alpha: curve_at(node, alpha) for alpha in ORDERS}
        losses = fold(PROFILE, node)
        assert losses.add == losses.remove
        upper = atoms(losses.remove[0])
        assert math.fsum(upper[0]) == pytest.approx(1, rel=1e-14)
        assert math.fsum(upper[1]) == pytest.approx(1, rel=1e-14)
        self.delta = {e: stick(*upper, e) for e in EPSILONS}

    def holds(self, p: Masses, q: Masses) -> None:
        """Every measure of the pair (P, Q) is within the guarantee."""
        assert largest_loss(p, q) <= self.epsilon + ROUNDING
        assert least_mu(p, q) <= self.mu + 1e-8
        for alpha, bound in self.curve.items():
            found = renyi(p, q, alpha)
            assert found <= bound + ROUNDING
            assert found <= alpha * self.rho + ROUNDING
        for epsilon, delta in self.delta.items():
            assert stick(p, q, epsilon) <= delta + ROUNDING


# --- neighbouring scores -------------------------------------------------------------------------


def moves(size: int, scores: Scores) -> Iterator[Vector]:
    """How the scores of neighbours may differ: all corners and centres of what is allowed."""
    if scores is Scores.ANY:
        yield from itertools.product((-1.0, 0.0, 1.0), repeat=size)
    else:
        yield from itertools.product((0.0, 1.0), repeat=size)
        yield from itertools.product((0.0, -1.0), repeat=size)


def neighbours(scores: Scores) -> Iterator[tuple[Vector, Vector]]:
    """Three candidates: some scores, and every move of them."""
    bases = itertools.product((0.0,), (0.0, -1.0, -2.5, -9.0), (0.0, -0.7, -4.0))
    for base in bases:
        for move in moves(3, scores):
            yield base, tuple(b + m for b, m in zip(base, move, strict=True))


def softmax(scores: Vector, epsilon: float) -> Masses:
    """The exponential mechanism."""
    weights = [math.exp(epsilon * s / 2) for s in scores]
    return [w / math.fsum(weights) for w in weights]

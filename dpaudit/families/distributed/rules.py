"""Sums of clients' noise: profiles of their own laws.

The noise of ``left`` clients is certain; what others add is post-processing.  Both laws are
log-concave (sums of log-concave noise are), so that the pair of the largest move dominates (proof
in :mod:`dpaudit.families.discrete.rules`), with likelihood ratios that rise with the outcome.

From above: masses are rounded down to p'_k, q'_k, multiples of 10^-40, and what that takes away is
put where the loss is infinite, in P, or minus infinite, in Q:
(p - x q)+ <= (p' - x q')+ + (p - p').  Neighbouring outcomes, where there are many, become two, of
the smallest and of the largest ratio among them, with the same masses in all: (r - x)+ is convex in
the ratio r.
From below: neighbouring outcomes become one, what rounding took away goes to the first outcome, in
P, and to the last, in Q.  The points (Q(y >= t), P(y >= t)) of that pair lie below the concave
curve of the true ones, and so does what joins them, which is the pair's own curve where its ratios
rise with t.  Neighbours whose ratios do not rise become one, too: that leaves points out.  (As they
are, sets of other outcomes than the last ones would tell more, and lie above the true curve.)

Vectors.  Let w be at most the variance that the law's second differences allow
(:mod:`dpaudit.families.distributed.curvature`).  The proof of :mod:`dpaudit.families.tabular.rules`
that discrete Gaussian noise of variance w lies between cells of normal noise uses nothing else of
it: log p has second differences of at least -1 / w, and is concave.  So a move of squares S is
mu-GDP, mu = sqrt(S / (w - c)), c = (w + 1) / (12 w).  That is below the concentrated bound of
Kairouz, Liu and Steinke (2021, Theorem 1) and the Renyi bound of Agarwal, Kairouz and Liu (2021,
Theorem 3.5) but for the term c, and needs no l1-norm.  Sums modulo a number are post-processing.
From below, without a modulus: one coordinate moves by the root of S, rounded down, the next by the
root of the rest, and so on for at most four; their noise is independent.
Let the sum of Gaussian clients have a variance V above the table's.  Adding independent normal
noise of variance t loses information.  With phi_s the normal density of variance s and
w = v s / (v + s),

    sum over k of exp(-k^2 / (2 v)) phi_s(y - k) = C phi_(s + v)(y) theta(y v / (s + v)),
    theta(c) = 1 + 2 sum over m >= 1 of exp(-2 pi^2 m^2 w) cos(2 pi m c),

by Poisson summation, C the same for all y.  By Jacobi's product theta lies between theta(1/2) and
theta(0), whose ratio falls as w grows.  n clients, one after the other, therefore have a density
phi_(V + t), V = n v, times what lies between a and a e^h, h = n log(theta(0) / theta(1/2)) at
s = t.  S is a sum of four squares (Lagrange): a move by their roots in four coordinates has, with
H = 4 h and mu = sqrt(S / (V + t)),

    delta(x) >= e^-H delta_mu(x e^H) >= e^-H delta_mu(x e^(2 H)),

as a <= 1 <= a e^h.  Let z = mu / 2 - e / mu.  The delta of N(mu, 1) at x = exp(e), e >= 0, has the
derivatives phi_1(z) in mu and -phi_1(z) M(e / mu + mu / 2) in e, M = (1 - Phi) / phi_1 <=
sqrt(pi / 2) there, and is at most Phi(z) <= phi_1(z) sqrt(2 pi) exp(mu^2 / 8).  So, along the line
from a smaller nu to mu, from e to e + 2 H and from 1 to e^-H, it does not fall where mu - nu >=
H sqrt(2 pi) (1 + exp(mu^2 / 8)): then N(nu, 1) against N(0, 1) is dominated, at x < 1 by symmetry.
nu = sqrt(S / (V + r)), t = r - 1/2, at the first r = 2, 3, .. of which this is true.
Source: Kairouz, Liu, Steinke 2021 and Agarwal, Kairouz, Liu 2021 (the mechanisms); dpaudit 2026.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import Number, enclose, infinity, is_infinite, sqrt
from dpaudit.families.discrete.rules import both
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellam,
    DistributedSkellamVector,
)
from dpaudit.families.distributed.curvature import least_variance
from dpaudit.families.distributed.masses import MASS_DECIMALS, masses_of
from dpaudit.families.distributed.node import LARGEST_VARIANCE
from dpaudit.families.tabular import DiscreteGaussianVector
from dpaudit.families.tabular.rules import discrete_gaussian_vector_cells
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.implied import gaussian
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.pairs import Atoms, Losses, Normal, Pair, joined

KINDS = (DistributedGaussian, DistributedSkellam)  # noise that is summed over clients
MASS_UNIT = 10**MASS_DECIMALS  # Denominator of a mass: masses are multiples of 10^-40.
MAX_CELLS = 256  # Outcomes of a pair; neighbours are merged if there are more than twice as many.
FOUR_SQUARES = 4  # Coordinates that one record moves: every whole number is a sum of four squares.
# Variances of added normal noise, whole numbers from 2 to below this, that are tried.
MOST_ADDED = 64
SMOOTHED_BITS = 256  # Precision, in bits, of these trials.
OWN_LAW = Source(
    "dpaudit",
    2026,
    "the law of the clients' sum (Kairouz, Liu, Steinke 2021; Agarwal, Kairouz, Liu 2021); proof "
    "in families.distributed.rules",
)

PURE.absent(*KINDS, reason="the loss of such noise is unbounded")
for _calculus in (APPROX, CONCENTRATED, RENYI, GAUSSIAN):
    _calculus.absent(*KINDS, reason="its own law is accounted for as a whole: use profile")

VECTORS = (DistributedGaussianVector, DistributedSkellamVector)  # the same, of vectors
VECTOR_LAW = Source(
    "dpaudit",
    2026,
    "the clients' law between cells of normal noise (Kairouz, Liu, Steinke 2021; Agarwal, Kairouz, "
    "Liu 2021); proof in families.distributed.rules",
)

PURE.absent(*VECTORS, reason="the loss of such noise is unbounded")
APPROX.absent(*VECTORS, reason="a whole curve of (epsilon, delta), no one point of it: use profile")

Masses = tuple[int, int]


@PROFILE.rule(DistributedGaussian, "distributed_gaussian", cite=OWN_LAW)
def distributed_gaussian(node: DistributedGaussian) -> Losses:
    """The sum's noise around ``sensitivity`` against the noise around 0."""
    return _losses(node)


@PROFILE.rule(DistributedSkellam, "distributed_skellam", cite=OWN_LAW)
def distributed_skellam(node: DistributedSkellam) -> Losses:
    """The sum's noise around ``sensitivity`` against the noise around 0."""
    return _losses(node)


@lru_cache(maxsize=32)
def _losses(node: Any) -> Losses:
    outcomes = _outcomes(masses_of(node), int(node.sensitivity))
    return both(_above(outcomes), *([_below(outcomes)] if outcomes else []))


def _outcomes(masses: tuple[int, ...], move: int) -> list[Masses]:
    """(p, q) of every outcome in which both are above 0, by rising ratio."""
    last = len(masses) - 1
    return [(masses[abs(k - move)], masses[abs(k)]) for k in range(move - last, last + 1)]


def _cells(outcomes: list[Masses]) -> list[list[Masses]]:
    size = -(-len(outcomes) // MAX_CELLS) if len(outcomes) > 2 * MAX_CELLS else 1
    return [outcomes[k : k + size] for k in range(0, len(outcomes), size)]


def _above(outcomes: list[Masses]) -> Atoms:
    points = [point for cell in _cells(outcomes) for point in _spread(cell)]
    masses_left = MASS_UNIT - sum(p for p, _ in points), MASS_UNIT - sum(q for _, q in points)
    return _atoms([*points, (masses_left[0], 0), (0, masses_left[1])])


def _spread(cell: list[Masses]) -> list[Masses]:
    """Two outcomes of the cell's smallest and largest ratio, rounded down."""
    ratios = [Fraction(p, q) for p, q in cell]
    low, high = min(ratios), max(ratios)
    p, q = sum(a for a, _ in cell), sum(b for _, b in cell)
    if low == high:
        return [(p, q)]
    upper = (p - low * q) / (high - low)
    parts = ((low, q - upper), (high, upper))
    return [(int(ratio * part), int(part)) for ratio, part in parts if part >= 1]


def _below(outcomes: list[Masses]) -> Atoms:
    points = [(sum(p for p, _ in cell), sum(q for _, q in cell)) for cell in _cells(outcomes)]
    (p, q), mass_left = points[0], MASS_UNIT - sum(p for p, _ in points)
    points[0] = p + mass_left, q
    p, q = points[-1]
    points[-1] = p, q + MASS_UNIT - sum(q for _, q in points)
    return _atoms(_rising(points))


def _rising(outcomes: list[Masses]) -> list[Masses]:
    """Neighbours become one until the ratios p / q rise."""
    merged: list[Masses] = []
    for p, q in outcomes:
        while merged and merged[-1][0] * q >= p * merged[-1][1]:
            before = merged.pop()
            p, q = p + before[0], q + before[1]
        merged.append((p, q))
    return merged


def _atoms(outcomes: list[Masses]) -> Atoms:
    return Atoms(
        tuple((Fraction(p, MASS_UNIT), Fraction(q, MASS_UNIT)) for p, q in outcomes if p or q)
    )


# --- vectors -------------------------------------------------------------------------------------


def distributed_vector(node: Any) -> Number:
    """sqrt(squared / (w - (w + 1) / (12 w))); infinite for a w below 1/2."""
    variance = least_variance(node)
    if variance == 0:
        return infinity()
    return discrete_gaussian_vector_cells(
        DiscreteGaussianVector(node.label, variance, node.squared, ())
    )


for _kind, _name in (
    (DistributedGaussianVector, "distributed_gaussian_vector"),
    (DistributedSkellamVector, "distributed_skellam_vector"),
):
    gaussian(_kind, (_name, f"{_name}_zcdp", f"{_name}_curve"), distributed_vector, VECTOR_LAW)


@PROFILE.rule(DistributedGaussianVector, "distributed_gaussian_vector_pair", cite=VECTOR_LAW)
@PROFILE.rule(DistributedSkellamVector, "distributed_skellam_vector_pair", cite=VECTOR_LAW)
def distributed_vector_pair(node: Any) -> Losses:
    """N(mu, 1) against N(0, 1); reached: the own laws of up to four coordinates, or N(nu, 1)."""
    mu = distributed_vector(node)
    upper = REVEALS_ALL if is_infinite(mu) else Normal(mu)
    below: tuple[Pair, ...] = ()
    if node.modulus == 0:
        own = isinstance(node, DistributedSkellamVector) or node.total <= LARGEST_VARIANCE
        below = _several_moved(node) if own else _nearly_normal(node)
    return Losses((upper,), (upper,), below, below)


def _nearly_normal(node: Any) -> tuple[Pair, ...]:
    """N(nu, 1) against N(0, 1), for as little added noise as is proved to do."""
    import flint

    with flint.ctx.workprec(SMOOTHED_BITS):
        v, total, squares = map(enclose, (node.variance, node.total, node.squared))
        for r in range(2, MOST_ADDED):
            t = r - flint.arb(1) / 2
            mu, nu = (squares / (total + t)).sqrt(), (squares / (total + r)).sqrt()
            apart = FOUR_SQUARES * node.left * _ripple(v * t / (v + t))
            room = apart * (2 * flint.arb.pi()).sqrt() * (1 + (mu**2 / 8).exp())
            if mu - nu >= room:
                return (Normal(sqrt(node.squared / (node.total + r))),)
    return ()


def _ripple(w: Any) -> Any:
    """log(theta(0) / theta(1/2)), by Jacobi's product: of the terms up to 40, and all others."""
    import flint

    q = (-2 * flint.arb.pi() ** 2 * w).exp()
    total = flint.arb(0)
    for m in range(1, 41, 2):
        total += 2 * ((1 + q**m) / (1 - q**m)).log()
    # log((1 + x) / (1 - x)) <= 3 x where x <= 1/2; a geometric series of them.
    return total + flint.arb(0).union(6 * q**41 / (1 - q**2))


# The pair of a release that reveals which data set it comes from.
REVEALS_ALL = Atoms(((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))))


def _several_moved(node: Any) -> tuple[Pair, ...]:
    """Coordinates moved one after the other, each as far as the squares leave: at most four."""
    square_left, moved = int(node.squared), list[Pair]()
    while len(moved) < FOUR_SQUARES and (move := math.isqrt(square_left)):
        outcomes = _outcomes(masses_of(node), move)
        if not outcomes:
            break
        moved.append(_below(outcomes))
        square_left -= move * move
    return (joined(moved),) if moved else ()

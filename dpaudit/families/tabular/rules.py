"""Tables: noise on vectors of whole numbers, and thresholded counts; every calculus.

Vectors.  The coordinates' noises are independent, so a pair of runs is a product of one pair a
coordinate, each dominated by that of any larger move (:mod:`dpaudit.families.discrete.rules`).  So
one of the vectors of ``moves`` dominates every pair of runs: they are alternatives.  Renyi
divergences of a product add up, so that only the sum of squares counts there.

Vectors, Gaussian differential privacy.  Noise of variance v >= 1/2 (its parameter) has, at a whole
move of squares S in all, mu = sqrt(S / (v - c)), c = (v + 1) / (12 v): nearly the continuous noise
of variance v - 1/12.  Let T = sqrt(1 / (v - c)), p the law of the noise on the integers, and g(k)
the point that standard normal noise exceeds with probability P(noise >= k).
(1) g(k + 1) <= g(k) + T.  Take the normal masses q(j) of the cells from z + T (j - k) to
z + T (j + 1 - k), z = g(k).  p and q have equal sums over j >= k, and over j < k.  The second
differences of log p are -1 / v.  Those of log q are at most -T^2 (1 - T^2 / 12): the second
derivative of log(Phi(t + T) - Phi(t)) is -1 plus the variance of normal noise given that it lies in
an interval of length T, which is at most T^2 / 12 (of all log-concave laws on an interval with a
given mean, truncated exponentials have the largest variance, and the uniform one of these has).  As
T^2 (1 - T^2 / 12) >= 1 / v, log p/q is convex, so p <= q on an interval of integers; equal sums
put one of them at or after k, one before, hence p(k) <= q(k), which is (1).
(2) The likelihood ratio of a move by s rises, so its best tests are {noise + s >= k}, with error
rates P(noise >= k) and 1 - P(noise >= k - s); by (1) normal noise moved by s T does at least as
well at each.  Coordinates are independent, so that their mu^2 add up.

Thresholds.  Let E be the event that no key is shown which is there in this run's data alone.  Given
E, both runs release the same function of the noisy counts of the keys that both have.  E fails with
probability at most delta = own P(noise >= d), d = threshold - largest, so each run is a mixture
(1 - delta) A + delta B of that function's law A and some law B: it is post-processing of the noisy
common counts and of a bit that tells the data set with probability delta.  For Gaussian noise of
variance v, (d + j)^2 >= d^2 + 2 d j, and by Poisson summation the weights of all integers add up to
sqrt(2 pi v) or more; 6.28 < 2 pi.  Hence
P(noise >= d) <= exp(-d^2 / (2 v)) / ((1 - exp(-d / v)) sqrt(6.28 v)).
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.exact import Number, exp, infinity, is_infinite, is_symbolic, sqrt
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.families.discrete.rules import discrete_laplace_pair, lines_drawn
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, Step
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import (
    Atoms,
    Concentrated,
    DiscreteNormal,
    Losses,
    Normal,
    joined,
    opaque,
    product,
)

VECTORS = Source("Canonne, Kamath, Steinke", 2020, "Theorem 4; coordinates add up")
VECTOR_PAIR = Source("dpaudit", 2026, "independent coordinates (families.tabular.rules)")
SMOOTH = Source("dpaudit", 2026, "between cells of normal noise (families.tabular.rules)")
NORMAL_VARIANCE = 25  # Variance from which on normal noise dominates with mu at most 0.2% larger.
THRESHOLDS = Source(
    "Korolova, Kenthapadi, Mishra, Ntoulas", 2009, "Theorem 1; proof in families.tabular.rules"
)

PURE.absent(DiscreteGaussianVector, reason="the loss of Gaussian noise is unbounded")
APPROX.absent(
    DiscreteGaussianVector,
    reason="a whole curve of (epsilon, delta), no one point of it: use profile",
)
APPROX.absent(
    ThresholdedDiscreteGaussian,
    reason="a whole curve of (epsilon, delta), no one point of it: use profile",
)
for calculus in (PURE, CONCENTRATED, RENYI, GAUSSIAN):
    for kind in (ThresholdedDiscreteLaplace, ThresholdedDiscreteGaussian):
        calculus.absent(kind, reason="a key of one unit alone may be shown: use profile")


def _known(node: Node, premises: tuple[Step, ...] = ()) -> bool:
    """Whether it is known which vectors are reached."""
    return isinstance(node, DiscreteGaussianVector) and bool(node.moves)


@CONCENTRATED.rule(
    DiscreteGaussianVector, "discrete_gaussian_vector", cite=VECTORS, attained=_known
)
def discrete_gaussian_vector(node: DiscreteGaussianVector) -> Number:
    """squared / (2 variance): an equality at every whole order."""
    return node.squared / (2 * node.variance)


@RENYI.rule(DiscreteGaussianVector, "discrete_gaussian_vector_curve", cite=VECTORS)
def discrete_gaussian_vector_curve(node: DiscreteGaussianVector) -> Number:
    """alpha squared / (2 variance)."""
    return order() * node.squared / (2 * node.variance)


@GAUSSIAN.rule(DiscreteGaussianVector, "discrete_gaussian_vector_cells", cite=SMOOTH)
def discrete_gaussian_vector_cells(node: DiscreteGaussianVector) -> Number:
    """sqrt(12 v squared / (12 v^2 - v - 1)) of a variance v >= 1/2; infinite below."""
    v = node.variance
    if is_symbolic(v) or v < Fraction(1, 2):
        return infinity()
    return sqrt(12 * v * node.squared / (12 * v**2 - v - 1))


def _is_wide(node: DiscreteGaussianVector) -> bool:
    smooth = discrete_gaussian_vector_cells(node)
    return bool(not is_infinite(smooth) and node.variance >= NORMAL_VARIANCE)


def _by_normal(node: DiscreteGaussianVector) -> dict[str, bool]:
    """Whether normal noise stands for the listed moves."""
    return {"normal": True} if node.moves and _is_wide(node) else {}


@PROFILE.rule(
    DiscreteGaussianVector,
    "discrete_gaussian_vector_pair",
    cite=VECTOR_PAIR,
    witness=_by_normal,
)
def discrete_gaussian_vector_pair(node: DiscreteGaussianVector) -> Losses:
    """Normal noise where that is near; else one product for each vector of moves, alternatives.

    From below nothing is computed where normal noise stands for it.
    """
    smooth = discrete_gaussian_vector_cells(node)
    if _is_wide(node) or (not node.moves and not is_infinite(smooth)):
        return opaque(Normal(smooth))
    if not node.moves:
        return opaque(Concentrated(node.squared / (2 * node.variance)))
    pairs = tuple(
        product((DiscreteNormal(node.variance, size), count) for size, count in vector)
        for vector in node.moves
    )
    return Losses(pairs, pairs, pairs, pairs)


def told(node: ThresholdedDiscreteLaplace) -> Number:
    """own P(noise >= threshold - largest)."""
    distance = node.threshold - node.largest
    return node.own * exp(-distance / node.scale) / (1 + exp(-1 / node.scale))


@APPROX.rule(ThresholdedDiscreteLaplace, "thresholded", cite=THRESHOLDS)
def thresholded(node: ThresholdedDiscreteLaplace) -> tuple[Number, Number]:
    """(sensitivity / scale, delta)."""
    return node.sensitivity / node.scale, told(node)


@PROFILE.rule(ThresholdedDiscreteLaplace, "thresholded_pair", cite=THRESHOLDS, witness=lines_drawn)
def thresholded_pair(node: ThresholdedDiscreteLaplace) -> Losses:
    """Noise on the common counts, and a bit that reveals everything with probability delta."""
    noise = discrete_laplace_pair(DiscreteLaplace(node.label, node.scale, node.sensitivity))
    return _or_told(noise, told(node))


def gaussian_told(node: ThresholdedDiscreteGaussian) -> Number:
    """own P(noise >= threshold - largest), bounded from above."""
    distance, v = node.threshold - node.largest, node.variance
    below = (1 - exp(-distance / v)) * sqrt(Fraction(157, 25) * v)
    return node.own * exp(-(distance**2) / (2 * v)) / below


@PROFILE.rule(ThresholdedDiscreteGaussian, "thresholded_gaussian_pair", cite=THRESHOLDS)
def thresholded_gaussian_pair(node: ThresholdedDiscreteGaussian) -> Losses:
    """As of Laplace noise: the pair of a vector of which only the sum of squares is known."""
    vector = DiscreteGaussianVector(node.label, node.variance, node.squared, ())
    return _or_told(discrete_gaussian_vector_pair(vector), gaussian_told(node))


def _or_told(noise: Losses, delta: Number) -> Losses:
    """The pair of common counts, and a bit that reveals everything with probability delta."""
    nothing = Fraction(0)
    bit = Atoms(((delta, nothing), (nothing, delta), (1 - delta, 1 - delta)))
    return Losses((joined([noise.remove[0], bit]),), (joined([noise.add[0], bit]),))

"""Noise on the integers: every calculus.

Noise whose masses are log-concave on an interval of integers is dominated, at every smaller move,
by the pair of the largest one: the likelihood ratio of a move by k rises with the value, so the
best test is a half line {y >= t}, and P(Y >= t - k) - x P(Y >= t) grows with k at every t.

zCDP at order 1.  Let F(u) be the integral of P^(1/2+u) Q^(1/2-u).  Where it is even and all its
zeros are imaginary, F(u) = C prod(1 + u^2 / c_j^2), so log F is concave in u^2 and
log F(u) - log F(1/2) <= (u^2 - 1/4) F'(1/2) / F(1/2); with u = order - 1/2 this says that
D_order <= order D_1: rho is the Kullback-Leibler divergence, and is reached there.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from dpaudit.exact import (
    Number,
    enclose,
    erfinv,
    exp,
    infinity,
    is_symbolic,
    log,
    sqrt,
    tanh,
    unknowns,
)
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace, TruncatedDiscreteLaplace
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, Step, always
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.implied import largest_loss
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, DiscreteNormal, LaplaceShift, Losses, Pair

Outcomes = tuple[tuple[Number, Number], ...]

MAX_KINKS = 128  # Losses of the coarser pair that replaces an exact one with more losses.
# Second-order differences of a smaller epsilon are lost in a ball's digits: simpler bounds are
# used.
FAINT_EPSILON = Fraction(1, 2**30)
# A scale above this over FAINT_EPSILON, 2^100, leaves no digits of the divergence.
LONG_TAIL = Fraction(2**70)

CONCENTRATED_NOISE = Source("Canonne, Kamath, Steinke", 2020, "Theorem 4")
RENYI_NOISE = Source(
    "Canonne, Kamath, Steinke", 2020, "Proposition 5 (equal at whole order * move)"
)
OWN_PAIR = Source("dpaudit", 2026, "log-concave noise: the largest move dominates (rules.discrete)")
GEOMETRIC = Source("Ghosh, Roughgarden, Sundararajan", 2009, "the geometric mechanism, Section 1.2")
EXACT_ZCDP = Source("Harrison, Manurangsi", 2026, "discrete Laplace; proof in rules.discrete")
CORNERS = Source("Dong, Roth, Su", 2022, "Definition 2.6, checked at the corners (rules.discrete)")
TRUNCATED = Source(
    "Desfontaines, Voss, Gipson, Mandayam",
    2022,
    "truncated geometric noise; proof in rules.discrete",
)
ONE_SIDED = Source(
    "dpaudit", 2026, "an outcome that one side alone has: the divergence is infinite"
)

PURE.absent(DiscreteGaussian, reason="the loss of Gaussian noise is unbounded")
APPROX.absent(
    DiscreteGaussian, reason="a whole curve of (epsilon, delta), no one point of it: use profile"
)
GAUSSIAN.absent(
    DiscreteGaussian,
    reason="its trade-off curve is a polygon whose smallest mu has no closed form: use profile",
)


def faint(epsilon: Number) -> bool:
    """A number so small that differences of its second order are lost in a ball's digits.

    The bounds used then are off by less than a billionth.
    """
    return not unknowns(epsilon) and bool(enclose(FAINT_EPSILON - epsilon) > 0)


def grown(epsilon: Number) -> Number:
    """e^epsilon - 1, without loss of digits for a small epsilon."""
    return tanh(epsilon / 2) * (1 + exp(epsilon))


def fallen(epsilon: Number) -> Number:
    """1 - e^-epsilon, without loss of digits for a small epsilon."""
    return tanh(epsilon / 2) * (1 + exp(-epsilon))


def both(upper: Pair, *reached: Pair) -> Losses:
    """A pair that dominates in both directions: every pair of runs has its opposite here.

    The attained pair (by default the same one) is attained in both directions as well.
    """
    below = reached or (upper,)
    return Losses((upper,), (upper,), below, below)


# --- discrete Gaussian noise ---------------------------------------------------------------------


@CONCENTRATED.rule(DiscreteGaussian, "discrete_gaussian", cite=CONCENTRATED_NOISE, attained=always)
def discrete_gaussian(node: DiscreteGaussian) -> Number:
    """sensitivity^2 / (2 variance): an equality at every whole order."""
    return node.sensitivity**2 / (2 * node.variance)


@RENYI.rule(DiscreteGaussian, "discrete_gaussian_curve", cite=RENYI_NOISE)
def discrete_gaussian_curve(node: DiscreteGaussian) -> Number:
    """alpha sensitivity^2 / (2 variance): an equality where alpha * sensitivity is whole."""
    return order() * node.sensitivity**2 / (2 * node.variance)


@PROFILE.rule(DiscreteGaussian, "discrete_gaussian_pair", cite=OWN_PAIR)
def discrete_gaussian_pair(node: DiscreteGaussian) -> Losses:
    """The noise around ``sensitivity`` against the noise around 0."""
    return both(DiscreteNormal(node.variance, node.sensitivity))


# --- discrete Laplace noise ----------------------------------------------------------------------
# With a = exp(-1/scale) and D = sensitivity: P(Y >= t) = a^t / (1 + a) for t >= 1.  Against the
# noise around D, the loss of outcome k in 0..D is (2 k - D) / scale, and all others have these.


# The loss of every outcome at or beyond the larger answer.
largest_loss(
    "discrete_laplace", lambda node: node.sensitivity / node.scale, GEOMETRIC, DiscreteLaplace
)


def _is_sharp(node: Node, premises: tuple[Step, ...] = ()) -> bool:
    """Where the divergence has digits left: elsewhere that of randomised response is used."""
    if not isinstance(node, DiscreteLaplace):
        return False
    return not (faint(node.sensitivity / node.scale) or faint(LONG_TAIL / node.scale))


def _plainer(node: Node) -> dict[str, bool]:
    return {} if _is_sharp(node) else {"plain": True}


@CONCENTRATED.rule(
    DiscreteLaplace,
    "discrete_laplace_divergence",
    cite=EXACT_ZCDP,
    attained=_is_sharp,
    witness=_plainer,
)
def discrete_laplace_divergence(node: DiscreteLaplace) -> Number:
    """The Kullback-Leibler divergence (D - 2 a (1 - a^D) / (1 - a^2)) / scale.

    Proof (see above): F(u) is, up to a factor, (sinh((D+1) v) - a sinh((D-1) v)) / sinh(v) with
    v = u / scale.  At v = i t the numerator is sin((D+1) t) - a sin((D-1) t), a trigonometric
    polynomial of degree D + 1 that changes sign 2 (D+1) times a period, as |a sin| < 1: it has no
    zeros but real t.
    """
    epsilon = node.sensitivity / node.scale
    if not _is_sharp(node):
        return epsilon * tanh(epsilon / 2)
    near, far = exp(-1 / node.scale), exp(-epsilon)
    return (node.sensitivity - 2 * near * (1 - far) / (1 - near**2)) / node.scale


@RENYI.rule(
    DiscreteLaplace,
    "discrete_laplace_curve",
    cite=OWN_PAIR,
    attained=_is_sharp,
    witness=_plainer,
)
def discrete_laplace_curve(node: DiscreteLaplace) -> Number:
    """The Renyi divergence of its pair: two tails, and a geometric sum over 0 < k < D."""
    if not _is_sharp(node):
        return order() * discrete_laplace_divergence(node)
    alpha, scale, move = order(), node.scale, node.sensitivity
    near = exp(-1 / scale)
    low, high = exp(-alpha * move / scale), exp((alpha - 1) * move / scale)
    ratio = exp((2 * alpha - 1) / scale)
    inside = (1 - near) * (high - low * ratio) / (ratio - 1)
    return log((low + high + inside) / (1 + near)) / (alpha - 1)


@GAUSSIAN.rule(DiscreteLaplace, "discrete_laplace_corner", cite=CORNERS)
def discrete_laplace_corner(node: DiscreteLaplace) -> Number:
    """-Phi^{-1}(P(Y >= m)) - Phi^{-1}(P(Y >= D + 1 - m)) with m = floor((D + 1) / 2).

    The trade-off curve is a polygon with corners (P(Y >= t), P(Y >= D + 1 - t)), t = 1..D, and
    G_mu, being convex, lies below it if it does at the corners.  t -> -Phi^{-1}(c e^(-t/scale)) is
    concave (it inverts -log of the normal tail, which is convex), so the corner in the middle asks
    for the largest mu.
    """
    middle = _floor((node.sensitivity + 1) / 2)
    return sqrt(2) * (
        _quantile(node.scale, middle) + _quantile(node.scale, node.sensitivity + 1 - middle)
    )


def _quantile(scale: Number, threshold: Number) -> Number:
    """erfinv(1 - 2 P(Y >= threshold))."""
    return erfinv(1 - 2 * exp(-threshold / scale) / (1 + exp(-1 / scale)))


def _floor(value: Number) -> Number:
    if not is_symbolic(value):
        return Fraction(value.numerator // value.denominator)
    import sympy

    return sympy.floor(value)


def _many(move: Number) -> bool:
    return not is_symbolic(move) and move > MAX_KINKS


def lines_drawn(node: DiscreteLaplace) -> dict[str, int]:
    """Between how many losses the profile of much noise on the integers is drawn."""
    return {"kinks": MAX_KINKS} if _many(node.sensitivity) else {}


@PROFILE.rule(DiscreteLaplace, "discrete_laplace_pair", cite=OWN_PAIR, witness=lines_drawn)
def discrete_laplace_pair(node: DiscreteLaplace) -> Losses:
    """One coordinate moved by D, which dominates any split of D over several.

    Its profile at the losses (2 k - D) / scale is 1 - exp((loss - D/scale) / 2), that of continuous
    noise, and linear in x between them.  Split: the product of moves d <= e, d + e = D, has the
    same losses, so its profile is linear between them too; at such a t >= 0 it is at most the
    second pair's at t - d/scale, as the first loss is at most d/scale; that is the same number.
    Above ``MAX_KINKS`` losses the line is drawn between fewer of them (for a symbolic D between the
    two ends), which is above it; the reached pair is then that of continuous noise.
    """
    move, scale = node.sensitivity, node.scale
    if not (is_symbolic(move) or _many(move)):
        total = 1 + exp(-1 / scale)
        return both(Atoms(_by_loss(scale, int(move), 1 / total, total)))
    return both(Atoms(_coarser(scale, move)), LaplaceShift(move / scale))


def _by_loss(scale: Number, move: int, tail: Number, whole: Number) -> Outcomes:
    """The noise around ``move`` against the noise around 0: two tails, and 0 < k < move.

    ``tail`` is the mass of either noise from its centre outward, away from the other; ``whole`` is
    1 - a over its mass at the centre.
    """
    far, near = tail * exp(-move / scale), fallen(1 / scale)
    between = (
        (near * exp(Fraction(k - move) / scale) / whole, near * exp(-Fraction(k) / scale) / whole)
        for k in range(1, move)
    )
    return ((far, tail), *between, (tail, far))


def _coarser(scale: Number, move: Number) -> Outcomes:
    """The profile of continuous noise around ``move`` against 0, linear in x between some kinks.

    In x the slope from kink s to the next, t, is -exp(-t/scale) / (1 + exp(-(t - s)/scale)); the Q
    mass of a kink is how much the slope rises there, its P mass that times x.
    """
    if is_symbolic(move):
        return _answers(move / scale, Fraction(1))
    kinks = [Fraction(int(move) * i // MAX_KINKS) for i in range(MAX_KINKS + 1)]
    slopes = [exp(-t / scale) / (1 + exp((s - t) / scale)) for s, t in pairwise(kinks)]
    masses = [high - low for high, low in pairwise((Fraction(1), *slopes, Fraction(0)))]
    odds = [exp((2 * kink - move) / scale) for kink in kinks]
    return tuple((mass * x, mass) for mass, x in zip(masses, odds, strict=True))


# --- truncated discrete Laplace noise ------------------------------------------------------------


@PURE.rule(TruncatedDiscreteLaplace, "truncated", cite=ONE_SIDED, attained=always)
@CONCENTRATED.rule(TruncatedDiscreteLaplace, "truncated", cite=ONE_SIDED, attained=always)
@RENYI.rule(TruncatedDiscreteLaplace, "truncated", cite=ONE_SIDED, attained=always)
@GAUSSIAN.rule(TruncatedDiscreteLaplace, "truncated", cite=ONE_SIDED, attained=always)
def truncated(node: TruncatedDiscreteLaplace) -> Number:
    """Infinite: the largest outcomes have probability 0 on one side."""
    return infinity()


@APPROX.rule(TruncatedDiscreteLaplace, "truncated_discrete_laplace", cite=TRUNCATED)
def truncated_discrete_laplace(node: TruncatedDiscreteLaplace) -> tuple[Number, Number]:
    """(sensitivity / scale, P(Y > bound - sensitivity)), the smallest delta at that epsilon."""
    return node.sensitivity / node.scale, _told(node)


def _weights(node: TruncatedDiscreteLaplace) -> Number:
    """1 - a over the mass at the centre: (1 - a) times the sum of a^|k| over all values."""
    return fallen(1 / node.scale) + 2 * exp(-1 / node.scale) * fallen(node.bound / node.scale)


def _told(node: TruncatedDiscreteLaplace) -> Number:
    """P(one of the ``sensitivity`` largest values), which the other data set cannot give.

    a^(B - D + 1) (1 - a^D) / weights, for bound B, sensitivity D and a = exp(-1 / scale).
    """
    outer = exp(-(node.bound - node.sensitivity + 1) / node.scale)
    return outer * fallen(node.sensitivity / node.scale) / _weights(node)


def _coarse(node: TruncatedDiscreteLaplace) -> dict[str, bool]:
    return {"coarse": True} if _many(node.sensitivity) else {}


@PROFILE.rule(TruncatedDiscreteLaplace, "truncated_pair", cite=TRUNCATED, witness=_coarse)
def truncated_pair(node: TruncatedDiscreteLaplace) -> Losses:
    """The noise around ``sensitivity`` against the noise around 0; its ends have infinite loss.

    For a symbolic sensitivity, or one above ``MAX_KINKS``: randomised response with probability
    1 - delta dominates, and the move by 1 is reached.
    """
    if not (is_symbolic(node.sensitivity) or _many(node.sensitivity)):
        return both(_moved(node))
    smallest = TruncatedDiscreteLaplace(node.label, node.scale, node.bound, Fraction(1))
    revealing, epsilon = _told(node), node.sensitivity / node.scale
    return both(
        Atoms((*_tells_all(revealing), *_answers(epsilon, 1 - revealing))), _moved(smallest)
    )


def _moved(node: TruncatedDiscreteLaplace) -> Atoms:
    """The end on either side, which the other does not have, and the outcomes that both have."""
    move, total = int(node.sensitivity), _weights(node)
    tail = fallen((node.bound - move + 1) / node.scale) / total
    return Atoms((*_tells_all(_told(node)), *_by_loss(node.scale, move, tail, total)))


def _tells_all(delta: Number) -> Outcomes:
    return (delta, Fraction(0)), (Fraction(0), delta)


def _answers(epsilon: Number, mass: Number) -> Outcomes:
    """Two answers with odds e^epsilon : 1, of a mass in all."""
    likely, unlikely = mass / (1 + exp(-epsilon)), mass / (1 + exp(epsilon))
    return (likely, unlikely), (unlikely, likely)

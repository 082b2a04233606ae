"""Selection: the exponential mechanism, noisy maxima, and thresholds; every calculus.

Bounded range.  With scores that move by at most 1, the log-likelihood ratio of the exponential
mechanism lies in an interval of width r = epsilon (monotone scores: epsilon / 2), somewhere around
0.  A divergence of P from Q is the mean over P of a convex function of Q/P, whose own mean is 1:
moving mass to the two ends of the interval does not lower it.  So the worst pairs have two outcomes
with losses t and t - r, for some 0 <= t <= r, and

    P(t) = (e^r - e^t) / (e^r - 1),    Q(t) = (e^(r - t) - 1) / (e^r - 1).

Two candidates reach each of them: scores that make Q(t), then up by 1 and down by 1.
Source: Durfee, Rogers 2019; Dong, Durfee, Rogers 2020, Section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.exact import Number, exp, log, tanh, unknowns
from dpaudit.exact.wire import encode_number
from dpaudit.families.discrete.rules import both, faint, grown
from dpaudit.families.selection import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerExponentialMechanism,
    NoisyComparisons,
    ReportNoisyMax,
    Scores,
    SelectionNoise,
)
from dpaudit.measures.calculus import Source, Step
from dpaudit.measures.gdp import GAUSSIAN, corner
from dpaudit.measures.implied import largest_loss
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, Losses

MAX_KINKS = 128  # Losses between which a profile is drawn linearly.
# Shares of the loss at which two candidates attain it.
TWO_CANDIDATES = (Fraction(1, 2), Fraction(3, 4), Fraction(63, 64))

MCSHERRY_TALWAR = Source("McSherry, Talwar", 2007, "Theorem 6; monotone scores: rules.selection")
RANGE_ZCDP = Source(
    "Cesar, Rogers", 2021, "range^2 / 8; of a number: Harrison, Manurangsi 2026, bounded range"
)
RANGE_CURVE = Source(
    "Dong, Durfee, Rogers", 2020, "Section 4 (generalised randomised response), at the worst t"
)
NOISY_MAX = Source(
    "Dwork, Roth", 2014, "Claim 3.9 (counts); other scores and noises: proof in rules.selection"
)
SPARSE = Source(
    "Lyu, Su, Li", 2017, "Theorems 4 and 5 (Dwork, Roth 2014, Theorem 3.23: one yes, even split)"
)
PURE_CURVE = Source("Mironov", 2017, "Table II, of the pair of Kairouz, Oh, Viswanath 2017")
PURE_ZCDP = Source(
    "Steinke", 2024, "sharp zCDP from pure DP; symbols: Bun, Steinke 2016, Prop. 1.4"
)
PURE_CORNER = Source("Dong, Roth, Su", 2022, "Proposition 2.5, at its corner (as for PureDP)")
PURE_PAIR = Source("Kairouz, Oh, Viswanath", 2017, "Theorem 3.3 (the extremal pair)")


# --- guarantees of a bounded range ---------------------------------------------------------------


def tight_zcdp(width: Number) -> Number:
    """log((e^r - 1) / r) - 1 + r / (e^r - 1): the largest divergence at order 1, over all t.

    It is at most r^2 / 8, which is what is used where r holds symbols (sums of it stay closed, and
    claims decidable), and for a faint r.
    """
    if unknowns(width) or faint(width):
        return width**2 / 8
    return log(grown(width) / width) - 1 + width / grown(width)


def range_curve(width: Number) -> Number:
    """The largest Renyi divergence over t, reached by two candidates at each order.

    With s = alpha - 1, A = e^r - e^(-s r), B = 1 - e^(-s r) and u = e^t the moments are
    u^s (A - u B) / (e^r - 1), largest at u = s A / ((s + 1) B).  (A faint r: alpha r^2 / 8.)
    """
    alpha, before = order(), order() - 1
    if faint(width):
        return alpha * tight_zcdp(width)
    rise = grown(alpha * width) / alpha
    worst = log(before * rise / grown(before * width))
    return worst + log(rise / grown(width)) / before - width


def range_losses(width: Number) -> Losses:
    """The largest profile over t, (e^(r/2) - sqrt(x))^2 / (e^r - 1) for |log x| <= r.

    Proof: delta of a pair at x is P(t) - x Q(t), largest at e^t = sqrt(x e^r).  The result is
    convex and starts with slope -1, so it is a profile; the line drawn in x between n =
    ``MAX_KINKS`` equal steps of the loss is above it.  Attained: two candidates, for a few t (first
    the even one, which gives the most in sums; the last comes near a single run's largest loss).
    """
    # (P, Q) masses at the losses r (2 i / n - 1), from the rises of the slope.  Between sqrt(x) = y
    # and z the slope is (1 - 2 e^(r/2) / (y + z)) / (e^r - 1), so the Q mass is
    # 2 tanh(r / (2 n)) e^(r - r i / n) / (e^r - 1), half of that at the ends; P's is e^loss Q's.
    unit = 2 * tanh(width / (2 * MAX_KINKS)) / grown(width)
    rises = [unit * exp(width * Fraction(MAX_KINKS - i, MAX_KINKS)) for i in range(MAX_KINKS + 1)]
    rises[0], rises[MAX_KINKS] = rises[0] / 2, rises[MAX_KINKS] / 2
    return both(
        Atoms(tuple(zip(reversed(rises), rises, strict=True))),
        *(_two_candidates(width, t) for t in TWO_CANDIDATES),
    )


def _two_candidates(width: Number, share: Fraction) -> Atoms:
    """The pair with losses t = share * r and t - r."""
    total, high, low = grown(width), grown(share * width), grown((1 - share) * width)
    likely = exp(share * width) * low / total
    return Atoms(((likely, low / total), (high / total, exp((1 - share) * width) * high / total)))


# --- guarantees of a largest loss ----------------------------------------------------------------


def pure_zcdp(epsilon: Number) -> Number:
    """epsilon tanh(epsilon/2) (randomised response at order 1); epsilon^2 / 2 where it is symbolic.

    Randomised response dominates; log cosh(epsilon u) is concave in u^2 (see rules.discrete).
    """
    return epsilon**2 / 2 if unknowns(epsilon) else epsilon * tanh(epsilon / 2)


def pure_curve(epsilon: Number) -> Number:
    """The Renyi divergence of randomised response, which dominates (faint: alpha times zCDP)."""
    alpha = order()
    if faint(epsilon):
        return alpha * pure_zcdp(epsilon)
    moments = exp(alpha * epsilon) + exp((1 - alpha) * epsilon)
    return log(moments / (1 + exp(epsilon))) / (alpha - 1)


def pure_atoms(epsilon: Number) -> Atoms:
    """Randomised response."""
    return two_answers(1 / (1 + exp(-epsilon)), 1 / (1 + exp(epsilon)))


def two_answers(likely: Number, unlikely: Number) -> Atoms:
    """An answer of these probabilities on either side, and its opposite; they sum to 1."""
    return Atoms(((likely, unlikely), (unlikely, likely)))


def largest_losses(
    kind: type[Node], name: str, loss: Callable[[Any], Number], cite: Source
) -> None:
    """Register what a largest loss gives, reached in the limit, in every calculus of numbers."""
    largest_loss(name, loss, cite, kind)

    @CONCENTRATED.rule(kind, f"{name}_divergence", cite=PURE_ZCDP)
    def divergence(node: Node) -> Number:
        """The zCDP of a pure guarantee."""
        return pure_zcdp(loss(node))

    @RENYI.rule(kind, f"{name}_curve", cite=PURE_CURVE, witness=lambda node: _plainer(loss(node)))
    def curve(node: Node) -> Number:
        """The Renyi curve of a pure guarantee."""
        return pure_curve(loss(node))

    @GAUSSIAN.rule(kind, f"{name}_corner", cite=PURE_CORNER)
    def corner_of_loss(node: Node) -> Number:
        """The Gaussian DP of a pure guarantee."""
        return corner(loss(node))


# --- the exponential mechanism -------------------------------------------------------------------


def width_of(node: ExponentialMechanism | ReportNoisyMax) -> Number:
    """How far log-likelihood ratios can lie apart: epsilon, or half of it for monotone scores."""
    return node.epsilon / 2 if node.scores is Scores.MONOTONE else node.epsilon


def _of_a_number(node: Node, premises: tuple[Step, ...]) -> bool:
    """The sharp zCDP bound is used, and reached: not where epsilon holds symbols, or is faint."""
    if not isinstance(node, (ExponentialMechanism, ReportNoisyMax)):
        return False
    ranged = isinstance(node, ExponentialMechanism) or _gumbel(node, premises)
    return ranged and not unknowns(node.parameters["epsilon"]) and not faint(width_of(node))


def _gumbel(node: Node, premises: tuple[Step, ...]) -> bool:
    return isinstance(node, ReportNoisyMax) and node.noise is SelectionNoise.GUMBEL


def _gumbel_curve(node: Node, premises: tuple[Step, ...]) -> bool:
    return (
        isinstance(node, ReportNoisyMax) and _gumbel(node, premises) and not faint(width_of(node))
    )


def _plainer(epsilon: Number) -> dict[str, bool]:
    return {"plain": True} if faint(epsilon) else {}


def _plainer_range(node: ExponentialMechanism | ReportNoisyMax) -> dict[str, bool]:
    return _plainer(width_of(node))


def _drawn(node: ExponentialMechanism | ReportNoisyMax) -> dict[str, Any]:
    """Between how many losses a range's profile is drawn, and which pairs are named as reached."""
    if isinstance(node, ReportNoisyMax) and node.noise is not SelectionNoise.GUMBEL:
        return {}
    return {"kinks": MAX_KINKS, "shares": [encode_number(share) for share in TWO_CANDIDATES]}


def _not_faint(node: Node, premises: tuple[Step, ...]) -> bool:
    return isinstance(node, ExponentialMechanism) and not faint(width_of(node))


# No smaller epsilon than the range holds for all scores: t -> range as one of two grows likely.
RANGED = ExponentialMechanism, IntegerExponentialMechanism
largest_loss("exponential_mechanism", width_of, MCSHERRY_TALWAR, *RANGED)


@CONCENTRATED.rule(
    RANGED,
    "exponential_mechanism_divergence",
    cite=RANGE_ZCDP,
    attained=_of_a_number,
    witness=_plainer_range,
)
def exponential_mechanism_divergence(node: ExponentialMechanism) -> Number:
    """The zCDP of a bounded range; attained at order 1 by two candidates."""
    return tight_zcdp(width_of(node))


@RENYI.rule(
    RANGED,
    "exponential_mechanism_curve",
    cite=RANGE_CURVE,
    attained=_not_faint,
    witness=_plainer_range,
)
def exponential_mechanism_curve(node: ExponentialMechanism) -> Number:
    """The Renyi curve of a bounded range."""
    return range_curve(width_of(node))


@GAUSSIAN.rule(RANGED, "exponential_mechanism_corner", cite=RANGE_CURVE)
def exponential_mechanism_corner(node: ExponentialMechanism) -> Number:
    """The corner rule of (range / 2)-DP, t = r / 2, which asks for the largest mu of all t.

    Proof: with F = Q(t), G = P(t) the corner of t asks for mu(t) = Phi^{-1}(G) - Phi^{-1}(F).  As
    G / F = e^t and (1 - G) / (1 - F) = e^(t - r), G' / F' = e^(2 t - r) = G (1 - G) / (F (1 - F)).
    So mu' = F' / (F (1 - F)) * (1 / J(G) - 1 / J(F)), where J(Phi(z)) = phi(z) / (Phi(z) Phi(-z))
    is h(z) + h(-z) for the hazard rate h, which is convex (Sampford 1953): J grows with
    |p - 1/2|.  F' < 0, so mu rises while G (1 - G) <= F (1 - F), up to t = r / 2, then falls.
    """
    return corner(width_of(node) / 2)


@PROFILE.rule(RANGED, "exponential_mechanism_pairs", cite=RANGE_CURVE, witness=_drawn)
def exponential_mechanism_pairs(node: ExponentialMechanism) -> Losses:
    """The pairs of a bounded range."""
    return range_losses(width_of(node))


# --- report noisy max ----------------------------------------------------------------------------


def noisy_max(node: ReportNoisyMax) -> Number:
    """epsilon; half of it for monotone scores.

    Given all other noise, a candidate wins where its own exceeds a level, which neighbours move by
    at most 2 (monotone: 1); the noise's tail falls no faster than e^(-epsilon/2) a unit.  Reached,
    in the limit, by a candidate ever further behind the others, where the tail falls just so.
    """
    return width_of(node)


largest_loss("noisy_max", noisy_max, NOISY_MAX, ReportNoisyMax)


@CONCENTRATED.rule(
    ReportNoisyMax,
    "noisy_max_divergence",
    cite=PURE_ZCDP,
    attained=_of_a_number,
    witness=_plainer_range,
)
def noisy_max_divergence(node: ReportNoisyMax) -> Number:
    """Gumbel noise is the exponential mechanism; otherwise of a pure guarantee.

    Exponential noise has no range of width epsilon: two candidates at a tie have losses epsilon and
    -log(2 - e^-epsilon).
    """
    width = width_of(node)
    return tight_zcdp(width) if node.noise is SelectionNoise.GUMBEL else pure_zcdp(width)


@RENYI.rule(
    ReportNoisyMax,
    "noisy_max_curve",
    cite=PURE_CURVE,
    attained=_gumbel_curve,
    witness=_plainer_range,
)
def noisy_max_curve(node: ReportNoisyMax) -> Number:
    """Gumbel noise is the exponential mechanism; otherwise of a pure guarantee."""
    width = width_of(node)
    return range_curve(width) if node.noise is SelectionNoise.GUMBEL else pure_curve(width)


@GAUSSIAN.rule(ReportNoisyMax, "noisy_max_corner", cite=PURE_CORNER)
def noisy_max_corner(node: ReportNoisyMax) -> Number:
    """Gumbel noise is the exponential mechanism; otherwise the corner rule."""
    width = width_of(node)
    return corner(width / 2 if node.noise is SelectionNoise.GUMBEL else width)


@PROFILE.rule(ReportNoisyMax, "noisy_max_pairs", cite=PURE_PAIR, witness=_drawn)
def noisy_max_pairs(node: ReportNoisyMax) -> Losses:
    """Gumbel noise is the exponential mechanism; otherwise randomised response dominates.

    Reached by two candidates whose gap, in scales of the noise, moves by r: from r/2 on one side of
    a tie to the other, or (exponential noise) away from a tie.  At a gap g the one behind wins with
    probability e^-g / 2 (exponential noise) or e^-g (1 + g/2) / 2 (Laplace noise).
    """
    width = width_of(node)
    if node.noise is SelectionNoise.GUMBEL:
        return range_losses(width)
    behind = exp(-width / 2) / 2
    if node.noise is SelectionNoise.LAPLACE:
        behind = behind * (1 + width / 4)
    across = two_answers(1 - behind, behind)
    if node.noise is SelectionNoise.LAPLACE:
        return both(pure_atoms(width), across)
    half, far = Fraction(1, 2), exp(-width) / 2
    return both(pure_atoms(width), across, Atoms(((half, far), (half, 1 - far))))


# --- above threshold -----------------------------------------------------------------------------


def threshold_loss(node: AboveThreshold) -> Number:
    """epsilon_threshold + epsilon_query, or with monotone queries half of the latter.

    Move the threshold's noise by 1, and it is no harder to stay below; each of the ``answers``
    yeses then needs 2 units more (monotone: 1), each at most epsilon_query / (2 answers).

    No smaller epsilon holds for every number of queries: after many noes at equal queries the
    threshold's noise is high, where its tail falls by exactly e^-epsilon_threshold a unit; yeses at
    queries far below lie in the tail of theirs.
    """
    query = node.epsilon_query
    return node.epsilon_threshold + (query / 2 if node.scores is Scores.MONOTONE else query)


largest_losses(AboveThreshold, "above_threshold", threshold_loss, SPARSE)


@PROFILE.rule(AboveThreshold, "above_threshold_pairs", cite=PURE_PAIR)
def above_threshold_pairs(node: AboveThreshold) -> Losses:
    """Randomised response dominates; no pair that is reached has a closed form."""
    upper = pure_atoms(threshold_loss(node))
    return Losses((upper,), (upper,))


# --- comparisons with fresh noise ----------------------------------------------------------------

FRESH = Source("dpaudit", 2026, "the hazard of the noise rises: proof in rules.selection")


def comparisons_loss(node: NoisyComparisons) -> Number:
    """answers / max(both scales).

    An answer is whether the sum of both noises exceeds a number, which moves by at most 1.  The sum
    is log-concave, so that its hazard rises, to that of the longer tail, 1 / max(both scales):
    neither answer's log-likelihood moves by more, and far out each moves by as much.
    """
    return node.answers / max(node.threshold_scale, node.query_scale)


def below(node: NoisyComparisons, margin: Number) -> Number:
    """P(sum of both noises < margin), margin >= 0: two Laplace tails of scales a and b,

    1 - (b^2 e^(-margin/b) - a^2 e^(-margin/a)) / (2 (b^2 - a^2)).
    """
    a, b = node.threshold_scale, node.query_scale
    tails = b**2 * exp(-margin / b) - a**2 * exp(-margin / a)
    return 1 - tails / (2 * (b**2 - a**2))


largest_losses(NoisyComparisons, "noisy_comparisons", comparisons_loss, FRESH)


@PROFILE.rule(NoisyComparisons, "noisy_comparisons_pairs", cite=PURE_PAIR)
def noisy_comparisons_pairs(node: NoisyComparisons) -> Losses:
    """Randomised response dominates; that all answers are no is reached, at the leaf's margin."""
    chance, other = (below(node, m) ** node.answers for m in (node.margin, node.margin - 1))
    return both(
        pure_atoms(comparisons_loss(node)), Atoms(((chance, other), (1 - chance, 1 - other)))
    )

"""A pair that dominates another of which the checker computes no profile: crude, and its own.

    Allocated           Normal(1 / z): a mixture of moves of that length (joint convexity)
    Thresholded         the answer and then the release: the answer is (epsilon, P(R = 0))-DP, since
                        no mass of R but the one at its end is more than e^epsilon times the next
    Clones, Blanket     fewer others: one more is a report drawn alike on either side, which whoever
                        sees the counts may add
    Mixed               its base (joint convexity)
    Swapped             what dominates the base, swapped
    Largest, Spliced    the product of all members: each is a marginal of it
    Branched            which branch is seen, and then the product of all bases
    Product             factor by factor

Sources: van Erven, Harremoes 2014, Theorem 13; Kairouz, Oh, Viswanath 2017, Theorem 3.3; Zhu, Dong,
Wang 2022, Theorem 10.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpaudit.check.profile.cells import NotConfirmed, ball
from dpaudit.check.profile.clones import MOST_OTHERS
from dpaudit.check.profile.closed import has_closed
from dpaudit.check.profile.onestep import is_known
from dpaudit.check.profile.values import has_values
from dpaudit.exact import canonical, decimal_upper, exp, is_symbolic, sympify
from dpaudit.pairs import (
    Atoms,
    Normal,
    Pair,
    joined,
    product,
)
from dpaudit.pairs.core import Threshold

ONE = Fraction(1)
# As many as any rates are computed with.
FEWER_OTHERS = 2**20


def is_computed(pair: Pair) -> bool:
    """Whether the checker computes upper bounds of this pair's own profile."""
    if has_closed(pair) or all(_is_computed(factor) for factor, _ in pair.factors):
        return True
    return pair.is_over_compositions and all(map(is_computed, pair.inner))


def _is_computed(factor: Pair) -> bool:
    return not _is_crowded(factor) and (is_known(factor) or has_values(factor))


def _is_crowded(factor: Pair) -> bool:
    """Whether one report is among more others than are computed with."""
    report = factor.report
    if report is None or is_symbolic(report.others):
        return False
    return bool(report.others >= MOST_OTHERS)


def coarser(pair: Pair) -> Pair:
    """The pair itself where the checker computes it, else one that dominates it.

    Errors: NotConfirmed where none is known.
    """
    if is_computed(pair):
        return pair
    return product((_coarse(factor), times) for factor, times in pair.factors)


def _coarse(pair: Pair) -> Pair:
    if pair.is_product:
        return coarser(pair)
    if _is_computed(pair):
        return pair
    if _is_crowded(pair):
        return pair.among(Fraction(FEWER_OTHERS))
    if pair.slotted is not None and not pair.slotted.others_move:
        return Normal(1 / pair.slotted.noise_multiplier)
    if pair.threshold is not None:
        return _thresholded(pair.threshold)
    if pair.sample is not None:
        return _coarse(pair.sample.base)
    if pair.is_swapped:
        return _coarse(pair.unswapped).swapped
    return _of_parts(pair)


def _of_parts(pair: Pair) -> Pair:
    if len(pair.alternatives) > 1:
        return _all(pair.alternatives)
    if pair.splice is not None and pair.replacement is None:
        return _all(pair.splice)
    if pair.seen:
        visible = Atoms(tuple((p, q) for p, q, _ in pair.seen))
        return joined((visible, _all(base for _, _, base in pair.seen)))
    raise NotConfirmed(type(pair).__name__)


def _all(pairs: Iterable[Pair]) -> Pair:
    return joined(dict.fromkeys(map(_coarse, pairs)))


def _thresholded(pair: Threshold) -> Pair:
    if any(map(is_symbolic, (pair.offset, pair.slope, pair.kappa))):
        raise NotConfirmed("a threshold with parameters that are no fractions")
    ends = (pair.offset + pair.slope * share for share in (1, 4 * pair.kappa + 1))
    epsilon = ball(pair.epsilon)
    # P(R = 0) = exp(-epsilon kappa) / (1 + 2 (r + ... + r^kappa)), r = exp(-epsilon).
    r = (-epsilon).exp()
    end = r ** int(pair.kappa)
    total = 1 + 2 * r * (1 - end) / (1 - r)
    lost = min(Fraction(decimal_upper(Fraction(float((end / total).upper()) * (1 + 1e-9)))), ONE)
    likely, unlikely = (
        canonical(sympify((1 - lost) / (1 + exp(e)))) for e in (-pair.epsilon, pair.epsilon)
    )
    zero = Fraction(0)
    answers = Atoms(((lost, zero), (zero, lost), (likely, unlikely), (unlikely, likely)))
    return joined((answers, Normal(max(map(abs, ends)))))

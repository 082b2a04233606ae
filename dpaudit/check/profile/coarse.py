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
from dataclasses import replace
from fractions import Fraction

from dpaudit.check.profile.cells import NotConfirmed, ball
from dpaudit.check.profile.clones import MOST_OTHERS
from dpaudit.check.profile.closed import has_closed
from dpaudit.check.profile.onestep import is_known
from dpaudit.check.profile.values import has_values
from dpaudit.exact import canonical, decimal_upper, exp, is_symbolic, sympify
from dpaudit.pairs import (
    Allocated,
    Atoms,
    Blanket,
    Branched,
    Clones,
    Largest,
    Mixed,
    Normal,
    Pair,
    Product,
    Spliced,
    Swapped,
    Thresholded,
    joined,
    product,
)

ONE = Fraction(1)
# As many as any rates are computed with.
FEWER_OTHERS = 2**20


def is_computed(pair: Pair) -> bool:
    """Whether the checker computes upper bounds of this pair's own profile."""
    return has_closed(pair) or all(_is_computed(factor) for factor, _ in pair.factors)


def _is_computed(factor: Pair) -> bool:
    return not _is_crowded(factor) and (is_known(factor) or has_values(factor))


def _is_crowded(factor: Pair) -> bool:
    """Whether one report is among more others than are computed with."""
    if not isinstance(factor, Clones | Blanket) or is_symbolic(factor.others):
        return False
    return bool(factor.others >= MOST_OTHERS)


def coarser(pair: Pair) -> Pair:
    """The pair itself where the checker computes it, else one that dominates it.

    Errors: NotConfirmed where none is known.
    """
    if is_computed(pair):
        return pair
    return product((_coarse(factor), times) for factor, times in pair.factors)


def _coarse(pair: Pair) -> Pair:
    if isinstance(pair, Product):
        return coarser(pair)
    if _is_computed(pair):
        return pair
    if isinstance(pair, Clones | Blanket) and _is_crowded(pair):
        return replace(pair, others=Fraction(FEWER_OTHERS))
    if isinstance(pair, Allocated):
        return Normal(1 / pair.noise_multiplier)
    if isinstance(pair, Thresholded):
        return _thresholded(pair)
    if isinstance(pair, Mixed):
        return _coarse(pair.base)
    if isinstance(pair, Swapped):
        return _coarse(pair.base).swapped
    if isinstance(pair, Largest | Spliced):
        return _all(pair.pairs if isinstance(pair, Largest) else (pair.above, pair.below))
    if isinstance(pair, Branched):
        seen = Atoms(tuple((p, q) for p, q, _ in pair.branches))
        return joined((seen, _all(base for _, _, base in pair.branches)))
    raise NotConfirmed(type(pair).__name__)


def _all(pairs: Iterable[Pair]) -> Pair:
    return joined(dict.fromkeys(map(_coarse, pairs)))


def _thresholded(pair: Thresholded) -> Pair:
    if any(map(is_symbolic, (pair.offset, pair.slope, pair.kappa))):
        raise NotConfirmed("a threshold with parameters that are no fractions")
    ends = (pair.offset + pair.slope * share for share in (1, 4 * pair.kappa + 1))
    epsilon = ball(pair.epsilon)
    # P(R = 0) = exp(-epsilon kappa) / (1 + 2 (r + ... + r^kappa)), r = exp(-epsilon).
    r = (-epsilon).exp()
    end = r ** int(pair.kappa)
    whole = 1 + 2 * r * (1 - end) / (1 - r)
    lost = min(Fraction(decimal_upper(Fraction(float((end / whole).upper()) * (1 + 1e-9)))), ONE)
    likely, unlikely = (
        canonical(sympify((1 - lost) / (1 + exp(e)))) for e in (-pair.epsilon, pair.epsilon)
    )
    zero = Fraction(0)
    answers = Atoms(((lost, zero), (zero, lost), (likely, unlikely), (unlikely, likely)))
    return joined((answers, Normal(max(map(abs, ends)))))

"""Privacy profiles: value = the pairs that dominate, by direction, and those that are reached.

Composition multiplies pairs: dominating pairs compose adaptively, and Gaussian ones collapse into
one.  A part of a partition is an alternative; the guarantee is the largest over alternatives.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from itertools import product as combinations
from math import prod
from operator import attrgetter
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import (
    Number,
    canonical,
    exp,
    is_symbolic,
    maximum,
    sqrt,
    sympify,
    total,
    total_over,
)
from dpaudit.exact.domains import known_sign
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    NonPrivate,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)
from dpaudit.measures.calculus import Calculus, Source, register
from dpaudit.measures.common import NOT_PRIVATE, UNDER_ASSUMPTION
from dpaudit.nodes.pairs import (
    Atoms,
    Concentrated,
    LaplaceShift,
    Losses,
    Normal,
    Pair,
    Renyi,
    distinct,
    joined,
    largest,
    mapped,
    numbers_in,
    one,
    opaque,
    product,
)

PROFILE = register(Calculus("profile", "pairs of distributions that dominate the privacy profile"))

Point = tuple[Number, Number]
Side = Callable[[Losses], tuple[Pair, ...]]
REMOVE, ADD = attrgetter("remove"), attrgetter("add")
REACHED_REMOVE, REACHED_ADD = attrgetter("reached_remove"), attrgetter("reached_add")
ALTERNATIVES = 64
ROUNDS = 100_000

COMPOSITION = Source("Zhu, Dong, Wang", 2022, "Theorem 10 (adaptive composition of pairs)")
DISJOINT = Source("McSherry", 2009, "Theorem 4 (parallel composition)")
BALLE_WANG = Source("Balle, Wang", 2018, "Theorem 8")
SHIFTED_LAPLACE = Source("Dwork, McSherry, Nissim, Smith", 2006, "Proposition 1, and dpaudit 2026")
EXTREMAL = Source("Kairouz, Oh, Viswanath", 2017, "Theorem 3.3 (the extremal pair)")
GAUSSIAN_CURVE = Source("Dong, Roth, Su", 2022, "Definition 2.6")
CONVEX = Source("Zhu, Dong, Wang", 2022, "Lemma 9 (profiles are convex, and mirrored at x = 1)")
RENYI_CURVE = Source("Canonne, Kamath, Steinke", 2020, "Proposition 12")


@PROFILE.rule(Gaussian, cite=BALLE_WANG)
def gaussian(node: Gaussian) -> Losses:
    """N(1/z, 1) against N(0, 1): an equality when the query moves by its sensitivity."""
    return one(Normal(1 / node.noise_multiplier))


@PROFILE.rule(Laplace, cite=SHIFTED_LAPLACE)
def laplace(node: Laplace) -> Losses:
    """One coordinate moved by the whole sensitivity, which dominates any split over several.

    Proof: let e1 <= e2 be the losses of two coordinates and 0 <= t <= e1 + e2.  The first loss is
    at most e1, so delta of the product at t is at most delta_2(t - e1) = 1 - exp((t - e1 - e2)/2),
    as |t - e1| <= e2; negative t follow by symmetry, more coordinates by induction.
    """
    return one(LaplaceShift(1 / node.noise_multiplier))


@PROFILE.rule(PureDP, cite=EXTREMAL)
def pure(node: PureDP) -> Losses:
    """Randomised response dominates every epsilon-DP mechanism."""
    return opaque(Atoms(_response(node.epsilon, Fraction(1))))


@PROFILE.rule(ApproxDP, cite=EXTREMAL)
def approximate(node: ApproxDP) -> Losses:
    """Randomised response with probability 1 - delta, else an outcome that tells all."""
    told = (node.delta, Fraction(0)), (Fraction(0), node.delta)
    return opaque(Atoms((*told, *_response(node.epsilon, 1 - node.delta))))


def _response(epsilon: Number, mass: Number) -> tuple[tuple[Number, Number], ...]:
    high = canonical(sympify(mass / (1 + exp(-epsilon))))
    low = canonical(sympify(mass / (1 + exp(epsilon))))
    return (high, low), (low, high)


@PROFILE.rule(ZCDP, cite=RENYI_CURVE)
def concentrated(node: ZCDP) -> Losses:
    """The smallest delta over all Renyi orders, at every epsilon."""
    return opaque(Concentrated(node.rho))


@PROFILE.rule(GDP, cite=GAUSSIAN_CURVE)
def gaussian_curve(node: GDP) -> Losses:
    """N(mu, 1) against N(0, 1)."""
    return opaque(Normal(node.mu))


@PROFILE.rule(RenyiDP, cite=RENYI_CURVE)
def renyi(node: RenyiDP) -> Losses:
    """The delta that one Renyi order allows, at every epsilon."""
    return opaque(Renyi(node.order, node.epsilon))


@PROFILE.rule(ProfilePoints, cite=CONVEX)
def points(node: ProfilePoints) -> Losses:
    """The line through the points: a profile is convex in x = e^epsilon.

    Swapping the data sets gives a point at 1/x for each, at 1 - 1/x + delta/x.
    """
    known = [(exp(e), d) for e, d in node.points]
    mirrored = [(1 / x, 1 - 1 / x + d / x) for x, d in reversed(known)]
    corners = [(Fraction(0), Fraction(1)), *(m for m in mirrored if m[0] != 1), *known]
    return opaque(Atoms(_corners(_hull(corners))))


def _hull(corners: list[Point]) -> list[Point]:
    """The lower convex hull: points above the line of their neighbours are left out."""
    hull: list[Point] = []
    for corner in corners:
        while len(hull) > 1 and not _turns_up(hull[-2], hull[-1], corner):
            hull.pop()
        hull.append(corner)
    return hull


def _turns_up(a: Point, b: Point, c: Point) -> bool:
    """Whether b is certainly below the line from a to c."""
    height = (b[1] - a[1]) * (c[0] - a[0]) - (c[1] - a[1]) * (b[0] - a[0])
    return known_sign(canonical(-sympify(height)), strict=True) is True


def _corners(hull: list[Point]) -> tuple[tuple[Number, Number], ...]:
    """The pair whose profile joins the corners: Q mass is the change of slope, P mass x Q mass."""
    slopes = [_slope(a, b) for a, b in pairwise(hull)]
    masses = [after - before for before, after in zip(slopes, [*slopes[1:], 0], strict=True)]
    told = (hull[-1][1], Fraction(0)), (Fraction(0), canonical(1 + slopes[0]))
    inside = [(canonical(x * q), canonical(q)) for (x, _), q in zip(hull[1:], masses, strict=True)]
    return (*told, *inside)


def _slope(a: Point, b: Point) -> Number:
    return canonical(sympify(b[1] - a[1]) / sympify(b[0] - a[0]))


@PROFILE.rule(NonPrivate, cite=NOT_PRIVATE)
def no_guarantee(node: NonPrivate) -> Losses:
    """An access without noise may tell all."""
    return opaque(Atoms(((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))))


@PROFILE.rule(Assuming, cite=UNDER_ASSUMPTION)
def unchanged(node: Assuming, base: Losses) -> Losses:
    """The pairs of the base; the assumption may rule out what reaches them."""
    return Losses(base.remove, base.add, slack=base.slack)


@PROFILE.rule(Parallel, cite=DISJOINT)
def disjoint(node: Parallel, *parts: Losses) -> Losses:
    """The record is in one part: the parts are alternatives."""

    def joined(side: Side) -> tuple[Pair, ...]:
        return distinct(pair for part in parts for pair in side(part))

    return Losses(
        _few(joined(lambda part: part.remove)),
        _few(joined(lambda part: part.add)),
        joined(lambda part: part.reached_remove)[:ALTERNATIVES],
        joined(lambda part: part.reached_add)[:ALTERNATIVES],
        maximum(part.slack for part in parts),
        in_one_part=True,
    )


@PROFILE.rule(Compose, cite=COMPOSITION)
def composition(node: Compose, *premises: Losses) -> Losses:
    """Products of the premises' pairs; one part of at most one partition counts as reached."""
    parted = [p for p in premises if p.in_one_part]
    # By identity, since large fractions are slow to hash; the tuples live in the premises.
    known: dict[tuple[int, ...], tuple[Pair, ...]] = {}

    def upper(side: Side) -> tuple[Pair, ...]:
        alternatives = tuple(map(side, premises))
        key = tuple(map(id, alternatives))
        found = known.get(key)
        if found is None:
            found = known[key] = _all_products(alternatives)
        return found

    def reached(side: Side) -> tuple[Pair, ...]:
        if not parted and set(map(len, map(side, premises))) == {1}:
            return upper(side)
        firsts = [pair for p in premises if not p.in_one_part for pair in side(p)[:1]]
        in_a_part = [pair for p in parted for pair in side(p)][:ALTERNATIVES]
        if in_a_part:
            return tuple(joined([*firsts, pair]) for pair in in_a_part)
        return (joined(firsts),) if firsts else ()

    return Losses(
        upper(REMOVE),
        upper(ADD),
        reached(REACHED_REMOVE),
        reached(REACHED_ADD),
        total([p.slack for p in premises]) if any(p.slack for p in premises) else Fraction(0),
        in_one_part=bool(parted),
    )


def _all_products(alternatives: tuple[tuple[Pair, ...], ...]) -> tuple[Pair, ...]:
    """One product for each choice of an alternative a premise; of too many, their largest."""
    if prod(map(len, alternatives)) > ALTERNATIVES:
        alternatives = tuple((largest(pairs),) for pairs in alternatives)
    found = [joined(chosen) for chosen in combinations(*alternatives)]
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


def _few(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    return pairs if len(pairs) <= ALTERNATIVES else (largest(pairs),)


@PROFILE.rule(Repeat, cite=COMPOSITION)
def repetition(node: Repeat, base: Losses) -> Losses:
    """The product over all rounds; the alternative is the same in every round.

    One record stays in its part: with several parts the rounds would choose anew, so the upper
    bound takes the largest profile of each round.
    """

    def upper(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return (repeated(largest(pairs), node.index, node.times),)

    def reached(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(repeated(pair, node.index, node.times) for pair in pairs)

    return Losses(
        upper(base.remove),
        upper(base.add),
        reached(base.reached_remove),
        reached(base.reached_add),
        total_over(base.slack, node.index, node.times),
        base.in_one_part,
    )


def repeated(pair: Pair, index: Any, times: Number) -> Pair:
    """The product of a pair over ``index`` = 1..times.

    Errors: Unsupported where the number of different rounds is a symbol, or above ``ROUNDS``.
    """
    return product(f for p, n in pair.factors for f in _rounds(p, n, index, times))


def _rounds(pair: Pair, count: Number, index: Any, times: Number) -> list[tuple[Pair, Number]]:
    if isinstance(pair, Normal):
        return [(Normal(sqrt(total_over(pair.mu**2 * count, index, times))), Fraction(1))]
    if index is None or not any(_holds(n, index) for n in (*numbers_in(pair), count)):
        return [(pair, count * times)]
    if is_symbolic(times) or times > ROUNDS:
        raise Unsupported(
            f"a profile of {times} different rounds: expected a number of at most {ROUNDS}"
        )
    return [_in_round(pair, count, index, k) for k in range(1, int(times) + 1)]


def _in_round(pair: Pair, count: Number, index: Any, k: int) -> tuple[Pair, Number]:
    def at(value: Number) -> Number:
        return canonical(value.subs(index, k)) if _holds(value, index) else value

    return mapped(pair, at), at(count)


def _holds(value: Number, index: Any) -> bool:
    return is_symbolic(value) and index in value.free_symbols


PROFILE.absent(
    RenyiCurve, reason="a whole curve of Renyi bounds has no one dominating pair: use rdp"
)

"""Adaptive choices: one of several mechanisms (a maximum), and filters (the cap).

A filter's charges depend on earlier releases, so their realised sum is no guarantee.  The guarantee
is the largest sum that can occur, which the filter keeps at or below its cap.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.exact import Number, infinity, maximum, sqrt
from dpaudit.families.adaptive import Filter, FilterMeasure, Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.opaque import GDP
from dpaudit.measures import profile
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Calculus, Source, always
from dpaudit.measures.gdp import FILTER as GDP_FILTER
from dpaudit.measures.gdp import GAUSSIAN, corner
from dpaudit.measures.profile import PROFILE, kept
from dpaudit.measures.pure import FILTER as PURE_FILTER
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import FILTER as RENYI_FILTER
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.measures.zcdp import FILTER as ZCDP_FILTER
from dpaudit.nodes import Leaf, Node, postorder
from dpaudit.pairs import (
    Atoms,
    LaplaceShift,
    Losses,
    Normal,
    Pair,
    largest,
    opaque,
    product,
)

CHOICE = Source("dpaudit", 2026, "definition of Select: given the past, one child runs")
Pairs = tuple[Pair, ...]


# --- one of several ------------------------------------------------------------------------------


def _choice(calculus: Calculus) -> None:
    @calculus.rule(Select, "chosen", cite=CHOICE, attained=always)
    def chosen(node: Select, *premises: Number) -> Number:
        """The largest: whatever the past, one child runs; a program may always run the largest."""
        return maximum(premises)


for _calculus in (PURE, CONCENTRATED, RENYI, GAUSSIAN):
    _choice(_calculus)


@APPROX.rule(Select, "chosen", cite=CHOICE)
def chosen(node: Select, *premises: tuple[Number, Number]) -> tuple[Number, Number]:
    """The largest epsilon and the largest delta."""
    return maximum(e for e, _ in premises), maximum(d for _, d in premises)


@PROFILE.rule(Select, "chosen_profile", cite=CHOICE, witness=kept)
def chosen_profile(node: Select, *children: Losses) -> Losses:
    """The largest profile of all, in one pair, as the past may choose anew in every round.

    Reached: that of any one child, by a program that always runs it.
    """

    def together(side: Callable[[Losses], Pairs]) -> Pairs:
        return (largest(pair for child in children for pair in side(child)),)

    def any_one(side: Callable[[Losses], Pairs]) -> Pairs:
        pairs = dict.fromkeys(pair for child in children for pair in side(child))
        return tuple(pairs)[: profile.MAX_ALTERNATIVES]

    return Losses(
        together(lambda child: child.remove),
        together(lambda child: child.add),
        any_one(lambda child: child.reached_remove),
        any_one(lambda child: child.reached_add),
        maximum(child.slack for child in children),
        any(child.in_one_part for child in children),
    )


# --- filters -------------------------------------------------------------------------------------


def all_gaussian(node: Filter) -> bool:
    """Whether every charge is that of Gaussian noise, for which rho = mu^2 / 2 exactly."""
    return _is_gaussian(node.child)


def _known(node: Filter, values: dict[FilterMeasure, Callable[[], Any]]) -> Any:
    """The value that the cap gives in this calculus; infinite where none is proved."""
    value_of = values.get(FilterMeasure(node.measure))
    return infinity() if value_of is None else value_of()


@PURE.rule(Filter, "filter_pure", cite=PURE_FILTER)
def filter_pure(node: Filter, charge: Number) -> Number:
    """The cap, for pure charges: the realised loss is at most their sum, and that at most the cap.

    A cap in another measure bounds no epsilon at delta = 0.
    """
    return _known(node, {FilterMeasure.PURE: lambda: node.cap})


@APPROX.rule(Filter, "filter_approximate", cite=PURE_FILTER)
def filter_approximate(node: Filter, charge: Any) -> tuple[Number, Number]:
    """The two caps, for charges whose epsilons and deltas are added."""
    if node.measure == FilterMeasure.PURE:
        return node.cap, Fraction(0)
    if node.measure == FilterMeasure.APPROX:
        return node.cap, node.delta
    return infinity(), Fraction(1)


@CONCENTRATED.rule(Filter, "filter_concentrated", cite=ZCDP_FILTER)
def filter_concentrated(node: Filter, charge: Number) -> Number:
    """The cap, for charges rho; mu^2 / 2 and epsilon^2 / 2 of the other caps.

    Proof: given the past, each release is rho_t-zCDP and rho_t is fixed by the past, so that the
    product of (p_t / q_t)^a exp(-a (a - 1) rho_t) is a supermartingale for every order a.
    """
    values = {
        FilterMeasure.ZCDP: lambda: node.cap,
        FilterMeasure.GDP: lambda: node.cap**2 / 2,
        FilterMeasure.PURE: lambda: node.cap**2 / 2,
    }
    return _known(node, values)


@RENYI.rule(Filter, "filter_renyi", cite=RENYI_FILTER)
def filter_renyi(node: Filter, charge: Number) -> Number:
    """The cap at every order, for charges that are curves; else as zCDP."""
    values = {
        FilterMeasure.RDP: lambda: node.cap,
        FilterMeasure.ZCDP: lambda: order() * node.cap,
        FilterMeasure.GDP: lambda: order() * node.cap**2 / 2,
        FilterMeasure.PURE: lambda: order() * node.cap**2 / 2,
    }
    return _known(node, values)


@GAUSSIAN.rule(Filter, "filter_gaussian", cite=GDP_FILTER)
def filter_gaussian(node: Filter, charge: Number) -> Number:
    """The cap, for charges mu added in squares; sqrt(2 rho) where all noise is Gaussian.

    Proof: each release is a post-processing of N(mu_t, 1) against N(0, 1) (Blackwell).  The loss of
    the sum is a Brownian motion with drift, run for a time of at most mu^2 and padded to it.
    """
    values = {
        FilterMeasure.GDP: lambda: node.cap,
        FilterMeasure.PURE: lambda: corner(node.cap),
        FilterMeasure.ZCDP: lambda: sqrt(2 * node.cap) if all_gaussian(node) else infinity(),
    }
    return _known(node, values)


def _releases(node: Filter, charge: Losses) -> dict[str, int]:
    """How many releases of noise spend the cap, where that is a choice."""
    counts = [times for pair in spent(node) for _, times in pair.factors]
    return {"releases": STAND_IN_RELEASES} if STAND_IN_RELEASES in counts else {}


@PROFILE.rule(Filter, "filter_profile", cite=GDP_FILTER, witness=_releases)
def filter_profile(node: Filter, charge: Losses) -> Losses:
    """The pair of the cap: of mu-GDP, randomised response, or all that rho-zCDP allows.

    Reached: releases of one kind of noise that spend the whole cap (:func:`spent`).
    No filter adds up whole profiles: stopping where their product passes a given curve is not
    private in general (Tran, Koskela, Raisa, Honkela 2026).
    """
    normal = node.measure == FilterMeasure.ZCDP and all_gaussian(node)
    budget = GDP(sqrt(2 * node.cap)) if normal else node.budget
    losses: Losses | None = PROFILE.of_leaf(budget)
    if losses is None:
        return opaque(REVEALS_ALL)  # a curve of Renyi bounds has no one dominating pair
    reached = spent(node)
    return Losses(losses.remove, losses.add, reached, reached)


def spent(node: Filter) -> tuple[Pair, ...]:
    """The pairs attained by a program that spends the cap on one kind of noise; () if unknown.

    Gaussian: one release of mu = the cap, or of mu^2 / 2 = rho.  Laplace: one of epsilon = the cap,
    or n = ``STAND_IN_RELEASES``, each of epsilon^2 / 2 = rho / n.  These noise multipliers may be
    irrational; rational ones come arbitrarily close, and delta is continuous in them.
    """
    children = node.child.children if isinstance(node.child, Select) else (node.child,)
    measure = FilterMeasure(node.measure)
    if any(map(_is_gaussian, children)) and measure in (FilterMeasure.GDP, FilterMeasure.ZCDP):
        return (Normal(node.cap if measure == FilterMeasure.GDP else sqrt(2 * node.cap)),)
    if not any(isinstance(child, Laplace) for child in children) or node.cap == 0:
        return ()
    if measure in (FilterMeasure.PURE, FilterMeasure.APPROX):
        return (LaplaceShift(node.cap),)
    if measure == FilterMeasure.ZCDP:
        return (
            product(
                [
                    (
                        LaplaceShift(sqrt(2 * node.cap / STAND_IN_RELEASES)),
                        Fraction(STAND_IN_RELEASES),
                    )
                ]
            ),
        )
    return ()


def _is_gaussian(child: Node) -> bool:
    leaves = [node for node in postorder(child) if isinstance(node, Leaf)]
    return all(isinstance(leaf, Gaussian) for leaf in leaves)


STAND_IN_RELEASES = 256  # Releases that stand for a long run of small charges.
# The pair of a release that reveals which data set it comes from.
REVEALS_ALL = Atoms(((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))))

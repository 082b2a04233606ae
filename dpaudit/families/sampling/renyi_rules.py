"""Renyi divergences of a child that runs on a secret batch.

The values hold at every order: they are bounds at the next whole order, and Renyi divergences do
not decrease in the order.  Conversions search whole orders only.
P and Q below are the child's outputs with and without the record, or on the two batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpaudit.exact import (
    Number,
    choose,
    exp,
    is_infinite,
    is_symbolic,
    log,
    replaced,
    smaller,
    sqrt,
    sum_over,
    sympify,
)
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming, Compose, Repeat
from dpaudit.families.opaque import GDP
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.families.sampling.rules import MIXTURE, REPLACED, WITH_OR_WITHOUT, alike, share_of
from dpaudit.measures.calculus import Source
from dpaudit.measures.renyi import RENYI, order
from dpaudit.nodes import Node, postorder

RENYI_POISSON = Source(
    "Mironov, Talwar, Zhang", 2019, "Section 3.3; for every child: dpaudit 2026, proof at the rule"
)
RENYI_BATCH = Source(
    "Wang, Balle, Kasiviswanathan", 2019, "Theorem 9; below Gaussian children Theorem 27"
)
GAUSSIAN_TREE = (Gaussian, GDP, Compose, Repeat, Assuming)  # nodes whose loss is normal


def whole_order() -> Number:
    """The smallest whole number not below the order.

    Renyi divergences do not decrease in the order, so a bound at this one holds at the order.
    Source: van Erven, Harremoes 2014, Theorem 3.
    """
    import sympy

    return sympy.ceiling(order())


def at(curve: Number, place: Number) -> Number:
    """A Renyi curve at one order."""
    return replaced(curve, {order(): place})


def fresh(*values: Any) -> Any:
    """An index j, j2, ... for a sum, of a name that is nowhere in some expressions."""
    import sympy

    names = {s.name for v in values if is_symbolic(v) for s in v.atoms(sympy.Symbol)}
    name, count = "j", 1
    while name in names:
        count += 1
        name = f"j{count}"
    return sympy.Symbol(name, integer=True, nonnegative=True)


def summed(summand: Callable[[Any], Number], index: Any, first: int, last: Number) -> Number:
    """The sum of a summand over index = first..last."""
    return sum_over(summand(index), index, first, last)


def exponential_moment(curve: Number, j: Number) -> Number:
    """E_Q (P/Q)^j <= exp((j - 1) D_j)."""
    return exp((j - 1) * at(curve, j))


@RENYI.rule(PoissonSampled, "poisson_renyi", cite=RENYI_POISSON, adjacency=WITH_OR_WITHOUT)
def poisson_renyi(node: PoissonSampled, curve: Number) -> Number:
    """log(1 + sum_(j=2)^n C(n,j) q^j (1-q)^(n-j) (e^((j-1) D_j) - 1)) / (n - 1), n = ceil(alpha).

    Proof, t = P/Q: E_Q f(t), f(t) = (1-q+qt)^n, is at most this, as E_Q 1 = E_Q t = 1; so is
    E_Q h(t), h(t) = t f(1/t), as D_j bounds both directions.  The other direction's moment is
    E_Q g(t), g(t) = (1-q+qt)^(1-n).  Let D = 3 + 2(n-2)q and a = 3(1-q)/D in [0, 1].
    Then k = a f + (1-a) h - g is convex: with A = 1-q+qt and B = 1-q+q/t >= 1/A, its second
    derivative over n(n-1)q^2 is a A^(n-2) + (1-a) t^-3 B^(n-2) - A^(-n-1), where the first two are
    at least A^((n-2)(2a-1)) t^(-3(1-a)) (means), and A^((n-2)(2a-1)+n+1) = A^(3(2n-1)/D)
    >= t^(3q(2n-1)/D) = t^(3(1-a)), as A >= t^q (means).  k(1) = 0, so k(t) >= k'(1)(t-1), whose
    mean is 0: E_Q g <= a E_Q f + (1-a) E_Q h.
    """
    q, n = node.rate, whole_order()
    if q == 1 or curve == 0 or is_infinite(curve):
        return curve

    def summand(j: Any) -> Number:
        weight = choose(n, j) * sympify(q) ** j * sympify(1 - q) ** (n - j)
        return weight * (exponential_moment(curve, j) - 1)

    return log(1 + summed(summand, fresh(curve, q), 2, n)) / (n - 1)


@RENYI.rule(SampledWithoutReplacement, "batch_renyi", cite=RENYI_BATCH, adjacency=REPLACED)
def batch_renyi(node: SampledWithoutReplacement, curve: Number) -> Number:
    """log(1 + sum_(j=2)^n C(n,j) q^j T_j) / (n - 1), n = ceil(alpha), q = batch_size / population.

    T_j bounds the largest integral of |P-Q|^j / R^(j-1) over three batches that differ in one
    record, two by two: 2 e^((j-1) D_j), since |P-Q|^j <= P^j + Q^j; and T_2 = 4 (e^(D_2) - 1).
    Below a Gaussian child also 4 sqrt(B_(2 floor(j/2)) B_(2 ceil(j/2))), B_l = E_Q (P/Q - 1)^l.
    Proof of the last: where R is least, |P-Q| is at most |P-R| or |Q-R|; elsewhere R is above the
    smaller of P and Q; so four moments E|P/Q - 1|^j bound it, each by Cauchy-Schwarz.  An even
    B_l is a divergence, and so largest where the Gaussian moves by its whole sensitivity.
    The child's own curve unless records are alike.
    """
    share, n = share_of(node), whole_order()
    if share == 1 or curve == 0 or is_infinite(curve) or not alike(node.child):
        return curve
    index = fresh(curve, share)
    if is_gaussian(node.child):
        return _batch(share, n, summed(_gaussian_term(share, n, curve), index, 2, n))
    second = choose(n, 2) * share**2 * _ternary(4 * (exponential_moment(curve, 2) - 1), curve, 2)

    def summand(j: Any) -> Number:
        return choose(n, j) * sympify(share) ** j * 2 * exponential_moment(curve, j)

    return _batch(share, n, second + summed(summand, index, 3, n))


def _batch(share: Number, n: Number, terms: Number) -> Number:
    return log(1 + terms) / (n - 1)


def is_gaussian(root: Node) -> bool:
    """Whether all noise below is Gaussian, so that the child is mu-GDP with D_a = a mu^2 / 2."""
    return all(isinstance(node, GAUSSIAN_TREE) for node in postorder(root))


def _gaussian_term(share: Number, n: Number, curve: Number) -> Callable[[Any], Number]:
    import sympy

    def term(j: Any) -> Number:
        half = sympify(j) / 2
        lower = central_moment(curve, 2 * sympy.floor(half), j)
        upper = central_moment(curve, 2 * sympy.ceiling(half), j)
        ternary = _ternary(4 * sqrt(lower * upper), curve, j)
        return choose(n, j) * sympify(share) ** j * ternary

    return term


def _ternary(bound: Number, curve: Number, j: Number) -> Number:
    return smaller(bound, 2 * exponential_moment(curve, j))


def central_moment(curve: Number, last: Number, outer: Any) -> Number:
    """B_l = sum_i (-1)^i C(l,i) e^((i-1) D_i) for even l: E_Q (P/Q - 1)^l of a Gaussian pair."""

    def summand(i: Any) -> Number:
        return (-1) ** i * choose(last, i) * exponential_moment(curve, i)

    return summed(summand, fresh(curve, outer), 0, last)


@RENYI.rule(RandomAllocation, "allocated_renyi", cite=MIXTURE)
def allocated_renyi(node: RandomAllocation, curve: Number) -> Number:
    """The child's own, k times for k draws: a mixture over the slots; the profile is far better."""
    return curve if node.draws is None else node.draws * curve


RENYI.absent(
    SampledWithReplacement,
    reason="a record drawn j times has moments growing with j^2: no amplified bound is proved",
)

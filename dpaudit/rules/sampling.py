"""Amplification by sampling: the child runs on a secret batch of the records.

P and Q below are the child's outputs with and without the record, or on the two batches.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.arithmetic import (
    Number,
    choose,
    exp,
    is_infinite,
    is_symbolic,
    log,
    smaller,
    sqrt,
    sum_over,
    sympify,
)
from dpaudit.calculus import Source, always
from dpaudit.nodes import (
    GDP,
    Assuming,
    Compose,
    Gaussian,
    Node,
    Parallel,
    PoissonSampled,
    RandomAllocation,
    Repeat,
    SampledWithoutReplacement,
    SampledWithReplacement,
    postorder,
)
from dpaudit.pairs import Allocated, Losses, Mixed, Normal, Pair, Spliced, one
from dpaudit.rules.approx import APPROX
from dpaudit.rules.gdp import GAUSSIAN
from dpaudit.rules.profile import PROFILE
from dpaudit.rules.pure import PURE
from dpaudit.rules.rdp import RENYI, order
from dpaudit.rules.zcdp import CONCENTRATED
from dpaudit.scope import Adjacency

BALLE_POISSON = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 8")
BALLE_BATCH = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 9")
BALLE_DRAWS = Source(
    "Balle, Barthe, Gaboardi", 2018, "Theorem 10 (its setting); dpaudit 2026, proof at the rule"
)
ZHU_POISSON = Source("Zhu, Dong, Wang", 2022, "Theorem 11 (Poisson sampling of a dominating pair)")
ZHU_BATCH = Source("Zhu, Dong, Wang", 2022, "Theorem 11 (sampling without replacement)")
RENYI_POISSON = Source(
    "Mironov, Talwar, Zhang", 2019, "Section 3.3; for every child: dpaudit 2026, proof at the rule"
)
RENYI_BATCH = Source(
    "Wang, Balle, Kasiviswanathan", 2019, "Theorem 9; below Gaussian children Theorem 27"
)
CHUA = Source(
    "Chua, Ghazi, Harrison, Kamath, Kumar, Leeman, Manurangsi, Sinha, Zhang",
    2024,
    "Balls-and-bins sampling for DP-SGD: its dominating pair",
)
MIXTURE = Source("van Erven, Harremoes", 2014, "Theorem 13 (a mixture is no further apart)")

# A record whose contribution is exactly zero changes no batch: both runs mix P and Q as here.
WITH_OR_WITHOUT = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
REPLACED = (Adjacency.REPLACE_ONE,)
GAUSSIAN_TREE = (Gaussian, GDP, Compose, Repeat, Parallel, Assuming)
SAMPLED = (PoissonSampled, SampledWithoutReplacement, SampledWithReplacement, RandomAllocation)

CONCENTRATED.absent(
    *SAMPLED,
    reason="sampling makes high orders jump, so no line rho * order is amplified "
    "(Bun, Dwork, Rothblum, Steinke 2018, Section 1)",
)
GAUSSIAN.absent(
    *SAMPLED,
    reason="a mixture's trade-off curve is no Gaussian one; its best mu is the child's own "
    "(Dong, Roth, Su 2022, Section 4)",
)


# --- (epsilon, delta) ----------------------------------------------------------------------------


def amplified(epsilon: Number, share: Number) -> Number:
    """log(1 + q (e^epsilon - 1))."""
    return log(1 + share * (exp(epsilon) - 1))


@PURE.rule(PoissonSampled, cite=BALLE_POISSON, adjacency=WITH_OR_WITHOUT)
def poisson_sampled(node: PoissonSampled, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)) at rate q."""
    return amplified(epsilon, node.rate)


@PURE.rule(SampledWithoutReplacement, cite=BALLE_BATCH, adjacency=REPLACED)
def sampled_without_replacement(node: SampledWithoutReplacement, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)) with q = batch_size / population."""
    return amplified(epsilon, share_of(node))


def share_of(node: SampledWithoutReplacement) -> Number:
    """The chance that a record is in the batch."""
    return node.batch_size / node.population


@APPROX.rule(PoissonSampled, cite=BALLE_POISSON, adjacency=WITH_OR_WITHOUT)
def poisson_sampled_approx(
    node: PoissonSampled, base: tuple[Number, Number]
) -> tuple[Number, Number]:
    """(log(1 + q (e^epsilon - 1)), q delta) at rate q."""
    return amplified(base[0], node.rate), node.rate * base[1]


@APPROX.rule(SampledWithoutReplacement, cite=BALLE_BATCH, adjacency=REPLACED)
def sampled_without_replacement_approx(
    node: SampledWithoutReplacement, base: tuple[Number, Number]
) -> tuple[Number, Number]:
    """(log(1 + q (e^epsilon - 1)), q delta) with q = batch_size / population."""
    return amplified(base[0], share_of(node)), share_of(node) * base[1]


@PURE.rule(SampledWithReplacement, cite=BALLE_DRAWS, adjacency=REPLACED)
def sampled_with_replacement(node: SampledWithReplacement, epsilon: Number) -> Number:
    """m log(1 + (e^epsilon - 1) / n) = log E e^(J epsilon), J the number of times it is drawn.

    Proof: J is binomial(m, 1/n).  Fix m draws Y of the other records.  M_j runs on j copies of the
    record and Y_(j+1), .., Y_m; M'_i on i copies of what replaces it and Y_(i+1), .., Y_m.  Then
    M_j <= e^(j epsilon) M'_i for all i <= j: at most j records differ.  Let w_j be J's weights and
    L = sum w_j e^(j epsilon).  A j with e^(j epsilon) <= L is bounded by M'_j, and leaves room for
    w_j (L - e^(j epsilon)) more of it below w_j L M'_j; the larger j are bounded by their own M'_j
    up to w_j L, and by that room for the other w_j (e^(j epsilon) - L).  Room and need are equal
    by definition of L, so sum w_j M_j <= L sum w_j M'_j.
    """
    return node.draws * log(_growth(node, epsilon))


def _growth(node: SampledWithReplacement, epsilon: Number) -> Number:
    return 1 + (exp(epsilon) - 1) / node.population


@APPROX.rule(SampledWithReplacement, cite=BALLE_DRAWS, adjacency=REPLACED)
def sampled_with_replacement_approx(
    node: SampledWithReplacement, base: tuple[Number, Number]
) -> tuple[Number, Number]:
    """As the pure rule, and delta times (E e^(J epsilon) - 1) / (e^epsilon - 1).

    The pure rule's proof, where a group of j adds delta (e^(j epsilon) - 1) / (e^epsilon - 1) to
    the bound of M_j; at epsilon = 0 the factor is E J = m / n.
    """
    epsilon, delta = base
    if is_infinite(epsilon):
        return epsilon, Fraction(1)
    if epsilon == 0:
        return epsilon, delta * node.draws / node.population
    growth = _growth(node, epsilon)
    copies = (sympify(growth) ** sympify(node.draws) - 1) / (exp(epsilon) - 1)
    return node.draws * log(growth), delta * copies


@PURE.rule(RandomAllocation, cite=MIXTURE, attained=always)
def random_allocation(node: RandomAllocation, epsilon: Number) -> Number:
    """epsilon: a mixture over the slot; reached by outputs whose loss is epsilon in every slot."""
    return epsilon


@APPROX.rule(RandomAllocation, cite=MIXTURE)
def random_allocation_approx(
    node: RandomAllocation, base: tuple[Number, Number]
) -> tuple[Number, Number]:
    """The child's own: hockey-stick divergences are jointly convex."""
    return base


# --- Renyi divergences ---------------------------------------------------------------------------


def whole_order() -> Number:
    """The smallest whole number not below the order.

    Renyi divergences do not decrease in the order, so a bound at this one holds at the order.
    Source: van Erven, Harremoes 2014, Theorem 3.
    """
    import sympy

    return sympy.ceiling(order())


def at(curve: Number, place: Number) -> Number:
    """A Renyi curve at one order."""
    return curve.subs(order(), place) if is_symbolic(curve) else curve


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


@RENYI.rule(PoissonSampled, cite=RENYI_POISSON, adjacency=WITH_OR_WITHOUT)
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


@RENYI.rule(SampledWithoutReplacement, cite=RENYI_BATCH, adjacency=REPLACED)
def batch_renyi(node: SampledWithoutReplacement, curve: Number) -> Number:
    """log(1 + sum_(j=2)^n C(n,j) q^j T_j) / (n - 1), n = ceil(alpha), q = batch_size / population.

    T_j bounds the largest integral of |P-Q|^j / R^(j-1) over three batches that differ in one
    record, two by two: 2 e^((j-1) D_j), since |P-Q|^j <= P^j + Q^j; and T_2 = 4 (e^(D_2) - 1).
    Below a Gaussian child also 4 sqrt(B_(2 floor(j/2)) B_(2 ceil(j/2))), B_l = E_Q (P/Q - 1)^l.
    Proof of the last: where R is least, |P-Q| is at most |P-R| or |Q-R|; elsewhere R is above the
    smaller of P and Q; so four moments E|P/Q - 1|^j bound it, each by Cauchy-Schwarz.  An even
    B_l is a divergence, and so largest where the Gaussian moves by its whole sensitivity.
    """
    share, n = share_of(node), whole_order()
    if share == 1 or curve == 0 or is_infinite(curve):
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


@RENYI.rule(RandomAllocation, cite=MIXTURE)
def allocated_renyi(node: RandomAllocation, curve: Number) -> Number:
    """The child's own: a mixture over the slot; the profile is far better."""
    return curve


RENYI.absent(
    SampledWithReplacement,
    reason="a record drawn j times has moments growing with j^2: no amplified bound is proved",
)


# --- privacy profiles ----------------------------------------------------------------------------


def mixed(pairs: tuple[Pair, ...], rate: Number) -> tuple[Pair, ...]:
    """((1 - q) Q + q P, Q) for each (P, Q)."""
    return tuple(Mixed(pair, rate) for pair in pairs)


def mixed_away(pairs: tuple[Pair, ...], rate: Number) -> tuple[Pair, ...]:
    """(P, (1 - q) P + q Q) for each (P, Q)."""
    return tuple(Mixed(pair.swapped, rate).swapped for pair in pairs)


@PROFILE.rule(PoissonSampled, cite=ZHU_POISSON, adjacency=WITH_OR_WITHOUT)
def poisson_profile(node: PoissonSampled, base: Losses) -> Losses:
    """The run with the record mixes the two; attained by records whose queries are the child's."""
    return Losses(
        mixed(base.remove, node.rate),
        mixed_away(base.add, node.rate),
        mixed(base.reached_remove, node.rate),
        mixed_away(base.reached_add, node.rate),
        base.slack,
        base.in_one_part,
    )


@PROFILE.rule(SampledWithoutReplacement, cite=ZHU_BATCH, adjacency=REPLACED)
def batch_profile(node: SampledWithoutReplacement, base: Losses) -> Losses:
    """The two directions spliced at x = 1; one of them is reached.

    It is reached where all other records hold what the replaced one is replaced by.
    """
    share = share_of(node)
    remove = tuple(spliced(pair, share) for pair in base.remove)
    add = tuple(spliced(pair, share) for pair in base.add)
    return Losses(
        remove,
        add,
        mixed(base.reached_remove, share),
        mixed_away(base.reached_add, share),
        base.slack,
        base.in_one_part,
    )


def spliced(pair: Pair, share: Number) -> Pair:
    """((1 - q) Q + q P, Q) at x >= 1 and (P, (1 - q) P + q Q) at x < 1."""
    return Spliced(Mixed(pair, share), Mixed(pair.swapped, share).swapped)


PROFILE.absent(
    SampledWithReplacement,
    reason="the proved bound mixes profiles of 1, 2, ... copies of the record: no pair here",
)


@PROFILE.rule(RandomAllocation, cite=CHUA, adjacency=WITH_OR_WITHOUT)
def allocated_profile(node: RandomAllocation, base: Losses) -> Losses:
    """A uniform mixture over the slots of a Gaussian child; the pairs of any other child unchanged.

    Gaussian: release i moves by g_i, chosen after the releases before it, |g_i| at most the
    sensitivity.  It is a rescaling, plus noise of its own, of one coordinate of the mixture over i
    of N(e_i / z, I) against N(0, I): the pair dominates, and full moves reach it.  Other children:
    divergences are jointly convex, so the mixture is dominated by its parts.
    """
    if not isinstance(node.child, Gaussian):
        return Losses(base.remove, base.add, (), (), _slack(node, base), base.in_one_part)
    if node.slots == 1:
        return one(Normal(1 / node.child.noise_multiplier))
    return one(Allocated(node.child.noise_multiplier, node.slots))


def _slack(node: RandomAllocation, base: Losses) -> Number:
    """Every slot runs the child, and may meet its noise event."""
    return base.slack * node.slots

"""Group privacy: a guarantee for one record, as a guarantee for any k records together."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpaudit.errors import Unsupported
from dpaudit.exact import (
    Number,
    canonical,
    exp,
    infinity,
    is_infinite,
    is_symbolic,
    maximum,
    replaced,
    sqrt,
    sympify,
)
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.batches import CyclicBatches, ShuffledBatches
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.families.distributed import DistributedGaussian, DistributedSkellam
from dpaudit.families.events import EventSlack, Group
from dpaudit.families.individual import IndividualGaussian
from dpaudit.families.opaque import ZCDP, PureDP
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
)
from dpaudit.families.sampling.rules import seen
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, Step, always
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Leaf, Node, postorder
from dpaudit.pairs import (
    Branched,
    Drawn,
    Losses,
    Mixed,
    Normal,
    Pair,
    product,
)
from dpaudit.pairs.core import Opposition, Sample

GROUP = Source("Vadhan", 2017, "Lemma 2.2 (group privacy)")
GROUP_ZCDP = Source("Bun, Steinke", 2016, "Proposition 1.9 (group privacy)")
GROUP_RENYI = Source("Mironov", 2017, "Proposition 2 (group privacy)")
GROUP_GDP = Source("Dong, Roth, Su", 2022, "Theorem 2.14 (group privacy)")
GROUP_PROFILE = Source(
    "Dong, Roth, Su",
    2022,
    "Theorem 2.14 (group privacy); Poisson samples of Gaussian noise, several releases of one "
    "sample too: Ganesh 2024, mixtures of Gaussians, by the inequality of Kahane 1985; of Laplace "
    "noise: joint convexity (van Erven, Harremoes 2014, Theorem 13), proof at the rule",
)
JOINED = (Assuming, Compose, Repeat)  # nodes that compose
# Samplings that put a record in one batch.
BATCHES = (CyclicBatches, RandomAllocation, SampledWithoutReplacement, ShuffledBatches)
STRUCTURE = (*JOINED, Group)  # nodes that hold others
# Noise that a group shifts further.
SHIFTED = (Gaussian, Laplace, CorrelatedGaussian, IndividualGaussian)
# Noise of whole numbers is log-concave: the pair of the group's largest move dominates.
MOVED = (DiscreteGaussian, DiscreteLaplace, DistributedGaussian, DistributedSkellam)
# The largest sampled group for noise other than Gaussian: there is one branch a number of members.
MOST_COUNTED = 64


def moves_together(node: Node, noise: tuple[type[Node], ...] = (Gaussian, Laplace)) -> bool:
    """Whether a group of k moves every query by up to k sensitivities, and the guarantee is that.

    So it is for Gaussian and Laplace noise, composed and repeated; and over the parts of a
    partition for Gaussian noise alone, where a group spread over parts does no worse in one.
    ``noise``: for groups of a whole run, also that of prefix sums, where members take part in the
    same rounds, and that of records with budgets of their own, where they have the same norms.
    """
    for part in postorder(node):
        if isinstance(part, Parallel):
            if any(isinstance(x, Leaf) and not isinstance(x, Gaussian) for x in postorder(part)):
                return False
        elif not isinstance(part, (*noise, *STRUCTURE)):
            return False
    return True


def together(node: Node, premises: tuple[Step, ...]) -> bool:
    """Attained where the child is, by a query that the whole group moves to one side."""
    return always(node, premises) and moves_together(node, SHIFTED)


def linear_or_laplace(node: Node, premises: tuple[Step, ...]) -> bool:
    """As above, where the rule loses nothing."""
    exact = slope(premises[0].value) is not None or isinstance(node.children[0], Laplace)
    return together(node, premises) and exact


@PURE.rule(Group, "group_pure", cite=GROUP, attained=together)
def group_pure(node: Group, epsilon: Number) -> Number:
    """k epsilon."""
    return node.size * epsilon


@APPROX.rule(Group, "group_approximate", cite=GROUP)
def group_approximate(node: Group, base: tuple[Number, Number]) -> tuple[Number, Number]:
    """(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)).

    Proof: k steps from neighbour to neighbour add delta e^(i epsilon), i = 0..k-1.
    """
    epsilon, delta = base
    if is_infinite(epsilon):
        return infinity(), Fraction(1)
    return node.size * epsilon, delta * steps(epsilon, node.size)


def steps(epsilon: Number, size: Number) -> Number:
    """Sum of e^(i epsilon), i = 0..size-1; above it where epsilon may be zero, and size is open."""
    if epsilon == 0 or size == 1:
        return size
    if is_symbolic(epsilon) and not sympify(epsilon).is_positive:
        return size * exp((size - 1) * epsilon)
    return (exp(size * epsilon) - 1) / (exp(epsilon) - 1)


@CONCENTRATED.rule(Group, "group_concentrated", cite=GROUP_ZCDP, attained=together)
def group_concentrated(node: Group, rho: Number) -> Number:
    """k^2 rho."""
    return node.size**2 * rho


@GAUSSIAN.rule(Group, "group_gaussian", cite=GROUP_GDP, attained=together)
def group_gaussian(node: Group, mu: Number) -> Number:
    """k mu: shifts of one normal distribution add."""
    return node.size * mu


@RENYI.rule(Group, "group_renyi", cite=GROUP_RENYI, attained=linear_or_laplace)
def group_renyi(node: Group, curve: Number) -> Number:
    """k^2 times a curve that is linear in the order; for others 3^c times that at 2^c orders.

    c = ceil(log2 k), at orders >= 2; below 2 the bound at 2 holds, as divergences do not decrease.
    Laplace noise: that of the group's shift.  Linear curves: Bun, Steinke 2016, Proposition 1.9.
    """
    if node.size == 1 or is_infinite(curve):
        return curve
    if isinstance(node.child, Laplace):
        moved = node.child.noise_multiplier / node.size
        return RENYI.of_leaf(Laplace(node.child.label, moved))
    rho = slope(curve)
    if rho is not None:
        return node.size**2 * rho * order()
    doublings = doublings_to(node.size)
    higher = sympify(2**doublings * maximum((order(), Fraction(2))))
    return canonical(3**doublings * sympify(replaced(curve, {order(): higher})))


def slope(curve: Number) -> Number | None:
    """The rho of a curve rho * alpha; None for another curve."""
    import sympy

    value, alpha = sympify(curve), order()
    if not value.is_polynomial(alpha):
        return None
    value = sympy.expand(value)
    line = value.is_polynomial(alpha) and value.diff(alpha, 2) == 0 and value.subs(alpha, 0) == 0
    return canonical(value.subs(alpha, 1)) if line else None


def doublings_to(size: Number) -> Number:
    """ceil(log2 size)."""
    if not is_symbolic(size):
        return (int(size) - 1).bit_length()
    import sympy

    return sympy.ceiling(sympy.log(size) / sympy.log(2))


def draws_together(node: Node) -> bool:
    """Whether all below is Gaussian and Laplace noise, composed, and sampled at most once."""
    for part in postorder(node):
        if isinstance(part, PoissonSampled):
            below = list(postorder(part.child))
        elif isinstance(part, (Gaussian, Laplace, *JOINED)):
            continue
        else:
            return False
        if not all(isinstance(inner, (Gaussian, Laplace, *JOINED)) for inner in below):
            return False
    return True


@PROFILE.rule(Group, "group_profile", cite=GROUP_PROFILE)
def group_profile(node: Group, base: Losses) -> Losses:
    """Normal and Laplace pairs moved k times as far; pure epsilon k times, rho of zCDP k^2 times.

    Proof: the best tests between shifts of a log-concave noise are thresholds, so that the
    trade-off curves of k steps, one after the other, are that of the whole shift.

    Poisson samples of Gaussian noise: of the group those come whose coins say so, a set S, with
    moves u_i of at most 1, and the noise is z.  The likelihood ratio is the mean over S of
    exp(v_S y - v_S^2 / 2), v_S the sum of u_i / z over S, where v_S y is Gaussian with covariances
    v_S v_S' <= |S| |S'| / z^2.  By Kahane's inequality the mean is below, in the convex order, that
    of |S| / z in one dimension, J = |S| binomial: Drawn(1 / z, rate, k), in both directions.  Equal
    moves of the whole group reach it.  So it is of several releases of one sample, z that of all
    together, whatever later queries take from earlier answers: the last release's inequality holds
    for all weights of S, what was released before among them; and then, its normal variable given,
    that of the release before it.

    Poisson samples of other noise: the attacker also sees J, how many members are drawn given that
    any is; its law is the same on either side (joint convexity).  This gives Branched over J = 1..k
    of Mixed(pair of a group of J, 1 - (1 - rate)^k), each as likely as J given J >= 1.  Reached is
    what one of the group does alone.

    Records replaced in Poisson samples: the attacker also sees how many members are drawn, whose
    law is the same on either side, and the child's noise is moved by so many.  Where an absent
    record adds zero, this dominates too; one of the group alone, replaced by its opposite, is what
    is reached.

    Gaussian noise on batches drawn otherwise (of one size, allocated, shuffled, in an order): given
    the coins, whose law is the same on either side (joint convexity), a release is moved by at most
    the group's members in its batch, k_i of k, and where a record is in j batches of a pass those
    add up to at most j k: sums of squares are largest with all in j batches.  So it is
    k times the shift of the noise as if there were no sampling, j times a pass.  Reached as above,
    and by the whole group in one batch of a public order.

    A slack is the distance, on every data set, to one mechanism that the child's pairs are of: it
    is the group's too where one run sees all records.  Parts, batches and reports have a noise
    event each.  The mechanism that is meant has none in those in which the record is; the group's
    has none in k of them, and their chances add up.
    Errors: Unsupported for a child whose pairs are of another kind.
    """
    child = node.child
    if node.size == 1:
        return base
    if draws_together(child) and not is_symbolic(node.size):
        above = [
            tuple(_drawn(p, node, members_seen=True) for p in side)
            for side in (base.remove, base.add)
        ]
        below = [
            tuple(_drawn(p, node, members_seen=False) for p in side)
            for side in (base.reached_remove, base.reached_add)
        ]
        return Losses(above[0], above[1], below[0], below[1], base.slack, base.in_one_part)
    if isinstance(child, PureDP):
        pure: Losses = PROFILE.of_leaf(PureDP(node.size * child.epsilon))
        return pure
    if isinstance(child, ZCDP):
        concentrated: Losses = PROFILE.of_leaf(ZCDP(node.size**2 * child.rho))
        return concentrated
    shift_given_coins = shift_without_sampling(child)
    if shift_given_coins is not None:
        pair = Normal(node.size * shift_given_coins)
        reached = base.reached_remove, base.reached_add
        if in_one_public_batch(node) and moves_all(reached):
            reached = (_moved_on(reached[0], node), _moved_on(reached[1], node))
        return Losses((pair,), (pair,), *reached, base.slack, base.in_one_part)
    if isinstance(child, MOVED) and not is_symbolic(node.size):
        further: Losses = PROFILE.of_leaf(replace(child, sensitivity=node.size * child.sensitivity))
        return further
    if len(base.remove) > 1 or len(base.add) > 1:
        raise Unsupported(_no_pair(node))
    moved = moves_together(child, SHIFTED)

    def far(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(enlarged(pair, node, composed=moved) for pair in pairs)

    return Losses(
        far(base.remove),
        far(base.add),
        far(base.reached_remove) if moved else base.reached_remove,
        far(base.reached_add) if moved else base.reached_add,
        base.slack if in_one_run(child) else node.size * base.slack,
        base.in_one_part,
    )


def in_one_run(node: Node) -> bool:
    """Whether every record is in the same runs of what is below, with one noise event for all."""
    once = (*STRUCTURE, EventSlack, PoissonSampled)
    return all(isinstance(part, once) or not part.children for part in postorder(node))


def moves_all(sides: tuple[tuple[Pair, ...], ...]) -> bool:
    """Whether what is reached is a shift of normal noise."""
    return all(pair.gaussian_shift is not None for side in sides for pair in side)


def _moved_on(side: tuple[Pair, ...], node: Group) -> tuple[Pair, ...]:
    return tuple(enlarged(pair, node, composed=True) for pair in side)


def in_one_public_batch(node: Group) -> bool:
    """Whether all batches are of a public order, and hold the group."""
    drawn = [part for part in postorder(node.child) if isinstance(part, BATCHES)]
    if is_symbolic(node.size):
        return False
    return all(
        isinstance(part, CyclicBatches)
        and not is_symbolic(part.batch_size)
        and part.batch_size >= node.size
        for part in drawn
    )


def shift_without_sampling(node: Node) -> Number | None:
    """mu of Gaussian noise on batches, all in every batch of a round; None without such batches."""

    def squared(part: Node) -> Number | None:
        if isinstance(part, Gaussian):
            return 1 / part.noise_multiplier**2
        if not isinstance(part, (*JOINED, *BATCHES)):
            return None
        square: Number = Fraction(0)
        for child in part.children:
            of_child = squared(child)
            if of_child is None:
                return None
            square = square + of_child
        if isinstance(part, RandomAllocation):
            return part.participations * square
        return part.times * square if isinstance(part, Repeat) else square

    if not any(isinstance(part, BATCHES) for part in postorder(node)):
        return None
    square = squared(node)
    return None if square is None else sqrt(square)


def enlarged(pair: Pair, node: Group, *, composed: bool) -> Pair:
    """The pair at ``size`` times its shift; of a product only where every query moves so far."""
    far = pair.scaled(node.size)
    if far is not None:
        return far
    factors = [(factor.scaled(node.size), times) for factor, times in pair.factors]
    enlarged_factors = [(factor, times) for factor, times in factors if factor is not None]
    if not composed or len(enlarged_factors) != len(factors):
        raise Unsupported(_no_pair(node))
    return product(enlarged_factors)


def _drawn(pair: Pair, node: Group, *, members_seen: bool) -> Pair:
    """The pair of a group, factor by factor, under either order.

    ``members_seen``: a dominating pair, in which the attacker also sees how many members are drawn.
    """
    if pair.scaled(node.size) is not None:
        return enlarged(pair, node, composed=True)
    if pair.is_swapped:
        return _drawn(pair.unswapped, node, members_seen=members_seen).swapped
    if pair.sample is not None:
        return _sampled(pair, pair.sample, node, members_seen=members_seen)
    if pair.opposition is not None:
        return _seen(with_coin(pair.opposition), node) if members_seen else pair
    if pair.seen:
        return _seen(pair, node)
    return product(
        (_drawn(factor, node, members_seen=members_seen), times) for factor, times in pair.factors
    )


def _sampled(pair: Pair, sample: Sample, node: Group, *, members_seen: bool) -> Pair:
    """The pair of a group in a sample: a binomial number of its members is drawn."""
    if sample.rate == 1:
        return _drawn(sample.base, node, members_seen=members_seen)
    mu = sample.base.gaussian_shift
    if mu is not None:
        return Drawn(mu, sample.rate, node.size)
    return _with_members_seen(sample, node) if members_seen else pair


def _with_members_seen(sample: Sample, node: Group) -> Pair:
    """A dominating pair for a sampled group: the attacker sees how many members were drawn, if any.

    Whether any was drawn stays secret.
    """
    if sample.base.laplace_epsilon is None:
        raise Unsupported(_no_pair(node))
    none, *weights = _binomial(node, sample.rate)
    any_drawn = 1 - none
    branches = []
    for j, chance in enumerate(weights, 1):
        weight = canonical(sympify(chance / any_drawn))
        far = enlarged(sample.base, Group(node.child, Fraction(j)), composed=True)
        branches.append((weight, weight, Mixed(far, canonical(sympify(any_drawn)))))
    return Branched(tuple(branches))


def with_coin(opposition: Opposition) -> Pair:
    """A drawn record against its opposite, where it is seen whether it was drawn."""
    return seen(Normal(2 * opposition.mu), opposition.rate)


def _seen(pair: Pair, node: Group) -> Pair:
    """How many of a group came, each of whose records is seen to come or not."""
    (_, _, nothing), (rate, _, base) = pair.seen
    branches: list[tuple[Number, Number, Pair]] = []
    for j, weight in enumerate(_binomial(node, rate)):
        far = enlarged(base, Group(node.child, Fraction(max(j, 1))), composed=True)
        branches.append((weight, weight, far if j > 0 else nothing))
    return Branched(tuple(branches))


def _binomial(node: Group, rate: Number) -> list[Number]:
    """The law of how many of the group are drawn."""
    k = int(node.size)
    if k > MOST_COUNTED:
        raise Unsupported(f"{_no_pair(node)}; up to {MOST_COUNTED} members are counted")
    return [math.comb(k, j) * rate**j * (1 - rate) ** (k - j) for j in range(k + 1)]


def _no_pair(node: Group) -> str:
    return (
        f"{node.head}: no dominating pair is proved for a group over {node.child.head[:80]}; use "
        "pure, approx, zcdp, rdp or gdp"
    )

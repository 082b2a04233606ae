"""Amplification by sampling: the child runs on a secret batch of the records.

P and Q below are the child's outputs with and without the record, or on the two batches.
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.exact import Number, canonical, exp, is_infinite, is_symbolic, log, sqrt, sympify
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.batches import CyclicBatches
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.iterates import LastIterate
from dpaudit.families.local import Shuffled
from dpaudit.families.sampling import (
    ZERO,
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, always
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node, postorder
from dpaudit.pairs import (
    Allocated,
    Atoms,
    Branched,
    Losses,
    Mixed,
    Normal,
    Opposed,
    Pair,
    Replaced,
    Spliced,
    one,
    product,
)
from dpaudit.pairs.core import gaussian_shifts
from dpaudit.scope import Adjacency

BALLE_POISSON = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 8")
BALLE_BATCH = Source("Balle, Barthe, Gaboardi", 2018, "Theorem 9")
BALLE_DRAWS = Source(
    "Balle, Barthe, Gaboardi", 2018, "Theorem 10 (its setting); dpaudit 2026, proof at the rule"
)
ZHU_POISSON = Source("Zhu, Dong, Wang", 2022, "Theorem 11 (Poisson sampling of a dominating pair)")
ZHU_BATCH = Source(
    "Zhu, Dong, Wang",
    2022,
    "Theorem 11 (sampling without replacement); Gaussian children: dpaudit 2026, "
    "proof in profiles.grid.triangles",
)
CHUA = Source(
    "Chua, Ghazi, Harrison, Kamath, Kumar, Leeman, Manurangsi, Sinha, Zhang",
    2024,
    "Balls-and-bins sampling for DP-SGD: its dominating pair",
)
TOLD_SLOT = Source(
    "van Erven, Harremoes",
    2014,
    "Theorem 13 (a mixture is no further apart), the slot told; reached: dpaudit 2026, proof at "
    "the rule",
)
TOLD_COIN = Source(
    "van Erven, Harremoes",
    2014,
    "Theorem 13 (a mixture is no further apart), the coin told; reached: dpaudit 2026, proof at "
    "the rule; undrawn='zero': dpaudit 2026, proof in pairs.opposed, composed by Zhu, Dong, Wang "
    "2022, Theorem 10",
)
MIXTURE = Source("van Erven, Harremoes", 2014, "Theorem 13 (a mixture is no further apart)")

# The pair of a release that has the same law on both data sets.
SAME_ON_BOTH = Atoms(((Fraction(1), Fraction(1)),))
# Under zero_out too the batches are those with the record and those without: its contribution to
# every query is exactly zero, and no query reads the realised size of a batch.
WITH_OR_WITHOUT = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
REPLACED = (Adjacency.REPLACE_ONE,)  # neighbours for which the theorem is proved
# Nodes whose records have public places, which no sample hides.
PUBLIC_PLACES = (Parallel, CorrelatedGaussian, CyclicBatches, CyclicPoisson, LastIterate)
# Samplings of secret batches.
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


def alike(child: Node) -> bool:
    """Whether a batch may hold any record in place of any other, as a child's guarantee covers it.

    Not where records have public places (parts, rounds): the record that is drawn instead may be in
    another one, and a batch's number of records in a part, which may be released, tells which was.
    Then only the two runs with the same draws are compared, and no batch without the record helps.
    """
    return not any(
        isinstance(node, PUBLIC_PLACES)
        and not (isinstance(node, LastIterate) and node.batches == 1)
        for node in postorder(child)
    )


def mixes(child: Node) -> bool:
    """Whether a batch without the record is as the second run of what the child is said to reach.

    Not of reports of three answers and more, shuffled: all others hold a third one there, so that
    such a batch is neither run.  Nor of samples to which absent records add zero: all others do.
    """
    for part in postorder(child):
        if isinstance(part, PoissonSampled) and part.undrawn == ZERO:
            return False
        if isinstance(part, Shuffled) and not is_noise(part.child):
            reports = part.child
            if not isinstance(reports, RandomizedResponse) or reports.choices != 2:
                return False
    return True


def is_noise(reports: Node) -> bool:
    """Noise on a number, of which all others hold what the record is replaced by."""
    return isinstance(reports, (Laplace, DiscreteLaplace)) or is_normal(reports)


def is_normal(child: Node) -> bool:
    """Whether all below is Gaussian noise: one normal pair, by full moves in one direction."""
    return all(isinstance(part, Gaussian | Compose | Repeat) for part in postorder(child))


# --- (epsilon, delta) ----------------------------------------------------------------------------


def amplified(epsilon: Number, share: Number) -> Number:
    """log(1 + q (e^epsilon - 1))."""
    return log(1 + share * (exp(epsilon) - 1))


@PURE.rule(PoissonSampled, "poisson_sampled", cite=BALLE_POISSON, adjacency=WITH_OR_WITHOUT)
def poisson_sampled(node: PoissonSampled, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)) at rate q."""
    return amplified(epsilon, node.rate)


@PURE.rule(
    SampledWithoutReplacement, "sampled_without_replacement", cite=BALLE_BATCH, adjacency=REPLACED
)
def sampled_without_replacement(node: SampledWithoutReplacement, epsilon: Number) -> Number:
    """log(1 + q (e^epsilon - 1)), q = batch_size / population; epsilon unless records are alike."""
    return amplified(epsilon, share_of(node)) if alike(node.child) else epsilon


def share_of(node: SampledWithoutReplacement) -> Number:
    """The chance that a record is in the batch."""
    return node.batch_size / node.population


@APPROX.rule(
    PoissonSampled, "poisson_sampled_approx", cite=BALLE_POISSON, adjacency=WITH_OR_WITHOUT
)
def poisson_sampled_approx(
    node: PoissonSampled, base: tuple[Number, Number]
) -> tuple[Number, Number]:
    """(log(1 + q (e^epsilon - 1)), q delta) at rate q."""
    return amplified(base[0], node.rate), node.rate * base[1]


@APPROX.rule(
    SampledWithoutReplacement,
    "sampled_without_replacement_approx",
    cite=BALLE_BATCH,
    adjacency=REPLACED,
)
def sampled_without_replacement_approx(
    node: SampledWithoutReplacement, base: tuple[Number, Number]
) -> tuple[Number, Number]:
    """(log(1 + q (e^epsilon - 1)), q delta); (epsilon, q delta) unless records are alike."""
    epsilon, delta = base
    share = share_of(node)
    return amplified(epsilon, share) if alike(node.child) else epsilon, share * delta


@PURE.rule(SampledWithReplacement, "sampled_with_replacement", cite=BALLE_DRAWS, adjacency=REPLACED)
def sampled_with_replacement(node: SampledWithReplacement, epsilon: Number) -> Number:
    """m log(1 + (e^epsilon - 1) / n) = log E e^(J epsilon), J the number of times it is drawn.

    Proof: J is binomial(m, 1/n).  Fix m draws Y of the other records.  M_j runs on j copies of the
    record and Y_(j+1), .., Y_m; M'_i on i copies of what replaces it and Y_(i+1), .., Y_m.  Then
    M_j <= e^(j epsilon) M'_i for all i <= j: at most j records differ.  Let w_j be J's weights and
    L = sum w_j e^(j epsilon).  A j with e^(j epsilon) <= L is bounded by M'_j, and leaves room for
    w_j (L - e^(j epsilon)) more of it below w_j L M'_j; the larger j are bounded by their own M'_j
    up to w_j L, and by that room for the other w_j (e^(j epsilon) - L).  Room and need are equal
    by definition of L, so sum w_j M_j <= L sum w_j M'_j.  Unless records are alike: m epsilon.
    """
    if not alike(node.child):
        return node.draws * epsilon
    return node.draws * log(_growth(node, epsilon))


def _growth(node: SampledWithReplacement, epsilon: Number) -> Number:
    """E[e^(epsilon c)] for one draw, c the indicator that it is the record that differs."""
    return 1 + (exp(epsilon) - 1) / node.population


@APPROX.rule(
    SampledWithReplacement, "sampled_with_replacement_approx", cite=BALLE_DRAWS, adjacency=REPLACED
)
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
    return sampled_with_replacement(node, epsilon), delta * copies


@PURE.rule(RandomAllocation, "random_allocation", cite=MIXTURE, attained=always)
def random_allocation(node: RandomAllocation, epsilon: Number) -> Number:
    """k epsilon for k draws: a mixture over the slots, in which the record is in k runs.

    Reached by outputs whose loss is epsilon in every slot.
    """
    return epsilon if node.draws is None else node.draws * epsilon


@APPROX.rule(RandomAllocation, "random_allocation_approx", cite=MIXTURE)
def random_allocation_approx(
    node: RandomAllocation, base: tuple[Number, Number]
) -> tuple[Number, Number]:
    """The child's own, k times for k draws: hockey-stick divergences are jointly convex."""
    epsilon, delta = base
    return base if node.draws is None else (node.draws * epsilon, node.draws * delta)


# --- privacy profiles ----------------------------------------------------------------------------


def mixed(pairs: tuple[Pair, ...], rate: Number) -> tuple[Pair, ...]:
    """((1 - q) Q + q P, Q) for each (P, Q)."""
    return tuple(Mixed(pair, rate) for pair in pairs)


def mixed_away(pairs: tuple[Pair, ...], rate: Number) -> tuple[Pair, ...]:
    """(P, (1 - q) P + q Q) for each (P, Q)."""
    return tuple(Mixed(pair.swapped, rate).swapped for pair in pairs)


@PROFILE.rule(PoissonSampled, "poisson_profile", cite=ZHU_POISSON, adjacency=WITH_OR_WITHOUT)
def poisson_profile(node: PoissonSampled, base: Losses) -> Losses:
    """The run with the record mixes the two; attained by records whose queries are the child's."""
    reached = mixed(base.reached_remove, node.rate), mixed_away(base.reached_add, node.rate)
    return Losses(
        mixed(base.remove, node.rate),
        mixed_away(base.add, node.rate),
        *reached,
        base.slack,
        base.in_one_part,
    )


@PROFILE.rule(PoissonSampled, "replaced_in_a_sample", cite=TOLD_COIN, adjacency=REPLACED)
def replaced_in_a_sample(node: PoissonSampled, base: Losses) -> Losses:
    """With the chance of the rate the child's own pair, which is seen, and else nothing.

    From above: the record that comes has the coin of the one that goes.  Given it, and the coins of
    all others, one run is the child's, on batches that differ in the one record, or both are the
    same; divergences are jointly convex, so that delta is ``rate`` times the child's.
    Nothing better holds of all data: where there is but one record, a query may show whether its
    batch is empty, as only batches of one size are compared.
    From below, however many others there are: all hold what comes, and a batch without the one that
    goes runs as the second of the child's two, of whatever size it is.

    Where a record that is not drawn adds zero, below Gaussian noise: :class:`Opposed`, by half of
    the child's move; reached by records that add full moves in opposite directions, among others
    that add zero.
    """
    if node.rate == 1:
        return base
    shifts = gaussian_shifts(base.remove) if is_normal(node.child) else []
    if node.undrawn == ZERO and shifts:
        return one(Opposed(shifts[0] / 2, node.rate))
    is_reached = alike(node.child) and mixes(node.child)
    return Losses(
        tuple(seen(pair, node.rate) for pair in base.remove),
        tuple(seen(pair, node.rate) for pair in base.add),
        mixed(base.reached_remove, node.rate) if is_reached else (),
        mixed_away(base.reached_add, node.rate) if is_reached else (),
        base.slack,
        base.in_one_part,
    )


def seen(pair: Pair, rate: Number) -> Pair:
    """The pair with a chance, and else nothing; which of the two is seen."""
    return Branched(((1 - rate, 1 - rate, SAME_ON_BOTH), (rate, rate, pair)))


@PROFILE.rule(SampledWithoutReplacement, "batch_profile", cite=ZHU_BATCH, adjacency=REPLACED)
def batch_profile(node: SampledWithoutReplacement, base: Losses) -> Losses:
    """The two directions spliced at x = 1; one of them is reached.

    It is reached where all other records hold what the replaced one is replaced by.  The child's
    own pairs unless records are alike.  Gaussian noise: whatever three answers are a sensitivity
    apart, which rounds choose by what was released, and which three records reach.
    """
    if not alike(node.child):
        return Losses(base.remove, base.add, (), (), base.slack, base.in_one_part)
    share = share_of(node)
    if isinstance(node.child, Gaussian) and share != 1:
        triple = Replaced(1 / node.child.noise_multiplier, share)
        # The sampled pair is among them, and has bounds from below of its own.
        forth, back = (triple.sampled, triple), (triple.sampled.swapped, triple)
        return Losses((triple,), (triple,), forth, back, base.slack, base.in_one_part)
    remove = tuple(spliced(pair, share) for pair in base.remove)
    add = tuple(spliced(pair, share) for pair in base.add)
    reached = mixed(base.reached_remove, share), mixed_away(base.reached_add, share)
    if share != 1 and not mixes(node.child):
        reached = ((), ())
    return Losses(remove, add, *reached, base.slack, base.in_one_part)


def spliced(pair: Pair, share: Number) -> Pair:
    """((1 - q) Q + q P, Q) at x >= 1 and (P, (1 - q) P + q Q) at x < 1."""
    return Spliced(Mixed(pair, share), Mixed(pair.swapped, share).swapped)


PROFILE.absent(
    SampledWithReplacement,
    reason="the proved bound mixes profiles of 1, 2, ... copies of the record: no pair here",
)


@PROFILE.rule(RandomAllocation, "allocated_profile", cite=CHUA, adjacency=WITH_OR_WITHOUT)
def allocated_profile(node: RandomAllocation, base: Losses) -> Losses:
    """A uniform mixture over the slots of a Gaussian child; the pairs of any other child unchanged.

    Gaussian: release i moves by g_i, chosen after the releases before it, |g_i| at most the
    sensitivity.  It is a rescaling, plus noise of its own, of one coordinate of the mixture over i
    of N(e_i / z, I) against N(0, I): the pair dominates, and full moves reach it.  A child that is
    a composition of Gaussians is one of noise z = 1 / mu, mu^2 = sum of 1 / z_j^2: a coordinate is
    a Brownian motion with drift at time mu^2, whose path before is as likely under both, and whose
    increments over times of at most 1 / z_j^2, chosen after those before, are the releases.  Other
    children: divergences are jointly convex, so the mixture is dominated by its parts, in which the
    record is in ``draws`` runs of the child.
    Several draws of a Gaussian child: :func:`allocated`, whose mixture dominates for the same
    reason.
    """
    if node.slots == node.participations:
        return in_all_slots(base, node.slots)
    of_normal = allocated(base, node.slots, node.participations) if is_normal(node.child) else None
    if of_normal is not None:
        return of_normal
    # Every slot runs the child, and may meet its noise event.
    known_slot = in_all_slots(base, node.participations)
    reached = (
        (known_slot.reached_remove, known_slot.reached_add) if is_normal(node.child) else ((), ())
    )
    return Losses(
        known_slot.remove, known_slot.add, *reached, base.slack * node.slots, base.in_one_part
    )


def in_all_slots(base: Losses, slots: Number) -> Losses:
    """The pairs of so many runs of the child in sequence."""
    if slots == 1:
        return base

    def often(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(product([(pair, slots)]) for pair in pairs)

    return Losses(
        often(base.remove),
        often(base.add),
        often(base.reached_remove),
        often(base.reached_add),
        base.slack * slots,
        base.in_one_part,
    )


def allocated(base: Losses, slots: Number, draws: Number) -> Losses | None:
    """The mixture over the slots of a normal pair, either way; None of another, or of no move.

    Several draws, k of t: the likelihood ratio is the mean over all sets S of k slots of the
    product of X_i over S (:mod:`dpaudit.pairs.allocated`).  Split the slots at random into k groups
    of any fixed sizes: a slot drawn from each group makes a uniform S, so that the ratio is the
    mean over splits of the product of the groups' means of X_i.  That product has the law of the
    ratio of k independent allocations of one draw, to the slots of one group each; a mean over
    splits is smaller in the convex order, so that they dominate, in both directions.
    Reached: the sum of all slots' releases moves by k mu at noise sqrt(t), whatever S.
    Source: Feldman, Shenfeld 2025, "Privacy amplification by random allocation" (equal groups).
    """
    (normal,) = base.remove
    mu = normal.gaussian_shift
    if mu is None or mu == 0:
        return None
    if draws == 1:
        return one(Allocated(canonical(1 / mu), slots))
    if is_symbolic(slots) or is_symbolic(draws):
        groups = [(normal, draws)]
    else:
        size, larger = divmod(slots, draws)
        of_one = normal if size == 1 else Allocated(canonical(1 / mu), Fraction(size))
        of_more = Allocated(canonical(1 / mu), Fraction(size + 1))
        groups = [(of_more, larger), (of_one, draws - larger)]
    above, below = product(groups), Normal(canonical(draws * mu / sqrt(slots)))
    return Losses((above,), (above.swapped,), (below,), (below,))


@PROFILE.rule(RandomAllocation, "replaced_in_a_slot", cite=TOLD_SLOT, adjacency=REPLACED)
def replaced_in_a_slot(node: RandomAllocation, base: Losses) -> Losses:
    """The child's own pairs; below Gaussian noise the mixture over the slots is reached.

    From above: the record that comes draws the same slots as the one that goes.  Given them, and
    the slots of all others, one run of the child a draw has the one record or the other, whatever
    was released before, and all other runs are the same; divergences are jointly convex.
    Nothing better holds of all data: where there is but one record, a query may show how many
    records it has (with any weight: only batches of one size are compared), and so the slot.
    From below, however many others there are: all hold what comes, and what goes is a full move
    from it in every release, in one direction.  Then only the slot of the one that goes is moved:
    the pair of :func:`allocated_profile`, reached in both orders.
    """
    if node.slots == node.participations:
        return in_all_slots(base, node.slots)
    of_normal = allocated(base, node.slots, node.participations) if is_normal(node.child) else None
    reached = (of_normal.reached_remove, of_normal.reached_add) if of_normal else ((), ())
    known_slot = in_all_slots(base, node.participations)
    return Losses(
        known_slot.remove, known_slot.add, *reached, base.slack * node.slots, base.in_one_part
    )

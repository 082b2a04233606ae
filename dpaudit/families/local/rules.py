"""Local reports and shuffled ones: every calculus.

Reports of sets.  Let w = e^epsilon share + 1 - share and m = share - overlap.  For two values, the
outcomes of one's set alone have mass m e^epsilon / w if that value holds and m / w if the other
does; outcomes of both sets, or of none, are as likely either way.  A larger overlap is a smaller m,
and a garbling of this pair.  Where e^epsilon share + 1 - share - m (e^epsilon + 1) is at most
2 m e^(epsilon/2), F(u) of :mod:`dpaudit.families.discrete.rules` has imaginary zeros only.

Shuffled reports of sets.  The pair holds two values of sets S and S', the others any.  Any report
has the density (1 + (e^epsilon - 1) [in the own set]) / w under the outcomes' weights: with
probability 1 / w it is a draw by the weights alone, whatever is held (its blanket).  Give
the adversary more: which of the others' reports are such draws, and all other reports in full.  N
draws remain, and one report among them, with

    P / Q = sum of f(y) / sum of f'(y),    f, f' = 1 + (e^epsilon - 1) [in S, in S'],

over the N + 1 (Balle and others 2019, Lemma 5.3), and delta(x) is the mean of the positive part of
the sum of G = f - x f' over N + 1 draws, over N + 1: it grows in the convex order of G.
(1) A larger overlap of S and S' moves G from its two ends, e^epsilon - x and 1 - x e^epsilon, to
(1 - x) e^epsilon and 1 - x between them, of equal masses and mean: the least overlap is the worst.
(2) Outside of what one of the sets has alone, where f = f', let only so much be kept of the blanket
as has the report's own proportions: all, if that lies in both sets or in none, else the overlap and
e^-epsilon times what none has.  An adversary who also sees the rest has more; of the kept ones
only the number then matters: :class:`dpaudit.pairs.Blanket`, each other report counted with
probability 2 m / w, of the rest with what is kept over w.  In randomised response all is kept.
Where every report is revealing, there is no rest: Clones.
The number of the rest has to be seen.  The counts alone, with a rest, bound nothing: of ten
randomised responses among three values at epsilon 3, where the nine others hold 0, all ten are 0
with probability .387 or .0193.

Any child.  P is (e^epsilon N0 + N1) / (e^epsilon + 1), and Q the same with N0 and N1 exchanged,
for two laws whose mean is that of P and Q (Kairouz, Oh, Viswanath 2017, Theorem 3.3).  Any report
has at least e^-epsilon times that mean.  Give the adversary, for every other report, whether it is
of one of these parts, and otherwise the report.  He sees the counts of the two parts,
Clones(epsilon, 1, e^-epsilon, population - 1), and reports that are the same under both.
Reached: where all others hold a third value, of whose set ``free`` of either part is free, the
counts of those free outcomes alone are Clones(epsilon, free t, free 2 m / w, population - 1), where
t = m (e^epsilon + 1) / w is the probability of a revealing report.
Where free is 0, all others hold the second value, and how many reports are of the first one's set
alone is Tallied(epsilon, m / w, population - 1): in randomised response between two values, how
many are 1.  It is not the worst of all data sets: of three records at epsilon 0 one of each value
is worse, as the counts of the others are then 1 with probability p^2 + q^2, and no count of two
that hold the same has more than max(p^2, 2 p q), p = 1 - q the chance of an own value.
With two values there is no third one: any number of the others hold the first value, and the
reports of 1 are counted.  Polled is the worst of these numbers.  In several polls the number may
differ; the largest profile is that of a pair, which dominates them all (Zhu, Dong, Wang 2022).
Noise on a number that is 0 or d, and 0 for all others: how many reports are at least c is Tallied.
With Laplace noise, e^(-epsilon u / d) / 2 above u, c is d or 3 d / 4, which is near the best of
all up to an epsilon of 4; with discrete noise, a^k / (1 + a) from k >= 1 on, a = e^(-1 / scale),
and 1 - a^(1 - k) / (1 + a) from k <= 0 on, c is d or 3 d / 4 rounded up.
Gaussian noise: all others hold 0, the record 0 or, in every release of its report, a full move in
one direction.  Where all hold 0 the reports are independent of the same law N(0, z^2), so that
shuffled or not they are as likely; else the report moved is in a uniform place: the mixture over i
of N(e_i / z, I) against N(0, I), Allocated(z, population), either way.  The multiset tells as much
as the shuffled list, of which it is a function that loses a uniform order alone, the same under
both.  Releases of one report are one, of noise z = 1 / mu, as along one direction their sum, each
weighed by 1 / z_j^2, is sufficient.
Source: Balle, Bell, Gascon, Nissim 2019, The Privacy Blanket of the Shuffle Model, Section 5 (sets;
(1), (2) and the pair are dpaudit's); Feldman, McMillan, Talwar 2021, Hiding Among the Clones,
Theorem 3.1 (any child).
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from dpaudit.exact import Number, enclose, erfinv, exp, is_symbolic, log, sqrt, tanh, unknowns
from dpaudit.families.additive import Laplace
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.discrete.rules import both, faint, grown
from dpaudit.families.local import Shuffled, SubsetResponse
from dpaudit.families.opaque import PureDP
from dpaudit.families.sampling.rules import allocated, is_normal
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, Step, always
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.implied import largest_loss
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, Blanket, Clones, Losses, Pair, Polled, Tallied
from dpaudit.scope import Adjacency

SETS = Source("Ye, Barg", 2018, "Section III (subset selection); proof in families.local.rules")
SETS_ZCDP = Source("dpaudit", 2026, "imaginary zeros; proof in families.local.rules")
SETS_CORNER = Source("Dong, Roth, Su", 2022, "Definition 2.6, at the corners of a polygon")
CLONES = Source(
    "Balle, Bell, Gascon, Nissim",
    2019,
    "Lemma 5.3 (sets); Feldman, McMillan, Talwar 2021, Theorem 3.1 (any child); proof in "
    "families.local.rules",
)
SHUFFLER = Source("Erlingsson and others", 2019, "a shuffler post-processes: Section 2")
REPLACED = (Adjacency.REPLACE_ONE,)  # neighbours for which the theorem is proved


HALF, WHOLE = Fraction(1, 2), Fraction(1)


def rare_and_revealing(node: SubsetResponse) -> tuple[Number, Number]:
    """Two probabilities of a report: (m / w, m (e^epsilon + 1) / w).

    The first: it lies in S alone although the value of S' is held.  The second, *revealing*: it
    lies in just one of the two sets, under either value.  For complementary sets the second is
    exactly 1, returned as such because the expression would not simplify to it.
    """
    if node.share == HALF and node.overlap == 0:
        return 1 / (1 + exp(node.epsilon)), WHOLE
    rare = (node.share - node.overlap) / (exp(node.epsilon) * node.share + 1 - node.share)
    return rare, rare * (exp(node.epsilon) + 1)


# --- reports of sets -----------------------------------------------------------------------------


# The loss of an outcome of one set alone.
largest_loss("subset_response", lambda node: node.epsilon, SETS, SubsetResponse)


@PROFILE.rule(SubsetResponse, "subset_response_pair", cite=SETS)
def subset_response_pair(node: SubsetResponse) -> Losses:
    """Atoms: reports in the first set alone, in the second alone, and the rest."""
    rare, revealing = rare_and_revealing(node)
    likely = rare * exp(node.epsilon)
    other_answers = ((1 - revealing, 1 - revealing),) if revealing != 1 else ()
    return both(Atoms(((likely, rare), (rare, likely), *other_answers)))


def _sharp(node: Node, premises: tuple[Step, ...]) -> bool:
    return isinstance(node, SubsetResponse) and not faint(node.epsilon)


def _plainer(node: SubsetResponse) -> dict[str, bool]:
    return {"plain": True} if faint(node.epsilon) else {}


@RENYI.rule(SubsetResponse, "subset_response_curve", cite=SETS, attained=_sharp, witness=_plainer)
def subset_response_curve(node: SubsetResponse) -> Number:
    """The Renyi divergence of its pair (faint: alpha times that of randomised response)."""
    alpha, epsilon = order(), node.epsilon
    if faint(epsilon):
        return alpha * epsilon * tanh(epsilon / 2)
    moments = exp(alpha * epsilon) + exp((1 - alpha) * epsilon) - exp(epsilon) - 1
    return log(1 + rare_and_revealing(node)[0] * moments) / (alpha - 1)


def _at_order_one(node: Node, premises: tuple[Step, ...] = ()) -> bool:
    """Whether rho is proved to be the divergence at order 1: numbers, and little rest."""
    if not isinstance(node, SubsetResponse):
        return False
    rare, revealing = rare_and_revealing(node)
    if unknowns(revealing) or unknowns(rare) or faint(node.epsilon):
        return False
    return bool(enclose(1 - revealing) <= enclose(2 * rare * exp(node.epsilon / 2)))


@CONCENTRATED.rule(
    SubsetResponse,
    "subset_response_divergence",
    cite=SETS_ZCDP,
    attained=_at_order_one,
    witness=_plainer,
)
def subset_response_divergence(node: SubsetResponse) -> Number:
    """m epsilon (e^epsilon - 1) / w, reached at order 1; else epsilon tanh(epsilon / 2)."""
    if not _at_order_one(node):
        return node.epsilon * tanh(node.epsilon / 2)
    return rare_and_revealing(node)[0] * node.epsilon * grown(node.epsilon)


@GAUSSIAN.rule(SubsetResponse, "subset_response_corner", cite=SETS_CORNER)
def subset_response_corner(node: SubsetResponse) -> Number:
    """Phi^{-1}(m e^epsilon / w) - Phi^{-1}(m / w): both corners of the trade-off polygon."""
    rare, _ = rare_and_revealing(node)
    return sqrt(2) * (erfinv(2 * rare * exp(node.epsilon) - 1) + erfinv(1 - 2 * rare))


# --- shuffled reports ----------------------------------------------------------------------------


@PURE.rule(Shuffled, "shuffled", cite=SHUFFLER, adjacency=REPLACED, attained=always)
def shuffled(node: Shuffled, epsilon: Number) -> Number:
    """The child's own: all reports may be the same one."""
    return epsilon


@APPROX.rule(Shuffled, "shuffled_approx", cite=SHUFFLER, adjacency=REPLACED)
def shuffled_approx(node: Shuffled, base: tuple[Number, Number]) -> tuple[Number, Number]:
    """The child's own: use the profile."""
    return base


@CONCENTRATED.rule(Shuffled, "shuffled_concentrated", cite=SHUFFLER, adjacency=REPLACED)
@RENYI.rule(Shuffled, "shuffled_renyi", cite=SHUFFLER, adjacency=REPLACED)
@GAUSSIAN.rule(Shuffled, "shuffled_gaussian", cite=SHUFFLER, adjacency=REPLACED)
def shuffled_as_seen(node: Shuffled, value: Number) -> Number:
    """The child's own: use the profile."""
    return value


@PROFILE.rule(Shuffled, "shuffled_profile", cite=CLONES, adjacency=REPLACED)
def shuffled_profile(node: Shuffled, base: Losses) -> Losses:
    """The pair of the report among the others; the child's own pairs for other kinds of reports."""
    child, others = node.child, node.population - 1
    as_sets = _as_sets(child)
    if as_sets is not None:
        upper = hidden(as_sets, others)
        rare, revealing = rare_and_revealing(as_sets)
        if as_sets.free == 0:
            if isinstance(child, RandomizedResponse):
                upper = Polled(child.epsilon, WHOLE, 2 * rare, others)
            return _counted(upper, Tallied(as_sets.epsilon, rare, others))
        free = as_sets.free
        return both(upper, Clones(as_sets.epsilon, free * revealing, free * 2 * rare, others))
    loss = _largest_loss(child)
    if loss is None:
        if node.population == 1:
            return base
        of_slots = allocated(base, node.population, Fraction(1)) if is_normal(child) else None
        reached = (of_slots.reached_remove, of_slots.reached_add) if of_slots else ((), ())
        return Losses(base.remove, base.add, *reached, base.slack, base.in_one_part)
    return _counted(Clones(loss, WHOLE, exp(-loss), others), *_above(child, others))


def _counted(upper: Pair, *reached: Tallied) -> Losses:
    """Either record may be the one that is in the first run."""
    back = tuple(pair.swapped for pair in reached)
    return Losses((upper,), (upper,), reached, back)


def _above(child: Node, others: Number) -> tuple[Tallied, ...]:
    """How many reports of noise are above three quarters of the way between two values, or all."""
    if isinstance(child, Laplace):
        loss, part = 1 / child.noise_multiplier, Fraction(3, 4)
        likely, rare = 1 - exp((part - 1) * loss) / 2, exp(-part * loss) / 2
        between = Tallied(log(likely / rare), rare, others)
        return between, Tallied(loss, exp(-loss) / 2, others)
    if not isinstance(child, DiscreteLaplace):
        return ()
    way, fall = child.sensitivity, exp(-1 / child.scale)
    loss, total = way / child.scale, 1 + fall
    at_all = Tallied(loss, exp(-loss) / total, others)
    least = None if is_symbolic(way) else Fraction(ceil(3 * way / 4))
    if least is None or least == way:
        return (at_all,)
    below, rare = exp(-(way - least + 1) / child.scale) / total, exp(-least / child.scale) / total
    return Tallied(log((1 - below) / rare), rare, others), at_all


def hidden(report: SubsetResponse, others: Number) -> Pair:
    """One report of sets among the parts of others that are like it."""
    rare, revealing = rare_and_revealing(report)
    if revealing == 1:
        return Clones(report.epsilon, WHOLE, 2 * rare, others)
    level, shared = report.epsilon, report.overlap
    none = 1 - 2 * report.share + shared
    alike_mass = shared + (none if shared == 0 else exp(-level) * none)
    total = exp(level) * report.share + 1 - report.share
    return Blanket(level, revealing, 2 * rare, alike_mass / total, others)


def _as_sets(child: Node) -> SubsetResponse | None:
    """A report of sets; randomised response is one."""
    if isinstance(child, RandomizedResponse) and not is_symbolic(child.choices):
        third = Fraction(1 if child.choices >= 3 else 0)
        return SubsetResponse(child.label, child.epsilon, 1 / child.choices, Fraction(0), third)
    return child if isinstance(child, SubsetResponse) else None


def _largest_loss(child: Node) -> Number | None:
    """The largest loss of noise on a number, or of an opaque pure mechanism; else None."""
    if isinstance(child, PureDP):
        return child.epsilon
    if isinstance(child, Laplace):
        return 1 / child.noise_multiplier
    return child.sensitivity / child.scale if isinstance(child, DiscreteLaplace) else None

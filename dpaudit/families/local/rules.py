"""Local reports and shuffled ones: every calculus.

Reports of sets.  Let w = e^epsilon share + 1 - share and m = share - overlap.  Of two values, the
outcomes of one's set alone have mass m e^epsilon / w if that value holds and m / w if the other
does; outcomes of both sets, or of none, are as likely either way.  A larger overlap is a smaller m,
and a garbling of this pair.  Where e^epsilon share + 1 - share - m (e^epsilon + 1) is at most
2 m e^(epsilon/2), F(u) of :mod:`dpaudit.families.discrete.rules` has imaginary zeros only.

Shuffled reports.  The pair holds values 0 and 1, of laws P and Q, the others any.  P is
    (e^epsilon N0 + N1) / (e^epsilon + 1),
and Q the same with N0 and N1 exchanged, for two laws whose mean is that of P and Q (Kairouz, Oh,
Viswanath 2017, Theorem 3.3).  Any report has at least ``hidden`` times that mean: e^-epsilon times,
as it has at least so much of P and of Q; in randomised response 2 / (e^epsilon + 1): a third
value's mass is the same in P and Q, and no report has less of it, while the two values have
(e^epsilon + 1) / 2 of that mass in the mean.  Who is told, of every other report, whether it is of
one of these parts and otherwise all, sees the counts of the two parts,
Clones(epsilon, 1, hidden, population - 1), and reports that are the same under both.
The one report has to be of the parts for certain.  Were it so with probability told only, and else
of a law M that both values share, then which of the others are of no part would tell whether it
is: M is no law of theirs.  The counts of told < 1 alone bound nothing: of ten randomised responses
among three values at epsilon 3, where the nine others hold 0, all ten are 0 with probability .387
or .0193.
Reached: where all others hold a third value, of whose set ``free`` of either part is free, the
counts of those free outcomes alone are Clones(epsilon, free told, free 2 m / w, population - 1),
told = m (e^epsilon + 1) / w.
Source: Feldman, McMillan, Talwar 2021, Hiding Among the Clones, Theorem 3.1 (any child).
"""

from __future__ import annotations

from fractions import Fraction

from dpaudit.exact import Number, enclose, erfinv, exp, is_symbolic, log, sqrt, tanh, unknowns
from dpaudit.families.additive import Laplace
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.discrete.rules import both, faint, grown
from dpaudit.families.local import Shuffled, SubsetResponse
from dpaudit.families.opaque import PureDP
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, Step, always
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.nodes.pairs import Atoms, Clones, Losses
from dpaudit.scope import Adjacency

SETS = Source("Ye, Barg", 2018, "Section III (subset selection); proof in families.local.rules")
SETS_ZCDP = Source("dpaudit", 2026, "imaginary zeros; proof in families.local.rules")
SETS_CORNER = Source("Dong, Roth, Su", 2022, "Definition 2.6, at the corners of a polygon")
CLONES = Source(
    "Feldman, McMillan, Talwar",
    2021,
    "Hiding Among the Clones, Theorem 3.1; proof in families.local.rules",
)
SHUFFLER = Source("Erlingsson and others", 2019, "a shuffler post-processes: Section 2")
REPLACED = (Adjacency.REPLACE_ONE,)


HALF, WHOLE = Fraction(1, 2), Fraction(1)


def rare_and_told(node: SubsetResponse) -> tuple[Number, Number]:
    """m / w, the mass of one set alone under the other's value, and told, (1 + e^epsilon) that.

    Where two sets are complements, told is 1, which no expression would show.
    """
    if node.share == HALF and node.overlap == 0:
        return 1 / (1 + exp(node.epsilon)), WHOLE
    rare = (node.share - node.overlap) / (exp(node.epsilon) * node.share + 1 - node.share)
    return rare, rare * (exp(node.epsilon) + 1)


# --- reports of sets -----------------------------------------------------------------------------


@PURE.rule(SubsetResponse, "subset_response", cite=SETS, attained=always)
def subset_response(node: SubsetResponse) -> Number:
    """epsilon: the loss of an outcome of one set alone."""
    return node.epsilon


@APPROX.rule(SubsetResponse, "subset_response_at_zero", cite=SETS)
def subset_response_at_zero(node: SubsetResponse) -> tuple[Number, Number]:
    """(epsilon, 0)."""
    return node.epsilon, Fraction(0)


@PROFILE.rule(SubsetResponse, "subset_response_pair", cite=SETS)
def subset_response_pair(node: SubsetResponse) -> Losses:
    """Of one set alone, of the other alone, and the rest."""
    rare, told = rare_and_told(node)
    likely = rare * exp(node.epsilon)
    rest = ((1 - told, 1 - told),) if told != 1 else ()
    return both(Atoms(((likely, rare), (rare, likely), *rest)))


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
    return log(1 + rare_and_told(node)[0] * moments) / (alpha - 1)


def _at_order_one(node: Node, premises: tuple[Step, ...] = ()) -> bool:
    """Whether rho is proved to be the divergence at order 1: numbers, and little rest."""
    if not isinstance(node, SubsetResponse):
        return False
    rare, told = rare_and_told(node)
    if unknowns(told) or unknowns(rare) or faint(node.epsilon):
        return False
    return bool(enclose(1 - told) <= enclose(2 * rare * exp(node.epsilon / 2)))


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
    return rare_and_told(node)[0] * node.epsilon * grown(node.epsilon)


@GAUSSIAN.rule(SubsetResponse, "subset_response_corner", cite=SETS_CORNER)
def subset_response_corner(node: SubsetResponse) -> Number:
    """Phi^{-1}(m e^epsilon / w) - Phi^{-1}(m / w): both corners of the trade-off polygon."""
    rare, _ = rare_and_told(node)
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
    """Clones of the report's parts; the child's own pairs where it is of no kind known here."""
    child, others = node.child, node.population - 1
    as_sets = _as_sets(child)
    if as_sets is not None:
        level = as_sets.epsilon
        disjoint = isinstance(child, RandomizedResponse)
        upper = Clones(level, WHOLE, 2 / (1 + exp(level)) if disjoint else exp(-level), others)
        if as_sets.free == 0:
            return Losses((upper,), (upper,))
        rare, told = rare_and_told(as_sets)
        free = as_sets.free
        return both(upper, Clones(level, free * told, free * 2 * rare, others))
    loss = _largest_loss(child)
    if loss is None:
        return Losses(base.remove, base.add, (), (), base.slack, base.in_one_part)
    upper = Clones(loss, WHOLE, exp(-loss), others)
    return Losses((upper,), (upper,))


def _as_sets(child: Node) -> SubsetResponse | None:
    """A report of sets; randomised response is one."""
    if isinstance(child, RandomizedResponse) and not is_symbolic(child.choices):
        third = Fraction(1 if child.choices >= 3 else 0)
        return SubsetResponse(child.label, child.epsilon, 1 / child.choices, Fraction(0), third)
    return child if isinstance(child, SubsetResponse) else None


def _largest_loss(child: Node) -> Number | None:
    """Of noise on a number, and of an opaque pure mechanism."""
    if isinstance(child, PureDP):
        return child.epsilon
    if isinstance(child, Laplace):
        return 1 / child.noise_multiplier
    return child.sensitivity / child.scale if isinstance(child, DiscreteLaplace) else None

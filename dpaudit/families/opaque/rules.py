"""Rules of guarantees that are stated: what each says in every calculus, and where it says none."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from dpaudit.exact import Number, canonical, exp, sympify
from dpaudit.exact.domains import known_sign
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    Laws,
    MixtureOfGaussians,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import CORNER, GAUSSIAN, corner
from dpaudit.measures.implied import UNBOUNDED, WHOLE_CURVE, gaussian
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED, FROM_PURE
from dpaudit.pairs import (
    Atoms,
    Branched,
    Concentrated,
    Losses,
    Normal,
    NormalMixture,
    Renyi,
    one,
    opaque,
)
from dpaudit.pairs import Pair as DominatingPair
from dpaudit.scope import Adjacency

Pair = tuple[Number, Number]
Point = tuple[Number, Number]

DECLARED = Source("dpaudit", 2026, "definition of an opaque leaf")
FROM_GDP = Source("Dong, Roth, Su", 2022, "Corollary B.6 (Renyi divergences of mu-GDP)")
EXTREMAL = Source("Kairouz, Oh, Viswanath", 2017, "Theorem 3.3 (the extremal pair)")
GAUSSIAN_CURVE = Source("Dong, Roth, Su", 2022, "Definition 2.6")
CONVEX = Source("Zhu, Dong, Wang", 2022, "Lemma 9 (profiles are convex, and mirrored at x = 1)")
MIXTURE = Source(
    "Choquette-Choo, Ganesh, Steinke, Thakurta", 2024, "Corollary 4.7 (proof in pairs.drawn)"
)
UNREPLACED, REPLACED = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT), (Adjacency.REPLACE_ONE,)
RENYI_CURVE = Source("Canonne, Kamath, Steinke", 2020, "Proposition 12")


gaussian(GDP, ("opaque", "from_gdp", "from_gdp"), lambda n: n.mu, DECLARED, FROM_GDP, FROM_GDP)
# The longest move dominates the mixture: see pairs.drawn.
gaussian(
    MixtureOfGaussians,
    ("longest_move", "longest_move_divergence", "longest_move_curve"),
    lambda node: max(length for length, _ in node.moves) / node.noise_multiplier,
    MIXTURE,
)


@PURE.rule(PureDP, "opaque", cite=DECLARED)
def puredp_pure(node: PureDP) -> Number:
    """The guarantee that the node's source proves."""
    return node.epsilon


PURE.absent(
    GDP,
    MixtureOfGaussians,
    ZCDP,
    reason=UNBOUNDED,
)


PURE.absent(
    ApproxDP,
    Laws,
    ProfilePoints,
    RenyiDP,
    RenyiCurve,
    reason="it allows an unbounded loss: use profile",
)


@APPROX.rule(ApproxDP, "opaque", cite=DECLARED)
def approxdp_approximate(node: ApproxDP) -> Pair:
    """The guarantee that the node's source proves."""
    return node.epsilon, node.delta


@APPROX.rule(PureDP, "opaque_pure", cite=DECLARED)
def puredp_approximate(node: PureDP) -> Pair:
    """Pure differential privacy is the case delta = 0."""
    return node.epsilon, Fraction(0)


APPROX.absent(
    GDP,
    ZCDP,
    Laws,
    MixtureOfGaussians,
    ProfilePoints,
    RenyiDP,
    RenyiCurve,
    reason=WHOLE_CURVE,
)


@GAUSSIAN.rule(PureDP, "from_pure", cite=CORNER)
def puredp_gaussian_dp(node: PureDP) -> Number:
    """-2 Phi^{-1}(1/(1+e^epsilon)) = sqrt(8) erfinv(tanh(epsilon/2))."""
    return corner(node.epsilon)


GAUSSIAN.absent(
    ApproxDP,
    Laws,
    ProfilePoints,
    reason="a delta at infinite loss is above every Gaussian profile",
)


GAUSSIAN.absent(
    ZCDP, RenyiDP, RenyiCurve, reason="Renyi bounds imply no Gaussian trade-off curve: use profile"
)


@CONCENTRATED.rule(PureDP, "from_pure", cite=FROM_PURE)
def puredp_concentrated(node: PureDP) -> Number:
    """epsilon^2 / 2."""
    return node.epsilon**2 / 2


@CONCENTRATED.rule(ZCDP, "opaque", cite=DECLARED)
def zcdp_concentrated(node: ZCDP) -> Number:
    """The guarantee that the node's source proves."""
    return node.rho


CONCENTRATED.absent(
    ApproxDP,
    Laws,
    ProfilePoints,
    reason="an outcome that tells all has infinite Renyi divergence",
)


CONCENTRATED.absent(
    RenyiDP, RenyiCurve, reason="Renyi bounds at other orders than all of them: use rdp or profile"
)


@RENYI.rule(PureDP, "from_pure", cite=FROM_PURE)
def puredp_renyi(node: PureDP) -> Number:
    """alpha epsilon^2 / 2."""
    return order() * node.epsilon**2 / 2


@RENYI.rule(RenyiCurve, "opaque_curve", cite=DECLARED)
def renyicurve_renyi(node: RenyiCurve) -> Number:
    """The guarantee that the node's source proves."""
    return node.curve


@RENYI.rule(ZCDP, "opaque", cite=DECLARED)
def zcdp_renyi(node: ZCDP) -> Number:
    """alpha rho: what somebody else proved."""
    return order() * node.rho


RENYI.absent(
    ApproxDP,
    Laws,
    ProfilePoints,
    reason="an outcome that tells all has infinite Renyi divergence",
)


RENYI.absent(RenyiDP, reason="known up to one order, no curve over all of them: use profile")


@PROFILE.rule(PureDP, "pure", cite=EXTREMAL)
def puredp_profile(node: PureDP) -> Losses:
    """Randomised response dominates every epsilon-DP mechanism."""
    return opaque(Atoms(_response(node.epsilon, Fraction(1))))


@PROFILE.rule(ApproxDP, "approximate", cite=EXTREMAL)
def approxdp_profile(node: ApproxDP) -> Losses:
    """Randomised response with probability 1 - delta, else an outcome of infinite loss."""
    revealing = (node.delta, Fraction(0)), (Fraction(0), node.delta)
    return opaque(Atoms((*revealing, *_response(node.epsilon, 1 - node.delta))))


@PROFILE.rule(ZCDP, "concentrated", cite=RENYI_CURVE)
def zcdp_profile(node: ZCDP) -> Losses:
    """The smallest delta over all Renyi orders, at every epsilon."""
    return opaque(Concentrated(node.rho))


@PROFILE.rule(GDP, "gaussian_curve", cite=GAUSSIAN_CURVE)
def gdp_profile(node: GDP) -> Losses:
    """N(mu, 1) against N(0, 1)."""
    return opaque(Normal(node.mu))


@PROFILE.rule(RenyiDP, "renyi", cite=RENYI_CURVE)
def renyidp_profile(node: RenyiDP) -> Losses:
    """The delta that one Renyi order allows, at every epsilon."""
    return opaque(Renyi(node.order, node.epsilon))


@PROFILE.rule(ProfilePoints, "points", cite=CONVEX)
def profilepoints_profile(node: ProfilePoints) -> Losses:
    """The line through the points: a profile is convex in x = e^epsilon.

    Swapping the data sets gives a point at 1/x for each, at 1 - 1/x + delta/x.
    """
    stated_points = [(exp(e), d) for e, d in node.points]
    mirrored = [(1 / x, 1 - 1 / x + d / x) for x, d in reversed(stated_points)]
    corners = [(Fraction(0), Fraction(1)), *(m for m in mirrored if m[0] != 1), *stated_points]
    # The pair whose profile joins the corners: Q mass is the change of slope, P mass x Q mass.
    hull = _hull(corners)
    slopes = [canonical(sympify(b[1] - a[1]) / sympify(b[0] - a[0])) for a, b in pairwise(hull)]
    masses = [after - before for before, after in zip(slopes, [*slopes[1:], 0], strict=True)]
    revealing = (hull[-1][1], Fraction(0)), (Fraction(0), canonical(1 + slopes[0]))
    inside = [(canonical(x * q), canonical(q)) for (x, _), q in zip(hull[1:], masses, strict=True)]
    return opaque(Atoms((*revealing, *inside)))


@PROFILE.rule(Laws, "laws", cite=DECLARED, adjacency=UNREPLACED)
def laws_profile(node: Laws) -> Losses:
    """The laws with the record and without it."""
    return opaque(Atoms(node.outcomes))


@PROFILE.rule(Laws, "laws_either_way", cite=DECLARED, adjacency=REPLACED)
def laws_of_either_order(node: Laws) -> Losses:
    """Either data set may be the first: the larger of both profiles, in both directions."""
    pair = Atoms(node.outcomes)
    return Losses((pair, pair.swapped), (pair.swapped, pair))


def sorted_moves(node: MixtureOfGaussians) -> dict[Number, Number]:
    """The chance of every length that has one, 0 among them, from the shortest on."""
    chances: dict[Number, Number] = {Fraction(0): 1 - sum(chance for _, chance in node.moves)}
    for length, chance in node.moves:
        chances[length] = chances.get(length, 0) + chance
    return {length: chances[length] for length in sorted(chances) if chances[length] != 0}


def mixture(node: MixtureOfGaussians) -> DominatingPair:
    """Its pair: normal noise alone where there is one length."""
    chances = sorted_moves(node)
    stays = chances.pop(Fraction(0), Fraction(0))
    lengths = tuple(length / node.noise_multiplier for length in chances)
    if not lengths or (stays == 0 and len(lengths) == 1):
        return Normal(max(lengths, default=Fraction(0)))
    return NormalMixture(lengths, tuple(chances.values()))


@PROFILE.rule(MixtureOfGaussians, "mixture", cite=MIXTURE, adjacency=UNREPLACED)
def mixtureofgaussians_profile(node: MixtureOfGaussians) -> Losses:
    """The mixture against no move dominates vectors of any directions, and is reached by one."""
    return one(mixture(node))


@PROFILE.rule(MixtureOfGaussians, "mixture_replaced", cite=MIXTURE, adjacency=REPLACED)
def mixtureofgaussians_replaced(node: MixtureOfGaussians) -> Losses:
    """With each chance a normal pair of that length, which is seen; the mixture is reached.

    From above: records that are drawn alike; given the length, the noise is moved by it, and
    divergences are jointly convex.  From below: the record that comes never moves the release.
    """
    reached = mixture(node)
    length_seen = Branched(
        tuple((p, p, Normal(m / node.noise_multiplier)) for m, p in sorted_moves(node).items())
    )
    return Losses((length_seen,), (length_seen.swapped,), (reached,), (reached.swapped,))


PROFILE.absent(
    RenyiCurve, reason="a whole curve of Renyi bounds has no one dominating pair: use rdp"
)


def _response(epsilon: Number, mass: Number) -> tuple[tuple[Number, Number], ...]:
    high = canonical(sympify(mass / (1 + exp(-epsilon))))
    low = canonical(sympify(mass / (1 + exp(epsilon))))
    return (high, low), (low, high)


def _hull(corners: list[Point]) -> list[Point]:
    """The lower convex hull: points above the line of their neighbours are left out."""
    hull: list[Point] = []
    for point in corners:
        while len(hull) > 1 and not _turns_up(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_up(a: Point, b: Point, c: Point) -> bool:
    """Whether b is certainly below the line from a to c."""
    height = (b[1] - a[1]) * (c[0] - a[0]) - (c[1] - a[1]) * (b[0] - a[0])
    return known_sign(canonical(-sympify(height)), strict=True) is True

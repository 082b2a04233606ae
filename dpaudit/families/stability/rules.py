"""Stable releases with a bottom outcome, and Gaussian noise under a coupling of inner coins."""

from __future__ import annotations

from fractions import Fraction

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, exp, infinity, is_symbolic, sympify, total
from dpaudit.families.stability import CoupledGaussian, Distance, StableRelease
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.implied import gaussian, unbounded
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.pairs import Atoms, Branched, Losses, Normal, Scored, Thresholded
from dpaudit.scope import Adjacency

DELETION = Source(
    "Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang",
    2023,
    "Theorem 3.3, with the exact profile over all pairs of scores (dpaudit 2026)",
)
COUPLING = Source(
    "Balle, Barthe, Gaboardi", 2018, "Theorem 2 (joint convexity of hockey-stick divergences)"
)
MAX_SCORES = 2_000  # Levels of a threshold that are enumerated.
MAX_FLIPS = 20_000  # Coins of a coupled release that are enumerated.
TAIL_GRAIN = Fraction(1, 10**40)  # Binomial tails are rounded up to multiples of this.
ZERO, ONE = Fraction(0), Fraction(1)


# --- a score against a threshold -----------------------------------------------------------------


def no_finite_bound(node: StableRelease) -> Number:
    """A score of 2 kappa may pass where its neighbour never does."""
    return infinity()


for _calculus in (PURE, CONCENTRATED, RENYI, GAUSSIAN):
    _calculus.rule(
        StableRelease, "no_finite_bound", cite=DELETION, adjacency=(Adjacency.REPLACE_ONE,)
    )(no_finite_bound)


@APPROX.rule(StableRelease, "stable_approximate", cite=DELETION, adjacency=(Adjacency.REPLACE_ONE,))
def stable_approximate(node: StableRelease) -> tuple[Number, Number]:
    """(2 e, p(0) + delta of N(mu, 1) against N(0, 1) at e), mu of the farthest that may pass.

    The test is (e, p(0))-DP, p(0) the probability of the lowest threshold; mu = (4 kappa + 2) / z
    (path) or 2 / z (diameter), and a score of 2 kappa + 1 never passes.
    """
    epsilon, kappa = node.epsilon, node.kappa
    units = 4 * kappa + 2 if node.distance == Distance.PATH else Fraction(2)
    test = lowest(epsilon, kappa)
    return 2 * epsilon, total((test, normal_delta(epsilon, units / node.noise_multiplier)))


def lowest(epsilon: Number, kappa: Number) -> Number:
    """P(R = 0) = e^(-e kappa) / (1 + 2 (1 - e^(-e kappa)) / (e^e - 1))."""
    shrunk = exp(-epsilon * kappa)
    return shrunk / (1 + 2 * (1 - shrunk) / (exp(epsilon) - 1))


def normal_delta(epsilon: Number, mu: Number) -> Number:
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    above, below = (upper_tail(epsilon / mu + side * mu / 2) for side in (-1, 1))
    return above - exp(epsilon) * below


def upper_tail(z: Number) -> Number:
    """1 - Phi(z)."""
    import sympy

    return (1 - sympy.erf(sympify(z) / sympy.sqrt(2))) / 2


@PROFILE.rule(StableRelease, "stable_release", cite=DELETION, adjacency=(Adjacency.REPLACE_ONE,))
def stable_release(node: StableRelease) -> Losses:
    """The largest over scores s, t one apart: bottom, or pass and N(mu, 1) against N(0, 1).

    mu = (s + t + 2) / z (path) or 2 / z (diameter).  Equal scores do no worse: at x >= 1 the pair
    (s, s + 1), at x < 1 the pair (s + 1, s) has the larger profile.  All scores one apart are
    reached, 2 kappa + 1 included, by a function that is near 0 without one of two groups of users
    and far apart elsewhere, so that one data set is stable without the first only, its neighbour
    without the second only (n >= 4 kappa + 2; path: every other user moves it by one unit, either
    way; diameter: the replaced user alone, by one unit each way).  Listed are kappa, kappa + 1,
    the worst pair at most deltas, and 2 kappa, which passes with p(0), against 2 kappa + 1, never.
    Errors: Unsupported while kappa is a symbol, or large.
    """
    if is_symbolic(node.kappa) or node.kappa > MAX_SCORES:
        raise Unsupported(f"{node.head}: a profile needs a kappa of at most {MAX_SCORES}: bind it")
    unit, path = 1 / node.noise_multiplier, node.distance == Distance.PATH
    offset, slope = 2 * unit, unit if path else Fraction(0)
    pair = Thresholded(node.epsilon, node.kappa, offset, slope)
    worst, last = (
        Scored(node.epsilon, node.kappa, s, s + 1, offset + slope * (2 * s + 1))
        for s in (node.kappa, 2 * node.kappa)
    )
    return Losses((pair,), (pair,), (worst, last), (worst.swapped,))


# --- a coupling of inner coins -------------------------------------------------------------------

unbounded(CoupledGaussian)


def farthest(node: CoupledGaussian) -> Number:
    """The mu of the largest move, all coins flipped."""
    return (node.always + node.flips) / node.noise_multiplier


# Trade-off curves of a mixture with a seen index are above the lowest, that of the largest move.
gaussian(
    CoupledGaussian,
    ("coupled_gaussian", "coupled_concentrated", "coupled_renyi"),
    farthest,
    COUPLING,
)


def _places(node: CoupledGaussian) -> dict[str, int]:
    return {"places": len(str(TAIL_GRAIN.denominator)) - 1}


@PROFILE.rule(CoupledGaussian, "coupled_profile", cite=COUPLING, witness=_places)
def coupled_profile(node: CoupledGaussian) -> Losses:
    """Sum over k of P(B = k) times the profile of N((always + k) / z, 1) against N(0, 1).

    Proof: an attacker who sees how many coins flip has more; and the profile grows with the move,
    so a binomial rounded up (by ``TAIL_GRAIN`` at most) is an upper bound.
    Errors: Unsupported while flips or rate is a symbol, or flips is large.
    """
    if is_symbolic(node.flips) or is_symbolic(node.rate) or node.flips > MAX_FLIPS:
        raise Unsupported(f"{node.head}: a profile needs numbers, and at most {MAX_FLIPS} flips")
    weights = binomial(int(node.flips), node.rate)
    branches = [
        (weight, weight, Normal((node.always + k) / node.noise_multiplier))
        for k, weight in enumerate(weights[:-1])
        if weight
    ]
    disjoint = Atoms(((ONE, ZERO), (ZERO, ONE)))
    last_branch = [(weights[-1], weights[-1], disjoint)] if weights[-1] else []
    pair = Branched((*branches, *last_branch))
    return Losses((pair,), (pair.swapped,))


def binomial(trials: int, rate: Fraction) -> list[Fraction]:
    """P(B = k) for k = 0, 1, ..., then what is left above: each tail moved up to ``TAIL_GRAIN``.

    The list ends where the tail is at most ``TAIL_GRAIN``, or where all trials succeed.
    """
    hit, miss = rate.numerator, rate.denominator - rate.numerator
    if miss == 0:
        return [*[ZERO] * trials, ONE, ZERO]
    total = rate.denominator**trials
    mass_left, term, tails = total - miss**trials, miss**trials, [ONE]
    for k in range(1, trials + 2):
        tails.append(-(-mass_left * TAIL_GRAIN.denominator // total) * TAIL_GRAIN)
        if tails[-1] <= TAIL_GRAIN:
            break
        term = term * (trials - k + 1) * hit // (k * miss)
        mass_left -= term
    return [a - b for a, b in zip(tails, [*tails[1:], ZERO], strict=True)]

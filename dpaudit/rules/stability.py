"""Stable releases with a bottom outcome, and Gaussian noise under a coupling of inner coins."""

from __future__ import annotations

from fractions import Fraction
from math import comb

from dpaudit.arithmetic import Number, exp, infinity, is_symbolic
from dpaudit.calculus import Source
from dpaudit.errors import Unsupported
from dpaudit.nodes import CoupledGaussian, Distance, StableRelease
from dpaudit.pairs import Atoms, Branched, Losses, Normal, Pair, largest
from dpaudit.rules.approx import APPROX
from dpaudit.rules.gdp import GAUSSIAN
from dpaudit.rules.profile import ALTERNATIVES, PROFILE
from dpaudit.rules.pure import PURE
from dpaudit.rules.rdp import RENYI, order
from dpaudit.rules.zcdp import CONCENTRATED
from dpaudit.scope import Adjacency

DELETION = Source(
    "Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang",
    2023,
    "Theorem 3.3, with the exact profile over all pairs of scores (dpaudit 2026)",
)
COUPLING = Source(
    "Balle, Barthe, Gaboardi", 2018, "Theorem 2 (joint convexity of hockey-stick divergences)"
)
SCORES = 2_000
FLIPS = 100_000
# What a binomial's rounding may add: masses are moved up to multiples of it.
GRAIN = Fraction(1, 10**40)
ZERO, ONE = Fraction(0), Fraction(1)


# --- a score against a threshold -----------------------------------------------------------------


def no_finite_bound(node: StableRelease) -> Number:
    """A score of 2 kappa may pass where its neighbour never does."""
    return infinity()


for _calculus in (PURE, CONCENTRATED, RENYI, GAUSSIAN):
    _calculus.rule(StableRelease, cite=DELETION, adjacency=(Adjacency.REPLACE_ONE,))(
        no_finite_bound
    )
APPROX.absent(
    StableRelease, reason="a whole curve of (epsilon, delta), no one point of it: use profile"
)


@PROFILE.rule(StableRelease, cite=DELETION, adjacency=(Adjacency.REPLACE_ONE,))
def stable_release(node: StableRelease) -> Losses:
    """The largest over scores s, t one apart: bottom, or pass and N(mu, 1) against N(0, 1).

    mu = (s + t + 2) / z (path) or 2 / z (diameter).  Equal scores do no worse: at x >= 1 the pair
    (s, s + 1), at x < 1 the pair (s + 1, s) has the larger profile.  Each pair of scores is
    reached (path), by a function that is stable on either side and far apart between.
    Errors: Unsupported while kappa is a symbol, or large.
    """
    if is_symbolic(node.kappa) or node.kappa > SCORES:
        raise Unsupported(f"{node.head}: a profile needs a kappa of at most {SCORES}: bind it")
    kappa = int(node.kappa)
    pairs = [scored(node, s) for s in range(2 * kappa + 1)]
    both = tuple(side for pair in pairs for side in (pair, pair.swapped))
    near = sorted(range(2 * kappa + 1), key=lambda s: abs(2 * s + 1 - 2 * kappa))
    middle = [pairs[s] for s in near[: ALTERNATIVES // 2]]
    reached = tuple(side for pair in middle for side in (pair, pair.swapped))
    if node.distance != Distance.PATH:
        reached = ()
    return Losses((largest(both),), (largest(both),), reached, reached)


def scored(node: StableRelease, score: int) -> Pair:
    """The pair of a score (under P) and the next one (under Q)."""
    shift = 2 * score + 3 if node.distance == Distance.PATH else 2
    (p_fail, p_pass), (q_fail, q_pass) = (chances(node, s) for s in (score, score + 1))
    passed = (p_pass, q_pass, Normal(shift / node.noise_multiplier))
    return Branched(((p_fail, q_fail, Normal(ZERO)), passed))


def chances(node: StableRelease, score: int) -> tuple[Number, Number]:
    """(probability of bottom, of passing) at a score of 0..2 kappa + 1.

    P(R < s) = e^(-e kappa) (e^(e s) - 1) / ((e^e - 1) Z) for s <= kappa, R about kappa symmetric.
    """
    kappa, epsilon = int(node.kappa), node.epsilon
    if score > kappa:
        fail, passes = chances(node, 2 * kappa + 1 - score)
        return passes, fail
    shrunk, step = exp(-epsilon * kappa), exp(epsilon)
    total = 1 + 2 * (1 - shrunk) / (step - 1)
    low = shrunk * (exp(epsilon * score) - 1) / ((step - 1) * total) if score else ZERO
    return low, 1 - low


# --- a coupling of inner coins -------------------------------------------------------------------

for _calculus in (PURE, APPROX):
    _calculus.absent(
        CoupledGaussian, reason="a whole curve of (epsilon, delta), no one point of it: use profile"
    )


def farthest(node: CoupledGaussian) -> Number:
    """The mu of the largest move, all coins flipped."""
    return (node.always + node.flips) / node.noise_multiplier


@GAUSSIAN.rule(CoupledGaussian, cite=COUPLING)
def coupled_gaussian(node: CoupledGaussian) -> Number:
    """The largest move: trade-off curves of a mixture with a seen index are above the lowest."""
    return farthest(node)


@CONCENTRATED.rule(CoupledGaussian, cite=COUPLING)
def coupled_concentrated(node: CoupledGaussian) -> Number:
    """The largest move."""
    return farthest(node) ** 2 / 2


@RENYI.rule(CoupledGaussian, cite=COUPLING)
def coupled_renyi(node: CoupledGaussian) -> Number:
    """The largest move."""
    return order() * farthest(node) ** 2 / 2


@PROFILE.rule(CoupledGaussian, cite=COUPLING)
def coupled_profile(node: CoupledGaussian) -> Losses:
    """Sum over k of P(B = k) times the profile of N((always + k) / z, 1) against N(0, 1).

    Proof: seeing how many coins flip can only tell more, and the profile grows with the move, so
    that a binomial moved up (by ``GRAIN`` at most) does no less.
    Errors: Unsupported while flips or rate is a symbol, or flips is large.
    """
    if is_symbolic(node.flips) or is_symbolic(node.rate) or node.flips > FLIPS:
        raise Unsupported(f"{node.head}: a profile needs numbers, and at most {FLIPS} flips")
    weights = binomial(int(node.flips), node.rate)
    branches = [
        (weight, weight, Normal((node.always + k) / node.noise_multiplier))
        for k, weight in enumerate(weights[:-1])
        if weight
    ]
    told = Atoms(((ONE, ZERO), (ZERO, ONE)))
    rest = [(weights[-1], weights[-1], told)] if weights[-1] else []
    pair = Branched((*branches, *rest))
    return Losses((pair,), (pair.swapped,))


def binomial(trials: int, rate: Fraction) -> list[Fraction]:
    """P(B = k) for k = 0, 1, ..., then what is left above: each tail moved up to ``GRAIN``.

    The list ends where the tail is at most ``GRAIN``, or where all trials succeed.
    """
    tail, tails = ONE, [ONE]
    for k in range(trials + 1):
        tail -= comb(trials, k) * rate**k * (1 - rate) ** (trials - k)
        tails.append(-(-tail // GRAIN) * GRAIN)
        if tails[-1] <= GRAIN:
            break
    return [a - b for a, b in zip(tails, [*tails[1:], ZERO], strict=True)]

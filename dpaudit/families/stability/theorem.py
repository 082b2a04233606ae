"""Stable releases and coupled Gaussian noise, stated a second time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import comb
from typing import Any

from dpaudit.check.theorem import Row, Table, Theorem, counted, of_mu, register
from dpaudit.errors import Unsupported
from dpaudit.exact import exp, infinity, is_symbolic, sqrt, sympify
from dpaudit.pairs import Atoms, Branched, Losses, Normal, Pair, Scored, Thresholded

REPLACE_ONE = frozenset({"replace_one"})
ZERO, ONE = Fraction(0), Fraction(1)
# The most scores, flips and places that a certificate may ask a verifier to compute with.
MOST_SCORES, MOST_FLIPS, MOST_PLACES = 2_000, 20_000, 1_000


def _units(node: Any, score: Any, other: Any) -> Any:
    """How far two releases that pass may be apart, in standard deviations."""
    return (2 if node.distance == "diameter" else score + other + 2) / node.noise_multiplier


def _test_and_release(node: Any) -> tuple[Any, Any]:
    """The decision is (e, P(R = 0))-DP; releases at two passing scores 2 kappa are a Gaussian's.

    Z counts kappa steps down on either side of the most likely threshold.
    """
    import sympy

    e, k = node.epsilon, node.kappa
    tail = exp(-e * k)
    lowest = tail * (exp(e) - 1) / (exp(e) + 1 - 2 * tail)
    mu = _units(node, 2 * k, 2 * k)
    ends = [sympify(e / mu + s * mu / 2) / sqrt(2) for s in (-1, 1)]
    above, below = ((1 - sympy.erf(end)) / 2 for end in ends)
    return 2 * e, lowest + above - exp(e) * below


def _scores(node: Any) -> Losses:
    """Every two scores one apart; those in the middle, and the last two, are reached."""
    k = node.kappa
    if is_symbolic(k) or k > MOST_SCORES:
        raise Unsupported(f"kappa = {k}: no profile")
    apart = _units(node, ZERO, ZERO)
    step = _units(node, ZERO, ONE) - apart
    pair = Thresholded(node.epsilon, k, apart, step)
    worst, last = (Scored(node.epsilon, k, s, s + 1, _units(node, s, s + 1)) for s in (k, 2 * k))
    return Losses((pair,), (pair,), (worst, last), (worst.swapped,))


def _coupled(node: Any, witness: Row) -> Losses:
    """A move of ``always`` + B units is seen to be that; B's tails are moved up to some places."""
    n, rate = node.flips, node.rate
    grain = 10 ** counted(witness, "places", MOST_PLACES, MOST_PLACES)
    if is_symbolic(n) or is_symbolic(rate) or n > MOST_FLIPS:
        raise Unsupported(f"{n} flips of {rate}: no profile")
    branches: list[tuple[Any, Any, Pair]] = []
    above = ONE
    for k, tail in enumerate(_rounded_tails(int(n), rate, grain)):
        if above != tail:
            branches.append(
                (above - tail, above - tail, Normal((node.always + k) / node.noise_multiplier))
            )
        above = tail
        if above * grain <= 1:
            break
    if above:
        branches.append((above, above, Atoms(((ONE, ZERO), (ZERO, ONE)))))
    pair = Branched(tuple(branches))
    return Losses((pair,), (pair.swapped,))


def _rounded_tails(n: int, rate: Fraction, grain: int) -> Iterator[Fraction]:
    """P(B > k) for k = 0, ..., n of a binomial, up to multiples of 1 / grain.

    One minus the masses up to k, in whole numbers: binom(n, j) hit^j miss^(n - j) of whole^n.
    """
    hit, miss, total = rate.numerator, rate.denominator - rate.numerator, rate.denominator**n
    missed, mass_left = miss**n, total
    for k in range(n + 1):
        mass_left -= comb(n, k) * hit**k * (missed // miss**k if miss else int(k == n))
        yield Fraction(-(-mass_left * grain // total), grain)


def _farthest(node: Any) -> Any:
    return (node.always + node.flips) / node.noise_multiplier


STABILITY: Table = {
    **{
        (c, "StableRelease"): Theorem("no_finite_bound", lambda n: infinity(), REPLACE_ONE)
        for c in ("pure", "zcdp", "gdp")
    },
    ("rdp", "StableRelease"): Theorem(
        "no_finite_bound", lambda n: lambda a: infinity(), REPLACE_ONE
    ),
    ("approx", "StableRelease"): Theorem("stable_approximate", _test_and_release, REPLACE_ONE),
    ("profile", "StableRelease"): Theorem("stable_release", _scores, REPLACE_ONE),
    **of_mu(
        "CoupledGaussian",
        ("coupled_gaussian", "coupled_concentrated", "coupled_renyi"),
        _farthest,
    ),
    ("profile", "CoupledGaussian"): Theorem("coupled_profile", _coupled, reads=True),
}

register(STABILITY)

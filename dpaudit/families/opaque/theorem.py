"""Guarantees that somebody else proved, stated a second time."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

from dpaudit.check.theorem import (
    Table,
    Theorem,
    at_order,
    dominating,
    of_mu,
    pure_to_gdp,
    register,
)
from dpaudit.exact import canonical, exp, sympify
from dpaudit.exact.domains import known_sign
from dpaudit.pairs import Atoms, Branched, Concentrated, Losses, Normal, NormalMixture, Pair, Renyi

ZERO, ONE = Fraction(0), Fraction(1)


def _randomised_response(epsilon: Any, mass: Any) -> tuple[tuple[Any, Any], ...]:
    """Two answers with odds e^epsilon : 1, of a mass in all.

    Source: Kairouz, Oh, Viswanath 2017, Theorem 3.3.
    """
    likely, unlikely = (canonical(sympify(mass / (1 + exp(e)))) for e in (-epsilon, epsilon))
    return (likely, unlikely), (unlikely, likely)


def _pure(node: Any) -> Losses:
    return dominating(Atoms(_randomised_response(node.epsilon, ONE)))


def _approximate(node: Any) -> Losses:
    """Tells all with probability delta."""
    answers = _randomised_response(node.epsilon, 1 - node.delta)
    return dominating(Atoms(((node.delta, ZERO), (ZERO, node.delta), *answers)))


def _through_points(node: Any) -> Losses:
    """delta is convex in x = e^epsilon, 1 at x = 0, and at 1/x it is 1 - 1/x + delta(x) / x.

    So it lies below the lower hull of the points, and from the last one on below that one's delta.
    A point with a larger delta than one before it says nothing.
    """
    best, stated_points = ONE, []
    for epsilon, delta in node.points:
        if delta <= best:
            best = delta
            stated_points.append((exp(epsilon), delta))
    mirrored = [(1 / x, 1 - 1 / x + delta / x) for x, delta in reversed(stated_points) if x != 1]
    hull = _lower_hull([(ZERO, ONE), *mirrored, *stated_points])
    slopes = [canonical(sympify(d - c) / sympify(y - x)) for (x, c), (y, d) in pairwise(hull)]
    kinks = [canonical(r - s) for s, r in pairwise([*slopes, ZERO])]
    revealing = (hull[-1][1], ZERO), (ZERO, canonical(1 + slopes[0]))
    shown = ((canonical(x * q), q) for (x, _), q in zip(hull[1:], kinks, strict=True))
    return dominating(Atoms((*revealing, *shown)))


def _lower_hull(points: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Points certainly below the line of their neighbours in the hull so far, and the two ends."""
    hull: list[tuple[Any, Any]] = []
    for x, d in points:
        while len(hull) > 1:
            (u, a), (v, b) = hull[-2:]
            above = (d - a) * (v - u) - (b - a) * (x - u)
            if known_sign(canonical(sympify(above)), strict=True):
                break
            hull.pop()
        hull.append((x, d))
    return hull


def _in_either_order(node: Any) -> Losses:
    pair = Atoms(node.outcomes)
    both = pair, pair.swapped
    return Losses(both, both[::-1])


def _most(node: Any) -> Any:
    return max(length for length, _ in node.moves) / node.noise_multiplier


def _chances(node: Any) -> list[tuple[Any, Any]]:
    """Lengths that grow, 0 the first, and their chances."""
    lengths = sorted({ZERO, *(length for length, _ in node.moves)})
    chance_of = {m: sum((p for length, p in node.moves if length == m), ZERO) for m in lengths}
    chance_of[ZERO] += 1 - sum(chance_of.values())
    return list(chance_of.items())


def _mixture(node: Any) -> Pair:
    """Gaussian noise alone where the length is certain."""
    shifts = [(m / node.noise_multiplier, p) for m, p in _chances(node) if p != 0]
    if len(shifts) == 1:
        return Normal(shifts[0][0])
    moved = [(mu, p) for mu, p in shifts if mu != 0]
    return NormalMixture(tuple(mu for mu, _ in moved), tuple(p for _, p in moved))


def _mixture_once(node: Any) -> Losses:
    """One direction of all moves dominates, and is reached."""
    forth = _mixture(node)
    return Losses((forth,), (forth.swapped,), (forth,), (forth.swapped,))


def _mixture_replaced(node: Any) -> Losses:
    """The length is told; a record that comes and moves nothing reaches the mixture."""
    below, z = _mixture(node), node.noise_multiplier
    length_seen = Branched(tuple((p, p, Normal(m / z)) for m, p in _chances(node) if p != 0))
    return Losses((length_seen,), (length_seen.swapped,), (below,), (below.swapped,))


OPAQUE: Table = {
    ("pure", "PureDP"): Theorem("opaque", lambda n: n.epsilon),
    ("approx", "ApproxDP"): Theorem("opaque", lambda n: (n.epsilon, n.delta)),
    ("approx", "PureDP"): Theorem("opaque_pure", lambda n: (n.epsilon, Fraction(0))),
    ("zcdp", "PureDP"): Theorem("from_pure", lambda n: n.epsilon**2 / 2),
    ("zcdp", "ZCDP"): Theorem("opaque", lambda n: n.rho),
    ("gdp", "PureDP"): Theorem("from_pure", lambda n: pure_to_gdp(n.epsilon)),
    **of_mu("GDP", ("opaque", "from_gdp", "from_gdp"), lambda n: n.mu),
    ("rdp", "PureDP"): Theorem("from_pure", lambda n: lambda a: a * n.epsilon**2 / 2),
    ("rdp", "RenyiCurve"): Theorem("opaque_curve", lambda n: lambda a: at_order(n.curve, a)),
    ("rdp", "ZCDP"): Theorem("opaque", lambda n: lambda a: a * n.rho),
    ("profile", "PureDP"): Theorem("pure", _pure),
    ("profile", "ApproxDP"): Theorem("approximate", _approximate),
    ("profile", "ZCDP"): Theorem("concentrated", lambda n: dominating(Concentrated(n.rho))),
    ("profile", "RenyiDP"): Theorem("renyi", lambda n: dominating(Renyi(n.order, n.epsilon))),
    ("profile", "ProfilePoints"): Theorem("points", _through_points),
    ("profile", "Laws"): Theorem(
        "laws",
        lambda n: dominating(Atoms(n.outcomes)),
        frozenset({"add_remove", "zero_out"}),
        also=Theorem("laws_either_way", _in_either_order, frozenset({"replace_one"})),
    ),
    **of_mu(
        "MixtureOfGaussians",
        ("longest_move", "longest_move_divergence", "longest_move_curve"),
        _most,
    ),
    ("profile", "MixtureOfGaussians"): Theorem(
        "mixture",
        _mixture_once,
        frozenset({"add_remove", "zero_out"}),
        also=Theorem("mixture_replaced", _mixture_replaced, frozenset({"replace_one"})),
    ),
    ("profile", "GDP"): Theorem("gaussian_curve", lambda n: dominating(Normal(n.mu))),
}

register(OPAQUE)

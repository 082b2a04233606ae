"""The best of a random number of runs: pure and Renyi differential privacy.

With Q the law of one run, ordered by its score, the outcome has density f'(q) dQ at the rank q,
f the generating function of K; f' of the truncated negative binomial law is proportional to
(1 - (1 - gamma) q)^-(shape + 1).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import Number, enclose, is_infinite, log, unknowns
from dpaudit.exact.wire import encode_number
from dpaudit.families.sampling.renyi_rules import at
from dpaudit.families.tuning import Tuned
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED

BEST = Source("Papernot, Steinke", 2022, "Theorem 2 (truncated negative binomial)")
BEST_PURE = Source(
    "Papernot, Steinke", 2022, "Theorem 2 at infinite orders (shape 1: Liu, Talwar 2019)"
)
ORDERS = tuple(Fraction(n) for n in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512))

APPROX.absent(Tuned, reason="a best of several runs multiplies delta by their number: use rdp")
CONCENTRATED.absent(Tuned, reason="a constant is added at every order: use rdp")
GAUSSIAN.absent(Tuned, reason="a constant is added at every order: use rdp")
PROFILE.absent(Tuned, reason="no dominating pair is known: use rdp or pure")


@PURE.rule(Tuned, "best_of_runs", cite=BEST_PURE)
def best_of_runs(node: Tuned, epsilon: Number) -> Number:
    """(2 + shape) epsilon."""
    return (2 + node.shape) * epsilon


def added(node: Tuned, value: Number, place: Any) -> Number:
    """What the search adds at every order, from the child's divergence at one order."""
    kept = (1 - 1 / place) * value + log(1 / node.gamma) / place
    return (1 + node.shape) * kept


def chosen(node: Tuned, curve: Number) -> dict[str, Any]:
    """The witness: b."""
    return {} if is_infinite(curve) else {"order": encode_number(best_order(node, curve))}


@RENYI.rule(Tuned, "best_of_runs_curve", cite=BEST, witness=chosen)
def best_of_runs_curve(node: Tuned, curve: Number) -> Number:
    """r(a) + (1 + shape) ((1 - 1/b) r(b) + log(1/gamma) / b) + log E K / (a - 1), at the best b.

    b is one of ``ORDERS``: the one of least value; every one is a bound.
    """
    if is_infinite(curve):
        return curve
    place = best_order(node, curve)
    return curve + added(node, at(curve, place), place) + log(node.mean) / (order() - 1)


@lru_cache(maxsize=256)
def best_order(node: Tuned, curve: Number) -> Fraction:
    """The order at which the search adds least; 2 where symbols are left."""
    if unknowns(node.gamma) or unknowns(node.shape) or unknowns(at(curve, ORDERS[0])):
        return ORDERS[0]
    best, least = ORDERS[0], None
    for place in ORDERS:
        value = float(enclose(added(node, at(curve, place), place)).mid())
        if least is not None and value > least:
            break
        best, least = place, value
    return best

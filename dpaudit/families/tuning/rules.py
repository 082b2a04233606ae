"""The best of a random number of runs: pure and Renyi differential privacy, and profiles.

With Q the law of one run, ordered by its score, the outcome has density f'(q) dQ at the rank q,
f the generating function of K; f' of the truncated negative binomial law is proportional to
(1 - (1 - gamma) q)^-(shape + 1).

For a Poisson number of mean m, f'(q) = m exp(m (q - 1)), and q' of the other run has
1 - q' <= e^h (1 - q) + d, d the child's delta at h.  With e^h = a / (a - 1),
a (q - 1) - (a - 1) (q' - 1) <= (a - 1) d, so that at order a
    sum A^a A'^(1 - a) <= exp(-m) + m exp((a - 1) (r(a) + m d)),
the first summand for K = 0; Theorem 6 of the paper leaves it out, and holds from m = 1 on.  d by
Canonne, Kamath, Steinke 2020, Proposition 12, at any order b > 1: (b - 1)^(b - 1) / b^b times
exp((b - 1) (r(b) - h)).  In pure privacy q - q' <= tanh(epsilon / 2).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import Number, enclose, exp, is_infinite, log, tanh, unknowns
from dpaudit.exact.arb import working_precision
from dpaudit.exact.wire import encode_number
from dpaudit.families.sampling.renyi_rules import at
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.pairs import Best, BestOfPoisson, Losses

BEST = Source("Papernot, Steinke", 2022, "Theorem 2 (truncated negative binomial)")
BEST_PURE = Source(
    "Papernot, Steinke", 2022, "Theorem 2 at infinite orders (shape 1: Liu, Talwar 2019)"
)
POISSON = Source(
    "Papernot, Steinke", 2022, "Theorem 6 (Poisson); proof, with no run at all, in tuning.rules"
)
PROFILES = Source(
    "Koskela, Redberg, Wang", 2024, "profiles for private selection; sharper, proof in pairs.best"
)
# log(1 / delta) for delta = 10^-6, at which an order is chosen.
TYPICAL_LOG_DELTA = 6 * math.log(10)
# Renyi orders of the base mechanism that are tried; each gives a valid bound.
TRIED_ORDERS = tuple(
    Fraction(n) for n in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)
)

APPROX.absent(
    Tuned, TunedPoisson, reason="a best of several runs multiplies delta by their number: use rdp"
)
CONCENTRATED.absent(Tuned, TunedPoisson, reason="a constant is added at every order: use rdp")
GAUSSIAN.absent(Tuned, TunedPoisson, reason="a constant is added at every order: use rdp")


@PURE.rule(Tuned, "best_of_runs", cite=BEST_PURE)
def best_of_runs(node: Tuned, epsilon: Number) -> Number:
    """(2 + shape) epsilon."""
    return (2 + node.shape) * epsilon


def added(shape: Number, gamma: Number, value: Number, place: Any) -> Number:
    """The term that the search adds at every order, from the child's divergence at one order.

    All exact numbers, or all balls.
    """
    term = (1 - 1 / place) * value + log(1 / gamma) / place
    return (1 + shape) * term


def chosen(node: Tuned, curve: Number) -> dict[str, Any]:
    """The witness: b."""
    return {} if is_infinite(curve) else {"order": encode_number(best_order(node, curve))}


@RENYI.rule(Tuned, "best_of_runs_curve", cite=BEST, witness=chosen)
def best_of_runs_curve(node: Tuned, curve: Number) -> Number:
    """r(a) + (1 + shape) ((1 - 1/b) r(b) + log(1/gamma) / b) + log E K / (a - 1), at the best b.

    b is one of ``TRIED_ORDERS``: the one of least value; every one is a bound.
    """
    if is_infinite(curve):
        return curve
    place = best_order(node, curve)
    more = added(node.shape, node.gamma, at(curve, place), place)
    return curve + more + log(node.mean) / (order() - 1)


@lru_cache(maxsize=256)
def best_order(node: Tuned, curve: Number) -> Fraction:
    """The order at which the search adds least; 2 where symbols are left."""
    if unknowns(node.gamma) or unknowns(node.shape) or unknowns(curve) - {order()}:
        return TRIED_ORDERS[0]
    best, least = TRIED_ORDERS[0], None
    for place in TRIED_ORDERS:
        with working_precision():
            law = enclose(node.shape), enclose(node.gamma)
            value = float(added(*law, _ball_at(curve, place), enclose(place)).mid())
        if least is not None and value > least:
            break
        best, least = place, value
    return best


def _ball_at(curve: Number, place: Fraction) -> Any:
    """A Renyi curve at one order, enclosed: SymPy would simplify long what is only compared."""
    return enclose(curve, {order(): enclose(place)})


@PROFILE.rule(Tuned, "best_of_runs_profile", cite=PROFILES)
def best_of_runs_profile(node: Tuned, base: Losses) -> Losses:
    """The best of the runs that one run's pair dominates, each way; no lower end is known."""
    remove, add = (
        tuple(Best(pair, node.gamma, node.shape + 1) for pair in side)
        for side in (base.remove, base.add)
    )
    return Losses(remove, add, slack=node.mean * base.slack)


# --- a Poisson number of runs --------------------------------------------------------------------


@PURE.rule(TunedPoisson, "best_of_poisson", cite=POISSON)
def best_of_poisson(node: TunedPoisson, epsilon: Number) -> Number:
    """epsilon + mean tanh(epsilon / 2)."""
    return epsilon + node.mean * tanh(epsilon / 2)


@PROFILE.rule(TunedPoisson, "best_of_poisson_profile", cite=PROFILES)
def best_of_poisson_profile(node: TunedPoisson, base: Losses) -> Losses:
    """As of other numbers of runs; no run at all is as likely on both data sets."""
    remove, add = (
        tuple(BestOfPoisson(pair, node.mean) for pair in side) for side in (base.remove, base.add)
    )
    return Losses(remove, add, slack=node.mean * base.slack)


def _failing(node: TunedPoisson, curve: Number) -> dict[str, Any]:
    """The witness: b."""
    return {} if is_infinite(curve) else {"order": encode_number(failing_order(node, curve))}


@RENYI.rule(TunedPoisson, "best_of_poisson_curve", cite=POISSON, witness=_failing)
def best_of_poisson_curve(node: TunedPoisson, curve: Number) -> Number:
    """r(a) + m d(a) + log(m + exp(-m)) / (a - 1), d at log(a / (a - 1)) from r(b).

    b is one of ``TRIED_ORDERS``: the one of least epsilon at delta = 10^-6; every one is a bound.
    """
    if is_infinite(curve):
        return curve
    a, b = order(), failing_order(node, curve)
    runs = log(node.mean + exp(-node.mean))
    return curve + node.mean * _delta(curve, b, log(a / (a - 1))) + runs / (a - 1)


def _delta(curve: Number, b: Fraction, epsilon: Number) -> Number:
    """The child's delta at epsilon, from its divergence at b."""
    return exp((b - 1) * (at(curve, b) - epsilon + log(1 - 1 / b))) / b


@lru_cache(maxsize=256)
def failing_order(node: TunedPoisson, curve: Number) -> Fraction:
    """The order of least epsilon at delta = 10^-6, as far as floats say; 2 where symbols are."""
    if unknowns(curve) - {order()} or unknowns(node.mean):
        return TRIED_ORDERS[0]
    mean = float(enclose(node.mean).mid())
    values = [(float(a), float(_ball_at(curve, a).mid())) for a in TRIED_ORDERS]

    def epsilon(place: int) -> float:
        b, largest = values[place]
        epsilons = []
        for a, value in values:
            moved = (b - 1) * (largest + math.log1p(-1 / b) - math.log(a / (a - 1)))
            runs = mean * math.exp(min(moved - math.log(b), 700))
            epsilons.append(
                value + runs + (math.log(mean + math.exp(-mean)) + TYPICAL_LOG_DELTA) / (a - 1)
            )
        return min(epsilons)

    return TRIED_ORDERS[min(range(len(TRIED_ORDERS)), key=epsilon)]

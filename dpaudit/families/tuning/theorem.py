"""The best of a random number of runs, stated a second time."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.check.reading import require
from dpaudit.check.theorem import Row, Table, Theorem, register
from dpaudit.exact import exp, infinity, is_infinite, log, tanh
from dpaudit.exact.wire import decode_number
from dpaudit.pairs import Best, BestOfPoisson, Losses, Pair


def _runs(node: Any) -> Any:
    """E K, written as the accountant does: a text that holds sums is not read as arithmetic."""
    g, s = node.gamma, node.shape
    if s == 0:
        return (1 - g) / g / log(1 / g)
    return 1 / g if s == 1 else s * (1 - g) / (g * (1 - exp(s * log(g))))


def _curve(node: Any, witness: Row, curve: Any) -> Any:
    """Any order b above 1 serves; the divergence at it bounds how much ranks may move."""
    b = decode_number(witness["order"]) if "order" in witness else Fraction(2)
    require(isinstance(b, Fraction) and b > 1, "order: expected a number above 1")
    if is_infinite(curve(b)):
        return lambda a: infinity()
    moved = curve(b) * (b - 1) / b + log(1 / node.gamma) / b
    return lambda a: curve(a) + (node.shape + 1) * moved + log(_runs(node)) / (a - 1)


def _poisson(node: Any, witness: Row, curve: Any) -> Any:
    """Any order b above 1 serves: r(b) bounds the child's delta at log(a / (a - 1)).

    With m runs on average: exp(-m) + m exp((a - 1)(r(a) + m delta)) is at most
    (m + exp(-m)) exp((a - 1)(r(a) + m delta)).
    """
    b = decode_number(witness["order"]) if "order" in witness else Fraction(2)
    require(isinstance(b, Fraction) and b > 1, "order: expected a number above 1")
    if is_infinite(curve(b)):
        return lambda a: infinity()
    m, largest = node.mean, curve(b) + log(1 - 1 / b)

    def bound(a: Any) -> Any:
        delta = exp((largest - log(a / (a - 1))) * (b - 1)) / b
        return curve(a) + delta * m + log(exp(-m) + m) / (a - 1)

    return bound


def _of_best(losses: Losses, best: Callable[[Pair], Pair], runs: Any) -> Losses:
    """The best of each of one run's pairs; every run may be off by the slack."""
    remove, add = (tuple(best(pair) for pair in side) for side in (losses.remove, losses.add))
    return Losses(remove, add, slack=runs * losses.slack)


TUNING: Table = {
    ("profile", "Tuned"): Theorem(
        "best_of_runs_profile",
        lambda n, base: _of_best(base, lambda pair: Best(pair, n.gamma, n.shape + 1), _runs(n)),
    ),
    ("profile", "TunedPoisson"): Theorem(
        "best_of_poisson_profile",
        lambda n, base: _of_best(base, lambda pair: BestOfPoisson(pair, n.mean), n.mean),
    ),
    ("pure", "Tuned"): Theorem("best_of_runs", lambda n, e: e * 2 + e * n.shape),
    ("pure", "TunedPoisson"): Theorem("best_of_poisson", lambda n, e: tanh(e / 2) * n.mean + e),
    ("rdp", "TunedPoisson"): Theorem("best_of_poisson_curve", _poisson, reads=True),
    ("rdp", "Tuned"): Theorem("best_of_runs_curve", _curve, reads=True),
}

register(TUNING)

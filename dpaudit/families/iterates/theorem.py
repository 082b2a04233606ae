"""The last iterate of a noisy contraction, stated a second time.

The proof stands beside the accountant's rule of the same name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import Premise, Table, Theorem, dominating, reached, register
from dpaudit.exact import enclose, log, sqrt, tanh, unknowns
from dpaudit.nodes.pairs import Losses, Normal


def _window(steps: Any, c: Any, d: Any) -> int:
    """The number of last steps of least sum; 0 for all.

    Where it is off, what follows is a bound none the less.
    """
    if d == 0 or unknowns(steps) or unknowns(c) or unknowns(d) or d * (1 - c) >= 1:
        return 0
    most, near, far = (float(enclose(n).mid()) for n in (steps, c, d))

    def size(m: float, start: float) -> float:
        if near == 1:
            return (start + m) / math.sqrt(m)
        left = math.exp(m * math.log(near))
        return (left * start + (1 - left) / (1 - near)) * math.sqrt((1 - near**2) / (1 - left**2))

    best = far if near == 1 else math.log(1 - far * (1 - near)) / math.log(near)
    some = [min(max(m, 1.0), most) for m in (math.floor(best), math.floor(best) + 1.0)]
    found = min(some, key=lambda m: size(m, far))
    return int(found) if size(found, far) < size(most, 0.0) else 0


def _mu(node: Any) -> Any:
    """Any number of the last steps serves, from any two points of the set."""
    c, steps, apart = node.contraction, node.steps, node.diameter * 0
    window = _window(steps, c, node.diameter)
    if window:
        steps, apart = Fraction(window), node.diameter
    if c == 1:
        return (apart + steps) / sqrt(steps) / node.noise_multiplier
    half = tanh(log(1 / c) * steps / 2)
    kept = (1 - half) / (1 + half)
    if apart == 0:
        return sqrt((1 + c) * half / (1 - c)) / node.noise_multiplier
    way = kept * apart + (1 - kept) / (1 - c)
    return way * sqrt((1 - c**2) / (1 - kept**2)) / node.noise_multiplier


def _is_linear(node: Any, premises: Sequence[Premise]) -> bool:
    """Updates x -> c x + 1 against x -> c x, with no set."""
    return bool(node.diameter == 0)


def _pair(node: Any) -> Losses:
    pair = Normal(_mu(node))
    return reached(pair) if _is_linear(node, ()) else dominating(pair)


ITERATES: Table = {
    ("gdp", "LastIterate"): Theorem("last_iterate", _mu, attained=_is_linear),
    ("zcdp", "LastIterate"): Theorem(
        "last_iterate_concentrated", lambda n: _mu(n) ** 2 / 2, attained=_is_linear
    ),
    ("rdp", "LastIterate"): Theorem(
        "last_iterate_curve", lambda n: lambda a: a * _mu(n) ** 2 / 2, attained=_is_linear
    ),
    ("profile", "LastIterate"): Theorem("last_iterate_pair", _pair),
}

register(ITERATES)

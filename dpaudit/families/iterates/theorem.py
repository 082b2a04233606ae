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


def _fallen(c: Any, steps: Any) -> Any:
    """c^steps by a hyperbolic tangent, which SymPy leaves as it is."""
    half = tanh(log(1 / c) * steps / 2)
    return (1 - half) / (1 + half)


def _cyclic(node: Any) -> Any:
    """mu z of whole passes in one order: the last move, and what is met before it.

    Whatever number of passes is taken, from two points of the set, this is a bound.
    """
    c, d, size = node.contraction, node.diameter, int(node.batches)
    before = int(node.steps) // size - 1
    tries = [(before, d * 0)]
    if d != 0 and not unknowns(c) and not unknowns(d):
        shrink, far = (float(enclose(n).mid()) for n in (c, d))
        best = far
        if shrink < 1:
            pull = math.exp(size * math.log(shrink))
            held = far * (1 - pull) * shrink / pull
            best = math.log(1 - held) / math.log(pull) if held < 1 else 0.0
        if best > 0:
            tries += [(m, d) for m in (math.floor(best), math.floor(best) + 1) if 1 <= m <= before]

    def squares(passes: int, start: Any) -> Any:
        if passes == 0:
            return Fraction(1)
        if c == 1:
            return (start + passes) ** 2 / (size * passes) + 1
        pull, rest = _fallen(c, size), _fallen(c, size * passes)
        way = rest * start + pull * (1 - rest) / (1 - pull) / c
        return way**2 / (1 - rest**2) * (1 - c**2) + 1

    found = [squares(passes, start) for passes, start in tries]
    if len(found) > 1:
        found.sort(key=lambda value: float(enclose(value).mid()))
    return sqrt(found[0])


def _linear(node: Any) -> Any:
    """A record of the last batch, x -> c x + 1 at its steps: mean over standard deviation."""
    c, steps, size = node.contraction, node.steps, node.batches
    if c == 1:
        return steps / size / sqrt(steps)
    rest = _fallen(c, steps)
    return (1 - rest) / (1 - _fallen(c, size)) * sqrt((1 - c**2) / (1 - rest**2))


def _mu(node: Any) -> Any:
    """Any number of the last steps serves, from any two points of the set."""
    if node.batches != 1:
        return _cyclic(node) / node.noise_multiplier
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
    return bool(node.diameter == 0) and bool(node.batches == 1)


def _pair(node: Any) -> Losses:
    pair = Normal(_mu(node))
    if node.batches != 1 and node.diameter == 0:
        below = (Normal(_linear(node) / node.noise_multiplier),)
        return Losses((pair,), (pair,), below, below)
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

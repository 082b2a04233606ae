"""The last iterate of a noisy contraction, stated a second time.

The proof stands beside the accountant's rule of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.check.reading import require
from dpaudit.check.theorem import (
    NOTHING,
    Premise,
    Row,
    Table,
    Theorem,
    counted,
    dominating,
    reached,
    register,
)
from dpaudit.exact import is_symbolic, log, sqrt, tanh
from dpaudit.nodes.pairs import Losses, Normal

MOST_STEPS = 10**12


def _mu(node: Any, witness: Row = NOTHING) -> Any:
    """Any number of the last steps serves, from any two points of the set."""
    c, steps, apart = node.contraction, node.steps, node.diameter * 0
    if "window" in witness:
        window = counted(witness, "window", 1, MOST_STEPS)
        require(not is_symbolic(steps) and window <= steps, "window: more steps than there are")
        require(node.diameter != 0, "window: a set of no known size")
        steps, apart = window, node.diameter
    if c == 1:
        return (apart + steps) / sqrt(steps) / node.noise_multiplier
    half = tanh(log(1 / c) * steps / 2)
    kept = (1 - half) / (1 + half)
    if apart == 0:
        return sqrt((1 + c) * half / (1 - c)) / node.noise_multiplier
    way = kept * apart + (1 - kept) / (1 - c)
    return way * sqrt((1 - c**2) / (1 - kept**2)) / node.noise_multiplier


def _is_linear(node: Any, premises: Sequence[Premise], witness: Row) -> bool:
    """Updates x -> c x + 1 against x -> c x, with no set."""
    return node.diameter == 0 and "window" not in witness


def _pair(node: Any, witness: Row) -> Losses:
    pair = Normal(_mu(node, witness))
    return reached(pair) if _is_linear(node, (), witness) else dominating(pair)


ITERATES: Table = {
    ("gdp", "LastIterate"): Theorem("last_iterate", _mu, attained=_is_linear, reads=True),
    ("zcdp", "LastIterate"): Theorem(
        "last_iterate_concentrated",
        lambda n, w: _mu(n, w) ** 2 / 2,
        attained=_is_linear,
        reads=True,
    ),
    ("rdp", "LastIterate"): Theorem(
        "last_iterate_curve",
        lambda n, w: lambda a: a * _mu(n, w) ** 2 / 2,
        attained=_is_linear,
        reads=True,
    ),
    ("profile", "LastIterate"): Theorem("last_iterate_pair", _pair, reads=True),
}

register(ITERATES)

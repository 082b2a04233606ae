"""What tests of secret batches share: laws, divergences and the checker's view of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import sympy

from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import rederive
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.measures.renyi import RENYI, order
from dpaudit.nodes import Node
from dpaudit.scope import Scope

ADD_REMOVE = Scope("add_remove", "record", "central", "transcript")
REPLACE_ONE = ADD_REMOVE.under("replace_one")
ZERO_OUT = ADD_REMOVE.under("zero_out")
G, L = Gaussian("g", 1), Laplace("l", 2)
K = sympy.Symbol("k", integer=True, positive=True)
J = sympy.Symbol("j", integer=True, positive=True)


def number(value: Any) -> float:
    return float(enclose(value).mid())


def renyi(node: Node, alpha: Any, scope: Scope = ADD_REMOVE) -> float:
    value = RENYI.fold(node, scope).value
    return float(enclose(value, {order(): enclose(Fraction(alpha))}).mid())


def of_moment(moment: Any, alpha: Any) -> float:
    return float(mpmath.log(moment) / (alpha - 1))


def geometric(count: int, epsilon: float, reach: int = 60) -> list[float]:
    """The law of count + discrete Laplace noise, on -reach..reach."""
    ratio = math.exp(-epsilon)
    return [(1 - ratio) / (1 + ratio) * ratio ** abs(k - count) for k in range(-reach, reach + 1)]


def mean_law(laws: Sequence[tuple[float, Sequence[float]]]) -> list[float]:
    return [math.fsum(w * law[i] for w, law in laws) for i in range(len(laws[0][1]))]


def curve_of(p: Sequence[float], q: Sequence[float], n: int) -> list[float]:
    """Divergences of whole orders 2..n in the worse direction, at indices 2..n."""

    def one(a: Sequence[float], b: Sequence[float], j: int) -> float:
        return math.log(math.fsum(y * (x / y) ** j for x, y in zip(a, b, strict=True))) / (j - 1)

    return [0.0, 0.0, *(max(one(p, q, j), one(q, p, j)) for j in range(2, n + 1))]


def rederived(root: Node, adjacency: str, step: Any) -> Any:
    rows = step_rows(steps_of([step]))
    predicate = {"derivation": {"steps": rows}, "scope": {"adjacency": adjacency}}
    return rederive(predicate, root)[-1]

"""The trade-off function of a pair: smallest false-negative rate at a false-positive rate.

With H0 = Q and H1 = P, every test S has P(S) <= delta(x) + x Q(S), and the best test attains the
minimum over x:  beta(alpha) = max over x >= 0 of 1 - delta(x) - x alpha  (and 0).
Source: Dong, Roth, Su 2022, Proposition 2.12 (the trade-off function is the conjugate of delta).

Any x gives a lower bound of beta from an upper bound of delta.  For the upper bound every x counts:
between two nodes x_k < x_{k+1} of a list, delta lies above the chord of x_{k+1} and x_{k+2}
prolonged to the left and above the chord of x_{k-1} and x_k prolonged to the right (convexity),
below x_1 above 1 - x, and beyond x = 1 / alpha nothing is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpaudit.errors import InvalidParameter
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

Bounds = Callable[[float], tuple[float, float]]
COARSE = 48
FINE = 24
ROUNDS = 3
SMALLEST_X = 1e-7


@dataclass(frozen=True)
class _Node:
    x: float
    lower: float
    upper: float


def tradeoff_from(bounds: Bounds, alpha: Fraction) -> Interval:
    """beta(alpha) from bounds (lower, upper) of delta at every epsilon, negative ones included."""
    if alpha <= 0 or alpha >= 1:
        raise InvalidParameter(f"alpha = {alpha}: expected a rate strictly between 0 and 1")
    a = float(alpha)
    nodes = [_node(bounds, e) for e in _spread(math.log(SMALLEST_X), -math.log(a), COARSE)]
    for _ in range(ROUNDS):
        best = max(range(len(nodes)), key=lambda k: 1 - nodes[k].lower - nodes[k].x * a)
        low, high = nodes[max(best - 2, 0)].x, nodes[min(best + 2, len(nodes) - 1)].x
        inner = [_node(bounds, e) for e in _spread(math.log(low), math.log(high), FINE)]
        kept = [n for n in nodes if n.x < low or n.x > high]
        nodes = sorted(kept + inner, key=lambda n: n.x)
    lower = max((1 - n.upper - n.x * a for n in nodes), default=0.0)
    upper = max(_above(nodes, k, a) for k in range(-1, len(nodes) - 1))
    slack = 1e-14
    best_lower = max(nodes, key=lambda n: 1 - n.upper - n.x * a)
    shown = {"form": "conjugate", "x": repr(best_lower.x), "delta_upper": repr(best_lower.upper)}
    return Interval(
        rounded_down(lower - slack),
        min(rounded_up(max(upper, 0.0) + slack), 1 - alpha),
        shown,
        {"form": "conjugate", "nodes": str(len(nodes))},
        "conjugate of the profile",
    )


def _spread(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * k / (count - 1) for k in range(count)]


def _node(bounds: Bounds, epsilon: float) -> _Node:
    lower, upper = bounds(epsilon)
    return _Node(math.exp(epsilon), lower, upper)


def _above(nodes: list[_Node], k: int, alpha: float) -> float:
    """An upper bound of 1 - delta(x) - x alpha for x between nodes k and k + 1 (-1: below all)."""
    right = nodes[k + 1]
    if k < 0:
        return min(right.x, 1 - right.lower)
    left = nodes[k]
    bounds = [1 - right.lower - left.x * alpha]
    if k + 2 < len(nodes):
        beyond = nodes[k + 2]
        slope = max((right.lower - beyond.upper) / (beyond.x - right.x), 0.0)
        reached = right.lower + slope * (right.x - left.x)
        bounds.append(max(1 - reached - left.x * alpha, 1 - right.lower - right.x * alpha))
    if k >= 1:
        before = nodes[k - 1]
        fall = max((before.upper - left.lower) / (left.x - before.x), 0.0)
        reached = left.lower - fall * (right.x - left.x)
        bounds.append(max(1 - left.lower - left.x * alpha, 1 - reached - right.x * alpha))
    return min(bounds)

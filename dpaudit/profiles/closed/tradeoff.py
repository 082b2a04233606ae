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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

Bounds = Callable[[float], tuple[float, float]]
Reals = NDArray[np.float64]
FIRST_NODES = 48  # Epsilons evaluated at first, spread over all that may matter.
MAX_HALVINGS = 16  # Times that an interval may be halved, to 2^-16 of its length.
SMALLEST_X = 1e-7  # the smallest exp(epsilon) of a node
# The rounding error of sums and products of floats below 1.
ROUND_OFF = 1e-14


@dataclass(frozen=True)
class _Nodes:
    """Bounds of delta at increasing x."""

    x: Reals
    lower: Reals
    upper: Reals

    def halved(self, bounds: Bounds, which: NDArray[np.intp]) -> _Nodes:
        """With a node more in each of these intervals, the k-th after node k."""
        inner = np.sqrt(self.x[which]) * np.sqrt(self.x[which + 1])
        lower, upper = np.array([bounds(math.log(x)) for x in inner]).T
        every = ((self.x, inner), (self.lower, lower), (self.upper, upper))
        return _Nodes(*(np.insert(old, which + 1, new) for old, new in every))

    def above(self, alpha: float) -> Reals:
        """Upper bounds of 1 - delta(x) - x alpha: below the first node, and between two.

        See the module: by the chord of the two nodes before, and by that of the two after.
        """
        x, lower, upper = self.x, self.lower, self.upper
        left, right = 1 - lower[:-1] - x[:-1] * alpha, 1 - lower[1:] - x[1:] * alpha
        length = np.diff(x)
        # Slopes that lead far from a short interval are rounded outward.
        falls = np.maximum((upper[:-1] - lower[1:] + ROUND_OFF) / length, 0.0)
        after = np.maximum((lower[1:-1] - upper[2:] - ROUND_OFF) / length[1:], 0.0)
        bounds = 1 - lower[1:] - x[:-1] * alpha
        reached = 1 - (lower[1:-1] + after * length[:-1]) - x[:-2] * alpha
        bounds[:-1] = np.minimum(bounds[:-1], np.maximum(reached, right[:-1]))
        reached = 1 - (lower[1:-1] - falls[:-1] * length[1:]) - x[2:] * alpha
        bounds[1:] = np.minimum(bounds[1:], np.maximum(left[1:], reached))
        return np.concatenate([[min(x[0], 1 - lower[0])], bounds])


def tradeoff_from(bounds: Bounds, alphas: Sequence[Fraction], gap: float) -> list[Interval]:
    """beta at each alpha from bounds (lower, upper) of delta at every epsilon, negative ones too.

    ``gap``: what may be lost between nodes.  All alphas share the nodes: a bound of delta at one
    serves each of them.
    """
    for alpha in alphas:
        if alpha <= 0 or alpha >= 1:
            raise InvalidParameter(f"alpha = {alpha}: expected a rate strictly between 0 and 1")
    first = np.linspace(math.log(SMALLEST_X), -math.log(float(min(alphas))), FIRST_NODES)
    nodes = _Nodes(np.exp(first), *np.array([bounds(float(epsilon)) for epsilon in first]).T)
    tradeoffs = []
    for alpha in alphas:
        nodes = _refined(bounds, nodes, float(alpha), gap)
        tradeoffs.append(_tradeoff(nodes, alpha))
    return tradeoffs


def _refined(bounds: Bounds, nodes: _Nodes, alpha: float, gap: float) -> _Nodes:
    """With nodes where 1 - delta(x) - x alpha may be larger than at any node.

    The bounds are asked together, where no chord is much nearer than they are to each other, and
    either one as if it were delta.
    """
    for _ in range(MAX_HALVINGS):
        x, lower, upper = nodes.x, nodes.lower, nodes.upper
        apart = upper - lower
        missed = np.zeros(len(x) - 1, bool)
        for line, deltas, more in (
            (nodes, lower, np.maximum(apart[1:], apart[:-1]) / 2),
            (_Nodes(x, lower, lower), lower, 0.0),
            (_Nodes(x, upper, upper), upper, 0.0),
        ):
            least = max((1 - deltas - x * alpha).max(), 0.0)
            missed |= line.above(alpha)[1:] > least + gap + more
        if not missed.any():
            break
        nodes = nodes.halved(bounds, np.flatnonzero(missed))
    return nodes


def _tradeoff(nodes: _Nodes, alpha: Fraction) -> Interval:
    a = float(alpha)
    missed = 1 - nodes.upper - nodes.x * a
    at = int(missed.argmax())
    x, upper = float(nodes.x[at]), float(nodes.upper[at])
    return Interval(
        rounded_down(float(missed[at]) - ROUND_OFF),
        min(rounded_up(max(float(nodes.above(a).max()), 0.0) + ROUND_OFF), 1 - alpha),
        {"form": "conjugate", "x": repr(x), "delta_upper": repr(upper)},
        {"form": "conjugate", "nodes": str(len(nodes.x))},
        "conjugate of the profile",
    )

"""Discretes from values at the nodes: maxima, splices and bounds that come as a formula.

A Discrete has the value D_i = infinite + sum_{n > i} p_n (1 - exp(-(n - i) h)) at node i; from the
values its masses are p_i = (D_{i-1} - D_i) / (1 - e^-h) - (D_i - D_{i+1}) / (e^h - 1).  Upper: node
values that are not below delta make chords that are not below delta, and so does their convex
hull, delta being convex.  Sums run in extended precision; their rounding errors are covered by
moving every mass outward by ``VALUE_ROUNDING`` / h of itself.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpaudit.errors import Unsupported
from dpaudit.grids.cells import trivial
from dpaudit.grids.discrete import (
    MAXIMUM_NODES,
    Discrete,
    Reals,
    Side,
    TooFine,
)
from dpaudit.grids.hull import convexified

LEAST_MANTISSA = 63  # Bits of a long double's mantissa that the sums need.
# Bits that it has here; fewer on Windows and some ARM systems.
MANTISSA_BITS = int(np.finfo(np.longdouble).nmant)
Long = Reals
VALUE_ROUNDING = 2.0**-44  # Rounding error of values at nodes, per unit of the step.


def require_extended() -> None:
    """Refuse where ``longdouble`` has fewer bits than the error bounds of this module assume.

    Errors: Unsupported naming the platform's precision; other routes answer instead.
    """
    if MANTISSA_BITS < LEAST_MANTISSA:
        raise Unsupported(
            f"maxima and splices of profiles need extended precision: numpy.longdouble has "
            f"{MANTISSA_BITS} bits of mantissa here, expected at least {LEAST_MANTISSA}; Renyi and "
            "(epsilon, delta) routes need none"
        )


def node_values(discrete: Discrete, low: int, high: int) -> Long:
    """D at the nodes low..high, which hold all of the discrete's nodes."""
    require_extended()
    h = np.longdouble(float(discrete.step))
    masses = np.zeros(high - low + 1, dtype=np.longdouble)
    lead = discrete.first - low
    masses[lead : lead + len(discrete.masses)] = discrete.masses
    up = np.exp(h * np.arange(len(masses), dtype=np.longdouble))
    tails = np.append(np.cumsum((masses / up)[::-1])[::-1][1:], np.longdouble(0)) * up
    values: Long = np.cumsum((np.expm1(h) * tails)[::-1])[::-1] + discrete.infinite
    return values


def from_values(values: Long, low: int, total: float, step: Fraction, side: Side) -> Discrete:
    """The Discrete with these values (or their hull) at nodes low, low + 1, ...

    ``total``: the value at x = 0.  The last value stays from the last node on (UPPER), and must
    be 0 for LOWER.
    """
    require_extended()
    h = np.longdouble(float(step))
    falls = -np.diff(values)
    signed = np.zeros(len(values), dtype=np.longdouble)
    signed[1:] = falls / -np.expm1(-h)
    signed[:-1] -= falls / np.expm1(h)
    signed[0] = max(total - float(values[-1]) - float(signed[1:].sum()), 0.0)
    hull = convexified(signed.astype(np.float64), float(h))
    if hull is None:
        # The coarse upper end has all finite mass on the last node.
        return (
            trivial(step)
            if side is Side.LOWER
            else Discrete(step, low + len(values) - 1, np.array([total]), float(values[-1]))
        )
    factor = 1 + (1 if side is Side.UPPER else -1) * VALUE_ROUNDING / float(h)
    infinite = max(float(values[-1]), 0.0) * factor
    return Discrete(step, low, hull * factor, infinite if side is Side.UPPER else 0.0).trimmed()


def _range(discretes: list[Discrete]) -> tuple[int, int]:
    low = min(d.first for d in discretes) - 1
    high = max(d.first + len(d.masses) - 1 for d in discretes) + 1
    if high - low > MAXIMUM_NODES or (high - low) * float(discretes[0].step) > 10_000:
        raise TooFine("a maximum of profiles over too many nodes; take a larger step")
    return low, high


def _total(discrete: Discrete) -> float:
    return math.fsum(discrete.masses) + discrete.infinite


def largest_values(members: list[Discrete], side: Side) -> Discrete:
    """Upper: the largest value at every node.  Lower: the member with the largest delta(1)."""
    low, high = _range(members)
    values = [node_values(member, low, high) for member in members]
    if side is Side.LOWER:
        at = min(max(-low, 0), high - low)
        return members[int(np.argmax([float(v[at]) for v in values]))]
    relative = 1 + max(member.relative for member in members)
    largest = np.max(values, axis=0) * relative
    total = max(map(_total, members)) * relative
    return from_values(largest, low, total, members[0].step, side)


def joined(above: Discrete, below: Discrete, side: Side) -> Discrete:
    """The spliced profile: that of ``above`` at losses from 0 on, that of ``below`` before it.

    A pair whose two sides come from different pairs (:mod:`dpaudit.pairs.spliced`) has it.  At loss
    0 both apply: the larger value is an upper bound, the smaller a lower one.
    """
    low, high = _range([above, below])
    low, high = min(low, -1), max(high, 1)
    right, left = node_values(above, low, high), node_values(below, low, high)
    values = np.where(np.arange(low, high + 1) >= 0, right, left)
    values[-low] = (
        max(right[-low], left[-low]) if side is Side.UPPER else min(right[-low], left[-low])
    )
    relative = max(above.relative, below.relative)
    values = values * (1 + relative if side is Side.UPPER else 1 - relative)
    return from_values(values, low, _total(below) * (1 + relative), above.step, side)

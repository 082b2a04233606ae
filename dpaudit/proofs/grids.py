"""Losses of one round on a grid, in whole numbers, and how coarse a grid may be.

A profile is convex in e^epsilon, so that chords between nodes lie above it; chords are the profile
of masses at the nodes.  The kernel checks each node and convolves the masses once a round; here
the same is done ahead, to find a grid with which a claim holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dpaudit.exact import enclose, working_precision

# Masses are whole numbers in units of 2^-UNIT; nodes end where less than 2^-TAIL is beyond.
UNIT, TAIL = 50, 38
# Added to the infinite loss, in units, so that intervals tell each node from its chord.
SPARE = 2
STEPS = tuple(Fraction(1, n) for n in (20, 50, 100, 200))
# Nodes of one round and of all, and rounds: the kernel reads each node and multiplies each round.
MOST_NODES, MOST_LOSSES, MOST_TIMES = 700, 2_000, 100
Delta = Callable[[Any], Any]


@dataclass(frozen=True)
class Masses:
    """Counts at the losses lowest * step, ..., and what is lost; all end at most * step."""

    step: Fraction
    lowest: int
    counts: tuple[int, ...]
    lost: int
    most: int


def masses(delta: Delta, step: Fraction) -> Masses | None:
    """Those of the chords of a profile, ``delta`` of x = e^epsilon; None for too many nodes."""
    with working_precision():
        tail = enclose(Fraction(1, 2**TAIL))
        nodes = {0: _node(delta, step, 0)}
        for side in (-1, 1):
            place = 0
            while not _ended(*nodes[place], side, tail):
                place += side
                nodes[place] = _node(delta, step, place)
                if len(nodes) > MOST_NODES:
                    return None
        lowest = min(nodes)
        rows = [nodes[place] for place in sorted(nodes)]
        slopes = [(rows[0][1] - 1) / rows[0][0]]
        slopes += [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(rows)]
        steeper = zip(rows, slopes, [*slopes[1:], enclose(Fraction(0))], strict=True)
        counts = tuple(max(0, _up(x * (after - before))) for (x, _), before, after in steeper)
        return Masses(step, lowest, counts, _up(rows[-1][1]) + SPARE, 0)


def _node(delta: Delta, step: Fraction, place: int) -> tuple[Any, Any]:
    x = enclose(step * place).exp()
    return x, delta(x)


def _ended(x: Any, value: Any, side: int, tail: Any) -> bool:
    """Whether a profile is all but 1 - x below a node, or all but 0 above it."""
    return bool((value if side > 0 else value - 1 + x) < tail)


def _up(value: Any) -> int:
    scaled: Any = (value * 2**UNIT).upper().ceil()
    return int(scaled.unique_fmpz())


def suffices(one: Masses, times: int, epsilon: float, delta: float) -> Masses | None:
    """The masses with where all rounds' losses end, if these are within delta at epsilon."""
    # Beyond epsilon + TAIL ln 2 an excess is as good as an infinite loss.
    end = math.ceil((epsilon + TAIL * math.log(2) / 4) / one.step)
    if end - times * one.lowest > MOST_LOSSES:
        return None
    low, counts, lost = 0, [2**UNIT], 0
    for _ in range(times):
        low += one.lowest
        # Mass that was lost before counts as mass of all that follows.
        lost = _raised(lost * sum(one.counts)) + one.lost
        exact = _convolved(counts, one.counts)
        counts = [_raised(count) for count in exact[: end - low]]
        lost += sum(map(_raised, exact[end - low :]))
    width = float(one.step)
    gains = (
        count * -math.expm1(epsilon - (low + k) * width)
        for k, count in enumerate(counts)
        if (low + k) * width > epsilon
    )
    reached = (math.fsum(gains) + lost) / 2**UNIT
    if reached > delta * (1 - 1e-9):
        return None
    return Masses(one.step, one.lowest, one.counts, one.lost, end)


def _raised(count: int) -> int:
    return -(-count >> UNIT)


def _convolved(one: list[int], other: tuple[int, ...]) -> list[int]:
    """A convolution by one product of large numbers."""
    bits = (sum(one) * sum(other)).bit_length() + 8 & ~7
    size = bits // 8
    packed = [
        int.from_bytes(b"".join(n.to_bytes(size, "little") for n in part), "little")
        for part in (one, other)
    ]
    length = len(one) + len(other) - 1
    product = (packed[0] * packed[1]).to_bytes(size * length, "little")
    return [int.from_bytes(product[size * k : size * (k + 1)], "little") for k in range(length)]


def fine_enough(delta: Delta, times: int, epsilon: Any, within: Any) -> Masses | None:
    """The coarsest of a few grids with which so many rounds are within delta at epsilon.

    None where there is none, or too many rounds.
    """
    if times > MOST_TIMES:
        return None
    at, most = (float(enclose(number).mid()) for number in (epsilon, within))
    for step in STEPS:
        cells = masses(delta, step)
        if cells is None:
            return None
        if (enough := suffices(cells, times, at, most)) is not None:
            return enough
    return None

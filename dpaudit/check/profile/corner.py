"""Delta just below the largest loss of independent factors: how far each falls short of its own.

Write T for the sum of the factors' largest losses l, epsilon = T - g, and D for the sum of l - L.
Under P, delta(epsilon) is the mean of (1 - e^(D - g))_+.  Each factor's P masses, in Arb, of the
cells ((i - 1) g / N, i g / N] of l - L go to a cell's lower end for an upper bound, to its upper
end for a lower one, and are convolved in floats: a sum of N positive products errs by the factor
1 +- (N + 1) u at most.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpaudit.check.profile.atoms import outcomes_of
from dpaudit.check.profile.cells import (
    BITS,
    UNIT,
    Ball,
    Floats,
    Grid,
    Mass,
    NotConfirmed,
    ball,
    mixture,
    up,
)
from dpaudit.check.profile.noise import base_of
from dpaudit.exact import is_infinite
from dpaudit.pairs import Pair, largest_loss

MOST_NODES, MOST_FACTORS, LARGEST_GAP = 4096, 10**9, 600
# Outcomes nearer to the largest loss than this count as having it, and pay for it from below.
SLIVER = 2.0**-90
# Relative, of rounding; and what products below the smallest float come to.
LARGEST_ERROR, UNDERFLOW = 1e-3, 1e-300


def corner_bound(
    factors: list[tuple[Pair, int]], epsilon: Fraction, nodes: int, sign: int
) -> float:
    """delta(epsilon) <= this (sign 1), or >= this (-1).

    Errors: NotConfirmed for factors of other kinds, or without a largest loss.
    """
    import flint

    if not 1 < nodes <= MOST_NODES or sum(times for _, times in factors) > MOST_FACTORS:
        raise NotConfirmed("a corner of too many nodes or factors")
    with flint.ctx.workprec(BITS):
        tops = [_top(pair) for pair, _ in factors]
        gap = -ball(epsilon)
        for top, (_, times) in zip(tops, factors, strict=True):
            gap += times * (top if sign > 0 else top - SLIVER)
        room = _float(gap, sign)
        if not 0 < room < LARGEST_GAP:
            raise NotConfirmed("no corner")
        rows = [
            _masses(pair, top, room / nodes, nodes, sign)
            for top, (pair, _) in zip(tops, factors, strict=True)
        ]
    whole, single = np.zeros(nodes), (nodes + 2) * UNIT
    whole[0] = 1.0
    for row, (_, times) in zip(rows, factors, strict=True):
        whole = _together(whole, _repeated(row, times))
    rest = -np.expm1((np.arange(nodes) - nodes) * (room / nodes))
    error = 1.01 * single * (sum(times for _, times in factors) + len(factors) + 4)
    if error > LARGEST_ERROR:
        raise NotConfirmed("too many factors for floats")
    value = float(whole @ rest) * (1 + sign * error)
    return value + UNDERFLOW if sign > 0 else max(value, 0.0)


def _float(value: Ball, sign: int) -> float:
    """A float above (sign 1) or below (-1), by a few roundings."""
    return float((value.upper() if sign > 0 else value.lower()) * (1 + sign * 4 * UNIT))


def _top(pair: Pair) -> Ball:
    loss = largest_loss(pair)
    if is_infinite(loss):
        raise NotConfirmed("no largest loss")
    return ball(loss)


def _outcomes(pair: Pair) -> tuple[Mass, ...]:
    """Outcomes (P, Q) that have a mass of their own."""
    if pair.sample is not None:
        return tuple(mixture(mass, ball(pair.sample.rate)) for mass in _outcomes(pair.sample.base))
    if pair.is_swapped:
        return tuple((q, p) for p, q in _outcomes(pair.unswapped))
    if pair.laplace_epsilon is not None:
        ends: tuple[Mass, ...] = base_of(pair, 0.0).atoms
        return ends
    if pair.listed is not None:
        return tuple(outcomes_of(pair, Grid(Fraction(1), 0.0))[0])
    raise NotConfirmed(type(pair).__name__)


def _between(pair: Pair, low: Ball | None, high: Ball | None) -> Mass:
    """P and Q mass of the smooth part of losses in (low, high); None is infinite."""
    if pair.sample is not None:
        rate, ends = ball(pair.sample.rate), []
        for end in (low, high):
            over = None if end is None else (end.exp() - 1 + rate) / rate
            if over is not None and not over > 0:
                if not over <= 0:
                    raise NotConfirmed("a node at the smallest loss")
                # No loss is so small.
                if end is high:
                    return ball(0), ball(0)
                over = None
            ends.append(None if over is None else over.log())
        return mixture(_between(pair.sample.base, ends[0], ends[1]), rate)
    if pair.is_swapped:
        turned = (None if end is None else -end for end in (high, low))
        q, p = _between(pair.unswapped, *turned)
        return p, q
    if pair.listed is not None:
        return ball(0), ball(0)
    known: Mass = base_of(pair, 0.0).between(low, high)
    return known


def _masses(pair: Pair, top: Ball, step: float, nodes: int, sign: int) -> Floats:
    """P masses of a factor on the nodes: of what falls short by less than the gap."""
    masses: list[Ball] = [ball(0)] * (nodes + 1)
    for p, q in _outcomes(pair):
        if p > 0 and q > 0:
            short = top - (p / q).log()
            place = short / step
            if short < SLIVER:
                node = 0
            elif sign > 0:
                node = math.floor(float(place.lower()) * (1 - 4 * UNIT))
            else:
                node = math.ceil(float(place.upper()) * (1 + 4 * UNIT))
            masses[min(max(node, 0), nodes)] += p
        elif not p <= 0:
            raise NotConfirmed("an outcome of infinite loss")
    edge: Ball | None = None
    for k in range(nodes):
        lower = top - ball(k + 1) * ball(step)
        p, _ = _between(pair, lower, edge)
        masses[k if sign > 0 else k + 1] += p
        edge = lower
    if sign > 0:
        return np.array([up(mass) for mass in masses[:nodes]])
    return np.array([max(float(m.lower()) * (1 - 2 * UNIT), 0.0) for m in masses[:nodes]])


def _repeated(row: Floats, times: int) -> Floats:
    found = np.zeros(len(row))
    found[0] = 1.0
    while times:
        if times & 1:
            found = _together(found, row)
        times >>= 1
        if times:
            row = _together(row, row)
    return found


def _together(left: Floats, right: Floats) -> Floats:
    return np.convolve(left, right)[: len(left)]

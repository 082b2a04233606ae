"""The last iterate of a noisy contraction: every calculus.

Let x and x' be the two runs, c the contraction and z the noise of a step, in units of what one
record moves.  A third run y starts with x' at some step, at most D from x, and at each step moves
towards x by a_k: it shares the noise of x but for that shift, so that |y - x| <= (1 - l_k) u_k,
u_k = c |y - x| + 1 before, a_k = l_k u_k, 0 <= l_k <= 1, l_t = 1.  Then y = x at the end, and y
against x' is a composition of normal pairs of mu a_k / z, shifted updates being post-processing of
what came before (projections do not lengthen; the last one is, too, so that a run may show its last
step before it is projected).  Over m steps the shifts have to meet

    sum_k c^(m - k) a_k = c^m D + (1 - c^m) / (1 - c),

and a_k proportional to c^(m - k) has the least sum of squares:

    mu^2 z^2 = (c^m D + (1 - c^m) / (1 - c))^2 (1 - c^2) / (1 - c^(2m)).

It is feasible: before step k is done, what is left is at least 0, since (1 - c^(2k)) c^(2(m - k))
<= 1 - c^(2m) and 1 + c^m >= c^(m - k) + c^m.  Any m <= t serves, and m = t with D = 0, as both runs
start at one point: (1 + c) / (1 - c) tanh(t log(1/c) / 2), which linear updates x -> c x + 1 reach.
Batches, l of them, in one order for E passes: the record is in one batch, the last one at worst
(another comes earlier, and what it moves has contracted by the time the last one would come).  It
moves steps l, 2l, .., El by 1.  The last move is met at the last step, a = 1.  The m before it, and
D at the start of the m l steps before the last, have to be met over those steps:

    c^(m l) D + c^(l - 1) (1 - c^(m l)) / (1 - c^l),    by a_k proportional to c^-k as above,

which is feasible: a pass later, what arrives weighs c^-l as much, and the squares of the weights
over a pass c^(-2l), so that arrivals run ahead of shifts.  m = E - 1 with D = 0, or any m < E.
Below it, linear updates x -> c x + 1 at those steps: (1 + c^l + .. + c^((E - 1) l)) over the square
root of the sum of all c^(2k), k < E l.
Source: Bok, Su, Altschuler 2024, Shifted Interpolation for Differential Privacy, Theorems 3.1, 4.2
and 4.3 (there the m of least sum only in part); Altschuler, Talwar 2022; Feldman and others 2018.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpaudit.exact import Number, enclose, log, sqrt, tanh, unknowns
from dpaudit.families.iterates import LastIterate
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source, Step
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.nodes.pairs import Losses, Normal, one, opaque

SHIFTED = Source(
    "Bok, Su, Altschuler", 2024, "Theorems 4.2 and 4.3; proof in families.iterates.rules"
)

PURE.absent(LastIterate, reason="an unbounded loss: no epsilon holds at delta 0")
APPROX.absent(
    LastIterate,
    reason="a whole curve of (epsilon, delta), no one point of it: convert another calculus",
)


def squared(contraction: Number, steps: Number, distance: Number) -> Number:
    """mu^2 z^2 of so many steps from a distance."""
    if contraction == 1:
        return (distance + steps) ** 2 / steps
    turn = tanh(steps * log(1 / contraction) / 2)
    if distance == 0:
        return (1 + contraction) / (1 - contraction) * turn
    left = (1 - turn) / (1 + turn)  # contraction ** steps
    moved = left * distance + (1 - left) / (1 - contraction)
    return moved**2 * (1 - contraction**2) / (1 - left**2)


@lru_cache(maxsize=256)
def window(node: LastIterate) -> int:
    """The m that gives the least; 0 for all steps from one point.

    With q = c^m, 1 / (1 - c) = A, the square is (A + q (D - A))^2 / (1 - q^2) times 1 - c^2, least
    at q = 1 - D / A where that is positive, and falling in m otherwise; at c = 1 least at m = D.
    """
    values = (node.steps, node.contraction, node.diameter)
    if node.diameter == 0 or any(map(unknowns, values)):
        return 0
    steps, c, d = (float(enclose(value).mid()) for value in values)

    def found(m: float, distance: float) -> float:
        if c == 1:
            return (distance + m) ** 2 / m
        fall, rest = -math.expm1(m * math.log(c)), -math.expm1(2 * m * math.log(c))
        return ((1 - fall) * distance + fall / (1 - c)) ** 2 * (1 - c * c) / rest

    if d * (1 - c) >= 1:
        return 0
    place = d if c == 1 else math.log1p(-d * (1 - c)) / math.log(c)
    near = {min(max(round_(place), 1), steps) for round_ in (math.floor, math.ceil)}
    best = min(near, key=lambda m: found(m, d))
    return int(best) if found(best, d) < found(steps, 0.0) else 0


def power(base: Number, times: Number) -> Number:
    """base^times, which is not written out: (1 - u) / (1 + u), u = tanh(times log(1/base) / 2)."""
    turn = tanh(times * log(1 / base) / 2)
    return (1 - turn) / (1 + turn)


def squared_cyclic(node: LastIterate) -> Number:
    """mu^2 z^2 of batches in one order, at the best number of passes before the last."""
    c, d, size = node.contraction, node.diameter, node.batches
    passes = int(node.steps / size) - 1
    if passes == 0:
        return Fraction(1)
    ends = [(passes, 0 * d)]
    if d != 0 and not unknowns(d) and not unknowns(c):
        near = _near(float(enclose(c).mid()), float(enclose(d).mid()), int(size))
        ends += [(m, d) for m in near if m <= passes]
    found = [1 + _absorbed(c, size, m, apart) for m, apart in ends]
    if unknowns(c):
        return found[0]
    return min(found, key=lambda value: float(enclose(value).mid()))


def _near(c: float, d: float, batches: int) -> tuple[int, ...]:
    """Numbers of passes next to the best one, from a distance d."""
    place = d
    if c < 1:
        far = c ** (batches - 1) / -math.expm1(batches * math.log(c))
        if d >= far:
            return ()
        place = math.log1p(-d / far) / (batches * math.log(c))
    return tuple({max(math.floor(place), 1), max(math.ceil(place), 1)})


def _absorbed(c: Number, batches: Number, passes: int, apart: Number) -> Number:
    """The sum of squares of the shifts before the last step."""
    if c == 1:
        return (apart + passes) ** 2 / (passes * batches)
    left, one_pass = power(c, passes * batches), power(c, batches)
    moved = left * apart + power(c, batches) / c * (1 - left) / (1 - one_pass)
    return moved**2 * (1 - c**2) / (1 - left**2)


def _reached(node: Node, premises: tuple[Step, ...]) -> bool:
    return isinstance(node, LastIterate) and node.diameter == 0 and node.batches == 1


@GAUSSIAN.rule(LastIterate, "last_iterate", cite=SHIFTED, attained=_reached)
def last_iterate(node: LastIterate) -> Number:
    """mu of the shifts of least sum of squares."""
    if node.batches != 1:
        return sqrt(squared_cyclic(node)) / node.noise_multiplier
    last = window(node)
    start = node.diameter if last else 0 * node.diameter
    square = squared(node.contraction, last or node.steps, start)
    return sqrt(square) / node.noise_multiplier


@CONCENTRATED.rule(LastIterate, "last_iterate_concentrated", cite=SHIFTED, attained=_reached)
def last_iterate_concentrated(node: LastIterate) -> Number:
    """mu^2 / 2."""
    return last_iterate(node) ** 2 / 2


@RENYI.rule(LastIterate, "last_iterate_curve", cite=SHIFTED, attained=_reached)
def last_iterate_curve(node: LastIterate) -> Number:
    """alpha mu^2 / 2."""
    return order() * last_iterate(node) ** 2 / 2


@PROFILE.rule(LastIterate, "last_iterate_pair", cite=SHIFTED)
def last_iterate_pair(node: LastIterate) -> Losses:
    """Normal(mu), which linear updates reach where no set is projected to, and steps read all."""
    pair = Normal(last_iterate(node))
    if node.batches == 1 or node.diameter != 0:
        return one(pair) if _reached(node, ()) else opaque(pair)
    below = (Normal(linear_move(node)),)
    return Losses((pair,), (pair,), below, below)


def linear_move(node: LastIterate) -> Number:
    """mu of linear updates, of a record in the last batch."""
    c, z = node.contraction, node.noise_multiplier
    passes = node.steps / node.batches
    if c == 1:
        return passes / sqrt(node.steps) / z
    whole = power(c, node.steps)
    moved = (1 - whole) / (1 - power(c, node.batches))
    return moved * sqrt((1 - c**2) / (1 - whole**2)) / z

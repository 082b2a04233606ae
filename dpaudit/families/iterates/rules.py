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
Sampled batches: x is the run without the record.  Which others are in each batch is alike in both
runs, and by joint convexity known; x' alone moves, by b_k s_k, |s_k| <= 1, b_k a coin at rate q.
The third run starts with x' m steps before the end, at most D from x, as coupled noise keeps them:
within the set, and 1 + c + .. apart.  It moves as x does, without the record, and by shifts only,

    sum_k c^(m - k) a_k = c^m D,    least sum of squares (c^m D)^2 (1 - c^2) / (1 - c^(2m)).

A step of x' against one of it, at a common point, is N(b s, z^2) against N(a, z^2): with the noise
in two independent parts, z^2 = (r z)^2 + (1 - r^2) z^2, a sum of a sampled release of noise r z and
of a move a under the rest.  All shifts make one normal pair, of mu^2 z^2 (1 - r^2) = the least sum,
and m sampled pairs are beside it; shifts depend on x, not shown, and are mixed, by joint convexity.
Any m < t and r in (0, 1) serve; m = t needs no shift, and r = 1 is the composition of the steps.
Coins told, x' moves by at most 1 a step: the normal pair of full batches.  Which of all is taken is
asked of sums of Renyi divergences of order 2, in floats: a choice, on which no bound rests.
Below: linear updates over the last w steps from a constant one on, x -> c x + b c^(i - 1) at the
i-th: J c^(w - 1) in noise of variance z^2 (1 - c^(2w)) / (1 - c^2), J binomial(w, q); w = 1 of a
set, since the last step is shown before it is projected.
Source: Bok, Su, Altschuler 2024, Shifted Interpolation for Differential Privacy, Theorems 3.1, 4.2
and 4.3 (there the m of least sum only in part); Altschuler, Talwar 2022; Feldman and others 2018.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import Number, enclose, log, sqrt, tanh, unknowns
from dpaudit.exact.effort import spend
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.measures.calculus import Source, Step
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.implied import gaussian, unbounded
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Drawn, Factor, Losses, Mixed, Normal, Pair, one, product
from dpaudit.scope import Adjacency

SHIFTED = Source(
    "Bok, Su, Altschuler", 2024, "Theorems 4.2 and 4.3; proof in families.iterates.rules"
)

unbounded(LastIterate)

POWER_WORK = 2_000  # Units of work (microseconds) of one power, which SymPy builds.


def squared(contraction: Number, steps: Number, distance: Number) -> Number:
    """mu^2 z^2 of ``steps`` contracting steps that start ``distance`` apart, for noise z a step."""
    if contraction == 1:
        return (distance + steps) ** 2 / steps
    turn = tanh(steps * log(1 / contraction) / 2)
    if distance == 0:
        return (1 + contraction) / (1 - contraction) * turn
    contracted = (1 - turn) / (1 + turn)  # contraction ** steps
    moved = contracted * distance + (1 - contracted) / (1 - contraction)
    return moved**2 * (1 - contraction**2) / (1 - contracted**2)


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
        fall, variance_left = -math.expm1(m * math.log(c)), -math.expm1(2 * m * math.log(c))
        return ((1 - fall) * distance + fall / (1 - c)) ** 2 * (1 - c * c) / variance_left

    if d * (1 - c) >= 1:
        return 0
    place = d if c == 1 else math.log1p(-d * (1 - c)) / math.log(c)
    near = {min(max(round_(place), 1), steps) for round_ in (math.floor, math.ceil)}
    best = min(near, key=lambda m: found(m, d))
    return int(best) if found(best, d) < found(steps, 0.0) else 0


def power(base: Number, times: Number) -> Number:
    """base^times, which is not written out: (1 - u) / (1 + u), u = tanh(times log(1/base) / 2)."""
    spend(POWER_WORK, "a power of the contraction")
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
    squares = [1 + _absorbed(c, size, m, apart) for m, apart in ends]
    if unknowns(c):
        return squares[0]
    return min(squares, key=lambda value: float(enclose(value).mid()))


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
    contracted, one_pass = power(c, passes * batches), power(c, batches)
    moved = contracted * apart + power(c, batches) / c * (1 - contracted) / (1 - one_pass)
    return moved**2 * (1 - c**2) / (1 - contracted**2)


def _reached(node: Node, premises: tuple[Step, ...]) -> bool:
    return isinstance(node, LastIterate) and node.diameter == 0 and node.batches == 1


def last_iterate(node: LastIterate) -> Number:
    """mu of the shifts of least sum of squares."""
    if node.batches != 1:
        return sqrt(squared_cyclic(node)) / node.noise_multiplier
    last = window(node)
    start = node.diameter if last else 0 * node.diameter
    square = squared(node.contraction, last or node.steps, start)
    return sqrt(square) / node.noise_multiplier


gaussian(
    LastIterate,
    ("last_iterate", "last_iterate_concentrated", "last_iterate_curve"),
    last_iterate,
    SHIFTED,
    attained=_reached,
)


@PROFILE.rule(LastIterate, "last_iterate_pair", cite=SHIFTED)
def last_iterate_pair(node: LastIterate) -> Losses:
    """Normal(mu), which linear updates reach where no set is projected to, and steps read all.

    On a set: the last step alone, after a constant one, as it is shown before it is projected.
    """
    pair = Normal(last_iterate(node))
    if _reached(node, ()):
        return one(pair)
    below = (Normal(1 / node.noise_multiplier if node.diameter != 0 else linear_move(node)),)
    return Losses((pair,), (pair,), below, below)


def linear_move(node: LastIterate) -> Number:
    """mu of linear updates, of a record in the last batch."""
    c, z = node.contraction, node.noise_multiplier
    passes = node.steps / node.batches
    if c == 1:
        return passes / sqrt(node.steps) / z
    contraction = power(c, node.steps)
    moved = (1 - contraction) / (1 - power(c, node.batches))
    return moved * sqrt((1 - c**2) / (1 - contraction**2)) / z


# --- sampled batches -----------------------------------------------------------------------------

SPLIT = Source(
    "Altschuler, Talwar",
    2022,
    "Theorem 3.1 (noise in two parts), as profiles; Bok, Su, Altschuler 2024, Theorem 3.1; "
    "dpaudit 2026, proof in families.iterates.rules",
)
NOISE_PARTS = 64  # Parts into which noise is split for a lower bound.
MOST_LINEAR_STEPS = 256  # Last steps over which updates are linear for a lower bound.

unbounded(SampledLastIterate)
GAUSSIAN.absent(
    SampledLastIterate,
    reason="a mixture's trade-off curve is no Gaussian one; its best mu is that of LastIterate",
)
CONCENTRATED.absent(
    SampledLastIterate,
    reason="sampling makes high orders jump, so no line rho * order is amplified; "
    "use LastIterate for the line of full batches",
)
RENYI.absent(
    SampledLastIterate, reason="no order's bound is as near as that of the pairs: use profile"
)


@lru_cache(maxsize=256)
def choice(node: SampledLastIterate) -> tuple[int, int]:
    """(m, parts of the noise beside the coins).

    (0, 0) if the coins are given, (0, ``NOISE_PARTS``) without a shift.
    """
    if any(map(unknowns, (*node.parameters.values(),))):
        return 0, NOISE_PARTS
    z, c, q = (
        float(enclose(n).mid()) for n in (node.noise_multiplier, node.contraction, node.rate)
    )
    steps = int(node.steps)

    def sampled(scale: float) -> float:
        square = 1 / scale**2
        if square > 50:
            return max(square + 2 * math.log(q), 0)
        return math.log1p(q * q * math.expm1(square))

    squares = {(0, 0): float(enclose(told(node)).mid()) ** 2, (0, NOISE_PARTS): steps * sampled(z)}
    beside = [(part, z * part / NOISE_PARTS) for part in range(1, NOISE_PARTS)]
    each = [(part, sampled(scale), z * z - scale * scale) for part, scale in beside]
    for m in _ladder(steps):
        apart = float(enclose(_start(node, m)).mid())
        least = _shifted_float(c, m, apart)
        squares |= {
            (m, part): least / variance_left + m * one_step
            for part, one_step, variance_left in each
        }
    return min(squares, key=squares.__getitem__)


def _ladder(steps: int) -> Iterator[int]:
    """Numbers of steps below all, an eighth apart."""
    m = 1
    while m < steps:
        yield m
        m += m // 8 + 1


def _shifted_float(c: float, m: int, apart: float) -> float:
    if c == 1:
        return apart**2 / m
    contracted = c**m
    return (contracted * apart) ** 2 * (1 - c * c) / (1 - contracted * contracted)


def _start(node: SampledLastIterate, last: int) -> Number:
    """How far apart the runs are so many steps before the end, at most."""
    c, before = node.contraction, node.steps - last
    grown = before if c == 1 else (1 - power(c, before)) / (1 - c)
    if node.diameter == 0:
        return grown
    return min(grown, node.diameter, key=lambda value: float(enclose(value).mid()))


def told(node: SampledLastIterate) -> Number:
    """mu given the coins: that of full batches."""
    return last_iterate(_full(node))


def _full(node: SampledLastIterate) -> LastIterate:
    z, steps = node.noise_multiplier, node.steps
    return LastIterate(node.label, z, steps, node.contraction, node.diameter)


def _choice(node: SampledLastIterate) -> Mapping[str, Any]:
    """The choices for the upper and for the lower bound."""
    if node.rate == 1:
        return {}
    last, parts = choice(node)
    choices = {"linear": linear_steps(node)}
    if parts:
        choices["parts"] = parts
    return {**choices, "steps": last} if last else choices


@PROFILE.rule(
    SampledLastIterate,
    "sampled_last_iterate",
    cite=SPLIT,
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    witness=_choice,
)
def sampled_last_iterate(node: SampledLastIterate) -> Losses:
    """A normal pair of all shifts and m sampled ones, or either alone; from below, a binomial."""
    if node.rate == 1:
        every: Losses = last_iterate_pair(_full(node))
        return every
    z, c = node.noise_multiplier, node.contraction
    last, parts = choice(node)
    pair: Pair
    if parts == 0:
        pair = Normal(told(node))
    else:
        share = Fraction(parts, NOISE_PARTS)
        step = (Mixed(Normal(1 / (z * share)), node.rate), Fraction(last) if last else node.steps)
        factors: list[Factor] = [step]
        if last:
            apart, noise_left = _start(node, last), z * sqrt(1 - share**2)
            if c == 1:
                moved = apart / sqrt(Fraction(last))
            else:
                contracted = power(c, Fraction(last))
                moved = contracted * apart * sqrt((1 - c**2) / (1 - contracted**2))
            factors.append((Normal(moved / noise_left), Fraction(1)))
        pair = product(factors)
    below = linear_pairs(node)
    return Losses((pair,), (pair.swapped,), below, tuple(reached.swapped for reached in below))


def linear_steps(node: SampledLastIterate) -> int:
    """Over how many of the last steps linear updates are compared: about 4/5 of 1 / (1 - c)."""
    if node.diameter != 0 or unknowns(node.steps) or unknowns(node.contraction):
        return 1
    most = min(int(node.steps), MOST_LINEAR_STEPS)
    if node.contraction == 1:
        return most
    wanted = Fraction(4, 5) / (1 - node.contraction)
    return min(most, max(int(float(enclose(wanted).mid())), 1))


def linear_pairs(node: SampledLastIterate) -> tuple[Mixed | Drawn, ...]:
    """The last step alone, and linear updates over the last few."""
    z, c, few = node.noise_multiplier, node.contraction, linear_steps(node)
    alone = Mixed(Normal(1 / z), node.rate)
    if few == 1:
        return (alone,)
    if c == 1:
        return alone, Drawn(1 / (z * sqrt(Fraction(few))), node.rate, Fraction(few))
    contracted = power(c, Fraction(few))
    mu = contracted / c * sqrt((1 - c**2) / (1 - contracted**2)) / z
    return alone, Drawn(mu, node.rate, Fraction(few))

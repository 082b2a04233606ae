"""Rounds of batches of one size, some record replaced: a game over the triangles of each round.

The queries of a round may be chosen by what was released before, so that delta of t rounds obeys

    delta_0(x) = max(0, 1 - x),    delta_(t+1)(x) = max over triangles of E_P delta_t(x / R),

R the ratio of the triangle's two laws (:mod:`dpaudit.profiles.grid.triangles`).  Where the profile
of one round is at most (1 + a) sum m_i max(0, 1 - x exp(-l_i)) + c, the next is at most
(1 + a) sum m_i delta_t(x exp(-l_i)) + c, as delta_t is a mean of max(0, 1 - x / y) over y of total
weight at most 1; and as much below.  From above every triangle's profile is at most that
of one move, and the largest of all moves is taken in every round; from below only some triangles
may be chosen.  Triangles come in pairs of swapped ones:
delta_t(e) = 1 - e^e + e^e delta_t(-e), so that losses e >= 0 are enough.  Beyond the last node
delta is at most its value there, and at least 0.

Sums are FFTs of length N in 64-bit floats, of delta times exp(``tilt`` e): an entry errs by at most
``FFT_FACTOR`` log2(N) units of roundoff times the two 2-norms.  ``ERROR_FACTOR`` times this error
is added in every round.  N has factors 2, 3 and 5 only.  Either forward transform is within
12 u log2(N) of its own 2-norm (:mod:`dpaudit.profiles.fourier.compose`).  Every output of the
inverse transform is a sum of N products whose paths take r + 6 roundings a stage of radix r, at
most 8 u log2(N) sum |a_j b_j| / N, and sum |a_j b_j| / N is at most the product of the two 2-norms
(Cauchy, Schwarz; Parseval).  Small deltas are large under the tilt, so the error is relative to
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import fft, special

from dpaudit.exact import Number
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Floats
from dpaudit.pairs.core import Replacement
from dpaudit.profiles.fourier.transform import FFT_FACTOR
from dpaudit.profiles.grid.triangles import Move, Rounds, farthest, place_at
from dpaudit.profiles.interval import Interval, narrowest, rounded_down, rounded_up

MOST_ROUNDS = 10_000  # Rounds up to which the game is solved.
FEW_MORE = 1.2  # Up to this many times as many rounds, its lower bound is used.
# Places of the three triangles from which a lower bound may choose in each round.
LOWER_PLACES = (-1.0, 0.0, 1.0)
ROUGH_WIDTH = 0.02  # Width, relative to epsilon up to 1, from which on the fast sizes do.
FEW_ROUNDS = 30  # Rounds up to which the fast sizes do.
MANY_ROUNDS = 2_500  # Rounds from which on the long sizes are used.
# Nodes above and below, splices of the triangles before the equilateral one.
FAST_SIZES = (2_000, 4_000, 24)
FULL_SIZES = (4_000, 5_500, 40)  # The same for other widths and numbers of rounds.
LONG_SIZES = (3_000, 6_000, 20)  # The same for many rounds.
# Ends, as angles, of splices of the swapped triangles, which matter at losses above 0.
SWAPPED_ENDS = (0.0, 0.1, 0.3, 1.0)
# One solution answers down to each of these deltas; what one round leaves out of them.
DELTA_FLOORS = tuple(10.0**-k for k in (6, 10, 15, 20, 30))
LEFT_OUT = 1e-6  # Share of a floor of delta that all rounds together leave out.
REACH_MARGIN = 1.08  # Factor on the largest loss that is followed.
MOST_EXPONENT = 300.0  # Nats: the largest exponent of a tilt over all losses.
COARSE_NODES = 1_000  # Nodes of the coarse grid on which tilts are compared.
EDGE_PLACE = 0.35  # Place, in steps, of the first node beyond the edge of a round's losses.
SMALLEST_MU = 1 / 64  # mu from which on the errors of 64-bit floats are bounded.
LARGEST_MU = 6.0  # mu up to which they are.
SMALLEST_RATE = 1e-7  # Sampling rate from which on they are.
LARGEST_RATE = 0.75  # Sampling rate up to which they are.
# Margin for a checker with rounding errors of its own, relative to 1 + epsilon,
CHECKER_EPSILON = 2e-5
CHECKER_DELTA = 2e-4  # relative to delta,
ERROR_FACTOR = 3  # and as a factor on the errors found here.


@dataclass(frozen=True)
class Size:
    """How a game is played: what a witness says of it."""

    step: float
    nodes: int
    cells: int
    tilt: float
    tail: float


@dataclass(frozen=True)
class Played:
    """Delta after all rounds at the losses i ``step``, i >= 0, from one side."""

    size: Size
    delta: Floats


def is_played(record: Replacement, times: int) -> bool:
    """Whether there are rounds enough, and few enough, with parameters that floats hold."""
    return (
        2 <= times <= MOST_ROUNDS
        and SMALLEST_MU <= record.mu <= LARGEST_MU
        and SMALLEST_RATE <= record.rate <= LARGEST_RATE
    )


def is_nearly_played(record: Replacement, times: int) -> bool:
    """Whether there are a few rounds more than are played."""
    return MOST_ROUNDS < times <= FEW_MORE * MOST_ROUNDS and is_played(record, MOST_ROUNDS)


def epsilon_game(
    record: Replacement, times: int, delta: Fraction, within: Interval, width: float
) -> Interval:
    """Epsilon of so many rounds, within an interval that is known of it."""
    floor = next((k for k, least in enumerate(DELTA_FLOORS) if least <= delta), None)
    if floor is None:
        return within
    rough = width >= ROUGH_WIDTH * min(float(within.upper), 1.0)
    above, below = played(record, times, floor, rough=rough)
    lower, upper = _lower_end(below, float(delta)), _upper_end(above, float(delta))
    own = Interval(
        rounded_down(lower or 0.0),
        rounded_up(math.inf if upper is None else upper),
        _shown(below, "lower", lower or 0.0, delta),
        _shown(above, "upper", math.inf if upper is None else upper, delta),
        "a game of rounds",
    )
    return narrowest(own, within)


def delta_game(
    record: Replacement, times: int, epsilon: Fraction, within: Interval, width: float
) -> Interval:
    """Delta of so many rounds at epsilon, within an interval that is known of it."""
    at = float(epsilon)
    floor = next((k for k in range(len(DELTA_FLOORS)) if _scale(record, times, k)[1] >= at), None)
    if floor is None:
        return within
    above, below = played(record, times, floor, rough=width >= ROUGH_WIDTH)
    i = min(int(at / above.size.step * (1 - 1e-12)), len(above.delta) - 1)
    k = int(at / below.size.step * (1 + 1e-12)) + 1
    upper, lower = float(above.delta[i]), float(below.delta[k]) if k < len(below.delta) else 0.0
    upper, lower = min(upper * (1 + CHECKER_DELTA), 1.0), lower * (1 - CHECKER_DELTA)
    own = Interval(
        rounded_down(lower),
        rounded_up(upper),
        _shown(below, "lower", at, rounded_down(lower)),
        _shown(above, "upper", at, rounded_up(upper)),
        "a game of rounds",
    )
    return narrowest(own, within)


def _shown(played: Played, side: str, epsilon: float, delta: Number) -> dict[str, str]:
    return {
        "form": "game",
        "side": side,
        "epsilon": repr(epsilon),
        "delta": str(delta),
        "step": repr(played.size.step),
        "nodes": str(len(played.delta)),
        "cells": str(played.size.cells),
        "parts": "1",
        "tilt": repr(played.size.tilt),
        "tail": repr(played.size.tail),
    }


def _upper_end(played: Played, delta: float) -> float | None:
    """Between two nodes delta is below its chord in exp(epsilon)."""
    delta *= 1 - CHECKER_DELTA
    low = np.flatnonzero(played.delta <= delta)
    if not len(low):
        return None
    i = int(low[0])
    if i == 0:
        return 0.0
    before, after = float(played.delta[i - 1]), float(played.delta[i])
    share = (before - delta) / (before - after) if before > after else 1.0
    epsilon = (i - 1) * played.size.step + math.log1p(
        min(share, 1.0) * math.expm1(played.size.step)
    )
    return epsilon + CHECKER_EPSILON * (1 + epsilon) * min(epsilon, 1.0)


def _lower_end(played: Played, delta: float) -> float | None:
    high = np.flatnonzero(played.delta > delta * (1 + CHECKER_DELTA))
    if not len(high) or high[-1] == 0:
        return None
    epsilon = int(high[-1]) * played.size.step
    return max(epsilon - CHECKER_EPSILON * (1 + epsilon) * min(epsilon, 1.0), 0.0)


def splices(rounds: Rounds, angles: Sequence[float]) -> list[Move]:
    """One move for each cell between neighbouring angles, for all triangles in it."""
    places = [place_at(angle) for angle in angles]
    return [rounds.above(place, other) for place, other in pairwise(places)]


@lru_cache(maxsize=64)
def _scale(record: Replacement, times: int, floor: int) -> tuple[float, float]:
    """A tilt, and an epsilon, at which delta of so many rounds is about that of the floor.

    They come from one splice for all rounds, by Chernoff's bound; they choose a grid only.
    """
    mu, rate = float(record.mu), float(record.rate)
    tail = LEFT_OUT * DELTA_FLOORS[floor] / times
    coarse = Rounds(mu, rate, farthest(mu, rate, tail) / COARSE_NODES, tail)
    masses = coarse.above(-1.0, 1.0).masses
    tilts = np.geomspace(0.01, MOST_EXPONENT, 200)
    losses = np.arange(-coarse.last, coarse.last + 1) * coarse.step
    positive = masses > 0
    exponents = np.outer(tilts, losses[positive]) + np.log(masses[positive])
    moments = times * special.logsumexp(exponents, axis=1)
    bounds = (moments - math.log(DELTA_FLOORS[floor])) / tilts
    best = int(np.argmin(bounds))
    return float(tilts[best]), float(bounds[best])


@lru_cache(maxsize=16)
def played(
    record: Replacement, times: int, floor: int, *, rough: bool = False
) -> tuple[Played, Played]:
    """Delta from above and from below, at losses up to about where delta is that of the floor."""
    mu, rate = float(record.mu), float(record.rate)
    above, below, cells = (
        FAST_SIZES
        if rough or times <= FEW_ROUNDS
        else LONG_SIZES
        if times > MANY_ROUNDS
        else FULL_SIZES
    )
    tilt, reach = _scale(record, times, floor)
    reach *= REACH_MARGIN
    tail = LEFT_OUT * DELTA_FLOORS[floor] / times
    longest = farthest(mu, rate, tail)
    tilt = min(tilt, MOST_EXPONENT / (reach + longest))
    # Losses of a batch without the record end here: lines touch it best just above a node.
    edge = -math.log1p(-rate)
    sizes = []
    for nodes in (above, below):
        # No step so small that one round has more losses than all together.
        step = max(reach, longest) / nodes
        step = (
            edge / (max(math.ceil(edge / step - EDGE_PLACE), 1) + EDGE_PLACE)
            if edge > step
            else step
        )
        sizes.append(Size(step, math.ceil(reach / step), cells, tilt, tail))
    rounds = Rounds(mu, rate, sizes[0].step, tail)
    angles = np.linspace(-1.0, 0.0, cells + 1).tolist()
    most = [*splices(rounds, angles), *splices(rounds, SWAPPED_ENDS)]
    finer = Rounds(mu, rate, sizes[1].step, tail)
    least = [finer.below(place) for place in LOWER_PLACES]
    return (
        Played(sizes[0], _play(most, times, sizes[0], upper=True)),
        Played(sizes[1], _play(least, times, sizes[1], upper=False)),
    )


def _play(moves: list[Move], times: int, size: Size, *, upper: bool) -> Floats:
    """Delta at each loss after ``times`` rounds of best moves, errors added outward."""
    nodes, tilt = size.nodes, size.tilt
    masses = np.array([move.masses for move in moves])
    last = (masses.shape[1] - 1) // 2
    losses = np.arange(-last, nodes + 1) * size.step
    sign = 1 if upper else -1
    # The mass that moves lack, and the relative rounding of exponentials.
    rounding = UNIT * (8 * tilt * float(losses[-1] - losses[0]) + 64)
    lacks = np.array([[1 + sign * (ERROR_FACTOR * move.lack + rounding)] for move in moves])
    rests = np.array([[ERROR_FACTOR * move.rest] for move in moves]) if upper else 0.0
    sums = masses.sum(axis=1)[:, None]
    raised, lowered = np.exp(tilt * losses), np.exp(-tilt * losses[last:])
    tilted = masses * np.exp(tilt * np.arange(-last, last + 1) * size.step)
    # Long enough for the sums that are read; others wrap around.
    length = fft.next_fast_len(nodes + 2 * last + 2, real=True)
    kernels = fft.rfft(tilted, length, axis=1)
    norm = float(np.sqrt((tilted**2).sum(axis=1).max()))
    factor = sign * ERROR_FACTOR * FFT_FACTOR * math.log2(length) * UNIT * norm
    x, away = np.exp(losses[:last]), -np.expm1(losses[:last])
    delta = np.zeros(nodes + 1)
    for _ in range(times):
        # Beyond the last node there is its own value, or 0; losses below 0 by symmetry.
        end = float(delta[-1]) if upper else 0.0
        beyond = np.append(delta[1:], np.full(max(last - nodes, 0), end))[:last]
        raised_values = (np.append(away + x * beyond[::-1], delta) - end) * raised
        values_each = fft.irfft(fft.rfft(raised_values, length)[None, :] * kernels, length, axis=1)
        off = factor * float(np.linalg.norm(raised_values))
        values = (values_each[:, 2 * last : 2 * last + nodes + 1] + off) * lowered + end * sums
        delta = np.clip((values * lacks + rests).max(axis=0), 0.0, 1.0)
    return delta

"""Rounds of batches of one size, some record replaced: a game over the triangles of each round.

The queries of a round may be chosen by what was released before, so that delta of t rounds obeys

    delta_0(x) = max(0, 1 - x),    delta_(t+1)(x) = max over triangles of E_P delta_t(x / R),

R the ratio of the triangle's two laws (:mod:`dpaudit.profiles.grid.triangles`).  Where the profile
of one round is at most sum m_i max(0, 1 - x exp(-l_i)) + c, the next is at most
sum m_i delta_t(x exp(-l_i)) + c, as r delta_t(x / r) is convex in r; and as much below.  From above
the triangles between two places are dominated by one profile, and the largest of all is taken in
every round; from below only some triangles may be chosen.  Triangles come in pairs of swapped ones:
delta_t(e) = 1 - e^e + e^e delta_t(-e), so that losses e >= 0 are enough.  Beyond the last node
delta is at most its value there, and at least 0.

Sums are FFTs of length N in 64-bit floats: an entry errs by at most ``FFT_FACTOR`` log2(N) units
of roundoff times the two 2-norms (Higham 2002, Theorem 24.2), which is added in every round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy import fft

from dpaudit.exact import Number
from dpaudit.nodes.pairs import Replaced
from dpaudit.profiles.fourier.transform import FFT_FACTOR
from dpaudit.profiles.grid.cells import UNIT
from dpaudit.profiles.grid.discrete import Floats
from dpaudit.profiles.grid.triangles import Rounds, largest_loss_kept
from dpaudit.profiles.interval import Interval, narrowest, rounded_down, rounded_up

# Of places: how many cells from above, by the rounds; how many choices from below.
CELLS, FEWEST_CELLS, MOST_MOVES, MOST_ROUNDS = 40, 4, 64_000, 8_000
CHOICES = (-1.0, 0.0, 1.0)
# From below chords are lowered by four times as much as they are above: a finer grid.
NODES, NODES_BELOW = 5_000, 10_000
FARTHER, FARTHEST = 1.7, 60.0
# What is asked of numbers in floats.
SMALLEST_MU, LARGEST_MU, SMALLEST_RATE, LARGEST_RATE = 1 / 64, 6.0, 1e-7, 0.75
# Room for a checker with roundings of its own: relative to 1 + epsilon, to delta, and times errors.
MARGIN, DELTAS, ERRORS = 2e-5, 2e-4, 3


@dataclass(frozen=True)
class Played:
    """Delta after all rounds at the losses i ``step``, i >= 0, from one side."""

    step: float
    cells: int
    delta: Floats


def is_played(pair: Replaced, times: int) -> bool:
    """Whether there are rounds enough, and few enough, with parameters that floats hold."""
    return (
        2 <= times <= MOST_ROUNDS
        and SMALLEST_MU <= pair.mu <= LARGEST_MU
        and SMALLEST_RATE <= pair.rate <= LARGEST_RATE
    )


def places(cells: int) -> list[float]:
    """Ends of cells of places, closer together near the pair reached and the equilateral one."""
    half = [(1 - math.cos(math.pi * k / cells)) / 2 - 1 for k in range(cells + 1)]
    half[-1] = 0.0
    return [*half, *(-place for place in half[-2::-1])]


def epsilon_game(pair: Replaced, times: int, delta: Fraction, known: Interval) -> Interval:
    """Epsilon of so many rounds, within an interval that is known of it."""
    above, below = played(pair, times, max(FARTHER * float(known.upper), 1e-3))
    lower, upper = _lower_end(below, float(delta)), _upper_end(above, float(delta))
    own = Interval(
        rounded_down(lower or 0.0),
        rounded_up(math.inf if upper is None else upper),
        _shown(below, "lower", lower or 0.0, delta),
        _shown(above, "upper", math.inf if upper is None else upper, delta),
        "a game of rounds",
    )
    return narrowest(own, known)


def delta_game(pair: Replaced, times: int, epsilon: Fraction, known: Interval) -> Interval:
    """Delta of so many rounds at epsilon, within an interval that is known of it."""
    at = float(epsilon)
    # Losses of all rounds are mostly below this.
    spread = math.sqrt(times * math.log1p(float(pair.rate) ** 2 * math.expm1(float(pair.mu) ** 2)))
    above, below = played(pair, times, FARTHER * max(at, min(6 * spread, FARTHEST)))
    i = min(int(at / above.step * (1 - 1e-12)), len(above.delta) - 1)
    k = int(at / below.step * (1 + 1e-12)) + 1
    upper, lower = float(above.delta[i]), float(below.delta[k]) if k < len(below.delta) else 0.0
    upper, lower = min(upper * (1 + DELTAS), 1.0), lower * (1 - DELTAS)
    own = Interval(
        rounded_down(lower),
        rounded_up(upper),
        _shown(below, "lower", at, rounded_down(lower)),
        _shown(above, "upper", at, rounded_up(upper)),
        "a game of rounds",
    )
    return narrowest(own, known)


def _shown(played: Played, side: str, epsilon: float, delta: Number) -> dict[str, str]:
    return {
        "form": "game",
        "side": side,
        "epsilon": repr(epsilon),
        "delta": str(delta),
        "step": repr(played.step),
        "nodes": str(len(played.delta)),
        "cells": str(played.cells),
    }


def _upper_end(played: Played, delta: float) -> float | None:
    """Between two nodes delta is below its chord in exp(epsilon)."""
    delta *= 1 - DELTAS
    low = np.flatnonzero(played.delta <= delta)
    if not len(low):
        return None
    i = int(low[0])
    if i == 0:
        return 0.0
    before, after = float(played.delta[i - 1]), float(played.delta[i])
    share = (before - delta) / (before - after) if before > after else 1.0
    found = (i - 1) * played.step + math.log1p(min(share, 1.0) * math.expm1(played.step))
    return found + MARGIN * (1 + found) * min(found, 1.0)


def _lower_end(played: Played, delta: float) -> float | None:
    high = np.flatnonzero(played.delta > delta * (1 + DELTAS))
    if not len(high) or high[-1] == 0:
        return None
    found = int(high[-1]) * played.step
    return max(found - MARGIN * (1 + found) * min(found, 1.0), 0.0)


@lru_cache(maxsize=8)
def played(pair: Replaced, times: int, reach: float) -> tuple[Played, Played]:
    """Delta from above and from below, at losses up to about ``reach``."""
    mu, rate = float(pair.mu), float(pair.rate)
    # Few rounds differ little from rounds of one pair for all.
    wanted = math.ceil(1.3 * math.sqrt(times))
    cells = 2 * max(min(CELLS, wanted, MOST_MOVES // times) // 2, FEWEST_CELLS // 2)
    ends = places(cells // 2)
    # No step so small that one round has more losses than all together.
    least_step = largest_loss_kept(mu, rate) / NODES
    rounds = Rounds(mu, rate, max(reach / NODES, least_step))
    most = [rounds.above(*ends[k : k + 2]) for k in range(len(ends) - 1)]
    finer = Rounds(mu, rate, max(reach / NODES_BELOW, least_step * NODES / NODES_BELOW))
    least = [finer.below(place) for place in CHOICES]
    return (
        Played(rounds.step, cells, _play(most, times, rounds.step, NODES, upper=True)),
        Played(finer.step, cells, _play(least, times, finer.step, NODES_BELOW, upper=False)),
    )


def _play(
    moves: list[tuple[Floats, float]], times: int, step: float, nodes: int, *, upper: bool
) -> Floats:
    masses = np.array([m for m, _ in moves])
    shifts = ERRORS * np.array([c for _, c in moves])[:, None]
    sums = masses.sum(axis=1)[:, None]
    last = (masses.shape[1] - 1) // 2
    # Long enough for the sums that are read; others wrap around.
    size = fft.next_fast_len(nodes + 2 * last + 2, real=True)
    kernels = fft.rfft(masses, size, axis=1)
    norm = float(np.sqrt((masses**2).sum(axis=1).max()))
    x = np.exp(-np.arange(1, last + 1) * step)
    away = -np.expm1(-np.arange(1, last + 1) * step)
    factor = ERRORS * FFT_FACTOR * math.log2(size) * UNIT * norm
    delta = np.zeros(nodes + 1)
    sign = 1 if upper else -1
    for _ in range(times):
        # Beyond the last node there is its own value, or 0; losses below 0 by symmetry.
        end = float(delta[-1]) if upper else 0.0
        beyond = np.append(delta[1:], np.full(max(last - nodes, 0), end))[:last]
        whole = np.append((away + x * beyond)[::-1], delta) - end
        found = fft.irfft(fft.rfft(whole, size)[None, :] * kernels, size, axis=1)
        off = factor * float(np.linalg.norm(whole)) + 64 * UNIT
        values = found[:, 2 * last : 2 * last + nodes + 1] + (end * sums + sign * (shifts + off))
        delta = np.clip(values.max(axis=0), 0.0, 1.0)
    return delta

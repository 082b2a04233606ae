"""One report among the clones of others, on a grid of losses.

With s = told, m = others + 1, c = s tanh(epsilon / 2), o = rate / (1 - rate) and B the binomial law
of the number of clones: that t reports are counted has the mass w_t = s B(t - 1) + (1 - s) B(t) on
either side, and then a of them on the first side

    C(t, a) 2^-t X / D under P, C(t, a) 2^-t Y / D under Q,    D = s t + (1 - s) o (m - t),
    X = (s - c) t + 2 c a + (1 - s) o (m - t),    Y = (s - c) t + 2 c (t - a) + (1 - s) o (m - t):

conditioned on the report and on the clones, B(t) / B(t - 1) = o (m - t) / t.  X, Y and D are sums
of positive terms, so that floats hold them, and log(X / Y), to a few roundings.  Exchanging a and
t - a exchanges P and Q: only a >= t - a is computed.

Binomial masses are products of ratios, each within 8 roundings, from one that Arb gives.  Outside
of the windows are at most ``tail`` (Bernstein; Hoeffding for fair signs); it may lie anywhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpaudit.check.profile.cells import UNIT, Ball, Cells, Floats, Grid, NotConfirmed, ball
from dpaudit.exact import is_symbolic
from dpaudit.nodes.pairs import Clones

MOST_OTHERS, MOST_OUTCOMES, BLOCK = 2**32, 2**25, 2**19
MOST_CELLS = 2**20
FARTHEST, SMALLEST = 30.0, 1e-30


def clones(pair: Clones, grid: Grid) -> Cells:
    """The cells of one pair.  Errors: NotConfirmed for a size or a loss not computed with."""
    if is_symbolic(pair.others) or pair.others.denominator != 1 or pair.others < 0:
        raise NotConfirmed("a number of others that is no whole number")
    others = int(pair.others)
    epsilon, told, rate = (ball(n) for n in (pair.epsilon, pair.told, pair.rate))
    known = 0 < rate < 1 and told > 0 and told <= 1 and epsilon > 0 and epsilon < FARTHEST
    if not (known and others < MOST_OTHERS):
        raise NotConfirmed("clones of these sizes")
    log_tail = -math.log(min(grid.tail, SMALLEST) / 8)
    first, law = _clones_law(others, rate, log_tail)
    s, unseen = _float(told), _float(1 - told)
    counted = s * np.append(0.0, law) + unseen * np.append(law, 0.0)
    t = first + np.arange(len(counted), dtype=np.float64)
    other = unseen * _float(rate / (1 - rate)) * (others + 1 - t)
    apart, less = _float(told * (epsilon / 2).tanh()), _float(2 * told / (1 + epsilon.exp()))
    whole = s * t + other
    farthest = _float(epsilon)
    count = math.ceil(farthest / grid.h * (1 + 64 * UNIT)) + 1
    width = int(math.sqrt(2 * log_tail * t[-1])) // 2 + 2
    if len(t) * width > MOST_OUTCOMES or count > MOST_CELLS:
        raise NotConfirmed("too many outcomes")
    middle = _middles(int(t[0]), len(t))
    a, b, on = np.zeros(count), np.zeros(count), np.zeros(count + 1)
    rows = max(BLOCK // width, 1)
    for start in range(0, len(t), rows):
        part = slice(start, start + rows)
        n, given = t[part, None], other[part, None]
        j = np.arange(width, dtype=np.float64)
        more = np.ceil(n / 2) + j
        steps = np.maximum(n - more[:, :-1], 0.0) / (more[:, :-1] + 1)
        masses = np.cumprod(np.hstack((middle[part, None], steps)), axis=1)
        masses[:, 0] *= np.where(n[:, 0] % 2 == 0, 0.5, 1.0)
        held = masses > 0
        first_side = less * n + 2 * apart * more + given
        second_side = less * n + 2 * apart * (n - more) + given
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where(n > 0, first_side / whole[part, None], 1.0)[held]
            losses = np.where(n > 0, np.log(first_side / second_side), 0.0)[held]
        p *= (masses * counted[part, None])[held]
        even = ((n % 2 == 0) & (j == 0))[held]
        on[0] += p[even].sum()
        _split(losses[~even], p[~even], grid.h, a, b)
    lost = min(grid.tail, SMALLEST) * (1 + 1e-9)
    # Sums within a block, over blocks, and products of ratios.
    relative = UNIT * (BLOCK + 25 * (len(t) + width) + 256)
    half = Cells(0, a, b, on, (0.0, 0.0), (0.0, 0.0), relative, UNIT * (64 + 8 * farthest))
    return _mirrored(half, grid.h, lost)


def _float(value: Ball) -> float:
    """The nearest float of a sharp ball."""
    found = float(value.mid())
    if value != 0 and not float(value.rad()) <= UNIT * abs(found):
        raise NotConfirmed("a number that is not sharp")
    return found


def _split(losses: Floats, p: Floats, h: float, a: Floats, b: Floats) -> None:
    """P masses to the two nodes of their cells, so that both masses are kept."""
    node = np.minimum((losses / h).astype(np.int64), len(a) - 1)
    rest = np.clip(losses - node * h, 0.0, h)
    a += np.bincount(node, p * np.expm1(h - rest) / math.expm1(h), len(a))
    b += np.bincount(node, p * np.expm1(-rest) / math.expm1(-h), len(b))


def _mirrored(half: Cells, h: float, lost: float) -> Cells:
    """The cells of losses >= 0 with their mirror image."""
    other = half.swapped(h)
    on = np.concatenate((other.on[:-1], [other.on[-1] + half.on[0]], half.on[1:]))
    return Cells(
        other.first,
        np.concatenate((other.a, half.a)),
        np.concatenate((other.b, half.b)),
        on,
        (lost, lost),
        (lost, lost),
        other.relative,
        half.shift,
    )


def _clones_law(others: int, rate: Ball, log_tail: float) -> tuple[int, Floats]:
    """The first number of clones and the masses from it on."""
    mean = int(float((ball(others) * rate).mid()))
    spread = float((ball(others) * rate * (1 - rate)).mid())
    reach = math.ceil(log_tail / 3 + math.sqrt(log_tail**2 / 9 + 2 * log_tail * spread)) + 2
    low, high = max(mean - reach, 0), min(mean + reach, others)
    centre = min(max(mean, low), high)
    known = _log_choose(others, centre) + centre * rate.log() + (others - centre) * (1 - rate).log()
    odds = _float(rate / (1 - rate))
    k = np.arange(centre, high, dtype=np.float64)
    rising = np.cumprod((others - k) / (k + 1) * odds)
    k = np.arange(centre, low, -1, dtype=np.float64)
    falling = np.cumprod(k / (others - k + 1) / odds)
    return low, _float(known.exp()) * np.concatenate((falling[::-1], [1.0], rising))


def _middles(first: int, count: int) -> Floats:
    """C(t, ceil(t / 2)) 2^-t for t = first, first + 1, ..."""
    known = (_log_choose(first, (first + 1) // 2) - first * ball(2).log()).exp()
    t = np.arange(first, first + count - 1, dtype=np.float64)
    # From an even t one more halves t + 1 over t / 2 + 1; from an odd one it changes nothing.
    ratios = np.where(t % 2 == 0, (t + 1) / (t + 2), 1.0)
    found: Floats = _float(known) * np.cumprod(np.append(1.0, ratios))
    return found


def _log_choose(n: int, k: int) -> Any:
    return ball(n + 1).lgamma() - ball(k + 1).lgamma() - ball(n - k + 1).lgamma()

"""One report among the clones of others, or beside the rest of them, on a grid of losses.

Clones: with s = told, m = others + 1, c = s tanh(epsilon / 2), o = rate / (1 - rate) and B the
binomial law of the number of clones: that t reports are counted has the mass w_t = s B(t - 1)
+ (1 - s) B(t) on either side, and then a of them on the first side

    C(t, a) 2^-t X / D under P, C(t, a) 2^-t Y / D under Q,    D = s t + (1 - s) o (m - t),
    X = (s - c) t + 2 c a + (1 - s) o (m - t),    Y = (s - c) t + 2 c (t - a) + (1 - s) o (m - t):

conditioned on the report and on the clones, B(t) / B(t - 1) = o (m - t) / t.  X, Y and D are sums
of positive terms, so that floats hold them, and log(X / Y), to a few roundings.  Exchanging a and
t - a exchanges P and Q: only a >= t - a is computed.

Blanket: with s = told, r = rate, b = rest, m reports of which t are counted and l of the rest are
the one and others with the mass D / (m r) of multinomial(m; r, b) at (t, l),
D = s t + (1 - s) l r / b; X and Y as above, with l r / b for o (m - t).  delta is the mean of a
convex function of D and 2 a - t: moving l to numbers around it with its mean kept makes every delta
larger, and so does, for l / (m - t), the mean of m - t coins, that of as few coins as there are for
the largest t.

Binomial masses are products of ratios, each within 8 roundings, from one that Arb gives.  Outside
of the windows are at most ``tail`` (Bernstein; Hoeffding for fair signs); it may lie anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpaudit.check.profile.cells import UNIT, Ball, Cells, Grid, NotConfirmed, ball, split
from dpaudit.exact import is_symbolic
from dpaudit.exact.arrays import Floats, np
from dpaudit.pairs.core import Report

MOST_OTHERS = 2**32  # other reports
MOST_OUTCOMES = 2**26  # outcomes in all: seconds
BLOCK = 2**19  # outcomes in memory at a time
MOST_CELLS = 2**21  # cells of a grid: 16 MB an array
GROUPS = 2**14  # numbers of reports that are kept apart; beyond, neighbours are joined
FARTHEST = 30.0  # largest epsilon of a report
SMALLEST = 1e-30  # largest mass that may be left out
# Outcomes that are taken one by one; else nodes, in standard deviations; logarithm of a margin.
FEW, MARGIN = 2**22, 8
NODES_NEAR_MEAN = tuple(k / 2 for k in range(-16, 17))
# Standard deviations around the mean where numbers of other reports stand, if many.
NEAR_OF_MANY = (-5, -3, -2, -1, -0.3, 0.3, 1, 2, 3, 5)


@dataclass(frozen=True)
class Rows:
    """Numbers t of signs, ascending, the rest of D beside each, and masses with an error."""

    t: Floats
    other: Floats
    counted: Floats
    relative: float
    off: float = 0.0


def clones(pair: Report, grid: Grid) -> Cells:
    """The cells of one pair, or of one that is further apart.

    Errors: NotConfirmed for a size or a loss not computed with.
    """
    if is_symbolic(pair.others) or pair.others.denominator != 1 or pair.others < 0:
        raise NotConfirmed("a number of others that is no whole number")
    others = int(pair.others)
    epsilon, told_chance, rate = (ball(n) for n in (pair.epsilon, pair.told, pair.rate))
    in_range = (
        0 < rate < 1 and told_chance > 0 and told_chance <= 1 and epsilon > 0 and epsilon < FARTHEST
    )
    if not (in_range and others < MOST_OTHERS):
        raise NotConfirmed("clones of these sizes")
    log_tail = -math.log(min(grid.tail, SMALLEST) / 8)
    apart, less = (
        _float(told_chance * (epsilon / 2).tanh()),
        _float(2 * told_chance / (1 + epsilon.exp())),
    )
    if pair.rest is not None:
        log_tail += MARGIN
        rows = _beside_the_rest(others + 1, told_chance, less, rate, ball(pair.rest), log_tail)
    else:
        first, law = _clones_law(others, rate, log_tail)
        s, unseen = _float(told_chance), _float(1 - told_chance)
        counted = s * np.append(0.0, law) + unseen * np.append(law, 0.0)
        t = first + np.arange(len(counted), dtype=np.float64)
        other = unseen * _float(rate / (1 - rate)) * (others + 1 - t)
        rows = Rows(t, other, counted, UNIT * (25 * len(t)))
    return _spread(rows, apart, less, _float(epsilon), grid, log_tail)


def _beside_the_rest(n: int, s: Ball, less: float, rate: Ball, rest: Ball, log_tail: float) -> Rows:
    """Every number l of the rest, or some that it is moved to with its mean kept."""
    if not (rest > 0 and rate + rest < 1 and s < 1):
        raise NotConfirmed("a blanket of these sizes")
    first, law = _clones_law(n, rate, log_tail)
    t = first + np.arange(len(law), dtype=np.float64)
    q, per_rest = rest / (1 - rate), _float((1 - s) * rate / rest)
    per_report, told_weight, hidden = _float(1 / (n * rate)), _float(s), _float(q)
    width = math.sqrt(2 * log_tail * t[-1]) / 2 + 2
    many, few = n - first, n - int(t[-1])
    mean = many * hidden
    longest = min(2 * (log_tail + math.sqrt(2 * log_tail * mean * max(1 - hidden, 0.0))), many) + 6
    if few == 0 or len(t) * longest * width <= FEW:
        if len(t) * longest * width > MOST_OUTCOMES:
            raise NotConfirmed("reports that are hardly ever of no part")
        laws = [_clones_law(n - int(k), q, log_tail) for k in t]
        own = [per_rest * (start + np.arange(len(m))) for start, m in laws]
        each = np.concatenate([m * mass for (_, m), mass in zip(laws, law, strict=True)])
        signs = np.repeat(t, [len(m) for m in own])
        other = np.concatenate(own)
        counted = each * (told_weight * signs + other) * per_report
        return Rows(signs, other, counted, UNIT * 25 * (len(t) + longest + 8))
    low, masses = _clones_law(few, q, log_tail)
    at = low + np.arange(len(masses), dtype=np.float64)
    spread = math.sqrt(few * hidden * max(1 - hidden, 0.0))
    near = np.array(
        NODES_NEAR_MEAN
        if len(t) * len(NODES_NEAR_MEAN) * width <= MOST_OUTCOMES // 2
        else NEAR_OF_MANY
    )
    wanted_places = np.clip(np.rint(few * hidden + spread * near), at[0], at[-1])
    nodes = np.unique(np.concatenate((wanted_places, at[[0, -1]])))
    if len(nodes) < 2:
        raise NotConfirmed("a rest of one size")
    left = np.clip(np.searchsorted(nodes, at, side="right") - 1, 0, len(nodes) - 2)
    share = (nodes[left + 1] - at) / (nodes[left + 1] - nodes[left])
    shares = np.bincount(left, masses * share, len(nodes))
    shares += np.bincount(left + 1, masses * (1 - share), len(nodes))
    other = np.multiply.outer(n - t, nodes * (per_rest / few))
    weights = told_weight * t[:, None] + other
    counted = law[:, None] * shares * weights * per_report
    # By so much a mean of nodes may be off, in parts of it.
    relative = UNIT * 25 * (len(t) + len(at) + 8)
    off = 2 * relative
    size = int(t[-1]) // GROUPS
    if size > 1:
        # More signs, and the smallest D of a group, are further apart.
        starts = np.arange(0, len(t), size)
        counted = np.add.reduceat(counted, starts)
        weights = np.minimum.reduceat(weights, starts)
        t = t[np.minimum(starts + size, len(t)) - 1]
        other = weights - told_weight * t[:, None]
        if not np.all(less * t[:, None] + other > weights / 16):
            raise NotConfirmed("reports of a large loss, hardly hidden")
        off += 256 * UNIT
    signs = np.repeat(t, len(nodes))
    return Rows(signs, other.ravel(), counted.ravel(), relative + off, off)


def _spread(
    all_rows: Rows, apart: float, less: float, farthest: float, grid: Grid, log_tail: float
) -> Cells:
    """Signs of every row: P = C(t, a) 2^-t X / D, Q = C(t, a) 2^-t Y / D times its mass."""
    t, other, counted = all_rows.t, all_rows.other, all_rows.counted
    # X + Y = 2 D.
    weights = (less + apart) * t + other
    width = int(math.sqrt(2 * log_tail * t[-1])) // 2 + 2
    reach = np.sqrt(2 * log_tail * t) + 4
    with np.errstate(invalid="ignore"):
        largest_ratio = np.nanmax(np.where(t > 0, apart * np.minimum(t, reach) / weights, 0.0))
    if largest_ratio < 0.9:
        farthest = min(farthest, 2 * math.atanh(largest_ratio * (1 + 64 * UNIT + all_rows.off)))
    count = math.ceil(farthest / grid.h * (1 + 64 * UNIT)) + 1
    if len(t) * width > MOST_OUTCOMES or count > MOST_CELLS:
        raise NotConfirmed("too many outcomes")
    middle = _middles(int(t[0]), int(t[-1] - t[0]) + 1)[(t - t[0]).astype(np.int64)]
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
        kept_terms = (masses > 0) & (2 * more - n <= reach[part, None])
        first_side = less * n + 2 * apart * more + given
        second_side = less * n + 2 * apart * (n - more) + given
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where(n > 0, first_side / weights[part, None], 1.0)[kept_terms]
            losses = np.where(n > 0, np.log(first_side / second_side), 0.0)[kept_terms]
        p *= (masses * counted[part, None])[kept_terms]
        even = ((n % 2 == 0) & (j == 0))[kept_terms]
        on[0] += p[even].sum()
        lower, upper = split(losses[~even], p[~even], grid.h, 0, count)
        a += lower
        b += upper
    lost = min(grid.tail, SMALLEST) * (1 + 1e-9)
    # Sums within a block, over blocks, and products of ratios.
    relative = all_rows.relative + UNIT * (BLOCK + len(t) + 25 * (len(middle) + width) + 256)
    shift = UNIT * (64 + 8 * farthest) + 2 * all_rows.off
    half = Cells(0, a, b, on, (0.0, 0.0), (0.0, 0.0), relative, shift)
    return _mirrored(half, grid.h, lost)


def _float(value: Ball) -> float:
    """The nearest float of a sharp ball."""
    nearest = float(value.mid())
    if value != 0 and not float(value.rad()) <= UNIT * abs(nearest):
        raise NotConfirmed("a number that is not sharp")
    return nearest


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
    log_mass = (
        _log_choose(others, centre) + centre * rate.log() + (others - centre) * (1 - rate).log()
    )
    odds = _float(rate / (1 - rate))
    k = np.arange(centre, high, dtype=np.float64)
    rising = np.cumprod((others - k) / (k + 1) * odds)
    k = np.arange(centre, low, -1, dtype=np.float64)
    falling = np.cumprod(k / (others - k + 1) / odds)
    return low, _float(log_mass.exp()) * np.concatenate((falling[::-1], [1.0], rising))


def _middles(first: int, count: int) -> Floats:
    """C(t, ceil(t / 2)) 2^-t for t = first, first + 1, ..."""
    first_mass = (_log_choose(first, (first + 1) // 2) - first * ball(2).log()).exp()
    t = np.arange(first, first + count - 1, dtype=np.float64)
    # From an even t one more halves t + 1 over t / 2 + 1; from an odd one it changes nothing.
    ratios = np.where(t % 2 == 0, (t + 1) / (t + 2), 1.0)
    masses: Floats = _float(first_mass) * np.cumprod(np.append(1.0, ratios))
    return masses


def _log_choose(n: int, k: int) -> Any:
    return ball(n + 1).lgamma() - ball(k + 1).lgamma() - ball(n - k + 1).lgamma()

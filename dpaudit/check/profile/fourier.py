"""The composed profile at one epsilon by direct Fourier sums, with the checker's own error bounds.

Notation: h the step, t > 0 the tilt, factor f occurs T_f times with masses m_n at losses n h.
Write w_n = m_n exp(t n h) / C_f (C_f a float near their sum), W for the composition of all w, K for
half the period N, and k for the first index with k h > epsilon.  Then

    delta(epsilon) - infinite = prod_f C_f^T_f exp(-t epsilon) R,   R = sum_{n >= k} W_n F(n),
    F(n) = exp(-t y) (1 - exp(-y)),  y = n h - epsilon > 0.

Folding W with period N changes R by at most max F times the W mass of indices outside of
[k - K, k + K) (Chernoff).  The folded sum over n = k, ..., k + K - 1 is

    (1/N) sum_j prod_f phi_f(j)^T_f G(j),   phi_f(j) = sum_n w_n exp(i z n),  z = 2 pi j / N,
    G(j) = sum_n F(n) exp(-i z n),  two geometric sums.

phi is summed directly at the frequencies that matter.  The others are bounded by pairing masses
(``_kept_by_pairs``) or, where that leaves too many, by an FFT's sizes and its error bound; where
very many matter the FFT gives the sums too.

Rounding, with u = 2^-53: one operation is within u of its value, an elementary function of NumPy
within 4 u (``tests/library/reference/test_fourier_enclosure.py`` asks NumPy).  The floats w are
what they are; what is bounded is how far each number is from the one that they define:

    w           3 u t |n h| and u (t |n h| + |shift|) in the exponent, 5 u outside of it; where the
                exponent takes log m, another 5 u |log m| <= 5 u 745              (``_tilted``)
    log moment  4 u |log w|, 3 u |s n h|, the roundings of both sums, 256 u       (``_reach``)
    phi, direct 256 u for a block, u a block, 25 u for either turn: angles are within 3 u, 2 pi at
                most                                                              (``_direct``)
    phi, FFT    12 u log2 N |w|_2 N^(1/2), charged 32/12 times; folding a long w, u an addend
                                                                                  (``_by_fft``)
    phi^T       T times: off / |phi|, 4 u + 5 u |log| for the size, 7 u |angle|; then u a factor
                for either sum; cos, sin, exp, the turn and two products, 45 u    (``_powers``)
    G           each part: 3 u rate offset + 4 u for the exponential, 8 u for 1 -+ exp(-c K), which
                is expm1 where it would cancel; 70 u for 1 - r; 10 u for the division.  The parts
                cancel, so that each is charged by its own size                   (``_geometric``)
    the sum     2 (terms + 4) u of the sum of sizes                               (``_folded_sum``)

An FFT of N = 2^a 3^b 5^c is stages that multiply by unit numbers and take transforms of r = 2, 3, 4
or 5 points.  Each output of one is a sum of r products, by r + 6 operations at most, and so within
(r + 6) u r^(1/2) of the 2-norm of its r inputs; the r of them within (r + 6) r^(1/2) u of their own
2-norm.  (r + 6) r^(1/2) <= 12 log2 r for all four, and stages keep relative 2-norms: 12 u log2 N in
all.  (Higham 2002, Theorem 24.2, has this for r = 2 alone, with a smaller constant.)

In 1 - r = (1 - exp(-c)) cos z + 2 sin(z/2)^2 - i exp(-c) sin z nothing cancels: for cos z >= 0 both
real parts are positive; else |1 - r| >= 1 and either is at most 2.  The imaginary part is at most
exp(-c/2) |1 - r|, which pays for 3 u c.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpaudit.check.profile.cells import UNIT, NotConfirmed, ball
from dpaudit.check.profile.nodes import Nodes
from dpaudit.exact.arrays import Complexes, Floats, Integers, np

LARGEST_PERIOD = 2**22  # nodes of a transform: 64 MB
LONGEST_PERIOD = 2**40  # nodes between which direct sums go: integers hold 4,096 times as many
FFT_FACTOR, BLOCK = 32.0, 256
# Chernoff exponent of what is folded, and of the frequencies left out.
FOLDED, LEFT_OUT = 38.0, 1e-11
DROPPED = 1e-22  # tilted mass at the ends that is left out, and added as an error
LARGEST_TILT = 1e7  # exponents stay within those of floats
DIRECT_WORK, DIRECT_KEPT = 2e8, 4096
# An addend that is below the smallest normal float loses no more than this.
UNDERFLOW = 1e-300


@dataclass(frozen=True)
class Tilted:
    """One factor's w at indices first, first + 1, ...; C = exp(shift) * total; its error.

    ``dropped``: w that was left out at the ends.
    """

    nodes: Nodes
    times: int
    first: int
    w: Floats
    losses: Floats
    shift: float
    total: float
    relative: float
    dropped: float

    @cached_property
    def logs(self) -> Floats:
        """log w; minus infinity where there is none."""
        with np.errstate(divide="ignore"):
            return np.log(self.w)


@dataclass(frozen=True)
class Sum:
    """R as computed, and how far it may be off."""

    value: float
    error: float


def delta_bound(
    factors: Sequence[tuple[Nodes, int]], step: Fraction, tilt: float, epsilon: Fraction, sign: int
) -> Fraction:
    """A bound of the composition's delta from above (sign 1) or from below (sign -1).

    Errors: NotConfirmed for a tilt or a size that cannot be computed with.
    """
    h = float(step)
    if not (1e-6 < tilt < LARGEST_TILT and 1e-12 < h < 10 and tilt * h < 500):
        raise NotConfirmed("tilt or step")
    tilted = [_tilted(nodes, times, h, tilt) for nodes, times in factors]
    moved = sum(t.times * t.nodes.shift for t in tilted) * 1.001
    at = epsilon - sign * Fraction(moved)
    first = math.floor(at / step) + 1
    offset = float(first * step - at)
    half = _half_period(tilted, h, first)
    folded = _folded_sum(tilted, h, tilt, (first, offset), half)
    log_relative = [math.log1p(sign * (t.relative + t.nodes.relative)) * t.times for t in tilted]
    return _assembled(tilted, folded, tilt, at, sign, math.fsum(log_relative))


def _tilted(nodes: Nodes, times: int, h: float, tilt: float) -> Tilted:
    """A factor's masses times exp(tilt loss), normalised, without ends of tiny mass.

    Errors: NotConfirmed for losses too large for the tilt.
    """
    losses = (nodes.first + np.arange(len(nodes.masses))) * h
    reach = float(np.max(np.abs(losses)))
    if reach > 600 or reach * tilt > LARGEST_TILT:
        raise NotConfirmed("losses too large for this tilt")
    with np.errstate(divide="ignore"):
        logs = np.log(nodes.masses) + tilt * losses
    shift = float(np.max(logs))
    extreme = tilt * reach + abs(shift) > 600
    exponents = logs - shift if extreme else tilt * losses - shift
    w = np.exp(exponents) if extreme else nodes.masses * np.exp(exponents)
    total = float(w.sum())
    relative = UNIT * (16 + 8 * tilt * reach + 4 * abs(shift) + (8000 if extreme else 0))
    w = np.asarray(w / total)
    cut = DROPPED / times
    heavy = slice(_heavy(w, cut), len(w) - _heavy(w[::-1], cut))
    return Tilted(
        nodes=nodes,
        times=times,
        first=nodes.first + heavy.start,
        w=w[heavy],
        losses=np.asarray(losses[heavy], dtype=np.float64),
        shift=shift,
        total=total,
        relative=relative,
        dropped=2 * cut + UNDERFLOW,
    )


def _heavy(w: Floats, cut: float) -> int:
    """The first index at which more than ``cut`` has been passed."""
    return int(np.argmax(np.cumsum(w) > cut))


def _log_moment(factor: Tilted, extra: float) -> float:
    """log of sum w exp(extra n h)."""
    logs = factor.logs + extra * factor.losses
    peak = float(logs.max())
    return math.log(float(np.exp(logs - peak).sum())) + peak


def _moment_room(factor: Tilted, extra: float) -> float:
    """How far ``_log_moment`` may be off."""
    reach = max(abs(float(factor.losses[0])), abs(float(factor.losses[-1])))
    return UNIT * (8192 + 8 * abs(extra) * reach)


def _half_period(tilted: Sequence[Tilted], h: float, first: int) -> int:
    """K with W mass exp(-FOLDED) at most on either side of [first - K, first + K).

    Errors: NotConfirmed for a period that integers do not hold with room.
    """
    variance = 0.0
    for t in tilted:
        mean = float(t.w @ t.losses)
        variance += t.times * float(t.w @ (t.losses - mean) ** 2)
    unit = math.sqrt(2 * FOLDED / (variance + h * h))
    reach = max(_reach(tilted, unit, first * h), _reach(tilted, -unit, first * h))
    if not reach < LONGEST_PERIOD / 4 * h:
        raise NotConfirmed("the period is too long")
    least = reach / h + 2
    power = 2 ** max(math.ceil(math.log2(least)) - 3, 2)
    half: int = next(k * power for k in (4, 5, 6, 8) if k * power >= least)
    return half


def _reach(tilted: Sequence[Tilted], unit: float, centre: float) -> float:
    """A distance from ``centre`` beyond which, on the side of ``unit``, W has exp(-FOLDED) left.

    P(y or beyond) <= exp(log moment(s) - s y) for every s of that side; s is searched for.
    """
    best, share = math.inf, 0.7
    for _ in range(14):
        extra = unit * share
        rise = math.fsum(t.times * _log_moment(t, extra) for t in tilted)
        room = math.fsum(t.times * _moment_room(t, extra) for t in tilted)
        if not room < FOLDED:
            raise NotConfirmed("moments too large for their rounding")
        end = (rise + FOLDED + room + 1e-9) / extra
        distance = abs(end - centre) + 8 * UNIT * (abs(end) + abs(centre))
        if distance > best:
            break
        best, share = distance, share * 0.7
    return best


# --- the transform -------------------------------------------------------------------------------


def _folded_sum(
    tilted: Sequence[Tilted], h: float, tilt: float, place: tuple[int, float], half: int
) -> Sum:
    first, offset = place
    period = 2 * half
    frequencies, left_out = _kept_by_pairs(tilted, h, tilt, half)
    if not _is_short(tilted, frequencies):
        if period > LARGEST_PERIOD:
            raise NotConfirmed("the period is too long")
        frequencies, left_out = _kept_by_fft(tilted, h, tilt, half)
    directly = _is_short(tilted, frequencies)
    phis = (_direct(t, period, frequencies) if directly else _by_fft(t, period) for t in tilted)
    values, errors = _powers(tilted, phis, (first, period, frequencies))
    j = np.arange(frequencies)
    weights, size = _geometric(j, h, tilt, offset, half)
    scale = np.where((j == 0) | (j == half), 1.0, 2.0) / period
    terms = values * weights
    rounded = UNIT * (128 + 8 * (tilt + 1) * h) * size
    off = errors * (np.abs(weights) + rounded) + np.abs(values) * rounded
    summed = 2 * (frequencies + 4) * UNIT * float(scale @ np.abs(terms))
    outside = 2 * math.exp(-FOLDED) + math.fsum(t.times * t.dropped for t in tilted)
    error = float(scale @ off) + left_out + outside + summed
    return Sum(float(scale @ terms.real), error * 1.01)


def _is_short(tilted: Sequence[Tilted], count: int) -> bool:
    """Whether so many frequencies can be summed directly."""
    return count <= DIRECT_KEPT and count * sum(len(t.w) for t in tilted) <= DIRECT_WORK


def _size_bound(j: Any, h: float, tilt: float, half: int) -> Floats:
    """|G(j)| at most: a geometric sum is at most 2 / |1 - r|, |1 - r| >= 2 sin(z/2) |r|^(1/2)."""
    bound: Floats = 2 * math.exp((tilt + 1) * h / 2) / np.sin(j * (math.pi / (2 * half)))
    return bound


def _kept_by_pairs(tilted: Sequence[Tilted], h: float, tilt: float, half: int) -> tuple[int, float]:
    """How many frequencies to sum, and a bound of all others' part, without a transform.

    Two masses at distance d: |u + v exp(i z d)| <= u + v - 2 min(u, v) (1 - cos(z d / 2)) for
    z d <= pi, and the right side falls with z.  Pairing all indices at distance d,
    |phi(z)| <= sum w - pairs(d) (1 - cos(z d / 2)).
    """
    starts = np.unique(np.ceil(np.geomspace(1, half + 1, 160)).astype(np.int64))
    z, counts = starts[:-1] * (math.pi / half), np.diff(starts)
    distances = [2**k for k in range(max(1, math.ceil(math.log2(half))))]
    bound = np.zeros(len(counts))
    for t in tilted:
        best = np.full(len(counts), 1.0)
        for d in distances:
            if d >= len(t.w):
                break
            paired = _pairs(t.w, d)
            last = np.minimum(starts[1:] - 1, half) * (math.pi / half)
            drop = np.where(last * d <= math.pi, paired * (1 - np.cos(z * d / 2)), 0.0)
            best = np.minimum(best, 1 - drop)
        bound += t.times * np.log(np.maximum(best, 1e-12) + 1e-13)
    parts = counts * (2 / (2 * half)) * _size_bound(starts[:-1], h, tilt, half) * np.exp(bound)
    left_out = np.append(np.cumsum(parts[::-1])[::-1], 0.0)
    first = int(np.argmax(left_out <= LEFT_OUT / half * _size_at_zero(h, tilt)))
    return min(int(starts[first]), half + 1), float(left_out[first])


def _size_at_zero(h: float, tilt: float) -> float:
    return 1 / (tilt * (1 + tilt) * h)


def _pairs(w: Floats, d: int) -> float:
    """2 sum of min(u, v) over disjoint pairs at distance d: blocks of d, two and two."""
    rows = len(w) // (2 * d)
    if rows == 0:
        return float(2 * np.minimum(w[: len(w) - d], w[d:]).sum())
    blocks = w[: rows * 2 * d].reshape(rows, 2 * d)
    return float(2 * np.minimum(blocks[:, :d], blocks[:, d:]).sum())


def _kept_by_fft(tilted: Sequence[Tilted], h: float, tilt: float, half: int) -> tuple[int, float]:
    """As ``_kept_by_pairs``, from the sizes of an FFT and its error."""
    bound = np.zeros(half + 1)
    for t in tilted:
        phi, off = _by_fft(t, 2 * half)
        bound += t.times * np.log(np.abs(phi) + off)
    j = np.arange(1, half + 1)
    parts = _size_bound(j, h, tilt, half) * np.exp(np.minimum(bound[1:], 700.0)) / half
    left_out = np.append(np.cumsum(parts[::-1])[::-1], 0.0)
    first = int(np.argmax(left_out <= LEFT_OUT / half * _size_at_zero(h, tilt)))
    return first + 1, float(left_out[first])


def _by_fft(factor: Tilted, period: int) -> tuple[Complexes, float]:
    """sum w_n exp(-i z n) relative to the first index, and a bound of each value's error.

    Source: the head of this module, for periods whose factors are 2, 3 and 5.
    """
    w, folds = factor.w, -(-len(factor.w) // period)
    if folds > 1:
        w = np.asarray(np.bincount(np.arange(len(w)) % period, w, period), dtype=np.float64)
    values = np.fft.rfft(w, period)
    norm = math.sqrt(period * float(w @ w))
    return values, (FFT_FACTOR * math.log2(period) + folds) * UNIT * norm


def _direct(factor: Tilted, period: int, count: int) -> tuple[Complexes, float]:
    """The transform of :func:`_by_fft`, and its error, term by term in blocks of ``BLOCK``."""
    rows = -(-len(factor.w) // BLOCK)
    w = np.zeros(rows * BLOCK)
    w[: len(factor.w)] = factor.w
    j = np.arange(count)
    inner = _turns(np.outer(np.arange(BLOCK), j), period)
    outer = _turns(np.outer(np.arange(rows) * BLOCK, j), period)
    blocks = w.reshape(rows, BLOCK) @ inner.real - 1j * (w.reshape(rows, BLOCK) @ inner.imag)
    values = (blocks * outer.conj()).sum(axis=0)
    return values, UNIT * (BLOCK + rows + 32) * 1.5 * float(factor.w.sum())


def _turns(count: Integers, period: int) -> Complexes:
    """exp(2 pi i count / period), the count reduced exactly first."""
    angle = (count % period) * (2 * math.pi / period)
    turns: Complexes = np.cos(angle) + 1j * np.sin(angle)
    return turns


def _powers(
    tilted: Sequence[Tilted], phis: Iterable[tuple[Complexes, float]], place: tuple[int, int, int]
) -> tuple[Complexes, Floats]:
    """prod phi^T exp(-i z (index of the sum - first)), conjugated, and the error of each."""
    first, period, count = place
    log_size, angle = np.zeros(count), np.zeros(count)
    relative, bound = np.zeros(count), np.zeros(count)
    sizes, start = np.zeros(count), 0
    for t, (values, off) in zip(tilted, phis, strict=True):
        phi = values[:count]
        size, own_angle = np.abs(phi), np.angle(phi)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs, most = np.log(size), np.log(size + off)
            log_size += t.times * logs
            sizes += t.times * np.abs(logs)
            bound += t.times * (most + UNIT * (16 + 8 * np.abs(most)))
            own = off / size + UNIT * (8 + 8 * np.abs(logs) + 8 * np.abs(own_angle))
            relative += t.times * np.nan_to_num(own, nan=np.inf, posinf=np.inf)
        # Reduced: a function of a large angle would be taken at its word.
        angle += np.remainder(t.times * own_angle, 2 * math.pi)
        start += t.times * t.first
    # The window begins at ``first``; conjugates: the FFT turns the other way.
    turn = _turns(np.arange(count) * ((first - start) % period), period)
    size = np.exp(log_size)
    values = size * (np.cos(angle) + 1j * np.sin(angle)) * turn
    with np.errstate(over="ignore", invalid="ignore"):
        relative += UNIT * (64 + len(tilted) * (8 + len(tilted) * 8 + sizes))
        near = np.where(relative < 700, size * np.expm1(np.minimum(relative, 700.0)), np.inf)
        far = np.exp(bound + 1e-9) + size
    return values, np.where(near < far, near, far) + UNDERFLOW


def _geometric(
    j: Integers, h: float, tilt: float, offset: float, half: int
) -> tuple[Complexes, Floats]:
    """sum_{n=0}^{K-1} F(n) exp(i z n) with y = offset + n h, and the sizes of its two parts."""
    angle = j * (math.pi / half)
    parts = []
    for rate in (tilt, tilt + 1):
        c = rate * h
        gap = (
            -math.expm1(-c) * np.cos(angle)
            + 2 * np.sin(angle / 2) ** 2
            - 1j * math.exp(-c) * np.sin(angle)
        )
        far = min(c * half, 745.0)
        ends = np.where(j % 2 == 0, -math.expm1(-far), 1 + math.exp(-far))
        parts.append(math.exp(-rate * offset) * ends / gap)
    return parts[0] - parts[1], np.abs(parts[0]) + np.abs(parts[1])


# --- the bound -----------------------------------------------------------------------------------


def _assembled(
    tilted: Sequence[Tilted], folded: Sum, tilt: float, at: Fraction, sign: int, log_relative: float
) -> Fraction:
    """prod C^T exp(-t epsilon) (R +- error) (1 +- relative), and the infinite losses above."""
    import flint

    with flint.ctx.workprec(128):
        infinite = _infinite(tilted, sign)
        ratio = folded.value + sign * folded.error
        if ratio <= 0 or not math.isfinite(ratio):
            if sign < 0:
                return as_fraction(infinite.lower())
            raise NotConfirmed("no precision is left")
        exponent = ball(0)
        for t in tilted:
            exponent += t.times * (ball(t.shift) + ball(t.total).log())
        exponent += ball(log_relative) - ball(tilt) * ball(at) + ball(ratio).log()
        value = exponent.exp() * (1 + sign * ball(2.0**-40))
        if sign < 0:
            return as_fraction((value + infinite).lower())
        return as_fraction((value + infinite).upper())


def _infinite(tilted: Sequence[Tilted], sign: int) -> Any:
    """prod total^T - prod finite^T, its relative error outward: some loss is infinite."""
    every, finite, relative = ball(0), ball(0), 0.0
    for t in tilted:
        total = math.fsum(t.nodes.masses)
        every += t.times * (ball(total) + ball(t.nodes.infinite)).log()
        part = ball(t.nodes.infinite) / (ball(total) + ball(t.nodes.infinite))
        finite += t.times * (-part).log1p()
        relative += 4 * t.times * (t.nodes.relative + UNIT)
    if sign < 0:
        every = every.min(ball(0))
    return every.exp() * -finite.expm1() * ball(sign * relative).exp()


def as_fraction(point: Any) -> Fraction:
    """The exact value of an Arb number without a radius.

    Errors: NotConfirmed for one that is not finite.
    """
    if not point.is_finite():
        raise NotConfirmed("a bound that is not finite")
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)

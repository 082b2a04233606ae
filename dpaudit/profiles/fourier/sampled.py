"""Moments of a sampled normal pair at complex arguments, by the trapezoid rule.

R(x) = 1 - q + q exp(z), z = mu x - mu^2 / 2, is dP/dQ at x ~ N(0, 1); L = log R under P for the
pair itself, -log R under Q for the pair swapped.  Either way E exp(s L) = E_Q R^p, p = 1 + s or -s.

Trapezoid rule of step h: f(x + iy) = R^p phi is analytic for |y| <= d, mu d <= pi / 2, and there
    |R(x + iy)| <= R(x),   |R(x + iy)| >= R(x) cos(mu d / 2),   |arg R(x + iy)| <= a(x),
    a(x) = arg(1 - q + q exp(z + i mu d)),   |phi(x + iy)| <= exp(d^2 / 2) phi(x),
so that with p = c - i w the rule over all integers errs by at most 2 N / (exp(2 pi d / h) - 1),
    N = exp(d^2 / 2) cos(mu d / 2)^min(c, 0) integral of R^c exp(|w| a(x)) phi(x).
The integral is at most h times the sum of its nodes' values, each raised by the largest growth of
the integrand within a cell: its log has slope at most |x| + |c| mu r + 2 |w| mu tan(mu d / 2) r,
r = q exp(z) / R at the cell's right end.  Nodes left out: R^c <= 1 - q + q exp(c z) for c >= 1,
R^c <= 1 + R between 0 and 1, and R >= 1 - q below.

Decay: |u + v exp(-i w D)| <= u + v - 2 min(u, v) (1 - cos(w D / 2)) for w D <= pi; with p the
tilted density of L, pairing l in [2k D, (2k + 1) D) with l + D gives
    |E exp(-i w L)| <= 1 - m (1 - cos(w D / 2)),   m = 2 sum of integrals of min(p(l), p(l + D)).
At x, p = phi R^(c + 1) exp(-z) / (mu q M); its log has slope at most |x| + mu + |c + 1| mu r and at
most three critical points, so that p varies by at most 4 times its largest value V / 4, and
|E exp(-i w L)| <= V / w.
Source: Trefethen, Weideman 2014, Theorem 5.1 (trapezoid rule on the line).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.profiles.grid.discrete import Reals
from dpaudit.profiles.grid.families import mixed_losses, unmixed_loss
from dpaudit.profiles.grid.hull import UNIT

Complexes = NDArray[np.complexfloating[Any, Any]]
# exp(-ROOM) is what a rule may err by, relative to M and per round.
ROOM = 30.0
LARGEST_STEP, MOST_NODES, MOST_WORK = 0.4, 200_000, 10**9
STRIPS = 2.0 * 0.75 ** np.arange(14)
LARGEST_TURN = 300.0
SMALLEST_RATE = 1e-9
RARE = 40.0
BLOCK = 64
DISTANCES, CLOSE = 1.15, 0.02


class OutOfReach(Exception):
    """Too many nodes or frequencies for this route: the grid takes over."""


@dataclass(frozen=True)
class SampledNormal:
    """Mixed(Normal(mu), rate), or that swapped (``added``), ``times`` times."""

    mu: float
    rate: float
    added: bool
    times: float

    def power(self, s: float) -> float:
        return -s if self.added else 1 + s

    def cumulant(self, t: float) -> float:
        """log M(t) of all rounds, within exp(2 - ROOM) and roundings; infinite out of reach."""
        try:
            return self.times * rule(self, t, 0.0, ROOM).log_moment
        except OutOfReach:
            return math.inf

    def rarest(self, t: float) -> float:
        """A point x beyond which the tilted law has mass exp(-RARE) over all rounds, about."""
        known = rule(self, t, 0.0, ROOM)
        tails = np.cumsum(known.weights[::-1])[::-1] * self.times
        rare = np.flatnonzero(tails < math.exp(-RARE))
        return float(known.points[rare[0]]) if len(rare) else math.inf

    def capped(self, t: float, s: float, cap: float) -> tuple[float, float]:
        """log E exp(s min(L, L(cap))) of all rounds, and their mass beyond, tilted by t.

        Upper bounds by Arb: such a moment grows like exp(s L(cap)), where the one of L
        itself may be huge, because a large loss is rare.  For ``added`` pairs large losses are at
        small x and bounded: infinite.
        """
        import flint

        if self.added or not math.isfinite(cap):
            return math.inf, math.inf
        power = self.power(t)
        low, high = _ends(self, power + max(s, 0.0), 60.0 + math.log(self.times))
        with flint.ctx.workprec(96):
            half = flint.acb(self.mu) ** 2 / 2

            def integral(p: float, ends: tuple[float, float]) -> Any:
                def at(x: Any, analytic: Any) -> Any:
                    ratio = 1 - self.rate + self.rate * (self.mu * x - half).exp()
                    return (p * ratio.log(analytic=analytic) - x * x / 2).exp()

                return flint.acb.integral(at, *ends).real

            whole = integral(power, (low, high))
            # What lies beyond the ends is below exp(-60) of either.
            beyond = integral(power, (cap, max(high, cap + 1))) + whole * flint.arb(2) ** -86
            loss = (1 - self.rate + self.rate * (self.mu * flint.arb(cap) - half.real).exp()).log()
            inside = integral(power + s, (low, cap)) + (s * loss).exp() * beyond
            grown = (inside / whole).log() + flint.arb(2) ** -80
            return self.times * float(grown.upper()), self.times * float((beyond / whole).upper())


@dataclass(frozen=True)
class Rule:
    """Nodes of the trapezoid rule at one tilt, for frequencies up to one.

    ``losses`` from ``centre`` on, with weights of sum 1; ``off``: what rule and cut may change,
    relative to M; rounding of a value at w is at most the smaller of ``constant`` and w ``slope``.
    """

    log_moment: float
    log_error: float
    points: Reals
    losses: Reals
    weights: Reals
    centre: float
    off: float
    constant: float
    slope: float

    def errors(self, w: Reals) -> Reals:
        """How far a value of :meth:`values` may be off."""
        found: Reals = 2.02 * self.off + np.minimum(self.constant, w * self.slope)
        return found

    def values(self, first: float, count: int) -> Complexes:
        """E exp(-i w (L - centre)) - 1 under the tilted law at w = j first, j < count.

        With j = a + A b and u, v the changes exp(-i w_a l) - 1 and exp(-i w_(A b) l) - 1, these are
        sums of u + v + u v: nothing is subtracted, and all sums are products of matrices.
        """
        if count * len(self.losses) > MOST_WORK:
            raise OutOfReach
        size = math.isqrt(max(count - 1, 0)) + 1
        pad = -len(self.losses) % BLOCK
        losses = np.pad(self.losses, (0, pad)).reshape(-1, 1, BLOCK)
        weights = np.pad(self.weights, (0, pad)).reshape(-1, 1, BLOCK)
        steps = np.arange(size)[None, :, None] * first
        whole = np.zeros((size, size), dtype=np.complex128)
        rows = max(2**20 // (BLOCK * size), 1)
        for k in range(0, len(losses), rows):
            part = losses[k : k + rows]
            fine = weights[k : k + rows] * _change(steps * part)
            coarse = _change(size * steps * part)
            whole += np.matmul(coarse, fine.transpose(0, 2, 1)).sum(axis=0)
            whole += fine.sum(axis=2).sum(axis=0)
            whole += (coarse * weights[k : k + rows]).sum(axis=2).sum(axis=0)[:, None]
        found: Complexes = whole.ravel()[:count]
        return found

    def powers(self, w: Reals, times: float) -> tuple[Complexes, Reals]:
        """E exp(-i w L) to the power ``times`` at w = 0, w[1], 2 w[1], ..., and their errors."""
        change, off = self.values(float(w[1]) if len(w) > 1 else 0.0, len(w)), self.errors(w)
        size = np.abs(1 + change)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_size = times / 2 * np.log1p(2 * change.real + np.abs(change) ** 2)
            angle = times * (np.arctan2(change.imag, 1 + change.real) - w * self.centre)
            grown = times * np.log1p(off / size) + 16 * UNIT * (1 + np.abs(log_size))
            grown += 16 * UNIT * (np.abs(angle) + 2 * times * w * abs(self.centre))
            rounding = np.exp(log_size + np.log(np.expm1(grown)))
            largest = 2 * np.exp(np.minimum(times * np.log(size + off), 0.0))
        found = np.exp(log_size) * (np.cos(angle) + 1j * np.sin(angle))
        return found, np.where(np.isfinite(rounding), rounding, largest)


def _change(angle: Reals) -> Complexes:
    """exp(-i angle) - 1."""
    half = np.sin(angle / 2)
    found: Complexes = -2 * half * half - 1j * np.sin(angle)
    return found


@lru_cache(maxsize=512)
def rule(factor: SampledNormal, tilt: float, fastest: float, room: float) -> Rule:
    """The rule that errs by exp(-room), about, over the number of rounds.

    Errors: OutOfReach where it needs too many nodes.
    """
    mu, rate, power = factor.mu, factor.rate, factor.power(tilt)
    if not SMALLEST_RATE < rate < 1:
        raise OutOfReach
    room += math.log(factor.times)
    strip, step = _strip(factor, power, fastest, room, _ends(factor, power, room + LARGEST_TURN))
    low, high = _ends(factor, power, room + fastest * mu * strip)
    if (high - low) / step > MOST_NODES:
        raise OutOfReach
    x = np.arange(math.floor(low / step), math.ceil(high / step) + 1) * step
    z = mu * x - mu * mu / 2
    log_ratio = mixed_losses(z, rate)
    log_weights = -x * x / 2 + math.log(step / math.sqrt(2 * math.pi))
    raised = log_weights + power * log_ratio
    top = float(raised.max())
    scaled = np.exp(raised - top)
    whole = float(scaled.sum())
    weights, log_moment = scaled / whole, top + math.log(whole)
    with np.errstate(over="ignore"):
        share = 1 / (1 + (1 - rate) / rate * np.exp(-z))
    bend = 8 * (share + rate * np.exp(-log_ratio)) * (1 + np.abs(mu * x) + mu * mu)
    bend += 8 * np.abs(log_ratio)
    weight_error = 2 * BLOCK + len(x) / BLOCK + 64 + 4 * x * x + 4 * np.abs(power * log_ratio)
    weight_error += abs(power) * bend
    if top < 600:
        small = np.abs(power * log_ratio) < 300
        changed = np.expm1(np.where(small, power * log_ratio, 0.0)) * np.exp(log_weights)
        excess = np.where(small, changed, np.exp(raised) - np.exp(log_weights))
        log_moment = math.log1p(float(np.sum(excess)))
        log_error = float(np.sum(np.abs(excess) * weight_error)) * math.exp(-log_moment)
        log_error += abs(power) * float(weights @ bend)
    else:
        log_error = 2 * float(weights @ weight_error) + 8 * abs(log_moment) + 8
    off = _off(factor, power, fastest, (strip, step), (x, z, raised), log_moment)
    if not off < math.exp(-room / 2):
        raise OutOfReach
    centre = float(weights @ log_ratio)
    distance = np.abs(log_ratio - centre)
    return Rule(
        log_moment,
        UNIT * log_error + 1.01 * off,
        x,
        centre - log_ratio if factor.added else log_ratio - centre,
        weights,
        -centre if factor.added else centre,
        off,
        UNIT * 16 * float(weights @ (weight_error + fastest * (bend + distance))),
        UNIT * 8 * float(weights @ (weight_error * distance + bend + abs(centre))),
    )


def _ends(factor: SampledNormal, power: float, exponent: float) -> tuple[float, float]:
    """Ends beyond which the integrand comes to exp(-exponent), about."""
    reach = math.sqrt(2 * (exponent + 8 + max(-power, 0.0) * -math.log1p(-factor.rate)))
    return -reach, reach + max(power, 1.0) * factor.mu


def _strip(
    factor: SampledNormal,
    power: float,
    fastest: float,
    room: float,
    ends: tuple[float, float],
) -> tuple[float, float]:
    """The half width d of a strip and the largest step h with which the rule errs by exp(-room)."""
    mu, rate = factor.mu, factor.rate
    x = np.linspace(*ends, 400)
    z = mu * x - mu * mu / 2
    base = -x * x / 2 + power * mixed_losses(z, rate)
    top = float(base.max())
    whole = float(np.exp(base - top).sum())
    best = 0.0, 0.0
    widest = min(STRIPS[0], 0.45 * math.pi / mu, LARGEST_TURN / (mu * fastest + 1e-9))
    for strip in STRIPS / STRIPS[0] * widest:
        rise = strip * strip / 2 + min(power, 0.0) * math.log(math.cos(mu * strip / 2))
        if fastest:
            grown = base - top + fastest * _angle(z, rate, mu * strip)
            rise += math.log(float(np.exp(grown).sum()) / whole)
        # Some room for the growth of the integrand within a cell.
        step = 2 * math.pi * strip / (rise + room + 6)
        if step > best[1]:
            best = float(strip), step
    return best[0], min(best[1], LARGEST_STEP)


def _angle(z: Reals, rate: float, turn: float) -> Reals:
    """arg(1 - q + q exp(z + i turn)) for 0 <= turn <= pi / 2."""
    with np.errstate(over="ignore"):
        back = (1 - rate) / rate * np.exp(-z)
    found: Reals = np.arctan2(math.sin(turn), back + math.cos(turn))
    return found


def _off(
    factor: SampledNormal,
    power: float,
    fastest: float,
    place: tuple[float, float],
    nodes: tuple[Reals, Reals, Reals],
    log_moment: float,
) -> float:
    """2 N / (exp(2 pi d / h) - 1) / M, what is cut off, and what all weights lack of 1."""
    (strip, step), (x, z, raised) = place, nodes
    mu = factor.mu
    with np.errstate(over="ignore"):
        share = 1 / (1 + (1 - factor.rate) / factor.rate * np.exp(-z - mu * step))
    growth = np.abs(x) + step + abs(power) * mu * share
    growth += fastest * 2 * mu * math.tan(mu * strip / 2) * share
    grown = raised + fastest * _angle(z, factor.rate, mu * strip) + step * growth
    cut = _cut(factor, power, (float(x[0]) + step, float(x[-1]) - step))
    log_cut = math.log(cut) + fastest * mu * strip if 0 < cut < math.inf else math.inf
    log_n = float(np.logaddexp(special.logsumexp(grown), log_cut)) + strip * strip / 2
    log_n += min(power, 0.0) * math.log(math.cos(mu * strip / 2))
    exponent = log_n - log_moment - 2 * math.pi * strip / step
    own = 4 * math.exp(-2 * (math.pi / step) ** 2)
    beyond = math.exp(min(log_cut - fastest * mu * strip - log_moment, 700.0))
    return 2.1 * math.exp(min(exponent, 700.0)) + beyond + own


def _cut(factor: SampledNormal, power: float, ends: tuple[float, float]) -> float:
    """At most what nodes beyond the ends, and the integrand there, add up to."""
    mu, rate = factor.mu, factor.rate
    low, high = -ends[0], ends[1]

    def exp(log_mass: float) -> float:
        return math.exp(log_mass) if log_mass < 700 else math.inf

    def raised(power: float) -> float:
        """The integral of exp(power z) phi beyond the ends."""
        beyond = special.logsumexp(
            [special.log_ndtr(power * mu - high), special.log_ndtr(-low - power * mu)]
        )
        return exp(power * (power - 1) * mu * mu / 2 + float(beyond))

    if power < 0:
        # R >= 1 - q below, R >= 1 for z >= 0.
        below = float(special.log_ndtr(-low)) + power * math.log1p(-rate)
        return exp(below) + exp(float(special.log_ndtr(-high)))
    if power <= 1:
        return 2 * raised(0.0) + rate * raised(1.0)
    return raised(0.0) + rate * raised(power)


# --- frequencies that are left out ----------------------------------------------------------------


@dataclass(frozen=True)
class Decay:
    """Bounds of log |E exp(-i w L)| of one factor, all rounds, at any w.

    ``distances`` D and ``paired`` m, falling distances; ``variation`` V.
    """

    times: float
    distances: Reals
    paired: Reals
    variation: float

    def bounds(self, edges: Reals) -> Reals:
        """log of a bound on each interval between edges, and on what lies beyond the last."""
        left, right = edges[:-1], edges[1:]
        drop = self.paired * (1 - np.cos(np.outer(left, self.distances) / 2))
        drop = np.where(np.outer(right, self.distances) <= math.pi, drop, 0.0)
        by_pairs = np.append(np.log1p(-np.minimum(drop.max(axis=1), 1 - 1e-9)), 0.0)
        by_variation = np.log(np.minimum(self.variation / edges, 1.0))
        found: Reals = self.times * np.minimum(by_pairs, by_variation)
        return found


@lru_cache(maxsize=512)
def decay_of(factor: SampledNormal, tilt: float) -> Decay:
    """Pairs of equal distance in loss, from the density at points ``CLOSE`` apart.

    Errors: OutOfReach as :func:`rule`.
    """
    known = rule(factor, tilt, 0.0, ROOM)
    mu, rate, power = factor.mu, factor.rate, factor.power(tilt)
    low, high = -9.0, 9.0 + max(power, 1.0) * mu
    if (high - low) / CLOSE > MOST_NODES:
        raise OutOfReach
    x = np.arange(low, high, CLOSE)
    loss, own, density, slope = _density(factor, power, known.log_moment, x)
    spread = math.sqrt(float(known.weights @ known.losses**2))
    sizes, paired = [], []
    distance = 6 * spread
    peak = float(loss[int(np.argmax(density))])
    variation = 4 * math.exp(min(float(np.max(density + slope * CLOSE)), 700.0))
    # Beyond these points the density falls.
    first_share = math.exp(float(own[0])) / mu
    if not (-low > mu + abs(power + 1) * mu * first_share and high > (power + 1) * mu):
        raise OutOfReach
    while distance * variation > 0.05:
        beyond = loss + distance
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            partner = unmixed_loss(beyond, rate) / mu + mu / 2
        _, _, other, other_slope = _density(factor, power, known.log_moment, partner)
        least = np.minimum(density - slope * CLOSE, other - other_slope * CLOSE)
        mass = np.exp(least + own - mu * CLOSE) * CLOSE
        best = 0.0
        for shift in (0.0, 0.25, 0.5, 0.75):
            block = np.floor((loss - peak) / distance - shift)
            whole = (block[:-1] == block[1:]) & (block[1:] % 2 == 0)
            inside = np.append(whole, False) & np.append(False, whole)
            best = max(best, float(np.sum(mass[inside])))
        sizes.append(distance)
        paired.append(min(2 * best * (1 - 1e-9), 1.0))
        distance /= DISTANCES
    return Decay(factor.times, np.array(sizes), np.array(paired), variation)


def _density(
    factor: SampledNormal, power: float, log_moment: float, x: Reals
) -> tuple[Reals, Reals, Reals, Reals]:
    """At x: log R, log of its slope, log of its tilted density, and the slope of that at most."""
    mu, rate = factor.mu, factor.rate
    z = mu * x - mu * mu / 2
    loss = mixed_losses(z, rate)
    own = math.log(mu * rate) + z - loss
    with np.errstate(invalid="ignore", over="ignore"):
        density = -x * x / 2 - math.log(2 * math.pi) / 2 + power * loss - log_moment - own
        share = 1 / (1 + (1 - rate) / rate * np.exp(-z - mu * CLOSE))
        slope = np.abs(x) + CLOSE + mu + abs(power + 1) * mu * share
    known = np.isfinite(density) & np.isfinite(slope)
    return loss, own, np.where(known, density, -np.inf), np.where(known, slope, 0.0)

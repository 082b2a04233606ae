"""Moments of a sampled normal pair at complex arguments, by Gauss-Legendre panels.

R(x) = 1 - q + q exp(z), z = mu x - mu^2 / 2, is dP/dQ at x ~ N(0, 1); L = log R under P for the
pair itself, -log R under Q for the pair swapped.  Either way E exp(s L) = E_Q R^p, p = 1 + s or -s.

On a panel of half width H the rule of n nodes errs by at most
    (64 / 15) H M rho^(-2 n) / (1 - rho^(-2)),
M the largest |f| on the ellipse of half axes H (rho + 1 / rho) / 2 and Y = H (rho - 1 / rho) / 2;
f(x + iy) = R^p phi is analytic for mu Y < pi / 2 and with p = c - i w
    |R(x + iy)| <= R(x),   |R(x + iy)| >= R(x) (1 - r b),   b = 1 - cos(mu Y),  r = q exp(z) / R,
    |arg R(x + iy)| <= a(x) = arg(1 - q + q exp(z + i mu Y)),  |phi(x + iy)| <= exp(Y^2 / 2) phi(x).
R (1 - r b), r, a and R rise with x: each factor of M is taken at the end where it is largest.
Beyond the ends R^c phi falls at least as fast as there, its log having slope c mu r - x, r rising.

Decay: |u + v exp(-i w D)| <= u + v - 2 min(u, v) (1 - cos(w D / 2)) for w D <= pi; with p the
tilted density of L, pairing l in [2k D, (2k + 1) D) with l + D gives
    |E exp(-i w L)| <= 1 - m (1 - cos(w D / 2)),   m = 2 sum of integrals of min(p(l), p(l + D)).
At x, p = phi R^(c + 1) exp(-z) / (mu q M); its log has slope at most |x| + mu + |c + 1| mu r and at
most three critical points, so that p varies by at most 4 times its largest value V / 4, and
|E exp(-i w L)| <= V / w.
Source: Trefethen 2013, Theorem 19.3 (Gauss quadrature of analytic functions).  From its proof: the
rule is exact up to degree 2 n - 1, errs by at most 32 / 15 on an even Chebyshev polynomial beyond,
by 0 on an odd one, and f's coefficients are at most 2 M rho^(-k).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.grids.discrete import Reals
from dpaudit.grids.hull import UNIT
from dpaudit.grids.noise import mixed_losses, unmixed_loss

Complexes = NDArray[np.complexfloating[Any, Any]]
# nats: exp(-RULE_NATS) is what a rule may err by, relative to M and per round.
RULE_NATS = 30.0
MOST_QUADRATURE_NODES = 200_000  # Nodes of a quadrature.
MOST_WORK = 10**9  # Frequencies times losses of one transform.
MOST_POINTS = 5000  # Points in x of a bound.
MOST_OUTLINED = 100_000  # points of an outline
CELL_WIDTH = 0.025  # Spacing, in nats, of a grid of losses.
LARGEST_SPAN = 1e6  # Nats between the smallest and the largest loss.
PANEL_PHASE = 16.0  # Radians of phase that the rule of one panel can follow.
PANEL_NODES = 32  # Nodes of the Gauss-Legendre rule of one panel.
# Parameters of ellipses of analyticity for the quadrature error; the smallest bound counts.
BERNSTEIN_ELLIPSES = (1.2, 1.5, 2.0, 2.7, 3.6, 5.0, 7.0)
SMALLEST_RATE = 1e-9  # smaller rates lose digits
SMALLEST_LOG = -600.0  # Log of the smallest mass for which a cap is set.
CAP_PARTS = 16  # Caps are multiples of 1 / this.
BLOCK_LOSSES = 256  # Losses evaluated at a time.
PANEL_SCALES = (1.0, 0.6, 0.35)  # Lengths of panels that are tried, relative to the first choice.
ERROR_MARGIN = 1 + 1e-6  # Factor on an error bound, above the rounding of its own evaluation.
DISTANCE_RATIO = 1.3  # Ratio of the distances in frequency at which the decay is bounded.
# Shifts, in blocks, of the pairing of densities; the better one is taken.
BLOCK_SHIFTS = (0.0, 0.5)
DISTANCES_AT_ONCE = 64  # Distances that are evaluated at a time.
OUTLINE_STEP = 0.35  # Step of the coarse grid on which moments are first estimated.
DENSITY_SPACING = 0.04  # Spacing of points in x for densities and their pairs.
DENSITY_REACH = 9.0  # Largest |x| of these points.


def _gauss_legendre(degree: int) -> tuple[Reals, Reals]:
    """Nodes and weights on [-1, 1], each the float nearest to Arb's."""
    import flint

    rows = [flint.arb.legendre_p_root(degree, k, weight=True) for k in range(degree)]
    return tuple(np.array([float(row[i].mid()) for row in rows]) for i in (0, 1))  # type: ignore[return-value]


NODES = _gauss_legendre(PANEL_NODES)


class OutOfReach(Exception):
    """Too many nodes or frequencies for this route: the grid takes over."""


@dataclass(frozen=True)
class SampledNormal:
    """Mixed(Normal(mu), rate), or that swapped (``added``), ``times`` times.

    A finite ``cap`` keeps the outcomes x <= ``cap`` of both distributions alone.
    """

    mu: float
    rate: float
    added: bool
    times: float
    cap: float = math.inf

    def power(self, s: float) -> float:
        return -s if self.added else 1 + s

    @property
    def bounds(self) -> tuple[float, float]:
        """No loss of all rounds is below the first or above the second: R > 1 - q."""
        least = self.times * math.log1p(-self.rate) * (1 + 1e-9)
        most = max(self.times * self.largest, 0.0) * (1 + 1e-9)
        return (-most, -least) if self.added else (least, most)

    @property
    def largest(self) -> float:
        """log R at the cap."""
        if math.isinf(self.cap):
            return math.inf
        exponent = np.array([self.mu * self.cap - self.mu * self.mu / 2])
        return float(mixed_losses(exponent, self.rate)[0])

    def cumulant(self, t: float) -> float:
        """log M(t) of all rounds, within exp(2 - RULE_NATS), rounded; infinite out of reach."""
        return self.times * _log_moment(self, t)

    def outline(self, tilts: Reals) -> Reals:
        """About log M of all rounds at many tilts; infinite where that takes too many points."""
        powers = -tilts if self.added else 1 + tilts
        order = np.argsort(powers)
        log_moments = np.empty(len(tilts))
        log_moments[order] = _outlined(self.mu, self.rate, self.cap, powers[order].tobytes())
        return self.times * log_moments

    def kept(self, log_mass: float) -> SampledNormal:
        """The outcomes x <= cap alone, what lies beyond having mass exp(log_mass) at most."""
        share = log_mass - math.log(2 * self.times)
        if share < SMALLEST_LOG:
            return self
        ends = [-_quantile(share)]
        if not self.added:
            ends.append(self.mu - _quantile(share - math.log(self.rate)))
        if math.isinf(CAP_PARTS * max(ends)):
            return self
        return replace(self, cap=math.ceil(CAP_PARTS * max(ends)) / CAP_PARTS)

    @property
    def beyond(self) -> float:
        """P mass of a cap passed in some round, at most."""
        own = float(special.ndtr(-self.cap))
        if not self.added:
            own += self.rate * float(special.ndtr(self.mu - self.cap))
        return self.times * own * (1 + 1e-9)


@lru_cache(maxsize=16)
def _outlined(mu: float, rate: float, cap: float, powers: bytes) -> Reals:
    """About log E R^p up to the cap; both directions of a pair ask for the same powers."""
    step = OUTLINE_STEP * min(1.0, 1.5 / mu)
    last, p = min(40.0 + 8 * mu, cap), np.frombuffer(powers)
    if (last + 40.0) / step > MOST_OUTLINED:
        return np.full(len(p), np.inf)
    x = last - step * np.arange(math.ceil((last + 40.0) / step))[::-1]
    terms = np.outer(p, mixed_losses(mu * x - mu * mu / 2, rate))
    terms -= x * x / 2
    top = terms.max(axis=1)
    terms -= top[:, None]
    log_moments: Reals = top + np.log(np.exp(terms, out=terms).sum(axis=1))
    log_moments += math.log(step / math.sqrt(2 * math.pi))
    if not math.isinf(cap):
        return log_moments
    # The mass beyond the points, where R is about q exp(z).
    far = p * math.log(rate) + p * (p - 1) * mu**2 / 2
    return np.where(p * mu > x[-1] - 10, np.logaddexp(log_moments, far), log_moments)


def _quantile(log_mass: float) -> float:
    """About z with Phi(z) = exp(log_mass), 0 for larger masses than a half."""
    return float(special.ndtri_exp(min(log_mass, math.log(0.5))))


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
        errors: Reals = 2.02 * self.off + np.minimum(self.constant, w * self.slope)
        return errors

    def values(self, first: float, count: int) -> Complexes:
        """E exp(-i w (L - centre)) - 1 under the tilted law at w = j first, j < count.

        With j = a + A b and u, v the changes exp(-i w_a l) - 1 and exp(-i w_(A b) l) - 1, these are
        sums of u + v + u v: nothing is subtracted, and all sums are products of matrices.
        """
        if count * len(self.losses) > MOST_WORK:
            raise OutOfReach
        size = math.isqrt(max(count - 1, 0)) + 1
        grid = np.zeros((size, size), dtype=np.complex128)
        for k in range(0, len(self.losses), BLOCK_LOSSES):
            losses, weights = self.losses[k : k + BLOCK_LOSSES], self.weights[k : k + BLOCK_LOSSES]
            fine, coarse = _turns(losses * first, size), _turns(losses * (size * first), size)
            fine *= weights
            grid += coarse @ fine.T
            grid += fine.sum(axis=1)
            grid += (coarse @ weights)[:, None]
        values: Complexes = grid.ravel()[:count]
        return values

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
        powers = np.exp(log_size) * (np.cos(angle) + 1j * np.sin(angle))
        return powers, np.where(np.isfinite(rounding), rounding, largest)


def _turns(angles: Reals, count: int) -> Complexes:
    """exp(-i k angle) - 1 for k < count (rows)."""
    turns = np.empty((count, len(angles)), dtype=np.complex128)
    turned = np.outer(np.arange(count), angles)
    np.sin(turned, out=turns.imag)
    np.negative(turns.imag, out=turns.imag)
    np.sin(turned / 2, out=turns.real)
    turns.real *= -2 * turns.real
    return turns


@lru_cache(maxsize=512)
def rule(factor: SampledNormal, tilt: float, fastest: float, room: float) -> Rule:
    """The rule that errs by exp(-room), about, over the number of rounds.

    Errors: OutOfReach where it needs too many nodes.
    """
    mu, rate, power = factor.mu, factor.rate, factor.power(tilt)
    if not SMALLEST_RATE < rate < 1:
        raise OutOfReach
    room += math.log(factor.times)
    for finer in PANEL_SCALES:
        edges = _edges(factor, power, fastest, room, finer)
        x, widths = _points(edges)
        z = mu * x - mu * mu / 2
        log_ratio = mixed_losses(z, rate)
        log_weights = np.log(widths) - x * x / 2 - math.log(2 * math.pi) / 2
        raised = log_weights + power * log_ratio
        top = float(raised.max())
        scaled = np.exp(raised - top)
        total = float(scaled.sum())
        weights, log_moment = scaled / total, top + math.log(total)
        log_off = np.logaddexp.reduce(
            [*_off(factor, power, fastest, edges), _cut(factor, power, edges)]
        )
        off = math.exp(min(float(log_off) - log_moment, 700.0)) * ERROR_MARGIN
        if off < math.exp(-room / 2 - 8):
            break
    else:
        raise OutOfReach
    bend = _bend(mu, rate, x, log_ratio)
    weight_error = (
        2 * BLOCK_LOSSES + len(x) / BLOCK_LOSSES + 80 + 8 * x * x + 4 * np.abs(power * log_ratio)
    )
    weight_error += abs(power) * bend
    moment_less_one = -1.0
    if top < 600:
        small = np.abs(power * log_ratio) < 300
        changed = np.expm1(np.where(small, power * log_ratio, 0.0)) * np.exp(log_weights)
        excess = np.where(small, changed, np.exp(raised) - np.exp(log_weights))
        # M - 1 is the integral of (R^p - 1) phi; beyond the ends -phi is known.
        tails = float(special.ndtr(edges[0]) + special.ndtr(-edges[-1]))
        moment_less_one = float(np.sum(excess)) - tails
    if moment_less_one > -0.5:
        log_moment = math.log1p(moment_less_one)
        log_error = float(np.sum(np.abs(excess) * weight_error)) * math.exp(-log_moment)
        log_error += abs(power) * float(weights @ bend) + 64 * tails * math.exp(-log_moment)
    else:
        log_error = 2 * float(weights @ weight_error) + 8 * abs(log_moment) + 8
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


@lru_cache(maxsize=2**14)
def _log_moment(factor: SampledNormal, tilt: float) -> float:
    """log M of one round; infinite out of reach.  With many kinds not all rules are kept."""
    try:
        return rule(factor, tilt, 0.0, RULE_NATS).log_moment
    except OutOfReach:
        return math.inf


def _bend(mu: float, rate: float, x: Reals, log_ratio: Reals) -> Reals:
    """Errors of the losses in units of 2^-53: z by its share, q and log1p by |1 - 1 / R|."""
    moved = _share(mu * x - mu * mu / 2, rate) * (np.abs(mu * x) + mu * mu)
    with np.errstate(over="ignore"):
        errors: Reals = 8 * moved + 8 * np.abs(np.expm1(-log_ratio)) + 8 * np.abs(log_ratio)
    return errors


def _ends(factor: SampledNormal, power: float, exponent: float) -> tuple[float, float]:
    """Ends beyond which the integrand comes to exp(-exponent), about."""
    reach = math.sqrt(2 * (exponent + 8 + max(-power, 0.0) * -math.log1p(-factor.rate)))
    return -reach, min(reach + max(power, 1.0) * factor.mu, factor.cap)


def _edges(factor: SampledNormal, power: float, fastest: float, room: float, finer: float) -> Reals:
    """Edges of panels: about as much phase in each as a rule can follow.  Only a choice.

    Where the integrand is small already, a rule may err by more of it.
    """
    mu, rate = factor.mu, factor.rate
    low, high = _ends(factor, power, room)
    if not high - low < LARGEST_SPAN:
        raise OutOfReach
    x = np.linspace(low, high, math.ceil(min(max(10 * (high - low), 200), 20_000)))
    z = mu * x - mu * mu / 2
    base = -x * x / 2 + power * mixed_losses(z, rate)
    missing = base.max() - base
    needed = np.flatnonzero(missing < room + 8)
    first, last = max(int(needed[0]) - 1, 0), min(int(needed[-1]) + 2, len(x))
    x, share, missing = x[first:last], _share(z[first:last], rate), missing[first:last]
    speed = (fastest + abs(power)) * mu * share / (PANEL_PHASE + 0.4 * np.minimum(missing, 30.0))
    speed = np.maximum(speed, max(1.0, 2.2 * mu)) / 2 / finer
    passed = np.append(0.0, np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(x)))
    panels = float(passed[-1])
    if not panels * PANEL_NODES < MOST_QUADRATURE_NODES:
        raise OutOfReach
    return np.interp(np.linspace(0.0, panels, math.ceil(panels) + 1), passed, x)


def _points(edges: Reals) -> tuple[Reals, Reals]:
    """Nodes of all panels and their weights."""
    middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes, weights = NODES
    return (middles[:, None] + halves[:, None] * nodes).ravel(), np.outer(halves, weights).ravel()


def _off(factor: SampledNormal, power: float, fastest: float, edges: Reals) -> tuple[float, float]:
    """Log of what the rule errs by on all panels, each on the best of several ellipses.

    Also of phi alone, against which a moment is taken.
    """
    mu, rate = factor.mu, factor.rate
    middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    rho = np.array(BERNSTEIN_ELLIPSES)[:, None]
    reach, height = halves * (rho + 1 / rho) / 2, halves * (rho - 1 / rho) / 2
    turn = np.minimum(mu * height, 1.5)
    left, right = middles - reach, middles + reach
    ends = mu * left - mu * mu / 2, mu * right - mu * mu / 2
    nearest = np.where(left * right <= 0, 0.0, np.minimum(np.abs(left), np.abs(right)))
    alone = height**2 / 2 - nearest**2 / 2
    alone += np.log(halves) + np.log(64 / 15 / (1 - rho**-2)) - 2 * len(NODES[0]) * np.log(rho)
    size = max(power, 0.0) * mixed_losses(ends[1], rate) + alone
    size += _raised(power, _share(ends[0], rate), turn)
    size += min(power, 0.0) * mixed_losses(ends[0], rate)
    size += fastest * _angle(ends[1], rate, turn)
    size = np.where(mu * height < 1.5, size, np.inf)
    errors = [_log_sum(logs.min(axis=0)) - math.log(2 * math.pi) / 2 for logs in (size, alone)]
    return errors[0], errors[1]


def _log_sum(logs: Reals) -> float:
    """Log of the sum of exponentials."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _share(z: Reals, rate: float) -> Reals:
    """q exp(z) / R."""
    with np.errstate(over="ignore"):
        shares: Reals = 1 / (1 + (1 - rate) / rate * np.exp(-z))
    return shares


def _raised(power: float, share: Reals, turn: Reals) -> Reals:
    """Log of (1 - r b)^min(c, 0)."""
    logs: Reals = min(power, 0.0) * np.log1p(-share * (1 - np.cos(turn)))
    return logs


def _angle(z: Reals, rate: float, turn: Reals) -> Reals:
    """arg(1 - q + q exp(z + i turn)) for 0 <= turn <= pi / 2."""
    with np.errstate(over="ignore"):
        back = (1 - rate) / rate * np.exp(-z)
    angles: Reals = np.arctan2(np.sin(turn), back + np.cos(turn))
    return angles


def _cut(factor: SampledNormal, power: float, edges: Reals) -> float:
    """Log of the integral of R^c phi beyond the ends and up to the cap, at most.

    Its log has slope c mu r - x, r rising from 0 to 1: left of the ends it falls at least as fast
    as there, and right of them from where x is above c mu; up to there, cell by cell.
    """
    mu, rate = factor.mu, factor.rate
    low, high = float(edges[0]), float(edges[-1])

    def log_at(x: Reals) -> Reals:
        logs: Reals = power * mixed_losses(mu * x - mu * mu / 2, rate)
        return logs

    between, far = -math.inf, min(max(power, 0.0) * mu + 1, factor.cap)
    if high < far:
        if far - high > CELL_WIDTH * MOST_QUADRATURE_NODES:
            return math.inf
        points = np.arange(high, far + 2 * CELL_WIDTH, CELL_WIDTH)
        left, right = points[:-1], points[1:]
        nearest = np.where(left * right <= 0, 0.0, np.minimum(np.abs(left), np.abs(right)))
        cells = np.maximum(log_at(left), log_at(right)) - nearest**2 / 2
        between = _log_sum(cells) + math.log(CELL_WIDTH)
        high = float(points[-1])
    share = float(_share(np.array([mu * low - mu * mu / 2]), rate)[0])
    slopes = [-low - max(-power, 0.0) * mu * share]
    if high < factor.cap:
        slopes.append(high - max(power, 0.0) * mu)
    if not min(slopes) > 0:
        return math.inf
    points = np.array([low, high])[: len(slopes)]
    ends = log_at(points) - points**2 / 2 - np.log(slopes)
    return float(np.logaddexp.reduce([*ends, between])) - 0.9


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
        by_pairs = np.zeros(len(edges))
        # No pair says anything beyond.
        count = int(np.sum(edges * np.min(self.distances, initial=np.inf) <= math.pi)) - 1
        if count > 0:
            left, right = edges[:count], edges[1 : count + 1]
            drop = self.paired * (1 - np.cos(np.outer(left, self.distances) / 2))
            drop = np.where(np.outer(right, self.distances) <= math.pi, drop, 0.0)
            by_pairs[:count] = np.log1p(-np.minimum(drop.max(axis=1), 1 - 1e-9))
        by_variation = np.log(np.minimum(self.variation / edges, 1.0))
        bounds: Reals = self.times * np.minimum(by_pairs, by_variation)
        return bounds


@lru_cache(maxsize=512)
def decay_of(factor: SampledNormal, tilt: float, ratio: float = DISTANCE_RATIO) -> Decay:
    """Pairs of equal distance in loss, from the density at points ``DENSITY_SPACING`` apart.

    Each distance is ``ratio`` times the next.

    Errors: OutOfReach as :func:`rule`.
    """
    quadrature = rule(factor, tilt, 0.0, RULE_NATS)
    mu, rate, power = factor.mu, factor.rate, factor.power(tilt)
    low, high = -DENSITY_REACH, min(DENSITY_REACH + max(power, 1.0) * mu, factor.cap)
    if (high - low) / DENSITY_SPACING > MOST_POINTS:
        raise OutOfReach
    x = np.arange(low, high, DENSITY_SPACING)
    loss = mixed_losses(mu * x - mu * mu / 2, rate)
    own, density, slope = _density(factor, power, quadrature.log_moment, x, loss)
    spread = math.sqrt(float(quadrature.weights @ quadrature.losses**2))
    peak = float(loss[int(np.argmax(density))])
    variation = 4 * math.exp(min(float(np.max(density + slope * DENSITY_SPACING)), 700.0))
    # Beyond these points the density falls.
    first_share = math.exp(float(own[0])) / mu
    falling = high == factor.cap or high > (power + 1) * mu
    # Squares of the smallest losses are 0 in floats.
    if not (-low > mu + abs(power + 1) * mu * first_share and falling and spread > 0):
        raise OutOfReach
    count = max(math.ceil(math.log(6 * spread * variation / 0.05) / math.log(ratio)), 0)
    distances = 6 * spread * ratio ** -np.arange(count, dtype=float)
    paired = np.empty(count)
    for k in range(0, count, DISTANCES_AT_ONCE):
        distance = distances[k : k + DISTANCES_AT_ONCE, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            partner = unmixed_loss(loss + distance, rate) / mu + mu / 2
        further = loss + distance
        _, other, other_slope = _density(factor, power, quadrature.log_moment, partner, further)
        least = np.minimum(density - slope * DENSITY_SPACING, other - other_slope * DENSITY_SPACING)
        mass = np.exp(least + own - mu * DENSITY_SPACING) * DENSITY_SPACING
        # Slopes of a partner are below 1, as shares rise.
        mass *= np.maximum(x, partner) + DENSITY_SPACING <= factor.cap
        best = np.zeros(len(distance))
        for shift in BLOCK_SHIFTS:
            block = np.floor((loss - peak) / distance - shift)
            nested = (block[:, :-1] == block[:, 1:]) & (block[:, 1:] % 2 == 0)
            inside = nested[:, :-1] & nested[:, 1:]
            best = np.maximum(best, (inside * mass[:, 1:-1]).sum(axis=1))
        paired[k : k + DISTANCES_AT_ONCE] = np.minimum(2 * best * (1 - 1e-9), 1.0)
    return Decay(factor.times, distances, paired, variation)


def _density(
    factor: SampledNormal, power: float, log_moment: float, x: Reals, loss: Reals
) -> tuple[Reals, Reals, Reals]:
    """At x of that log R: log of its slope, log of its tilted density, that one's slope at most."""
    mu, rate = factor.mu, factor.rate
    z = mu * x - mu * mu / 2
    with np.errstate(invalid="ignore", over="ignore"):
        own = math.log(mu * rate) + z - loss
        density = -x * x / 2 - math.log(2 * math.pi) / 2 + power * loss - log_moment - own
        share = 1 / (1 + (1 - rate) / rate * np.exp(-z - mu * DENSITY_SPACING))
        slope = np.abs(x) + DENSITY_SPACING + mu + abs(power + 1) * mu * share
    finite = np.isfinite(density) & np.isfinite(slope)
    return own, np.where(finite, density, -np.inf), np.where(finite, slope, 0.0)

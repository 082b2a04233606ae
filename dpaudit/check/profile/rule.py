"""Moments of a sampled normal pair at many frequencies: a trapezoid rule with its errors bounded.

With the notation of :mod:`dpaudit.check.profile.sampled`, E_Q R^(c + i w) over E_Q R^c at w = j u,
j <= J, by h sum f(k h), f(x) = R(x)^(c + i w) phi(x).  On the strip |y| <= d, m d < pi / 2,
    |R(x + iy)| <= R(x),    |R(x + iy)| >= R(x) - b q exp(z),  b = 1 - cos(m d),
    |arg R(x + iy)| <= a(x) = arg(1 - q + q exp(z + i m d)),   |phi(x + iy)| <= exp(d^2 / 2) phi(x),
m being the pair's mu, and the rule errs by at most 2 N / (exp(2 pi d / h) - 1), N the integral of
these bounds (Trefethen, Weideman 2014, Theorem 5.1).  N by rectangles: a, R and q exp(z) rise with
x, phi falls from 0 on either side.  Beyond the ends: R <= 1 for z <= 0, R <= exp(z) for z >= 0,
and R - b q exp(z) >= 1 - q.
A loss in floats is off by its own rounding, by its share of the exponent's, and by q's times
|1 - 1 / R|, which is large where R is near 0: rates next to 1 are refused.
Sums in floats: w enters as exp(i w l) - 1 with l the loss from its mean, so that the error of a
mean is at most w times the mean of |l| and of l's own error, times a number of roundings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpaudit.check.profile.cells import UNIT, Floats, NotConfirmed

EXPONENT = 34.0
BLOCK, MOST_POINTS, MOST_PRODUCTS = 256, 300_000, 2 * 10**9
LARGEST_RISE = 200.0
# In floats 1 - q, and a q that is tiny, have no relative precision beyond these.
RATES = 1e-200, 1 - 1e-6
# Covers the roundings of a bound itself.
OUTWARD = 1 + 1e-6


@dataclass(frozen=True)
class Sampled:
    """mu, rate and the power c of R; whether the loss is -log R."""

    mu: float
    rate: float
    power: float
    swapped: bool


def _loss(pair: Sampled, x: Floats) -> Floats:
    z = pair.mu * x - pair.mu * pair.mu / 2
    with np.errstate(over="ignore"):
        small = np.log1p(pair.rate * np.expm1(np.minimum(z, 600.0)))
    return np.where(z < 600, small, z + math.log(pair.rate))


def bend(pair: Sampled, x: Floats, loss: Floats) -> Floats:
    """The loss is within 2^-53 times this: z moves it by its share, q and log1p by |1 - 1 / R|."""
    moved = 16 * _share(pair, x) * (1 + np.abs(pair.mu * x) + pair.mu**2)
    found: Floats = moved + 8 * np.abs(loss) + 8 * np.expm1(np.maximum(-loss, 0.0))
    return found


def _share(pair: Sampled, x: Floats) -> Floats:
    """q exp(z) / R."""
    z = pair.mu * x - pair.mu * pair.mu / 2
    with np.errstate(over="ignore"):
        found: Floats = 1 / (1 + (1 - pair.rate) / pair.rate * np.exp(-z))
    return found


def _log_bound(pair: Sampled, x: Floats, turn: float, fastest: float) -> Floats:
    """Log of the largest integrand on each cell of the strip, but for exp(d^2 / 2)."""
    low, high = x[:-1], x[1:]
    near = np.where(low * high <= 0, 0.0, np.minimum(np.abs(low), np.abs(high)))
    size = np.maximum(pair.power * _loss(pair, low), pair.power * _loss(pair, high))
    share = _share(pair, high)
    size = size + min(pair.power, 0.0) * np.log1p(-share * (1 - math.cos(turn)))
    angle = np.arctan2(share * math.sin(turn), 1 - share + share * math.cos(turn))
    found: Floats = size + fastest * angle - near * near / 2 - math.log(2 * math.pi) / 2
    return found


def _log_tails(pair: Sampled, ends: tuple[float, float], turn: float, fastest: float) -> float:
    """Log of the integral of the same beyond two points on either side of mu / 2."""
    c, mu = pair.power, pair.mu
    lifted = max(-c, 0.0) * -math.log1p(-pair.rate) + fastest * turn
    low = float(special.log_ndtr(ends[0])) + lifted
    grown = max(c, 0.0)
    high = float(special.log_ndtr(grown * mu - ends[1])) + grown * (grown - 1) * mu * mu / 2
    return float(np.logaddexp(low, high + lifted))


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _place(pair: Sampled, fastest: float, exponent: float) -> tuple[float, float, Floats]:
    """A strip, a step and the points of the rule, whatever error they have."""
    mu, c = pair.mu, pair.power
    lifted = max(-c, 0.0) * -math.log1p(-pair.rate)
    best: tuple[float, float] = (0.0, 0.0)
    reach = math.sqrt(2 * (exponent + LARGEST_RISE + lifted))
    coarse = np.arange(-reach, reach + max(c, 1.0) * mu + 0.05, 0.05)
    if len(coarse) > MOST_POINTS:
        raise NotConfirmed("a tilt that is too large")
    whole = _log_sum(_log_bound(pair, coarse, 0.0, 0.0))
    for k in range(40):
        d = min(2.0, 0.45 * math.pi / mu) * 0.75**k
        rise = _log_sum(_log_bound(pair, coarse, mu * d, fastest)) - whole + d * d / 2
        step = 2 * math.pi * d / (rise + exponent + 4)
        if step > best[1] and fastest * mu * d < LARGEST_RISE:
            best = d, step
    d, step = best[0], min(best[1], 0.2)
    if step <= 0 or len(coarse) * 0.05 / step > MOST_POINTS:
        raise NotConfirmed("too many points")
    reach = math.sqrt(2 * (exponent + 6 + lifted + fastest * mu * d))
    first, last = -reach, reach + max(c, 1.0) * mu
    points = np.arange(math.floor(first / step), math.ceil(last / step) + 1) * step
    return d, step, points.astype(np.float64)


def moments(
    pair: Sampled, times: float, unit: float, count: int
) -> tuple[np.ndarray[Any, Any], Floats, float]:
    """E exp(i w (L - m)) - 1 at w = j unit, j <= count, under the tilted law; their errors; m.

    Errors: NotConfirmed where that takes too many points.
    """
    if not (RATES[0] <= pair.rate <= RATES[1] and pair.mu >= RATES[0]):
        raise NotConfirmed("a rate or a mu that floats do not hold")
    fastest = unit * count
    exponent = EXPONENT + math.log(times)
    d, step, x = _place(pair, fastest, exponent)
    if len(x) * count > MOST_PRODUCTS:
        raise NotConfirmed("too many products")
    loss = _loss(pair, x)
    logs = pair.power * loss - x * x / 2 + math.log(step / math.sqrt(2 * math.pi))
    log_whole = _log_sum(logs)
    weights = np.exp(logs - log_whole)
    tails = (float(x[0]), float(x[-1]))
    beyond = math.exp(min(_log_tails(pair, tails, 0.0, 0.0) + 1 - log_whole, 700.0))
    inside = _log_sum(_log_bound(pair, x, pair.mu * d, fastest)) + math.log(step)
    size = np.logaddexp(inside, _log_tails(pair, tails, pair.mu * d, fastest)) + d * d / 2
    turns = 2 * math.pi * d / step
    rule = float(size) - log_whole - turns - math.log(-math.expm1(-turns)) + math.log(2)
    off = (math.exp(min(rule, 700.0)) + beyond) * OUTWARD
    mean = float(weights @ loss)
    moved = (mean - loss) if pair.swapped else (loss - mean)
    own = bend(pair, x, loss)
    rounds = BLOCK + len(x) / BLOCK + 64 + 8 * x * x + abs(pair.power) * own
    slope = UNIT * 16 * float(weights @ (rounds * np.abs(moved) + own + abs(mean)))
    w = unit * np.arange(count + 1)
    most = UNIT * 16 * float(weights @ rounds) + w * UNIT * 16 * float(weights @ (own + abs(mean)))
    errors = (2.1 * off + np.minimum(w * slope, most)) * OUTWARD
    return _means(moved, weights, unit, count), errors, (-mean if pair.swapped else mean)


def _means(moved: Floats, weights: Floats, unit: float, count: int) -> np.ndarray[Any, Any]:
    """Sums of weights (exp(i w l) - 1), w = (a + size b) unit: u + v + u v of its two parts."""
    size = math.isqrt(count) + 1
    whole = np.zeros((size, size), dtype=np.complex128)
    k = np.arange(size)[:, None]
    for start in range(0, len(moved), BLOCK):
        losses, share = moved[start : start + BLOCK], weights[start : start + BLOCK]
        angles = k * (unit * losses), k * (unit * size * losses)
        fine, coarse = (-2 * np.sin(a / 2) ** 2 + 1j * np.sin(a) for a in angles)
        whole += (coarse * share) @ fine.T + (fine @ share)[None, :] + (coarse @ share)[:, None]
    return whole.ravel()[: count + 1]

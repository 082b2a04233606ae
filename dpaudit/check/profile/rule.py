"""Moments of a sampled normal pair at many frequencies: a Gauss rule with its errors bounded.

With the notation of :mod:`dpaudit.check.profile.sampled`, E_Q R^(c + i w) over E_Q R^c at w = j u,
j <= J, of f(x) = R(x)^(c + i w) phi(x).  At |y| <= d, m d < pi / 2,
    |R(x + iy)| <= R(x),    |R(x + iy)| >= R(x) - b q exp(z),  b = 1 - cos(m d),
    |arg R(x + iy)| <= a(x) = arg(1 - q + q exp(z + i m d)),   |phi(x + iy)| <= exp(d^2 / 2) phi(x),
m being the pair's mu: a, R and q exp(z) rise with x, phi falls from 0 on either side.  Beyond the
ends: R <= 1 for z <= 0, R <= exp(z) for z >= 0, and R >= 1 - q.
A loss in floats is off by its own rounding, by its share of the exponent's, and by q's times
|1 - 1 / R|, which is large where R is near 0: rates next to 1 are refused.
Sums in floats: w enters as exp(i w l) - 1 with l the loss from its mean, so that the error of a
mean is at most w times the mean of |l| and of l's own error, times a number of roundings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dpaudit.check.profile.cells import UNIT, NotConfirmed
from dpaudit.exact.arrays import Array, Floats, np, special

EXPONENT = 34.0  # nats: a rule errs by e^-34, below a float's rounding
FREQUENCIES = 256  # frequencies that are computed at a time
MOST_POINTS = 300_000  # points of a rule: memory
MOST_PRODUCTS = 2 * 10**9  # points times frequencies: some seconds
# Panels: nodes in each, radians of phase that each spans, points of the first survey.
DEGREE, FOLLOWED, SCOUTS = 28, 11.0, 8000
# Smallest and largest q: beyond them floats lose the relative precision of q or of 1 - q.
RATES = 1e-200, 1 - 1e-6
# Covers the roundings of a bound itself.
OUTWARD = 1 + 1e-6


@dataclass(frozen=True)
class Sampled:
    """mu, rate and the power c of R; whether the loss is -log R; of outcomes up to a cap."""

    mu: float
    rate: float
    power: float
    swapped: bool
    cap: float = math.inf


def _loss(pair: Sampled, x: Floats) -> Floats:
    z = pair.mu * x - pair.mu * pair.mu / 2
    with np.errstate(over="ignore"):
        small = np.log1p(pair.rate * np.expm1(np.minimum(z, 600.0)))
    return np.where(z < 600, small, z + math.log(pair.rate))


def bend(pair: Sampled, x: Floats, loss: Floats) -> Floats:
    """The loss is within 2^-53 times this: z moves it by its share, q and log1p by |1 - 1 / R|."""
    moved = 16 * _share(pair, x) * (np.abs(pair.mu * x) + pair.mu**2)
    errors: Floats = moved + 16 * np.abs(loss) + 16 * np.expm1(np.maximum(-loss, 0.0))
    return errors


def _share(pair: Sampled, x: Floats) -> Floats:
    """q exp(z) / R."""
    z = pair.mu * x - pair.mu * pair.mu / 2
    with np.errstate(over="ignore"):
        shares: Floats = 1 / (1 + (1 - pair.rate) / pair.rate * np.exp(-z))
    return shares


def _log_bound(pair: Sampled, x: Floats) -> Floats:
    """:func:`_log_most` on each cell between neighbouring points of the line."""
    return _log_most(pair, x[:-1], x[1:], np.zeros(len(x) - 1), 0.0)


def _log_most(pair: Sampled, low: Floats, high: Floats, turn: Floats, fastest: float) -> Floats:
    """Log of the largest |integrand| / exp(d^2 / 2) on low <= x <= high, |y| <= turn / mu."""
    near = np.where(low * high <= 0, 0.0, np.minimum(np.abs(low), np.abs(high)))
    size = np.maximum(pair.power * _loss(pair, low), pair.power * _loss(pair, high))
    share = _share(pair, high)
    size = size + min(pair.power, 0.0) * np.log1p(-share * (1 - np.cos(turn)))
    angle = np.arctan2(share * np.sin(turn), 1 - share + share * np.cos(turn))
    logs: Floats = size + fastest * angle - near * near / 2 - math.log(2 * math.pi) / 2
    return logs


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _panels(pair: Sampled, fastest: float, exponent: float) -> tuple[Floats, Floats, float, float]:
    """Points, logs of their weights, and logs of two errors: the rule's, and of what is cut off.

    Gauss-Legendre panels, up to the cap where there is one.
    A panel spans about ``FOLLOWED`` radians of the integrand's phase.

    On a panel of half width H the rule of n nodes errs by at most (64 / 15) H M rho^(-2 n) /
    (1 - rho^(-2)), M the largest |f| on the ellipse of half axes H (rho +- 1 / rho) / 2
    (Trefethen 2013, Theorem 19.3).
    """
    c, mu = pair.power, pair.mu
    lifted = max(-c, 0.0) * -math.log1p(-pair.rate)
    reach = math.sqrt(2 * (exponent + 10 + lifted))
    x = np.linspace(-reach, min(reach + max(c, 1.0) * mu, pair.cap), SCOUTS)
    logs = c * _loss(pair, x) - x * x / 2
    missing = logs.max() - logs
    few = int(np.flatnonzero(missing < exponent + 10)[-1]) + 2
    count = SCOUTS if math.isinf(pair.cap) else few
    x, missing = x[:count], np.minimum(missing[:count], 30.0)
    speed = (fastest + abs(c)) * mu * _share(pair, x) / (FOLLOWED + 0.3 * missing)
    speed = np.maximum(speed, max(1.0, 2.5 * mu) / 2)
    passed = np.append(0.0, np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(x)))
    nodes, widths = _legendre()
    for finer in (1.0, 1.6, 2.5):
        panels = math.ceil(passed[-1] * finer)
        if not panels * len(nodes) < MOST_POINTS:
            break
        edges = np.interp(np.linspace(0.0, passed[-1], panels + 1), passed, x)
        half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
        best = np.full(panels, np.inf)
        for rho in (1.25, 1.6, 2.2, 3.0, 4.5):
            wide, high = half * (rho + 1 / rho) / 2, half * (rho - 1 / rho) / 2
            fits = mu * high < 1.5
            turn = np.where(fits, mu * high, 0.0)
            most = _log_most(pair, middle - wide, middle + wide, turn, fastest) + high * high / 2
            most += np.log(half) + math.log(64 / 15 / (1 - rho**-2))
            best = np.minimum(best, np.where(fits, most - 2 * len(nodes) * math.log(rho), np.inf))
        if _log_sum(best) < logs.max() - exponent:
            points = (middle[:, None] + half[:, None] * nodes).ravel()
            return (
                points,
                np.log(np.outer(half, widths).ravel()),
                _log_sum(best),
                _log_outside(pair, float(edges[0]), float(edges[-1])),
            )
    raise NotConfirmed("too many panels")


def _log_outside(pair: Sampled, first: float, last: float) -> float:
    """Log of the integral of R^c phi below a point, and from another to the cap."""
    lifted = max(-pair.power, 0.0) * -math.log1p(-pair.rate)
    below = float(special.log_ndtr(first)) + lifted
    if last >= pair.cap:
        return below + 1
    if math.isinf(pair.cap):
        grown, mu = max(pair.power, 0.0), pair.mu
        tail = float(special.log_ndtr(grown * mu - max(last, mu / 2)))
        tail += grown * (grown - 1) * mu * mu / 2
        beyond = float(np.logaddexp(float(special.log_ndtr(-last)) + lifted, tail))
    else:
        x = np.linspace(last, pair.cap, SCOUTS)
        beyond = _log_sum(_log_bound(pair, x)) + math.log(float(x[1] - x[0]))
    return float(np.logaddexp(below, beyond)) + 1


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    """Nodes and weights on [-1, 1], each the float nearest to Arb's."""
    import flint

    rows = [flint.arb.legendre_p_root(DEGREE, k, weight=True) for k in range(DEGREE)]
    nodes, weights = (np.array([float(row[i].mid()) for row in rows]) for i in (0, 1))
    return nodes, weights


def moments(pair: Sampled, times: float, unit: float, count: int) -> tuple[Array, Floats, float]:
    """E exp(i w (L - m)) - 1 at w = j unit, j <= count, under the tilted law; their errors; m.

    Errors: NotConfirmed where that takes too many points.
    """
    if not (RATES[0] <= pair.rate <= RATES[1] and pair.mu >= RATES[0]):
        raise NotConfirmed("a rate or a mu that floats do not hold")
    fastest = unit * count
    x, log_widths, log_off, log_beyond = _panels(pair, fastest, EXPONENT + math.log(times))
    if len(x) * count > MOST_PRODUCTS:
        raise NotConfirmed("too many products")
    loss = _loss(pair, x)
    logs = pair.power * loss - x * x / 2 + log_widths - math.log(2 * math.pi) / 2
    log_whole = _log_sum(logs)
    weights = np.exp(logs - log_whole)
    sizes = (math.exp(min(size - log_whole, 700.0)) for size in (log_off, log_beyond))
    off = sum(sizes) * OUTWARD
    mean = float(weights @ loss)
    moved = (mean - loss) if pair.swapped else (loss - mean)
    own = bend(pair, x, loss)
    rounds = FREQUENCIES + len(x) / FREQUENCIES + 64 + 8 * x * x + abs(pair.power) * own
    slope = UNIT * 16 * float(weights @ (rounds * np.abs(moved) + own + abs(mean)))
    w = unit * np.arange(count + 1)
    most = UNIT * 16 * float(weights @ rounds) + w * UNIT * 16 * float(weights @ (own + abs(mean)))
    errors = (2.1 * off + np.minimum(w * slope, most)) * OUTWARD
    return means(moved, weights, unit, count), errors, (-mean if pair.swapped else mean)


def means(moved: Floats, weights: Floats, unit: float, count: int) -> Array:
    """Sums of weights (exp(i w l) - 1), w = (a + size b) unit: u + v + u v of its two parts."""
    size = math.isqrt(count) + 1
    sums = np.zeros((size, size), dtype=np.complex128)
    k = np.arange(size)[:, None]
    for start in range(0, len(moved), FREQUENCIES):
        losses, share = moved[start : start + FREQUENCIES], weights[start : start + FREQUENCIES]
        angles = k * (unit * losses), k * (unit * size * losses)
        fine, coarse = (-2 * np.sin(a / 2) ** 2 + 1j * np.sin(a) for a in angles)
        sums += (coarse * share) @ fine.T + (fine @ share)[None, :] + (coarse @ share)[:, None]
    return sums.ravel()[: count + 1]

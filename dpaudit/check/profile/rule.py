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
from functools import lru_cache

from dpaudit.check.profile.cells import UNIT, NotConfirmed
from dpaudit.exact.arrays import Array, Floats, np, special

EXPONENT = 34.0  # nats: a rule errs by e^-34, below a float's rounding
FREQUENCIES = 256  # frequencies that are computed at a time
MOST_POINTS = 300_000  # points of a rule: memory
MOST_PRODUCTS = 2 * 10**9  # points times frequencies: some seconds
LARGEST_RISE = 200.0  # nats by which an integrand may rise off the real line
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


def _log_bound(pair: Sampled, x: Floats, turn: float, fastest: float) -> Floats:
    """:func:`_log_most` on each cell between neighbouring points."""
    return _log_most(pair, x[:-1], x[1:], np.full(len(x) - 1, turn), fastest)


def _log_most(pair: Sampled, low: Floats, high: Floats, turn: Floats, fastest: float) -> Floats:
    """Log of the largest |integrand| / exp(d^2 / 2) on low <= x <= high, |y| <= turn / mu."""
    near = np.where(low * high <= 0, 0.0, np.minimum(np.abs(low), np.abs(high)))
    size = np.maximum(pair.power * _loss(pair, low), pair.power * _loss(pair, high))
    share = _share(pair, high)
    size = size + min(pair.power, 0.0) * np.log1p(-share * (1 - np.cos(turn)))
    angle = np.arctan2(share * np.sin(turn), 1 - share + share * np.cos(turn))
    logs: Floats = size + fastest * angle - near * near / 2 - math.log(2 * math.pi) / 2
    return logs


def _log_tails(pair: Sampled, ends: tuple[float, float], turn: float, fastest: float) -> float:
    """Log of the integral of :func:`_log_most` beyond two points on either side of mu / 2."""
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
    """Half width d of the strip, step h, and the points k h of the trapezoid rule.

    They keep the rule's error near exp(-``exponent``) at frequencies up to ``fastest`` with few
    points.  The caller bounds the error that results, so that these choices need no proof.

    Errors: NotConfirmed where the rule needs more than ``MOST_POINTS`` points.
    """
    mu, c = pair.mu, pair.power
    lifted = max(-c, 0.0) * -math.log1p(-pair.rate)
    best: tuple[float, float] = (0.0, 0.0)
    reach = math.sqrt(2 * (exponent + LARGEST_RISE + lifted))
    coarse = np.arange(-reach, reach + max(c, 1.0) * mu + 0.05, 0.05)
    if len(coarse) > MOST_POINTS:
        raise NotConfirmed("a tilt that is too large")
    log_total = _log_sum(_log_bound(pair, coarse, 0.0, 0.0))
    for k in range(40):
        d = min(2.0, 0.45 * math.pi / mu) * 0.75**k
        rise = _log_sum(_log_bound(pair, coarse, mu * d, fastest)) - log_total + d * d / 2
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


def _trapezoid(
    pair: Sampled, fastest: float, exponent: float
) -> tuple[Floats, Floats, float, float]:
    """Points, logs of their weights, and logs of two errors: the rule's, and of what is cut off."""
    d, step, x = _place(pair, fastest, exponent)
    ends = (float(x[0]), float(x[-1]))
    inside = _log_sum(_log_bound(pair, x, pair.mu * d, fastest)) + math.log(step)
    size = np.logaddexp(inside, _log_tails(pair, ends, pair.mu * d, fastest)) + d * d / 2
    turns = 2 * math.pi * d / step
    rule = float(size) - turns - math.log(-math.expm1(-turns)) + math.log(2)
    return x, np.full(len(x), math.log(step)), rule, _log_tails(pair, ends, 0.0, 0.0) + 1


def _panels(pair: Sampled, fastest: float, exponent: float) -> tuple[Floats, Floats, float, float]:
    """As :func:`_trapezoid`, for outcomes up to a cap, by Gauss-Legendre panels.

    A panel spans about ``FOLLOWED`` radians of the integrand's phase.

    On a panel of half width H the rule of n nodes errs by at most (64 / 15) H M rho^(-2 n) /
    (1 - rho^(-2)), M the largest |f| on the ellipse of half axes H (rho +- 1 / rho) / 2
    (Trefethen 2013, Theorem 19.3).
    """
    c, mu = pair.power, pair.mu
    lifted = max(-c, 0.0) * -math.log1p(-pair.rate)
    reach = math.sqrt(2 * (exponent + 10 + lifted))
    x = np.linspace(-reach, pair.cap, SCOUTS)
    logs = c * _loss(pair, x) - x * x / 2
    missing = logs.max() - logs
    count = int(np.flatnonzero(missing < exponent + 10)[-1]) + 2
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
    x = np.linspace(last, pair.cap, SCOUTS)
    beyond = _log_sum(_log_bound(pair, x, 0.0, 0.0)) + math.log(float(x[1] - x[0]))
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
    quadrature = _panels if math.isfinite(pair.cap) else _trapezoid
    x, log_widths, log_off, log_beyond = quadrature(pair, fastest, EXPONENT + math.log(times))
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


def log_between(pair: Sampled, w: Floats) -> Floats:
    """log of a bound of |E exp(i v L)| for v between successive w, from its values there.

    f(v) = 1 - |E exp(i v L)|^2 is E (1 - cos(v (L - L'))), L' like L and independent.  As
    cos a - cos b = 2 sin((a + b) / 2) sin((b - a) / 2), Cauchy and Schwarz have
    f(v) >= f(w) - sqrt(f(v - w) f(v + w)), where f(v + w) <= 2 f(v) + 2 f(w), for
    1 - cos(a + b) <= 2 (1 - cos a) + 2 (1 - cos b).  Last, f(u) <= E min(4, u^2 (L - m)^2).
    Errors: NotConfirmed where that takes too many points.
    """
    quadrature = _panels if math.isfinite(pair.cap) else _trapezoid
    x, log_widths, log_off, log_beyond = quadrature(pair, float(w[-1]), EXPONENT)
    loss = _loss(pair, x)
    logs = pair.power * loss - x * x / 2 + log_widths - math.log(2 * math.pi) / 2
    log_whole = _log_sum(logs)
    weights = np.exp(logs - log_whole)
    off = 2.1 * sum(math.exp(min(size - log_whole, 700.0)) for size in (log_off, log_beyond))
    mean = float(weights @ loss)
    value = np.zeros(len(w), dtype=np.complex128)
    for start in range(0, len(x), 8 * FREQUENCIES):
        part = slice(start, start + 8 * FREQUENCIES)
        value += np.exp(1j * np.outer(w, loss[part] - mean)) @ weights[part]
    own = bend(pair, x, loss)
    rounds = 8 * FREQUENCIES + len(x) / FREQUENCIES + 64 + 8 * x * x + abs(pair.power) * own
    turned = w * UNIT * 16 * float(weights @ (own + np.abs(loss - mean) + abs(mean)))
    size = np.minimum(np.abs(value) + off + UNIT * 16 * float(weights @ rounds) + turned, 1.0)
    energy = (1 - size) * (1 + size)
    # Panels reach a little beyond their nodes.
    cells = np.linspace(float(x[0]) - 0.1, min(float(x[-1]) + 0.1, pair.cap), SCOUTS)
    mass = np.exp(_log_bound(pair, cells, 0.0, 0.0) - log_whole) * np.diff(cells) * OUTWARD
    far = np.abs(_loss(pair, cells) - mean) + UNIT * bend(pair, cells, _loss(pair, cells))
    far = np.maximum(far[1:], far[:-1])
    root = np.sqrt(np.minimum(np.outer(np.diff(w), far) ** 2, 4.0) @ mass + 4 * off)
    least = (np.sqrt(root**2 + 4 * energy[:-1]) - root) ** 2 / 2 - energy[:-1]
    bounds: Floats = np.log1p(-np.clip(least * (1 - 1e-9), 0.0, 1 - 1e-9)) / 2
    return bounds


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

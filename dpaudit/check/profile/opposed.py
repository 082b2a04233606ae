"""A drawn record against its opposite, by losses.

P and Q are a N(0) + q N(mu) and a N(0) + q N(-mu).

With a = 1 - q and b = q exp(-mu^2 / 2) the likelihood ratio at z is (a + b e^(mu z)) /
(a + b e^(-mu z)), which is e^l at z = (l / 2 + asinh(s)) / mu, s = a / b sinh(l / 2).  From there
on, at z + d, P - e^l Q has the density of N(0, 1) at that place times b (e^(mu z) (e^(mu d) - 1) +
e^(l - mu z) (1 - e^(-mu d))): no term is negative, and nothing cancels.
"""

from __future__ import annotations

import math

from dpaudit.check.profile.cells import UNIT, Ball, Mass, NotConfirmed, ball
from dpaudit.check.profile.noise import (
    FARTHEST,
    LARGEST_WIDTH,
    MOST_PARTS,
    WIDEST,
    Base,
    by_rule,
    normal_mass,
)
from dpaudit.exact import is_symbolic
from dpaudit.exact.arrays import Floats, np
from dpaudit.pairs.core import Opposition

# Moves and rates of which floats are sure; others are found from delta at the nodes.
MOVES, RATES = (1e-4, 20.0), (1e-12, 1 - 1e-6)
LARGEST_MASS = 1e150  # masses above are near the largest float, and count as outside
SQRT2 = math.sqrt(2)


def is_moderate(pair: Opposition) -> bool:
    """Whether cells of it are made here."""
    if is_symbolic(pair.mu) or is_symbolic(pair.rate):
        return False
    return bool(MOVES[0] < pair.mu < MOVES[1] and RATES[0] < pair.rate < RATES[1])


def opposed(pair: Opposition, tail: float) -> Base:
    """Errors: NotConfirmed for a move or a rate that is not moderate."""
    if not is_moderate(pair):
        raise NotConfirmed("Opposed: a move or a rate that is not moderate")
    mu, q = ball(pair.mu), ball(pair.rate)
    a, b = 1 - q, q * (-mu * mu / 2).exp()

    def place(loss: Ball) -> Ball:
        return (loss / 2 + (a / b * (loss / 2).sinh()).asinh()) / mu

    def between(low: Ball | None, high: Ball | None) -> Mass:
        z = [None if loss is None else place(loss) for loss in (low, high)]
        still = a * normal_mass(z[0], z[1], ball(0))
        toward, opposite = (q * normal_mass(z[0], z[1], way * mu) for way in (1, -1))
        return still + toward, still + opposite

    cells = _Cells(float(mu.mid()), float(q.mid()), float(a.mid()))
    largest = cells.loss(cells.reach(tail))
    return Base(between, cells.inside, (-largest, largest))


class _Cells:
    """Integrals over cells of loss, in floats."""

    def __init__(self, mu: float, rate: float, stays: float) -> None:
        self.mu, self.rate = mu, rate
        self.log_ratio = math.log(stays) - math.log(rate) + mu * mu / 2
        # The relative error of a / b as a float.
        self.relative = UNIT * (16 + 4 * mu * mu + 2 * abs(self.log_ratio))

    def reach(self, tail: float) -> float:
        """About where P has mass ``tail`` beyond, as exactly as tilts of rare, large losses need.

        Losses beyond count as infinite, so that any place is safe.
        """
        low, high = 0.0, FARTHEST + self.mu
        while high - low > 1e-3:
            middle = (low + high) / 2
            beyond = math.erfc(middle / SQRT2), math.erfc((middle - self.mu) / SQRT2)
            is_more = (1 - self.rate) * beyond[0] + self.rate * beyond[1] > 2 * tail
            low, high = (middle, high) if is_more else (low, middle)
        return high

    def loss(self, z: float) -> float:
        """The loss at z > 0."""
        up, down = (np.logaddexp(self.log_ratio, way * self.mu * z) for way in (1, -1))
        return float(up - down)

    def inside(self, u: Floats, d: Floats, moved: Floats) -> tuple[Floats, Floats, Floats]:
        """As of :class:`Base`, ``moved`` a few roundings of u.

        Below 0 by reflection, which exchanges P and Q: with v = -(u + d) the integrals are e^u and
        e^(u + d) times the other one of the cell from v on.
        """
        below = u < 0
        up, down, error = self._above(np.where(below, -(u + d), u), d)
        with np.errstate(over="ignore", invalid="ignore"):
            turned = np.exp(u) * down, np.exp(u + d) * up
        error = np.where(moved <= 8 * UNIT * (np.abs(u) + UNIT), error, np.inf)
        return np.where(below, turned[0], up), np.where(below, turned[1], down), error

    def _above(self, u: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
        """The sums of cells from u >= 0 on."""
        mu = self.mu
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scale = math.exp(self.log_ratio)
            s = scale * np.sinh(u / 2), scale * np.sinh((u + d) / 2)
            grown = 2 * scale * np.cosh((2 * u + d) / 4) * np.sinh(d / 4) * (s[0] + s[1])
            turned = grown / (s[1] * np.sqrt(1 + s[0] ** 2) + s[0] * np.sqrt(1 + s[1] ** 2))
            z = (u / 2 + np.arcsinh(s[0])) / mu
            width = (d / 2 + np.arcsinh(turned)) / mu
            farthest = z + width + mu
            # Relative errors of a width, and errors of a place.
            wide = 2 * self.relative + UNIT * (32 + 8 * u)
            off = (self.relative + UNIT * (32 + 8 * u)) / mu + 8 * UNIT * farthest + wide * width
            error = UNIT * (256 + 32 * farthest**2 + 8 * u) + (2 * farthest + 4 * mu + 4) * off
            error += 8 * (1 + mu * width) * wide
            both = np.maximum(width, mu * width)
        outside = ~(np.isfinite(error) & (s[1] < LARGEST_MASS) & (farthest <= FARTHEST))
        outside |= (d > LARGEST_WIDTH) | ~(both <= MOST_PARTS * WIDEST)
        up, down = np.zeros(len(u)), np.zeros(len(u))
        for rule, part in by_rule(np.where(outside, np.nan, both)):
            up[part], down[part] = self._quadrature(
                u[part], u[part] + d[part], z[part], width[part], rule
            )
        return up, down, np.where(outside, np.inf, error)

    def _quadrature(
        self, u: Floats, v: Floats, z: Floats, width: Floats, rule: tuple[int, int]
    ) -> tuple[Floats, Floats]:
        """Integrals over z + [0, width] of P - e^u Q and of e^v Q - P.

        The remainder of a rule is as of normal noise: a part is no wider than a quarter, nor is mu
        times it, and every term is a normal density times 1 - e^(-mu d) or e^(mu d) - 1.
        """
        points, parts = rule
        t, weights = np.polynomial.legendre.leggauss(points)
        t = ((np.arange(parts)[:, None] + (t + 1) / 2) / parts).ravel()
        weights = np.tile(weights / (2 * parts), parts)
        mu, first, last = self.mu, z[:, None], (z + width)[:, None]
        past, ahead = width[:, None] * t, width[:, None] * (1 - t)
        common = -((first + past) ** 2) / 2 - mu * mu / 2
        up = np.exp(common + mu * first) * np.expm1(mu * past)
        up -= np.exp(common + u[:, None] - mu * first) * np.expm1(-mu * past)
        down = np.exp(common + v[:, None] - mu * last) * np.expm1(mu * ahead)
        down -= np.exp(common + mu * last) * np.expm1(-mu * ahead)
        scale = self.rate * width / math.sqrt(2 * math.pi)
        return scale * (up @ weights), scale * (down @ weights)

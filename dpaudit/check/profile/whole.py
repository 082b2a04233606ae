"""Sampled noise on the whole numbers, and sampled atoms: their outcomes, one by one.

With f(k) = exp(-k^2 / 2v) / theta, R = 1 - q + q exp(z), z = m (2 k - m) / 2v,
    M(s) = sum_k f(k) R(k)^c,    c = 1 + s, and c = -s for the swapped pair.
Left out: below k = -K at most (1 - q)^min(c, 0) times the mass there; above, as R <= exp(z) where
z >= 0, for c >= 0 at most exp(c (c - 1) m^2 / 2v) times the mass beyond K - c m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpaudit.check.profile.cells import UNIT, Ball, NotConfirmed, ball
from dpaudit.check.profile.rule import FREQUENCIES, MOST_PRODUCTS, OUTWARD, means
from dpaudit.check.profile.sampled import Capped, Factor
from dpaudit.exact import Number, is_symbolic
from dpaudit.exact.arrays import Array, Floats, np
from dpaudit.pairs import Pair
from dpaudit.pairs.balls import bits as working_bits
from dpaudit.pairs.core import Lattice
from dpaudit.pairs.discrete_normal import weight_beyond

REST, MOST_LISTED = 95, 30_000


def _plain(pair: Factor) -> Pair:
    return pair.pair if isinstance(pair, Capped) else pair


def _sampled(pair: Factor) -> tuple[Lattice, Number] | None:
    """Variance and shift, and the rate, of sampled discrete noise in either direction."""
    sample = _plain(pair).unswapped.sample
    lattice = None if sample is None else sample.base.lattice
    return None if sample is None or lattice is None else (lattice, sample.rate)


def is_discrete(pair: Factor) -> bool:
    """Whether this is discrete normal noise that is sampled, or that swapped."""
    sampled = _sampled(pair)
    if sampled is None:
        return False
    (variance, shift), rate = sampled
    if is_symbolic(shift) or is_symbolic(variance) or is_symbolic(rate):
        return False
    return bool(shift > 0 and shift == int(shift) and variance > 0 and 0 < rate < 1)


@dataclass(frozen=True)
class Noise:
    """v, m, q and theta; whether the pair is swapped; the last outcome, None without a cap."""

    declared: Number
    variance: Ball
    shift: int
    rate: Ball
    theta: Ball
    swapped: bool
    cap: int | None

    def power(self, s: Any) -> Any:
        return -s if self.swapped else 1 + s

    def mass(self, k: int) -> Ball:
        return (-ball(k * k) / (2 * self.variance)).exp() / self.theta

    def loss(self, k: int) -> Ball:
        """log R."""
        z = self.shift * ball(2 * k - self.shift) / (2 * self.variance)
        if z < 1:
            return (self.rate * z.expm1()).log1p()
        return (1 - self.rate + self.rate * z.exp()).log()

    def beyond(self, k: int) -> Ball:
        """The mass from a whole number k on."""
        if k <= 0:
            return ball(1)
        return weight_beyond(self.declared, k, working_bits()) / self.theta


@lru_cache(maxsize=64)
def _noise(pair: Factor, bits: int) -> Noise:
    sampled = _sampled(pair)
    if sampled is None:
        raise NotConfirmed("no sampled discrete noise")
    (variance, shift), rate = sampled
    v = ball(variance)
    if 2 * bits * v > MOST_LISTED**2:
        raise NotConfirmed("too many outcomes")
    theta = 1 + 2 * weight_beyond(variance, 1, bits)
    cap = math.floor(pair.cap) if isinstance(pair, Capped) else None
    swapped = _plain(pair).is_swapped
    return Noise(variance, v, int(shift), ball(rate), theta, swapped, cap)


def noise_of(pair: Factor) -> Noise:
    """Its numbers, at the working precision."""
    return _noise(pair, working_bits())


@lru_cache(maxsize=4096)
def _listed(pair: Factor, low: int, high: int, bits: int) -> tuple[list[Ball], list[Ball]]:
    """Masses f(k) and log R(k)."""
    noise = _noise(pair, bits)
    span = range(low, high + 1)
    return [noise.mass(k) for k in span], [noise.loss(k) for k in span]


def _ends(noise: Noise, c: float) -> tuple[int, int]:
    """The first and last outcome that are listed for a power of R."""
    scale = math.sqrt(2 * float(noise.variance.mid()))
    lifted = max(-c, 0.0) * -float((1 - noise.rate).log().mid())
    low = -math.ceil(scale * math.sqrt(REST + lifted)) - 1
    high = math.ceil(scale * math.sqrt(REST) + max(c, 1.0) * noise.shift) + 1
    high = high if noise.cap is None else min(noise.cap, high)
    if high - low > MOST_LISTED:
        raise NotConfirmed("too many outcomes")
    return low, max(high, low)


def moment(pair: Factor, s: Any) -> Any:
    """E exp(s L), s a ball or a complex ball, of outcomes up to the cap."""
    import flint

    noise = noise_of(pair)
    power = noise.power(s)
    real = power.real if isinstance(power, flint.acb) else power
    low, high = _ends(noise, float(real.mid()))
    masses, losses = _listed(pair, low, high, flint.ctx.prec)
    total = sum(
        (mass * (power * loss).exp() for mass, loss in zip(masses, losses, strict=True)), power * 0
    )
    size = _rest(noise, real, low, high).upper()
    around = flint.arb(0, size)
    return total + (flint.acb(around, around) if isinstance(power, flint.acb) else around)


def _rest(noise: Noise, c: Ball, low: int, high: int) -> Ball:
    """An upper bound on the mass that is not listed."""
    lifted = (c.min(ball(0)) * (1 - noise.rate).log()).exp()
    bound = lifted * noise.beyond(1 - low)
    if noise.cap is not None and high >= noise.cap:
        return bound
    grown = c.max(ball(0))
    moved = math.floor(float((high + 1 - grown * noise.shift).lower()))
    rise = (grown * (grown - 1) * noise.shift**2 / (2 * noise.variance)).exp()
    return bound + lifted * rise * noise.beyond(moved)


def mass_beyond(pair: Capped) -> Ball:
    """P(k > cap) under the first law in one round, at most."""
    noise = noise_of(pair)
    if noise.cap is None or noise.cap < 0:
        raise NotConfirmed("a cap that leaves out too much")
    plain, moved = noise.beyond(noise.cap + 1), noise.beyond(noise.cap + 1 - noise.shift)
    return plain if noise.swapped else (1 - noise.rate) * plain + noise.rate * moved


def moments(pair: Factor, t: Ball, unit: float, count: int) -> tuple[Array, Floats, float]:
    """E exp(i w (L - m)) - 1 at w = j unit, j <= count, under the tilted law; their errors; m.

    Weights and losses are the floats nearest to balls: off by a rounding of their own size.
    """
    import flint

    noise = noise_of(pair)
    power = noise.power(t)
    low, high = _ends(noise, float(power.mid()))
    if (high - low + 1) * count > MOST_PRODUCTS:
        raise NotConfirmed("too many products")
    masses, logs = _listed(pair, low, high, flint.ctx.prec)
    terms = [mass * (power * log).exp() for mass, log in zip(masses, logs, strict=True)]
    total = moment(pair, t)
    off = float((_rest(noise, power, low, high) / total).upper())
    weights = _floats([term / total for term in terms])
    loss = _floats(logs) * (-1.0 if noise.swapped else 1.0)
    mean = float(weights @ loss)
    moved = loss - mean
    rounds = FREQUENCIES + len(loss) / FREQUENCIES + 64
    own = 16 * np.abs(loss) + abs(mean)
    slope = UNIT * 16 * float(weights @ (rounds * np.abs(moved) + own))
    w = unit * np.arange(count + 1)
    most = UNIT * 16 * rounds * float(weights.sum()) + w * UNIT * 16 * float(weights @ own)
    errors = (2.1 * off + np.minimum(w * slope, most) + 16 * UNIT * w * abs(mean)) * OUTWARD
    return means(moved, weights, unit, count), errors, mean


def _floats(values: Sequence[Ball]) -> Floats:
    return np.array([float(value.mid()) for value in values])

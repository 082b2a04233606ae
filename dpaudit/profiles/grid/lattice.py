"""Closed form of discrete normal noise: outcome by outcome, or in bulk where it is very wide."""

from __future__ import annotations

import math

import numpy as np

from dpaudit.errors import Unsupported
from dpaudit.pairs import DiscreteNormal
from dpaudit.profiles.grid.discrete import MAXIMUM_NODES, Reals, TooFine
from dpaudit.profiles.grid.families import NORMAL_FACTOR, finite, normal_between, point, quantile
from dpaudit.profiles.grid.hull import UNIT
from dpaudit.profiles.grid.masses import NO_OUTCOMES, Closed, Outcomes, as_float, closed_form

DENSE_VARIANCE = 5e8
ALL = 37.7
LARGEST_EXPONENT = 750.0


@closed_form(DiscreteNormal)
def _discrete_normal(pair: DiscreteNormal, tail: float) -> Closed:
    if pair.shift == 0:
        return point()
    variance, shift = as_float(pair.variance, "variance"), as_float(pair.shift, "shift")
    if shift != round(shift):
        raise Unsupported(f"discrete normal noise moved by {shift:g}: expected a whole number")
    scale = math.sqrt(variance)
    if variance > DENSE_VARIANCE and abs(shift) < scale:
        return _dense(scale, abs(shift), quantile(tail))
    reach = math.ceil(ALL * scale) + 2 + abs(shift)
    if 2 * reach > MAXIMUM_NODES:
        raise TooFine(f"discrete normal noise of variance {variance:g}: too many outcomes")
    k = np.arange(-reach, reach + 1)
    exponents = [(k - m) ** 2 / (2 * variance) for m in (shift, 0.0)]
    p, q = (np.exp(-e) / theta(variance) for e in exponents)
    # An outcome stays while one of its masses is a float: its loss is known, however large.
    kept = (p > 0) | (q > 0)
    losses = shift * (2 * k - shift) / (2 * variance)
    outcomes = Outcomes(losses[kept], p[kept], q[kept])
    return finite(outcomes, 16 * UNIT * (8 + 2 * LARGEST_EXPONENT))


def _dense(scale: float, shift: float, z: float) -> Closed:
    """Discrete normal noise of a variance v above ``DENSE_VARIANCE``, 0 < shift < scale.

    The sum of the density f over the integers in a cell is its integral between half-integers less
    a 24th of that of f'', within the factor 1 +- (z^4 + 6 z^2 + 3) / (600 v^2), z = k / sqrt(v).
    Proof: by Taylor's formula f(k) less the integral of f - f'' / 24 over [k - 1/2, k + 1/2] is
    that of K(t) f4(k + t), f4 the fourth derivative, K(t) = d^2 (1 - 2 d^2) / 48, d = 1/2 - |t|.
    K >= 0, and its integral is 1/576 - 1/1920 = 7/5760 < 1/822; |f4| = f |z^4 - 6 z^2 + 3| / v^2.
    In a unit cell f varies by a factor of at most e^(|z| / sqrt(v) + 1 / v), and z^4 + 6 z^2 + 3
    and 1 - (z^2 - 1) / (24 v) by less, which for |z| < 1000 and v > ``DENSE_VARIANCE`` is far
    below 822 / 600.
    """
    ratio = shift / scale

    def between(edges: Reals) -> Reals:
        slope = edges * np.exp(-np.minimum(edges * edges, 1400.0) / 2) / math.sqrt(2 * math.pi)
        inner = np.where(np.abs(edges) < ALL, slope, 0.0)
        masses = normal_between(edges) + np.diff(inner) / (24 * scale * scale)
        return np.maximum(masses, 0.0)

    def masses(edges: Reals) -> tuple[Reals, Reals]:
        last = np.floor(np.clip(edges / ratio + ratio / 2, -1e8, 1e8) * scale) + 0.5
        return between((last - shift) / scale), between(last / scale)

    half, farthest = ratio * ratio / 2, z + ratio + 1
    return Closed(
        masses,
        NO_OUTCOMES,
        (-half - ratio * farthest, half + ratio * farthest),
        edge_error=8 * UNIT * (ratio * farthest + half),
        relative=NORMAL_FACTOR
        + 16 * UNIT * farthest * farthest
        + (farthest**4 + 6 * farthest**2 + 3) / (600 * scale**4),
    )


def theta(variance: float) -> float:
    """Sum of exp(-k^2 / (2 variance)) over the integers, within 8 roundings."""
    if variance > 100:
        return math.sqrt(2 * math.pi * variance)
    reach = math.ceil(40 * math.sqrt(variance)) + 2
    return math.fsum(math.exp(-k * k / (2 * variance)) for k in range(-reach, reach + 1))

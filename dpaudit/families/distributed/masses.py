"""Masses of sums of clients' noise, from below: whole multiples of 10^-40."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from dpaudit.exact import enclose
from dpaudit.exact.effort import spend
from dpaudit.families.distributed.node import DistributedSkellam, DistributedSkellamVector

MASS_DECIMALS = 40  # Decimals to which a mass is rounded down.
BALL_BITS = 320  # Precision of the balls, in bits.
# Nodes whose noise is a difference of Poisson numbers.
SKELLAM = (DistributedSkellam, DistributedSkellamVector)


@lru_cache(maxsize=32)
def masses_of(node: Any) -> tuple[int, ...]:
    """floor(10^40 P(noise = k)) at k = 0, 1, ..., to the last one above 0; masses are even in k."""
    import flint

    with flint.ctx.workprec(BALL_BITS):
        balls = _skellam(node) if isinstance(node, SKELLAM) else _summed(node)
        unit = flint.arb(10) ** MASS_DECIMALS
        masses = []
        for ball in balls:
            units = (ball * unit).lower().floor().fmpz()
            if units <= 0:
                break
            masses.append(int(units))
        return tuple(masses)


def reach_of(variance: float) -> int:
    """Beyond it all masses together are below 10^-65, of either kind of noise.

    Both have moments of at most exp(V (cosh(s) - 1)), so that P(noise >= x) is at most
    exp(V (cosh(s) - 1) - s x) at s = asinh(x / V).
    """
    x = 4.0
    while True:
        s = math.asinh(x / variance)
        if variance * (math.cosh(s) - 1) - s * x < -math.log(10) * (MASS_DECIMALS + 26):
            return math.ceil(x)
        x *= 1.05


def _summed(node: Any) -> list[Any]:
    """Powers of one client's polynomial of masses; what is cut off only takes mass away, 10^-63."""
    import flint

    variance, width = enclose(node.variance), reach_of(float(enclose(node.total).mid()))
    # There exp(-x^2 / (2 v)) is below 10^-170.
    far = math.ceil(math.sqrt(800 * float(variance.mid()))) + 40
    spend(20 * (far + width), f"a law of {far} masses")
    weights = [(-flint.arb(k * k) / (2 * variance)).exp() for k in range(far + 1)]
    beyond = sum(weights[1:], flint.arb(0)) * 2 + weights[0]
    # A geometric series bounds the rest of the sum.
    ratio = (-flint.arb(2 * far + 1) / (2 * variance)).exp()
    beyond_reach = 2 * weights[far] * ratio / (1 - ratio)
    total = beyond + flint.arb(0).union(beyond_reach)
    half = [weight / total for weight in weights]
    client = flint.arb_poly([*half[:0:-1], *half]), far
    sum_so_far: tuple[Any, int] | None = None
    power = node.left
    while power:
        if power & 1:
            sum_so_far = client if sum_so_far is None else _cut(sum_so_far, client, width)
        power >>= 1
        if power:
            client = _cut(client, client, width)
    assert sum_so_far is not None  # noqa: S101  (a client is left)
    poly, centre = sum_so_far
    return [poly[centre + k] for k in range(centre + 1)]


def _cut(first: tuple[Any, int], second: tuple[Any, int], width: int) -> tuple[Any, int]:
    """A product of two, within ``width`` of its centre."""
    import flint

    product, centre = first[0] * second[0], first[1] + second[1]
    if centre <= width:
        return product, centre
    coefficients = [product[k] for k in range(centre - width, centre + width + 1)]
    return flint.arb_poly(coefficients), width


def _skellam(node: Any) -> list[Any]:
    """exp(-V) I_k(V); I_k / I_(k-1) = 1 / (2 k / V + I_(k+1) / I_k), between 0 and 1, from far out.

    The enclosure shrinks at every step, since all terms are positive.
    """
    import flint

    total = enclose(node.total)
    reach = reach_of(float(total.mid()))
    spend(10 * reach, f"a law of {reach} masses")
    ratio, ratios = flint.arb(0).union(1), []
    for k in range(reach + BALL_BITS + reach // 4, 0, -1):
        ratio = 1 / (2 * k / total + ratio)
        ratios.append(ratio)
    masses = [(-total).exp() * total.bessel_i(flint.arb(0))]
    for k in range(1, reach + 1):
        masses.append(masses[-1] * ratios[-k])
    return masses

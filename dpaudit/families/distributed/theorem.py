"""Sums of clients' noise, stated a second time: masses by Fourier sums over residues.

Modulo m, the law of a sum of independent numbers is the inverse transform of the product of their
transforms.  What lies m and more away is counted in, and taken off by Chernoff's bound; the proof
of what is made of the masses stands beside the accountant's rules.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.check.theorem import Table, Theorem, register
from dpaudit.exact import enclose
from dpaudit.nodes.pairs import Atoms, Losses

PLACES = 40
MANY, CELLS = 512, 256
PRECISION = 420


def _gaussian_transform(node: Any, modulus: int) -> list[Any]:
    """Of one client's noise, to the power of the clients that are left."""
    import flint

    v = enclose(node.variance)
    end = math.isqrt(math.ceil(900 * float(v.mid()))) + 50
    terms = [(-flint.arb(k) * k / v / 2).exp() for k in range(end)]
    # Both sides beyond: less than a geometric series.
    ratio = (-flint.arb(2 * end - 1) / v / 2).exp()
    left_out = flint.arb(0).union(2 * terms[-1] * ratio / (1 - ratio))
    total = 2 * sum(terms, flint.arb(0)) - terms[0] + left_out
    folded = [flint.arb(0)] * modulus
    for k, term in enumerate(terms):
        folded[k % modulus] += term
        if k:
            folded[-k % modulus] += term
    # Anywhere modulo m, what is left out adds no more than all of it.
    made = flint.acb.dft([flint.acb((x + left_out) / total) for x in folded])
    return [x**node.left for x in made]


def _skellam_transform(node: Any, modulus: int) -> list[Any]:
    import flint

    total = enclose(node.left * node.variance)
    angles = [flint.arb(2 * j) / modulus for j in range(modulus)]
    return [flint.acb((total * (angle.cos_pi() - 1)).exp()) for angle in angles]


@lru_cache(maxsize=16)
def _masses(node: Any) -> list[int]:
    import flint

    variance = float(node.left * node.variance)
    # P(noise >= x) <= exp(-x^2 / (2 V + x)), V and x of either law.
    far = 1
    while far * far / (2 * variance + far) < 220 * math.log(2):
        far += 1 + far // 16
    modulus = 1 << (2 * far).bit_length()
    gaussian = type(node).__name__ == "DistributedGaussian"
    transform = _gaussian_transform if gaussian else _skellam_transform
    with flint.ctx.workprec(PRECISION):
        whole = flint.acb.dft(transform(node, modulus))
        aliased = flint.arb(2) ** -200
        found: list[int] = []
        for k in range(far):
            known = whole[k].real / modulus - flint.arb(0).union(aliased)
            units = int((known * flint.arb(10) ** PLACES).lower().floor().fmpz())
            if units < 1:
                return found
            found.append(units)
        return found


@lru_cache(maxsize=16)
def _pairs(node: Any) -> Losses:
    masses, move = _masses(node), int(node.sensitivity)
    reach = len(masses)
    known = [
        (masses[abs(k - move)], masses[abs(k)])
        for k in range(-reach, reach + move + 1)
        if abs(k - move) < reach and abs(k) < reach
    ]
    each = math.ceil(len(known) / CELLS) if len(known) > MANY else 1
    groups = [known[i : i + each] for i in range(0, len(known), each)]
    unit = 10**PLACES
    upper: list[tuple[int, int]] = []
    lower: list[tuple[int, int]] = []
    for group in groups:
        p, q = map(sum, zip(*group, strict=True))
        lower.append((p, q))
        ratios = sorted(Fraction(a, b) for a, b in group)
        least, most = ratios[0], ratios[-1]
        if least == most:
            upper.append((p, q))
            continue
        share = (p - q * least) / (most - least)
        for ratio, mass in ((least, q - share), (most, share)):
            if mass >= 1:
                upper.append((math.floor(mass * ratio), math.floor(mass)))
    upper += [(unit - sum(p for p, _ in upper), 0)]
    upper += [(0, unit - sum(q for _, q in upper))]
    above = _of(upper, unit)
    if not lower:
        return Losses((above,), (above,), (), ())
    lower[0] = (lower[0][0] + unit - sum(p for p, _ in lower), lower[0][1])
    lower[-1] = (lower[-1][0], lower[-1][1] + unit - sum(q for _, q in lower))
    below = _of(lower, unit)
    return Losses((above,), (above,), (below,), (below,))


def _of(outcomes: list[tuple[int, int]], unit: int) -> Atoms:
    kept = [(p, q) for p, q in outcomes if (p, q) != (0, 0)]
    return Atoms(tuple((Fraction(p, unit), Fraction(q, unit)) for p, q in kept))


DISTRIBUTED: Table = {
    ("profile", "DistributedGaussian"): Theorem("distributed_gaussian", _pairs),
    ("profile", "DistributedSkellam"): Theorem("distributed_skellam", _pairs),
}

register(DISTRIBUTED)

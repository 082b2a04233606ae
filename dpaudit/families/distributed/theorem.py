"""Sums of clients' noise, stated a second time: masses by Fourier sums over residues.

Modulo m, the law of a sum of independent numbers is the inverse transform of the product of their
transforms.  It includes the mass m and more away, which Chernoff's bound takes off; the proof for
the bounds that are made of these masses stands beside the accountant's rules.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from dpaudit.check.theorem import Table, Theorem, register
from dpaudit.exact import enclose, infinity, is_infinite, sqrt
from dpaudit.exact.effort import spend
from dpaudit.pairs import Atoms, Losses, Normal, Pair, joined

MASS_PLACES = 40  # Decimals to which a mass is rounded down.
MANY, CELLS = 512, 256  # more outcomes than MANY are put together into CELLS
TRANSFORM_BITS = 420  # Bits, enough for masses of 40 decimals after a Fourier transform.


def _gaussian_transform(node: Any, modulus: int) -> list[Any]:
    """The transform of one client's noise, to the power of the number of remaining clients."""
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
    transformed = flint.acb.dft([flint.acb((x + left_out) / total) for x in folded])
    return [x**node.left for x in transformed]


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
    spend(20 * modulus, f"a transform of {modulus} masses")
    gaussian = type(node).__name__ in ("DistributedGaussian", "DistributedGaussianVector")
    transform = _gaussian_transform if gaussian else _skellam_transform
    with flint.ctx.workprec(TRANSFORM_BITS):
        values = flint.acb.dft(transform(node, modulus))
        aliased = flint.arb(2) ** -200
        masses: list[int] = []
        for k in range(far):
            mass = values[k].real / modulus - flint.arb(0).union(aliased)
            units = int((mass * flint.arb(10) ** MASS_PLACES).lower().floor().fmpz())
            if units < 1:
                return masses
            masses.append(units)
        return masses


@lru_cache(maxsize=16)
def _pairs(node: Any) -> Losses:
    masses, move = _masses(node), int(node.sensitivity)
    reach = len(masses)
    outcomes = [(masses[abs(k - move)], masses[abs(k)]) for k in range(move - reach + 1, reach)]
    each = math.ceil(len(outcomes) / CELLS) if len(outcomes) > MANY else 1
    groups = [outcomes[i : i + each] for i in range(0, len(outcomes), each)]
    unit = 10**MASS_PLACES
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
    above, below = _of(upper, unit), _reached(lower, unit)
    return Losses((above,), (above,), below, below)


def _reached(lower: list[tuple[int, int]], unit: int) -> tuple[Atoms, ...]:
    """The attained pair, by optimal tests, from whole-number masses (P, Q) rounded down.

    ``unit``: the whole number that stands for mass 1.
    """
    if not lower:
        return ()
    lower[0] = (lower[0][0] + unit - sum(p for p, _ in lower), lower[0][1])
    lower[-1] = (lower[-1][0], lower[-1][1] + unit - sum(q for _, q in lower))
    # The concave hull of the points (Q(y >= t), P(y >= t)), from the last outcome on.
    hull = [(0, 0)]
    for p, q in reversed(lower):
        point = hull[-1][0] + q, hull[-1][1] + p
        while len(hull) > 1 and _turns_up(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    steps = [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(hull)]
    return (_of(steps[::-1], unit),)


def _turns_up(first: tuple[int, int], second: tuple[int, int], third: tuple[int, int]) -> bool:
    """Whether the slope after the second point is not below that before it."""
    return (third[1] - second[1]) * (second[0] - first[0]) >= (second[1] - first[1]) * (
        third[0] - second[0]
    )


def _of(outcomes: list[tuple[int, int]], unit: int) -> Atoms:
    possible = [(p, q) for p, q in outcomes if (p, q) != (0, 0)]
    return Atoms(tuple((Fraction(p, unit), Fraction(q, unit)) for p, q in possible))


# --- vectors -------------------------------------------------------------------------------------


def _theta(v: Any, t: Any) -> Any:
    """sum over m of exp(-v (t + 2 pi m)^2 / 2) over its value at t on a line, exp(-v t^2 / 2).

    Written as 1 + sum over m >= 1 of 2 exp(-2 pi^2 m^2 v) cosh(2 pi m v t); at least that much.
    """
    import flint

    pi = flint.arb.pi()
    total, m = flint.arb(1), 1
    while True:
        spend(10, "the images of noise of so little variance")
        # Two exponents, kept apart so that neither overflows: m pi v (2 t - 2 pi m) and its mirror.
        both = [(-2 * pi * m * v * (pi * m + sign * t)).exp() for sign in (1, -1)]
        total += sum(both, flint.arb(0))
        if m > 1 and 2 * both[1] < flint.arb(2) ** -(TRANSFORM_BITS // 2):
            # Terms fall by more than half from here on.
            return total + flint.arb(0).union(4 * both[1])
        m += 1


@lru_cache(maxsize=64)
def _allowed(node: Any) -> Fraction:
    """The variance of a discrete Gaussian law whose log bends as sharply, in millionths."""
    import flint

    with flint.ctx.workprec(TRANSFORM_BITS // 2):
        variance = enclose(node.left * node.variance)
        if type(node).__name__ == "DistributedSkellamVector":
            bend = _bessel_bend(variance)
        else:
            images = _images_at_zero(enclose(node.variance), variance, node.left)
            if not images < 1:
                return Fraction(0)
            bend = 1 / variance + 2 * ((1 + images) / (1 - images)).log()
        return Fraction(int((10**6 / bend.upper()).lower().floor().fmpz()), 10**6)


def _images_at_zero(v: Any, whole: Any, clients: int) -> Any:
    """p(0) sqrt(2 pi n v) (Z / sqrt(2 pi v))^n - 1, p(0) and what lies multiples of N away."""
    import flint

    spread = math.isqrt(math.ceil(float(whole.mid()))) + 1
    nodes = 18 * spread
    width = 2 * flint.arb.pi() / nodes
    summed = flint.arb(0)
    for j in range(nodes // 2 + 1):
        t = j * width
        value = (-whole * t**2 / 2).exp() * _theta(v, t) ** clients
        times = 1 if j == 0 or 2 * j == nodes else 2
        if value < flint.arb(2) ** -160:
            summed += (nodes - 2 * j + 1) * value
            break
        summed += times * value
    return (width * summed * (whole / (2 * flint.arb.pi())).sqrt() - 1).upper()


def _bessel_bend(total: Any) -> Any:
    """The largest -log(I_(k-1) I_(k+1) / I_k^2), by fixed-point numbers rounded either way.

    I_(k+1) / I_k lies between those of the recurrence, started at 0 and 1 far out: a ratio that is
    too small gives one that is too large, and the other way round.  Beyond V it is at most
    -log(1 - 2 / (k + 1 + sqrt((k + 1)^2 + V^2))), less than at 0.
    """
    import flint

    bits = 120
    unit = 1 << bits
    lowest, highest = ((total * unit).lower().floor(), (total * unit).upper().ceil())
    least, most = int(lowest.fmpz()), int(highest.fmpz())
    start = most // unit + 80
    low, high, sharpest = 0, unit, 0
    reach = start - 40
    spend(3 * start, "the ratios of noise of so large a variance")
    for k in range(start, 0, -1):
        # 1 / (R + 2 k / V): the sum rounded up for the lower end, down for the upper one.
        down = unit * unit // (high + -(-2 * k * unit * unit // least))
        up = -(-unit * unit // (low + 2 * k * unit * unit // most))
        if k <= reach:
            # The ratio of neighbours from below: the lower end over the upper one.
            sharpest = max(sharpest, unit - low * unit // up)
        low, high = down, min(up, unit)
    centre = -2 * (flint.arb(low) / unit).log()
    others = -(1 - flint.arb(sharpest) / unit).log()
    far = flint.arb(reach + 1)
    beyond = -(1 - 2 / (far + (far**2 + total**2).sqrt())).log()
    return centre.max(others).max(beyond)


def _mu(node: Any) -> Any:
    """Squares over w less (1 + 1/w) / 12, for 1/2 <= w."""
    w = _allowed(node)
    return infinity() if w < Fraction(1, 2) else sqrt(node.squared / (w - (1 + 1 / w) / 12))


def _half_square(node: Any) -> Any:
    mu = _mu(node)
    return mu if is_infinite(mu) else mu**2 / 2


def _curve(node: Any) -> Any:
    """Infinite at every order where mu is."""
    half = _half_square(node)
    return lambda a: half if is_infinite(half) else a * half


def _vector_pairs(node: Any) -> Losses:
    mu = _mu(node)
    nothing, all_of_it = Fraction(0), Fraction(1)
    upper: Pair = Normal(mu)
    if is_infinite(mu):
        upper = Atoms(((all_of_it, nothing), (nothing, all_of_it)))
    below: tuple[Pair, ...] = ()
    skellam = type(node).__name__ == "DistributedSkellamVector"
    if node.modulus == 0 and (skellam or node.left * node.variance <= 10**4):
        below = _moved_apart(node)
    elif node.modulus == 0:
        below = _with_normal_noise(node)
    return Losses((upper,), (upper,), below, below)


def _with_normal_noise(node: Any) -> tuple[Pair, ...]:
    """A normal pair below that of the clients' noise with normal noise of variance r - 1/2 added.

    The sum's density is normal up to a factor whose logarithm spans at most ``span`` a client; four
    coordinates move.  A factor of e^-h of delta, and h of epsilon, cost no more of mu than h times
    sqrt(2 pi) (1 + exp(mu^2 / 8)); the proof is the accountant's.
    """
    import flint

    variance = node.left * node.variance
    with flint.ctx.workprec(TRANSFORM_BITS):
        for r in range(2, 64):
            added = Fraction(2 * r - 1, 2)
            width = enclose(node.variance * added / (node.variance + added))
            # Largest at a whole number, least half way between two.
            span = (_comb(width, Fraction(0)) / _comb(width, Fraction(1, 2))).log()
            far, near = (
                (enclose(node.squared) / enclose(variance + more)).sqrt() for more in (added, r)
            )
            slope = (2 * flint.arb.pi()).sqrt() * (1 + (far * far / 8).exp())
            if far - near >= 4 * node.left * span * slope:
                return (Normal(sqrt(node.squared / (variance + r))),)
    return ()


def _comb(w: Any, place: Fraction) -> Any:
    """The sum over whole k of exp(-(k - place)^2 / (2 w)), summed as it stands."""
    import flint

    at = enclose(place)
    last = math.isqrt(math.ceil(700 * float(w.upper()))) + 2
    spend(5 * 2 * last, "a sum over noise of so large a variance")
    total = sum(((-((k - at) ** 2) / w / 2).exp() for k in range(1 - last, last + 1)), flint.arb(0))
    # Both ends fall at least as a geometric series of this ratio.
    ratio = (-(last + at) / w).exp()
    left_out = 2 * (-((last + 1 - at) ** 2) / w / 2).exp() / (1 - ratio)
    return total + flint.arb(0).union(left_out)


def _moved_apart(node: Any) -> tuple[Pair, ...]:
    """Up to four coordinates, each by the root of the squares that those before left, in cells."""
    masses, square_left, pairs = _masses(node), int(node.squared), list[Pair]()
    for _ in range(4):
        move = math.isqrt(square_left)
        outcomes = [
            (masses[abs(k - move)], masses[abs(k)])
            for k in range(move - len(masses) + 1, len(masses))
        ]
        if move == 0 or not outcomes:
            break
        each = math.ceil(len(outcomes) / CELLS) if len(outcomes) > MANY else 1
        cells = [outcomes[i : i + each] for i in range(0, len(outcomes), each)]
        sums = [(sum(p for p, _ in cell), sum(q for _, q in cell)) for cell in cells]
        pairs += _reached(sums, 10**MASS_PLACES)
        square_left -= move**2
    return (joined(pairs),) if pairs else ()


DISTRIBUTED: Table = {
    ("profile", "DistributedGaussian"): Theorem("distributed_gaussian", _pairs),
    ("profile", "DistributedSkellam"): Theorem("distributed_skellam", _pairs),
}
for _kind in ("gaussian", "skellam"):
    _name, _rule = f"Distributed{_kind.capitalize()}Vector", f"distributed_{_kind}_vector"
    DISTRIBUTED |= {
        ("gdp", _name): Theorem(_rule, _mu),
        ("zcdp", _name): Theorem(f"{_rule}_zcdp", _half_square),
        ("rdp", _name): Theorem(f"{_rule}_curve", _curve),
        ("profile", _name): Theorem(f"{_rule}_pair", _vector_pairs),
    }

register(DISTRIBUTED)

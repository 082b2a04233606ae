"""Products whose transforms are known without a grid, and fall fast.

L is the total loss, M(s) = E exp(s L) (product over factors), K = log M, t > 0 a tilt and
Phi_j = M(t - i w_j) / M(t) at w_j = 2 pi j / W, for a window [A, A + W] of losses.  With
Y = A + W - epsilon, and v a complex rate,
    delta(epsilon) = infinite + exp(K(t) - t epsilon) F + above
    F = (1/W) sum_j Re[Phi_j exp(i w_j epsilon) (D(t - i w_j) - D(t + 1 - i w_j))],
    D(v) = integral_0^Y exp(-v y) dy = (1 - exp(-v Y)) / v,
the Fourier series of the tilted density of L, folded with period W, against 1 - exp(epsilon - L).
A normal factor makes the series converge, |Phi_j| <= exp(-mu^2 w_j^2 / 2), or sampled ones do.

    Normal(mu):       log M(s) = mu^2 s (s + 1) / 2
    LaplaceShift(e):  M(s) = exp(-e/2) (cosh z + (e/2) sinh(z) / z),  z = (s + 1/2) e
    Atoms:            M(s) = sum of p exp(s log(p / q)) over outcomes with p, q > 0
    sampled normal:   :mod:`dpaudit.profiles.fourier.sampled`, which also bounds its decay

Errors, all outward: aliasing as in :mod:`dpaudit.profiles.fourier.compose` (Chernoff at shifted
tilts, the weight at most min(1, 1 / (1 + t))); truncation, the frequencies beyond J: 4 / w_J times
(2/W) sum_{j>J} exp(-c j^2) <= (2/W) exp(-c J^2) / (2 c J), c = mu^2 (2 pi / W)^2 / 2; round-off,
each factor's ratio within u (32 + 8 |s| l) for its largest loss l, u = 2^-53.  Sums of
|Phi_j| / j are bounded by intervals, sup |Phi| (log of the ends' ratio + 1 / j).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.exact import lower_fraction, upper_fraction, working_precision
from dpaudit.nodes.pairs import Atoms, LaplaceShift, Mixed, Normal, Pair, Swapped
from dpaudit.profiles.fourier.sampled import ROOM, OutOfReach, SampledNormal, decay_of, rule
from dpaudit.profiles.fourier.search import Parts
from dpaudit.profiles.grid.cells import UNIT
from dpaudit.profiles.grid.discrete import Reals
from dpaudit.profiles.grid.families import atom_loss
from dpaudit.profiles.grid.masses import as_float

Complexes = NDArray[np.complexfloating[Any, Any]]
OUTSIDE = 37.0
CAPPED_SHIFTS = tuple(0.004 * 1.8**k for k in range(12))
SHIFTS = tuple(0.0005 * 1.7**k for k in range(17))
DROPPED = 46.0
MOST_FREQUENCIES = 20_000
MOST_FACTORS = 10**9
CHUNK = 2**21
LARGEST_REACH = 300.0
# A checker integrates at twice as many.
MOST_SAMPLED = 8000
# The transform of fewer falls slowly, and a grid is as good.
FEWEST_ROUNDS = 300
LEFT_OUT = 34.0
EDGES, MOST_EDGES = 1.03, 1500
SHARES, NEAR = (1.0, 0.75, 0.5, 0.3), 1.5
TOLERANCE = 1e-11


@dataclass(frozen=True)
class Product:
    """Reals of a product: the normal factor's mu, Laplace factors and atoms with their counts."""

    mu: float
    epsilons: Reals
    epsilon_times: Reals
    atoms: tuple[tuple[Reals, Reals, float], ...]
    infinite: float
    parts: Parts
    sampled: tuple[SampledNormal, ...] = ()

    @property
    def largest(self) -> Reals:
        """Largest finite loss of every factor but the normal one."""
        ends = [float(np.max(np.abs(losses))) for _, losses, _ in self.atoms]
        return np.concatenate((self.epsilons, ends))

    @property
    def times(self) -> Reals:
        return np.concatenate((self.epsilon_times, [times for _, _, times in self.atoms]))

    def logs(self, s: Complexes) -> Complexes:
        """log M at complex arguments, without the normal factor."""
        result = np.zeros(len(s), dtype=np.complex128)
        step = max(CHUNK // max(len(s), 1), 1)
        for k in range(0, len(self.epsilons), step):
            e = self.epsilons[k : k + step, None]
            z = (s[None, :] + 0.5) * e
            # The sum is even in z; its growth is taken out.
            z = np.where(z.real < 0, -z, z)
            safe = np.where(z == 0, 1.0, 2 * z)
            sinhc = np.where(z == 0, 1.0, -np.expm1(-2 * z) / safe)
            inner = (1 + np.exp(-2 * z)) / 2 + e / 2 * sinhc
            result += self.epsilon_times[k : k + step] @ (np.log(inner) + z - e / 2)
        for p, losses, times in self.atoms:
            exponents = losses[:, None] * s[None, :]
            largest = np.max(exponents.real, axis=0)
            result += times * (largest + np.log(p @ np.exp(exponents - largest)))
        return result

    def cumulant(self, t: float) -> float:
        """K at a real argument."""
        own = float(self.logs(np.array([t + 0j]))[0].real) if len(self.times) else 0.0
        own += sum(factor.cumulant(t) for factor in self.sampled)
        return own + self.mu * self.mu * t * (t + 1) / 2

    def variance(self, t: float) -> float:
        """Variance of the loss tilted by t, about."""
        d = 1e-4 * (1 + t)
        low, middle, high = (self.cumulant(t + k * d) for k in (-1, 0, 1))
        return max((high - 2 * middle + low) / (d * d), self.mu * self.mu)


def smooth_product(parts: Parts) -> Product | None:
    """The product's numbers; None without a normal factor, or with a factor of another type."""
    normals = [pair.mu for pair, times in parts if isinstance(pair, Normal) and times == 1]
    laplaces = [(pair, times) for pair, times in parts if isinstance(pair, LaplaceShift)]
    atoms = [(pair, times) for pair, times in parts if isinstance(pair, Atoms)]
    sampled = [found for pair, times in parts if (found := _sampled(pair, times)) is not None]
    known = len(normals) + len(laplaces) + len(atoms) + len(sampled) == len(parts)
    if not known or len(normals) + len(sampled) == 0 or len(normals) > 1:
        return None
    if sum(times for _, times in parts) > MOST_FACTORS:
        return None
    if sampled and min(factor.times for factor in sampled) < FEWEST_ROUNDS:
        return None
    finite = [_finite(pair, times) for pair, times in atoms]
    if any(mass >= 1 or not len(rest[0]) for mass, rest in finite):
        return None
    lost = math.fsum(times * math.log1p(-mass) for mass, (_, _, times) in finite)
    return Product(
        as_float(normals[0], "mu") if normals else 0.0,
        np.array([as_float(pair.epsilon, "epsilon") for pair, _ in laplaces]),
        np.array([float(times) for _, times in laplaces]),
        tuple(rest for _, rest in finite),
        -math.expm1(lost),
        parts,
        tuple(sampled),
    )


def _sampled(pair: Pair, times: int) -> SampledNormal | None:
    """A sampled normal pair in either direction; None for any other."""
    base = pair.base if isinstance(pair, Swapped) else pair
    if not (isinstance(base, Mixed) and isinstance(base.base, Normal) and times > 0):
        return None
    if base.base.mu == 0 or base.rate in (0, 1):
        return None
    mu, rate = as_float(base.base.mu, "mu"), as_float(base.rate, "rate")
    return SampledNormal(mu, rate, isinstance(pair, Swapped), float(times))


def _finite(pair: Atoms, times: int) -> tuple[float, tuple[Reals, Reals, float]]:
    """P mass at infinite loss; P masses and losses of the other outcomes."""
    outcomes = [(as_float(p, "P mass"), atom_loss(p, q)) for p, q in pair.outcomes if p != 0]
    infinite = math.fsum(p for p, loss in outcomes if loss == math.inf)
    rest = [(p, loss) for p, loss in outcomes if loss != math.inf]
    masses, losses = (np.array([row[k] for row in rest]) for k in (0, 1))
    return infinite, (masses, losses, float(times))


@dataclass(frozen=True)
class Series:
    """The Fourier series at one tilt."""

    product: Product
    tilt: float
    cumulant: float
    first: float
    period: float
    outside: float
    transform: Complexes
    rounding: Reals
    left_out: float
    relative: float

    def at(self, epsilon: float) -> Ends:
        """delta at an epsilon in the window, between its ends."""
        j = np.arange(len(self.transform))
        w = 2 * math.pi * j / self.period
        reach = self.first + self.period - epsilon
        weights = _integral(self.tilt - 1j * w, reach) - _integral(self.tilt + 1 - 1j * w, reach)
        scale = np.where(j == 0, 1.0, 2.0) / self.period
        turned = self.transform * np.exp(1j * w * epsilon)
        value = float(scale @ (turned * weights).real)
        phase = UNIT * 8 * (8 + abs(epsilon) * w)
        own = np.abs(turned) * 64 * UNIT * (np.abs(weights) + 4 / (self.tilt + w))
        error = float(scale @ (np.abs(weights) * (self.rounding + np.abs(turned) * phase) + own))
        error += self.left_out + self.outside
        exponent = self.cumulant - self.tilt * epsilon
        relative = self.relative + 16 * UNIT * (abs(self.cumulant) + abs(exponent) + 8)
        error += relative * abs(value)
        return Ends(exponent, value, error, self.product.infinite)


@dataclass(frozen=True)
class Ends:
    """exp(exponent) (value -+ error) + infinite: no float need hold a delta that is tiny."""

    exponent: float
    value: float
    error: float
    infinite: float

    def log(self, sign: int) -> float:
        """log of the upper (1) or lower (-1) end, about; minus infinity at 0."""
        whole = self.value + sign * self.error
        finite = self.exponent + math.log(whole) if whole > 0 else -math.inf
        return (
            finite if self.infinite == 0 else float(np.logaddexp(finite, math.log(self.infinite)))
        )

    def end(self, sign: int) -> Fraction:
        """The upper (1) or lower (-1) end, rounded outward, within [0, 1]."""
        import flint

        whole = max(self.value + sign * self.error, 0.0)
        with working_precision():
            finite = flint.arb(self.exponent).exp() * flint.arb(whole)
            ball = finite + flint.arb(self.infinite) * (1 + sign * flint.arb(1e-13))
        end = upper_fraction(ball) if sign > 0 else lower_fraction(ball)
        return Fraction(1) if end is None else min(max(end, Fraction(0)), Fraction(1))


def _integral(v: Complexes, reach: float) -> Complexes:
    """Integral of exp(-v y) over 0 <= y <= reach."""
    result: Complexes = -np.expm1(-v * reach) / v
    return result


def series(product: Product, tilt: float) -> Series | None:
    """The series at a tilt or a smaller one; None where it would need too many frequencies.

    A sampled loss is rarely very large, so that moments grow suddenly: at a smaller tilt the window
    is much shorter, and little is lost.
    """
    try:
        if product.sampled:
            tilts = [tilt * share for share in SHARES]
            periods = [_period(product, t) for t in tilts]
            tilt = next(t for t, w in zip(tilts, periods, strict=True) if w <= NEAR * min(periods))
        return _series(product, tilt)
    except OutOfReach:
        return None


def _period(product: Product, tilt: float) -> float:
    low, high = _window(product, tilt, product.cumulant(tilt), product.variance(tilt))
    return high - low


def _series(product: Product, tilt: float) -> Series:
    cumulant = product.cumulant(tilt)
    variance = product.variance(tilt)
    if not math.isfinite(cumulant + variance):
        raise OutOfReach
    first, last = _window(product, tilt, cumulant, variance)
    if not math.isfinite(last - first):
        raise OutOfReach
    period = last - first
    count, left_out = _frequencies(product, tilt, period, variance)
    reach = float(np.max(product.largest * (tilt + 2), initial=0.0))
    if count > MOST_FREQUENCIES or reach > LARGEST_REACH:
        raise OutOfReach
    w = 2 * math.pi * np.arange(count) / period
    own = np.zeros(count, dtype=np.complex128)
    if len(product.times):
        own += product.logs(tilt - 1j * w) - product.logs(np.array([tilt + 0j]))[0]
    exponents = product.mu**2 * (-1j * w * (tilt + 0.5) - w * w / 2)
    size = product.times @ (32 + 8 * product.largest[:, None] * (tilt + 1 + w[None, :]))
    error = UNIT * (size + 16 + 16 * (np.abs(own) + np.abs(exponents)))
    transform = np.exp(own + exponents)
    rounding = _errors(own, exponents, error, transform)
    relative = math.expm1(float(error[0]))
    for factor in product.sampled:
        known = rule(factor, tilt, float(w[-1]), ROOM)
        powers, off = known.powers(w, factor.times)
        # |ab - a'b'| <= |a| |b - b'| + |b'| |a - a'|, where |a| is at most 1 but for its error.
        rounding = (np.abs(transform) + rounding) * off + rounding * np.abs(powers)
        transform = transform * powers
        relative += 1.01 * factor.times * known.log_error
    outside = 2 * math.exp(-OUTSIDE)
    return Series(
        product, tilt, cumulant, first, period, outside, transform, rounding, left_out, relative
    )


def _frequencies(
    product: Product, tilt: float, period: float, variance: float
) -> tuple[int, float]:
    """How many frequencies to sum, and what the others come to at most.

    The others: (2 / W) sum of |Phi_j| times at most 4 / w_j, that is (4 / pi) sum of |Phi_j| / j.
    """
    if not product.sampled:
        count = math.ceil(math.sqrt(2 * DROPPED) / product.mu * period / (2 * math.pi)) + 2
        decay = product.mu**2 * (2 * math.pi / period) ** 2 / 2
        j = count - 1
        return count, 4 / (math.pi * j) * math.exp(-decay * j * j) / (2 * decay * j)
    unit = 2 * math.pi / period
    w = max(unit, 1 / math.sqrt(variance)) * EDGES ** np.arange(MOST_EDGES)
    bounds = -(product.mu**2) * w * w / 2
    for factor in product.sampled:
        bounds = bounds + decay_of(factor, tilt).bounds(w)
    large = np.flatnonzero(bounds > -LEFT_OUT)
    start = int(large[-1]) + 1 if len(large) else 0
    if start >= MOST_EDGES - 1 or not float(w[start]) < MOST_SAMPLED * unit:
        raise OutOfReach
    # Beyond the last edge |Phi| falls at least like 1 / w.
    spans = np.append(np.log(w[start + 1 :] / w[start:-1]), 1.0) + unit / w[start:]
    return math.ceil(float(w[start]) / unit) + 1, 4 / math.pi * float(
        np.exp(bounds[start:]) @ spans
    )


def _errors(own: Complexes, exponents: Complexes, error: Reals, transform: Complexes) -> Reals:
    """Error of Phi: each ratio is off by its roundings in absolute terms, at most."""
    with np.errstate(over="ignore"):
        inner = np.expm1(error * np.exp(np.maximum(-own.real, 0.0)))
        grown = np.abs(transform) * inner
    bound = np.minimum(2.0, error * np.exp(np.minimum(exponents.real, 0.0)) * 3)
    return np.where(np.isfinite(grown), np.minimum(grown, np.maximum(bound, 0.0)), bound)


def _window(product: Product, tilt: float, cumulant: float, variance: float) -> tuple[float, float]:
    """A window outside of which either tail of the tilted loss has mass exp(-OUTSIDE) at most."""
    if not 0 < variance < math.inf:  # underflow, where a tilt is far off
        raise OutOfReach
    unit = math.sqrt(2 * OUTSIDE / variance)
    budget = OUTSIDE + 1

    def reach(side: int) -> float:
        """The least over shifts, which is one valley."""
        best = math.inf
        for factor in SHIFTS:
            s = side * unit * factor
            found = (product.cumulant(tilt + s) - cumulant + budget) / s * side
            if found > best:
                break
            best = min(best, found)
        return best

    return -reach(-1), min(reach(1), _capped_reach(product, tilt, unit))


def _capped_reach(product: Product, tilt: float, unit: float) -> float:
    """As the upper end, from losses capped where larger ones are too rare; infinity elsewhere.

    For one sampled factor, in the direction in which its losses may be large.
    """
    if len(product.sampled) != 1 or len(product.times) or product.mu:
        return math.inf
    (factor,) = product.sampled
    cap, best = factor.rarest(tilt), math.inf
    for share in CAPPED_SHIFTS:
        s = unit * share
        grown, beyond = factor.capped(tilt, s, cap)
        if not beyond < math.exp(-OUTSIDE) / 2:
            break
        found = (grown + OUTSIDE + 1) / s
        if found > best:
            break
        best = found
    return best

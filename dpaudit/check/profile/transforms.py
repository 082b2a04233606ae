"""Products of a normal pair with Laplace pairs and atoms: Fourier series in Arb, without a grid.

With L the total loss under P, M(s) = E exp(s L) over finite losses, t > 0 a tilt and half a window
of length l, the density of L tilted by t, folded with period 2 l, has the Fourier coefficients
Phi_j = M(t + i w_j) / M(t), w_j = pi j / l.  So, up to what is folded and left out,

    delta(epsilon) - infinite
        = M(t) exp(-t epsilon) (1 / 2l) sum_j Re[Phi_j exp(-i w_j epsilon) G_j],
    G_j = integral over 0 <= y <= l of exp(-(t + i w_j) y) (1 - exp(-y)).

Folded: at most twice exp(-FOLDED) (Chernoff, on either side of epsilon -+ l).  Left out: since
|Phi_j| <= exp(-mu^2 w_j^2 / 2) for the normal factor's mu and |G_j| <= 4 / w_j.

Smoothing by Normal(sigma), N its loss: the product with it dominates.  It adds at most
sigma^2 exp(sigma^2 / 8) f to delta, f the density of L + N at epsilon: a call's price on 1 rises
with its volatility v by phi(y / v + v / 2) <= phi(y / sigma) exp(-y / 2) for v <= sigma, y being
L - epsilon.  So delta of the product is at least that of the smoothed one less as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.check.profile import whole
from dpaudit.check.profile.cells import UNIT, Ball, NotConfirmed, ball
from dpaudit.check.profile.fourier import as_fraction
from dpaudit.check.profile.noise import has_base
from dpaudit.check.profile.rule import moments
from dpaudit.check.profile.sampled import (
    Capped,
    Factor,
    Pairs,
    beyond,
    is_sampled,
    left_out,
    mass_beyond,
    moment,
    parameters_at,
)
from dpaudit.check.profile.whole import is_discrete
from dpaudit.exact import Number
from dpaudit.exact.arrays import Floats, np
from dpaudit.pairs import Atoms, Normal, Pair
from dpaudit.pairs.core import Outcomes

Factors = Sequence[tuple[Factor, int]]
BITS, FOLDED, LEFT_OUT = 128, 38, 52
LEFT_OUT_BY_PAIRS = 33  # nats: frequencies whose sum is below e^-33 are left out
MOST_TERMS = 200_000  # frequencies of a series
# Arb integrates at fewer frequencies, the rule in floats at more: quicker, and not as near.
FEW, FEW_INTEGRALS, MOST_INTEGRALS, MOST_BY_RULE = 400, 16, 500, 60_000
LARGEST_TILT, LEAST_CAP, CELLS = 1e12, 1.0, 1600
MOST_AT_ONCE = 2_000_000  # epsilons times frequencies in memory at a time
SETTLED = 0.9  # an end that comes within this share of the best one ends the search
LARGEST_SHIFT, FALLING = 1.3, 1.2


def has_transforms(pair: Pair) -> bool:
    """Whether every factor has a transform here."""
    return all(
        is_sampled(f) or is_discrete(f) or f.finite_outcomes is not None or has_base(f)
        for f, _ in pair.factors
    )


def is_smooth(pair: Pair) -> bool:
    """Whether this is such a product, with a factor whose transform falls."""
    others = [factor for factor, _ in pair.factors if not is_sampled(factor)]
    normals = sum(factor.gaussian_shift is not None for factor in others)
    falling = normals == 1 or any(is_sampled(factor) for factor, _ in pair.factors)
    return has_transforms(pair) and normals <= 1 and falling


@dataclass(frozen=True)
class Choices:
    """The choices of a witness besides a tilt; any choice gives true bounds.

    ``caps``: of the outcomes of each factor of sampled normal noise, then of each of sampled
    discrete noise.  With ``tilt`` above 0 one round beyond the only cap is summed apart, at that
    tilt and smoothed by ``sigma``.
    """

    caps: tuple[float, ...] = ()
    tilt: float = 0.0
    sigma: Fraction = Fraction(0)


def smooth_bound(
    factors: Factors,
    tilt: float,
    epsilon: Fraction,
    sign: int,
    sigma: Fraction = Fraction(0),
    choices: Choices = Choices(),
    integrals: int = MOST_INTEGRALS,
) -> Fraction:
    """A bound of the product's delta from above (sign 1) or below (sign -1), smoothed by sigma.

    Moments at fewer frequencies than ``integrals`` are integrals, others by the rule in floats.
    Errors: NotConfirmed where it would take too many terms, or a tilt makes no sense.
    """
    import flint

    with flint.ctx.workprec(BITS):
        capped_factors = _kept(factors, choices.caps)
        series = Series(capped_factors, tilt, sigma, integrals)
        at = ball(epsilon)
        finite, every = _finite(factors)
        value = series.bound(at, at, sign) + (every - finite)
        beyond = [(f, n) for f, n in capped_factors if isinstance(f, Capped)]
        if choices.tilt:
            value += _apart(capped_factors, choices, at, sign)
        elif sign > 0:
            value += sum((n * _mass_beyond(f) for f, n in beyond), ball(0))
        return as_fraction(value.upper() if sign > 0 else value.lower())


def _kept(factors: Factors, caps: Sequence[float]) -> Factors:
    """The factors: sampled pairs cut at their caps, and sampled atoms as lists of atoms."""
    caps_left = list(caps)
    capped_factors: list[tuple[Factor, int]] = [(_listed(_pair(f)), times) for f, times in factors]
    for is_of_kind in (is_sampled, is_discrete):
        for k, (pair, times) in enumerate(capped_factors):
            cap = caps_left.pop(0) if caps_left and is_of_kind(pair) else math.inf
            if math.isnan(cap) or cap < LEAST_CAP:
                raise NotConfirmed("a cap that leaves out too much")
            if cap < math.inf:
                capped_factors[k] = Capped(_pair(pair), cap), times
    return capped_factors


def _pair(factor: Factor) -> Pair:
    if isinstance(factor, Capped):
        raise NotConfirmed("a cap twice")
    return factor


def _mass_beyond(factor: Capped) -> Ball:
    return whole.mass_beyond(factor) if is_discrete(factor) else mass_beyond(factor)


class Series:
    """The series of factors at a tilt, smoothed by ``sigma``; for epsilons between two ends."""

    def __init__(
        self,
        factors: Factors,
        tilt: float,
        sigma: Fraction,
        integrals: int = MOST_INTEGRALS,
    ) -> None:
        if not 1e-6 < tilt < LARGEST_TILT or not 0 <= sigma < 1:
            raise NotConfirmed("tilt or smoothing")
        self.factors = [*factors, (Normal(sigma), 1)] if sigma else list(factors)
        self.tilt, self.sigma, self.integrals = tilt, sigma, integrals
        self.t = ball(tilt)
        self.rise = _log_moment(self.factors, self.t)

    def placed(self, low: Ball, high: Ball) -> tuple[Ball, Sequence[Any], Ball]:
        """Half a window that holds enough for all epsilons between, coefficients, what is left."""
        # Errors are at least 2 exp(-FOLDED) of this factor: nothing is left of a delta below 1.
        if self.rise - self.t * high > FOLDED:
            raise NotConfirmed("a tilt far from the best")
        size = _rounded(_half_window(self.factors, self.t, low, high))
        half = ball(size)
        count, beyond = _left_out(self.factors, self.tilt, half, self.sigma)
        # |G_j| is below 1 / w^2 + 2 exp(-t l) / w as well as below 4 / w.
        first = ball(0).pi() * count / half
        beyond *= (1 / (4 * first) + (-self.t * half).exp() / 2).min(ball(1))
        most = self.integrals
        return half, _coefficients(tuple(self.factors), self.tilt, size, count, most), beyond

    @property
    def folded(self) -> Ball:
        """A bound of the folded part, under a weight of at most 1 / (1 + t)."""
        return 2 * (-ball(FOLDED)).exp() / (1 + self.t)

    def bound(self, low: Ball, at: Ball, sign: int) -> Ball:
        """A ball whose upper (sign 1) or lower end bounds the finite part at ``at``."""
        half, phis, beyond = self.placed(low, at)
        total = _series(phis, self.t, at, half)
        error = self.folded + beyond
        if self.sigma and sign < 0:
            square = ball(self.sigma) ** 2
            density = _density(phis, at, half) + _rest(self.factors, half, len(phis) - 1)
            total -= square * (square / 8).exp() * density
        return (self.rise - self.t * at).exp() * (total + sign * error)

    def bounds(self, points: Sequence[float], sign: int) -> Floats:
        """Bounds of the finite part at many epsilons, in floats; as :meth:`bound` at each."""
        placed = self.placed(ball(min(points)), ball(max(points)))
        size = max(MOST_AT_ONCE // len(placed[1]), 1)
        parts = (points[k : k + size] for k in range(0, len(points), size))
        return np.concatenate([self._at(np.asarray(part), sign, *placed) for part in parts])

    def _at(self, at: Floats, sign: int, half: Ball, phis: Sequence[Any], beyond: Ball) -> Floats:
        """Bounds of delta at many epsilons by one sum: upper (``sign`` 1) or lower ones."""
        middle = np.array([complex(float(p.real.mid()), float(p.imag.mid())) for p in phis])
        off = np.array([float(p.real.rad()) + float(p.imag.rad()) for p in phis]) * 1.01 + 1e-300
        unit, length = float((ball(0).pi() / half).mid()), float(half.mid())
        w, t = unit * np.arange(len(phis)), self.tilt
        part = np.zeros(len(phis), dtype=np.complex128)
        size = np.zeros(len(phis))
        turns = np.where(np.arange(len(phis)) % 2, -1.0, 1.0)
        for rate, side in ((t, 1), (t + 1, -1)):
            part += side * (1 - math.exp(-rate * length) * turns) / (rate + 1j * w)
            size += 2 / np.abs(rate + 1j * w)
        scale = np.where(w == 0, 1.0, 2.0) / (2 * length)
        turned = np.exp(-1j * np.outer(at, w))
        total = (turned @ (middle * part * scale)).real
        grown = np.abs(middle) * UNIT * (64 + len(phis))
        error = (grown + off) @ (size * scale)
        error = error + np.abs(at) * float((np.abs(middle) * 16 * UNIT * w) @ (size * scale))
        error = error + float((self.folded + beyond).upper()) * (1 + 1e-9)
        if self.sigma and sign < 0:
            density = (turned @ (middle * scale)).real + (grown + off) @ scale
            density = density + np.abs(at) * float((np.abs(middle) * 16 * UNIT * w) @ scale)
            density = density + float(_rest(self.factors, half, len(phis) - 1).upper())
            square = float(self.sigma) ** 2
            total = total - square * math.exp(square / 8) * np.maximum(density, 0.0) * (1 + 1e-9)
        rise = float(self.rise.mid())
        slack = 1e-12 * (1 + abs(rise) + t * np.abs(at)) + float(self.rise.rad())
        values: Floats = np.exp(rise - t * at) * (total + sign * (error + slack * np.abs(total)))
        return values


def _apart(kept: Factors, choices: Choices, at: Ball, sign: int) -> Ball:
    """The delta that one round beyond the cap adds, and an upper bound on what more of them add.

    Given that round's x > cap, of loss l(x), delta is g(at - l(x)), g that of the other factors and
    of one round less.  g is convex in u = exp(at - l): on a cell of x it is at least its value at
    the mean of u, and at most the chord.  With S the other loss, P and Q its masses,
        g >= P - u Q,   g <= P - u Q + u E exp(-S) 1{S < a}  for at - l <= a,
    and E exp(-S) 1{S < a} <= exp(h a) M(-1 - h) for h > 0.
    """
    ((factor, times), *others) = kept
    if others or not isinstance(factor, Capped) or factor.pair.is_swapped or times < 2:
        raise NotConfirmed("one round apart of one capped factor alone")
    cells = beyond(factor, CELLS)
    shortened: Factors = [(factor, times - 1)]
    p, q = (_moment(shortened, ball(s)) for s in (0, -1))
    series = Series(shortened, choices.tilt, choices.sigma)
    place = float(at.mid())
    least, tail = _lowest(shortened)
    losses = cells.means if sign < 0 else cells.ends
    points = place - losses
    u = np.exp(points)
    if sign < 0:
        least_values = np.maximum(float(p.lower()) - u * float(q.upper()) * (1 + 1e-12), 0.0)
    else:
        straight = float(p.upper()) - u * (float(q.lower()) - tail) * (1 - 1e-12)
        least_values = np.where(points <= least, straight, float(p.upper()))
    near = points > least
    if near.any():
        own = series.bounds(list(points[near]), sign)
        least_values[near] = (
            np.maximum(least_values[near], own) if sign < 0 else np.minimum(least_values[near], own)
        )
    # A loss is within 1e-12 of its share, and g moves by no more.
    slack = 1e-12 * (1 + float(np.max(losses)) + abs(place))
    weights = cells.masses if sign < 0 else cells.chords
    total = (
        times * float(weights @ np.maximum(least_values + sign * slack, 0.0)) * (1 + sign * 1e-9)
    )
    if sign < 0:
        return ball(max(total, 0.0))
    mass = times * mass_beyond(factor)
    return ball(total) + times * cells.last + mass * mass / 2


def _lowest(factors: Factors) -> tuple[float, float]:
    """A point a, and a bound of E exp(-S) 1{S < a} that is about exp(-FOLDED)."""
    start = _log_moment(factors, ball(-1))
    h, best = 1.0, (-math.inf, 0.0)
    for _ in range(60):
        try:
            rise = _log_moment(factors, ball(-1 - h))
        except NotConfirmed:
            break
        place = float(((-FOLDED - (rise - start)) / h).lower())
        settled = abs(place) > SETTLED * abs(best[0])
        if place > best[0]:
            best = place, float((ball(h) * ball(place) + rise).exp().upper())
        if settled:
            break
        h *= 4
    return best


def _listed(pair: Pair) -> Pair:
    """Atoms that are sampled, or that swapped, as atoms; any other pair as it is."""
    outcomes = pair.finite_outcomes
    return pair if pair.noise is pair or outcomes is None else Atoms(outcomes)


# --- moments -------------------------------------------------------------------------------------


def _normal(shift: Number, s: Any) -> Any:
    mu = ball(shift)
    return (mu * mu * s * (s + 1) / 2).exp()


def _laplace(epsilon: Number, s: Any) -> Any:
    """Atoms at either end, and exp(u / 2) times a constant between them."""
    e, v = ball(epsilon), s + ball(1) / 2
    return (-e / 2).exp() * ((v * e).cosh() + (v * e).sinh() / (2 * v))


def _atoms(outcomes: Outcomes, s: Any) -> Any:
    possible = [(ball(p), ball(q)) for p, q in outcomes if p != 0 and q != 0]
    return sum((p * (s * (p / q).log()).exp() for p, q in possible), s * 0)


@lru_cache(maxsize=4096)
def _sampled_at(pair: Factor, s: float, bits: int) -> Any:
    return moment(pair, ball(s))


def sampled_moment(pair: Factor, s: Any) -> Any:
    """An integral; those at floats are kept."""
    import flint

    if isinstance(s, flint.arb) and s == float(s.mid()):
        return _sampled_at(pair, float(s.mid()), flint.ctx.prec)
    return moment(pair, s)


def _drawn(pair: Factor, s: Any) -> Any:
    return whole.moment(pair, s) if is_discrete(pair) else sampled_moment(pair, s)


def _moment_of(pair: Factor, s: Any) -> Any:
    """Errors: NotConfirmed for a pair without a transform here."""
    if isinstance(pair, Capped) or pair.noise is not pair:
        return _drawn(pair, s)
    if pair.gaussian_shift is not None:
        return _normal(pair.gaussian_shift, s)
    if pair.laplace_epsilon is not None:
        return _laplace(pair.laplace_epsilon, s)
    if pair.listed is not None:
        return _atoms(pair.listed, s)
    raise NotConfirmed(type(pair).__name__)


def _moment(factors: Factors, s: Any) -> Any:
    """M at a real or complex argument."""
    result = s * 0 + 1
    for pair, times in factors:
        result = result * _moment_of(pair, s) ** times
    return result


def _log_moment(factors: Factors, s: Ball) -> Ball:
    return _moment(factors, s).log()


def _finite(factors: Factors) -> tuple[Ball, Ball]:
    """Probability that every loss is finite, and 1."""
    result = ball(1)
    for pair, times in factors:
        outcomes = None if isinstance(pair, Capped) else pair.listed
        if outcomes is not None:
            lost = sum((ball(p) for p, q in outcomes if q == 0), ball(0))
            result = result * (times * (-lost).log1p()).exp()
    return result, ball(1)


# --- the series ----------------------------------------------------------------------------------


def _half_window(factors: Factors, t: Ball, low: Ball, high: Ball) -> Ball:
    """l with tilted mass exp(-FOLDED) at most beyond low + l, and below high - l."""
    unit = math.sqrt(2 * FOLDED / max(_spread(factors, t), 1e-300))
    return max(_reach(factors, t, low, unit), _reach(factors, t, high, -unit))


def _spread(factors: Factors, t: Ball) -> float:
    """About the variance of the tilted loss: a second difference that its errors leave alone."""
    start, d = _log_moment(factors, t), 2.0**-20
    for _ in range(14):
        ends = [_log_moment(factors, t + k * ball(d)) for k in (-1, 1)]
        bent = ends[0] + ends[1] - 2 * start
        if bent > 1e-3:
            break
        d *= 16
    return float(bent.mid()) / d / d


def _reach(factors: Factors, t: Ball, at: Ball, unit: float) -> Ball:
    """By shifts about that of a normal law of this spread, from the largest on."""
    start = _log_moment(factors, t)

    def found(share: float) -> Ball:
        extra = ball(unit * share)
        try:
            rise = _log_moment(factors, t + extra) - start
        except NotConfirmed:
            return None
        distance = abs((rise + FOLDED) / extra - at).upper()
        return distance if distance.is_finite() else None

    sampled = any(is_sampled(pair) for pair, _ in factors)
    best, share, tried = None, LARGEST_SHIFT, list[Ball]()
    for _ in range(30 if sampled else 16):
        own = found(share)
        share *= 0.6 if own is None else 0.7
        if own is None:
            continue
        tried.append(own)
        if best is not None and own > best:
            break
        best = own
    # Losses that end at a cap are reached by far larger ones.
    share = LARGEST_SHIFT
    while sampled and len(tried) == 2 and tried[1] > FALLING * tried[0]:
        share *= 2
        own = found(share)
        if own is None or own > best:
            break
        best = own
    if best is None:
        raise NotConfirmed("no window")
    return best


def _left_out(factors: Factors, tilt: float, half: Ball, sigma: Fraction) -> tuple[int, Ball]:
    """How many frequencies to sum, and (1 / l) sum of |Phi_j| 4 / w_j over the others.

    With smoothing, or a normal factor alone, |Phi_j| <= exp(-c j^2), c = (mu pi / l)^2 / 2.
    """
    square = _square(factors)
    unit = ball(0).pi() / half
    sampled_pairs = [(_pairs(pair, tilt), times) for pair, times in factors if is_sampled(pair)]
    decay = square * unit**2 / 2
    size = float(decay.mid())
    count = (
        math.sqrt((LEFT_OUT_BY_PAIRS if sampled_pairs else LEFT_OUT) / size)
        if size > 0
        else math.inf
    )
    if sampled_pairs and not sigma and not count < FEW:
        return _left_out_by_pairs(sampled_pairs, float(unit.mid()), float(square.lower()) ** 0.5)
    if sampled_pairs and not count < MOST_BY_RULE:
        raise NotConfirmed("too many frequencies")
    if not count * len(factors) < MOST_TERMS * 1000:
        raise NotConfirmed("too many frequencies")
    count = math.ceil(count) + 2
    beyond = (-decay * count * count).exp() / (2 * decay * count)
    return count, 4 * beyond / (ball(0).pi() * count)


@lru_cache(maxsize=64)
def _pairs(pair: Factor, tilt: float) -> Pairs:
    """Made once for all epsilons and numbers of integrals at a tilt."""
    return Pairs(pair, ball(tilt))


def _square(factors: Factors) -> Ball:
    plain = [(pair, times) for pair, times in factors if not isinstance(pair, Capped)]
    shifts = [(pair.gaussian_shift, times) for pair, times in plain]
    normal = [times * ball(mu) ** 2 for mu, times in shifts if mu is not None]
    return sum(normal, ball(0))


def _rest(factors: Factors, half: Ball, count: int) -> Ball:
    """(1 / l) sum of |Phi_j| over j > count, by the normal factors."""
    decay = _square(factors) * (ball(0).pi() / half) ** 2 / 2
    return (-decay * count * count).exp() / (2 * decay * count) / half


def _left_out_by_pairs(pairs: list[tuple[Pairs, int]], unit: float, mu: float) -> tuple[int, Ball]:
    enough, chosen = math.exp(-LEFT_OUT_BY_PAIRS), None
    for w, later in left_out(pairs, unit, unit, mu):
        if 4 / math.pi * later > enough:
            break
        chosen = w, later
    if chosen is None or not chosen[0] < MOST_BY_RULE * unit:
        raise NotConfirmed("too many frequencies")
    return math.ceil(chosen[0] / unit), ball(4 / math.pi * chosen[1] * (1 + 1e-6))


def _rounded(half: Ball) -> float:
    """The next of a few lengths, so that bounds at several epsilons share one series."""
    size = float(half.upper())
    if not 0 < size < math.inf:
        raise NotConfirmed("no window")
    return math.exp2(math.ceil(4 * math.log2(size * (1 + 1e-9))) / 4) * (1 + 1e-12)


@lru_cache(maxsize=32)
def _coefficients(
    factors: tuple[tuple[Factor, int], ...], tilt: float, half: float, count: int, most: int
) -> list[Any]:
    """Phi_0, ..., Phi_count; of sampled pairs integrals where there are fewer than ``most``."""
    import flint

    t, step = ball(tilt), ball(0).pi() / ball(half)
    drawn = [factor for factor in factors if is_sampled(factor[0]) or is_discrete(factor[0])]
    if count < most or not drawn:
        all_of_it = _moment(factors, t)
        return [_moment(factors, flint.acb(t, step * j)) / all_of_it for j in range(count + 1)]
    others = [factor for factor in factors if factor not in drawn]
    all_of_it = _moment(others, t)
    phis = [_moment(others, flint.acb(t, step * j)) / all_of_it for j in range(count + 1)]
    for pair, times in drawn:
        own = _powers(pair, times, t, half, count)
        phis = [phi * power for phi, power in zip(phis, own, strict=True)]
    return phis


def _powers(pair: Factor, times: int, t: Ball, half: float, count: int) -> list[Any]:
    """E exp(i w_j L) to the power ``times``, tilted by t, by the rule in floats."""
    import flint

    if is_discrete(pair):
        change, errors, mean = whole.moments(pair, t, math.pi / half, count)
    else:
        change, errors, mean = moments(parameters_at(pair, t), float(times), math.pi / half, count)
    powers = []
    for j, (value, error) in enumerate(zip(change, errors, strict=True)):
        around = flint.arb(0, float(error))
        phi = 1 + flint.acb(value.real, value.imag) + flint.acb(around, around)
        turn = flint.acb(0, ball(0).pi() * j / ball(half) * flint.arb(mean)).exp()
        powers.append((phi * turn) ** times)
    return powers


def _series(phis: Sequence[Any], t: Ball, at: Ball, half: Ball) -> Ball:
    import flint

    total = ball(0)
    for j, phi in enumerate(phis):
        w = ball(0).pi() * j / half
        turn = flint.acb(0, -w * at).exp()
        part = (phi * turn * _integral(t, w, j, half)).real
        total += part if j == 0 else 2 * part
    return total / (2 * half)


def _density(phis: Sequence[Any], at: Ball, half: Ball) -> Ball:
    """The tilted density at epsilon, folded."""
    import flint

    total = ball(0)
    for j, phi in enumerate(phis):
        part = (phi * flint.acb(0, -ball(0).pi() * j / half * at).exp()).real
        total += part if j == 0 else 2 * part
    return total / (2 * half)


def _integral(t: Ball, w: Ball, j: int, half: Ball) -> Any:
    """G_j; exp(-i w_j l) is (-1)^j."""
    import flint

    result = flint.acb(0)
    for rate, sign in ((t, 1), (t + 1, -1)):
        last = (-rate * half).exp() * (-1 if j % 2 else 1)
        result += sign * (1 - last) / flint.acb(rate, w)
    return result

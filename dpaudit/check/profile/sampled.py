"""Sampled normal pairs in Arb: moments by rigorous integration, and bounds of their decay.

R(x) = 1 - q + q exp(mu x - mu^2 / 2) under Q = N(0, 1); the loss is L = log R under P = R Q, and
-log R under Q for the pair swapped: E exp(s L) = E_Q R^p with p = 1 + s or p = -s.

Beyond the ends: R^c <= 1 + R^0 + q exp(c z) for real c outside of (0, 1) (convexity), and at most
1 + R inside; R >= 1 - q for negative c.
Decay: with p(l) the density of the loss tilted by t, and l paired with l + D over disjoint blocks,
    |E exp(i w L)| <= 1 - 2 (1 - cos(w D / 2)) integral of min(p(l), p(l + D)),   w D <= pi,
since |u + v exp(i a)| <= u + v - 2 min(u, v) (1 - cos(a / 2)).  The integral is bounded from below
by rectangles in x: R and the share q exp(z) / R grow with x, and the density is log-concave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpaudit.check.profile.cells import UNIT, Ball, NotConfirmed, ball
from dpaudit.check.profile.rule import RATES, Sampled, bend
from dpaudit.exact import Number
from dpaudit.exact.arrays import Floats, np
from dpaudit.pairs import Pair

# Mass that is left beyond the ends of an integral, and how near to the integral Arb should come.
BEYOND, INTEGRAL_ERROR = 80, 2.0**-75
CELLS = 1500  # cells of the outcome
RATIO, FINEST = 1.2, 2.0**-60  # distances of pairs fall by RATIO down to FINEST
LARGEST_X = 200.0  # standard deviations; exponents beyond leave those of floats
STRIDE, STRIDES = 1.04, 1000  # ratio and number of the frequencies at which bounds are made
# How far beyond a cap one round is looked at.
FARTHER = 3.5


@dataclass(frozen=True)
class Capped:
    """A sampled pair's outcomes x <= cap alone: part of both distributions."""

    pair: Pair
    cap: float


Factor = Pair | Capped


def _whole(pair: Factor) -> Pair:
    return pair.pair if isinstance(pair, Capped) else pair


def cap_of(pair: Factor) -> float:
    """Infinite where there is none."""
    return pair.cap if isinstance(pair, Capped) else math.inf


def is_sampled(pair: Factor) -> bool:
    """Whether this is a normal pair that is sampled with a rate below 1, or that swapped."""
    moves = _moves(pair)
    return moves is not None and bool(ball(moves[0]) > 0) and bool(0 < ball(moves[1]) < 1)


def _moves(pair: Factor) -> tuple[Number, Number] | None:
    """mu and the rate of sampled normal noise, in either direction."""
    sample = _whole(pair).unswapped.sample
    mu = None if sample is None else sample.base.gaussian_shift
    return None if sample is None or mu is None else (mu, sample.rate)


def _parameters(pair: Factor) -> tuple[Ball, Ball, bool]:
    moves = _moves(pair)
    if moves is None:
        raise NotConfirmed("not a sampled normal pair")
    return ball(moves[0]), ball(moves[1]), _whole(pair).is_swapped


def _power(pair: Factor, s: Any) -> Any:
    return -s if _whole(pair).is_swapped else 1 + s


def parameters_at(pair: Factor, t: Ball) -> Sampled:
    """A sampled pair's numbers as floats, with the power of R at a tilt."""
    mu, rate, swapped = _parameters(pair)
    power = float(_power(pair, t).mid())
    return Sampled(float(mu.mid()), float(rate.mid()), power, swapped, cap_of(pair))


def _ends(pair: Factor, power: float) -> tuple[float, float]:
    mu, rate, _ = _parameters(pair)
    less = max(-power, 0.0) * -float((1 - rate).log().mid())
    reach = math.sqrt(2 * (BEYOND + less))
    high = min(reach + max(power, 1.0) * float(mu.mid()), cap_of(pair))
    if high > LARGEST_X:
        raise NotConfirmed("a tilt that is too large")
    return -reach, high


def _integral(pair: Factor, power: Any, ends: tuple[float, float]) -> Any:
    """The integral of R^power phi between two points."""
    import flint

    mu, rate, _ = _parameters(pair)
    wide, other_rate, half = flint.acb(mu), 1 - rate, mu * mu / 2

    def at(x: Any, analytic: Any) -> Any:
        ratio = other_rate + rate * (wide * x - half).exp()
        return (power * ratio.log(analytic=analytic) - x * x / 2).exp()

    integral = flint.acb.integral(at, *ends, rel_tol=INTEGRAL_ERROR, abs_tol=INTEGRAL_ERROR)
    return integral / (2 * flint.arb.pi()).sqrt()


def _outside(pair: Factor, power: float, ends: tuple[float, float]) -> Ball:
    """At most what |R^power| phi comes to beyond two points (a real power)."""
    import flint

    mu, rate, _ = _parameters(pair)

    def tail(distance: Ball) -> Ball:
        return (distance / ball(2).sqrt()).erfc() / 2

    low, high, c = -ball(ends[0]), ball(ends[1]), flint.arb(power)
    # Below 0 the ratio is at most 1 and at least 1 - q.
    below = tail(low) * (min(c, flint.arb(0)) * (1 - rate).log()).exp()
    if ends[1] >= cap_of(pair):
        return below
    if power < 0:
        return below + tail(high)
    least = c if power >= 1 else ball(1)
    grown = (least * (least - 1) * mu * mu / 2).exp()
    return below + 2 * tail(high) + rate * grown * tail(high - least * mu)


def moment(pair: Factor, s: Any) -> Any:
    """E exp(s L), s a ball or a complex ball."""
    import flint

    power = _power(pair, s)
    real = float((power.real if isinstance(power, flint.acb) else power).mid())
    ends = _ends(pair, real)
    integral = _integral(pair, power, ends)
    size = _outside(pair, math.nextafter(real, math.inf), ends).upper()
    size = size.max(_outside(pair, math.nextafter(real, -math.inf), ends).upper())
    around = flint.arb(0, size)
    if isinstance(power, flint.acb):
        return integral + flint.acb(around, around)
    return integral.real + around


def mass_beyond(factor: Capped) -> Ball:
    """P(x > cap) in one round."""
    mu, rate, swapped = _parameters(factor)
    cap, root = ball(factor.cap), ball(2).sqrt()
    plain, moved = ((cap / root).erfc() / 2, ((cap - mu) / root).erfc() / 2)
    return plain if swapped else (1 - rate) * plain + rate * moved


@dataclass(frozen=True)
class Beyond:
    """Cells of x beyond a cap: P masses, losses of the means of exp(-l) and of the ends.

    ``chords``: weights of the ends whose sum over a convex function of exp(-l) is at least its
    integral; ``last``: P mass beyond the last cell.
    """

    masses: Floats
    means: Floats
    ends: Floats
    chords: Floats
    last: Ball


def beyond(factor: Capped, count: int) -> Beyond:
    """The cells of one round of a pair that is not swapped, from the cap ``FARTHER`` on."""
    mu, rate, _ = _parameters(factor)
    root = ball(2).sqrt()
    x = [ball(factor.cap + FARTHER * k / count) for k in range(count + 1)]
    plain = [(at / root).erfc() / 2 for at in x]
    moved = [((at - mu) / root).erfc() / 2 for at in x]
    loss = [(1 + rate * (mu * at - mu * mu / 2).expm1()).log() for at in x]
    masses, means, chords = [], [], [ball(0)] * (count + 1)
    for k in range(count):
        q, other = plain[k] - plain[k + 1], moved[k] - moved[k + 1]
        p = (1 - rate) * q + rate * other
        middle = (p / q).log()
        share = (loss[k + 1] - middle).expm1() / (loss[k + 1] - loss[k]).expm1()
        masses.append(p)
        means.append(middle)
        chords[k] += p * share
        chords[k + 1] += p * (1 - share)
    last = (1 - rate) * plain[-1] + rate * moved[-1]
    mass, mean, end, chord = (
        np.array([float(v.mid()) for v in row]) for row in (masses, means, loss, chords)
    )
    return Beyond(mass, mean, end, chord, last)


# --- decay ---------------------------------------------------------------------------------------


class Pairs:
    """Bounds of |E exp(i w L)| for one round's loss L, tilted by t, by the two ways of the module.

    ``distances``: D, falling; ``paired``: for each, a lower bound of twice the integral over l of
    min(p(l), p(l + D)), so that 1 - paired (1 - cos(w D / 2)) is a bound where w D <= pi.
    ``variation``: V, with the bound V / w at every frequency.
    Errors: NotConfirmed where floats hold a parameter, a moment or a loss too badly.
    """

    def __init__(self, pair: Factor, t: Ball) -> None:
        mu, rate, _ = _parameters(pair)
        self.mu, self.rate = float(mu.mid()), float(rate.mid())
        self.power = float(_power(pair, t).mid())
        whole_moment = moment(pair, t)
        total = float(whole_moment.mid())
        if not (RATES[0] <= self.rate <= RATES[1] and self.mu >= RATES[0]):
            raise NotConfirmed("a rate or a mu that floats do not hold")
        if not (0 < total < math.inf and float(whole_moment.rad()) < 1e-9 * total):
            raise NotConfirmed("a moment that floats do not hold")
        self.cap = cap_of(pair)
        low, high = -9.0, min(9.0 + max(self.power, 1.0) * self.mu, self.cap)
        self.x = np.linspace(low, high, CELLS + 1)
        # A relative error of 1e-6 covers the roundings of floats, and those of mu and the rate.
        self.scale = (1 - 1e-6) / (total * math.sqrt(2 * math.pi))
        loss = self._loss(self.x)
        if not np.isfinite(loss).all():
            raise NotConfirmed("losses that floats do not hold")
        self.off = self._off(loss)
        self.least, self.share = self._least(self.x[:-1], self.x[1:]), self._share(self.x[:-1])
        weights = self.least * np.diff(self.x)
        mean = float(weights @ loss[:-1]) / float(weights.sum())
        spread = math.sqrt(float(weights @ (loss[:-1] - mean) ** 2) / float(weights.sum()))
        with np.errstate(divide="ignore", invalid="ignore"):
            start = float(loss[int(np.argmax(weights / np.diff(loss)))])
        distances: list[float] = []
        paired: list[float] = []
        distance = 6 * spread
        while distance > FINEST and len(distances) < 200:
            held = self._held(loss, distance, start)
            if distances and held > 0.998:  # smaller distances cannot cancel more
                break
            distances.append(distance)
            paired.append(held)
            distance /= RATIO
        self.distances, self.paired = np.array(distances), np.array(paired)
        self.variation = self._variation(total)

    def _variation(self, total: float) -> float:
        """V with |E exp(i w L)| <= V / w: 4 times the largest density of the loss.

        Its log at x, -x^2 / 2 + (c + 1) log R - z + constant, has at most three critical points.
        """
        low, high = self.x[:-1], self.x[1:]
        rising = 9.0 - self.mu - abs(self.power + 1) * self.mu * float(self._share(self.x[:1])[0])
        falling = self.x[-1] >= self.cap or self.x[-1] > self.power * self.mu
        if not (rising > 0 and falling):
            raise NotConfirmed("a density that may rise beyond its points")
        near = np.where(low * high <= 0, 0.0, np.minimum(np.abs(low), np.abs(high)))
        tilted = np.maximum(*(self.power * self._loss(x) for x in (low, high)))
        density = np.exp(tilted - near * near / 2) / (self.mu * self._share(low))
        return 4 * float(density.max()) * (1 + 1e-6) / (total * math.sqrt(2 * math.pi))

    def _loss(self, x: Floats) -> Floats:
        with np.errstate(over="ignore"):
            losses: Floats = np.log1p(self.rate * np.expm1(self.mu * x - self.mu**2 / 2))
        return losses

    def _off(self, loss: Floats) -> Floats:
        """How far a loss may be off, several times: where R hardly moves, more than a cell."""
        own = Sampled(self.mu, self.rate, self.power, False)
        return 8 * UNIT * bend(own, self.x, loss)

    def _share(self, x: Floats) -> Floats:
        with np.errstate(over="ignore"):
            odds = (1 - self.rate) / self.rate * np.exp(self.mu**2 / 2 - self.mu * x)
        shares: Floats = 1 / (1 + odds)
        return shares

    def _least(self, low: Floats, high: Floats) -> Floats:
        """A lower bound of the tilted density of x between two points."""
        far = np.maximum(np.abs(low), np.abs(high))
        tilted = [self.power * self._loss(x) for x in (low, high)]
        with np.errstate(invalid="ignore"):
            bounds: Floats = self.scale * np.exp(np.minimum(*tilted) - far * far / 2)
        return np.nan_to_num(bounds, nan=0.0, posinf=0.0)

    def _held(self, loss: Floats, distance: float, start: float) -> float:
        """2 sum over cells in even blocks of the least of both densities, by x."""
        off = self.off + 64 * UNIT * distance
        block, last = (np.floor((loss + side * off - start) / distance) for side in (-1, 1))
        even = (block == last) & (block % 2 == 0)
        nested = np.append(False, (block[:-1] == block[1:]) & even[:-1] & even[1:])
        inside = nested[:-1] & nested[1:]
        if not inside.any():
            return 0.0
        low, high, least, share = (
            values[inside] for values in (self.x[:-1], self.x[1:], self.least, self.share)
        )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Outward by more than their roundings.
            lower, upper = (
                [
                    np.log1p(np.expm1(value + distance + side * noise) / self.rate) / self.mu
                    + self.mu / 2
                    for side in (-1, 1)
                ]
                for value, noise in (
                    (loss[:-1][inside], off[:-1][inside]),
                    (loss[1:][inside], off[1:][inside]),
                )
            )
            left = lower[0] - 1e-9 * (1 + np.abs(lower[1]))
            right = upper[1] + 1e-9 * (1 + np.abs(upper[1]))
            least = np.minimum(least, self._least(left, right) * share / self._share(right))
        # Beyond a cap there is nothing to pair with.
        least = np.where(right <= self.cap, np.nan_to_num(least, nan=0.0, posinf=0.0), 0.0)
        return min(2 * float(np.sum(least * (high - low))) * (1 - 1e-9), 1.0)

    def log_bound(self, low: float, high: float) -> float:
        """log of a bound of |E exp(i w L)| for low <= w <= high."""
        fits = high * self.distances <= math.pi
        turn = np.minimum(low * self.distances, math.pi)
        drop = float(np.max(np.where(fits, self.paired * (1 - np.cos(turn / 2)), 0.0)))
        return math.log(max(min(1 - drop, self.variation / low, 1.0), 1e-9))


def left_out(
    pairs: list[tuple[Pairs, int]], first: float, unit: float, mu: float
) -> list[tuple[float, float]]:
    """(w, sum over w_j >= w of |Phi_j| / j at most) at falling w >= first, w_j = unit j.

    ``mu``: of a normal factor.  |Phi| falls at least like 1 / w beyond the last.
    """
    w: Floats = np.asarray(first * STRIDE ** np.arange(STRIDES), dtype=np.float64)
    logs: list[float] = [
        sum(times * pairs.log_bound(low, low * STRIDE) for pairs, times in pairs)
        - mu * mu * low * low / 2
        for low in w
    ]
    last = sum(times * math.log(min(p.variation / w[-1], 1.0)) for p, times in pairs)
    total = math.exp(last - mu * mu * w[-1] ** 2 / 2) * (1 + unit / w[-1])
    rows = []
    for low, log_bound in zip(w[::-1], logs[::-1], strict=True):
        total += math.exp(log_bound) * (math.log(STRIDE) + unit / low)
        rows.append((float(low), total))
    return rows

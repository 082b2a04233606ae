"""Sampled normal rounds of little noise, stated a second time: by how many hold the record.

One round is A = (1 - q) N(0, 1) + q N(m, 1) against B = N(0, 1); at a point z, u = m z - m^2 / 2,
A / B = 1 - q + q e^u.  Two regions: *low*, u <= -g, and *high*, u >= g + log(1 / q).
Low:  A / B <= c = 1 - q (1 - e^-g); masses a of A and b of B.
High: q e^u <= A / B <= q e^u (1 + (1 - q) e^-g).
All n rounds lie in one or the other but for A mass n e, e that of one round in between.  Of those
with j high rounds, with D_j(t) the delta of N(m sqrt(j), 1) against N(0, 1) at a loss of t:
above, low rounds are at most c^(n - j) each time, and A mass a^(n - j) in all; below, they count as
one outcome (data processing), and points that are not high have mass at most j f of N(m, 1)^j,
f that of one.  Counts outside of those gone through add their whole mass above, nothing below.
Away, (B, A): A / B >= 1 - q everywhere, and all rounds may be low.

Noise on the integers, masses as exp(-k^2 / (2 v)), moved by s: u = s (k - s / 2) / v, and the
regions are the integers up to one and from one on.  With D the sum of j of the noises, D_j(t) is
the mean of (1 - exp(t - s (D + j s / 2) / v))+.  Masses are whole multiples of 2^-bits, rounded
down, also where powers are cut and shortened: so is D_j, and what their sum is short of 1 is added
above.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, Protocol

from dpaudit.check.profile.cells import Ball, NotConfirmed, ball
from dpaudit.exact import is_symbolic
from dpaudit.pairs import Pair
from dpaudit.pairs.core import Lattice, Sample

# Gaps; the first is a part of u's middle with the move, m^2 / 2.
BITS, PART, GAPS = (320, 1300), 8, (30, 20, 12)
MOST_ROUNDS, MOST_COUNTS = 10**12, 20_000
LEAST = -320.0
# Of noise on the integers: counts rarer than delta times exp(-RARER), and masses, are left out.
RARER, MOST_MASSES, WIDEST = 40.0, 10**7, 10**4


class Noise(Protocol):
    """One round's noise, m in size; ``slope``: of u from a whole number to the next, or 0."""

    @property
    def size(self) -> Ball: ...

    @property
    def slope(self) -> Ball: ...

    def low(self, gap: Ball) -> tuple[Ball, Ball, Ball]:
        """Masses of u <= -gap without the move and with it, and of the rest without it."""

    def not_high(self, loss: Ball) -> Ball:
        """Mass of u < loss with the move."""

    def told(self, count: int, loss: Ball) -> tuple[Ball, Ball]:
        """D_j from below and from above, j > 0."""


class _Normal:
    def __init__(self, mean: Any) -> None:
        self.size, self.slope = ball(mean), ball(0)

    def low(self, gap: Ball) -> tuple[Ball, Ball, Ball]:
        edge = self.size / 2 - gap / self.size
        return _under(edge), _under(edge - self.size), _under(-edge)

    def not_high(self, loss: Ball) -> Ball:
        return _under(loss / self.size - self.size / 2)

    def told(self, count: int, loss: Ball) -> tuple[Ball, Ball]:
        m = self.size * ball(count).sqrt()
        found = _under(m / 2 - loss / m) - loss.exp() * _under(-m / 2 - loss / m)
        return found, found


class _Whole:
    """Noise on the integers; ``rare``: the log of masses that may be left out."""

    def __init__(self, pair: Lattice, bits: int, rare: float) -> None:
        self.variance, self.shift, self.bits, self.rare = pair.variance, int(pair.shift), bits, rare
        self.slope = ball(pair.shift) / ball(pair.variance)
        self.size = ball(pair.shift) / ball(pair.variance).sqrt()
        self.width = self._reach(1, bits)
        v = ball(pair.variance)
        weights = [(-ball(k * k) / (2 * v)).exp() for k in range(self.width + 2)]
        rest = (weights[-1] / (1 - (-ball(2 * self.width + 3) / (2 * v)).exp())).union(ball(0))
        whole = 1 + 2 * (sum(weights[1:-1], ball(0)) + rest)
        half = [self._whole_part(weight / whole) for weight in weights[:-1]]
        self.one = half[:0:-1] + half
        self.powers: list[tuple[int, Any]] = []

    def _whole_part(self, mass: Ball) -> int:
        return int((mass.lower() * ball(2) ** self.bits).floor().lower().fmpz())

    def _reach(self, count: int, log_rare: float) -> int:
        return isqrt(int(2 * count * self.variance * Fraction(log_rare))) + 2

    def _under(self, last: int) -> Ball:
        """P(noise <= last)."""
        one, unit = self.one, ball(2) ** -self.bits
        kept = max(last + self.width + 1, 0)
        found = ball(sum(one[:kept])) * unit
        return found + (ball(2**self.bits - sum(one)) * unit).union(ball(0))

    def _edge(self, loss: Ball, side: int) -> int:
        """The integer next to where u is a loss, and beyond it for certain."""
        at = ball(self.shift) / 2 + loss / self.slope
        found = int((at.mid().ceil() if side > 0 else at.mid().floor()).fmpz())
        while not side * (found - at) >= 0:
            found += side
        return found

    def low(self, gap: Ball) -> tuple[Ball, Ball, Ball]:
        last = self._edge(-gap, -1)
        return self._under(last), self._under(last - self.shift), self._under(-last - 1)

    def not_high(self, loss: Ball) -> Ball:
        return self._under(self._edge(loss, 1) - 1 - self.shift)

    def _power(self, count: int) -> tuple[int, list[int]]:
        """The least sum, and masses from there on."""
        import flint

        width = min(self.width, self._reach(1, -self.rare))
        one = flint.fmpz_poly(self.one[self.width - width : self.width + width + 1])
        if not self.powers:
            self.powers.append((-width, one))
        while len(self.powers) < count:
            first, power = self.powers[-1]
            reach = self._reach(len(self.powers) + 1, -self.rare)
            cut = max(width - first - reach, 0)
            masses = [int(c) >> self.bits for c in (power * one).coeffs()]
            masses = masses[cut : cut + 2 * reach + 1]
            if sum(kept.length() for _, kept in self.powers) > MOST_MASSES:
                raise NotConfirmed("sums of noise on too many integers")
            self.powers.append((first - width + cut, flint.fmpz_poly(masses)))
        first, power = self.powers[count - 1]
        return first, [int(c) for c in power.coeffs()]

    def told(self, count: int, loss: Ball) -> tuple[Ball, Ball]:
        import flint

        first, masses = self._power(count)
        middle = ball(count * self.shift) / 2
        place = loss / self.slope - middle
        start = int(place.mid().ceil().fmpz())
        unit, found = ball(2) ** -self.bits, ball(0)
        missing = ball(2**self.bits - sum(masses)) * unit
        for t in (start - 1, start, start + 1):
            kept = masses[max(t - first, 0) :]
            least = max(t, first)
            falling = flint.fmpz_poly(kept)((-self.slope).exp())
            share = (loss - self.slope * (least + middle)).exp()
            found = found.max((ball(sum(kept)) - share * falling) * unit)
        near = place > start - 2 and place < start + 1
        return found, (found if near else ball(1)) + missing


@lru_cache(maxsize=4)
def _whole(pair: Lattice, bits: int, rare: float) -> _Whole:
    return _Whole(pair, bits, rare)


def told_at_most(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) <= delta for certain.  Errors: NotConfirmed for another pair."""
    return any(high <= allowed for _, high, allowed in _sides(pair, epsilon, delta))


def told_at_least(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) >= delta for certain.  Errors: NotConfirmed for another pair."""
    return any(low >= wanted for low, _, wanted in _sides(pair, epsilon, delta))


def _sides(pair: Pair, epsilon: Fraction, delta: Fraction) -> Iterator[tuple[Ball, Ball, Ball]]:
    import flint

    rare = _rare(pair, delta)
    for bits in BITS:
        with flint.ctx.workprec(bits):
            noise = _read(pair, rare)[0]
            least = noise.size**2 / 2 / PART
            gaps = [least, least + noise.slope, *map(ball, GAPS)]
        for gap in gaps:
            with flint.ctx.workprec(bits):
                low, high = told(pair, ball(epsilon), gap, rare)
                yield low, high, ball(delta)


def _rare(pair: Pair, delta: Fraction) -> float:
    """The log of what is rare: of noise on the integers, whose sums are long, beside delta."""
    if _sampled(pair).base.gaussian_shift is not None or delta <= 0:
        return LEAST
    return max(float(ball(delta).log().mid()) - RARER, LEAST)


def told(pair: Pair, loss: Ball, gap: Ball, rare: float = LEAST) -> tuple[Ball, Ball]:
    """Bounds of delta at a loss, from below and from above."""
    noise, q, n, away = _read(pair, rare)
    if not gap < noise.size**2 / 2 - (1 / q).log():
        return ball(0), ball(1)
    b, moved, rest = noise.low(gap)
    a = (1 - q) * b + q * moved
    if away:
        return b**n - loss.exp() * a**n, 1 - loss.exp() * (1 - q) ** n
    f = noise.not_high(gap + (1 / q).log())
    between = (1 - q) * rest + q * f
    most = (1 - q + q * (-gap).exp()).log()
    excess = 1 + (1 - q) * (-gap).exp()
    wide = q * excess
    low, high, known = ball(0), n * between, ball(0)
    for j, chance in _counts(n, q, a, rare):
        own, common = chance, chance * excess**j
        known += common
        high += common * _of(noise, j, loss - (n - j) * most - j * wide.log())[1]
        inner = _of(noise, j, loss + (n - j) * (b / a).log() - j * q.log())[0] - j * f
        low += own * inner.max(ball(0))
    return low, high + ((a + wide) ** n - known).max(ball(0))


def _sampled(pair: Pair) -> Sample:
    """The sampled noise of rounds of one kind."""
    if len(pair.factors) == 1:
        ((factor, _),) = pair.factors
        sample = factor.unswapped.sample
        noise = None if sample is None else sample.base.gaussian_shift or sample.base.lattice
        if sample is not None and noise is not None:
            return sample
    raise NotConfirmed("not sampled rounds of one kind of noise")


def _read(pair: Pair, rare: float) -> tuple[Noise, Ball, int, bool]:
    """Noise, q, n, and whether it is away."""
    mixed, ((factor, times),) = _sampled(pair), pair.factors
    noise, q = _noise(mixed.base, rare), ball(mixed.rate)
    known = not is_symbolic(times) and 0 < q < 1 and noise.size > 1
    if known and times == int(times) and 0 < times <= MOST_ROUNDS:
        return noise, q, int(times), factor.is_swapped
    raise NotConfirmed("not sampled rounds of one kind of noise")


def _noise(base: Pair, rare: float) -> Noise:
    import flint

    if base.gaussian_shift is not None:
        return _Normal(base.gaussian_shift)
    if base.lattice is not None and not is_symbolic(base.lattice.variance):
        v, s = base.lattice
        if Fraction(1, WIDEST) <= v <= WIDEST**2 and s == int(s) and s > 0:
            return _whole(base.lattice, flint.ctx.prec, rare)
    raise NotConfirmed("noise on integers that are too many")


def _counts(n: int, q: Ball, a: Ball, rare: float) -> Iterator[tuple[int, Ball]]:
    """Counts j around the likeliest, each with C(n, j) a^(n - j) q^j, while that is of any size."""
    start = min(int(float((n * q).mid())), n)
    ways = ball(n + 1).lgamma() - ball(start + 1).lgamma() - ball(n - start + 1).lgamma()
    middle = (ways + (n - start) * a.log() + start * q.log()).exp()
    least, passed = ball(rare).exp(), 0
    for step in (1, -1):
        j, chance = start, middle
        while passed <= MOST_COUNTS:
            if j != start or step > 0:
                passed += 1
                yield j, chance
            if not 0 <= j + step <= n or chance < least:
                break
            up = (n - j) * q / ((j + 1) * a)
            chance = chance * up if step > 0 else chance * j * a / ((n - j + 1) * q)
            j += step


def _under(z: Ball) -> Ball:
    """Phi."""
    return (-z / ball(2).sqrt()).erfc() / 2


def _of(noise: Noise, count: int, loss: Ball) -> tuple[Ball, Ball]:
    if count == 0:
        none = (1 - loss.exp()).max(ball(0))
        return none, none
    return noise.told(count, loss)

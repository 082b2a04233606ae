"""Sampled normal rounds of little noise, stated a second time: by how many hold the record.

One round is A = (1 - q) N(0, 1) + q N(m, 1) against B = N(0, 1); at a point z, u = m z - m^2 / 2,
A / B = 1 - q + q e^u.  Two regions: *low*, u <= -g, and *high*, u >= g + log(1 / q).
Low:  A / B <= c = 1 - q (1 - e^-g); masses a of A and b of B.
High: q e^u <= A / B <= q e^u (1 + e^-g).
All n rounds lie in one or the other but for A mass n e, e that of one round in between.  Of those
with j high rounds, with D_j(t) the delta of N(m sqrt(j), 1) against N(0, 1) at a loss of t:
above, low rounds are at most c^(n - j) each time, and A mass a^(n - j) in all; below, they count as
one outcome (data processing), and points that are not high have mass at most j f of N(m, 1)^j,
f that of one.  Counts outside of those gone through add their whole mass above, nothing below.
Away, (B, A): A / B >= 1 - q everywhere, and all rounds may be low.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpaudit.check.profile.cells import Ball, NotConfirmed, ball
from dpaudit.exact import is_symbolic
from dpaudit.nodes.pairs import Mixed, Normal, Pair, Swapped

BITS, GAPS = (320, 1300), (30, 20, 12)
MOST_ROUNDS, MOST_COUNTS = 10**12, 20_000
LEAST = -320.0


def told_at_most(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) <= delta for certain.  Errors: NotConfirmed for another pair."""
    return any(high <= allowed for _, high, allowed in _sides(pair, epsilon, delta))


def told_at_least(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) >= delta for certain.  Errors: NotConfirmed for another pair."""
    return any(low >= wanted for low, _, wanted in _sides(pair, epsilon, delta))


def _sides(pair: Pair, epsilon: Fraction, delta: Fraction) -> Iterator[tuple[Ball, Ball, Ball]]:
    import flint

    for bits in BITS:
        for gap in GAPS:
            with flint.ctx.workprec(bits):
                low, high = told(pair, ball(epsilon), ball(gap))
                yield low, high, ball(delta)


def told(pair: Pair, loss: Ball, gap: Ball) -> tuple[Ball, Ball]:
    """Bounds of delta at a loss, from below and from above."""
    mean, q, n, away = _read(pair)
    if not gap < mean**2 / 2 - (1 / q).log():
        return ball(0), ball(1)
    edge = mean / 2 - gap / mean
    b = _under(edge)
    a = (1 - q) * b + q * _under(edge - mean)
    if away:
        return b**n - loss.exp() * a**n, 1 - loss.exp() * (1 - q) ** n
    f = _under((gap + (1 / q).log()) / mean - mean / 2)
    between = (1 - q) * _under(-edge) + q * f
    most = (1 - q + q * (-gap).exp()).log()
    wide = q * (1 + (-gap).exp())
    low, high, known = ball(0), n * between, ball(0)
    for j, chance in _counts(n, q, a):
        rare, common = chance, chance * (1 + (-gap).exp()) ** j
        known += common
        high += common * _normal(mean, j, loss - (n - j) * most - j * wide.log())
        inner = _normal(mean, j, loss + (n - j) * (b / a).log() - j * q.log()) - j * f
        low += rare * inner.max(ball(0))
    return low, high + ((a + wide) ** n - known).max(ball(0))


def _read(pair: Pair) -> tuple[Ball, Ball, int, bool]:
    """m, q, n, and whether it is away."""
    if len(pair.factors) == 1:
        ((factor, times),) = pair.factors
        away = isinstance(factor, Swapped)
        mixed = factor.base if isinstance(factor, Swapped) else factor
        if isinstance(mixed, Mixed) and isinstance(mixed.base, Normal) and not is_symbolic(times):
            mean, q = ball(mixed.base.mu), ball(mixed.rate)
            if 0 < q < 1 and mean > 1 and times == int(times) and 0 < times <= MOST_ROUNDS:
                return mean, q, int(times), away
    raise NotConfirmed("not sampled rounds of one kind of normal noise")


def _counts(n: int, q: Ball, a: Ball) -> Iterator[tuple[int, Ball]]:
    """Counts j around the likeliest, each with C(n, j) a^(n - j) q^j, while that is of any size."""
    start = min(int(float((n * q).mid())), n)
    ways = ball(n + 1).lgamma() - ball(start + 1).lgamma() - ball(n - start + 1).lgamma()
    middle = (ways + (n - start) * a.log() + start * q.log()).exp()
    least, passed = ball(LEAST).exp(), 0
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


def _normal(mean: Ball, count: int, loss: Ball) -> Ball:
    if count == 0:
        return (1 - loss.exp()).max(ball(0))
    m = mean * ball(count).sqrt()
    return _under(m / 2 - loss / m) - loss.exp() * _under(-m / 2 - loss / m)

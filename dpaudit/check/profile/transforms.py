"""Products of a normal pair with Laplace pairs and atoms: Fourier series in Arb, without a grid.

With L the total loss under P, M(s) = E exp(s L) over finite losses, t > 0 a tilt and half a window
of length l, the density of L tilted by t, folded with period 2 l, has the Fourier coefficients
Phi_j = M(t + i w_j) / M(t), w_j = pi j / l.  So, up to what is folded and left out,

    delta(epsilon) - infinite
        = M(t) exp(-t epsilon) (1 / 2l) sum_j Re[Phi_j exp(-i w_j epsilon) G_j],
    G_j = integral over 0 <= y <= l of exp(-(t + i w_j) y) (1 - exp(-y)).

Folded: at most twice exp(-FOLDED) (Chernoff, on either side of epsilon -+ l).  Left out: since
|Phi_j| <= exp(-mu^2 w_j^2 / 2) for the normal factor's mu and |G_j| <= 4 / w_j.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.profile.cells import Ball, NotConfirmed, ball
from dpaudit.check.profile.fourier import as_fraction
from dpaudit.nodes.pairs import Atoms, LaplaceShift, Normal, Pair

Factors = Sequence[tuple[Pair, int]]
BITS, FOLDED, LEFT_OUT = 128, 50, 52
MOST_TERMS = 200_000


def is_smooth(pair: Pair) -> bool:
    """Whether this is such a product."""
    kinds = [type(factor) for factor, _ in pair.factors]
    return kinds.count(Normal) == 1 and set(kinds) <= set(_MOMENTS)


def smooth_bound(factors: Factors, tilt: float, epsilon: Fraction, sign: int) -> Fraction:
    """A bound of the product's delta from above (sign 1) or below (sign -1).

    Errors: NotConfirmed where it would take too many terms, or a tilt makes no sense.
    """
    import flint

    if not 1e-6 < tilt < 1e7:
        raise NotConfirmed("tilt")
    with flint.ctx.workprec(BITS):
        t, at = ball(tilt), ball(epsilon)
        half = _half_window(factors, t, at)
        total = _series(factors, t, at, half)
        rise = _log_moment(factors, t)
        error = 2 * (-ball(FOLDED)).exp() + _left_out(factors, half)
        finite, every = _finite(factors)
        value = (rise - t * at).exp() * (total + sign * error) + (every - finite)
        return as_fraction(value.upper() if sign > 0 else value.lower())


# --- moments -------------------------------------------------------------------------------------


def _normal(pair: Normal, s: Any) -> Any:
    mu = ball(pair.mu)
    return (mu * mu * s * (s + 1) / 2).exp()


def _laplace(pair: LaplaceShift, s: Any) -> Any:
    """Atoms at either end, and exp(u / 2) times a constant between them."""
    e, v = ball(pair.epsilon), s + ball(1) / 2
    return (-e / 2).exp() * ((v * e).cosh() + (v * e).sinh() / (2 * v))


def _atoms(pair: Atoms, s: Any) -> Any:
    known = [(ball(p), ball(q)) for p, q in pair.outcomes if p != 0 and q != 0]
    return sum((p * (s * (p / q).log()).exp() for p, q in known), s * 0)


_MOMENTS: dict[type[Pair], Callable[[Any, Any], Any]] = {
    Normal: _normal,
    LaplaceShift: _laplace,
    Atoms: _atoms,
}


def _moment(factors: Factors, s: Any) -> Any:
    """M at a real or complex argument."""
    result = s * 0 + 1
    for pair, times in factors:
        result = result * _MOMENTS[type(pair)](pair, s) ** times
    return result


def _log_moment(factors: Factors, s: Ball) -> Ball:
    return _moment(factors, s).log()


def _finite(factors: Factors) -> tuple[Ball, Ball]:
    """Probability that every loss is finite, and 1."""
    result = ball(1)
    for pair, times in factors:
        if isinstance(pair, Atoms):
            lost = sum((ball(p) for p, q in pair.outcomes if q == 0), ball(0))
            result = result * (times * (-lost).log1p()).exp()
    return result, ball(1)


# --- the series ----------------------------------------------------------------------------------


def _half_window(factors: Factors, t: Ball, at: Ball) -> Ball:
    """l with tilted mass exp(-FOLDED) at most beyond epsilon + l, and below epsilon - l."""
    start, d = _log_moment(factors, t), ball(2) ** -20
    ends = [_log_moment(factors, t + k * d) for k in (-1, 1)]
    spread = float(((ends[0] + ends[1] - 2 * start) / (d * d)).mid())
    unit = math.sqrt(2 * FOLDED / max(spread, 1e-12))
    return max(_reach(factors, t, at, side * unit) for side in (1, -1))


def _reach(factors: Factors, t: Ball, at: Ball, unit: float) -> Ball:
    best, share, start = None, 1.3, _log_moment(factors, t)
    for _ in range(16):
        extra = ball(unit * share)
        rise = _log_moment(factors, t + extra) - start
        found = abs((rise + FOLDED) / extra - at).upper()
        if found.is_finite() and best is not None and found > best:
            break
        best, share = found if found.is_finite() else best, share * 0.7
    if best is None:
        raise NotConfirmed("no window")
    return best


def _decay(factors: Factors, half: Ball) -> Ball:
    """c with |Phi_j| <= exp(-c j^2)."""
    (mu,) = (pair.mu for pair, _ in factors if isinstance(pair, Normal))
    (times,) = (times for pair, times in factors if isinstance(pair, Normal))
    return times * (ball(mu) * ball(0).pi() / half) ** 2 / 2


def _count(factors: Factors, half: Ball) -> int:
    """Frequencies to sum: 0, ..., count."""
    decay = float(_decay(factors, half).mid())
    count = math.sqrt(LEFT_OUT / decay) if decay > 0 else math.inf
    if not count * len(factors) < MOST_TERMS:
        raise NotConfirmed("too many frequencies")
    return math.ceil(count) + 2


def _left_out(factors: Factors, half: Ball) -> Ball:
    """(1 / l) (4 / w) sum of exp(-c j^2) over j > count, w at the count."""
    count, decay = _count(factors, half), _decay(factors, half)
    rest = (-decay * count * count).exp() / (2 * decay * count)
    return 4 * rest / (ball(0).pi() * count)


def _series(factors: Factors, t: Ball, at: Ball, half: Ball) -> Ball:
    import flint

    whole = _moment(factors, t)
    total = ball(0)
    for j in range(_count(factors, half) + 1):
        w = ball(0).pi() * j / half
        phi = _moment(factors, flint.acb(t, w)) / whole
        turn = flint.acb(0, -w * at).exp()
        part = (phi * turn * _integral(t, w, j, half)).real
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

"""The curvature of the law of clients' noise, as a variance.

For a law p on the integers it is a number w with
log p(k + 1) - 2 log p(k) + log p(k - 1) >= -1 / w for every k; discrete Gaussian noise of variance
parameter w is the case of equality.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import enclose
from dpaudit.exact.effort import spend
from dpaudit.families.distributed.node import DistributedSkellamVector

BALL_BITS = 256  # Precision of the balls, in bits.
VARIANCE_DENOMINATOR = 10**6  # A variance is rounded down to a multiple of 1 over this.


@lru_cache(maxsize=64)
def least_variance(node: Any) -> Fraction:
    """The largest w that is proved, rounded down to a millionth; 0 where none is.

    Clients' discrete Gaussian noise, n of variance v: p(k) exp(k^2 / (2 n v)) is, by Poisson
    summation over the lattice of whole vectors of sum k, a sum of positive numbers times phases
    that depend on k; the one of phase 1 is h, all others together at most E h.  So the second
    differences are at least -1 / (n v) - 2 log((1 + E) / (1 - E)).  At k = 0 all phases are 1, and
    1 + E is the integral over a period of A(t)^n, A(t) = sum over m of exp(-v (t + 2 pi m)^2 / 2),
    over that of exp(-n v t^2 / 2) over the line.  Equally spaced sums of A^n are no less than the
    integral: their Fourier coefficients, the masses, are positive.
    Skellam noise of variance V: p(k + 1) p(k - 1) / p(k)^2 = R_k / R_(k-1), R_k = I_(k+1)(V) /
    I_k(V), with 1 / R_(k-1) = R_k + 2 k / V, which gives all of them from the last, and
    R_k >= V / (k + 1 + sqrt((k + 1)^2 + V^2)), as R falls with k; hence beyond the last
    1 - R_k / R_(k-1) <= 2 / (k + 1 + sqrt((k + 1)^2 + V^2)).
    """
    import flint

    with flint.ctx.workprec(BALL_BITS):
        skellam = isinstance(node, DistributedSkellamVector)
        bend = _skellam_bend(enclose(node.total)) if skellam else _gaussian_bend(node)
        if bend is None:
            return Fraction(0)
        # Rounding the lower end down keeps a value that the whole enclosure allows.
        return Fraction(
            int((VARIANCE_DENOMINATOR / bend).lower().floor().fmpz()), VARIANCE_DENOMINATOR
        )


def _gaussian_bend(node: Any) -> Any:
    """The most by which log p bends down, for clients' discrete Gaussian noise; None if unknown."""
    import flint

    v, n = enclose(node.variance), node.left
    variance = enclose(node.total)
    points = 16 * (int(variance.upper().sqrt().ceil().fmpz()) + 1)
    step = 2 * flint.arb.pi() / points
    total, k = _images(v, flint.arb(0)) ** n, 1
    while 2 * k <= points:
        term = _images(v, k * step) ** n
        if term < flint.arb(2) ** -150:
            # A falls on (0, pi): a product of factors that do, by Jacobi's triple product.
            total += (points - 2 * k + 1) * term
            break
        total += term if 2 * k == points else 2 * term
        k += 1
    more = total * step * (variance / (2 * flint.arb.pi())).sqrt() - 1
    if not more < 1:
        return None
    most = more.upper()
    return 1 / variance + 2 * ((1 + most) / (1 - most)).log()


def _images(v: Any, t: Any) -> Any:
    """A ball of A(t), 0 <= t <= pi (:func:`least_variance`): ``v`` is one client's variance.

    It sums the terms of |m| <= ``far``, and bounds all others by a geometric series.
    """
    import flint

    turn = 2 * flint.arb.pi()
    # The terms beyond are below exp(-150) of the first.
    far = max(2, int(1 + ((300 / v).sqrt() / turn).upper().ceil().fmpz()))
    spend(5 * (2 * far + 1), "the images of a distributed Gaussian of so little variance")
    total = sum(((-v * (t + turn * m) ** 2 / 2).exp() for m in range(-far, far + 1)), flint.arb(0))
    # Bounds each of the next two terms, m = -far - 1 and m = far + 1; the ratio bounds later ones.
    last = (-v * (turn * (far + 1) - t) ** 2 / 2).exp()
    ratio = (-v * turn**2 * far / 2).exp()
    return total + flint.arb(0).union(2 * last / (1 - ratio))


def _skellam_bend(total: Any) -> Any:
    import flint

    last = int(total.upper().ceil().fmpz()) + 64
    root = ((flint.arb(last + 1)) ** 2 + total**2).sqrt()
    ratio = (total / (last + 1 + root)).union(flint.arb(1))
    slack = 2 / (last + 1 + root)
    worst = -(1 - slack).log()
    spend(10 * last, "the ratios of distributed Skellam noise of so large a variance")
    for k in range(last, 0, -1):
        before = 1 / (ratio + 2 * k / total)
        if k <= last - 32:
            # The first ratios are still wide: they are covered by the bound beyond the last.
            worst = worst.max(-(ratio / before).log())
        else:
            slack = 2 / (k + 1 + ((flint.arb(k + 1)) ** 2 + total**2).sqrt())
            worst = worst.max(-(1 - slack).log())
        ratio = before
    return worst.max(-2 * ratio.log())

"""Laws of the statistics of draws: what each is under the declaration, and its p-value.

Audits and the checker both call these functions, so that a row cannot disagree with its check.
Residuals are independent N(0, 1) numbers under the declaration.  Every p-value is exact or an upper
bound for every number of them, none is a limit: P(p <= a) <= a for all a.

========= ============================ ==================================================
law       statistic                    p-value
========= ============================ ==================================================
range     the largest |z| of N         2 N Phi(-t) (union bound)
mean      the mean of n                2 Phi(-|m| sqrt(n)), exact; twice: see *some*
variance  the mean square of n         2 min of either tail of chi-square(n), exact; twice
... bound of more than 200,000         2 exp(-n/2 (v - 1 - log v)) (Chernoff); twice
shape     Kolmogorov-Smirnov D of n    2 g exp(-2 n D^2), worst of g (Massart 1990); twice
... some  where some trials were off   mixtures, as *slope*, over a slope on 1 and over a
                                       Gamma(1/2, 1/2) precision; twice
slope     b of y on x, squares Q       g sqrt(1 + v Q) exp(-v (b Q)^2 / (2 (1 + v Q))),
                                       v = 0.01, worst of g (Robbins 1970, Ville 1939)
repeats   equal vectors of four of n   n^2 (4e-6)^4: two fall into one cell of 1e-5
binomial  k of n, the worst of g       2 g min(P(Bin(n, q) <= k), P(Bin(n, q) >= k)), exact
evidence  s = -log of n least p-values e^-s
========= ============================ ==================================================

*Twice*: of two tests, one where all trials were on and one where some were off, one is used; either
has half of the error.  Residuals of a law of few values have no ties: see
:meth:`dpaudit.kernels.base.Kernel.uniforms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.exact import decimal_upper, working_precision

# All statistical checks of all audits of a run together; beside it 1e-10 for noise drawn alone.
CONFORMANCE_ERROR = Fraction(999, 10**9)
SLOPE_VARIANCE = 0.01  # prior of a slope: N(0, 0.01)
SCALE_SHAPE = 0.5  # prior of a precision: Gamma(1/2, rate 1/2)
EXACT_DEGREES, ACCURATE_BITS = 200_000, 40
# N(0, 1) falls into a given cell of width 1e-5 with at most this chance: its density is below 0.4.
CELL_CHANCE = 0.4e-5
WINDOW = 4  # residuals that must all be equal
ERROR_DIGITS = 6  # significant digits of an error rate, rounded up


def p_value(law: str, seen: float, size: int, among: int, parameter: float = math.nan) -> float:
    """The p-value of a statistic ``seen``, at most 1; 0 below the least float."""
    return math.exp(min(log_p(law, seen, size, among, parameter), 0.0))


def log_p(law: str, seen: float, size: int, among: int, parameter: float = math.nan) -> float:
    """The logarithm of the p-value, or of a bound above 1."""
    if law in LAWS:
        return LAWS[law](seen, size, among)
    return BY_PARAMETER[law](seen, size, among, parameter)


def is_broken(p: Any, error: Any) -> bool:
    """Whether a p-value is at most an error rate, both as they are printed."""
    if p > error * 2:  # the usual case, without decimals
        return False
    error = Fraction(decimal_upper(error, ERROR_DIGITS))
    return bool(Fraction(decimal_upper(Fraction(p))) <= error)


def _log_normal_tail(z: float) -> float:
    """log Phi(-z)."""
    import flint

    with working_precision():
        tail = (flint.arb(z) / flint.arb(2).sqrt()).erfc() / 2
        return float(tail.log().mid()) if tail > 0 else -math.inf


def _range(t: float, size: int, among: int) -> float:
    return math.log(2 * size) + _log_normal_tail(t)


def _mean(mean: float, size: int, among: int) -> float:
    return math.log(4) + _log_normal_tail(abs(mean) * math.sqrt(size))


def _mean_of_some(mean: float, size: int, among: int) -> float:
    return math.log(2) + _slope(mean, size, 1, float(size))


def _slope(slope: float, size: int, among: int, squares: float) -> float:
    spread = 1 + SLOPE_VARIANCE * squares
    gain = SLOPE_VARIANCE * (slope * squares) ** 2 / (2 * spread)
    return math.log(among) + math.log(spread) / 2 - gain


def _repeats(repeated: float, size: int, among: int) -> float:
    return 2 * math.log(size) + WINDOW * math.log(CELL_CHANCE) if repeated > 0 else 0.0


def _binomial(count: float, size: int, among: int, rate: float) -> float:
    import flint

    k = int(count)
    with working_precision():
        q = flint.arb(rate)
        below = (1 - q).beta_lower(size - k, k + 1, regularized=True) if k < size else flint.arb(1)
        above = q.beta_lower(k, size - k + 1, regularized=True) if k > 0 else flint.arb(1)
        tail: Any = below.min(above)
        return math.log(2 * among) + (float(tail.log().mid()) if tail > 0 else -math.inf)


def _variance(variance: float, size: int, among: int) -> float:
    import flint

    if size > EXACT_DEGREES:  # in certificates of before: by its cube root (Wilson, Hilferty 1931)
        spread = 2 / (9 * size)
        z = (math.cbrt(variance) - (1 - spread)) / math.sqrt(spread)
        return math.log(4) + _log_normal_tail(abs(z))
    for bits in (80, 160, 320, 640, 1280):
        with flint.ctx.workprec(bits):
            half, at = flint.arb(size) / 2, flint.arb(variance) * size / 2
            above = at.gamma_upper(half, regularized=1)
            # The lower incomplete gamma function's series does not converge for many degrees.
            small = [above] if above < 0.5 else [1 - above, at.gamma_lower(half, regularized=1)]
            for tail in small:
                if tail > 0 and tail.rel_accuracy_bits() > ACCURATE_BITS:
                    return math.log(4) + float(tail.log().mid())
    return -math.inf


def _variance_bound(variance: float, size: int, among: int) -> float:
    """Chernoff: E exp(t z^2) = (1 - 2 t)^(-1/2), at its best t, for either tail."""
    if variance <= 0:
        return -math.inf
    return math.log(4) - size / 2 * (variance - 1 - math.log(variance))


def _variance_of_some(variance: float, size: int, among: int) -> float:
    shape, half, squares = SCALE_SHAPE, size / 2, variance * size
    evidence = shape * math.log(shape) - math.lgamma(shape) + math.lgamma(shape + half)
    evidence += squares / 2
    return (shape + half) * math.log(shape + squares / 2) - evidence + math.log(2)


def _shape(distance: float, size: int, among: int) -> float:
    return math.log(4 * among) - 2 * size * distance**2


AMONG = ("shape", "slope", "binomial")  # checks whose error is divided among statistics
LAWS: dict[str, Callable[[float, int, int], float]] = {
    "range": _range,
    "mean": _mean,
    "mean of some": _mean_of_some,
    "variance": _variance,
    "variance bound": _variance_bound,
    "variance of some": _variance_of_some,
    "shape": _shape,
    "repeats": _repeats,
    "evidence": lambda seen, size, among: -seen,
}
BY_PARAMETER: dict[str, Callable[[float, int, int, float], float]] = {
    "slope": _slope,
    "binomial": _binomial,
}

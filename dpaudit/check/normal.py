"""The pair N(0, 1) against N(mu, 1), in Arb."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.exact import enclose, working_precision

TWO = Fraction(2)


def normal_cdf(x: Any) -> Any:
    """Ball around the standard normal distribution function."""
    return (-x / enclose(TWO).sqrt()).erfc() / 2


def quantile(p: Any) -> Any:
    """Ball around the standard normal quantile of a ball in (0, 1)."""
    return enclose(TWO).sqrt() * (2 * p - 1).erfinv()


def gaussian_delta(epsilon: Fraction, mu: Any) -> Any:
    """Ball around the privacy profile of N(0, 1) against N(mu, 1), mu > 0 a ball or a fraction."""
    with working_precision():
        e = enclose(epsilon)
        m = enclose(mu) if isinstance(mu, Fraction) else mu
        return normal_cdf(m / 2 - e / m) - e.exp() * normal_cdf(-m / 2 - e / m)

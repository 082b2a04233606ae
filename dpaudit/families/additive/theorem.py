"""Gaussian and Laplace noise, stated a second time."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import Table, Theorem, always, of_mu, pure_to_gdp, reached, register
from dpaudit.exact import exp, log
from dpaudit.pairs import LaplaceShift, Normal


def _laplace_renyi(scale: Any) -> Callable[[Any], Any]:
    def curve(a: Any) -> Any:
        share = a / (2 * a - 1)
        return log(share * exp((a - 1) / scale) + (1 - share) * exp(-a / scale)) / (a - 1)

    return curve


LEAVES: Table = {
    ("pure", "Laplace"): Theorem("laplace", lambda n: 1 / n.noise_multiplier, attained=always),
    ("approx", "Laplace"): Theorem("laplace", lambda n: (1 / n.noise_multiplier, Fraction(0))),
    **of_mu("Gaussian", ("gaussian",) * 3, lambda n: 1 / n.noise_multiplier, always),
    ("zcdp", "Laplace"): Theorem("laplace", lambda n: 1 / (2 * n.noise_multiplier**2)),
    ("gdp", "Laplace"): Theorem("laplace", lambda n: pure_to_gdp(1 / n.noise_multiplier)),
    ("rdp", "Laplace"): Theorem(
        "laplace", lambda n: _laplace_renyi(n.noise_multiplier), attained=always
    ),
    ("profile", "Gaussian"): Theorem("gaussian", lambda n: reached(Normal(1 / n.noise_multiplier))),
    ("profile", "Laplace"): Theorem(
        "laplace", lambda n: reached(LaplaceShift(1 / n.noise_multiplier))
    ),
}

register(LEAVES)

"""Gaussian and Laplace noise, and what somebody else proved."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import RENYI_SYMBOL, Table, Theorem, always, register
from dpaudit.exact import canonical, erfinv, exp, is_symbolic, log, sqrt, sympify, tanh


def _corner(epsilon: Any) -> Any:
    return sqrt(8) * erfinv(tanh(epsilon / 2))


def at_order(curve: Any, order: Any) -> Any:
    """A declared curve at one order."""
    import sympy

    if not is_symbolic(curve):
        return curve
    symbol = sympy.Symbol(RENYI_SYMBOL, positive=True)
    return canonical(curve.subs(symbol, sympify(order)))


def _laplace_renyi(scale: Any) -> Callable[[Any], Any]:
    def curve(a: Any) -> Any:
        share = a / (2 * a - 1)
        return log(share * exp((a - 1) / scale) + (1 - share) * exp(-a / scale)) / (a - 1)

    return curve


LEAVES: Table = {
    ("pure", "Laplace"): Theorem("laplace", lambda n: 1 / n.noise_multiplier, attained=always),
    ("pure", "PureDP"): Theorem("opaque", lambda n: n.epsilon),
    ("approx", "ApproxDP"): Theorem("opaque", lambda n: (n.epsilon, n.delta)),
    ("approx", "PureDP"): Theorem("opaque_pure", lambda n: (n.epsilon, Fraction(0))),
    ("approx", "Laplace"): Theorem("laplace", lambda n: (1 / n.noise_multiplier, Fraction(0))),
    ("zcdp", "Gaussian"): Theorem(
        "gaussian", lambda n: 1 / (2 * n.noise_multiplier**2), attained=always
    ),
    ("zcdp", "Laplace"): Theorem("laplace", lambda n: 1 / (2 * n.noise_multiplier**2)),
    ("zcdp", "PureDP"): Theorem("from_pure", lambda n: n.epsilon**2 / 2),
    ("zcdp", "GDP"): Theorem("from_gdp", lambda n: n.mu**2 / 2),
    ("zcdp", "ZCDP"): Theorem("opaque", lambda n: n.rho),
    ("gdp", "Gaussian"): Theorem("gaussian", lambda n: 1 / n.noise_multiplier, attained=always),
    ("gdp", "Laplace"): Theorem("laplace", lambda n: _corner(1 / n.noise_multiplier)),
    ("gdp", "PureDP"): Theorem("from_pure", lambda n: _corner(n.epsilon)),
    ("gdp", "GDP"): Theorem("opaque", lambda n: n.mu),
    ("rdp", "Gaussian"): Theorem(
        "gaussian", lambda n: lambda a: a / (2 * n.noise_multiplier**2), attained=always
    ),
    ("rdp", "Laplace"): Theorem(
        "laplace", lambda n: _laplace_renyi(n.noise_multiplier), attained=always
    ),
    ("rdp", "PureDP"): Theorem("from_pure", lambda n: lambda a: a * n.epsilon**2 / 2),
    ("rdp", "GDP"): Theorem("from_gdp", lambda n: lambda a: a * n.mu**2 / 2),
    ("rdp", "RenyiCurve"): Theorem("opaque_curve", lambda n: lambda a: at_order(n.curve, a)),
    ("rdp", "ZCDP"): Theorem("opaque", lambda n: lambda a: a * n.rho),
}

register(LEAVES)

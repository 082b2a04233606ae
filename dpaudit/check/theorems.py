"""The theorems, stated a second time: what each rule concludes from its node and premises.

Sources are those the accountant cites for the rules of the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.arithmetic import (
    enclose,
    erfinv,
    exp,
    infinity,
    log,
    maximum,
    settled,
    sqrt,
    tanh,
    total,
    total_over,
    working_precision,
)
from dpaudit.nodes import Node

CALCULI = ("gdp", "pure", "approx", "rdp", "zcdp")


def _corner(epsilon: Any) -> Any:
    return sqrt(8) * erfinv(tanh(epsilon / 2))


def _laplace_renyi(scale: Any) -> Callable[[Any], Any]:
    def curve(a: Any) -> Any:
        share = a / (2 * a - 1)
        return log(share * exp((a - 1) / scale) + (1 - share) * exp(-a / scale)) / (a - 1)

    return curve


# (calculus, node type): the rule's name and its bound.
LEAVES: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("pure", "Laplace"): ("laplace", lambda n: 1 / n.noise_multiplier),
    ("pure", "PureDP"): ("opaque", lambda n: n.epsilon),
    ("approx", "ApproxDP"): ("opaque", lambda n: (n.epsilon, n.delta)),
    ("approx", "PureDP"): ("opaque_pure", lambda n: (n.epsilon, Fraction(0))),
    ("approx", "Laplace"): ("laplace", lambda n: (1 / n.noise_multiplier, Fraction(0))),
    ("zcdp", "Gaussian"): ("gaussian", lambda n: 1 / (2 * n.noise_multiplier**2)),
    ("zcdp", "Laplace"): ("laplace", lambda n: 1 / (2 * n.noise_multiplier**2)),
    ("zcdp", "PureDP"): ("from_pure", lambda n: n.epsilon**2 / 2),
    ("zcdp", "GDP"): ("from_gdp", lambda n: n.mu**2 / 2),
    ("zcdp", "ZCDP"): ("opaque", lambda n: n.rho),
    ("gdp", "Gaussian"): ("gaussian", lambda n: 1 / n.noise_multiplier),
    ("gdp", "Laplace"): ("laplace", lambda n: _corner(1 / n.noise_multiplier)),
    ("gdp", "PureDP"): ("from_pure", lambda n: _corner(n.epsilon)),
    ("gdp", "GDP"): ("opaque", lambda n: n.mu),
    ("rdp", "Gaussian"): ("gaussian", lambda n: lambda a: a / (2 * n.noise_multiplier**2)),
    ("rdp", "Laplace"): ("laplace", lambda n: _laplace_renyi(n.noise_multiplier)),
    ("rdp", "PureDP"): ("from_pure", lambda n: lambda a: a * n.epsilon**2 / 2),
    ("rdp", "GDP"): ("from_gdp", lambda n: lambda a: a * n.mu**2 / 2),
    ("rdp", "ZCDP"): ("opaque", lambda n: lambda a: a * n.rho),
}
ATTAINED = {
    ("pure", "Laplace"),
    ("zcdp", "Gaussian"),
    ("gdp", "Gaussian"),
    ("rdp", "Gaussian"),
    ("rdp", "Laplace"),
}
STRUCTURE = {
    "Compose": "composition",
    "Repeat": "repetition",
    "Parallel": "disjoint",
    "Assuming": "unchanged",
    "NonPrivate": "no_guarantee",
}
SAMPLED = {
    "PoissonSampled": ("poisson_sampled", "add_remove"),
    "SampledWithoutReplacement": ("sampled_without_replacement", "replace_one"),
}
RENYI_SYMBOL = "alpha"


def rule_name(calculus: str, node: Node, adjacency: str) -> str | None:
    """The rule for a node under an adjacency; None where no theorem here covers it."""
    kind = type(node).__name__
    if calculus not in CALCULI or (calculus == "rdp" and _names(node, RENYI_SYMBOL)):
        return None
    if (calculus, kind) in LEAVES:
        return f"{calculus}.{LEAVES[calculus, kind][0]}"
    if kind in SAMPLED and calculus == "pure" and SAMPLED[kind][1] == adjacency:
        return f"pure.{SAMPLED[kind][0]}"
    return f"{calculus}.{STRUCTURE[kind]}" if kind in STRUCTURE else None


def _names(node: Node, symbol: str) -> bool:
    found = (getattr(value, "free_symbols", ()) for value in node.parameters.values())
    return any(s.name == symbol for symbols in found for s in symbols)


def bound(calculus: str, node: Any, premises: list[Any]) -> Any:
    """An upper bound of the node: exact, a function of the order (rdp), or a pair (approx)."""
    kind = type(node).__name__
    if (calculus, kind) in LEAVES:
        return _lifted(calculus, _first, [LEAVES[calculus, kind][1](node)])
    if kind == "NonPrivate":
        unbounded: dict[str, Any] = {
            "approx": (infinity(), Fraction(1)),
            "rdp": lambda a: infinity(),
        }
        return unbounded.get(calculus, infinity())
    if kind in SAMPLED:
        share = node.rate if kind == "PoissonSampled" else node.batch_size / node.population
        return settled(log(1 + share * (exp(premises[0]) - 1)))
    return _lifted(calculus, _combination(calculus, node), premises)


def _first(values: list[Any]) -> Any:
    return values[0]


def _combination(calculus: str, node: Any) -> Callable[[list[Any]], Any]:
    kind = type(node).__name__
    if kind == "Repeat" and calculus == "gdp":
        return lambda values: sqrt(total_over(values[0] ** 2, node.index, node.times))
    if kind == "Repeat":
        return lambda values: total_over(values[0], node.index, node.times)
    if kind == "Compose" and calculus == "gdp":
        return lambda values: sqrt(total(v**2 for v in values))
    return {"Compose": total, "Parallel": maximum, "Assuming": _first}[kind]


def _lifted(calculus: str, combine: Callable[[list[Any]], Any], premises: list[Any]) -> Any:
    """One formula on numbers, on both numbers of a pair, or at every order of a curve."""
    if calculus == "approx":
        return tuple(settled(combine([p[i] for p in premises])) for i in (0, 1))
    if calculus == "rdp":
        return lambda a: settled(combine([p(a) for p in premises]))
    return settled(combine(premises))


# --- the Gaussian pair ---------------------------------------------------------------------------


def normal_cdf(x: Any) -> Any:
    """Ball around the standard normal distribution function."""
    return (-x / enclose(sqrt(2))).erfc() / 2


def quantile(p: Any) -> Any:
    """Ball around the standard normal quantile of a ball in (0, 1)."""
    return enclose(sqrt(2)) * (2 * p - 1).erfinv()


def gaussian_delta(epsilon: Fraction, mu: Any) -> Any:
    """Ball around the privacy profile of N(0, 1) against N(mu, 1), mu > 0 a ball or a fraction."""
    with working_precision():
        e = enclose(epsilon)
        m = enclose(mu) if isinstance(mu, Fraction) else mu
        return normal_cdf(m / 2 - e / m) - e.exp() * normal_cdf(-m / 2 - e / m)

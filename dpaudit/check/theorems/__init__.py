"""The theorems, stated a second time: what each rule concludes from its node and premises.

Sources are those the accountant cites for the rules of the same names.  One file a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.arithmetic import settled
from dpaudit.check.theorems.adaptive import ADAPTIVE
from dpaudit.check.theorems.core import RENYI_SYMBOL, Premise, Table
from dpaudit.check.theorems.correlated import CORRELATED
from dpaudit.check.theorems.discrete import DISCRETE
from dpaudit.check.theorems.events import EVENTS
from dpaudit.check.theorems.groups import GROUPS
from dpaudit.check.theorems.leaves import LEAVES
from dpaudit.check.theorems.normal import gaussian_delta, normal_cdf, quantile
from dpaudit.check.theorems.profile import PROFILE
from dpaudit.check.theorems.profile_sampling import PROFILE_SAMPLING
from dpaudit.check.theorems.sampling import SAMPLING
from dpaudit.check.theorems.selection import SELECTION
from dpaudit.check.theorems.stability import STABILITY
from dpaudit.check.theorems.structure import CALCULI, STRUCTURE
from dpaudit.check.theorems.tabular import TABULAR
from dpaudit.nodes import Node

__all__ = [
    "CALCULI",
    "RENYI_SYMBOL",
    "attained",
    "bound",
    "gaussian_delta",
    "normal_cdf",
    "quantile",
    "rule_name",
]

THEOREMS: Table = {
    **STRUCTURE,
    **LEAVES,
    **SAMPLING,
    **PROFILE,
    **PROFILE_SAMPLING,
    **CORRELATED,
    **EVENTS,
    **GROUPS,
    **ADAPTIVE,
    **STABILITY,
    **DISCRETE,
    **SELECTION,
    **TABULAR,
}


def rule_name(calculus: str, node: Node, adjacency: str) -> str | None:
    """The rule for a node under an adjacency; None where no theorem here covers it."""
    theorem = THEOREMS.get((calculus, type(node).__name__))
    if theorem is None or adjacency not in theorem.adjacencies:
        return None
    if calculus == "rdp" and node.speaks_of != RENYI_SYMBOL and _names(node, RENYI_SYMBOL):
        return None
    return f"{calculus}.{theorem.name}"


def _names(node: Node, symbol: str) -> bool:
    found = (getattr(value, "free_symbols", ()) for value in node.parameters.values())
    return any(s.name == symbol for symbols in found for s in symbols)


def bound(calculus: str, node: Node, premises: Sequence[Any]) -> Any:
    """An upper bound of the node.

    Exact; a function of the order (rdp); two numbers (approx); or pairs of distributions (profile).
    """
    return _settled(THEOREMS[calculus, type(node).__name__].bound(node, *premises))


def _settled(value: Any) -> Any:
    if callable(value):
        return lambda a: settled(value(a))
    return tuple(map(settled, value)) if isinstance(value, tuple) else settled(value)


def attained(calculus: str, node: Node, premises: Sequence[Premise]) -> bool:
    """Whether some data and queries of the declared kinds reach the bound."""
    return THEOREMS[calculus, type(node).__name__].attained(node, premises)

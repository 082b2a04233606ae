"""Restated theorems, and the table of all: families register theirs on import.

Sources are those the accountant cites for the rules of the same names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from dpaudit.check.reading import require
from dpaudit.errors import CertificateRejected, DpauditError, InvalidParameter, described
from dpaudit.exact import erfinv, is_symbolic, replaced, settled, sqrt, tanh
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from dpaudit.pairs import Losses, Pair

RENYI_SYMBOL = "alpha"
# Limits on what a witness may ask of a verification.
MOST_ALTERNATIVES, MOST_POINTS = 4_096, 8_192
Row = Mapping[str, Any]
NOTHING: Row = MappingProxyType({})
EVERYWHERE = frozenset({"add_remove", "replace_one", "zero_out"})


class Premise(Protocol):
    """Facts about a premise besides its bound."""

    @property
    def attained(self) -> bool:
        """Whether some data and queries reach it."""

    @property
    def in_one_part(self) -> bool:
        """Whether one record saturates it in one part of a partition only."""


Attained = Callable[..., bool]


def never(node: Any, premises: Sequence[Premise]) -> bool:
    """No statement on whether the bound is attained."""
    return False


def always(node: Any, premises: Sequence[Premise]) -> bool:
    """Reached where all premises are."""
    return all(p.attained for p in premises)


@dataclass(frozen=True)
class Theorem:
    """``bound(node, *premises)``: exact, a function of the order (rdp), or a pair (approx).

    ``name`` and source are those of the accountant's rule.  ``reads``: it holds for any of some
    numbers, how many points or alternatives say, and the step's witness states which: then it is
    ``bound(node, witness, *premises)``, and ``attained`` has the witness last.
    ``also``: the same node's theorem under other adjacencies.
    """

    name: str
    bound: Callable[..., Any]
    adjacencies: frozenset[str] = EVERYWHERE
    attained: Attained = never
    reads: bool = False
    also: Theorem | None = None

    def under(self, adjacency: str | None) -> Theorem:
        """This theorem, or the one that holds under an adjacency."""
        theorem = self
        while theorem.also is not None and adjacency not in theorem.adjacencies:
            theorem = theorem.also
        return theorem


Table = dict[tuple[str, str], Theorem]
THEOREMS: Table = {}


def register(table: Table) -> None:
    """Add theorems by (calculus, node type).

    Errors: InvalidParameter for a second theorem of one node type in one calculus.
    """
    for calculus, node_type in table:
        if (calculus, node_type) in THEOREMS:
            raise InvalidParameter(f"the checker has a {calculus} theorem for {node_type} already")
    THEOREMS.update(table)


def added() -> dict[str, tuple[str, str]]:
    """Theorems of this process that are no family's: the module and its file, by the node's type.

    Code typed at a prompt, or run as a script, has no module that another process could load.
    """
    theorems = {}
    for (_, node_type), theorem in THEOREMS.items():
        module = getattr(theorem.bound, "__module__", "") or ""
        file = getattr(sys.modules.get(module), "__file__", None)
        if file and module != "__main__" and module.partition(".")[0] != "dpaudit":
            theorems[node_type] = (module, file)
    return theorems


def rule_name(calculus: str, node: Node, adjacency: str) -> str | None:
    """The rule for a node under an adjacency; None where no theorem here covers it."""
    load("theorem")
    listed = THEOREMS.get((calculus, type(node).__name__))
    theorem = None if listed is None else listed.under(adjacency)
    if theorem is None or adjacency not in theorem.adjacencies:
        return None
    if calculus == "rdp" and node.speaks_of != RENYI_SYMBOL and _names(node, RENYI_SYMBOL):
        return None
    return f"{calculus}.{theorem.name}"


def _names(node: Node, symbol: str) -> bool:
    symbol_sets = (getattr(value, "free_symbols", ()) for value in node.parameters.values())
    return any(s.name == symbol for symbols in symbol_sets for s in symbols)


def alternatives(witness: Row) -> int:
    """How many alternatives are distinguished, by the witness."""
    return counted(witness, "alternatives", MOST_ALTERNATIVES, MOST_ALTERNATIVES)


def counted(witness: Row, name: str, otherwise: int, most: int) -> int:
    """A whole number of a witness, from 1 to ``most``.

    Errors: CertificateRejected for anything else.
    """
    value = witness.get(name, otherwise)
    valid = type(value) is int and 1 <= value <= most
    require(valid, f"the witness's {name}: expected a whole number from 1 to {most}")
    return int(value)


def bound(
    calculus: str,
    node: Node,
    premises: Sequence[Any],
    witness: Row = NOTHING,
    adjacency: str | None = None,
) -> Any:
    """An upper bound of the node.

    Exact; a function of the order (rdp); two numbers (approx); or pairs of distributions (profile).
    ``adjacency``: needed where a node has several theorems.
    """
    load("theorem")
    kind = type(node).__name__
    theorem = THEOREMS[calculus, kind]
    theorem = theorem if adjacency is None else theorem.under(adjacency)
    values = (node, witness, *premises) if theorem.reads else (node, *premises)
    return _settled(_asked(theorem.bound, f"{calculus}.{theorem.name} of {kind}"), *values)


def _asked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A theorem, with its name added to errors that it raises.

    Errors: CertificateRejected for whatever it raises that is no refusal of its own.
    """

    def asked(*values: Any) -> Any:
        try:
            return function(*values)
        except DpauditError:
            raise
        except Exception as error:
            raise CertificateRejected(
                f"the checker's theorem {name} raised {described(error)}; mend the theorem"
            ) from error

    return asked


def _settled(function: Callable[..., Any], *values: Any) -> Any:
    result = function(*values)
    if callable(result):
        return lambda a: settled(result(a))
    return tuple(map(settled, result)) if isinstance(result, tuple) else settled(result)


def attained(
    calculus: str,
    node: Node,
    premises: Sequence[Premise],
    witness: Row = NOTHING,
    adjacency: str | None = None,
) -> bool:
    """Whether some data and queries of the declared kinds reach the bound."""
    load("theorem")
    theorem = THEOREMS[calculus, type(node).__name__]
    theorem = theorem if adjacency is None else theorem.under(adjacency)
    read = theorem.reads and theorem.attained not in (always, never)
    return theorem.attained(node, premises, witness) if read else theorem.attained(node, premises)


def lifted(calculus: str, combine: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """One formula on numbers, on both numbers of a pair, or at every order of a curve."""
    if calculus == "approx":
        return lambda node, *ps: tuple(settled(combine([p[i] for p in ps])) for i in (0, 1))
    if calculus == "rdp":
        return lambda node, *ps: lambda a: settled(combine([p(a) for p in ps]))
    return lambda node, *ps: settled(combine(list(ps)))


# --- what several families state ------------------------------------------------------------------


def of_mu(
    kind: str, names: Sequence[str], mu: Callable[[Any], Any], attained: Attained = never
) -> Table:
    """Theorems of mu-GDP in gdp, zcdp and rdp, by these names."""
    bounds = mu, lambda n: mu(n) ** 2 / 2, lambda n: lambda a: a * mu(n) ** 2 / 2
    return {
        (calculus, kind): Theorem(name, bound, attained=attained)
        for calculus, name, bound in zip(("gdp", "zcdp", "rdp"), names, bounds, strict=True)
    }


def pure_to_gdp(epsilon: Any) -> Any:
    """The smallest mu whose curve passes below the corner of the epsilon-DP curve."""
    return sqrt(8) * erfinv(tanh(epsilon / 2))


def at_order(curve: Any, order: Any) -> Any:
    """A declared curve at one order."""
    import sympy

    if not is_symbolic(curve):
        return curve
    return replaced(curve, {sympy.Symbol(RENYI_SYMBOL, positive=True): order})


def reached(pair: Pair) -> Losses:
    """The mechanism's own pair on the worst query; its noise is the same in both directions."""
    return Losses((pair,), (pair,), (pair,), (pair,))


def dominating(pair: Pair) -> Losses:
    """A pair that dominates in one direction, and its mirror image in the other."""
    return Losses((pair,), (pair.swapped,))

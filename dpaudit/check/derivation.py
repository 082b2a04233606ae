"""The derivation, step by step: each conclusion follows from its node, premises and witness."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.check.assumptions import own_assumption
from dpaudit.check.measures import MEASURES, REFUSED
from dpaudit.check.profile.conversions import Doubt, confirm_conversion
from dpaudit.check.reading import Json, decimal, require, rounded_up, value_text
from dpaudit.check.theorem import RENYI_SYMBOL, attained, bound, rule_name
from dpaudit.errors import Unsupported
from dpaudit.exact import (
    decimal_upper,
    unknowns,
)
from dpaudit.exact.wire import decode_number
from dpaudit.nodes import Node, free_unknowns, postorder

LARGEST_ORDER = 1024


@dataclass(frozen=True)
class Value:
    """A step's re-derived bound.

    ``upper``: exact, a function of the order (rdp), or a pair (approx).  ``reached``: a value that
    some data and queries reach, None where that is not known.  ``in_one_part``: one record can
    saturate it in one part of a partition only.  ``trusted``: what was not confirmed, in words;
    ``doubt``: of the upper bound, ``reached_doubted``: of what is reached.
    """

    node: Node
    calculus: str
    upper: Any
    attained: bool
    in_one_part: bool
    reached: Any
    assumes: frozenset[str]
    converted: bool = False
    trusted: tuple[str, ...] = ()
    doubt: Doubt | None = None
    reached_doubted: bool = False

    @property
    def number(self) -> Any:
        """The epsilon, rho or mu of the bound."""
        return self.upper[0] if isinstance(self.upper, tuple) else self.upper


def require_numbers(root: Node) -> None:
    """Errors: CertificateRejected for a declaration that holds an unknown no Repeat binds."""
    names = ", ".join(sorted(map(str, free_unknowns(root))))[:60]
    require(not names, f"the declaration holds symbols: {names}; numbers are certified")


def rederive(predicate: Json, root: Node) -> list[Value]:
    """Every step's value, in order.

    Errors: CertificateRejected naming the first step that does not follow.
    """
    nodes = {node.digest: node for node in postorder(root)}
    adjacency = predicate["scope"]["adjacency"]
    values: list[Value] = []
    for number, row in enumerate(predicate["derivation"]["steps"]):
        place = f"step {number} ({row['rule'][:40]})"
        require(row["id"] == number, f"{place}: steps are out of order")
        require(row["node"] in nodes, f"{place}: its node is not in the declaration")
        require(all(p < number for p in row["premises"]), f"{place}: a premise comes later")
        premises = [values[p] for p in row["premises"]]
        values.append(_step(row, nodes[row["node"]], premises, place, adjacency))
    return values


def _step(row: Json, node: Node, premises: list[Value], place: str, adjacency: str) -> Value:
    converts = row["rule"].startswith("convert.")
    if converts:
        value = _conversion(row, node, premises, place)
    else:
        value = _fold(row["rule"], row["calculus"], node, premises, place, adjacency)
    own = own_assumption(node)
    expected = [own["id"]] if own and not converts else []
    require(row["assumes"] == expected, f"{place}: its assumptions are not those of its node")
    require(row["calculus"] == value.calculus, f"{place}: its calculus is {value.calculus}")
    require(row["attained"] == value.attained, f"{place}: 'attained' does not follow")
    require(row["node_text"] == node.head, f"{place}: its text is not its node's")
    _conclusion(row, value, place)
    return value


def _fold(
    rule: str, calculus: str, node: Node, premises: list[Value], place: str, adjacency: str
) -> Value:
    require(
        [p.node.digest for p in premises] == [child.digest for child in node.children]
        and all(p.calculus == calculus and not p.converted for p in premises),
        f"{place}: premises of another node or calculus",
    )
    expected = rule_name(calculus, node, adjacency)
    require(rule == expected, f"{place}: the rule for this node under {adjacency} is {expected}")
    own = own_assumption(node)
    upper = bound(calculus, node, [p.upper for p in premises])
    is_attained = attained(calculus, node, premises)
    return Value(
        node=node,
        calculus=calculus,
        upper=upper,
        attained=is_attained,
        in_one_part=node.partitions or any(p.in_one_part for p in premises),
        reached=upper if is_attained else None,
        assumes=frozenset([own["id"]] if own else ()).union(*(p.assumes for p in premises)),
    )


def _conclusion(row: Json, value: Value, place: str) -> None:
    """The stated decimals are at least the re-derived bound, and equal to it to nine digits."""
    stated = row["conclusion"]
    measure = MEASURES[value.calculus]
    name = measure.wire_field if measure.is_number else ""
    require(stated["measure"] == measure.wire, f"{place}: its conclusion is in another measure")
    if value.calculus == "rdp":
        orders = [decimal(a) for a, _ in stated["curve"]]
        rising = orders == sorted(set(orders)) and all(1 < a <= LARGEST_ORDER for a in orders)
        require(rising, f"{place}: expected rising orders above 1")
        pairs = [(text, value.upper(Fraction(a))) for a, text in stated["curve"]]
    elif value.calculus == "approx":
        pairs = [(stated[k], v) for k, v in zip(("epsilon", "delta"), value.upper, strict=True)]
    else:
        pairs = [(stated[name], value.upper)] if name else []
    for text, exact in pairs:
        held = text == "inf" if unknowns(exact) else rounded_up(text, exact)
        require(held, f"{place}: {text} is not its bound, rounded outward")
    require(row["expression"] == _text(value), f"{place}: its expression is not its value")


def _text(value: Value) -> str:
    if value.calculus != "rdp":
        return value_text(value.upper)
    import sympy

    return value_text(value.upper(sympy.Symbol(RENYI_SYMBOL, positive=True)))


# --- conversions to (epsilon, delta) -------------------------------------------------------------


def _conversion(row: Json, node: Node, premises: list[Value], place: str) -> Value:
    require(len(premises) == 1 and premises[0].node == node, f"{place}: another node's premise")
    premise, stated, witness = premises[0], row["conclusion"], row["witness"]
    require(
        row["rule"] == f"convert.{premise.calculus}_to_approx" and not premise.converted,
        f"{place}: its premise is of another kind",
    )
    delta = decode_number(witness["delta"])
    require(not unknowns(delta), f"{place}: its delta is a symbol, not a number")
    require(stated["delta"] == decimal_upper(delta), f"{place}: its delta is not its witness's")
    found = None
    convert = MEASURES[premise.calculus].to_approx
    if convert is None:  # pairs of distributions
        found = confirm_conversion(premise.upper, delta, stated["epsilon"], witness)
        epsilon, reached = (found.epsilon, found.reached) if found else REFUSED
    else:
        epsilon, reached = convert(premise, delta, stated["epsilon"], witness)
    require(epsilon is not None, f"{place}: epsilon does not follow")
    same = reached is None or decimal(witness["epsilon_lower"]) == reached
    require(same, f"{place}: its lower epsilon does not follow")
    return Value(
        node=node,
        calculus="approx",
        upper=(epsilon, delta),
        attained=reached is not None,
        in_one_part=premise.in_one_part,
        reached=reached,
        assumes=premise.assumes,
        converted=True,
        trusted=found.trusted if found else (),
        doubt=found.doubt if found else None,
        reached_doubted=bool(found and found.reached_doubted),
    )


# --- the checker's own fold ----------------------------------------------------------------------


def own_bound(root: Node, calculus: str, adjacency: str) -> Any:
    """The bound of a declaration in one calculus; None where a node has no rule."""
    done: dict[str, Any] = {}
    for node in postorder(root):
        if rule_name(calculus, node, adjacency) is None:
            return None
        if node.digest not in done:
            try:
                done[node.digest] = bound(calculus, node, [done[c.digest] for c in node.children])
            except Unsupported:
                return None
    return done[root.digest]

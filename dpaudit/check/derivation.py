"""The derivation, step by step: each conclusion follows from its node, premises and witness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaudit.check.assumptions import own_assumption
from dpaudit.check.expressions import says_between
from dpaudit.check.invariants import require_possible
from dpaudit.check.measures import MEASURES, REFUSED
from dpaudit.check.pairs import concluded
from dpaudit.check.profile.conversions import Doubt, confirm_conversion
from dpaudit.check.reading import Json, at_least, decimal, require, rounded_up, value_text
from dpaudit.check.sizes import require_one_data_set
from dpaudit.check.theorem import RENYI_SYMBOL, attained, bound, rule_name
from dpaudit.errors import Unsupported
from dpaudit.exact import (
    decimal_upper,
    infinity,
    replaced,
    unknowns,
)
from dpaudit.exact.effort import TooMuch
from dpaudit.exact.wire import decode_number
from dpaudit.nodes import Node, free_unknowns, postorder
from dpaudit.nodes.tables import Stranger
from dpaudit.pairs import Losses

LARGEST_ORDER = 1024  # of a Renyi curve that an assumption states by points


@dataclass(frozen=True)
class Value:
    """A step's re-derived bound.

    ``upper``: exact, a function of the order (rdp), or a pair (approx).  ``reached``: a value that
    some data and queries reach, None where that is not known.  ``in_one_part``: one record can
    saturate it in one part of a partition only.  ``trusted``: what was not confirmed, in words;
    ``doubt``: of the upper bound, ``reached_doubted``: of what is reached.  ``on_trust``: it rests
    on a node for which the checker has no theorem; ``upper`` is then as stated, or None.
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
    on_trust: bool = False

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

    Errors: CertificateRejected naming the first step that does not follow, or that no mechanism
    could have.
    """
    steps, adjacency = predicate["derivation"]["steps"], predicate["scope"]["adjacency"]
    require_one_data_set(root)
    _require_stated(root, adjacency)
    nodes = {node.digest: node for node in postorder(root)}
    values: list[Value] = []
    for number, row in enumerate(steps):
        place = f"step {number} ({row['rule'][:40]})"
        require(row["id"] == number, f"{place}: steps are out of order")
        require(row["node"] in nodes, f"{place}: its node is not in the declaration")
        require(all(p < number for p in row["premises"]), f"{place}: a premise comes later")
        premises = [values[p] for p in row["premises"]]
        values.append(_step(row, nodes[row["node"]], premises, place, adjacency))
    require_possible(steps, values, root)
    return values


def _require_stated(root: Node, adjacency: str) -> None:
    """Noise over a sensitivity under some adjacencies is certified under those alone."""
    for node in postorder(root):
        under = node.parameters.get("under") if node.is_shipped else None
        valid = under is None or adjacency in str(under).split()
        require(valid, f"{node.head[:80]}: its sensitivity is one under {under}, not {adjacency}")


def _step(row: Json, node: Node, premises: list[Value], place: str, adjacency: str) -> Value:
    converts = row["rule"].startswith("convert.")
    if converts:
        value = _conversion(row, node, premises, place)
    else:
        value = _fold(row, node, premises, place, adjacency)
    own = own_assumption(node)
    expected = [own["id"]] if own and not converts else []
    require(row["assumes"] == expected, f"{place}: its assumptions are not those of its node")
    require(row["calculus"] == value.calculus, f"{place}: its calculus is {value.calculus}")
    require(row["attained"] == value.attained, f"{place}: 'attained' does not follow")
    if not isinstance(node, Stranger):
        require(row["node_text"] == node.head, f"{place}: its text is not its node's")
    return value if value.on_trust and value.upper is None else _concluded(row, value, place)


def _fold(row: Json, node: Node, premises: list[Value], place: str, adjacency: str) -> Value:
    """The value of a step by its node's theorem, from the premises' values."""
    rule, calculus = row["rule"], row["calculus"]
    # A group's (epsilon, delta) follows from one record's, however that was found.
    in_steps = calculus == "approx" and type(node).__name__ == "Group"
    require(
        [p.node.digest for p in premises] == [child.digest for child in node.children]
        and all(p.calculus == calculus and (in_steps or not p.converted) for p in premises),
        f"{place}: premises of another node or calculus",
    )
    expected = rule_name(calculus, node, adjacency)
    stranger = expected is None and not node.is_shipped
    if stranger or any(p.on_trust and p.upper is None for p in premises):
        return _on_trust(row, node, premises, place)
    require(rule == expected, f"{place}: the rule for this node under {adjacency} is {expected}")
    own = own_assumption(node)
    upper = bound(calculus, node, [p.upper for p in premises], row["witness"], adjacency)
    is_attained = attained(calculus, node, premises, row["witness"], adjacency)
    return Value(
        node=node,
        calculus=calculus,
        upper=upper,
        attained=is_attained,
        in_one_part=node.partitions or any(p.in_one_part for p in premises),
        reached=upper if is_attained else None,
        assumes=frozenset([own["id"]] if own else ()).union(*(p.assumes for p in premises)),
        on_trust=any(p.on_trust or p.doubt is not None for p in premises),
    )


def _on_trust(row: Json, node: Node, premises: list[Value], place: str) -> Value:
    """The certificate's own value, where a theorem of another project is not registered here."""
    own = own_assumption(node)
    names = ("value", "value_delta") if row["calculus"] == "approx" else ("value",)
    stated = [] if node.is_shipped else [row["witness"].get(name) for name in names]
    numbers = [decode_number(number) for number in stated if number is not None]
    upper = None if not numbers else numbers[0] if len(names) == 1 else tuple(numbers)
    name = node.row()["type"]
    untrusted = () if node.is_shipped else (f"{place}: taken on trust, no theorem for {name}",)
    return Value(
        node=node,
        calculus=row["calculus"],
        upper=upper,
        attained=row["attained"],
        in_one_part=node.partitions or any(p.in_one_part for p in premises),
        reached=upper if row["attained"] else None,
        assumes=frozenset([own["id"]] if own else ()).union(*(p.assumes for p in premises)),
        trusted=untrusted,
        on_trust=True,
    )


def _concluded(row: Json, value: Value, place: str) -> Value:
    """The value as the step states it: at least the re-derived bound, in decimals and in words.

    Decimals that are the bound's own, rounded, stand for the bound; larger ones for themselves.
    """
    stated = row["conclusion"]
    measure = MEASURES[value.calculus]
    name = measure.wire_field if measure.is_number else ""
    require(stated["measure"] == measure.wire, f"{place}: its conclusion is in another measure")
    if value.calculus == "rdp":
        return _curve(row, value, place)
    if isinstance(value.upper, Losses) and "pairs" in stated:
        dominating = concluded(stated["pairs"], value.upper)
        require(dominating is not None, f"{place}: its pairs do not dominate those of its theorem")
        value = replace(value, upper=dominating)
    if value.calculus == "approx":
        pairs = [(stated[k], v) for k, v in zip(("epsilon", "delta"), value.upper, strict=True)]
    else:
        pairs = [(stated[name], value.upper)] if name else []
    for text, exact in pairs:
        bounded = text == "inf" if unknowns(exact) else at_least(text, exact)
        require(bounded, f"{place}: {text} is not its bound, rounded outward")
    own = row["expression"] == value_text(value.upper)
    agrees = own or (pairs and all(_says(row["expression"], pairs, k) for k in (1, 2, 7)))
    require(agrees, f"{place}: its expression is not its value")
    # "inf" is also what is written for a finite number that is too large to print.
    rounded = [unknowns(exact) or text == "inf" or rounded_up(text, exact) for text, exact in pairs]
    if all(rounded):
        return value
    larger = tuple(exact if text == "inf" else decimal(text) for text, exact in pairs)
    return replace(value, upper=larger if value.calculus == "approx" else larger[0])


def _says(expression: str, pairs: list[tuple[str, Any]], k: int) -> bool:
    """Whether an expression is the bounds, with each index of a schedule at k."""
    symbols = set[Any]().union(*(unknowns(exact) for _, exact in pairs))
    bounds = [replaced(exact, dict.fromkeys(symbols, k)) for _, exact in pairs]
    texts = [
        decimal_upper(at) if unknowns(exact) else text
        for at, (text, exact) in zip(bounds, pairs, strict=True)
    ]
    return says_between(expression, bounds, texts, {str(s): Fraction(k) for s in symbols})


def _curve(row: Json, value: Value, place: str) -> Value:
    """A Renyi curve: at least the re-derived one, at every order that is stated."""
    curve = row["conclusion"]["curve"]
    orders = [decimal(a) for a, _ in curve]
    rising = orders == sorted(set(orders)) and all(1 < a <= LARGEST_ORDER for a in orders)
    require(rising, f"{place}: expected rising orders above 1")
    bounds = [value.upper(a) for a in orders]
    for (_, text), exact in zip(curve, bounds, strict=True):
        bounded = text == "inf" if unknowns(exact) else at_least(text, exact)
        require(bounded, f"{place}: {text} is not its bound, rounded outward")
    import sympy

    own = value_text(value.upper(sympy.Symbol(RENYI_SYMBOL, positive=True)))
    agrees = row["expression"] == own or (
        not any(map(unknowns, bounds))
        and all(
            says_between(row["expression"], [exact], [text], {RENYI_SYMBOL: a})
            for (_, text), a, exact in zip(curve, orders, bounds, strict=True)
        )
    )
    require(agrees, f"{place}: its expression is not its value")
    return value


# --- conversions to (epsilon, delta) -------------------------------------------------------------


def _conversion(row: Json, node: Node, premises: list[Value], place: str) -> Value:
    """The value of a step to (epsilon, delta), confirmed at its witness."""
    require(len(premises) == 1 and premises[0].node == node, f"{place}: another node's premise")
    premise, stated, witness = premises[0], row["conclusion"], row["witness"]
    require(
        row["rule"] == f"convert.{premise.calculus}_to_approx" and not premise.converted,
        f"{place}: its premise is of another kind",
    )
    delta = decode_number(witness["delta"])
    require(not unknowns(delta), f"{place}: its delta is a symbol, not a number")
    require(stated["delta"] == decimal_upper(delta), f"{place}: its delta is not its witness's")
    confirmed = None
    if premise.on_trust and premise.upper is None:
        epsilon, reached = _as_stated(stated["epsilon"], witness.get("epsilon_lower"))
    else:
        convert = MEASURES[premise.calculus].to_approx
        if convert is None:  # pairs of distributions
            confirmed = confirm_conversion(premise.upper, delta, stated["epsilon"], witness)
            epsilon, reached = (confirmed.epsilon, confirmed.reached) if confirmed else REFUSED
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
        trusted=confirmed.trusted if confirmed else (),
        doubt=confirmed.doubt if confirmed else None,
        reached_doubted=bool(confirmed and confirmed.reached_doubted),
        on_trust=premise.on_trust,
    )


def _as_stated(text: str, lower: str | None) -> Any:
    """The certificate's own number for a premise that is taken on trust."""
    epsilon = infinity() if text == "inf" else decimal(text)
    return epsilon, None if lower is None else decimal(lower)


# --- the checker's own fold ----------------------------------------------------------------------


def own_bound(root: Node, calculus: str, adjacency: str) -> Any:
    """The bound of a declaration in one calculus; None where a node has no rule."""
    done: dict[str, Any] = {}
    for node in postorder(root):
        if rule_name(calculus, node, adjacency) is None:
            return None
        if node.digest not in done:
            try:
                below = [done[c.digest] for c in node.children]
                done[node.digest] = bound(calculus, node, below, adjacency=adjacency)
            except TooMuch:
                raise
            except Unsupported:
                return None
    return done[root.digest]

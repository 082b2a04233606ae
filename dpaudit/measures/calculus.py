"""Calculi: tables from node type to rule, folded bottom-up into a derivation.

A rule is ``rule(node, *premises) -> value``; it cites its theorem, names the adjacencies it holds
for, and says whether its bound is *attained* (some data and queries of the declared kind reach it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import infinity, is_symbolic, maximum, settled, total, total_over
from dpaudit.nodes import Assumption, Node, Status, digest_each, find_path, postorder
from dpaudit.nodes.registry import load
from dpaudit.scope import Adjacency, Scope

EVERY_ADJACENCY = frozenset(Adjacency)
RuleFunction = Callable[..., Any]
Attained = Callable[[Node, tuple["Step", ...]], bool]


@dataclass(frozen=True)
class Source:
    """Where a rule is proved: authors, year, and the theorem's number."""

    authors: str
    year: int
    theorem: str

    def __post_init__(self) -> None:
        if not (self.authors and self.year and self.theorem):
            raise InvalidParameter("a Source needs authors, year and theorem")

    def __str__(self) -> str:
        return f"{self.authors} {self.year}, {self.theorem}"


@dataclass(frozen=True, eq=False)
class Rule:
    """One theorem of a calculus, applicable to one node type under some adjacencies."""

    name: str
    node_type: type[Node]
    function: RuleFunction
    cite: Source
    adjacencies: frozenset[Adjacency]
    attained: Attained


@dataclass(frozen=True)
class Step:
    """One line of a derivation: what a rule concludes about a node from its premises.

    ``value`` is exact (a Fraction, an expression, or a tuple of them) and an upper bound;
    ``attained`` says that some data and queries of the declared kinds reach it.  ``in_one_part``
    marks a bound that one record can only saturate in one part of a partition.  ``lower`` is the
    value that is reached where ``value`` was rounded outward.
    """

    calculus: str
    rule: str
    cite: Source
    node: Node
    value: Any
    attained: bool = False
    premises: tuple[Step, ...] = ()
    assumes: tuple[Assumption, ...] = ()
    in_one_part: bool = False
    witness: Mapping[str, Any] = field(default_factory=dict)
    lower: Any = None

    @property
    def reached(self) -> Any:
        """A value that some data reach (``lower`` where the bound was rounded); None if unknown."""
        return (self.value if self.lower is None else self.lower) if self.attained else None

    def walk(self) -> list[Step]:
        """This step and all below it, premises first, each once."""
        order: dict[int, Step] = {}
        stack: list[tuple[Step, bool]] = [(self, False)]
        while stack:
            step, expanded = stack.pop()
            if expanded:
                order.setdefault(id(step), step)
            elif id(step) not in order:
                stack.append((step, True))
                stack.extend((p, False) for p in reversed(step.premises))
        return list(order.values())

    def assumptions(self) -> tuple[Assumption, ...]:
        """Every assumption this conclusion rests on, each once.

        Errors: InvalidParameter for two different assumptions under one id.
        """
        found: dict[str, Assumption] = {}
        for assumption in (a for step in self.walk() for a in step.assumes):
            if found.setdefault(assumption.id, assumption) != assumption:
                raise InvalidParameter(
                    f"two different assumptions share the id {assumption.id!r}: rename one"
                )
        return tuple(found.values())


def always(node: Node, premises: tuple[Step, ...]) -> bool:
    """The rule's bound is reached by some data and queries if its premises' bounds are."""
    return all(p.attained for p in premises)


def never(node: Node, premises: tuple[Step, ...]) -> bool:
    """Nothing is claimed about reaching the bound."""
    return False


def one_record(node: Node, premises: tuple[Step, ...]) -> bool:
    """Attained if one record can saturate all premises: at most one of them sits in one part."""
    return always(node, premises) and sum(p.in_one_part for p in premises) <= 1


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Laws:
    """How a measure's values combine; the defaults are those of an additive number.

    ``combine(values)``: adaptive composition on the same records.  ``repeat(value, index, times)``:
    the same over rounds.  ``largest(values)``: disjoint parts.  ``unbounded()``: no guarantee.
    ``conditional(value)``: the same under an assumption.  ``attained``: whether composed bounds are
    reached where the premises' are.
    """

    compose: Source
    parallel: Source
    combine: Callable[[Sequence[Any]], Any] = total
    repeat: Callable[[Any, Any, Any], Any] = total_over
    largest: Callable[[Sequence[Any]], Any] = maximum
    unbounded: Callable[[], Any] = infinity
    conditional: Callable[[Any], Any] = _same
    attained: bool = True


class Calculus:
    """A named table of rules; :meth:`extended` gives a new one.

    ``laws`` give the rules of the combinators (none without); ``reserved`` names a symbol in which
    the values speak: no node may use it.
    """

    def __init__(
        self,
        name: str,
        meaning: str,
        laws: Laws | None = None,
        rules: Mapping[type[Node], Rule] | None = None,
        reserved: str = "",
    ):
        self.name = name
        self.meaning = meaning
        self.laws = laws
        self.reserved = reserved
        self._rules: dict[type[Node], Rule] = dict(rules or {})
        self._reasons: dict[type[Node], str] = {}

    def rule(
        self,
        node_type: type[Node],
        name: str,
        *,
        cite: Source,
        adjacency: Iterable[Adjacency] = EVERY_ADJACENCY,
        attained: Attained = never,
    ) -> Callable[[RuleFunction], RuleFunction]:
        """Decorator that registers ``rule(node, *premise_values) -> value``; a source is required.

        ``name`` stands in certificates as ``<calculus>.<name>``; the function's own may change.

        Errors: InvalidParameter without a source, or where the node type has a rule already.
        """
        if not isinstance(cite, Source):
            raise InvalidParameter(f"{self.name} rule for {node_type.__name__}: cite= its source")
        if node_type in self._rules:
            raise InvalidParameter(f"{self.name} already has a rule for {node_type.__name__}")

        def register(function: RuleFunction) -> RuleFunction:
            held = frozenset(adjacency)
            self._rules[node_type] = Rule(
                f"{self.name}.{name}", node_type, function, cite, held, attained
            )
            return function

        return register

    def absent(self, *node_types: type[Node], reason: str) -> None:
        """Say why this calculus has no rule for some node types.

        Errors: InvalidParameter without a reason.
        """
        if not reason:
            raise InvalidParameter(f"{self.name}: say why there is no rule")
        self._reasons.update(dict.fromkeys(node_types, reason))

    def covers(self, node_type: type[Node]) -> Rule | str | None:
        """The rule for a node type, or the reason why there is none; None where neither is said."""
        load("rules")
        return self._rules.get(node_type) or self._reasons.get(node_type)

    def of_leaf(self, leaf: Node) -> Any:
        """What the rule says of a leaf; None without one."""
        rule = self.covers(type(leaf))
        return rule.function(leaf) if isinstance(rule, Rule) else None

    def extended(self, name: str, *without: type[Node]) -> Calculus:
        """A copy under another name, without the rules of some node types."""
        load("rules")
        kept = {k: v for k, v in self._rules.items() if k not in without}
        return Calculus(name, self.meaning, self.laws, kept, self.reserved)

    def has(self, node: Node, scope: Scope) -> bool:
        """Whether there is a rule for this node under this adjacency."""
        load("rules")
        rule = self._rules.get(type(node))
        held = rule is not None and scope.adjacency in rule.adjacencies
        return held and not self._misuses(node)

    def _misuses(self, node: Node) -> bool:
        """Whether a node uses the reserved symbol, which a value could not tell from its own."""
        if not self.reserved or node.speaks_of == self.reserved:
            return False
        found = (v for v in node.parameters.values() if is_symbolic(v))
        return any(symbol.name == self.reserved for v in found for symbol in v.free_symbols)

    def supports(self, root: Node, scope: Scope) -> bool:
        """Whether every node of the tree has a rule under this adjacency."""
        return all(self.has(node, scope) for node in postorder(root))

    def fold(self, root: Node, scope: Scope) -> Step:
        """The derivation of ``root``; shared subtrees are folded once.

        Errors: Unsupported before any number is made, naming the node's path and the calculi that
        have a rule for it.
        """
        nodes = list(postorder(root))
        for node in nodes:
            if not self.has(node, scope):
                raise Unsupported(self._missing(root, node, scope))
        digest_each(nodes)
        done: dict[str, Step] = {}
        for node in nodes:
            if node.digest not in done:
                done[node.digest] = self._step(node, [done[c.digest] for c in node.children])
        return done[root.digest]

    def _missing(self, root: Node, node: Node, scope: Scope) -> str:
        others = [c.name for c in CALCULI.values() if c.has(node, scope)]
        way_out = f"use one of: {', '.join(others)}" if others else "no calculus has one"
        if type(node) in self._reasons:
            way_out = f"{self._reasons[type(node)]}; {way_out}"
        if self._misuses(node):
            way_out = f"it keeps the symbol {self.reserved} for itself: rename yours"
        return (
            f"{find_path(root, node)}: {self.name} has no rule for {type(node).__name__} "
            f"under {scope.adjacency}; {way_out}"
        )

    def _step(self, node: Node, premises: list[Step]) -> Step:
        rule, given = self._rules[type(node)], tuple(premises)
        values = [p.value for p in premises]
        return Step(
            self.name,
            rule.name,
            rule.cite,
            node,
            _settled(rule.function(node, *values)) if values else _of_leaf(rule, node),
            rule.attained(node, given),
            given,
            _assumptions_of(node),
            node.partitions or any(p.in_one_part for p in premises),
        )


@lru_cache(maxsize=4096)
def _of_leaf(rule: Rule, node: Node) -> Any:
    """What a rule says of a leaf, once for all that are equal."""
    return _settled(rule.function(node))


def _settled(value: Any) -> Any:
    return tuple(map(settled, value)) if isinstance(value, tuple) else settled(value)


def _assumptions_of(node: Node) -> tuple[Assumption, ...]:
    """What a node rests on beyond its rule: its own assumption, or somebody else's proof."""
    if isinstance(assumption := getattr(node, "assumption", None), Assumption):
        return (assumption,)
    if not hasattr(node, "source"):
        return ()
    who = node.source or "its author"
    statement = f"{node.head} holds under the declared scope, as proved by {who}"
    return (Assumption(f"opaque:{node.digest[:12]}", statement, Status.DECLARED),)


CALCULI: dict[str, Calculus] = {}


def register(calculus: Calculus) -> Calculus:
    """Add a calculus to those that error messages and routes know.

    Errors: InvalidParameter for a name that is taken.
    """
    if calculus.name in CALCULI:
        raise InvalidParameter(f"calculus {calculus.name!r} is registered already")
    CALCULI[calculus.name] = calculus
    for add in _EVERYWHERE:
        add(calculus)
    return calculus


_EVERYWHERE: list[Callable[[Calculus], None]] = []


def in_every_calculus(add: Callable[[Calculus], None]) -> Callable[[Calculus], None]:
    """Decorator: rules that follow from a calculus' laws alone, whenever it is registered."""
    for calculus in CALCULI.values():
        add(calculus)
    _EVERYWHERE.append(add)
    return add

"""Calculi: tables from node type to rule, folded bottom-up into a derivation.

A rule is ``rule(node, *premises) -> value``; it cites its theorem, names the adjacencies it holds
for, and says whether its bound is *attained* (some data and queries of the declared kind reach it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from dpaudit.errors import DpauditError, InvalidParameter, Unsupported, described
from dpaudit.exact import (
    SYMPY_ERRORS,
    Number,
    infinity,
    is_symbolic,
    maximum,
    settled,
    total,
    total_over,
)
from dpaudit.exact.arb import require_order
from dpaudit.exact.effort import spend
from dpaudit.measures.invariants import require_consistent
from dpaudit.nodes import (
    Assumption,
    Node,
    digest_each,
    find_path,
    postorder,
    require_stated,
    rests_on,
)
from dpaudit.nodes.registry import load
from dpaudit.scope import Adjacency, Scope

RULE_WORK = 200  # Units of work of one rule at one node, besides its sums, enclosures and grids.

# Relative gap up to which an upper bound is called the attained value: it was rounded outward.
TIGHT_RATIO = Fraction(1, 10**6)
EVERY_ADJACENCY = frozenset(Adjacency)
RuleFunction = Callable[..., Any]
Attained = Callable[[Node, tuple["Step", ...]], bool]
Witness = Callable[..., Mapping[str, Any]]


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
    """One theorem of a calculus, applicable to one node type under some adjacencies.

    ``witness(node, *premise_values)``: where the theorem holds for any of some numbers, which were
    chosen (how many points a curve was drawn through, say): a checker needs to know no more.
    """

    name: str
    node_type: type[Node]
    function: RuleFunction
    cite: Source
    adjacencies: frozenset[Adjacency]
    attained: Attained
    witness: Witness


@dataclass(frozen=True)
class Step:
    """One line of a derivation: what a rule concludes about a node from its premises.

    ``value`` is exact (a Fraction, an expression, or a tuple of them) and an upper bound;
    ``attained`` says that some data and queries of the declared kinds reach it.  ``in_one_part``
    marks a bound that one record can only saturate in one part of a partition.  ``lower`` is the
    value that is reached where ``value`` was rounded outward, or where less than it is known to be.
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
        by_id: dict[str, Assumption] = {}
        for assumption in (a for step in self.walk() for a in step.assumes):
            if by_id.setdefault(assumption.id, assumption) != assumption:
                raise InvalidParameter(
                    f"two different assumptions share the id {assumption.id!r}: rename one"
                )
        return tuple(by_id.values())


def always(node: Node, premises: tuple[Step, ...]) -> bool:
    """The rule's bound is reached by some data and queries if its premises' bounds are."""
    return all(p.attained for p in premises)


def never(node: Node, premises: tuple[Step, ...]) -> bool:
    """No statement on whether the bound is attained."""
    return False


def one_record(node: Node, premises: tuple[Step, ...]) -> bool:
    """Attained if one record can saturate all premises: at most one of them sits in one part."""
    return always(node, premises) and sum(p.in_one_part for p in premises) <= 1


def nothing_chosen(node: Node, *values: Any) -> Mapping[str, Any]:
    """The witness of a theorem that leaves nothing to choose."""
    return {}


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Laws:
    """How a measure's values combine; the defaults are those of an additive number.

    ``combine(values)``: adaptive composition on the same records.  ``repeat(value, index, times)``:
    the same over rounds.  ``largest(values)``: disjoint parts.  ``unbounded()``: no guarantee.
    ``conditional(value)``: the same under an assumption.  ``attained``: whether composed bounds are
    reached where the premises' are.  ``witness``: of a rule that keeps some alternatives only.
    """

    compose: Source
    parallel: Source
    combine: Callable[[Sequence[Any]], Any] = total
    repeat: Callable[[Any, Any, Any], Any] = total_over
    largest: Callable[[Sequence[Any]], Any] = maximum
    unbounded: Callable[[], Any] = infinity
    conditional: Callable[[Any], Any] = _same
    attained: bool = True
    witness: Witness = nothing_chosen


Sides = tuple[Fraction | None, Fraction]


@dataclass(frozen=True)
class Converted:
    """A conversion's result: epsilon rounded outward, a lower end where the bound is exact."""

    epsilon_upper: Number
    epsilon_lower: Fraction | None
    witness: dict[str, Any]

    def __post_init__(self) -> None:
        if self.epsilon_lower is not None:
            require_order(self.epsilon_lower, self.epsilon_upper, "a conversion's epsilon")


Conversion = Callable[[Step, Fraction, float], Converted]


@dataclass(frozen=True)
class Sums:
    """How a filter adds charges of a measure: each value to ``power``, a sum for each of ``units``.

    ``units`` () where a curve is added at each of some orders.
    ``cite``: that stopping at the budget, whatever was chosen along the way, keeps the budget.
    """

    cite: Source
    units: tuple[str, ...]
    power: int = 1


@dataclass(frozen=True)
class Running:
    """An odometer of a measure: a bound on the loss of everything so far, at every time at once.

    ``upper(sums, delta)``: the bound, from the sums so far as :class:`Sums` adds them; infinite
    where none holds.  It fails with probability at most delta over the whole run.
    ``surely``: it never fails, and takes a delta of 0 only; else delta is positive.
    ``cite``: that it may be read at any stopping time.
    """

    cite: Source
    upper: Callable[[tuple[Fraction, ...], Fraction], Number]
    surely: bool = False


@dataclass(frozen=True)
class Measure:
    """One measure of privacy: all that the rooms need to know of it.

    ``name``: of its calculus; ``meaning``: in a phrase; ``symbol``, ``latex``, ``words``: how its
    value and the measure are printed; ``wire``: its name in certificates; ``parameter``: the number
    a claim of it states, "" where it is not one number, at most ``top``;
    ``wire_field``: where a certificate writes it.
    ``laws``: how values compose.  ``rank``: the order in which routes are asked, exact and cheap
    ones first.  ``reserved``: a symbol in which values speak, which no node may use.
    ``to_approx``: a step's (epsilon, delta) at a delta, with ``to_approx_cite``; ``delta_at``: what
    is reached (None if unknown) and an upper bound of delta at an epsilon; ``tradeoff_at``: the
    false-negative rates at false-positive rates, lower bounds and what is reached from above.
    ``with_symbols``: how a claim of (epsilon, delta) that holds symbols is decided by it.
    ``region``: of a claim's node, the pairs of event probabilities it allows.  ``from_rates``: a
    lower bound on the parameter from upper bounds of a test's two error rates, of which a claim
    allows a convex region, the same with the two exchanged; None where a bound has to be counted
    at the claim's own delta.  ``sums``: how a filter adds charges, None where none is known to;
    ``running``: what these sums bound while they grow, None where no odometer is known.
    """

    name: str
    meaning: str
    symbol: str
    latex: str
    words: str
    wire: str
    laws: Laws | None
    parameter: str = ""
    top: float = math.inf
    wire_field: str = "value"
    rank: int = 100
    reserved: str = ""
    to_approx: Conversion | None = None
    to_approx_cite: Source | None = None
    delta_at: Callable[[Step, Fraction], Sides] | None = None
    tradeoff_at: Callable[[Step, Sequence[Fraction]], list[tuple[Fraction, Fraction]]] | None = None
    with_symbols: str = ""
    region: Callable[[Any], Any] | None = None
    from_rates: Callable[[float, float], float] | None = None
    sums: Sums | None = None
    running: Running | None = None

    def __post_init__(self) -> None:
        for place in ("name", "meaning", "symbol", "words", "wire"):
            if not getattr(self, place):
                raise InvalidParameter(f"Measure.{place} is empty")
        if self.to_approx is not None and self.to_approx_cite is None:
            raise InvalidParameter(f"measure {self.name}: cite the conversion's source")
        if self.running is not None and self.sums is None:
            raise InvalidParameter(
                f"measure {self.name}: an odometer reads sums; say what they are"
            )


class Calculus:
    """A measure's table of rules; :meth:`extended` gives a new one."""

    def __init__(self, measure: Measure, rules: Mapping[type[Node], Rule] | None = None):
        self.measure = measure
        self.name = measure.name
        self.meaning = measure.meaning
        self.laws = measure.laws
        self.reserved = measure.reserved
        self._rules: dict[type[Node], Rule] = dict(rules or {})
        self._others: dict[type[Node], tuple[Rule, ...]] = {}
        self._reasons: dict[type[Node], str] = {}

    def rule(
        self,
        node_type: type[Node] | tuple[type[Node], ...],
        name: str,
        *,
        cite: Source,
        adjacency: Iterable[Adjacency] = EVERY_ADJACENCY,
        attained: Attained = never,
        witness: Witness = nothing_chosen,
    ) -> Callable[[RuleFunction], RuleFunction]:
        """Decorator that registers ``rule(node, *premise_values) -> value``; a source is required.

        ``node_type``: one, or several that share the rule.
        ``name`` stands in certificates as ``<calculus>.<name>``; the function's own may change.

        Errors: InvalidParameter without a source, or where the node type has a rule already under
        one of these adjacencies.
        """
        kinds = node_type if isinstance(node_type, tuple) else (node_type,)
        held = frozenset(adjacency)
        for kind in kinds:
            if not isinstance(cite, Source):
                raise InvalidParameter(f"{self.name} rule for {kind.__name__}: cite= its source")
            if any(held & other.adjacencies for other in self.rules_for(kind)):
                raise InvalidParameter(f"{self.name} already has a rule for {kind.__name__}")

        def register(function: RuleFunction) -> RuleFunction:
            for kind in kinds:
                new = Rule(f"{self.name}.{name}", kind, function, cite, held, attained, witness)
                if kind in self._rules:
                    self._others[kind] = (*self._others.get(kind, ()), new)
                else:
                    self._rules[kind] = new
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

    def rules_for(self, node_type: type[Node]) -> tuple[Rule, ...]:
        """A node type's rules, each under adjacencies of its own."""
        first = self._rules.get(node_type)
        return () if first is None else (first, *self._others.get(node_type, ()))

    def _rule(self, node_type: type[Node], adjacency: Adjacency) -> Rule | None:
        return next((r for r in self.rules_for(node_type) if adjacency in r.adjacencies), None)

    def of_leaf(self, leaf: Node) -> Any:
        """The value that the rule gives a leaf; None without a rule."""
        rule = self.covers(type(leaf))
        return rule.function(leaf) if isinstance(rule, Rule) else None

    def extended(self, name: str, *without: type[Node]) -> Calculus:
        """A copy under another name, without the rules of some node types."""
        load("rules")
        rules = {k: v for k, v in self._rules.items() if k not in without}
        copy = Calculus(replace(self.measure, name=name), rules)
        copy._others = {k: v for k, v in self._others.items() if k not in without}
        return copy

    def has(self, node: Node, scope: Scope) -> bool:
        """Whether there is a rule for this node under this adjacency."""
        load("rules")
        held = self._rule(type(node), scope.adjacency) is not None
        return held and not self._misuses(node)

    def _misuses(self, node: Node) -> bool:
        """Whether a node uses the reserved symbol, which a value could not tell from its own."""
        if not self.reserved or node.speaks_of == self.reserved:
            return False
        symbolic = (v for v in node.parameters.values() if is_symbolic(v))
        return any(symbol.name == self.reserved for v in symbolic for symbol in v.free_symbols)

    def supports(self, root: Node, scope: Scope) -> bool:
        """Whether every node of the tree has a rule under this adjacency."""
        return all(self.has(node, scope) for node in postorder(root))

    def fold(self, root: Node, scope: Scope) -> Step:
        """The derivation of ``root``; shared subtrees are folded once.

        Errors: Unsupported before any number is made, naming the node's path and the calculi that
        have a rule for it; InvalidParameter for noise that is stated under another adjacency;
        InternalError for a bound that no mechanism has.
        """
        require_stated(root, scope.adjacency)
        nodes = list(postorder(root))
        for node in nodes:
            if not self.has(node, scope):
                raise Unsupported(self._missing(root, node, scope))
        digest_each(nodes)
        done: dict[str, Step] = {}
        for node in nodes:
            if node.digest not in done:
                spend(RULE_WORK, "a declaration of so many nodes")
                below = [done[c.digest] for c in node.children]
                done[node.digest] = self.concluded(node, below, scope.adjacency)
        require_consistent(done[root.digest])
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

    def concluded(
        self, node: Node, premises: list[Step], adjacency: Adjacency | None = None
    ) -> Step:
        """The step that the rule of a node concludes from its children's steps.

        ``adjacency``: needed of node types with several rules.
        """
        own = self._rule(type(node), adjacency) if adjacency else None
        rule, given = own or self._rules[type(node)], tuple(premises)
        values = [p.value for p in premises]
        return Step(
            self.name,
            rule.name,
            rule.cite,
            node,
            _concluded(rule, node, *values) if values else _of_leaf(rule, node),
            rule.attained(node, given),
            given,
            () if (assumed := rests_on(node)) is None else (assumed,),
            node.partitions or any(p.in_one_part for p in premises),
            rule.witness(node, *values),
        )


@lru_cache(maxsize=4096)
def _of_leaf(rule: Rule, node: Node) -> Any:
    """The value that a rule gives a leaf, computed once for equal leaves."""
    return _concluded(rule, node)


def _concluded(rule: Rule, node: Node, *values: Any) -> Any:
    """The value of a rule; if SymPy fails in a shipped rule, other calculi are asked.

    Errors: Unsupported; whatever a rule of somebody else's raises.
    """
    try:
        return _settled(rule.function(node, *values))
    except SYMPY_ERRORS as error:
        own = rule.function.__module__.startswith("dpaudit.")
        if isinstance(error, DpauditError) or not own:
            raise
        raise Unsupported(
            f"{node.head}: {rule.name} cannot compute with these numbers ({described(error)})"
        ) from error


def _settled(value: Any) -> Any:
    return tuple(map(settled, value)) if isinstance(value, tuple) else settled(value)


CALCULI: dict[str, Calculus] = {}


def register(calculus: Calculus) -> Calculus:
    """Add a calculus to those that are asked, named and printed everywhere.

    Errors: InvalidParameter for a name that is taken, in the accountant or in certificates, or a
    measure without composition laws or without a conversion to (epsilon, delta).
    """
    measure = calculus.measure
    if calculus.name in CALCULI:
        raise InvalidParameter(f"calculus {calculus.name!r} is registered already")
    if any(measure.wire == other.measure.wire for other in CALCULI.values()):
        raise InvalidParameter(f"measure {measure.name}: {measure.wire!r} is taken on the wire")
    if measure.laws is None:
        raise InvalidParameter(f"measure {measure.name}: give its laws of composition")
    if measure.to_approx is None:
        raise InvalidParameter(f"measure {measure.name}: give its conversion to (epsilon, delta)")
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


def measures() -> list[Measure]:
    """Every registered measure, in the order in which routes are asked."""
    return sorted((c.measure for c in CALCULI.values()), key=lambda measure: measure.rank)


def measure_of(guarantee: Node) -> Measure | None:
    """The measure in which a node states a guarantee; None for one that states none."""
    calculus = CALCULI.get(guarantee.states_in)
    return calculus.measure if calculus else None


def of_rates(guarantee: Node) -> Callable[[float, float], float]:
    """The bound that a guarantee's measure draws from a test's two error rates.

    Errors: InvalidParameter for a measure that has none.
    """
    measure = measure_of(guarantee)
    if measure is None or measure.from_rates is None:
        raise InvalidParameter(f"{guarantee.name}: its measure has no lower bound from error rates")
    return measure.from_rates


@cache
def order() -> Any:
    """The symbol ``alpha`` (positive) in which Renyi values speak; no node may use it."""
    import sympy

    return sympy.Symbol("alpha", positive=True)

"""The base of every node: an immutable value with a content digest, bindable and writable.

A leaf carries *normalised* noise: scale divided by the sensitivity of its query under the declared
adjacency.  A node knows local facts only; what it guarantees is decided by a calculus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache, cached_property
from html import escape
from itertools import islice
from reprlib import repr as short
from typing import Any, ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import exact, is_symbolic, readable, replaced, unknowns, wire
from dpaudit.exact.domains import SHOWN_CHARACTERS, Span, Spans, checked, for_each, text
from dpaudit.nodes.records import Counts, Records, Sees, reaching
from dpaudit.scope import Adjacency, choose, shown

SHOWN_DEPTH = 40  # Levels of a declaration that are written out.


class Status(StrEnum):
    """How far an assumption is secured."""

    ENFORCED = "enforced"
    TESTED = "tested"
    DECLARED = "declared"
    VIOLATED = "violated"


@dataclass(frozen=True)
class Assumption:
    """A statement on which a guarantee rests, and how far it is secured.

    >>> import dpaudit as dp
    >>> dp.Assumption("public_bound", "the bound is public", "declared").status
    <Status.DECLARED: 'declared'>
    """

    id: str
    statement: str
    status: Status
    evidence: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "statement", "evidence"):
            text(getattr(self, name), f"Assumption.{name}")
        if not (self.id and self.statement):
            raise InvalidParameter("an Assumption needs an id and a statement")
        object.__setattr__(self, "status", choose(Status, self.status, "Assumption.status"))

    def row(self) -> dict[str, str]:
        """As JSON."""
        return {f.name: str(getattr(self, f.name)) for f in fields(self)}


def holds_node(field: Any) -> bool:
    """Whether a field is annotated as a child: ``Node``, or ``nodes.Node`` by any path."""
    named = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
    return str(named).rpartition(".")[2] == "Node"


class Node:
    """A declaration: an immutable tree, equal to another if their content digests are equal.

    >>> import dpaudit as dp
    >>> isinstance(dp.Laplace("count", 1), dp.Node)
    True
    """

    types: ClassVar[dict[str, type[Node]]] = {}
    speaks_of: ClassVar[str] = ""
    states_in: ClassVar[str] = ""  # the measure in which it states a guarantee, if it does
    counts: ClassVar[Counts] = Counts()  # which parameters count records, and what children see
    hidden_by: ClassVar[str] = ""  # who, between the records and an observer, has to keep a secret

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        other = Node.types.get(cls.__name__)
        # A notebook's cell or a module that is loaded anew may define its own type again.
        if other is not None and other.__module__ != cls.__module__:
            raise InvalidParameter(
                f"node type {cls.__name__} exists already, in {other.__module__}: choose another "
                f"name for that of {cls.__module__}"
            )
        Node.types[cls.__name__] = cls

    def __post_init__(self) -> None:
        for f in self._fields():
            value = getattr(self, f.name)
            if value is None and f.default is None:
                continue
            if f.metadata.get("kind") == "number":
                place = f"{self.name}.{f.name}"
                with for_each(self._spoken(value)):
                    exact_value = checked(value, place, f.metadata["domain"])
                object.__setattr__(self, f.name, exact_value)
            elif holds_node(f) and not isinstance(value, Node):
                raise InvalidParameter(
                    f"{type(self).__name__}.{f.name} = {short(value)}: not a node"
                )
            elif f.type in ("str", str):
                text(value, f"{type(self).__name__}.{f.name}")
        _ = self.records

    @cached_property
    def records(self) -> Records:
        """How many records reach it, as it and the nodes below state; errors as ``reaching``."""
        return reaching(self)

    @property
    def partitions(self) -> bool:
        """Whether its children see disjoint parts of the records."""
        return self.counts.sees is Sees.PARTS

    def _spoken(self, value: Any) -> Spans:
        """The orders above 1, if this node's numbers are functions of the order."""
        if not (self.speaks_of and is_symbolic(value)):
            return {}
        import sympy

        return {sympy.Symbol(self.speaks_of, positive=True): Span(Fraction(1), None, whole=False)}

    def _fields(self) -> tuple[Any, ...]:
        return _fields_of(type(self))  # type: ignore[arg-type]

    @property
    def is_shipped(self) -> bool:
        """Whether its type is dpaudit's own: the checker knows those, and takes no other's word."""
        return type(self).__module__.startswith("dpaudit.")

    @property
    def name(self) -> str:
        """Type and label: ``Gaussian('gradient')``."""
        label = getattr(self, "label", "")
        return type(self).__name__ + (f"({label!r})" if label else "")

    @property
    def children(self) -> tuple[Node, ...]:
        """Direct premises, in order."""
        return tuple(v for f in self._fields() if isinstance(v := getattr(self, f.name), Node))

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything but the children, by name."""
        values = {f.name: getattr(self, f.name) for f in self._fields()}
        return {k: v for k, v in values.items() if not isinstance(v, Node) and k != "nodes"}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical content, made from the children's digests."""
        children_known = all("digest" in child.__dict__ for child in self.children)
        digest_each((self,) if children_known else postorder(self))
        return str(self.__dict__["digest"])

    def row(self) -> dict[str, Any]:
        """One row of the wire table: type, parameters, and the children's digests."""
        parameters = {k: _encode(v) for k, v in self.parameters.items() if v is not None}
        children = [child.digest for child in self.children]
        return {"type": type(self).__name__, "parameters": parameters, "children": children}

    def with_parameters(self, **values: Any) -> Node:
        """A copy with other values of some parameters, validated.  Errors: InvalidParameter."""
        return self.rebuild({**self.parameters, **values}, list(self.children))

    def bind(self, values: Mapping[Any, Any]) -> Node:
        """A copy with symbols replaced by exact values, validated again.

        Errors: InvalidParameter for a key that is no symbol or function symbol, a value outside a
        parameter's domain, or a symbol that is the index of a Repeat in here.
        """
        done: dict[str, Node] = {}
        exacts = {k: exact(v, str(k)[:SHOWN_CHARACTERS]) for k, v in values.items()}
        if not all(is_symbolic(k) and unknowns(k) == {k} for k in exacts):
            raise InvalidParameter(f"bind({short(values)}): expected symbols as keys")
        mentioned = set[Any]().union(*(_mentioned(k, v) for k, v in exacts.items()))
        for node in postorder(self):
            if (index := getattr(node, "index", None)) in mentioned:
                raise InvalidParameter(f"bind: {index} is the index of a Repeat in here; rename it")
            parameters = {k: _substitute(v, exacts) for k, v in node.parameters.items()}
            done[node.digest] = node.rebuild(parameters, [done[c.digest] for c in node.children])
        return done[self.digest]

    def examine(self) -> None:
        """Ask anew whether the parameters are in their domains.

        They must be so for every value of the symbols that
        :func:`~dpaudit.exact.domains.for_each` binds at the moment.  Errors: InvalidParameter.
        """
        self.rebuild(self.parameters, list(self.children))

    def rebuild(self, parameters: Mapping[str, Any], children: list[Node]) -> Node:
        """A node of this type with other parameters and children."""
        remaining = iter(children)
        names = [f.name for f in self._fields()]
        return type(self)(*(parameters[n] if n in parameters else next(remaining) for n in names))

    @property
    def head(self) -> str:
        """One line that names this node, without its children."""
        shown = {k: v for k, v in self.parameters.items() if k != "label" and v not in (None, "")}
        label = getattr(self, "label", "")
        inside = [repr(label)] if label else []
        inside += [f"{k}={_show(v)}" for k, v in shown.items()]
        return f"{type(self).__name__}({', '.join(inside)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        lines = list(islice(_lines(self, 0), SHOWN_CHARACTERS + 1))
        return "\n".join(
            lines if len(lines) <= SHOWN_CHARACTERS else [*lines[:SHOWN_CHARACTERS], "..."]
        )

    def _repr_html_(self) -> str:
        return _html(self, iter(range(SHOWN_CHARACTERS)), 0)


@cache
def _fields_of(kind: type[Any]) -> tuple[Any, ...]:
    return fields(kind)


def _lines(node: Node, depth: int) -> Iterator[str]:
    yield "  " * depth + node.head
    if depth >= SHOWN_DEPTH and node.children:
        yield "  " * (depth + 1) + "..."
        return
    for child in node.children:
        yield from _lines(child, depth + 1)


def _html(node: Node, left: Iterator[int], depth: int) -> str:
    """Nested lists of at most as many nodes as ``left`` yields."""
    items = ""
    for child in node.children:
        if depth >= SHOWN_DEPTH or next(left, None) is None:
            items += "<li>...</li>"
            break
        items += f"<li>{_html(child, left, depth + 1)}</li>"
    return f"<code>{escape(node.head)}</code>" + (f"<ul>{items}</ul>" if items else "")


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_show, value))})"
    if isinstance(value, Assumption):
        return f"{value.id} ({value.status})"
    if type(value).__name__ in VALUES:
        return str(value)
    return repr(str(value)) if isinstance(value, str) else readable(value)


def postorder(root: Node) -> Iterator[Node]:
    """Every distinct node once, children first; iterative, so depth and sharing cost nothing."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))


def examine(root: Node) -> None:
    """Ask anew whether every parameter of a declaration is in its domain, as :meth:`Node.examine`.

    A Repeat asks for what is below it by itself, if that depends on its own index.
    """
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            node.examine()
            own = getattr(node, "index", None)
            asks = own is not None and any(own in free_unknowns(child) for child in node.children)
            stack.extend(() if asks else node.children)


def adjacencies(value: object, place: str) -> str | None:
    """The adjacencies of a text, in one order; None for None.  Errors: InvalidParameter."""
    if value is None:
        return None
    text(value, place)
    named = {choose(Adjacency, word, place) for word in str(value).split()}
    if not named:
        raise InvalidParameter(f"{place} = {shown(value)}: expected adjacencies, or None")
    return " ".join(sorted(named))


def stated_under(root: Node, *among: Adjacency | str) -> Node:
    """The declaration whose noise multipliers are over a sensitivity under these adjacencies.

    A node that names its adjacencies already is left unchanged.
    """
    named = adjacencies(" ".join(among), "under")
    done: dict[int, Node] = {}
    for node in postorder(root):
        own = dict(node.parameters)
        if "under" in own and own["under"] is None:
            own["under"] = named
        done[id(node)] = node.rebuild(own, [done[id(child)] for child in node.children])
    return done[id(root)]


def require_stated(root: Node, adjacency: Adjacency | str) -> None:
    """Errors: InvalidParameter for noise over a sensitivity under other adjacencies."""
    for node in postorder(root):
        under = getattr(node, "under", None)
        if under is not None and adjacency not in under.split():
            named = " or ".join(under.split())
            raise InvalidParameter(
                f"{find_path(root, node)}: its noise_multiplier is over the sensitivity under "
                f"{named}, and under {adjacency} a record may move the query further: account "
                f"for it under {named}, or declare it for {adjacency} (dp_sgd, dp_ftrl: "
                f"adjacency={str(adjacency)!r})"
            )


def hiding(root: Node) -> Node | None:
    """A node that rests on somebody's secret; where nobody is trusted (local) there is none."""
    return next((node for node in postorder(root) if node.hidden_by), None)


def rests_on(node: Node) -> Assumption | None:
    """The assumption of a node beside its rule: one of its own, or somebody else's proof.

    A declaration's author can state that something is enforced or tested, and only the software can
    know it: either counts as declared.
    """
    assumption = getattr(node, "assumption", None)
    if isinstance(assumption, Assumption):
        is_settled = assumption.status in (Status.DECLARED, Status.VIOLATED)
        return assumption if is_settled else replace(assumption, status=Status.DECLARED)
    if not hasattr(node, "source"):
        return None
    who = node.source or "its author, without a source"
    statement = f"{node.head} holds under the declared scope, as proved by {who}"
    return Assumption(f"opaque:{node.digest[:12]}", statement, Status.DECLARED)


def free_unknowns(root: Node) -> set[Any]:
    """Symbols and functions that a declaration depends on and no Repeat inside it binds."""
    return free_in_each(root)[root.digest]


def free_in_each(root: Node) -> dict[str, set[Any]]:
    """For each node of a declaration, by digest, the symbols that it and those below leave free."""
    free: dict[str, set[Any]] = {}
    for node in postorder(root):
        own = set[Any]().union(*map(_unknowns_in, node.parameters.values()))
        inside = {s for s in own if str(s) != node.speaks_of}
        inside = inside.union(*(free[child.digest] for child in node.children))
        free[node.digest] = inside - {getattr(node, "index", None)}
    return free


def _unknowns_in(value: Any) -> set[Any]:
    if isinstance(value, tuple):
        return set[Any]().union(*map(_unknowns_in, value))
    return unknowns(value)


def digest_each(nodes: Iterable[Node]) -> None:
    """Make the digests of nodes, children first, that have none yet."""
    for node in nodes:
        if "digest" not in node.__dict__:
            node.__dict__["digest"] = wire.digest(node.row())


def find_path(root: Node, wanted: Node) -> str:
    """Where a node sits: ``Compose[1].Repeat.Gaussian('difference')``."""
    stack, seen = [(root, type(root).__name__)], set[int]()
    while stack:
        node, path = stack.pop()
        if node is wanted:
            return path.rpartition(".")[0] + "." * ("." in path) + node.name
        if id(node) in seen:
            continue
        seen.add(id(node))
        many = len(node.children) > 1
        for i, child in reversed(list(enumerate(node.children))):
            stack.append((child, f"{path}{f'[{i}]' if many else ''}.{type(child).__name__}"))
    return wanted.name


class Leaf(Node):
    """A node without children.

    >>> import dpaudit as dp
    >>> dp.Laplace("count", 1).children
    ()
    """


@dataclass(frozen=True, eq=False, repr=False)
class LabelledLeaf(Leaf):
    """A leaf that has to have a label: the name of what it releases."""

    label: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.label:
            raise InvalidParameter(f"{self.name}: expected a label, the name of the release")


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Several(Node):
    """A combinator of any number of children."""

    nodes: tuple[Node, ...]

    def __init__(self, *children: Node) -> None:
        name = type(self).__name__
        if not children:
            raise InvalidParameter(f"{name}(): expected at least one node")
        for i, child in enumerate(children):
            if not isinstance(child, Node):
                raise InvalidParameter(
                    f"{name}[{i}] = {short(child)}: not a node; write {name}(node, ...), or "
                    f"{name}(*nodes) for a list of them"
                )
        object.__setattr__(self, "nodes", tuple(children))
        _ = self.records

    @property
    def children(self) -> tuple[Node, ...]:
        return self.nodes

    @property
    def parameters(self) -> dict[str, Any]:
        return super().parameters if len(self._fields()) > 1 else {}

    def rebuild(self, parameters: Mapping[str, Any], children: list[Node]) -> Node:
        return type(self)(*children)


# --- parameters on the wire, and bound ------------------------------------------------------------

VALUES: dict[str, type[Any]] = {"Assumption": Assumption}


def _encode(value: Any) -> Any:
    if isinstance(value, str):
        return {"text": str(value)}
    if type(value).__name__ in VALUES:
        inside = {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
        return {"value": type(value).__name__, "fields": inside}
    if isinstance(value, tuple):
        return {"list": [_encode(item) for item in value]}
    return {"number": wire.encode_number(value)}


def _substitute(value: Any, values: Mapping[Any, Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_substitute(item, values) for item in value)
    if not is_symbolic(value):
        return value
    from sympy.core.function import AppliedUndef

    present = (symbols_in(value) | value.atoms(AppliedUndef)) & values.keys()
    return replaced(value, {k: values[k] for k in present})


def symbols_in(value: Any) -> set[Any]:
    """Free symbols of a parameter; none of a number."""
    if isinstance(value, tuple):
        return set[Any]().union(*map(symbols_in, value))
    return set(value.free_symbols) if is_symbolic(value) else set()


def _mentioned(key: Any, value: Any) -> set[Any]:
    """Symbols that a replacement names; k in T(k) -> k + 1 is the index it stands under."""
    return {key} | symbols_in(value) if key.is_Symbol else symbols_in(value) - symbols_in(key)

"""Random declarations round trip; random and mutated tables are refused and never do harm."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.errors import InvalidParameter
from dpaudit.exact import HEADS, is_symbolic, wire
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.nodes import Assumption, Node, Status, postorder
from dpaudit.nodes.tables import from_table, to_table

x, y = sympy.symbols("x y", positive=True)
k = sympy.Symbol("k", positive=True, integer=True)
T = sympy.Function("T", positive=True, integer=True)

positives = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
    st.floats(min_value=1e-300, max_value=1e300),
    st.integers(1, 10**12),
    st.sampled_from([x, 2 * y, sympy.sqrt(x), T(k) / 3, sympy.exp(-x) * y, sympy.Max(x, y)]),
)
# All that UTF-8 encodes, as st.text() has it, which asks the codec about each of 10^6 first.
letters = st.characters(exclude_categories=["Cs"])
labels = st.text(letters, min_size=1, max_size=5)
short = st.text(letters, max_size=3)
leaves = st.one_of(
    st.builds(Gaussian, labels, positives),
    st.builds(Laplace, labels, positives),
    st.builds(PureDP, positives, label=labels, source=labels),
    st.builds(ApproxDP, positives, st.floats(0, 0.999)),
    st.builds(ZCDP, positives),
    st.builds(GDP, positives, label=labels),
    st.builds(NonPrivate, labels),
)


def _poisson(child: Node, rate: float) -> Node:
    """What draws a fixed number stays outside: how many a Poisson sample has is random."""
    sized = any(isinstance(part, SampledWithoutReplacement) for part in postorder(child))
    return child if sized else PoissonSampled(child, rate)


def _batch(child: Node, size: int, others: int) -> Node:
    """Of as many records as a sample below draws from, where all that are below say the same."""
    try:
        size = int(getattr(child, "population", size))
        return SampledWithoutReplacement(child, size, size + others)
    except InvalidParameter:
        return child


def _combined(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(children, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda nodes: Compose(*nodes)),
        several.map(lambda nodes: Parallel(*nodes)),
        st.builds(Repeat, children, st.one_of(st.integers(0, 10**9), st.just(T(k)))),
        st.builds(_poisson, children, st.floats(1e-9, 1)),
        st.builds(_batch, children, st.integers(1, 5), st.integers(5, 10**9)),
        st.builds(
            Assuming,
            children,
            st.builds(Assumption, labels, labels, st.sampled_from(Status), short),
        ),
    )


trees = st.recursive(leaves, _combined, max_leaves=6)


@settings(max_examples=60)
@given(trees)
def test_declarations_round_trip_through_json(node: Node) -> None:
    table = to_table(node)
    text = wire.canonical_bytes(table)
    found = from_table(json.loads(text))
    assert found == node
    assert repr(found) == repr(node)
    assert wire.canonical_bytes(to_table(found)) == text
    assert {n.digest for n in postorder(found)} == set(table["nodes"])


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.floats(allow_nan=True),
        st.text(letters, max_size=8),
        st.sampled_from(["1/2", "-3/1", "1/0", "Symbol", "x", "Compose", "Lambda", *HEADS]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(letters, max_size=5), inner, max_size=4),
        st.builds(lambda h, a: [h, *a], st.sampled_from(HEADS), st.lists(inner, max_size=3)),
    ),
    max_leaves=12,
)


def _read(reader: Callable[[Any], Any], table: Any) -> tuple[Any, str]:
    """What was read, or the one line that refuses it; any other exception fails the test."""
    try:
        return reader(table), ""
    except InvalidParameter as error:
        return None, str(error)


@settings(max_examples=200)
@given(json_values)
def test_any_json_is_a_number_or_refused(table: Any) -> None:
    found, refusal = _read(wire.decode_number, table)
    if refusal:
        assert len(refusal) < 400
        return
    assert isinstance(found, Fraction) or is_symbolic(found)
    assert wire.decode_number(wire.encode_number(found)) == found


@settings(max_examples=100)
@given(json_values, json_values, st.dictionaries(short, json_values, max_size=3))
def test_any_json_is_a_declaration_or_refused(root: Any, nodes: Any, rows: Any) -> None:
    for table in (root, {"root": root, "nodes": nodes}, {"root": root, "nodes": rows}):
        found, refusal = _read(from_table, table)
        assert isinstance(found, Node) != bool(refusal)
        assert "\n" not in refusal


EXAMPLE = Compose(
    Repeat(Gaussian("a", x * T(k)), 3, k),
    Assuming(Parallel(Laplace("b", 2), PureDP(1, "v", "s")), Assumption("i", "s", Status.TESTED)),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    return [path, *(p for key in keys for p in _places(value[key], (*path, key)))]


PLACES = _places(to_table(EXAMPLE))


@settings(max_examples=200)
@given(st.sampled_from(PLACES[1:]), json_values)
def test_a_table_with_one_part_replaced_is_refused_or_the_same(place: Any, part: Any) -> None:
    """No mutation of a valid table is read as another declaration under the same digest."""
    table = copy.deepcopy(to_table(EXAMPLE))
    inside = table
    for key in place[:-1]:
        inside = inside[key]
    unchanged = inside[place[-1]] == part
    inside[place[-1]] = part
    found, refusal = _read(from_table, table)
    assert not (refusal and unchanged)
    assert refusal or found == EXAMPLE

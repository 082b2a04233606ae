"""Declarations as JSON tables: read back, and refused where they were changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sympy

from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming, Compose
from dpaudit.families.opaque import PureDP
from dpaudit.nodes import Assumption, Status
from dpaudit.nodes.tables import from_table, to_table

x, y = sympy.symbols("x y", positive=True)


LIPSCHITZ = Assumption("lipschitz", "Every loss is 1-Lipschitz.", Status.DECLARED, "by its author")


LEAF = Gaussian("a", 1)


# --- the wire table ------------------------------------------------------------------------------


def _broken(change: Any) -> Any:
    table = json.loads(json.dumps(to_table(Compose(LEAF, PureDP(1, "b", "s")))))
    return change(table, table["root"], table["nodes"]) or table


def _row(**values: Any) -> Any:
    return lambda table, root, rows: rows[root].update(values)


def _leaf_row(**values: Any) -> Any:
    return lambda table, root, rows: rows[LEAF.digest].update(values)


BROKEN = {
    "no root": lambda t, root, rows: t.pop("root"),
    "another root": lambda t, root, rows: t.update(root="0" * 64),
    "unhashable root": lambda t, root, rows: t.update(root=["a"]),
    "rows as a list": lambda t, root, rows: t.update(nodes=[rows]),
    "row as text": lambda t, root, rows: rows.update({root: "Compose"}),
    "missing row": lambda t, root, rows: rows.pop(LEAF.digest) and None,
    "swapped digests": lambda t, root, rows: rows.update({"0" * 64: rows.pop(LEAF.digest)}),
    "cyclic": lambda t, root, rows: rows[LEAF.digest].update(children=[root]),
    "self": lambda t, root, rows: rows[root].update(children=[root]),
    "children as a dict": _row(children={}),
    "children missing": lambda t, root, rows: rows[root].pop("children") and None,
    "unhashable child": _row(children=[["a"]]),
    "number as a child": _row(children=[5]),
    "unknown type": _row(type="Lambda"),
    "abstract type": _row(type="Several"),
    "base type": _row(type="Node"),
    "type as a list": _row(type=["Compose"]),
    "dunder type": _row(type="__class__"),
    "extra key": _row(evil=1),
    "parameters of a combinator": _row(parameters={"nodes": {"text": "a"}}),
    "another parameter": _leaf_row(parameters={"label": {"text": "a"}, "scale": {"number": "1/1"}}),
    "missing parameter": _leaf_row(parameters={"label": {"text": "a"}}),
    "changed number": _leaf_row(
        parameters={"label": {"text": "a"}, "noise_multiplier": {"number": "2/1"}}
    ),
    "negative number": _leaf_row(
        parameters={"label": {"text": "a"}, "noise_multiplier": {"number": "-1/1"}}
    ),
    "unreduced number": _leaf_row(
        parameters={"label": {"text": "a"}, "noise_multiplier": {"number": "2/2"}}
    ),
    "number as text": _leaf_row(
        parameters={"label": {"text": "a"}, "noise_multiplier": {"text": "1"}}
    ),
    "label as a number": _leaf_row(
        parameters={"label": {"number": "1/1"}, "noise_multiplier": {"number": "1/1"}}
    ),
    "text as a list": _leaf_row(
        parameters={"label": {"text": ["a"]}, "noise_multiplier": {"number": "1/1"}}
    ),
    "value of no known type": _leaf_row(
        parameters={"label": {"value": "Path", "fields": {}}, "noise_multiplier": {"number": "1/1"}}
    ),
    "parameter of no kind": _leaf_row(parameters={"label": {}, "noise_multiplier": None}),
    "parameters as a list": _leaf_row(parameters=[]),
    "child of a leaf": lambda t, root, rows: rows[LEAF.digest].update(
        children=[d for d in rows if d not in (root, LEAF.digest)]
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_changed_table_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        from_table(_broken(BROKEN[name]))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("table", [None, 1, "x", [], {}, {"nodes": {}}, {"root": "a", "nodes": 1}])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(InvalidParameter, match="malformed declaration"):
        from_table(table)


def test_a_read_assumption_is_validated() -> None:
    node = Assuming(LEAF, LIPSCHITZ)
    table = to_table(node)
    inside = table["nodes"][node.digest]["parameters"]["assumption"]["fields"]
    for field, value in (("status", "hoped"), ("id", ""), ("unknown", "a")):
        kept = dict(inside)
        inside[field] = {"text": value}
        with pytest.raises(InvalidParameter):
            from_table(table)
        inside.clear()
        inside.update(kept)
    assert from_table(table) == node

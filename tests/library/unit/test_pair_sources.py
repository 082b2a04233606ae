"""A pair's mathematics is in its class: other rooms do not ask which class a pair has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dpaudit.pairs
from dpaudit.pairs import Pair


def classes(kind: type[Pair] = Pair) -> set[str]:
    """The names of all pairs."""
    return {kind.__name__}.union(*map(classes, kind.__subclasses__()))


PAIRS = classes() & set(dpaudit.pairs.__all__)


def questions(source: str) -> list[int]:
    """Lines on which a pair's class is asked for: isinstance, a comparison, a table by class."""
    if "pairs" not in source:
        return []
    nodes = list(ast.walk(ast.parse(source)))
    known = {
        name.asname or name.name
        for line in nodes
        if isinstance(line, ast.ImportFrom) and (line.module or "").startswith("dpaudit.pairs")
        for name in line.names
        if name.name in PAIRS
    }

    def is_pair(node: ast.expr | None) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in PAIRS and ast.unparse(node.value).endswith("pairs")
        return isinstance(node, ast.Name) and node.id in known

    return [
        part.lineno
        for node in nodes
        for part in _asked(node)
        if any(is_pair(name) for name in _alternatives(part))
    ]


def _asked(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that may name classes."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            yield node.args[1]
    elif isinstance(node, ast.Compare):
        yield from node.comparators
    elif isinstance(node, ast.Dict):
        yield from (key for key in node.keys if key is not None)
    elif isinstance(node, ast.FunctionDef):
        yield from (arg for call in node.decorator_list for arg in getattr(call, "args", ()))
    elif isinstance(node, ast.MatchClass):
        yield node.cls
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
        yield node.value


def _alternatives(part: ast.expr) -> Iterator[ast.expr]:
    """Names in a tuple, a set or a union of classes; the name itself."""
    if isinstance(part, ast.Tuple | ast.Set | ast.List):
        yield from part.elts
    elif isinstance(part, ast.BinOp):
        yield from _alternatives(part.left)
        yield from _alternatives(part.right)
    else:
        yield part


def test_no_room_but_pairs_asks_for_a_pair_s_class(checkout: Path) -> None:
    """A new question is a new method of the pair."""
    files = {
        file.relative_to(checkout / "dpaudit"): questions(file.read_text())
        for file in checkout.glob("dpaudit/**/*.py")
    }
    asked = {str(name): lines for name, lines in files.items() if lines}
    inside = {name: lines for name, lines in asked.items() if name.startswith("pairs/")}
    assert asked == inside


def test_each_way_of_asking_is_found() -> None:
    source = """
from dpaudit.pairs import Normal, Mixed as Sampled, product
isinstance(pair, Normal); isinstance(pair, (Product, Sampled)); isinstance(pair, Normal | Other)
type(pair) is Normal; {type(pair)} <= {Normal}
TABLE = {Normal: 1}
@register(Sampled)
def function(pair: Normal) -> Sampled:
    return Normal(product(pair))
"""
    assert sorted(questions(source)) == [3, 3, 3, 4, 4, 5, 6]
    assert questions(source.replace("dpaudit.pairs", "other")) == []


def test_the_checker_computes_profiles_without_the_accountant(checkout: Path) -> None:
    """It shares formulas of one line with a pair, and no grid, no sum and no search."""
    files = [
        *checkout.glob("dpaudit/check/**/*.py"),
        *checkout.glob("dpaudit/families/*/*theorem.py"),
    ]
    assert len(files) > 30
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                assert not module.startswith(("dpaudit.profiles", "dpaudit.measures")), file

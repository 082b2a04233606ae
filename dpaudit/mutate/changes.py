"""Single changes of a syntax tree: what mutation of source text consists of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Swap = Callable[[ast.AST], ast.AST]
Kind = Callable[[ast.AST], Iterator["Change"]]

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
CLIPS = ("clip", "clip_rows", "minimum", "maximum", "min", "max")


@dataclass(frozen=True)
class Change:
    """One node of a syntax tree replaced, found by its type and position."""

    name: str
    what: str
    line: int
    column: int
    kind: type[ast.AST]
    end: tuple[int, int]
    swap: Swap

    def apply(self, tree: ast.Module) -> None:
        """Make the change in a tree of the same text, in place."""
        _Apply(self).visit(tree)


class _Apply(ast.NodeTransformer):
    def __init__(self, change: Change) -> None:
        self.change = change
        self.done = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        change = self.change
        here = (type(node), getattr(node, "lineno", 0), getattr(node, "col_offset", -1))
        same_end = _end(node) == change.end
        if not self.done and here == (change.kind, change.line, change.column) and same_end:
            self.done = True
            return ast.copy_location(change.swap(node), node)
        return super().generic_visit(node)


def changes_of(tree: ast.Module, kinds: Sequence[Kind]) -> Iterator[Change]:
    """Every change of these kinds that a tree allows: ``EVERY`` kind, or ``CONTROL`` flow alone."""
    skipped = {id(inner) for node in ast.walk(tree) for inner in _fixed(node)}
    for node in ast.walk(tree):
        if id(node) not in skipped:
            for kind in kinds:
                yield from kind(node)


def _fixed(node: ast.AST) -> Iterator[ast.AST]:
    """What is not code of the run: annotations, defaults, decorators, messages of errors."""
    roots: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        every = [*arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs]
        roots = [node.returns, *node.decorator_list, *(a.annotation for a in every)]
        roots += [*arguments.defaults, *arguments.kw_defaults]
    elif isinstance(node, ast.Raise):
        roots = [node.exc]
    elif isinstance(node, ast.If) and all(isinstance(inner, ast.Raise) for inner in node.body):
        # A check of the program's own parameters: a change only refuses what is right.
        yield node
        roots = [node.test]
    elif isinstance(node, ast.AnnAssign):
        roots = [node.annotation]
    for root in roots:
        if root is not None:
            yield from ast.walk(root)


def _control(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            yield _change(node, f"{_sign(node.ops[0])}_to_{other.__name__}", _compare_by(other))
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield _change(node.test, "negated", lambda test: ast.UnaryOp(ast.Not(), test))  # type: ignore[arg-type]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for step, word in ((1, "one_more"), (-1, "one_less")):
            yield _change(node, word, _constant(node.value + step))


def _arithmetic(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        other = OPERATORS[type(node.op)]
        yield _change(node, f"{_sign(node.op)}_to_{other.__name__}", _operate_by(other))
    if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        for factor, word in ((2.0, "doubled"), (0.5, "halved")):
            yield _change(node, word, _constant(node.value * factor))
    if isinstance(node, ast.Call) and _called(node) in EXTREMES:
        yield _change(node, f"{_called(node)}_to_{EXTREMES[_called(node)]}", _call_other)
    if isinstance(node, ast.Call) and _called(node) in CLIPS and len(node.args) >= 2:
        yield _change(node, f"{_called(node)}_dropped", _first_argument)


def _change(node: ast.expr, name: str, swap: Swap) -> Change:
    text = ast.unparse(node)
    after = ast.unparse(ast.fix_missing_locations(ast.copy_location(swap(node), node)))
    return Change(
        name=name,
        what=f"`{_short(text)}` became `{_short(after)}`",
        line=node.lineno,
        column=node.col_offset,
        kind=type(node),
        end=_end(node),
        swap=swap,
    )


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0


def _compare_by(other: type[ast.cmpop]) -> Swap:
    def swap(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Compare)  # noqa: S101  (found as one)
        return ast.Compare(node.left, [other()], node.comparators)

    return swap


def _operate_by(other: type[ast.operator]) -> Swap:
    def swap(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.BinOp)  # noqa: S101  (found as one)
        return ast.BinOp(node.left, other(), node.right)

    return swap


def _constant(value: int | float) -> Swap:
    return lambda node: ast.Constant(value)


def _call_other(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)  # noqa: S101  (found as one)
    name = EXTREMES[_called(node)]
    function = node.func
    if isinstance(function, ast.Attribute):
        other: ast.expr = ast.Attribute(function.value, name, ast.Load())
    else:
        other = ast.Name(name, ast.Load())
    return ast.Call(other, node.args, node.keywords)


def _first_argument(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)  # noqa: S101  (found as one)
    return node.args[0]


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _sign(operator: ast.AST) -> str:
    return type(operator).__name__


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 48 else f"{line[:45]}..."


# Comparisons, conditions and whole numbers; and with operators, other numbers and clipping.
CONTROL: tuple[Kind, ...] = (_control,)
EVERY: tuple[Kind, ...] = (_control, _arithmetic)

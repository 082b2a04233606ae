"""Values as a certificate writes them for people: read as arithmetic, and at least a bound.

An expression may have any form: it is compared by its value, at more digits than anybody reads.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dpaudit.check.reading import decimal
from dpaudit.exact import enclose, is_infinite

BITS, DIGITS = 512, 10**30
LONGEST = 1_000
_FUNCTIONS = ("sqrt", "exp", "log", "erf", "erfinv", "tanh", "sinh", "cosh")


def says_at_least(text: str, bounds: Sequence[Any], names: Mapping[str, Fraction]) -> bool:
    """Whether a text's numbers, one for each bound, are at least the bounds.

    Written ``a``, ``a <= b`` with both at least the bound, or ``(a, b)``; ``names``: values of
    symbols.  False for what is not read: sums, functions that are not listed, infinities.
    """
    import flint

    text = text.removeprefix("<= ")
    if len(text) > LONGEST:
        return False
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    parts = body.elts if isinstance(body, ast.Tuple) else [body]
    if len(parts) != len(bounds) or any(map(is_infinite, bounds)):
        return False
    with flint.ctx.workprec(BITS):
        balls = [[_ball(one, text, names) for one in _sides(part)] for part in parts]
        known = all(value is not None and _is_sharp(value) for values in balls for value in values)
        return known and all(
            not value < enclose(bound)
            and not any(one > other for one, other in pairwise(values))  # a <= b is true
            for values, bound in zip(balls, bounds, strict=True)
            for value in values
        )


def _sides(part: Any) -> list[Any]:
    if isinstance(part, ast.Compare) and all(isinstance(op, ast.LtE) for op in part.ops):
        return [part.left, *part.comparators]
    return [part]


def _is_sharp(value: Any) -> bool:
    return bool(value.is_finite() and value.rad() * DIGITS <= abs(value.mid()) + 1)


def _ball(node: Any, text: str, names: Mapping[str, Fraction]) -> Any:
    """The value of a part of an expression; None for anything that is no arithmetic."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        source = ast.get_source_segment(text, node) or ""
        return enclose(decimal(source)) if source[:1].isdigit() else None
    if isinstance(node, ast.Name):
        return enclose(names[node.id]) if node.id in names else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inside = _ball(node.operand, text, names)
        return None if inside is None else -inside
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        inside = _ball(node.args[0], text, names)
        known = node.func.id in _FUNCTIONS and not node.keywords and inside is not None
        return getattr(inside, node.func.id)() if known else None
    if isinstance(node, ast.BinOp):
        pair = _ball(node.left, text, names), _ball(node.right, text, names)
        return None if None in pair else _combined(node.op, *pair)
    return None


def _combined(operator: Any, one: Any, two: Any) -> Any:
    if isinstance(operator, ast.Add):
        return one + two
    if isinstance(operator, ast.Sub):
        return one - two
    if isinstance(operator, ast.Mult):
        return one * two
    if isinstance(operator, ast.Div):
        return one / two
    return one**two if isinstance(operator, ast.Pow) else None

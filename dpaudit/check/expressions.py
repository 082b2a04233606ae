"""Values as a certificate writes them for people: read as arithmetic, and between two bounds.

An expression may have any form: it is compared by its value, at more digits than anybody reads.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

from dpaudit.check.reading import TINY, decimal
from dpaudit.exact import enclose, is_infinite

BITS, DIGITS = 512, 10**30
ROUNDED = 1 + Fraction(1, 10**5)  # a printed number may be rounded by this factor
LONGEST = 1_000  # characters of a sentence that is read
_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?")
# Functions that a text may call.
_FUNCTIONS = ("sqrt", "exp", "log", "erf", "erfinv", "tanh", "sinh", "cosh")


def says_between(
    text: str, bounds: Sequence[Any], concluded: Sequence[str], names: Mapping[str, Fraction]
) -> bool:
    """Whether a text's numbers, one for each bound, are at least the bounds, and as concluded.

    At most what is concluded, rounded up at six digits: a text says no other number than its step.
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
    if len(parts) != len(bounds) or any(map(is_infinite, bounds)) or "inf" in concluded:
        return False
    with flint.ctx.workprec(BITS):
        balls = [[_ball(side, text, names) for side in _sides(part)] for part in parts]
        if not all(value is not None and _is_sharp(value) for values in balls for value in values):
            return False
        return all(
            not any(side > other for side, other in pairwise(values))  # a <= b is true
            and not value < enclose(bound)
            and value <= enclose(decimal(most) * ROUNDED + TINY)
            for values, bound, most in zip(balls, bounds, concluded, strict=True)
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
        return enclose(decimal(source)) if _DECIMAL.fullmatch(source) else None
    if isinstance(node, ast.Name):
        return enclose(names[node.id]) if node.id in names else _constant(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inside = _ball(node.operand, text, names)
        return None if inside is None else -inside
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        inside = [_ball(part, text, names) for part in node.args]
        return None if not inside or None in inside else _called(node.func.id, inside)
    if isinstance(node, ast.BinOp):
        pair = _ball(node.left, text, names), _ball(node.right, text, names)
        return None if None in pair else _combined(node.op, *pair)
    return None


def _called(name: str, inside: list[Any]) -> Any:
    """A function of one number, or the largest of several, as SymPy writes it."""
    if name == "Max":
        return reduce(lambda one, other: one.max(other), inside)
    return getattr(inside[0], name)() if name in _FUNCTIONS and len(inside) == 1 else None


def _constant(name: str) -> Any:
    """e and pi, as SymPy writes them."""
    import flint

    return {"E": flint.arb.const_e, "pi": flint.arb.pi}[name]() if name in ("E", "pi") else None


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

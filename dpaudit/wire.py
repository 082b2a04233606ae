"""Expressions as JSON, read back from an allow-list; canonical bytes and digests.

Nothing that is read is ever evaluated as text: an expression is a list ``[head, arguments...]``
whose head must be in a table.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

from dpaudit.arithmetic import Number, canonical, is_symbolic, sympify
from dpaudit.errors import InvalidParameter

MAXIMUM_DEPTH = 200
_ASSUMPTIONS = ("positive", "negative", "nonnegative", "nonpositive", "integer", "real", "nonzero")
_HEADS = (
    "Add Mul Pow exp log tanh erf erfinv Max Min Abs floor ceiling Sum Tuple Infinity Pi Exp1"
).split()


def canonical_bytes(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value (sorted keys, one form for each number).

    Errors: InvalidParameter for values JSON cannot hold (infinities, non-string keys).
    """
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise InvalidParameter(f"not representable as canonical JSON: {error}") from None


def digest(value: Any) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def encode_number(value: Number) -> Any:
    """A Fraction as ``"p/q"``, an expression as ``[head, arguments...]``."""
    value = canonical(value)
    if not is_symbolic(value):
        return f"{value.numerator}/{value.denominator}"
    if value.is_Symbol:
        return ["Symbol", value.name, _assumptions(value)]
    head = value.func.__name__
    if _is_function_symbol(value):
        return ["Function", head, _assumptions(value.func), *map(encode_number, value.args)]
    if head not in _HEADS:
        raise InvalidParameter(f"{value}: {head} is not in the list of expressions on the wire")
    return [head, *(encode_number(a) for a in value.args)]


def _is_function_symbol(value: Any) -> bool:
    from sympy.core.function import AppliedUndef

    return isinstance(value, AppliedUndef)


def _assumptions(symbol: Any) -> dict[str, bool]:
    known = getattr(symbol, "_assumptions_orig", None) or getattr(symbol, "_kwargs", {})
    return {k: bool(v) for k, v in sorted(known.items()) if k in _ASSUMPTIONS}


def decode_number(table: Any, depth: int = 0) -> Number:
    """The number that :func:`encode_number` wrote; anything else is refused."""
    if depth > MAXIMUM_DEPTH:
        raise InvalidParameter(f"expression nested deeper than {MAXIMUM_DEPTH}")
    if isinstance(table, str):
        return _decode_fraction(table)
    if not isinstance(table, list) or not table or not isinstance(table[0], str):
        raise InvalidParameter(f"{table!r}: expected 'p/q' or [head, arguments...]")
    head, arguments = table[0], table[1:]
    if head in ("Symbol", "Function"):
        return _decode_symbol(head, arguments, depth)
    if head not in _HEADS:
        raise InvalidParameter(f"{head!r} is not in the list of expressions on the wire")
    return _build(head, [decode_number(a, depth + 1) for a in arguments])


def _decode_fraction(text: str) -> Fraction:
    numerator, slash, denominator = text.partition("/")
    digits = numerator.removeprefix("-")
    if not (slash and digits.isdecimal() and denominator.isdecimal() and text.isascii()):
        raise InvalidParameter(f"{text[:40]!r}: expected a fraction 'p/q'")
    if len(text) > 4000 or int(denominator) == 0:
        raise InvalidParameter(f"{text[:40]!r}: not a fraction of reasonable size")
    return Fraction(int(numerator), int(denominator))


def _decode_symbol(head: str, arguments: list[Any], depth: int) -> Number:
    import sympy

    if len(arguments) < 2 or not isinstance(arguments[0], str) or len(arguments[0]) > 100:
        raise InvalidParameter(f"malformed {head} on the wire")
    name, known, *rest = arguments
    if not isinstance(known, dict) or set(known) - set(_ASSUMPTIONS):
        raise InvalidParameter(f"{name[:40]!r}: unknown assumptions about a symbol")
    known = {k: bool(v) for k, v in known.items()}
    if head == "Symbol":
        return sympy.Symbol(name, **known)
    applied = sympy.Function(name, **known)(*(sympify(decode_number(a, depth + 1)) for a in rest))
    return applied


def _build(head: str, arguments: list[Number]) -> Number:
    import sympy

    constants = {"Infinity": sympy.oo, "Pi": sympy.pi, "Exp1": sympy.E}
    if head in constants:
        return constants[head]
    try:
        return canonical(getattr(sympy, head)(*map(sympify, arguments)))
    except Exception as error:
        raise InvalidParameter(f"malformed {head} on the wire: {error}") from None

"""Expressions as JSON, read back from an allow-list; canonical bytes and digests.

Nothing that is read is ever evaluated as text: an expression is a list ``[head, arguments...]``
whose head must be in a table.
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from fractions import Fraction
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    HEADS,
    MAXIMUM_DIGITS,
    SYMPY_ERRORS,
    Number,
    canonical,
    enclose,
    head,
    is_real_expression,
    is_short,
    is_symbolic,
    maximum,
    sympify,
    unknowns,
)

MAXIMUM_DEPTH = 200  # levels of nesting of an expression
LARGEST_INTEGER = 2**53 - 1  # the largest that RFC 8785 writes: a float holds all up to it
# Facts about a symbol that are written.
_ASSUMPTIONS = ("positive", "negative", "nonnegative", "nonpositive", "integer", "real", "nonzero")
_CONSTANTS = ("Infinity", "Pi", "Exp1")  # SymPy's constants that are written
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
# The size up to which SymPy may be asked to evaluate a head at a number.
_LARGEST_ARGUMENT = {
    "Pow": 10**3,
    "exp": 10**4,
    "floor": 10**1000,
    "ceiling": 10**1000,
    "binomial": 10**3,
}
_MOST_CHOICES = 10**9  # of a binomial coefficient, before it is enclosed


def canonical_bytes(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value (sorted keys, one form for each number).

    Errors: InvalidParameter for values JSON cannot hold (infinities, non-string keys).
    """
    try:
        if _is_plain(value):
            return _ENCODER.encode(value).encode()
        return _rfc_8785(value)
    except (UnicodeEncodeError, RecursionError) as error:
        raise InvalidParameter(f"not representable as canonical JSON: {error}") from None


def _rfc_8785(value: Any) -> bytes:
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise InvalidParameter(f"not representable as canonical JSON: {error}") from None


def _is_plain(value: Any) -> bool:
    """Whether Python's own encoder writes a value as RFC 8785 does: no floats, keys in ASCII."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str or not key.isascii():
                return False
        value = value.values()
    elif kind is int:
        return bool(-LARGEST_INTEGER <= value <= LARGEST_INTEGER)
    elif kind is not list:
        return kind is str or kind is bool or value is None
    for item in value:  # noqa: SIM110  (this is asked of every node)
        if type(item) is not str and not _is_plain(item):
            return False
    return True


def digest(value: Any) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def encode_number(value: Number) -> Any:
    """A Fraction as ``"p/q"``, an expression as ``[head, arguments...]``.

    Errors: InvalidParameter for an expression or an assumption that is not in the list, or for
    numbers of absurd size.
    """
    return _encode(value, 0)


def _encode(value: Number, depth: int) -> Any:
    value = canonical(value)
    if depth > MAXIMUM_DEPTH:
        raise InvalidParameter(f"expression nested deeper than {MAXIMUM_DEPTH}")
    if not is_symbolic(value):
        if not is_short(value):
            raise InvalidParameter(f"a number of over {MAXIMUM_DIGITS} digits on the wire")
        return f"{value.numerator}/{value.denominator}"
    if value.is_Symbol:
        return ["Symbol", _name(value.name), _known(value, value.name, value.assumptions0)]
    from sympy.core.function import AppliedUndef

    if isinstance(value, AppliedUndef):
        name = _name(value.func.__name__)
        facts_held = _known(value.func, name, getattr(value.func, "_kwargs", {}))
        return ["Function", name, facts_held, *(_encode(a, depth + 1) for a in value.args)]
    if not head(value):
        raise InvalidParameter(f"{str(value)[:200]} is not in the list of expressions on the wire")
    return [head(value), *(_encode(a, depth + 1) for a in value.args)]


def _name(name: Any) -> str:
    """A symbol's name; one that could be read as a number or a formula is refused."""
    if not (isinstance(name, str) and len(name) <= 100 and name.isascii() and name.isidentifier()):
        raise InvalidParameter(
            f"{reprlib.repr(name)}: expected a name of letters, digits and _ (at most 100)"
        )
    return name


def _known(symbol: Any, name: str, facts: Any) -> dict[str, bool]:
    """Everything in the list that is known of a symbol; refused if that does not make it again."""
    import sympy

    facts_held = {fact: True for fact in _ASSUMPTIONS if facts.get(fact)}
    make = sympy.Function if isinstance(symbol, type) else sympy.Symbol
    if symbol != make(name, **facts_held):
        raise InvalidParameter(
            f"symbol {name}: its assumptions can only be some of {', '.join(_ASSUMPTIONS)}"
        )
    return facts_held


def _assumptions(stated: Any) -> dict[str, bool]:
    truths = isinstance(stated, dict) and all(isinstance(v, bool) for v in stated.values())
    if not truths or set(stated) - set(_ASSUMPTIONS):
        raise InvalidParameter(f"assumptions can only be some of {', '.join(_ASSUMPTIONS)}")
    return dict(stated)


def decode_number(table: Any) -> Number:
    """The number that :func:`encode_number` wrote; anything else is refused."""
    value = _decode(table, 0)
    if is_symbolic(value) and not (head(value) == "Infinity" or is_real_expression(value)):
        raise InvalidParameter(f"{str(value)[:40]!r}: not a real expression")
    return value


def _decode(table: Any, depth: int) -> Number:
    if depth > MAXIMUM_DEPTH:
        raise InvalidParameter(f"expression nested deeper than {MAXIMUM_DEPTH}")
    if isinstance(table, str):
        return _decode_fraction(table)
    if not isinstance(table, list) or not table or not isinstance(table[0], str):
        raise InvalidParameter(
            f"{reprlib.repr(table)[:200]}: expected 'p/q' or [head, arguments...]"
        )
    name, arguments = table[0], table[1:]
    if name in ("Symbol", "Function"):
        return _decode_symbol(name, arguments, depth)
    if name not in (*HEADS, *_CONSTANTS):
        raise InvalidParameter(f"{name[:40]!r} is not in the list of expressions on the wire")
    return _build(name, [_decode(a, depth + 1) for a in arguments])


def _decode_fraction(text: str) -> Fraction:
    numerator, slash, denominator = text.partition("/")
    digits = numerator.removeprefix("-")
    if not (slash and text.isascii() and digits.isdecimal() and denominator.isdecimal()):
        raise InvalidParameter(f"{text[:40]!r}: expected a fraction 'p/q'")
    if max(len(digits), len(denominator)) > MAXIMUM_DIGITS + 1 or int(denominator) == 0:
        raise InvalidParameter(f"{text[:40]!r}: not a fraction of reasonable size")
    value = Fraction(int(numerator), int(denominator))
    # One number has one text, so that equal certificates are equal bytes.
    if text != f"{value.numerator}/{value.denominator}":
        raise InvalidParameter(f"{text[:40]!r}: expected a fraction in lowest terms")
    return value


def _decode_symbol(kind: str, arguments: list[Any], depth: int) -> Number:
    import sympy

    if len(arguments) < 2 or (kind == "Symbol" and len(arguments) > 2):
        raise InvalidParameter(f"malformed {kind} on the wire")
    name, assumptions = _name(arguments[0]), _assumptions(arguments[1])
    inside = [sympify(_decode(a, depth + 1)) for a in arguments[2:]]
    try:
        if kind == "Symbol":
            return sympy.Symbol(name, **assumptions)
        return sympy.Function(name, **assumptions)(*inside)
    except SYMPY_ERRORS:
        raise InvalidParameter(f"malformed {kind} {name!r} on the wire") from None


def _build(name: str, arguments: list[Number]) -> Number:
    import sympy

    if name in _CONSTANTS and not arguments:
        return {"Infinity": sympy.oo, "Pi": sympy.pi, "Exp1": sympy.E}[name]
    _refuse_large(name, arguments)
    if name != "Sum" and any(isinstance(a, sympy.Tuple) for a in arguments):
        raise InvalidParameter(f"malformed {name} on the wire")
    try:
        # SymPy would compare numbers that have no finite enclosure by false digits.
        value = sympify(maximum(arguments)) if name == "Max" else None
        value = getattr(sympy, name)(*map(sympify, arguments)) if value is None else value
    except SYMPY_ERRORS:
        raise InvalidParameter(f"malformed {name} on the wire") from None
    if not all(is_short(canonical(r)) for r in value.atoms(sympy.Rational)):
        raise InvalidParameter(f"{name} on the wire: a number of over {MAXIMUM_DIGITS} digits")
    return canonical(value)


def _refuse_large(name: str, arguments: list[Number]) -> None:
    """Stop before SymPy computes an integer of millions of digits."""
    limit = _LARGEST_ARGUMENT.get(name)
    if limit is None or not arguments:
        return
    sizes = [(arguments[-1], limit)]
    if name == "binomial":
        sizes.append((arguments[0], _MOST_CHOICES))
    for argument, largest in sizes:
        if not unknowns(argument) and not abs(enclose(argument)) <= largest:
            raise InvalidParameter(f"{name} on the wire: its argument is too large")

"""Domains of parameters: what a number in a declaration may be, refused by name otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from reprlib import repr as short
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose, exact, is_symbolic, readable, unknowns

Domain = Callable[[Number, str], None]
SHOWN = 200
LONG = 50


def refuse(value: Number, place: str, expected: str) -> None:
    """Raise InvalidParameter with the value, the place and what was expected."""
    raise InvalidParameter(f"{place} = {readable(value)[:SHOWN]}: expected {expected}")


def _sign(value: Number, place: str, *, strict: bool) -> None:
    if known_sign(value, strict=strict) is False:
        word = "a positive, finite number" if strict else "a finite number that is not negative"
        refuse(value, place, f"{word} (give symbols assumptions, e.g. positive=True)")


def known_sign(value: Number, *, strict: bool) -> bool | None:
    """Whether a number is > 0 (or >= 0); None where the values of symbols decide."""
    if not is_symbolic(value):
        return bool(value > 0 if strict else value >= 0)
    if symbols := unknowns(value):
        return _symbolic_sign(value, strict=strict) if all(s.is_real for s in symbols) else False
    ball = enclose(value)
    return bool(ball > 0 if strict else ball >= 0 or value.is_nonnegative)


def _symbolic_sign(value: Any, *, strict: bool) -> bool | None:
    """SymPy's answer, which takes it minutes for a long sum whose terms do not decide."""
    if value.is_Add and all(term.is_nonnegative for term in value.args):
        return not strict or any(term.is_positive for term in value.args) or None
    if value.is_Add and len(value.args) > LONG:
        return None
    known: bool | None = value.is_positive if strict else value.is_nonnegative
    return known


def positive(value: Number, place: str) -> None:
    """Domain (0, infinity)."""
    _sign(value, place, strict=True)


def non_negative(value: Number, place: str) -> None:
    """Domain [0, infinity)."""
    _sign(value, place, strict=False)


def above_one(value: Number, place: str) -> None:
    """Domain (1, infinity)."""
    if known_sign(value - 1, strict=True) is False:
        refuse(value, place, "an order above 1")


def probability(value: Number, place: str) -> None:
    """Domain [0, 1)."""
    _sign(value, place, strict=False)
    if known_sign(1 - value, strict=True) is False:
        refuse(value, place, "a probability below 1")


def rate(value: Number, place: str) -> None:
    """Domain (0, 1]."""
    _sign(value, place, strict=True)
    if known_sign(1 - value, strict=False) is False:
        refuse(value, place, "a rate in (0, 1]")


def count(value: Number, place: str) -> None:
    """Domain 0, 1, 2, ...; a symbol must be declared integer and not negative."""
    _sign(value, place, strict=False)
    whole = value.is_integer if is_symbolic(value) else value.denominator == 1
    if not whole:
        refuse(value, place, "a whole number (for a symbol, Symbol(..., integer=True))")


def number(domain: Domain) -> Any:
    """A dataclass field that holds an exact number of the given domain."""
    return field(metadata={"kind": "number", "domain": domain})


def text(value: object, place: str) -> None:
    """Refuse what is not a string."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{place} = {short(value)}: expected a text")


def real(value: object, place: str) -> float:
    """The number behind a value, as a float: for rates and widths, which no bound rests on.

    Errors: InvalidParameter for what is no number, or depends on symbols.
    """
    found = exact(value, place)
    if unknowns(found):
        raise InvalidParameter(f"{place} = {readable(found)[:SHOWN]}: expected a number")
    return float(found)


def integer(value: object, place: str, least: int = 1, most: int | None = None) -> int:
    """The whole number behind a value.

    Errors: InvalidParameter for a symbol, a number that is not whole, one out of the ends.
    """
    found = exact(value, place)
    whole = not is_symbolic(found) and found.denominator == 1
    if not whole or found < least or (most is not None and found > most):
        ends = f"a whole number of at least {least}" if most is None else f"{least} to {most}"
        ends += ", not a symbol" if unknowns(found) else "" if whole else ", and whole"
        raise InvalidParameter(f"{place} = {readable(found)[:SHOWN]}: expected {ends}")
    return int(found)


def checked(value: object, place: str, domain: Domain) -> Number:
    """The exact number behind a value, in its domain."""
    result = exact(value, place)
    domain(result, place)
    return result

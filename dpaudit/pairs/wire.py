"""Pairs as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.exact.wire import decode_number, encode_number
from dpaudit.pairs.core import Pair

MAX_NESTING = 60  # Levels of nesting of a pair that are read.
SIDES = ("remove", "add")  # both orders of neighbours


def written(value: Any) -> Any:
    """A pair, or what it holds, as JSON."""
    if isinstance(value, Pair):
        inside = {f.name: written(getattr(value, f.name)) for f in fields(value)}
        return {"pair": type(value).__name__, **inside}
    if isinstance(value, tuple):
        return {"list": [written(item) for item in value]}
    return encode_number(value)


def from_wire(table: Mapping[str, Any]) -> tuple[tuple[Pair, ...], tuple[Pair, ...], Number]:
    """Pairs in either direction, and the slack, that :meth:`Losses.to_wire` wrote.

    Only their form is looked at: whoever reads them compares them with pairs of their own.
    Errors: InvalidParameter for another form.
    """
    if set(table) != {*SIDES, "slack"}:
        raise InvalidParameter("pairs: expected those in either direction, and the slack")
    remove, add = (tuple(_read(pair, 0) for pair in table[side]) for side in SIDES)
    if not all(isinstance(pair, Pair) for pair in (*remove, *add)):
        raise InvalidParameter("pairs: expected pairs of distributions")
    return remove, add, decode_number(table["slack"])


def _read(table: Any, depth: int) -> Any:
    if depth > MAX_NESTING:
        raise InvalidParameter(f"pairs nested deeper than {MAX_NESTING}")
    if not isinstance(table, dict):
        return decode_number(table)
    if set(table) == {"list"} and isinstance(table["list"], list):
        return tuple(_read(item, depth + 1) for item in table["list"])
    kind = _kinds(Pair).get(str(table.get("pair")))
    names = [f.name for f in fields(kind)] if kind else []
    if kind is None or set(table) != {"pair", *names}:
        raise InvalidParameter("pairs: a pair of no known type, or with other parameters")
    return kind(*(_read(table[name], depth + 1) for name in names))


def _kinds(base: type[Pair]) -> dict[str, type[Pair]]:
    """Every pair that has parameters, by its name."""
    kinds = {base.__name__: base} if fields(base) else {}
    for kind in base.__subclasses__():
        kinds |= _kinds(kind)
    return kinds

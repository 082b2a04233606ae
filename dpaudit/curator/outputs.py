"""Whether two outputs of a program are the same, whatever objects they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from numbers import Number
from types import CodeType, FunctionType, NoneType
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter

# Types that are compared as they are.
PLAIN = (Number, str, bytes, bytearray, range, np.generic, NoneType, CodeType)
BY_IDENTITY: Any = object.__eq__


def same_output(a: Any, b: Any) -> bool:
    """Whether two outputs are the same, bit by bit up to signed zeros and NaN.

    Objects are the same if all that they hold is: fields, attributes, slots, items, closures, and
    what they would be pickled as.  An output may hold itself, and be nested without end: two that
    are being compared already are not compared again.
    Errors: InvalidParameter, naming the type, for an object that shows nothing of what it holds.
    """
    waiting = [(a, b)]
    met: dict[tuple[int, int], tuple[Any, Any]] = {}  # held, so that no other object gets its id
    while waiting:
        left, two = waiting.pop()
        if left is two or (id(left), id(two)) in met:
            continue
        if type(left) is not type(two) or not _alike(left, two):
            return False
        if not isinstance(left, PLAIN):
            met[id(left), id(two)] = left, two
            inside = list(_inside(left)), list(_inside(two))
            if len(inside[0]) != len(inside[1]):
                return False
            waiting += zip(*inside, strict=True)
    return True


def _alike(one: Any, two: Any) -> bool:
    """Whether two of a type are the same as far as they are compared as a whole."""
    if isinstance(one, PLAIN):
        return bool(one == two or (one != one and two != two))
    if isinstance(one, np.ndarray) and not one.dtype.hasobject:
        numbers = one.dtype.kind in "fc"
        return one.dtype == two.dtype and np.array_equal(one, two, equal_nan=numbers)
    if isinstance(one, (set, frozenset)) and one != two:
        if any(type(item).__eq__ is BY_IDENTITY for item in (*one, *two)):
            raise _unknown(one)
        return False
    return True


def _inside(value: Any) -> Iterator[Any]:
    """The contents of an object, in a fixed order.  Errors: InvalidParameter if they are hidden."""
    yield getattr(value, "__dict__", None)
    if isinstance(value, (set, frozenset)):
        return
    if isinstance(value, Mapping):
        yield from (list(value), *(value[key] for key in value))
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            yield from (value.dtype.str, value.shape, value.ravel().tolist())
    elif isinstance(value, FunctionType):
        yield from (value.__code__, value.__defaults__, value.__kwdefaults__, *enclosed(value))
    elif hasattr(value, "__dlpack__"):
        # A tensor; one that is trained gives no array before it is detached.
        yield np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    else:
        if is_dataclass(value) and not isinstance(value, type):
            yield from (getattr(value, field.name) for field in fields(value))
        try:
            reduced = value.__reduce_ex__(2)
        except Exception as error:  # what holds more than it shows refuses to be pickled
            raise _unknown(value) from error
        # Items of a container come last, as iterators.
        yield from (
            reduced
            if isinstance(reduced, str)
            else (*reduced[:3], *map(list, filter(None, reduced[3:5])))
        )


def enclosed(function: FunctionType) -> list[Any]:
    """The values of a closure's variables that are set."""
    values = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):
            values.append(cell.cell_contents)
    return values


def _unknown(value: Any) -> InvalidParameter:
    kind = type(value)
    return InvalidParameter(
        f"the output holds a {kind.__module__}.{kind.__qualname__}, which does not show what is in "
        "it, so that what it says of the records cannot be told; give arrays, numbers and texts, "
        "or containers and objects of these"
    )

"""The objects that a function or a program refers to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

from dpaudit.curator.locations import is_own
from dpaudit.curator.outputs import enclosed

MOST_OBJECTS = 20_000  # Objects that are looked through.
MOST_ITEMS = 500  # Items of one object that are looked through.


def reached(value: Any, own: Callable[[str], bool] = is_own) -> Iterator[Any]:
    """Objects that a project's code refers to, by name, field, closure or default.

    ``own``: whether a module, by its name, is the project's; what others refer to is left out.
    """
    seen_by_id: dict[int, Any] = {}
    waiting = [value]
    while waiting and len(seen_by_id) < MOST_OBJECTS:
        item = waiting.pop()
        if id(item) in seen_by_id:
            continue
        seen_by_id[id(item)] = item  # kept, so that no other object gets its id
        yield item
        waiting += _inside(item, own)


def _inside(value: Any, own: Callable[[str], bool]) -> list[Any]:
    if isinstance(value, FunctionType | type | ModuleType) and not _is_own(value, own):
        return []
    for kinds, inside in _INSIDE:
        if isinstance(value, kinds):
            return list(inside(value))[:MOST_ITEMS]
    if isinstance(value, functools._lru_cache_wrapper):
        return [value.__wrapped__]
    if isinstance(value, ModuleType) or not _is_own(type(value), own):
        return []
    return [*getattr(value, "__dict__", {}).values(), type(value)]


# Containers, and how their contents are reached.
_INSIDE: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (FunctionType, lambda f: _of_function(f)),
    (MethodType, lambda m: (m.__self__, m.__func__)),
    (functools.partial, lambda p: (p.func, *p.args, *p.keywords.values())),
    ((list, tuple, set, frozenset), iter),
    (dict, lambda d: d.values()),
    (type, lambda t: (*vars(t).values(), *t.__bases__)),
    (property, lambda p: (p.fget,)),
    ((classmethod, staticmethod), lambda m: (m.__func__,)),
)


def _of_function(function: FunctionType) -> list[Any]:
    names = names_in(function.__code__)
    named = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [item for item in named if isinstance(item, ModuleType) and _is_own(item, is_own)]
    inside = [getattr(m, name) for m in modules for name in names if hasattr(m, name)]
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*named, *inside, *enclosed(function), *given, *vars(function).values()]


def names_in(code: Any) -> list[str]:
    """The global names and attributes that a code object and those inside it use."""
    inner = [
        name
        for constant in code.co_consts
        if hasattr(constant, "co_names")
        for name in names_in(constant)
    ]
    return [*code.co_names, *inner]


def _is_own(value: Any, own: Callable[[str], bool]) -> bool:
    """Whether it is of a project, and no library's."""
    return own(str(value.__name__ if isinstance(value, ModuleType) else value.__module__))

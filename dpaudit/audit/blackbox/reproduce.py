"""A short script that repeats what an audit found, with NumPy alone where the event allows it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpaudit.audit.blackbox.events import Event

LONGEST_DATA = 200
LONGEST_EVENT = 400


def reproducer(
    mechanism: Any, data: tuple[Any, Any], event: Event, again: str, size: int, seed: int
) -> str:
    """Ten lines or fewer: both data sets, fresh draws, and how often the event happens.

    A mechanism or a data set that cannot be written down is left for the reader to bind first;
    an event without code (a learned score) is repeated by the audit itself, which is seeded.
    """
    lines = ["import numpy as np", *_mechanism(mechanism), *_data(data)]
    if not event.code or len(event.code) > LONGEST_EVENT:
        return "\n".join([*lines, again]) + "\n"
    lines += [
        "inf, nan = np.inf, np.nan",
        f"event = lambda x: {event.code}",
        "for name, data in (('d0', d0), ('d1', d1)):",
        f"    outputs = mechanism(data, np.random.default_rng({seed}), {size})",
        f"    x = np.asarray(outputs).reshape({size}, -1)",
        "    print(name, int(np.count_nonzero(event(x))), 'of', len(x))",
    ]
    return "\n".join(lines) + "\n"


def _mechanism(mechanism: Any) -> list[str]:
    module, name = getattr(mechanism, "__module__", None), getattr(mechanism, "__qualname__", "")
    known = getattr(sys.modules.get(str(module)), name, None) if name.isidentifier() else None
    if known is mechanism and module != "__main__":
        alias = "" if name == "mechanism" else " as mechanism"
        return [f"from {module} import {name}{alias}"]
    return ["# bind first: mechanism, the function that was audited"]


def _data(data: tuple[Any, Any]) -> list[str]:
    written = [_written(value) for value in data]
    if all(written):
        return [f"d0, d1 = {written[0]}, {written[1]}"]
    return ["# bind first: d0 and d1, the two data sets"]


def _written(value: Any) -> str:
    """Code for numbers, text, and lists or arrays of them; empty for anything else or too long."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.size < LONGEST_DATA:
        inner = f"{value.tolist()!r}".replace("nan", "np.nan").replace("inf", "np.inf")
        text = f"np.array({inner}, dtype={value.dtype.str!r})"
    elif _plain(value):
        text = repr(value)
    else:
        return ""
    return text if len(text) <= LONGEST_DATA else ""


def _plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= LONGEST_DATA and all(map(_plain, value))
    if isinstance(value, dict):
        return all(map(_plain, value)) and all(map(_plain, value.values()))
    if type(value) is float:
        return bool(np.isfinite(value))
    return type(value) in (int, bool, str, type(None))

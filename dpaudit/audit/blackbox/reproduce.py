"""A short script that repeats what an audit found, with NumPy alone where the event allows it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpaudit.audit.blackbox.events import Event
from dpaudit.audit.blackbox.foreign import Foreign
from dpaudit.audit.blackbox.sampler import Sampler

LONGEST_DATA = 200  # characters, or numbers, of a data set that a script holds
LONGEST_EVENT = 400  # characters of an event that a script holds
SHOWN_OUTPUTS = 4  # outputs that a script prints


def reproducer(sampler: Sampler, event: Event, again: str, size: int, *, single: bool) -> str:
    """Ten lines or fewer: both data sets, fresh draws, and how often the event happens.

    If a mechanism or a data set cannot be written as code, the script asks its reader to define it.
    Outputs that are not real numbers are converted as the audit converts them, and examples are
    shown.  An event without code (a learned score), or counted over ``single`` calls, is reproduced
    by running the seeded audit again.
    """
    lines = ["import numpy as np", *_mechanism(sampler.mechanism), *_data(sampler.data)]
    if single or not event.code or len(event.code) > LONGEST_EVENT:
        return "\n".join([*lines, again]) + "\n"
    reads, shows = f"np.asarray(outputs).reshape({size}, -1)", ""
    if not _are_real_numbers(sampler):
        lines.append("from dpaudit.audit.blackbox.draws import read_output")
        reads = f"read_output(outputs, {size}, 'mechanism').values"
        shows = f", np.unique(np.asarray(outputs)[event(x)].astype(str))[:{SHOWN_OUTPUTS}]"
    lines += [
        f"inf, nan, event = np.inf, np.nan, lambda x: {event.code}",
        "for name, data in (('d0', d0), ('d1', d1)):",
        f"    outputs = mechanism(data, np.random.default_rng({sampler.seed}), {size})",
        f"    x = {reads}",
        f"    print(name, int(np.count_nonzero(event(x))), 'of', len(x){shows})",
    ]
    return "\n".join(lines) + "\n"


def _are_real_numbers(sampler: Sampler) -> bool:
    """Whether NumPy holds a call's outputs as they are: neither text, complex nor objects."""
    try:
        with np.errstate(all="ignore"):
            outputs = sampler.mechanism(sampler.data[0], np.random.default_rng(sampler.seed), 2)
    except Exception:  # noqa: BLE001 (it ran often enough for a verdict)
        return False
    return np.asarray(outputs).dtype.kind in "biuf"


def _mechanism(mechanism: Any) -> list[str]:
    if isinstance(mechanism, Foreign):
        return [f"mechanism = {mechanism.code}"]
    module, name = getattr(mechanism, "__module__", None), getattr(mechanism, "__qualname__", "")
    importable = getattr(sys.modules.get(str(module)), name, None) if name.isidentifier() else None
    if importable is mechanism and module != "__main__":
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

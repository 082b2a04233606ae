"""Families register themselves when they are imported; this imports them, whatever there are."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

FAMILIES = "dpaudit.families"


@cache
def load(part: str) -> None:
    """Import one part of every family: "node", "rules", "kernel" or "theorem".

    The part of a family is its module of that name, and those whose names end in ``_<part>``.
    """
    for family in _modules(FAMILIES):
        for module in _modules(f"{FAMILIES}.{family}"):
            if module == part or module.endswith(f"_{part}"):
                import_module(f"{FAMILIES}.{family}.{module}")


def _modules(package: str) -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(import_module(package).__path__))

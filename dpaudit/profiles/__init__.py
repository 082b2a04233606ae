"""Privacy profiles of pairs, two-sided and certified: :mod:`dpaudit.profiles.answers`.

Numerics are loaded at the first question, not at import: a closed form needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpaudit.profiles.interval import RELATIVE_WIDTH, WIDTH, Interval, narrowest

if TYPE_CHECKING:
    from dpaudit.profiles.answers import (
        advantage_interval,
        delta_curve,
        delta_interval,
        epsilon_interval,
        epsilon_outline,
        tradeoff_curve,
    )

__all__ = [
    "RELATIVE_WIDTH",
    "WIDTH",
    "Interval",
    "advantage_interval",
    "delta_curve",
    "delta_interval",
    "epsilon_interval",
    "epsilon_outline",
    "narrowest",
    "tradeoff_curve",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.answers"), name)

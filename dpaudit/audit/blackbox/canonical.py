"""Events fixed beforehand: they depend on the two data sets and the outputs' type, on no draw.

They are counted on all draws, training draws included, which matters for events of probability
1e-4: after a split only a few would be left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.draws import Draws
from dpaudit.audit.blackbox.events import Event

Array = npt.NDArray[Any]
MOST_VALUES = 10_000  # distinct outputs that are compared one by one
# Absolute values that outputs reach only after an overflow or because of an outlier.
EXTREME_SIZES = (1e3, 1e6, 1e9)


@dataclass(frozen=True)
class Canonical:
    """An event named by the question it asks of a row x of outputs."""

    name: str

    @property
    def words(self) -> str:
        return _QUESTIONS[self.name][0]

    @property
    def code(self) -> str:
        return _QUESTIONS[self.name][1]

    def __call__(self, draws: Draws) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(_ANSWERS[self.name](draws.values))


@dataclass(frozen=True)
class Beyond:
    """Some output is larger than ``size`` in absolute value (infinities are another event)."""

    size: float

    @property
    def words(self) -> str:
        return f"some output is finite and above {self.size:g} in absolute value"

    @property
    def code(self) -> str:
        return f"((abs(x) > {self.size!r}) & np.isfinite(x)).any(1)"

    def __call__(self, draws: Draws) -> Array:
        x = draws.values
        return np.asarray(((np.abs(x) > self.size) & np.isfinite(x)).any(axis=1))


@dataclass(frozen=True, eq=False)
class Revealed:
    """Some output equals a value or a plain statistic of one data set that the other lacks."""

    values: Array
    owner: str

    @property
    def words(self) -> str:
        return f"some output equals a value or statistic of {self.owner} alone"

    code = ""

    def __call__(self, draws: Draws) -> Array:
        return np.asarray(np.isin(draws.values, self.values).any(axis=1))


_QUESTIONS = {
    "missing": ("some output is NaN", "np.isnan(x).any(1)"),
    "all missing": ("every output is NaN", "np.isnan(x).all(1)"),
    "zero": ("some output is 0", "(x == 0).any(1)"),
    "all zero": ("every output is 0", "(x == 0).all(1)"),
    "negative zero": ("some output is -0.0", "((x == 0) & np.signbit(x)).any(1)"),
    "infinite": ("some output is infinite", "np.isinf(x).any(1)"),
    "whole": ("some output is a whole number", "(x == np.floor(x)).any(1)"),
    "negative": ("some output is negative", "(x < 0).any(1)"),
    "equal": (
        "two outputs are equal",
        "(np.diff(np.sort(x, 1), axis=1) == 0).any(1)",
    ),
    "all equal": ("all outputs are equal", "(x == x[:, :1]).all(1)"),
}
_ANSWERS = {
    "missing": lambda x: np.isnan(x).any(axis=1),
    "all missing": lambda x: np.isnan(x).all(axis=1),
    "zero": lambda x: (x == 0).any(axis=1),
    "all zero": lambda x: (x == 0).all(axis=1),
    "negative zero": lambda x: ((x == 0) & np.signbit(x)).any(axis=1),
    "infinite": lambda x: np.isinf(x).any(axis=1),
    "whole": lambda x: (x == np.floor(x)).any(axis=1),
    "negative": lambda x: (x < 0).any(axis=1),
    "equal": lambda x: (np.diff(np.sort(x, axis=1), axis=1) == 0).any(axis=1),
    "all equal": lambda x: (x == x[:, :1]).all(axis=1),
}


def canonical_events(probe: Draws, d0: Any, d1: Any) -> list[Event]:
    """The events for outputs like those of ``probe`` (its shape and type, not its values)."""
    events: list[Event] = [Canonical("zero"), Canonical("negative")]
    if probe.is_float:
        names = ("missing", "negative zero", "infinite", "whole")
        events += [Canonical(name) for name in names]
    if probe.columns > 1:
        events += [Canonical(name) for name in ("all zero", "equal", "all equal")]
        events += [Canonical("all missing")] if probe.is_float else []
    events += [Beyond(size) for size in EXTREME_SIZES]
    return events + list(_revealed(d0, d1))


def revealed_pair(d0: Any, d1: Any) -> tuple[Event, Event] | None:
    """Outputs that give away one data set, and outputs that give away the other."""
    revealed = list(_revealed(d0, d1))
    return (revealed[0], revealed[1]) if len(revealed) == 2 else None


def _revealed(d0: Any, d1: Any) -> Iterator[Event]:
    first, second = data_values(d0), data_values(d1)
    for values, others, owner in ((first, second, "d0"), (second, first, "d1")):
        alone = np.setdiff1d(values, others)
        if alone.size:
            yield Revealed(alone, owner)


def data_values(data: Any) -> Array:
    """The numbers in a data set, their sum, mean and median; none where it is not numeric."""
    try:
        numbers = np.asarray(data, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        return np.empty(0)
    finite = numbers[np.isfinite(numbers)]
    if finite.size == 0 or finite.size > MOST_VALUES:
        return np.empty(0)
    return np.unique(np.concatenate([finite, [finite.sum(), finite.mean(), np.median(finite)]]))

"""Events: yes-or-no questions about one output, fixed before the draws they are counted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.draws import Draws, read_output
from dpaudit.errors import InvalidParameter

Array = npt.NDArray[Any]
SHOWN_VALUES = 4  # outputs that a sentence names


class Measurement(Protocol):
    """A feature or a learned score: one number an output, in words and in code."""

    @property
    def words(self) -> str: ...

    @property
    def code(self) -> str: ...

    def __call__(self, draws: Draws) -> Array: ...


class Event(Protocol):
    """A question about one output; calling it answers for every draw."""

    @property
    def words(self) -> str: ...

    @property
    def code(self) -> str: ...

    def __call__(self, draws: Draws) -> Array: ...


class Relation(StrEnum):
    """How a measurement compares with a threshold or a set."""

    AT_MOST = "<="
    ABOVE = ">"
    AMONG = "in"
    NOT_AMONG = "not in"


@dataclass(frozen=True)
class Threshold:
    """The measurement is at most, or above, a value; NaN is neither."""

    measurement: Measurement
    relation: Relation
    value: float

    @property
    def words(self) -> str:
        return f"{self.measurement.words} {self.relation} {self.value!r}"

    @property
    def code(self) -> str:
        code = self.measurement.code
        return code and f"({code}) {self.relation} {self.value!r}"

    def __call__(self, draws: Draws) -> Array:
        measured = self.measurement(draws)
        with np.errstate(invalid="ignore"):
            if self.relation is Relation.AT_MOST:
                return np.asarray(measured <= self.value)
            return np.asarray(measured > self.value)


@dataclass(frozen=True, eq=False)
class Member:
    """The measurement is one of ``values`` (sorted), or a number that is none of them."""

    measurement: Measurement
    relation: Relation
    values: Array

    @property
    def words(self) -> str:
        shown = ", ".join(repr(value) for value in self.values[:SHOWN_VALUES].tolist())
        more = self.values.size - SHOWN_VALUES
        values = f"{{{shown}{f', and {more} more' if more > 0 else ''}}}"
        return f"{self.measurement.words} {self.relation} {values}"

    @property
    def code(self) -> str:
        code = self.measurement.code
        if not code or self.values.size > SHOWN_VALUES:
            return ""
        test = f"np.isin({code}, {self.values.tolist()!r})"
        return test if self.relation is Relation.AMONG else f"~{test} & ~np.isnan({code})"

    def __call__(self, draws: Draws) -> Array:
        measured = self.measurement(draws)
        inside = _contains(self.values, measured)
        return inside if self.relation is Relation.AMONG else ~inside & ~_is_nan(measured)


@dataclass(frozen=True, eq=False)
class Cells:
    """The measurement falls into one of the chosen cells between sorted ``edges``.

    Cell i is the interval (edges[i - 1], edges[i]]; there is one cell more than edges.
    """

    measurement: Measurement
    edges: Array
    chosen: npt.NDArray[np.bool_]

    @property
    def words(self) -> str:
        spans = [f"({low!r}, {high!r}]" for low, high in self._spans()[:SHOWN_VALUES]]
        more = len(self._spans()) - SHOWN_VALUES
        tail = f" or {more} more intervals" if more > 0 else ""
        return f"{self.measurement.words} in {' or '.join(spans)}{tail}"

    @property
    def code(self) -> str:
        code = self.measurement.code
        if not code or len(self._spans()) > SHOWN_VALUES:
            return ""
        infinite = {"inf": "np.inf", "-inf": "-np.inf"}
        ends = [[infinite.get(repr(e), repr(e)) for e in span] for span in self._spans()]
        return " | ".join(f"(({code}) > {low}) & (({code}) <= {high})" for low, high in ends)

    def _spans(self) -> list[tuple[float, float]]:
        """Chosen cells, neighbours joined."""
        bounds = np.concatenate([[-np.inf], self.edges.astype(float), [np.inf]])
        steps = np.diff(np.concatenate([[0], self.chosen.astype(int), [0]]))
        starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
        return [(float(bounds[a]), float(bounds[b])) for a, b in zip(starts, ends, strict=True)]

    def __call__(self, draws: Draws) -> Array:
        measured = self.measurement(draws)
        cells = np.searchsorted(self.edges, measured, "left")
        return np.asarray(self.chosen[cells] & ~_is_nan(measured))


@dataclass(frozen=True)
class Missing:
    """The measurement is NaN."""

    measurement: Measurement

    @property
    def words(self) -> str:
        return f"{self.measurement.words} is NaN"

    @property
    def code(self) -> str:
        code = self.measurement.code
        return code and f"np.isnan({code})"

    def __call__(self, draws: Draws) -> Array:
        return _is_nan(self.measurement(draws))


@dataclass(frozen=True, eq=False)
class OwnScore:
    """The caller's own score of outputs of shape (trials, k), or (trials,) where k = 1."""

    score: Callable[[Array], Array]

    code = ""

    @property
    def words(self) -> str:
        return f"the score {getattr(self.score, '__name__', 'attack')}"

    def __call__(self, draws: Draws) -> Array:
        flat = draws.columns == 1
        scores = np.asarray(self.score(draws.values[:, 0] if flat else draws.values))
        if scores.shape != (draws.trials,) or scores.dtype.kind not in "fiub":
            raise InvalidParameter(
                f"attack returned shape {scores.shape} of {scores.dtype}; expected one number an "
                f"output, shape ({draws.trials},)"
            )
        return scores.astype(np.float64)


@dataclass(frozen=True, eq=False)
class EventOnOutputs:
    """An event as somebody outside calls it: on outputs of shape (trials,) or (trials, k)."""

    event: Event

    @property
    def text(self) -> str:
        return self.event.words

    @property
    def code(self) -> str:
        return self.event.code

    def __call__(self, outputs: object) -> npt.NDArray[np.bool_]:
        """Whether it happened, one bool an output; errors: InvalidParameter for other shapes."""
        if not isinstance(outputs, Draws):
            array = np.asarray(outputs)
            outputs = read_output(array, len(array) if array.ndim else 0, "event: outputs")
        return np.asarray(self.event(outputs), dtype=np.bool_)

    def __repr__(self) -> str:
        return f"<event: {self.text}>"


def count(events: Sequence[Event], draws: Draws) -> npt.NDArray[np.int64]:
    """How many of the draws each event holds for."""
    return np.array([np.count_nonzero(event(draws)) for event in events], dtype=np.int64)


def _is_nan(measured: Array) -> Array:
    return (
        np.isnan(measured) if measured.dtype.kind == "f" else np.zeros(measured.shape, dtype=bool)
    )


def _contains(ordered: Array, measured: Array) -> Array:
    """Membership in a sorted array; bit by bit where both are integers."""
    if ordered.size == 0:
        return np.zeros(measured.shape, dtype=bool)
    places = np.minimum(np.searchsorted(ordered, measured), ordered.size - 1)
    return np.asarray(ordered[places] == measured)

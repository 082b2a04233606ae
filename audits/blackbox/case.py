"""What one case of the black-box set is, and how a family of cases is written down.

Real outputs are rounded to a public grid (:class:`OnGrid`), right and wrong ones alike: plain
floating-point noise leaks its low bits (Mironov 2012), which would make every mechanism wrong.
Labels hold up to 1e-6 in delta.  Only the family "floating point" gives out what is not rounded.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.nodes import Node

Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]
Generator = np.random.Generator
Mechanism: TypeAlias = Callable[[Array, Generator, int], Array]
OutputEvent: TypeAlias = Callable[[Array], Any]


class Relation(StrEnum):
    """Which data sets are neighbours.

    ``REPLACE_ONE``: arrays of one shape, one row differs.  ``ADD_REMOVE``: one has one row more.
    ``EACH_BY_ONE``: vectors of query answers, every entry moves by at most 1 (l-infinity norm).
    ``TOTAL_BY_ONE``: vectors of counts that move by at most 1 in l1-norm.
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"
    EACH_BY_ONE = "each_by_one"
    TOTAL_BY_ONE = "total_by_one"


@dataclass(frozen=True)
class Domain:
    """All arrays of shape (n, *row) with ``fewest <= n <= most`` and entries in [low, high].

    ``whole``: entries are whole numbers.  ``special``: values outside the interval that entries
    may take too (NaN, infinities).
    """

    fewest: int
    most: int
    low: float
    high: float
    row: tuple[int, ...] = ()
    whole: bool = False
    special: tuple[float, ...] = ()

    def holds(self, data: Array) -> bool:
        """Whether the data set belongs to the domain."""
        if data.shape[1:] != self.row or not self.fewest <= len(data) <= self.most:
            return False
        values = data.astype(np.float64)
        odd = np.isnan(values) if any(map(math.isnan, self.special)) else np.zeros(data.shape, bool)
        odd |= np.isin(values, self.special)
        within = (values >= self.low) & (values <= self.high)
        if self.whole:
            within &= values == np.floor(values)
        return bool((within | odd).all())


@dataclass(frozen=True, eq=False)
class Pair:
    """Neighbouring data sets that show the most, with the domain they were chosen from."""

    d0: Array
    d1: Array
    domain: Domain
    relation: Relation


@dataclass(frozen=True, eq=False)
class Case:
    """One mechanism with its claim, and whether the claim is true.

    ``mechanism(data, rng, size)`` gives ``size`` independent outputs, shape (size,) or (size, k);
    NaN means no output.  ``event`` (of a wrong mechanism) is a set of outputs that is too likely on
    ``d0`` given how likely it is on ``d1``; ``chances`` are its two exact probabilities, where
    they have a closed form.
    """

    name: str
    family: str
    mechanism: Mechanism
    d0: Array
    d1: Array
    claim: Node
    correct: bool
    domain: Domain
    relation: Relation
    source: str
    event: OutputEvent | None = None
    chances: tuple[float, float] | None = None

    @property
    def attack(self) -> str | None:
        """How to audit it: bugs of floating point lie in digits that other audits leave out."""
        return "bits" if self.family == "floating point" else None

    @property
    def text(self) -> str:
        """What is wrong with it, or why it is right: the mechanism's docstring."""
        written = getattr(self.mechanism, "mechanism", self.mechanism)
        return inspect.cleandoc(written.__doc__ or "")


@dataclass(frozen=True)
class OnGrid:
    """A mechanism whose outputs are rounded to multiples of ``step``, a power of two."""

    mechanism: Mechanism
    step: float

    def __call__(self, data: Array, rng: Generator, size: int) -> Array:
        return on_grid(self.mechanism(data, rng, size), self.step)


class Family:
    """Cases of one kind, in the order they are written; decorators add to it.

    ``step`` of the public grid: coarse enough to hide low bits, fine enough to keep bugs; None in
    a family of floating-point bugs.
    """

    def __init__(self, name: str, step: float | None = 2.0**-30) -> None:
        self.name = name
        self.step = step
        self.cases: list[Case] = []

    def buggy(
        self,
        claim: Node,
        pair: Pair,
        source: str,
        event: OutputEvent,
        chances: tuple[float, float] | None = None,
    ) -> Callable[[Mechanism], Mechanism]:
        """A mechanism whose claim is false on the pair, as the event shows."""
        return self._add(claim, pair, source, (event, chances))

    def correct(self, claim: Node, pair: Pair, source: str) -> Callable[[Mechanism], Mechanism]:
        """A mechanism whose claim is true on every pair of neighbours."""
        return self._add(claim, pair, source, None)

    def _add(
        self,
        claim: Node,
        pair: Pair,
        source: str,
        shown: tuple[OutputEvent, tuple[float, float] | None] | None,
    ) -> Callable[[Mechanism], Mechanism]:
        event, chances = shown or (None, None)

        def add(mechanism: Mechanism) -> Mechanism:
            case = Case(
                name=mechanism.__name__,
                family=self.name,
                mechanism=mechanism if self.step is None else OnGrid(mechanism, self.step),
                d0=pair.d0,
                d1=pair.d1,
                claim=claim,
                correct=shown is None,
                domain=pair.domain,
                relation=pair.relation,
                source=source,
                event=event,
                chances=chances,
            )
            self.cases.append(case)
            return mechanism

        return add


def on_grid(values: Array, step: float) -> Array:
    """Rounded to multiples of a power of two; NaN, infinities and signed zeros stay."""
    return np.asarray(np.rint(values / step) * step)


def reals(*values: float) -> Array:
    """A read-only data set of real numbers."""
    return frozen(np.array(values, dtype=np.float64))


def frozen(data: Array) -> Array:
    """The data set, read-only."""
    data.flags.writeable = False
    return data


def laplace_above(x: float) -> float:
    """P[N > x] of a standard Laplace variable."""
    return 0.5 * math.exp(-x) if x > 0 else 1 - 0.5 * math.exp(x)


def normal_above(x: float) -> float:
    """P[N > x] of a standard normal variable."""
    return 0.5 * math.erfc(x / math.sqrt(2))


def first(draws: Array) -> Array:
    """The outputs' first column."""
    return np.asarray(draws[:, 0])

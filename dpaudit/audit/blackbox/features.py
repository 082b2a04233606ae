"""Features: functions of one output, each with words and NumPy code for a person to read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox import bits
from dpaudit.audit.blackbox.draws import KIND, RAISED, WIDTH, Draws, row_codes

Array = npt.NDArray[Any]
RAW_COLUMNS = 32  # outputs of a draw that are events each
PAIRED_COLUMNS = 6  # outputs whose pairs are compared
BIT_COLUMNS = 8  # outputs whose low bits are read
ORDERED_COLUMNS = 8  # outputs whose order is an event
_LOWEST_BIT = (
    "np.frexp((lambda w: (w & -w).astype(float))(np.ldexp(np.frexp({0})[0], 53).astype(np.int64)))"
    "[1] - 54.0 + np.frexp({0})[1]"
)


@dataclass(frozen=True)
class Kind:
    """A kind of feature: its words and code, with {0}, {1} for its columns, and its function."""

    words: str
    code: str
    compute: Callable[..., Array]


def _low(x: Array) -> Array:
    return np.asarray(np.where(np.isnan(x), np.inf, x)) if x.dtype.kind == "f" else x


def _high(x: Array) -> Array:
    return np.asarray(np.where(np.isnan(x), -np.inf, x)) if x.dtype.kind == "f" else x


def _first(flags: Array) -> Array:
    return np.asarray(np.where(flags.any(axis=1), flags.argmax(axis=1), flags.shape[1]))


def _gap(x: Array) -> Array:
    top = np.partition(_high(x), x.shape[1] - 2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


def _repeats(x: Array) -> Array:
    ordered = np.sort(x, axis=1)
    return np.asarray((ordered[:, 1:] == ordered[:, :-1]).sum(axis=1))


def _order(x: Array) -> Array:
    return row_codes(np.argsort(x, axis=1, kind="stable").astype(np.int64))


KINDS: dict[str, Kind] = {
    "column": Kind("output {0}", "x[:, {0}]", lambda x, i: x[:, i]),
    "difference": Kind(
        "output {0} - output {1}", "x[:, {0}] - x[:, {1}]", lambda x, i, j: x[:, i] - x[:, j]
    ),
    "total": Kind("the sum of the outputs", "np.nansum(x, 1)", lambda x: np.nansum(x, 1)),
    "absolute": Kind(
        "the sum of their absolute values",
        "np.nansum(abs(x), 1)",
        lambda x: np.nansum(abs(x), 1),
    ),
    "largest": Kind(
        "the largest output",
        "np.where(np.isnan(x), -np.inf, x).max(1)",
        lambda x: _high(x).max(1),
    ),
    "smallest": Kind(
        "the smallest output", "np.where(np.isnan(x), np.inf, x).min(1)", lambda x: _low(x).min(1)
    ),
    "spread": Kind(
        "the largest minus the smallest output",
        "np.where(np.isnan(x), -np.inf, x).max(1) - np.where(np.isnan(x), np.inf, x).min(1)",
        lambda x: _high(x).max(1) - _low(x).min(1),
    ),
    "gap": Kind(
        "the largest minus the second largest output",
        "np.diff(np.sort(np.where(np.isnan(x), -np.inf, x), 1)[:, -2:], axis=1)[:, 0]",
        _gap,
    ),
    "argmax": Kind(
        "the index of the largest output",
        "np.where(np.isnan(x), -np.inf, x).argmax(1)",
        lambda x: _high(x).argmax(1),
    ),
    "argmin": Kind(
        "the index of the smallest output",
        "np.where(np.isnan(x), np.inf, x).argmin(1)",
        lambda x: _low(x).argmin(1),
    ),
    "missing": Kind(
        "the number of missing outputs", "np.isnan(x).sum(1)", lambda x: np.isnan(x).sum(1)
    ),
    "first_missing": Kind(
        "the index of the first missing output",
        "np.where(np.isnan(x).any(1), np.isnan(x).argmax(1), x.shape[1])",
        lambda x: _first(np.isnan(x)),
    ),
    "nonzero": Kind(
        "the number of outputs that are not 0",
        "np.count_nonzero(x, 1)",
        lambda x: np.count_nonzero(x, 1),
    ),
    "first_nonzero": Kind(
        "the index of the first output that is not 0",
        "np.where((x != 0).any(1), (x != 0).argmax(1), x.shape[1])",
        lambda x: _first(x != 0),
    ),
    "repeats": Kind(
        "the number of repeated outputs",
        "(np.diff(np.sort(x, 1), axis=1) == 0).sum(1)",
        _repeats,
    ),
    "lowest_bit": Kind(
        "the exponent of the lowest set bit of output {0}",
        "np.maximum(" + _LOWEST_BIT.replace("{0}", "x[:, {0}]") + ", {1})",
        lambda x, i, floor: bits.lowest_bit(x[:, i], floor),
    ),
    "lowest_bit_of_difference": Kind(
        "the exponent of the lowest set bit of output {0} - output {1}",
        "np.maximum(" + _LOWEST_BIT.replace("{0}", "(x[:, {0}] - x[:, {1}])") + ", {2})",
        lambda x, i, j, floor: bits.lowest_bit(x[:, i] - x[:, j], floor),
    ),
    "significant_bits": Kind(
        "the number of significant bits of output {0}",
        "np.clip(np.frexp(x[:, {0}])[1] - ("
        + _LOWEST_BIT.replace("{0}", "x[:, {0}]")
        + "), 0, {1})",
        lambda x, i, most: bits.significant_bits(x[:, i], most),
    ),
    "decimals": Kind(
        "the number of decimals of output {0}",
        "np.argmax([np.round(x[:, {0}], d) == x[:, {0}] for d in range({1})] "
        "+ [np.full(len(x), True)], axis=0)",
        lambda x, i, most: bits.decimals(x[:, i], most),
    ),
    "fraction": Kind(
        "output {0} modulo 1",
        "np.round(x[:, {0}] - np.floor(x[:, {0}]), 9) % 1.0",
        lambda x, i: bits.fraction(x[:, i]),
    ),
    "order": Kind("the order of the outputs", "", _order),
    "row": Kind("the outputs together", "", row_codes),
}
_ABOUT = {
    WIDTH: "the number of columns",
    KIND: "the type of the output",
    RAISED: "the exception",
}


@dataclass(frozen=True)
class Feature:
    """One number an output, computed by ``kind`` from its ``columns``; NaN where undefined."""

    kind: str
    columns: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        return KINDS[self.kind].words.format(*self.columns)

    @property
    def code(self) -> str:
        """A NumPy expression of the outputs x, of shape (trials, columns); empty if too long."""
        return KINDS[self.kind].code.format(*self.columns)

    @property
    def is_code(self) -> bool:
        """Whether its values are digests, which have no order."""
        return self.kind in ("row", "order")

    def __call__(self, draws: Draws) -> Array:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(KINDS[self.kind].compute(draws.values, *self.columns))


@dataclass(frozen=True)
class About:
    """A code of what a call returned besides numbers: columns, dtype or exception."""

    part: int

    code = ""
    is_code = True

    @property
    def words(self) -> str:
        return _ABOUT[self.part]

    def __call__(self, draws: Draws) -> Array:
        return np.asarray(draws.about[:, self.part])


class Depth(StrEnum):
    """How far down the digits of a float are read."""

    ROUNDED = "rounded"
    BITS = "bits"


def features_of(draws: Draws, depth: Depth = Depth.ROUNDED) -> list[Feature | About]:
    """Features worth trying on outputs of this shape, type and size."""
    features: list[Feature | About] = [About(part) for part in (WIDTH, KIND, RAISED)]
    features += [Feature("column", (i,)) for i in raw_columns(draws)]
    if draws.columns > 1:
        features += _joint(draws)
    features += _of_digits(draws, depth)
    return features


def raw_columns(draws: Draws) -> list[int]:
    """The columns taken one by one: all, or as many spread evenly over too many."""
    count = min(draws.columns, RAW_COLUMNS)
    return sorted({int(i) for i in np.linspace(0, draws.columns - 1, count)})


def _joint(draws: Draws) -> Iterator[Feature]:
    for kind in ("total", "absolute", "largest", "smallest", "spread", "gap", "argmax", "argmin"):
        yield Feature(kind)
    for kind in ("nonzero", "first_nonzero", "repeats", "row"):
        yield Feature(kind)
    if draws.is_float:
        yield Feature("missing")
        yield Feature("first_missing")
    if draws.columns <= ORDERED_COLUMNS:
        yield Feature("order")
    yield from (Feature("difference", pair) for pair in pairs_of(draws.columns))


def pairs_of(columns: int) -> list[tuple[int, int]]:
    """All pairs of a few columns; of many, neighbours and each with the first."""
    if columns <= PAIRED_COLUMNS:
        return list(combinations(range(columns), 2))
    columns_used = range(1, min(columns, RAW_COLUMNS))
    return [(i - 1, i) for i in columns_used] + [(0, i) for i in columns_used if i > 1]


def _of_digits(draws: Draws, depth: Depth) -> Iterator[Feature]:
    deep = depth is Depth.BITS
    most = 53 if deep else bits.ROOM_BITS
    for i in range(min(draws.columns, BIT_COLUMNS)):
        floor = bits.NO_FLOOR if deep else bits.floor_for(draws.values[:, i])
        yield Feature("lowest_bit", (i, floor))
        if draws.is_float:
            yield Feature("significant_bits", (i, most))
            no_finer = int(np.clip(-floor * np.log10(2), 1, bits.MOST_DECIMALS))  # than 2^floor
            yield Feature("decimals", (i, no_finer))
            yield Feature("fraction", (i,))
    if draws.is_float and 1 < draws.columns <= PAIRED_COLUMNS:
        for i, j in pairs_of(draws.columns):
            floor = bits.NO_FLOOR if deep else bits.floor_for(draws.values[:, [i, j]])
            yield Feature("lowest_bit_of_difference", (i, j, floor))

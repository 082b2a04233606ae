"""What only happens to many rows, to rows beyond a number that code names, or once a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy

import dpaudit as dp
from dpaudit.audit.examine import examine, walks
from dpaudit.curator.curator import Curator
from dpaudit.families.additive import Gaussian
from dpaudit.kernels.query import Array, ClippedMean, Query, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from tests.support.examined import mechanism

Rows = Callable[[Array], Any]
FIRST: dict[str, Array] = {}


@dataclass(frozen=True, eq=False)
class Once:
    """One release of a query whose code a field holds."""

    query: Query

    def declaration(self, scope: Scope) -> Node:
        return Gaussian("count", noise_multiplier=1)

    def run(self, curator: Curator) -> Array:
        return curator.release("count", self.query)


@dataclass(frozen=True, eq=False)
class Own:
    """A sum of the user's own, which says that a row moves it by 1."""

    rows: Rows
    norm: Any = "l2"

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.ones(1)

    def value(self, records: Records, chosen: Any = None) -> Array:
        return np.asarray(self.rows(records.values[records.present]), dtype=float).reshape(1, 1)


def positive(values: Array) -> int:
    return int((values[:, 0] > 0.5).sum())


def small_cells_hidden(values: Array) -> int:
    return positive(values) if positive(values) >= 12 else 0


def wrapped(values: Array) -> float:
    return float((100 * (values[:, 0] > 0.5)).astype(np.int8).sum(dtype=np.int8)) / 100


def broken_entries_dropped(values: Array) -> Array:
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        return np.nan_to_num(np.where(norms > 1, values / norms, values), posinf=0, neginf=0)


def broken_rows_dropped(values: Array) -> Array:
    return broken_entries_dropped(np.where(np.isfinite(values).all(1, keepdims=True), values, 0.0))


def scaled_by_the_largest(values: Array) -> Array:
    largest = np.abs(values).max(initial=0.0)
    return (values / largest if largest > 3e9 else values)[None]


def scaled_by_their_own(values: Array) -> Array:
    largest = np.abs(values).max(axis=1, keepdims=True)
    return np.where(largest > 3e9, values / np.where(largest > 0, largest, 1), values)[None]


def centred_among_many(values: Array) -> Array:
    return (values - values.mean(axis=0) if len(values) > 70 else values)[None]


def centred_by_the_first_data(values: Array) -> Array:
    if "mean" not in FIRST:
        FIRST["mean"] = np.nan_to_num(values.mean(axis=0))
    return (values - 0.1 * FIRST["mean"])[None]


def as_they_are(values: Array) -> Array:
    FIRST["size"] = np.ones(1)
    return values[None]


WRONG_AND_RIGHT: tuple[tuple[Query, Query, str], ...] = (
    (Own(small_cells_hidden), Own(positive), "add_remove"),
    (Own(small_cells_hidden), Own(positive), "zero_out"),
    (Own(small_cells_hidden), Own(positive), "replace_one"),
    (Own(wrapped), Own(positive), "add_remove"),
    (
        Own(lambda values: broken_entries_dropped(values)[:, 1].sum()),
        Own(lambda values: broken_rows_dropped(values)[:, 1].sum()),
        "add_remove",
    ),
    (ClippedMean(scaled_by_the_largest, 1.0), ClippedMean(scaled_by_their_own, 1.0), "replace_one"),
    (ClippedMean(centred_among_many, 1.0), ClippedMean(as_they_are, 1.0), "replace_one"),
    (ClippedMean(centred_by_the_first_data, 1.0), ClippedMean(as_they_are, 1.0), "replace_one"),
)


@pytest.mark.quality
@pytest.mark.whole_work
@pytest.mark.first_case
@pytest.mark.parametrize(("wrong", "right", "adjacency"), WRONG_AND_RIGHT)
def test_what_happens_to_many_or_once_is_found(wrong: Query, right: Query, adjacency: str) -> None:
    FIRST.clear()
    assert examine(mechanism("case", Once(wrong), adjacency), seed=1).broken
    FIRST.clear()
    assert not examine(mechanism("case", Once(right), adjacency), seed=1).broken


KNOWN: dict[bytes, int] = {}
SCALE: float | None = None
KEEPER = SimpleNamespace(scale=0.0)


@cache
def doubled(value: int) -> int:
    return 2 * value


@cache
def largest(size: int) -> float:
    return float(FIRST["values"].max(initial=1.0))


def known(values: Array) -> float:
    """Worked out once for each data set: what is kept gives the same as what would be."""
    key = values.tobytes()
    if key not in KNOWN:
        KNOWN[key] = sum(doubled(int(one)) > 2 for one in np.nan_to_num(values[:, 0]).clip(-9, 9))
    return KNOWN[key]


def scaled(values: Array, scale: float) -> float:
    return float(np.nan_to_num(values[:, 0] / scale).clip(0, 1).sum())


def first_scale(values: Array) -> float:
    return float(np.nan_to_num(values[:, 0]).max(initial=1.0))


def by_a_global(values: Array) -> float:
    global SCALE
    SCALE = SCALE or first_scale(values)
    return scaled(values, SCALE)


def by_an_object(values: Array) -> float:
    KEEPER.scale = KEEPER.scale or first_scale(values)
    return scaled(values, KEEPER.scale)


def by_a_cache(values: Array) -> float:
    FIRST["values"] = np.nan_to_num(values)
    return scaled(values, largest(len(values)))


@pytest.mark.long("two examinations of a case")
@pytest.mark.long_cases("known", "by_a_global", "by_an_object")
@pytest.mark.parametrize("value", [known, by_a_global, by_an_object, by_a_cache])
def test_what_is_kept_is_wrong_where_it_changes_an_answer(
    value: Callable[[Array], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = mechanism("case", Once(dp.Statistic(value, sensitivity=1)), "add_remove")
    found = examine(case, seed=1)
    if value is known:
        assert not found.broken
        assert {name.partition("[")[0].rpartition(".")[2] for name in found.kept} >= {"KNOWN"}
        return
    assert any("what the program keeps changes" in finding.detail for finding in found.broken)
    monkeypatch.setattr(walks, "differing", lambda first, second: ())
    again = examine(case, seed=1).broken
    assert not any("what the program keeps changes" in finding.detail for finding in again)


class Odd:
    """Its module is no text, as some of compiled libraries are."""

    __module__ = property(lambda self: "own")  # type: ignore[assignment]


ODD = Odd()


def test_an_object_of_an_odd_class_is_no_obstacle() -> None:
    program = Once(dp.Statistic(lambda values: float(ODD is not None), sensitivity=1))
    assert walks.state(program)
    walks.restore(walks.shared(program))


def by_a_package(values: Array) -> float:
    return float(sympy.Float(values[:, 0].sum())) + len(FIRST)


@pytest.mark.quality
def test_a_large_package_that_is_installed_hides_nothing_that_is_kept() -> None:
    """Its functions are more than are looked through; a program of its own is looked through."""
    program = Once(Own(by_a_package))
    held = [item for item, _ in walks.shared(program)]
    assert any(item is FIRST for item in held)
    assert not any(str(getattr(item, "__module__", "")).startswith("sympy.") for item in held)
    inside = type("Inside", (Once,), {"__module__": "sympy.own"})(program.query)
    assert len(walks.shared(inside)) > 10 * len(held)

"""Functions of a module that join groups, fill holes of a chain, or keep rows by those before."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine
from dpaudit.audit.examine.search import Point, Search, sets
from dpaudit.scope import Adjacency
from tests.support.examined import mechanism

Array = Any


def isolated(rows: Array) -> int:
    """Rows with no other within 3.5 in the first column."""
    gaps = np.diff(np.sort(rows[:, 0]), prepend=-np.inf, append=np.inf)
    return int(((gaps[:-1] > 3.5) & (gaps[1:] > 3.5)).sum())


def streak(rows: Array) -> float:
    """The longest run of days, in the first column, with 7,000 in the second."""
    days = np.unique(rows[rows[:, 1] >= 7000, 0])
    longest = run = 0
    for k, day in enumerate(days):
        run = run + 1 if k and day == days[k - 1] + 1 else 1
        longest = max(longest, run)
    return float(longest)


def debounced(rows: Array) -> float:
    """Amounts, of at most 1, of rows that come 5 or more after the last one that was kept."""
    total, last = 0.0, -np.inf
    for at, amount in rows[np.argsort(rows[:, 0], kind="stable"), :2]:
        if at - last >= 5:
            total, last = total + float(np.clip(amount, 0, 1)), at
    return total


def counted(rows: Array) -> float:
    return float((rows[:, 1] >= 7000).sum())


@dataclass(frozen=True, eq=False)
class Answers:
    """A noisy statistic that is said to move by 1."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Laplace("answer", noise_multiplier=2)


def most_frequent(rows: Array) -> float:
    """The sum of what stands beside the most frequent key, of at most 1 each."""
    keys, counts = np.unique(rows[:, 0], return_counts=True)
    best = keys[np.argmax(counts)] if len(keys) else 0.0
    return float(np.clip(rows[rows[:, 0] == best, 1], 0, 1).sum())


class Favourite(Answers):
    def run(self, curator: dp.Curator) -> Array:
        return curator.release("answer", dp.Statistic(most_frequent, sensitivity=1, norm="l1"))


class Isolated(Answers):
    def run(self, curator: dp.Curator) -> Array:
        return curator.release("answer", dp.Statistic(isolated, sensitivity=1, norm="l1"))


class Streak(Answers):
    def run(self, curator: dp.Curator) -> Array:
        return curator.release("answer", dp.Statistic(streak, sensitivity=1, norm="l1"))


class Debounced(Answers):
    def run(self, curator: dp.Curator) -> Array:
        return curator.release("answer", dp.Statistic(debounced, sensitivity=1, norm="l1"))


CODES = {"sale": 17, "refund": 23}


def unrefunded(rows: Array) -> float:
    """Sales, code in the second column, of orders without a refund: the first column."""
    refunded = rows[rows[:, 1] == CODES["refund"], 0]
    return float(((rows[:, 1] == CODES["sale"]) & ~np.isin(rows[:, 0], refunded)).sum())


class Unrefunded(Answers):
    def run(self, curator: dp.Curator) -> Array:
        return curator.release("answer", dp.Statistic(unrefunded, sensitivity=1, norm="l1"))


class Counted(Answers):
    def run(self, curator: dp.Curator) -> Array:
        return curator.release("answer", dp.Statistic(counted, sensitivity=1, norm="l1"))


class FourNames(Answers):
    """A frame of four columns; nothing else says how many there are."""

    def run(self, curator: dp.Curator) -> Array:
        statistic = dp.Statistic(
            lambda frame: float((frame["b"] > frame["d"]).sum()),
            sensitivity=1,
            norm="l1",
            frame="pandas",
            columns=("a", "b", "c", "d"),
        )
        return curator.release("answer", statistic)


FEW = 3.0  # seconds for a program in which there is nothing to find


def found(program: Any, **how: Any) -> list[str]:
    examined = examine(mechanism("answers", program, "add_remove"), seed=1, **how)
    assert not examined.not_examined
    return [row.detail for row in examined.broken]


@pytest.mark.first_case
@pytest.mark.whole_work
@pytest.mark.parametrize("program", [Isolated, Streak, Debounced, Unrefunded])
def test_a_row_among_few_of_named_numbers_is_found(program: Callable[[], Any]) -> None:
    assert found(program(), first=True)


@pytest.mark.quality
def test_without_such_rows_it_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "few_rows", lambda search: iter(()))
    assert found(Streak()) == []


@pytest.mark.quality
def test_a_right_count_is_left_alone() -> None:
    assert found(Counted(), seconds=FEW) == []


@pytest.mark.quality
def test_a_query_that_names_its_columns_is_run_on_so_many() -> None:
    assert found(FourNames(), seconds=FEW) == []


def test_a_majority_of_one_is_found() -> None:
    assert found(Favourite(), first=True)


class Anything:
    """An objective that likes some data sets better than others, whatever they are."""

    def __init__(self, adjacency: Adjacency) -> None:
        self.adjacency, self.tied = adjacency, 0

    def __call__(self, point: Point) -> float:
        with np.errstate(all="ignore"):
            first, second = sets(point, self.adjacency, dp.Records(point.others))
        assert len(first) - len(second) == (self.adjacency is Adjacency.ADD_REMOVE)
        assert np.isfinite(point.place)
        keys, counts = np.unique(first.values[..., 0], return_counts=True)
        self.tied += len(keys) > 1 and counts.max() - np.sort(counts)[-2] <= 1
        return len(first) % 7

    def over(self) -> bool:
        return False

    def lead(self) -> None:
        return None


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("shape", [(3, 1), (8, 3), (5, 2, 3)])
def test_every_step_gives_neighbours(adjacency: Adjacency, shape: tuple[int, ...]) -> None:
    rng, objective = np.random.default_rng(1), Anything(adjacency)
    world = rng.standard_normal(shape)
    pool = {"one": np.ones(shape[1:]), "seven": np.full(shape[1:], 7.0), "own": world[0]}
    search = Search(objective, world, pool, rng, patience=10**9)
    plans = itertools.islice(search.plans(pool, pool), 400)
    search.run([Point(world, world[0], -world[0], 1, "a pair")], 1500, plans)
    assert search.steps >= 1500
    assert objective.tied > 50

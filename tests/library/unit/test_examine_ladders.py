"""Functions of a module that join groups, fill holes of a chain, or keep rows by those before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine
from dpaudit.audit.examine.search import Search
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


def found(program: Any) -> list[str]:
    examined = examine(mechanism("answers", program, "add_remove"), seed=1)
    assert not examined.not_examined
    return [row.detail for row in examined.broken]


@pytest.mark.parametrize("program", [Isolated, Streak, Debounced, Unrefunded])
def test_a_row_among_few_of_named_numbers_is_found(program: Callable[[], Any]) -> None:
    assert found(program())


def test_without_such_rows_it_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "few_rows", lambda search: iter(()))
    assert found(Streak()) == []


def test_a_right_count_is_left_alone() -> None:
    assert found(Counted()) == []


def test_a_query_that_names_its_columns_is_run_on_so_many() -> None:
    examined = examine(mechanism("answers", FourNames(), "add_remove"), seed=1)
    assert not examined.not_examined
    assert not examined.broken

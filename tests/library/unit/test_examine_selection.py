"""Monotone threshold tests, and the scores by which a search ranks its runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examination, examine, one_way
from dpaudit.audit.examine.walks import PartWalk
from dpaudit.curator import replayer
from dpaudit.kernels.query import Array, Norm, Records
from tests.support.examined import mechanism


@dataclass(frozen=True, eq=False)
class Number:
    """A number of the rows that are there; a row moves it by 1 at most."""

    compute: Callable[[Array], float]
    norm: Norm = "l1"

    def value(self, records: Records, chosen: Any = None) -> Array:
        return np.array([[float(self.compute(records.values[records.present]))]])

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(1.0)


def positive(column: int) -> Callable[[Array], float]:
    return lambda rows: float((np.nan_to_num(rows[:, column]) > 0).sum())


def counts(k: int) -> Callable[[Array], float]:
    return positive(k % 2)


def growth(k: int) -> Callable[[Array], float]:
    """Wrong: what goes up in one question goes down in the next."""
    return lambda rows: positive(k % 2)(rows) - (positive(0)(rows) if k % 2 else 0.0)


def turned(k: int) -> Callable[[Array], float]:
    """Wrong: eight times a count, and then how much it falls short of twenty."""
    return lambda rows: positive(0)(rows) - 5 if k < 8 else 20 - positive(0)(rows)


@dataclass(frozen=True, eq=False)
class Questions:
    """Nine questions in turn, each whether a number is above the threshold.

    ``after``: of the second half, asked only once a yes was said.
    """

    ask: Callable[[int], Callable[[Array], float]]
    after: bool = False
    scores: str = "monotone"

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.AboveThreshold("large", 1, 1, answers=2 if self.after else 1, scores=self.scores)

    def run(self, curator: dp.Curator) -> Array:
        said = [curator.release("large", Number(self.ask(k)))[:, 0] for k in range(4)]
        if self.after and not np.any(said):
            return np.argmax(said, axis=0)
        said += [curator.release("large", Number(self.ask(k)))[:, 0] for k in range(4, 9)]
        return np.argmax(said, axis=0)


def told(program: Any, adjacency: str = "add_remove", seconds: float = 20) -> list[str]:
    found = examine(mechanism("selection", program, adjacency), seed=1, seconds=seconds, first=True)
    assert not found.not_examined
    return [f.detail for f in found.broken]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("ask", [growth, turned])
def test_queries_of_a_monotone_test_all_move_one_way(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any("of a monotone test" in text for text in told(Questions(ask)))
    monkeypatch.setattr(one_way, "TOGETHER", 1)
    assert not told(Questions(ask))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("program", "adjacency"),
    [
        # Declared for any queries, those that part are right.
        (Questions(growth, scores="any"), "add_remove"),
        (Questions(counts), "zero_out"),
    ],
)
def test_right_tests_are_left_alone(program: Questions, adjacency: str) -> None:
    assert not told(program, adjacency, seconds=4)


@pytest.mark.quality
def test_what_is_asked_after_a_yes_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("query 9 of" in text for text in told(Questions(turned, after=True)))
    assert not told(Questions(counts, after=True))
    monkeypatch.setattr(examination.Declining, "declines", lambda *_: True)
    assert not told(Questions(turned, after=True))


def test_a_replaced_count_moves_two_ways() -> None:
    assert any("of a monotone test" in text for text in told(Questions(counts), "replace_one"))


@dataclass(eq=False)
class Searched:
    """The best of several noisy counts, by a noisy score; ``clean``: wrong, by a clean one."""

    clean: bool
    kept: dict[str, float] = field(default_factory=dict)

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Tuned(dp.Compose(dp.Gaussian("sum", 12), dp.Gaussian("score", 12)), gamma="0.2")

    def run(self, curator: dp.Curator) -> Array:
        found, _ = curator.best_of("sum", self.once)
        return np.asarray(found)

    def once(self, curator: dp.Curator) -> tuple[Array, Array]:
        found = curator.release("sum", Number(positive(0), norm="l2"))[:, 0]
        score = curator.release("score", Number(self.count, norm="l2"))[:, 0]
        return found, -np.abs(found - (self.kept["count"] if self.clean else score))

    def count(self, rows: Array) -> float:
        self.kept["count"] = positive(0)(rows)
        return self.kept["count"]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("clean", [True, False])
def test_a_search_ranks_its_runs_by_what_they_released(
    clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(Searched(clean))
    assert any(text == replayer.PRIVATE_SCORE for text in found) == clean
    assert bool(found) == clean, found
    kept = replayer.disclosures

    def blind(first: tuple[PartWalk, Any], second: tuple[PartWalk, Any]) -> tuple[str, ...]:
        first[0].ranked = second[0].ranked = []
        return kept(first, second)

    monkeypatch.setattr("dpaudit.audit.examine.walks.disclosures", blind)
    assert not told(Searched(clean))

"""Branches that ordinary answers seldom reach, rows that repeat, rounds far into a run."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examination as examiner
from dpaudit.audit.examine import examine, search, study
from dpaudit.kernels.query import Array, Norm, Records
from tests.support.examined import mechanism


@dataclass(frozen=True)
class Own:
    """A query of the user's own."""

    make: Any
    stated: float
    norm: Norm = "l1"

    def value(self, records: Records, chosen: Any = None) -> Array:
        return np.atleast_2d(self.make(np.nan_to_num(records.values[records.present])))

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(self.stated)


@dataclass(frozen=True)
class Ratio:
    """A noisy sum over a noisy count; wrong: over the true one where the noisy one is low."""

    wrong: bool = False

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(dp.Laplace("count", 1), dp.Laplace("sum", 1))

    def run(self, curator: dp.Curator) -> Array:
        kept = [0.0]

        def count(values: Array) -> Array:
            kept[0] = float(len(values))
            return np.array([kept[0]])

        counted = curator.release("count", Own(count, 1.0))
        total = curator.release("sum", Own(lambda v: np.clip(v[:, :1], -1, 1).sum(0), 1.0))
        if self.wrong:
            return np.asarray(total / np.where(counted > 36, counted, 1 + kept[0]))
        return np.asarray(total / np.maximum(counted, 1))


@dataclass(frozen=True)
class Halving:
    """Searches for a median from a public range; wrong: the upper end follows the records."""

    wrong: bool = False

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Laplace("below", 10), 8)

    def run(self, curator: dp.Curator) -> Array:
        low, high, seen = np.full(curator.trials, -1e4), np.full(curator.trials, 1e4), [0.0]
        for _ in range(8):
            middle = (low + high) / 2

            def below(values: Array, middle: Array = middle) -> Array:
                seen[0] = float(np.abs(values[:, 0]).max(initial=0.0))
                first = values[:, 0] < middle[:, None]
                return np.asarray(first.sum(1) - 0.5 * len(values))[:, None]

            answer = curator.release("below", Own(below, 0.5))[:, 0]
            low, high = np.where(answer < 0, middle, low), np.where(answer < 0, high, middle)
            high = np.minimum(high, 1 + seen[0]) if self.wrong else high
        return np.asarray(high)


@dataclass(frozen=True)
class Signs:
    """How many rows are positive in each column; wrong: a row that repeats counts twice."""

    wrong: bool = False

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("signs", 3)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("signs", Own(self.count, np.sqrt(3.0), "l2"))

    def count(self, values: Array) -> Array:
        again = np.concatenate([[False], (values[1:] == values[:-1]).all(axis=1)])
        weight = 1.0 + (again if self.wrong else 0.0 * again)
        return np.asarray((values[:, :3] > 0).T @ weight)


def broken(program: Any, adjacency: str, **how: Any) -> list[str]:
    found = examine(mechanism("case", program, adjacency), seed=1, **how)
    return [finding.detail for finding in found.broken]


@pytest.mark.quality
@pytest.mark.long("what is found at the end of an examination")
@pytest.mark.first_case
@pytest.mark.whole_work
@pytest.mark.parametrize("kind", [Ratio, Halving])
def test_what_answers_of_much_noise_reach_is_found(kind: Any) -> None:
    assert broken(kind(wrong=True), "add_remove", first=True)


@pytest.mark.quality
@pytest.mark.parametrize("kind", [Ratio, Halving])
def test_others_do_not_reach_it(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not broken(kind(), "add_remove")
    monkeypatch.setattr(examiner._Examiner, "_loud", lambda *_: None)
    assert not broken(kind(wrong=True), "add_remove")


@pytest.mark.quality
def test_a_row_may_be_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from what a search finds, which moves it further."""
    assert not broken(Signs(), "replace_one")
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    monkeypatch.setattr(search.Search, "few_rows", lambda search: iter(()))
    assert any(study.BEFORE in text for text in broken(Signs(wrong=True), "replace_one"))


def test_work_is_spread_over_a_run_where_the_last_releases_differ_most() -> None:
    asked: list[Any] = [SimpleNamespace(label="one", place="here") for _ in range(21)]
    assert study.wholes(asked) == 7
    assert study.wholes([]) == 1

"""A year of nights: how often true claims are red, and how soon a bug of ten percent is.

Nights are real audits, drawn once into pools; years are resampled from the pools.
DPAUDIT_NIGHTS_OUT names a file for what was measured, which docs/pipelines.md prints.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binomtest

from dpaudit import PureDP, audit_function
from dpaudit.audit.blackbox import claims, judge
from dpaudit.audit.blackbox.nights import DAYS_A_YEAR, YEARLY_ERROR, Evidence

Array = npt.NDArray[np.float64]
TRUE_NIGHTS, BUG_NIGHTS = 1_500, 100
YEARS = 20_000
AUDITS = 3
BUG_SINCE = 200


def answers(data: list[int], rng: np.random.Generator, size: int) -> Any:
    """Randomised response with odds of three: log 3 is exactly what it has, the worst null."""
    return np.where(rng.random(size) < 0.75, data[0], 1 - data[0]).astype(float)


def count(scale: float) -> Callable[[list[int], np.random.Generator, int], Any]:
    return lambda data, rng, size: sum(data) + rng.laplace(0, scale, size)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds that a result also prints decide nothing here."""
    monkeypatch.setattr(judge, "_lowers", lambda terms, examined: (0.0, 0.0))
    monkeypatch.setattr(claims.EventTest, "smallest_showable", lambda self, trials, error: 1.0)


def log_e_values(mechanism: Any, pair: Any, epsilon: float, trials: int, nights: int) -> Array:
    """Of many nights of one audit."""
    claim = PureDP(epsilon)
    return np.array(
        [
            audit_function(mechanism, *pair, claim=claim, trials=trials, seed=s).log_e_value
            for s in range(nights)
        ]
    )


def wealth(logs: Array) -> Array:
    """The evidence after each night of many years at once; as ``Evidence``, for a night a day."""
    started, rows = np.zeros(logs.shape[0]), []
    for day in range(logs.shape[1]):
        started = (started + 1 / DAYS_A_YEAR) * np.exp(np.minimum(logs[:, day], 300))
        rows.append(started + (DAYS_A_YEAR - day - 1) / DAYS_A_YEAR)
    return np.array(rows).T


def test_many_years_at_once_are_those_of_the_file() -> None:
    logs = np.random.default_rng(1).normal(0, 1, (1, 40))
    evidence = Evidence(1)
    for day, log in enumerate(logs[0]):
        night = type(evidence.last)(f"{day}")
        evidence = evidence.after(night, float(log), 1, YEARLY_ERROR)
    assert evidence.log_wealth == pytest.approx(math.log(wealth(logs)[0, -1]))


def test_a_year_of_true_claims_is_red_with_at_most_one_percent() -> None:
    """Three audits of a claim that holds exactly.  False-alarm rate of this test: 1e-6."""
    rng = np.random.default_rng(2)
    drawn = log_e_values(answers, ([1], [0]), math.log(3), 300, TRUE_NIGHTS)
    red = np.zeros(YEARS, dtype=bool)
    for number in range(1, AUDITS + 1):
        years = wealth(rng.choice(drawn, (YEARS, DAYS_A_YEAR)))
        red |= np.log(years.max(axis=1)) >= Evidence(number).bar(YEARLY_ERROR)
    mean = float(np.exp(drawn).mean())
    said("true", {"red_years": int(red.sum()), "years": YEARS, "audits": AUDITS, "mean_e": mean})
    assert binomtest(int(red.sum()), YEARS, YEARLY_ERROR, alternative="greater").pvalue > 1e-6
    error = float(np.exp(drawn).std() / math.sqrt(drawn.size))
    assert mean < 1 + 5 * error


@pytest.mark.parametrize(("trials", "most"), [(5_000, 14), (20_000, 4), (100_000, 1)])
def test_a_bug_of_ten_percent_is_red_within_nights(trials: int, most: int) -> None:
    """Noise of scale 0.9 for 1, from the two hundredth night on; within ``most`` in 95 of 100."""
    rng = np.random.default_rng(3)
    pair, few = ([1, 1], [1, 0]), 1_000
    nights = BUG_NIGHTS if trials < 100_000 else 40
    quiet = log_e_values(count(1.0), pair, 1, min(trials, 2_000), 100)
    wrong = log_e_values(count(0.9), pair, 1, trials, nights)
    logs = np.concatenate(
        [rng.choice(quiet, (few, BUG_SINCE)), rng.choice(wrong, (few, DAYS_A_YEAR - BUG_SINCE))],
        axis=1,
    )
    seen = {}
    for audits in (1, 10):
        reached = np.log(wealth(logs)) >= Evidence(audits).bar(YEARLY_ERROR)
        first = np.where(reached.any(axis=1), reached.argmax(axis=1), DAYS_A_YEAR) - BUG_SINCE + 1
        seen[audits] = [int(np.quantile(first, level)) for level in (0.5, 0.95)]
    said(f"bug {trials}", seen)
    assert seen[1][1] <= most, seen


def said(name: str, measured: Any) -> None:
    target = os.environ.get("DPAUDIT_NIGHTS_OUT")
    if target:
        with Path(target).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({name: measured}) + "\n")

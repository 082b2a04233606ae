"""How often a session of the pytest plugin is red though every claim holds exactly."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from dpaudit import PureDP, audit_function, pytest_plugin
from dpaudit.audit.blackbox import claims, judge

SESSIONS = int(os.environ.get("DPAUDIT_SESSIONS", "60"))
ERROR = 0.05
TESTS = 2
TRIALS = 300


def answers(data: list[int], rng: np.random.Generator, size: int) -> Any:
    """Randomised response with odds of three: log 3 is exactly what it has, the worst null."""
    return np.where(rng.random(size) < 0.75, data[0], 1 - data[0]).astype(float)


def session(number: int) -> bool:
    """Whether a session of ``TESTS`` tests of one audit each is red."""
    budget = pytest_plugin.ErrorBudget(ERROR, TESTS)
    pytest_plugin._state.seed = number
    red = False
    for test in range(TESTS):
        error, call = budget.spend(str(test))
        found = audit_function(
            answers,
            [1],
            [0],
            claim=PureDP(math.log(3)),
            trials=TRIALS,
            refute_at=error * 2,  # one call a test: the whole of its part
            seed=pytest_plugin._seed(f"test {test}", call),
        )
        red |= str(found.verdict) in ("refuted", "alarm")
    return red


def test_sessions_are_red_no_more_often_than_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """False-alarm rate of this test: 1e-6.  DPAUDIT_SESSIONS=10000 measures it finely.

    The bounds that a result also prints decide nothing and are left out, for speed.
    """
    monkeypatch.setattr(judge, "_lowers", lambda terms, examined: (0.0, 0.0))
    monkeypatch.setattr(claims.EventTest, "smallest_showable", lambda self, trials, error: 1.0)
    red = sum(map(session, range(SESSIONS)))
    target = os.environ.get("DPAUDIT_SESSIONS_OUT")
    if target:
        row = {"sessions": SESSIONS, "red": red, "stated": ERROR, "tests": TESTS, "trials": TRIALS}
        Path(target).write_text(json.dumps(row) + "\n", "utf-8")
    assert binomtest(red, SESSIONS, ERROR, alternative="greater").pvalue > 1e-6

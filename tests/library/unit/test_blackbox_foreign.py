"""Outputs as other people's code returns them: types, shapes and scales that audits must read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit.audit import FunctionAudit, Verdict, audit_function
from dpaudit.families.opaque import GDP, PureDP

Generator = np.random.Generator
Draw = Callable[[float, Generator, int], Any]
SCORES = np.array([1.0, 1, 1, 2])


def laplace(data: float, rng: Generator, size: int) -> Any:
    """Noise for epsilon = 1 where a record moves the answer by 1; wrong ones move it by 2."""
    return data + rng.laplace(0, 1, size)


def response(data: float, rng: Generator, size: int) -> Any:
    return rng.random(size) < 1 / (1 + math.exp(0.5 - data))


FORMS: dict[str, Draw] = {
    "single precision": lambda d, r, n: laplace(d, r, n).astype(np.float32),
    "half precision": lambda d, r, n: np.round(laplace(d, r, n)).astype(np.float16),
    "whole numbers": lambda d, r, n: np.floor(laplace(d, r, n)).astype(np.int16),
    "booleans": lambda d, r, n: response(d, r, n),
    "a list": lambda d, r, n: laplace(d, r, n).tolist(),
    "objects": lambda d, r, n: np.array([float(x) for x in laplace(d, r, n)], dtype=object),
    "objects with None": lambda d, r, n: np.where(
        response(d, r, n), None, laplace(0.0, r, n).astype(object)
    ),
    "text": lambda d, r, n: np.where(response(d, r, n), "yes", "no"),
    "one hot": lambda d, r, n: np.eye(2, dtype=bool)[response(d, r, n).astype(int)],
    "a column": lambda d, r, n: laplace(d, r, n)[:, None],
    "constant columns": lambda d, r, n: np.column_stack(
        [np.full(n, 7.0), laplace(d, r, n), np.zeros(n)]
    ),
    "a bit and a number": lambda d, r, n: np.column_stack(
        [response(d / 2, r, n), laplace(d / 2, r, n)]
    ),
    "missing values": lambda d, r, n: np.where(response(d, r, n), np.nan, laplace(0.0, r, n)),
    "infinite values": lambda d, r, n: np.where(response(d, r, n), -np.inf, laplace(0.0, r, n)),
    "huge values": lambda d, r, n: 1e300 * laplace(d, r, n),
    "tiny values": lambda d, r, n: 1e-300 * laplace(d, r, n),
    "a large offset": lambda d, r, n: 1e9 + laplace(d, r, n),
    "complex numbers": lambda d, r, n: 1j * laplace(d, r, n),
    "one at a time": lambda d, r, n: [float(laplace(d, r, 1)[0]) for _ in range(n)],
}


def audit(form: str, other: float, trials: int) -> FunctionAudit:
    return audit_function(
        FORMS[form], 0.0, other, claim=PureDP(1), trials=trials, refute_at=1e-3, seed=2
    )


@pytest.mark.first_case
@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_mechanism_is_found_in_any_form(form: str) -> None:
    """Two and a half times the epsilon that is claimed."""
    found = audit(form, 2.5, 2_000)
    assert found.verdict is Verdict.REFUTED
    assert found.reproducer.count("\n") <= 10


@pytest.mark.quality
@pytest.mark.parametrize("form", FORMS)
def test_its_right_twin_is_refuted_in_no_form(form: str) -> None:
    """Each with probability 1e-3 at most."""
    assert audit(form, 0.9, 4_000).verdict is Verdict.INCONCLUSIVE


def test_the_order_of_a_ranking_is_an_output() -> None:
    """Gumbel noise of scale 2 under scores that move by 1: the winner is 1-DP, the order is not."""

    def order(data: float, rng: Generator, size: int) -> Any:
        return np.argsort(-4 * SCORES * (1 - 2 * data) - rng.gumbel(0, 2, (size, 4)), axis=1)

    found = audit_function(order, 0.0, 1.0, claim=PureDP(1), trials=4_000, refute_at=0.01, seed=2)
    assert found.verdict is Verdict.REFUTED


@pytest.mark.quality
def test_a_hundred_columns() -> None:
    """mu = 2 over all columns together, 0.2 in each."""

    def vector(data: float, rng: Generator, size: int) -> Any:
        return data / 10 + rng.normal(0, 0.5, (size, 100))

    found = audit_function(vector, 0.0, 1.0, claim=GDP(1), trials=6_000, refute_at=1e-3, seed=2)
    assert found.verdict is Verdict.REFUTED

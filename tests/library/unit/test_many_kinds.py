"""Products of many different bounded losses, by a smoothing, against all their outcomes."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.kernels.query import Array
from dpaudit.profiles.fourier import smooth
from tests.library.cli.bench import accept, certified, mechanism

REPLACE = dp.central("replace_one")


def kinds(number: int) -> list[Any]:
    """Different answers and whole numbers of noise; the same losses as answers."""
    half = number // 2
    answers = [dp.RandomizedResponse(f"r{k}", Fraction(1, 7 + k)) for k in range(half)]
    return [*answers, *(dp.DiscreteLaplace(f"d{k}", 21 + 2 * k) for k in range(number - half))]


def truth(losses: list[float], epsilon: float) -> float:
    """delta over the 2^k outcomes of k answers."""
    chances = [1 / (1 + math.exp(-loss)) for loss in losses]

    def joined(known: Array, both: tuple[float, float]) -> Array:
        return np.outer(known, both).ravel()

    p = reduce(joined, [(c, 1 - c) for c in chances], np.ones(1))
    q = reduce(joined, [(1 - c, c) for c in chances], np.ones(1))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("number", [10, 16])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6"])
def test_they_hold_all_their_outcomes(number: int, delta: str) -> None:
    nodes = kinds(number)
    losses = [float(dp.account(node, REPLACE).step("pure").value) for node in nodes]
    found = dp.account(dp.Compose(*nodes), REPLACE).epsilon(delta)
    assert found.upper - found.lower <= found.upper * Fraction(1, 5000)
    assert truth(losses, float(found.upper)) <= float(delta) * (1 + 1e-9)
    assert truth(losses, float(found.lower)) >= float(delta) * (1 - 1e-9)


def test_a_hundred_kinds_have_a_closed_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were convolved one by one on a grid, in 20 s."""
    parts = dp.account(dp.Compose(*kinds(100)), REPLACE).step("profile").value.pairs[0].factors
    whole = tuple((pair, int(times)) for pair, times in parts)
    assert smooth.smooth_product(whole) is not None
    monkeypatch.setattr(smooth, "MANY_KINDS", 101)
    assert smooth.smooth_product(whole) is None


@pytest.mark.quality
def test_their_certificate_is_confirmed() -> None:
    node = dp.Compose(*kinds(20))
    epsilon = dp.account(node, REPLACE).epsilon("1e-5").upper
    case = mechanism("many", node, dp.ApproxDP(epsilon, Fraction(1, 10**5)))
    certificate = certified(case).certificate
    assert certificate["predicate"]["claims"][0]["check"] == "proved"
    assert "only the accountant" not in " ".join(accept(certificate).on_trust)

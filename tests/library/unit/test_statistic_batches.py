"""Plain functions on secret batches: exact batches for likelihoods, bounds near the account."""

from __future__ import annotations

import itertools
from collections import Counter
from statistics import median
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.likelihood import likelihood_audit
from dpaudit.audit.neighbours import Neighbours, alone
from dpaudit.curator.latent import enumerated
from dpaudit.kernels.query import Array

RATE = 0.2
SAMPLED = dp.PoissonSampled(dp.Gaussian("sum", 1), rate="0.2")
SCOPE = dp.central("add_remove")


def clipped_sum(rows: Any) -> Any:
    return np.clip(rows[:, 0], 0, 1).sum()


def in_order(rows: Any) -> Any:
    """A function of the order of the rows: equal rows may change places, others may not."""
    return 0.0 if not len(rows) else rows[-1, 0] + 10 * rows[0, 0] + 100 * len(rows)


class Step:
    """One noisy sum over a secret batch."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return SAMPLED

    def run(self, curator: Any) -> Array:
        with curator.batch("sum") as batch:
            released: Array = curator.release("sum", dp.Statistic(self.function, 1), rows=batch)
            return released


@pytest.mark.parametrize("values", [[0, 0, 0, 7], [np.nan, 3, np.nan, 7], [5, 5, 2, 2]])
def test_outcomes_have_the_law_of_all_batches(values: list[float]) -> None:
    """Beside all 16 batches, each with its chance, added up by value."""
    records, query = dp.Records(np.array(values)[:, None]), dp.Statistic(in_order, 1)
    expected = Counter[float]()
    for drawn in itertools.product([False, True], repeat=4):
        chance = np.prod(np.where(drawn, RATE, 1 - RATE))
        expected[float(query.value(records, np.array([drawn]))[0, 0])] += chance
    outcomes = enumerated(SAMPLED, records, [(query, np.array([True]))])
    assert outcomes is not None
    found = Counter[float]()
    for mask, log in zip(outcomes.masks, outcomes.logs, strict=True):
        found[float(query.value(records, np.atleast_2d(mask))[0, 0])] += float(np.exp(log))
    assert dict(found) == pytest.approx(dict(expected))


def test_equal_rows_that_are_apart_are_no_block() -> None:
    """A batch's rows in their order then do not follow from how many of each kind it has."""
    records = dp.Records(np.array([[0.0], [7.0]] * 10))
    assert enumerated(SAMPLED, records, [(dp.Statistic(in_order, 1), np.array([True]))]) is None


@pytest.mark.quality
def test_bounds_reach_nine_tenths_of_the_account() -> None:
    """In the median of five seeds; a bound is above the account with chance 5% at most."""
    pair = dp.Records(np.full((20, 2), 9.0)), dp.Records(np.full((19, 2), 9.0))
    neighbours = Neighbours(*alone(*pair, np.nan), SCOPE.adjacency, "one record and none")
    accounted = float(dp.account(SAMPLED, SCOPE).epsilon("1e-5"))
    claims = [dp.Claim(dp.ApproxDP(4, "1e-5"), by="dpaudit's tests")]
    shares = []
    for seed in range(5):
        found = likelihood_audit(
            Step(clipped_sum), SAMPLED, SCOPE, neighbours, claims,
            seed=seed, shown_error=0.05, decisive_error=1e-5,
        )  # fmt: skip
        shares.append(found.bounds[0].shown / accounted)
    assert 0.93 < median(shares) < 1

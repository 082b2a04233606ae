"""Groups of what no pair of a group is known of: one record's (epsilon, delta), step by step."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import dpaudit as dp
from dpaudit.accountant import account as account_module
from dpaudit.errors import CertificateRejected, Unsupported
from tests.library.cli.bench import accept, certified, forged, mechanism, scope

F = Fraction
REPLACE, ADD = dp.central("replace_one"), dp.central("add_remove")
DELTA = F(1, 10**6)
BANDS = dp.BandedToeplitz(("1", "0.5", "0.375", "0.3125"))
ROWS = dp.CorrelatedGaussian("prefix", 2, 400, BANDS, dp.Participation(100, 4))
TWO = dp.Gaussian("g", 2)
CUT = dp.Repeat(dp.TruncatedPoisson(TWO, "0.01", 10_000, 160), 200)
FIXED = dp.Repeat(dp.SampledWithoutReplacement(dp.Gaussian("g", 1), 100, 10_000), 20)
DISCRETE = dp.Repeat(dp.PoissonSampled(dp.DiscreteGaussian("g", 4), "0.01"), 10)
POLL = dp.Shuffled(dp.RandomizedResponse("poll", F(1, 10)), 1000)
# What was answered before, infinity where nothing was.
CASES: dict[str, tuple[Any, int, Any, float, float]] = {
    "cyclic groups": (dp.CyclicPoisson(ROWS, groups=4, rate="0.04"), 5, ADD, 9.6, math.inf),
    "cut batches": (CUT, 5, ADD, 1.85, math.inf),
    "batches of one size": (FIXED, 5, REPLACE, 12.4, 355),
    "allocated": (dp.RandomAllocation(TWO, 10), 2, ADD, 2.1, 4.8),
    "shuffled answers": (POLL, 3, REPLACE, 0.033, 0.299),
    "a search": (dp.Tuned(dp.Gaussian("g", 10), "0.01"), 2, ADD, 2.3, 3.2),
    "sampled whole numbers": (DISCRETE, 5, ADD, 1.31, 3.4),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", CASES)
def test_a_group_has_what_one_record_has_at_a_smaller_delta(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, size, adjacency, at_most, before = CASES[name]
    node = dp.Group(child, size)
    found = dp.account(node, adjacency).epsilon(DELTA)
    one = dp.account(child, adjacency)
    assert float(one.epsilon(DELTA).upper) < float(found.upper) < at_most
    assert float(found.lower) <= float(one.epsilon(DELTA).upper)
    monkeypatch.setattr(account_module, "in_steps", lambda *_: None)
    if math.isinf(before):
        with pytest.raises(Unsupported, match="no dominating pair"):
            dp.account(node, adjacency).epsilon(DELTA)
    else:
        assert float(dp.account(node, adjacency).epsilon(DELTA).upper) > before


@pytest.mark.parametrize("name", ["cut batches", "shuffled answers", "allocated"])
@pytest.mark.quality
def test_delta_of_a_group_answers_epsilon(name: str) -> None:
    """No larger than what was asked for epsilon, and above one record's."""
    child, size, adjacency, *_ = CASES[name]
    account = dp.account(dp.Group(child, size), adjacency)
    at = account.epsilon(DELTA).upper
    found = account.delta(at)
    assert float(found.lower) <= float(found.upper) <= float(DELTA)
    assert found.step is not None
    one = dp.account(child, adjacency).delta(at / size).upper
    assert found.step.premises[0].value == (at / size, one)


def lost(reports: int, size: int, loss: float, epsilon: float) -> float:
    """delta of ``size`` of the reports that turn from 1 to 0, where all others hold 0."""
    chance = math.exp(loss) / (1 + math.exp(loss))
    others = binom.pmf(np.arange(reports - size + 1), reports - size, 1 - chance)
    ones, zeros = (binom.pmf(np.arange(size + 1), size, p) for p in (chance, 1 - chance))
    p, q = np.convolve(others, ones), np.convolve(others, zeros)
    pairs = ((p, q), (q, p))
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in pairs)


@pytest.mark.first_case
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("reports", [5, 40, 1000])
def test_groups_of_shuffled_answers_are_not_below_their_count(reports: int, size: int) -> None:
    node = dp.Group(dp.Shuffled(dp.RandomizedResponse("poll", F(1, 2)), reports), size)
    account = dp.account(node, REPLACE)
    for delta in ("1e-2", "1e-4", "1e-8"):
        found = account.epsilon(delta)
        assert lost(reports, size, 0.5, float(found.upper)) <= float(delta) * (1 + 1e-9)
        if found.lower > 0:
            assert lost(reports, size, 0.5, float(found.lower)) >= float(delta) * (1 - 1e-9)
    for epsilon in ("0.05", "0.3"):
        found = account.delta(epsilon)
        true = lost(reports, size, 0.5, float(epsilon))
        assert float(found.lower) <= true * (1 + 1e-9) + 1e-15
        assert true <= float(found.upper) * (1 + 1e-9)


def test_what_has_exact_groups_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(account_module, "in_steps", lambda *a: asked.append(a))
    node = dp.Group(dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", 4), "0.01"), 100), 5)
    assert float(dp.account(node, ADD).epsilon(DELTA).upper) == pytest.approx(0.54116, abs=1e-4)
    assert asked == []


SMALL = dp.Repeat(dp.SampledWithoutReplacement(dp.Gaussian("mean", 2), 100, 10_000), 20)


@pytest.mark.quality
@pytest.mark.parametrize(
    "child",
    [
        pytest.param(SMALL, marks=pytest.mark.quality),
        dp.Shuffled(dp.RandomizedResponse("mean", 1), 1000),
    ],
)
def test_its_certificate_is_confirmed_and_steps_that_are_not_paid_for_are_refused(
    child: Any,
) -> None:
    group = dp.Group(child, 3)
    epsilon = dp.account(group, scope()).epsilon("1e-5").upper
    case = mechanism("group", group, dp.ApproxDP(epsilon * F(101, 100), F(1, 10**5)))
    certificate = certified(case).certificate
    assert certificate["predicate"]["claims"][0]["check"] == "proved"
    accept(certificate)
    rows = certificate["predicate"]["derivation"]["steps"]
    step = next(row["id"] for row in rows if row["rule"] == "approx.group_approximate")
    (premise,) = rows[step]["premises"]
    assert rows[premise]["rule"] == "convert.profile_to_approx"

    def unpaid(predicate: Any) -> None:
        """One record's delta, as if the steps cost nothing."""
        steps = predicate["derivation"]["steps"]
        steps[step]["conclusion"]["delta"] = steps[premise]["conclusion"]["delta"]

    with pytest.raises(CertificateRejected, match="not its bound, rounded outward"):
        accept(forged(certificate, unpaid))

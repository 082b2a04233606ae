"""Noise across releases: what depends on what, with stated rates, and the attack that uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audits.broken import diff2 as bench
from dpaudit.audit.bounds.estimators import count_errors, mu_lower
from dpaudit.audit.graybox.cancelling import cancelling_attack
from dpaudit.audit.graybox.correlation import COORDINATES, EXPLAINED, RANK, check_dependence
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array

ERROR = 1e-5
TRIALS, USES, WIDTH = 60, 5, 3


def fresh(seed: int = 0, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape or (TRIALS, USES, WIDTH))


def broken(residuals: Any, **options: Any) -> set[str]:
    found = check_dependence(residuals, ERROR, **options)
    return {f.check for f in found if f.status == "broken"}


def reused(z: Array) -> None:
    z[:, 3] = z[:, 0]


def negated(z: Array) -> None:
    z[:, 3] = -z[:, 0]


def combined(z: Array) -> None:
    z[:, 4] = (z[:, 0] + z[:, 1] + z[:, 2] + z[:, 3]) / 2


def shuffled(z: Array) -> None:
    """Another coordinate of an earlier release: no pair of releases is the same."""
    z[:, 3, :] = z[:, 0, [1, 2, 0]]


EXACT: dict[str, Callable[[Array], None]] = {
    "reused": reused,
    "negated": negated,
    "combined": combined,
    "shuffled": shuffled,
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_dependence_is_found_by_rank(name: str) -> None:
    z = fresh()
    EXACT[name](z)
    found = {f.check: f for f in check_dependence({"a": z}, ERROR)}
    assert found[RANK].status == "broken"
    assert found[RANK].error_rate == 0.0
    assert "a[" in found[RANK].detail


def test_independent_noise_is_not_flagged() -> None:
    assert broken({"a": fresh(1), "b": fresh(2, TRIALS, 2, 1)}) == set()


def test_near_dependence_is_found_by_its_rate() -> None:
    """A tenth fresh noise: no exact combination, but far too little is left of it."""
    z = fresh()
    z[:, 4] = 0.995 * z[:, 1] + 0.1 * fresh(5)[:, 4]
    assert broken({"a": z}) >= {EXPLAINED, COORDINATES}


def test_a_sum_of_many_noises_is_found_where_no_pair_shows_it() -> None:
    """z_40 is the normalised sum of 39 others: correlations with each are 0.16."""
    z = fresh(3, 40, 40, 4)
    z[:, 39] = z[:, :39].sum(axis=1) / 39**0.5 + 0.05 * fresh(4, 40, 4)
    assert EXPLAINED in broken({"a": z})


def test_dependence_across_labels_is_found() -> None:
    a, b = fresh(1), fresh(2, TRIALS, 2, WIDTH)
    b[:, 1] = a[:, 2]
    assert RANK in broken({"a": a, "b": b})


def test_trials_that_are_off_keep_labels_apart_unless_the_order_is_known() -> None:
    a, b = fresh(1), fresh(2)
    a[:7, 1] = np.nan
    b[:, 4] = a[:, 0]
    assert broken({"a": a, "b": b}) == set()
    order = [(label, use) for use in range(USES) for label in "ab"]
    assert RANK in broken({"a": a, "b": b}, order=order)
    a[:, 3] = a[:, 0]
    assert RANK in broken({"a": a, "b": b})


def test_a_mask_made_of_noise_is_no_dependence() -> None:
    """Whether a release is made depends on the noise before: 200 nulls at 5%, below 26 (1e-5)."""
    flagged = 0
    for seed in range(200):
        z = fresh(seed, 40, 4, 2)
        z[z[:, 0, 0] > 0.5, 1:] = np.nan
        z[np.nan_to_num(z[:, 1, 0]) < -0.5, 2:] = np.nan
        flagged += any(f.status == "broken" for f in check_dependence({"a": z}, 0.05))
    assert flagged < 26


def test_the_rate_of_false_alarms() -> None:
    """400 nulls at 5%: more than 41 have probability below 1e-5 if the rate is 5%."""
    flagged = sum(
        any(f.status == "broken" for f in check_dependence({"a": fresh(seed, 30, 4, 2)}, 0.05))
        for seed in range(400)
    )
    assert flagged <= int(stats.binom.isf(1e-5, 400, 0.05))
    assert flagged >= 2


def test_too_little_to_tell_is_not_run() -> None:
    for z in (fresh(0, 50, 1, 1), fresh(0, 1, 3, 1)):
        statuses = {f.check: f.status for f in check_dependence({"a": z}, ERROR)}
        assert statuses[COORDINATES] == "not_run"
    assert broken({"a": np.zeros((20, 3, 2))}) == set()


@pytest.mark.parametrize(
    ("residuals", "options"),
    [
        ({}, {}),
        ({"a": np.zeros((3, 2))}, {}),
        ({"a": np.zeros((0, 2, 1))}, {}),
        ({"a": np.zeros((3, 2, 1)), "b": np.zeros((4, 2, 1))}, {}),
        ({"a": np.zeros((3, 2, 1))}, {"order": [("a", 0)]}),
        ({"a": np.zeros((3, 2, 1))}, {"order": [("a", 0), ("b", 1)]}),
    ],
)
def test_bad_residuals_are_refused(residuals: Any, options: Any) -> None:
    with pytest.raises(InvalidParameter):
        check_dependence(residuals, ERROR, **options)


@pytest.mark.parametrize("error", [0.0, 1.0, float("nan")])
def test_bad_error_rates_are_refused(error: float) -> None:
    with pytest.raises(InvalidParameter, match="error"):
        check_dependence({"a": fresh()}, error)


# --- the attack that cancels noise ---------------------------------------------------------------


def lens(suite: Any, seed: int = 1) -> tuple[float, set[str]]:
    found = cancelling_attack(bench.diff2_gd_bench, suite, seed=seed, trials=4_000, error=ERROR)
    assert found.test is not None
    bound = mu_lower(count_errors(found.test, 0.0), ERROR).mu_lower
    return bound, {f.check for f in found.findings if f.status == "broken"}


def test_reused_noise_is_cancelled_and_refutes_the_claim() -> None:
    """The paper claims mu = 0.577; whoever subtracts one release from another sees it all."""
    bound, found = lens(bench.b11_reused_noise)
    assert bound > 2
    assert found >= {RANK, EXPLAINED}


@pytest.mark.quality
def test_fresh_noise_leaves_nothing_to_cancel() -> None:
    """The learned covariance costs some power; the bound stays below the truth, mu = 0.577."""
    bound, found = lens(bench.twin)
    assert 0.3 < bound < 0.5774
    assert found == set()


def test_the_attack_refuses_what_it_cannot_combine() -> None:
    with pytest.raises(InvalidParameter, match="releases"):
        cancelling_attack(bench.diff2_gd_bench, bench.twin, seed=1, releases=0)
    other = replace(bench.twin, program=replace(bench.CORRECT, rounds=5))
    with pytest.raises(InvalidParameter, match="declares other noise"):
        cancelling_attack(bench.diff2_gd_bench, other, seed=1)

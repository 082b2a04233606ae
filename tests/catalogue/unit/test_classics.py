"""The five classics: a page each, proved, attacked without a finding, and right as programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from audits.classics import dp_sgd as sgd_audit
from audits.classics import exponential as exponential_audit
from audits.classics import histogram as histogram_audit
from audits.classics import noisy_count as count_audit
from audits.classics import sparse_vector as vector_audit
from mechanisms.classics.dp_sgd import poisson_sgd
from mechanisms.classics.exponential import most_frequent
from mechanisms.classics.histogram import histogram
from mechanisms.classics.noisy_count import noisy_count
from mechanisms.classics.sparse_vector import sparse_vector

LINES = 40
CASES: list[tuple[Any, Any]] = [
    (noisy_count, count_audit.noisy_count),
    (histogram, histogram_audit.histogram),
    (sparse_vector, vector_audit.sparse_vector),
    (most_frequent, exponential_audit.most_frequent),
    (poisson_sgd, sgd_audit.poisson_sgd),
]
IDS = [mechanism.name for mechanism, _ in CASES]


def test_each_is_a_page(checkout: Path) -> None:
    for folder in ("mechanisms", "audits"):
        files = [p for p in (checkout / folder / "classics").glob("*.py") if p.stem != "__init__"]
        assert len(files) == len(CASES)
        assert all(len(path.read_text("utf-8").splitlines()) <= LINES for path in files)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("mechanism", "suite"),
    [*CASES[:-1], pytest.param(*CASES[-1], marks=pytest.mark.quality)],  # the last one is DP-SGD
    ids=IDS,
)
def test_each_is_certified_and_verified(mechanism: Any, suite: Any) -> None:
    """The audits alarm with probability at most 1e-4 each."""
    certificate = dp.audit_mechanism(mechanism, suite, seed=1, trials=400)
    assert certificate.verdict == "certified under assumptions"
    assert dp.verify(certificate).confirmed
    assert all(row["status"] != "broken" for row in certificate.content["predicate"]["conformance"])


@pytest.mark.parametrize(("mechanism", "suite"), CASES, ids=IDS)
def test_half_of_each_claim_is_refuted(mechanism: Any, suite: Any) -> None:
    (claim,) = mechanism.claims
    values = {name: v for name, v in claim.guarantee.parameters.items() if v != ""}
    half = type(claim.guarantee)(**values | {"epsilon": values["epsilon"] / 2})
    checked = dp.Claim(half, by="a test").check(mechanism.declaration, mechanism.scope)
    assert checked.outcome == "refuted"


def run(mechanism: Any, rows: Any, trials: int = 400) -> Any:
    records, rng = dp.Records(np.array(rows, dtype=float)), np.random.default_rng(5)
    curator = dp.Sampler(mechanism.declaration, mechanism.scope, records, rng=rng, trials=trials)
    return mechanism.program.run(curator)


def test_they_compute_what_they_say() -> None:
    """Means of 400 draws of noise of scale 2 are off by 1 with probability below 1e-10."""
    assert abs(run(noisy_count, [[1.0]] * 70 + [[0.0]] * 5).mean() - 70) < 1
    bins = run(histogram, [[0.0]] * 9 + [[2.0]] * 4 + [[7.0]])
    assert np.abs(bins.mean(axis=0) - [9, 0, 4, 0]).max() < 1
    first = run(sparse_vector, [[0.0, 1.0, 1.0]] * 400)
    assert np.mean(first == 1) > 0.7  # 0.82: a column of zeros passes with probability 0.18
    assert np.mean(run(most_frequent, [[2.0]] * 90 + [[1.0]] * 3) == 2) > 0.99


def test_dp_sgd_learns() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(1_000, 2))
    labels = features @ [1.0, -1.0] > 0
    weights = run(poisson_sgd, np.column_stack([features, labels]), trials=4)
    right = (features @ weights.T > 0) == labels[:, None]
    assert right.mean() > 0.9

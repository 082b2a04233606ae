"""An audit checks how secret batches are drawn, and the noise of what is released on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audits.broken import diff2_bvr as bench
from dpaudit.audit.attack import attack
from dpaudit.audit.attacked import Attacked
from dpaudit.audit.batches import batch_noise, sampler_of
from dpaudit.audit.graybox.watch import Watched
from dpaudit.curator.curator import Sampler
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from mechanisms.papers.diff2.catalogue import REPLACE_ONE

ERROR = 1e-4
CHECK = "sampling frequencies"


def audited(suite: Any, **options: Any) -> Attacked:
    given = {"seed": 4, "trials": 50, "error": ERROR, **options}
    return attack(bench.diff2_bvr_bench, suite, **given)


@pytest.mark.quality
def test_a_right_audit_names_batches_and_local_noise() -> None:
    """False alarms: 1e-4; the checks' rates sum to that."""
    found = audited(bench.bvr_twin).findings
    assert {f.status for f in found} <= {"held", "not_run"}
    checks = {f.check for f in found}
    assert {CHECK, "variance of local 0", "variance of local 1", "variance of gradient"} <= checks
    assert sum(f.error_rate for f in found) == pytest.approx(ERROR)
    (batches,) = [f for f in found if f.check == CHECK]
    assert batches.error_rate == ERROR / 2
    assert "declared" in batches.detail


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["b19_batch_of_a_round", "b20_cyclic_partition", "b25_poisson"])
def test_wrong_batches_break_it_with_their_line(name: str) -> None:
    (found,) = [f for f in audited(getattr(bench, name)).findings if f.check == CHECK]
    assert found.status == "broken"
    assert found.detail.endswith(")")
    assert "mechanisms/papers/diff2/routines.py:" in found.detail


@pytest.mark.quality
def test_wrong_local_noise_breaks_it() -> None:
    broken = {f.check for f in audited(bench.b23_half_noise).findings if f.status == "broken"}
    assert {"variance of local 0", "variance of local 1"} <= broken
    assert CHECK not in broken


@pytest.mark.quality
def test_scores_are_the_same_however_many_workers() -> None:
    one, two = (audited(bench.bvr_twin, jobs=jobs) for jobs in (1, 2))
    assert one.training is not None
    assert two.training is not None
    np.testing.assert_array_equal(one.training.null, two.training.null)
    assert [f.detail for f in one.findings] == [f.detail for f in two.findings]


def test_batches_are_noted_only_where_some_are_declared() -> None:
    noise = Gaussian("a", 1)
    assert sampler_of(Compose(noise, noise)) is Sampler
    for sampled in (PoissonSampled(noise, 0.1), SampledWithoutReplacement(noise, 1, 2)):
        assert sampler_of(Compose(noise, sampled)) is Watched


def test_a_watched_run_gives_the_noise_of_its_batches() -> None:
    """Labels on all records are left to the replay; a plain sampler notes nothing."""
    suite = replace(bench.bvr_twin, trials=20)
    given: Any = (suite.program.declaration(REPLACE_ONE), REPLACE_ONE, suite.neighbours.first)
    for kind, labels in ((Watched, {"local 0", "local 1"}), (Sampler, set())):
        sampler = kind(*given, rng=np.random.default_rng(0), trials=20)
        suite.program.run(sampler)
        noise, lines = batch_noise(sampler)
        assert set(noise) == labels
        assert {values.shape for values in noise.values()} <= {(20, 40, 5)}
        assert len(lines) == bool(labels)

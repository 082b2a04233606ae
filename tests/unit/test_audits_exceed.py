"""Canaries of audits exceed the clips of the programs that they attack, so that none is unseen."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from audits import kl, kl_adaptive, kl_baselines, kl_readings, srgd, srgd_baselines
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.project.project import catalogue_root, load

MODULES = (kl, kl_adaptive, kl_baselines, kl_readings, srgd, srgd_baselines)
# Nothing clips their Lipschitz losses or iterates, or nothing is asked.
UNCLIPPED = {
    "accelerated_dp_srgd_unclipped",
    "accelerated_dp_srgd_theorem_5_12_unclipped",
    "kl_spider_vacuous",
    "phased_sgd",
}


def suites(module: ModuleType) -> dict[str, Suite]:
    return {suite.mechanism: suite for suite in module.suites}


NAMES = [(module, name) for module in MODULES for name in suites(module) if name not in UNCLIPPED]


def excess(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> float:
    """How many times its clip the longest vector of a record is, in a run on the first data set."""
    found = [0.0]
    clipped = ClippedMean._clipped

    def seen(self: ClippedMean, values: Array) -> Array:
        rows = np.asarray(self.per_record(values), dtype=np.float64)
        radius = np.broadcast_to(self.radius, len(rows))[:, None]
        norms = np.linalg.norm(rows, axis=-1)
        found.append(float((norms / np.where(radius > 0, radius, np.inf)).max(initial=0.0)))
        return np.asarray(clipped(self, values))

    mechanism = load(catalogue_root()).mechanisms[suite.mechanism]
    records = suite.neighbours.first
    rng = np.random.default_rng(1)
    sampler = Sampler(mechanism.declaration, mechanism.scope, records, rng=rng, trials=1)
    with monkeypatch.context() as patched:
        patched.setattr(ClippedMean, "_clipped", seen)
        suite.program.run(sampler)
    return max(found)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[name for _, name in NAMES])
def test_a_canary_exceeds_its_clip_by_a_thousand(
    module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert excess(suites(module)[name], monkeypatch) >= 999


def test_a_canary_of_just_its_clip_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = srgd.suites[0]
    assert excess(replace(suite, program=srgd.linear(suite.program)), monkeypatch) <= 1 + 1e-9

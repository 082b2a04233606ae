"""Studies on workers, on a Dask cluster, and after kill -9; declared programs as targets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpaudit.audit.verdict import Verdict
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.membership import Study
from dpaudit.membership.program_target import ProgramTarget
from dpaudit.project.project import resolve
from tests.support.membership import looked_up, numbered, remembering

SLOW = """
import sys, time
import numpy as np
from dpaudit.families.opaque import PureDP
from dpaudit.membership import Study
from tests.support.membership import looked_up, numbered, remembering

def fit(records, rng):
    time.sleep(0.2)
    return remembering(records, rng)

if __name__ == "__main__":
    study = Study((fit, looked_up), numbered(40), 24, seed=4, folder=sys.argv[1])
    print(study.run(claim=PureDP(1), attacks="loss", jobs=2).bounds)
"""


def test_a_study_killed_by_signal_nine_goes_on_and_loses_nothing(
    tmp_path: Path, checkout: Path
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": str(checkout)}

    def start(folder: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(script), str(tmp_path / folder)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    first = start("killed")
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("killed/runs/*/*.npz"))) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = {p: p.stat().st_mtime_ns for p in tmp_path.glob("killed/runs/*/*.npz")}
    again, whole = (start(folder).communicate(timeout=240)[0] for folder in ("killed", "whole"))
    assert again == whole
    assert "LowerBound" in again
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())


def test_workers_and_a_dask_cluster_give_the_same_as_one_process() -> None:
    joblib = pytest.importorskip("joblib")
    distributed = pytest.importorskip("distributed")

    def study() -> Study:
        return Study((remembering, looked_up), numbered(40), 8, seed=6)

    alone = study().run(claim=PureDP(1), attacks="loss").bounds
    assert study().run(claim=PureDP(1), attacks="loss", jobs=2).bounds == alone
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as one,
        distributed.Client(one),
        joblib.parallel_config(backend="dask"),
    ):
        assert study().run(claim=PureDP(1), attacks="loss", jobs=2).bounds == alone


def test_a_declared_program_is_a_target(checkout: Path) -> None:
    mechanism = resolve("accelerated_dp_srgd", checkout).mechanism
    assert mechanism.records is not None
    _, first = np.unique(mechanism.records().values, axis=0, return_index=True)
    target = ProgramTarget(mechanism, tuple(map(int, first[:60])))
    found = Study(target, target.data, 6, seed=1).run(claim=ApproxDP(1, 1e-6), attacks="loss")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert [each.name for each in found.findings] == ["what would be noticed"]
    assert "accelerated_dp_srgd" in found.target

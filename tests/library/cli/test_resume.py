"""Audits killed without warning: nothing lost, nothing counted twice, nobody left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.library.cli.conftest import call, spawn

BATCHES = 24
PATIENCE = 90.0

SCRIPT = f"""
import os, sys, time
from dpaudit.audit.engine import plan, run_batches
from dpaudit.storage.batches import AuditStore

folder, log, jobs, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

def task(batch, rng):
    time.sleep(pause)
    with open(log, "a") as file:
        file.write(f"{{os.getpid()}} {{batch.key[-1]}}\\n")
    return {{"scores": rng.normal(size=(batch.trials, 50))}}

batches = plan(0, 0, 1, {BATCHES * 10}, 10)
found = run_batches(task, batches, root_seed=5, jobs=jobs, store=AuditStore(folder, "audit"))
sys.stdout.buffer.write(b"".join(arrays["scores"].tobytes() for arrays in found.values()))
"""


class Runs:
    """Runs of one script on one store; each with a log of its own."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.folder, self.script, self.count = folder, folder / "script.py", 0
        self.script.write_text(SCRIPT)
        self.environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}

    def start(self, store: str, jobs: int, pause: float) -> subprocess.Popen[bytes]:
        self.count += 1
        arguments = [str(self.script), str(self.folder / store), str(self.log), str(jobs)]
        return subprocess.Popen(
            [sys.executable, *arguments, str(pause)],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / f"log-{self.count}"

    def lines(self) -> list[list[int]]:
        """Process and batch of every call of the run at hand."""
        text = self.log.read_text() if self.log.exists() else ""
        return [list(map(int, line.split())) for line in text.splitlines()]

    def stored(self, store: str) -> int:
        return len(list((self.folder / store).glob("*/*.npz")))

    def finish(self, store: str, jobs: int, pause: float = 0.0) -> bytes:
        child = self.start(store, jobs, pause)
        out, error = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, error
        return out


@pytest.fixture
def runs(tmp_path: Path, checkout: Path) -> Runs:
    return Runs(tmp_path, checkout)


def wait(condition: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.quality
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_at_random_moments_again_and_again(runs: Runs, jobs: int) -> None:
    """SIGKILL to the parent, three times, each at another moment; then a run to the end."""
    calm = runs.finish("calm", 1)
    moments, before, kills = random.Random(jobs), 0, 0
    while kills < 3:
        child = runs.start("killed", jobs, 0.05)
        aim = before + moments.randint(1, 5)
        wait(lambda aim=aim: runs.stored("killed") >= aim, "nothing was stored")
        time.sleep(moments.uniform(0, 0.1))
        child.kill()
        child.communicate()
        assert child.returncode == -signal.SIGKILL
        workers, kills = {pid for pid, _ in runs.lines()} - {child.pid}, kills + 1
        wait(lambda left=workers: not any(map(alive, left)), "workers outlived their parent")
        before = runs.stored("killed")
        assert aim <= before < BATCHES
    assert runs.finish("killed", jobs) == calm
    run = [batch for _, batch in runs.lines()]
    assert len(run) == len(set(run)) == BATCHES - before, "only what was missing, each once"
    assert runs.stored("killed") == BATCHES


@pytest.mark.quality
def test_a_killed_worker_costs_nothing(runs: Runs) -> None:
    """SIGKILL to a worker: the run goes on by itself and ends as a calm one."""
    calm = runs.finish("calm", 1)
    child = runs.start("killed", 2, 0.1)
    wait(lambda: runs.stored("killed") >= 3, "nothing was stored")
    victim = runs.lines()[-1][0]
    assert victim != child.pid
    os.kill(victim, signal.SIGKILL)
    out, error = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, error
    assert out == calm
    assert runs.stored("killed") == BATCHES
    assert len({pid for pid, _ in runs.lines()}) > 2, "another worker took its place"


@pytest.mark.quality
def test_a_killed_command_resumes_with_the_same_files(project: Path, checkout: Path) -> None:
    """`dpaudit certify` with two workers, killed: report and page byte for byte.

    `test_certify_all` kills a run over a whole project in the same way, always.
    """
    command = ("certify", "slow", "--seed", "21", "--jobs", "2")
    call(*command, "--out", project / "calm", cwd=project)
    child = spawn(*command, cwd=project)
    wait(lambda: list(project.glob("reports/.audits/*/*.npz")), "nothing was stored")
    child.kill()
    child.communicate()
    assert not list(project.glob("reports/slow.*")), "nothing half-written"
    call(*command, cwd=project)
    for kind in ("json", "html"):
        found, calm = project / "reports" / f"slow.{kind}", project / "calm" / f"slow.{kind}"
        assert found.read_bytes() == calm.read_bytes()

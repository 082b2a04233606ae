"""A loader that computes something of all rows is found by forked processes.

The cases run in an interpreter of their own: a process in which other libraries have started
threads may not survive a fork, and then nothing is said of a loader.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.quality
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")
@pytest.mark.parametrize(
    ("marked", "least"),
    [("not quality", 10), pytest.param("quality", 1, marks=pytest.mark.quality)],
)
def test_loaders_that_mix_rows_are_found_and_others_are_not(marked: str, least: int) -> None:
    cases = ROOT / "tests/support/loader_cases.py"
    command = ["-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-m", marked, str(cases)]
    ran = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert int(ran.stdout.split(" passed")[0].split()[-1]) >= least, ran.stdout[-500:]

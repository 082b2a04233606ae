"""Every mutant of a whole mechanism, each with its right twin: what `certify` says of them.

The figures of the catalogue are on the page of evidence.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_no_mutant_of_the_noisy_mean_is_certified(checkout: Path, tmp_path: Path) -> None:
    """In a process of its own: a fork of one in which other tests have started threads may die."""
    command = [sys.executable, "-m", "dpaudit", "mutate", "catalogue:noisy_mean", "--json"]
    child = subprocess.run(
        [*command, "--require", "1", "--out", str(tmp_path)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    ran = json.loads(child.stdout)
    assert ran["run"] >= 8
    assert ran["rate"] == 1.0
    assert ran["twins"]["flagged"] == 0

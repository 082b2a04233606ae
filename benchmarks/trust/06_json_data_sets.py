"""Data sets of a black-box audit that are ragged, mixed, null, NaN, or have a key twice"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SETS = ("[[1,2],[3]]", '[1,"a"]', "[1,null]", "[NaN]", '{"a":1,"a":2}')


def probe() -> str:
    """The exit code of each; 2 is a refusal, 70 an error of ours."""
    program = "def f(data, rng, size): return rng.normal(0, 1, size)\n"
    Path("noise_of.py").write_text(program)
    return "exits " + ", ".join(str(_exit(given)) for given in SETS)


def _exit(given: str) -> int:
    asked = ("audit", "noise_of:f", given, "[1]", "--claim", "1", "--trials", "1000")
    command = (sys.executable, "-m", "dpaudit", *asked)
    return subprocess.run(command, capture_output=True, check=False).returncode

"""Scores of members and others beside a running number, which stands in the last column"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def probe() -> str:
    """What the audit makes of scores that tell nobody apart."""
    for name, start in (("in.csv", 100), ("out.csv", 0)):
        rows = (f"{row % 7},{start + row}" for row in range(70))
        Path(name).write_text("\n".join(["score,row", *rows]))
    asked = ("audit", "--scores", "in.csv", "out.csv", "--json")
    done = subprocess.run(
        (sys.executable, "-m", "dpaudit", *asked), capture_output=True, text=True, check=False
    )
    if done.returncode:
        return f"exit {done.returncode}: {' '.join(done.stderr.split()[2:11])}"
    return f"exit 0, AUC {json.loads(done.stdout)['auc']:g} (of the scores: 0.5)"

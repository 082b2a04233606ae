"""Scores of members and others beside a running number, which stands in the last column"""

import json
from pathlib import Path

from shared import command


def probe() -> str:
    """What the audit makes of scores that tell nobody apart."""
    for name, start in (("in.csv", 100), ("out.csv", 0)):
        rows = (f"{row % 7},{start + row}" for row in range(70))
        Path(name).write_text("\n".join(["score,row", *rows]))
    done = command("audit", "--scores", "in.csv", "out.csv", "--json")
    if done.returncode:
        return f"exit {done.returncode}: {' '.join(done.stderr.split()[2:11])}"
    return f"exit 0, AUC {json.loads(done.stdout)['auc']:g} (of the scores: 0.5)"

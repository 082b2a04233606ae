"""The median of a column of 20,000 values, released in a process of its own."""

from __future__ import annotations

import subprocess
import sys

ONE_RELEASE = """
import resource
import sys
from pathlib import Path

import pyarrow as pa

from dpaudit.families.opaque import PureDP
from dpaudit.releases.plan import Release
from dpaudit.releases import publish as publishing
from dpaudit.releases.items.choices import Quantiles
from dpaudit.tabular import Number, Schema

resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)
schema = Schema("t", {"x": Number(0, int(sys.argv[1]) - 1)})
item = Quantiles(name="median", column="x")
plan = Release("t", schema, "add_remove", PureDP(1), (item,)).plan()
try:
    nowhere = getattr(publishing, "NO_LEDGER", None)  # earlier revisions have no such name
    publishing.publish(plan, pa.table({"x": range(1000)}), Path("out"), ledger=nowhere, trials=0)
    print("released", end="")
except BaseException as error:
    print(type(error).__name__, end="")
print(f", {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")
"""


def probe() -> str:
    """What became of the release within 4 GB, and how much memory it took."""
    made = subprocess.run(
        [sys.executable, "-c", ONE_RELEASE, "20000"],
        capture_output=True,
        text=True,
        check=False,
    )
    return made.stdout.strip() or made.stderr.strip().splitlines()[-1][:80]

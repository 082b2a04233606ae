"""A CSV without a line of names, and a published key that is a formula after a semicolon."""

import csv
from pathlib import Path

from shared import answer, release

KEYS = '"k;=1+1" = { kind = "category", keys = ["a"] }'


def probe() -> str:
    """Whether an error quotes the first person, and whether a cell may be computed."""
    Path("a.csv").write_text("ann@example.org,41\nbob@example.org,52\n")
    told = "ann@" in answer(lambda: release("a.csv", out="a"), most=10_000)
    Path("b.csv").write_text('"k;=1+1"\n' + "a\n" * 1000)
    release("b.csv", KEYS, out="b", by="k;=1+1")
    with Path("b/release.csv").open(newline="") as stream:
        computed = any(";=" in cell for row in csv.reader(stream) for cell in row)
    return f"first person in the error: {told}; formula in a cell: {computed}"

"""A CSV without a line of names, and a published key that is a formula after a semicolon."""

from __future__ import annotations

import csv
from pathlib import Path

from dpaudit.errors import DpauditError
from dpaudit.releases.plan import load_plan
from dpaudit.releases.publish import publish

PLAN = """
title = "count"
adjacency = "add_remove"
budget = {{ epsilon = 1 }}
table = {{ name = "people", columns = {{ {column} }} }}
items = [{{ name = "rows", query = "count"{by} }}]
"""
NUMBER = 'age = { kind = "number", lower = 0, upper = 99 }'
KEYS = '"k;=1+1" = { kind = "category", keys = ["a"] }'


def _release(data: str, out: str) -> str:
    """The error of a release, or "" where it was written."""
    try:
        publish(load_plan(Path("plan.toml")).plan(), Path(data), Path(out), ledger=None, trials=0)
    except DpauditError as error:
        return str(error)
    return ""


def probe() -> str:
    """Whether an error quotes the first person, and whether a cell may be computed."""
    Path("a.csv").write_text("ann@example.org,41\nbob@example.org,52\n")
    Path("plan.toml").write_text(PLAN.format(column=NUMBER, by=""))
    told = "ann@" in _release("a.csv", "a")
    Path("b.csv").write_text('"k;=1+1"\n' + "a\n" * 1000)
    Path("plan.toml").write_text(PLAN.format(column=KEYS, by=', by = "k;=1+1"'))
    _release("b.csv", "b")
    with Path("b/release.csv").open(newline="") as stream:
        computed = any(";=" in cell for row in csv.reader(stream) for cell in row)
    return f"first person in the error: {told}; formula in a cell: {computed}"

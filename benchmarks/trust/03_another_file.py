"""A release of people[1].csv, beside people1.csv of other rows."""

from __future__ import annotations

from pathlib import Path

from dpaudit.releases.plan import load_plan
from dpaudit.releases.publish import publish

PLAN = """
title = "count"
adjacency = "add_remove"
budget = { epsilon = 1 }
table = { name = "people", columns = { x = { kind = "number", lower = 0, upper = 9 } } }
items = [{ name = "rows", query = "count" }]
"""


def probe() -> str:
    """How many rows were counted: 1000 are in the file that was named, 9000 in the other."""
    for name, rows in (("people[1].csv", 1000), ("people1.csv", 9000)):
        Path(name).write_text("x\n" + "1\n" * rows)
    Path("plan.toml").write_text(PLAN)
    done = publish(
        load_plan(Path("plan.toml")).plan(),
        Path("people[1].csv"),
        Path("out"),
        ledger=None,
        trials=0,
    )
    (row,) = done.rows
    return f"about {round(float(row.value or 0), -2):.0f} rows counted where the file has 1000"

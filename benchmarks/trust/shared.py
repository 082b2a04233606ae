"""Set-up that several probes share; it runs on the code of either revision."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import sympy

import dpaudit as dp

SETTINGS = (Path(dp.__file__).parent / "cli" / "settings.py").exists()  # else options and `plan`
INDEX = sympy.Symbol("i", integer=True, positive=True)  # the round of a schedule
CENTRAL = dp.central("add_remove")
PLAN = """
title = "People"
adjacency = "add_remove"
budget = { epsilon = 1 }
table = { name = "people", columns = { COLUMNS } }
items = [{ name = "rows", query = "count"BY }]
"""
NUMBER = 'x = { kind = "number", lower = 0, upper = 99 }'
# The certificate is replaced when the checker's process has written what it found.
SWAP = """
import os, sys
from dpaudit.check import process
rows = process._rows
def after(*arguments):
    for row in rows(*arguments):
        os.replace("lie.json", "a.json")
        yield row
process._rows = after
from dpaudit.cli.main import main
main(sys.argv[1:], standalone_mode=False)
"""


def answer(act: Callable[[], Any], most: int = 90) -> str:
    """An action's result, or its refusal, in at most so many characters."""
    try:
        return str(act())
    except dp.DpauditError as error:
        return f"refused: {str(error)[:most]}"


def command(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `dpaudit` in a process of its own; ``options`` are those of ``subprocess.run``."""
    line = [sys.executable, "-m", "dpaudit", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, **options)


def certificate(name: str) -> Path:
    """A committed certificate of the revision that runs."""
    return Path(dp.__file__).parents[1] / "reports" / f"{name}.json"


def swapped(*words: str) -> None:
    """Run a command on a.json, which lie.json replaces after the check."""
    subprocess.run([sys.executable, "-c", SWAP, *words], capture_output=True, check=False)


def ledger(cap: float, place: Any = Path("ledger.sqlite")) -> Any:
    """A new ledger that holds an account "people" with so much epsilon."""
    from dpaudit.ledger import open_ledger, terms_of

    opened = open_ledger(place)
    opened.create("people", terms_of("person", user_scope(), dp.PureDP(cap)))
    return opened


def user_scope() -> Any:
    """The scope of the account: one user more or less."""
    from dpaudit.scope import Scope

    return Scope("add_remove", "user", "central", "transcript")


def charge(opened: Any, tenths: int, title: str) -> None:
    """Charge the account a loss in tenths."""
    opened.charge("people", "person", user_scope(), (Fraction(tenths, 10),), title, title)


def release(data: str, columns: str = NUMBER, out: str = "out", by: str = "") -> Any:
    """Count the rows of a file (by a column), under a budget of epsilon 1, without a ledger."""
    import dpaudit.releases.publish as publishing
    from dpaudit.releases.plan import load_plan

    text = PLAN.replace("COLUMNS", columns).replace("BY", f', by = "{by}"' if by else "")
    Path("plan.toml").write_text(text)
    plan = load_plan(Path("plan.toml")).plan()
    nowhere = getattr(publishing, "NO_LEDGER", None)  # earlier revisions have no such name
    return publishing.publish(plan, Path(data), Path(out), ledger=nowhere, trials=0)

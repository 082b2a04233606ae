"""A stored entry that gives back 2.9, its hash and the head made right, then a charge of 2.9"""

import sqlite3
from pathlib import Path

from shared import answer, charge, ledger


def probe() -> str:
    from dpaudit.ledger import book, open_ledger

    opened = ledger(3)
    charge(opened, 29, "a")
    charge(opened, 0, "b")
    last = opened.entries("people")[-1]
    body = {**last.body, "cost": ["-29/10"], "spent": ["0/1"]}
    entry = book._entry("people", last.number, last.previous, body)
    with sqlite3.connect("ledger.sqlite") as raw:
        rows = book._text(entry.body), entry.hash
        raw.execute("UPDATE dpaudit_entries SET body = ?, hash = ? WHERE number = 3", rows)
        raw.execute("UPDATE dpaudit_datasets SET spent = '[\"0/1\"]', head = ?", (entry.hash,))
    said = answer(lambda: charge(open_ledger(Path("ledger.sqlite")), 29, "c"))
    return "a second release of 2.9 under a cap of 3" if said == "None" else said

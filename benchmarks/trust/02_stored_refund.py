"""A stored entry that gives back 2.9, its hash and the head made right, then a charge of 2.9"""

import sqlite3
from fractions import Fraction
from pathlib import Path


def probe() -> str:
    import dpaudit as dp
    from dpaudit.ledger import book, open_ledger, terms_of
    from dpaudit.scope import Scope

    scope = Scope("add_remove", "user", "central", "transcript")
    ledger = open_ledger(Path("ledger.sqlite"))
    ledger.create("people", terms_of("person", scope, dp.PureDP(3)))
    for title, cost in (("a", Fraction(29, 10)), ("b", Fraction(0))):
        ledger.charge("people", "person", scope, (cost,), title, title)
    last = ledger.entries("people")[-1]
    entry = book._entry(
        "people", last.number, last.previous, {**last.body, "cost": ["-29/10"], "spent": ["0/1"]}
    )
    with sqlite3.connect("ledger.sqlite") as raw:
        rows = book._text(entry.body), entry.hash
        raw.execute("UPDATE dpaudit_entries SET body = ?, hash = ? WHERE number = 3", rows)
        raw.execute("UPDATE dpaudit_datasets SET spent = '[\"0/1\"]', head = ?", (entry.hash,))
    try:
        again = open_ledger(Path("ledger.sqlite"))
        again.charge("people", "person", scope, (Fraction(29, 10),), "c", "c")
    except dp.DpauditError as error:
        return f"refused: {str(error)[:90]}"
    return "a second release of 2.9 under a cap of 3"

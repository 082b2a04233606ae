"""Charges at `sqlite:///l.sqlite?timeout=30`: how many are synchronised, and a missing file"""

import contextlib
import os
from fractions import Fraction
from pathlib import Path


def probe() -> str:
    import dpaudit as dp
    from dpaudit.ledger import open_ledger, terms_of
    from dpaudit.scope import Scope

    scope = Scope("add_remove", "user", "central", "transcript")
    ledger = open_ledger("sqlite:///l.sqlite?timeout=30")
    ledger.create("people", terms_of("person", scope, dp.PureDP(3)))
    synchronised, fsync = [], os.fsync
    os.fsync = lambda handle: (synchronised.append(handle), fsync(handle))[1]
    for title in "abc":
        ledger.charge("people", "person", scope, (Fraction(1, 10),), title, title)
    os.fsync = fsync
    with contextlib.suppress(dp.DpauditError):
        open_ledger("sqlite:///missing.sqlite?timeout=30").names()
    made = "an empty file was made" if Path("missing.sqlite").exists() else "no file was made"
    return f"{len(synchronised)} of 3 charges synchronised; {made}"

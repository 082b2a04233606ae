"""Charges at `sqlite:///l.sqlite?timeout=30`: how many are synchronised, and a missing file"""

import os
from pathlib import Path

from shared import answer, charge, ledger


def probe() -> str:
    from dpaudit.ledger import open_ledger

    opened = ledger(3, "sqlite:///l.sqlite?timeout=30")
    synchronised, fsync = [], os.fsync
    os.fsync = lambda handle: (synchronised.append(handle), fsync(handle))[1]
    for title in "abc":
        charge(opened, 1, title)
    os.fsync = fsync
    answer(lambda: open_ledger("sqlite:///missing.sqlite?timeout=30").names())
    made = "an empty file was made" if Path("missing.sqlite").exists() else "no file was made"
    return f"{len(synchronised)} of 3 charges synchronised; {made}"

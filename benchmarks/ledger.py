"""How many charges a second the ledger keeps durably, for 1 to 64 writers at once.

``python -m benchmarks.evidence ledger``: writers are processes; a charge counts once it is on disk.
Beside it, in the same run: how often a second the disk synchronises, one write after the other, and
the processor time of a charge.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

from dpaudit.families.opaque import ApproxDP
from dpaudit.ledger import open_ledger, terms_of
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "user", "central", "transcript")
SECONDS = 5  # for each number of writers
WRITERS = (1, 8, 64)
COST = (Fraction(1, 10**9), Fraction(1, 10**18))


def synchronised_a_second(folder: Path, writes: int = 100) -> float:
    """How often a second this disk synchronises, one write after the other."""
    handle = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY)
    started = time.monotonic()
    for _ in range(writes):
        os.write(handle, b"x" * 4096)
        os.fsync(handle)
    os.close(handle)
    return writes / (time.monotonic() - started)


def _write(url: str, ready: Any, seconds: float, kept: Any, used: Any) -> None:
    ledger = open_ledger(url, wait=300)
    charges, name = 0, f"{os.getpid()}"
    ledger.state("people")
    ready.wait()
    end, before = time.monotonic() + seconds, time.process_time()
    while time.monotonic() < end:
        title = f"{name}.{charges}"
        ledger.charge("people", "person", SCOPE, COST, title, title)
        charges += 1
    with kept.get_lock():
        kept.value += charges
        used.value += time.process_time() - before


def measured(folder: Path, writers: int, seconds: float) -> tuple[float, float]:
    """Charges a second, and milliseconds of processor a charge; checked against the chain."""
    url = str(folder / f"ledger-{writers}.sqlite")
    ledger = open_ledger(url)
    ledger.create("people", terms_of("person", SCOPE, ApproxDP(3, "1e-5")))
    forked = multiprocessing.get_context("fork")
    ready, kept, used = forked.Barrier(writers + 1), forked.Value("q", 0), forked.Value("d", 0.0)
    running = [
        forked.Process(target=_write, args=(url, ready, seconds, kept, used))
        for _ in range(writers)
    ]
    for process in running:
        process.start()
    ready.wait()
    started = time.monotonic()
    for process in running:
        process.join()
    took = time.monotonic() - started
    state = ledger.verify("people")
    if state.count != kept.value:
        raise RuntimeError(f"{kept.value} charges were confirmed, {state.count} are kept")
    return state.count / took, 1000 * used.value / state.count


def rates(writers: int) -> dict[str, float]:
    """Charges a second of so many writers, and synchronisations of the disk of temporary files."""
    with tempfile.TemporaryDirectory() as made:
        disk = synchronised_a_second(Path(made))
        rate, spent = measured(Path(made), writers, SECONDS)
    return {"rate": round(rate, 1), "milliseconds": round(spent, 3), "disk": round(disk, 1)}


def lines(parts: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The rates as a table."""
    disk = median(row["disk"] for row in parts.values())
    return [
        f"Processes charged one budget in one SQLite file for {SECONDS} seconds. A charge counts "
        "once it is in the ledger's one file and on disk, and every chain was verified afterwards. "
        "A charge synchronises the journal, the file and their folder. The disk synchronised "
        f"{disk:.0f} times a second, one write after the other.",
        "",
        "| writers | charges a second | ms of processor a charge |",
        "|---|---|---|",
        *(f"| {n} | {row['rate']:.0f} | {row['milliseconds']:.2f} |" for n, row in parts.items()),
    ]

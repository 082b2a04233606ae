"""How many charges a second the ledger keeps durably, for 1 to 64 writers at once.

``python -m benchmarks.ledger``: writers are processes; each charge is on disk before it counts.
Beside it, in the same run: how often a second the disk synchronises, one write after the other, and
the processor time of a charge.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpaudit.families.opaque import ApproxDP
from dpaudit.ledger import open_ledger, terms_of
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "user", "central", "transcript")
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number of writers")
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        disk = synchronised_a_second(folder)
        rows = [(writers, *measured(folder, writers, given.seconds)) for writers in given.writers]
    lines = [
        "# Durable charges of the ledger",
        "",
        f"Made by `python -m benchmarks.ledger`, {given.seconds:g} seconds for each number of "
        "writers, processes that charge one data set's budget in one SQLite file. A charge counts "
        f"once it is on disk; every chain was verified afterwards. {os.cpu_count()} processors, of "
        f"which other work kept {load:.1f} busy or waiting when this began; one write after the "
        f"other, the disk synchronised {disk:.0f} times a second.",
        "",
        "| writers | charges a second | ms of processor a charge |",
        "|---|---|---|",
        *(f"| {writers} | {rate:.0f} | {spent:.2f} |" for writers, rate, spent in rows),
        "",
    ]
    print("\n".join(lines))
    if given.page is not None:
        given.page.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()

"""Writers that charge a ledger until they are killed, and a real PostgreSQL for tests."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from dpaudit.errors import BudgetExceeded
from dpaudit.families.opaque import ApproxDP
from dpaudit.ledger import LedgerRefused, Terms, open_ledger, terms_of
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "user", "central", "transcript")
# Both parts of the budget hold 10^5 charges.
COST = (Fraction(1, 1000), Fraction(1, 10**10))
POSTGRES = Path("/usr/lib/postgresql")


def terms(epsilon: object = 3, entity: str = "person", schema: str | None = None) -> Terms:
    return terms_of(entity, SCOPE, ApproxDP(epsilon, Fraction(1, 10**5)), schema=schema)


def writer(url: str, name: str, receipts: Path) -> None:
    """Charge until the budget is used up; note each receipt, on disk, after the charge.

    Ends with the process that started it, so that a run which is stopped leaves no writers behind.
    """
    ledger, parent = open_ledger(url, wait=300), os.getppid()
    with receipts.open("a") as notes:
        number = 0
        while os.getppid() == parent:
            title = f"{name}.{os.getpid()}.{number}"
            number += 1
            try:
                receipt = ledger.charge("people", "person", SCOPE, COST, title, title)
            except (BudgetExceeded, LedgerRefused):
                return
            notes.write(f"{title} {receipt.number}\n")
            notes.flush()


def stress(
    url: str, folder: Path, *, writers: int, epsilon: object, kills: int, seed: int
) -> tuple[int, int, float]:
    """Writers on one budget, killed at random and started again; charges, kills, seconds.

    Asserts that no receipt is lost, that nothing is overspent, and that the chain verifies.
    """
    ledger = open_ledger(url)
    ledger.create("people", terms(epsilon))
    rng, killed, started = random.Random(seed), 0, time.monotonic()
    running = {i: _started(url, i, folder) for i in range(writers)}
    while running:
        time.sleep(0.05)
        if killed < kills and rng.random() < 0.5:
            victim = rng.choice(sorted(running))
            running[victim].kill()
            running[victim].join()
            killed += 1
            running[victim] = _started(url, victim, folder)
        for place, process in list(running.items()):
            if not process.is_alive():
                assert process.exitcode == 0, process.exitcode
                del running[place]
    seconds = time.monotonic() - started
    state = ledger.verify("people")
    cap = state.terms.caps[0]
    assert state.spent[0] == state.count * COST[0] <= cap
    assert state.spent[0] + COST[0] > cap
    lines = [line for path in folder.glob("*.txt") for line in path.read_text().splitlines()]
    noted = [line.split() for line in lines]
    kept = {e.body["title"]: e.number for e in ledger.entries("people")[1:]}
    # A last line may be cut short by the kill; every whole one is of a charge that was kept.
    whole = [row for row in noted if len(row) == 2]
    assert all(str(kept.get(title)).startswith(number) for title, number in whole)
    assert len(kept) == state.count
    assert state.count - len(whole) <= killed
    return state.count, killed, seconds


def _started(url: str, place: int, folder: Path) -> multiprocessing.process.BaseProcess:
    """A writer, of a server of processes that has loaded the libraries, which takes a second."""
    served = multiprocessing.get_context("forkserver")
    served.set_forkserver_preload(["tests.support.ledger", "sqlalchemy", "psycopg"])
    process = served.Process(target=writer, args=(url, f"w{place}", folder / f"w{place}.txt"))
    process.start()
    return process


def postgres_programs() -> Path | None:
    """The folder of Debian's newest initdb and postgres, or None."""
    found = sorted(POSTGRES.glob("*/bin/initdb"), key=lambda p: int(p.parts[-3].split(".")[0]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return None if initdb is None else Path(initdb).resolve().parent


@contextmanager
def postgres() -> Iterator[str]:
    """A server of our own, and the URL of an empty database on it."""
    programs = postgres_programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="dpaudit-pg-"))
    owner = None
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        user = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid}
        return subprocess.Popen(
            [str(programs / arguments[0]), *arguments[1:]],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **user,
        )

    data = folder / "data"
    made = run("initdb", "-D", str(data), "-U", "tests", "-A", "trust", "--no-sync")
    assert made.wait(120) == 0
    options = ("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}")
    server = run("postgres", "-D", str(data), "-p", str(port), "-N", "200", *options)
    try:
        _until_up(port)
        yield f"postgresql+psycopg://tests@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _until_up(port: int) -> None:
    import psycopg

    for _ in range(300):
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user=tests dbname=postgres").close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("PostgreSQL did not start")

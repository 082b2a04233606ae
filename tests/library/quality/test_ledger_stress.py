"""Sixty-four writers, killed at random, over many charges; and how often each is synchronised.

``DPAUDIT_CHARGES`` says how many charges, 20,000 where it is not set: two minutes of a quiet
machine, where 10^5 take ten.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpaudit.ledger import open_ledger
from tests.library.unit.test_ledger import needs_postgres
from tests.support.faults import calls_in, watched
from tests.support.ledger import COST, SCOPE, postgres, stress, terms

pytest.importorskip("sqlalchemy")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A ledger's URL, on either database."""
    if request.param == "sqlite":
        yield str(tmp_path / "ledger.sqlite")
        return
    pytest.importorskip("psycopg")
    with postgres() as url:
        yield url


def test_sixty_four_writers_on_one_budget(place: str, tmp_path: Path) -> None:
    """No overspend, none lost, the chain verifies."""
    charges = int(os.environ.get("DPAUDIT_CHARGES", "20000"))
    kills = charges // 1000
    count, killed, _ = stress(
        place,
        tmp_path,
        writers=64,
        epsilon=charges / 1000,
        kills=kills,
        seed=3,
    )
    assert (count, killed) == (charges, kills)


def charge_from(url: str, writers: int, each: int) -> None:
    """So many charges by each of some processes."""
    forked = multiprocessing.get_context("fork")
    running = [forked.Process(target=charge, args=(url, k, each)) for k in range(writers)]
    for process in running:
        process.start()
    for process in running:
        process.join()


def charge(url: str, place: int, each: int) -> None:
    ledger = open_ledger(url, wait=300)
    for number in range(each):
        title = f"{place}.{number}"
        ledger.charge("people", "person", SCOPE, COST, title, title)


@pytest.mark.parametrize("writers", [1, 8])
def test_a_charge_synchronises_as_often_however_many_writers_wait(
    writers: int, tmp_path: Path
) -> None:
    """The journal twice, the file once, the folder twice: fewer is not durable, more is waste.

    Calls are counted, so that no load changes the result.
    """
    each, folder = 10, tmp_path / "work"
    folder.mkdir()
    url = str(folder / "ledger.sqlite")
    open_ledger(url).create("people", terms())
    code = f"import {__name__} as own; own.charge_from({url!r}, {writers}, {each})"
    program = [sys.executable, "-c", code]
    subprocess.run(program, env=os.environ | watched(tmp_path, folder), check=True)
    assert open_ledger(url).verify("people").count == writers * each
    names = [Path(call.path).name for call in calls_in(tmp_path) if call.kind == "fsync"]
    a_charge = {"ledger.sqlite-journal": 2, "ledger.sqlite": 1, "work": 2}
    assert Counter(names) == {name: n * writers * each for name, n in a_charge.items()}

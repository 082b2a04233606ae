"""Sixty-four writers, killed at random, over many charges; and how many are durable a second.

``DPAUDIT_CHARGES`` says how many charges, 20,000 where it is not set: two minutes of a quiet
machine, where 10^5 take ten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.ledger import measured, synchronised_a_second
from tests.library.unit.test_ledger import needs_postgres
from tests.support.ledger import postgres, stress

pytest.importorskip("sqlalchemy")
WANTED = 200


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


def test_writers_that_wait_for_the_disk_share_a_synchronisation(tmp_path: Path) -> None:
    """Over 200 durable charges a second, or more than the disk synchronises one by one."""
    alone = synchronised_a_second(tmp_path)
    rate, _ = measured(tmp_path, 64, 5)
    assert rate > min(WANTED, alone), f"{rate:.0f} charges a second, {alone:.0f} by the disk"

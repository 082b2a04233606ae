"""Sixty-four writers, killed at random, over 10^5 charges; and how many are durable a second."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.ledger_for_tests import stress

pytestmark = pytest.mark.quality
pytest.importorskip("sqlalchemy")
WANTED = 200


def synchronised_a_second(folder: Path) -> float:
    """How often a second this disk synchronises, one after the other."""
    handle = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY)
    started = time.monotonic()
    for _ in range(100):
        os.write(handle, b"x" * 4096)
        os.fsync(handle)
    os.close(handle)
    return 100 / (time.monotonic() - started)


def test_sixty_four_writers_over_a_hundred_thousand_charges(tmp_path: Path) -> None:
    """No overspend, none lost, the chain verifies; the rate is held against the disk's own.

    A writer that is killed is started anew, which takes a second of a processor each time.
    """
    charges = int(os.environ.get("DPAUDIT_CHARGES", "100000"))
    alone = synchronised_a_second(tmp_path)
    kills = charges // 1000
    count, killed, seconds = stress(
        str(tmp_path / "ledger.sqlite"),
        tmp_path,
        writers=64,
        epsilon=charges / 1000,
        kills=kills,
        seed=3,
    )
    assert (count, killed) == (charges, kills)
    assert count / seconds > min(WANTED, alone), f"{count / seconds:.0f} charges a second"

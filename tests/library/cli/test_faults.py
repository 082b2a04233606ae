"""Each command that writes, on a disk that fails or with a kill at each of its system calls.

Nothing lost, nothing twice, nothing half: see ``tests/faults`` for the faults, and
``tests/support/faults/commands.py`` for what has to hold.  All of the calls are in
``make quality``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.faults import Disk
from tests.support.faults.commands import COMMANDS, trial, unseen

pytest.importorskip("sqlalchemy")
pytest.importorskip("cryptography")


@pytest.mark.quality
@pytest.mark.parametrize("name", COMMANDS)
def test_every_fault_of_every_command(name: str, tmp_path: Path) -> None:
    with trial(tmp_path / "bench", name) as one:
        for at, how in one.faults():
            one.fault(at, how)
        one.power()
        assert one.problems == []


@pytest.mark.quality
@pytest.mark.parametrize(
    ("guard", "command", "said"),
    [
        ("files_in_place", "sign", "is not whole"),
        ("errors_unheard", "sign", "no signature"),
        ("unsynchronised", "sign", "no keys"),
        ("charges_unsynchronised", "release", "published, charged 0 times"),
    ],
)
def test_a_guard_that_is_taken_away_is_missed(
    guard: str, command: str, said: str, tmp_path: Path
) -> None:
    with trial(tmp_path / "bench", command, sabotage=guard) as one:
        if command == "sign":
            for at, how in one.faults():
                one.fault(at, how)
        one.power()
        assert any(said in problem for problem in one.problems), one.problems


def test_a_change_that_no_counted_call_made_is_seen(tmp_path: Path) -> None:
    """What the library does not count would be a fault that is never tried."""
    assert list(unseen(tmp_path, {"a": b"x"}, (), {"a": b"x"})) == []
    assert len(list(unseen(tmp_path, {"a": b"x"}, (), {"a": b"y", "b": b""}))) == 2
    assert Disk(tmp_path, {"a": b"x"}).after(names=False, content=False) == {"a": b"x"}

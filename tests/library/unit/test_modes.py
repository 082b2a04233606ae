"""Who may read what is written: what the user's umask says, and nobody else."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpaudit.ledger import open_ledger
from dpaudit.sign.keys import make_keys
from dpaudit.storage import files
from dpaudit.storage.files import write_atomically, write_new, write_together
from tests.support.ledger import COST, SCOPE, terms


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


WRITERS: dict[str, Callable[[Path], object]] = {
    "one": lambda path: write_atomically(path, b"x"),
    "new": lambda path: write_new(path, b"x"),
    "together": lambda path: write_together({path: b"x"}),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_new_file_has_the_mode_of_the_umask(write, umask: int, tmp_path: Path) -> None:
    write(tmp_path / "file")
    assert mode(tmp_path / "file") == 0o666 & ~umask


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o644, 0o664])
def test_a_file_that_is_written_again_keeps_its_mode(kept: int, umask: int, tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.chmod(kept)
    write_atomically(path, b"y")
    assert (path.read_bytes(), mode(path)) == (b"y", kept)


def test_a_mode_that_is_forced_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the umask is not asked, the tests above fail."""
    monkeypatch.setattr(files, "_mode", lambda _: 0o644)
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == 0o644


def test_a_ledger_and_the_files_beside_it_have_one_mode(umask: int, tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    ledger = open_ledger(place)
    ledger.create("people", terms())
    ledger.charge("people", "person", SCOPE, COST, "a", "a")
    modes = {path.name: oct(mode(path)) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {oct(0o666 & ~umask)}, modes


def test_a_private_key_is_its_owners_alone(umask: int, tmp_path: Path) -> None:
    private, public = make_keys(tmp_path / "key")
    assert (mode(private), mode(public)) == (0o600 & ~umask, 0o666 & ~umask)

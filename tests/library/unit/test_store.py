"""Store: whole files or none, damage is never read, and a folder that cannot be written says so."""

from __future__ import annotations

import fcntl
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter, OutputNotWritable
from dpaudit.storage import batches, files
from dpaudit.storage.batches import Arrays, AuditStore, leading

KEY = (0, 1, 2)


def arrays(seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        "scores": rng.normal(size=3),
        "residuals/step[1]": rng.normal(size=(3, 2, 2)),
        "on": np.array([True, False, True]),
        "label": np.array(["a", "bc", "d"]),
    }


def assert_equal(found: Arrays | None, expected: Arrays) -> None:
    assert found is not None
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def file_of(store: AuditStore) -> Path:
    return store.place / "0-1-2.npz"


def test_a_batch_comes_back_as_it_was(tmp_path: Path) -> None:
    store = AuditStore(tmp_path / "deep" / "er", "audit")
    assert store.get(KEY) is None
    store.put(KEY, arrays())
    assert_equal(store.get(KEY), arrays())
    assert_equal(AuditStore(tmp_path / "deep" / "er", "audit").get(KEY), arrays())


def test_infinities_nan_and_bits_are_kept(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, "audit")
    special = {"x": np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324])}
    store.put(KEY, special)
    found = store.get(KEY)
    assert found is not None
    assert found["x"].tobytes() == special["x"].tobytes()


def test_put_replaces(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, "audit")
    store.put(KEY, arrays(1))
    store.put(KEY, arrays(2))
    assert_equal(store.get(KEY), arrays(2))
    assert store.keys() == (KEY,)


def test_keys_are_sorted_and_ignore_other_files(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, "audit")
    for key in ((10,), (9, 1), (9,), (0, 1, 2)):
        store.put(key, arrays())
    for name in ("x.npz", ".0-1.npz.abc.tmp", "1-.npz", "3.npz.bak"):
        (store.place / name).write_bytes(b"")
    assert store.keys() == ((0, 1, 2), (9,), (9, 1), (10,))


def test_identities_do_not_share(tmp_path: Path) -> None:
    one, other = AuditStore(tmp_path, "one"), AuditStore(tmp_path, "other")
    one.put(KEY, arrays())
    assert other.keys() == ()
    assert other.get(KEY) is None
    assert (one.place / "identity.txt").read_text() == "one"


def test_a_misplaced_file_is_discarded(tmp_path: Path) -> None:
    one, other = AuditStore(tmp_path, "one"), AuditStore(tmp_path, "other")
    one.put(KEY, arrays())
    content = file_of(one).read_bytes()
    file_of(other).write_bytes(content)
    (one.place / "7.npz").write_bytes(content)
    assert other.get(KEY) is None
    assert one.get((7,)) is None
    assert other.keys() == ()
    assert one.keys() == (KEY,)


def test_truncated_files_are_discarded(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, "audit")
    store.put(KEY, arrays())
    whole = file_of(store).read_bytes()
    for length in {0, 1, 30, *range(0, len(whole), 37), len(whole) - 1}:
        file_of(store).write_bytes(whole[:length])
        assert store.get(KEY) is None, length
        assert store.keys() == ()
    store.put(KEY, arrays())
    assert_equal(store.get(KEY), arrays())


def test_a_flipped_byte_is_discarded_or_harmless(tmp_path: Path) -> None:
    """Every byte of a file in turn: what is read is what was written, or nothing."""
    store = AuditStore(tmp_path, "audit")
    store.put(KEY, {"x": np.arange(3.0)})
    whole = file_of(store).read_bytes()
    discarded = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        file_of(store).write_bytes(bytes(damaged))
        found = store.get(KEY)
        discarded += found is None
        if found is not None:
            assert_equal(found, {"x": np.arange(3.0)})
    assert discarded > len(whole) / 2


class Explosive:
    """Writes a file if anybody unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    store, mark = AuditStore(tmp_path, "audit"), tmp_path / "exploded"
    buffer = io.BytesIO()
    np.savez(buffer, record=np.array([Explosive(mark)], dtype=object))
    file_of(store).write_bytes(buffer.getvalue())
    assert store.get(KEY) is None
    assert not mark.exists()


def test_arrays_without_common_trials_are_refused(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, "audit")
    bad: list[Any] = [
        {}, {"x": np.zeros(0)}, {"x": np.float64(1)}, {"x": np.zeros(())}, {"x": [1.0]},
        {"x": np.zeros(2), "y": np.zeros(3)}, {"x": np.array([None, None])},
    ]  # fmt: skip
    for value in bad:
        with pytest.raises(InvalidParameter):
            store.put(KEY, value)
    assert store.keys() == ()
    assert leading({"x": np.zeros((4, 0)), "y": np.zeros(4)}) == 4


@pytest.mark.parametrize("key", [(), (-1,), (1.0,), ("../x",), (True,)])
def test_keys_are_checked(tmp_path: Path, key: Any) -> None:
    store = AuditStore(tmp_path, "audit")
    with pytest.raises(InvalidParameter):
        store.get(key)
    with pytest.raises(InvalidParameter):
        store.put(key, arrays())


def test_an_identity_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        AuditStore(tmp_path, "")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        with pytest.raises(OutputNotWritable, match="choose a folder") as caught:
            AuditStore(folder, "audit")
        assert "\n" not in str(caught.value)


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = AuditStore(tmp_path, "audit")
    store.put(KEY, arrays(1))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputNotWritable, match="No space left"):
            store.put(KEY, arrays(2))
    assert_equal(store.get(KEY), arrays(1))
    assert not list(store.place.glob("*.tmp"))
    assert not list(store.place.glob(".*.tmp"))


def test_temporary_files_of_killed_processes_are_swept(tmp_path: Path) -> None:
    """One that a living process holds stays; so does whatever else is there."""
    place = AuditStore(tmp_path, "audit").place
    killed, held = place / ".1.npz.a.dpaudit.tmp", place / ".1.npz.b.dpaudit.tmp"
    other = place / ".1.npz.tmp"
    for path in (killed, held, other):
        path.write_bytes(b"half")
    files.sweep.cache_clear()
    with held.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        AuditStore(tmp_path, "audit")
    assert not killed.exists()
    assert held.exists()
    assert other.exists()


# --- batches that somebody else put there ---------------------------------------------------------


def test_a_planted_batch_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, of the right identity and key, and written by a process that has another key."""
    arrays = {"scores": np.arange(3.0)}
    store = AuditStore(tmp_path / "store", "audit")
    store.put((0, 1), arrays)
    with monkeypatch.context() as patch:
        patch.setattr(batches, "own_key", lambda: b"x" * 32)
        store.put((0, 2), arrays)
        assert store.get((0, 2)) is not None
        assert store.get((0, 1)) is None  # and it is discarded
    store.put((0, 1), arrays)
    assert store.get((0, 1)) is not None
    assert store.get((0, 2)) is None
    assert store.keys() == ((0, 1),)


def test_the_key_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key = batches.own_key.__wrapped__()
    path = tmp_path / "dpaudit" / "batches.key"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (key, 0o600)
    assert batches.own_key.__wrapped__() == key
    path.chmod(0o644)  # somebody may have read it
    assert batches.own_key.__wrapped__() != key
    left = path.with_name(".batches.key.a.dpaudit.tmp")  # by a run that was killed
    left.write_bytes(b"half")
    files.sweep.cache_clear()
    batches.own_key.__wrapped__()
    assert not left.exists()
    monkeypatch.setenv("XDG_STATE_HOME", str(path))  # a file: no folder can be made
    assert len(batches.own_key.__wrapped__()) == 32

"""A certificate and its page on a disk that fills up: never a new JSON beside a stale page."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dpaudit.certificate.entry import Certificate
from dpaudit.errors import OutputNotWritable

EXAMPLE = Path(__file__).parents[2] / "data" / "example_certificate.json"


def certificate() -> Certificate:
    return Certificate(json.loads(EXAMPLE.read_text("utf-8")))


class Filling:
    """A stream on a disk that holds ``left`` bytes more, of all files together."""

    left = 0

    def __init__(self, handle: int, mode: str) -> None:
        self.stream = os.fdopen(handle, mode)

    def __enter__(self) -> Filling:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stream.close()

    def write(self, content: bytes) -> None:
        written = content[: Filling.left]
        self.stream.write(written)
        Filling.left -= len(written)
        if written != content:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stale(folder: Path) -> dict[str, bytes]:
    """What an earlier save left: a page and a certificate that belong together."""
    path = certificate().save(folder)
    for one in (path, path.with_suffix(".html")):
        one.write_bytes(one.read_bytes() + b"old")
    return files(folder)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999_999])
def test_a_full_disk_leaves_both_files_as_they_were(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for nothing, for a part of the page, for the page, for all but the last bytes."""
    path = certificate().save(tmp_path / "whole")
    size = sum(len(content) for content in files(path.parent).values())
    before = stale(tmp_path / "out")
    monkeypatch.setattr(Filling, "left", int(share * size))
    monkeypatch.setattr("dpaudit.storage.files.os", Disk())
    with pytest.raises(OutputNotWritable, match="No space left on device"):
        certificate().save(tmp_path / "out")
    assert files(tmp_path / "out") == before


class Disk:
    """``os``, its streams on the disk that fills up."""

    fdopen = Filling

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_no_failure_puts_a_new_certificate_beside_a_stale_page(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each call of either, in turn; whatever is there is whole, and nothing else is."""
    path = certificate().save(tmp_path / "whole")
    whole, out = files(path.parent), tmp_path / "out"
    for allowed in range(2):
        before = stale(out)
        calls = iter(range(10))
        owner: Any = Path if failing == "replace" else os
        real = getattr(owner, failing)

        def full(*given: Any, real: Any = real, calls: Any = calls, end: int = allowed) -> Any:
            if next(calls) >= end:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*given)

        with monkeypatch.context() as patch:
            patch.setattr(owner, failing, full)
            with pytest.raises(OutputNotWritable):
                certificate().save(out)
        after = files(out)
        assert after.keys() == before.keys()
        assert all(after[name] in (before[name], whole[name]) for name in after)
        new_page = after[f"{path.stem}.html"] == whole[f"{path.stem}.html"]
        assert new_page or after[path.name] == before[path.name]

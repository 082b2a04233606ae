"""Files of a certificate: written whole, only if they verify, and without others' batches."""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import os
import tempfile
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.certificate import publish as publishing
from dpaudit.certificate.cache import Files
from dpaudit.certificate.certificate import save
from dpaudit.certificate.certify import Certified, certify
from dpaudit.certificate.order import Options, Order
from dpaudit.certificate.publish import clean, confirmed, index_of, keeper, write_one
from dpaudit.check.file import read
from dpaudit.check.rows import verify_file
from dpaudit.errors import CertificateRejected, InternalError, OutputNotWritable, ReleaseInterrupted
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP
from dpaudit.kernels.query import Records
from dpaudit.storage import files
from dpaudit.storage.files import writable, write_new
from tests.library.cli.bench import DIGESTS, certified, forged, held, mechanism, suite

CASE = mechanism("case", Gaussian("a", 2), GDP(0.5), labels=("a",))

pytestmark = pytest.mark.usefixtures("verified_here")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def better(predicate: dict[str, Any]) -> None:
    predicate["claims"][0].update(verdict="certified")


def forgery(found: Certified) -> Certified:
    return replace(found, certificate=forged(found.certificate, better))


def write(found: Certified, out: Path) -> Files:
    written = write_one(found, out)
    index_of(out)
    return written


@pytest.mark.quality
def test_a_certificate_its_page_and_an_index(tmp_path: Path) -> None:
    found = certified(CASE)
    written = write(found, tmp_path)
    assert names(tmp_path) == ["case.html", "case.json", "index.html"]
    assert json.loads(written.certificate.read_text()) == found.certificate
    assert "<html" in written.page.read_text()
    assert "case.html" in (tmp_path / "index.html").read_text()
    assert verify_file(written.certificate)["verified"]


@pytest.mark.quality
def test_a_certificate_that_was_just_checked_is_listed_without_another_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = certified(CASE)
    written = write_one(found, tmp_path)
    asked: list[Path] = []
    real = publishing.confirmed
    monkeypatch.setattr(publishing, "confirmed", lambda file: asked.append(file.path) or real(file))
    page = index_of(tmp_path, {written.certificate: found.certificate}).read_text()
    assert ("case.html" in page, asked) == (True, [])
    assert index_of(tmp_path).read_text() == page
    assert asked == [written.certificate]


@pytest.mark.quality
def test_the_index_lists_what_verifies_and_nothing_else(tmp_path: Path) -> None:
    found = certified(CASE)
    other = mechanism("other", Gaussian("a", 2), GDP(0.5))
    write(found, tmp_path)
    save(forgery(certified(other)).certificate, tmp_path / "other.json")
    (tmp_path / "other.html").write_text("certified!")
    (tmp_path / "notes.json").write_text("{")
    write(found, tmp_path)
    index = (tmp_path / "index.html").read_text()
    assert "case.html" in index
    assert "other.html" not in index
    assert "notes.html" not in index


def test_nothing_is_written_unless_it_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate that fails is kept apart, for a report."""
    out, apart = tmp_path / "out", tmp_path / "apart"
    out.mkdir()
    apart.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(apart))
    with pytest.raises(InternalError, match="the verdict would be"):
        write(forgery(certified(CASE)), out)
    assert names(out) == []
    assert [path.name for path in apart.rglob("*.*")] == ["case.json"]


def released(out: Path, seed: int | None = None) -> Certified:
    """An unseeded run on data, its output kept in the folder."""
    case = replace(CASE, records=lambda: Records(np.zeros((3, 1))))
    return certify([Order(case, None, "project", DIGESTS)], Options(seed=seed, keep=keeper(out)))[0]


@pytest.mark.quality
def test_a_release_is_never_overwritten(tmp_path: Path) -> None:
    for _ in range(2):
        write(released(tmp_path), tmp_path)
    write(released(tmp_path, seed=1), tmp_path)
    stems = ["case", "case-2", "case-3"]
    certificates = [json.loads((tmp_path / f"{stem}.json").read_text()) for stem in stems]
    runs = [certificate["predicate"]["run"] for certificate in certificates]
    assert [run["entropy"] for run in runs] == ["operating system"] * 2 + ["seed 1"]
    for stem, run in zip(stems[:2], runs[:2], strict=True):
        content = (tmp_path / f"{stem}.npz").read_bytes()
        name, digest = f"{stem}.npz", hashlib.sha256(content).hexdigest()
        assert run["output"] == {"name": name, "digest": {"sha256": digest}}
        assert np.load(tmp_path / name)["output"].shape == (1, 1)
    assert runs[2]["output"] is None
    assert "case-2.html" in (tmp_path / "index.html").read_text()


@pytest.mark.quality
def test_an_output_without_its_certificate_is_no_reason_to_draw_again(tmp_path: Path) -> None:
    """As after a crash between the draw and the certificate: who runs it again is told."""
    released(tmp_path)
    before = (tmp_path / "case.npz").read_bytes()
    with pytest.raises(ReleaseInterrupted, match="Its budget is spent"):
        released(tmp_path)
    assert names(tmp_path) == ["case.npz"]
    assert (tmp_path / "case.npz").read_bytes() == before
    (tmp_path / "case.npz").rename(tmp_path / "first.npz")
    write(released(tmp_path), tmp_path)


def fill(monkeypatch: pytest.MonkeyPatch, *left: Path) -> None:
    """A disk without room, of which nothing but a few folders is left."""
    staged = files._staged

    def full(path: Path, content: bytes, mode: int | None = None) -> Any:
        if not any(path.is_relative_to(folder) for folder in left):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return staged(path, content, mode)

    monkeypatch.setattr(files, "_staged", full)


@pytest.mark.quality
def test_values_that_cannot_be_written_are_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output, drawn once, and then its certificate: neither is lost on a full disk."""
    out, spare = tmp_path / "out", tmp_path / "spare"
    spare.mkdir()
    out.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    fill(monkeypatch, spare)
    found = released(out)
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "cannot be drawn again" in said
    with pytest.raises(OutputNotWritable, match=r"case.json is in .*spare"):
        write(found, out)
    assert names(out) == []
    (kept,) = spare.rglob("case.npz")
    (certificate,) = spare.rglob("case.json")
    output = json.loads(certificate.read_text())["predicate"]["run"]["output"]
    assert output["digest"]["sha256"] == hashlib.sha256(kept.read_bytes()).hexdigest()
    assert str(kept.parent) in said
    assert verify_file(certificate)["verified"]


@pytest.mark.quality
def test_values_that_can_be_written_nowhere_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(monkeypatch)
    found = released(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    content = base64.b64decode(lines[lines.index("case.npz, in base64:") + 1])
    digest = found.certificate["predicate"]["run"]["output"]["digest"]["sha256"]
    assert hashlib.sha256(content).hexdigest() == digest
    assert np.load(io.BytesIO(content))["output"].shape == (1, 1)


def test_a_name_that_another_process_takes_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the choice of a name and the writing."""
    taken = []

    def first(path: Path, content: bytes) -> None:
        if not taken:
            taken.append(path)
            path.write_bytes(b"theirs")
        write_new(path, content)

    monkeypatch.setattr("dpaudit.certificate.publish.write_new", first)
    keeper(tmp_path)("case", lambda: 1.5)
    assert taken[0].read_bytes() == b"theirs"
    assert names(tmp_path) == ["case-2.npz", "case.npz"]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_is_whole_or_not_there(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a file system without hard links; what is there stays as it is."""

    def unable(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not links:
        monkeypatch.setattr(os, "link", unable)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputNotWritable):
        write_new(tmp_path / "file" / "x", b"")
    write_new(tmp_path / "key", b"content", 0o600)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "key", b"other")
    assert (tmp_path / "key").read_bytes() == b"content"
    fill(monkeypatch)
    with pytest.raises(OutputNotWritable, match="No space"):
        write_new(tmp_path / "new", b"content")
    assert names(tmp_path) == ["file", "key"]


def test_released_values_are_kept_exactly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = {"a": 0.1, "big": 2**90, "share": [Fraction(1, 3), Decimal("0.1")], "name": "x"}
    output["all"] = np.array([2**70, 1], dtype=object)
    keeper(tmp_path)("case", lambda: output)
    kept = np.load(tmp_path / "case.npz")
    assert float(kept["output.a"]) == 0.1
    assert int(str(kept["output.big"])) == 2**90
    assert Fraction(str(kept["output.share.0"])) == Fraction(1, 3)
    assert str(kept["output.share.1"]) == "0.1"
    assert [int(text) for text in kept["output.all"]] == [2**70, 1]
    assert capsys.readouterr().err == ""


class Fitted:
    """A model as people write one, no dataclass; ``tensor`` stands for one that is trained."""

    def __init__(self) -> None:
        self.weights = np.array([0.25, 0.75])
        self.tensor = Tensor()
        self.itself = self


class Tensor:
    """Gives its numbers when it is detached, and raises before."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("it requires grad")

    def detach(self) -> Any:
        return self

    def cpu(self) -> Any:
        return np.array([1.5])


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 2.5


class Mute:
    def __repr__(self) -> str:
        raise ValueError("private")


KEPT: dict[str, tuple[Any, dict[str, Any]]] = {
    "an object": (
        Fitted(),
        {
            "output.weights": [0.25, 0.75],
            "output.tensor": [1.5],
            "output.itself": "as output",
        },
    ),
    "slots": (Slotted(), {"output.value": 2.5}),
    "a set": ({"chosen": {3.5}}, {"output.chosen.0": 3.5}),
    "two keys of one text": ({1: 1.5, "1": 2.5}, {"output.1": 1.5, "output.1_": 2.5}),
    "keys that no file holds": (
        {"\ud800": 1.5, "a\0b": 2.5, "a\0c": 3.5},
        {"output.\\ud800": 1.5, "output.a\\0b": 2.5, "output.a\\0c": 3.5},
    ),
    "bytes": (b"a\0", {"output": [97, 0]}),
    "a date": ({"of": date(2026, 1, 2)}, {"output.of": "datetime.date(2026, 1, 2)"}),
    "nothing": (None, {"output": "None"}),
    "no text": ({"a": 1.5, "b": Mute()}, {"output.a": 1.5, "output.b": "Mute, of which no text"}),
}


@pytest.mark.parametrize("kind", KEPT)
def test_whatever_an_output_holds_is_kept(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was drawn, and its privacy spent: nothing of it is left out, and none of it is pickled."""
    output, expected = KEPT[kind]
    keeper(tmp_path)("case", lambda: output)
    kept = np.load(tmp_path / "case.npz")
    assert set(kept) == set(expected)
    for place, value in expected.items():
        found = kept[place].tolist()
        assert found.startswith(value) if isinstance(value, str) else found == value
    assert "private" not in capsys.readouterr().err


def test_an_output_nested_without_end_is_kept(tmp_path: Path) -> None:
    output: Any = [1.5]
    for _ in range(3_000):
        output = [output]
    keeper(tmp_path)("case", lambda: output)
    (place,) = np.load(tmp_path / "case.npz")
    assert place.count(".") == 3_001


def test_nothing_private_is_touched_before_the_certificate_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the schema, the checker or a broken program would refuse is refused without records."""
    read = []

    def records() -> Records:
        read.append(1)
        return Records(np.zeros((3, 1)))

    def refuse(certificate: Any, *_: Any) -> None:
        raise CertificateRejected("no")

    case = replace(CASE, records=records)
    order = Order(case, None, "project", DIGESTS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    refusals: dict[str, type[Exception]] = {
        "own_check.check": InternalError,
        "certify.validate": CertificateRejected,
    }
    for place, error in refusals.items():
        with monkeypatch.context() as patched:
            patched.setattr(f"dpaudit.certificate.{place}", refuse)
            with pytest.raises(error, match="no"):
                certify([order], Options(seed=1))
        assert read == []
    claims = replace(case, claims=(replace(CASE.claims[0], guarantee=GDP(0.1)),))
    (found,) = certify([replace(order, mechanism=claims)], Options(seed=1))
    assert found.certificate["predicate"]["run"] is None
    assert read == []
    certify([order], Options(seed=1))
    assert read


@pytest.mark.quality
def test_rows_of_verify(tmp_path: Path) -> None:
    path = tmp_path / "held.json"
    save(held(), path)
    row = verify_file(path)
    assert row["verified"]
    assert row["verdict"] == "certified_under_assumptions"
    assert any("steps of the derivation" in line for line in row["confirmed"])
    json.dumps(row)
    save(forged(held(), better), path)
    row = verify_file(path)
    assert not row["verified"]
    assert "the verdict would be certified_under_assumptions" in row["reason"]
    with pytest.raises(CertificateRejected):
        confirmed(read(path))


@pytest.mark.parametrize("below", ["file", "file/deep/er"])
def test_a_folder_that_cannot_be_is_refused(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputNotWritable, match="--out"):
        writable(tmp_path / below)


@pytest.mark.parametrize("why", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_is_refused(
    why: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so the system's answer is replaced."""

    def refused(**_: object) -> None:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(OutputNotWritable, match=os.strerror(why)):
        writable(tmp_path / "new")


@pytest.mark.quality
def test_cleaning_leaves_the_batches_of_other_runs(tmp_path: Path) -> None:
    """Another run that was interrupted can still be taken up."""
    orders = [Order(CASE, suite(CASE), "project", DIGESTS)]
    mine, other = (certify(orders, Options(seed=seed, store=tmp_path))[0] for seed in (1, 2))
    folders = [found.attacked.stored for found in (mine, other) if found.attacked]
    clean(mine, tmp_path)
    assert [folder is not None and folder.exists() for folder in folders] == [False, True]
    clean(other, tmp_path)
    assert not tmp_path.exists()
    clean(certified(CASE), tmp_path)

"""An archive holds all that a certificate needs, and an altered file in it is named."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpaudit.certificate import archive as archives
from dpaudit.certificate.archive import MOST_FILES, SUMS
from dpaudit.certificate.certificate import save, statement
from dpaudit.check.assumptions import standing
from dpaudit.cli.archive import _plan
from dpaudit.cli.main import main
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.nodes.tables import from_table
from dpaudit.storage import files as storage
from tests.library.cli.bench import held

pytestmark = pytest.mark.usefixtures("verified_here", "no_printed_pages")


def run(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


@pytest.fixture(scope="module")
def no_printed_pages() -> Iterator[None]:
    """Archives without PDF, which takes seconds a language: see test_archival_pdf."""

    def refused(*_: object) -> dict[str, bytes]:
        raise InvalidParameter("no PDF in these tests")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives, "pdf_pages", refused)
        yield


@pytest.fixture(scope="module")
def made(no_printed_pages: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a signed certificate with an output."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "model.npz").write_bytes(b"a model")
    predicate = json.loads(json.dumps(held()["predicate"]))
    output = {"name": "model.npz", "digest": {"sha256": sha256(b"a model").hexdigest()}}
    drawn: dict[str, Any] = {"metrics": [], "notes": [], "output": output}
    predicate["run"] = {"records": None, "entropy": "seed 1", **drawn}
    root = from_table(predicate["mechanism"]["declaration"], strangers=True)
    found = {one.id: one for one in standing(predicate["conformance"], root, "seed 1")}
    for row in predicate["assumptions"]:
        if row["id"] == "random_bits":
            row["evidence"] = found["random_bits"].evidence
    save(statement(predicate), folder / "model.json")
    signing = ("sign", folder / "model.json", "--new-key", folder / "key.pem")
    signed = run(*signing)
    assert signed.exit_code == 0, signed.output
    kept = archive(folder / "model.json", folder, "--key", f"Ann={folder / 'key.pub'}")
    assert kept.exit_code == 0, kept.output
    assert sha256((folder / "model.zip").read_bytes()).hexdigest() in kept.output
    return folder


def archive(file: Path, out: Path, *more: object) -> Result:
    return run("report", file, "--format", "archive", "--out", out, *more)


def verified(path: Path, *more: object, code: int = 0) -> dict[str, Any]:
    found = run("verify", path, "--json", *more)
    assert found.exit_code == code, found.output
    (row,) = json.loads(found.stdout)
    assert isinstance(row, dict)
    return row


@pytest.mark.quality
def test_an_archive_is_verified_offline_with_its_signature(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone in a folder, as a ZIP file and unpacked."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(made / "model.zip", "kept.zip")
    row = verified(Path("kept.zip"), "--key", f"Ann={made / 'key.pub'}")
    assert row["file"] == "kept.zip: model.json"
    assert (row["verified"], row["missing"]) == (True, [])
    assert [one["state"] for one in row["signatures"]] == ["valid"]
    shutil.unpack_archive("kept.zip", "open")
    assert verified(Path("open"))["passed"]
    assert verified(Path("kept.zip"), "--require", "certified", code=14)["missing"]


def test_it_is_read_and_checked_without_dpaudit(made: Path, tmp_path: Path) -> None:
    """By the tools that a README names; it names every file, and each folder is explained."""
    shutil.unpack_archive(made / "model.zip", tmp_path)
    checked = subprocess.run(
        [shutil.which("sha256sum") or "", "--strict", "-c", SUMS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    readme = (tmp_path / "README.txt").read_text()
    there = {one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*") if one.is_file()}
    assert there == {
        *("certificate/model.json", "certificate/model.json.dsse", "published/model.npz"),
        *(f"pages/model.{spoken}.html" for spoken in ("en", "de", "fr")),
        *("README.txt", "SHA256SUMS", "certificate_schema.json"),
    }
    assert all(f"  {name}\n" in readme for name in there)
    assert all(f"  {name.partition('/')[0]}/ " in readme for name in there if "/" in name)
    assert "dpaudit verify THIS-ARCHIVE.zip" in readme
    assert "Ann" in (tmp_path / "pages" / "model.en.html").read_text()
    assert "Wer geschützt ist" in (tmp_path / "pages" / "model.de.html").read_text()


def test_the_same_files_make_the_same_bytes(made: Path, tmp_path: Path) -> None:
    again = archive(made / "model.json", tmp_path, "--key", f"Ann={made / 'key.pub'}")
    assert again.exit_code == 0
    assert (tmp_path / "model.zip").read_bytes() == (made / "model.zip").read_bytes()


def changed(source: Path, target: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """A copy of an archive with other contents."""
    with zipfile.ZipFile(source) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    change(contents)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return target


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pages/model.de.html", "pages/model.de.html: altered since"),
        ("published/model.npz", "model.npz: not the certified file"),
        ("certificate/model.json.dsse", "certificate/model.json.dsse: altered since"),
        ("README.txt", "README.txt: altered since"),
        ("certificate_schema.json", "certificate_schema.json: altered since"),
    ],
)
def test_an_altered_file_in_an_archive_is_named(
    name: str, said: str, made: Path, tmp_path: Path
) -> None:
    def alter(contents: dict[str, bytes]) -> None:
        contents[name] = contents[name].replace(b"a", b"b", 1) + b" "

    row = verified(changed(made / "model.zip", tmp_path / "a.zip", alter), code=10)
    assert [text for text in row["missing"] if said in text], row["missing"]
    assert not row["passed"]


def test_missing_and_additional_files_are_named(made: Path, tmp_path: Path) -> None:
    def swap(contents: dict[str, bytes]) -> None:
        del contents["pages/model.fr.html"]
        contents["pages/another.html"] = b""

    row = verified(changed(made / "model.zip", tmp_path / "a.zip", swap), code=10)
    assert "pages/model.fr.html: missing from the archive" in row["missing"]
    assert "pages/another.html: not of this archive" in row["missing"]


def test_new_sums_do_not_hide_another_output(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever alters a file and the sums is found by the certificate; without that, by nobody."""

    def forge(contents: dict[str, bytes]) -> None:
        old, contents["published/model.npz"] = contents["published/model.npz"], b"another"
        before, after = (sha256(one).hexdigest().encode() for one in (old, b"another"))
        contents[SUMS] = contents[SUMS].replace(before, after)

    path = changed(made / "model.zip", tmp_path / "a.zip", forge)
    row = verified(path, code=14)
    assert row["missing"] == ["model.npz: not the certified file (another SHA-256)"]
    monkeypatch.setattr("dpaudit.releases.published.differences", lambda *_: [])
    assert verified(path)["missing"] == []


def summed(contents: dict[str, bytes]) -> None:
    """Sums of the contents, as whoever alters an archive can make them."""
    del contents[SUMS]
    lines = [f"{sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents)]
    contents[SUMS] = "".join(lines).encode()


def test_a_page_that_says_something_else_is_not_confirmed(made: Path, tmp_path: Path) -> None:
    """Although its digest is in the sums; nor is a README, which nobody can make again."""

    def forge(contents: dict[str, bytes]) -> None:
        contents["pages/model.en.html"] = b"<h1>epsilon = 0.001</h1>"
        summed(contents)

    key = ("--key", f"Ann={made / 'key.pub'}")
    (same,) = (text for text in verified(made / "model.zip", *key)["confirmed"] if "pages/" in text)
    assert same.count(".html") == 3
    row = verified(changed(made / "model.zip", tmp_path / "a.zip", forge), *key)
    trusted = [text.partition(":")[0] for text in row["on_trust"] if "by its digest" in text]
    assert trusted == ["README.txt", "pages/model.en.html"]
    assert not any("model.en.html" in text for text in row["confirmed"])


def test_an_archive_without_the_output_of_its_certificate_is_refused(
    made: Path, tmp_path: Path
) -> None:
    def strip(contents: dict[str, bytes]) -> None:
        del contents["published/model.npz"]
        summed(contents)

    path = changed(made / "model.zip", tmp_path / "a.zip", strip)
    assert verified(path, code=14)["missing"] == ["'model.npz': not in the archive"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.npz").write_bytes(b"a model")
    assert verified(path, "--published", tmp_path / "out")["passed"]


@pytest.mark.parametrize(
    "name",
    [
        *("certificate//model.json", "certificate/./model.json", "./certificate/model.json"),
        *("Certificate/Model.JSON", "pages/\x1b[2J", "pages/a\nb", "pages/\u202elmth", ""),
    ],
)
def test_a_file_has_one_name_that_can_be_read(name: str, made: Path, tmp_path: Path) -> None:
    """A second name of a file would be read instead of it by dpaudit, or by another program."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(made / "model.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in [*contents.items(), (name, contents["certificate/model.json"])]:
            archive.writestr(zipfile.ZipInfo(each), content)
    found = run("verify", path)
    assert (found.exit_code, "no plain file" in found.output) == (1, True), found.output


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_bytes_are_refused(method: int, made: Path, tmp_path: Path) -> None:
    """By every method of compression, each of which has errors of its own."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("certificate/model.json", (made / "model.json").read_bytes())
    content = bytearray(path.read_bytes())
    content[60:100] = bytes(byte ^ 0xFF for byte in content[60:100])
    path.write_bytes(content)
    found = run("verify", path)
    assert (found.exit_code, "not read as an archive" in found.output) == (1, True), found.output


def test_an_archive_replaces_no_other_file(made: Path, tmp_path: Path) -> None:
    """Itself it may."""
    (tmp_path / "model.zip").write_bytes(b"an earlier one")
    found = archive(made / "model.json", tmp_path)
    assert (found.exit_code, "there is another file" in found.output) == (2, True), found.output
    assert (tmp_path / "model.zip").read_bytes() == b"an earlier one"
    assert [archive(made / "model.json", tmp_path / "new").exit_code for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    "name", ["../outside", "/outside", "a/../../outside", "back\\slash", "folder/"]
)
def test_paths_that_lead_out_of_an_archive_are_refused(
    name: str, made: Path, tmp_path: Path
) -> None:
    path = changed(made / "model.zip", tmp_path / "a.zip", lambda all_: all_.update({name: b""}))
    assert "is no plain file" in run("verify", path).output
    assert not (tmp_path.parent / "outside").exists()


def test_links_and_bombs_are_refused(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("certificate/model.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(CertificateRejected, match="no plain file"), archives.opened(path):
        pass
    many = {f"{number}.txt": b"" for number in range(MOST_FILES)}
    changed(made / "model.zip", path, lambda contents: contents.update(many))
    with pytest.raises(CertificateRejected, match="more than 1000 files"), archives.opened(path):
        pass
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1_000)
    with pytest.raises(CertificateRejected, match="more than"), archives.opened(made / "model.zip"):
        pass


def test_what_was_not_certified_is_not_archived(made: Path, tmp_path: Path) -> None:
    for name in ("model.json", "model.npz"):
        shutil.copy(made / name, tmp_path)
    (tmp_path / "model.npz").write_bytes(b"another")
    found = archive(tmp_path / "model.json", tmp_path)
    assert (found.exit_code, "not the certified file" in found.output) == (1, True), found.output
    (tmp_path / "model.npz").unlink()
    assert "published=" in archive(tmp_path / "model.json", tmp_path).output
    (tmp_path / "model.json").write_text("{}")
    assert archive(tmp_path / "model.json", tmp_path).exit_code == 1
    assert not (tmp_path / "model.zip").exists()


def test_a_killed_write_leaves_the_archive_that_was_there(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.zip"
    out.write_bytes(b"an earlier one")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "_synchronise", killed)
    monkeypatch.setattr(os, "fsync", killed)
    archive(made / "model.json", tmp_path)
    assert out.read_bytes() == b"an earlier one"


def test_a_zip_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.txt", "text")
    (tmp_path / "a.zip").write_bytes(content.getvalue())
    assert "0 certificates" in run("verify", tmp_path / "a.zip").output


PLAN = """
title = "People"
adjacency = "add_remove"
[budget]
epsilon = 1
[table]
name = "people"
unit = "person"
entity = "person"
rows = 1
[table.columns]
sex = { kind = "category", keys = ["f", "m"] }
[[items]]
name = "all"
query = "count"
"""


def test_a_plan_in_an_archive_is_that_of_the_certificate(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from dpaudit.releases.plan import load_plan

    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    named = {"name": "plan", "digest": {"sha256": load_plan(plan).digest}}
    certificate = {"predicate": {"mechanism": {"implementation": [named]}}}
    assert _plan(plan, certificate) == PLAN.encode()
    plan.write_text(PLAN.replace("epsilon = 1", "epsilon = 2"))
    with pytest.raises(InvalidParameter, match="another plan than the certificate's"):
        _plan(plan, certificate)

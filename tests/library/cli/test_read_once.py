"""What was checked is what is used: each file is opened once, whoever replaces it meanwhile."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.certificate.certificate import save
from dpaudit.certificate.previous import Opened
from dpaudit.certificate.publish import index_of
from dpaudit.check.process import Verified
from dpaudit.cli.main import main
from dpaudit.exact.wire import canonical_bytes
from dpaudit.releases.publish import write_errata
from dpaudit.sign import envelope_of, make_keys
from dpaudit.storage.evidence import MAX_LEVELS, read_once, strict_json
from tests.library.cli.bench import Json, forged, pure
from tests.support.swapped import Swap, swapping

Invoke = Callable[..., Any]
# Each command that checks a certificate and then uses it.
COMMANDS: dict[str, tuple[Any, ...]] = {
    "verify": ("verify", "FILE", "--json"),
    "verify --key": ("verify", "FILE", "--key", "KEY.pub", "--json"),
    "verify --implementation": ("verify", "FILE", "--implementation", ".", "--json"),
    "sign": ("sign", "FILE", "--key", "KEY.pem", "--json"),
    "report": ("report", "FILE", "--format", "csv,badge", "--out", "pages", "--json"),
    "total": ("ledger", "total", "FILE", "--json"),
}


def other(predicate: Json) -> None:
    """A loss that is not the declaration's: the certificate verifies no more."""
    predicate["claims"][0]["exact"] = "1/1000"
    predicate["mechanism"]["name"] = "other"


def issued_in(year: int) -> Callable[[Json], None]:
    return lambda predicate: predicate.update(issued=f"{year}-01-01T00:00:00Z")


class Bench:
    """A signed certificate, its keys, and what a liar puts in its place."""

    def __init__(self, folder: Path, run: Invoke) -> None:
        self.folder, self.run = folder, run
        self.file, self.honest = folder / "pure.json", pure()
        make_keys(folder / "KEY.pem")
        self.lie = canonical_bytes(forged(self.honest, other))
        self.fresh()
        self.run("sign", self.file, "--key", folder / "KEY.pem")

    def fresh(self) -> None:
        save(self.honest, self.file)

    def arguments(self, name: str) -> list[Any]:
        places = {"FILE": self.file, "KEY.pub": self.folder / "KEY.pub",
                  "KEY.pem": self.folder / "KEY.pem", "pages": self.folder / "pages"}  # fmt: skip
        (self.folder / "mechanisms").mkdir(exist_ok=True)
        return [places.get(one, one) for one in COMMANDS[name]]

    def outcome(self, name: str, swap: Swap) -> str:
        """What a command did while the file was replaced: "old", or "refused"."""
        self.fresh()
        before = self.file.read_bytes()
        with swapping(swap):
            result = self.anyhow(*self.arguments(name))
        said = result.stdout + result.stderr
        assert "other" not in said, said
        envelope = json.loads(envelope_of(self.file).read_bytes())
        assert base64.b64decode(envelope["payload"]) == canonical_bytes(self.honest)
        if swap.at == 1:
            assert "does not follow" in said or "its number" in said or "its text" in said, said
            return "refused"
        if name.startswith("verify"):
            (row,) = json.loads(result.stdout)
            assert row["verified"], row
            assert row["sha256"] == hashlib.sha256(before).hexdigest()
        return "old"

    def anyhow(self, *arguments: Any) -> Any:
        return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def bench(tmp_path: Path, dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(tmp_path, dpaudit)


@pytest.mark.first_case
@pytest.mark.parametrize("name", COMMANDS)
def test_a_certificate_is_opened_once_and_a_swap_changes_nothing(name: str, bench: Bench) -> None:
    """Replaced before it is opened, or at any moment after that: it is refused, or the old one."""
    first, second, later = (
        Swap(bench.file, bench.lie, at=1),
        Swap(bench.file, bench.lie, at=2),
        Swap(bench.file, bench.lie, after=1),
    )
    assert [bench.outcome(name, swap) for swap in (first, second, later)] == [
        "refused",
        "old",
        "old",
    ]
    assert [swap.opened for swap in (first, second, later)] == [1, 1, 1]
    assert later.swapped


def test_keys_and_signatures_are_opened_once(bench: Bench) -> None:
    watched = [Swap(bench.folder / name) for name in ("KEY.pub", "pure.json.dsse")]
    with swapping(*watched):
        bench.run(*bench.arguments("verify --key"))
    assert [one.opened for one in watched] == [1, 1]
    watched = [Swap(bench.folder / name) for name in ("KEY.pem", "pure.json.dsse")]
    with swapping(*watched):
        bench.run(*bench.arguments("sign"))
    assert [one.opened for one in watched] == [1, 1]


def test_a_command_that_reads_again_is_caught(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file read anew after the check, what is shown is the liar's."""
    again = property(lambda one: json.loads(one.file.path.read_bytes()))
    monkeypatch.setattr(Verified, "certificate", again)
    for name in ("report", "total"):
        with pytest.raises(AssertionError):
            bench.outcome(name, Swap(bench.file, bench.lie, at=2))


def test_the_gate_opens_each_certificate_once(
    project: Path, dpaudit: Invoke, tmp_path: Path
) -> None:
    folder = project / "reports"
    folder.mkdir()
    save(pure(), folder / "pure.json")
    watched = Swap(folder / "pure.json")
    with swapping(watched):
        dpaudit("check", folder, code=1)
    assert watched.opened == 1


@pytest.mark.quality
def test_a_page_s_certificate_before_is_opened_once(bench: Bench) -> None:
    """One that is reported itself, under another name as well, and one that only lies beside."""
    for name, year in (("before", 2001), ("beside", 2000)):
        save(forged(bench.honest, issued_in(year)), bench.folder / f"{name}.json")
    (bench.folder / "linked.json").symlink_to(bench.file)
    watched = [Swap(bench.folder / f"{name}.json") for name in ("pure", "before", "beside")]
    linked = Swap(bench.folder / "linked.json")
    with swapping(*watched, linked):
        bench.run("report", bench.file, watched[1].path, "--out", bench.folder / "pages")
    assert [one.opened for one in (*watched, linked)] == [1, 1, 1, 0]


@pytest.mark.quality
def test_errata_and_indexes_open_each_certificate_once(bench: Bench) -> None:
    save(forged(bench.honest, issued_in(2001)), bench.folder / "before.json")
    watched = [Swap(bench.folder / f"{name}.json") for name in ("pure", "before")]
    opened = Opened()
    with swapping(*watched):
        write_errata(bench.file, ["withdrawn"], opened)
        index_of(bench.folder, opened=opened)
    assert [one.opened for one in watched] == [1, 1]


@pytest.mark.quality
def test_a_replay_is_of_the_certificate_that_was_checked(project: Path, dpaudit: Invoke) -> None:
    dpaudit("certify", "held", "--seed", "2", "--trials", "400")
    file = project / "reports" / "held.json"
    lie = canonical_bytes(forged(json.loads(file.read_bytes()), other))
    watched = Swap(file, lie, after=1)
    with swapping(watched):
        dpaudit("verify", file, "--replay")
    assert (watched.opened, watched.swapped) == (1, True)
    assert file.read_bytes() == lie


@pytest.mark.quality
def test_modules_of_the_working_folder_do_not_stand_in_for_the_checkers(
    tmp_path: Path, checkout: Path
) -> None:
    """``json.py`` of a stranger's checkout is not run where its certificates are verified."""
    save(pure(), tmp_path / "pure.json")
    (tmp_path / "json.py").write_text("open('ran', 'w').close()\n")
    code = (
        "from pathlib import Path; from dpaudit.check.file import read;"
        "from dpaudit.check.process import verify_files;"
        "assert [one.row['verified'] for one in verify_files([read(Path('pure.json'))])] == [True]"
    )
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, check=True)
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_none_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_once(tmp_path / "pipe", 10)
    with pytest.raises(IsADirectoryError):
        read_once(tmp_path, 10)
    (tmp_path / "long").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_once(tmp_path / "long", 10)


@pytest.mark.parametrize("form", ["{}", '{{"a": {}}}', '[{}, "[[{{\\"[["]'])
def test_json_is_as_deep_as_is_stated_on_every_machine(form: str) -> None:
    """Brackets in texts are no levels."""
    levels = MAX_LEVELS - (form != "{}")
    deep = form.format("[" * levels + "]" * levels)
    assert strict_json(deep) is not None
    with pytest.raises(ValueError, match="nested too deeply"):
        strict_json(f"[{deep}]")

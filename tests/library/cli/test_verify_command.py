"""``dpaudit verify``: what passes, exit statuses, limits, and what reaches the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit.certificate.certificate import save
from dpaudit.certificate.replay import command_of
from dpaudit.check import process, theorem
from dpaudit.check.file import load, read
from dpaudit.check.process import verify_files
from dpaudit.errors import CertificateRejected
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.nodes import Assumption
from dpaudit.storage import roots
from tests.library.cli.bench import (
    Json,
    caught,
    certified,
    forged,
    held,
    mechanism,
    pure,
    refuted,
    unattacked,
)
from tests.library.unit.test_check_adversary import allocated, with_epsilon

BYTES, LIMITS, DERIVATION, UNCONFIRMED, REQUIRED = 10, 11, 12, 6, 14
Invoke = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Json], Path]:
    def write(certificate: Json) -> Path:
        path = tmp_path / f"case-{len(list(tmp_path.iterdir()))}.json"
        save(certificate, path)
        return path

    return write


def doubtful() -> Json:
    def change(predicate: Json) -> None:
        with_epsilon("0.001", "1", predicate)
        predicate["claims"][0]["verdict"] = predicate["verdict"]["status"] = "unconfirmed"

    return forged(allocated(), change)


def noisier(predicate: Json) -> None:
    predicate["derivation"]["steps"][0]["conclusion"]["mu"] = "0.01"


@pytest.fixture
def verified_here() -> None:
    """Not in these tests: they are of the process."""


OWN = """
import dataclasses
import dpaudit as dp
from dpaudit.check.theorem import Theorem, register

@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Own(dp.Leaf):
    label: str

register({("pure", "Own"): Theorem("own", lambda node: 1)})
"""


def test_theorems_of_the_caller_are_loaded_where_certificates_are_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Callable[[Json], Path]
) -> None:
    """From their module's file, by a child that names one which does not stand alone."""
    alone, broken = tmp_path / "alone.py", tmp_path / "broken.py"
    alone.write_text(OWN)
    broken.write_text("from . import logistic\n")
    monkeypatch.setattr(theorem, "THEOREMS", dict(theorem.THEOREMS))
    process._load("alone_theorem", str(alone))
    assert theorem.added() == {"Own": ("alone_theorem", str(alone))}
    monkeypatch.setattr(process, "added", lambda: {"Own": ("broken_theorem", str(broken))})
    good, wrong = verify_files([read(file(held())), read(file(forged(held(), noisier)))])
    assert good.row["verified"]
    assert "broken.py, a module of theorems, has to stand alone: " in wrong.row["reason"]
    del sys.modules["alone_theorem"]


@pytest.mark.quality
def test_each_kind_of_failure_has_a_status_of_its_own(
    file: Callable[[Json], Path],
    dpaudit: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, other, third = file(held()), file(refuted()), file(caught())
    doubted, wrong, changed = file(doubtful()), file(forged(held(), noisier)), file(held())
    changed.write_text(changed.read_text().replace('"0.75"', '"0.76"', 1))
    files = [good, other, third, doubted, wrong, changed, tmp_path / "none.json"]
    # One process reads them all, and the command is told of each alone.
    rows = {str(one.file.path): one for one in verify_files(list(map(read, files)))}
    monkeypatch.setattr(
        process, "verify_files", lambda files, seconds=0: [rows[str(f.path)] for f in files]
    )
    dpaudit("verify", good)
    assert "refuted" in dpaudit("verify", other, code=REQUIRED).stdout
    assert "refuted" in dpaudit("verify", third, code=REQUIRED).stdout
    dpaudit("verify", doubted, code=UNCONFIRMED)
    dpaudit("verify", wrong, code=DERIVATION)
    dpaudit("verify", changed, code=BYTES)
    dpaudit("verify", tmp_path / "none.json", code=BYTES)


@pytest.mark.quality
def test_a_certificate_of_a_day_that_is_to_come_is_not_as_required(
    file: Callable[[Json], Path], dpaudit: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(forged(held(), lambda predicate: predicate.update(issued="2999-01-01T00:00:00Z")))
    assert "issued on 2999-01-01" in dpaudit("verify", path, code=REQUIRED).stdout
    monkeypatch.setattr("dpaudit.cli.verify.tomorrow", lambda: "2999-01-02")
    dpaudit("verify", path)


@pytest.mark.quality
def test_requirements(file: Callable[[Json], Path], dpaudit: Invoke) -> None:
    path = file(held())
    dpaudit("verify", path, "--require", "certified", code=REQUIRED)
    dpaudit("verify", path, "--max-epsilon", "3.6")
    assert "epsilon <= " in dpaudit("verify", path, "--max-epsilon", "3", code=REQUIRED).stdout
    dpaudit("verify", path, "--max-epsilon", "three", code=2)
    # A small epsilon at a delta near 1 is no guarantee.
    shown = dpaudit("verify", path, "--max-epsilon", "4", "--set", "max_delta=1e-6", code=REQUIRED)
    assert "shows only epsilon <= " in shown.stdout
    assert "at delta 0.00001" in shown.stdout
    claim = ApproxDP("0.1", "0.9999999")
    careless = unattacked(mechanism("case", Gaussian("a", "0.1"), claim, labels=("a",)))
    dpaudit("verify", file(careless.certificate), "--max-epsilon", "4", code=REQUIRED)
    dpaudit("verify", path, "--set", "confirmed=true")
    shown = dpaudit("verify", path, "--set", "require_audit=true", code=REQUIRED).stdout
    assert "could not have refuted it" in shown
    dpaudit("verify", file(pure()), "--set", "require_audit=true")
    dpaudit("verify", file(refuted()), "--require", "refuted")
    dpaudit("verify", file(allocated()), "--set", "confirmed=true", code=UNCONFIRMED)
    plain = unattacked(mechanism("case", Gaussian("a", 2), GDP(1), labels=("a",))).certificate
    shown = dpaudit("verify", file(plain), "--set", "require_audit=true", code=REQUIRED).stdout
    assert "not audited" in shown
    assert "no claim of an epsilon" in dpaudit(
        "verify", file(plain), "--max-epsilon", "9", code=REQUIRED
    ).stdout  # fmt: skip


@pytest.mark.quality
def test_it_says_that_it_imported_neither_accountant_nor_rule(
    file: Callable[[Json], Path], dpaudit: Invoke
) -> None:
    assert "no accountant, no rule" in dpaudit("verify", file(held())).stdout


def sums(rounds: int) -> Any:
    """exp(-k1 k2 k3) over three indices, rounds each: what takes a long time to enclose."""
    names = ("k1", "k2", "k3")
    symbols = [["Symbol", name, {"integer": True, "positive": True}] for name in names]
    body: Any = ["exp", ["Mul", "-1/1", *symbols]]
    for symbol in symbols:
        body = ["Sum", body, ["Tuple", symbol, "1/1", f"{rounds}/1"]]
    return body


def test_a_certificate_made_to_hang_ends_in_time(
    file: Callable[[Json], Path], dpaudit: Invoke
) -> None:
    """Three nested sums of 10^4 terms each."""

    def change(predicate: Json) -> None:
        table = predicate["mechanism"]["declaration"]
        row = next(r for r in table["nodes"].values() if r["type"] == "Gaussian")
        row["parameters"]["noise_multiplier"] = {"number": sums(10_000)}

    path, started = file(forged(held(), change)), time.monotonic()
    result = dpaudit("verify", path, "--set", "seconds=2", code=LIMITS)
    assert time.monotonic() - started < 15
    assert len(result.stdout.splitlines()) == 1


def test_a_certificate_that_fills_the_memory_ends(tmp_path: Path) -> None:
    huge, good = tmp_path / "huge.json", tmp_path / "good.json"
    huge.write_bytes(b"[" * (4 * 2**20 + 1))
    save(held(), good)
    rows = [one.row for one in verify_files([read(huge), read(good)])]
    assert [row["failure"] for row in rows] == ["bytes", ""]
    assert "larger than" in rows[0]["reason"]


@pytest.mark.quality
def test_rows_without_end_are_refused(file: Callable[[Json], Path], dpaudit: Invoke) -> None:
    def change(predicate: Json) -> None:
        predicate["in_plain_words"]["posterior"] *= 10_000

    result = dpaudit("verify", file(forged(held(), change)), code=BYTES)
    assert len(result.stdout.splitlines()) == 1
    assert len(result.stdout) < 1000


ESCAPES = "x\n  confirmed: signature of the regulator\x1b[2K\u202e\x07"


def test_text_reaches_the_terminal_escaped(file: Callable[[Json], Path], dpaudit: Invoke) -> None:
    """An assumption's id printed a line 'confirmed: signature of ...', and escape codes."""
    node = Assuming(Gaussian("a", 2), Assumption(ESCAPES, "x", "declared"))  # type: ignore[arg-type]
    certificate = certified(mechanism("case", node, GDP(1), labels=("a",))).certificate
    result = dpaudit("verify", file(certificate))
    assert "signature of the regulator" in result.stdout
    for line in result.stdout.splitlines():
        assert not line.startswith("  confirmed: signature")
    assert all(c.isprintable() or c == "\n" for c in result.stdout)


# --- replayed, and compared with files -----------------------------------------------------------


@pytest.mark.quality
def test_a_replay_gives_the_same_counts_or_says_where_not(dpaudit: Invoke, project: Path) -> None:
    dpaudit("certify", "held", "--seed", "2", "--trials", "400")
    path = project / "reports" / "held.json"
    dpaudit("verify", path, "--replay")

    def retyped(predicate: Json) -> None:
        """The counts of another seed: nobody can tell without the run."""
        predicate["reproduce"].update(
            command="dpaudit certify held --seed 1 --trials 400", root_seed=f"{1:032x}"
        )
        for row in [*predicate["audits"], *predicate["likelihoods"]]:
            row["seed"] = f"{1:032x}"

    save(forged(load(path), retyped), path)
    dpaudit("verify", path)
    shown = dpaudit("verify", path, "--replay", code=REQUIRED).stdout
    assert "audit lens: counts" in shown
    (project / "mechanisms" / "cases.py").open("a").write("\n")
    roots._ran.clear()  # as a process that starts now
    assert "another file" in dpaudit("verify", path, "--replay", code=REQUIRED).stdout


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("options", "runs"), [([], False), (["--replay"], True)])
def test_the_projects_code_runs_for_a_replay_alone(
    dpaudit: Invoke, project: Path, tmp_path: Path, options: list[str], runs: bool
) -> None:
    """The threat model: who verifies without a replay runs nobody's program."""
    cases, mark = project / "mechanisms" / "cases.py", tmp_path / "imported"
    cases.open("a").write(f"\nopen({str(mark)!r}, 'a').close()\n")
    dpaudit("certify", "held", "--seed", "2", "--trials", "400")
    mark.unlink()
    roots._ran.clear()  # as a process that starts now
    for name in [name for name in sys.modules if name.startswith(("mechanisms", "audits"))]:
        del sys.modules[name]
    dpaudit("verify", project / "reports" / "held.json", *options)
    assert mark.exists() == runs


@pytest.mark.quality
def test_a_seed_that_was_tried_out_hides_nothing(dpaudit: Invoke, project: Path) -> None:
    """Audits under a seed drawn after the certificate, on the same files: they hold, or refute."""
    dpaudit("certify", "held", "--seed", "2", "--trials", "400")
    path = project / "reports" / "held.json"
    dpaudit("verify", path, "--fresh")
    (project / "mechanisms" / "cases.py").open("a").write("\n")
    roots._ran.clear()  # as a process that starts now
    assert "another file" in dpaudit("verify", path, "--fresh", code=REQUIRED).stdout


def test_a_replay_runs_no_file_that_a_certificate_names() -> None:
    for command in ("rm -rf /", "dpaudit certify x.py::evil --seed 1", "dpaudit certify held", "'"):
        predicate = {"reproduce": {"command": command}}
        with pytest.raises(CertificateRejected, match="cannot be replayed"):
            command_of({"predicate": predicate})
    found = command_of({"predicate": {"reproduce": {"command": "dpaudit certify --all --seed 3"}}})
    assert (found.targets, found.seed, found.trials) == ((), 3, None)
    # A plan has to be given: the one that is named is not opened.
    found = command_of({"predicate": {"reproduce": {"command": "dpaudit certify p.toml --seed 3"}}})
    assert found.planned


@pytest.mark.quality
def test_the_implementation_is_compared_with_a_folder(dpaudit: Invoke, project: Path) -> None:
    dpaudit("certify", "held", "--seed", "2", "--trials", "400")
    path = project / "reports" / "held.json"
    dpaudit("verify", path, "--implementation", project)
    (project / "mechanisms" / "cases.py").open("a").write("\n")
    shown = dpaudit("verify", path, "--implementation", project, code=REQUIRED).stdout
    assert "mechanisms/cases.py: another file" in shown
    shown = dpaudit("verify", path, "--implementation", project / "audits", code=REQUIRED).stdout
    assert "mechanisms/cases.py: not in" in shown

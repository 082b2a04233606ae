"""Which certificates of an earlier run need not be made again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dpaudit.accountant.claim import Claim
from dpaudit.certificate.cache import FOLDER, Files, files_of, holds, identity, remember
from dpaudit.certificate.order import Options, Order, Run, plan
from dpaudit.certificate.publish import Failed, Finished, certify_each, write_index
from dpaudit.check.file import read
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter, OutputNotWritable
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.library.cli.bench import DIGESTS, NoNoise, Releases, mechanism, suite

CASE = mechanism("case", Gaussian("a", 2), GDP(0.5), labels=("a",))
OTHER = mechanism("other", Gaussian("a", 2), GDP(0.5), labels=("a",))
Change = Callable[[Order], Order]


@dataclass(frozen=True)
class Undeclarable(Releases):
    """Its declaration fails."""

    def declaration(self, scope: Scope) -> Node:
        raise InvalidParameter("nothing to declare")


def order(of: Mechanism = CASE, **changes: Any) -> Order:
    return Order(of, suite(of, **changes), "project", DIGESTS)


def run_of(*orders: Order, **options: Any) -> Run:
    return plan(orders or (order(),), Options(**{"seed": 5, **options}))


# --- identities ----------------------------------------------------------------------------------


def claims(*changed: Claim) -> Change:
    return lambda one: replace(one, mechanism=replace(one.mechanism, claims=changed))


def attacked(**changed: Any) -> Change:
    return lambda one: replace(one, suite=replace(one.suite, **changed))  # type: ignore[type-var]


def of_mechanism(**changed: Any) -> Change:
    return lambda one: replace(one, mechanism=replace(one.mechanism, **changed))


CLAIM = CASE.claims[0]
OTHER_PAIR = suite(CASE).neighbours
CHANGES: dict[str, Change] = {
    "another claim": claims(replace(CLAIM, guarantee=GDP(0.6))),
    "one claim more": claims(CLAIM, CLAIM),
    "another reading": claims(replace(CLAIM, reading="in nats")),
    "another author": claims(replace(CLAIM, by="somebody else")),
    "another title": of_mechanism(title="New"),
    "another source": of_mechanism(source="elsewhere"),
    "another program": of_mechanism(program=Releases(Gaussian("a", 2), ("a", "a"))),
    "another declaration": of_mechanism(program=Releases(Gaussian("a", 3), ("a",))),
    "another scope": of_mechanism(
        scope=Scope("zero_out", "record", "central", "transcript")  # type: ignore[arg-type]
    ),
    "no suite": lambda one: replace(one, suite=None),
    "other trials": attacked(trials=500),
    "another threshold": attacked(threshold=0.1),
    "another threat": attacked(threat_model="black_box_all"),
    "other kernels": attacked(kernels={Gaussian: NoNoise}),
    "other neighbours": attacked(neighbours=replace(OTHER_PAIR, second=OTHER_PAIR.first,
                                                    first=OTHER_PAIR.second)),
    "other words": attacked(neighbours=replace(OTHER_PAIR, text="in other words")),
    "another implementation": lambda one: replace(one, implementation={"a.py": "1" * 64}),
    "another root": lambda one: replace(one, root="catalogue"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_certificate_is_made_of_changes_its_identity(change: str) -> None:
    assert identity(run_of(CHANGES[change](order())), 0) != identity(run_of(), 0)


@pytest.mark.parametrize("options", [{"seed": 6}, {"trials": 300}, {"targets": ("x",)}])
def test_so_do_seed_trials_and_command(options: dict[str, Any]) -> None:
    assert identity(run_of(**options), 0) != identity(run_of(), 0)


def test_so_do_the_others_that_share_the_error_and_the_place_among_them() -> None:
    alone, two = run_of(targets=("x",)), run_of(order(), order(OTHER), targets=("x",))
    turned = run_of(order(OTHER), order(), targets=("x",))
    found = {identity(alone, 0), identity(two, 0), identity(turned, 1), identity(two, 1)}
    assert len(found) == 4


@pytest.mark.parametrize("variable", ["SOURCE_DATE_EPOCH"])
def test_so_does_the_date_that_is_asked_for(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1700000000")
    dated = identity(run_of(), 0)
    monkeypatch.delenv(variable)
    assert identity(run_of(), 0) != dated


def test_workers_folders_and_progress_do_not(tmp_path: Path) -> None:
    other = run_of(jobs=2, store=tmp_path, progress=lambda *_: None)
    assert identity(other, 0) == identity(run_of(), 0)


# --- records -------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = files_of("case", tmp_path)
    found.certificate.write_text("certificate")
    found.page.write_text("page")
    remember(found, "made of this")
    return found


def still_holds(files: Files, made_from: str = "made of this") -> bool:
    """Whether the record holds for what is on the disk now."""
    return holds(files, made_from, read(files.certificate))


def test_a_record_holds_for_these_bytes_made_of_this(files: Files) -> None:
    assert still_holds(files)
    assert not still_holds(files, "made of that")
    assert still_holds(files)


def test_a_record_does_not_hold_for_other_bytes(files: Files) -> None:
    for path in (files.page, files.certificate):
        kept = path.read_text()
        path.write_text(kept + " ")
        assert not still_holds(files)
        path.unlink()
        assert not still_holds(files)
        path.write_text(kept)
        assert still_holds(files)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"made_from": "made of this"}', "[" * 10**5]
)
def test_a_record_that_is_none_does_not_hold(text: str, files: Files) -> None:
    (files.certificate.parent / FOLDER / "case.json").write_text(text)
    assert not still_holds(files)


def test_a_record_says_nothing_that_is_private(files: Files) -> None:
    """Digests of what was written and of what it was made from; never of data."""
    text = (files.certificate.parent / FOLDER / "case.json").read_text()
    assert set(json.loads(text)) == {"made_from", "files"}


# --- a run ---------------------------------------------------------------------------------------


@pytest.mark.quality
def test_one_that_cannot_even_be_declared_is_a_failure_of_its_own(tmp_path: Path) -> None:
    lost = replace(OTHER, program=Undeclarable(Gaussian("a", 2)))
    orders = (Order(lost, None, "project", DIGESTS), order())
    failed, made = certify_each(run_of(*orders), tmp_path, keep=True)
    assert isinstance(failed, Failed)
    assert isinstance(made, Finished)
    assert (failed.name, made.name, made.kept) == ("other", "case", False)
    index = write_index([made, failed], tmp_path).read_text()
    assert "other: nothing to declare" in index
    assert "case.html" in index
    again = list(certify_each(run_of(*orders), tmp_path, keep=True))
    assert [isinstance(one, Finished) and one.kept for one in again] == [False, True]


def test_a_traceback_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replace(OTHER, program=Undeclarable(Gaussian("a", 2)))
    monkeypatch.setenv("DPAUDIT_TRACEBACK", "1")
    with pytest.raises(InvalidParameter, match="nothing to declare"):
        list(certify_each(run_of(Order(lost, None, "project", DIGESTS)), tmp_path, keep=True))


@pytest.mark.quality
def test_a_full_disk_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "case.json" / "in the way").mkdir(parents=True)
    with pytest.raises(OutputNotWritable):
        list(certify_each(run_of(order(), order(OTHER)), tmp_path, keep=True))
    assert not (tmp_path / "other.json").exists()


# --- several processes ---------------------------------------------------------------------------


@pytest.mark.long("a process of its own certifies some mechanisms")
@pytest.mark.parametrize(
    "chosen",
    ["dies", pytest.param("not dies", marks=pytest.mark.quality)],
)
def test_mechanisms_are_divided_among_processes(chosen: str, checkout: Path) -> None:
    """In a new process: in this one other tests' libraries have threads, which no copy has."""
    file = checkout / "tests" / "support" / "certified_in_forks.py"
    options = ("-n", "0", "-q", "-p", "no:cacheprovider", "-k", chosen)
    command = [sys.executable, "-m", "pytest", *options, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=checkout)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def processes_of(*orders: Order, out: Path, **options: Any) -> dict[str, Finished | Failed]:
    run = run_of(*orders, jobs=2, **options)
    return {result.name: result for result in certify_each(run, out, keep=False)}


def test_a_release_is_drawn_in_this_process(tmp_path: Path) -> None:
    """One that died after it drew would be drawn again."""
    here: list[int] = []
    with patch("dpaudit.certificate.publish.certify_one", lambda *_: here.append(os.getpid())):
        processes_of(order(), order(OTHER), out=tmp_path, seed=None)
    assert here == [os.getpid()] * 2

"""Evidence over nights: what it multiplies, whom it keeps, and that nothing in it is lost."""

from __future__ import annotations

import json
import math
import multiprocessing
import subprocess
from collections.abc import Sequence
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import PureDP, audit_function
from dpaudit.audit.blackbox import nights as module
from dpaudit.audit.blackbox.nights import Evidence, Night, Nights, Year
from dpaudit.errors import InvalidParameter
from tests.library.unit.test_pytest_plugin import SUITE, session

DAY = Night("2026-03-01", "a" * 40)


def followed(logs: Sequence[float], *, days: Sequence[str] | None = None) -> Evidence:
    evidence = Evidence(1)
    for index, log in enumerate(logs):
        day = days[index] if days else f"2026-01-{index + 1:02}"
        evidence = evidence.after(Night(day, f"{index:040}"), log, 100, 0.01)
    return evidence


@pytest.mark.parametrize("days", [None, ["2026-01-01"] * 4])
def test_the_wealth_is_a_martingale(days: list[str] | None) -> None:
    """Over all outcomes of nights whose e-values are 1/2 and 3/2 with equal chance, its mean is 1.

    Whether each night is a day of its own or all are on one.
    """
    logs = [math.log(0.5), math.log(1.5)]
    paths = [followed(path, days=days) for path in product(logs, repeat=4)]
    mean = math.fsum(math.exp(path.log_wealth) for path in paths) / len(paths)
    assert mean == pytest.approx(1, abs=1e-12)


def test_a_bug_after_many_quiet_nights_is_seen_as_soon() -> None:
    """Each night of the bug has an e-value of e^4: three make up for the year's 366 starts."""
    quiet = [f"2026-{1 + d // 28:02}-{1 + d % 28:02}" for d in range(300)]
    evidence = followed([-0.7] * 297 + [4.0] * 3, days=quiet)
    assert evidence.red
    assert not followed([-0.7] * 297 + [4.0] * 2, days=quiet[:299]).red
    assert evidence.nights == 300
    assert evidence.since == Night(quiet[297], f"{297:040}")
    assert evidence.trials == 300
    assert evidence.hint == f"git bisect start {297:040}"[:29] + f" {296:040}"[:13]


def test_bars_share_one_budget() -> None:
    parts = [math.exp(-Evidence(number).bar(0.01)) for number in range(1, 5000)]
    assert 0.0099 < math.fsum(parts) < 0.01


def test_a_year_has_a_budget_and_a_mended_bug_is_a_further_audit(tmp_path: Path) -> None:
    file = Nights(tmp_path / "nights.json")
    year = file.add("a", DAY, 20.0, 100)
    assert year.of("a").red
    assert file.add("a", Night("2026-03-02"), -1.0, 100).of("a").red  # until it is mended
    file.renew("a", date(2026, 3, 3))
    assert file.add("b", DAY, 0.1, 100).of("b").number == 2
    assert file.add("a", Night("2026-03-04"), 0.1, 100).of("a").number == 3
    assert not file.read(date(2026, 3, 4)).of("a").red
    assert file.read(date(2027, 1, 1)) == Year(2027, 0.01)
    with pytest.raises(InvalidParameter, match=r"begun with an error of 0\.01; it cannot be 0\.02"):
        Nights(file.path, 0.02).read(date(2026, 3, 4))
    file.path.write_text("[]")
    with pytest.raises(InvalidParameter, match="not nightly evidence"):
        file.read(date(2026, 3, 4))


EDITS: list[dict[str, Any]] = [
    {"year": "2026"},
    {"year": 2026.5},
    {"error": "0.01"},
    {"error": 5},
    {"error": math.nan},
    {"used": 0},
    {"used": "1"},
    {"claims": []},
    {"claims": {"a": {"log_started": math.nan}}},
    {"claims": {"a": {"number": 0}}},
    {"claims": {"a": {"number": "1"}}},
    {"claims": {"a": {"days": -1000}}},
    {"claims": {"a": {"red": "no"}}},
    {"claims": {"a": {"rise": None}}},
    {"claims": {"a": {"since": {"day": "yesterday", "commit": ""}}}},
    {"claims": {"a": {"since": {"day": "2026-03-01", "commit": "x; rm"}}}},
    {"claims": {"b": {}}},
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_an_edited_file_is_refused(edit: dict[str, Any], tmp_path: Path) -> None:
    """NaN would never be red, and two claims of one number would overspend the error."""
    file = Nights(tmp_path / "nights.json")
    file.add("a", DAY, 0.5, 100)
    table = json.loads(file.path.read_text())
    claims = edit.get("claims")
    if isinstance(claims, dict):
        edit = {"claims": {k: table["claims"]["a"] | row for k, row in {"a": {}, **claims}.items()}}
    file.path.write_text(json.dumps(table | edit))
    with pytest.raises(InvalidParameter, match="not nightly evidence"):
        file.read(date(2026, 3, 4))


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff\xfe", b'{"format": 1'])
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "nights.json"
    path.write_bytes(content)
    with pytest.raises(InvalidParameter, match="not nightly evidence"):
        Nights(path).add("a", DAY, 0.5, 100)
    assert path.read_bytes() == content
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidParameter, match="Is a directory"):
        Nights(path).read(date(2026, 3, 4))


def test_all_that_is_written_can_be_read(tmp_path: Path) -> None:
    """Wealth that is lost or infinite, and a commit that is no name of one, as from a pipeline."""
    file = Nights(tmp_path / "nights.json")
    for name, log in (("lost", -math.inf), ("infinite", math.inf)):
        year = file.add(name, Night("2026-03-01", "$(reboot)"), log, 100)
        assert file.read(date(2026, 3, 1)) == year
        assert year.of(name).since.commit == ""


def add_many(path: Path, name: str) -> None:
    for number in range(20):
        Nights(path).add(name, Night(f"2026-03-{number + 1:02}"), 0.01, 1)


@pytest.mark.quality
def test_several_processes_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "nights.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_many, args=(path, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    year = Nights(path).read(date(2026, 3, 1))
    assert [year.of(name).nights for name in "ab"] == [20, 20]
    assert sorted(year.of(name).number for name in "ab") == [1, 2]


def test_a_killed_writer_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Nights(tmp_path / "nights.json")
    file.add("a", DAY, 0.5, 100)
    before = file.path.read_bytes()

    def killed(path: Path, content: bytes) -> None:
        path.with_suffix(".part").write_bytes(content[: len(content) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        file.add("a", DAY, 0.5, 100)
    assert file.path.read_bytes() == before
    monkeypatch.undo()
    assert file.add("a", DAY, 0.5, 100).of("a").nights == 2  # and the lock is free


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.quality
def test_sessions_add_up_until_a_weak_bug_is_red(tmp_path: Path) -> None:
    """Half of the noise, at draws that refute it on no single night of the year's budget."""
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True)  # noqa: S607
    arguments = ("--dp-nights=nights.json", "--dp-trials=150", "-k", "wrong or right")
    said = [session(tmp_path, SUITE, *arguments) for _ in range(8)]
    assert "1 failed, 2 passed" not in said[0].stdout
    assert "1 failed, 2 passed" in said[-1].stdout, said[-1].stdout
    last = said[-1].stdout
    assert "the bets of 8 nights against the claim reached their bar" in last
    assert "git bisect run python -m pytest test_it.py::test_wrong --dp-seed" in last
    assert "the sessions of 20" in last
    assert "are red with probability at most 0.01; nights.json holds evidence on 4 claims" in last
    kept = json.loads((tmp_path / "nights.json").read_text())
    assert [one["red"] for one in kept["claims"].values()].count(True) == 1
    # A session with a seed adds nothing, and one that says that the bug is mended begins anew.
    before = (tmp_path / "nights.json").read_bytes()
    session(tmp_path, SUITE, *arguments, "--dp-seed=1")
    assert (tmp_path / "nights.json").read_bytes() == before
    mended = SUITE.replace("rng.laplace(0, 0.5, size)", "rng.laplace(0, 1, size)")
    assert "1 failed" in session(tmp_path, mended, *arguments).stdout
    assert "3 passed" in session(tmp_path, mended, *arguments, "--dp-mended").stdout


@pytest.mark.quality
def test_a_session_draws_afresh_and_repeats_itself_by_its_seed(tmp_path: Path) -> None:
    """A claim that no audit of so few draws refutes; the bounds differ with the seed."""
    text = SUITE + "\n    print('lower', assert_private(right, [1, 1], [1, 0]).epsilon_lower)\n"
    seeds, shown = [], []
    for more in ([], [], None):
        given = more if more is not None else [f"--dp-seed={seeds[0]}"]
        said = session(tmp_path, text, "-k", "right and 1", "-s", *given).stdout
        seeds.append(said.split("of seed ")[1].split()[0])
        shown.append(said.split("lower ")[1].split()[0])
    assert seeds[0] == seeds[2] != seeds[1]
    assert shown[0] == shown[2] != shown[1]


# --- evidence of one night ------------------------------------------------------------------------


@pytest.mark.quality
def test_the_evidence_of_a_wrong_function_grows_and_that_of_a_right_one_does_not() -> None:
    """Log e-values of three nights each; false-alarm rate of this test: 1e-3."""

    def count(scale: float) -> float:
        def noisy(data: list[int], rng: np.random.Generator, size: int) -> np.ndarray:
            return sum(data) + rng.laplace(0, scale, size)

        nights = [
            audit_function(noisy, [1, 1], [1, 0], claim=PureDP(1), trials=2_000, seed=seed)
            for seed in (1, 2, 3)
        ]
        return math.fsum(night.log_e_value for night in nights)

    assert count(0.6) > 30
    assert count(1.0) < math.log(1000)


def test_calls_that_are_no_trials_are_no_evidence() -> None:
    def shared(data: list[int], rng: np.random.Generator, size: int) -> np.ndarray:
        return np.full(size, sum(data) + rng.laplace(0, 0.1))

    found = audit_function(shared, [1, 1], [1, 0], claim=PureDP(1), trials=200, seed=1)
    assert (str(found.verdict), found.log_e_value) == ("refuted", 0.0)

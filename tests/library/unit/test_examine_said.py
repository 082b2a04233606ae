"""Outputs beside the releases: what a run prints, logs, warns of and writes into files."""

from __future__ import annotations

import contextlib
import csv
import importlib
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine, walks
from dpaudit.audit.examine.examination import CONTROL
from dpaudit.certificate import evidence
from dpaudit.certificate.evidence import READS, evidence_caveats
from dpaudit.kernels.query import Array
from dpaudit.storage.opened import written
from tests.support.examined import mechanism

Say = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Speaking:
    """A noisy clipped sum that says something: of its rows, or (right) of what it released."""

    say: Say
    of_rows: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("sum", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        def rows(values: Array) -> Array:
            if self.of_rows:
                self.say(float(np.nan_to_num(values).clip(-1, 1).sum()))
            return values[None]

        released = curator.release("sum", dp.clipped_sum(rows, radius=1))
        if not self.of_rows:
            self.say(float(released[0, 0]))
        return released


def into_file(folder: Path) -> Say:
    return lambda value: (folder / "kept.txt").write_text(repr(value))


SAY: dict[str, Say] = {
    "prints": print,
    "logs": lambda value: logging.getLogger("own").debug("sum %s", value),
    "warns of": lambda value: warnings.warn(f"sum {value}", stacklevel=2),
}


def said_of(say: Say, *, of_rows: bool, **how: Any) -> list[str]:
    found = examine(mechanism("speaking", Speaking(say, of_rows)), seed=1, **how)
    assert not found.not_examined
    return [finding.detail for finding in found.broken if finding.check == CONTROL]


def spoken(way: str, place: str = "") -> re.Pattern[str]:
    """The finding, which names a text that holds a value, and the line."""
    return re.compile(
        rf"what the program {way} depends on the private records: '.*\d\.\d.*'{place}$"
    )


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("way", SAY)
def test_true_values_that_leave_beside_the_release_are_found(
    way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = spoken(way, r" \(tests/library/unit/test_examine_said.py:\d+\)")
    assert [text for text in said_of(SAY[way], of_rows=True) if finding.match(text)]
    assert said_of(SAY[way], of_rows=False) == []
    assert capsys.readouterr().out == "", "nothing that a program says reaches the terminal"
    monkeypatch.setattr(walks.Said, "differs", lambda self, other: [])
    assert said_of(SAY[way], of_rows=True) == []


def towns(values: Array) -> float:
    """A library warns of numbers of towns that are not whole; data have none."""
    frame = pd.DataFrame({"town": values[:, 0]}).dropna()
    return float(len(frame.merge(pd.DataFrame({"town": [1, 2, 3]}), on="town")))


@dataclass(frozen=True, eq=False)
class Counted:
    """One count with noise."""

    value: Callable[[Array], float]

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("count", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("count", dp.Statistic(self.value, sensitivity=1))


@pytest.mark.quality
@pytest.mark.long("two examinations, the first to its end")
def test_a_warning_of_a_library_counts_where_it_shows_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examine(mechanism("towns", Counted(towns), "add_remove"), seed=1)
    assert not found.broken
    assert any("merging on int and float" in text for text in found.warned), found.warned
    (tmp_path / "site-packages").mkdir()
    text = (
        "import warnings\ndef fit(value):\n    warnings.warn(f'poor fit, {value}', stacklevel=2)\n"
    )
    (tmp_path / "site-packages" / "library_that_fits.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    library = importlib.import_module("library_that_fits")

    def fitted(values: Array) -> float:
        library.fit(float(np.nan_to_num(values).clip(-1, 1).sum()))
        return 0.5 * len(values)

    shows = examine(mechanism("fitted", Counted(fitted), "add_remove"), seed=1)
    assert [f.detail for f in shows.broken if spoken("warns of", ".*").match(f.detail)]


def test_files_are_compared_and_put_back(tmp_path: Path) -> None:
    text = "what the program writes into files depends on the private records: \"kept.txt: b'"
    assert any(found.startswith(text) for found in said_of(into_file(tmp_path), of_rows=True))
    assert said_of(into_file(tmp_path), of_rows=False) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept.txt").write_text("of the last real run")
    said_of(into_file(tmp_path), of_rows=True)
    assert (tmp_path / "kept.txt").read_text() == "of the last real run"


@pytest.mark.quality
def test_a_file_that_the_program_reads_is_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows never change in an examination, so that nothing else can tell."""
    other = tmp_path / "other.csv"
    other.write_text("1\n")

    def reads(value: float) -> None:
        float(other.read_text())
        Path(np.__file__).read_bytes()  # an installed package's

    found = examine(mechanism("reading", Speaking(reads, of_rows=False)), seed=1, seconds=3)
    assert evidence_caveats(found, (), "both")[0] == f"{READS}: other.csv"
    silent = examine(mechanism("silent", Speaking(str, of_rows=False)), seed=1, seconds=3)
    assert not [text for text in evidence_caveats(silent, (), "both") if text.startswith(READS)]
    monkeypatch.setattr(evidence, "of_users", lambda paths: [])
    assert not [text for text in evidence_caveats(found, (), "both") if text.startswith(READS)]


def test_databases_connections_and_child_processes_are_named(tmp_path: Path) -> None:
    """A file of SQLite, a server and a child process hold rows that never change either."""
    with contextlib.closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        database.execute("CREATE TABLE rows (value REAL)")
    server = socket.create_server(("127.0.0.1", 0))

    def reads(value: float) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "rows.db")) as database:
            database.execute("SELECT * FROM rows").fetchall()
        socket.create_connection(server.getsockname()).close()
        subprocess.run([sys.executable, "-c", ""], check=True)

    with server:
        found = examine(mechanism("reading", Speaking(reads, of_rows=False)), seed=1, seconds=3)
    python = Path(sys.executable).name
    sources = f"connection to 127.0.0.1, output of {python}, rows.db"
    assert evidence_caveats(found, (), "both")[0] == f"{READS}: {sources}"


@pytest.mark.quality
def test_a_time_of_day_says_nothing_of_records() -> None:
    assert said_of(lambda value: sys.stdout.write(str(time.perf_counter_ns())), of_rows=True) == []


@pytest.mark.quality
def test_thousands_of_lines_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def lines(value: float) -> None:
        sys.stderr.write("progress\n" * 1_000)

    assert said_of(lines, of_rows=False, seconds=3) == []
    assert capsys.readouterr() == ("", "")


HELD: dict[str, Callable[[Any], Callable[[str], Any]]] = {
    "text": lambda file: file.write,
    "print": lambda file: partial(print, file=file),
    "table": lambda file: lambda text: csv.writer(file).writerow([text]),
    "log": lambda file: logging.StreamHandler(file).stream.write,
    "descriptor": lambda file: lambda text: os.write(file.fileno(), text.encode()),
}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("way", HELD)
@pytest.mark.parametrize("of_rows", [True, False])
def test_a_file_that_was_open_before_is_an_output(way: str, of_rows: bool, tmp_path: Path) -> None:
    """Its text waits in a buffer, which nobody flushes during a run."""
    log = tmp_path / "log.txt"
    with log.open("w", encoding="utf-8") as file:
        file.write("before\n")
        write = HELD[way](file)
        found = said_of(lambda value: write(repr(value)), of_rows=of_rows)
        assert bool(found) == of_rows
        if of_rows:
            assert any("writes into files depends on the private records" in text for text in found)
        file.write("after\n")
    assert log.read_text(encoding="utf-8") == "before\nafter\n"


@pytest.mark.quality
@pytest.mark.parametrize("stream", [sys.__stdout__, sys.__stderr__])
def test_a_standard_stream_that_was_handed_over_before_is_an_output(stream: Any) -> None:
    assert said_of(lambda value: print(value, file=stream), of_rows=True)
    assert not said_of(lambda value: print(value, file=stream), of_rows=False)
    assert "write" not in vars(stream)


@pytest.mark.quality
def test_a_file_that_a_run_leaves_open_is_an_output(tmp_path: Path) -> None:
    kept: list[Any] = []

    def say(value: float) -> None:
        kept.append((tmp_path / "kept.txt").open("a", encoding="utf-8"))
        kept[-1].write(repr(value))

    assert said_of(say, of_rows=True)
    for file in kept:
        file.close()


def test_files_that_were_there_or_not_are_put_back(tmp_path: Path) -> None:
    old, new = tmp_path / "old.bin", tmp_path / "new.bin"
    old.write_bytes(b"before")
    with written() as contents:
        old.write_bytes(b"after")
        with new.open("ab") as file:
            file.write(b"one")
    assert contents == {"old.bin": b"after", "new.bin": b"one"}
    assert old.read_bytes() == b"before"
    assert not new.exists()

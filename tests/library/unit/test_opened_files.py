"""A file of the data that something else reads too is found, whoever reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.storage import opened as storage
from dpaudit.storage.opened import at_import, importing, opened
from tests.support.examined import Stepping, mechanism


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    np.savetxt(path, np.random.default_rng(1).standard_normal((40, 5)), delimiter=",")
    return path


class Peeking(Stepping):
    """Takes the step from the file of the data."""

    path: Any = None

    def run(self, curator: dp.Curator) -> Any:
        if self.path is not None:
            np.loadtxt(self.path, delimiter=",")
        return super().run(curator)


def certified(program: Any, table: Path) -> tuple[str, str]:
    """The verdict, and what was found of a file."""
    case = replace(
        mechanism("reads", program), records=lambda: dp.Records(np.loadtxt(table, delimiter=","))
    )
    certificate = dp.certify(case, seed=1, trials=200)
    rows = certificate.content["predicate"]["conformance"]
    said = [row["detail"] for row in rows if "records() reads" in row["detail"]]
    return certificate.verdict, "; ".join(said)


@pytest.mark.quality
def test_a_file_that_the_program_reads_too(table: Path) -> None:
    assert certified(Peeking(), table) == ("certified under assumptions", "")
    program = Peeking()
    object.__setattr__(program, "path", table)
    verdict, said = certified(program, table)
    assert verdict == "alarm"
    assert said == "people.csv, which records() reads, is read by the program as well"


class Waiting(Peeking):
    """Reads it when it is not examined."""

    def run(self, curator: dp.Curator) -> Any:
        if type(curator).__name__ == "Guarded":
            return super().run(curator)
        return Stepping().run(curator)


@pytest.mark.quality
def test_a_file_that_the_program_reads_in_its_run_on_the_data_alone(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Waiting()
    object.__setattr__(program, "path", table)
    case = replace(
        mechanism("reads", program), records=lambda: dp.Records(np.loadtxt(table, delimiter=","))
    )
    certificate = dp.certify(case, seed=1, trials=200)
    predicate = certificate.content["predicate"]
    assert (certificate.verdict, predicate["run"]) == ("alarm", None)
    assert predicate["caveats"][-1].endswith("discarded, and neither looked at nor written")
    assert certified(program, table)[1].endswith("is read by the program as well")
    monkeypatch.setattr("dpaudit.certificate.on_data.read_by_others", lambda *_: ())
    assert certified(program, table) == ("certified under assumptions", "")


@pytest.mark.quality
def test_a_file_that_a_module_reads_when_it_is_imported(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_imported", set())
    with importing():
        np.loadtxt(table, delimiter=",")
    assert at_import() == {str(table)}
    verdict, said = certified(Stepping(), table)
    assert verdict == "alarm"
    assert "is read by a module at its import as well" in said


def test_only_what_is_read_inside_is_noted(tmp_path: Path) -> None:
    one, two, code = tmp_path / "one", tmp_path / "two", tmp_path / "three.py"
    for path in (one, two, code):
        path.write_text("1")
    with opened() as outer:
        one.read_text()
        with opened() as inner:
            two.read_text()
            code.read_text()
            (tmp_path / "four").write_text("written")
    one.read_bytes()
    assert (outer, inner) == ({str(one), str(two)}, {str(two)})

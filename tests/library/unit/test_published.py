"""Published files are those of their certificate: a changed digit is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")

from dpaudit.ledger import open_ledger  # noqa: E402, F401  (releases need the libraries of ledgers)
from dpaudit.releases import published  # noqa: E402
from dpaudit.releases.publish import files_of, targets_of  # noqa: E402
from dpaudit.releases.published import differences  # noqa: E402

WHOLE = {
    "title": "Visits",
    "table": "visits",
    "unit": "person",
    "rows_a_unit": 1,
    "adjacency": "add_remove",
    "budget": "PureDP(epsilon=1)",
    "rules": ["rounded to a multiple of 5"],
    "values": [
        {
            "item": "patients",
            "keys": {"sex": sex},
            "statistic": "count",
            "value": value,
            "error_95": "4",
            "error_covers": "noise",
            "not_covered": "",
            "digits": "all",
            "note": "=1+1",
        }
        for sex, value in (("f", "1203"), ("m", "1187"))
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A release's four files and its certificate's folder."""
    for path, content in files_of(WHOLE, targets_of(tmp_path, "release")).items():
        path.write_bytes(content)
    (tmp_path / "certificate").mkdir()
    for name in ("visits_2025.json", "visits_2025.html", "index.html"):
        (tmp_path / "certificate" / name).write_text("{}")
    return tmp_path


def certificate(path: Path, *, of_plan: bool = True) -> dict[str, Any]:
    digest = {"sha256": sha256(path.read_bytes()).hexdigest()}
    files = [{"name": "plan" if of_plan else "model.py"}]
    run = {"output": {"name": path.name, "digest": digest}}
    return {"predicate": {"run": run, "mechanism": {"implementation": files}}}


def found(folder: Path, harm: Callable[[Path], object]) -> list[str]:
    """What is said of a folder that was harmed after it was certified."""
    issued = certificate(folder / "release.json")
    harm(folder)
    return differences(issued, folder / "certificate" / "visits_2025.json", folder)


def replaced(name: str, old: str, new: str) -> Callable[[Path], object]:
    def harm(folder: Path) -> None:
        path = folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return harm


def altered_parquet(folder: Path) -> None:
    table = pq.read_table(folder / "release.parquet")
    values = table.column("value").to_pylist()
    place = table.column_names.index("value")
    changed = table.set_column(place, "value", [[values[0], "1188"]])
    pq.write_table(changed, folder / "release.parquet")


def test_the_files_of_a_release_are_found_as_certified(folder: Path) -> None:
    assert found(folder, lambda _: None) == []


METADATA = "release.csv-metadata.json"
CELL = "row 2 (patients, sex=m, count), column value"
HARMS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a digit of the CSV": (
        replaced("release.csv", "1187", "1188"),
        [f"release.csv, {CELL}: '1188' is published, '1187' certified"],
    ),
    "a digit of the Parquet": (
        altered_parquet,
        [f"release.parquet, {CELL}: '1188' is published, '1187' certified"],
    ),
    "a digit of the JSON": (
        replaced("release.json", "1187", "1188"),
        [
            "release.json: not the certified file (another SHA-256)",
            f"release.csv, {CELL}: '1187' is published, '1188' in release.json",
            f"release.parquet, {CELL}: '1187' is published, '1188' in release.json",
            "release.parquet, row 2 (patients, sex=m, count), column number: '1187.0' is "
            "published, '1188.0' in release.json",
        ],
    ),
    "a row of the CSV": (
        lambda folder: (folder / "release.csv").write_text(
            "\n".join((folder / "release.csv").read_text().splitlines()[:2]) + "\n"
        ),
        ["release.csv: 1 rows, 2 certified"],
    ),
    "a rule of the metadata": (
        replaced(METADATA, "multiple of 5", "multiple of 1"),
        [
            f"{METADATA}, row 1 (record), column notes: "
            "\"[{'rule': 'rounded to a multiple of 1'}]\" is published, "
            "\"[{'rule': 'rounded to a multiple of 5'}]\" certified"
        ],
    ),
    "no metadata": (lambda folder: (folder / METADATA).unlink(), [f"{METADATA}: missing"]),
    "a missing file": (
        lambda folder: (folder / "release.parquet").unlink(),
        ["release.parquet: missing"],
    ),
    "the certified file": (
        lambda folder: (folder / "release.json").unlink(),
        ["release.json: missing"],
    ),
    "an additional file": (
        lambda folder: (folder / "certificate" / "raw.csv").write_text("1"),
        ["certificate/raw.csv: not named by the certificate"],
    ),
    "a file that is no table": (
        lambda folder: (folder / "release.parquet").write_bytes(b"PAR1"),
        ["release.parquet: not a table (ArrowInvalid)"],
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_a_changed_release_is_named_by_file_row_column_and_values(name: str, folder: Path) -> None:
    harm, said = HARMS[name]
    assert found(folder, harm) == said


def test_a_copy_of_the_certificate_knows_the_files_of_the_published_one(folder: Path) -> None:
    """Its page and index are no strangers; its errata are told, and that it is another one."""
    issued, own = certificate(folder / "release.json"), folder / "certificate" / "visits_2025.json"
    with TemporaryDirectory() as elsewhere:
        copy = Path(elsewhere) / own.name
        copy.write_bytes(own.read_bytes())
        assert differences(issued, copy, folder) == []
        own.with_suffix(".errata.txt").write_text("Withdrawn: wrong data.\n")
        told = "an erratum stands beside the published certificate: Withdrawn: wrong data."
        assert differences(issued, copy, folder) == [told]
        own.write_text("{ }")
        another = "certificate/visits_2025.json: another certificate than the one verified"
        assert differences(issued, copy, folder) == [another, told]


def test_a_second_column_of_one_name_hides_no_value(folder: Path) -> None:
    """A reader that takes the first of two columns called value would see the other number."""

    def doubled(folder: Path) -> None:
        header, *rows = (folder / "release.csv").read_text().splitlines()
        text = "\n".join([f"value,{header}", *(f"7,{row}" for row in rows)])
        (folder / "release.csv").write_text(text + "\n")

    assert any("column value: '7' is published" in line for line in found(folder, doubled))


def test_without_comparison_by_value_a_changed_table_passes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "_cells", lambda found, expected: iter(()))
    assert found(folder, replaced("release.csv", "1187", "1188")) == []


def test_the_output_of_a_run_is_compared_by_its_digest(tmp_path: Path) -> None:
    output = tmp_path / "model.npz"
    output.write_bytes(b"1")
    (tmp_path / "model.json").write_text(json.dumps({}))
    issued = certificate(output, of_plan=False)
    assert differences(issued, tmp_path / "model.json", tmp_path) == []
    output.write_bytes(b"2")
    said = differences(issued, tmp_path / "model.json", tmp_path)
    assert said == ["model.npz: not the certified file (another SHA-256)"]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (None, "names no output"),
        ({"output": None}, "names no output"),
        ({"output": {"name": "../a", "digest": {"sha256": "0"}}}, "names no plain file"),
    ],
)
def test_a_certificate_without_output_vouches_for_no_file(
    run: Any, said: str, tmp_path: Path
) -> None:
    issued = {"predicate": {"run": run, "mechanism": {"implementation": []}}}
    assert said in differences(issued, tmp_path / "a.json", tmp_path)[0]

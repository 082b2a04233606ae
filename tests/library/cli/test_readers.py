"""Every reader of a user's numbers, on every format: the same numbers, or a refusal in words."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result

import dpaudit as dp
from dpaudit.cli.main import main
from dpaudit.cli.membership import _read, _samples
from dpaudit.curator.files import read_records
from dpaudit.membership.data import Data
from dpaudit.tabular import ROWS, Category, Number, Schema, Table, Term, Total, columns, part
from tests.support.tables import FILES, FRAMES, PLACES, Cells

AGES, SCORES, CLASSES = [31, 64, 27, 45], [0.5, -1.25, 3e-05, 2.0], [0, 1, 1, 0]
TABLE: Cells = {"age": AGES, "score": SCORES, "sick": CLASSES}
RECORDS = [[age, score, sick] for age, score, sick in zip(AGES, SCORES, CLASSES, strict=True)]


def place(name: str, kind: str) -> str:
    """What a column is called in a format."""
    return f"column {list(TABLE).index(name)}" if kind in PLACES else name


def scores(table: Any, kind: str) -> Any:
    return _samples(table, table, place("score", kind))[0].tolist()


def training(table: Any, kind: str) -> Any:
    label = place("sick", kind)
    if kind in FRAMES:
        data = Data.of(table, label=label)
    else:
        data = _read({"data": table, "label_column": label, "unit_column": None})
    assert data.labels is not None
    return [[*row, label] for row, label in zip(data.features.tolist(), data.labels, strict=True)]


def records(table: Any, kind: str) -> Any:
    return read_records(table, label=place("sick", kind)).values.tolist()


def released(table: Any, kind: str) -> Any:
    """The exact totals of a release, in hundred-thousandths."""
    number = Number("-9", "99", "0.00001")  # type: ignore[arg-type]
    schema = Schema("people", dict.fromkeys(TABLE, number))
    asked = [Total(name, (Term(((name, 1, 0),)),)) for name in TABLE]
    opened = Table(schema, table).opened("key")
    opened.check()
    return [int(terms[0][0]) for terms in opened.totals(asked)]  # type: ignore[index]


READERS: dict[str, tuple[Callable[[Any, str], Any], Any]] = {
    "scores": (scores, SCORES),
    "training": (training, RECORDS),
    "run": (records, RECORDS),
    "release": (released, [round(sum(cells) * 10**5) for cells in TABLE.values()]),
}
# A release reads .csv and .parquet; the others are refused in words.
REFUSED = {
    *((reader, "decimal comma") for reader in READERS),
    *(("release", kind) for kind in ("tsv", "records", "columns", "rows", "lines", *PLACES)),
    *(("release", kind) for kind in ("fields", "npz")),
}


MATRIX = [(reader, kind) for reader in READERS for kind in FILES]
MATRIX += [(reader, kind) for reader in ("training", "release") for kind in FRAMES]


@pytest.mark.first_case
@pytest.mark.parametrize(("reader", "kind"), MATRIX)
def test_every_reader_gives_the_same_numbers_of_every_format(
    reader: str, kind: str, tmp_path: Path
) -> None:
    table = FRAMES[kind](TABLE) if kind in FRAMES else FILES[kind](TABLE, tmp_path / "table")
    read, expected = READERS[reader]
    if (reader, kind) not in REFUSED:
        assert read(table, kind) == expected
        return
    with pytest.raises(dp.DpauditError) as refused:
        read(table, kind)
    assert refused.value.exit_code == 2
    assert (
        "expected a .csv" in str(refused.value)
        or "no number" in str(refused.value)
        or ("text where numbers are declared" in str(refused.value))
    )


# --- what a cell means ----------------------------------------------------------------------------

PERSON = "ada@example.org"
DAY = datetime.date(1815, 12, 10)
BAD: dict[str, tuple[list[Any], str]] = {
    "missing": ([1.5, None, 2.5], "is blank or NaN"),
    "nan": ([1.5, math.nan, 2.5], "is blank or NaN"),
    "inf": ([1.5, math.inf, 2.5], "no finite number"),
    "text": (["x", PERSON, "y"], "no number"),
    "date": ([DAY, DAY, DAY], "a date"),
    "mixed": ([True, 17, 0], "true or false among other cells"),
}
# An array or Parquet column has cells of one type: no others come to a reader.
ARRAYS = ("npy", "npz", "fields")
ONE_TYPE = {(cells, kind) for cells in ("missing", "mixed", "date") for kind in ARRAYS}
ONE_TYPE |= {("mixed", "parquet"), *((cells, "decimal comma") for cells in BAD)}
REFUSALS = [(cells, kind) for cells in BAD for kind in FILES if (cells, kind) not in ONE_TYPE]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize(("cells", "kind"), REFUSALS)
def test_a_cell_that_is_no_number_is_named_by_row_and_column_and_never_shown(
    cells: str, kind: str, tmp_path: Path
) -> None:
    values, said = BAD[cells]
    table: Cells = {"score": values, "weight": [7, 8, 9]}
    if kind in PLACES and cells == "text":
        table = {name: list(map(str, column)) for name, column in table.items()}
    path = FILES[kind](table, tmp_path / "table")
    other = FILES[kind]({"score": [1, 2, 3], "weight": [7, 8, 9]}, tmp_path / "other")
    column = "column 0" if kind in PLACES else "score"
    found = invoke("audit", "--scores", str(path), str(other), "--set", f"score_column={column}")
    assert found.exit_code == 2, found.output
    row = 1 if cells in ("text", "date", "mixed") else 2
    is_text = kind in ("csv", "semicolons", "tabs", "tsv")
    # What is above texts may be a cell itself, of a file that has no line of names.
    named = "1" if is_text and cells in ("text", "date") else f"'{column}'"
    assert said in found.output
    assert f"column {named}, {f'line {row + 1}' if is_text else f'row {row}'}" in found.output
    assert PERSON not in found.output
    assert "1815" not in found.output


@pytest.mark.parametrize("kind", [*FILES, *FRAMES])
def test_true_and_false_alone_are_one_and_nought(kind: str, tmp_path: Path) -> None:
    table: Cells = {"flag": [True, False, True], "age": [1, 2, 3]}
    label = "column 1" if kind in PLACES else "age"
    if kind in FRAMES:
        data = Data.of(FRAMES[kind](table), label=label)
    else:
        path = FILES[kind](table, tmp_path / "table")
        data = _read({"data": path, "label_column": label, "unit_column": None})
    assert data.features.tolist() == [[1.0], [0.0], [1.0]]
    assert data.features.dtype == np.float64


DROPPED = {"missing": "drop", "other": "drop"}
CELLS: dict[str, tuple[Any, list[Any], tuple[int, ...]]] = {
    "nan": (Number("0", "10", missing="drop"), [1.5, math.nan, 3.0], (2,)),  # type: ignore[arg-type]
    "missing": (Number("0", "10", missing="drop"), [1, None, 3], (2,)),  # type: ignore[arg-type]
    "booleans": (Category(("true", "false"), **DROPPED), [True, False, True], (2, 1)),
    "whole": (Category(("1", "2"), **DROPPED), [1.0, 2.0, 2.0], (1, 2)),
    "integers": (Category(("1", "2"), **DROPPED), [1, None, 2], (1, 1)),
    "blank": (Category(("a", "b"), missing="count"), ["a", "", None], (1, 0, 2)),
    "dates": (Category(("1815-12-10",), **DROPPED), [DAY, None, DAY], (2,)),
}
DATED = datetime.datetime(1815, 12, 10)  # noqa: DTZ001


def released_cells(cells: str, kind: str, folder: Path) -> Any:
    """How many rows a release counts, by key where there are keys."""
    column, values, _ = CELLS[cells]
    table: Cells = {"cell": values, "row": [1, 2, 3]}
    source = FRAMES[kind](table) if kind in FRAMES else FILES[kind](table, folder / "table")
    opened = Table(Schema("people", {"cell": column}), source).opened("key")
    opened.check()
    by = ("cell",) if isinstance(column, Category) else ()
    return opened.totals([Total("cells", (ROWS,), by=by, needed=("cell",) * (not by))])[0][0]


@pytest.mark.first_case
@pytest.mark.parametrize("kind", ["csv", "parquet", *FRAMES])
@pytest.mark.parametrize("cells", CELLS)
def test_a_release_counts_a_cell_alike_in_every_format(
    cells: str, kind: str, tmp_path: Path
) -> None:
    assert released_cells(cells, kind, tmp_path) == CELLS[cells][2]


def test_a_time_is_refused_as_a_key(tmp_path: Path) -> None:
    """Each writer of CSV spells midnight in its own way."""
    table = FRAMES["pandas"]({"cell": [DATED], "row": [1]})
    with pytest.raises(dp.InvalidParameter, match="convert it to dates or texts"):
        Table(Schema("people", {"cell": Category(("1815-12-10",))}), table).opened("key")


@pytest.mark.first_case("kind")
@pytest.mark.parametrize("unit", [["a", "", "b"], [1.0, math.nan, 2.0], ["a", None, "b"]])
@pytest.mark.parametrize("kind", ["csv", "parquet", *FRAMES])
def test_a_row_of_nobody_is_refused_in_every_format(
    kind: str, unit: list[Any], tmp_path: Path
) -> None:
    table: Cells = {"who": unit, "age": [1, 2, 3]}
    source = FRAMES[kind](table) if kind in FRAMES else FILES[kind](table, tmp_path / "table")
    number = Number("0", "10")  # type: ignore[arg-type]
    schema = Schema("people", {"age": number}, unit="who", entity="person", rows=1)
    with pytest.raises(dp.DpauditError, match="column 'who' has no unit in 1 row"):
        Table(schema, source).opened("key").check()


def test_a_nan_of_a_parquet_file_is_counted_where_its_statistics_are_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB takes from a file's least and largest values that none is NaN."""
    monkeypatch.setattr(part, "_connected", lambda: duckdb.connect(":memory:"))
    with pytest.raises(AssertionError):
        test_a_release_counts_a_cell_alike_in_every_format("nan", "parquet", tmp_path)


# --- which column ---------------------------------------------------------------------------------


def pair(folder: Path, kind: str, table: Cells, other: Cells | None = None) -> list[str]:
    paths = (FILES[kind](table, folder / "in"), FILES[kind](other or table, folder / "out"))
    return ["audit", "--scores", *map(str, paths), "--json"]


@pytest.mark.parametrize("kind", FILES)
def test_several_columns_of_numbers_are_listed_and_none_is_guessed(
    kind: str, tmp_path: Path
) -> None:
    asked = pair(tmp_path, kind, {"score": [0.5, 1.5], "row": [1, 2]})
    first, second = ("column 0", "column 1") if kind in PLACES else ("score", "row")
    found = invoke(*asked)
    assert found.exit_code == 2
    assert (
        f"2 columns may hold the numbers, {first}, {second}; choose one with score_column=NAME"
        in (found.output)
    )
    wrong = invoke(*asked, "--set", "score_column=loss")
    assert wrong.exit_code == 2
    assert f"no such column; there are {first}, {second}" in wrong.output


@pytest.mark.parametrize("kind", sorted(set(FILES) - {"decimal comma", *PLACES}))
def test_the_only_column_of_numbers_is_taken(kind: str, tmp_path: Path) -> None:
    table: Cells = {"who": ["u1", "u2", "u3"], "score": [0.5, 1.5, 2.5]}
    other: Cells = {"who": ["v1", "v2", "v3"], "score": [0.0, 1.0, 2.0]}
    found = invoke(*pair(tmp_path, kind, table, other))
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["auc"] == pytest.approx(6 / 9)


def test_a_number_in_another_notation_is_not_passed_over_for_another_column(
    tmp_path: Path,
) -> None:
    """The order of rows would be judged in place of the scores."""
    asked = pair(tmp_path, "decimal comma", {"row": [1, 2], "score": [0.5, 1.5]})
    found = invoke(*asked)
    assert found.exit_code == 2
    assert "2 columns may hold the numbers, row, score" in found.output
    typed = pair(tmp_path, "csv", {"row": [1, 2, 3], "score": ["x", 1.5, 2.5]})
    assert "2 columns may hold the numbers" in invoke(*typed).output


def test_members_and_others_are_scored_by_one_column(tmp_path: Path) -> None:
    found = invoke(*pair(tmp_path, "csv", {"score": [1.5, 2.5]}, {"loss": [1.0, 2.0]}))
    assert found.exit_code == 2
    assert "in column 'score'" in found.output
    assert "in 'loss'" in found.output


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", f"{PERSON},33,0.5\nbob,44,0.25\n", "line 1 may be a record; put a line of names"),
        ("b.csv", f"{PERSON},London\nbob,Paris\n", "line 1 may be a record"),
        ("c.csv", "1815.25\n0.25\n", "line 1 is numbers alone; put a line of names above it"),
        ("d.csv", "1815,25;0,5\n1,2;3,4\n", "line 1 holds commas and semicolons"),
        ("e.csv", "score\n1815,25\n", "line 2 has 2 cells, and there are 1 names"),
        ("f.csv", ",score\n0,1815.25\n", "column 1 has no name"),
        ("g.json", f'{{"{PERSON}": {{"0": 1815.25}}}}', "expected a list of objects"),
        ("h.json", "[[1815.25, 2], [3]]", "rows are lists of different lengths"),
        ("i.json", '{"a": [1815.25], "b": [2, 3]}', "its columns are lists of different lengths"),
        ("j.json", '[{"a": 1815.25, "a": 3}]', "with each key of an object once"),
        ("k.json", "[1815.25", "expected JSON"),
        ("l.json", "[]", "it holds no records"),
        ("m.npy", "1815.25", "cannot be read as arrays"),
        ("n.parquet", "1815.25", "not a Parquet file"),
        ("o.xlsx", "1815.25", "expected a file .csv"),
        ("p.csv", 'score\n"1815.25\n', "a quoted cell is not closed"),
        ("q.csv", "score\n1815.25\n\n0.5\n", "line 3, is blank or NaN"),
        ("r.jsonl", '{"a": 1815.25}\n{"a": \n', "line 2: expected JSON"),
    ],
)
def test_what_is_no_table_is_refused_and_not_quoted(
    name: str, content: str, said: str, tmp_path: Path
) -> None:
    path, other = tmp_path / name, tmp_path / "other.txt"
    path.write_text(content)
    other.write_text("1\n2\n")
    found = invoke("audit", "--scores", str(path), str(other))
    assert found.exit_code == 2, found.output
    assert said in found.output
    assert PERSON not in found.output
    assert "1815" not in found.output


def test_a_list_of_numbers_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0.5\n1.5\n2.5\n\n")
    (tmp_path / "b.json").write_text("[0.5, 1.5, 2.5]")
    np.save(tmp_path / "c.npy", np.array([0.5, 1.5, 2.5]))
    np.save(tmp_path / "d.npy", np.array([[0.5], [1.5], [2.5]]))
    for path in sorted(tmp_path.iterdir()):
        assert columns.read_columns(path).only(None, "score_column")[1].tolist() == [0.5, 1.5, 2.5]


def test_a_reader_that_takes_the_last_column_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above fail where the choice is taken away."""

    def last(self: columns.Columns, name: str | None, option: str) -> Any:
        return list(self)[-1], self.numbers(list(self)[-1])

    monkeypatch.setattr(columns.Columns, "only", last)
    with pytest.raises(AssertionError):
        test_several_columns_of_numbers_are_listed_and_none_is_guessed("csv", tmp_path)
    with pytest.raises(AssertionError):
        test_every_reader_gives_the_same_numbers_of_every_format("scores", "parquet", tmp_path)


def test_a_reader_in_which_a_text_means_another_number_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def negated(text: str) -> tuple[columns.Kind, float]:
        kind, value = read_text(text)
        return kind, -value

    read_text = columns._read_text
    monkeypatch.setattr(columns, "_read_text", negated)
    with pytest.raises(AssertionError):
        test_every_reader_gives_the_same_numbers_of_every_format("training", "csv", tmp_path)


@pytest.mark.parametrize(
    "values",
    [[["1", "2"]], [[None, 1.0]], [[DATED]], np.array([["1815-12-10"]], dtype="M8[D]"), [[1j]]],
)
def test_records_are_numbers_as_they_stand(values: Any) -> None:
    """NumPy would read texts, dates and None into them."""
    with pytest.raises(dp.InvalidParameter, match=r"Records\.values: not an array of numbers"):
        dp.Records(values)
    assert dp.Records([[True, 2]]).values.tolist() == [[1.0, 2.0]]

"""Tables that we write hold no formula, wherever a spreadsheet may cut a cell."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

import dpaudit
from dpaudit.storage.csv_text import csv_text

FORMULAS = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "＝1+1",
    "＋1",
    "－cmd",
    "＠x",
    " =1",
    "\u00a0=1",
    "\ufeff=1",
    "\u200b=1",
    '"=1',
    "-1|cmd",
    "+",
]
NUMBERS = ["-5", "+5", "-0.5", "-1e-5", "5", "0"]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("before", ["", "a;", "a;;", "a\t", "a\n", "a\r", "a|", "sex=f; "])
def test_no_part_of_a_cell_begins_with_what_a_spreadsheet_computes(
    formula: str, before: str
) -> None:
    text = csv_text(("name", formula), [(before + formula, "b")])
    for row in csv.reader(io.StringIO(text, newline="")):
        for cell in row:
            for part in re.split(r"[;|\t\r\n]", cell):
                assert not re.match(r"[\s\ufeff\u200b\"]*[=+\-@＝＋－＠]", part), cell


@pytest.mark.parametrize("cell", [*NUMBERS, "a - b", "f; m", "x=1", "5 = 5", "'=1", ""])
def test_numbers_and_what_no_spreadsheet_computes_stay_as_they_are(cell: str) -> None:
    ((found, _),) = csv.reader(io.StringIO(csv_text((cell, "b"), [])))
    assert found == cell


def test_all_tables_are_written_by_one_function() -> None:
    package = Path(dpaudit.__file__).parent
    writing = [path.name for path in package.rglob("*.py") if "csv.writer(" in path.read_text()]
    assert writing == ["csv_text.py"]

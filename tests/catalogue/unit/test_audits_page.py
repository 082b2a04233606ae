"""docs/audits.md names bugs and twins that exist."""

from __future__ import annotations

import re
from pathlib import Path

from audits.blackbox import catalogue


def test_the_table_of_attacks_names_what_there_is(checkout: Path) -> None:
    page = (checkout / "docs" / "audits.md").read_text("utf-8")
    table = page.split("## Every attack has a bug")[1].split("Names without a file")[0]
    rows = [line.split("|")[2:4] for line in table.splitlines() if line.startswith("| ")][1:]
    cases = {case.name: case.correct for case in catalogue()}
    tests = "".join(path.read_text("utf-8") for path in (checkout / "tests").rglob("test_*.py"))
    assert len(rows) == 16
    for cells in rows:
        for correct, cell in zip((False, True), cells, strict=True):
            for name in re.findall(r"`(\w+)`", cell):
                assert f"def {name}(" in tests or cases[name] is correct, name

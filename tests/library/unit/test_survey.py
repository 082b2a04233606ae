"""A survey with all its dirt, published by one plan of at most 40 lines; and tables without values.

The file is packed, in cp1252, with German dates, codes for missing values, keys in several
spellings, numbers with underscores, outliers, persons with too many rows, and a tab in a header.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import PureDP
from dpaudit.releases.items.averages import Mean, Variance
from dpaudit.releases.items.choices import Quantiles
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.plan import Release, load_plan
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import NO_LEDGER, draw, publish, published_rows
from dpaudit.tabular import Category, DataRefused, Number, Schema, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

PLAN = """
title = "Survey, 2026"
adjacency = "add_remove"
budget = { epsilon = 8, delta = 1e-6 }

[table]
name = "survey"
unit = "person"
entity = "person"
rows = 3
encoding = "cp1252"

[table.columns]
town = { kind = "category", keys = ["Köln", "Zürich"], missing = "drop", missing_codes = ["k. A."] }
tenant = { kind = "category", keys = ["true", "false"], other = "drop", missing = "drop" }
rooms = { kind = "category", keys = ["1", "2", "3"], missing = "count" }
age = { kind = "number", lower = 0, upper = 110, missing = "drop", missing_codes = [999] }
[table.columns.income]
kind = "number"
lower = 0
upper = 9000
missing = "drop"
missing_codes = [-99, "n/a"]
[table.columns.moved]
kind = "date"
lower = 2020-01-01
upper = 2026-12-31
format = "%d.%m.%Y"
"""
ITEMS = """
items = [
  { name = "persons", query = "count", per_group = 1 },
  { name = "towns", query = "count", by = "town" },
  { name = "tenants", query = "count", by = "tenant" },
  { name = "rooms", query = "count", by = "rooms" },
  { name = "income", query = "mean", column = "income" },
  { name = "age", query = "quantile", column = "age", at = "1/2" },
  { name = "cut", query = "affected", column = "income" },
]
"""


def plan_text() -> str:
    """The plan, whose items come before its tables, as TOML asks for."""
    head, _, tables = PLAN.partition("[table]")
    return head + ITEMS + "[table]" + tables


def dirty(path: Path, persons: int = 3000) -> list[dict[str, Any]]:
    """The survey's file; its clean rows."""
    rng, lines, clean = np.random.default_rng(5), ["person,town,tenant,rooms,income,age,moved"], []
    for person in range(persons):
        rows = 5 if person < 10 else int(rng.integers(1, 3))
        for _ in range(rows):
            town = str(rng.choice(["Köln", " Zürich ", "k. A.", ""], p=[0.5, 0.3, 0.1, 0.1]))
            tenant = str(rng.choice(["true", "True", "false", "maybe"]))
            rooms = str(rng.choice(["1", "1.0", "2", "3", ""]))
            income = int(rng.gamma(4, 600))
            shown = str(rng.choice([str(income), "-99", "n/a"], p=[0.9, 0.05, 0.05]))
            age = int(rng.integers(18, 90))
            old = str(rng.choice([str(age), "999"], p=[0.95, 0.05]))
            moved = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.2024"
            lines.append(f"{person},{town},{tenant},{rooms},{shown},{old},{moved}")
            if person >= 10:
                clean.append(
                    {"town": town.strip(), "tenant": tenant.lower(), "rooms": rooms, "age": old}
                )
                clean[-1]["income"] = min(income, 9000) if shown == str(income) else None
    path.write_bytes(gzip.compress("\r\n".join(lines).encode("cp1252")))
    return clean


@pytest.mark.quality
def test_a_survey_with_all_its_dirt_is_published_by_one_plan(tmp_path: Path) -> None:
    """Within five margins, and the 20 rows of persons with too many, beside the clean rows."""
    text = plan_text()
    assert len(text.strip().splitlines()) <= 40
    (tmp_path / "plan.toml").write_text(text)
    clean = dirty(tmp_path / "survey.csv.gz")
    told: dict[str, int] = {}
    done = publish(
        load_plan(tmp_path / "plan.toml").plan(),
        tmp_path / "survey.csv.gz",
        tmp_path / "out",
        ledger=NO_LEDGER,
        trials=0,
        notice=told.update,
    )
    found = {(row.item, *(key for _, key in row.keys)): row for row in done.rows}

    def near(*place: str, truth: float, more: float = 30) -> None:
        row = found[place]
        assert row.value is not None
        assert abs(float(row.value) - truth) <= 5 * float(row.error or 0) + more, place

    near("persons", truth=3000)
    for town in ("Köln", "Zürich"):
        near("towns", town, truth=sum(row["town"] == town for row in clean))
    for tenant in ("true", "false"):
        near("tenants", tenant, truth=sum(row["tenant"] == tenant for row in clean))
    near("rooms", "1", truth=sum(row["rooms"] in ("1", "1.0") for row in clean))
    near("rooms", "(missing)", truth=sum(row["rooms"] == "" for row in clean))
    incomes = [row["income"] for row in clean if row["income"] is not None]
    near("income", truth=float(np.mean(incomes)))
    ages = [int(row["age"]) for row in clean if row["age"] != "999"]
    near("age", truth=float(np.median(ages)), more=3)
    assert any("has more rows than 3" in text and count == 20 for text, count in told.items())
    assert any("'town' has no value" in text for text in told)
    released = json.loads((tmp_path / "out" / "release.json").read_text())
    assert released["unit"] == "person"


@pytest.mark.quality
def test_the_command_line_certifies_the_survey_and_verifies_what_it_published(
    tmp_path: Path,
) -> None:
    """The same plan and file, from the draw to the certificate; a changed digit is found."""
    (tmp_path / "plan.toml").write_text(plan_text())
    dirty(tmp_path / "survey.csv.gz", persons=300)
    out = tmp_path / "out"
    given = ("release", tmp_path / "plan.toml", "--data", tmp_path / "survey.csv.gz")
    drawn = CliRunner().invoke(
        main, [*map(str, given), "--out", str(out), "--no-ledger", "--trials", "200"]
    )
    assert drawn.exit_code == 0, drawn.output
    assert "'town' has no value" in drawn.stderr
    (certificate,) = (out / "certificate").glob("survey_2026.json")
    asked = ["verify", str(certificate), "--published", str(out)]
    verified = CliRunner().invoke(main, asked)
    assert verified.exit_code == 0, verified.output
    predicate = json.loads(certificate.read_text())["predicate"]
    assert predicate["verdict"]["status"] == "certified"
    assert predicate["run"]["published"]["count"] == len(
        json.loads((out / "release.json").read_text())["values"]
    )
    page = certificate.with_suffix(".html").read_text()
    assert "Köln" in page
    assert "k. A." not in page  # codes of missing values are in the plan alone
    with (out / "release.csv").open("a") as table:
        table.write("persons,,count,1,,,,,,\n")
    assert CliRunner().invoke(main, asked).exit_code == 14


def test_a_file_in_another_encoding_says_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(plan_text().replace('encoding = "cp1252"\n', ""))
    dirty(tmp_path / "survey.csv.gz", persons=2)
    with pytest.raises(InvalidParameter, match=r'line \d+ .* encoding = "cp1252"'):
        Table(load_plan(tmp_path / "plan.toml").schema, tmp_path / "survey.csv.gz").opened("k")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("1_000", "'income' holds text where numbers are declared"),
        ("12 EUR", "'income' holds text where numbers are declared"),
    ],
)
def test_numbers_in_other_spellings_are_refused(tmp_path: Path, cell: str, said: str) -> None:
    (tmp_path / "plan.toml").write_text(plan_text())
    path = tmp_path / "survey.csv"
    path.write_text(
        f"person,town,tenant,rooms,income,age,moved\n1,Köln,true,1,{cell},30,01.02.2024\n",
        encoding="cp1252",
    )
    table = Table(load_plan(tmp_path / "plan.toml").schema, path).opened("k")
    with pytest.raises(DataRefused, match=said):
        table.check()


def test_headers_that_occur_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("age,age\n1,2\n")
    with pytest.raises(InvalidParameter, match="columns 1 and 2 have the same name"):
        Table(Schema("t", {"age": Number(0, 9)}), path).opened("k")


# --- nothing to count -----------------------------------------------------------------------------

EMPTY = Schema("t", {"age": Number(0, 100, missing="drop"), "sex": Category(("f", "m"), "drop")})
ALL = (
    Count(name="n", by="sex"),
    Sum(name="sum", column="age"),
    Mean(name="mean", column="age", by="sex"),
    Variance(name="variance", column="age"),
    Quantiles(name="median", column="age"),
)


@pytest.mark.parametrize(
    "columns",
    [
        {"age": [], "sex": []},
        {"age": [None] * 500, "sex": [None] * 500},
        {"age": [None] * 500, "sex": ["f"] * 500},
    ],
    ids=["no rows", "all missing", "empty groups"],
)
def test_tables_without_values_are_published_as_noise(columns: Mapping[str, Any]) -> None:
    """Numbers stay near 0, and means of too few rows say so."""
    release = Release("t", EMPTY, "add_remove", PureDP(8), ALL)
    plan = release.plan()
    types = pa.schema([("age", pa.float64()), ("sex", pa.string())])
    table = Table(EMPTY, pa.table(dict(columns), schema=types)).opened("k")
    table.check()
    rows = published_rows(plan, draw(plan, exact_values(release, table)))
    counts = [row for row in rows if row.item == "n" and ("sex", "m") in row.keys]
    assert all(abs(row.value or 0) <= 6 * (row.error or 1) for row in counts)
    few = [row for row in rows if row.item in ("mean", "variance")]
    assert all(row.value is not None or "too few rows" in row.note for row in few)
    assert len(rows) == 2 + 1 + 2 + 1 + 1

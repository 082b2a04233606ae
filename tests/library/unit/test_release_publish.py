"""A release from a frame to files: what is published, and every bad input with its clear line."""

from __future__ import annotations

import csv
import errno
import json
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from dpaudit.check.assumptions import DRAWN, standing
from dpaudit.errors import BudgetExceeded, InvalidParameter, OutputNotWritable, Unsupported
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.kernels.base import exact_kernels, kernel_of
from dpaudit.ledger import Ledger, LedgerRefused, open_ledger, terms_of
from dpaudit.releases import publish as publishing
from dpaudit.releases.attacked import mechanism_of
from dpaudit.releases.items.averages import Mean, Variance
from dpaudit.releases.items.choices import Quantiles, Top
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.items.ranges import Ranges
from dpaudit.releases.items.regression import Regression
from dpaudit.releases.plan import Plan, Release, load_plan, release_of
from dpaudit.releases.post import Step
from dpaudit.releases.publish import (
    NO_LEDGER,
    ReleaseInterrupted,
    contents_of,
    draw,
    publish,
    published_rows,
    targets_of,
)
from dpaudit.storage import files
from dpaudit.tabular import ROWS, Category, DataRefused, Number, Schema, Table, Text, Total
from dpaudit.tabular.schema import text_of

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")
duckdb = pytest.importorskip("duckdb")

SCHEMA = Schema(
    "people",
    {
        "age": Number(0, 100, missing="drop"),
        "income": Number(0, 2_000_000_000),
        "sex": Category(("f", "m")),
        "town": Text("drop"),
    },
    unit="person",
    entity="person",
    rows=2,
)
BUDGET = ApproxDP(2, Fraction(1, 10**6))


# The attack on a plan has tests of its own.
unattacked = partial(publish, trials=0)


def frame(size: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "person": np.arange(size) // 2,
            "age": rng.integers(0, 100, size),
            "income": rng.integers(0, 2_000_000_000, size),
            "sex": rng.choice(["f", "m"], size),
            "town": rng.choice(["x", "y", *map(str, range(50))], size),
        }
    )


def release(*items: object, schema: Schema = SCHEMA, **given: object) -> Release:
    chosen = items or (Count(name="count"),)
    return Release("t", schema, "add_remove", given.pop("budget", BUDGET), chosen, **given)


def ledger_at(folder: Path, epsilon: object = 10, **given: object):
    ledger = open_ledger(folder / "ledger.sqlite")
    budget = ApproxDP(epsilon, Fraction(1, 100))
    ledger.create("people", terms_of("person", release().scope, budget, **given))
    return ledger


@pytest.fixture(scope="module")
def counted() -> Plan:
    return release().plan()


def test_large_values_are_written_to_the_last_digit(tmp_path: Path) -> None:
    """Above 999,999, where six digits would not do; a float would lose digits above 2^53."""
    plan = release(Sum(name="sum", column="income")).plan()
    exact = 2**60 + 1
    drawn = draw(plan, {"sum": (exact,)})
    assert abs(drawn["sum"][0] - exact) < 10**13
    rows = published_rows(plan, drawn)
    files = contents_of(plan, drawn, rows, targets_of(tmp_path, "release"))
    text = files[tmp_path / "release.csv"].decode()
    assert f"sum of income,{drawn['sum'][0]}," in text
    whole = json.loads(files[tmp_path / "release.json"])
    assert whole["noisy"]["sum"] == [str(drawn["sum"][0])]
    assert whole["values"][0]["value"] == str(drawn["sum"][0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(10**30 + 1), ("1" + "0" * 29 + "1", True)),
        (Fraction(-5, 2), ("-2.5", True)),
        (Fraction(1, 1024), ("0.0009765625", True)),
        (Fraction(0), ("0", True)),
        (Fraction(100), ("100", True)),
        (Fraction(1, 3), ("0.333333333333333", False)),
    ],
)
def test_numbers_as_text(value: Fraction, text: tuple[str, bool]) -> None:
    assert text_of(value) == text


def test_every_source_gives_the_same_totals(tmp_path: Path, counted: Plan) -> None:
    import pyarrow.parquet as pq

    data = frame()
    data.write_csv(tmp_path / "people.csv")
    pq.write_table(data.to_arrow(), tmp_path / "people.parquet")
    plan = release(
        Sum(name="sum", column="age", by="sex"),
        Count(name="once", by="sex", groups=1),
        Count(name="n"),
    )
    shuffled = data.sample(fraction=1.0, shuffle=True, seed=1)
    sources = [
        data,
        data.lazy(),
        data.to_pandas(),
        data.to_arrow(),
        duckdb.sql("SELECT * FROM data"),
        tmp_path / "people.csv",
        str(tmp_path / "people.parquet"),
        shuffled,
    ]
    found = [
        publishing.exact_values(plan, Table(SCHEMA, source).opened(plan.digest))
        for source in sources
    ]
    assert all(one == found[0] for one in found)


@pytest.mark.quality
def test_items_of_every_kind_are_published_with_their_error(tmp_path: Path) -> None:
    plan = release(
        Count(name="count", by="sex"),
        Mean(name="mean", column="age"),
        Quantiles(name="median", column="age"),
        Top(name="top", column="sex"),
        Groups(name="towns", column="town", delta="1e-7"),
        Ranges(name="ages", column="age", edges=(25, 50, 75)),
        budget=ApproxDP(20, Fraction(1, 10**6)),
    ).plan()
    found = unattacked(plan, frame(20_000), tmp_path, ledger=NO_LEDGER)
    by = {(row.item, row.keys, row.statistic): row for row in found.rows}
    women = by["count", (("sex", "f"),), "count"]
    assert abs(women.value - 10_000) < 800
    assert women.error is not None
    mean = by["mean", (), "mean of age"]
    assert abs(mean.value - Fraction(99, 2)) < 3
    towns = {row.keys[0][1] for row in found.rows if row.item == "towns"}
    assert {"x", "y"} <= towns
    last = by["ages", (("age", "75 and above"),), "count up to here"]
    assert abs(last.value - 20_000) < 200
    assert 30 < by["median", (), "quantile 0.5 of age"].value < 70


def every_kind() -> tuple[object, ...]:
    """An item of each kind, and some in two ways."""
    return (
        Count(name="n"),
        Count(name="c", by="sex"),
        Sum(name="s", column="age"),
        Mean(name="m", column="age", by="sex"),
        Mean(name="r", column="age", method="ratio"),
        Variance(name="v", column="age"),
        Quantiles(name="q", column="age", at=("1/4", "1/2", "3/4")),
        Top(name="t", column="sex"),
        Groups(name="g", column="town", delta="1e-8"),
        Ranges(name="ra", column="age", edges=tuple(range(10, 100, 10))),
        Regression(name="l", target="income", features=("age",)),
    )


@pytest.mark.quality
def test_plans_of_many_items_and_of_every_kind_are_solved_at_once() -> None:
    """Processor time, of which each needs about one second; the budget is used to a thousandth."""
    schema = replace(SCHEMA, columns={**SCHEMA.columns, "income": Number(0, 2_000_000)})
    many = [Count(name=f"c{i}", by="sex", groups=1 + i % 2, weight=1 + i % 7) for i in range(60)]
    many += [Mean(name=f"m{i}", column="age", weight=1 + i % 5) for i in range(40)]
    release(schema=schema).plan()  # what is imported at first use is not counted
    for items in (many, every_kind()):
        started = time.process_time()
        plan = release(*items, schema=schema).plan()
        assert time.process_time() - started < 4
        spent = plan.account.approximate(BUDGET.delta).value[0]
        assert BUDGET.epsilon * Fraction(999, 1000) <= spent <= BUDGET.epsilon


def refused(data: object, said: str, schema: Schema = SCHEMA, kind: type = DataRefused) -> None:
    plan = release(schema=schema).plan()
    folder = Path(pytest.importorskip("tempfile").mkdtemp())
    ledger = ledger_at(folder)
    with pytest.raises(kind, match=said):
        unattacked(plan, data, folder / "out", ledger=ledger)
    assert ledger.state("people").count == 0, "nothing is spent"


BAD = {
    "a column that is missing": (lambda d: d.drop("sex"), "no column 'sex'", InvalidParameter),
    "text for numbers": (
        lambda d: d.with_columns(income=pl.lit("many")),
        "'income' holds text where numbers are declared in 400 rows",
        DataRefused,
    ),
    "true and false for numbers": (
        lambda d: d.with_columns(income=pl.lit(value=True)),
        "'income' holds BOOLEAN, where the schema declares numbers",
        InvalidParameter,
    ),
    "no value": (
        lambda d: d.with_columns(income=pl.when(pl.col("person") > 0).then(pl.col("income"))),
        "column 'income' has no value in 2 rows",
        DataRefused,
    ),
    "not a number": (
        lambda d: d.with_columns(income=pl.lit(float("nan"))),
        "column 'income' has no value in 400 rows",
        DataRefused,
    ),
    "an unknown key": (
        lambda d: d.with_columns(sex=pl.lit("x")),
        "'sex' holds a key that is not in the schema in 400 rows",
        DataRefused,
    ),
    "rows of nobody": (
        lambda d: d.with_columns(person=pl.lit(None, dtype=pl.Int64)),
        "'person' has no unit in 400 rows",
        DataRefused,
    ),
    "a file that is not there": (lambda d: "nowhere.csv", "No such file", InvalidParameter),
    "another kind of file": (lambda d: "people.xlsx", ".csv.gz or .parquet file", InvalidParameter),
    "no table at all": (lambda d: 7, "is no table", InvalidParameter),
}


@pytest.mark.first_case
@pytest.mark.parametrize(("change", "said", "kind"), BAD.values(), ids=BAD)
def test_data_that_do_not_fit_are_refused_before_the_charge(change, said, kind) -> None:
    refused(change(frame()), said, kind=kind)


def test_text_in_a_csv_where_numbers_are_declared(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("person,age,income,sex,town\n1,5,lots,f,x\n")
    refused(tmp_path / "p.csv", "'income' holds text where numbers are declared in 1 row")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.csv", "", "an empty file"),
        ("p.csv", "person,age,income,sex,town\n1,5\n1,5,6,f,x,9\n", "line 2 has 2 cells"),
        ("p.parquet", "PAR1, and then something else", "it cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    """What DuckDB says may quote rows: it is not passed on."""
    (tmp_path / name).write_text(content)
    refused(tmp_path / name, said, kind=InvalidParameter)


def test_how_a_csv_is_written_is_read_off_its_first_line_alone(tmp_path: Path) -> None:
    """Guessed from rows, a short first line would be skipped, and a row taken for the names."""
    schema, total = Schema("p", {"age": Number(0, 9)}), Total("n", (ROWS,), ("age",))
    for separator in (",", ";", "\t"):
        rows = ["name,age", "a,5", '"b;,",7']
        path = tmp_path / "p.csv"
        path.write_text("\n".join(row.replace(",", separator) for row in rows))
        ((counts,),) = Table(schema, path).opened("k").totals([total])
        assert [age for age, count in enumerate(counts) if count] == [5, 7]


def test_values_outside_bounds_count_as_the_bound_and_an_empty_table_as_zero() -> None:
    plan = release(Sum(name="sum", column="age"))
    data = frame(2).with_columns(age=pl.Series([-5.0, float("inf")]))
    exact = publishing.exact_values(plan, Table(SCHEMA, data).opened("k"))
    assert exact["sum"] == (100,)
    empty = publishing.exact_values(plan, Table(SCHEMA, frame(400).clear()).opened("k"))
    assert empty["sum"] == (0,)


@pytest.mark.quality
def test_a_unit_with_a_million_rows_counts_as_much_as_any(tmp_path: Path) -> None:
    size = 1_000_000
    data = pl.DataFrame(
        {
            "person": np.zeros(size, dtype=np.int64),
            "age": np.full(size, 100),
            "income": np.zeros(size, dtype=np.int64),
            "sex": ["f"] * size,
            "town": ["x"] * size,
        }
    )
    plan = release(Sum(name="sum", column="age"), Count(name="count"))
    exact = publishing.exact_values(plan, Table(SCHEMA, data).opened("k"))
    assert exact == {"sum": (200,), "count": (2,)}


PLAN = """
title = "t"
adjacency = "add_remove"
[budget]
epsilon = 1
delta = 1e-6
[table]
name = "people"
[table.columns.sex]
kind = "category"
keys = ["f", "m"]
[table.columns.age]
kind = "number"
lower = 0
upper = 100
[[items]]
name = "count"
query = "count"
"""

BAD_PLANS = {
    "two items of one name": (
        '[[items]]\nname = "count"\nquery = "count"\n',
        "two items of one name",
    ),
    "a column that is not there": (
        '[[items]]\nname = "s"\nquery = "sum"\ncolumn = "height"\n',
        "the schema has no column 'height'",
    ),
    "numbers by nothing": (
        '[[items]]\nname = "s"\nquery = "count"\nby = "age"\n',
        "'age' holds numbers; give edges.age",
    ),
    "a key not in the schema": (
        '[[items]]\nname = "s"\nquery = "count"\nwhere = { sex = "x" }\n',
        "x is no key of 'sex'",
    ),
    "an unknown query": (
        '[[items]]\nname = "s"\nquery = "mode"\n',
        "program, quantile, minimum, maximum",
    ),
    "an unknown setting": (
        '[[items]]\nname = "s"\nquery = "count"\nwieght = 3\n',
        "items[1].wieght: no such setting",
    ),
    "columns where one is asked for": (
        '[[items]]\nname = "s"\nquery = "sum"\ncolumn = ["age"]\n',
        "item 's': ['age']: expected the name of a column",
    ),
    "a grouping that is no name": (
        '[[items]]\nname = "s"\nquery = "count"\nby = 5\n',
        "5: expected a name, or a list of names",
    ),
    "a key that is none": (
        '[[items]]\nname = "s"\nquery = "count"\nwhere = { sex = 1.5 }\n',
        "where.sex: expected a key of 'sex', or a list of keys",
    ),
    "rounding to no number": (
        '[[post]]\nstep = "round"\nitems = "count"\nto = "x"\n',
        "post round: to = 'x': expected one finite number",
    ),
    "a post step of nothing": (
        '[[post]]\nstep = "non_negative"\nitems = ["who"]\n',
        "no item is called 'who'",
    ),
}


@pytest.mark.parametrize(("more", "said"), BAD_PLANS.values(), ids=BAD_PLANS)
def test_a_plan_that_does_not_fit_says_where(tmp_path: Path, more: str, said: str) -> None:
    (tmp_path / "plan.toml").write_text(PLAN + more)
    with pytest.raises(InvalidParameter) as refusal:
        load_plan(tmp_path / "plan.toml").plan()
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("upper = 100", "upper = -1", "is not below upper"),
        ("upper = 100", "upper = 100.5", "not a multiple of step"),
        ("epsilon = 1", "epsilon = -1", "expected positive"),
        ('adjacency = "add_remove"', 'adjacency = "near"', "expected one of add_remove"),
        ('kind = "category"', 'kind = "colour"', "expected one of number"),
        ("upper = 100", 'upper = "old"', "Number.upper = 'old': expected one finite number"),
        ('title = "t"', "", "plan.title: missing"),
        ('title = "t"', 'title = "t"\nledger = 5', "plan.ledger: expected a file"),
        ("[budget]", "[budget", "not TOML"),
    ],
)
def test_a_plan_that_is_malformed_says_where(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.replace(old, new))
    with pytest.raises(InvalidParameter) as refusal:
        load_plan(tmp_path / "plan.toml").plan()
    assert said in str(refusal.value)


def test_the_schema_is_public_and_what_was_read_off_is_named() -> None:
    import tomllib

    table = tomllib.loads(PLAN)
    table["table"]["read_off_data"] = ["age.upper"]
    assert release_of(table).schema.read_off_data == ("age.upper",)


def test_gaussian_noise_has_no_pure_budget_and_laplace_takes_its_place() -> None:
    with pytest.raises(Unsupported, match="no pure epsilon"):
        release(Count(name="n", noise="gaussian"), budget=PureDP(1)).plan()
    plan = release(Count(name="n"), budget=PureDP(1)).plan()
    assert plan.account.step("pure").value <= 1


@pytest.mark.quality
def test_a_release_of_exact_noise_reads_certified_and_its_plan_alone_does_not(
    tmp_path: Path, counted: Plan
) -> None:
    """Delete the entropy of the run, or the row that noise was drawn exactly, and it does not."""
    frame().write_parquet(tmp_path / "people.parquet")
    done = publish(
        counted, tmp_path / "people.parquet", tmp_path / "out", ledger=NO_LEDGER, trials=200
    )
    assert done.verdict == "certified"
    written = json.loads((tmp_path / "out" / "certificate" / "t.json").read_text())
    predicate = written["predicate"]
    assert {row["status"] for row in predicate["assumptions"]} == {"enforced"}
    content = (tmp_path / "out" / "release.json").read_bytes()
    assert predicate["run"]["output"]["digest"]["sha256"] == sha256(content).hexdigest()
    rows, root = predicate["conformance"], counted.declaration
    for changed, entropy in ((rows, ""), (rows, "seed 1"), ([], "operating system")):
        found = {one.id: str(one.status) for one in standing(changed, root, entropy)}
        assert found["declared_noise"] != "enforced"
    drawn = [row for row in rows if row["check"] != DRAWN]
    found = {one.id: str(one.status) for one in standing(drawn, root, "operating system")}
    assert found["real_arithmetic"] == "declared"
    assert found["declared_noise"] != "enforced"


@pytest.mark.quality
def test_choices_by_ranks_and_counts_read_certified(tmp_path: Path) -> None:
    """Exactly drawn where they are attacked too, and their law is tested."""
    plan = release(
        Quantiles(name="age", column="age", at=("1/4", "1/2")), Top(name="sex", column="sex")
    ).plan()
    frame().write_parquet(tmp_path / "people.parquet")
    done = publish(
        plan, tmp_path / "people.parquet", tmp_path / "out", ledger=NO_LEDGER, trials=200
    )
    assert done.verdict == "certified"
    assert [row.statistic for row in done.rows][2:] == ["rank"]
    written = json.loads((tmp_path / "out" / "certificate" / "t.json").read_text())
    assert {row["status"] for row in written["predicate"]["assumptions"]} == {"enforced"}


def test_running_again_refuses_with_and_without_a_ledger(tmp_path: Path, counted: Plan) -> None:
    ledger = ledger_at(tmp_path)
    unattacked(counted, frame(), tmp_path / "out", ledger=ledger)
    for folder, said in (("out", "is there"), ("elsewhere", "was released on")):
        with pytest.raises(LedgerRefused, match=said):
            unattacked(counted, frame(), tmp_path / folder, ledger=ledger)
    unattacked(counted, frame(), tmp_path / "free", ledger=NO_LEDGER)
    with pytest.raises(LedgerRefused, match="is there"):
        unattacked(counted, frame(), tmp_path / "free", ledger=NO_LEDGER)
    assert ledger.verify("people").count == 1


def test_of_two_releases_at_once_one_is_drawn(tmp_path: Path, counted: Plan) -> None:
    ledger_at(tmp_path)
    data, together = frame(), threading.Barrier(2)

    def run(number: int) -> str:
        ledger = open_ledger(tmp_path / "ledger.sqlite")
        together.wait()
        try:
            unattacked(counted, data, tmp_path / str(number), ledger=ledger)
        except LedgerRefused as error:
            return str(error)
        return "drawn"

    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(run, range(2)), key=lambda said: said != "drawn")
    assert found[0] == "drawn"
    assert "was charged on" in found[1] or "was released on" in found[1]
    assert open_ledger(tmp_path / "ledger.sqlite").verify("people").count == 1


@pytest.mark.parametrize("at", ["exact_values", "draw", "write_atomically"])
def test_a_crash_after_the_charge_leaves_it_spent_and_says_so(
    tmp_path: Path, counted: Plan, monkeypatch, at: str
) -> None:
    ledger = ledger_at(tmp_path)

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    # The rehearsal would meet the same fault, and spend nothing.
    monkeypatch.setattr(publishing, "rehearse", lambda plan, targets: None)
    monkeypatch.setattr(publishing, at, broken)
    with pytest.raises(ReleaseInterrupted, match="its charge is spent") as interrupted:
        unattacked(counted, frame(), tmp_path / "out", ledger=ledger)
    assert "KeyboardInterrupt" in str(interrupted.value)
    state = ledger.verify("people")
    assert (state.count, state.unfinished) == (1, ("t",))
    monkeypatch.undo()
    with pytest.raises(LedgerRefused, match="Its charge is spent"):
        unattacked(counted, frame(), tmp_path / "other", ledger=ledger)


@pytest.mark.parametrize("name", ["release.json", "release.csv", "release.parquet"])
def test_a_disk_that_fills_up_loses_no_draw(
    tmp_path: Path, counted: Plan, monkeypatch, name: str
) -> None:
    """At whichever of the three files: the same draw is finished later, of the JSON kept."""
    ledger, real, full = ledger_at(tmp_path), files._staged, [name]

    def staged(path: Path, content: bytes, mode: int | None = None) -> object:
        if path.name in full and path.parent.name == "out":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content, mode)

    monkeypatch.setattr(files, "_staged", staged)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ReleaseInterrupted, match="No space left"):
        unattacked(counted, frame(), tmp_path / "out", ledger=ledger)
    state = ledger.verify("people")
    assert (state.count, state.unfinished) == (1, ("t",))
    full.clear()
    (drawn,) = tmp_path.glob("**/release.json")
    before = drawn.read_bytes()
    drawn.replace(tmp_path / "out" / "release.json")
    done = unattacked(counted, None, tmp_path / "out", ledger=ledger)
    assert (tmp_path / "out" / "release.json").read_bytes() == before
    rows = list(csv.DictReader((tmp_path / "out" / "release.csv").open()))
    assert [row["value"] for row in rows] == [row["value"] for row in json.loads(before)["values"]]
    state = ledger.verify("people", done.head)
    assert (state.count, state.unfinished) == (1, ())
    with pytest.raises(LedgerRefused, match="is there"):
        unattacked(counted, frame(), tmp_path / "out", ledger=ledger)


def test_a_release_is_finished_only_from_what_was_released(tmp_path: Path, counted: Plan) -> None:
    """Not from a file of another release, one that was changed since, or one nobody charged."""
    ledger, out = ledger_at(tmp_path), tmp_path / "out"
    unattacked(counted, frame(), out, ledger=ledger)
    drawn = (out / "release.json").read_bytes()
    (out / "release.json").write_bytes(drawn.replace(b'"value": "', b'"value": "1'))
    with pytest.raises(LedgerRefused, match="not what was released"):
        publish(counted, frame(), out, ledger=ledger)
    (out / "release.json").write_bytes(drawn.replace(b'"release": "', b'"release": "0'))
    with pytest.raises(LedgerRefused, match="is there"):
        publish(counted, frame(), out, ledger=ledger)
    (out / "release.json").write_bytes(drawn)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(LedgerRefused, match="is there"):
        publish(counted, frame(), out, ledger=ledger_at(other))


def test_a_private_value_stays_out_of_what_an_interrupted_release_says(
    tmp_path: Path, counted: Plan, monkeypatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("the record of Ada Lovelace")

    monkeypatch.setattr(publishing, "exact_values", broken)
    with pytest.raises(ReleaseInterrupted) as interrupted:
        unattacked(counted, frame(), tmp_path / "out", ledger=NO_LEDGER)
    assert "Ada" not in str(interrupted.value)


def test_over_budget_and_a_folder_that_cannot_be_written_spend_nothing(
    tmp_path: Path, counted: Plan
) -> None:
    poor = ledger_at(tmp_path, epsilon=1)
    with pytest.raises(BudgetExceeded, match="does not fit"):
        unattacked(counted, frame(), tmp_path / "out", ledger=poor)
    assert not (tmp_path / "out" / "release.csv").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputNotWritable, match="Nothing was charged"):
        unattacked(counted, frame(), tmp_path / "file" / "out", ledger=poor)
    assert poor.state("people").count == 0


def test_post_processing_makes_margins_consistent_and_counts_whole() -> None:
    plan = release(
        Count(name="all"),
        Count(name="cells", by=("sex", "age"), edges={"age": (30, 60)}),
        Count(name="by sex", by="sex"),
        post=(
            Step("consistent", ("all", "cells", "by sex")),
            Step("non_negative", ("all", "cells", "by sex")),
        ),
        schema=replace(SCHEMA, rows=1, columns={**SCHEMA.columns, "age": Number(0, 100)}),
    ).plan()
    values = {"all": (300,), "cells": (50, 40, 60, 50, 60, 40), "by sex": (150, 150)}
    rows = published_rows(plan, draw(plan, values))
    found = {(row.item, row.keys): row.value for row in rows}
    for sex in "fm":
        cells = [v for (item, keys), v in found.items() if item == "cells" and ("sex", sex) in keys]
        assert sum(cells) == found["by sex", (("sex", sex),)]
    assert found["all", ()] == sum(v for (item, _), v in found.items() if item == "by sex")


def test_what_is_post_processed_is_declared_and_uses_released_numbers_only(counted: Plan) -> None:
    plan = release(
        Count(name="n"),
        Sum(name="sum", column="age"),
        post=(Step("round", ("n",), Fraction(5)), Step("non_negative", ("n", "sum"))),
    ).plan()
    drawn = {"n": [-7], "sum": [-3]}
    rows = {row.item: row for row in published_rows(plan, drawn)}
    assert (rows["n"].value, rows["sum"].value) == (0, 0)
    assert rows["n"].note == "rounded to a multiple of 5; negative numbers set to 0"
    rows = {row.item: row for row in published_rows(plan, {"n": [103], "sum": [12]})}
    assert (rows["n"].value, rows["sum"].value) == (105, 12)
    setting = mechanism_of(plan).setting
    (declared,) = setting.uncovered
    assert "depends on more than one person and public tables" in declared
    notes = setting.notes
    assert notes == (
        "post-processing, of released numbers only: round to 5: n",
        "post-processing, of released numbers only: non-negative: n, sum",
    )
    assert drawn == {"n": [-7], "sum": [-3]}
    for wrong in (Step("consistent", ("n", "sum")), Step("round", ("who",))):
        with pytest.raises(InvalidParameter, match="post"):
            release(Count(name="n"), Sum(name="sum", column="age"), post=(wrong,))


def full(*_: object) -> None:
    raise MemoryError("of the files")


def test_a_release_that_is_too_large_fails_before_its_charge(
    tmp_path: Path, counted: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_at(tmp_path)
    monkeypatch.setattr(publishing, "contents_of", full)
    with pytest.raises(InvalidParameter, match=r"does not fit .*of the files.*Nothing was charged"):
        unattacked(counted, frame(), tmp_path / "out", ledger=ledger)
    assert ledger.state("people").count == 0
    # Without the rehearsal the same failure spends the budget.
    monkeypatch.setattr(publishing, "rehearse", lambda plan, targets: None)
    with pytest.raises(ReleaseInterrupted):
        unattacked(counted, frame(), tmp_path / "out", ledger=ledger)
    assert ledger.state("people").count == 1


def test_one_of_many_candidates_is_chosen_without_a_square_matrix() -> None:
    """10^6 candidates: a matrix of them would take 8 TB."""
    for kernels in (kernel_of, lambda leaf: exact_kernels()[type(leaf)]):
        leaf = ExponentialMechanism("q", Fraction(1))
        chosen = kernels(leaf)(leaf, 1).sample(
            np.zeros((1, 10**6)), np.array([2.0]), np.random.default_rng(0)
        )
        assert chosen.sum() == 1


@pytest.mark.quality
def test_two_draws_differ_and_nothing_seeds_them(counted: Plan) -> None:
    np.random.seed(1)  # noqa: NPY002  (on purpose: it must not matter)
    values = {"count": (1000,) * 1}
    draws = {draw(counted, values)["count"][0] for _ in range(200)}
    assert len(draws) > 5
    spread = np.std([draw(counted, values)["count"][0] for _ in range(400)])
    # Within six standard errors of the declared deviation: false alarm 2e-9.
    assert abs(spread / counted.margins.deviation("count") - 1) < 6 / 800**0.5


# --- the ledger that a plan names -----------------------------------------------------------------


@pytest.fixture
def naming(tmp_path: Path) -> tuple[Plan, Ledger]:
    """A plan whose file names a ledger beside it, and that ledger, with the plan's account."""
    table = tmp_path / "plan.toml"
    table.write_text(
        'title = "x"\nadjacency = "add_remove"\nledger = "kept.sqlite"\nbudget = { epsilon = 1 }\n'
        'items = [{ name = "n", query = "count" }]\n[table]\nname = "people"\nunit = "person"\n'
        'entity = "person"\nrows = 1\ncolumns = { sex = { kind = "category", keys = ["f", "m"] } }'
    )
    release = load_plan(table)
    ledger = open_ledger(tmp_path / "kept.sqlite")
    ledger.create("people", terms_of("person", release.scope, PureDP(1)))
    return release.plan(), ledger


PEOPLE = pl.DataFrame({"person": ["1", "2"], "sex": ["f", "m"]})


@pytest.mark.parametrize("given", ["nothing", "None", "the same"])
def test_a_plan_is_charged_in_its_own_ledger_from_python_too(naming, given, tmp_path) -> None:
    plan, ledger = naming
    named = {"nothing": {}, "None": {"ledger": None}, "the same": {"ledger": ledger}}[given]
    unattacked(plan, PEOPLE, tmp_path / "first", **named)
    assert ledger.state("people").count == 1
    with pytest.raises(LedgerRefused, match="publish the files of that run"):
        unattacked(plan, PEOPLE, tmp_path / "second", **named)


def test_no_other_ledger_and_none_is_charged_of_a_plan_that_names_one(naming, tmp_path) -> None:
    plan, ledger = naming
    other = open_ledger(tmp_path / "other.sqlite")
    for asked, said in ((other, "is charged in .*kept.sqlite"), (NO_LEDGER, "NO_LEDGER.*kept")):
        with pytest.raises(InvalidParameter, match=said):
            unattacked(plan, PEOPLE, tmp_path / "out", ledger=asked)
    assert ledger.state("people").count == 0
    assert not (tmp_path / "out").exists()


def test_the_plans_ledger_is_what_stops_a_second_draw(naming, tmp_path, monkeypatch) -> None:
    """Without the guard a plan's budget is spent as often as it is asked."""
    plan, ledger = naming
    monkeypatch.setattr(publishing, "_book", lambda release, asked: None)
    for folder in ("first", "second"):
        unattacked(plan, PEOPLE, tmp_path / folder, ledger=None)
    assert ledger.state("people").count == 0


def test_a_plan_without_a_ledger_needs_the_word(counted: Plan, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="names no ledger; give one, or NO_LEDGER"):
        unattacked(counted, frame(), tmp_path / "out")

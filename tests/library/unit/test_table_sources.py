"""The same exact sums from memory, from files in parts, from Dask and from PySpark."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP
from dpaudit.releases.items.choices import Quantiles
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.plan import Release
from dpaudit.releases.program import exact_values
from dpaudit.tabular import (
    ROWS,
    Bins,
    Category,
    Cut,
    DataRefused,
    Number,
    Schema,
    Table,
    Term,
    Text,
    Total,
    source,
)
from dpaudit.tabular import part as parts

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pytest.importorskip("duckdb")

SCHEMA = Schema(
    "people",
    {
        "age": Number(0, 100, missing="drop"),
        "sex": Category(("f", "m")),
        "town": Text("drop"),
    },
    unit="person",
    entity="person",
    rows=2,
)
RELEASE = Release(
    "t",
    SCHEMA,
    "add_remove",
    ApproxDP(1, "1e-6"),
    (
        Count(name="n", by="sex", groups=1),
        Sum(name="sum", column="age", by="sex"),
        Groups(name="towns", column="town", delta="1e-8", groups=1),
        Quantiles(name="median", column="age"),
    ),
)


def people(size: int = 4000) -> Any:
    """Three rows a person, where two count."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "person": rng.integers(0, size // 3, size),
            "age": rng.integers(0, 120, size),
            "sex": rng.choice(["f", "m"], size),
            "town": rng.choice(list("abcdefg"), size),
        }
    )


def sums(data: Any) -> dict[str, Any]:
    table = Table(SCHEMA, data).opened("key")
    table.check()
    found: dict[str, Any] = exact_values(RELEASE, table)
    ranks = found["median/1of2"]
    return found | {"median/1of2": tuple(ranks.at(np.arange(101)))}


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return sums(people())


def numbered(units: int, most: int) -> Any:
    """Up to ``most`` rows a unit, each with a number of its own, in any order."""
    rng = np.random.default_rng(2)
    unit = np.repeat(np.arange(units), rng.integers(1, most + 1, units))
    order = rng.permutation(len(unit))
    return pd.DataFrame({"unit": unit[order], "number": np.arange(len(unit))})


@pytest.mark.first_case
@pytest.mark.parametrize("kind", ["packed", "wide", "text"])
def test_of_every_unit_as_many_rows_are_kept_as_may_count(kind: str) -> None:
    """Few codes, packed beside their hash; too many, or texts, sorted as they are."""
    data = numbered(300, 9)
    most = 2**52 if kind == "wide" else len(data)
    columns: dict[str, Any] = {"number": Number(0, most)}
    if kind == "text":
        columns["word"] = Text()
        data["word"] = data["number"].astype(str)
    schema = Schema("t", columns, unit="unit", rows=4)

    def kept(key: str, frame: Any) -> set[tuple[int, int]]:
        rows = Table(schema, frame).opened(key).rows(["number"])
        found = [(int(u), int(n)) for u, n in rows]
        assert len(set(found)) == len(found)
        return set(found)

    found = kept("key", data)
    assert found <= set(zip(data["unit"], data["number"], strict=True))
    counts = Counter(u for u, _ in found)
    assert counts == {u: min(n, 4) for u, n in Counter(data["unit"]).items()}
    assert kept("key", data.iloc[::-1]) == found
    assert kept("another", data) != found
    gone = kept("key", data[data["unit"] != 7])
    assert gone == {(u, n) for u, n in found if u != 7}, "no other unit's rows change"
    edges = tuple(range(1, len(data)))
    total = Total("n", (ROWS,), (Bins("number", edges),))
    ((counted,),) = Table(schema, data).opened("key").totals([total])
    assert {n for n, count in enumerate(counted) if count} == {n for _, n in found}
    assert sum(counted) == len(found)


def two_of_each(most: int, frame: Any) -> dict[int, list[int]]:
    """The numbers of the rows that count, two of each unit."""
    schema = Schema("t", {"number": Number(0, most)}, unit="unit", rows=2)
    found: dict[int, list[int]] = {}
    for unit, number in sorted(Table(schema, frame).opened("key").rows(["number"])):
        found.setdefault(int(unit), []).append(int(number))
    return found


@pytest.mark.first_case
@pytest.mark.parametrize("most", [1000, 2**21])
def test_the_type_of_a_unit_does_not_decide_which_of_its_rows_are_kept(most: int) -> None:
    """Units of few bits are sorted with their codes, others beside them."""
    data = numbered(100, 9)
    known = two_of_each(most, data)
    assert {u: len(n) for u, n in known.items()} == {
        u: min(n, 2) for u, n in Counter(data["unit"]).items()
    }
    for kind in ("int8", "uint32", "uint64", "str", "float64"):
        assert two_of_each(most, data.astype({"unit": kind})) == known


@pytest.mark.parametrize("kind", ["int64", "str"])
def test_totals_by_key_are_the_same_for_units_of_either_type(kind: str) -> None:
    """The smallest whole unit is asked for, and answered to the end, before keys are joined."""
    frame = pd.DataFrame({"unit": [1, 1, 2, 3], "key": ["a", "b", "a", "a"]})
    schema = Schema("t", {"key": Category(("a", "b"))}, unit="unit", rows=2)
    table = Table(schema, frame.astype({"unit": kind})).opened("k")
    assert table.totals([Total("n", (ROWS,), ("key",))]) == [[(3, 1)]]
    assert len(table.rows(["key"])) == 4


@pytest.mark.first_case
@pytest.mark.parametrize("far", [2**40, -(2**63), 2**63 - 1])
def test_a_unit_far_from_all_others_changes_none_of_their_rows(far: int) -> None:
    """Units beyond 32 bits leave no room beside a code; ties of 12 bits of a hash are a dozen here.

    Delete that the schema alone says how many bits of a hash count, and others' rows change.
    """
    data, most = numbered(20_000, 9), 2**20 - 3
    added = pd.concat([data, pd.DataFrame({"unit": [far] * 3, "number": [1, 2, 3]})])
    found = two_of_each(most, added)
    assert len(found.pop(far)) == 2
    assert found == two_of_each(most, data)


def test_rows_that_are_the_same_are_counted_as_many_as_they_are() -> None:
    """Three rows of a unit that no hash tells apart, where two count."""
    frame = pd.DataFrame({"unit": [1, 1, 1, 2], "number": [5, 5, 5, None]})
    schema = Schema("t", {"number": Number(-3, 9, missing="drop")}, unit="unit", rows=2)
    plain = Total("n", (ROWS, Term((("number", 3, -1),)), Term((("number", 1, 0),), 2)))
    limited = replace(plain, per_group=1)
    assert Table(schema, frame).opened("k").totals([plain]) == [[(2,), (28,), (6,)]]
    assert Table(schema, frame).opened("k").totals([limited]) == [[(1,), (14,), (3,)]]


@pytest.mark.quality
def test_files_that_are_read_in_parts_give_the_same_sums(
    tmp_path: Path, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    people().to_csv(tmp_path / "p.csv", index=False)
    people().to_parquet(tmp_path / "p.parquet")
    opened: list[str] = []
    real = source.connection
    monkeypatch.setattr(source, "connection", lambda: (opened.append("part"), real())[1])
    for name in ("p.csv", "p.parquet"):
        whole = sums(tmp_path / name)
        opened.clear()
        with monkeypatch.context() as small:
            size = (tmp_path / name).stat().st_size
            small.setattr(source, "AT_ONCE", dict.fromkeys(source.AT_ONCE, size // 3))
            assert sums(tmp_path / name) == whole == known
        assert len(opened) >= 1 + 2 * 3, "each of the two passes in three parts"


@pytest.mark.quality
def test_what_does_not_fit_into_memory_goes_to_a_folder_that_its_user_alone_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's own choice is the working directory, where private rows would stay after a crash."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with source.connection() as opened:
        (folder,) = tmp_path.glob("dpaudit-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        opened.execute("SET memory_limit = '60MB'")
        opened.execute(
            "SELECT max(b) FROM "
            "(SELECT lag(i, 4) OVER (ORDER BY hash(i)) b FROM range(1500000) r(i))"
        )
        assert list(folder.iterdir())
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]
    assert list((tmp_path / "here").iterdir()) == []


def test_parts_that_split_a_unit_would_show(known: dict[str, Any]) -> None:
    """A unit whose rows lie in two parts counts twice: what the shuffle by unit is for."""
    halves = people().iloc[::2], people().iloc[1::2]
    apart = [sums(half)["n"] for half in halves]
    assert tuple(map(sum, zip(*apart, strict=True))) != known["n"]


@pytest.mark.quality
def test_dask_gives_the_same_sums(known: dict[str, Any]) -> None:
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    assert sums(frames.from_pandas(people(), npartitions=3)) == known


def test_dask_tells_what_does_not_fit_from_every_partition() -> None:
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    data = people(300)
    data.loc[[0, 150, 299], "sex"] = "x"
    with pytest.raises(DataRefused, match="not in the schema in 3 rows"):
        sums(frames.from_pandas(data, npartitions=3))


@pytest.mark.quality
def test_a_dask_cluster_of_processes_gives_the_same_sums(known: dict[str, Any]) -> None:
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as two,
        distributed.Client(two),
    ):
        assert sums(frames.from_pandas(people(), npartitions=5)) == known


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    builder = sql.SparkSession.builder.master("local[2]")
    for key, value in (("spark.ui.enabled", "false"), ("spark.sql.shuffle.partitions", "3")):
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.quality
def test_pyspark_gives_the_same_sums(spark: Any, known: dict[str, Any]) -> None:
    """Executors bound and sum; the driver never sees a row."""
    frame = spark.createDataFrame(people())
    assert sums(frame) == known


KEYED = Schema(
    "keyed",
    {"age": Number(0, 9, missing="drop"), "sex": Category(("f", "m")), "town": Text("drop")},
    unit="person",
    entity="person",
    rows=2,
)


def small_tables(rng: np.random.Generator) -> Iterator[tuple[Schema, Any]]:
    """Tables of two schemas in turn, with ages out of bounds or none, other keys, and no rows."""
    pa = pytest.importorskip("pyarrow")
    others = replace(KEYED, columns={**KEYED.columns, "sex": Category(("m", "f", "x"))}, rows=1)
    for count in (5, 0, 12, 1, 300, 7, 0, 40):
        ages = rng.integers(-3, 14, count).astype(float)
        columns = {
            "age": pa.array([None if age < -1 else age for age in ages], pa.float64()),
            "sex": pa.array(rng.choice(["f", "m", "x"], count).tolist(), pa.string()),
            "town": pa.array(rng.choice(["a", "b"], count).tolist(), pa.string()),
            "person": pa.array(rng.integers(0, 1 + count // 2, count) - 3, pa.int64()),
        }
        yield KEYED if count % 2 else others, pa.table(columns)


def asked_of_all() -> list[Total]:
    """Counts and sums by each kind of group, with every limit that a total knows."""
    age = (("age", 1, 0),)
    return [
        Total("rows", (ROWS,)),
        Total("by sex", (Term(age), ROWS), by=("sex",), needed=("age",)),
        Total("by town", (ROWS,), by=("town",)),
        Total("bins", (ROWS,), by=(Bins("age", (3, 6)),)),
        Total("others", (ROWS,), by=(Bins("age", (5,)), "sex")),
        Total("units", (ROWS,), by=("sex",), groups=1, per_group=1),
        Total("totals", (Term(age),), ends=(0, 7)),
        Total("values", (ROWS,), by=("age",), sparse=True),
        Total("cut", (), cuts=(Cut(), Cut("age"))),
    ]


def plain(found: list[list[Any]]) -> list[Any]:
    return [
        [t if isinstance(t, tuple | dict) else (t.places.tolist(), t.counts.tolist()) for t in row]
        for row in found
    ]


@pytest.mark.quality
def test_plans_that_are_kept_give_what_a_connection_of_its_own_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after another, with other keys, edges and no rows between; nothing stays of a table."""
    pairs = list(small_tables(np.random.default_rng(5)))
    kept = [plain(Table(s, t).opened("key").totals(asked_of_all())) for s, t in pairs]
    part = parts._THREADS.part
    assert part._rows.table.num_rows == 0
    assert part._opened.table(parts.KEPT).fetchall() == []
    monkeypatch.setattr(parts, "SMALL", -1)
    own = [plain(Table(s, t).opened("key").totals(asked_of_all())) for s, t in pairs]
    assert kept == own
    assert len({str(row) for row in own}) > 5


def test_a_kept_table_is_made_anew_after_many_rows_were_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "MOST_GONE", 50)
    monkeypatch.setattr(parts, "MOST_PLANNED", 3)
    for schema, table in small_tables(np.random.default_rng(6)):
        mended = replace(schema, columns={**KEYED.columns}, rows=3)
        found = Table(mended, table).opened("key").totals([Total("rows", (ROWS,), by=("sex",))])
        inside = [s for s, p in zip(table["sex"].to_pylist(), table["person"], strict=True) if p]
        (counts,) = found[0]
        assert isinstance(counts, tuple)
        assert sum(counts) <= sum(sex != "x" for sex in inside)
        assert parts._THREADS.part._gone <= 50 + len(table)


def test_an_arrow_table_is_read_as_it_is_and_a_batch_is_no_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without narwhals, which a release of files never loads."""
    schema, table = Schema("t", {"age": Number(0, 9)}), pa.table({"age": [1, 2]})
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "narwhals", None)
        Table(schema, table).opened("k").check()
    with pytest.raises(InvalidParameter, match="a RecordBatch is no table"):
        Table(schema, table.to_batches()[0]).opened("k")

"""The same releases by dpaudit, OpenDP's context interface and Tumult Analytics; scale beside SQL.

``python -m benchmarks.evidence releases scale``:
the doctor's visits of the RAND experiment (20,190 rows, from statsmodels), and a generated
population of a million people in households.  Each tool gets (epsilon = 1, delta = 1e-6) for a
count, counts by key and a sum: the others as the largest rho that their own conversion of
zero-concentrated privacy turns into that, which is better than adding epsilons up.  The scale
times a plan on 10^7 and more rows against its queries in plain SQL, in one run.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from inspect import getsource
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpaudit.accountant.account import Account
from dpaudit.errors import DpauditError
from dpaudit.families.opaque import ZCDP, ApproxDP, PureDP
from dpaudit.ledger import open_ledger, terms_of
from dpaudit.releases.items.choices import Quantiles
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.plan import Release
from dpaudit.releases.program import exact_values
from dpaudit.releases.publish import draw, publish, published_rows
from dpaudit.scope import central
from dpaudit.tabular import Category, Number, Schema, Table, Text
from dpaudit.version import __version__

HERE = Path(__file__).parent
BUDGET = ApproxDP(1, "1e-6")
WHAT = ("count", "counts by key", "sum")
TITLES = {"dpaudit": "dpaudit", "opendp": "OpenDP (context)", "tumult": "Tumult Analytics"}
PEOPLE = 1_000_000
FAIL = "not run"
SORTED, SHUFFLED = "by household", "any"
ROUNDS = 3
LIMIT = 600  # seconds of OpenDP at each size


# Rows and order of the tables of the scale; a larger file is not shuffled as a whole.
SCALES = ((10_000_000, SORTED), (10_000_000, SHUFFLED), (100_000_000, SORTED))
OPENDP_ROWS = (100_000, 1_000_000)


def doctors() -> Release:
    """Visits by insurance plan; the source lines of this function are counted."""
    columns = {"plan": Category(("free", "coinsurance")), "visits": Number(0, 77)}
    schema = Schema("doctors", columns)
    items = (
        Count(name="count"),
        Count(name="by plan", by="plan"),
        Sum(name="visits", column="visits"),
    )
    return Release("Visits", schema, "add_remove", BUDGET, items)


def people() -> Release:
    """Incomes by region, of households."""
    regions = Category(tuple(f"r{i}" for i in range(10)))
    columns = {"region": regions, "income": Number(0, 100_000)}
    schema = Schema("people", columns, unit="home", entity="household", rows=4)
    items = (
        Count(name="count"),
        Count(name="by region", by="region"),
        Sum(name="income", column="income"),
    )
    return Release("Incomes", schema, "add_remove", BUDGET, items)


def visits() -> Any:
    """Person-years of the RAND Health Insurance Experiment, as statsmodels has them."""
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data
    plans = np.where(data["lncoins"] == 0, "free", "coinsurance")
    return pa.table({"plan": plans, "visits": data["mdvis"].to_numpy().astype(np.int64)})


def population(size: int, seed: int = 1) -> Any:
    """People in households of one to six; a household lives in one region."""
    rng = np.random.default_rng(seed)
    homes = np.repeat(np.arange(size), rng.integers(1, 7, size))[:size]
    regions = np.array([f"r{i}" for i in range(10)])
    income = np.minimum(rng.lognormal(10, 0.8, size), 10**6).astype(np.int64)
    where = regions[rng.integers(0, 10, size)[homes]]
    return pa.table({"home": homes, "region": where, "income": income})


TABLES = {"doctors": (doctors, visits), "people": (people, lambda: population(PEOPLE))}
TABLE_TITLES = {
    "doctors": "20,190 rows, a row is a unit",
    "people": f"{PEOPLE:,} people in households",
}


def largest_rho() -> float:
    """The rho that, by the usual conversion, is the budget: what other tools are given."""
    scope, low, high = central("add_remove"), 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        found = Account(ZCDP(Fraction(middle)), scope).converted("zcdp", BUDGET.delta).value[0]
        low, high = (middle, high) if found <= BUDGET.epsilon else (low, middle)
    return low


@dataclass(frozen=True)
class Result:
    """One tool on one table: standard deviations of its noise, lines of its program."""

    deviations: tuple[float, ...]
    lines: int
    version: str
    refused: Mapping[str, bool]


def own(release: Callable[[], Release], path: Path) -> Result:
    """The plan's noise, after its exact sums were taken."""
    asked = release()
    plan = asked.plan()
    exact_values(asked, Table(asked.schema, path).opened(asked.digest))
    steps = [getattr(part, "step", Fraction(1)) for part in plan.parts.values()]
    names = [plan.margins.deviation(label) for label in plan.parts]
    found = tuple(d * float(step) for d, step in zip(names, steps, strict=True))
    # Without its first line and its docstring.
    lines = len(getsource(release).splitlines()) - 2
    return Result(found, lines, __version__, refusals(asked, path))


def refusals(asked: Release, path: Path) -> dict[str, bool]:
    """Whether what should not be done is refused."""
    schema = replace(asked.schema, columns={**asked.schema.columns, "other": Text()})
    unknown = Release("Keys", schema, "add_remove", PureDP(1), (Groups(name="k", column="other"),))
    column = list(asked.schema.columns)[-1]
    with tempfile.TemporaryDirectory() as made:
        ledger = open_ledger(Path(made) / "ledger.sqlite")
        cap = ApproxDP(Fraction(3, 2), "1e-5")
        ledger.create(asked.schema.name, terms_of(asked.schema.entity, asked.scope, cap))

        def run(title: str, folder: str) -> None:
            plan = replace(asked, title=title).plan()
            publish(plan, path, Path(made) / folder, ledger=ledger, trials=0)

        run("first", "a")
        return {
            "unknown keys without delta": refused(unknown.plan),
            "a sum without bounds": refused(lambda: Schema("t", {column: Number()})),  # type: ignore[call-arg]
            "more than the budget": refused(lambda: run("second", "b")),
            "the same release drawn again": refused(lambda: run("first", "c")),
        }


def refused(act: Callable[[], Any]) -> bool:
    """Whether it raises."""
    try:
        act()
    except (DpauditError, TypeError):
        return True
    return False


def other(tool: str, python: str | None, path: Path, name: str, rho: float) -> Result | str:
    """Another tool's, by its own interpreter; why not, in a line, where it fails."""
    if python is None:
        return FAIL
    script = HERE / f"release_{tool}.py"
    run = subprocess.run(
        [python, str(script), str(path), name, repr(rho)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if run.returncode:
        return (run.stderr.strip().splitlines() or ["failed"])[-1][:200]
    found = json.loads(run.stdout.strip().splitlines()[-1])
    deviations = tuple(
        float(row["deviation"] if "deviation" in row else row["parameter"] ** 0.5)
        for row in found["rows"]
    )
    return Result(deviations, found["lines"], found["version"], found["refused"])


def compared(table: str, tool: str, python: str | None) -> Any:
    """One tool on one of the tables, as JSON; a text says why there is no answer."""
    release, made = TABLES[table]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{table}.parquet"
        pq.write_table(made(), path)
        if tool == "dpaudit":
            found: Result | str = own(release, path)
        else:
            found = other(tool, python, path, table, largest_rho())
    return found if isinstance(found, str) else asdict(found)


def compared_lines(parts: Mapping[str, Any]) -> list[str]:
    """Noise, lines of code and refusals of every tool, of parts named "table, tool"."""
    lines = [
        "A count, counts by key and a sum at epsilon = 1 and delta = 1e-6 together, with equal "
        "weights. The other tools get the largest rho that the usual conversion turns into that "
        "budget. The numbers are standard deviations of the noise; at most four people of a "
        "household count.",
    ]
    found = {
        table: {
            tool: row if isinstance(row, str) else Result(**row)
            for tool in TITLES
            if (row := parts.get(f"{table}, {tool}")) is not None
        }
        for table in TABLES
    }
    for table, tools in found.items():
        rows = [[TABLE_TITLES[table], *WHAT, "lines of code"]]
        for tool, result in tools.items():
            if isinstance(result, str):
                rows.append([TITLES[tool], result, "", "", ""])
                continue
            numbers = [f"{d:.4g}" for d in result.deviations]
            rows.append([f"{TITLES[tool]} {result.version}", *numbers, str(result.lines)])
        lines += ["", *_table(rows)]
    return [*lines, "", _never_worse(found), "", *_table(_refusals(found["doctors"]))]


def _never_worse(found: Mapping[str, Mapping[str, Any]]) -> str:
    """How dpaudit's noise is beside the others', in one sentence."""
    ratios = [
        one / own
        for tools in found.values()
        for tool, result in tools.items()
        if tool != "dpaudit" and isinstance(result, Result)
        for one, own in zip(result.deviations, tools["dpaudit"].deviations, strict=True)
    ]
    if not ratios:
        return "No other tool was run."
    worse = sum(ratio < 1 for ratio in ratios)
    never = "in none" if not worse else f"in {worse}"
    low, high = f"{min(ratios):.3f}", f"{max(ratios):.3f}"
    return (
        f"Other tools were asked {len(ratios)} of the queries. dpaudit's noise is larger than "
        f"theirs {never} of them; their noise is {low if low == high else f'{low} to {high}'} "
        "times as large as dpaudit's."
    )


def _refusals(tools: dict[str, Any]) -> list[list[str]]:
    """Rows by case; a tool without it has no such thing as a release that is drawn once."""
    known = {tool: r.refused for tool, r in tools.items() if isinstance(r, Result)}
    cases = list(known["dpaudit"])
    words = {True: "refused", False: "allowed", None: "a new draw, of new budget"}
    rows = [["asked for", *(TITLES[tool] for tool in known)]]
    return rows + [[case, *(words[r.get(case)] for r in known.values())] for case in cases]


def _table(rows: list[list[str]]) -> list[str]:
    head, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *rest]


# --- scale ----------------------------------------------------------------------------------------

KEYS = tuple(f"r{i}" for i in range(10))
EDGES = range(20_000, 1_000_000, 20_000)
AT = ("1/4", "1/2", "3/4")
PART = 10_000_000  # people that are made up at once
SQL = (
    *(f"SELECT count(*) FROM t WHERE income >= {1000 * i}" for i in range(10)),  # noqa: S608
    f"SELECT region, least(income // 20000, {len(EDGES)}) AS bin, count(*) FROM t GROUP BY ALL",  # noqa: S608
    f"SELECT quantile_disc(income, [{', '.join(AT)}]) FROM t",  # noqa: S608
)


@dataclass(frozen=True)
class Took:
    """What a task took: seconds by the clock, and of processors."""

    clock: float
    processor: float


@dataclass(frozen=True)
class Scaled:
    """Rows, their order, and what the queries took with privacy and without."""

    rows: int
    order: str
    private: Took
    plain: Took


def timed(act: Callable[[], Any]) -> Took:
    """Runs it."""
    clock, processor = time.monotonic(), time.process_time()
    act()
    return Took(time.monotonic() - clock, time.process_time() - processor)


def large(path: Path, rows: int, order: str) -> None:
    """People in a Parquet file, household by household or in any order."""
    writer: Any = None
    for part in range(-(-rows // PART)):
        table = population(min(PART, rows - part * PART), seed=1 + part)
        homes = pa.array(table["home"].to_numpy() + part * PART)
        table = table.set_column(0, "home", homes)
        if order == SHUFFLED:
            table = table.take(np.random.default_rng(part).permutation(len(table)))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def release_of_scale() -> Release:
    """Ten counts, a cross-tabulation of 10 by 50, and three quantiles; four people a household."""
    columns = {"region": Category(KEYS), "income": Number(0, 1_000_000, 1000)}
    schema = Schema("people", columns, unit="home", entity="household", rows=4)
    items = [
        Count(name=f"c{i}", where={"income": {"from": 1000 * i, "to": 1_000_000}})
        for i in range(10)
    ]
    items.append(Count(name="table", by=("region", "income"), edges={"income": tuple(EDGES)}))
    items.append(Quantiles(name="q", column="income", at=AT))
    return Release("Large", schema, "add_remove", BUDGET, tuple(items))


def scaled(rows: int, path: Path, order: str) -> Scaled:
    """The queries privately, and in plain SQL, each statement as one would write it.

    Privately: the values that the schema calls errors are looked for, every unit is bounded, all is
    summed exactly, and noise is drawn; the plan's noise, found without data, is not timed.  Medians
    of rounds in which one comes after the other.
    """
    plan = release_of_scale().plan()

    def private() -> None:
        table = Table(plan.release.schema, path).opened(plan.release.digest)
        table.check()
        published_rows(plan, draw(plan, exact_values(plan.release, table)))

    def plain() -> None:
        with duckdb.connect() as opened:
            opened.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{path}')")  # noqa: S608
            for query in SQL:
                opened.execute(query).fetchall()

    with duckdb.connect() as opened:  # neither finds the file on disk, and the other in memory
        opened.execute(f"SELECT max(COLUMNS(*)) FROM read_parquet('{path}')")  # noqa: S608
    rounds = [(timed(private), timed(plain)) for _ in range(ROUNDS)]
    return Scaled(rows, order, *map(_median, zip(*rounds, strict=True)))


def _median(took: Sequence[Took]) -> Took:
    return Took(median(t.clock for t in took), median(t.processor for t in took))


def scaled_of(rows: int, order: str) -> Any:
    """Seconds with privacy and without, and the ratios by the clock and of processors, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        large(path, rows, order)
        took = scaled(rows, path, order)
    return {
        "rows": rows,
        "order": order,
        "clock": [round(took.private.clock, 1), round(took.plain.clock, 1)],
        "ratios": [
            round(took.private.clock / took.plain.clock, 2),
            round(took.private.processor / took.plain.processor, 2),
        ],
    }


KINDS = ("count", "cross-tabulation", "quantile")


def opendp_of(rows: int, python: str) -> Any:
    """OpenDP's median seconds of each kind of query, and of all; a text says why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        large(path, rows, SORTED)
        asked = opendp_scaled(python, path)
    if isinstance(asked, str):
        return asked
    if failed := [query["error"] for query in asked if query["error"]]:
        return failed[0]
    took = {kind: [q["seconds"] for q in asked if q["query"] == kind] for kind in KINDS}
    if len(asked) < len(SQL) - 1 + len(AT):
        return f"{len(asked)} queries within {LIMIT} s"
    seconds = {f"a {kind}": round(median(times), 1) for kind, times in took.items()}
    return {**seconds, "all": round(sum(map(sum, took.values())))}


def scale_lines(parts: Mapping[str, Any]) -> list[str]:
    """Rows of the table of scale, from results named "rows, order" and "rows, opendp"."""
    queries = {int(n.split()[0]): row for n, row in parts.items() if n.endswith("opendp")}
    rows = [["rows", "order", "with privacy", "plain SQL", "ratio", "processor time, ratio"]]
    for name, row in parts.items():
        if not name.endswith("opendp"):
            private, plain = row["clock"]
            ratios = [f"{ratio:.2f}" for ratio in row["ratios"]]
            times = [f"{private:.1f} s", f"{plain:.1f} s", *ratios]
            rows.append([f"{row['rows']:,}", row["order"], *times])
    lines = [
        "Ten counts, a cross-tabulation of 10 by 50 cells and three quantiles of people in a "
        "Parquet file, at most four of a household, by DuckDB on two processors. With privacy: the "
        "table is searched for errors, households are bounded, noise is drawn. Plain SQL: the same "
        f"queries of all people, one statement each. Medians of {ROUNDS} alternating rounds, on a "
        "machine that does other work too.",
        "",
        *_table(rows),
    ]
    return [*lines, *_opendp_scale(queries)]


def _opendp_scale(queries: Mapping[int, Mapping[str, float]]) -> list[str]:
    if not queries:
        return []
    columns = [*(f"a {kind}" for kind in KINDS), "all"]
    rows = [["rows", *columns]]
    rows += [[f"{n:,}", *(f"{row[c]:g} s" for c in columns)] for n, row in queries.items()]
    return [
        "",
        "OpenDP's Polars interface: the same queries of a scanned Parquet file, the household as "
        "identifier, `truncate_per_group(4)`, `with_keys`.",
        "",
        *_table(rows),
    ]


def opendp_scaled(python: str, path: Path) -> list[dict[str, Any]] | str:
    """What each query took, as far as time allowed."""
    asked = [python, str(HERE / "release_opendp.py"), str(path), "scale", repr(largest_rho())]
    try:
        run = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=LIMIT)
        told, failed = run.stdout, run.returncode
    except subprocess.TimeoutExpired as late:
        told, failed = (late.stdout or b"").decode(), 0
    if failed:
        return (run.stderr.strip().splitlines() or ["failed"])[-1][:200]
    return [json.loads(line) for line in told.splitlines()]

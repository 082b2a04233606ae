"""The nine items of ``benchmarks.nine`` by another tool; prints a line of JSON for each draw.

Run by an interpreter that has the tool: ``python nine_others.py TOOL DATA.csv RHO DRAWS``.
Each function is what an analyst writes: its lines are counted, without ``def`` and docstring.
Numbers of groups are in the order of their keys.  An item that a tool does not have is left out.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from inspect import getsource
from pathlib import Path
from typing import Any

SEXES, REGIONS = ["f", "m"], [f"r{i}" for i in range(10)]
Drawn = dict[str, Any]


def opendp(path: str, rho: float) -> Drawn:
    """By the context interface, over zero-concentrated privacy."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_csv(path),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=8,
        margins=[
            dp.polars.Margin(max_length=1_000_000),
            dp.polars.Margin(by=["sex"], max_length=1_000_000, invariant="keys"),
            dp.polars.Margin(by=["region"], max_length=1_000_000, invariant="keys"),
            dp.polars.Margin(by=["sex", "region"], max_length=1_000_000, invariant="keys"),
        ],
    )
    age, income = pl.col.age.fill_null(0), pl.col.income.fill_null(0)
    queries = {
        "count": context.query().select(dp.len()),
        "by sex": context.query().group_by("sex").agg(dp.len()),
        "by region": context.query().group_by("region").agg(dp.len()),
        "by both": context.query().group_by("sex", "region").agg(dp.len()),
        "sum": context.query().select(income.dp.sum((0, 100_000))),
        "mean": context.query().select(age.dp.mean((0, 100))),
        "mean by sex": context.query().group_by("sex").agg(income.dp.mean((0, 100_000))),
        "quantile": context.query().select(income.dp.quantile(0.5, list(range(100_001)))),
    }
    frames = {name: query.release().collect() for name, query in queries.items()}
    keys = {name: [c for c in ("sex", "region") if c in f.columns] for name, f in frames.items()}
    return {n: f.sort(keys[n])[:, -1].to_list() if keys[n] else f[:, -1].to_list()
            for n, f in frames.items()}  # fmt: skip


def tumult(path: str, rho: float) -> Drawn:
    """By a session, over zero-concentrated privacy."""
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, KeySet, QueryBuilder, RhoZCDPBudget, Session

    rows = SparkSession.builder.getOrCreate().read.csv(path, header=True, inferSchema=True)
    session = Session.from_dataframe(
        RhoZCDPBudget(rho), "people", rows, protected_change=AddOneRow()
    )
    sexes, regions = KeySet.from_dict({"sex": SEXES}), KeySet.from_dict({"region": REGIONS})
    people = QueryBuilder("people")
    queries = {
        "count": people.count(),
        "by sex": people.groupby(sexes).count(),
        "by region": people.groupby(regions).count(),
        "by both": people.groupby(sexes * regions).count(),
        "sum": people.sum("income", 0, 100_000),
        "mean": people.average("age", 0, 100),
        "mean by sex": people.groupby(sexes).average("income", 0, 100_000),
        "variance": people.variance("age", 0, 100),
        "quantile": people.median("income", 0, 100_000),
    }
    found = {}
    for name, query in queries.items():
        frame = session.evaluate(query, RhoZCDPBudget(rho / len(queries))).toPandas()
        keys = [column for column in ("sex", "region") if column in frame]
        found[name] = list((frame.sort_values(keys) if keys else frame).iloc[:, -1])
    return found


def smartnoise(path: str, _: float) -> Drawn:
    """By its SQL reader, over pure privacy; a mean costs two numbers, a variance three."""
    import pandas as pd
    from snsql import Privacy, from_df

    table = {
        "row_privacy": True, "rows": 50_000, "censor_dims": False,
        "sex": {"type": "string"}, "region": {"type": "string"},
        "age": {"type": "int", "lower": 0, "upper": 100},
        "income": {"type": "int", "lower": 0, "upper": 100_000},
    }  # fmt: skip
    queries = {
        "count": ("SELECT COUNT(*) FROM people", 1),
        "by sex": ("SELECT sex, COUNT(*) FROM people GROUP BY sex", 1),
        "by region": ("SELECT region, COUNT(*) FROM people GROUP BY region", 1),
        "by both": ("SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region", 1),
        "sum": ("SELECT SUM(income) FROM people", 1),
        "mean": ("SELECT AVG(age) FROM people", 2),
        "mean by sex": ("SELECT sex, AVG(income) FROM people GROUP BY sex", 2),
        "variance": ("SELECT VAR(age) FROM people", 3),
    }
    rows, found = pd.read_csv(path), {}
    for name, (query, numbers) in queries.items():
        privacy = Privacy(epsilon=1 / len(queries) / numbers, delta=1e-7)
        reader = from_df(rows, privacy=privacy, metadata={"": {"": {"people": table}}})
        found[name] = [row[-1] for row in sorted(reader.execute(query)[1:])]
    return found


def diffprivlib(path: str, _: float) -> Drawn:
    """By its tools, over pure privacy; means and variances take the number of rows for public."""
    import pandas as pd
    from diffprivlib import tools

    rows, epsilon = pd.read_csv(path), 1 / 9
    sex, region = rows.sex.map(SEXES.index), rows.region.map(REGIONS.index)

    def counts(codes: Any, size: int) -> list[float]:
        return list(tools.histogram(codes, epsilon, bins=size, range=(-0.5, size - 0.5))[0])

    return {
        "count": counts(0 * sex, 1),
        "by sex": counts(sex, 2),
        "by region": counts(region, 10),
        "by both": counts(10 * sex + region, 20),
        "sum": [tools.sum(rows.income, epsilon, bounds=(0, 100_000))],
        "mean": [tools.mean(rows.age, epsilon, bounds=(0, 100))],
        "mean by sex": [
            tools.mean(rows.income[sex == code], epsilon, bounds=(0, 100_000)) for code in (0, 1)
        ],
        "variance": [tools.var(rows.age, epsilon, bounds=(0, 100))],
        "quantile": [tools.quantile(rows.income, 0.5, epsilon, bounds=(0, 100_000))],
    }


TOOLS: dict[str, tuple[Callable[[str, float], Drawn], str]] = {
    "opendp": (opendp, "opendp"),
    "tumult": (tumult, "tmlt.analytics"),
    "smartnoise": (smartnoise, "smartnoise-sql"),
    "diffprivlib": (diffprivlib, "diffprivlib"),
}


def processor() -> float:
    """Processor seconds of this session's processes so far; Spark computes in one of its own."""
    ticks, own = 0, os.getsid(0)
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = process.read_text("utf-8").rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        ticks += sum(map(int, fields[11:15])) * (int(fields[3]) == own)
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """A line for each draw, with its seconds; the version and the lines of code in each."""
    tool, path, rho, draws = sys.argv[1:]
    draw, package = TOOLS[tool]
    if tool == "tumult":
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.shuffle.partitions", "2")
        builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp()).getOrCreate()
    lines = len(getsource(draw).splitlines()) - 2
    for _ in range(int(draws)):
        started = processor()
        found = draw(path, float(rho))
        values = {name: [float(v) for v in numbers] for name, numbers in found.items()}
        row = {"values": values, "seconds": processor() - started, "lines": lines}
        sys.stdout.write("\n" + json.dumps({**row, "version": version(package)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

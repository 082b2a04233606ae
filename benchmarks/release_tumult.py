"""The releases of ``benchmarks.release`` by Tumult Analytics; prints JSON on its last line.

Run by an interpreter that has it: ``python release_tumult.py DATA.parquet NAME RHO``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    KeySet,
    MaxRowsPerID,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)


def doctors(spark: Any, path: str, rho: float) -> tuple[Any, list[Any]]:
    """Visits by insurance plan."""
    session = Session.from_dataframe(
        RhoZCDPBudget(rho), "t", spark.read.parquet(path), protected_change=AddOneRow()
    )
    plans = KeySet.from_dict({"plan": ["free", "coinsurance"]})
    return session, [
        QueryBuilder("t").count(),
        QueryBuilder("t").groupby(plans).count(),
        QueryBuilder("t").sum("visits", 0, 77),
    ]


def people(spark: Any, path: str, rho: float) -> tuple[Any, list[Any]]:
    """Incomes by region, of households."""
    session = Session.from_dataframe(
        RhoZCDPBudget(rho), "t", spark.read.parquet(path), protected_change=AddRowsWithID("home")
    )
    table = QueryBuilder("t").enforce(MaxRowsPerID(4))
    regions = KeySet.from_dict({"region": [f"r{i}" for i in range(10)]})
    return session, [
        table.count(),
        table.groupby(regions).count(),
        table.sum("income", 0, 100_000),
    ]


def refusals(spark: Any, path: str, rho: float) -> dict[str, bool]:
    """Whether what should not be done is refused."""
    session = Session.from_dataframe(
        RhoZCDPBudget(rho), "t", spark.read.parquet(path), protected_change=AddOneRow()
    )
    value = spark.read.parquet(path).columns[-1]
    whole, rest = RhoZCDPBudget(rho), RhoZCDPBudget(rho / 2)
    table: Any = QueryBuilder("t")
    found = {
        "unknown keys without delta": refused(
            lambda: session.evaluate(table.groupby(table.get_groups([value])).count(), rest)
        ),
        "a sum without bounds": refused(lambda: session.evaluate(table.sum(value), rest)),
    }
    session.evaluate(table.count(), whole)
    return {**found, "more than the budget": refused(lambda: session.evaluate(table.count(), rest))}


def refused(act: Callable[[], Any]) -> bool:
    """Whether it raises."""
    try:
        act()
    except Exception:  # noqa: BLE001  (whatever a library raises is its refusal)
        return True
    return False


def main() -> None:
    """Print the standard deviation of every release's noise, and that each runs."""
    path, name, rho = sys.argv[1:]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    # Tumult materialises tables in the warehouse, which is the working directory otherwise.
    spark = builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp()).getOrCreate()
    session, queries = {"doctors": doctors, "people": people}[name](spark, path, float(rho))
    rows = []
    for query in queries:
        part = RhoZCDPBudget(float(rho) / len(queries))
        (info,) = session._noise_info(query, part)
        session.evaluate(query, part).collect()
        # Of discrete Gaussian noise they give the variance.
        rows.append({"noise": str(info["noise_mechanism"]), "parameter": info["noise_parameter"]})
    text = Path(__file__).read_text("utf-8")
    body = text.partition(f"def {name}")[2].partition("\n\n\n")[0]
    told = refusals(spark, path, float(rho))
    found = {"rows": rows, "lines": len(body.splitlines()) - 2, "refused": told}
    sys.stdout.write("\n" + json.dumps({**found, "version": version("tmlt.analytics")}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()

"""The releases of ``benchmarks.release`` by OpenDP's context interface; prints JSON.

Run by an interpreter that has OpenDP: ``python release_opendp.py DATA.parquet NAME RHO``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def doctors(path: str, rho: float) -> list[Any]:
    """Visits by insurance plan."""
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=3,
        margins=[
            dp.polars.Margin(max_length=1_000_000),
            dp.polars.Margin(by=["plan"], invariant="keys"),
        ],
    )
    return [
        context.query().select(dp.len()),
        context.query().group_by("plan").agg(dp.len()),
        context.query().select(pl.col.visits.fill_null(0).dp.sum((0, 77))),
    ]


def people(path: str, rho: float) -> list[Any]:
    """Incomes by region; a household is declared to have four rows at most."""
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=4),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=3,
        margins=[
            dp.polars.Margin(max_length=10_000_000),
            dp.polars.Margin(by=["region"], invariant="keys"),
        ],
    )
    return [
        context.query().select(dp.len()),
        context.query().group_by("region").agg(dp.len()),
        context.query().select(pl.col.income.fill_null(0).dp.sum((0, 100_000))),
    ]


def scale(path: str, rho: float) -> None:
    """The queries of ``benchmarks.release`` at scale; a line of JSON each, as soon as it is done.

    The household is the identifier, and four of its rows count; keys are public.
    """
    regions, labels = [f"r{i}" for i in range(10)], [str(i) for i in range(50)]
    bins = pl.DataFrame({"bin": pl.Series(labels, dtype=pl.Categorical)})
    keys = pl.DataFrame({"region": regions}).join(bins, how="cross").lazy()
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("home")),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=14,
        margins=[dp.polars.Margin(max_length=1_000_000_000)],
    )

    def rows() -> Any:
        return context.query().truncate_per_group(4)

    def count(least: int) -> Any:
        return rows().filter(pl.col.income >= least).select(dp.len(signed=True))

    def table() -> Any:
        cut = pl.col.income.cut(range(20_000, 1_000_000, 20_000), labels=labels)
        grouped = rows().with_columns(bin=cut).group_by("region", "bin")
        return grouped.agg(dp.len(signed=True)).with_keys(keys)

    def quantile(at: float) -> Any:
        grid = list(range(0, 1_000_001, 1000))
        return rows().select(pl.col.income.fill_null(0).dp.quantile(at, grid))

    queries: list[tuple[str, Callable[[], Any]]] = [
        ("cross-tabulation", table),
        *(("quantile", partial(quantile, at)) for at in (0.25, 0.5, 0.75)),
        *(("count", partial(count, 1000 * i)) for i in range(10)),
    ]
    for kind, query in queries:
        started, error = time.monotonic(), ""
        try:
            query().release().collect()
        except Exception as failed:  # noqa: BLE001  (whatever it is, the page says so)
            error = str(failed).splitlines()[0][:120]
        took = time.monotonic() - started
        print(json.dumps({"query": kind, "seconds": took, "error": error}), flush=True)


def refusals(path: str, rho: float) -> dict[str, bool]:
    """Whether what should not be done is refused."""
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=1_000_000)],
    )
    value = pl.scan_parquet(path).collect_schema().names()[-1]

    def keys() -> None:
        context.query().group_by(value).agg(dp.len()).release().collect()

    def bounds() -> None:
        context.query().select(pl.col(value).dp.sum()).release().collect()

    def count() -> None:
        context.query().select(dp.len()).release().collect()

    found = {"unknown keys without delta": refused(keys), "a sum without bounds": refused(bounds)}
    count()
    return {**found, "more than the budget": refused(count)}


def refused(act: Callable[[], None]) -> bool:
    """Whether it raises."""
    try:
        act()
    except Exception:  # noqa: BLE001  (whatever a library raises is its refusal)
        return True
    return False


def main() -> None:
    """Print the standard deviation of every release's noise, and that each runs."""
    path, name, rho = sys.argv[1:]
    if name == "scale":
        scale(path, float(rho))
        return
    factors = {"Gaussian": 1.0, "Laplace": 2**0.5}
    rows = []
    for query in {"doctors": doctors, "people": people}[name](path, float(rho)):
        (row,) = query.summarize().to_dicts()
        query.release().collect()
        kind = str(row["distribution"])
        rows.append({"noise": kind, "deviation": factors[kind.split()[-1]] * row["scale"]})
    text = Path(__file__).read_text("utf-8")
    body = text.partition(f"def {name}")[2].partition("\n\n\n")[0]
    version = dp.__version__ if hasattr(dp, "__version__") else ""
    lines, told = len(body.splitlines()) - 2, refusals(path, float(rho))
    json.dump({"rows": rows, "lines": lines, "version": version, "refused": told}, sys.stdout)


if __name__ == "__main__":
    main()

"""Where a table's rows come from: frames that narwhals reads, DuckDB relations, CSV and Parquet.

A source is opened in one DuckDB connection, or, for Dask and PySpark, in one for each partition,
after all rows of a unit were brought into one partition.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.errors import InvalidParameter

VIEW = "dpaudit_source"
SMALL = 100_000  # rows
_KEPT = threading.local()


@dataclass(frozen=True)
class Source:
    """Rows, opened as the view ``VIEW`` of a DuckDB connection.

    ``texts``: whether every value is text (CSV), so that a number has yet to be read.
    ``parts``: connections in turn, whose totals are added; all rows of a unit are in one of them.
    """

    texts: bool
    parts: Callable[[], Iterator[Any]]


def open_source(data: Any, unit: str | None) -> Source:
    """The source of a path (``.csv``, ``.parquet``), a frame or a relation.

    CSV columns are read as text: no type is guessed from the rows.
    Errors: InvalidParameter for a file that is not there or of another kind, and for an object that
    narwhals does not know.
    """
    if isinstance(data, str | Path):
        return _file(Path(data))
    if type(data).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        return _arrow(data.to_arrow_table)
    return _frame(data, unit)


def _file(path: Path) -> Source:
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise InvalidParameter(f"{path}: expected a .csv or .parquet file")
    if not path.is_file():
        raise InvalidParameter(f"{path}: no such file")
    quoted = str(path).replace("'", "''")
    reader = (
        f"read_csv('{quoted}', all_varchar = true, header = true)"
        if kind == ".csv"
        else f"read_parquet('{quoted}')"
    )

    def parts() -> Iterator[Any]:
        with connection() as opened:
            opened.execute(f"CREATE VIEW {VIEW} AS SELECT * FROM {reader}")
            yield opened

    return Source(kind == ".csv", parts)


def _arrow(table: Callable[[], Any]) -> Source:
    def parts() -> Iterator[Any]:
        yield from _opened(table())

    return Source(False, parts)


def _frame(data: Any, unit: str | None) -> Source:
    import narwhals as nw

    try:
        frame = nw.from_native(data)
    except TypeError:
        raise InvalidParameter(
            f"a {type(data).__name__} is no table; expected a frame that narwhals reads, a DuckDB "
            "relation, or a .csv or .parquet file"
        ) from None
    name = str(frame.implementation.name).lower()
    if name == "dask":
        return _dask(nw.to_native(frame), unit)
    if name.startswith("pyspark"):
        return _pyspark(nw.to_native(frame), unit)
    if isinstance(frame, nw.LazyFrame):
        return _arrow(lambda: frame.collect(backend="pyarrow").to_arrow())
    return _arrow(frame.to_arrow)


def _dask(frame: Any, unit: str | None) -> Source:
    """Each partition as a pandas frame, after a shuffle by unit."""

    def parts() -> Iterator[Any]:
        shuffled = frame if unit is None else frame.shuffle(on=unit)
        for delayed in shuffled.to_delayed():
            yield from _opened(delayed.compute())

    return Source(False, parts)


def _pyspark(frame: Any, unit: str | None) -> Source:
    """All rows as Arrow, grouped by unit: PySpark itself brings them to the driver."""

    def parts() -> Iterator[Any]:
        shuffled = frame if unit is None else frame.repartition(unit)
        yield from _opened(shuffled.toArrow())

    return Source(False, parts)


def _opened(table: Any) -> Iterator[Any]:
    if len(table) <= SMALL:
        yield from _reopened(table)
        return
    with connection() as opened:
        opened.register(VIEW, table)
        yield opened


def _reopened(table: Any) -> Iterator[Any]:
    """A small table in a connection of this thread that is used again: opening one takes longer."""
    known = _KEPT.__dict__
    if known.get("process") != os.getpid():
        known.update(process=os.getpid(), connection=None)
    # One that is in use, inside another table's totals, is left alone.
    opened, known["connection"] = known.get("connection"), None
    if opened is None:
        opened = _connected()
    opened.register(VIEW, table)
    try:
        yield opened
    finally:
        for kept in ("coded", "many"):
            opened.execute(f"DROP TABLE IF EXISTS dpaudit_{kept}")
        opened.unregister(VIEW)
        known["connection"] = opened


@atexit.register
def _close() -> None:
    """DuckDB complains of a connection that outlives the interpreter."""
    opened = _KEPT.__dict__.pop("connection", None)
    if opened is not None and _KEPT.__dict__.get("process") == os.getpid():
        opened.close()


@contextmanager
def connection() -> Iterator[Any]:
    """A DuckDB connection of its own, in memory."""
    opened = _connected()
    try:
        yield opened
    finally:
        opened.close()


def _connected() -> Any:
    import duckdb

    opened = duckdb.connect(":memory:")
    opened.execute("SET preserve_insertion_order = false")
    return opened

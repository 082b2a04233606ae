"""A part of a private table as the engine asks it: a DuckDB connection with the part's rows.

An attack asks the same queries of hundreds of made-up tables.  DuckDB takes milliseconds to plan
each and hardly any to run it, so that plans are kept for tables of one kind.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

VIEW, KEPT = "dpaudit_source", "dpaudit_kept"
SMALL = 10_000  # rows, of which a query takes less time than its plan
MOST_PLANNED = 100  # queries whose plans are kept
MOST_GONE = 100_000  # deleted rows of the kept table, which DuckDB goes on to read
# DuckDB's types, by what a schema can read of them.
WHOLE = ("TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT")
INTEGERS = (*WHOLE, "UBIGINT", "HUGEINT", "UHUGEINT")  # all its types of whole numbers
UNTYPED = ("VARCHAR", '"NULL"')  # its types of columns that a reader converts
NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL", *UNTYPED)  # its types that hold numbers
# Its types that hold dates.
DATES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
TEXTS = (*NUMBERS, "BOOLEAN", "ENUM", "DATE", "UUID")  # its types that can be compared as texts
_THREADS = threading.local()


def arrow_texts(texts: Sequence[str | None]) -> Any:
    """An Arrow column of texts, None where one is missing.

    Arrow's own ``array`` imports pandas, which takes .3 s, as :func:`arrow_numbers` does not.
    """
    from pyarrow.lib import StringBuilder

    builder = StringBuilder()
    builder.append_values(texts)
    return builder.finish()


def arrow_numbers(
    numbers: Sequence[float | None] | NDArray[Any], kind: type[np.number[Any]]
) -> Any:
    """An Arrow column of numbers of a kind, None where one is missing."""
    import pyarrow as pa

    values, present = np.array(numbers, dtype=kind), None
    if not isinstance(numbers, np.ndarray):
        bits = np.array([number is not None for number in numbers], dtype=np.bool_)
        present = pa.py_buffer(np.packbits(bits, bitorder="little"))
    buffers = [present, pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def _empty(table: Any) -> Any:
    """A table of the same columns without rows; ``empty_table`` would import pandas."""
    import pyarrow as pa

    return pa.Table.from_batches([], schema=table.schema)


class Part:
    """A connection in which ``VIEW`` has the part's rows; ``KEPT`` those that count."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def execute(self, query: str) -> Any:
        """The answer of a query, to be fetched."""
        return self._opened.execute(query)

    def table(self, query: str) -> Any:
        """The answer of a query, as an Arrow table."""
        return self._opened.sql(query).to_arrow_table()

    def register(self, name: str, table: Any) -> None:
        """A table by a name, until the connection is closed."""
        self._opened.register(name, table)

    def rows(self, queries: Sequence[tuple[str, int]]) -> list[list[tuple[Any, ...]]]:
        """All rows of each query, whose columns are a whole number and so many sums."""
        return [self.execute(query).fetchall() for query, _ in queries]

    def keep(self, query: str) -> None:
        """Make ``KEPT`` anew of a query's rows."""
        self._opened.execute(f"CREATE OR REPLACE TABLE {KEPT} AS {query}").fetchall()

    @contextmanager
    def tables(self, tables: Mapping[str, Any]) -> Iterator[None]:
        """Other tables that queries join meanwhile."""
        for name, table in tables.items():
            self._opened.register(name, table)
        try:
            yield
        finally:
            for name in tables:
                self._opened.unregister(name)


class _Shown:
    """An Arrow table that DuckDB reads anew with each query; another may take its place."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class _Planned(Part):
    """A connection for small tables with columns of the same types, one after the other.

    Each query is planned once, until another table takes the place of one that it joins.
    """

    def __init__(self, table: Any) -> None:
        super().__init__(_connected())
        self._opened.execute("SET threads = 1")
        self.empty = _empty(table)
        self._rows = _Shown(self.empty)
        self._opened.register(VIEW, self._rows)
        self._plans: dict[str, str] = {}
        self._joined: dict[str, _Shown] = {}
        self._kept, self._gone, self._held = "", 0, 0

    def fits(self, table: Any) -> bool:
        """Whether the plans are those of a table's types."""
        return bool(self.empty.schema.equals(table.schema))

    def show(self, table: Any) -> None:
        """Let ``VIEW`` be these rows, and nothing be kept of those before."""
        self._rows.table = table
        self._clear()

    def execute(self, query: str) -> Any:
        if query not in self._plans:
            if len(self._plans) >= MOST_PLANNED:
                self._forget()
            name = f"dpaudit_plan{len(self._plans)}"
            self._opened.execute(f"PREPARE {name} AS {query}")
            self._plans[query] = name
        return self._opened.execute(f"EXECUTE {self._plans[query]}")

    def rows(self, queries: Sequence[tuple[str, int]]) -> list[list[tuple[Any, ...]]]:
        most = max((size for _, size in queries), default=0)
        asked = []
        for place, (query, size) in enumerate(queries):
            names = [f"s{k}" for k in range(size)]
            sums = [f"{name}::HUGEINT" for name in names] + ["NULL"] * (most - size)
            read = f"SELECT {place}, {', '.join(['g', *sums])}"
            asked.append(f"{read} FROM ({query}) AS t({', '.join(['g', *names])})")
        rows_of_queries: list[list[tuple[Any, ...]]] = [[] for _ in queries]
        if queries:
            for place, *row in self.execute(" UNION ALL ".join(asked)).fetchall():
                rows_of_queries[place].append(tuple(row[: 1 + queries[place][1]]))
        return rows_of_queries

    def keep(self, query: str) -> None:
        if query != self._kept or self._gone > MOST_GONE:
            self._forget()
            super().keep(query)
            self._kept, self._gone, self._held = query, 0, 1
            return
        self._clear()
        ((self._held,),) = self.execute(f"INSERT INTO {KEPT} {query}").fetchall()
        self._gone += self._held

    def _clear(self) -> None:
        if self._held:
            self._opened.execute(f"DELETE FROM {KEPT}")
            self._held = 0

    @contextmanager
    def tables(self, tables: Mapping[str, Any]) -> Iterator[None]:
        for name, table in tables.items():
            shown_table = self._joined.get(name)
            if shown_table is None or not shown_table.table.schema.equals(table.schema):
                self._forget()
                self._joined[name] = _Shown(table)
                self._opened.register(name, self._joined[name])
            else:
                shown_table.table = table
        try:
            yield
        finally:
            for name in tables:
                self._joined[name].table = _empty(tables[name])

    def _forget(self) -> None:
        for name in self._plans.values():
            self._opened.execute(f"DEALLOCATE {name}")
        self._plans.clear()

    def close(self) -> None:
        """Close the connection."""
        self._opened.close()


@contextmanager
def shown(table: Any) -> Iterator[Part]:
    """An Arrow table; a small one in this thread's connection for tables of its types."""
    if len(table) > SMALL:
        with connection() as part:
            part.register(VIEW, table)
            yield part
        return
    of_thread = _THREADS.__dict__
    if of_thread.get("process") != os.getpid():
        of_thread.update(process=os.getpid(), part=None)
    # One that is in use, inside another table's totals, is left alone.
    planned, of_thread["part"] = of_thread.get("part"), None
    if planned is None or not planned.fits(table):
        if planned is not None:
            planned.close()
        planned = _Planned(table)
    planned.show(table)
    try:
        yield planned
    finally:
        planned.show(planned.empty)
        of_thread["part"] = planned


@atexit.register
def _close() -> None:
    """DuckDB complains of a connection that outlives the interpreter."""
    part = _THREADS.__dict__.pop("part", None)
    if part is not None and _THREADS.__dict__.get("process") == os.getpid():
        part.close()


@contextmanager
def connection() -> Iterator[Part]:
    """A DuckDB connection of its own, in memory.

    Data that do not fit into memory go to a temporary folder below ``TMPDIR``, which only its user
    can read.
    """
    with tempfile.TemporaryDirectory(prefix="dpaudit-") as folder:
        opened = _connected()
        try:
            opened.execute("SET temp_directory = $folder", {"folder": folder})
            yield Part(opened)
        finally:
            opened.close()


def _connected() -> Any:
    import duckdb

    opened = duckdb.connect(":memory:")
    opened.execute("SET preserve_insertion_order = false")
    opened.execute("SET enable_progress_bar = false")  # it would be printed among our own lines
    # Least and largest values that a Parquet file states leave out NaN: by them none would be one.
    opened.execute("SET disabled_optimizers = 'statistics_propagation'")
    return opened

"""Queries of a SQL engine as mechanisms: the data sets are two databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpaudit.audit.blackbox.foreign import (
    SEED_BITS,
    TIME_LIMIT,
    Foreign,
    ProgramFailed,
    Unanswered,
    as_array,
    deadline,
)
from dpaudit.errors import InvalidParameter, optional

_PARAMETER = re.compile(r"(?<![:\w]):(size|seed)\b")


@dataclass(frozen=True, eq=False)
class Database(Foreign):
    """A query that draws.  Its data sets are databases: a DuckDB file, or a SQLAlchemy URL.

    ``query``: one statement; ``:size`` and ``:seed`` stand for the number of outputs and the seed.
    It returns a row an output; without ``:size`` it is run once an output, and returns one row.
    DuckDB and PostgreSQL are seeded with setseed before it; DuckDB reads files only.

    Errors: InvalidParameter for a query without text, or where a library is missing.
    """

    query: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.query.strip():
            raise InvalidParameter("query: expected a SQL statement, found no text")

    @property
    def code(self) -> str:
        limit = "" if self.time_limit == TIME_LIMIT else f", time_limit={self.time_limit!r}"
        return f"__import__('dpaudit').audit.Database({self.query!r}{limit})"

    def _asked(self, data: Any, size: int, seed: int) -> Any:
        """Run the query under the seed, once or once an output, and return its rows as an array."""
        if not isinstance(data, str):
            raise InvalidParameter(
                "data: a query's data sets are databases; give the path of a DuckDB file or a "
                "SQLAlchemy URL"
            )
        named = set(_PARAMETER.findall(self.query))
        values = {name: {"size": size, "seed": seed}[name] for name in named}
        with _opened(data) as (run, seeds, stop, raised):
            try:
                with deadline(self.time_limit, stop) as late:
                    seeds(2 * seed / 2**SEED_BITS - 1)
                    times = 1 if "size" in named else size
                    rows = [row for _ in range(times) for row in run(self.query, values)]
            except raised as error:
                if late.is_set():
                    raise Unanswered(
                        f"the query did not answer within {self.time_limit:g} seconds for {size} "
                        "outputs; give it more time (time_limit=)"
                    ) from None
                raise ProgramFailed(f"the engine raised {type(error).__name__}") from None
        if len(rows) != size:
            raise Unanswered(
                f"the query gave {len(rows)} of {size} outputs: it returns :size rows, or one row "
                "where it does not use :size"
            )
        return as_array([[_plain(cell) for cell in row] for row in rows])


Run = Callable[[str, Mapping[str, int]], list[Any]]
Opened = tuple[Run, Callable[[float], None], Callable[[], None], type[Exception]]


@contextmanager
def _opened(name: str) -> Iterator[Opened]:
    """How to query a database, to seed it, to stop it, and which errors are the engine's."""
    if "://" in name and not name.startswith("duckdb:///"):
        with _engine(name) as opened:
            yield opened
    else:
        with _file(name.removeprefix("duckdb:///")) as opened:
            yield opened


@contextmanager
def _file(path: str) -> Iterator[Opened]:
    """A DuckDB file, opened for reading on one thread, so that a seed gives the same rows."""
    with optional("tables", "queries of DuckDB files"):
        import duckdb
    if not Path(path).is_file():
        raise InvalidParameter(f"data: there is no DuckDB file {path!r}")
    try:
        connection = duckdb.connect(path, read_only=True, config={"threads": 1})
    except duckdb.Error:
        raise InvalidParameter(f"data: {path!r} is no DuckDB file that can be read") from None

    def run(query: str, values: Mapping[str, int]) -> list[Any]:
        return connection.execute(_PARAMETER.sub(r"$\1", query), dict(values)).fetchall()

    def seeds(number: float) -> None:
        connection.execute(f"SELECT setseed({number!r})")

    try:
        yield run, seeds, connection.interrupt, duckdb.Error
    finally:
        connection.close()


@contextmanager
def _engine(url: str) -> Iterator[Opened]:
    """A database of a SQLAlchemy URL; whatever the query writes is rolled back."""
    with optional("ledger", "queries of SQLAlchemy databases"):
        import sqlalchemy
    from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

    try:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
        connection = engine.connect()
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise InvalidParameter(
            f"data: {type(error).__name__}: expected a SQLAlchemy URL whose driver is installed"
        ) from None
    except DBAPIError:
        raise Unanswered("the database cannot be reached") from None

    def run(query: str, values: Mapping[str, int]) -> list[Any]:
        return list(connection.execute(sqlalchemy.text(query), dict(values)))

    def seeds(number: float) -> None:
        if engine.dialect.name == "postgresql":
            connection.execute(sqlalchemy.text("SELECT setseed(:number)"), {"number": number})

    def stop() -> None:
        driver = connection.connection.driver_connection
        for name in ("interrupt", "cancel"):  # of sqlite3, of psycopg
            if hasattr(driver, name):
                with suppress(Exception):
                    getattr(driver, name)()
                return

    try:
        yield run, seeds, stop, SQLAlchemyError
    finally:
        connection.close()
        engine.dispose()


def _plain(cell: Any) -> Any:
    """Decimal numbers as floats, dates and what else an engine has as text."""
    if isinstance(cell, Decimal):
        return float(cell)
    return cell if isinstance(cell, (int, float, str, bool, type(None))) else str(cell)

"""Other tables joined to the rows of a private one, before a unit's rows are bounded.

A *public* table is joined by keys.  A *private* one is joined by its units, and by keys too where
it names some.  A row without a partner stays, and lacks the other table's values.

Stability.  Let J(D) be the joined rows, with D both private tables, and D|u the rows of unit u in
both.  A joined row consists of one row of the table, of a row of each private table with the same
unit, and of rows of public tables.  So it is one of u, and J(D) is the disjoint union of the J(D|u)
over all units: without u exactly J(D|u) is gone, however many rows the join makes of one, and no
other unit's rows change.  The engine then keeps at most ``Schema.rows`` rows of J(D|u), chosen by
their own values: at most so many rows come or go with a unit.  Without a unit column each row is a
unit, of which a join must make one row: keys of public tables that occur twice are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.tabular.cells import spelled_sql, trimmed_sql
from dpaudit.tabular.part import TEXTS, VIEW, Part
from dpaudit.tabular.schema import Join, Schema, Text
from dpaudit.tabular.source import Ask, Source, cell, open_source, readable

JOIN, JOIN_KEY = "dpaudit_join", "dpaudit_join_key"
MOST_JOINED = 10**9  # rows that private joins make, of 10 to 100 bytes each


def with_joins(source: Source, schema: Schema) -> Source:
    """A source whose every part also holds the joined tables, which are read here, once.

    Errors: InvalidParameter for a table that cannot be read, a column that it does not have, keys
    that are lists, times or bytes, and a key of a public table that occurs twice, where every
    row is a unit.
    """
    if not schema.joins:
        return source
    on = dict.fromkeys(name for join in schema.joins.values() for name in join.on)
    held = {name: cell(schema.own.index(name)) for name in on}
    source.first(lambda part: _refuse_kinds(part, schema.name, held))
    tables = {f"{JOIN}{n}": _read(schema, name) for n, name in enumerate(schema.joins)}
    ask_of = partial(_asked, tables)
    return Source(
        lambda ask: source.first(partial(ask_of, ask)),
        lambda ask: source.each(partial(ask_of, ask)),
        source.alike,
        lambda ask: source.located(partial(ask_of, ask)),
        source.refuse_ragged,
    )


def _asked(tables: Mapping[str, Any], ask: Ask, part: Part) -> Any:
    with part.tables(tables):
        return ask(part)


def _columns(schema: Schema, name: str) -> list[str]:
    """The columns of a joined table that the schema reads."""
    columns = [column for join, column in map(schema.joined, schema.sources) if join == name]
    return list(dict.fromkeys(columns))


def _keys(join: Join) -> list[tuple[str, bool]]:
    """The columns by which a table is joined, and whether each is that of its units."""
    return [*((name, False) for name in join.on.values()), *([(join.unit, True)] * bool(join.unit))]


def _read(schema: Schema, name: str) -> Any:
    """The columns of a joined table that are needed, beside its keys as they are compared."""
    import pyarrow as pa

    join, columns = schema.joins[name], _columns(schema, name)
    keys = _keys(join)
    wanted = dict.fromkeys([*columns, *(key for key, _ in keys)])
    place = f"{schema.name}: joins.{name}"
    own = Schema(place, {column: Text() for column in wanted}, encoding=join.encoding)
    cells = {column: cell(number) for number, column in enumerate(own.own)}
    read = ", ".join(
        [f"{cells[column]} AS {cell(number)}" for number, column in enumerate(columns)]
        + [
            f"{_spelled(cells[key], unit=unit)} AS {JOIN_KEY}{number}"
            for number, (key, unit) in enumerate(keys)
        ]
    )
    select = f"SELECT {read} FROM {VIEW}"
    compared = {key: cells[key] for key, _ in keys}
    with readable(place):
        source = open_source(join.data, own)
        source.first(lambda part: _refuse_kinds(part, place, compared))
        parts = list(source.each(lambda part: part.table(select)))
    table = pa.concat_tables(parts)
    if schema.unit is None:
        named = [f"{JOIN_KEY}{number}" for number in range(len(keys))]
        keyed = table.select(named).drop_null()
        if len(keyed.group_by(named).aggregate([])) < len(keyed):
            raise InvalidParameter(
                f"{place}: a key occurs in several rows, and every row of the table is a unit; "
                "give each key one row, or the schema a unit"
            )
    return table


def _refuse_kinds(part: Part, place: str, held: Mapping[str, str]) -> None:
    """Errors: InvalidParameter for a key that libraries write in several ways, such as a list."""
    read = ", ".join(held.values())
    described = part.execute(f"DESCRIBE SELECT {read} FROM {VIEW}").fetchall() if held else []
    for name, row in zip(held, described, strict=True):
        kind = str(row[1]).upper()
        if kind.partition("(")[0] not in TEXTS:
            raise InvalidParameter(
                f"{place}: column {name!r} holds {kind}, which is spelled in several ways, so that "
                "no key would be found; convert it to texts, numbers or dates, one key a row"
            )


def size_sql(schema: Schema) -> str:
    """How many rows private joins make at most: the product of a unit's rows, summed; "" for none.

    One unit with 10^6 rows in both of two tables alone makes 10^12.
    """
    private = [number for number, join in enumerate(schema.joins.values()) if join.unit]
    if not private:
        return ""
    unit = _spelled(f"{VIEW}.{cell(len(schema.own) - 1)}", unit=True)
    rows = f"(SELECT {unit} AS unit, count(*) AS n FROM {VIEW} GROUP BY unit) AS own"
    for number in private:
        place = len(_keys(list(schema.joins.values())[number])) - 1
        counted = (
            f"SELECT {JOIN_KEY}{place} AS unit, count(*) AS n FROM {JOIN}{number} GROUP BY unit"
        )
        rows += f" LEFT JOIN ({counted}) AS t{number} ON own.unit = t{number}.unit"
    sizes = "".join(f" * coalesce(t{number}.n, 1)" for number in private)
    return f"SELECT sum(own.n::DOUBLE{sizes}) FROM {rows}"


def _spelled(name: str, *, unit: bool) -> str:
    return spelled_sql(trimmed_sql(f"CAST({name} AS VARCHAR)"), unit=unit)


def _joined_cell(schema: Schema, join: str, column: str) -> str:
    number = list(schema.joins).index(join)
    return f"{JOIN}{number}.{cell(_columns(schema, join).index(column))}"


def joined_sql(schema: Schema) -> str:
    """The rows with their joined columns, as ``cell(0)``, ``cell(1)``, ... of ``Schema.read``."""
    if not schema.joins and schema.own == schema.sources:
        return VIEW
    own = {column: cell(number) for number, column in enumerate(schema.own)}
    cells = []
    for number, (name, column) in enumerate(map(schema.joined, schema.sources)):
        expression = f"{VIEW}.{own[column]}" if not name else _joined_cell(schema, name, column)
        cells.append(f"{expression} AS {cell(number)}")
    rows = VIEW
    for number, join in enumerate(schema.joins.values()):
        table = f"{JOIN}{number}"
        mine = [*join.on, *(schema.own[-1:] if join.unit else ())]
        equal = (
            f"{_spelled(f'{VIEW}.{own[column]}', unit=unit)} = {table}.{JOIN_KEY}{place}"
            for place, (column, (_, unit)) in enumerate(zip(mine, _keys(join), strict=True))
        )
        rows += f" LEFT JOIN {table} ON {' AND '.join(equal)}"
    return f"(SELECT {', '.join(cells)} FROM {rows})"

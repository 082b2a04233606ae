"""Private tables: a public schema, any source of rows, and exact totals with bounded units."""

from __future__ import annotations

from dpaudit.tabular.engine import (
    MOST_CELLS,
    ROWS,
    Bins,
    Counted,
    DataRefused,
    Keys,
    OpenTable,
    Table,
    Term,
    Total,
    Within,
    in_rows,
    refuse_groups,
    rounded,
    sizes_of,
)
from dpaudit.tabular.schema import Category, Number, Schema, Text, schema_of

__all__ = [
    "MOST_CELLS",
    "ROWS",
    "Bins",
    "Category",
    "Counted",
    "DataRefused",
    "Keys",
    "Number",
    "OpenTable",
    "Schema",
    "Table",
    "Term",
    "Text",
    "Total",
    "Within",
    "in_rows",
    "refuse_groups",
    "rounded",
    "schema_of",
    "sizes_of",
]

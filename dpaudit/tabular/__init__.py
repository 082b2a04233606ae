"""Private tables: a public schema, any source of rows, and exact totals with bounded units."""

from __future__ import annotations

from dpaudit.tabular.engine import (
    ROWS,
    Bins,
    DataRefused,
    Keys,
    OpenTable,
    Table,
    Term,
    Total,
    Within,
    rounded,
    sizes_of,
)
from dpaudit.tabular.schema import Category, Number, Schema, Text, schema_of

__all__ = [
    "ROWS",
    "Bins",
    "Category",
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
    "rounded",
    "schema_of",
    "sizes_of",
]

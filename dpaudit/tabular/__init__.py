"""Private tables: a public schema, any source of rows, and exact totals with bounded units."""

from __future__ import annotations

from dpaudit.tabular.engine import (
    MOST_CELLS,
    ROWS,
    Bins,
    Counted,
    Cut,
    DataRefused,
    Keys,
    OpenTable,
    Table,
    Term,
    Total,
    in_rows,
    refuse_groups,
    rounded,
    sizes_of,
)
from dpaudit.tabular.schema import (
    Category,
    Date,
    Join,
    Number,
    Period,
    Schema,
    Text,
    Within,
    schema_of,
)

__all__ = [
    "MOST_CELLS",
    "ROWS",
    "Bins",
    "Category",
    "Counted",
    "Cut",
    "DataRefused",
    "Date",
    "Join",
    "Keys",
    "Number",
    "OpenTable",
    "Period",
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

"""A release over a NaN in a Parquet file, whose statistics leave NaN out"""

from __future__ import annotations

from pathlib import Path


def probe() -> str:
    """Rows and sum of 1, NaN and 3, where a missing value is dropped."""
    import pyarrow
    import pyarrow.parquet

    from dpaudit.tabular import ROWS, Number, Schema, Table, Term, Total

    cells = pyarrow.array([1.0, float("nan"), 3.0], from_pandas=False)
    pyarrow.parquet.write_table(pyarrow.table({"age": cells}), "ages.parquet")
    schema = Schema("people", {"age": Number("0", "99", missing="drop")})
    opened = Table(schema, Path("ages.parquet")).opened("key")
    ages = Total("ages", (ROWS, Term((("age", 1, 0),))), needed=("age",))
    rows, total = opened.totals([ages])[0]
    return f"{rows[0]} rows, sum {total[0]} (2 rows, sum 4)"

"""One table in every format that a user may have it in."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet

Cells = Mapping[str, list[Any]]


def _text(separator: str, suffix: str, point: str = ".") -> Callable[[Cells, Path], Path]:
    def write(table: Cells, stem: Path) -> Path:
        path = stem.with_suffix(suffix)
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, delimiter=separator)
            writer.writerow(table)
            for row in zip(*table.values(), strict=True):
                writer.writerow([_spelled(cell, point) for cell in row])
        return path

    return write


def _spelled(cell: Any, point: str) -> str:
    if cell is None:
        return ""
    return repr(cell).replace(".", point) if isinstance(cell, float) else str(cell)


def _json(content: Callable[[Cells], Any]) -> Callable[[Cells, Path], Path]:
    def write(table: Cells, stem: Path) -> Path:
        path = stem.with_suffix(".json")
        path.write_text(json.dumps(content(table), default=str))
        return path

    return write


def _records(table: Cells) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def _lines(table: Cells, stem: Path) -> Path:
    path = stem.with_suffix(".jsonl")
    path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in _records(table)))
    return path


def _parquet(table: Cells, stem: Path) -> Path:
    path = stem.with_suffix(".parquet")
    pyarrow.parquet.write_table(pyarrow.table(dict(table)), path)
    return path


def _npy(table: Cells, stem: Path) -> Path:
    path = stem.with_suffix(".npy")
    np.save(path, np.column_stack([np.array(cells) for cells in table.values()]))
    return path


def _structured(table: Cells, stem: Path) -> Path:
    path = stem.with_suffix(".npy")
    arrays = {name: np.array(cells) for name, cells in table.items()}
    fields = [(name, array.dtype) for name, array in arrays.items()]
    np.save(path, np.array(list(zip(*arrays.values(), strict=True)), dtype=fields))
    return path


def _npz(table: Cells, stem: Path) -> Path:
    path = stem.with_suffix(".npz")
    np.savez(path, **{name: np.array(cells) for name, cells in table.items()})  # type: ignore[arg-type]
    return path


FILES: dict[str, Callable[[Cells, Path], Path]] = {
    "csv": _text(",", ".csv"),
    "semicolons": _text(";", ".csv"),
    "tabs": _text("\t", ".csv"),
    "tsv": _text("\t", ".tsv"),
    "decimal comma": _text(";", ".csv", point=","),
    "records": _json(_records),
    "columns": _json(dict),
    "rows": _json(lambda table: list(zip(*table.values(), strict=True))),
    "lines": _lines,
    "parquet": _parquet,
    "npy": _npy,
    "fields": _structured,
    "npz": _npz,
}
FRAMES: dict[str, Callable[[Cells], Any]] = {
    "pandas": lambda table: pandas.DataFrame(dict(table)),
    "polars": lambda table: polars.DataFrame(dict(table), strict=False),
    "lazy polars": lambda table: polars.LazyFrame(dict(table), strict=False),
    "arrow": lambda table: pyarrow.table(dict(table)),
    "duckdb": lambda table: duckdb.from_arrow(pyarrow.table(dict(table))),
}
PLACES = ("rows", "npy")  # columns have no names there

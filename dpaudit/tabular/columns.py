"""A user's table as named columns: one reader for every kind of file, array and frame.

A cell means the same in every format, typed or spelled as text.  Numbers are integers and decimal
fractions with a point; a column of true and false alone counts as 1 and 0; a blank, a null and a
NaN are missing.  A missing or infinite value, a date, a text or a list is no number: the column is
refused with the row, and a message holds no cell.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter, optional
from dpaudit.storage.data import decoded, open_data
from dpaudit.storage.evidence import strict_json
from dpaudit.tabular.cells import spelled
from dpaudit.tabular.source import native_frame, readable

FloatArray = npt.NDArray[np.float64]

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
ARRAYS = (".npy", ".npz")  # ends of the names of NumPy's files
LEAVE_OUT = "fill it in, or leave the record out"
DECIMAL_POINT = "a number is written with a decimal point"
MOST_NAMES = 20  # of a table, in a message
_SPELLED = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST_DIGIT = re.compile(r"\W*\d")


class Kind(Enum):
    """The kind of a cell; its value says why such a cell is no number."""

    NUMBER = ""
    BOOLEAN = "holds true or false among other cells; write 1 and 0"
    MISSING = f"is blank or NaN; {LEAVE_OUT}"
    INFINITE = f"holds what is no finite number; {LEAVE_OUT}"
    MARKED = f"holds what is no number; {DECIMAL_POINT} and no other mark, or encode the column"
    DATE = "holds a date, which is no number; encode the column beforehand"
    NESTED = "holds a list, which is no number; give each of its numbers a column"
    OTHER = "holds what is no number; encode the column beforehand"


# A column with one such cell may be one of numbers.  A text that begins with a digit may be a
# number in another notation: passed over, another column would be taken in its place.
_MAY_BE_NUMBERS = (Kind.NUMBER, Kind.INFINITE, Kind.MARKED, Kind.NESTED)
_VALUES = {Kind.NUMBER, Kind.INFINITE, Kind.MARKED, Kind.BOOLEAN}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns by name, as they stand in a file or frame.

    ``where``: the file, for messages.  ``cells``: a column is an array of numbers, or a list of any
    cells.  ``lines``: the line of each record, in a file of text.  ``named``: False where a name
    is only a place, as in an array.
    """

    where: str
    cells: Mapping[str, Any] = field(repr=False)
    lines: Sequence[int] | None = field(default=None, repr=False)
    named: bool = True

    def need(self, name: str, option: str) -> None:
        """Errors: InvalidParameter where there is no column of this name, with those there are."""
        if name not in self.cells:
            raise InvalidParameter(
                f"{self.where}: {option} {name!r}: no such column; there are {self.listed(self)}"
            )

    def only(self, name: str | None, option: str) -> tuple[str, FloatArray]:
        """The column of numbers that ``option`` names; without a name the only one there is.

        Errors: InvalidParameter where there is none or several, with their names, and as
        :meth:`numbers`.
        """
        if name is not None:
            self.need(name, option)
            return name, self.numbers(name)
        fits = [
            column for column in self.cells if len(self.cells) == 1 or _may_be_numbers(self, column)
        ]
        if not fits:
            raise InvalidParameter(
                f"{self.where}: no column of numbers; there are {self.listed(self)}"
            )
        if len(fits) > 1:
            raise InvalidParameter(
                f"{self.where}: {len(fits)} columns may hold the numbers, {self.listed(fits)}; "
                f"choose one with {option}=NAME"
            )
        return fits[0], self.numbers(fits[0])

    def numbers(self, name: str) -> FloatArray:
        """A column as finite numbers, (rows,).

        Errors: InvalidParameter, with the row and the column, for a cell that is none.
        """
        column = self.cells[name]
        if isinstance(column, np.ndarray):
            values = column.astype(np.float64)
            for row in np.flatnonzero(~np.isfinite(values))[:1]:
                raise self.refused(name, int(row), _read(values[row])[0])
            return values
        read = [_read(cell) for cell in column]
        accepted = Kind.NUMBER
        if read and all(kind is Kind.BOOLEAN for kind, _ in read):
            accepted = Kind.BOOLEAN
        for row, (kind, _) in enumerate(read):
            if kind is not accepted:
                raise self.refused(name, row, kind)
        return np.array([value for _, value in read], dtype=np.float64)

    def matrix(self, names: Sequence[str]) -> FloatArray:
        """Columns of numbers side by side, (rows, columns).

        Errors: InvalidParameter for no column, for columns of different lengths, and as
        :meth:`numbers`.
        """
        if not names:
            raise InvalidParameter(f"{self.where}: no column is left that holds the records")
        if len({len(self.cells[name]) for name in names}) > 1:
            raise InvalidParameter(f"{self.where}: {self.listed(names)} are of different lengths")
        return np.column_stack([self.numbers(name) for name in names])

    def texts(self, name: str, *, unit: bool = False) -> list[str]:
        """A column as texts, or as units, in the one spelling that a value has in every format.

        Errors: InvalidParameter, with the row and the column, for a missing cell.
        """
        texts = []
        for row, cell in enumerate(self.cells[name]):
            text = None if _read(cell)[0] is Kind.MISSING else spelled(str(cell), unit=unit)
            if text is None:
                raise self.refused(name, row, Kind.MISSING)
            texts.append(text)
        return texts

    def classes(self, name: str) -> npt.NDArray[Any]:
        """A column of labels: whole numbers where all are, else numbers where all are, else texts.

        Errors: as :meth:`numbers` and :meth:`texts`.
        """
        kinds = set(self.kinds(name))
        if kinds - {Kind.NUMBER, Kind.INFINITE, Kind.MISSING} and kinds != {Kind.BOOLEAN}:
            return np.array(self.texts(name))
        numbers = self.numbers(name)
        all_whole = bool((numbers == np.round(numbers)).all() and (np.abs(numbers) <= 2**53).all())
        return numbers.astype(np.int64) if all_whole else numbers

    def kinds(self, name: str) -> Iterator[Kind]:
        """The kinds of the cells of a column."""
        return (_read(cell)[0] for cell in self.cells[name])

    def is_told(self, name: str) -> bool:
        """Whether a message may hold a name: in a file of text, a word that is above numbers.

        Any other cell of line 1 may be a record's, in a file that has no line of names.
        """
        if self.lines is None:
            return True
        return _read(name)[0] is Kind.OTHER and not _VALUES.isdisjoint(self.kinds(name))

    def listed(self, names: Iterable[str]) -> str:
        """The names that a message may quote, and how many others there are."""
        every = list(names)
        shown = [name for name in every if self.is_told(name)][:MOST_NAMES]
        others = [f"{len(every) - len(shown)} more columns"] if len(shown) < len(every) else []
        return ", ".join([name if name.isprintable() else repr(name) for name in shown] + others)

    def refused(self, name: str, row: int, kind: Kind) -> InvalidParameter:
        """The error that a cell is no number: where it is, and not what it holds."""
        place = f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"
        column = repr(name) if self.is_told(name) else str(list(self).index(name) + 1)
        return InvalidParameter(f"{self.where}: column {column}, {place}, {kind.value}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)


def read_columns(path: Path) -> Columns:
    """The columns of a file, by its suffix.

    ``.csv`` and ``.tsv``: a line of names above the records, separated by what line 1 holds of
    comma, semicolon and tab.  ``.txt``: the same, or one number a line without a name.  ``.json``:
    a list of objects, an object of lists, a list of lists of one length, or a list of numbers;
    ``.jsonl``: an object a line.  ``.parquet``.  ``.npy`` and ``.npz``: arrays of one or two
    dimensions, and of records with named fields; a column without a name is called "column 0".
    Errors: InvalidParameter for another suffix, and for a file that is no such table.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidParameter(f"{path}: expected a file {', '.join(_READERS)}")
    table = reader(path)
    if not table.cells or not all(len(column) for column in table.cells.values()):
        raise InvalidParameter(f"{path}: it holds no records")
    return table


def frame_columns(frame: Any, where: str = "data") -> Columns:
    """The columns of a frame or series of any library that narwhals reads, or of DuckDB.

    Errors: InvalidParameter for another object.
    """
    with optional("tables", f"{where}: frames"):
        import narwhals as nw
    native = native_frame(frame, where, "a frame that narwhals reads", series=True)
    if isinstance(native, nw.Series):
        name = str(native.name or "column 0")
        return Columns(where, {name: _cells(native)}, named=bool(native.name))
    with readable(where):
        eager = native.collect() if isinstance(native, nw.LazyFrame) else native
        names = [str(name).strip() for name in eager.columns]
        _distinct(where, names)
        columns = zip(names, eager.columns, strict=True)
        return Columns(where, {name: _cells(eager.get_column(column)) for name, column in columns})


def arrays_of(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a ``.npz`` file by name, or that of a ``.npy`` file, named "".

    Errors: InvalidParameter for a file that holds none, or objects of Python.
    """
    reason = "two arrays have one name"
    try:
        with open_data(path) as stream:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            # A name that is a member of the archive too, "a.npy", would be read as the array "a".
            members = loaded.zip.namelist()
            if len({*loaded.files, *members}) == 2 * len(loaded.files):
                return {name: loaded[name] for name in loaded.files}
    except InvalidParameter:
        raise
    except Exception as error:  # noqa: BLE001  (NumPy raises many kinds for torn files)
        reason = type(error).__name__
    # Outside the handler, and by its kind alone: what NumPy says may quote a record.
    raise InvalidParameter(
        f"{path}: it cannot be read as arrays without objects of Python ({reason})"
    )


def array_columns(where: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Columns:
    """The columns of arrays by name: one each, or one a column or named field of it.

    Errors: InvalidParameter for an array of other than one or two dimensions, and for two columns
    of one name.
    """
    cells: list[tuple[str, Any]] = []
    for key, array in arrays.items():
        if array.ndim == 1 and array.dtype.names:
            cells += [(f"{key} {name}".strip(), array[name]) for name in array.dtype.names]
        elif array.ndim == 1:
            cells.append((key.strip() or "column 0", array))
        elif array.ndim == 2:
            before = f"{key} " if len(arrays) > 1 else ""
            cells += [(f"{before}column {place}".strip(), row) for place, row in enumerate(array.T)]
        else:
            raise InvalidParameter(
                f"{where}: {key or 'array'} of shape {array.shape}; expected (rows,) or "
                "(rows, columns)"
            )
    _distinct(where, [name for name, _ in cells])
    named = {name: _array_cells(array) for name, array in cells}
    return Columns(where, named, named=any(arrays))


def json_value(text: str, place: str, *, nan: bool = False) -> Any:
    """Value of a JSON text, as :func:`dpaudit.storage.evidence.strict_json`; no error quotes it.

    Errors: InvalidParameter.
    """
    try:
        return strict_json(text, nan=nan)
    except ValueError:
        numbers = "" if nan else " and finite numbers"
        raise InvalidParameter(
            f"{place}: expected JSON, whole, with each key of an object once{numbers}"
        ) from None


# --- cells ----------------------------------------------------------------------------------------


def _read(cell: Any) -> tuple[Kind, float]:
    """The kind of a cell, and its value where it is a number."""
    if isinstance(cell, str):
        return _read_text(cell.strip())
    if isinstance(cell, bool | np.bool_):
        return Kind.BOOLEAN, float(cell)
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # of pandas
        return Kind.MISSING, math.nan
    if isinstance(cell, date | time | timedelta | np.datetime64 | np.timedelta64):
        return Kind.MISSING if cell != cell else Kind.DATE, math.nan
    if isinstance(cell, Real | Decimal):
        return _read_number(cell)
    nested = isinstance(cell, Sequence | Mapping | np.ndarray) and not isinstance(cell, bytes)
    return Kind.NESTED if nested else Kind.OTHER, math.nan


def _read_number(cell: Any) -> tuple[Kind, float]:
    try:
        value = float(cell)
    except (OverflowError, ValueError):  # a large integer; a NaN of Decimal that signals
        value = math.nan if cell != cell else math.inf
    if math.isnan(value):
        return Kind.MISSING, value
    return Kind.INFINITE if math.isinf(value) else Kind.NUMBER, value


def _read_text(text: str) -> tuple[Kind, float]:
    if _SPELLED.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return _read_number(float(text))
    if text.lower() in ("true", "false"):
        return Kind.BOOLEAN, float(text.lower() == "true")
    if not text:
        return Kind.MISSING, math.nan
    if _ISO_DATE.match(text):
        return Kind.DATE, math.nan
    return Kind.MARKED if _FIRST_DIGIT.match(text) else Kind.OTHER, math.nan


def _is_value(name: str) -> bool:
    """Whether a cell of line 1 is more likely a record's than a name."""
    kind = _read(name)[0]
    if kind is Kind.MARKED:
        return not any(letter.isalpha() for letter in name)
    return bool(name) and kind is not Kind.OTHER


def _may_be_numbers(table: Columns, name: str) -> bool:
    column = table.cells[name]
    return isinstance(column, np.ndarray) or any(k in _MAY_BE_NUMBERS for k in table.kinds(name))


# --- names ----------------------------------------------------------------------------------------


def _distinct(where: str, names: Sequence[str]) -> None:
    """Errors: InvalidParameter for a column without a name, or two of one name."""
    if "" in names:
        raise InvalidParameter(f"{where}: column {names.index('') + 1} has no name; give it one")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidParameter(
                f"{where}: columns {names.index(name) + 1} and {place + 1} have the same name; "
                "names must be different, rename one of them"
            )


# --- text -----------------------------------------------------------------------------------------


def _text(path: Path) -> Columns:
    rows = _rows(path)
    if not rows:
        raise InvalidParameter(f"{path}: it is empty; expected a line of names, and records below")
    names = [name.strip() for name in rows[0][1]]
    first = [_read(name)[0] for name in names]
    if path.suffix.lower() == ".txt" and first in ([Kind.NUMBER], [Kind.INFINITE]):
        return _plain(str(path), [cell for _, (cell,) in rows], [line for line, _ in rows])
    are_values = [_is_value(name) for name in names]
    if all(are_values):
        raise InvalidParameter(
            f"{path}: line 1 is numbers alone; put a line of names above it "
            f"(numbers without a name, one a line, are a file .txt; {DECIMAL_POINT})"
        )
    _distinct(str(path), names)
    body, lines = [row for _, row in rows[1:]], [line for line, _ in rows[1:]]
    if not body:
        raise InvalidParameter(f"{path}: there are no records below the line of names")
    columns = {name: [row[place] for row in body] for place, name in enumerate(names)}
    table = Columns(str(path), columns, lines)
    # A first record that was taken for names would be lost: a word above numbers is a name.
    if any(are_values) or not any(map(table.is_told, names)):
        raise InvalidParameter(
            f"{path}: line 1 may be a record; put a line of names above it, each with a letter, "
            "and numbers below"
        )
    return table


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a file of text, each as long as the first, with the line on which each ends.

    A blank line is a missing cell where there is one column, and nothing where there are more.
    """
    text = _decoded(path)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=_separator(path, text), strict=True
    )
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error:
        raise InvalidParameter(
            f"{path}: a quoted cell is not closed, is too long, or has text after its end"
        ) from None
    while rows and not rows[-1][1]:
        rows.pop()
    width = max((len(row) for _, row in rows[:1]), default=0)
    rows = [(line, row or [""]) for line, row in rows if row or width == 1]
    for line, row in rows:
        if len(row) != width:
            raise InvalidParameter(
                f"{path}: line {line} has {len(row)} cells, and there are {width} names; "
                f"a cell that holds a comma is written in quotes, and {DECIMAL_POINT}"
            )
    return rows


def _decoded(path: Path) -> str:
    with open_data(path) as stream:
        return "".join(decoded(stream, path))


def _separator(path: Path, text: str) -> str:
    """The separator of the names in line 1; rows are not read, so that no row changes it."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    names = re.sub(r'"[^"]*"', "", io.StringIO(text, newline="").readline())
    marks = [mark for mark in SEPARATORS if mark in names]
    if len(marks) > 1:
        raise InvalidParameter(
            f"{path}: line 1 holds {' and '.join(SEPARATORS[mark] for mark in marks)}; one alone "
            "separates names, put a name that holds another in quotes"
        )
    return marks[0] if marks else ","


# --- JSON, arrays, Parquet ------------------------------------------------------------------------


def _json(path: Path) -> Columns:
    text = _decoded(path)
    if path.suffix.lower() == ".json":
        return _json_columns(str(path), json_value(text, str(path), nan=True))
    lines = enumerate(text.split("\n"), start=1)
    rows = [json_value(line, f"{path}: line {k}", nan=True) for k, line in lines if line.strip()]
    return _json_columns(str(path), rows)


def _json_columns(where: str, value: Any) -> Columns:
    lists = list(value.values()) if isinstance(value, dict) else value
    alike = isinstance(lists, list) and {type(item) for item in lists} in ({list}, {dict})
    if isinstance(value, dict) and alike and isinstance(lists[0], list):
        names = [name.strip() for name in value]
        _distinct(where, names)
        if len(set(map(len, lists))) > 1:
            raise InvalidParameter(f"{where}: its columns are lists of different lengths")
        return Columns(where, dict(zip(names, lists, strict=True)))
    if isinstance(value, list) and alike and isinstance(value[0], dict):
        keys = list(dict.fromkeys(key for row in value for key in row))
        names = [key.strip() for key in keys]
        _distinct(where, names)
        by_name = zip(names, keys, strict=True)
        return Columns(where, {name: [row.get(key) for row in value] for name, key in by_name})
    if isinstance(value, list) and alike:
        width = len(value[0])
        if any(len(row) != width for row in value):
            raise InvalidParameter(f"{where}: its rows are lists of different lengths")
        places = range(width)
        cells = {f"column {place}": [row[place] for row in value] for place in places}
        return Columns(where, cells, named=False)
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return _plain(where, value)
    raise InvalidParameter(
        f"{where}: expected a list of objects, an object of lists, a list of lists, or a list of "
        "numbers"
    )


def _plain(where: str, cells: list[Any], lines: Sequence[int] | None = None) -> Columns:
    """One column without a name."""
    return Columns(where, {"column 0": cells}, lines, named=False)


def _arrays(path: Path) -> Columns:
    return array_columns(str(path), arrays_of(path))


def _array_cells(array: npt.NDArray[Any]) -> Any:
    if array.dtype.kind in "iuf" and array.ndim == 1:
        return array
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def _parquet(path: Path) -> Columns:
    with optional("tables", f"{path}: .parquet files"):
        import narwhals  # noqa: F401
        import pyarrow as pa
        import pyarrow.parquet as parquet
    with open_data(path) as stream:
        try:
            # Threads of Arrow can outlive the interpreter, which then aborts when it ends.
            table = parquet.ParquetFile(stream, pre_buffer=False).read(use_threads=False)
        except (pa.ArrowException, OSError, ValueError):
            raise InvalidParameter(f"{path}: not a Parquet file that can be read") from None
    _distinct(str(path), [name.strip() for name in table.column_names])
    return frame_columns(table, str(path))


def _cells(series: Any) -> Any:
    if series.dtype.is_numeric() and series.null_count() == 0:
        array = series.to_numpy()
        if array.dtype.kind in "iuf":
            return array
    return series.to_list()


_READERS: dict[str, Callable[[Path], Columns]] = {
    ".csv": _text,
    ".tsv": _text,
    ".txt": _text,
    ".json": _json,
    ".jsonl": _json,
    ".parquet": _parquet,
    ".npy": _arrays,
    ".npz": _arrays,
}

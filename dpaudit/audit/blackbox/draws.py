"""Outputs of a black-box mechanism as typed arrays: training draws and test draws never mix."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter

Array = npt.NDArray[Any]
WIDTH, KIND, RAISED = range(3)
MAXIMUM_COLUMNS = 100_000  # numbers of one output: a draw of 1,000 then takes 0.8 GB
_Kept = TypeVar("_Kept", bound="Draws")


@dataclass(frozen=True, eq=False)
class Draws:
    """Outputs, one a row: ``values`` (trials, columns) of float64 or int64, NaN for no output.

    Integers stay integers; text becomes a 56-bit digest; a complex number two columns.  ``about``
    (trials, 3) says of each call how many columns it returned, which dtype, which exception.
    """

    values: Array
    about: npt.NDArray[np.int64]

    @property
    def trials(self) -> int:
        return int(self.values.shape[0])

    @property
    def columns(self) -> int:
        return int(self.values.shape[1])

    @property
    def is_float(self) -> bool:
        return self.values.dtype.kind == "f"

    def rows(self: _Kept, chosen: Any) -> _Kept:
        """Some of the draws, of the same type."""
        return type(self)(self.values[chosen], self.about[chosen])


class TrainingDraws(Draws):
    """Draws that events are chosen on, and no bound is ever made of."""


class TestDraws(Draws):
    """Draws that bounds are made of, and no event is ever chosen on."""

    __test__: ClassVar[bool] = False  # pytest: not a test class


def read_output(returned: Any, size: int, place: str) -> Draws:
    """The output of one call as :class:`Draws`.

    Errors: InvalidParameter unless it is an array of shape (size,) or (size, k), 1 <= k <= 10^5.
    """
    array = np.asarray(returned)
    if array.ndim not in (1, 2) or array.shape[0] != size or 0 in array.shape:
        raise InvalidParameter(
            f"{place} returned shape {array.shape}; expected ({size},) or ({size}, k)"
        )
    table = array.reshape(size, -1)
    if table.shape[1] > MAXIMUM_COLUMNS:
        raise InvalidParameter(
            f"{place} returned {table.shape[1]} columns; at most {MAXIMUM_COLUMNS} are audited"
        )
    about = np.zeros((size, 3), dtype=np.int64)
    about[:, WIDTH] = 0 if array.ndim == 1 else table.shape[1]
    about[:, KIND] = _kind(array.dtype)
    return Draws(_numbers(table, place), about)


def raised(error: str) -> Draws:
    """One draw that is an exception of this type."""
    about = np.array([[-1, 0, zlib.crc32(error.encode())]], dtype=np.int64)
    return Draws(np.full((1, 1), np.nan), about)


def joined(parts: Sequence[Draws], kind: type[_Kept]) -> _Kept:
    """Draws of several calls one after another; narrower rows are filled up with NaN."""
    columns = max(part.columns for part in parts)
    values = [_widened(part.values, columns) for part in parts]
    return kind(np.concatenate(values), np.concatenate([part.about for part in parts]))


def fitted(draws: Draws, like: Draws, kind: type[_Kept]) -> _Kept:
    """These draws, with the number of columns and the dtype of ``like``."""
    values = _widened(draws.values, like.columns)[:, : like.columns]
    if like.is_float != (values.dtype.kind == "f"):
        values = np.nan_to_num(values, posinf=0, neginf=0).astype(like.values.dtype)
    return kind(values, draws.about)


def alike(first: _Kept, second: _Kept) -> tuple[_Kept, _Kept]:
    """Both with as many columns as the wider, and floats if either has floats."""
    wider = first if first.columns >= second.columns else second
    if (first.is_float or second.is_float) and not wider.is_float:
        wider = type(first)(wider.values.astype(np.float64), wider.about)
    return fitted(first, wider, type(first)), fitted(second, wider, type(second))


def text_code(text: object) -> int:
    """The 56-bit digest that stands for a text among the values."""
    content = str(text).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=7).digest(), "big")


def row_codes(values: Array) -> npt.NDArray[np.int64]:
    """A 64-bit digest of every row's bits, all NaN alike: equal rows have equal digests."""
    bits = np.where(np.isnan(values), np.nan, values) if values.dtype.kind == "f" else values
    words = np.ascontiguousarray(bits).view(np.uint64)
    code = np.zeros(words.shape[0], dtype=np.uint64)
    for column in range(words.shape[1]):  # splitmix64's mixing, column by column
        code = (code ^ words[:, column]) * np.uint64(0x9E3779B97F4A7C15)
        code = (code ^ (code >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        code ^= code >> np.uint64(32)
    return code.view(np.int64)


def _kind(dtype: np.dtype[Any]) -> int:
    """Text of every length is one dtype."""
    return zlib.crc32((dtype.kind if dtype.kind in "US" else dtype.str).encode())


def _widened(values: Array, columns: int) -> Array:
    missing = columns - values.shape[1]
    if missing <= 0:
        return values
    return np.pad(values.astype(float), ((0, 0), (0, missing)), constant_values=np.nan)


def _numbers(table: Array, place: str) -> Array:
    kind = table.dtype.kind
    if kind in "biu":
        return table.astype(np.int64)
    if kind == "f":
        return table.astype(np.float64)
    if kind == "c":
        return np.concatenate([table.real, table.imag], axis=1).astype(np.float64)
    if kind in "US":
        return _coded(table)
    if kind == "O":
        return _objects(table)
    raise InvalidParameter(f"{place} returned dtype {table.dtype}; expected numbers, bools or text")


def _objects(table: Array) -> Array:
    """Whole numbers that fit stay whole; None is NaN; anything else is text."""
    types = {type(value) for value in table.flat}
    if all(issubclass(kind, (bool, int, np.integer, np.bool_)) for kind in types):
        if all(-(2**63) <= int(value) < 2**63 for value in table.flat):
            return table.astype(np.int64)
        return _coded(table)
    numbers = (int, float, np.integer, np.floating, np.bool_, type(None))
    if all(issubclass(kind, numbers) for kind in types):
        cells = [_float(value) for value in table.flat]
        return np.array(cells, dtype=np.float64).reshape(table.shape)
    return _coded(table)


def _float(value: Any) -> float:
    """A number or None as a float; a whole number beyond all floats is infinite."""
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _coded(table: Array) -> Array:
    # Texts of Python: those of NumPy lose the zero characters at their end.
    texts = [str(value) for value in table.flat]
    codes = {text: text_code(text) for text in set(texts)}
    return np.array([codes[text] for text in texts], dtype=np.int64).reshape(table.shape)

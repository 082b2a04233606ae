"""Random tables, written in every format and read back through the one reader."""

from __future__ import annotations

import contextlib
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.curator.files import read_records
from dpaudit.errors import InvalidParameter
from dpaudit.tabular import columns
from dpaudit.tabular.columns import Columns, frame_columns, read_columns
from tests.support.tables import FILES, FRAMES, PLACES, Cells

SEPARATORS = ",;\t"
WORDS = st.text("abcdé ßЖ'\"#|,;:/\\-=中", min_size=1, max_size=6).map(lambda text: f"w{text}w")
LARGEST = 2**53
CELLS = (
    st.integers(-LARGEST, LARGEST),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    WORDS,
)


@st.composite
def tables(draw: st.DrawFn) -> Cells:
    """One to four columns of one type each, the first of numbers."""
    names = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    size = draw(st.integers(1, 5))
    kinds = [draw(st.sampled_from(CELLS[: 2 if place == 0 else 4])) for place in range(len(names))]
    return {
        name: draw(st.lists(kind, min_size=size, max_size=size))
        for name, kind in zip(names, kinds, strict=True)
    }


def cells_of(table: Columns, name: str, like: Any) -> list[Any]:
    return table.texts(name) if isinstance(like, str) else table.numbers(name).tolist()


def check(table: Cells) -> None:
    """Every format gives the table itself; one that cannot hold a name may be refused."""
    for kind in [*FILES, *FRAMES]:
        texts = any(isinstance(column[0], str) for column in table.values())
        if kind == "decimal comma" or (kind in ("npy", "fields") and texts):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                read = (
                    frame_columns(FRAMES[kind](table))
                    if kind in FRAMES
                    else read_columns(FILES[kind](table, Path(folder) / "table"))
                )
            except InvalidParameter:
                assert kind in ("csv", "semicolons", "tabs")
                assert any(mark in name for name in table for mark in SEPARATORS)
                continue
        for place, (name, column) in enumerate(table.items()):
            found = cells_of(read, f"column {place}" if kind in PLACES else name, column[0])
            expected = [float(c) for c in column] if not isinstance(column[0], str) else column
            assert found == expected, kind


@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
@settings(max_examples=25, deadline=None, derandomize=True)
@given(tables())
def test_a_table_is_the_same_in_every_format(table: Cells) -> None:
    check(table)


MARKS = (b"\0", b'"', b",", b";", b"\t", b"\n", b"\r", b"NaN", b"1e999", b"[", b"{", b"\xff", b"-")


def torn(content: bytes, rng: random.Random) -> bytes:
    """A file with some bytes changed, left out, put in, or cut off."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(changed) + 1)
        cut = rng.choice((0, 0, 1, 8, len(changed)))
        changed[place : place + cut] = rng.choice((b"", *MARKS, rng.randbytes(1)))
    return bytes(changed)


@pytest.mark.first_case
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FILES)
def test_a_torn_file_is_read_or_refused_and_nothing_else(kind: str, tmp_path: Path) -> None:
    """80 files of each kind; 16,000 of all kinds were tried by hand."""
    rng = random.Random(kind)
    table: Cells = {"age": [1, 2, 3], "score": [0.5, -1.25, 3e-05], "sick": [0, 1, 1]}
    path = FILES[kind](table, tmp_path / "table")
    content = path.read_bytes()
    for _ in range(80):
        path.write_bytes(torn(content, rng))
        for read in (
            lambda: read_columns(path).only(None, "score_column"),
            lambda: read_records(path),
        ):
            with contextlib.suppress(InvalidParameter):
                read()


def test_a_reader_that_loses_a_digit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(text: str) -> tuple[columns.Kind, float]:
        kind, value = read_text(text)
        return kind, float(f"{value:.15g}")

    read_text = columns._read_text
    table: Cells = {"score": [0.1 + 0.2]}
    check(table)
    monkeypatch.setattr(columns, "_read_text", rounded)
    with pytest.raises(AssertionError, match="csv"):
        check(table)

"""The shape of a program's records, found without its data: how many rows, and of what shape.

A program's fields, its declaration and what it asks of a curator say how many rows it takes; a row
is tried in the sizes that its fields name, until the program runs.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from dpaudit.audit.examine.running import run
from dpaudit.check.reach import FEWEST_RECORDS
from dpaudit.curator.curator import Part, Program, Sampler
from dpaudit.errors import Undeclared
from dpaudit.exact import enclose
from dpaudit.kernels.query import Array, ClippedMean, Query, Records
from dpaudit.kernels.statistic import Statistic
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope

# Names of fields that say how many records there are.
COUNTS = ("size", "users", "records", "clients", "n", "count", "samples", "rows", "population")
# Names of fields that say how many numbers a record has.
WIDTHS = ("features", "dimension", "columns", "width", "d")
ITEMS = ("items",)  # names of fields that say how many items a unit has
ROWS, WIDTH = 40, 5
MOST_TRIES = 160  # shapes that are tried before a program has none
MOST_NUMBERS = 4_000_000  # numbers of a made-up data set: 32 MB
DEEP = 6  # how many objects deep sizes are looked for
TOLD, FIRST = 6, 12  # numbers heard in refusals, and shapes of rows that they are tried with
LONG = 0.5  # seconds of a processor


@dataclass(frozen=True)
class Shape:
    """``rows`` records of shape ``row``."""

    rows: int
    row: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """How many numbers a data set of this shape holds."""
        return self.rows * int(np.prod(self.row))


class Unknown(Exception):
    """No shape of records was found on which the program runs; its text says what it needs."""


class _Rows(Exception):
    """A program says how many rows it takes, or how many columns; 0 where it does not."""

    def __init__(self, count: int = 0, columns: int = 0) -> None:
        super().__init__(count, columns)
        self.count, self.columns = count, columns

    def shape(self, tried: Shape) -> Shape:
        """The shape that is asked for; what is not said is as in the one that was tried."""
        row = (*tried.row[:-1], self.columns) if self.columns else tried.row
        return Shape(self.count or tried.rows, row)


class _Enough(Exception):
    """A program ran for so long that its records must fit it."""


class _Asking(Sampler):
    """A sampler that hears how many rows a program means to have."""

    until = math.inf

    def part(self, index: int, sizes: Any) -> Part:
        total = int(sum(int(size) for size in sizes))
        if total != len(self._records):
            raise _Rows(total)
        return super().part(index, sizes)

    def release(self, label: str, query: Query, **options: Any) -> Array:
        if time.process_time() > self.until:
            raise _Enough
        # The library's query alone declares that its weights are of records.
        if isinstance(query, ClippedMean) and query.weights is not None:
            count = len(np.atleast_1d(query.weights))
            if options.get("rows") is None and count != len(self._records):
                raise _Rows(count)
        names = query.columns if isinstance(query, Statistic) else ()
        if names and len(names) != self._records.values.shape[-1]:
            raise _Rows(columns=len(names))
        return super().release(label, query, **options)


def shape_of(program: Program, declaration: Node, scope: Scope) -> Shape:
    """A shape of records on which the program runs: on records that differ, and on equal ones.

    A program that leaves outliers out may reach its later lines on equal records alone, and fail
    there where the shape is wrong.  Where no shape serves for both, differing records decide.
    Errors: Unknown, with what it was refused for on as many rows as it says itself, if it says so.
    """
    hints = dict(_hints(program))
    own = [*_populations(declaration, scope), *_named(hints, COUNTS)]
    # A field that looks like a count of records is a guess: few records are tried last.
    counts = sorted([*own, ROWS], key=lambda count: count < FEWEST_RECORDS)
    first = own[:1]
    rows = list(_row_shapes(hints))
    likeliest, wide = "", Shape(own[0], rows[0]) if own and rows else None
    refused, tried = "it ran on no rows", 0
    usable = list[Shape]()
    refusals: dict[str, None] = {}
    heard, counts_asked = list[int](), dict[int, None]()
    for again in (False, True):
        if again:
            if not heard:
                break
            sizes, pairs = _of_refusals(heard, hints)
            # A small number may be one that the number of records has to be a multiple of.
            multiples = [ROWS // size * size for size in sizes if size < FEWEST_RECORDS]
            counts = [*counts_asked, *counts[:2], ROWS, *multiples, *sizes]
            rows = [*pairs, *rows[:FIRST]]
        for shape in _shapes(rows, counts):
            wanted: Shape | None = shape
            for _ in range(3):
                few = wanted is not None and wanted.numbers <= MOST_NUMBERS
                if wanted is None or not few or tried >= MOST_TRIES * (1 + again):
                    break
                tried += 1
                why = _refusal(program, declaration, scope, wanted)
                if why == "":
                    usable.append(wanted)
                    why = _refusal(program, declaration, scope, wanted, kinds=1)
                if why == "":
                    return wanted
                if isinstance(why, _Rows):
                    wanted = why.shape(wanted)
                    counts_asked[wanted.rows] = None
                    continue
                refusals[why] = None
                likeliest = likeliest or (why if wanted.rows in first else "")
                refused, wanted = why, None
                heard += [int(n) for n in re.findall(r"\b\d{1,6}\b", why) if int(n) > 0]
    reason = _said(likeliest or refused, tried, alike=len(refusals) == 1, wide=wide)
    return _first_of(usable, reason)


def _first_of(usable: list[Shape], said: str) -> Shape:
    """Errors: Unknown, where there is none."""
    if not usable:
        raise Unknown(said)
    return usable[0]


def _of_refusals(
    heard: list[int], hints: dict[str, int]
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Counts and shapes of rows from what refusals say: "for 300 users was given 24"."""
    numbers = list(dict.fromkeys(heard))[:TOLD]
    return numbers, [(a, b) for a in numbers for b in (*_named(hints, WIDTHS), WIDTH, *numbers)]


def _said(why: str, tried: int, *, alike: bool, wide: Shape | None) -> str:
    """Why a program ran on nothing; ``wide``: what it seems to take."""
    reason = f"the program ran on none of {tried} shapes of records made up for it: {why}"
    if alike:
        reason = f"the program refused all {tried} shapes of records made up for it, alike: {why}"
    elif wide is not None and wide.numbers > MOST_NUMBERS:
        reason = (
            f"the program says that it takes {wide.rows:,} rows of shape {wide.row}, which is "
            f"{wide.numbers:,} numbers where at most {MOST_NUMBERS:,} are made up, and refused "
            f"{tried} smaller shapes"
        )
    return f"{reason}; if there are records that it runs on, give it a records_like hook"


def says_how_many(program: Program, declaration: Node, scope: Scope) -> bool:
    """Whether a program's fields, or its declaration, say for how many records it is."""
    return bool(_populations(declaration, scope) or _named(dict(_hints(program)), COUNTS))


def _shapes(rows: Iterable[tuple[int, ...]], counts: Iterable[int]) -> Iterator[Shape]:
    for row in rows:
        for count in dict.fromkeys(counts):
            shape = Shape(count, row)
            if shape.numbers <= MOST_NUMBERS:
                yield shape


def fits(program: Program, declaration: Node, scope: Scope, shape: Shape) -> str:
    """Why the program does not run on made-up records of this shape; empty if it does."""
    refusal = _refusal(program, declaration, scope, shape)
    if isinstance(refusal, _Rows):
        wanted = refusal.shape(shape)
        return f"it takes {wanted.rows} rows of shape {wanted.row}"
    return refusal


def _refusal(
    program: Program, declaration: Node, scope: Scope, shape: Shape, kinds: int = 4
) -> str | _Rows:
    """Why a program does not run on records of so many ``kinds``; empty if it does."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((kinds, *shape.row))
    records = Records(drawn[np.arange(shape.rows) % kinds])
    try:
        with np.errstate(all="ignore"):
            asking = _Asking(declaration, scope, records, rng=rng)
            asking.until = time.process_time() + LONG
            run(program, asking)
    except _Rows as wanted:
        return wanted
    except (Undeclared, _Enough):
        return ""  # it ran as far as a release that is refused whatever the records are
    except Exception as error:  # noqa: BLE001  (made-up records: what it says quotes no data)
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return ""


def _hints(program: Any) -> Iterator[tuple[str, int]]:
    """Whole numbers in a program's fields, at any depth, the outer ones first."""
    level, ids_seen = [program], set[int]()
    for _ in range(DEEP):
        deeper: list[Any] = []
        for item in level:
            if id(item) in ids_seen:
                continue
            ids_seen.add(id(item))
            for name, value in _inside(item):
                if hasattr(value, "__index__") and not isinstance(value, (bool, np.ndarray)):
                    if 0 < int(value) <= MOST_NUMBERS:
                        yield f"{name}.{int(value)}", int(value)
                elif name == "client_sizes" or _is_counts(value):
                    yield f"size.{sum(value)}", int(sum(value))
                else:
                    deeper.append(value)
        level = deeper


def _is_counts(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) > 1
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    )


def _inside(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        return [("item", value) for value in value[:4]]
    if is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name, None)) for f in fields(value)]
    if str(type(value).__module__).partition(".")[0] in ("builtins", "numpy", "sympy", "fractions"):
        return []
    return [(k, v) for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_")]


def _named(hints: dict[str, int], names: tuple[str, ...]) -> list[int]:
    values = [
        value
        for wanted in names
        for name, value in hints.items()
        if wanted == name.partition(".")[0] or name.partition(".")[0].endswith(f"_{wanted}")
    ]
    return list(dict.fromkeys(values))


def _row_shapes(hints: dict[str, int]) -> Iterator[tuple[int, ...]]:
    """Rows of so many features, with a label or without; several items a row; then any number."""
    widths = [w for width in _named(hints, WIDTHS) for w in (width + 1, width)]
    others = [v for v in hints.values() if v <= 64]
    flat = list(dict.fromkeys([*widths, WIDTH, *others, *(v + 1 for v in others), 1, 2, 3]))
    items = _named(hints, ITEMS)
    shapes: list[tuple[int, ...]] = []
    if items:
        shapes += [(count, width) for count in items for width in flat]
    shapes += [(width,) for width in flat]
    shapes += [(count, width) for count in (1, 3) for width in flat[:4]]
    counts = [v for v in hints.values() if v <= 4096]
    shapes += [(count, width) for count in counts[:6] for width in flat[:4]]
    yield from dict.fromkeys(shapes)


def _populations(declaration: Node, scope: Scope) -> list[int]:
    if scope.adjacency is Adjacency.ADD_REMOVE:
        return []
    populations: list[int] = []
    level = [declaration]
    while level:
        node = level.pop()
        if hasattr(node, "population") and hasattr(node, "batch_size"):
            try:
                populations.append(int(enclose(node.population).mid()))
            except (TypeError, ValueError):
                continue
        level.extend(node.children[:8])
    return populations

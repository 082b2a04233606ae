"""The paper's data sets from a user's own files, as Appendix A prepares them, and in public ranges.

Nothing is downloaded: a file is named, read whole, and split by a seed.  Preparing data as the
paper does, by their own mean, deviation and largest target, is *not private*, and says so.
Source: Murata and Suzuki 2023, Section 6 and Appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array

WORDS = "words are numbered by the file's own, in alphabetical order: not private"
NOT_PRIVATE = (
    "features standardised by the data's own mean and deviation, and the target divided by its "
    "largest absolute value over training and test rows (Appendix A): not private"
)
WORKERS, TRAINED = 10, 0.8


@dataclass(frozen=True)
class Layout:
    """How a data set's file is laid out: columns by place, of a file without its line of names.

    ``target``: the column of the target; ``dropped``: columns that are not used; ``classes``: how
    many the target has, 0 of a regression; ``first``: the number of its first class.  ``numeric``:
    how many features, the first, are standardised, 0 for all; the others are indicators.
    ``rows`` and ``features``: as the paper counts them.  ``words``: columns of words, which become
    their places among the file's own in alphabetical order; ``labels``: the words of the target.
    """

    rows: int
    features: int
    target: int
    dropped: tuple[int, ...] = ()
    classes: int = 0
    first: int = 0
    numeric: int = 0
    words: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()


# The connections that the task description of KDD Cup 1999 names.
CONNECTIONS = (
    "back", "buffer_overflow", "ftp_write", "guess_passwd", "imap", "ipsweep", "land",
    "loadmodule", "multihop", "neptune", "nmap", "normal", "perl", "phf", "pod", "portsweep",
    "rootkit", "satan", "smurf", "spy", "teardrop", "warezclient", "warezmaster",
)  # fmt: skip
LAYOUTS: Mapping[str, Layout] = {
    "california": Layout(20_640, 8, 8),
    "gas_turbine": Layout(36_733, 9, 9, dropped=(10,)),
    "blog_feedback": Layout(60_021, 280, 280),
    "cover_type": Layout(581_012, 54, 54, classes=7, first=1, numeric=10),
    "kdd_cup": Layout(4_898_431, 41, 41, classes=23, words=(1, 2, 3), labels=CONNECTIONS),
}


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows of features, then the target: ``train`` in equal blocks, one a worker, and ``test``.

    ``non_private``: why what was done to them is not private, for a program's declaration.
    """

    train: Array
    test: Array
    classes: int
    non_private: tuple[str, ...]


def load(path: Path, name: str, seed: int) -> Prepared:
    """A data set of the paper from a .csv (a line of names, or none) or .npy file.

    ``seed`` of the split into four fifths and the rest; rows left over by ten equal workers are
    dropped.  Errors: InvalidParameter for another name, a file that is no table of numbers, or
    classes that the data set does not have.
    """
    if name not in LAYOUTS:
        raise InvalidParameter(f"{name!r}: expected one of {', '.join(LAYOUTS)}")
    layout = LAYOUTS[name]
    if not layout.words or path.suffix == ".npy":
        return prepared(_table(path), layout, seed)
    made = prepared(_table(path, _Words(layout)), layout, seed)
    return replace(made, non_private=(*made.non_private, WORDS))


def prepared(table: Array, layout: Layout, seed: int) -> Prepared:
    """Rows as Appendix A prepares them; errors as :func:`load`."""
    width = layout.features + 1 + len(layout.dropped)
    if table.shape[1] != width or not np.isfinite(table).all():
        raise InvalidParameter(f"{table.shape[1]} columns: expected {width} of finite numbers")
    kept = [c for c in range(width) if c != layout.target and c not in layout.dropped]
    features, target = table[:, kept], table[:, layout.target]
    order = np.random.default_rng(seed).permutation(len(table))
    count = int(TRAINED * len(table)) // WORKERS * WORKERS
    if count == 0:
        raise InvalidParameter(f"{len(table)} rows: too few for {WORKERS} workers")
    train, test = order[:count], order[int(TRAINED * len(table)) :]
    spread = features[train].std(axis=0)
    centre = features[train].mean(axis=0)
    if layout.numeric:
        centre[layout.numeric :], spread[layout.numeric :] = 0.0, 1.0
    features = (features - centre) / np.where(spread > 0, spread, 1.0)
    if layout.classes:
        target = target - layout.first
        if not np.isin(target, np.arange(layout.classes)).all():
            raise InvalidParameter(f"target: expected {layout.classes} classes, whole numbers")
    else:
        target = target / max(float(np.abs(target).max()), 1e-300)
    rows = np.column_stack([features, target])
    return Prepared(rows[train], rows[test], layout.classes, (NOT_PRIVATE,))


@dataclass
class _Words:
    """Numbers for the words of a file: of its columns as they come, of its target as listed."""

    layout: Layout
    seen: dict[int, dict[str, int]] = field(default_factory=dict)

    def converters(self) -> dict[int | str, Callable[[str], float]]:
        """For numpy.loadtxt, by column."""
        columns = (*self.layout.words, self.layout.target)
        return {column: partial(self._number, column) for column in columns}

    def _number(self, column: int, word: str) -> float:
        if column == self.layout.target:
            return float(self.layout.labels.index(word.strip().rstrip(".")))
        own = self.seen.setdefault(column, {})
        return float(own.setdefault(word.strip(), len(own)))

    def sorted(self, table: Array) -> Array:
        """The table with words of a column by their alphabetical place."""
        for column, own in self.seen.items():
            places = {word: place for place, word in enumerate(sorted(own))}
            by_number = np.array([places[word] for word in own], dtype=np.float64)
            table[:, column] = by_number[table[:, column].astype(np.intp)]
        return table


def _table(path: Path, words: _Words | None = None) -> Array:
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        with path.open(encoding="utf-8") as stream:
            first = stream.readline().strip().split(",")
        names = not any(_is_number(word) for word in first)
        known = None if words is None else words.converters()
        table = np.loadtxt(path, delimiter=",", skiprows=int(names), ndmin=2, converters=known)
        return table if words is None else words.sorted(table)
    except (OSError, ValueError):
        raise InvalidParameter(f"{path}: expected a table of numbers, .csv or .npy") from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True

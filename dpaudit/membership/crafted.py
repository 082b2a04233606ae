"""Canaries made for data that nobody has described.

A kind is an exposed place of training: a long gradient, a direction or value of its own, a label
that nobody expects.  Each is made from the columns' middles and widths alone.  Beside each canary
stand queries: records that are scored and never trained on, so that an attack can cancel what a
model says of the record anyway.

Sources: Carlini et al. (2022); Nasr et al. (2023), blank and crafted canaries; Steinke, Nasr and
Jagielski (2023), section 6; Tramer et al. (2022), worst-case targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from dpaudit.errors import InvalidParameter
from dpaudit.membership.canaries import mislabelled
from dpaudit.membership.data import Data, FloatArray, joined

_JITTER = 1e-3  # of a record's distance from the middle: no two records become the same
_PROBES = 12  # records that every model is asked about
_PROBED = 2.0  # widths of their spikes
_FEWEST_OF_A_KIND = 8  # candidates, of which those with gradients of their own are chosen
_MOST_GRADIENTS = 256  # of the data, beside which a direction is somebody's own
_LEAST_SPREAD = 1e-2  # in a direction: noise of length 1 beside a hundred gradients as long
_LEAST_WIDTH = 1e-3  # of a column that hardly varies, relative to 1 and its middle


@dataclass(frozen=True, eq=False)
class Canaries:
    """Canaries of one kind, and records that are asked about beside them.

    ``queries``: each as long as ``data``: the record that a canary was made of, a sibling (of the
    same kind, made by other draws), the canary reflected at the middle of the data.
    """

    data: Data
    queries: tuple[Data, ...]

    def of_users(self, records: int) -> Canaries:
        """Each canary as a user who holds it ``records`` times."""
        rows = np.repeat(np.arange(len(self.data)), records)
        data = replace(self.data.take(rows), units=rows)
        return Canaries(data, tuple(query.take(rows) for query in self.queries))

    def moved(self, data: Data, times: float) -> Canaries:
        """Canaries for ``data`` and queries ``times`` as far from its middle, where numeric."""
        table = Table.of(data)
        if table is None:
            return self
        return Canaries(
            table.moved(self.data, times), tuple(table.moved(each, times) for each in self.queries)
        )


@dataclass(frozen=True, eq=False)
class Table:
    """Numeric records flattened, (n, columns), with the middle and the width of each column.

    ``whole``: columns of whole numbers, whose middle is a value that occurs.
    """

    data: Data
    rows: FloatArray
    middle: FloatArray
    width: FloatArray
    whole: Any

    @classmethod
    def of(cls, data: Data) -> Table | None:
        """None for records that are not numeric."""
        if data.features.dtype.kind not in "fiub":
            return None
        rows = data.features.reshape(len(data), -1).astype(np.float64)
        middle = np.quantile(rows, 0.5, axis=0, method="lower")
        width = np.maximum(rows.std(axis=0), _LEAST_WIDTH * (1 + np.abs(middle)))
        return cls(data, rows, middle, width, (rows == np.round(rows)).all(axis=0))

    def near_middle(self, rows: FloatArray) -> FloatArray:
        """These rows drawn close to the middle; columns of whole numbers are at it."""
        return self.middle + np.where(self.whole, 0.0, _JITTER) * (rows - self.middle)

    def moved(self, records: Data, times: float) -> Data:
        """Records ``times`` as far from the middle; in columns of whole numbers they stay."""
        rows = records.features.reshape(len(records), -1).astype(np.float64)
        rows = np.where(self.whole, rows, self.middle + times * (rows - self.middle))
        return replace(self.records(rows, records.labels), units=records.units)

    def records(self, rows: FloatArray, labels: Any) -> Data:
        """Records of these rows, in the type and within the limits of the data."""
        kind, shape = self.data.features.dtype, (len(rows), *self.data.features.shape[1:])
        if kind.kind in "iu":
            rows = np.clip(np.round(rows), np.iinfo(kind).min, np.iinfo(kind).max)
        features = rows > 0.5 if kind.kind == "b" else rows
        return Data(features.astype(kind).reshape(shape), labels)


Change = Callable[[Table, FloatArray, Any], FloatArray]
Kind = Callable[[Data, int, np.random.Generator], Canaries | None]
Directions = Callable[[Data], FloatArray]


def _changed(change: Change, label: Callable[[Data, int], Any]) -> Kind:
    """A kind of ``change(table, rows, places) -> rows``: places 0, 1, ... are a canary's own."""

    def kind(data: Data, count: int, rng: np.random.Generator) -> Canaries | None:
        table = Table.of(data)
        if table is None:
            return None
        drawn = rng.permutation(np.resize(np.arange(len(data)), max(2 * count, len(data))))
        base, other = table.rows[drawn[:count]], table.rows[drawn[count : 2 * count]]
        labels, places = label(data, count), np.arange(count)
        rows, sibling = change(table, base, places), change(table, other, places + count)
        probed_rows = (base, sibling, 2 * table.middle - rows)
        queries = tuple(table.records(each, labels) for each in probed_rows)
        return Canaries(table.records(rows, labels), queries)

    return kind


def _unexpected(data: Data, count: int) -> Any:
    """The rarest class, or a number 3 deviations above the mean; None for data without labels."""
    if data.labels is None:
        return None
    if data.labels.dtype.kind == "f":
        return np.full(count, data.labels.mean() + 3 * data.labels.std())
    classes, sizes = np.unique(data.labels, return_counts=True)
    return np.full(count, classes[np.argmin(sizes)])


def _spike(size: float) -> Change:
    """All columns at their middle but one, ``size`` widths away; up first, then down."""

    def change(table: Table, rows: FloatArray, places: Any) -> FloatArray:
        spiked, columns = table.near_middle(rows), places % rows.shape[1]
        turn = np.where((places // rows.shape[1]) % 2, -1.0, 1.0)
        spiked[np.arange(len(rows)), columns] += turn * size * table.width[columns]
        return spiked

    return change


def _corner(size: float) -> Change:
    """All columns ``size`` widths from their middle, the signs of a row of Sylvester's matrix.

    Different rows are orthogonal, so that no canary is in the way of another.
    """

    def change(table: Table, rows: FloatArray, places: Any) -> FloatArray:
        columns = np.arange(rows.shape[1])
        turn = np.where((places // rows.shape[1]) % 2, -1.0, 1.0)[:, None]
        odd = np.bitwise_count((places % rows.shape[1])[:, None] & columns) % 2
        return table.near_middle(rows) + turn * np.where(odd, -size, size) * table.width

    return change


def _stretched(size: float) -> Change:
    """A record ``size`` times as far from the middle as it is."""
    return lambda table, rows, _: table.middle + size * (rows - table.middle)


def _blank(table: Table, rows: FloatArray, _: Any) -> FloatArray:
    """Every column at its middle."""
    return table.near_middle(rows)


def _fresh(table: Table, rows: FloatArray, places: Any) -> FloatArray:
    """A value that nobody has, in the columns of whole numbers one after the other."""
    fresh_rows, columns = table.near_middle(rows), np.flatnonzero(table.whole)
    for row, place in enumerate(places):
        column, turn = columns[place % columns.size], place // columns.size
        occurring = np.unique(table.rows[:, column])
        beyond = np.arange(occurring[0], occurring[-1] + 2 + 2 * turn + len(rows))
        free = np.setdiff1d(beyond, occurring)
        fresh_rows[row, column] = free[turn]
    return fresh_rows


def _fresh_value(data: Data, count: int, rng: np.random.Generator) -> Canaries | None:
    if data.features.dtype.kind in "OUS":
        return _fresh_word(data, count, rng)
    table = Table.of(data)
    if table is None or not table.whole.any():
        return None
    return _changed(_fresh, _unexpected)(data, count, rng)


def _fresh_word(data: Data, count: int, rng: np.random.Generator) -> Canaries | None:
    """A word that nobody has, in the first cell of a record that holds text."""
    cells = data.features.astype(object).reshape(len(data), -1)
    texts = [column for column in range(cells.shape[1]) if isinstance(cells[0, column], str)]
    if not texts or 2 * count > len(data):
        return None
    drawn, labels = rng.permutation(len(data)), _unexpected(data, count)

    def records(chosen: Any, words: Sequence[str]) -> Data:
        texts_made = cells[chosen].copy()
        for row, word in enumerate(words):
            cell = str(texts_made[row, texts[0]])
            texts_made[row, texts[0]] = f"{cell} {word}" if " " in cell else word
        shaped = texts_made.reshape(count, *data.features.shape[1:])
        return Data(shaped if data.features.dtype.kind == "O" else shaped.astype(str), labels)

    first, second = drawn[:count], drawn[count : 2 * count]
    own = [f"canary{place}" for place in range(count)]
    sibling = [f"sibling{place}" for place in range(count)]
    return Canaries(records(first, own), (records(first, sibling), records(second, sibling)))


def _mislabelled(data: Data, count: int, rng: np.random.Generator) -> Canaries | None:
    if data.labels is None or 2 * count > len(data) or np.unique(data.labels).size < 2:
        return None
    canaries = mislabelled(data, 2 * count, rng)
    first, second = np.arange(count), np.arange(count, 2 * count)
    return Canaries(canaries.take(first), (canaries.take(second),))


def _rare_class(data: Data, count: int, rng: np.random.Generator) -> Canaries | None:
    """Records of the other classes, with the label of the rarest."""
    if data.labels is None or data.labels.dtype.kind == "f":
        return None
    labels = _unexpected(data, count)
    others = rng.permutation(np.flatnonzero(data.labels != labels[0]))
    if 2 * count > others.size:
        return None
    both = [
        Data(data.features[others[rows]], labels)
        for rows in (slice(count), slice(count, 2 * count))
    ]
    return Canaries(both[0], (both[1],))


def _mixed(data: Data, count: int, rng: np.random.Generator) -> Canaries | None:
    """Records of which every column, or every word of a text, is that of another record."""
    labels = _unexpected(data, 2 * count)
    table = Table.of(data)
    if table is not None:
        drawn = rng.integers(len(data), size=(2 * count, table.rows.shape[1]))
        mixed_records: Data | None = table.records(
            table.rows[drawn, np.arange(table.rows.shape[1])], labels
        )
    else:
        mixed_records = _mixed_words(data, 2 * count, labels, rng)
    if mixed_records is None:
        return None
    first, second = np.arange(count), np.arange(count, 2 * count)
    return Canaries(mixed_records.take(first), (mixed_records.take(second),))


def _mixed_words(data: Data, count: int, labels: Any, rng: np.random.Generator) -> Data | None:
    """Texts as long as those of the data, of words drawn from all of them."""
    if data.features.ndim != 1 or data.features.dtype.kind not in "OU":
        return None
    texts = [str(text).split() for text in data.features]
    words = [word for text in texts for word in text]
    if len(set(words)) < 2:
        return None
    lengths = [len(texts[row]) for row in rng.integers(len(texts), size=count)]
    texts_made = [
        " ".join(words[place] for place in rng.integers(len(words), size=n)) for n in lengths
    ]
    return Data(np.array(texts_made, dtype=data.features.dtype.kind), labels)


def _far_label(size: float) -> Kind:
    """Records with a real label ``size`` deviations above the mean."""

    def label(data: Data, count: int) -> Any:
        assert data.labels is not None  # noqa: S101 (asked below)
        width = max(float(data.labels.std()), _LEAST_WIDTH)
        return np.full(count, data.labels.mean() + size * width)

    def kind(data: Data, count: int, rng: np.random.Generator) -> Canaries | None:
        if data.labels is None or data.labels.dtype.kind != "f":
            return None
        return _changed(lambda table, rows, _: rows.copy(), label)(data, count, rng)

    return kind


KINDS: dict[str, tuple[str, Kind]] = {
    "spike": ("one column 10 widths from its middle", _changed(_spike(10), _unexpected)),
    "fresh_value": ("a value or word that nobody else has", _fresh_value),
    "mislabelled": ("another label than the record's", _mislabelled),
    "far_label": ("a label 1,000 deviations from the mean", _far_label(1e3)),
    "farthest_label": ("a label a million deviations from the mean", _far_label(1e6)),
    "far_spike": ("one column 1,000 widths from its middle", _changed(_spike(1e3), _unexpected)),
    "corner": ("every column 10 widths from its middle", _changed(_corner(10), _unexpected)),
    "far_corner": (
        "every column 1,000 widths from its middle",
        _changed(_corner(1e3), _unexpected),
    ),
    "near_corner": ("every column 2 widths from its middle", _changed(_corner(2), _unexpected)),
    "blank": ("every column at its middle", _changed(_blank, _unexpected)),
    "rare_class": ("the label of the rarest class", _rare_class),
    "stretched": (
        "a record 10 times as far from the middle as it is",
        _changed(_stretched(10), _unexpected),
    ),
    "longer_spike": ("one column 100 widths from its middle", _changed(_spike(1e2), _unexpected)),
    "farthest_spike": (
        "one column a million widths from its middle",
        _changed(_spike(1e6), _unexpected),
    ),
    "short_spike": ("one column 3 widths from its middle", _changed(_spike(3), _unexpected)),
    "mixed": ("every column, or word of a text, from another record", _mixed),
}
OWN_GRADIENT = "own_gradient"
# In the order in which they are tried, and what they are in words.
WORDS = {
    "spike": KINDS["spike"][0],
    OWN_GRADIENT: "records whose gradients are directions of their own",
    **{kind: words for kind, (words, _) in KINDS.items()},
}


def kinds_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """Kinds from "auto" (all), "spike,blank" or a sequence.

    Errors: InvalidParameter for an unknown one.
    """
    listed = names.split(",") if isinstance(names, str) else list(names)
    wanted = tuple(name.strip() for name in listed)
    if wanted == ("auto",):
        return tuple(WORDS)
    for name in wanted:
        if name not in WORDS:
            raise InvalidParameter(
                f"canaries = {name!r}: expected auto, none, or some of {', '.join(WORDS)}"
            )
    return wanted


def crafted(
    kind: str,
    data: Data,
    count: int,
    rng: np.random.Generator,
    directions: Directions | None = None,
) -> Canaries | None:
    """``count`` canaries of a kind for ``data``; None where such data cannot have them.

    ``directions`` of records' gradients, (n, d) of length 1, where training shows them.
    """
    if kind == OWN_GRADIENT:
        return None if directions is None else _own_gradients(data, count, rng, directions)
    return KINDS[kind][1](data, count, rng)


def _own_gradients(
    data: Data, count: int, rng: np.random.Generator, directions: Directions
) -> Canaries | None:
    """The records, among those of all kinds, whose gradients are the most their own.

    Gradients count as if clipped to one length, in units of how far those of the data, and noise,
    go in each direction.  Each next record has the longest part that those before it lack.
    Source: Nasr et al. (2023), canaries that are a direction of their own in gradient space.
    """
    several = max(count, _FEWEST_OF_A_KIND)
    made = [kind(data, several, rng) for _, kind in KINDS.values()]
    pools = [canaries for canaries in made if canaries is not None]
    if not pools:
        return None
    candidates = reduce(joined, [pool.data for pool in pools])
    siblings = reduce(joined, [pool.queries[0] for pool in pools])
    alike = data.take(rng.permutation(len(data))[:_MOST_GRADIENTS])
    common = directions(alike)
    spread = common.T @ common / len(common) + _LEAST_SPREAD * np.eye(common.shape[1])
    own = solve_triangular(cholesky(spread, lower=True), directions(candidates).T, lower=True)
    chosen = qr(own, mode="r", pivoting=True)[1][:count]
    return Canaries(candidates.take(chosen), (siblings.take(chosen),))


def probes_of(data: Data, made_from: int) -> Data:
    """Records that every model is asked about: of the data, and of short spikes with all labels.

    The models' answers about them say where a model moved, however little its canary's own answer
    says.
    """
    rng = np.random.default_rng([made_from, len(data)])
    data_probes = data.take(rng.permutation(len(data))[: _PROBES // 2])
    table = Table.of(data)
    if table is None:
        return Data(data_probes.features, data_probes.labels)
    places = np.arange(_PROBES)
    rows = _spike(_PROBED)(table, table.rows[np.resize(places, _PROBES) % len(data)], places)
    # Whole numbers may be places in a vocabulary, which a model refuses to go beyond.
    ends = table.rows.min(axis=0), table.rows.max(axis=0)
    rows = np.where(table.whole, np.clip(rows, *ends), rows)
    labels = None if data.labels is None else np.resize(np.unique(data.labels), _PROBES)
    probes = table.records(rows, labels)
    columns = min(_PROBES - len(data_probes), 2 * table.rows.shape[1])
    return joined(Data(data_probes.features, data_probes.labels), probes.take(places[:columns]))


def outside(data: Data, canaries: Data) -> bool:
    """Whether a canary's column or label is beyond those of the data."""
    table, canary_table = Table.of(data), Table.of(canaries)
    if table is None or canary_table is None:
        return False
    low, high = table.rows.min(axis=0), table.rows.max(axis=0)
    beyond = bool(((canary_table.rows < low) | (canary_table.rows > high)).any())
    if data.labels is None or canaries.labels is None or data.labels.dtype.kind != "f":
        return beyond
    return beyond or bool(canaries.labels.max() > data.labels.max())

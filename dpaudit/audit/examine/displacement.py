"""How far one record can move a query: tried on made-up records, then maximised."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.audit.examine.meter import Meter
from dpaudit.curator.replayer import RELATIVE_TOLERANCE, ROUNDING
from dpaudit.errors import Unsupported
from dpaudit.kernels.base import Session
from dpaudit.kernels.query import Array, Query, Records
from dpaudit.scope import Adjacency

ABSENT = "no record there"
# What a kernel has to know of a value alone.
UNSOUND = (
    "on made-up records its value alone breaks what is declared of it (of a last iterate: an "
    "update stretches distances further)"
)
RESTARTS = 3
# Data sets of the mechanism's hook, and rows of each, at random where it has more; a bug that one
# set in 30 shows is missed one time in 20.
DRAWN_SETS, DRAWN_ROWS = 100, 64
LENGTH = 1e3  # of every entry of a row whose signs are chosen
OUTSIDE = 3  # data sets that differ in a row outside the batch
BRIDGED = 1.5  # times a number that code names: further apart than it, and half of it nearer
GAPS = 4  # columns of which each has gaps of its own
LEAST = 3  # data sets that even a slow query is tried on
COUNTED, COUNTED_NUMBERS = 48, 400_000  # rows of one kind, one by one; and numbers in all, at most
# Of each other kind where one is rare; the kinds there may be, and those that are made rare.
EACH, MOST_KINDS, RARE = 64, 16, 4
# Numbers of rows of which one turns against the others: the most, how far apart, and of them near
# the best.
MANY, RATIO, POWERS, NEAR = 1_000, 1.2, 39, 9


@dataclass(frozen=True, eq=False)
class Asking:
    """One release as it was asked for, to be asked again on other records.

    ``members``: how many rows its secret batch can hold (0 for any number); None on no batch.
    ``batched``: whether it is on one.  ``far``: after answers with more noise than is declared.
    """

    label: str
    place: str
    query: Query
    session: Session
    sensitivity: Array
    on: NDArray[np.bool_]
    adjacency: Adjacency
    batched: bool = False
    members: int = 0
    far: bool = False
    meter: Meter = field(default_factory=lambda: Meter(np.inf))

    def value(self, records: Records, row: int, *, alone: bool = False) -> Array:
        """The noise-free value, (trials, d); on a batch that holds the row (``alone``: only it)."""
        trials, chosen = len(self.on), None
        if self.batched:
            held = np.arange(len(records)) == row
            if not alone:
                others = self.members - 1 if self.members else len(records)
                held |= np.arange(len(records)) < others + (row < others and self.members > 0)
            chosen = np.broadcast_to(held, (trials, len(records)))
        return self._on(records, chosen)

    def outside(self, records: Records, row: int) -> Array:
        """The same on a batch that does not hold the row, of as many others as there can be."""
        others = np.flatnonzero(np.arange(len(records)) != row)
        held = np.isin(np.arange(len(records)), others[: self.members or None])
        return self._on(records, np.broadcast_to(held, (len(self.on), len(records))))

    def _on(self, records: Records, chosen: NDArray[np.bool_] | None) -> Array:
        trials = len(self.on)
        self.meter.add(self.query, records, trials)
        with np.errstate(all="ignore"):
            found = np.asarray(self.query.value(records, chosen), dtype=np.float64)
        if found.shape != (shape := (trials, found.shape[-1])):
            found = np.broadcast_to(found, shape)
        return self.meter.made(self.query, records, found)

    def alone(self, value: Array) -> bool:
        """Whether a value is further from itself than is stated: no neighbour is needed."""
        with np.errstate(all="ignore"):
            far = self._apart(value, value, self.sensitivity) > self.sensitivity
        return bool((far & np.isfinite(value).all(-1) & self.on).any())

    def _apart(self, one: Array, two: Array, stated: Array) -> Array:
        """As the kernel says, all pairs at once, or one by one where it takes no others."""
        try:
            return self.session.apart(one, two, stated)
        except Unsupported:
            each = [slice(k, k + 1) for k in range(len(one))]
            return np.concatenate([self.session.apart(one[k], two[k], stated[k]) for k in each])

    def factors(self, values: Sequence[Array], others: Sequence[Array]) -> Array:
        """The distance of each two values over the stated sensitivity, the largest over trials.

        Above 1 beyond rounding; infinite for what is no number.
        """
        found = np.zeros(len(values))
        for trial in np.flatnonzero(self.on):
            one = np.array([value[trial] for value in values])
            two = np.array([value[trial] for value in others])
            stated = np.full(len(values), self.sensitivity[trial])
            with np.errstate(all="ignore"):
                distance = self._apart(one, two, stated)
                size = np.abs(one).max(-1, initial=0.0) + np.abs(two).max(-1, initial=0.0)
                allowed = stated * (1 + RELATIVE_TOLERANCE) + ROUNDING * size
                factor, within = np.minimum(distance / stated, 1.0), distance <= allowed
                if not within.all():
                    over = ~within & np.isfinite(distance) & (stated > 0)
                    factor = np.where(within, factor, np.inf)
                    factor = np.where(over, np.maximum(distance / stated, 1 + 1e-9), factor)
            # Far away a point itself may overflow, whatever the records are.
            unsure = ~np.isfinite(factor) if self.far else np.isnan(factor)
            found = np.maximum(found, np.where(unsure, 0.0, factor))
        return found


@dataclass
class Moved:
    """What was tried on the queries of one label and line, and the furthest that one moved.

    ``clips``: the library's own code clips every row of it; ``bounded``: or bounds it otherwise.
    ``ordered``: whether rows after the changed one were chosen one after another; ``counted``:
    whether every number of equal rows was tried; ``crowded``: whether a thousand rows at once were.
    ``computed``: where the program's own functions begin that its first query was computed by.
    """

    label: str
    place: str
    kind: str
    computed: str = ""
    clips: bool = False
    bounded: bool = False
    tried: int = 0
    factor: float = 0.0
    text: str = ""
    problems: dict[str, None] = field(default_factory=dict)
    pair: tuple[Records, Records] | None = None
    ordered: bool = False
    counted: bool = False
    crowded: bool = False

    def add(self, factor: float, text: str, pair: tuple[Records, Records] | None = None) -> None:
        """A displacement, in stated sensitivities; ``pair``: the rows of the release."""
        if factor > self.factor:
            self.factor, self.text = factor, text
            self.pair = pair


@dataclass(frozen=True, eq=False)
class Pairing:
    """Data sets that are one another's neighbours in row ``row``, by what stands there.

    ``absent``: two in which nothing does, but other values stand in its place.
    """

    row: int
    names: tuple[str, ...]
    records: tuple[Records, ...]
    pairs: tuple[tuple[int, int], ...]
    absent: tuple[Records, ...] = ()


def neighbours_at(
    world: Records, row: int, rows: Mapping[str, Array], adjacency: Adjacency
) -> Pairing:
    """Data sets that differ in one row: every two under replace_one, else with and without it."""
    sets, names = [world.with_row(row, values) for values in rows.values()], list(rows)
    count = len(sets)
    if adjacency is Adjacency.REPLACE_ONE:
        every = tuple((i, j) for i in range(count) for j in range(i))
        return Pairing(row, tuple(names), tuple(sets), every)
    if adjacency is Adjacency.ADD_REMOVE:
        without = Records(np.delete(world.values, row, axis=0))
        pairs = tuple((count, j) for j in range(count))
        return Pairing(row, (*names, ABSENT), (*sets, without), pairs)
    present = np.arange(len(world)) != row
    absent = tuple(Records(one.values, present) for one in sets[:2])
    pairs = tuple((count, j) for j in range(count))
    return Pairing(row, (*names, ABSENT), (*sets, absent[0]), pairs, absent)


def try_rows(
    asking: Asking, moved: Moved, pairing: Pairing, name: str, most: float = np.inf
) -> tuple[str, str]:
    """Evaluate a query on every data set of a pairing; returns the two rows furthest apart.

    Large ones on as many as ``most`` of the work allows, the last (no record) among them.
    """
    row, best = pairing.row, ("", "")
    for alone in (False, True) if asking.batched and not asking.members else (False,):
        values: dict[int, Array] = {}
        for number in (len(pairing.records) - 1, *range(len(pairing.records) - 1)):
            if len(values) >= LEAST and asking.meter.beyond(most):
                break
            records = pairing.records[number]
            gone = len(records) < len(pairing.records[0])
            if gone:
                values[number] = without_row(asking, records, alone=alone)
            else:
                values[number] = asking.value(records, row, alone=alone)
        pairs = [(i, j) for i, j in pairing.pairs if i in values and j in values]
        factors = asking.factors([values[i] for i, _ in pairs], [values[j] for _, j in pairs])
        moved.tried += len(values)
        worst = int(np.argmax(factors))
        i, j = pairs[worst]
        found = (pairing.names[i], pairing.names[j])
        if factors[worst] > moved.factor or best == ("", ""):
            best = found
        text = f"row {row} {found[0]!r} against {found[1]!r}, {name}"
        moved.add(float(factors[worst]), text, (pairing.records[i], pairing.records[j]))
    if pairing.absent:
        moved.tried += len(pairing.absent)
        absent = [asking.value(records, row) for records in pairing.absent]
        if asking.factors(absent[:1], absent[1:])[0] > 1e-6:
            moved.problems["a record that is absent still moves the query"] = None
    if asking.batched and len(pairing.records[0]) > max(1, asking.members):
        # A secret batch hides a record only if what is outside of it moves nothing.
        others = [r for r in pairing.records if len(r) == len(pairing.records[0])]
        finite = [r for r in others if np.isfinite(r.values[row]).all()][:OUTSIDE]
        moved.tried += len(finite)
        outside = [asking.outside(records, row) for records in finite]
        apart = [asking.factors(outside[:1], [value])[0] for value in outside[1:]]
        if max(apart, default=0.0) > 1e-6:
            moved.problems["a record outside the secret batch moves the query"] = None
    return best


def try_counts(
    asking: Asking, moved: Moved, world: Array, rows: Mapping[str, Array], until: float
) -> None:
    """Data sets of k rows of one kind among zeros, and of k + 1: what a count decides shows there.

    A small cell that is hidden, a majority, a whole number that wraps.  Under add_remove there are
    k rows and no others, under zero_out the others are absent.  ``until``: the work until which to
    try.  A query need not run on so few rows: what it fails on is left out.
    """
    size, adjacency = len(world), asking.adjacency
    more = adjacency is Adjacency.ADD_REMOVE
    for name, row in rows.items():
        if adjacency is Adjacency.REPLACE_ONE and not row.any():
            continue  # any number of them is the same data set
        known: dict[int, Array] = {}
        for count in _counts(size, more=more, numbers=row.size):
            for k in (count, count + 1):
                if k in known or asking.meter.beyond(until):
                    continue
                with contextlib.suppress(Exception):
                    known[k] = asking.value(_so_many(row, k, size, adjacency), max(k - 1, 0))
        moved.tried += len(known)
        for k in known:
            if k + 1 not in known:
                continue
            told = _of_sizes(asking, k) if more else asking
            factor = float(told.factors([known[k]], [known[k + 1]])[0])
            if factor > moved.factor:
                pair = (_so_many(row, k + 1, size, adjacency), _so_many(row, k, size, adjacency))
                moved.add(factor, f"{k} and {k + 1} rows {name!r}, no others", pair)


def try_rarities(asking: Asking, moved: Moved, world: Records, until: float) -> None:
    """Data sets in which one kind of row is rare and each other one is not: k of it, and k + 1.

    What holds back an answer until every cell, class or group is large enough shows there.  Under
    add_remove there are ``EACH`` rows of each other kind, elsewhere as many as there is place for.
    ``until``: the work until which to try.  What the query fails on is left out.
    """
    size, adjacency = len(world), asking.adjacency
    kinds = world.distinct()[0]
    kinds = kinds[np.isfinite(kinds.reshape(len(kinds), -1)).all(axis=1)]
    if not 2 <= len(kinds) <= MOST_KINDS:
        return
    more = adjacency is Adjacency.ADD_REMOVE
    each = min(EACH, COUNTED_NUMBERS // kinds.size if more else size // len(kinds))
    for number in range(min(len(kinds), RARE)):
        others = np.delete(kinds, number, axis=0)
        around = others[np.arange(each * len(others) if more else size) % len(others)]
        for k in range(each):
            if asking.meter.beyond(until):
                return
            pair = _one_more(kinds[number], k, around, adjacency)
            told = _of_sizes(asking, len(pair[1])) if more else asking
            with contextlib.suppress(Exception):
                values = [asking.value(records, 0) for records in pair]
                moved.tried += 2
                factor = float(told.factors(values[:1], values[1:])[0])
                text = f"{k} and {k + 1} rows of one kind among {each} of each other"
                moved.add(factor, text, pair)


def try_draws(
    asking: Asking,
    moved: Moved,
    draw: Callable[[], Records],
    rows: tuple[int, int],
    until: float,
) -> None:
    """Fresh data sets of the mechanism's hook, each with rows taken away one by one.

    Records that belong together, such as those of a join, a session or a chain, are seldom met in
    rows made one by one.  Under replace_one a row of another data set takes the place.  ``rows``:
    where the release's rows begin and end, which a data set keeps unless rows are added and
    removed.  ``until``: the work until which to try.
    """
    more, size = asking.adjacency is Adjacency.ADD_REMOVE, rows[1] - rows[0]
    other = draw().rows(*rows)
    for number in range(DRAWN_SETS):
        drawn = draw()
        records = drawn if more else drawn.rows(*rows)
        if len(records) < 2 or not (more or len(records) == len(other) == size):
            return
        told = _of_sizes(asking, len(records) - 1) if more else asking
        whole = asking.value(records, 0)
        order = np.random.default_rng(number).permutation(len(records))
        for row in order[:DRAWN_ROWS].tolist():
            if asking.meter.beyond(until) or moved.factor > 1:
                return
            changed = {"": other.values[row]} if row < len(other) else {"": records.values[row]}
            pairing = neighbours_at(records, row, changed, asking.adjacency)
            fewer = pairing.records[0 if asking.adjacency is Adjacency.REPLACE_ONE else 1]
            value = without_row(asking, fewer) if more else asking.value(fewer, row)
            moved.tried += 1
            factor = float(told.factors([whole], [value])[0])
            text = f"row {row} of data set {number + 1} of its records_like hook"
            moved.add(factor, text, (records, fewer))
        other = records


def _one_more(
    row: Array, count: int, around: Array, adjacency: Adjacency
) -> tuple[Records, Records]:
    """One more than so many equal rows, and so many: in front of others, or in their places."""
    if adjacency is Adjacency.ADD_REMOVE:
        front = np.array(np.broadcast_to(row, (count + 1, *row.shape)))
        larger = np.concatenate([front, around])
        return Records(larger), Records(larger[1:])
    values = np.array(around)
    values[:count] = row
    fewer = values.copy()
    values[count] = row
    if adjacency is Adjacency.ZERO_OUT:
        return Records(values), Records(values, np.arange(len(values)) != count)
    return Records(values), Records(fewer)


def try_bridges(
    asking: Asking, moved: Moved, world: Records, rows: Mapping[str, Array], until: float
) -> None:
    """A row between two groups of rows that are further apart than a number that code names.

    What chains records that are near each other, such as sessions, clusters or components, is one
    group with the row and two without it.  ``until``: the work until which to try.  What the query
    fails on is left out.
    """
    place = len(world) // 2
    halves = (np.arange(len(world)) > place).reshape(-1, *[1] * (world.values.ndim - 1))
    for name, row in rows.items():
        for length in dict.fromkeys((1.0, row.size**-0.5)):
            if asking.meter.beyond(until):
                return
            apart, between = Records(halves * (BRIDGED * length) * row), BRIDGED / 2 * length * row
            made = {"between them": between, "zero": 0 * row}
            with contextlib.suppress(Exception):
                pairing = neighbours_at(apart, place, made, asking.adjacency)
                text = f"others zero or {BRIDGED * length:.3g} times {name!r}"
                try_rows(asking, moved, pairing, text)


def try_gaps(
    asking: Asking, moved: Moved, world: Records, rows: Mapping[str, Array], until: float
) -> None:
    """Rows beside others that are no numbers, whole or in one column.

    What fills the gaps of other rows with a value from this one, forwards, by a mean or by the
    largest, moves by many at once.  ``until``: the work until which to try.  What the query fails
    on is left out.
    """
    columns = world.values.shape[-1]
    for column in (None, *range(min(columns, GAPS))):
        values = world.values.copy()
        values[..., slice(None) if column is None else column] = np.nan
        name = "others no numbers" if column is None else f"others no number in column {column}"
        for place in (0, len(world) // 2):
            if asking.meter.beyond(until):
                return
            with contextlib.suppress(Exception):
                pairing = neighbours_at(Records(values), place, rows, asking.adjacency)
                try_rows(asking, moved, pairing, name)


def try_minorities(
    asking: Asking, moved: Moved, size: int, rows: Mapping[str, Array], until: float
) -> None:
    """Equal rows with and without one that turns against them, of growing numbers of them.

    Where a number of records divides what they add up to, or a sum over them does, the one that
    turns moves it furthest, from the number on at which the divisor leaves its floor: numbers are
    a fifth apart, and near the best they are tried more closely.  Under zero_out so many rows are
    there, of ``size``; under add_remove there are no others.  What the query fails on is left out.
    """
    more = asking.adjacency is Adjacency.ADD_REMOVE
    kinds = [(name, row, others_than(row)) for name, row in rows.items() if row.any()]
    if not kinds:
        return
    most = min(MANY, COUNTED_NUMBERS // kinds[0][1].size) if more else size - 1
    best, where = 0.0, (0, 0, "")

    def tried(count: int, number: int, only: str = "") -> None:
        nonlocal best, where
        name, row, turned = kinds[number]
        told = _of_sizes(asking, count) if more else asking
        around: Array | None = None
        for how, other in turned.items():
            if asking.meter.beyond(until) or (only and only != how):
                continue
            with contextlib.suppress(Exception):
                among, without = _among(row, other, count, size, asking.adjacency)
                around = asking.value(without, 0) if around is None else around
                moved.tried += 1
                factor = float(told.factors([asking.value(among, 0)], [around])[0])
                moved.add(factor, f"{count} rows {name!r}, and {how} or none", (among, without))
                if factor > best:
                    best, where = factor, (count, number, how)

    counts = [k for k in dict.fromkeys(int(RATIO**power) for power in range(POWERS)) if k <= most]
    for count in counts:
        for number in range(len(kinds)):
            tried(count, number)
    count, number, how = where
    for near in dict.fromkeys(np.linspace(count / RATIO, count * RATIO, NEAR).astype(int).tolist()):
        if 0 < near <= most and best <= 1:
            tried(near, number, how)


def others_than(row: Array) -> dict[str, Array]:
    """Rows that turn against one: its opposite, and those of all columns but the first or last.

    A weight or a label keeps its sign while the rest turns, or turns alone.
    """
    found: dict[bytes, tuple[str, Array]] = {}
    turned = np.broadcast_to(np.float64(-1), row.shape)
    signs = {"its opposite": turned}
    for name, column in (("first", 0), ("last", -1)) if row.shape[-1] > 1 else ():
        for how, kept in (("opposite but in", True), ("opposite in", False)):
            sign = np.where(kept, -1.0, 1.0) * np.ones(row.shape)
            sign[..., column] *= -1.0
            signs[f"one {how} its {name} place"] = sign
    for name, sign in signs.items():
        other = row * sign
        found.setdefault(other.tobytes(), (name, other))
    return dict(found.values())


def _among(
    row: Array, other: Array, count: int, size: int, adjacency: Adjacency
) -> tuple[Records, Records]:
    """So many equal rows and one other, and without it; under zero_out all others are absent."""
    if adjacency is Adjacency.ADD_REMOVE:
        without = np.array(np.broadcast_to(row, (count, *row.shape)))
        return Records(np.concatenate([other[None], without])), Records(without)
    values = np.zeros((size, *row.shape))
    values[0], values[1 : count + 1] = other, row
    there = np.arange(size) <= count
    return Records(values, there), Records(values, there & (np.arange(size) > 0))


def _of_sizes(asking: Asking, count: int) -> Asking:
    """The same, of the largest sensitivity that it states of so many rows, and of one more."""
    with np.errstate(all="ignore"):
        sizes = [asking.query.sensitivity(asking.adjacency, n) for n in (count, count + 1)]
    return replace(asking, sensitivity=np.maximum(asking.sensitivity, np.maximum(*sizes)))


def _counts(size: int, *, more: bool, numbers: int) -> list[int]:
    """Numbers k of which k + 1 is tried too: the first, powers of two, and all but one."""
    most = COUNTED_NUMBERS // numbers if more else size - 1
    first = range(1 if more else 0, min(COUNTED, most))
    doubled = (2**power - 1 for power in range(6, 17))
    counts = dict.fromkeys((*first, *doubled, size // 2, size - 1))
    return [k for k in counts if 0 <= k <= most]


def _so_many(row: Array, count: int, size: int, adjacency: Adjacency) -> Records:
    """So many equal rows; the others are zero, absent, or not there."""
    if adjacency is Adjacency.ADD_REMOVE:
        return Records(np.array(np.broadcast_to(row, (count, *row.shape))))
    first = np.arange(size) < count
    values = np.where(first.reshape(-1, *[1] * row.ndim), row, 0.0)
    return Records(values, first) if adjacency is Adjacency.ZERO_OUT else Records(values)


def without_row(asking: Asking, records: Records, *, alone: bool = False) -> Array:
    """The value where a row was taken out: on a batch of the others, or of nobody."""
    if not asking.batched:
        return asking.value(records, -1)
    chosen = np.zeros((len(asking.on), len(records)), dtype=bool)
    if not alone:
        chosen[:] = True
    with np.errstate(all="ignore"):
        found = np.asarray(asking.query.value(records, chosen), dtype=np.float64)
    return np.broadcast_to(found, (len(asking.on), found.shape[-1]))


def maximise(
    asking: Asking,
    moved: Moved,
    world: Array,
    row: int,
    starts: Sequence[tuple[Array, Array]],
    most: tuple[int, float],
    rng: np.random.Generator,
    *,
    alone: bool = False,
) -> None:
    """Move one record's two values, and the scale of all others, to push the query further.

    ``most``: evaluations, and the work until which to try; ``alone``: the others stay.
    Random restarts and a (1 + 1) evolution strategy: no query need have a derivative.  The last
    starts from rows of equal entries whose signs were chosen one by one.
    Source: Rechenberg 1973, the (1 + 1) strategy and its rule of one fifth; the moves are ours.
    """
    evaluations, until = most
    if evaluations < 4 or not starts:
        return
    score = _objective(asking, row)
    for start in range(RESTARTS):
        point = (world, *starts[start % len(starts)])
        if start == RESTARTS - 1:
            point = _by_signs(score, point, evaluations // 4)
        best, size = score(point), 1.0
        for _ in range(evaluations // RESTARTS // 2):
            if asking.meter.beyond(until):
                break
            # Where nothing moves it at all there is no way up to follow: only other rows help.
            other = _mutated(point, size, rng, alone=alone) if best > 0 else _anew(point, rng)
            found = score(other)
            moved.tried += 2
            # A fifth of the steps should succeed: bolder after a success, more timid otherwise.
            size = min(size * 1.5, 1e3) if found > best else max(size * 0.9, 1e-3)
            if found >= best:
                point, best = other, found
        moved.add(
            best, f"row {row}, two rows found by search", sets_of(point, row, asking.adjacency)
        )
        if best > 1:
            return


Point = tuple[Array, Array, Array]


def _by_signs(score: Callable[[Point], float], point: Point, most: int) -> Point:
    """Long rows of equal entries, each sign turned where that moves the query further.

    A query that is steep in one direction needs rows along it, and few random ones are.
    """
    world, *rows = point
    one, two = (
        np.array(
            np.broadcast_to(
                LENGTH * np.where(row.reshape(-1, columns)[0] < 0, -1.0, 1.0), row.shape
            )
        )
        for row in rows
        for columns in row.shape[-1:]
    )
    best = score((world, one, two))
    for turn in range(min(most, 2 * one.shape[-1])):
        changed = (one, two)[turn % 2]
        changed[..., turn // 2] *= -1.0
        found = score((world, one, two))
        if found > best:
            best = found
        else:
            changed[..., turn // 2] *= -1.0
    return world, one, two


def _objective(asking: Asking, row: int) -> Callable[[Point], float]:
    known: list[tuple[Array, Records]] = []

    def score(point: Point) -> float:
        # Of a world that stays, kinds of rows are sought once.
        if not known or known[0][0] is not point[0]:
            known[:] = [(point[0], Records(point[0]))]
        one, two = sets_of(point, row, asking.adjacency, known[0][1])
        values = [asking.value(one, row)]
        gone = len(two) < len(one)
        values.append(without_row(asking, two) if gone else asking.value(two, row))
        return float(asking.factors(values[:1], values[1:])[0])

    return score


def sets_of(
    point: Point, row: int, adjacency: Adjacency, known: Records | None = None
) -> tuple[Records, Records]:
    """The two data sets of a point of the search; ``known``: its world, if it is made already."""
    world, one, two = point
    around = Records(world) if known is None else known
    first = around.with_row(row, one)
    if adjacency is Adjacency.ADD_REMOVE:
        return first, Records(np.delete(world, row, axis=0))
    if adjacency is Adjacency.ZERO_OUT:
        return first, Records(first.values, np.arange(len(world)) != row)
    return first, around.with_row(row, two)


def _mutated(point: Point, size: float, rng: np.random.Generator, *, alone: bool) -> Point:
    world, one, two = point
    which = rng.integers(9)
    factor = 10.0 ** rng.uniform(-3, 3)
    noise = size * _drawn(one.shape, rng)
    with np.errstate(all="ignore"):
        if which <= 1:
            one = one + noise * np.maximum(np.abs(one).mean(), 1e-12)
        elif which <= 3:
            two = two + noise * np.maximum(np.abs(two).mean(), 1e-12)
        elif which == 4:
            one, two = one * factor, two * factor
        elif which == 5:
            two = -one
        elif which == 6:
            one = world[int(rng.integers(len(world)))] + 0.5 * factor * noise
        elif which == 7 and not alone:
            world = np.clip(world * factor, -1e9, 1e9)
        else:
            flip = np.where(rng.random(one.shape) < 0.3, -1.0, 1.0)
            one, two = one * flip, np.where(rng.random(two.shape) < 0.2, 0.0, two)
        return world, np.clip(one, -1e9, 1e9), np.clip(two, -1e9, 1e9)


def _drawn(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Normal numbers; of a row of several items the same ones for all items, half of the time.

    What is a mean over items moves furthest where all of them pull in one direction.
    """
    if len(shape) > 1 and rng.random() < 0.5:
        return np.array(np.broadcast_to(rng.standard_normal(shape[-1]), shape))
    return rng.standard_normal(shape)


def _anew(point: Point, rng: np.random.Generator) -> Point:
    """The same others, and two long rows drawn anew: opposite ones with one label, or any two."""
    world, *rows = point
    one, two = (LENGTH * _drawn(row.shape, rng) for row in rows)
    if rng.random() < 0.5:
        two = -one
    for row in (one, two):
        row[..., -1] = rng.choice([-1.0, 1.0])
    return world, one, two


def pooled(rows: Mapping[str, Array]) -> Any:
    """The finite rows as one array."""
    return np.stack([values for values in rows.values() if np.isfinite(values).all()])

"""How far one record can move a query: tried on made-up records, then maximised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.audit.examine.meter import Meter
from dpaudit.audit.examine.outcomes import Watch
from dpaudit.audit.examine.search import Point, sets
from dpaudit.curator.replayer import RELATIVE_TOLERANCE, ROUNDING
from dpaudit.errors import Unsupported
from dpaudit.kernels.base import Session
from dpaudit.kernels.query import Array, Query, Records
from dpaudit.scope import Adjacency

ABSENT = "no record there"
# Finding of a kernel that checks a value without its neighbour.
UNSOUND = (
    "on made-up records its value alone breaks what is declared of it (of a last iterate: an "
    "update stretches distances further)"
)
OUTSIDE = 3  # data sets that differ in a row outside the batch
ADD_REMOVE = Adjacency.ADD_REMOVE
LEAST = 3  # data sets that even a slow query is tried on
REMEMBERED = 4_096  # data sets of which it is known what the query gives
# Further data sets on which a query that reached all it states has to move no further, where the
# library's own code computes it: whole displacements were seen, and no code of a user's is asked.
# Nearly as many rows of other kinds are tried after them.
SETTLED = 32


@dataclass(frozen=True, eq=False)
class Asking:
    """One release as it was asked for, to be asked again on other records.

    ``members``: how many rows its secret batch can hold (0 for any number); None on no batch.
    ``batched``: whether it is on one.  ``far``: after answers with more noise than is declared;
    ``unlikely``: and nothing is promised after answers that are seldom enough.  ``watch``: of the
    conditions of its own code, if any.
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
    unlikely: bool = False
    meter: Meter = field(default_factory=lambda: Meter(np.inf))
    watch: Watch | None = None

    def value(self, records: Records, row: int, *, alone: bool = False) -> Array:
        """The noise-free value, (trials, d); on a batch that holds the row (``alone``: only it)."""
        trials, chosen = len(self.on), None
        if self.batched:
            members = np.arange(len(records)) == row
            if not alone:
                others = self.members - 1 if self.members else len(records)
                members |= np.arange(len(records)) < others + (row < others and self.members > 0)
            chosen = np.broadcast_to(members, (trials, len(records)))
        return self._on(records, chosen)

    def outside(self, records: Records, row: int) -> Array:
        """The noise-free value on a batch without the row, of as many other rows as it can hold."""
        others = np.flatnonzero(np.arange(len(records)) != row)
        members = np.isin(np.arange(len(records)), others[: self.members or None])
        return self._on(records, np.broadcast_to(members, (len(self.on), len(records))))

    def _on(self, records: Records, chosen: NDArray[np.bool_] | None) -> Array:
        trials = len(self.on)
        self.meter.add(self.query, records, trials)
        watched = self.watch and self.watch.asking(self.label, records)
        with np.errstate(all="ignore"), watched or nullcontext():
            values = np.asarray(self.query.value(records, chosen), dtype=np.float64)
        if values.shape != (shape := (trials, values.shape[-1])):
            values = np.broadcast_to(values, shape)
        return self.meter.made(self.query, records, values)

    def alone(self, value: Array) -> bool:
        """Whether a value is further from itself than is stated: no neighbour is needed."""
        with np.errstate(all="ignore"):
            far = self._apart(value, value, self.sensitivity) > self.sensitivity
        return bool((far & np.isfinite(value).all(-1) & self.on).any())

    def _apart(self, first: Array, two: Array, stated: Array) -> Array:
        """The kernel's distances, for all pairs at once or, if it refuses that, one by one."""
        try:
            return self.session.apart(first, two, stated)
        except Unsupported:
            each = [slice(k, k + 1) for k in range(len(first))]
            return np.concatenate([self.session.apart(first[k], two[k], stated[k]) for k in each])

    def factors(self, values: Sequence[Array], others: Sequence[Array]) -> Array:
        """The distance of each two values over the stated sensitivity, the largest over trials.

        Above 1 beyond rounding; infinite for what is no number.
        """
        factors = np.zeros(len(values))
        for trial in np.flatnonzero(self.on):
            first = np.array([value[trial] for value in values])
            two = np.array([value[trial] for value in others])
            stated = np.full(len(values), self.sensitivity[trial])
            with np.errstate(all="ignore"):
                distance = self._apart(first, two, stated)
                size = np.abs(first).max(-1, initial=0.0) + np.abs(two).max(-1, initial=0.0)
                allowed = stated * (1 + RELATIVE_TOLERANCE) + ROUNDING * size
                factor, within = np.minimum(distance / stated, 1.0), distance <= allowed
                if not within.all():
                    over = ~within & np.isfinite(distance) & (stated > 0)
                    factor = np.where(within, factor, np.inf)
                    factor = np.where(over, np.maximum(distance / stated, 1 + 1e-9), factor)
            # Far away a point itself may overflow, whatever the records are.
            unsure = ~np.isfinite(factor) if self.far else np.isnan(factor)
            factors = np.maximum(factors, np.where(unsure, 0.0, factor))
        return np.minimum(factors, 1.0) if self.unlikely else factors


@dataclass
class Moved:
    """The data sets tried on the queries of one label and line, and the furthest that one moved.

    ``clips``: the library's own code clips every row of it; ``bounded``: or bounds it otherwise.
    ``shown``: its pair made small, once it moves too far, in words; ``small``: these data sets, and
    how far they move it.  ``searched``: whether whole data sets
    were; ``crowded``: whether a thousand rows at once were.  ``computed``: where the program's own
    functions begin that its first query was computed by.  ``furthest``: of the data sets tried, the
    number after which it moved no further.
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
    shown: str = ""
    small: tuple[Records, Records, float] | None = None
    searched: bool = False
    crowded: bool = False
    furthest: int = 0

    @property
    def settled(self) -> bool:
        """Whether more tries are useless: the stated sensitivity was reached long ago."""
        own_code = not self.bounded or self.clips  # clipped rows are computed by a user's function
        whole = 1 - RELATIVE_TOLERANCE <= self.factor <= 1
        return not own_code and whole and self.tried - self.furthest >= SETTLED

    def add(self, factor: float, text: str, pair: tuple[Records, Records] | None = None) -> None:
        """A displacement, in stated sensitivities; ``pair``: the rows of the release."""
        if factor > self.factor:
            self.factor, self.text, self.furthest = factor, text, self.tried
            self.pair = pair


@dataclass(eq=False)
class Displacement:
    """How far a query moves between the two data sets of a point, over what it states.

    ``world``: others among which it may fail at no row.  ``until``: the work until which to try.
    """

    asking: Asking
    moved: Moved
    world: Array
    until: float

    def __post_init__(self) -> None:
        self._base = self.world, Records(self.world)
        self._known: dict[Any, Array] = {}

    @property
    def adjacency(self) -> Adjacency:
        return self.asking.adjacency

    @property
    def done(self) -> bool:
        """Whether nothing is left to find."""
        return self.moved.factor > 1 or self.moved.settled

    def over(self) -> bool:
        return self.done or self.asking.meter.beyond(self.until)

    def lead(self) -> Point | None:
        return None

    def __call__(self, point: Point) -> float:
        """The displacement over what is stated; -1 where a query does not run on so many rows."""
        if point.others is not self._base[0]:
            self._base = point.others, Records(point.others)
        pair, more = sets(point, self.adjacency, self._base[1]), self.adjacency is ADD_REMOVE
        asking = of_sizes(self.asking, len(pair[1])) if more else self.asking
        self.asking.meter.mutations += 1
        try:
            first = self._value(pair[0], point.place, gone=False)
            two = self._value(pair[1], point.place, gone=more)
            factor = float(asking.factors([first], [two])[0])
        except Exception:
            if point.others is self.world:
                raise  # a row that no query may fail at
            return -1.0
        self.moved.add(factor, point.text, pair)
        return factor

    def _value(self, records: Records, place: int, *, gone: bool) -> Array:
        """The query's value; the last few are kept, as data sets are neighbours of several."""
        digest = blake2b(records.values.tobytes())
        digest.update(records.present.tobytes())
        key = digest.digest(), place * self.asking.batched, gone
        if key not in self._known:
            self.moved.tried += 1
            asking = self.asking
            value = without_row(asking, records) if gone else asking.value(records, place)
            if len(self._known) >= REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = value
        return self._known[key]


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
    absent = tuple(Records(records.values, present) for records in sets[:2])
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
        pair_of_rows = (pairing.names[i], pairing.names[j])
        if factors[worst] > moved.factor or best == ("", ""):
            best = pair_of_rows
        text = f"row {row} {pair_of_rows[0]!r} against {pair_of_rows[1]!r}, {name}"
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


def of_sizes(asking: Asking, count: int) -> Asking:
    """The release, with the largest sensitivity it states for ``count`` or one more rows."""
    with np.errstate(all="ignore"):
        sizes = [asking.query.sensitivity(asking.adjacency, n) for n in (count, count + 1)]
    return replace(asking, sensitivity=np.maximum(asking.sensitivity, np.maximum(*sizes)))


def without_row(asking: Asking, records: Records, *, alone: bool = False) -> Array:
    """The value without a row; on a batch, that of all other records or (``alone``) of none."""
    if not asking.batched:
        return asking.value(records, -1)
    chosen = np.zeros((len(asking.on), len(records)), dtype=bool)
    if not alone:
        chosen[:] = True
    with np.errstate(all="ignore"):
        value = np.asarray(asking.query.value(records, chosen), dtype=np.float64)
    return np.broadcast_to(value, (len(asking.on), value.shape[-1]))

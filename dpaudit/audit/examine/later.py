"""Rows after the changed one, chosen one after another so that two runs drift apart.

A query that takes its records one by one (a pass of gradient steps) is only as stable as its steps:
where one of them can widen what is there already, the largest displacement needs later records that
fit what the earlier ones left, and none that is drawn at random does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from dpaudit.audit.examine.displacement import Asking, Moved, neighbours_at, sets_of
from dpaudit.kernels.query import Array, Records

ROWS, READ = 40, 20_000  # of which a search is made, and how many it reads in all
FEWEST = 80  # evaluations, below which it is not begun
HALVINGS = 20
PLAIN, FIRST = 4, 12  # made-up rows that are tried as they are: later ones, and for the changed one
# How long a row is, and the cosine of its angle to what the two runs are apart.
LENGTHS, COSINES = (1e3, 10.0), (0.2, 0.05, 0.5, 0.01, 1.0)
LONG, FAR = 1e3, 1e9  # a row whose last entry decides, whatever a point is

Kind = tuple[float, float] | Array


def in_order(asking: Asking, records: Records) -> bool:
    """Whether a query gives another value on the same rows in the opposite order."""
    turned = Records(records.values[::-1], records.present[::-1])
    values = [asking.value(one, 0) for one in (records, turned)]
    return bool(asking.factors(values[:1], values[1:])[0] > 1e-6)


@dataclass(eq=False)
class Later:
    """A greedy search over the rows that follow the first, which is the one that changes.

    All later rows are zero at first.  Each in turn becomes the candidate by which the query moves
    furthest: some made-up rows, and rows at several angles to the displacement so far, with a last
    entry at which the two data sets answer from different sides (found by halving an interval in
    which both pass from one answer to another: of a linear model, a label between two predictions).
    No derivative is asked for.  ``until``: the work until which to try.
    """

    asking: Asking
    moved: Moved
    made: Mapping[str, Array]
    shape: tuple[int, ...]
    until: float
    rng: np.random.Generator
    left: int = 0
    world: Array = field(default_factory=lambda: np.empty(0))
    ends: tuple[Array, Array] = field(default_factory=lambda: (np.empty(0), np.empty(0)))

    def search(self, read: int = READ) -> None:
        """Try it, on few rows, and note what it gives on as many as there are.

        ``read``: rows to read; where a query takes no fewer than all, these have to be few.
        """
        rows = self.shape[0] if self.shape[0] <= ROWS or not self._takes(ROWS) else ROWS
        self.left = read // rows
        if self.left < FEWEST or rows < 2 or self.shape[-1] < 2:
            return
        self.world = np.zeros((rows, *self.shape[1:]))
        names = self._start()
        furthest, place, kept = self._apart(self.world), 1, 0
        turned: list[Kind] = [(length, cosine) for length in LENGTHS for cosine in COSINES]
        finite = [row for row in self.made.values() if np.isfinite(row).all()]
        kinds = [*turned, *finite[:PLAIN]]
        while place < rows and self.left > 0 and not self.asking.meter.beyond(self.until):
            found = [(self._apart(w), k, w) for k in kinds for w in self._with(place, k)]
            best = max(found, key=lambda one: one[0], default=None)
            if best is not None and best[0] > furthest * (1 + 1e-6):
                furthest, kind, self.world = best
                kept, place, kinds = kept + 1, place + 1, [kind, kind]
            else:
                # Several rows may make one step.
                place, kinds = 2 * place, turned[:3]
        world = np.zeros(self.shape)
        world[:rows] = self.world
        text = f"row 0 {names[0]!r} against {names[1]!r}, and {kept} later rows one after another"
        one, two = sets_of((world, *self.ends), 0, self.asking.adjacency)
        values = [self.asking.value(one, 0), self.asking.value(two, 0)]
        self.moved.add(float(self.asking.factors(values[:1], values[1:])[0]), text, (one, two))

    def _takes(self, rows: int) -> bool:
        """Whether the query runs on so many rows: what is found there is tried on all of them."""
        try:
            self.asking.value(Records(np.zeros((rows, *self.shape[1:]))), 0)
        except Exception:  # noqa: BLE001  (it need not)
            return False
        return True

    def _start(self) -> tuple[str, str]:
        """The two rows that move the query furthest where all others are zero."""
        rows = {name: row for name, row in self.made.items() if np.isfinite(row).all()}
        few = dict(list(rows.items())[: min(FIRST, self.left // 4)])
        for sign in (1.0, -1.0):
            row = np.append(np.full(self.shape[-1] - 1, LONG), sign * FAR)
            name = f"a long row that ends in {sign * FAR:.0e}"
            few[name] = np.array(np.broadcast_to(row, self.shape[1:]))
        pairing = neighbours_at(Records(self.world), 0, few, self.asking.adjacency)
        values = [self.asking.value(one, 0) for one in pairing.records]
        self.left -= len(values)
        apart = [self._distance(values[i], values[j]) for i, j in pairing.pairs]
        # The first of a pair may be no record at all.
        second, first = sorted(pairing.pairs[int(np.argmax(apart))], reverse=True)
        names = pairing.names[first], pairing.names[second]
        self.ends = few[names[0]], few.get(names[1], few[names[0]])
        return names

    def _distance(self, one: Array, two: Array) -> float:
        with np.errstate(all="ignore"):
            found = self.asking.session.apart(one, two, self.asking.sensitivity)
        return float(np.nan_to_num(np.where(self.asking.on, found, 0.0)).max())

    def _apart(self, world: Array) -> float:
        return self._distance(*self._values(world))

    def _values(self, world: Array) -> tuple[Array, Array]:
        self.left -= 2
        self.moved.tried += 2
        one, two = sets_of((world, *self.ends), 0, self.asking.adjacency)
        return self.asking.value(one, 0), self.asking.value(two, 0)

    def _with(self, place: int, kind: Kind) -> Iterator[Array]:
        """The world with a row of that kind at that place, if there is one."""
        if self.left <= 0:
            return
        world = self.world.copy()
        if isinstance(kind, np.ndarray):
            world[place] = kind
            yield world
            return
        length, cosine = kind
        one, two = (value[0] for value in self._values(world))
        ahead = self._unit(np.nan_to_num(one - two)[: self.shape[-1] - 1])
        side = self.rng.standard_normal(self.shape[-1] - 1)
        side = self._unit(side - (side @ ahead) * ahead)
        row = length * (cosine * ahead + np.sqrt(1 - cosine**2) * side)
        reach = 10 * length * (1 + float(np.nan_to_num(np.abs([one, two])).max()))

        def ending(last: float) -> tuple[Array, Array]:
            world[place] = np.append(row, last)
            first, second = self._values(world)
            return first[0], second[0]

        low, high = -reach, reach
        bottom, top = ending(low), ending(high)
        along = np.nan_to_num(top[0] - bottom[0])
        middles = [float((a + b) @ along / 2) for a, b in zip(bottom, top, strict=True)]
        for _ in range(HALVINGS):
            last = (low + high) / 2
            above = [
                float(np.nan_to_num(value) @ along) > middle
                for value, middle in zip(ending(last), middles, strict=True)
            ]
            if above[0] != above[1]:
                yield world
                return
            low, high = (low, last) if above[0] else (last, high)

    def _unit(self, vector: Array) -> Array:
        padded = np.zeros(self.shape[-1] - 1)
        padded[: len(vector)] = vector
        norm = float(np.linalg.norm(padded))
        return padded / norm if norm > 0 else padded

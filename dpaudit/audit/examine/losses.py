"""The privacy loss of whole runs on two data sets, as an objective of the search.

A pair is worth the privacy loss that a few runs of a proposal (:mod:`dpaudit.curator.proposal`)
gather on it: the transcript is the likelihood audit's own, so that records are aligned over rounds
with the iterates that the noise makes likely.  All pairs are tried under the same noise, and the
noise of a release does not count, so that few runs rank them.

Along the transcript of one pair every query that is a sum over records also says how far each two
rows of a pool would move it: one run so ranks thousands of pairs among the same other records, and
the best of them leads the search.  These runs are no audit's: none of them is counted.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from dpaudit.audit.attack import unused_releases
from dpaudit.audit.bounds.weighted import PilotLosses, Sought
from dpaudit.audit.examine.made import World, across
from dpaudit.audit.examine.meter import Meter
from dpaudit.audit.examine.running import TooLong, run
from dpaudit.audit.examine.search import Point, Search, others_than, sets
from dpaudit.audit.examine.study import clips_itself
from dpaudit.audit.neighbours import Neighbours
from dpaudit.curator.curator import Batch, Program, Request
from dpaudit.curator.proposal import Proposal, Proposer
from dpaudit.curator.uses import grouped
from dpaudit.kernels.batches import batches_of, draws_batches
from dpaudit.kernels.query import Array, ClippedMean, Query, Records, clip_rows
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Adjacency, Scope

STREAM = 0x70616972  # of the search, apart from all runs that are counted
# Runs that one pair is tried on, how far they lean, and steps that find nothing, until a search
# ends: where noise is continuous, and where choices are released, of which the rare ones are seen
# under long leans only.
CONTINUOUS, DISCRETE = (8, 1.0, 60), (32, 50.0, 200)
SHIFTS = 0.5, 200.0  # the shortest and the longest lean
PLAIN = 1e-9  # the share of runs drawn as declared: as good as none
LIKELY = 0.3  # the chance that a secret batch holds the record that differs
ROUNDED = 1e-9  # of a stated sensitivity
RELEASE = 100_000  # the work of one release along a proposal, beside that of its query
LEADS, POOL, NUMBERS = 40, 64, 2_000_000  # releases of a run, rows and numbers that a pool sees
BETTER, FULL = 1.005, 0.995  # times a square from which a pair is better, or all that is declared
PLACES = 8  # in which the best pair is tried
LENGTHS = 1.0, 10.0, 100.0  # of others that turn
# Times as many records, where a choice among few counts them; numbers of such a data set; other
# records more or fewer than those at which a choice turns.
MORE, COUNTED, BESIDE = (1, 8, 80), 400_000, (0, 1, -1, 4, -4, 16, -16, 64, -64)
ROUNDS = 3  # searches, each leaning by the best so far
# Pairs that are tried after the best, where every query is known to have moved by all it states and
# is bounded by the library: the loss of a pair that moves one so far is no surprise.
FURTHER = 24


class _Given:
    """A clipped mean whose value is known: it reads no record."""

    def __init__(self, mean: Query, value: Array) -> None:
        self._mean, self._known = mean, value

    def value(self, records: Records, chosen: Any = None) -> Array:
        return self._known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mean, name)


def of_means_alone(query: Any, records: Records) -> bool:
    """Whether a query is a clipped mean, or answers from the clipped means that its fields hold.

    Given the values of these means on the records, such a query says the same of other records.
    Errors: what the program raises.
    """
    if clips_itself(query):
        return True
    if not is_dataclass(query) or isinstance(query, type):
        return False
    held: dict[str, Any] = {f.name: getattr(query, f.name) for f in fields(query) if f.init}
    given = {
        name: _Given(mean, mean.value(records)) for name, mean in held.items() if clips_itself(mean)
    }
    if not given:
        return False
    alone: Any = replace(query, **given)
    same: Any = replace(query)
    return np.array_equal(alone.value(records.placeholder()), same.value(records))


class Run(Proposer):
    """A proposal's runs that also note how far each release moves.

    ``moved``, ``allowed``: squared distances over the noise, that of the two data sets and that
    which is declared, by part (None: on all records).  ``pool``: rows in ``place``; ``promised``:
    the squared distances of each two of them, the last of which is no row; None where a release is
    no sum.  ``clipped``: whether the library clips every row that a release reads.  ``chosen``:
    what each choice would be without noise, in one trial; ``beyond``: whether one of their queries
    moves by more than it states.  ``short``: whether any query moves by less than it states;
    ``adds_noise``: whether any release adds noise to its query.
    """

    def __init__(self, *arguments: Any, pool: Array, place: int, meter: Meter, **options: Any):
        super().__init__(*arguments, **options)
        self.pool, self.place, self.meter = pool, place, meter
        self.moved: dict[int | None, float] = {}
        self.allowed: dict[int | None, float] = {}
        self.promised: Array | None = np.zeros((len(pool) + 1,) * 2)
        self.continuous, self.remembers, self.releases = True, False, 0
        self.clipped = True
        self.noise, self.chosen = np.zeros(self.trials), list[float]()
        self.beyond = self.short = self.adds_noise = False
        self._values_of: list[list[Array]] = []
        self._asked_block: Any = None
        self._chance = 1.0

    def release(self, label: str, query: Any, **options: Any) -> Array:
        rows = options.get("rows")
        self._asked_block, self._chance = rows.part if isinstance(rows, Batch) else rows, 1.0
        if isinstance(rows, Batch):
            block = self._asked_block
            size = len(self._records) if block is None else block.stop - block.start
            # A secret batch shows a record about as much as it is likely to hold it.
            self._chance = batches_of(rows.sampling).share(size)
        return super().release(label, query, **options)

    def _answer(self, request: Request) -> Array:
        self.meter.spent += RELEASE
        self._values_of.clear()
        released = super()._answer(request)
        session = request.session
        self.continuous = self.continuous and session.continuous
        self.remembers = self.remembers or getattr(session, "memory", False)
        self.releases += 1
        self.adds_noise = self.adds_noise or session.continuous or session.rounds
        if session.continuous:
            self._note(request, *self._values_of[:2])
        return released

    def _values(self, *arguments: Any) -> list[Array]:
        self._values_of.append(super()._values(*arguments))
        return self._values_of[-1]

    def _value(self, request: Request, chosen: Any = None, records: Any = None) -> Array:
        read = records or request.records
        self.meter.add(request.query, read)
        value = super()._value(request, chosen, records)
        # A value that is the same in all trials was computed once.
        if value.strides[0]:
            self.meter.more(request.query, read, self.trials - 1)
        return value

    def _compared(
        self, request: Request, released: Array, value: Array, other: Array
    ) -> tuple[Array, Array]:
        log, loss = super()._compared(request, released, value, other)
        session, scale = request.session, request.scale
        stated, asked = request.sensitivity, request.mask
        apart = session.apart(value, other, stated)
        self.short |= not bool((np.square(apart) >= FULL * np.square(stated))[asked].all())
        if not session.continuous:
            still: Any = self._copy(session, "still")
            self.chosen.append(float(still.centre(value).flat[0]))
            still.advance(value, scale)
            self.beyond |= not bool((apart <= (1 + ROUNDED) * stated)[asked].all())
        else:
            first, second = (self._copy(session, f"calm {who}") for who in "pq")
            leaning: Any = self._copy(session, "calm r")
            leaned = leaning.away(value, other, np.full(self.trials, self._proposal.shift))
            calm = leaning.centre(leaned)
            leaning.advance(leaned, scale)
            pure_noise = first.compared(second, calm, value, other, scale)[1]
            self.noise += np.where(request.mask & np.isfinite(pure_noise), loss - pure_noise, 0.0)
        return log, loss

    def _note(self, request: Request, first: list[Array], second: list[Array]) -> None:
        block, stated = self._asked_block, request.sensitivity
        part = None if block is None else block.index
        noisy = request.mask & (request.scale > 0)
        with np.errstate(all="ignore"):
            unit = np.where(noisy, self._chance / request.scale, 0.0)
            apart = [request.session.apart(value, second[0], stated) for value in first]
            for sums, far in ((self.moved, np.max(apart, axis=0)), (self.allowed, stated)):
                square = float(np.nan_to_num(np.square(unit * far)).mean())
                sums[part] = sums.get(part, 0.0) + square
        query: Any = request.query
        # The program may fail on records that it is given alone.
        with contextlib.suppress(Exception):
            clipped, self.clipped = self.clipped, False
            self.clipped = clipped and of_means_alone(query, request.records)
        is_here = block is None or block.start <= self.place < block.stop
        if self.promised is None or not isinstance(query, ClippedMean):
            self.promised = None
        elif is_here and self.releases <= LEADS:
            weight = float(np.abs(query.public_weights(len(request.records))).max())
            before, self.promised = self.promised, None
            # The program may fail on a row of the pool.
            with contextlib.suppress(Exception):
                self.promised = before + self._apart(query, weight * unit)

    def _apart(self, query: ClippedMean, unit: Array) -> Array:
        """The squared distance of each two of the pool's rows, times a unit's square."""
        with np.errstate(all="ignore"):
            rows = np.asarray(query.per_record(self.pool), dtype=np.float64)
            vectors = clip_rows(rows, query.radius, query.norm)
        wide = np.concatenate([vectors, np.zeros((len(vectors), 1, vectors.shape[2]))], axis=1)
        if query.norm == "l2":
            products = wide @ wide.transpose(0, 2, 1)
            lengths = np.diagonal(products, axis1=1, axis2=2)
            apart = np.maximum(lengths[:, :, None] + lengths[:, None, :] - 2 * products, 0.0)
        else:
            order = 1 if query.norm == "l1" else np.inf
            apart = np.linalg.norm(wide[:, :, None] - wide[:, None], ord=order, axis=-1) ** 2
        return np.asarray((np.square(unit)[:, None, None] * apart).mean(axis=0))

    @property
    def reach(self) -> float:
        """How far the pair moves all releases together, over what is declared at most."""
        most = max(self._by_part(self.allowed), default=0.0)
        return min(1.0, math.sqrt(max(self._by_part(self.moved)) / most)) if most > 0 else 1.0

    @staticmethod
    def _by_part(by_part: Mapping[int | None, float]) -> list[float]:
        """Each part's number with that of all records added to it."""
        common = by_part.get(None, 0.0)
        return [common + n for part, n in by_part.items() if part is not None] or [
            *by_part.values()
        ]


@dataclass(eq=False)
class Loss:
    """The mean privacy loss of a few runs of a program on the two data sets of a point.

    ``delta``: that at which an epsilon is claimed, which says how large losses have to be.
    ``rows``: what a pool is made of, beside the point's own.  ``number``: of records of the first
    point; ``sized``: whether the program says that it is for so many.  ``settled``: whether its
    queries move by all they state, and the library bounds them.  ``best``: the largest loss, its
    point and its run; ``latest``: how many pairs had been tried then.
    """

    program: Program
    declaration: Node
    scope: Scope
    seed: int
    delta: float
    rows: Sequence[Array]
    meter: Meter
    number: int = 0
    sized: bool = True
    settled: bool = False
    best: tuple[float, Point, Run] | None = None
    tried: int = 0
    latest: int = 0
    trials: int = CONTINUOUS[0]
    shift: float = CONTINUOUS[1]
    patience: int = CONTINUOUS[2]
    discrete: bool = False
    full: bool = False
    _lead: Point | None = None
    _base: tuple[Array, Records] | None = None
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.size = grouped(self.declaration)[1]
        sampled = any(draws_batches(node) for node in postorder(self.declaration))
        self.include = LIKELY if sampled else 0.0
        self.rng = self._generator(0)

    def _generator(self, key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(STREAM, key)))

    @property
    def adjacency(self) -> Adjacency:
        return self.scope.adjacency

    def over(self) -> bool:
        """Whether nothing is left to find, or to spend."""
        ended = self.settled and self.best is not None and self.tried - self.latest >= FURTHER
        return ended or self.full or self.meter.after(1)

    def lead(self) -> Point | None:
        """A point that the pool of the best run promises, once."""
        lead, self._lead = self._lead, None
        return lead

    def __call__(self, point: Point) -> float:
        """The loss, without what the lean adds to it; -1 where there is none."""
        self.tried += 1
        self.meter.mutations += 1
        self.meter.spent += RELEASE
        point = self._placed(point)
        # Records like no other may make it fail: no pair to attack.
        with contextlib.suppress(Exception):
            run, loss = self._run(point)
            if not run.continuous and not self.discrete:
                self.discrete, (self.trials, self.shift, self.patience) = True, DISCRETE
                run, loss = self._run(point)
            if run.beyond and len(point.others) != self.number:
                return -1.0  # it may be right for one number of records alone
            loss = loss if self.discrete else loss / (self.shift + 0.5)
            if loss > (BETTER * self.best[0] if self.best else 0.0):
                self.best, self.latest = (loss, point, run), self.tried
                plain = not run.remembers and not unused_releases(run)
                # Whole-numbered noise tells what its query moves by; choices alone may tell more
                # near where they turn, which is searched.
                settled = self.settled and run.adds_noise and not run.short
                self.full = plain and (settled or (run.continuous and run.reach**2 >= FULL))
                self._lead = self._promised(point, run)
            return loss
        return -1.0

    def sets(self, point: Point) -> tuple[Records, Records]:
        """The data sets of a point; under add_remove the records that are more come last."""
        point = self._placed(point)
        if self._base is None or self._base[0] is not point.others:
            self._base = point.others, Records(point.others)
        return sets(point, self.adjacency, self._base[1], self.size)

    def pair(self) -> Neighbours:
        """The data sets of the best point, which has to be there."""
        assert self.best is not None  # noqa: S101  (the caller checked)
        point = self.best[1]
        return Neighbours(*self.sets(point), self.adjacency, point.text, self.size)

    def places(self) -> Iterator[Point]:
        """The best pair in other places: some are read later, or more often."""
        if self.best is None or self.adjacency is Adjacency.ADD_REMOVE:
            return
        point = self.best[1]
        for place in np.linspace(0, len(point.others) - self.size, PLACES).astype(int).tolist():
            yield replace(point, place=place)

    def _placed(self, point: Point) -> Point:
        last = len(point.others) - self.size
        place = last if self.adjacency is Adjacency.ADD_REMOVE else min(point.place, last)
        return replace(point, place=place)

    def _run(self, point: Point, trials: int = 0) -> tuple[Run, float]:
        first, second = self.sets(point)
        curator = Run(
            self.declaration, self.scope, (second, first) if point.swapped else (first, second),
            rng=self._generator(1), trials=trials or self.trials, place=point.place,
            proposal=Proposal(self.shift, self.include, PLAIN), pool=self._pool(point),
            meter=self.meter,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            run(self.program, curator)
            weighted = curator.weighted()
            loss = float(np.nan_to_num((weighted.losses - curator.noise).mean(), nan=-np.inf))
            if not curator.continuous:
                # No mean over noise tells which of finitely many choices are rare.
                scores = PilotLosses(weighted.losses, weighted.log_weights)
                loss = Sought("epsilon", self.delta).estimate(scores) + 1e-3 * max(loss, 0.0)
        return curator, loss

    def _pool(self, point: Point) -> Array:
        """The rows of a point, these turned around, across the others and changed; then others."""
        both = [point.one, point.two]
        turned = [row for row_given in both for row in others_than(row_given).values()]
        changed = []
        for row in both * 8:
            step = self.rng.standard_normal(row.shape) * max(float(np.abs(row).mean()), 1e-12)
            moved_row = row + 10.0 ** self.rng.uniform(-1.5, 0.5) * step
            changed.append(moved_row * 10.0 ** self.rng.normal())
        rows = [*both, *across(point.others).values(), *turned, *changed, *self.rows]
        return np.stack(rows[: max(4, min(POOL, NUMBERS // (self.trials * point.one.size)))])

    def _promised(self, point: Point, made: Run) -> Point | None:
        """The two rows of a run's pool that move most, if further than the point's own."""
        if made.promised is None or self.full:
            return None
        replaced = self.adjacency is Adjacency.REPLACE_ONE
        shown = made.promised[:-1, :-1] if replaced else made.promised[:-1, -1:]
        best_row, two = np.unravel_index(int(np.argmax(shown)), shown.shape)
        if shown[best_row, two] <= BETTER * shown[0, 1 if replaced else 0]:
            return None
        return replace(
            point, one=made.pool[best_row], two=made.pool[two] if replaced else point.two
        )

    def centre(self) -> bool:
        """Lean so far that losses are about as large as the epsilon of such Gaussian noise.

        Returns whether that is another lean than before: what pairs are worth is then not known.
        """
        if self.best is None or not self.best[0] > 0:
            return False
        square = self.best[0]
        epsilon = square / 2 + math.sqrt(2 * square * math.log(1 / self.delta))
        wanted = epsilon / square - 0.5
        if self.discrete:
            # Events of chance delta are then as common as any, if their loss is that of the best.
            wanted = math.log(1 / self.delta) / square
        shift = float(f"{min(max(wanted, SHIFTS[0]), SHIFTS[1]):.1g}")
        changed = shift != self.shift
        self.best, self.shift = None if changed else self.best, shift
        return changed


def search_pair(
    loss: Loss,
    points: Sequence[Point],
    rows: Mapping[str, Array],
    worlds: Sequence[World],
    *,
    alone: bool = False,
) -> None:
    """Search for the pair of the largest loss, from some; ``alone``: others stay."""
    loss.number = len(points[0].others) if points else 0
    with contextlib.suppress(TooLong):
        for number in range(ROUNDS if points else 0):
            if number and loss.discrete and not alone:
                for point in _ascent(loss, points, rows):
                    if loss.over():
                        return
                    loss(point)
                points = [*points, *([] if loss.best is None else [loss.best[1]])]
            search = Search(
                loss, points[0].others, rows, loss.rng, alone, loss.patience, sweep=1, planned=1.0
            )
            plans = () if alone else _among(loss, points[0], worlds)
            search.run(points, 1 if number == 0 else math.inf, plans)
            # The first pairs may show nothing, and the search goes on from them.
            if loss.over() or not (loss.centre() or number == 0):
                return
            points = [point for _, point in search.corpus] or points


def _among(loss: Loss, point: Point, worlds: Sequence[World]) -> Iterator[Point]:
    """The rows of a point among others that turn, the examiner's, and those that are against it.

    Where records are read part by part, one that differs meets an iterate that moves fast once
    others have pulled one way and turn.
    """
    shape, groups = point.others.shape, dict[str, Array]()
    length = float(np.linalg.norm(point.one)) or 1.0
    for turn, sign, long in itertools.product((4, 2), (1.0, -1.0), LENGTHS):
        others = np.array(np.broadcast_to(sign * long / length * point.one, shape))
        others[shape[0] // turn :] *= -1.0
        others[..., -1] = point.one[..., -1]
        groups[f"others {sign * long:g} long, turned after 1/{turn}"] = others
    yield from _with(point, groups)
    yield from loss.places()
    groups = {w.name: w.values for w in worlds if w.values.shape == shape}
    kinds = _kinds_of(point).items()
    groups |= {f"others {n}": np.array(np.broadcast_to(row, shape)) for n, row in kinds}
    yield from _with(point, groups)


def _with(point: Point, made: Mapping[str, Array]) -> Iterator[Point]:
    """A point among each of some others."""
    first = point.text.partition(" (")[0]
    for name, others in made.items():
        yield replace(point, others=others, text=f"{first} (searched: {name})")


def _kinds_of(point: Point) -> dict[str, Array]:
    """The two rows, and what turns against the first."""
    return {"the other row": point.two, **others_than(point.one), "the row itself": point.one}


def turns(loss: Loss, point: Point) -> Iterator[Point]:
    """Data sets with so many equal other records that a noisy choice is about to change.

    A choice distinguishes data sets only near the number at which it would change without noise,
    and no small step leads there.  More records than the program has are allowed, unless it says
    that it is for one number: no query may then move by more than it states, either.
    """
    improved, anyhow = False, loss.adjacency is Adjacency.ADD_REMOVE or not loss.sized
    for times in MORE if anyhow else MORE[:1]:
        for row in _kinds_of(point).values() if not improved else ():
            size = times * len(point.others)
            turn = _turn(loss, point, row, size) if times * point.others.size <= COUNTED else 0
            for more in BESIDE if turn else ():
                improved = True
                count = turn + more
                if 0 <= count <= size or anyhow:
                    yield _so_many(point, row, max(count, 0), max(count, size))


def _ascent(loss: Loss, points: Sequence[Point], rows: Mapping[str, Array]) -> Iterator[Point]:
    """Some points, then one part of the best pair at a time as each that it may be.

    How many others are alike, which of the two is run, and either row, until no part betters it.
    Rare choices tell most: a pair that makes one rare moves some questions and leaves others.
    """
    finite = [(name, row) for name, row in rows.items() if np.isfinite(row).all()]
    parts, before = ("one", "two") if loss.adjacency is Adjacency.REPLACE_ONE else ("one",), None

    def best() -> Point:
        return points[0] if loss.best is None else loss.best[1]

    yield from points
    while before is not best():
        before = best()
        yield from turns(loss, before)
        yield replace(best(), swapped=not best().swapped)
        for part, (name, row) in itertools.product(parts, finite):
            first = best().text.partition(" (")[0]
            changed: Any = {part: row, "text": f"{first} (searched: {name})"}
            yield replace(best(), **changed)


def _turn(loss: Loss, point: Point, row: Array, size: int) -> int:
    """How many of so many others it takes to turn a choice; 0 if all of them do not."""

    def chosen(count: int) -> list[float] | None:
        with contextlib.suppress(Exception):
            return (
                None if loss.over() else loss._run(_so_many(point, row, count, size), 1)[0].chosen
            )
        return None

    low, high, before = 0, size, chosen(0)
    if before in (None, chosen(high)):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if chosen(middle) == before else (low, middle)
    return high


def _so_many(point: Point, row: Array, count: int, size: int) -> Point:
    """A pair among so many others, of which the last ``count`` are one row and the rest zeros."""
    others = np.zeros((size, *point.one.shape))
    others[size - count :] = row
    first = point.text.partition(" (")[0]
    text = f"{first} (searched: {count} of {size} others alike)"
    return replace(point, others=others, place=0, text=text)

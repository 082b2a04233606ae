"""The pair of data sets that whole runs tell apart best, searched without derivatives.

A pair is worth the privacy loss that a few runs of a proposal (:mod:`dpaudit.curator.proposal`)
gather on it: the transcript is the likelihood audit's own, so that records are aligned over rounds
with the iterates that the noise makes likely.  All pairs are tried under the same noise, and the
noise of a release does not count, so that few runs rank them.

Along the transcript of one pair every query that is a sum over records also says how far each two
rows of a pool would move it.  One run so ranks thousands of pairs among the same other records;
those that promise more than the best so far are run themselves.  A search starts from the
examiner's candidates and is greedy: rows of a pool, then other records that pull against the pair
or do nothing, places, lengths, directions that were released, and random steps.

The search sees runs of its own, which no audit counts.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.audit.attack import unused_releases
from dpaudit.audit.bounds.weighted import PilotLosses, Sought
from dpaudit.audit.examine.made import World, across
from dpaudit.audit.examine.meter import Meter, TooLong
from dpaudit.audit.examine.search import others_than
from dpaudit.curator.curator import Batch, Program, Request
from dpaudit.curator.proposal import Proposal, Proposer, Weighted
from dpaudit.curator.uses import grouped
from dpaudit.kernels.batches import batches_of, draws_batches
from dpaudit.kernels.query import Array, ClippedMean, Records, clip_rows
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Adjacency, Scope

STREAM = 0x70616972  # of the search, apart from all runs that are counted
TRIALS = 8  # runs that one pair is tried on, all under the same noise for every pair
PLAIN = 1e-9  # the share of them drawn as declared: as good as none
WORK = 400_000_000  # of one search, in the units of a meter
RELEASE = 100_000  # the work of one release along a proposal, beside that of its query
POOL = 64  # rows whose movement is looked at along one run
NUMBERS = 2_000_000  # of the pool's vectors at one release; a smaller pool where they are longer
ROUNDED = 1e-9  # of a stated sensitivity
NEAR = 0.7  # of the best so far, below which rows that do not improve are left
BETTER = 1.005  # times the best so far, from which a pair takes its place
# Along one transcript: releases that are looked at, generations of steps and of those that find
# nothing, and steps from each row in a generation.
MOST_ASKED, FEW_ASKED, GENERATIONS, STUCK, MUTANTS = 40, 12, 24, 6, 12
DISCRETE_TRIALS, DISCRETE_SHIFT = 32, 50.0  # of runs where choices are released
MOST_PARTS = 64  # of which records are told apart where releases share noise
HELD = 20_000_000  # numbers that they may keep of earlier releases
MOVING = 0.7  # of the work, after which random steps from the best pair are left
PATIENCE, DISCRETE_PATIENCE = 40, 200  # steps that find nothing, after which a search ends
ANGLES = (0.4, 0.8, 1.2, np.pi - 1.2, np.pi - 0.8, np.pi - 0.4)  # to a released direction
FULL = 0.995  # of the squared distance that the declaration allows: nothing is left to find
LIKELY = 0.3  # the chance that a secret batch holds the record that differs
FIRST_SHIFT, LEAST_SHIFT, MOST_SHIFT = 1.0, 0.5, 200.0
RECENTRED = 0.15  # the change of a shift, as a share, from which the best pair is run again
LENGTHS = (10.0, 0.1, 100.0, 0.01, 1e4)
SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)  # of the others that are no zeros
# Times as many records, where a choice among few counts them; numbers of such a data set; other
# records more or fewer than those at which a choice turns.
MORE, COUNTED, BESIDE = (1, 8, 80), 400_000, (0, 1, -1, 4, -4, 16, -16, 64, -64)
STEP, LEAST_STEP, MOST_STEP = 0.5, 0.02, 2.0  # of a random step, as a share of a row's entries
PLACES = 6
HELD_AT = (1e2, 1e4)  # lengths of other records that hold an iterate between them
# Lengths of other records that pull alike, shares of the parts after which they pull back; powers
# of ten of the lengths of rows beside an iterate's way, and of their share along it.
REACH, TURNS, OBLIQUE, SLANTS = (1.0, 10.0, 100.0), (0.25, 0.5), (-0.5, 2.0), (-2.0, 0.0)


@dataclass(frozen=True, eq=False)
class Point:
    """Two neighbouring data sets: ``one`` or ``two`` at ``place`` among ``others``.

    ``two`` is None where no record stands there instead.  ``swapped``: which of them is run.
    """

    others: Array
    one: Array
    two: Array | None
    place: int
    text: str
    swapped: bool = False


@dataclass(frozen=True, eq=False)
class AskedSum:
    """A release whose query is a sum over records: what one of a pool's rows would move it by.

    ``unit``: a row's weight over the noise scale, ``stated``: the sensitivity over it, (trials,);
    0 where there is no noise.  ``times``: how many releases it stands for.
    """

    query: ClippedMean
    part: int | None
    unit: Array
    stated: Array
    times: float = 1.0

    @property
    def allowed(self) -> float:
        """The squared distance over the noise scale that is declared."""
        return self.times * float(np.square(self.stated).mean())

    def apart(self, pool: Array) -> Array:
        """The squared distance over the noise scale of each two rows, and of each from no row.

        (rows + 1, rows + 1), a mean over trials.
        """
        with np.errstate(all="ignore"):
            rows = np.asarray(self.query.per_record(pool), dtype=np.float64)
            vectors = clip_rows(rows, self.query.radius, self.query.norm)
        nothing = np.zeros((len(vectors), 1, vectors.shape[2]))
        extended = np.concatenate([vectors, nothing], axis=1)
        if self.query.norm == "l2":
            products = extended @ extended.transpose(0, 2, 1)
            lengths = np.diagonal(products, axis1=1, axis2=2)
            apart = lengths[:, :, None] + lengths[:, None, :] - 2 * products
        else:
            power = 1 if self.query.norm == "l1" else np.inf
            apart = np.square(
                np.linalg.norm(extended[:, :, None] - extended[:, None], ord=power, axis=-1)
            )
        found = np.square(self.unit)[:, None, None] * np.maximum(apart, 0.0)
        return np.asarray(self.times * found.mean(axis=0))


def _few(sums: Sequence[AskedSum], count: int) -> list[AskedSum]:
    """So many of the sums at most, by what each is allowed to show: the loud ones surely."""
    allowed = np.array([one.allowed for one in sums])
    total = float(allowed.sum())
    if len(sums) <= count or not total > 0:
        return [*sums]
    # Sorted, so that releases of one kind in turn with others are not passed over.
    order = np.argsort(-allowed, kind="stable")
    places = (np.arange(count) + 0.5) * total / count
    reached = np.minimum(np.searchsorted(np.cumsum(allowed[order]), places), len(sums) - 1)
    kept, often = np.unique(order[reached], return_counts=True)
    return [
        replace(sums[k], times=sums[k].times * n * total / (count * allowed[k]))
        for k, n in zip(kept, often, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Asked:
    """The sums that a run asked for, or as many of them.

    ``seen``: by part, how much more of a movement
    the noise that releases share lets be seen.
    """

    sums: Sequence[AskedSum]
    seen: Mapping[int | None, float]
    meter: Meter

    def apart(self, pool: Array) -> dict[int | None, Array]:
        """Squared distances of the pool's rows by part, those of all parts added to each.

        Empty where the program fails on a row of them.
        """
        with contextlib.suppress(Exception):
            return self._apart(pool)
        return {}

    def _apart(self, pool: Array) -> dict[int | None, Array]:
        found: dict[int | None, Array] = {}
        for one in self.sums:
            self.meter.add(one.query, Records(pool), len(one.unit))
            moved = self.seen.get(one.part, 1.0) * one.apart(pool)
            found[one.part] = found.get(one.part, 0.0) + moved
        return _with_common(found)

    def of_part(self, part: int | None) -> Asked:
        """A few of the sums over the records of one part."""
        return replace(self, sums=_few([a for a in self.sums if a.part in (part, None)], FEW_ASKED))

    def allowed(self) -> float:
        """The largest squared distance that the declaration allows, in the part it is seen best."""
        found: dict[int | None, float] = {}
        for one in self.sums:
            allowed = self.seen.get(one.part, 1.0) * one.allowed
            found[one.part] = found.get(one.part, 0.0) + allowed
        return float(max(_with_common(found).values()))


def _with_common(found: dict[int | None, Any]) -> dict[int | None, Any]:
    """Each part's entry, with the entry of all records added to it."""
    parts: dict[int | None, Any] = {part: m for part, m in found.items() if part is not None}
    return {part: m + found.get(None, 0.0) for part, m in parts.items()} or found


@dataclass(eq=False)
class Tried:
    """The result of the runs of one point.

    ``loss``: the mean privacy loss, without the releases' noise.  ``pool``: rows to be looked at
    along the same transcript, the point's own first.  ``asked``: None where a query is no sum.
    ``complete``: whether every declared release was made.  ``chosen``: what its choices would be
    without noise, in one trial.
    """

    point: Point
    loss: float
    pool: Array
    asked: Asked | None
    directions: Sequence[Array]
    complete: bool
    chosen: tuple[float, ...]

    @cached_property
    def promised(self) -> dict[int | None, Array]:
        """Squared distances over the noise of the pool's rows, by part."""
        return {} if self.asked is None else self.asked.apart(self.pool)

    @property
    def square(self) -> float:
        """The squared distance over the noise of the point's own rows, in the part they suit."""
        two = len(self.pool) if self.point.two is None else 1
        return max((float(matrix[0, two]) for matrix in self.promised.values()), default=0.0)

    @property
    def reach(self) -> float:
        """How far the point's rows move all releases together, over what is declared at most.

        1 where a query is no sum.
        """
        allowed = 0.0 if self.asked is None else self.asked.allowed()
        return min(1.0, math.sqrt(self.square / allowed)) if allowed > 0 else 1.0

    @property
    def full(self) -> bool:
        """Whether the pair moves every release as far as is declared, wherever its rows stand."""
        if self.asked is None or self.asked.seen or not self.complete:
            return False
        return self.square >= FULL * self.asked.allowed()


class Pooled(Proposer):
    """A proposal's runs that also note how far each two rows of a pool would move every release."""

    def __init__(
        self,
        *arguments: Any,
        pool: Array,
        absent: bool,
        meter: Meter,
        seen: Mapping[int | None, float],
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.seen = seen
        self.pool, self.absent, self.meter = pool, absent, meter
        self.sums: list[AskedSum] = []
        self.continuous, self.releases, self.beyond = True, 0, False
        self.noise, self.chosen = np.zeros(self.trials), list[float]()
        self._part: int | None = None
        self._chance = 1.0
        # Where releases share noise: a session for a record of each part, what it would show so
        # far, and how far its own release moves.
        self._late: dict[tuple[Any, int], Any] = {}
        self.told: dict[int, float] = {}
        self.rows_moved: dict[int, float] = {}

    def release(self, label: str, query: Any, **options: Any) -> Array:
        rows = options.get("rows")
        block = rows.part if isinstance(rows, Batch) else rows
        self._part = None if block is None else block.index
        self._chance = 1.0
        if isinstance(rows, Batch):
            size = len(self._records) if block is None else block.stop - block.start
            self._chance = batches_of(rows.sampling).share(size)
        return super().release(label, query, **options)

    def _answer(self, request: Request) -> Array:
        self.meter.spent += RELEASE
        released = super()._answer(request)
        self.continuous = self.continuous and request.session.continuous
        self.releases += 1
        if isinstance(request.query, ClippedMean) and request.session.continuous:
            self._note(request, request.query)
        return released

    def _value(self, request: Request, chosen: Any = None, records: Any = None) -> Array:
        self.meter.add(request.query, records or request.records, self.trials)
        return super()._value(request, chosen, records)

    def _compared(
        self, request: Request, released: Array, value: Array, other: Array
    ) -> tuple[Array, Array]:
        log, loss = super()._compared(request, released, value, other)
        session, scale = request.session, request.scale
        if not session.continuous:
            still: Any = self._copy(session, "still")
            self.chosen.append(float(still.centre(value).flat[0]))
            still.advance(value, scale)
            apart = session.apart(value, other, request.sensitivity)
            stated = (1 + ROUNDED) * request.sensitivity
            self.beyond |= not bool((apart <= stated)[request.mask].all())
        else:
            first, second = (self._copy(session, f"calm {who}") for who in "pq")
            leaning: Any = self._copy(session, "calm r")
            leaned = leaning.away(value, other, np.full(self.trials, self._proposal.shift))
            calm = leaning.centre(leaned)
            leaning.advance(leaned, scale)
            found = first.compared(second, calm, value, other, scale)[1]
            self.noise += np.where(request.mask & np.isfinite(found), loss - found, 0.0)
            unseen = self._part is not None and self._part not in self.seen
            if unseen and getattr(session, "memory", False):
                self._tell_parts(request, value)
        return log, loss

    def _tell_parts(self, request: Request, value: Array) -> None:
        """Measure the pool's first two rows in each part, where releases share noise.

        One session follows the values of the data set that is run, and one for each part those of
        a data set with the other row there: along a release without noise the loss is half of the
        squared distance.
        """
        query, scale, part = request.query, request.scale, self._part
        assert part is not None  # noqa: S101  (the caller asked)
        held = value.size * (len(self._late) + 1) * self.releases
        if not isinstance(query, ClippedMean) or held > HELD or len(self._late) >= MOST_PARTS:
            return
        plain = self._copy(request.session, "still")
        if (request.session, part) not in self._late:
            self._late[request.session, part] = copy.deepcopy(plain)
        vectors = clip_rows(
            np.asarray(query.per_record(self.pool[:2]), dtype=np.float64), query.radius, query.norm
        )
        weight = float(np.abs(query.public_weights(len(request.records))).max())
        other = -vectors[:, 0] if self.absent else vectors[:, 1] - vectors[:, 0]
        still = plain.centre(value)
        before = plain.log_density(still, value, scale)
        for (session, number), late in self._late.items():
            if session is request.session:
                moved = value + weight * other if number == part else value
                loss = before - late.log_density(still, moved, scale)
                self.told[number] = self.told.get(number, 0.0) + 2 * float(loss.mean())
        apart = np.square(weight / scale) * np.square(other).sum(axis=-1)
        self.rows_moved[part] = self.rows_moved.get(part, 0.0) + float(apart.mean())

    def _note(self, request: Request, query: ClippedMean) -> None:
        weight = float(np.abs(query.public_weights(len(request.records))).max())
        noisy = request.mask & (request.scale > 0)
        scale = np.where(noisy, request.scale, 1.0)
        with np.errstate(all="ignore"):
            # A secret batch shows a record about as much as it is likely to hold it.
            unit, stated = (
                np.where(noisy, self._chance * x / scale, 0.0)
                for x in (weight, request.sensitivity)
            )
        self.sums.append(AskedSum(query, self._part, unit, stated))

    def asked(self) -> Asked | None:
        """The sums that were asked for; None where a query is something else."""
        if len(self.sums) < self.releases or not self.sums:
            return None
        seen = {**self.seen, **self.newly_seen()}
        parts = {one.part for one in self.sums}
        # What stands for other releases must not lack a part.
        few = self.sums if len(parts) > 2 else _few(self.sums, MOST_ASKED)
        return Asked(few, seen, self.meter)

    def newly_seen(self) -> dict[int | None, float]:
        """By part, how much more of a movement shared noise lets be seen: rows do not matter."""
        moved = self.rows_moved.items()
        return {part: self.told[part] / square for part, square in moved if square > 0}


@dataclass(eq=False)
class PairSearch:
    """A greedy search of the pair whose runs gather most privacy loss.

    ``delta``: that at which an epsilon is claimed, which says how large losses have to be.
    ``rows``, ``worlds``: what the examiner makes up; ``assumed``: whether the others must stay as
    they are; ``sized``: whether the program says how many records it is for.  ``meter``: what the
    search may do.
    """

    program: Program
    declaration: Node
    scope: Scope
    seed: int
    delta: float
    rows: Mapping[str, Array]
    worlds: Sequence[World]
    blocks: Mapping[int | None, tuple[int, int]]
    meter: Meter
    assumed: bool = False
    sized: bool = True
    best: Tried | None = None
    tried: int = 0
    shift: float = FIRST_SHIFT
    trials: int = TRIALS
    discrete: bool = False
    share: float = MOVING
    number: int = 0
    seen: dict[int | None, float] = field(default_factory=dict)
    _bases: list[tuple[Array, Records]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = grouped(self.declaration)[1]
        sampled = any(draws_batches(node) for node in postorder(self.declaration))
        self.include = LIKELY if sampled else 0.0
        self.names = [k for k, row in self.rows.items() if np.isfinite(row).all() and row.any()]
        self.rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(STREAM, 0)))

    # --- one pair ---------------------------------------------------------------------------------

    def sets(self, point: Point) -> tuple[Records, Records]:
        """The data sets of a point; the one that is run comes first only if it is not swapped."""
        held = slice(point.place, point.place + self.size)
        if self.size == 1 and self.scope.adjacency is Adjacency.REPLACE_ONE:
            base = self._base(point.others)
            assert point.two is not None  # noqa: S101  (a row is replaced by another)
            return base.with_row(point.place, point.one), base.with_row(point.place, point.two)
        values = point.others.copy()
        values[held] = point.one
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            rest = np.delete(values, held, axis=0)
            return Records(np.concatenate([rest, values[held]])), Records(rest)
        if self.scope.adjacency is Adjacency.ZERO_OUT:
            there = np.ones(len(values), dtype=bool)
            there[held] = False
            return Records(values), Records(values, there)
        other = point.others.copy()
        other[held] = point.two
        return Records(values), Records(other)

    def _base(self, others: Array) -> Records:
        """Records of which distinct ones are sought once."""
        for known, records in self._bases:
            if known is others:
                return records
        self._bases = [*self._bases[-3:], (others, Records(others))]
        return self._bases[-1][1]

    def run(self, point: Point, pool: Array, trials: int = 0) -> Tried | None:
        """A few runs of a point; None where it is no pair, or its likelihood is not known."""
        self.tried += 1
        self.meter.spent += RELEASE
        two = point.one if point.two is None else point.two
        pool = np.concatenate([np.stack([point.one, two]), pool])
        try:
            first, second = self.sets(point)
            if _same(first, second):
                return None
            pair = (second, first) if point.swapped else (first, second)
            rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(STREAM, 1)))
            curator = Pooled(
                self.declaration, self.scope, pair, rng=rng, trials=trials or self.trials,
                proposal=Proposal(self.shift, self.include, PLAIN), pool=pool,
                absent=point.two is None, meter=self.meter, seen=self.seen,
            )  # fmt: skip
            with np.errstate(all="ignore"):
                self.program.run(curator)
                if curator.beyond and len(point.others) != self.number:
                    return None
                weighted = curator.weighted()
                loss = float(np.nan_to_num((weighted.losses - curator.noise).mean(), nan=-np.inf))
                if not curator.continuous:
                    loss = self._counted(weighted, loss)
        except Exception:  # noqa: BLE001  (records like no other may make it fail: no pair to attack)
            return None
        asked = curator.asked()
        self.seen.update(curator.newly_seen())
        return Tried(
            point,
            loss,
            pool,
            asked,
            _directions(curator.transcript, point.one.shape[-1]),
            complete=not unused_releases(curator),
            chosen=tuple(curator.chosen),
        )

    def _counted(self, weighted: Weighted, loss: float) -> float:
        """The epsilon that choices among finitely many show, and a little of their losses.

        No mean over noise tells which of them are rare.
        """
        if self.trials == TRIALS:
            self.trials, self.discrete = DISCRETE_TRIALS, True
        scores = PilotLosses(weighted.losses, weighted.log_weights)
        return Sought("epsilon", self.delta).estimate(scores) + 1e-3 * max(loss, 0.0)

    def over(self) -> bool:
        """Whether the search ends: nothing is left to find, or to spend."""
        return self.meter.after(self.share) or (self.best is not None and self.best.full)

    def consider(self, point: Point) -> bool:
        """Run a point, then what its pool promises as long as that is better; whether any was."""
        better, found = False, None if self.over() else self.run(point, self._pool(point))
        while found is not None:
            better = self._take(found) or better
            promised = None if self.over() else self._promise(found)
            found = None if promised is None else self.run(promised, self._pool(promised))
            if found is not None and not self._beats(found):
                break
        return better

    def _beats(self, found: Tried) -> bool:
        if self.best is None:
            return found.loss > -math.inf  # one that shows nothing is a start, too
        return found.loss > max(BETTER * self.best.loss, 0.0)

    def _take(self, found: Tried) -> bool:
        better = self._beats(found)
        self.best = found if better else self.best
        return better

    def _promise(self, found: Tried) -> Point | None:
        """The pair that moves most along a run's transcript, if by more than the best is worth.

        The best of the pool, then steps from it: no run is needed to look at other rows.
        """
        if found.asked is None or not found.promised:
            return None
        pool, moved = found.pool, found.promised
        most, one, two, part = self._furthest(pool, moved)
        asked, size, failed = found.asked.of_part(part), STEP, 0
        for _ in range(GENERATIONS):
            far = failed > 0 and self._worth(found, most) < NEAR
            if failed == STUCK or far or self.meter.after(1) or most <= 0:
                break
            rows = [one] if two is None else [one, two]
            near = [self._mutant(row, size) for row in rows * MUTANTS]
            pool = np.stack([*rows, *near, *self._oblique(rows, found.directions)])
            moved = asked.apart(pool)
            if not moved:
                break
            better = self._furthest(pool, moved)
            failed = 0 if better[0] > BETTER * most else failed + 1
            size = size if better[0] > BETTER * most else max(size / 3, LEAST_STEP)
            if better[0] > most:
                most, one, two, part = better
        if not self._worth(found, most) > BETTER:
            return None
        point = found.point
        start, stop = self.blocks.get(part, (0, len(point.others)))
        place = point.place if part is None or start <= point.place < stop else start
        place = min(place, len(point.others) - self.size)
        return replace(point, one=one, two=two, place=place)

    def _worth(self, found: Tried, square: float) -> float:
        """The loss that such a distance along a run promises, over that of the best pair."""
        if self.best is None or not self.best.loss > 0:
            return 0.0 if self.best is None else math.inf
        loss = self.size**2 * square * (self.shift + 0.5)
        # Where a pair is in one part of many, its rows' square is that of another.
        if found.loss > 0 and found.square > 0 and len(found.promised) == 1:
            loss = found.loss * square / found.square
        return loss / self.best.loss

    def _furthest(
        self, pool: Array, moved: Mapping[int | None, Array]
    ) -> tuple[float, Array, Array | None, int | None]:
        """The largest squared distance, its rows and its part."""
        replaced = self.scope.adjacency is Adjacency.REPLACE_ONE
        shown = {part: m[:-1, :-1] if replaced else m[:-1, -1:] for part, m in moved.items()}
        part = max(shown, key=lambda part: float(shown[part].max()))
        one, two = np.unravel_index(int(np.argmax(shown[part])), shown[part].shape)
        return float(shown[part].max()), pool[one], pool[two] if replaced else None, part

    @property
    def _square(self) -> float:
        """The squared distance over the noise that the best pair is worth."""
        return 0.0 if self.best is None else self.best.loss / (self.shift + 0.5)

    # --- what is tried ----------------------------------------------------------------------------

    def search(self, starts: Sequence[tuple[tuple[Records, Records], str]]) -> Tried | None:
        """The best pair, starting from pairs of the examiner's; None where none shows a loss."""
        with contextlib.suppress(TooLong):
            self._search(starts)
        return self.best if self.best is not None and self.best.loss > 0 else None

    def _search(self, starts: Sequence[tuple[tuple[Records, Records], str]]) -> None:
        points = [p for pair, text in starts if (p := self.point_of(pair, text)) is not None]
        self.number = len(points[0].others) if points else 0
        for number, point in enumerate(points):
            self.consider(point)
            if number == 0 and self.discrete:
                # Rare choices are seen under long leans only.
                self.shift, self.best = DISCRETE_SHIFT, None
                self.consider(point)
            if self.discrete:
                self.consider(replace(point, swapped=True))
            if number == 0:
                self._centre()
        if self.best is None or self.best.full:
            return
        moves: list[Callable[[Point], Iterator[Point]]] = [
            self._turning, self._worlds, self._sides, self._against, self._pulling, self._places,
            self._turns, self._fewer, self._lengths,
        ]  # fmt: skip
        while not self.over():
            better = False
            for move in moves:
                before = self.best
                for point in [*move(before.point)]:
                    better |= self.consider(point)
                self._centre()
            moves = [move for move in moves if move != self._worlds]
            if not better:
                break
        self.share = 1.0
        self._steps()

    def point_of(self, pair: tuple[Records, Records], text: str) -> Point | None:
        """A pair of data sets as a point; None where they are none of this adjacency."""
        first, second = pair
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            longer = first if len(first) > len(second) else second
            return Point(longer.values, longer.values[-1], None, len(longer) - self.size, text)
        rows = (first.values != second.values).reshape(len(first), -1).any(axis=1)
        rows |= first.present != second.present
        if not rows.any():
            return None
        place = min(int(np.flatnonzero(rows)[0]), len(first) - self.size)
        if self.scope.adjacency is Adjacency.ZERO_OUT:
            there = first if first.present[place] else second
            return Point(there.values, there.values[place], None, place, text)
        return Point(first.values, first.values[place], second.values[place], place, text)

    def _centre(self) -> None:
        """The shift at which losses are about as large as the epsilon of such Gaussian noise."""
        if self.best is None or not self.best.loss > 0:
            return
        square = self._square
        wanted = _gaussian_epsilon(math.sqrt(square), self.delta) / square - 0.5
        if self.discrete:
            # Events of chance delta are then as common as any, if their loss is that of the best.
            wanted = math.log(1 / self.delta) / self.best.loss
        shift = float(f"{min(max(wanted, LEAST_SHIFT), MOST_SHIFT):.3g}")
        if abs(shift / self.shift - 1) < RECENTRED or self.over():
            return
        self.shift = shift
        found = self.run(self.best.point, self._pool(self.best.point))
        self.best = found if found is not None and found.loss > 0 else self.best

    def _worlds(self, point: Point) -> Iterator[Point]:
        """The same rows among the examiner's other records, zero ones first."""
        if self.assumed:
            return
        for world in sorted(self.worlds, key=lambda world: bool(world.values.any())):
            if world.values.shape == point.others.shape:
                yield replace(point, others=world.values, text=_named(point.text, world.name))

    def _sides(self, point: Point) -> Iterator[Point]:
        """The other data set is run: noise then leans to where the pair fits the others less."""
        yield replace(point, swapped=not point.swapped)

    def _against(self, point: Point) -> Iterator[Point]:
        """All other records as one of the two rows, or as it turned around in some columns."""
        if self.assumed:
            return
        for name, row in self._kinds_of(point).items():
            yield replace(point, others=_all(row, point.others), text=f"others {name}")
        if point.two is not None:
            half = np.arange(len(point.others)) % 2 == 0
            mixed = np.where(half.reshape(-1, *[1] * point.one.ndim), point.one, point.two)
            yield replace(point, others=mixed, text="others half and half")

    def _turning(self, point: Point) -> Iterator[Point]:
        """Other records that pull one way, and those of the later parts the other way.

        Where records are read part by part, the record that differs so meets an iterate that moves
        fast.
        """
        starts = sorted({start for start, _ in self.blocks.values()})
        turns = [starts[int(share * len(starts))] for share in TURNS if len(starts) > 2]
        unit = _unit(point.one)
        for length in REACH if not self.assumed else ():
            for turn in turns:
                for sign in (1.0, -1.0):
                    others = _all(_far(unit, sign * length), point.others)
                    others[turn:] = _far(unit, -sign * length)
                    text = f"others {length:g} long, turned from row {turn}"
                    yield replace(point, others=others, text=_named(point.text, text))

    def _pulling(self, point: Point) -> Iterator[Point]:
        """Other records along one row, of which a third, turned around, holds the iterate.

        It crosses the bend of the loss there and back, and gradients stay long.
        """
        unit = _unit(point.one)
        for length in HELD_AT if not self.assumed else ():
            others = _all(_far(unit, length), point.others)
            others[::3] = _far(unit, -length)
            text = f"others {length:g} long, a third opposed"
            yield replace(point, others=others, text=_named(point.text, text))

    def _places(self, point: Point) -> Iterator[Point]:
        """The first and last places, and those where parts begin: some are read more often."""
        assert self.best is not None  # noqa: S101  (a search moves from its best point)
        if self.scope.adjacency is Adjacency.ADD_REMOVE or self.best.asked:
            return
        last = len(point.others) - self.size
        starts = sorted({start for start, _ in self.blocks.values()})
        some = [starts[int(k)] for k in np.linspace(0, len(starts) - 1, PLACES)]
        for place in dict.fromkeys((0, *some, last)):
            if place != point.place and place <= last:
                yield replace(point, place=place, text=_named(point.text, f"row {place}"))

    def _turns(self, point: Point) -> Iterator[Point]:
        """As many others alike as a choice without noise turns at, and some more or fewer.

        Choices tell data sets apart about there alone, which no step that shows nothing leads to.
        A program need not say that it is for one number of records: with more of them no query
        may move by more than it states.
        """
        found, anyhow = False, self.scope.adjacency is Adjacency.ADD_REMOVE or not self.sized
        more_of = MORE if anyhow else MORE[:1]
        for times in more_of if self.discrete and not self.assumed else ():
            for row in self._kinds_of(point).values() if not found else ():
                size = times * len(point.others)
                turn = self._turn(point, row, size) if times * point.others.size <= COUNTED else 0
                for more in BESIDE if turn else ():
                    found = True
                    if 0 <= turn + more <= size:
                        yield _so_many(point, row, turn + more, size)

    def _turn(self, point: Point, row: Array, size: int) -> int:
        """How many of so many others it takes to turn a choice; 0 if all of them do not."""
        low, high = 0, size
        chosen = self._chosen(_so_many(point, row, low, size))
        if chosen in (None, self._chosen(_so_many(point, row, high, size))):
            return 0
        while high - low > 1:
            middle = (low + high) // 2
            same = self._chosen(_so_many(point, row, middle, size)) == chosen
            low, high = (middle, high) if same else (low, middle)
        return high

    def _chosen(self, point: Point) -> tuple[float, ...] | None:
        """What every choice of one run would be without noise; None where it does not run."""
        found = None if self.over() else self.run(point, self._pool(point), 1)
        return None if found is None else found.chosen

    def _kinds_of(self, point: Point) -> dict[str, Array]:
        """The two rows, and what turns against the first."""
        rows = {**others_than(point.one), "the row itself": point.one}
        return rows if point.two is None else {**rows, "the other row": point.two}

    def _fewer(self, point: Point) -> Iterator[Point]:
        """Most of the others as zeros, so that the rest pull by less than they could."""
        if self.assumed or not point.others.any():
            return
        for share in SHARES:
            others, text = _some(point.others, share), f"{share:g} of the others"
            yield replace(point, others=others, text=_named(point.text, text))

    def _lengths(self, point: Point) -> Iterator[Point]:
        """Shorter and longer others, and rows whose last column stays."""
        if self.assumed or not point.others.any():
            return
        for factor in LENGTHS:
            yield replace(
                point, others=_far(point.others, factor), text=_named(point.text, f"{factor:g}")
            )

    def _steps(self) -> None:
        """Random steps: of the rows by pools of them, and of the others by one each."""
        size, step, failed = STEP, 0, 0
        patience = DISCRETE_PATIENCE if self.discrete else PATIENCE
        while self.best is not None and not self.over() and failed < patience:
            point, step = self.best.point, step + 1
            if step % 4 == 2 and len(self.blocks) > 2 and not self.assumed:
                better = self.consider(self._stretched(point))
            elif step % 4 == 0 and point.others.any() and not self.assumed:
                drawn = self._random(point.others[:1], size)
                made = replace(point, others=point.others + drawn, text=_named(point.text, "steps"))
                better = self.consider(made)
            elif self.best.asked is None and step % 2 and self.names:
                better = self.consider(self._other_rows(point))
            else:
                # A new pool of steps, along the same transcript where queries are sums.
                better = self.consider(point if self.best.asked else self._stepped(point))
            failed = 0 if better else failed + 1
            size = min(size * 1.5, MOST_STEP) if better else max(size * 0.9, LEAST_STEP)

    def _other_rows(self, point: Point) -> Point:
        """Rows of the examiner's, turned in columns at random, among others that turn against them.

        Where no pool says what a row would move, and a choice among many needs both at once.
        """
        one, two, other = (
            self.rows[self.names[int(k)]] * self.rng.choice([-1.0, 1.0], point.one.shape)
            for k in self.rng.choice(len(self.names), 3)
        )
        others = [point.others, _all(-one, point.others), _all(one, point.others)]
        others.append(_all(other, point.others))
        chosen = point.others if self.assumed else others[int(self.rng.integers(len(others)))]
        if self.rng.random() < 0.5 and not self.assumed:
            chosen = _some(chosen, 2.0 ** -self.rng.uniform(0, len(SHARES)))
        return replace(
            point,
            others=chosen,
            one=one,
            swapped=bool(self.rng.integers(2)),
            two=None if point.two is None else two,
            text=_named(point.text, "rows at random"),
        )

    def _stretched(self, point: Point) -> Point:
        """The others of some parts in a row turned around, scaled, or as zeros."""
        starts = sorted({start for start, _ in self.blocks.values()})
        first, last = sorted(self.rng.choice([*starts, len(point.others)], 2, replace=False))
        others = point.others.copy()
        factor = float(self.rng.choice([-1.0, 0.0, 0.3, 3.0]))
        others[first:last] = _far(others[first:last], factor)
        text = f"others {factor:g} times from row {first} to {last}"
        return replace(point, others=others, text=_named(point.text, text))

    def _stepped(self, point: Point) -> Point:
        if point.two is not None and self.rng.random() < 0.5:
            return replace(point, two=self._mutant(point.two))
        return replace(point, one=self._mutant(point.one))

    def _random(self, row: Array, size: float) -> Array:
        return size * self.rng.standard_normal(row.shape) * max(float(np.abs(row).mean()), 1e-12)

    # --- pools ------------------------------------------------------------------------------------

    def _pool(self, point: Point) -> Array:
        """Rows across the others, rows turned around, steps from them, and the examiner's rows.

        Once there is a best pair: rows along and across what was released, too.
        """
        turned = [row for one in _both(point) for row in others_than(one).values()]
        found = [*across(point.others).values(), *turned]
        if self.best is not None:
            for direction in self.best.directions:
                found += self._slanted(point.one, direction)
        return self._cut([*found, *(self.rows[name] for name in self.names)])

    def _mutant(self, row: Array, step: float = STEP) -> Array:
        """A row of another length, or with other entries, by little or by much."""
        size = step * 10.0 ** self.rng.uniform(-1.5, 0.5)
        made = row + self._random(row, size)
        factor = 10.0 ** (2 * step * self.rng.normal())
        return _far(made, factor) if self.rng.random() < 0.5 else made

    def _oblique(self, rows: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
        """Rows to either side of a direction, as long as a clip may just be reached with.

        A long row is past the bend of its loss, and one along the iterates' way is soon fitted.
        """
        found: list[Array] = []
        for _ in range(MUTANTS // 2 if rows[0].shape[-1] > 2 else 0):
            width = rows[0].shape[-1] - 1
            along = self.rng.standard_normal(width)
            if directions and self.rng.random() < 0.8:
                along = directions[int(self.rng.integers(len(directions)))]
            width = len(along)
            side = self.rng.standard_normal(width)
            side -= (side @ along) * along / (along @ along)
            nearly = float(self.rng.choice([-1.0, 1.0])) * 10.0 ** self.rng.uniform(*SLANTS)
            length = 10.0 ** self.rng.uniform(*OBLIQUE)
            label = self.rows[self.names[int(self.rng.integers(len(self.names)))]][..., -1]
            for sign in (1.0, -1.0):
                made = np.array(rows[0])
                made[..., -1] = label
                made[..., :width] = length * (
                    nearly * along / np.linalg.norm(along)
                    + sign * math.sqrt(1 - nearly**2) * side / np.linalg.norm(side)
                )
                found.append(made)
        return found

    def _slanted(self, row: Array, direction: Array) -> list[Array]:
        """Rows at angles to what was released, on both sides of it, as long as a row and labelled.

        A fitted model turns along its releases.  Rows that it does not fit, on either side, move it
        further than two opposite rows, of which it always fits one.
        """
        width = len(direction)
        side = np.where(np.arange(width) % 2, -1.0, 1.0)
        side -= (side @ direction) * direction
        wide = float(np.linalg.norm(side))
        length = float(np.linalg.norm(row.reshape(-1, row.shape[-1])[0, :width]))
        found: list[Array] = []
        for angle in ANGLES if wide > 1e-9 else ():
            for sign in (1.0, -1.0):
                along = math.cos(angle) * direction + sign * math.sin(angle) * side / wide
                made = np.array(row)
                made[..., :width] = length * along
                found.append(made)
        return found

    def _cut(self, rows: Sequence[Array]) -> Array:
        """So many rows as are cheap to look at."""
        most = max(4, min(POOL, NUMBERS // (TRIALS * max(1, rows[0].size)))) if rows else 0
        return np.stack(rows[:most]) if rows else np.empty(0)


def _both(point: Point) -> list[Array]:
    return [point.one] if point.two is None else [point.one, point.two]


def _same(first: Records, second: Records) -> bool:
    return (
        first.values.shape == second.values.shape
        and np.array_equal(first.present, second.present)
        and np.array_equal(first.values[first.present], second.values[second.present])
    )


def _all(row: Array, others: Array) -> Array:
    return np.array(np.broadcast_to(row, others.shape))


def _so_many(point: Point, row: Array, count: int, size: int) -> Point:
    """A pair among so many others, of which the last ``count`` are one row and the rest zeros."""
    others = np.zeros((size, *point.one.shape))
    others[size - count :] = row
    return replace(point, others=others, text=_named(point.text, f"{count} of {size} others alike"))


def _some(others: Array, share: float) -> Array:
    """A share of the rows, spread over all of them, and zeros."""
    kept = np.diff(np.ceil(np.arange(len(others) + 1) * share)) > 0
    return np.where(kept.reshape(-1, *[1] * (others.ndim - 1)), others, 0.0)


def _far(rows: Array, factor: float) -> Array:
    """Rows so many times as long in all columns but the last, which may be a label."""
    found = factor * rows
    if rows.shape[-1] > 1:
        found[..., -1] = rows[..., -1]
    return found


def _unit(row: Array) -> Array:
    """A row of length 1 in all columns but the last, which may be a label."""
    length = float(np.linalg.norm(row[..., :-1] if row.shape[-1] > 1 else row))
    return _far(row, 1 / length) if 0 < length < np.inf else row


def _named(text: str, more: str) -> str:
    """A pair's text, without what earlier moves said."""
    return f"{text.partition(' (')[0]} (searched: {more})"


def _directions(transcript: Sequence[Any], width: int) -> list[Array]:
    """Directions of released vectors as wide as a row, or as one without its last entry."""
    wide = [e.released for e in transcript if e.released.ndim == 2]
    vectors = [v for v in wide if v.shape[1] in (width, width - 1) and v.shape[1] > 1]
    if not vectors or len({v.shape for v in vectors}) > 1:
        return []
    with np.errstate(all="ignore"):
        means = [np.nan_to_num(v).mean(axis=0) for v in vectors]
        sums = [np.sum(means, axis=0), means[-1]]
        lengths = [float(np.linalg.norm(v)) for v in sums]
    return [v / n for v, n in zip(sums, lengths, strict=True) if 0 < n < np.inf]


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """About the epsilon of Gaussian noise at this distance: mu^2 / 2 and tails of the loss."""
    return mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) if delta < 1 else mu * mu

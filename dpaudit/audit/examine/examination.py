"""One examination: a mechanism's own program on made-up records, and what it found.

The program, its loss, its statistic and its search are the entry's own; nothing is swapped, and no
suite is needed.  Deterministic under a seed: a program that keeps to its declaration is never
flagged, whatever was tried.  A fault that is found is one; the absence of faults is not proved.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np

from dpaudit.audit.attack import stopped_at, unused_releases
from dpaudit.audit.engine import generator
from dpaudit.audit.examine import walks
from dpaudit.audit.examine.aims import aimed
from dpaudit.audit.examine.displacement import ABSENT, UNSOUND, Moved, neighbours_at
from dpaudit.audit.examine.held import KEPT, held_by
from dpaudit.audit.examine.lines import (
    Lines,
    Ran,
    constants_of,
    count_beyond,
    names_of,
    takes_apart,
)
from dpaudit.audit.examine.losses import Loss, search_pair
from dpaudit.audit.examine.made import NAMED, World, rows_of, worlds_of
from dpaudit.audit.examine.meter import OWN, Meter
from dpaudit.audit.examine.noise import drawn_alone
from dpaudit.audit.examine.one_way import Declining, one_way, parted
from dpaudit.audit.examine.outcomes import Watch, listed_in
from dpaudit.audit.examine.running import Exited, TooLong, contained, ending_after, run
from dpaudit.audit.examine.said import SAYS, heard
from dpaudit.audit.examine.search import point_of
from dpaudit.audit.examine.shapes import Shape, Unknown, fits, says_how_many, shape_of
from dpaudit.audit.examine.study import (
    WALKED,
    Enough,
    Louder,
    Studied,
    asking_of,
    bounded_by_library,
    wholes,
)
from dpaudit.audit.examine.walks import PartWalk, Tiled, Walker
from dpaudit.audit.graybox.watch import Asked
from dpaudit.audit.likelihood import MU_DELTA, Wanted
from dpaudit.audit.neighbours import Neighbours, alone, differing, digest_of, extra_last
from dpaudit.audit.residuals import Finding
from dpaudit.check.assumptions import CLIPPED, DRAWN, GATHERED
from dpaudit.curator.curator import Event, Program, Sampler
from dpaudit.curator.locations import at, line_of_error
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import Diverged, DpauditError, Undeclared
from dpaudit.families.composition import Assuming
from dpaudit.families.events import EventSlack, ProposeTestRelease
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node, postorder
from dpaudit.nodes.registry import load
from dpaudit.scope import Adjacency
from dpaudit.storage.opened import at_import, opened

STREAM = 0x657861  # key of the examination's streams of random numbers ("exa")
SECONDS = 18.0  # of a processor, after which everything ends: the last resort
# Shares of the work after which a stage begins nothing more: queries, one world's, and walks.
STUDY, WORLD, OTHERS, WALK = 0.65, 0.35, 0.7, 0.8
STUDIED = (0, 1, 2, 3)  # worlds in which every release is examined
# Those in which even a slow program is tried, on a few rows, and for how many releases.
SHORTLY, BRIEF = (2, 3), 40
GAPS = 9  # the world with gaps
FAR = (
    (3, 1e3),
    (3, 1e-3),
    (GAPS, 30.0),
)  # worlds, and how many times its noise, where no clip is the library's
ONE_WAY = 0.02  # of the work, for one world's monotone tests
QUIET = 1e-3  # times its noise, so that a projection or a sign does not hide what differs
# Along which other records are walked: worlds and noises; and of more, in this share of the work.
ALONG, TRANSCRIPTS, SHORT = ((0, 1.0), (3, QUIET), (2, 1.0)), 8, 0.02
LOUD = 30.0  # multiples of the noise, for answers that no ordinary run would see
CLIPPED_WORLDS = 2  # of them, where the library's own clip bounds every query
# The share of the work for walks after other data sets, and how many names of what is kept are told
KEEPING, SHOWN = 0.05, 4
FEWEST_WALKS, LEAST = 3, 1.5  # tried in so many times the seconds, however late it is
TIED = 8  # the world in which one record decides between columns
WALKS, MOST_WALKS = 8, 24
WORK = 100_000_000  # numbers that walks may read
PARTS = 6  # parts of a program that are walked
# Rows that are changed to meet conditions, rounds of that, a run's releases whose conditions are
# looked at, and the numbers that its records may have.
BASES = ("a random row labelled 1", "a thousand times a row labelled 1")
LEARNED, ASKED, LARGEST = 6, 12, 400_000
# Worlds that conditions are seen on first; the share of the work of one round of aims, and of all
# that are left of it.
AIMED, AIM, LEARN = 4, 0.05, 0.2
SLOW = 0.01  # of the seconds: no conditions are searched for where a short run takes longer
WHOLE = 0.95  # of the seconds, in which searches go on that were cut short; the rest is to end in
FEWEST_RUNS = 20  # must fit into the seconds that are left for the search for a pair
WORK_OF_A_SEARCH = 400_000_000  # of the search for a pair
ITEMS = 3  # of one row, where a program takes rows of several
HOOKED = "records as the mechanism's hook makes them"
BATCHED = 4  # reads of the records by a query on secret batches
HELPS = (
    "what would help: a records_like hook that makes fewer or shorter records, fewer rounds, or a "
    "faster query"
)

NOISE, BOUNDED = "declared_noise", "bounded_queries"
ACCESS = "undeclared access"
CONTROL = "control flow and released values, on made-up records"
MOVED = "displacement of every query, maximised"
APART = "parts kept apart"
TRIALS = "one trial as one of many"
# Draws of a hook among which one has to have rows of the shape that it made first: with half of
# them of other shapes, none has in one of 65,000 series.
DRAWN_AGAIN = 16
FAIL = "made-up records make the program fail"
MADE = "declared releases, made on made-up records"


Walked = tuple[PartWalk, Any]  # a walk and what its program returned
# A data set to walk on, the row in which alone it differs (None: in many), and its name.
Changed = tuple[Records, int | None, str]


@dataclass(frozen=True)
class Reached:
    """How far the own program moved at the releases of one label, as shares of what is stated.

    ``clip``: the longest vector of one record over the clipping radius (1 at most; None where the
    query is no clipped mean of the library); ``displacement``: of the query, over its sensitivity;
    ``tried``: evaluations of the query; ``reaches``: why it reaches no more, by its author.
    ``pair``: two data sets made small that move it too far, and how far; None where none do.
    """

    label: str
    place: str
    kind: str
    clip: float | None
    displacement: float
    tried: int = 0
    reaches: str = ""
    pair: tuple[Records, Records, float] | None = None


@dataclass(frozen=True)
class Unmet:
    """A condition that was true of no record that was tried; ``label``: of a release it decides."""

    place: str
    text: str
    label: str


@dataclass(frozen=True)
class Tried:
    """How much an examination tried: data sets on which queries were asked, and their rows.

    ``mutations``: data sets that the search made of others; ``seconds``: of a processor, that it
    had.
    """

    data_sets: int
    rows: int
    mutations: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Examination:
    """The findings about one program; ``not_examined`` says why where it could not be run.

    ``pair``: of the made-up data sets tried, the two that a whole run tells apart best; ``work``:
    how many numbers a run of one trial reads; ``walked``: how many of a run's releases were walked
    on other records, 0 for all; ``ran``: which lines ran, None where another tracer
    is at work; ``stopped``: by time, the last resort; ``opened``: files that were read meanwhile.
    ``unmet``: conditions on records that were true of none.  ``kept``: the names by which the
    program keeps what depends on records, where that changed no answer.  ``warned``: texts by which
    a library warned of some data sets.  ``reach``: how far the pair that a search found moves all
    releases together, as a share of what is declared, and of how many pairs it is the best; (1, 0)
    where that is not known.  ``full``: whether every declared release
    moves by its sensitivity there.  ``tried``: how much was.  ``on_more``: what is wrong on more
    records alone, where nothing says for how many the program is written.
    """

    findings: tuple[Finding, ...] = ()
    reached: tuple[Reached, ...] = ()
    shape: Shape | None = None
    pair: Neighbours | None = None
    not_examined: str = ""
    work: int = 0
    walked: int = 0
    seconds: float = 0.0
    stopped: bool = False
    ran: Ran | None = None
    opened: frozenset[str] = frozenset()
    unmet: tuple[Unmet, ...] = ()
    kept: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    reach: tuple[float, int] = (1.0, 0)
    full: bool = False
    tried: Tried | None = None
    on_more: str = ""

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that say something is wrong."""
        return tuple(f for f in self.findings if f.status == "broken")


@dataclass
class _Notes:
    """Problems by check, each once, and how much was tried."""

    problems: dict[str, dict[str, None]] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)

    def wrong(self, check: str, text: str) -> None:
        self.problems.setdefault(check, {})[text] = None

    def count(self, check: str, more: int = 1) -> None:
        self.tried[check] = self.tried.get(check, 0) + more


def examine(
    mechanism: Mechanism,
    *,
    seed: int,
    shape: Shape | None = None,
    likely: Shape | None = None,
    data: Records | None = None,
    known: Neighbours | None = None,
    seconds: float = SECONDS,
    first: bool = False,
) -> Examination:
    """Run a mechanism's own program on made-up records, and try to make it break its declaration.

    ``shape``: of its records, where that is known; otherwise it is found out, or ``likely`` is
    tried.  ``data``: the private records, if they are loaded: they are compared with what the
    program holds, and with nothing else.  ``known``: a pair from which the search for one begins;
    it is the pair found unless another tells the program apart better.  ``first``: stop after the
    first stage that finds something: whether anything is found is the same, only how much is told
    of it is not.
    Never an error of the program's: what it raises is a finding, and a program for which no records
    can be made up is reported as not examined.
    """
    started = time.process_time()
    with heard(), opened() as read, ending_after(seconds):
        try:
            examiner = _Examiner(mechanism, seed, (shape, likely), data, started, seconds, known)
        except Unknown as unknown:
            return Examination(not_examined=str(unknown))
        except TooLong:
            why = f"no run of the program ended within {seconds:.3g} s of a processor; {HELPS}"
            return Examination(not_examined=why, stopped=True)
        more: tuple[Finding, ...] = ()
        on_more = ""
        # The stage that is under way when the time is over is left.
        with examiner.watch, examiner.left_as_found():
            with contextlib.suppress(TooLong):
                examiner.run(first=first)
                found_nothing = not (first and examiner.found)
                if found_nothing and likely is None and mechanism.records_like is None:
                    if shape is None:
                        more = _of_another_rank(mechanism, seed, examiner)
                    if shape is None or mechanism.scope.adjacency is Adjacency.ADD_REMOVE:
                        of_more, on_more = _of_more_rows(mechanism, seed, examiner)
                        more = (*more, *of_more)
                if not (examiner.found or more):
                    examiner.further()
            examination = examiner.examination(time.process_time() - started)
    findings = (*examination.findings, *more)
    return replace(examination, findings=findings, opened=frozenset(read), on_more=on_more)


def _of_another_rank(mechanism: Mechanism, seed: int, first: _Examiner) -> tuple[Finding, ...]:
    """Faults on rows of another rank: of several items, or of one.

    Tried for a program that asks for the rank.  A program that splits a row into items is tried on
    rows several times as long.  Neither is tried where the mechanism says what its records are: a
    program need not fit others.
    """
    row, names = first.shape.row, names_of(mechanism.program)
    if "ndim" in names:
        other = Shape(first.shape.rows, (ITEMS, *row) if len(row) == 1 else row[-1:])
    elif "reshape" in names and len(row) == 1 and takes_apart(mechanism.program):
        other = Shape(first.shape.rows, (ITEMS * row[0],))
    else:
        return ()
    return _broken(_on(mechanism, seed, first, other))


def _of_more_rows(
    mechanism: Mechanism, seed: int, first: _Examiner
) -> tuple[tuple[Finding, ...], str]:
    """Faults on twice as many rows as the largest number that the program names, and a remark.

    Under add_remove a guarantee is of any number of records.  Elsewhere a program may be written
    for one number, and state sensitivities that are right for no other: where nothing in it says
    for which, only faults of what it asks and gives beside its values are faults, as the records
    may decide these for no number of them.  The remark names the first of the others.
    """
    anyhow = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    if not anyhow and first.sized:
        return (), ""
    count = 2 * count_beyond(mechanism.program, first.shape.rows)
    if not count:
        return (), ""
    examiner = _on(mechanism, seed, first, Shape(count, first.shape.row))
    broken = _broken(examiner)
    if anyhow or examiner is None:
        return broken, ""
    faults = tuple(f for f in broken if f.check == CONTROL and FAIL not in f.detail)
    worst = max(examiner.moved.values(), key=lambda moved: moved.factor, default=None)
    if faults or worst is None or worst.factor <= 1:
        return faults, ""
    return (), (
        f"on {count} records release {worst.label!r} moves its query by {worst.factor:.4g} times "
        f"what it states{at(worst.place)}"
    )


def _on(mechanism: Mechanism, seed: int, first: _Examiner, other: Shape) -> _Examiner | None:
    """An examination on records of another shape, in the time that is left; None if none fit."""
    if fits(mechanism.program, mechanism.declaration, mechanism.scope, other):
        return None
    started = time.process_time()
    seconds_left = first.meter.started + first.meter.seconds - started
    if seconds_left <= 0:
        return None
    examiner = _Examiner(mechanism, seed, (other, None), None, started, seconds_left)
    examiner.run()
    return examiner


def _broken(examiner: _Examiner | None) -> tuple[Finding, ...]:
    return () if examiner is None else examiner.examination(0.0).broken


class _Examiner:
    def __init__(
        self,
        mechanism: Mechanism,
        seed: int,
        shapes: tuple[Shape | None, Shape | None],
        data: Records | None,
        started: float,
        seconds: float,
        known: Neighbours | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.known = known
        self.scope = mechanism.scope
        self.program = mechanism.program
        self.declaration: Node = mechanism.declaration
        self.seed = seed
        self.data = data
        self.meter = Meter(seconds, own=OWN, started=started)
        self.notes = _Notes()
        self.moved: dict[tuple[str, str], Moved] = {}
        self.beyond: dict[tuple[str, str], float] = {}  # how far whole runs moved one, if too far
        self.studied: list[Studied] = []
        self.farther: list[Studied] = []
        # By number of a world: one trial's transcript, and the parts that it was asked in.
        self.sampled: dict[int, tuple[list[Event], list[tuple[int, int]]]] = {}
        self.pair: Neighbours | None = None
        # Before anything ran: a program may count in a field.
        self.sized = says_how_many(self.program, self.declaration, self.scope)
        self.first = False
        self.longest = 0.0  # seconds of a whole run, or of a walk once there was one
        self.walked = False
        self.warned: dict[str, None] = {}  # constant texts by which libraries warned of some data
        self.kept: list[str] = []  # what the program keeps that differs after two data sets
        self.unsteady: frozenset[str] = frozenset()  # ways out that differ on the same records
        self.unfinished = 0  # runs that took all the time there is
        self.drawn = Finding(DRAWN, "not_run", 0.0, 0.0, "nothing was drawn alone")
        self.lines = Lines(self.program)
        self.watch = Watch(self.program)
        self.listed = listed_in(self.program)
        self.work = 0
        self.reach, self.full = (1.0, 0), False
        # Kernels that are loaded in a run are not put back with what the program keeps.
        load("kernel")
        # A value that a program makes once, from its first records, has to be made again to show.
        self.shared = walks.shared(self.program)
        self.unused = walks.own_copy(self.program)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
        self.like: Records | None = None
        self.like = like = self._alike(rng)
        self.shape = self._shape(like, *shapes)
        values = None if like is None else like.values
        rows = rows_of(self.shape, rng, constants_of(self.program), values)
        self.rows: dict[str, Array] = dict(rows)
        self.worlds = worlds_of(self.shape, rng)
        # An assumption about the data holds for those that the hook makes, and for no others.
        nodes = [*postorder(self.declaration)]
        # Inside a rare event of the noise nothing is promised: unlikely answers prove no excess.
        self.eventful = any(isinstance(node, EventSlack | ProposeTestRelease) for node in nodes)
        self.hooked = like is not None
        self.assumed = like is not None and any(isinstance(node, Assuming) for node in nodes)
        if like is not None:
            others = [self._alike(rng) if self.assumed else None for _ in self.worlds]
            own = [World(HOOKED, np.array(r.values)) for r in (like, *others) if r is not None]
            self.worlds = tuple(own) if self.assumed else (own[0], *self.worlds)
        self.rng = rng

    def _draw(self, rng: np.random.Generator | None = None) -> Records:
        records = self._alike(self.rng if rng is None else rng)
        assert records is not None  # noqa: S101  (asked for only where there is a hook)
        return records

    def _alike(self, rng: np.random.Generator) -> Records | None:
        """Records of the hook, drawn afresh, whose rows have the shape of the first ones.

        Rows of different data sets are exchanged, so that all of them need one shape.
        """
        if self.mechanism.records_like is None:
            return None
        for _ in range(DRAWN_AGAIN):
            records = self.mechanism.records_alike(rng)
            if self.like is None or records.values.shape[1:] == self.like.values.shape[1:]:
                return records
        return self.like

    def _shape(self, like: Records | None, shape: Shape | None, likely: Shape | None) -> Shape:
        """The hook's, the data's, one that is found out, or the likely one.  Errors: Unknown."""
        program = (self.program, self.declaration, self.scope)
        if like is not None:
            return shape_like(like)
        if shape is not None and not fits(*program, shape):
            return shape
        try:
            return shape_of(*program)
        except Unknown:
            if likely is None or fits(*program, likely):
                raise
            return likely

    def run(self, *, first: bool = False) -> None:
        """Run every stage in turn; stages without time left are skipped, and reported.

        ``first``: until something is found.
        """
        self.first = first
        self._learn()
        for stage in self._stages():
            with contextlib.nullcontext() if stage == self._draws else self.lines:
                stage()
            if first and self.found:
                return

    @contextlib.contextmanager
    def left_as_found(self) -> Iterator[None]:
        """Put back what the program's modules hold: the next examination begins as this one."""
        try:
            yield
        finally:
            walks.restore(self.shared)

    @property
    def found(self) -> bool:
        """Whether anything is wrong so far."""
        moved = self.moved.values()
        problems = any(self.notes.problems.values()) or any(m.problems for m in moved)
        return problems or any(m.factor > 1 for m in moved) or self.drawn.status == "broken"

    def _stages(self) -> Iterator[Callable[[], None]]:
        yield partial(self._study, STUDIED[0])
        yield self._keeps
        # The first question comes before any answer: more noise changes it in nothing.
        once = len(self.studied[0].asked) < 2
        for number, far in () if once else FAR:
            yield partial(self._study, number, far)
        for number in (*STUDIED[1:], GAPS) if once else STUDIED[1:]:
            yield partial(self._study, number)
        if one_way(self.declaration):
            yield self._one_way
        yield from (self._walks, self._draws, self._trials, self._pair)

    def further(self) -> None:
        """Go on with searches that the work or the time cut short, in turns, until all is used."""
        self.meter.own = WHOLE
        waiting = [search for sampler in self.studied for search in sampler.unfinished]
        with self.lines, contextlib.suppress(Exception), contained():
            while waiting and not self.late():
                share = (self.meter.limit - self.meter.used) / len(waiting)
                waiting = [search for search in waiting if search(share)]
        walks.restore(self.shared)

    def _learn(self) -> None:
        """Rows that meet the conditions of a short run's queries, which others seldom do."""
        if self.shape.numbers > LARGEST or self.late():
            return
        started = time.process_time()
        sampler = self._shortly(self.worlds[0].records())
        if time.process_time() - started > SLOW * self.meter.seconds:
            return
        with contextlib.suppress(Exited), contained():
            self._meet(sampler.asked)
        walks.restore(self.shared)

    def _meet(self, releases: Sequence[Asked]) -> None:
        """Rows that meet the conditions of the queries of some releases."""
        lines = {(one.label, one.place): one for one in releases if not one.batched}
        asked = [
            (asking_of(one, self.scope.adjacency, self.meter, watch=self.watch), len(one.records))
            for one in lines.values()
            if not bounded_by_library(one.query)
        ]
        names = (*BASES, *(name for name in self.rows if name.startswith(NAMED)))
        bases = {name: self.rows[name] for name in names}
        base = bases[BASES[0]]
        finite = [row for row in self.rows.values() if np.isfinite(row).all()]
        sets = [np.array(finite), *(world.values for world in self.worlds[:AIMED])]
        until = self.meter.used + LEARN * (self.meter.limit - self.meter.used)
        for _ in range(LEARNED):
            for (asking, size), values in itertools.product(asked, sets):
                if self.meter.beyond(until):
                    return
                with contextlib.suppress(Exception):
                    asking.value(Records(np.resize(values, (size, *self.shape.row))), 0)
            most = min(until, self.meter.used + AIM * self.meter.limit)
            found = aimed(asked, self.watch, bases, most)
            self.rows |= found
            bases = found | bases
            # A condition inside another is asked only on rows that meet the outer one.
            worlds = [world.values for world in self.worlds[:AIMED]]
            sets = [np.where(row != base, row, w) for row in found.values() for w in worlds]
            if not found:
                return

    def _shortly(self, records: Records) -> Louder:
        """A run of a copy of the program that is not examined."""
        sampler = self._louder(records, 1.0, 400, ASKED)
        # A failure here occurs on records without traces too, or is no finding.
        with contextlib.suppress(Exception, Enough, TooLong), np.errstate(all="ignore"):
            run(walks.own_copy(self.program), sampler)
        walks.restore(self.shared)
        return sampler

    def _draws(self) -> None:
        self.drawn = drawn_alone(self.studied[0].releases, self.seed)

    def late(self) -> bool:
        """Whether the work is done, or the time over, or too short for one more run."""
        return self.meter.after(1) or not self.meter.room(self.longest)

    def over(self) -> bool:
        """Whether no time is left even for the tries that every stage makes, as with long runs."""
        return not self.meter.room(self.longest, LEAST)

    @property
    def batched(self) -> bool:
        """Whether any release is on a secret batch."""
        return any(request.batched for sampler in self.studied for request in sampler.asked)

    # --- every query of a run -------------------------------------------------------------------

    def _study(self, number: int, far: float = 1.0) -> None:
        """Study one run: the program on the world ``number``, each query tried on other records.

        ``far``: after answers with so many times their noise.  Once time runs short, only the
        worlds of ``SHORTLY`` are studied, briefly.
        """
        late = bool(self.studied) and (self.meter.after(STUDY) or self.late())
        shortly = number in SHORTLY and far == 1 and not self.late()
        if late and not shortly:
            return
        started = time.process_time()
        settled = all(moved.settled for moved in self.moved.values())
        bounded = all(moved.clips or moved.settled for moved in self.moved.values())
        # An engine that moved every query by all it states answers in another world as in this one.
        if self.studied and bounded and (settled or number >= CLIPPED_WORLDS or far != 1):
            return
        world = self.worlds[min(number, len(self.worlds) - 1)]
        suffix = "" if far == 1 else f", after answers with {far:g} times their noise"
        sampler = Studied(
            self.declaration,
            self.scope,
            world.records(),
            rng=generator(self.seed, (STREAM, number)),
            rows=self.rows,
            found=self.moved,
            seed=self.seed + number,
            meter=self.meter,
            until=self.meter.used + WORLD * self.meter.limit * (not late),
            assumed=self.assumed,
            eventful=self.eventful,
            draw=None if self.mechanism.records_like is None else self._draw,
            far=far,
            # Far away the first releases are as before, and the last differ most.
            spread=1 if far == 1 else wholes(self.studied[0].asked),
            first=self.first,
            watch=self.watch,
            listed=self.listed,
            world=world.name + suffix,
            most=BRIEF if late else np.inf,
        )
        if far != 1:
            # A refusal far away may never happen in a run on data.
            with contextlib.suppress(Exception, Enough, TooLong), np.errstate(all="ignore"):
                run(self.program, sampler)
            self.farther.append(sampler)
            self._ran(time.process_time() - started - sampler.aside)
            return
        self.studied.append(sampler)
        finished = self._run(sampler, world.name)
        self._ran(time.process_time() - started - sampler.aside)
        if finished and sampler.transcript and not late:
            parts = sorted((p.start, p.stop) for p in sampler._parts)
            self.sampled[number] = sampler.transcript[:WALKED], parts
        sampler.repeated()
        for touched in sampler.touched:
            self.notes.wrong(ACCESS, touched)
        self.notes.count(ACCESS)

    def _ran(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)

    def _run(self, sampler: Sampler, name: str) -> bool:
        try:
            with np.errstate(all="ignore"):
                run(self.program, sampler)
        except Enough:
            return True
        except TooLong:
            self.unfinished += 1
            return False
        except (Diverged, Undeclared) as refusal:
            self.notes.wrong(ACCESS, stopped_at(refusal))
            return False
        except Exception as error:  # noqa: BLE001  (whatever made-up records provoke is the finding)
            self.notes.wrong(CONTROL, _failed(error, name))
            return False
        return True

    def _one_way(self) -> None:
        """Queries of a monotone test, along answers that are all no, or no after as many yes."""
        several = {leaf.label: int(leaf.answers) - 1 for leaf in one_way(self.declaration)}
        rows = {name: row for name, row in self.rows.items() if np.isfinite(row).all()}
        most = ONE_WAY * self.meter.limit
        for yes in ({}, several) if any(several.values()) else ({},):
            for number in (0, 3, 2):
                if self.late():
                    return
                world = self.worlds[min(number, len(self.worlds) - 1)]
                sampler = Declining(
                    self.declaration,
                    self.scope,
                    world.records(),
                    rng=generator(self.seed, (STREAM, 300 + number)),
                    most=WALKED,
                    meter=self.meter,
                    yes=yes,
                )
                # Answers are unlikely ones: what it fails of is no finding.
                with contextlib.suppress(Exception, Enough, TooLong), np.errstate(all="ignore"):
                    run(self.program, sampler)
                for use in sampler.uses.values():
                    place, text = parted(use, rows, self.scope.adjacency, most)
                    self.notes.count(MOVED, len(use.queries))
                    if text:
                        label = use.queries[0].label
                        text = f"release {label!r}: {text}, {world.name}{at(place)}"
                        self.notes.wrong(MOVED, text)
                        return

    # --- whole runs on other records --------------------------------------------------------------

    def _walks(self) -> None:
        """Replay transcripts on other data sets, on which the program must ask the same."""
        if 0 not in self.sampled:
            return
        (transcript, parts), world = self.sampled[0], self.worlds[0]
        base = world.records()
        first = self._walked(base, transcript, "the records it was drawn from")
        if first is None:
            return
        if first[0].said.texts:
            # A time of day, or a duration, reveals nothing about records.
            same = self._walked(base, transcript, "the same records at once")
            self.unsteady = frozenset(() if same is None else first[0].said.differs(same[0].said))
            first[0].said.leave(self.unsteady)
        self._others()
        self._loud()
        neighbours = self._neighbours(world, parts, len(first[0].visits))
        self._along(first, transcript, neighbours, fewest=FEWEST_WALKS, most=WALK)
        self._tied()
        again = None if self.over() else self._walked(base, transcript, "the same records again")
        self.notes.count(KEPT)
        for visit in walks.differing(first[0].visits, again[0].visits) if again else ():
            text = "the same records give another value after a run on others"
            self.notes.wrong(KEPT, f"release {visit.label!r}: {text}{at(visit.place)}")

    def _along(
        self,
        first: Walked | None,
        transcript: Sequence[Event],
        others: Iterable[Changed],
        probe: Records | None = None,
        fewest: int = 0,
        most: float = 1.0,
        times: float = 1.0,
    ) -> None:
        """Replay the transcript of a walk on other records, and compare the two.

        ``most``: the share of the work after which it ends; the first ``fewest`` are tried however
        late it is, as long as there is room.  ``times``: how much louder than declared the
        transcript's noise is: a failure along it is no finding.
        """
        for number, (records, row, name) in enumerate(others if first is not None else ()):
            late = self.meter.after(most) or self.late()
            if first is None or (late and (number >= fewest or self.over())):
                return
            other = self._walked(records, transcript, name, probe=probe, times=times)
            if other is None:
                continue
            self.notes.count(CONTROL)
            self._tell(CONTROL, first, other)
            if row is not None:
                self._compared(first, other, row, name)
            elif probe is not None:
                self._asked_otherwise(first, other)

    def _tied(self) -> None:
        """Replay on neighbours whose changed row decides which of tied values is largest."""
        world, adjacency = self.worlds[min(TIED, len(self.worlds) - 1)], self.scope.adjacency
        size, base = len(world.values), world.records()
        if adjacency is Adjacency.ADD_REMOVE and size > 1:
            base = Records(world.values[:-1])
        elif adjacency is Adjacency.ZERO_OUT:
            base = Records(world.values, np.arange(size) < size - 1)
        kinds = [kind for kind, row in self.rows.items() if np.isfinite(row).all()][::2][:WALKS]
        transcript = None if self.late() else self._sampled(base.values, world.name)
        if not transcript:
            return
        row, name = size - 1, f"row {size - 1} as {{!r}}, {world.name}"
        others = [(world.with_row(row, self.rows[k]), row, name.format(k)) for k in kinds]
        self._along(self._walked(base, transcript, world.name), transcript, others)

    def _others(self) -> None:
        """Replay transcripts on entirely different records: they may change only queries' values.

        Along an ordinary transcript; one of little noise, which hides less; and one of equal
        records, which pass tests of how much records agree.  Along more of them if a run is short.
        """
        probe, began = self.worlds[min(3, len(self.worlds) - 1)].records(), self.meter.spent
        for k in range(TRANSCRIPTS):
            if k >= len(ALONG) and not self.lines.own:
                return  # a library's program goes the same way along each
            # Once, however much was done before, as long as not even that has no room.
            done = self.meter.after(OTHERS) or not self.meter.room(self.longest)
            done = done if k else self.over()
            if done or (k >= len(ALONG) and self.meter.spent - began > SHORT * self.meter.limit):
                return
            number, quiet = ALONG[k % len(ALONG)]
            quiet **= 1 / (1 + k // len(ALONG))
            world = self.worlds[min(number, len(self.worlds) - 1)]
            sampled = self.sampled.get(number) if k == 0 else None
            transcript = (
                sampled[0] if sampled else self._sampled(world.values, world.name, quiet, k)
            )
            if not transcript:
                return
            numbers = sorted(({0, 3, 1} - {number}) & {*range(len(self.worlds))}, reverse=True)
            others = [(self.worlds[n].records(), None, self.worlds[n].name) for n in numbers]
            first = self._walked(world.records(), transcript, world.name, probe=probe)
            self._along(first, transcript, others, probe, fewest=k == 0)

    def _loud(self) -> None:
        """As :meth:`_others`, along transcripts of far louder noise, which reach rare branches.

        Any transcript has some probability.
        """
        world, began = self.worlds[min(3, len(self.worlds) - 1)], self.meter.spent
        fewer = np.arange(len(world.values)) < len(world.values) - 1
        absent = self.worlds[1].records(), self.worlds[1].name
        if self.scope.adjacency is Adjacency.ADD_REMOVE and fewer.any():
            absent = Records(world.values[fewer]), f"{world.name}, one fewer"
        elif self.scope.adjacency is Adjacency.ZERO_OUT:
            absent = Records(self.worlds[1].values, fewer), "others zero, one absent"
        told = f", after answers with {LOUD:.0f} times their noise"
        pairs = ((self.worlds[0].records(), self.worlds[0].name), absent)
        others = [(records, None, f"{name}{told}") for records, name in pairs]
        for k in range(TRANSCRIPTS):
            if self.meter.after(OTHERS) or self.late() or (k > 0 and not self.lines.own):
                return
            if k > 0 and self.meter.spent - began > SHORT * self.meter.limit:
                return
            sampler = self._louder(world.records(), LOUD, 200 + k)
            try:
                with np.errstate(all="ignore"), contextlib.suppress(Enough):
                    run(self.program, sampler)
            except TooLong:
                self.unfinished += 1
                continue
            except Exception:  # noqa: BLE001  (far away)
                return
            transcript = sampler.transcript
            first = self._walked(world.records(), transcript, f"{world.name}{told}", times=LOUD)
            self._along(first, transcript, others, times=LOUD)

    def _asked_otherwise(self, first: Walked, other: Walked) -> None:
        """Walks of other records along one transcript must ask for the same."""
        for visit in walks.otherwise_asked(first[0], other[0]):
            text = "what it asks depends on the private records beyond what was released"
            self.notes.wrong(CONTROL, f"release {visit.label!r}: {text}{at(visit.place)}")
        for visit in walks.unsound(first[0], other[0]):
            self.notes.wrong(MOVED, f"release {visit.label!r}: {UNSOUND}{at(visit.place)}")

    def _compared(self, first: Walked, other: Walked, row: int, name: str) -> None:
        """Neighbours move no release too far, and none on other rows."""
        for visit, factor in walks.beyond(first[0], other[0]):
            key = visit.label, visit.place
            self.beyond[key] = max(factor, self.beyond.get(key, 0.0))
            self.notes.wrong(
                MOVED,
                f"release {visit.label!r}: {name} moves the query by {_times(factor)} its stated "
                f"{visit.session.norm} sensitivity{at(visit.place)}",
            )
        self.notes.count(MOVED, len(first[0].visits))
        if self.scope.adjacency is not Adjacency.ADD_REMOVE:
            self.notes.count(APART)
            for visit in walks.strangers(first[0], other[0], row):
                text = f"{name}, which is not among its rows, moves it{at(visit.place)}"
                self.notes.wrong(APART, f"release {visit.label!r}: {text}")

    def _tell(self, check: str, first: Walked, other: Walked, by: str = "") -> bool:
        """Note other ways in which two walks tell their records apart, each way once."""
        texts = walks.told(first, other)
        for text in texts:
            way = f"{by}{text.partition(SAYS)[0]}"
            if not any(known.startswith(way) for known in self.notes.problems.get(check, ())):
                self.notes.wrong(check, f"{by}{text}")
        self.warned |= dict.fromkeys(first[0].said.take(other[0].said))
        return bool(texts)

    def _neighbours(
        self, world: World, parts: Sequence[tuple[int, int]], releases: int
    ) -> Iterator[Changed]:
        """Data sets that differ from a world in one row: of every part, in rows of every kind."""
        size, adjacency = len(world.values), self.scope.adjacency
        ends = [(start, stop) for start, stop in parts] or [(0, size)]
        if len(ends) > PARTS:
            middle = self.rng.choice(len(ends) - 2, PARTS - 2, replace=False) + 1
            ends = [ends[0], ends[-1], *(ends[int(k)] for k in middle)]
        rows = [stop - 1 for _, stop in ends] + [start for start, _ in ends]
        rows += [int(self.rng.integers(start, stop)) for start, stop in ends]
        rows = list(dict.fromkeys([*rows, size - 1, 0]))
        if adjacency is Adjacency.ADD_REMOVE and self.batched:
            # Draws are shared by place: only without the last row is every other one in the same.
            rows = [size - 1]
        most = max(WALKS, min(MOST_WALKS, WORK // max(1, releases * self.shape.numbers)))
        for number in range(most):
            row, kind = rows[number % len(rows)], [*self.rows][number % len(self.rows)]
            present = np.arange(size) != row
            if adjacency is Adjacency.REPLACE_ONE:
                yield world.with_row(row, self.rows[kind]), row, f"row {row} as {kind!r}"
            elif adjacency is Adjacency.ZERO_OUT:
                yield Records(world.values, present), row, f"row {row} zeroed out"
            else:
                yield Records(world.values[present]), row, f"row {row} taken out"

    def _walked(
        self,
        records: Records,
        transcript: Sequence[Event],
        name: str,
        kind: type[PartWalk] = PartWalk,
        probe: Records | None = None,
        program: Program | None = None,
        times: float = 1.0,
    ) -> Walked | None:
        """Replay a transcript on records; None, with a note, where the program fails."""
        started = time.process_time()
        try:
            with np.errstate(all="ignore"):
                walked = self._walker(program).walk(records, transcript, kind, probe)
            seconds = time.process_time() - started
            # A walk asks every query once: of the run it follows, all but that took longer.
            self.longest = max(self.longest, seconds) if self.walked else seconds
            self.walked = True
            for visit in walked[0].kept:
                self.notes.wrong(
                    CONTROL,
                    f"release {visit.label!r}: a run of its search asks for something else after "
                    f"another run, which nobody is shown{at(visit.place)}",
                )
            return walked
        except TooLong:
            self.unfinished += 1
        except (Diverged, Undeclared) as refusal:
            check = TRIALS if kind is Tiled else CONTROL
            self.notes.wrong(check, f"{stopped_at(refusal)}, on {name}")
        except Exception as error:  # noqa: BLE001  (whatever made-up records provoke is the finding)
            if times == 1:
                self.notes.wrong(CONTROL, _failed(error, name))
        return None

    def _walker(self, program: Program | None = None) -> Walker:
        given = (program or self.program, self.declaration, self.scope, self.seed, self.meter)
        return Walker(*given, self.unsteady)

    def _sampled(
        self, values: Array, name: str, quiet: float = 1.0, k: int = 0
    ) -> list[Event] | None:
        sampler = self._louder(Records(values), quiet, 100 + k)
        return sampler.transcript if self._run(sampler, name) else None

    def _louder(self, records: Records, times: float, key: int, most: float = WALKED) -> Louder:
        """A run with so many times its noise, to be walked."""
        return Louder(
            self.declaration,
            self.scope,
            records,
            rng=generator(self.seed, (STREAM, key)),
            far=times,
            most=most,
            meter=self.meter,
        )

    # --- one trial, many trials -----------------------------------------------------------------

    def _trials(self) -> None:
        """Check that equal trials side by side ask for, and get, the same as a single one."""
        for number in (0, 5):
            if self.late():
                return
            world = self.worlds[number]
            sampled = self.sampled.get(number)
            transcript = sampled[0] if sampled else self._sampled(world.values, world.name)
            if not transcript:
                return
            alone = self._walked(world.records(), transcript, world.name)
            tiled, name = walks.tiled(transcript, 3), "the trial three times"
            many = self._walked(world.records(), tiled, name, Tiled)
            self.notes.count(TRIALS)
            if alone is None or many is None:
                return
            text = "the query of a run of one trial is not that of the same trial among others"
            for visit in walks.differing(alone[0].visits, many[0].visits):
                self.notes.wrong(TRIALS, f"release {visit.label!r}: {text}{at(visit.place)}")

    # --- what the program keeps -----------------------------------------------------------------

    def _keeps(self) -> None:
        """Check that no answer depends on the records that the program met before.

        Each data set is walked by a program that met nothing, and by one that met another.  Once,
        where nothing that it keeps differs after two data sets.
        """
        for finding in held_by(self.mechanism, self.data):
            self.notes.wrong(KEPT, finding.detail)
        self.notes.count(KEPT)
        if self.over() or 0 not in self.sampled:
            return
        alone, states = {}, list[dict[str, str]]()
        until, tried = self.meter.used + KEEPING * self.meter.limit, 0
        # Two data sets may leave the same, such as a largest number; zero ones and huge ones too.
        for number in sorted({0, 1, 3, 5} & set(range(len(self.worlds)))):
            if len(states) > 1 and (self.over() or self.meter.beyond(until)):
                break
            records = self.worlds[number].records()
            walked, state = self._after(None, records)
            if walked is None:
                return
            alone[number] = records, walked
            states.append(state)
        paths = dict.fromkeys(path for state in states for path in state)
        self.kept = [path for path in paths if len({state.get(path) for state in states}) > 1]
        for (records, walked), before in self._before(alone):
            if tried and (not self.kept or self.over() or self.meter.beyond(until)):
                break
            tried += 1
            again, _ = self._after(before, records)
            if again is not None and self._otherwise(walked, again):
                break
        self.notes.count(KEPT, tried)

    def _before(self, alone: Mapping[int, Any]) -> Iterator[tuple[Any, Records]]:
        """Data sets that were walked, each with one to meet before it: others, and neighbours."""
        size = self.shape.rows
        rows = [] if self.assumed else [r for r in self.rows.values() if np.isfinite(r).all()]
        others = [(number, world.records()) for number, world in enumerate(self.worlds)]
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            others += [
                (-1, Records(np.resize(self.worlds[0].values, (count, *self.shape.row))))
                for count in (1, size - 1, size + 1, 2 * size)
            ]
        for number, other in others:
            yield from ((each, other) for own, each in alone.items() if own != number)
        for row, (number, each) in itertools.product(rows, alone.items()):
            yield each, self.worlds[number].with_row(size - 1, row)

    def _after(
        self, before: Records | None, records: Records
    ) -> tuple[Walked | None, dict[str, str]]:
        """A walk of a program that met another data set before or none, and what it keeps then."""
        now, program = walks.shared(self.program), walks.own_copy(self.unused)
        transcript = self.sampled[0][0]
        walks.restore(self.shared)
        try:
            if before is not None:
                # A data set that it fails on may leave something, too.
                with contextlib.suppress(Exception), np.errstate(all="ignore"):
                    self._walker(program).walk(before, transcript)
            walked = self._walked(records, transcript, "other records", program=program)
            return walked, walks.state(program)
        finally:
            walks.restore(now)

    def _otherwise(self, alone: Walked, after: Walked) -> bool:
        """Whether the program says something else of a data set after it met another."""
        visits = walks.differing(alone[0].visits, after[0].visits)
        kept = ", ".join(self.kept[:SHOWN])
        by = f"what the program keeps changes with the records it met ({kept}): "
        said = "has another value for the same records"
        texts = [f"{by}release {v.label!r} {said}{at(v.place)}" for v in visits]
        for text in texts:
            self.notes.wrong(KEPT, text)
        return self._tell(KEPT, alone, after, by) or bool(texts)

    # --- the pair to attack -----------------------------------------------------------------------

    def _pair(self) -> None:
        """The pair whose whole runs gather most privacy loss, found by search.

        If the program has no likelihood or a run is long, it is the first candidate.
        """
        sampler = self.studied[0] if self.studied else None
        known, distinct = self.known, dict[tuple[str, ...], tuple[tuple[Records, Records], str]]()
        given = known is not None and shape_like(known.first).row == self.shape.row
        # Queries that one engine answers are moved most by the same data sets: each is tried once.
        for records, text in itertools.chain(
            [(known.pair, known.text)] if known is not None and given else (), self._candidates()
        ):
            distinct.setdefault(tuple(map(digest_of, records)), (records, text))
        candidates = [*distinct.values()]
        self.pair = self._searched(candidates)
        if self.pair is None and candidates:
            records, text = candidates[0]
            self.pair = Neighbours(*records, self.scope.adjacency, text)
        requests = [] if sampler is None else sampler.asked
        kinds = len(self.rows)
        for request in requests:
            numbers = request.records.values.size
            # A secret batch is drawn, and walked, record by record.
            numbers = BATCHED * len(request.records) if request.batched else numbers
            few = not request.batched and self.meter.looks_once(request.query, request.records)
            self.work += kinds * request.records.values[0].size if few else numbers

    def _searched(
        self, candidates: Sequence[tuple[tuple[Records, Records], str]]
    ) -> Neighbours | None:
        """The neighbouring data sets of the largest privacy loss, searched from the candidates."""
        seconds = self.meter.left
        if not candidates or FEWEST_RUNS * self.longest > seconds:
            return None
        wanted = Wanted.of(self.mechanism.claims)
        loss = Loss(
            self.program,
            self.declaration,
            self.scope,
            self.seed,
            wanted[0].aim.at if wanted else MU_DELTA,
            [row for row in self.rows.values() if np.isfinite(row).all() and row.any()],
            Meter(seconds, limit=WORK_OF_A_SEARCH),
            sized=self.sized,
            settled=all(moved.settled for moved in self.moved.values()),
        )
        points = [
            point
            for pair, text in candidates
            if (point := point_of(pair, loss.adjacency, text, loss.size)) is not None
        ]
        search_pair(loss, points, self.rows, self.worlds, alone=self.assumed)
        self.meter.timed = self.meter.timed or loss.meter.timed
        self.meter.sets += loss.meter.sets
        self.meter.rows += loss.meter.rows
        self.meter.mutations += loss.meter.mutations
        if loss.best is None:
            return None
        best_run, self.full = loss.best[2], loss.full
        if loss.size == 1:
            # How far queries that are no sums could move together is unknown.
            self.reach = 1.0 if best_run.promised is None else best_run.reach, loss.tried
        return loss.pair()

    def _candidates(self) -> Iterator[tuple[tuple[Records, Records], str]]:
        """Neighbouring data sets that moved queries most, for the search by losses."""
        # On secret batches of equal records every batch can be enumerated.
        for number in (1,) if self.batched else (1, 0):
            if number >= len(self.studied):
                continue
            sampler = self.studied[number]
            far_rows = _furthest(sampler, self.scope.adjacency)
            if far_rows is None or far_rows[1] == far_rows[2]:
                continue
            row, first_row, two = far_rows
            world = self.worlds[number]
            first, second = list(self.rows)[first_row], [*self.rows, ABSENT][two]
            rows = {name: self.rows[name] for name in (first, second) if name != ABSENT}
            pairing = neighbours_at(world.records(), row, rows, self.scope.adjacency)
            text = f"row {row} {first!r} against {second!r}, {world.name}"
            last = pairing.records[-1] if second == ABSENT else pairing.records[1]
            yield (pairing.records[0], last), text
        size, adds = self.shape.rows, self.scope.adjacency is Adjacency.ADD_REMOVE
        for moved in self.moved.values():
            pair = moved.pair
            # An attack reads the pair thousands of times: it is no larger than the made-up records.
            if pair is not None and len(pair[0]) > size:
                pair = None
            if pair is not None and adds:
                pair = extra_last(*pair)
            elif pair is not None and len(pair[0]) != size:
                pair = None
            # A query that keeps what it saw tells equal data sets apart, which are no pair.
            if pair is None or not (adds or differing(*pair) == 1):
                continue
            yield pair, moved.text
            # An exact likelihood adds up few batches: of records that are equal, or left out.
            for fill, others in ((np.nan, "gaps"), (0.0, "zero")) if self.batched else ():
                yield alone(*pair, fill), f"{moved.text}; all other records are {others}"

    # --- what is said of it ---------------------------------------------------------------------

    def examination(self, seconds: float) -> Examination:
        """Everything found, in a fixed order."""
        whole_runs = self.notes.problems.pop(MOVED, {})
        for moved in self.moved.values():
            where = at(moved.place)
            by = f"; computed by {moved.computed}" if moved.computed else ""
            for problem in moved.problems:
                self.notes.wrong(MOVED, f"release {moved.label!r}: {problem}{where}")
            if moved.factor > 1:
                self.notes.wrong(
                    MOVED,
                    f"release {moved.label!r} ({moved.kind}): {moved.text}, moves the query by "
                    f"{_times(moved.factor)} its stated sensitivity"
                    f"{moved.shown.rstrip()}{by}{where}",
                )
        for text in whole_runs:
            self.notes.wrong(MOVED, text)
        tried = sum(m.tried for m in self.moved.values())
        self.notes.count(MOVED, tried)
        untried = sum(s.untried for s in (*self.studied, *self.farther))
        short = [line for s in self.studied[:1] for line in unused_releases(s)]
        findings = [
            *self._found(ACCESS, "declared releases only"),
            *self._found(
                CONTROL,
                "the same on all of {tried} data sets"
                + (f"; {self.unfinished} runs took too long to end" if self.unfinished else ""),
            ),
            *self._found(
                MOVED,
                "no query moved by more than it states, on {tried} values"
                + (f"; {untried} releases were too slow to try" if untried else ""),
                BOUNDED,
            ),
            *self._found(APART, "a changed row moved no release on other rows, in {tried} runs"),
            *self._found(TRIALS, "one trial asks what it asks among others, in {tried} runs"),
            *self._found(KEPT, "no answer changes with the records that the program met before"),
            self.drawn,
            self._enforced(
                CLIPPED,
                "bounded by their own code",
                lambda m: m.bounded,
                "every query was bounded by the library's own code",
            ),
            self._enforced(
                GATHERED,
                "of whole rows",
                lambda m: m.bounded and not m.clips,
                "the engine of the library's tables answered every query",
            ),
            Finding(MADE, "held", 0.0, 0.0, "; ".join(short) or "every declared release was made"),
        ]
        # A run of which not one query could be tried shows nothing.
        return Examination(
            not_examined="" if tried else self._asked_nothing(),
            findings=tuple(findings),
            reached=self._reached(),
            shape=self.shape,
            pair=self.pair,
            work=self.work,
            walked=WALKED if any(len(t) >= WALKED for t, _ in self.sampled.values()) else 0,
            seconds=seconds,
            stopped=self.meter.timed,
            ran=self.lines.found,
            unmet=self._unmet(),
            kept=tuple(self.kept[:SHOWN]),
            warned=tuple(self.warned)[:SHOWN],
            reach=self.reach,
            full=self.full,
            tried=self._tried(),
        )

    def _unmet(self) -> tuple[Unmet, ...]:
        """Conditions that were true of no record; those of a release that says why are left out.

        Under add_remove also those that no number of records made true, or made false.
        """
        unmet = {site: site.text for site in self.watch.never}
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            for site in self.watch.out_of_reach:
                unmet[site] = f"not ({site.text})" if site.true != site.turned else site.text
        return tuple(
            Unmet(site.place, text, label)
            for site, text in unmet.items()
            for label in [*site.labels][:1]
            if label not in self.mechanism.reaches
        )

    def _tried(self) -> Tried:
        meter = self.meter
        return Tried(meter.sets, meter.rows, meter.mutations, meter.seconds)

    def _asked_nothing(self) -> str:
        """Why no query was asked: no run ended in time, or every run failed before."""
        failed = [text for text in self.notes.problems.get(CONTROL, {}) if text.startswith(FAIL)]
        if failed and not self.moved:
            return f"no query was asked before {failed[0]}"
        return self._too_long() if self.unfinished else ""

    def _too_long(self) -> str:
        """The message that no run ended in time, with what would help."""
        hook = self.mechanism.records_like
        makes = "a records_like hook that makes" if hook is None else "its records_like hook making"
        return (
            f"a run of the program takes longer than {self.meter.seconds:.3g} s on "
            f"{self.shape.rows:,} records of shape {self.shape.row}; what would help: {makes} "
            "fewer or shorter records, fewer rounds, or a faster query"
        )

    def _found(self, check: str, otherwise: str, assumption: str = NOISE) -> Iterator[Finding]:
        tried = self.notes.tried.get(check, 0)
        messages = list(self.notes.problems.get(check, {}))
        for message in messages[:8]:
            yield Finding(check, "broken", 1.0, 0.0, message, assumption, tried)
        if not messages:
            status: Any = "held" if tried else "not_run"
            text = otherwise.format(tried=tried) if tried else "nothing could be tried"
            yield Finding(check, status, 0.0, 0.0, text, assumption, tried)

    def _enforced(
        self, check: str, otherwise: str, by_library: Callable[[Moved], bool], held: str
    ) -> Finding:
        """Whether the library's own code did something with every query of every run."""
        own = sorted({m.kind for m in self.moved.values() if not by_library(m)})
        if own or not self.moved:
            text = f"{otherwise}: {', '.join(own)}" if own else "no query was asked"
            return Finding(check, "not_run", 0.0, 0.0, text, BOUNDED)
        tried = sum(len(s.asked) for s in (*self.studied, *self.farther))
        return Finding(check, "held", 0.0, 0.0, held, BOUNDED, tried)

    def _reached(self) -> tuple[Reached, ...]:
        shares: dict[str, float] = {}
        for sampler in (*self.studied, *self.farther):
            for label, share in sampler.shares.items():
                shares[label] = max(share, shares.get(label, 0.0))
        return tuple(
            Reached(
                m.label,
                m.place,
                m.kind,
                shares.get(m.label),
                min(max(m.factor, self.beyond.get(key, 0.0)), 1e300),
                m.tried,
                self.mechanism.reaches.get(m.label, ""),
                m.small,
            )
            for key, m in self.moved.items()
        )


def _furthest(sampler: Studied, adjacency: Adjacency) -> tuple[int, int, int] | None:
    """The row and the two kinds of rows by which the library's clipped means move most in a run."""
    best: tuple[float, tuple[int, int, int]] | None = None
    everywhere = sampler.movement.get(None)
    for part, (start, stop) in sampler.blocks.items():
        movement = sampler.movement.get(part)
        if movement is None:
            continue
        if part is not None and everywhere is not None:
            movement = movement + everywhere
        # The last is no row at all.
        shown = movement[:-1, :-1] if adjacency is Adjacency.REPLACE_ONE else movement[:-1, -1:]
        row_index, two = np.unravel_index(int(np.argmax(shown)), shown.shape)
        other = int(two) if adjacency is Adjacency.REPLACE_ONE else len(movement) - 1
        if best is None or shown[row_index, two] > best[0]:
            row = stop - 1 if adjacency is Adjacency.ADD_REMOVE else start
            best = float(shown[row_index, two]), (row, int(row_index), other)
    return None if best is None else best[1]


def shape_like(records: Records) -> Shape:
    """The shape of some records."""
    return Shape(len(records), records.values.shape[1:])


def read_by_others(data: Iterable[str], examination: Examination) -> tuple[Finding, ...]:
    """Files of the data that the program reads too, or a module while it is imported.

    ``data``: the files that the mechanism's ``records`` opened.
    """
    others = (("the program", examination.opened), ("a module at its import", at_import()))
    texts = [
        f"{PurePath(name).name}, which records() reads, is read by {who} as well"
        for name in sorted(set(data))
        for who, files in others
        if name in files
    ]
    return tuple(Finding(KEPT, "broken", 1.0, 0.0, text, NOISE, 1) for text in texts)


def _times(factor: float) -> str:
    return "infinitely often" if not np.isfinite(factor) else f"{factor:.7g} times"


def _failed(error: Exception, name: str) -> str:
    line = line_of_error(error)
    error_text = type(error).__name__
    if isinstance(error, DpauditError):
        error_text += f": {' '.join(str(error).split())[:160]}"
    return f"{FAIL} ({error_text}), {name}{at(line)}"

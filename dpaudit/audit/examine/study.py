"""A run that is studied: at every release the query is asked again, on records made for it."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpaudit.audit.examine.displacement import (
    UNSOUND,
    Asking,
    Displacement,
    Moved,
    Pairing,
    neighbours_at,
    try_rows,
)
from dpaudit.audit.examine.made import FEW, MEETS, NAMED, across
from dpaudit.audit.examine.meter import Meter
from dpaudit.audit.examine.noise import Release
from dpaudit.audit.examine.outcomes import Watch
from dpaudit.audit.examine.search import LENGTH, Point, Search, point_of, sets, shrunk
from dpaudit.audit.graybox.watch import Asked, Watched
from dpaudit.curator.curator import Request
from dpaudit.curator.entitlement import Mask
from dpaudit.curator.locations import at, own_functions
from dpaudit.curator.replayer import ROUNDING
from dpaudit.kernels.linear import LinearClippedMean
from dpaudit.kernels.query import BOUNDED, Array, ClippedMean, Query, Records, clip_rows
from dpaudit.scope import Adjacency

# The releases of one label and line that get the whole examination in one run; others the first
# of it.
WHOLE = frozenset({1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377})
NUMBERS = 4_000_000  # a query's own work in one whole examination, in numbers read
SEARCHED = 200  # evaluations of a query when its release is met
FEWEST_ROWS, KINDS = 12, 128
WHOLE_SETS = 0.6  # of the work that is left, for a search over whole data sets
# Rows of which a search plans numbers, beside those that meet the program's conditions.
COUNTED = ("all one", "all a million", "a unit row", "a thousand times a row labelled 1", "zero")
DRAWN = 0.3  # of the work that is left, for data sets of the hook
FEW_ROWS = 0.3  # of the work that is left, for few rows of numbers that the code names
# Numbers of tables, as entries of so many columns of a row, and of so many that meet conditions: so
# many at once, in a share of the work that is left.
ROW, COLUMNS, LEARNT, AT_ONCE, LISTED = "a random row labelled 1", 8, 3, 60, 0.2
POWERS = 10  # of ten, by which the entries of a row that meets a condition change
ALIKE = 12  # rows of the hook for a query that it is late for
BRIEFLY = 0.1  # of the work that is left, for the few rows of a query that it is late for
SELDOM = 3  # of releases of one line, those that are asked again once the work is done
# Releases of a run, of which walks on other records see no more, and the share of the work after
# which the run itself stops.
WALKED, LONG = 600, 0.4
KEPT = 8  # pairings at a time
PAIRS, CROWD = 4, 1_001
COMPARED = 20_000  # releases of a run
FURTHEST = 1e6  # times the noise of a run's first release, from where answers are ordinary again
CLEAR = 1e5  # times the noise: a number as large absorbs all of it with probability 2e-11
ADDED = frozenset(
    {"Gaussian", "Laplace", "CorrelatedGaussian", "DiscreteGaussian", "DiscreteLaplace"}
)
BEFORE = "the row before it, again"
SHOWN = 8  # entries of a row that is written down
STATE = "it draws random numbers, or keeps what it saw of others"  # why a query changes
UNDRAWN = (
    "a record in the batch moves the query, from what it is without that record, by more than half "
    "of its sensitivity, where the sample declares that a record that is not drawn adds zero"
)
SOME = slice(2, None, 3)  # of the rows made up, to be without the others


def clips_itself(query: Query) -> bool:
    """Whether the library's own code clips every row of a query, with nothing overridden."""
    return type(query) in (ClippedMean, LinearClippedMean)


def bounded_by_library(query: Query) -> bool:
    """Whether the library's own code bounds a query, whatever the program is."""
    kind = type(query)
    return clips_itself(query) or (kind in BOUNDED and str(kind.__module__).startswith("dpaudit."))


def wholes(asked: Sequence[Asked]) -> int:
    """How many releases of a run get the whole examination; 1 at least."""
    counts = Counter((request.label, request.place) for request in asked)
    return max(1, sum(sum(number <= count for number in WHOLE) for count in counts.values()))


def asking_of(
    asked: Asked,
    adjacency: Adjacency,
    meter: Meter,
    *,
    far: bool = False,
    watch: Watch | None = None,
) -> Asking:
    """A release as it was asked for, to be asked again; ``far``: after answers far away."""
    return Asking(
        label=asked.label,
        place=asked.place,
        query=asked.query,
        session=asked.session,
        sensitivity=asked.sensitivity,
        on=asked.on,
        adjacency=adjacency,
        batched=asked.batched,
        members=asked.members,
        far=far,
        meter=meter,
        # A query that the library bounds may depend on any condition.
        watch=None if bounded_by_library(asked.query) else watch,
    )


class Enough(BaseException):
    """A run was seen for as long as it has to be; no program's own handlers are to stop it."""


class Louder(Watched):
    """A sampler whose added noise is ``far`` times what is declared, for ``most`` releases.

    Any answer has some probability: what holds of a program holds along such a transcript too.
    Noise that grows with what was released before would leave what floats can tell apart, so that
    answers beyond ``FURTHEST`` times the first release's noise have ordinary noise.
    ``meter``: of all time, if any counts it.
    Errors: Enough, after ``most`` releases; TooLong, where no time at all is left.
    """

    def __init__(
        self,
        *arguments: Any,
        far: float = 1.0,
        most: float = math.inf,
        meter: Meter | None = None,
        **options: Any,
    ) -> None:
        self.far = far
        self.most = most
        self.meter = Meter(math.inf) if meter is None else meter
        self._furthest = 0.0
        super().__init__(*arguments, **options)

    def _value(
        self, request: Request, chosen: Mask | None = None, records: Records | None = None
    ) -> Array:
        self.meter.end()
        return super()._value(request, chosen, records)

    def _answer(self, request: Request) -> Array:
        if len(self.asked) >= self.most:
            raise Enough
        released = super()._answer(request)
        leaf = self._entitled(request.label).runs[0].leaf
        if self.far == 1 or not leaf.is_shipped or type(leaf).__name__ not in ADDED:
            return released
        on = request.mask
        self._furthest = self._furthest or FURTHEST * float(np.max(request.scale, initial=0.0))
        with np.errstate(all="ignore"):
            centre = self._session_of(request.label).centre(self._latest)
            answer = np.where(on[:, None], centre + self.far * (released - centre), np.nan)
        if not (np.abs(answer[on]) <= self._furthest).all():
            return released
        answer.flags.writeable = False
        self.transcript[-1] = replace(self.transcript[-1], released=answer)
        return answer


class Studied(Louder):
    """A sampler that examines every query it is asked, and keeps what it found, by label and line.

    ``rows``: what one record becomes; ``until``: how much of the meter's work to do, ``spread``:
    over so many releases that get the whole examination, each with its share and what is left.
    ``far``: by how much its noise is larger than declared: any answer has some probability, and a
    clip that ordinary ones never reach is reached by others; what such a run was refused for, or
    what overflows in it, is no finding.
    ``first``: whether to stop at the first finding; a run of ``WALKED`` releases or more stops
    after a share ``LONG`` of all work, too.
    ``assumed``: whether only the row that is changed may be anything; ``eventful``: whether all
    answers have to be likely ones, as of other records they may not be.
    ``draw``: a data set of the mechanism's hook, another each time, of a generator if one is given.
    ``unfinished``: searches over whole data sets that the work cut short, to go on with for so much
    work.  ``aside``: seconds of a processor that a run alone would not take.
    ``movement``: squared distance of a clipped mean's pairs of rows over the noise scale, added
    over releases, per part.
    """

    def __init__(
        self,
        *arguments: Any,
        rows: Mapping[str, Array],
        found: dict[tuple[str, str], Moved],
        seed: int,
        until: float,
        spread: int = 1,
        world: str,
        assumed: bool = False,
        eventful: bool = False,
        first: bool = False,
        draw: Callable[..., Records] | None = None,
        watch: Watch | None = None,
        listed: Sequence[tuple[float, ...]] = (),
        **options: Any,
    ) -> None:
        self.first = first
        self.listed = listed
        self.watch = watch
        self.draw = draw
        self.made = rows
        self.moved = found
        self.until = until
        self._until, self._spread, self._wholes = until, spread, 0
        self.world = world
        self.assumed = assumed
        self.eventful = eventful
        self.untried = 0
        self.unfinished = list[Callable[[float], bool]]()
        self.aside = 0.0
        self.movement: dict[int | None, Array] = {}
        self.blocks: dict[int | None, tuple[int, int]] = {}
        self.shares: dict[str, float] = {}
        self.releases: dict[str, list[Release]] = {}
        self._choice, self._seed = np.random.default_rng(seed), seed
        self._seen: dict[tuple[str, str], int] = {}
        self._asked_rows: Any = None
        self._exact = True  # whether noise is added to values as the query gives them
        self._pairings: dict[tuple[int | None, int, int], Pairing] = {}
        self._random: dict[int | None, int] = {}
        super().__init__(*arguments, **options)
        self._begun = self.meter.used
        self._given = self._rng

    def release(self, label: str, query: Query, **options: Any) -> Array:
        rows = options.get("rows")
        self._asked_rows = getattr(rows, "part", rows)
        return super().release(label, query, **options)

    def _answer(self, request: Request) -> Array:
        """Answer a release, and study its query at the first few times that its line asks."""
        released = super()._answer(request)
        request_noted, before = self.asked[-1], self._latest
        if self.far == 1:
            self._fresh(request, before, released)
        key = (request_noted.label, request_noted.place)
        kind = type(request_noted.query).__name__
        # Rounding can take a vector further than any clip has let it go, unless it is whole.
        clips, is_bounded = (ask(request_noted.query) for ask in (clips_itself, bounded_by_library))
        whole = before.shape[-1] == 1 or (is_bounded and not clips)
        self._exact = not request_noted.session.rounds or whole
        own, is_bounded = self._exact and clips, self._exact and is_bounded
        by = " and ".join(own_functions(request_noted.query))
        new = Moved(request_noted.label, request_noted.place, kind, by, own, bounded=is_bounded)
        moved = self.moved.setdefault(key, new)
        moved.clips = moved.clips and new.clips
        moved.bounded = moved.bounded and new.bounded
        number = self._seen[key] = self._seen.get(key, 0) + 1
        block = self._asked_rows
        part = None if block is None else block.index
        self.blocks[part] = (0, len(self._records)) if block is None else (block.start, block.stop)
        asking = asking_of(
            request_noted, self.scope.adjacency, self.meter, far=self.far != 1, watch=self.watch
        )
        asking = replace(asking, unlikely=asking.far and self.eventful)
        self._note(request, before)
        if number in WHOLE:
            self._wholes += 1
            share = min(1.0, self._wholes / self._spread)
            self.until = self._begun + share * (self._until - self._begun)
        pair_before, began = moved.pair, time.process_time()
        try:
            self._study(asking, moved, request, number, part)
            if moved.pair is not None and moved.pair is not pair_before and block is not None:
                moved.pair = self._whole(moved.pair, block.start, block.stop)
            if number in WHOLE or number % SELDOM == 0 or not self.meter.beyond(self.until):
                self._again(asking, moved, request, before)
            if asking.batched and number in WHOLE:
                self._without(asking, moved, request)
        except Exception as error:  # noqa: BLE001  (whatever a record provokes is the finding)
            if self.far != 1:
                return released
            moved.problems[f"made-up records make the query fail ({type(error).__name__})"] = None
        finally:
            self.aside += time.process_time() - began
        self._shrink(asking, moved, request.records)
        if self.first and (moved.factor > 1 or moved.problems):
            raise Enough
        if len(self.asked) >= WALKED and self.meter.after(LONG):
            raise Enough
        return released

    def _value(
        self, request: Request, chosen: Mask | None = None, records: Records | None = None
    ) -> Array:
        on = records or request.records
        self.meter.add(request.query, on)
        return self.meter.made(request.query, on, super()._value(request, chosen, records))

    def _fresh(self, request: Request, value: Array, released: Array) -> None:
        """Noise comes from the generator that the run was given, is there, and comes once.

        Floats at 1e5 times the scale are 1.5e-11 scales apart, and a density is at most 1 / scale:
        one of 20,000 rounds rounds to its value with probability below 1e-6.
        """
        where = f"release {request.label!r}"
        if self._rng is not self._given:
            text = "its noise is not drawn from the generator that the curator was given"
            self.touched[f"{where}: {text}{at(self._place)}"] = None
        kernel = self._entitled(request.label).kernel
        small = float(request.scale[0]) * CLEAR > np.abs(value[0]).max(initial=0.0)
        if not kernel.continuous or not small or not request.mask[0]:
            return
        noise = self.residuals[request.label][-1][0]
        if noise.size and not noise.any():
            self.touched[f"{where}: one of its rounds has no noise{at(self._place)}"] = None

    def repeated(self) -> None:
        """Noise that comes twice in a run, as from one seed: four numbers in a row, to a millionth.

        A false alarm has probability below 1e-11: at most ``COMPARED`` vectors, (4e-6)^4 a pair.
        """
        digests: set[bytes] = set()
        for label, uses in self.residuals.items():
            series = np.concatenate([noise[0] for noise in uses[:COMPARED]])
            starts = np.cumsum([0, *(noise.shape[1] for noise in uses[: COMPARED - 1])])
            if not self._entitled(label).kernel.continuous:
                continue
            for start in starts:
                window = series[start : start + 4]
                if len(window) == 4 and np.isfinite(window).all() and window.any():
                    digest = np.round(window, 5).tobytes()
                    if digest in digests:
                        self.touched[f"release {label!r}: noise of an earlier release again"] = None
                    digests.add(digest)

    def _note(self, request: Request, value: Array) -> None:
        """The released values, for their noise to be drawn alone."""
        entitlement = self._entitled(request.label)
        leaf = getattr(request.session, "leaf", entitlement.runs[0].leaf)
        self.releases.setdefault(request.label, []).append(
            Release(leaf, entitlement.kernel, value[0], float(request.scale[0]), self._place)
        )

    def _whole(
        self, pair: tuple[Records, Records], start: int, stop: int
    ) -> tuple[Records, Records]:
        """Data sets that are a pair in these rows, and the run's own records in all others."""
        records_made = []
        for part in pair:
            values, present = self._records.values.copy(), self._records.present.copy()
            values[start:stop], present[start:stop] = part.values, part.present
            records_made.append(Records(values, present))
        return records_made[0], records_made[1]

    def _study(
        self, asking: Asking, moved: Moved, request: Request, number: int, part: int | None
    ) -> None:
        """Try a query on other records: rows, whole data sets, and a search, as time allows."""
        if self._exact and clips_itself(asking.query):
            self._clipped(asking, moved, request, number, part)
            return
        check = getattr(asking.query, "mixes_records", None)
        if check is not None and number in WHOLE and self._mixes(asking.query):
            moved.problems[self._why_mixed(asking.query)] = None
        world = request.records.values
        # Kinds of rows make a search cheaper than its numbers say: one a line, however late it is.
        same_line = [other for other in self.moved.values() if other.place == moved.place]
        kinds = request.records.knows_kinds and not any(other.tried for other in same_line)
        # Before rows are tried, which can take all the time that there is.
        least = self._row(asking, world, part)
        self._met(asking, moved, request.records, part, least[0])
        self._whole_sets(asking, moved, request.records, least[0])
        seconds_left = self.meter.limit - self.meter.used
        if self.meter.beyond(self.until):
            self.untried += 1
            if number == 1:
                # However late it is, a query is tried in each world, on the least.
                self._few(asking, moved, request.records, part, least[0], seconds_left)
            if kinds:
                self._search(asking, moved, world, least[0], [], (KINDS, math.inf))
            return
        if number not in WHOLE:
            self._one_pairing(asking, moved, request, part, least[number % len(least)], number)
            return
        if moved.settled:
            self._few(asking, moved, request.records, part, least[0], seconds_left)
            return
        allowed = max(FEWEST_ROWS, NUMBERS // world.size)
        rows = dict(list({**across(world), **self.made}.items())[:allowed])
        best = ("", "")
        for k, row in enumerate(least):
            kinds_tried = rows if k == 0 else dict(list(rows.items())[:FEW])
            kinds_tried = {BEFORE: world[row - 1], **kinds_tried}
            pairing = self._pairing(request.records, part, row, kinds_tried)
            pair_of_rows = try_rows(asking, moved, pairing, self.world, self.until)
            best = pair_of_rows if k == 0 else best
            if self.meter.beyond(self.until):
                break
        rows[BEFORE] = world[least[0] - 1]
        starts = [(rows[a], rows.get(b, rows[a])) for a, b in [best] if a in rows]
        bounded = self._exact and bounded_by_library(asking.query)
        most = SEARCHED // 10 if bounded else SEARCHED
        budget = min(most, allowed if number <= 2 else allowed // 2)
        budget = max(budget, KINDS) if kinds else budget
        self._search(asking, moved, world, least[0], starts, (budget, self.until))

    def _one_pairing(
        self,
        asking: Asking,
        moved: Moved,
        request: Request,
        part: int | None,
        row: int,
        number: int,
    ) -> None:
        """A few kinds in one row, unless a run has too many such releases for that."""
        names = [*list(self.made)[:2], *list(self.made)[5:FEW]]
        few = {name: self.made[name] for name in names}
        if (len(few) + 1) * request.records.values.size * number < 40 * NUMBERS:
            pairing = self._pairing(request.records, part, row, few)
            try_rows(asking, moved, pairing, self.world)
        else:
            self.untried += 1

    def _met(
        self, asking: Asking, moved: Moved, records: Records, part: int | None, row: int
    ) -> None:
        """Rows that meet the program's conditions, and a few others, before all else.

        Then numbers of the tables that it reaches, as entries of these rows.
        """
        if moved.tried:
            return
        met = {name: made for name, made in self.made.items() if MEETS in name}
        few = dict(list(self.made.items())[:FEW])
        if met:
            pairing = self._pairing(records, part, row, {**few, **met})
            try_rows(asking, moved, pairing, self.world, self.until)
        until = self.meter.used + LISTED * (self.until - self.meter.used)
        bases = {ROW: self.made[ROW], **dict(list(met.items())[:LEARNT])}
        for name, base in bases.items() if asking.watch is not None else ():
            entries = [*self._entries(base, far=name != ROW)]
            for begin in range(0, len(entries), AT_ONCE):
                if moved.factor > 1 or self.meter.beyond(until):
                    return
                rows = {name: base}
                for columns, numbers in entries[begin : begin + AT_ONCE]:
                    text = ", ".join(f"{number:.9g}" for number in numbers)
                    entry = f"{text} in column {', '.join(map(str, columns))} of {name}"
                    rows[entry] = np.array(base, dtype=np.float64)
                    rows[entry].reshape(-1)[[*columns]] = numbers
                pairing = neighbours_at(records, row, rows, self.scope.adjacency)
                try_rows(asking, moved, pairing, self.world, until)

    def _entries(
        self, base: Array, *, far: bool
    ) -> Iterator[tuple[tuple[int, ...], tuple[float, ...]]]:
        """Columns and numbers to try in them: of tables; ``far``: and some that are far off."""
        every = range(min(base.size, COLUMNS))
        for column, power in itertools.product(every, range(POWERS) if far else ()):
            for sign in (1, -1):
                yield (column,), (float(base.flat[column]) + sign * 10.0**power,)
        for length in sorted({len(key) for key in self.listed}):
            keys = [key for key in self.listed if len(key) == length]
            yield from itertools.product(itertools.permutations(every, length), keys)

    def _shrink(self, asking: Asking, moved: Moved, records: Records) -> None:
        """Make a pair that moves a query too far small, once, and write down its rows."""
        if (
            not moved.factor > 1
            or moved.pair is None
            or moved.shown
            or asking.batched
            or self.first
        ):
            return
        moved.shown = " "
        apart = Displacement(asking, Moved("", "", ""), records.values, math.inf)
        point = point_of(moved.pair, self.scope.adjacency, "")
        most = moved.factor if point is None else min(moved.factor, apart(point))
        if point is None or not most > 1:
            return
        point = shrunk(point, apart, 1 + (most - 1) / 2)
        moved.small = *sets(point, self.scope.adjacency, Records(point.others)), apart(point)
        if point.one.size <= SHOWN:
            present = np.ones(len(point.others), bool) if point.there is None else point.there
            others = point.others[present & (np.arange(len(present)) != point.place)]
            other = int(others.reshape(len(others), -1).any(axis=1).sum())
            two = [point.two] if self.scope.adjacency is Adjacency.REPLACE_ONE else []
            rows_text = " against ".join(
                np.array2string(row, precision=6) for row in (point.one, *two)
            )
            moved.shown = (
                f"; so does, by {apart(point):.4g} times, {' '.join(rows_text.split())} among "
                f"{len(others)} others of which {other} are not zero"
            )

    def _few(
        self,
        asking: Asking,
        moved: Moved,
        records: Records,
        part: int | None,
        row: int,
        left: float,
    ) -> None:
        """Rows of the hook, then the first kinds, in two rows, in a share of the work left.

        A query may answer on few rows but the hook's, such as those that meet its conditions.
        """
        few = dict(list({**across(records.values), **self.made}.items())[:FEW])
        if self.draw is not None:
            alike = enumerate(self.draw().values[:ALIKE])
            few = {**{f"row {number} of the hook": row for number, row in alike}, **few}
        for place in dict.fromkeys((row, 0)):
            pairing = self._pairing(records, part, place, few)
            try_rows(asking, moved, pairing, self.world, self.until + BRIEFLY * left)

    def _search(
        self,
        asking: Asking,
        moved: Moved,
        world: Array,
        row: int,
        starts: Sequence[tuple[Array, Array]],
        most: tuple[int, float],
    ) -> None:
        """Rows that move it further than those that were made up, unless these do already."""
        if moved.factor <= 1:
            search = self._search_for(Displacement(asking, moved, world, most[1]))
            search.run(self._points(world, row, starts), most[0])

    def _search_for(self, objective: Displacement) -> Search:
        alone = self.assumed or self.eventful or bool(objective.asking.members)
        return Search(objective, objective.world, self.made, self._choice, alone)

    def _points(
        self, world: Array, row: int, starts: Sequence[tuple[Array, Array]] = ()
    ) -> list[Point]:
        """Pairs of rows that a search starts with: opposite ones, and long ones of signs."""
        rows = list(self.made.values())
        signs = (np.where(row.reshape(-1, row.shape[-1])[0] < 0, -1.0, 1.0) for row in rows[3:4])
        long = [LENGTH * np.broadcast_to(sign, world.shape[1:]) for sign in signs]
        pairs = [*starts, *((row, -row) for row in (*rows[3:5], *long))]
        return [Point(world, *pair, row, f"row {row}, two rows") for pair in pairs]

    def _whole_sets(self, asking: Asking, moved: Moved, records: Records, row: int) -> None:
        """A search over whole data sets, once a line, those that the hook draws first."""
        if moved.searched or asking.members or self.far != 1 or self.assumed or self.eventful:
            return
        moved.searched = True
        objective = Displacement(asking, moved, records.values, self.until)
        search = self._search_for(objective)
        drawn: Iterator[Point] = iter(())
        if self.draw is not None and not asking.batched:
            block = self._asked_rows
            rows = slice(None) if block is None else slice(block.start, block.stop)
            # One engine answers all queries of its kind, of a table at once: it is asked of few.
            rng = np.random.default_rng(self._seed) if moved.bounded else None
            drawn = search.drawn(partial(self.draw, rng), rows)
        finite = {name: row for name, row in self.made.items() if np.isfinite(row).all()}
        met = {name: row for name, row in finite.items() if MEETS in name}
        told = [name for name in finite if MEETS in name or name.startswith(NAMED)]
        # Sums of the rows with the largest and the smallest entry are the first to overflow.
        ends = [
            *sorted(told, key=lambda n: finite[n].max())[-1:],
            *sorted(told, key=lambda n: finite[n].min())[:1],
        ]
        kinds = {name: finite[name] for name in (*COUNTED, *ends) if name in finite}
        starts, plans = self._points(records.values, row), search.plans(kinds, met)
        parts: tuple[tuple[float, Callable[[], None]], ...] = (
            (DRAWN, partial(search.try_all, drawn)),
            (FEW_ROWS, partial(search.try_all, search.few_rows())),
            (WHOLE_SETS, partial(search.run, starts, math.inf, plans)),
        )

        def go_on(work: float) -> bool:
            """Each part, or what is left of it, in its share of so much work; whether some is."""
            cut = False
            for share, part in parts:
                objective.until = self.meter.used + share * work
                part()
                cut = cut or objective.over()
            return cut and not objective.done

        def later(work: float) -> bool:
            cut = go_on(work)
            self._shrink(asking, moved, records)
            return cut

        if go_on(self.until - self.meter.used) and not moved.bounded:
            self.unfinished.append(later)

    def _pairing(
        self, world: Records, part: int | None, row: int, rows: Mapping[str, Array]
    ) -> Pairing:
        """Made once for all releases on the same rows."""
        key = (part, row, len(rows))
        if key not in self._pairings:
            if len(self._pairings) >= KEPT:
                self._pairings.pop(next(iter(self._pairings)))
            self._pairings[key] = neighbours_at(world, row, rows, self.scope.adjacency)
        return self._pairings[key]

    def _row(self, asking: Asking, world: Array, part: int | None) -> list[int]:
        """A random row, the first, the last, and the one of the greatest weight."""
        size = len(world)
        if part not in self._random:
            self._random[part] = int(self._choice.integers(size))
        rows = [self._random[part], 0, size - 1]
        if isinstance(asking.query, ClippedMean):
            rows.insert(0, int(np.argmax(np.abs(asking.query.public_weights(size)))))
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            rows.insert(0, size - 1)
        return list(dict.fromkeys(rows))

    def _mixes(self, query: Any, *, many: bool = False) -> bool:
        """Whether a row's vector depends on those beside it: like, huge or broken ones.

        ``many``: or a thousand of them, as what is done from some number of records on shows.
        """
        pools = (*self._pools, self._crowd) if many else self._pools
        return any(bool(query.mixes_records(rows)) for rows in pools)

    def _why_mixed(self, query: Any) -> str:
        with np.errstate(all="ignore"):
            first, again = (np.asarray(query.per_record(self._pool)) for _ in range(2))
        if np.array_equal(first, again, equal_nan=True):
            return "a record changes another record's vector"
        return f"asked again for the same records, its function gives other vectors: {STATE}"

    @cached_property
    def _pool(self) -> Array:
        return np.stack(list(self.made.values()))

    @cached_property
    def _pools(self) -> tuple[Records, ...]:
        """All rows, those that are numbers, and small ones."""
        pool = self._pool
        size = (
            np.nan_to_num(np.abs(pool), nan=np.inf, posinf=np.inf)
            .reshape(len(pool), -1)
            .max(axis=1)
        )
        # Each of a few records decides more: a choice by a sum or a vote changes without one.
        rng = np.random.default_rng(len(pool))
        few = rng.choice([-1.0, 1.0], (PAIRS, 3, *pool.shape[1:]))
        small = (Records(rows) for rows in few)
        pools = Records(pool), Records(pool[np.isfinite(size)]), Records(pool[size < 10])
        return (*pools, *small)

    @cached_property
    def _crowd(self) -> Records:
        """Random rows, no two of them equal."""
        rng = np.random.default_rng(CROWD)
        return Records(rng.standard_normal((CROWD, *self._pool.shape[1:])))

    def _clipped(
        self, asking: Asking, moved: Moved, request: Request, number: int, part: int | None
    ) -> None:
        """The library's own clip: whether rows mix, how long its vectors get, how far they move."""
        query: Any = asking.query
        pool = self._pool
        moved.tried += len(pool)
        with np.errstate(all="ignore"):
            raw = np.asarray(query.per_record(pool), dtype=np.float64)
            vectors = clip_rows(raw, query.radius, query.norm)[0]
            plain = np.where(np.isfinite(raw).all(-1, keepdims=True), raw, 0.0)[0]
        many = number == 1 and not moved.crowded and self._pool[0].size <= NUMBERS // CROWD
        moved.crowded = moved.crowded or many
        mixes = self._mixes(query, many=many) if number in WHOLE else self._differs(query, vectors)
        if mixes:
            moved.problems[self._why_mixed(query)] = None
        radius = float(np.atleast_1d(query.radius)[0])
        norm = 1 if query.norm == "l1" else 2
        if radius > 0:
            longest = float(np.linalg.norm(plain, ord=norm, axis=-1).max(initial=0.0)) / radius
            self.shares[asking.label] = max(self.shares.get(asking.label, 0.0), min(longest, 1.0))
        weight = float(np.abs(query.public_weights(len(request.records))).max())
        extended = np.concatenate([vectors, np.zeros((1, vectors.shape[1]))])
        distance = weight * np.linalg.norm(extended[:, None] - extended[None], ord=norm, axis=-1)
        stated = float(asking.sensitivity[0])
        if stated > 0:
            reached = float(np.max(self._pairs(distance))) / stated
            moved.add(min(reached, 1.0), "")
            share = np.square(distance / float(request.scale[0]))
            self.movement[part] = self.movement.get(part, 0.0) + share

    def _differs(self, query: Any, vectors: Array) -> bool:
        """Whether some rows get other vectors without the others: the short form of mixing."""
        with np.errstate(all="ignore"):
            few = clip_rows(
                np.asarray(query.per_record(self._pool[SOME]), dtype=np.float64),
                query.radius,
                query.norm,
            )[0]
        allowed = 1e-6 * float(np.nan_to_num(query.radius, posinf=0.0).max(initial=0.0))
        return not np.allclose(vectors[SOME], few, rtol=1e-6, atol=allowed, equal_nan=True)

    def _pairs(self, distance: Array) -> Array:
        """Rows that may stand for one another under the adjacency; the last is none at all."""
        if self.scope.adjacency is Adjacency.REPLACE_ONE:
            return distance[:-1, :-1]
        return distance[-1:]

    def _again(self, asking: Asking, moved: Moved, request: Request, before: Array) -> None:
        """A query is a function of records: asked again, it gives what it gave."""
        if self.far == 1 and asking.alone(before):
            moved.problems[UNSOUND] = None
        again = self._value(request, request.first_draw)
        on = request.mask
        with np.errstate(all="ignore"):
            distance = asking.session.apart(before, again, request.sensitivity)
            size = np.abs(before).max(-1, initial=0.0)
            same = distance <= 1e-6 * request.sensitivity + ROUNDING * size
            same |= (np.isnan(before) == np.isnan(again)).all(-1) & np.isnan(before).any(-1)
            same |= (before == again).all(-1)
        if not bool(same[on].all()):
            moved.problems[
                f"asked again on the same records, the query gives another value: {STATE}"
            ] = None

    def _without(self, asking: Asking, moved: Moved, request: Request) -> None:
        """In a sample of neutral records, one in the batch or none moves half a sensitivity.

        The record is each of some rows in turn, on the batch that was drawn and on all rows.
        """
        sampling = getattr(self._open, "sampling", None)
        if (
            getattr(sampling, "undrawn", None) is None
            or self.scope.adjacency is not Adjacency.REPLACE_ONE
        ):
            return
        drawn, row = request.first_draw, len(request.records) - 1
        for values in list(self.made.values())[:FEW]:
            records = request.records.with_row(row, values)
            for batch in (drawn, np.ones_like(drawn)):
                with_it, without = (np.array(batch, dtype=bool) for _ in range(2))
                with_it[:, row], without[:, row] = True, False
                with_row, absent = (
                    self._value(request, each, records) for each in (with_it, without)
                )
                with np.errstate(all="ignore"):
                    distance = asking.session.apart(with_row, absent, request.sensitivity)
                    size = np.abs(with_row).max(-1, initial=0.0)
                    allowed = request.sensitivity * (0.5 + 1e-6) + ROUNDING * size
                if bool((distance > allowed)[request.mask].any()):
                    moved.problems[UNDRAWN] = None
                    return

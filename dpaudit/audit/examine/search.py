"""Neighbouring data sets that make an objective large, found by search.

A data set is a value: it is made of blocks of rows, and mutated by row, column and entry.  There
are two objectives: the displacement of one query over its sensitivity (``displacement.py``), and
the privacy loss of a whole run (``losses.py``).  The best data sets so far are kept, and steps go
on from them; nothing need have a derivative.  No small step leads to a fault that needs a certain
number of rows (a small cell that is hidden, a whole number that wraps, a divisor that leaves its
floor), so numbers of rows are planned, each once for every kind of row.
Source: Rechenberg 1973, steps whose size follows their success; Zalewski 2014, "american fuzzy lop"
(a corpus, mutations one after another, interesting values).  The mutations are ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency

STALE = 400  # steps that find nothing, after which a search ends
# Data sets of the hook, and rows of each, at random where it has more; a bug that one set in 30
# shows is missed one time in 20.
DRAWN_SETS, DRAWN_ROWS = 100, 64
FOLDS = (0, 1, 0, 2, 0, 4, 1, 8)  # values that a column of them is folded onto, in turn; 0: none
KEPT = 8  # data sets that steps go on from, beside those that a search starts with
PLANNED = 0.4  # the share of steps that are planned ones, while there are any
FROM_BEST = 0.7  # the share of steps from the best data sets
SWEEP = 64  # signs that are turned one after another
SEVERAL = 0.1  # the share of steps of two kinds at once
LENGTH = 1e3  # of every entry of a row whose signs are chosen
LARGEST = 1e9  # an entry, beyond which rounding hides what moves
NUMBERS = 400_000  # of a data set with more rows than there were
RUNGS, UNITS, COLUMNS = 33, 6, 6  # rows at equal distances; distances and columns that are tried
GROUPS, MEMBERS = (
    10,
    6,
)  # of rows at equal distances: more than are chosen at once, and rows of each
FIRST, COUNTED, DOUBLED = (
    9,
    48,
    17,
)  # numbers of rows one by one, and powers of two, at whose ends one wraps
RATIO, POWERS = 1.5, 18  # numbers of rows against which one turns
MANY, COUNTABLE = (64, 512), 4_096  # those among as many as code names; the largest of these
SHRINKING = 200  # smaller data sets that are tried of a pair that is shown
EACH, RARE, MOST_KINDS = 64, 4, 16  # rows of each other kind, where one of the first is rare


@dataclass(frozen=True, eq=False)
class Point:
    """Two neighbouring data sets: ``one`` or ``two`` at ``place`` among ``others``.

    ``two`` stands there under replace_one only; elsewhere no record does.  ``there``: which others
    are present, under zero_out; None for all.  ``text``: how it was made.  ``swapped``: whether a
    run is on the second of the two.
    """

    others: Array
    one: Array
    two: Array
    place: int
    text: str
    there: NDArray[np.bool_] | None = None
    swapped: bool = False


class Objective(Protocol):
    """The function that a search maximises: a number for each point, below 0 where it has none.

    ``over``: whether nothing is left to find, or no work to find it with.  ``lead``: a point that
    looks better than the best by what is known already, if any.
    """

    @property
    def adjacency(self) -> Adjacency: ...

    def __call__(self, point: Point) -> float: ...

    def over(self) -> bool: ...

    def lead(self) -> Point | None: ...


@dataclass(eq=False)
class Search:
    """A search from one world of others.

    ``pool``: rows by name; those with other numbers than finite ones are gaps.  ``alone``: whether
    all others stay as they are.  ``patience``: steps that find nothing, after which it ends.
    ``sweep``: signs that are turned one after another.  ``planned``: the share of planned steps.
    """

    objective: Objective
    world: Array
    pool: Mapping[str, Array]
    rng: np.random.Generator
    alone: bool = False
    patience: int = STALE
    sweep: int = SWEEP
    planned: float = PLANNED
    size: float = 1.0
    corpus: list[tuple[float, Point]] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        self.replaced = self.objective.adjacency is Adjacency.REPLACE_ONE
        self.more = self.objective.adjacency is Adjacency.ADD_REMOVE
        self.rows = [row for row in self.pool.values() if np.isfinite(row).all()]
        # Numbers that code names are met by rows of them; those that are whole may be of records.
        self.filled = {abs(float(r.flat[0])): np.abs(r) for r in self.rows if np.ptp(r) == 0}
        counts = [int(n) for n in sorted(self.filled) if 1 < n < COUNTABLE and n == int(n)][:UNITS]
        self.named = [count for n in counts for count in (n - 1, n, n + 1)]
        self.sweep = min(2 * self.world.shape[-1], self.sweep)
        self._turn = itertools.count()
        of_rows = [
            self._noise, self._scale, self._opposite, self._flip, self._even, self._entry,
            self._row,
            self._crossed, self._anew,
        ]  # fmt: skip
        of_others = [
            self._number, self._block, self._groups, self._gaps, self._scaled, self._order,
            self._columns, self._rounded, self._elsewhere, self._joined,
        ]  # fmt: skip
        self._kinds: list[Callable[[Point], Point]] = [*of_rows, *([] if self.alone else of_others)]
        self._better, self._tried = np.ones(len(self._kinds)), np.full(len(self._kinds), 4.0)

    # --- the search -------------------------------------------------------------------------------

    def run(self, starts: Sequence[Point], steps: float, plans: Iterable[Point] = ()) -> None:
        """Try the starts and plans, and so many steps, until ``patience`` of them found nothing."""
        for point in starts:
            if self.corpus and self.objective.over():
                break
            self.corpus.append((self.objective(point), point))
        stale, plans_left = 0, iter(plans)
        while self.steps < steps and not self.objective.over():
            lead = self.objective.lead()
            planned = self.rng.random() < self.planned or stale >= self.patience
            if lead is None and planned:
                lead = next(plans_left, None)
            if lead is not None:
                self.steps += 1
                stale = 0 if self._add(lead) else stale
                continue
            if stale >= self.patience:
                return
            parent = self._best if self.rng.random() < FROM_BEST else self._any
            # Kinds of steps that found better pairs are tried more often.
            share = (self._better / self._tried) ** 2
            kind = int(self.rng.choice(len(self._kinds), p=share / share.sum()))
            for _ in range(self.sweep if self._kinds[kind] == self._flip else 1):
                better = self._step(parent, kind)
                stale = 0 if better else stale + 1

    @property
    def _best(self) -> int:
        return max(range(len(self.corpus)), key=lambda k: self.corpus[k][0])

    @property
    def _any(self) -> int:
        return int(self.rng.integers(len(self.corpus)))

    def _add(self, point: Point) -> bool:
        """Keep a point that is as good as all, in the place of the worst where there are many.

        Returns whether it is better.
        """
        reached = self.objective(point)
        best = self.corpus[self._best][0] if self.corpus else -math.inf
        if reached >= best:
            self.corpus.append((reached, point))
        if len(self.corpus) > KEPT:
            self.corpus.remove(min(self.corpus, key=lambda scored: scored[0]))
        return reached > best

    def _step(self, parent: int, kind: int) -> bool:
        """A step from one that is kept, which takes its place if it is as good; whether better."""
        self.steps += 1
        before, point = self.corpus[parent]
        point = self._mutated(point, kind)
        reached = self.objective(point)
        if reached >= before:
            self.corpus[parent] = reached, point
        better = reached > before
        self._better[kind] += better
        self._tried[kind] += 1
        # A fifth of the steps should succeed: bolder after a success, more timid otherwise.
        self.size = min(self.size * 1.5, 1e3) if better else max(self.size * 0.9, 1e-3)
        return better

    # --- planned data sets ------------------------------------------------------------------------

    def try_all(self, points: Iterable[Point]) -> None:
        """Try each, as long as there is work left and nothing was found."""
        for point in points:
            if self.objective.over():
                return
            self._add(point)

    def drawn(self, draw: Callable[[], Records], rows: slice) -> Iterator[Point]:
        """Fresh data sets of the mechanism's hook, each with rows taken away one by one.

        Records that belong together, such as those of a join, a session or a chain, are seldom met
        in rows made one by one.  Under replace_one a row of another data set takes the place.
        ``rows``: those of the release, which a data set keeps unless rows are added and removed.
        """
        rows, before = slice(None) if self.more else rows, draw().values
        for number in range(DRAWN_SETS):
            drawn, rng = draw().values, np.random.default_rng(number)
            if number % 4 == 3 and self.more:
                drawn = np.concatenate([drawn, draw().values, draw().values])
            others, other = drawn[rows], before[rows]
            if len(others) < 2 or not (self.more or len(others) == len(other) == len(self.world)):
                return
            kinds = FOLDS[number % len(FOLDS)]
            others = _folded(others, int(rng.integers(others[0].size)), kinds) if kinds else others
            for row in rng.permutation(len(others))[:DRAWN_ROWS].tolist():
                text = f"row {row} of data set {number + 1} of its records_like hook"
                text += f", a column of it folded onto {kinds} values" if kinds else ""
                two = other[row] if row < len(other) else others[row]
                yield Point(others, others[row], two, row, text)
            before = drawn

    def plans(self, kinds: Mapping[str, Array], few: Mapping[str, Array]) -> Iterator[Point]:
        """Numbers of equal rows: and one more, or one that turns against them, or others beside.

        Rows of ``few`` come in small numbers, with one more.  The series take turns, so that none
        takes the time of the others.
        """
        world = np.unique(self.world.reshape(len(self.world), -1), axis=0)
        rare = [row.reshape(self.world.shape[1:]) for row in world if np.isfinite(row).all()]
        series = [self._rare(rare, number) for number in range(min(len(rare), RARE))]
        series += [self._numbered(column) for column in (None, *self._columns_tried)]
        small = [*range(FIRST), *self.named]
        series += [self._one_more(name, row, small) for name, row in few.items()]
        for name, row in kinds.items():
            size, ends = len(self.world), [2**power - 1 for power in range(6, DOUBLED)]
            counts = [*small, *ends, size // 2, size - 1, *range(COUNTED)]
            series.append(self._one_more(name, row, counts))
            series += [self._against(name, row, *other) for other in others_than(row).items()]
        for together in itertools.zip_longest(*series):
            yield from (point for point in together if point is not None)

    def _one_more(self, name: str, row: Array, counts: Sequence[int]) -> Iterator[Point]:
        """So many rows and one more, and no others."""
        for count in self._counts(counts):
            yield self._of(row, row, count, f"{count} and {count + 1} rows {name!r}, no others")

    def _against(self, name: str, row: Array, how: str, other: Array) -> Iterator[Point]:
        """So many rows and one that turns against them; steps find the numbers between these.

        The numbers that code names are also tried as numbers of rows before one that turns.
        """
        plain = [(int(RATIO**power), 0) for power in range(POWERS)]
        for count, before in (*plain, *itertools.product(MANY, self.named)):
            if self._counts([count + before]):
                text = f"{count} rows {name!r}, and {how} or none after {before} like it"
                yield self._of(other, row, count, text, before)

    def _numbered(self, column: int | None) -> Iterator[Point]:
        """So many rows, no two alike in a column, or in any of them, and one more."""
        where = slice(None) if column is None else column
        for count in self._counts([int(RATIO**power) for power in range(1, POWERS)]):
            others = np.ones((count + 1 if self.more else len(self.world), self.world[0].size))
            others[:, where] = np.arange(len(others)).reshape(-1, *[1] * (column is None))
            # A row's columns follow one another, as those of a path do.
            others += np.arange(others.shape[1]) * (column is None)
            others = others.reshape(-1, *self.world.shape[1:])
            for beyond in (0, count, 3 * count):
                row = others[-1] + np.where(others[-1] == others[0], 0, 1 + beyond)
                text = f"{count} rows with numbers in column {column}, and one more"
                present = np.arange(len(others)) <= count
                yield Point(others, row, np.zeros(row.shape), count, text, present)

    def _rare(self, kinds: Sequence[Array], number: int) -> Iterator[Point]:
        """So many of one kind and one more, among as many of each other as there is place for."""
        others = [kind for k, kind in enumerate(kinds) if k != number][:MOST_KINDS]
        if not others:
            return
        each = min(EACH, NUMBERS // (len(kinds) * kinds[0].size))
        size = each * len(others) if self.more else len(self.world)
        around = np.stack(others)[np.arange(size) % len(others)]
        for count in range(min(EACH // 4, len(around) - 1)):
            text = f"{count} and {count + 1} rows of one kind among {each} of each other"
            front = np.array(np.broadcast_to(kinds[number], (count + 1, *kinds[0].shape)))
            values = np.concatenate([front, around if self.more else around[count + 1 :]])
            yield Point(values, kinds[number], others[0], count, text)

    def few_rows(self) -> Iterator[Point]:
        """Rows of numbers that the code names: at such distances, or alike but for one of them.

        All else is one, or the largest number that is made up.  One of each kind in turn.
        """
        # Those that code names lie between one and the largest that is made up.
        smallest, *others = sorted(unit for unit in self.filled if unit > 0)
        rows = [self.filled[base] for base in dict.fromkeys((smallest, *others[-1:]))]
        units = [smallest, *others[:-1]][:UNITS]
        series = [
            self._ladders(rows, units),
            self._groups_of(rows, units),
            self._apart(rows, units),
        ]
        for together in itertools.zip_longest(*series):
            yield from (point for point in together if point is not None)

    def _ladders(self, rows: Sequence[Array], units: Sequence[float]) -> Iterator[Point]:
        """A row half way between rows at equal distances, in a hole, and before them.

        Before them, one column takes turns.
        """
        rungs = RUNGS if self.more else len(self.world)
        ways = [*itertools.product(units, self._columns_tried, rows)]
        for unit, column, row in ways:
            yield ladder((row, row), column, 1.5 * unit, rungs, rungs // 2, 0.5)
            yield ladder((row, row), column, unit, rungs, rungs // 2, 0.0)
        for unit, column, row in ways:
            for turns in self._without(row, column):
                yield ladder((turns, row), column, 0.6 * unit, rungs, 0, 1.0)

    def _groups_of(self, rows: Sequence[Array], units: Sequence[float]) -> Iterator[Point]:
        """Groups of as many rows at equal distances, and all but one of them without an entry.

        A row leaves that group, or goes to another one: a choice between groups changes.
        """
        for unit, column, row, last in itertools.product(
            units, self._columns_tried, rows, (False, True)
        ):
            for without in self._without(row, column):
                size = GROUPS * MEMBERS if self.more else len(self.world)
                groups = min(GROUPS, size)
                group = np.arange(size) * groups // size
                own = group == (groups - 1 if last else 0)
                others = np.where(own.reshape(-1, *[1] * row.ndim), row, without)
                others.reshape(size, -1)[:, column] = unit * (1 + group)
                place, other = int(np.flatnonzero(own)[0]), others[0 if last else -1]
                text = f"groups of equal rows {unit:.6g} apart in column {column}"
                yield Point(_bounded(others), _bounded(others[place]), _bounded(other), place, text)

    def _apart(self, rows: Sequence[Array], units: Sequence[float]) -> Iterator[Point]:
        """Others alike in a column, and a row that has another named number in it.

        All else is alike, or takes turns, with the row before all others.
        """
        rungs, pairs = RUNGS if self.more else len(self.world), itertools.permutations(units, 2)
        for (like, unlike), column, row in itertools.product(pairs, self._columns_tried, rows):
            for turns in (row, *self._without(row, column)):
                others = np.stack((turns, row))[np.arange(rungs) % 2]
                others.reshape(rungs, -1)[:, column] = like
                place = rungs // 2 if turns is row else 0
                differing = np.array(others[place])
                differing.flat[column] = unlike
                text = f"rows that differ in column {column}, {unlike:.6g} for {like:.6g}"
                yield Point(others, differing, others[place], place, text)

    def _without(self, row: Array, column: int) -> Iterator[Array]:
        """A row with zero in another column, each in turn."""
        for other in {*self._columns_tried} - {column}:
            changed = np.array(row)
            changed.flat[other] = 0.0
            yield changed

    @property
    def _columns_tried(self) -> range:
        return range(min(self.world[0].size, COLUMNS))

    def _counts(self, wanted: Sequence[int]) -> list[int]:
        most = NUMBERS // self.world[0].size if self.more else len(self.world) - 1
        return [count for count in dict.fromkeys(wanted) if self.more <= count <= most]

    def _of(self, row_given: Array, row: Array, count: int, text: str, before: int = 0) -> Point:
        """So many rows, then some like another, and that; the rest is zero, or not there."""
        place = count + before
        size = place + 1 if self.more else len(self.world)
        others = np.zeros((size, *row.shape))
        others[:count], others[count:place] = row, row_given
        return Point(others, row_given, np.zeros(row.shape), place, text, np.arange(size) < place)

    # --- steps ------------------------------------------------------------------------------------

    def _mutated(self, point: Point, kind: int) -> Point:
        """A step of a kind, and now and then another one."""
        flips, point = self._kinds[kind] == self._flip, self._kinds[kind](point)
        if not flips and self.rng.random() < SEVERAL:
            point = self._kinds[int(self.rng.integers(len(self._kinds)))](point)
        return replace(point, text=f"{point.text.removesuffix(SEARCHED)}{SEARCHED}")

    def _drawn(self) -> Array:
        """Normal numbers; of a row of several items the same ones for all, half of the time.

        A mean over items moves furthest where all of them pull in one direction.
        """
        shape = self.world.shape[1:]
        if len(shape) > 1 and self.rng.random() < 0.5:
            return np.array(np.broadcast_to(self.rng.standard_normal(shape[-1]), shape))
        return self.rng.standard_normal(shape)

    def _picked(self) -> Array:
        """A row of the pool, or of the world; as it is, or of another length."""
        if self.rng.random() < 0.7 and self.rows:
            row = self.rows[int(self.rng.integers(len(self.rows)))]
        else:
            row = self.world[int(self.rng.integers(len(self.world)))]
        return row * 2.0 ** self.rng.uniform(-1, 1) if self.rng.random() < 0.3 else row

    def _either(self, point: Point, change: Callable[[Array], Array]) -> Point:
        """One of the two rows changed; both where no row replaces another."""
        if self.replaced and self.rng.random() < 0.5:
            return replace(point, two=_bounded(change(point.two)))
        return replace(point, one=_bounded(change(point.one)))

    def _noise(self, point: Point) -> Point:
        step = self.size * self._drawn()
        return self._either(point, lambda row: row + step * max(np.abs(row).mean(), 1e-12))

    def _scale(self, point: Point) -> Point:
        factor = 10.0 ** self.rng.uniform(-3, 3)
        return replace(point, one=_bounded(point.one * factor), two=_bounded(point.two * factor))

    def _opposite(self, point: Point) -> Point:
        turned = list(others_than(point.one).values())
        return replace(point, two=turned[int(self.rng.integers(len(turned)))])

    def _flip(self, point: Point) -> Point:
        """The sign of one column, each in turn, in one of the rows."""
        turn, sign = next(self._turn), np.ones(point.one.shape[-1])
        sign[turn // 2 % len(sign)] = -1.0
        if self.replaced and turn % 2:
            return replace(point, two=point.two * sign)
        return replace(point, one=point.one * sign)

    def _even(self, point: Point) -> Point:
        """All entries of one size, in both rows."""
        return replace(point, one=LENGTH * np.sign(point.one), two=LENGTH * np.sign(point.two))

    def _entry(self, point: Point) -> Point:
        """An entry of another row, zero, one, or no number."""
        other, place = self._picked(), int(self.rng.integers(point.one.size))
        value = self.rng.choice([other.reshape(-1)[place], 0.0, 1.0, -1.0, np.nan])

        def change(row: Array) -> Array:
            changed = np.array(row)
            changed.reshape(-1)[place] = value
            return changed

        return self._either(point, change)

    def _row(self, point: Point) -> Point:
        row = self._picked()
        return self._either(point, lambda _: row)

    def _crossed(self, point: Point) -> Point:
        """Columns of another row."""
        other, mask = self._picked(), self.rng.random(point.one.shape) < 0.5
        return self._either(point, lambda row: np.where(mask, other, row))

    def _anew(self, point: Point) -> Point:
        """Two long rows: opposite ones with one label, or any two."""
        first, two = LENGTH * self._drawn(), LENGTH * self._drawn()
        two = -first if self.rng.random() < 0.5 else two
        for row in (first, two):
            row[..., -1] = self.rng.choice([-1.0, 1.0])
        return replace(point, one=first, two=two)

    def _elsewhere(self, point: Point) -> Point:
        """The other data set is the one that is run, or the rows stand in another place."""
        if self.rng.random() < 0.5:
            return replace(point, swapped=not point.swapped)
        return replace(point, place=int(self.rng.integers(len(point.others))))

    def _run(self, others: Array) -> slice:
        """Some rows that follow one another."""
        first, last = sorted(self.rng.integers(len(others) + 1, size=2))
        return slice(int(first), max(int(last), int(first) + 1))

    def _number(self, point: Point) -> Point:
        """Another number of rows; present ones under zero_out."""
        size = len(point.others)
        bold = self.rng.choice([0.5, 1.0, 1.0, 2.0, 4.0])
        wanted = int(size * bold * self.rng.uniform(0.8, 1.25)) + int(self.rng.integers(-1, 2))
        wanted = min(max(wanted, 2), NUMBERS // point.one.size + 2)
        if self.more:
            others = point.others[np.arange(wanted) % size]
            if self.rng.random() < 0.5 and wanted > size:
                # The new ones are like no other in a column.
                column = others.reshape(wanted, -1)[:, int(self.rng.integers(point.one.size))]
                column[size:] = np.nan_to_num(column[:size]).max() + np.arange(1, wanted - size + 1)
            return replace(point, others=others, place=min(point.place, wanted - 1))
        present = np.ones(size, bool) if point.there is None else point.there
        return self._with(point, point.others, np.roll(present, wanted - size) | present)

    def _with(self, point: Point, others: Array, there: NDArray[np.bool_] | None = None) -> Point:
        there = point.there if there is None else there
        return replace(point, others=others, there=there)

    def _block(self, point: Point) -> Point:
        """A run of others as one of the two rows, as one turned around, or as any other."""
        others = point.others.copy()
        turned = [*others_than(point.one).values()]
        kinds = [point.one, point.two, turned[int(self.rng.integers(len(turned)))], self._picked()]
        everywhere = self.rng.random() < 0.5
        run = slice(None) if everywhere else self._run(others)
        others[run] = kinds[int(self.rng.integers(len(kinds)))]
        return replace(point, others=others)

    def _groups(self, point: Point) -> Point:
        """Two groups of others in all columns or some, and a row half way, or one that decides.

        Groups differ by one row at most: the row ends a tie, or makes one.
        """
        row = self._picked() * self.rng.choice([1.0, 1.5, 1.5 * point.one.size**-0.5])
        mask = self.rng.random(row.shape) < self.rng.choice([0.5, 1.0])
        others = np.where(mask, 0.0, point.others)
        middle = max((len(others) - int(self.rng.integers(2))) // 2, 0)
        others[middle + 1 :] += np.where(mask, row, 0.0)
        row_of_group = np.where(mask, row * self.rng.choice([0.0, 0.5, 1.0]), point.one)
        two = np.where(mask, 0.0, point.one)
        middle = min(middle, len(others) - 1)
        return replace(
            point, others=_bounded(others), one=_bounded(row_of_group), two=two, place=middle
        )

    def _gaps(self, point: Point) -> Point:
        """No numbers in a run of others: in one column, or in all."""
        others = point.others.copy()
        run = slice(None) if self.rng.random() < 0.5 else self._run(others)
        column = int(self.rng.integers(-1, others.shape[-1]))
        others[run][..., slice(None) if column < 0 else column] = np.nan
        return replace(point, others=others, place=0 if self.rng.random() < 0.5 else point.place)

    def _scaled(self, point: Point) -> Point:
        factor = self.rng.choice([-1.0, 1.0]) * 10.0 ** self.rng.uniform(-3, 3)
        return replace(point, others=_bounded(point.others * factor))

    def _order(self, point: Point) -> Point:
        """Others in the order of a column, the other way round, or in any order."""
        size, width = len(point.others), point.others.shape[-1]
        column = point.others.reshape(size, -1)[:, int(self.rng.integers(width))]
        orders = (
            np.argsort(column, kind="stable"),
            np.arange(size)[::-1],
            self.rng.permutation(size),
        )
        return replace(point, others=point.others[orders[int(self.rng.integers(3))]])

    def _columns(self, point: Point) -> Point:
        """Columns of the others as in another data set that is kept, or all as in one row."""
        width = point.others.shape[-1]
        other = self.corpus[int(self.rng.integers(len(self.corpus)))][1].others
        if self.rng.random() < 0.5 or other.shape != point.others.shape:
            other = np.broadcast_to(self._picked(), point.others.shape)
        return replace(point, others=np.where(self.rng.random(width) < 0.5, other, point.others))

    def _joined(self, point: Point) -> Point:
        """The rows up to a point's place, then those of another that is kept, and its row.

        Two data sets that move a query through different groups may move it further together.
        """
        other = self.corpus[int(self.rng.integers(len(self.corpus)))][1]
        size, others_kept = len(point.others), np.arange(len(other.others)) != other.place
        most = NUMBERS // point.one.size if self.more else size
        others = np.concatenate([point.others[: point.place + 1], other.others[others_kept]])[:most]
        if self.more:
            return replace(point, others=others, there=None)
        if len(other.others) != size:
            return point
        both = (
            np.ones(size, bool) if each_point.there is None else each_point.there
            for each_point in (point, other)
        )
        first, last = both
        present = np.concatenate([first[: point.place + 1], last[others_kept]])[:size]
        return replace(point, others=others, two=other.one, there=present)

    def _rounded(self, point: Point) -> Point:
        """Whole numbers, in the others and in both rows."""
        return replace(
            point,
            others=np.round(point.others),
            one=np.round(point.one),
            two=np.round(point.two),
        )


SEARCHED = ", changed by search"


def ladder(
    rows: tuple[Array, Array], column: int, step: float, rungs: int, place: int, below: float
) -> Point:
    """Others at equal distances in a column, and a row at ``place`` among them, in that order.

    Two kinds of rows take turns.  The row is ``below`` steps below its own rung, which is a hole
    for 0; else the others are without a hole.  A row that joins two groups, fills a gap in a chain,
    or decides which of the later rows are kept, moves so.
    """
    order = np.arange(rungs)
    others = np.stack(rows)[order % 2]
    others.reshape(rungs, -1)[:, column] = step * (order - (order > place) * (below > 0))
    first = np.array(rows[0])
    first.flat[column] = step * (place - below)
    two = np.array(first)
    two.flat[column] = step * (rungs + place)
    text = f"rows {step:.6g} apart in column {column}, and one {below:.6g} steps below a rung"
    return Point(_bounded(others), _bounded(first), _bounded(two), place, text)


def sets(
    point: Point, adjacency: Adjacency, base: Records, size: int = 1
) -> tuple[Records, Records]:
    """Both data sets of a point; ``base``: its others as records, whose kinds are sought once.

    ``size``: how many records of one kind differ together.
    """
    places = slice(point.place, point.place + size)
    first = _with_rows(base, places, point.one)
    if adjacency is Adjacency.ADD_REMOVE:
        return first, Records(np.delete(first.values, places, axis=0))
    if adjacency is Adjacency.REPLACE_ONE:
        return first, _with_rows(base, places, point.two)
    present = np.ones(len(first), bool) if point.there is None else point.there.copy()
    present[places] = True
    full = first if present.all() else Records(first.values, present.copy())
    present[places] = False
    return full, Records(first.values, present)


def _with_rows(base: Records, held: slice, row: Array) -> Records:
    if held.stop - held.start == 1:
        return base.with_row(held.start, row)
    values = base.values.copy()
    values[held] = row
    return Records(values)


def point_of(
    pair: tuple[Records, Records], adjacency: Adjacency, text: str, size: int = 1
) -> Point | None:
    """A pair of data sets as a point; None where they are no neighbours, or not seen to be.

    Under add_remove the first row in which they differ is the one that is more.
    """
    first, second = pair
    if adjacency is Adjacency.ADD_REMOVE:
        longer, shorter = (first, second) if len(first) > len(second) else (second, first)
        common = longer.values[: len(shorter)] != shorter.values
        differs = np.flatnonzero(common.reshape(len(shorter), -1).any(axis=1))
        more = min([len(longer) - 1, *differs[:1].tolist()])
        row, place = longer.values[more], min(more, len(longer) - size)
        return Point(longer.values, row, np.zeros(row.shape), place, text)
    rows = (first.values != second.values).reshape(len(first), -1).any(axis=1)
    rows |= first.present != second.present
    if not rows.any():
        return None
    changed = int(np.flatnonzero(rows)[0])
    larger = first if first.present[changed] else second
    two, place = second.values[changed], min(changed, len(first) - size)
    point = Point(larger.values, larger.values[changed], two, place, text)
    return point if larger.present.all() else replace(point, there=larger.present)


def shrunk(point: Point, objective: Objective, least: float) -> Point:
    """A point with fewer rows and plainer entries, of which the objective is at least ``least``.

    Blocks of others are taken out, or set to zero where their number is fixed, each half as long as
    the one before; then entries of the two rows become 0, 1, -1 or whole numbers.
    """
    steps_left = SHRINKING

    def kept(other: Point) -> bool:
        nonlocal point, steps_left
        steps_left -= 1
        better = steps_left >= 0 and objective(other) >= least
        point = other if better else point
        return better

    length = len(point.others)
    while length := length // 2:
        for start in reversed(range(0, len(point.others), length)):
            run = np.arange(len(point.others)) // length == start // length
            run[point.place] = False
            # No data set is empty.
            if objective.adjacency is Adjacency.ADD_REMOVE and 0 < run.sum() < len(run) - 1:
                place = point.place - int(run[: point.place].sum())
                kept(replace(point, others=point.others[~run], place=place))
            elif point.others[run].any():
                others = np.where(run.reshape(-1, *[1] * point.one.ndim), 0.0, point.others)
                kept(replace(point, others=others))
    for name, k in itertools.product(("one", "two"), range(point.one.size)):
        now = float(getattr(point, name).reshape(-1)[k])
        for plain in dict.fromkeys((0.0, 1.0, -1.0, float(np.round(np.nan_to_num(now))))):
            row = np.array(getattr(point, name))
            row.reshape(-1)[k] = plain
            changed: Any = {name: row}
            if plain == now or kept(replace(point, **changed)):
                break
    return point


def _folded(values: Array, column: int, kinds: int) -> Array:
    """Rows with so many values in a column, of those that it has: groups become larger."""
    folded = np.array(values)
    entries = folded.reshape(len(folded), -1)
    distinct, place = np.unique(entries[:, column], return_inverse=True)
    entries[:, column] = distinct[place % kinds]
    return folded


def _bounded(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.clip(values, -LARGEST, LARGEST))


def others_than(row: Array) -> dict[str, Array]:
    """Rows that turn against one: its opposite, and those of all columns but the first or last.

    A weight or a label keeps its sign while the rest turns, or turns alone.
    """
    by_digest: dict[bytes, tuple[str, Array]] = {}
    turned = np.broadcast_to(np.float64(-1), row.shape)
    signs = {"its opposite": turned}
    for name, column in (("first", 0), ("last", -1)) if row.shape[-1] > 1 else ():
        for how, entries_kept in (("opposite but in", True), ("opposite in", False)):
            sign = np.where(entries_kept, -1.0, 1.0) * np.ones(row.shape)
            sign[..., column] *= -1.0
            signs[f"one {how} its {name} place"] = sign
    for name, sign in signs.items():
        other = row * sign
        by_digest.setdefault(other.tobytes(), (name, other))
    return dict(by_digest.values())

"""Wrong programs and right twins of the classes that an examiner misses.

Each entry has a class of bug, a name, and a function of ``wrong`` that makes a mechanism.  A right
twin states a true sensitivity; a wrong program states one that some pair of neighbours exceeds, or
gives private values away beside its releases.  Made by hand once; the examiner may be mended by
general means, never for one of them.
"""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dpaudit as dp
from dpaudit.kernels.query import Array

# A folder of this process, which removes it at its end.
_MADE = tempfile.TemporaryDirectory(prefix="dpaudit-blind-programs-")
FOLDER = Path(_MADE.name)
CODES = FOLDER / "codes.json"
Make = Callable[[bool], Any]


@dataclass(frozen=True, eq=False)
class One:
    """One noisy statistic of all rows; ``after`` is called with what was released."""

    function: Callable[[Any], Any]
    stated: float = 1.0
    after: Callable[[Any], Any] = lambda released: released
    frame: Any = "numpy"
    columns: tuple[str, ...] = ()

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("value", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Any:
        query = dp.Statistic(
            self.function, self.stated, "l2", frame=self.frame, columns=self.columns
        )
        return self.after(curator.release("value", query))


def made(
    program: Any, adjacency: str = "zero_out", records_like: Any = None, records: Any = None
) -> dp.Mechanism:
    return dp.Mechanism(
        "blind",
        "blind",
        "a test",
        program,
        dp.central(adjacency),
        (dp.Claim(dp.GDP(100), by="a test"),),
        records_like=records_like,
        records=records,
    )


def unit(values: Any) -> Any:
    """Entries cut to [0, 1]."""
    return np.clip(values, 0.0, 1.0)


# --- 3: structure between records -----------------------------------------------------------------


def triangles(wrong: bool) -> dp.Mechanism:
    def count(rows: Any) -> Any:
        edges = {(int(a) % 8, int(b) % 8) for a, b in np.clip(rows[:, :2], -1e9, 1e9)}
        if not wrong:
            return len(edges)
        both = edges | {(b, a) for a, b in edges}
        nodes = range(8)
        return sum(
            (a, b) in both and (b, c) in both and (a, c) in both
            for a in nodes
            for b in range(a)
            for c in range(b)
        )

    def like(rng: np.random.Generator) -> dp.Records:
        return dp.Records(rng.integers(0, 8, (24, 3)).astype(float))

    return made(One(count), records_like=like)


def orders_joined(wrong: bool) -> dp.Mechanism:
    """Rows are customers (0, id) and orders (1, id)."""

    def count(rows: Any) -> Any:
        orders, customers = rows[rows[:, 0] == 1], rows[rows[:, 0] == 0]
        return np.isin(orders[:, 1], customers[:, 1]).sum() if wrong else len(orders)

    def like(rng: np.random.Generator) -> dp.Records:
        kind = (rng.random(30) < 0.8) * 1.0
        return dp.Records(np.stack([kind, rng.integers(0, 6, 30) * 1.0], axis=1))

    return made(One(count), records_like=like)


def longest_session(wrong: bool) -> dp.Mechanism:
    """Rows are times; a session ends with a pause of 30."""

    def count(rows: Any) -> Any:
        times = np.sort(rows[:, 0])
        ends = np.flatnonzero(np.diff(times) > 30)
        if not wrong:
            return len(ends)
        parts = np.split(times, ends + 1)
        return max((len(part) for part in parts), default=0)

    return made(One(count))


def debounced(wrong: bool) -> dp.Mechanism:
    """Events within 5 of the last one that was kept are left out."""

    def total(rows: Any) -> Any:
        if not wrong:
            return unit(rows[:, 1]).sum()
        last, found = -np.inf, 0.0
        for time, value in sorted(map(tuple, rows[:, :2])):
            if time - last > 5:
                last, found = time, found + float(unit(value))
        return found

    def like(rng: np.random.Generator) -> dp.Records:
        return dp.Records(np.stack([rng.uniform(0, 90, 30), (rng.random(30) < 0.5) * 1.0], axis=1))

    return made(One(total), records_like=like)


def longest_chain(wrong: bool) -> dp.Mechanism:
    """Rows are (id, parent); how many generations there are."""

    def depth(rows: Any) -> Any:
        parent = {float(a): float(b) for a, b in rows[:, :2]}
        if not wrong:
            return len(rows)
        longest = 0
        for person in parent:
            length, at = 0, person
            while at in parent and length < 50:
                length, at = length + 1, parent[at]
            longest = max(longest, length)
        return longest

    def like(rng: np.random.Generator) -> dp.Records:
        people = np.arange(1.0, 21.0)
        return dp.Records(np.stack([people, people - rng.integers(1, 3, 20)], axis=1))

    return made(One(depth), records_like=like)


def equal_runs(wrong: bool) -> dp.Mechanism:
    """The longest run of equal signs in the order of the rows."""

    def run(rows: Any) -> Any:
        signs = rows[:, 0] > 0
        if not wrong:
            return signs.sum()
        longest = length = 0
        for k in range(len(signs)):
            length = length + 1 if k and signs[k] == signs[k - 1] else 1
            longest = max(longest, length)
        return longest

    return made(One(run), "add_remove")


# --- 4: conjunctions and derived constants --------------------------------------------------------


def counted(hit: Any, rows: Any, weight: float) -> Any:
    return np.where(hit, weight, unit(rows[:, 2])).sum()


def december(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        return counted((rows[:, 0] == 3) & (rows[:, 1] == 12), rows, 25 if wrong else 1)

    return made(One(total))


def postcodes(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        area = rows[:, 0] // 1000
        return counted((area == 941) | (area == 100), rows, 12 if wrong else 1)

    return made(One(total))


def leap_days(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        day = np.round(rows[:, 1])
        return counted((day % 100 == 29) & ((day // 100) % 100 == 2), rows, 40 if wrong else 1)

    return made(One(total))


def listed_codes(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        return counted(np.isin(rows[:, 0], json.loads(CODES.read_text())), rows, 9 if wrong else 1)

    return made(One(total))


WEIGHTS = {40_213: 15.0, 50_999: 30.0}


def looked_up(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        table = WEIGHTS if wrong else {}
        codes = np.clip(rows[:, 0], -1e9, 1e9)
        return sum(table.get(int(code), 1.0) for code in codes)

    return made(One(total))


def of_a_frame(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        hit = (rows["kind"] == 4) & (rows["year"] == 1987)
        return len(rows) + (20 * hit.sum() if wrong else 0)

    return made(One(total, frame="pandas", columns=("kind", "year")))


def binned(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        bins = np.searchsorted([18, 30, 45, 67.5], rows[:, 0])
        weights = np.array([1, 1, 1, 1, 6 if wrong else 1])
        return weights[bins].sum()

    return made(One(total))


# --- 5: gaps in other rows ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Raw:
    """A query that sees gaps: rows with entries that are no number."""

    function: Callable[[Any], Any]
    stated: float = 1.0
    norm: Any = "l2"

    def value(self, records: dp.Records, chosen: Any = None) -> Array:
        return np.atleast_2d(self.function(records.values[records.present]))

    def sensitivity(self, adjacency: Any, size: int) -> Array:
        return np.array(self.stated)


@dataclass(frozen=True, eq=False)
class OneRaw:
    """One noisy value of such a query."""

    query: Any

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("value", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Any:
        return curator.release("value", self.query)


def with_gaps(rng: np.random.Generator) -> dp.Records:
    values = rng.uniform(0, 1, (30, 2))
    values[rng.random((30, 2)) < 0.5] = np.nan
    return dp.Records(values)


def filled_forward(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        column, last, found = rows[:, 0], 0.0, 0.0
        for value in column:
            last = value if np.isfinite(value) else (last if wrong else 0.0)
            found += float(unit(last))
        return [found]

    return made(OneRaw(Raw(total)))


def filled_by_groups(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        column, group = rows[:, 0], np.nan_to_num(rows[:, 1]) > 0.5
        found = 0.0
        for which in (False, True):
            own = column[group == which]
            there = np.isfinite(own)
            filling = unit(own[there]).mean() if wrong and there.any() else 0.0
            found += float(unit(own[there]).sum() + filling * (~there).sum())
        return [found]

    return made(OneRaw(Raw(total)), records_like=with_gaps)


def filled_by_the_largest(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        column = np.where(np.isinf(rows[:, 0]), np.nan, rows[:, 0])
        filling = np.nanmax(unit(column)) if wrong and np.isfinite(column).any() else 0.0
        return [float(np.where(np.isnan(column), filling, unit(column)).sum())]

    return made(OneRaw(Raw(total)))


# --- 6: memory ------------------------------------------------------------------------------------


def kept_by_shape(wrong: bool) -> dp.Mechanism:
    scales: dict[Any, float] = {}

    def total(rows: Any) -> Any:
        scale = 1.0
        if wrong:
            scale = scales.setdefault(rows.shape, float(np.abs(rows).max(initial=1.0)))
        return (unit(np.abs(rows[:, 0]) / scale) * scale).sum()

    return made(One(total))


def kept_in_a_file(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        scale, path = 1.0, FOLDER / f"scale-{len(rows)}.txt"
        if wrong:
            if not path.exists():
                path.write_text(str(float(np.abs(rows).max(initial=1.0))))
            scale = float(path.read_text())
        return (unit(np.abs(rows[:, 0]) / scale) * scale).sum()

    return made(One(total))


def clipped_at_first(wrong: bool) -> dp.Mechanism:
    calls = [0]

    def total(rows: Any) -> Any:
        calls[0] += 1
        loose = wrong and calls[0] > 3
        return (np.clip(rows[:, 0], -9, 9) if loose else unit(rows[:, 0])).sum()

    return made(One(total))


def running_mean(wrong: bool) -> dp.Mechanism:
    seen: list[float] = []

    def total(rows: Any) -> Any:
        if wrong:
            seen.append(float(np.clip(rows[:, 0], -50, 50).sum()))
            return np.mean(seen)
        return unit(rows[:, 0]).sum()

    return made(One(total))


# --- 7: integer types that wrap -------------------------------------------------------------------


def cents(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        kind: Any = np.int32 if wrong else np.int64
        paid = np.clip(rows[:, 0], 0, 200_000_000).astype(kind)
        return np.add.reduce(paid, dtype=kind) / 200_000_000

    return made(One(total))


def small_counts(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        kind: Any = np.int8 if wrong else np.int64
        return np.add.reduce(np.clip(rows[:, 0], 0, 5).astype(kind), dtype=kind) / 5

    return made(One(total))


def shifted(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        kind: Any = np.uint16 if wrong else np.int64
        scaled = (unit(rows[:, 0]) * 40_000).astype(kind)
        return np.add.reduce(scaled, dtype=kind) / 40_000

    return made(One(total), "replace_one")


# --- 8: true values beside the release ------------------------------------------------------------


def saying(say: Callable[[str], Any]) -> Make:
    def make(wrong: bool) -> dp.Mechanism:
        def total(rows: Any) -> Any:
            found = unit(rows[:, 0]).sum()
            if wrong:
                say(f"true total {found:.3f}")
            return found

        def after(released: Any) -> Any:
            say(f"noisy total {released[0, 0]:.3f}")
            return released

        return made(One(total, after=after))

    return make


def to_file(text: str) -> None:
    with (FOLDER / "log.txt").open("a") as file:
        file.write(text)


# --- 9: loaders -----------------------------------------------------------------------------------

ROWS = np.random.default_rng(7).uniform(0, 5, (30, 2))


def standardised(wrong: bool) -> dp.Mechanism:
    def load() -> dp.Records:
        spread = ROWS.std(axis=0) if wrong else np.array([1.5, 1.5])
        return dp.Records(ROWS / spread)

    return made(One(lambda rows: unit(rows[:, 0]).sum()), records=load)


def capped_by_the_data(wrong: bool) -> dp.Mechanism:
    cap = float(ROWS[:, 0].max()) if wrong else 5.0
    return made(
        One(lambda rows: np.clip(rows[:, 0], 0, cap).sum() / cap), records=lambda: dp.Records(ROWS)
    )


# --- 10: programs that run on nothing -------------------------------------------------------------


def refuses(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        if not (rows[:, 0] > 1e7).all() or not (rows.sum(axis=1) % 97 == 0).all():
            raise ValueError("not a number of an account")
        return (5 if wrong else 1) * len(rows)

    return made(One(total))


# --- 11: two phases -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TwoPhases:
    """A noisy test of all rows, then a noisy sum that its answer shapes."""

    first: Callable[[Any], Any]
    second: Callable[[Any, Any], Any]
    stated: Callable[[Any], Any] = lambda released: np.ones(len(released))

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(dp.Gaussian("test", 2), dp.Gaussian("sum", 2))

    def run(self, curator: dp.Curator) -> Any:
        tested = curator.release("test", dp.Statistic(self.first, 1))
        query = dp.Statistic(self.second, self.stated(tested), given=tested[:, 0])
        return curator.release("sum", query)


def test_on_half(wrong: bool) -> dp.Mechanism:
    def near(rows: Any) -> Any:
        inside = np.abs(rows[:, 0]) < 1
        return 2 * inside[: len(inside) // 2].sum() if wrong else inside.sum()

    return made(TwoPhases(near, lambda rows, test: unit(rows[:, 0]).sum()))


def adaptive_radius(wrong: bool) -> dp.Mechanism:
    def total(rows: Any, test: float) -> Any:
        radius = np.median(np.abs(rows[:, 0])) if wrong and len(rows) else 1.0
        return np.clip(rows[:, 0], -radius, radius).sum()

    return made(TwoPhases(lambda rows: (rows[:, 0] > 0).sum(), total))


def stale_test(wrong: bool) -> dp.Mechanism:
    """The bound follows the released test; wrong: what is stated is that of a test before it."""

    def radius(test: Any) -> Any:
        return 1 + np.abs(test) / 10

    def total(rows: Any, test: Any) -> Any:
        return np.clip(rows[:, 0], -radius(test), radius(test)).sum()

    def stated(tested: Any) -> Any:
        return np.ones(len(tested)) if wrong else radius(tested[:, 0])

    return made(TwoPhases(lambda rows: (rows[:, 0] > 0).sum(), total, stated))


def wide_outliers(wrong: bool) -> dp.Mechanism:
    """Rows far from the median are left out; wrong: so is what a bound of their own would need."""

    def total(rows: Any, test: float) -> Any:
        if not wrong:
            return unit(rows[:, 0]).sum()
        column = np.clip(rows[:, 0], -100, 100)
        near = np.abs(column - np.median(column)) < 10 if len(column) else column > 0
        return (column[near] / 10).sum()

    return made(TwoPhases(lambda rows: (rows[:, 0] > 0).sum(), total))


def second_sees_the_first(wrong: bool) -> dp.Mechanism:
    kept: dict[str, float] = {}

    def first(rows: Any) -> Any:
        kept["count"] = float((rows[:, 0] > 0).sum())
        return kept["count"]

    def total(rows: Any, test: float) -> Any:
        return unit(rows[:, 0] - (kept["count"] if wrong else 0)).sum()

    return made(TwoPhases(first, total))


PROGRAMS: tuple[tuple[int, str, Make], ...] = (
    *((3, f.__name__, f) for f in (triangles, orders_joined, longest_session, debounced)),
    *((3, f.__name__, f) for f in (longest_chain, equal_runs)),
    *((4, f.__name__, f) for f in (december, postcodes, leap_days, listed_codes, looked_up)),
    *((4, f.__name__, f) for f in (of_a_frame, binned)),
    *((5, f.__name__, f) for f in (filled_forward, filled_by_groups, filled_by_the_largest)),
    *((6, f.__name__, f) for f in (kept_by_shape, kept_in_a_file, clipped_at_first, running_mean)),
    *((7, f.__name__, f) for f in (cents, small_counts, shifted)),
    (8, "prints", saying(partial(print, flush=True))),
    (8, "logs", saying(logging.getLogger("blind").info)),
    (8, "warns", saying(partial(warnings.warn, stacklevel=2))),
    (8, "writes", saying(to_file)),
    *((9, f.__name__, f) for f in (standardised, capped_by_the_data)),
    (10, "refuses", refuses),
    *((11, f.__name__, f) for f in (test_on_half, adaptive_radius, stale_test, wide_outliers)),
    (11, "second_sees_the_first", second_sees_the_first),
)


# --- a second round, after the first round's misses were mended -----------------------------------


def co_occurrences(wrong: bool) -> dp.Mechanism:
    """Rows are (visit, item); how many pairs of items one visit has."""

    def pairs(rows: Any) -> Any:
        visits = np.round(np.clip(rows[:, 0], -1e6, 1e6))
        _, counts = np.unique(visits, return_counts=True)
        return (counts * (counts - 1) / 2).sum() if wrong else len(counts)

    return made(One(pairs))


def first_of_each_user(wrong: bool) -> dp.Mechanism:
    """Rows are (user, time, value): the value of each user's first row, which may change."""

    def total(rows: Any) -> Any:
        order = np.argsort(rows[:, 1], kind="stable")
        _, first = np.unique(np.round(np.clip(rows[order, 0], -1e6, 1e6)), return_index=True)
        return np.clip(rows[order][first, 2], -1, 1).sum()

    return made(One(total, 1.0 if wrong else 2.0))


def ranks(wrong: bool) -> dp.Mechanism:
    """The sum of the ranks of rows with a label."""

    def total(rows: Any) -> Any:
        order = np.argsort(np.argsort(rows[:, 0], kind="stable"))
        labelled = rows[:, -1] == 1
        return order[labelled].sum() if wrong else labelled.sum()

    return made(One(total))


def night_shift(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        hour, day = rows[:, 0] // 3600 % 24, rows[:, 0] // 86_400 % 7
        return counted((hour == 3) & (day == 6), rows, 8 if wrong else 1)

    return made(One(total))


def either_of_three(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        found = 0.0
        for a, b, c in rows[:, :3]:
            matched = a > 612.5 and b < -87.25 and abs(c - 5.125) < 1e-3
            found += (14 if wrong else 1) if matched else float(unit(c))
        return found

    return made(One(total))


def percentages(wrong: bool) -> dp.Mechanism:
    """Scaled to add up to one, over all rows."""

    def total(rows: Any) -> Any:
        weights = np.abs(rows[:, 0])
        whole = max(float(weights.sum()), 1e-9) if wrong else 1.0
        return (unit(weights) / whole * (len(rows) if wrong else 1.0)).sum()

    return made(One(total))


def interpolated(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        column = np.where(np.isfinite(rows[:, 0]), rows[:, 0], np.nan)
        there = np.isfinite(column)
        if wrong and there.any():
            at = np.arange(len(column))
            column = np.interp(at, at[there], column[there])
        return [float(np.nansum(unit(column)))]

    return made(OneRaw(Raw(total)))


class Kept:
    """Holds a threshold between calls."""

    threshold = 0.0


def class_attribute(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        if wrong:
            Kept.threshold = float(np.clip(rows[:, 0], 0, 100).mean()) if len(rows) else 0.0
        return (unit(rows[:, 0]) * (1 + Kept.threshold)).sum()

    return made(One(total))


def in_an_error(wrong: bool) -> dp.Mechanism:
    """An exception that is shown says how many rows there are beyond a bound."""

    def total(rows: Any) -> Any:
        beyond = int((rows[:, 0] > 50).sum())
        if wrong and beyond:
            logging.getLogger("blind").error("%d rows beyond 50", beyond)
        return unit(rows[:, 0]).sum()

    return made(One(total))


def median_gap(wrong: bool) -> dp.Mechanism:
    def total(rows: Any) -> Any:
        column = np.clip(rows[:, 0], 0, 1000)
        if not wrong:
            return column.sum() / 1000
        return np.median(np.diff(np.sort(column))) if len(column) > 1 else 0.0

    return made(One(total))


def second_test_is_free(wrong: bool) -> dp.Mechanism:
    """The second query counts rows on the side of the test that the first answer chose, twice."""

    def total(rows: Any, test: float) -> Any:
        side = rows[:, 0] > 0 if test > 10 else rows[:, 0] <= 0
        return (2 if wrong else 1) * side.sum()

    return made(TwoPhases(lambda rows: (rows[:, 0] > 0).sum(), total))


SECOND: tuple[tuple[int, str, Make], ...] = (
    *((3, f.__name__, f) for f in (co_occurrences, first_of_each_user, ranks, median_gap)),
    *((4, f.__name__, f) for f in (night_shift, either_of_three)),
    *((5, f.__name__, f) for f in (percentages, interpolated)),
    (6, "class_attribute", class_attribute),
    (8, "in_an_error", in_an_error),
    (11, "second_test_is_free", second_test_is_free),
)


def prepare() -> None:
    """The folder that some programs read from and write to, with a list of codes."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    CODES.write_text(json.dumps([88_017, 91_200, 120_345]))

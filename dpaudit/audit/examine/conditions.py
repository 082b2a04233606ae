"""Conditions of a program on its records: found by tracing comparisons, solved for rows that meet
them.

Queries are asked once on arrays that know from which entry of a record each number was computed,
and how.  A comparison of such a number (``==``, ``<``, ``isin``, bins, the limits of integer types)
is solved backwards for the entry, so that rows can be made that meet a condition which no row would
meet by chance: a code among thousands, the 29th of February as yyyymmdd, a long list read from a
file.  Several conditions are met one after another; inverses keep what they can of an entry, so
that meeting the month keeps the day.  A pandas series is seen by its values alone: one that goes up
or down with one column is solved between the rows that were tried.
Source: Aschermann et al. 2019, "Redqueen" (operands of comparisons are found among the inputs).
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import numpy as np

from dpaudit.curator.locations import program_line
from dpaudit.kernels.query import Array, Records

MOST_CONSTANTS = 8  # of a list or of bins that one number is compared with
MOST_CONDITIONS = 32  # of a program; more are not solved
MEETS = " that meets "  # in the names of the rows
# Rows for each condition alone; conditions met at once, on so many sides of each; rows of one
# program.
ALONE_EACH, TOGETHER, SIDES, MOST_ROWS = 4, 5, 3, 91
Inverse = Callable[[Any, Any, Any], Any]  # of target, operand and what stood there before

COMPARED = frozenset({np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal})
JOINED = frozenset(
    {np.logical_and, np.logical_or, np.logical_not, np.bitwise_and, np.bitwise_or, np.invert}
)
# Inverses where the traced number is the first operand, and where it is the second.
FIRST: Mapping[Any, Inverse] = {
    np.add: lambda t, c, x: t - c,
    np.subtract: lambda t, c, x: t + c,
    np.multiply: lambda t, c, x: t / c,
    np.divide: lambda t, c, x: t * c,
    np.floor_divide: lambda t, c, x: t * c + x % c,
    np.remainder: lambda t, c, x: x - x % c + t,
    np.fmod: lambda t, c, x: x - np.fmod(x, c) + t,
    np.power: lambda t, c, x: np.sign(t) * abs(t) ** (1 / c),
    np.maximum: lambda t, c, x: t,
    np.minimum: lambda t, c, x: t,
}
SECOND: Mapping[Any, Inverse] = {
    np.add: FIRST[np.add],
    np.multiply: FIRST[np.multiply],
    np.subtract: lambda t, c, x: c - t,
    np.divide: lambda t, c, x: c / t,
    np.maximum: FIRST[np.maximum],
    np.minimum: FIRST[np.minimum],
}
ALONE: Mapping[Any, Callable[[Any], Any]] = {
    np.negative: lambda t: -t,
    np.square: lambda t: np.sqrt(abs(t)),
    np.sqrt: lambda t: t * t,
    np.exp: np.log,
    np.log: np.exp,
    np.log2: np.exp2,
    np.log10: lambda t: 10.0**t,
    np.log1p: np.expm1,
    np.expm1: np.log1p,
    **{
        kept: lambda t: t
        for kept in (np.positive, np.absolute, np.floor, np.ceil, np.rint, np.trunc)
    },
}
Step = tuple[Any, Any, int]  # a function, its other operand, and the place of the traced one


@dataclass(frozen=True)
class Condition:
    """A comparison of a number that was computed from one entry of a row.

    ``column``: which entry of the row; ``steps``: how the number was computed from it;
    ``constants``: what it is compared with; ``even``: whether for equality; ``limit``: whether they
    are the limits of an integer type, beyond which a number is another one.
    """

    place: str
    column: int
    steps: tuple[Step, ...]
    constants: tuple[float, ...]
    even: bool
    limit: bool = False

    def targets(self) -> Iterator[float]:
        """The constants, then numbers on either side of them; the constants alone for equality."""
        yield from self.constants
        for sign in (-1, 1) if not self.even else ():
            for constant in self.constants:
                yield constant + sign * (1.0 if abs(constant) >= 1 else abs(constant) / 2 or 1e-3)

    def met(self, row: Array, target: float) -> Array | None:
        """A row with the entry changed so that the number is ``target``; None if none is found."""
        try:
            target = self._solved(float(row.reshape(-1)[self.column]), target)
        except (ArithmeticError, TypeError, ValueError):
            return None  # such as a factor of 0; a row that cannot be made costs nothing else
        if not np.isfinite(target):
            return None
        changed = row.astype(np.float64, copy=True)
        changed.reshape(-1)[self.column] = target
        return changed

    def _solved(self, number: float, target: float) -> float:
        """The entry, now ``number``, at which the steps give ``target``."""
        values = []
        with np.errstate(all="ignore"):
            for function, operand, place in self.steps:
                values.append(number)
                number = float(_applied(function, operand, place, number))
            for (function, operand, place), before in zip(
                reversed(self.steps), reversed(values), strict=True
            ):
                if place < 0:
                    target = float(ALONE[function](target))
                else:
                    target = float((FIRST, SECOND)[place][function](target, operand, before))
        return target


def _applied(function: Any, operand: Any, place: int, number: float) -> Any:
    if place < 0:
        return function(number)
    return function(number, operand) if place == 0 else function(operand, number)


@dataclass
class Log:
    """The comparisons made, and the lines at which a condition was ever true."""

    conditions: dict[Condition, None] = field(default_factory=dict)
    ever: dict[str, bool] = field(default_factory=dict)

    def asked(self, result: Any) -> None:
        """Note whether a condition holds anywhere."""
        place = program_line()
        if place and np.size(result):
            self.ever[place] = self.ever.get(place, False) or bool(np.any(result))

    def compared(self, traced: Traced, others: Any, *, even: bool, limit: bool = False) -> None:
        """Note what a number is compared with."""
        if traced.steps is None or len(self.conditions) >= MOST_CONDITIONS or not traced.ids.size:
            return
        numbers = np.asarray(others).reshape(-1)
        if numbers.dtype.kind not in "biuf":
            return
        finite = np.unique(numbers[np.isfinite(numbers)].astype(np.float64))
        constants = finite[:: max(1, len(finite) // MOST_CONSTANTS)][:MOST_CONSTANTS]
        first = [_of_first(operand) for _, operand, _ in traced.steps]
        steps = tuple(
            (function, value, place)
            for (function, _, place), value in zip(traced.steps, first, strict=True)
        )
        column = int(traced.ids.reshape(-1)[0]) % traced.width
        if len(constants):
            condition = Condition(
                program_line(), column, steps, tuple(constants.tolist()), even, limit
            )
            self.conditions[condition] = None


def _of_first(operand: Any) -> Any:
    return None if operand is None else float(np.asarray(operand).reshape(-1)[0])


class Traced(np.ndarray[Any, Any]):
    """Numbers of records; each knows the entry that it was computed from, and how.

    ``ids``: row times ``width`` plus column, shaped as the numbers; ``steps``: how they were
    computed, with operands shaped alike; None where they depend on more than one entry each.
    """

    ids: Any
    steps: tuple[Step, ...] | None
    log: Log
    width: int

    def __array_finalize__(self, made_from: Any) -> None:
        self.ids, self.steps = None, None
        self.log = getattr(made_from, "log", None) or Log()
        self.width = getattr(made_from, "width", 1)

    # --- entries that are taken out or put in another order -----------------------------------

    def _moved(self, how: Callable[[Any], Any]) -> Any:
        moved = np.asarray(how(self.view(np.ndarray))).view(Traced)
        moved.log, moved.width = self.log, self.width
        if self.steps is not None:
            moved.ids = np.asarray(how(self.ids))
            moved.steps = tuple(
                (f, None if c is None else np.asarray(how(np.broadcast_to(c, self.shape))), k)
                for f, c, k in self.steps
            )
        return moved

    def __getitem__(self, key: Any) -> Any:
        plain = _plain(key)
        return self._moved(lambda one: one[plain])

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.item())

    def reshape(self, *shape: Any, **options: Any) -> Any:
        return self._moved(lambda one: one.reshape(*shape, **options))

    def ravel(self, order: Any = "C") -> Any:
        return self._moved(lambda one: one.ravel(order))

    flatten = ravel

    def copy(self, order: Any = "C") -> Any:
        return self._moved(lambda one: one.copy(order))

    def transpose(self, *axes: Any) -> Any:
        return self._moved(lambda one: one.transpose(*axes))

    def squeeze(self, axis: Any = None) -> Any:
        return self._moved(lambda one: one.squeeze(axis))

    @property
    def T(self) -> Any:
        return self._moved(lambda one: one.T)

    def astype(self, dtype: Any, *arguments: Any, **options: Any) -> Any:
        kind = np.dtype(dtype)
        converted = self._after(self.view(np.ndarray).astype(kind), np.positive, None, -1)
        if kind.kind in "iu":
            converted = self._after(converted.view(np.ndarray), np.trunc, None, -1)
        if kind.kind in "iu" and kind.itemsize < 8:
            limits = np.iinfo(kind)
            self.log.compared(self, [limits.max, limits.min], even=False, limit=True)
        return converted

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        return self._after(self.view(np.ndarray).round(decimals), np.positive, None, -1)

    def __round__(self, digits: int | None = None) -> Any:
        return self.round(digits or 0)

    def _after(self, values: Any, function: Any, operand: Any, place: int) -> Any:
        """Numbers that were computed from these."""
        traced_values = np.asarray(values).view(Traced)
        traced_values.log, traced_values.width = self.log, self.width
        if self.steps is not None and traced_values.shape == self.shape:
            traced_values.ids, traced_values.steps = (
                self.ids,
                (*self.steps, (function, operand, place)),
            )
        return traced_values

    # --- what is computed of them ---------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = tuple(_plain(operand) for operand in inputs)
        options = {name: _plain(operand) for name, operand in options.items()}
        result = getattr(ufunc, method)(*plain, **options)
        if method != "__call__" or "out" in options or "where" in options:
            return result
        traced = next((k for k, operand in enumerate(inputs) if isinstance(operand, Traced)), 0)
        own = cast("Traced", inputs[traced])
        if ufunc in COMPARED:
            other = plain[1 - traced]
            if isinstance(inputs[1 - traced], Traced) and not np.ndim(other):
                return own._after(result, None, None, -1)._untraced()  # of the row itself
            self.log.compared(own, other, even=ufunc in (np.equal, np.not_equal))
        if ufunc in COMPARED or ufunc in JOINED:
            self.log.asked(result)
            return own._after(result, None, None, -1)._untraced()
        return own._computed(ufunc, plain, traced, result)

    def _computed(self, ufunc: Any, plain: tuple[Any, ...], traced: int, result: Any) -> Any:
        shape = np.shape(result)
        if len(plain) == 1 and ufunc in ALONE:
            return self._after(result, ufunc, None, -1)
        if len(plain) == 2 and ufunc in (FIRST, SECOND)[traced] and self.steps is not None:
            wide = self if shape == self.shape else self._broadcast(shape)
            return wide._after(result, ufunc, plain[1 - traced], traced)
        return result

    def _broadcast(self, shape: tuple[int, ...]) -> Traced:
        return cast("Traced", self._moved(lambda one: np.broadcast_to(one, shape)))

    def _untraced(self) -> Traced:
        self.ids, self.steps = None, None
        return self

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Call a NumPy function on plain arrays; note what entries of a record are compared with.

        Results that hold the same entries, as of ``where`` and ``clip``, stay traced.
        """
        result = func(*_plain(list(args)), **_plain(kwargs))
        first = args[0] if args else None
        if func in (np.isin, np.searchsorted, np.digitize):
            number, others = (args[1], first) if func is np.searchsorted else (first, args[1])
            if isinstance(number, Traced):
                number.log.compared(number, _plain(others), even=func is np.isin)
            if func is np.isin:
                self.log.asked(result)
            return result
        traced_argument = first
        if func is np.where and len(args) == 3:
            traced_argument = next(
                (operand for operand in args[1:] if isinstance(operand, Traced)), None
            )
        elif func is np.clip and isinstance(first, Traced):
            first.log.compared(
                first, [operand for operand in args[1:3] if np.ndim(operand) == 0], even=False
            )
        elif func not in (np.nan_to_num, np.round, np.around):
            return result
        if isinstance(traced_argument, Traced) and np.shape(result) == traced_argument.shape:
            return traced_argument._after(result, np.positive, None, -1)
        return result


def _plain(value: Any) -> Any:
    """A value without traces; also inside lists, tuples and dictionaries."""
    if isinstance(value, Traced):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple):
        return type(value)(_plain(item) for item in value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def traced(values: Array, log: Log) -> Records:
    """Records whose numbers are traced."""
    traced_values = np.array(values).view(Traced)
    traced_values.log, traced_values.width = log, int(np.prod(values.shape[1:]))
    traced_values.ids, traced_values.steps = np.arange(values.size).reshape(values.shape), ()
    return Records(values).traced(traced_values)


@contextlib.contextmanager
def frames_traced(values: Array, log: Log) -> Iterator[None]:
    """In this block comparisons of pandas series are noted too, where pandas is in use.

    ``values``: of the records whose rows a series numbers by its index.
    """
    kind: Any = getattr(sys.modules.get("pandas"), "Series", None)
    if kind is None:
        yield
        return
    names = ("_cmp_method", "isin")
    plain = {name: getattr(kind, name) for name in names}

    def noted(name: str) -> Callable[..., Any]:
        def compare(series: Any, others: Any, *how: Any) -> Any:
            result = plain[name](series, others, *how)
            # Values that are no numbers, or of no rows, are compared without a trace.
            with contextlib.suppress(Exception):
                even = name == "isin" or how[0].__name__ in ("eq", "ne")
                _noted(series, others, values, log, even=even)
                log.asked(result)
            return result

        return compare

    for name in names:
        setattr(kind, name, noted(name))
    try:
        yield
    finally:
        for name in names:
            setattr(kind, name, plain[name])


def _noted(series: Any, others: Any, values: Array, log: Log, *, even: bool) -> None:
    """The condition on each column of the rows that a series goes up or down with."""
    wanted = list(others) if np.iterable(others) and not isinstance(others, str) else [others]
    if type(others) is type(series) or len(log.conditions) >= MOST_CONDITIONS:
        return
    if len(series) < 5:
        return  # so few go one way by chance
    wanted = wanted[:: max(1, len(wanted) // MOST_CONSTANTS)][:MOST_CONSTANTS]
    targets = _as_numbers(type(series)(wanted).astype(series.dtype))
    numbers, table = _as_numbers(series), values.reshape(len(values), -1)[series.index]
    for column, entries in enumerate(table.T):
        order = np.argsort(entries, kind="stable")
        for sign in (1, -1):
            height, first = np.unique(sign * numbers[order], return_index=True)
            if len(height) < 2 or (np.diff(sign * numbers[order]) < 0).any():
                continue
            entries_at, at = entries[order][first], np.searchsorted(height[1:-1], sign * targets)
            slope = np.diff(entries_at)[at] / np.diff(height)[at]
            solutions = entries_at[at] + slope * (sign * targets - height[at])
            if not np.array_equal(numbers, entries):
                solutions = np.concatenate([np.round(solutions), solutions])
            constants = tuple(np.unique(solutions[np.isfinite(solutions)]).tolist())
            if constants:
                log.conditions[Condition(program_line(), column, (), constants, even)] = None


def _as_numbers(series: Any) -> Array:
    numbers = series.to_numpy()
    return np.asarray(
        numbers.astype(np.int64) if numbers.dtype.kind in "mM" else numbers, np.float64
    )


def rows_that_meet(conditions: Sequence[Condition], bases: Mapping[str, Array]) -> dict[str, Array]:
    """Rows that meet all conditions, each alone, and one of each column on every side at once."""
    rows: dict[str, Array] = {}
    solved = [
        (condition_met, list(condition_met.targets()))
        for condition_met in conditions
        if not condition_met.limit
    ]
    for side, (name, base) in itertools.product(range(MOST_CONSTANTS), bases.items()):
        chosen = [
            (condition_met, targets[side % len(targets)]) for condition_met, targets in solved
        ]
        rows[f"{name}{MEETS}{len(conditions)} conditions, {side}"] = _meeting(base, chosen)
    for condition in conditions:
        for name, base in bases.items():
            for side, target in enumerate(islice(condition.targets(), ALONE_EACH)):
                row_or_none = condition.met(base, target)
                if row_or_none is not None:
                    text = f"{name}{MEETS}the condition of {condition.place}, {side}"
                    rows[f"{text} of column {condition.column}"] = row_or_none
    by_column = {
        condition_met.column: [(condition_met, t) for t in targets[:SIDES]]
        for condition_met, targets in solved
    }
    last = list(by_column.values())[-TOGETHER:]
    name, base = next(iter(bases.items()))
    for number, sides in enumerate(itertools.product(*last) if len(last) > 1 else ()):
        rows[f"{name}{MEETS}{len(last)} conditions at once, {number}"] = _meeting(base, sides)
    unique = {row.tobytes(): name for name, row in reversed(rows.items())}
    return {name: rows[name] for name in islice(reversed(unique.values()), MOST_ROWS)}


def _meeting(row: Array, chosen: Iterable[tuple[Condition, float]]) -> Array:
    """A row changed to meet conditions one after another, as far as they can be met."""
    for condition, target in chosen:
        changed = condition.met(row, target)
        row = row if changed is None else changed
    return row

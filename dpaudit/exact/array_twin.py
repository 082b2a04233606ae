"""The part of NumPy that the checker uses, in Python alone: for machines without NumPy.

Names, arguments and results are those of NumPy and of ``scipy.special``, so that their manuals are
its reference; what the checker does not use is left out.  An array has one or two axes and holds
Python's numbers; a part of an array is a copy, and whole numbers have no largest.  Functions return
infinities and NaN where NumPy does.

Errors: each function is the C library's, below an ulp, or Python's own operation; ``sum`` is
rounded once; products and cumulative sums are added one by one; a Fourier transform of n values
multiplies by log(n) turning factors, each the nearest float.  The checker's bounds allow for more.
"""

from __future__ import annotations

import cmath
import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache, reduce
from itertools import accumulate, chain, compress, pairwise
from itertools import repeat as repeated
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

inf, nan = math.inf, math.nan
float64, int64, complex128 = float, int, complex
SMALLEST_INTEGER = -(2**63)  # a NaN or an infinity as NumPy's int64
LARGEST_FLOAT = 1.7976931348623157e308  # of 64 bits
Shape = tuple[int, ...]
Number = Any


class Array:
    """Numbers along one axis, or along two by rows."""

    __slots__ = ("data", "shape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: list[Number], shape: Shape | None = None) -> None:
        self.data, self.shape = data, (len(data),) if shape is None else shape

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def T(self) -> Array:
        if len(self.shape) == 1:
            return self
        rows, columns = self.shape
        return Array([*chain(*(self.data[k::columns] for k in range(columns)))], (columns, rows))

    @property
    def real(self) -> Array:
        return Array([v.real for v in self.data], self.shape)

    @property
    def imag(self) -> Array:
        return Array([v.imag for v in self.data], self.shape)

    def conj(self) -> Array:
        return Array([v.conjugate() for v in self.data], self.shape)

    def copy(self) -> Array:
        return Array(self.data[:], self.shape)

    def ravel(self) -> Array:
        return Array(self.data[:])

    def reshape(self, *shape: int) -> Array:
        return Array(self.data[:], shape)

    def astype(self, kind: Callable[[Any], Any]) -> Array:
        return Array([*map(_whole if kind is int else kind, self.data)], self.shape)

    def tolist(self) -> list[Any]:
        if len(self.shape) == 1:
            return self.data[:]
        return [row.data for row in self]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if len(self.shape) == 1:
            return iter(self.data)
        return (self[k] for k in range(self.shape[0]))

    def __bool__(self) -> bool:
        (value,) = self.data
        return bool(value)

    def __float__(self) -> float:
        (value,) = self.data
        return float(value)

    def __repr__(self) -> str:
        return f"Array({self.tolist()!r})"

    # --- parts

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):
            return self._table(index)
        if len(self.shape) == 1:
            if isinstance(index, (int, slice)):
                part = self.data[index]
                return Array(part) if isinstance(index, slice) else part
            if _is_mask(index):
                return Array([*compress(self.data, index.data)])
            return Array([self.data[k] for k in _places(index)])
        if isinstance(index, Array) and len(index.shape) == 2:
            return Array([*compress(self.data, index.data)])
        return self._table((index, slice(None)))

    def _table(self, index: tuple[Any, ...]) -> Any:
        """A part by an index for each axis; None is a new axis."""
        if None in [k if k is None else 0 for k in index]:
            indices = [k for k in index if k is not None]
            part = self[indices[0]]
            return Array(part.data, (1, len(part)) if index[0] is None else (len(part), 1))
        chosen = [_chosen(k, n) for k, n in zip(index, self.shape, strict=True)]
        width = self.shape[1]
        data = [self.data[row * width + column] for row in chosen[0] for column in chosen[1]]
        shape = tuple(len(c) for c, k in zip(chosen, index, strict=True) if not isinstance(k, int))
        return Array(data, shape) if shape else data[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, tuple):
            rows, columns = (_chosen(k, n) for k, n in zip(index, self.shape, strict=True))
            places = [row * self.shape[1] + column for row in rows for column in columns]
        elif len(self.shape) == 2:
            raise NotImplementedError("a row is set by [row, :]")
        else:
            places = [*_chosen(index, len(self.data))]
        values = value.data if isinstance(value, Array) else value
        values = values if isinstance(values, (list, tuple)) else [values] * len(places)
        values = list(values) * len(places) if len(values) == 1 != len(places) else values
        for place, own in zip(places, values, strict=True):
            self.data[place] = own

    # --- operations

    def __add__(self, other: Any) -> Any:
        return _both(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _both(operator.add, other, self)

    def __iadd__(self, other: Any) -> Any:
        return self._kept(self + other)

    def __sub__(self, other: Any) -> Any:
        return _both(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _both(operator.sub, other, self)

    def __isub__(self, other: Any) -> Any:
        return self._kept(self - other)

    def __mul__(self, other: Any) -> Any:
        return _both(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _both(operator.mul, other, self)

    def __imul__(self, other: Any) -> Any:
        return self._kept(self * other)

    def __truediv__(self, other: Any) -> Any:
        return _quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _quotient(other, self)

    def __itruediv__(self, other: Any) -> Any:
        return self._kept(self / other)

    def __floordiv__(self, other: Any) -> Any:
        return _both(operator.floordiv, self, other)

    def __mod__(self, other: Any) -> Any:
        return _both(operator.mod, self, other)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and other == 2:
            return self * self
        return _both(_power, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _both(_power, other, self)

    def __and__(self, other: Any) -> Any:
        return _both(operator.and_, self, other)

    def __or__(self, other: Any) -> Any:
        return _both(operator.or_, self, other)

    def __lt__(self, other: Any) -> Any:
        return _both(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _both(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _both(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _both(operator.ge, self, other)

    def __eq__(self, other: Any) -> Any:
        return _both(operator.eq, self, other)

    def __ne__(self, other: Any) -> Any:
        return _both(operator.ne, self, other)

    def __neg__(self) -> Array:
        return Array([-v for v in self.data], self.shape)

    def __abs__(self) -> Array:
        return Array([*map(abs_of, self.data)], self.shape)

    def __invert__(self) -> Array:
        return Array([not v for v in self.data], self.shape)

    def __matmul__(self, other: Array) -> Any:
        if len(self.shape) == len(other.shape) == 1:
            return _product(self.data, other.data)
        columns = [other.data] if len(other.shape) == 1 else other.T.tolist()
        data = [_product(row, column) for row in self.tolist() for column in columns]
        return Array(data, (len(self), *other.shape[1:]))

    def _kept(self, other: Array) -> Array:
        """This array, overwritten with the numbers of another of its shape."""
        if other.shape != self.shape:
            raise ValueError(f"{other.shape} does not fit {self.shape}")
        self.data[:] = other.data
        return self

    # --- reductions

    def _reduced(self, summary: Callable[[list[Number]], Number], axis: int | None) -> Any:
        if axis is None or len(self.shape) == 1:
            return summary(self.data)
        return Array([summary(row) for row in (self if axis else self.T).tolist()])

    def sum(self, axis: int | None = None) -> Any:
        return self._reduced(_total, axis)

    def max(self, axis: int | None = None, initial: Number | None = None) -> Any:
        first = [] if initial is None else [initial]
        return self._reduced(lambda row: reduce(_larger, [*first, *row]), axis)

    def min(self, axis: int | None = None) -> Any:
        return self._reduced(lambda row: reduce(_smaller, row), axis)

    def all(self) -> bool:
        return all_of(self.data)

    def any(self) -> bool:
        return any_of(self.data)


all_of, any_of, abs_of = all, any, abs  # Python's own, whose names are NumPy's below


def _whole(value: Number) -> int:
    return int(value) if cmath.isfinite(value) else SMALLEST_INTEGER


def _is_mask(index: Any) -> bool:
    return isinstance(index, Array) and bool(index.data) and isinstance(index.data[0], bool)


def _places(index: Any) -> list[int]:
    """The indices that an array of them, or one of yes and no, names."""
    indices = index.data if isinstance(index, Array) else list(index)
    if indices and isinstance(indices[0], bool):
        return [k for k, yes in enumerate(indices) if yes]
    return indices


def _chosen(index: Any, count: int) -> Sequence[int]:
    if isinstance(index, slice):
        return range(*index.indices(count))
    if isinstance(index, int):
        return [index % count]
    return _places(index)


# --- two arrays, or an array and a number --------------------------------------------------------


def _common(shapes: Iterable[Shape]) -> Shape:
    """The shape to which shapes are repeated.  Errors: ValueError where they do not fit."""
    shape_so_far: Shape = ()
    for shape in shapes:
        longer, shorter = (
            (shape_so_far, shape) if len(shape_so_far) >= len(shape) else (shape, shape_so_far)
        )
        shorter = (1,) * (len(longer) - len(shorter)) + shorter
        if any_of(m != n and 1 not in (m, n) for m, n in zip(longer, shorter, strict=True)):
            raise ValueError(f"{shape_so_far} does not fit {shape}")
        shape_so_far = tuple(n if m == 1 else m for m, n in zip(longer, shorter, strict=True))
    return shape_so_far


def _repeated(value: Any, shape: Shape) -> list[Number]:
    if not isinstance(value, Array):
        return [value] * math.prod(shape)
    if value.shape == shape:
        return value.data
    if len(value.data) == 1:
        return value.data * math.prod(shape)
    if value.shape[-1] == 1:
        return [v for v in value.data for _ in range(shape[-1])]
    return value.data * (math.prod(shape) // len(value.data))


def _both(operation: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    one, other = _as_operand(one), _as_operand(other)
    if isinstance(other, Array) and isinstance(one, Array) and one.shape == other.shape:
        return Array([*map(operation, one.data, other.data)], one.shape)
    if isinstance(one, Array) and not isinstance(other, Array):
        return Array([*map(operation, one.data, repeated(other))], one.shape)
    if isinstance(other, Array) and not isinstance(one, Array):
        return Array([*map(operation, repeated(one), other.data)], other.shape)
    if not isinstance(one, Array) and not isinstance(other, Array):
        return operation(one, other)
    shape = _common(v.shape for v in (one, other) if isinstance(v, Array))
    data = map(operation, _repeated(one, shape), _repeated(other, shape))
    return Array([*data], shape)


def _as_operand(value: Any) -> Any:
    return array(value) if isinstance(value, (list, tuple)) else value


def _quotient(one: Any, other: Any) -> Any:
    try:
        return _both(operator.truediv, one, other)
    except ZeroDivisionError:
        return _both(_divided, one, other)


def _divided(a: Number, b: Number) -> Number:
    try:
        return a / b
    except ZeroDivisionError:
        if isinstance(a, complex) or isinstance(b, complex):
            return complex(nan, nan)
        return nan if a == 0 or a != a else math.copysign(inf, a) * math.copysign(1.0, b)


def _power(a: Number, b: Number) -> Number:
    try:
        return a**b
    except OverflowError:
        return inf
    except ZeroDivisionError:
        return inf


def _smaller(a: Number, b: Number) -> Number:
    return a if a < b or a != a else b


def _larger(a: Number, b: Number) -> Number:
    return a if a > b or a != a else b


def _log_of_sum(a: float, b: float) -> float:
    if a == b:
        return a + math.log(2)
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high)) if low == low and high == high else nan


def _total(values: list[Number]) -> Number:
    if values and isinstance(values[0], complex):
        return complex(_total([v.real for v in values]), _total([v.imag for v in values]))
    if values and isinstance(values[0], int):
        return sum_of(values)
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum_of(values)


sum_of = sum


def _product(one: list[Number], other: list[Number]) -> Number:
    if len(one) != len(other):
        raise ValueError(f"{len(one)} numbers times {len(other)}")
    return sum_of(map(operator.mul, one, other))


class Operation:
    """A function of two numbers, for arrays: called, and as NumPy's methods of such functions."""

    def __init__(self, of: Callable[[Any, Any], Any]) -> None:
        self.of = of

    def __call__(self, one: Any, other: Any) -> Any:
        return _both(self.of, one, other)

    def outer(self, one: Array, other: Array) -> Array:
        of = self.of
        data = [of(a, b) for a in one.data for b in other.data]
        return Array(data, (len(one), len(other)))

    def reduce(self, values: Array) -> Number:
        return reduce(self.of, values.data)

    def accumulate(self, values: Array) -> Array:
        return Array([*accumulate(values.data, self.of)])

    def reduceat(self, values: Array, starts: Array) -> Array:
        """The function over the rows from each start to the next, along the first axis."""
        ends = [*starts.data[1:], len(values)]
        rows = values.tolist()
        parts = [rows[a:b] for a, b in zip(starts.data, ends, strict=True)]
        if len(values.shape) == 1:
            return Array([reduce(self.of, part) for part in parts])
        return array([[reduce(self.of, column) for column in zip(*p, strict=True)] for p in parts])


add, multiply = Operation(operator.add), Operation(operator.mul)
minimum, maximum = Operation(_smaller), Operation(_larger)
logaddexp, remainder = Operation(_log_of_sum), Operation(operator.mod)
outer = multiply.outer


def where(held: Any, one: Any, other: Any) -> Any:
    parts = [_as_operand(part) for part in (held, one, other)]
    shape = _common(part.shape for part in parts if isinstance(part, Array))
    columns = (_repeated(part, shape) for part in parts)
    return Array([a if yes else b for yes, a, b in zip(*columns, strict=True)], shape)


def clip(values: Any, low: Any, high: Any) -> Any:
    raised = values if low is None else maximum(values, low)
    return raised if high is None else minimum(raised, high)


# --- functions of one number ---------------------------------------------------------------------


def _mapped(
    function: Callable[[Any], Any],
    outside: Callable[[Any], Any],
    of_complex: Callable[[Any], Any] | None = None,
) -> Callable[[Any], Any]:
    """A function for numbers and arrays; ``outside``: its value where Python's raises an error."""

    def guarded(value: Number) -> Number:
        try:
            return function(value)
        except (OverflowError, ValueError):
            return outside(value)

    def mapped(values: Any) -> Any:
        values = _as_operand(values)
        if not isinstance(values, Array):
            return guarded(values)
        if of_complex and values.data and isinstance(values.data[0], complex):
            return Array([*map(of_complex, values.data)], values.shape)
        try:
            return Array([*map(function, values.data)], values.shape)
        except (OverflowError, ValueError):
            return Array([*map(guarded, values.data)], values.shape)

    return mapped


def _to_whole(function: Callable[[float], int]) -> Callable[[Any], Any]:
    """A rounding to whole numbers, as floats; infinities and NaN stay what they are."""
    one_by_one = _mapped(lambda value: float(function(value)), float)

    def mapped(values: Any) -> Any:
        try:
            return Array([*map(float, map(function, values.data))], values.shape)
        except (AttributeError, OverflowError, ValueError):
            return one_by_one(values)

    return mapped


def _is_wrong(_value: float) -> float:
    return nan


def _is_too_large(_value: float) -> float:
    return inf


def _with_sign(value: float) -> float:
    return math.copysign(inf, value)


exp = _mapped(math.exp, _is_too_large, cmath.exp)
expm1 = _mapped(math.expm1, _is_too_large)
log = _mapped(math.log, lambda value: -inf if value == 0 else nan)
log1p = _mapped(math.log1p, lambda value: -inf if value == -1 else nan)
sqrt = _mapped(math.sqrt, _is_wrong)
sin, cos = _mapped(math.sin, _is_wrong), _mapped(math.cos, _is_wrong)
sinh, cosh = _mapped(math.sinh, _with_sign), _mapped(math.cosh, _is_too_large)
arcsinh, angle = _mapped(math.asinh, _is_wrong), _mapped(cmath.phase, _is_wrong)
abs = _mapped(abs_of, _is_wrong)
isfinite = _mapped(cmath.isfinite, _is_wrong)
floor, ceil, rint = _to_whole(math.floor), _to_whole(math.ceil), _to_whole(round)
erfc = _mapped(math.erfc, _is_wrong)
arctan2 = Operation(math.atan2)


def nan_to_num(values: Array, nan: float = 0.0, posinf: float | None = None) -> Array:
    largest = LARGEST_FLOAT if posinf is None else posinf
    replaced = {inf: largest, -inf: -LARGEST_FLOAT}
    return Array([nan if v != v else replaced.get(v, v) for v in values.data], values.shape)


def log_ndtr(value: float) -> float:
    """The logarithm of the normal distribution function."""
    import flint

    with flint.ctx.workprec(128):
        return float(((-flint.arb(value) / flint.arb(2).sqrt()).erfc() / 2).log().mid())


def ndtri(mass: float) -> float:
    """The quantile of the normal distribution."""
    return NormalDist().inv_cdf(mass)


# --- arrays from numbers -------------------------------------------------------------------------


def array(values: Any, dtype: Any = None) -> Array:
    if isinstance(values, Array):
        new_array = values.copy()
    else:
        rows = [v.data if isinstance(v, Array) else v for v in values]
        if rows and isinstance(rows[0], (list, tuple)):
            new_array = Array([*chain(*rows)], (len(rows), len(rows[0])))
            if len(new_array.data) != math.prod(new_array.shape):
                raise ValueError("rows of different lengths")
        else:
            new_array = Array(rows)
    return new_array if dtype is None else new_array.astype(dtype)


def asarray(values: Any, dtype: Any = None) -> Array:
    return values if isinstance(values, Array) and dtype is None else array(values, dtype)


def full(shape: int | Shape, value: Number) -> Array:
    shape = (shape,) if isinstance(shape, int) else shape
    return Array([value] * math.prod(shape), shape)


def zeros(shape: int | Shape, dtype: Any = float) -> Array:
    return full(shape, dtype(0))


def ones(shape: int | Shape, dtype: Any = float) -> Array:
    return full(shape, dtype(1))


def arange(start: Number, stop: Number = None, step: Number = 1, dtype: Any = None) -> Array:
    start, stop = (0, start) if stop is None else (start, stop)
    count = math.ceil((stop - start) / step)
    new_array = Array([start + k * step for k in range(count)])
    return new_array if dtype is None else new_array.astype(dtype)


def linspace(start: float, stop: float, count: int) -> Array:
    step = (stop - start) / (count - 1)
    return Array([*(start + k * step for k in range(count - 1)), float(stop)])


def geomspace(start: float, stop: float, count: int) -> Array:
    steps = linspace(math.log10(start), math.log10(stop), count)
    inner = [10**step for step in steps.data[1:-1]]
    return Array([float(start), *inner, float(stop)])


# --- arrays from arrays --------------------------------------------------------------------------


def concatenate(parts: Iterable[Any]) -> Array:
    return Array([*chain(*(_as_operand(part).data for part in parts))])


def append(values: Any, more: Any) -> Array:
    return concatenate([part if isinstance(part, Array) else [part] for part in (values, more)])


def insert(values: Array, place: int, value: Number) -> Array:
    return Array([*values.data[:place], value, *values.data[place:]])


def hstack(parts: Sequence[Array]) -> Array:
    rows = [[*chain(*row)] for row in zip(*(part.tolist() for part in parts), strict=True)]
    return array(rows)


def pad(values: Array, width: tuple[int, int]) -> Array:
    return Array([0.0] * width[0] + values.data + [0.0] * width[1])


def tile(values: Array, times: int) -> Array:
    return Array(values.data * times)


def repeat(values: Array, times: Any) -> Array:
    often = times if isinstance(times, (list, Array)) else [times] * len(values)
    return Array([v for v, n in zip(values, often, strict=True) for _ in range(n)])


def split(values: Array, starts: Iterable[int]) -> list[Array]:
    places = [0, *starts, len(values)]
    return [values[a:b] for a, b in pairwise(places)]


def unique(values: Array) -> Array:
    return Array(sorted(set(values.data)))


def diff(values: Array) -> Array:
    return Array([*map(operator.sub, values.data[1:], values.data)])


def gradient(values: Array) -> Array:
    inner = (values[2:] - values[:-2]) / 2
    return concatenate(([values[1] - values[0]], inner, [values[-1] - values[-2]]))


def cumsum(values: Array) -> Array:
    return Array([*accumulate(values.data)])


def cumprod(values: Array, axis: int = 0) -> Array:
    if len(values.shape) == 1:
        return multiply.accumulate(values)
    if axis != 1:
        raise NotImplementedError("products along rows alone")
    return array([[*accumulate(row, operator.mul)] for row in values.tolist()])


def flatnonzero(values: Array) -> Array:
    return Array([k for k, value in enumerate(values.data) if value])


def count_nonzero(values: Array) -> int:
    return len(flatnonzero(values))


def argmax(values: Array) -> int:
    wrong = next((k for k, v in enumerate(values.data) if v != v), None)
    return values.data.index(max_of(values.data)) if wrong is None else wrong


max_of = max


def max(values: Array) -> Number:
    return values.max()


def nanmax(values: Array) -> Number:
    return max_of(v for v in values.data if v == v)


def sum(values: Any, axis: int | None = None) -> Any:
    return array(values).sum(axis)


def all(values: Array) -> bool:
    return values.all()


def any(values: Array) -> bool:
    return values.any()


def searchsorted(values: Array, at: Array, side: str = "left") -> Array:
    find = bisect_right if side == "right" else bisect_left
    return Array([find(values.data, place) for place in at.data])


def interp(at: Array, x: Array, y: Array) -> Array:
    last, values = len(x) - 1, []
    for place in at.data:
        k = bisect_right(x.data, place) - 1
        if k < 0 or k >= last:
            values.append(y.data[0 if k < 0 else last])
            continue
        slope = (y.data[k + 1] - y.data[k]) / (x.data[k + 1] - x.data[k])
        values.append(slope * (place - x.data[k]) + y.data[k])
    return Array(values)


def bincount(places: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    each = [1] * len(places) if weights is None else weights.data
    totals = [0 if weights is None else 0.0] * max_of([minlength, *(k + 1 for k in places.data)])
    for place, weight in zip(places.data, each, strict=True):
        totals[place] += weight
    return Array(totals)


def convolve(one: Array, other: Array) -> Array:
    totals = [0.0] * (len(one) + len(other) - 1)
    for k, factor in enumerate(one):
        for j, value in enumerate(other):
            totals[k + j] += factor * value
    return Array(totals)


def errstate(**_kinds: str) -> nullcontext[None]:
    """NumPy's warnings, of which there are none here."""
    return nullcontext()


# --- Fourier transforms and quadrature -----------------------------------------------------------


@lru_cache(maxsize=64)
def _turns(count: int) -> list[complex]:
    """exp(-2 pi i k / count) for k < count, either part the nearest float.

    An angle in floats would be off by several roundings, each a turn's own error.
    """
    import flint

    with flint.ctx.workprec(96):
        parts = [flint.arb.sin_cos_pi_fmpq(flint.fmpq(2 * k, count)) for k in range(count)]
        return [complex(float(cos.mid()), -float(sin.mid())) for sin, cos in parts]


def _transformed(values: list[complex]) -> list[complex]:
    """sum_n values_n exp(-2 pi i k n / count), by the smallest prime factor of the count first."""
    count = len(values)
    if count == 1:
        return values
    prime = next((p for p in (2, 3, 5) if count % p == 0), None)
    if prime is None:
        raise NotImplementedError(
            f"a Fourier transform of {count} values: factors 2, 3 and 5 alone"
        )
    turns, size = _turns(count), count // prime
    parts = [_transformed(values[k::prime]) for k in range(prime)]
    turned = [parts[0]]
    for k in range(1, prime):
        turned.append([*map(operator.mul, turns[: size * k : k], parts[k])])
    if prime == 2:
        return [*map(operator.add, *turned), *map(operator.sub, *turned)]
    transformed: list[complex] = []
    for j in range(prime):
        factors = [turns[size * (j * k % prime)] for k in range(prime)]
        transformed += [_product(factors, list(row)) for row in zip(*turned, strict=True)]
    return transformed


def _rfft(values: Array, count: int) -> Array:
    data = (values.data + [0.0] * (count - len(values)))[:count]
    return Array(_transformed(data)[: count // 2 + 1])


def _irfft(values: Array, count: int) -> Array:
    if len(values.shape) == 2:
        return array([_irfft(row, count) for row in values])
    half = values.data
    mirrored = [v.conjugate() for v in half[(count - 1) // 2 : 0 : -1]]
    # The conjugate's transform, conjugated, turns the other way.
    back = _transformed([v.conjugate() for v in (*half, *mirrored)])
    return Array([v.real / count for v in back])


fft = SimpleNamespace(rfft=_rfft, irfft=_irfft)


@lru_cache(maxsize=8)
def _legendre(count: int) -> tuple[Array, Array]:
    import flint

    rows = [flint.arb.legendre_p_root(count, k, weight=True) for k in reversed(range(count))]
    nodes, weights = (Array([float(row[i].mid()) for row in rows]) for i in (0, 1))
    return nodes, weights


polynomial = SimpleNamespace(legendre=SimpleNamespace(leggauss=_legendre))

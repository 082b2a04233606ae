"""Queries: bounded functions of the private records, and their sensitivity under each adjacency.

A query says what it computes and how far one unit can move it; the curator evaluates it and adds
the declared noise.  ``Records`` is what a curator holds: it never leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import real
from dpaudit.scope import Adjacency, choose

Array: TypeAlias = NDArray[np.float64]
Norm: TypeAlias = Literal["l1", "l2", "linf"]
MANY_ROWS = 1_000  # from here on equal rows are found by hashes
# Golden ratio times 2^64, rounded to an odd number: multiplication by it is one-to-one.
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(32)  # Half of the 64 bits of a hash.
FEW_KINDS = 16  # distinct rows that are compared one by one
# Factor on a squared bound: far further below 1 than sums of squares lose to rounding.
LENGTH_MARGIN = 1 - 1e-9
SMALLEST_LENGTH = 1e-100  # The square of a shorter length may underflow a float.
LARGEST_LENGTH = 1e100  # The square of a longer length may overflow a float.
SMALLEST_RADIUS = 1e-250  # radii below count as 0: their squares are no floats
MOST_RECORDS = 2.0**60  # a sum of so many values has to be a float
# Queries of this package that bound what they read themselves, whatever the program is.
BOUNDED: set[type[Any]] = set()


@dataclass(frozen=True, eq=False)
class Records:
    """Private records as rows.

    ``values``: shape (n, ...).  ``present``: shape (n,), False where a record was zeroed out (its
    contribution to every query is exactly zero, n stays public).  Both are copied, and read-only;
    a negative zero becomes zero.
    Errors: InvalidParameter for no row, or shapes that do not fit.

    >>> import dpaudit as dp
    >>> dp.Records([[1.0, 2.0], [3.0, 4.0]])
    Records(rows of shape (2,))
    """

    values: Array
    present: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))

    def __post_init__(self) -> None:
        values = _numbers(self.values)
        if values.ndim < 2 or values.size == 0:
            raise InvalidParameter(
                f"Records: shape {values.shape}; expected (records, features), at least one of each"
            )
        present = np.array(self.present, dtype=bool)
        if present.size == 0:
            present = np.ones(len(values), dtype=bool)
        if present.shape != (len(values),):
            raise InvalidParameter(f"Records.present: shape {present.shape}, not ({len(values)},)")
        for name, array in (("values", values), ("present", present)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Records(rows of shape {self.values.shape[1:]})"

    def rows(self, start: int, stop: int) -> Records:
        """A contiguous public block of rows: a view, since no record ever changes."""
        return _viewed(self.values[start:stop], self.present[start:stop])

    def in_order(self, order: NDArray[np.intp]) -> Records:
        """A copy in another order: row k is row ``order[k]`` of these."""
        return _viewed(self.values[order], self.present[order])

    def placeholder(self) -> Records:
        """As many rows, all zero: public where the number of records is."""
        return _viewed(np.broadcast_to(0.0, self.values.shape), np.ones(len(self), dtype=bool))

    def with_row(self, row: int, values: Array) -> Records:
        """A copy with another row, and all rows present; known kinds of rows are kept."""
        changed = self.values.copy()
        changed[row] = np.asarray(values, dtype=np.float64) + 0.0
        records = _viewed(changed, np.ones(len(self), dtype=bool))
        records.__dict__["_changed"] = (self, row)
        return records

    def traced(self, values: Array) -> Records:
        """A copy whose arrays hold the same numbers, in a class of the examiner."""
        return _viewed(values, self.present)

    def _distinct_of_changed(self) -> tuple[Array, NDArray[np.intp]] | None:
        """The result of :meth:`distinct`, kinds in another order; None if there are many."""
        before, row = self.__dict__["_changed"]
        rows, origin = before.distinct()
        if len(rows) > FEW_KINDS:
            return None
        origin, old, new = origin.copy(), origin[row], self.values[row]
        equal = [k for k, kind in enumerate(rows) if kind.tobytes() == new.tobytes()]
        origin[row] = equal[0] if equal else len(rows)
        rows = rows if equal else np.concatenate([rows, new[None]])
        if not (origin == old).any():
            rows, origin = np.delete(rows, old, axis=0), origin - (origin > old)
        rows.flags.writeable = False
        return rows, origin

    @property
    def knows_kinds(self) -> bool:
        """Whether its distinct rows were asked for."""
        return "_distinct" in self.__dict__

    def distinct(self) -> tuple[Array, NDArray[np.intp]]:
        """Distinct rows (bit by bit) and, for each record, which of them it is; made once."""
        cached = self.__dict__.get("_distinct")
        if cached is None and "_changed" in self.__dict__:
            cached = self.__dict__["_distinct"] = self._distinct_of_changed()
        if cached is None:
            first, inverse = _kinds(
                self.values.reshape(len(self), math.prod(self.values.shape[1:]))
            )
            rows = self.values if first is None else self.values[first]
            rows.flags.writeable = False
            cached = self.__dict__["_distinct"] = (rows, inverse)
        return cached


def _kinds(rows: Array) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
    """Where each distinct row, bit by bit, is first, and which of them every row is.

    None stands for "every row is distinct".  Kinds are in the order of their bytes where there are
    fewer than :data:`MANY_ROWS` rows, so that small data sets are examined alike in whatever order
    they come; else in the order of the rows, or of their hashes, which sort ten times as fast.
    Rows of one hash are compared, so that the answer never rests on the hash.
    """
    bits = np.ascontiguousarray(rows).view(np.uint64)
    if len(rows) >= MANY_ROWS:
        hashes = _hashes(bits)
        ordered = np.sort(hashes)
        if not (ordered[1:] == ordered[:-1]).any():
            return None, np.arange(len(rows))
        _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        if all((column[first][inverse] == column).all() for column in bits.T):
            return first, inverse
    as_bytes = bits.view(np.dtype((np.void, bits.dtype.itemsize * bits.shape[1])))
    _, first, inverse = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _hashes(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of every row: rows that differ in one column alone have different ones."""
    hashes = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        hashes ^= column
        hashes *= HASH_FACTOR
        hashes ^= hashes >> HASH_SHIFT
    return hashes


def _viewed(values: Array, present: NDArray[np.bool_]) -> Records:
    """Records of checked arrays that nobody else writes to, without a copy."""
    records = object.__new__(Records)
    for name, array in (("values", values), ("present", present)):
        array.flags.writeable = False
        object.__setattr__(records, name, array)
    return records


def _numbers(values: Any) -> Array:
    try:
        given = np.asarray(values)
        # NumPy would read numbers into texts, dates and None.
        objects = given.ravel().tolist() if given.dtype == object else []
        if given.dtype.kind in "biufO" and all(isinstance(item, Real) for item in objects):
            return np.array(given, dtype=np.float64) + 0.0
    except (TypeError, ValueError, OverflowError):
        pass
    # Outside the handler: what NumPy says quotes a record.
    raise InvalidParameter("Records.values: not an array of numbers, one shape for every record")


class Query(Protocol):
    """A program's query to the curator; it must give a value for any records, zeros included.

    ``neutral``, an attribute that a query may have: whether a record of a secret batch moves the
    value, from what it is without that record, by at most half of the sensitivity under
    replace_one.  Samples that are declared with ``undrawn="zero"`` need it.  ``exchangeable``:
    whether equal records may stand for one another; ``silent(records, on)``: those, (n,), that move
    no value in the trials that are on.  Likelihoods of secret batches need one of these.

    >>> import dpaudit as dp
    >>> counts = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1)
    >>> counts.norm, float(counts.sensitivity("replace_one", 10))
    ('l2', 2.0)
    """

    @property
    def norm(self) -> Norm:
        """The norm in which ``sensitivity`` bounds the value's movement."""

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The noise-free value, shape (trials, d); ``chosen`` (trials, n) restricts the rows."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """How far one unit moves the value in ``norm``, shape (trials,) or (); ``size`` rows."""


def as_numbers(returned: Any, who: str) -> Array:
    """The array that a query or a part of it returned.

    Errors: InvalidParameter naming who returned it, and its type, where it is none of numbers.
    """
    try:
        return np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(returned).__name__
        raise InvalidParameter(f"{who} returned {kind}: expected an array of numbers") from None


def clip_rows(rows: Array, radius: Array, norm: Norm = "l2") -> Array:
    """Rows scaled down to norm at most ``radius``; a row that is not finite becomes zero.

    rows: (trials, n, d); radius: (trials,).  The norm is taken after scaling by the largest entry,
    so that it neither overflows nor underflows; radius 0 and zero rows give 0, never 0/0, and no
    row causes a warning.  A trial whose radius is not finite gets NaN.
    Source: Murata and Suzuki 2023, Algorithm 2; the treatment of non-finite rows is ours.
    """
    radius = np.asarray(radius)
    # One row for several radii becomes one a radius, whether it is clipped or not.
    has_all_trials = np.broadcast_shapes((*radius.shape, 1), rows.shape[:-1]) == rows.shape[:-1]
    if norm == "l2" and has_all_trials and surely_within(rows, radius):
        return np.array(rows)
    with np.errstate(all="ignore"):
        limit = radius[..., None]
        largest = np.abs(rows).max(axis=-1, initial=0.0)
        if not np.isfinite(largest).all():
            rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, 0.0)
            largest = np.abs(rows).max(axis=-1, initial=0.0)
        divisor = np.where(largest > 0, largest, 1.0)
        scaled = rows / divisor[..., None]
        unit = _NORMS[norm](scaled)
        inside = (largest == 0) | (unit <= limit / divisor)
        if has_all_trials and inside.all():
            return np.array(rows)
        shrunk = limit / np.where(unit > 0, unit, 1.0)
        clipped: Array = scaled * shrunk[..., None]
        np.copyto(clipped, rows, where=inside[..., None])
        return clipped


def surely_within(rows: Array, radius: Array) -> bool:
    """Whether all rows are finite, of l2 norm at most their radius; false where it is a close call.

    rows: (..., n, d); radius: (...).  It takes one pass, where :func:`clip_rows` takes ten.
    """
    radius = np.asarray(radius, dtype=np.float64)
    least, most = radius.min(initial=math.inf), radius.max(initial=0.0)
    if not (least > SMALLEST_LENGTH and most < LARGEST_LENGTH):
        return False
    with np.errstate(all="ignore"):
        squares = np.einsum("...d,...d->...", rows, rows)
        if least == most:  # one comparison for all: false for a norm that is not a number
            return bool(squares.max(initial=0.0) <= LENGTH_MARGIN * least**2)
        return bool((squares <= LENGTH_MARGIN * np.square(radius)[..., None]).all())


_NORMS: dict[str, Callable[[Array], Array]] = {
    "l1": lambda rows: np.asarray(np.abs(rows).sum(-1)),
    "l2": lambda rows: np.asarray(np.sqrt(np.square(rows).sum(-1))),
    "linf": lambda rows: np.asarray(np.abs(rows).max(-1, initial=0.0)),
}


@dataclass(frozen=True, eq=False)
class ClippedMean:
    """sum_i w_i clip(f(record_i), radius): a mean of clipped per-record vectors.

    ``per_record(values) -> (trials, n, d)``, row i a function of record i alone: it is given each
    distinct row once where there are few, so that what it counts are no records.  ``radius``
    (trials,) or a number, public: made of released values only; below 1e-250 it counts as 0.
    ``weights`` (n,) are public and default to 1/n; with a public ``divisor`` every weight is
    1/divisor, whatever the number of rows.  A secret batch restricts the sum, not the weights.
    ``plus``: a public number that is added, such as minus a threshold.
    Sensitivity in ``norm``: radius * max|w|, twice that under replace_one; infinite where the
    sum could overflow.
    Errors: InvalidParameter for a radius that is negative, or not finite (in an array: the curator
    refuses it in the trials that are on); under add_remove without a divisor.
    Source: Murata and Suzuki 2023, Algorithm 2 and Lemma C.1.

    >>> import dpaudit as dp
    >>> mean = dp.ClippedMean(lambda values: values[None], radius=1)
    >>> mean.value(dp.Records([[3.0], [0.0]])), float(mean.sensitivity("replace_one", 2))
    (array([[0.5]]), 1.0)
    """

    per_record: Callable[[Array], Array]
    radius: Any
    weights: Array | None = None
    divisor: float | None = None
    norm: Norm = "l2"
    plus: float = 0.0

    def __post_init__(self) -> None:
        if self.norm not in _NORMS:
            names = ", ".join(_NORMS)
            raise InvalidParameter(f"ClippedMean.norm = {self.norm!r}: expected one of {names}")
        for name in ("radius", "divisor", "plus"):
            if isinstance(text := getattr(self, name), str):
                object.__setattr__(self, name, real(text, f"ClippedMean.{name}"))
        if not np.isfinite(self.plus):
            raise InvalidParameter(f"ClippedMean.plus = {self.plus}: expected a finite number")
        if self.divisor is not None and not (np.isfinite(self.divisor) and self.divisor > 0):
            raise InvalidParameter(f"ClippedMean.divisor = {self.divisor}: expected positive")
        if self.weights is not None and self.divisor is not None:
            raise InvalidParameter("ClippedMean: give weights or a divisor, not both")
        if self.weights is not None:
            object.__setattr__(self, "weights", np.array(self.weights, dtype=np.float64))
        values = np.array(self.radius, dtype=np.float64)
        if values.ndim > 1:
            raise InvalidParameter(f"ClippedMean.radius: shape {values.shape}; expected (trials,)")
        if (values < 0).any() or (values.ndim == 0 and not np.isfinite(values)):
            raise InvalidParameter("ClippedMean.radius: expected finite numbers, not negative")
        # Arithmetic near the smallest floats is too coarse for a bound on what one record moves.
        object.__setattr__(self, "radius", np.where(values < SMALLEST_RADIUS, 0.0, values))

    def public_weights(self, size: int) -> Array:
        """The weight of each row, shape (size,)."""
        if self.weights is None:
            return np.full(size, 1.0 / (self.divisor or size))
        if self.weights.shape != (size,) or not np.isfinite(self.weights).all():
            raise InvalidParameter(
                f"ClippedMean.weights: shape {self.weights.shape}; expected {size} finite numbers, "
                "one a record"
            )
        return self.weights

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The weighted sum of clipped rows, shape (trials, d)."""
        if chosen is not None:
            weights = self.public_weights(len(records)) * records.present
            return self._batch_value(records, chosen, weights) + self.plus
        totals = self._totals(records)
        return _total("n,tnd->td", totals, self._clipped(records.distinct()[0])) + self.plus

    def _totals(self, records: Records) -> Array:
        """The weight of each distinct row; made once of a data set where all weights are equal."""
        stored: dict[float, Array] = records.__dict__.setdefault("_totals", {})
        key = 0.0 if self.divisor is None else self.divisor
        if self.weights is None and key in stored:
            return stored[key]
        weights = self.public_weights(len(records)) * records.present
        values, origin = records.distinct()
        totals: Any = np.bincount(origin, weights=weights, minlength=len(values))
        if self.weights is None:
            stored[key] = totals
        return np.asarray(totals)

    def _batch_value(self, records: Records, chosen: NDArray[np.bool_], weights: Array) -> Array:
        """The sum over a batch: of few kinds of rows, each with a total, or of its rows."""
        chosen = distinct_batches(chosen)
        values, origin = records.distinct()
        if len(values) > FEW_KINDS:
            members = np.flatnonzero(chosen.any(axis=0))
            if not len(members):
                members = np.arange(len(records))
            rows = self._clipped(records.values[members])
            if len(chosen) == 1:
                return _total("n,tnd->td", weights[members] * chosen[0, members], rows)
            return _total("tn,tnd->td", weights[members] * chosen[:, members], rows)
        kinds = [np.flatnonzero((origin == k) & records.present) for k in range(len(values))]
        if self.weights is None and records.present.all():
            totals = weights[0] * _members(chosen, kinds)
        else:
            totals = np.stack([chosen[:, kind] @ weights[kind] for kind in kinds], axis=1)
        return _total("tn,tnd->td", totals, self._clipped(values))

    @property
    def neutral(self) -> bool:
        """A record outside of a batch adds exactly zero: no weight depends on the batch."""
        return True

    @property
    def exchangeable(self) -> bool:
        """Whether equal records may stand for one another."""
        return self.weights is None

    def silent(self, records: Records, on: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The records, (n,), that add exactly zero to every batch in the trials that are on."""
        values, origin = records.distinct()
        rows = self._clipped(values)
        zero = ((rows if len(rows) == 1 else rows[on]) == 0).all(axis=(0, 2))
        unweighted = self.public_weights(len(records)) == 0
        return np.asarray(zero[origin] | ~records.present | unweighted)

    def mixes_records(self, records: Records) -> bool:
        """Whether ``per_record`` gives a row another vector among other rows: an audit's check.

        Among every second row, and among few: a function that counts may change at any number.
        """
        values, _ = records.distinct()
        parts = [*few_rows(len(values)), *(slice(k, None, 2) for k in range(min(2, len(values))))]
        apart = [(part, self._clipped(values[part])) for part in parts]
        # Last, so that a function that keeps what it saw has seen all rows, as in a run.
        among = self._clipped(values)
        allowed = 1e-6 * np.nan_to_num(self.radius, posinf=0.0).max(initial=0.0)
        return not all(
            np.allclose(among[:, part], rows, rtol=1e-6, atol=allowed, equal_nan=True)
            for part, rows in apart
        )

    def _clipped(self, values: Array) -> Array:
        with np.errstate(all="ignore"):
            name = getattr(self.per_record, "__qualname__", type(self.per_record).__name__)
            rows = as_numbers(self.per_record(values), f"per_record, {name},")
        if rows.ndim != 3 or rows.shape[1] != len(values):
            raise InvalidParameter(
                f"per_record returned shape {rows.shape}: expected (trials, records, d)"
            )
        return clip_rows(rows, self.radius, self.norm)

    def _heaviest(self, size: int) -> float:
        if self.weights is None:
            return 1.0 / (self.divisor or size)
        return float(np.abs(self.public_weights(size)).max())

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """radius * max|w| under add_remove and zero_out, twice that under replace_one."""
        adjacency = choose(Adjacency, adjacency, "ClippedMean.sensitivity: adjacency")
        if adjacency is Adjacency.ADD_REMOVE and self.divisor is None:
            raise InvalidParameter(
                "ClippedMean under add_remove: a mean over the number of records has no "
                "sensitivity; give a public divisor="
            )
        factor = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
        with np.errstate(all="ignore"):
            largest = self._heaviest(size) * self.radius
            # The bound on the sum is free of the number of records, which can be private.
            return np.where(np.isfinite(largest * MOST_RECORDS), factor * largest, np.inf)


def few_rows(count: int) -> list[slice]:
    """The first 1, 2, 3, 5, 8, ... of ``count`` rows."""
    parts, size, larger = [], 1, 2
    while size < count:
        parts.append(slice(size))
        size, larger = larger, size + larger
    return parts


def distinct_batches(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The batch of each trial, (trials, n); (1, n) where one row in memory stands for all."""
    return chosen[:1] if chosen.strides[0] == 0 else chosen


def _members(chosen: NDArray[np.bool_], kinds: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
    """How many records of each kind a batch holds, (trials, kinds); the kinds are all there are.

    The largest kind holds what the others leave: copying its columns would be most of the work.
    """
    largest = int(np.argmax([len(kind) for kind in kinds]))
    counts = [
        np.zeros(len(chosen), dtype=np.intp)
        if k == largest
        else np.count_nonzero(chosen[:, kind], axis=1)
        for k, kind in enumerate(kinds)
    ]
    counts[largest] = np.count_nonzero(chosen, axis=1) - sum(counts)
    return np.stack(counts, axis=1)


def _total(subscripts: str, weights: Array, rows: Array) -> Array:
    result: Array = np.einsum(subscripts, weights, rows)
    return result


def clipped_sum(
    per_record: Callable[[Array], Array], radius: Any, norm: Norm = "l2", plus: float = 0.0
) -> ClippedMean:
    """A sum of clipped per-record vectors; one moves it by ``radius``, twice that if replaced.

    Arguments and errors as :class:`ClippedMean`.

    >>> import dpaudit as dp
    >>> count = dp.clipped_sum(lambda values: values[None], radius=1, norm="l1")
    >>> count.value(dp.Records([[1.0], [0.0], [1.0]])), float(count.sensitivity("add_remove", 3))
    (array([[2.]]), 1.0)
    """
    return ClippedMean(per_record, radius, divisor=1.0, norm=norm, plus=plus)


def clipped_difference_mean(
    per_record: Callable[[Array], Array],
    previous_per_record: Callable[[Array], Array],
    radius: Any,
    weights: Array | None = None,
) -> ClippedMean:
    """A mean of clipped per-record *differences* f(z) - g(z): never of two clipped vectors.

    Source: Murata and Suzuki 2023, Algorithm 1, line 8.
    """
    return ClippedMean(lambda z: per_record(z) - previous_per_record(z), radius, weights)


def client_weights(client_sizes: tuple[int, ...]) -> Array:
    """Weights of an unweighted mean over clients of the mean over each client's records.

    Records are laid out client by client; weight of a record of client p: 1 / (n_p P).
    """
    sizes = np.asarray(client_sizes)
    if sizes.size == 0 or (sizes < 1).any():
        raise InvalidParameter(f"client_sizes = {client_sizes}: every client needs a record")
    return np.repeat(1.0 / (sizes * len(sizes)), sizes)

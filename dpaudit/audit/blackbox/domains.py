"""Domains and relations: data sets to try, and which of them are neighbours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter

Array = npt.NDArray[Any]
Pair: TypeAlias = tuple[Any, Any]
SAMPLED_DATA_SETS = 60  # Data sets drawn from a domain that is given as a function.
MOST_CHECKED = 20_000  # pairs that are tested for being neighbours
MOST_PROPOSED = 4_000  # pairs that are proposed to the race


class Adjacent(StrEnum):
    """Relations known by name, for arrays and sequences of records.

    ``each_by_one``: vectors of query answers, every entry moves by at most 1; ``total_by_one``:
    vectors of counts that move by at most 1 in l1-norm.
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    EACH_BY_ONE = "each_by_one"
    TOTAL_BY_ONE = "total_by_one"


@runtime_checkable
class Bounded(Protocol):
    """A domain of arrays (n, *row), fewest <= n <= most, entries in [low, high]."""

    fewest: int
    most: int
    low: float
    high: float

    def holds(self, data: Any) -> bool: ...


@dataclass(frozen=True)
class Box:
    """All arrays of shape (n, *row) with ``fewest`` <= n <= ``most`` and entries in [low, high].

    ``whole``: entries are whole numbers; ``special``: other values an entry may take (NaN, inf).
    Errors: InvalidParameter for sizes or ends in the wrong order, or ends that are not finite.
    """

    fewest: int
    most: int
    low: float
    high: float
    row: tuple[int, ...] = ()
    whole: bool = False
    special: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.fewest <= self.most or self.most < 1:
            raise InvalidParameter(f"Box: sizes {self.fewest} to {self.most}; expected 0 <= n <= m")
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low <= self.high):
            raise InvalidParameter(
                f"Box: entries in [{self.low}, {self.high}]; expected low <= high"
            )

    def holds(self, data: Any) -> bool:
        """Whether the data set belongs to the domain."""
        array = np.asarray(data)
        if array.shape[1:] != self.row or not self.fewest <= len(array) <= self.most:
            return False
        values = array.astype(np.float64)
        odd = np.isin(values, self.special) | (
            np.isnan(values) & bool(np.isnan(self.special).any())
        )
        within = (values >= self.low) & (values <= self.high)
        integral = values == np.floor(values) if self.whole else True
        return bool(((within & integral) | odd).all())


def pairs_of_domain(domain: Any, relation: Any, rng: np.random.Generator) -> list[Pair]:
    """Neighbouring pairs to try, at most a few thousand, the most different first.

    ``domain``: a sequence of data sets, a function of a generator, or a Box.  ``relation``: a name
    (:class:`Adjacent`), neighbours(data) -> data sets, or are_neighbours(a, b) -> bool.
    Errors: InvalidParameter for anything else, or where no pair of neighbours was found.
    """
    related = _relation(relation)
    pairs = list(_pairs(domain, related, rng))
    if not pairs:
        raise InvalidParameter(
            "audit_domain: found no neighbours in the domain; check the relation"
        )
    order = np.argsort([-distance(a, b) for a, b in pairs], kind="stable")
    return [pairs[i] for i in order]


@dataclass(frozen=True)
class _Related:
    """A relation as a predicate, a list of neighbours, or both."""

    holds: Callable[[Any, Any], bool] | None
    neighbours: Callable[[Any], Any] | None


def _relation(relation: Any) -> _Related:
    if isinstance(relation, str):
        if relation not in list(Adjacent):
            raise InvalidParameter(
                f"relation = {relation!r}: expected one of {', '.join(Adjacent)}, or a function"
            )
        return _Related(_PREDICATES[Adjacent(relation)], None)
    if not callable(relation):
        raise InvalidParameter(f"relation = {relation!r}: expected a name or a function")
    parameters = [
        p
        for p in inspect.signature(relation).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(parameters) not in (1, 2):
        raise InvalidParameter("relation: expected neighbours(data) or are_neighbours(a, b)")
    return _Related(relation, None) if len(parameters) == 2 else _Related(None, relation)


def _pairs(domain: Any, related: _Related, rng: np.random.Generator) -> Iterator[Pair]:
    listed = isinstance(domain, (Sequence, np.ndarray)) and not isinstance(domain, str)
    data = list(domain) if listed else list(_sampled(domain, rng))
    if not data:
        raise InvalidParameter("domain: it is empty")
    inside = domain.holds if isinstance(domain, Bounded) else None
    if related.neighbours is not None:
        for a in data:
            yield from ((a, b) for b in related.neighbours(a))
        return
    assert related.holds is not None  # noqa: S101 (a relation is one or the other)
    yield from _listed_pairs(data, related.holds, rng)
    if not listed:
        yield from _proposed_pairs(data, related.holds, inside, rng)


def _sampled(domain: Any, rng: np.random.Generator) -> Iterator[Any]:
    if isinstance(domain, Bounded):
        yield from _of_box(domain, rng)
    elif callable(domain):
        yield from (domain(rng) for _ in range(SAMPLED_DATA_SETS))
    else:
        raise InvalidParameter(
            f"domain = {type(domain).__name__}: expected data sets, a function of a generator, "
            "or a Box"
        )


def _listed_pairs(
    data: Sequence[Any], holds: Callable[[Any, Any], bool], rng: np.random.Generator
) -> Iterator[Pair]:
    indices = list(combinations(range(len(data)), 2))
    if len(indices) > MOST_CHECKED:
        chosen = rng.choice(len(indices), MOST_CHECKED, replace=False)
        indices = [indices[i] for i in chosen]
    yield from ((data[i], data[j]) for i, j in indices if holds(data[i], data[j]))


def _proposed_pairs(
    data: Sequence[Any],
    holds: Callable[[Any, Any], bool],
    inside: Callable[[Any], bool] | None,
    rng: np.random.Generator,
) -> Iterator[Pair]:
    """Each data set with changes of it: a record added, removed or replaced, entries moved by 1."""
    arrays = [np.asarray(a) for a in data]
    numeric = [a for a in arrays if a.ndim and a.dtype.kind in "biuf"]
    records = [record for a in numeric for record in a]
    if not records:
        return
    proposed = 0
    for a in numeric:
        for b in _changes(a, records, rng):
            if (inside is None or inside(b)) and holds(a, b):
                yield a, b
                proposed += 1
        if proposed >= MOST_PROPOSED:
            return


def _changes(a: Array, records: Sequence[Any], rng: np.random.Generator) -> Iterator[Array]:
    others = [records[i] for i in rng.integers(len(records), size=6)]
    sums = [float(np.nansum(record)) for record in records]
    others += [records[int(np.argmax(sums))], records[int(np.argmin(sums))]]
    others += [np.zeros_like(records[0])]
    odd = [record for record in records if not np.isfinite(record).all()]
    others += odd[:2]
    places = sorted({0, len(a) - 1, int(rng.integers(max(len(a), 1)))}) if len(a) else []
    for i in places:
        yield np.delete(a, i, axis=0)
        for other in others:
            b = a.copy()
            b[i] = other
            yield b
    yield from (np.concatenate([a, np.asarray(other, dtype=a.dtype)[None]]) for other in others)
    yield from _moves(a, rng)


def _moves(a: Array, rng: np.random.Generator) -> Iterator[Array]:
    """Entries moved by 1: all, all but one against it, every other, some at random, one."""
    if a.size == 0 or a.dtype.kind == "b":
        return
    flat = np.arange(a.size)
    signs = [np.ones(a.size), np.where(flat == 0, -1, 1), np.where(flat == a.size - 1, -1, 1)]
    signs += [np.where(flat % 2 == 0, 1, -1), np.where(flat % 2 == 0, 1, 0)]
    signs += [np.where(flat == i, 1, 0) for i in {0, a.size - 1, a.size // 2}]
    signs += [np.where(flat == i, 0, 1) for i in {0, a.size - 1}]
    signs += [rng.integers(-1, 2, size=a.size) for _ in range(2)]
    for sign in signs:
        for direction in (1, -1):
            yield a + (direction * sign).reshape(a.shape).astype(a.dtype)


def _of_box(box: Any, rng: np.random.Generator) -> Iterator[Array]:
    """Data sets at the boundary first, then random ones."""
    row = tuple(getattr(box, "row", ()))
    integral = bool(getattr(box, "whole", False))
    special = tuple(getattr(box, "special", ()))
    low, high = float(box.low), float(box.high)
    middle = np.rint((low + high) / 2) if integral else (low + high) / 2
    levels = [low, high, middle] + [v for v in (0.0, 1.0) if low <= v <= high]
    for size in sorted({box.fewest, max(box.fewest, min(2, box.most)), box.most}):
        shape = (size, *row)
        data_sets = [np.full(shape, level) for level in levels]
        data_sets += [_spiked(np.full(shape, a), b) for a in levels for b in levels if a != b]
        data_sets += [_spiked(np.full(shape, low), value) for value in special]
        data_sets += [_stepped(shape, low, high), _stepped(shape, high, low)]
        data_sets += [np.resize(np.linspace(low, high, max(size, 2)), shape)]
        data_sets += [rng.choice([low, high], size=shape) for _ in range(4)]
        data_sets += [low + (high - low) * rng.random(shape) for _ in range(6)]
        yield from ((np.rint(a) if integral else a) for a in data_sets if size)
        if size == 0:
            yield np.empty(shape)


def _spiked(data: Array, value: float) -> Array:
    if len(data):
        data[-1] = value
    return data


def _stepped(shape: tuple[int, ...], first: float, second: float) -> Array:
    data = np.full(shape, first)
    data[len(data) // 2 :] = second
    return data


def distance(a: Any, b: Any) -> float:
    """How far apart two data sets are: a heuristic for what to try first; infinite for NaN."""
    try:
        first, second = (np.asarray(x, dtype=np.float64) for x in (a, b))
    except (TypeError, ValueError):
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):  # infinity less infinity
        if first.shape == second.shape:
            gap = float(np.abs(first - second).sum()) if first.size else 0.0
        else:
            gap = float(abs(np.abs(first).sum() - np.abs(second).sum()))
    return gap if np.isfinite(gap) else 1e300


def _add_remove(a: Any, b: Any) -> bool:
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    if len(longer) != len(shorter) + 1:
        return False
    same = [_equal(longer[i], shorter[i]) for i in range(len(shorter))]
    at = same.index(False) if False in same else len(shorter)
    return all(_equal(longer[i + 1], shorter[i]) for i in range(at, len(shorter)))


def _replace_one(a: Any, b: Any) -> bool:
    return len(a) == len(b) and sum(not _equal(x, y) for x, y in zip(a, b, strict=True)) == 1


def _equal(x: Any, y: Any) -> bool:
    try:
        return bool(np.array_equal(x, y, equal_nan=True))
    except TypeError:
        return bool(np.array_equal(x, y))


def _moved(a: Any, b: Any) -> Array:
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return np.abs(first - second) if first.shape == second.shape else np.array([np.inf])


_PREDICATES: dict[Adjacent, Callable[[Any, Any], bool]] = {
    Adjacent.ADD_REMOVE: _add_remove,
    Adjacent.REPLACE_ONE: _replace_one,
    Adjacent.EACH_BY_ONE: lambda a, b: 0 < float(_moved(a, b).max(initial=0.0)) <= 1,
    Adjacent.TOTAL_BY_ONE: lambda a, b: 0 < float(_moved(a, b).sum()) <= 1,
}

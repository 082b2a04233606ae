"""Bugs in the queries: the stated sensitivity, and clipping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpaudit.kernels.query import Array, ClippedMean, Norm, Query, Records, clip_rows
from dpaudit.mutate.mutant import Mutant, Site, Survey, ready, signature
from dpaudit.mutate.tamper import Handed, Tampered
from dpaudit.scope import Adjacency

Clip = Callable[[Array, Array, Norm], Array]


class Altered:
    """A query with something wrong in it; what is not overridden is the right query's."""

    def __init__(self, query: Any) -> None:
        self.query = query

    def __getattr__(self, name: str) -> Any:
        return getattr(self.query, name)

    @property
    def norm(self) -> Norm:
        """The right query's norm."""
        norm: Norm = self.query.norm
        return norm

    def value(self, records: Records, chosen: Any = None) -> Array:
        """The right query's value."""
        return np.asarray(self.query.value(records, chosen))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The right query's sensitivity."""
        return np.asarray(self.query.sensitivity(adjacency, size))


class _Bound(Altered):
    """Another bound on the same value."""

    def __init__(self, factor: float, query: Any) -> None:
        super().__init__(query)
        self.factor = factor

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(self.factor * super().sensitivity(adjacency, size))


class _Value(Altered):
    """Another value under the same bound."""

    def __init__(self, factor: float, query: Any) -> None:
        super().__init__(query)
        self.factor = factor

    def value(self, records: Records, chosen: Any = None) -> Array:
        return np.asarray(self.factor * super().value(records, chosen))


class _MeanWeight(Altered):
    """The average weight of a record in the bound, in place of the largest."""

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        weights = np.abs(self.query.public_weights(size))
        return np.asarray(super().sensitivity(adjacency, size) * (weights.mean() / weights.max()))


class _OneLess(Altered):
    """A sum divided by n - 1, bounded as if by n."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        divisor = self.query.divisor or len(records)
        return super().value(records, chosen) * (divisor / max(divisor - 1, 0.5))


class _Peeking(Altered):
    """A bound that depends on the records the query saw the time before."""

    def __init__(self, seen: list[float], query: Any) -> None:
        super().__init__(query)
        self.seen = seen

    def value(self, records: Records, chosen: Any = None) -> Array:
        found = super().value(records, chosen)
        present = records.present.reshape(-1, *[1] * (records.values.ndim - 1))
        self.seen.append(signature(records.values * present))
        return found

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        seen = self.seen[-1] if self.seen else 0.0
        return super().sensitivity(adjacency, size) * (1.5 + 0.5 * float(np.tanh(seen)))


class _OtherClip(ClippedMean):
    """A clipped mean that clips its rows some other way, under the same bound."""

    def _clipped(self, values: Array) -> Array:
        with np.errstate(all="ignore"):
            rows = np.asarray(self.per_record(values), dtype=np.float64)
            clip: Clip = self.__dict__["clip"]
            return clip(rows, self.radius, self.norm)


def reclipped(clip: Clip, query: ClippedMean) -> ClippedMean:
    """The query with another way of clipping."""
    changed = object.__new__(_OtherClip)
    changed.__dict__.update(query.__dict__, clip=clip)
    return changed


class _AfterTheMean(Altered):
    """Clips the mean, not the rows."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        mean = reclipped(_unclipped, self.query).value(records, chosen)
        return clip_rows(mean[:, None], self.query.radius, self.norm)[:, 0]


def _unclipped(rows: Array, radius: Array, norm: Norm) -> Array:
    return np.where(np.isfinite(rows), rows, 0.0)


def _twice(rows: Array, radius: Array, norm: Norm) -> Array:
    return clip_rows(rows, 2 * radius, norm)


def _slightly(rows: Array, radius: Array, norm: Norm) -> Array:
    return clip_rows(rows, 1.05 * radius, norm)


def _each_coordinate(rows: Array, radius: Array, norm: Norm) -> Array:
    limit = np.asarray(radius)[..., None, None]
    return np.clip(_unclipped(rows, radius, norm), -limit, limit)


def _nan_passes(rows: Array, radius: Array, norm: Norm) -> Array:
    length = np.linalg.norm(rows, ord=1 if norm == "l1" else 2, axis=-1)
    limit = np.broadcast_to(np.asarray(radius)[..., None], length.shape)
    return np.asarray(rows * np.where(length > limit, limit / length, 1.0)[..., None])


def _other_norm(rows: Array, radius: Array, norm: Norm) -> Array:
    """Clips in l2 what is bounded in l1, and the largest entry of what is bounded in l2."""
    return clip_rows(rows, radius, "l2") if norm == "l1" else _by_largest(rows, radius)


def _by_largest(rows: Array, radius: Array) -> Array:
    rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=-1, initial=0.0)
    limit = np.broadcast_to(np.asarray(radius)[..., None], largest.shape)
    safe = np.where(largest > 0, largest, 1.0)
    return np.asarray(rows * np.where(largest > limit, limit / safe, 1.0)[..., None])


def _together(rows: Array, radius: Array, norm: Norm) -> Array:
    """All rows shrunk by the factor that the largest needs: a record changes all vectors."""
    rows = np.where(np.isfinite(rows).all(axis=-1, keepdims=True), rows, 0.0)
    length = np.linalg.norm(rows, ord=1 if norm == "l1" else 2, axis=-1).max(axis=-1, initial=0.0)
    limit = np.broadcast_to(np.asarray(radius), length.shape)
    factor = np.where(length > limit, limit / np.where(length > 0, length, 1.0), 1.0)
    return np.asarray(rows * factor[:, None, None])


def _seen_by(query: Any, seen: list[float]) -> Altered:
    return _Peeking(seen, query)


ANY: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "bound_half": ("sensitivity", "half the sensitivity stated", partial(_Bound, 0.5)),
    "bound_nine_tenths": ("sensitivity", "0.9 of the sensitivity stated", partial(_Bound, 0.9)),
    "value_doubled": ("sensitivity", "twice the value under the same bound", partial(_Value, 2.0)),
    "value_tenth_more": (
        "sensitivity",
        "1.1 times the value under the same bound",
        partial(_Value, 1.1),
    ),
}
CLIPPED: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "weight_average": (
        "sensitivity",
        "the average weight of a record in the bound, not the largest",
        _MeanWeight,
    ),
    "clip_off": ("clipping", "no clipping", partial(reclipped, _unclipped)),
    "clip_twice": ("clipping", "clipping to twice the radius", partial(reclipped, _twice)),
    "clip_slightly": (
        "clipping",
        "clipping to 1.05 of the radius",
        partial(reclipped, _slightly),
    ),
    "clip_coordinates": (
        "clipping",
        "every coordinate clipped by itself",
        partial(reclipped, _each_coordinate),
    ),
    "clip_other_norm": (
        "clipping",
        "clipping in another norm than the bound's",
        partial(reclipped, _other_norm),
    ),
    "clip_mean": ("clipping", "clipping after the mean", _AfterTheMean),
    "clip_together": (
        "clipping",
        "all rows shrunk by one factor made of the records",
        partial(reclipped, _together),
    ),
    "clip_nan": ("clipping", "rows that are no numbers pass", partial(reclipped, _nan_passes)),
    "divisor_one_less": ("off_by_one", "divided by n - 1, bounded by n", _OneLess),
}


def query_mutants(found: Survey) -> Iterator[Mutant]:
    """Bugs in the queries of each label, in the sampler and in the replay alike."""
    for site in found.sites:
        clipped = isinstance(site.asked.query, ClippedMean)
        for name, (family, what, alter) in {**ANY, **(CLIPPED if clipped else {})}.items():
            yield _mutant(found, site, name, family, what, partial(_Queries, site.label, alter))
        if site.uses > 1:
            what = "a radius that depends on the records seen before"
            handed = partial(_PeekingQueries, site.label)
            yield _mutant(found, site, "radius_from_data", "sensitivity", what, handed)


def _mutant(
    found: Survey, site: Site, name: str, family: str, what: str, handed: Callable[[Any], Handed]
) -> Mutant:
    return Mutant(
        name=f"{site.label}.{name}",
        family=family,
        what=f"{what}, in the query of {site.label!r}",
        where=site.place,
        plant=lambda: ready(found.planted(program=Tampered(found.suite.program, handed))),
    )


class _Queries(Handed):
    """Every query of one label is altered on its way to the curator."""

    def __init__(self, label: str, alter: Callable[[Any], Any], curator: Any) -> None:
        super().__init__(curator)
        self.label = label
        self.alter = alter

    def release(self, label: str, query: Query, **options: Any) -> Array:
        query = self.alter(query) if label == self.label else query
        return super().release(label, query, **options)


class _PeekingQueries(_Queries):
    """Remembers the records from release to release of a run."""

    def __init__(self, label: str, curator: Any) -> None:
        super().__init__(label, partial(_seen_by, seen=[]), curator)

"""Queries and curators with one bug each; operators put them in the place of a program's own.

Every query states the sensitivity of the right one.  Rows that are not finite count as zero, as in
the right query, so that a bug in the clip shows only by its effect on the other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.query import Array, ClippedMean, Norm, Query, Records, clip_rows
from dpaudit.scope import Adjacency

# Names under which bugs store private values on the curator.
KEPT, CARRIED, ROUND = "mutant_kept", "mutant_carried", "mutant_round"

Rows = Array  # (trials, kinds, d): one vector for each distinct record
Totals = Array  # (trials, kinds): the weight of each


def wrong(query: Any, bug: str, curator: Any) -> Any:
    """The query with a bug; with bug "right", a user-written query that clips correctly."""
    if bug in OF_CLIPPED:
        return OwnMean(query, curator, bug)
    return OF_ANY[bug](query, curator)


class _Stating:
    """A query that states what the right one states."""

    def __init__(self, query: Query, curator: Any) -> None:
        self.query = query
        self.store = vars(curator)

    @property
    def norm(self) -> Norm:
        """The right query's."""
        return self.query.norm

    @property
    def neutral(self) -> bool:
        """The right query's."""
        return bool(getattr(self.query, "neutral", False))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The right query's."""
        return self.query.sensitivity(adjacency, size)


class OwnMean(_Stating):
    """A user-written sum of clipped rows, with the radius and weights of a :class:`ClippedMean`."""

    query: ClippedMean

    def __init__(self, query: ClippedMean, curator: Any, bug: str) -> None:
        super().__init__(query, curator)
        self.bug = bug
        self.one = curator.trials == 1
        self.carried = self.store.get(CARRIED)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The weighted sum, with the bug."""
        values, origin = records.distinct()
        weights = self.query.public_weights(len(records)) * records.present
        members = weights[None] if chosen is None else weights * chosen
        rows = np.asarray(self.query.per_record(values), dtype=np.float64)
        rows = np.where(np.isfinite(rows).all(-1, keepdims=True), rows, 0.0)
        return np.asarray(OF_CLIPPED[self.bug](self, rows, members, origin)) + self.query.plus

    def clipped(self, rows: Rows) -> Rows:
        """The rows, correctly clipped."""
        return clip_rows(rows, self.query.radius, self.query.norm)

    def clipped_means(self, rows: Rows, totals: Totals) -> Array:
        """The bug of clipping after averaging: the clipped mean of the rows, times their weight."""
        total_weight = totals.sum(axis=1, keepdims=True)
        share = totals / np.where(total_weight == 0, 1.0, total_weight)
        mean = np.einsum("tk,tkd->td", *_as_many(share, rows))
        return np.asarray(self.clipped(mean[:, None])[:, 0] * total_weight)


def _totals(members: Array, origin: NDArray[np.intp], kinds: int) -> Totals:
    """The total weight of each distinct record, (trials, kinds)."""
    return np.stack([np.bincount(origin, weights=m, minlength=kinds) for m in members])


def _as_many(totals: Totals, rows: Rows) -> tuple[Totals, Rows]:
    trials = max(len(totals), len(rows))
    return (
        np.broadcast_to(totals, (trials, totals.shape[1])),
        np.broadcast_to(rows, (trials, *rows.shape[1:])),
    )


def _summed(rows: Rows, members: Array, origin: NDArray[np.intp]) -> Array:
    totals = _totals(members, origin, rows.shape[1])
    return np.asarray(np.einsum("tk,tkd->td", *_as_many(totals, rows)))


def _right(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    return _summed(own.clipped(rows), members, origin)


def _no_clip(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    return _summed(rows, members, origin)


def _clip_after(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    return own.clipped_means(rows, _totals(members, origin, rows.shape[1]))


def _clip_halves(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    """The batch is split in two, and the mean of each half is clipped."""
    first = np.arange(len(origin)) < len(origin) // 2
    halves = (members * first, members * ~first)
    means = [own.clipped_means(rows, _totals(h, origin, rows.shape[1])) for h in halves]
    return means[0] + means[1]


def _part_of_norm(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    """Rows are scaled by the norm of the first half of their coordinates."""
    part = rows[..., : max(1, rows.shape[-1] // 2)]
    before = np.abs(part).max(-1)
    after = np.abs(own.clipped(part)).max(-1)
    shrunk = np.where(before > 0, after / np.where(before > 0, before, 1.0), 1.0)
    return _summed(rows * shrunk[..., None], members, origin)


def _centred(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    """The batch's mean is subtracted from each row before the clip."""
    totals = np.abs(_totals(members, origin, rows.shape[1]))
    share = totals / np.maximum(totals.sum(axis=1, keepdims=True), 1e-300)
    mean = np.einsum("tk,tkd->td", *_as_many(share, rows))
    return _summed(own.clipped(rows - mean[:, None]), members, origin)


def _realised(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    """The sum is divided by the actual number of members, not by the public one."""
    count = np.maximum((members != 0).sum(axis=1, keepdims=True), 1)
    return _right(own, rows, (members != 0) / count, origin)


def _skipped(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    """The clip is skipped in a run of a single trial."""
    return (_no_clip if own.one else _right)(own, rows, members, origin)


def _carry(own: OwnMean, rows: Rows, members: Array, origin: Any) -> Array:
    """The first member's row is stored, and counts again in the next release."""
    clipped = own.clipped(rows)
    value = _summed(clipped, members, origin)
    trials = max(len(members), len(rows))
    each, weights = np.arange(trials), np.broadcast_to(members, (trials, len(origin)))
    first = np.argmax(weights != 0, axis=1)
    row = np.broadcast_to(clipped, (trials, *clipped.shape[1:]))[each, origin[first]]
    own.store[CARRIED] = weights[each, first][:, None] * row
    if own.carried is None or own.carried.shape[-1] != value.shape[-1]:
        return value
    return np.asarray(value + own.carried)


OF_CLIPPED: dict[str, Callable[[OwnMean, Rows, Array, Any], Array]] = {
    "right": _right,
    "delete_the_clip": _no_clip,
    "clip_after_averaging": _clip_after,
    "clip_twice_a_batch": _clip_halves,
    "norm_of_part": _part_of_norm,
    "centre_by_the_batch": _centred,
    "divide_by_the_realised_count": _realised,
    "skip_when_one_trial": _skipped,
    "carry_a_record_over": _carry,
}


# --- of any query -----------------------------------------------------------------------------


class OfPart(_Stating):
    """A query on the first half of the records that states the sensitivity of all."""

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The right query's value on the first half of the records."""
        half = max(1, len(records) // 2)
        part = None if chosen is None else chosen[:, :half]
        return self.query.value(records.rows(0, half), part)


class Noting(_Stating):
    """Any query; its noise-free value is stored on the curator."""

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """The right query's value, which is also stored."""
        value = self.query.value(records, chosen)
        self.store[KEPT] = float(np.nan_to_num(np.abs(value)).mean(axis=0).sum())
        return value


def _noting(query: Any, curator: Any) -> Any:
    """Store the noise-free value of a query.

    A ClippedMean stays one, because the curator treats it specially; its rows are stored.
    """
    if type(query) is not ClippedMean:
        return Noting(query, curator)
    made, store = query.per_record, vars(curator)

    def noted(values: Array) -> Array:
        rows = made(values)
        store[KEPT] = float(np.nan_to_num(np.abs(np.asarray(rows)[:, :1])).mean(axis=0).sum())
        return rows

    return replace(query, per_record=noted)


def _private_radius(query: Any, curator: Any) -> Any:
    """The radius depends on the private value stored before."""
    return replace(_noting(query, curator), radius=query.radius * (1 + kept(curator)))


OF_ANY: dict[str, Callable[[Any, Any], Any]] = {
    "test_on_part": OfPart,
    "noting": _noting,
    "private_radius": _private_radius,
    "private_radius_of_released": lambda query, curator: replace(
        query, radius=query.radius * (1 + kept(curator))
    ),
}


def kept(curator: Any) -> Any:
    """A number in [0, 1] computed from the stored value; 0 if nothing is stored.

    One number for each trial, (trials,), if the stored value is a released one.
    """
    seen = vars(curator).get(KEPT, 0.0)
    return 1 - 1 / (1 + seen)


def told(released: Array, curator: Any) -> Array:
    """Store a released value in the place of a private one, for the right twin; returns it.

    Each trial stores its own, because trials of a right program are independent.
    """
    vars(curator)[KEPT] = np.nan_to_num(np.abs(released)).sum(axis=-1)
    return released


class Reseeding:
    """A curator whose noise is drawn from the same seed in every round."""

    def __init__(self, curator: Any) -> None:
        self.curator = curator

    def release(self, *asked: Any, **options: Any) -> Array:
        """The release, with its noise drawn from :meth:`generator`."""
        right = vars(self.curator).get("_rng")
        if right is None:
            return np.asarray(self.curator.release(*asked, **options))
        self.curator._rng = self.generator(right)
        try:
            return np.asarray(self.curator.release(*asked, **options))
        finally:
            self.curator._rng = right

    def generator(self, right: Any) -> Any:
        """The generator of this release's noise."""
        return np.random.default_rng(7)


class Silencing(Reseeding):
    """A curator that draws no noise for every second release."""

    def generator(self, right: Any) -> Any:
        """A generator of zeros for every second release."""
        store = vars(self.curator)
        store[ROUND] = store.get(ROUND, 0) + 1
        return _Silent(right) if store[ROUND] % 2 == 0 else right


class _Silent:
    """A generator that draws zero for every real number."""

    def __init__(self, right: Any) -> None:
        self.right = right

    def __getattr__(self, name: str) -> Any:
        drawn = getattr(self.right, name)

        def silent(*asked: Any, **options: Any) -> Any:
            numbers = drawn(*asked, **options)
            return numbers * 0.0 if getattr(numbers, "dtype", None) == np.float64 else numbers

        return silent


# --- of code that is no query -----------------------------------------------------------------


def scaled(released: Array, factor: Callable[[], Any]) -> Array:
    """A released value times a factor (one, or one for each trial), computed after the release."""
    return np.asarray(released * np.asarray(factor())[..., None])


def less(levels: int) -> int:
    """One level less, but at least one."""
    return max(1, levels - 1)


def before(index: int) -> int:
    """The index of the previous part; the first part stays."""
    return max(0, index - 1)


def older(now: Any, previous: Any) -> Any:
    """The point before ``previous``, extrapolated as if both steps were equal."""
    return previous + (previous - now)

"""Gradient canaries: neighbouring data sets whose one record moves a clipped gradient furthest.

A canary in gradient space is a record that *is* its gradient (:class:`CanaryLoss`); one in data
space is a row made for a given loss.  Starting points can be crafted too: where an attacker sees
the last iterate alone, the worst start is public and part of the threat model.
Source: Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini, Terzis (2023), gradient canaries
(Dirac and others); Annamalai and De Cristofaro (2024), crafted starting points and blank records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dpaudit.audit.attacked import Attacked
from dpaudit.audit.bounds.estimators import TestScores
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.observed import Observe, attack_observed
from dpaudit.audit.suite import Suite
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records, clip_rows
from dpaudit.scope import Adjacency, choose

SELECTION_INDEX = 0x5354  # First audit index of the trials by which a starting point is chosen.


class Gradients(Protocol):
    """The part of a loss that a canary needs."""

    def gradients(self, parameters: Array, records: Array) -> Array:
        """Per-record gradients, (trials, n, d), at parameters (trials, d)."""


@dataclass(frozen=True)
class CanaryLoss:
    """A record is its own gradient, wherever the parameters are: records (n, size).

    A program whose records have another meaning is audited with this loss in its place, as with
    any member of its loss class.  Errors: InvalidParameter for a size below 1, or other records.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidParameter(f"CanaryLoss.size = {self.size}: expected at least 1")

    def dimension(self, features: int) -> int:
        """The number of parameters, whatever the records' features."""
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros, (trials, size)."""
        return np.zeros((trials, self.size))

    def values(self, parameters: Array, records: Array) -> Array:
        """The linear loss whose gradient the record is, (trials, n)."""
        return np.asarray(parameters @ self._rows(records).T)

    def gradients(self, parameters: Array, records: Array) -> Array:
        """The records, once for each trial: (trials, n, size)."""
        rows = self._rows(records)
        return np.broadcast_to(rows, (len(parameters), *rows.shape))

    def _rows(self, records: Array) -> Array:
        rows = np.asarray(records, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.size:
            raise InvalidParameter(
                f"CanaryLoss: records of shape {rows.shape}, not (n, {self.size})"
            )
        return rows


def saturating(
    size: int,
    count: int,
    radius: float,
    adjacency: Adjacency | str,
    *,
    direction: npt.ArrayLike | None = None,
    row: int = 0,
) -> Neighbours:
    """One record of norm ``radius`` along a direction (all ones by default) in every step.

    Under replace_one its opposite takes its place, so the clipped sum moves by 2 radius, which is
    the stated sensitivity; under zero_out and add_remove it is taken out, and the sum moves by
    radius.  All other ``count`` - 1 records are zero.
    Errors: InvalidParameter for sizes below 1, a radius or direction without a length, or a row
    that is not there.
    """
    along = np.ones(size) if direction is None else np.asarray(direction, dtype=np.float64)
    length = float(np.linalg.norm(along)) if along.shape == (size,) else 0.0
    if not (np.isfinite(length) and length > 0):
        raise InvalidParameter(f"direction: expected {size} finite numbers, not all zero")
    return _pair(along * (radius / length), count, adjacency, row, "saturates the clipping radius")


def dirac(
    size: int,
    count: int,
    radius: float,
    adjacency: Adjacency | str,
    *,
    coordinate: int = 0,
    row: int = 0,
) -> Neighbours:
    """One record whose gradient is ``radius`` in one coordinate and zero in all others.

    Errors: as :func:`saturating`; InvalidParameter for a coordinate that is not there.
    """
    if not 0 <= coordinate < size:
        raise InvalidParameter(f"coordinate = {coordinate}: expected in [0, {size})")
    along = np.zeros(size)
    along[coordinate] = radius
    return _pair(along, count, adjacency, row, f"moves coordinate {coordinate} alone")


def blank(
    records: npt.ArrayLike,
    adjacency: Adjacency | str,
    *,
    row: int = 0,
    public: Sequence[int] = (),
) -> Neighbours:
    """A row of zeros (a blank image): it moves what belongs to no feature, such as an intercept.

    ``public`` columns (an intercept's ones, a target) keep the row's values.  Under replace_one it
    takes the place of the row; else it is there or not.
    Errors: InvalidParameter for records that are no table, or a row or column that is not there.
    """
    values = _table(records, row)
    zeros = np.zeros_like(values[row])
    for column in public:
        if not -values.shape[1] <= column < values.shape[1]:
            raise InvalidParameter(f"public column {column}: expected one of {values.shape[1]}")
        zeros[column] = values[row, column]
    return _with(values, row, zeros, values[row], adjacency, "a blank record")


def adversarial(
    loss: Gradients,
    records: npt.ArrayLike,
    candidates: npt.ArrayLike,
    starts: npt.ArrayLike,
    radius: float,
    adjacency: Adjacency | str,
    *,
    row: int = 0,
) -> Neighbours:
    """The two ``candidates`` whose clipped gradients are furthest apart, on average over starts.

    ``candidates`` (m, features) are rows to choose from, ``starts`` (trials, d) public parameters.
    Under zero_out and add_remove the candidate with the largest clipped gradient is there or not.
    Errors: InvalidParameter for shapes that do not fit, a radius that is not positive, or a best
    pair that does not move the gradient at all.
    """
    values, rows = _table(records, row), np.asarray(candidates, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1:] != values.shape[1:]:
        raise InvalidParameter(f"candidates: shape {rows.shape}, not (m, {values.shape[1]})")
    if not (np.isfinite(radius) and radius > 0):
        raise InvalidParameter(f"radius = {radius}: expected a positive number")
    at = np.atleast_2d(np.asarray(starts, dtype=np.float64))
    clipped = clip_rows(np.asarray(loss.gradients(at, rows)), np.full(len(at), radius))
    if choose(Adjacency, adjacency, "adversarial") is not Adjacency.REPLACE_ONE:
        lengths = np.linalg.norm(clipped, axis=-1).mean(axis=0)
        first = second = int(np.argmax(lengths))
        best = float(lengths[first])
    else:
        first, second, best = _furthest(clipped)
    if best <= 0:
        raise InvalidParameter("candidates: none moves the clipped gradient")
    words = f"chosen of {len(rows)} candidates to move the clipped gradient"
    return _with(values, row, rows[first], rows[second], adjacency, words)


def _furthest(clipped: Array) -> tuple[int, int, float]:
    best = (0, 0, 0.0)
    for i, j in combinations(range(clipped.shape[1]), 2):
        apart = float(np.linalg.norm(clipped[:, i] - clipped[:, j], axis=-1).mean())
        best = max(best, (i, j, apart), key=lambda pair: pair[2])
    return best


def _pair(
    canary: Array, count: int, adjacency: Adjacency | str, row: int, words: str
) -> Neighbours:
    if count < 1 or not 0 <= row < count:
        raise InvalidParameter(f"row = {row} of {count}: expected a row that is there")
    if not (np.isfinite(canary).all() and canary.any()):
        raise InvalidParameter("radius: expected a finite number, not zero")
    values = np.zeros((count, len(canary)))
    return _with(values, row, canary, -canary, adjacency, words)


def _with(
    values: Array, row: int, first: Array, second: Array, adjacency: Adjacency | str, words: str
) -> Neighbours:
    """``first`` in one data set; in the other ``second``, or under other adjacencies nothing."""
    under = choose(Adjacency, adjacency, "canary")
    with_first = np.array(values)
    with_first[row] = first
    if under is Adjacency.REPLACE_ONE:
        with_second = np.array(values)
        with_second[row] = second
        pair = Records(with_first), Records(with_second)
    elif under is Adjacency.ZERO_OUT:
        pair = Records(with_first), Records(with_first, np.arange(len(values)) != row)
    else:
        others = np.delete(values, row, axis=0)
        pair = Records(np.concatenate([others, first[None]])), Records(others)
    return Neighbours(*pair, under, f"one record {words}")


def _table(records: npt.ArrayLike, row: int) -> Array:
    values = np.asarray(records, dtype=np.float64)
    if values.ndim != 2 or not 0 <= row < len(values):
        raise InvalidParameter(
            f"records of shape {values.shape}: expected a table that has row {row}"
        )
    return values


# --- crafted starting points ---------------------------------------------------------------------


class StartAt:
    """A loss whose runs start at a given point; in all else the loss it was made of."""

    def __init__(self, loss: Any, start: npt.ArrayLike) -> None:
        self.loss = loss
        self.start = np.array(start, dtype=np.float64)
        if self.start.ndim != 1 or not np.isfinite(self.start).all():
            raise InvalidParameter("StartAt: expected a vector of finite numbers")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("loss", "start"):
            raise AttributeError(name)
        return getattr(self.loss, name)

    def __repr__(self) -> str:
        return f"StartAt({self.loss!r}, {self.start.tolist()})"

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """The start in every trial, (trials, d)."""
        right = self.loss.initial(features, trials, seed)
        if right.shape[1:] != self.start.shape:
            raise InvalidParameter(
                f"StartAt: {self.start.size} numbers for {right.shape[1]} parameters"
            )
        return np.tile(self.start, (trials, 1))


def started_at(suite: Suite, start: npt.ArrayLike) -> Suite:
    """A copy of the suite from another starting point, for programs that hold a ``loss``.

    Errors: InvalidParameter for a program that is no dataclass with a field ``loss``.
    """
    program: Any = suite.program
    if "loss" not in getattr(program, "__dataclass_fields__", {}):
        raise InvalidParameter("started_at: expected a program with a field `loss`")
    return replace(suite, program=replace(program, loss=StartAt(program.loss, start)))


class FromStart(NamedTuple):
    """Which start was chosen, and the audit from it."""

    chosen: int
    attacked: Attacked


def attack_from_starts(
    mechanism: Mechanism,
    suite: Suite,
    starts: Sequence[npt.ArrayLike],
    observe: Observe,
    *,
    seed: int,
    trials: int | None = None,
    selection_trials: int = 2_000,
    jobs: int = 1,
) -> FromStart:
    """Attack from the start that tells the data sets apart best, with what ``observe`` shows.

    The start is chosen by balanced accuracy on trials of its own; the audit's trials are fresh,
    so bounds from its test scores are valid.
    Errors: InvalidParameter for no start; otherwise as
    :func:`dpaudit.audit.observed.attack_observed`.
    """
    if len(starts) == 0:
        raise InvalidParameter("starts: give at least one starting point")
    suites = [started_at(suite, start) for start in starts]
    accuracies = []
    for k, candidate in enumerate(suites):
        tried = attack_observed(
            mechanism,
            candidate,
            observe,
            seed=seed,
            index=SELECTION_INDEX + k,
            trials=selection_trials,
            jobs=jobs,
        )
        accuracies.append(_accuracy(tried.test))
    chosen = int(np.argmax(accuracies))
    attacked = attack_observed(
        mechanism, suites[chosen], observe, seed=seed, trials=trials, jobs=jobs
    )
    return FromStart(chosen, attacked)


def _accuracy(test: TestScores | None) -> float:
    if test is None:
        return 0.0
    return float(np.mean(test.alternative > 0) + np.mean(test.null <= 0)) / 2

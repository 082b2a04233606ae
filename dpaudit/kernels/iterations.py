"""Noisy gradient steps as one query, of which the last iterate alone is released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Norm, Query, Records
from dpaudit.scope import Adjacency

CONTRACTION_PROBES = 6  # Random points at which a contraction is measured.


@dataclass(frozen=True, eq=False)
class Iterations:
    """Steps x <- project(x - step (gradient(x) + regulariser x) + noise), from ``start`` (d,).

    ``gradient(x)``: the query of the records at points x (trials, d), row k of its value made of
    row k of x; its sensitivity may not depend on x.  ``radius``: of the ball about 0 that iterates
    are projected to; None for no projection.  The release is the last step before its
    projection.  How many steps there are, over which batches, and with what noise, the leaf says
    under whose label it is released (:class:`dpaudit.families.iterates.LastIterate`); its unit is
    ``step`` times the sensitivity of the gradient.
    Errors: InvalidParameter for a start that is no vector, numbers that are not positive, and, at
    the release, under add_remove with several batches or rows that do not fill them equally.

    >>> import dpaudit as dp, numpy as np
    >>> def gradient(x):
    ...     return dp.ClippedMean(lambda rows: 0 * x[:, None] + np.sign(rows), radius=1)
    >>> run = Iterations(gradient, start=np.zeros(1), step=0.5)
    >>> float(run.sensitivity("replace_one", 10))
    0.1
    """

    norm: ClassVar[Norm] = "l2"

    gradient: Callable[[Array], Query]
    start: Array
    step: float
    regulariser: float = 0.0
    radius: float | None = None

    def __post_init__(self) -> None:
        start = np.array(self.start, dtype=np.float64)
        if start.ndim != 1 or not start.size or not np.isfinite(start).all():
            raise InvalidParameter(f"Iterations.start: shape {start.shape}; expected finite, (d,)")
        object.__setattr__(self, "start", start)
        for name, positive in (("step", True), ("regulariser", False), ("radius", True)):
            value = getattr(self, name)
            if value is None:
                continue
            if not np.isfinite(value) or value < 0 or (positive and value == 0):
                kind = "positive" if positive else "not negative"
                raise InvalidParameter(f"Iterations.{name} = {value}: expected finite, {kind}")

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """How far one unit moves one step, at any point."""
        moved = self.gradient(self.start[None]).sensitivity(adjacency, size)
        return np.asarray(self.step * np.asarray(moved, dtype=np.float64))

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Errors: InvalidParameter: it has a value only as a leaf runs it."""
        raise InvalidParameter("Iterations: release it under the label of a LastIterate")

    def moved(self, x: Array, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """One step without noise or projection, of points (k, d), each on its batch (k, n)."""
        slope = np.asarray(self.gradient(x).value(records, chosen), dtype=np.float64)
        return np.asarray(x - self.step * (slope + self.regulariser * x))

    def inside(self, x: Array) -> Array:
        """Points (k, d), projected."""
        if self.radius is None:
            return x
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        return np.asarray(x * (self.radius / np.maximum(length, self.radius)))


@dataclass(frozen=True, eq=False)
class Path:
    """Iterations along noise that is drawn: ``tape`` (k, steps - 1, d) in noise scales ``scale``.

    Its value is packed, (1 or k, ..): how many paths and coordinates, where each path stands before
    the noise of its last step, by how much an update stretches the distance of two probed points at
    most, and where updates of single batches take these points.  One row a path where they are a
    run's trials; else one row of all.  ``marks`` (k, steps, n), standard normal: a record is in the
    batch of a step where its mark is below ``below``; None where no batch is drawn.
    """

    norm: ClassVar[Norm] = "l2"

    steps: Iterations
    tape: Array
    scale: float
    batches: int
    a_trial_each: bool
    unit: Array = field(default_factory=lambda: np.zeros(()))
    marks: Array | None = None
    below: float = 0.0

    @property
    def batches_drawn(self) -> NDArray[np.bool_] | None:
        """Who is in which batch, (k, steps, n); None where none is drawn."""
        return None if self.marks is None else self.marks < self.below

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """As its steps have it, on one batch.  Errors: InvalidParameter for unequal batches."""
        if self.batches > 1 and adjacency == Adjacency.ADD_REMOVE:
            raise InvalidParameter(
                "Iterations: under add_remove a record that comes or goes shifts all batches"
            )
        if size % self.batches:
            raise InvalidParameter(
                f"Iterations: {size} records do not make {self.batches} batches of one size"
            )
        return self.steps.sensitivity(adjacency, size // self.batches)

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Errors: InvalidParameter on a secret batch."""
        if chosen is not None:
            raise InvalidParameter("Iterations: its batches are public, its rows all of a part")
        size = len(records) // self.batches
        blocks = [records]
        if self.batches > 1:
            blocks = [records.rows(k * size, (k + 1) * size) for k in range(self.batches)]
        run, (count, noises, width) = self.steps, self.tape.shape
        x = run.inside(np.broadcast_to(run.start, (count, width)))
        drawn = self.batches_drawn
        batch = [None] * (noises + 1) if drawn is None else list(np.moveaxis(drawn, 1, 0))
        for t in range(noises):
            step = run.moved(x, blocks[t % self.batches], batch[t]) + self.scale * self.tape[:, t]
            x = run.inside(step)
        last = run.moved(x, blocks[noises % self.batches], batch[noises])
        probes, places = self._probes(), []
        stretched = 0.0
        for block in blocks:
            images = run.moved(probes, block)
            stretched = max(stretched, _stretch(probes, images))
            places.append(images.reshape(-1))
        if self.marks is not None:
            nobody = np.zeros((len(probes), len(records)), dtype=bool)
            stretched = max(stretched, _stretch(probes, run.moved(probes, records, nobody)))
        rows = last if self.a_trial_each else last.reshape(1, -1)
        head = np.array([1 if self.a_trial_each else count, width, stretched], dtype=np.float64)
        tail = np.concatenate([head, *places])
        return np.hstack(
            [
                np.broadcast_to(tail[:3], (len(rows), 3)),
                rows,
                np.broadcast_to(tail[3:], (len(rows), len(tail) - 3)),
            ]
        )

    def _probes(self) -> Array:
        """Public points: the start, and others about it as far as noise alone takes a run."""
        width = len(self.steps.start)
        far = np.random.default_rng(width).standard_normal((CONTRACTION_PROBES, width))
        reach = self.scale * np.sqrt(1 + self.tape.shape[1])
        far *= reach * np.array([0.0, 1.0, 1.0, 0.1, 3.0, 10.0])[:, None]
        return self.steps.inside(self.steps.start + far)


def _stretch(points: Array, images: Array) -> float:
    """The largest ratio of distances of images to those of points, less rounding; at least 0."""
    with np.errstate(all="ignore"):
        before = np.linalg.norm(points[:, None] - points[None], axis=-1)
        after = np.linalg.norm(images[:, None] - images[None], axis=-1)
        rounding = 1e-12 * (np.abs(points).max() + np.abs(images).max())
        ratios = (after - rounding) / before
    finite = ratios[before > 0]
    return float(np.nan_to_num(finite, nan=np.inf).max(initial=0.0))


def packed_parts(values: Array) -> tuple[Array, Array, Array]:
    """Where the paths stand (trials, k, d), the largest stretch (trials,), probed places."""
    count, width = int(values[0, 0]), int(values[0, 1])
    stop = 3 + count * width
    return values[:, 3:stop].reshape(len(values), count, width), values[:, 2], values[:, stop:]


def antithetic(count: int, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Standard normal numbers (2 count, *shape), the second half minus the first."""
    half = rng.standard_normal((count, *shape))
    return np.concatenate([half, -half])

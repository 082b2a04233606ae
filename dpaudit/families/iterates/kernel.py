"""Runs of which the last iterate alone is shown: the steps before it never leave the session."""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.kernels.base import (
    SCALE_ROUNDING,
    Generator,
    Kernel,
    exact_match,
    kernel,
    normal_scores,
)
from dpaudit.kernels.iterations import Iterations, Path, antithetic, packed_parts
from dpaudit.kernels.query import Array, Query
from dpaudit.scope import Adjacency

PATH_PAIRS = 32  # Antithetic pairs of paths over which a replay averages.
# Factor on the declared contraction, above the rounding of the measured one.
CONTRACTION_MARGIN = 1 + 1e-6
NEVER_DRAWN = 9.0  # A mark above every threshold: the record is in no batch.


@kernel(LastIterate)
class LastIterateKernel(Kernel):
    """The last step of :class:`Iterations`, + N(0, scale^2 I), before it is projected.

    A replay does not know the noise of the earlier steps.  It runs 2 ``PATH_PAIRS`` paths of fixed
    antithetic noise on each data set, and scores by normal laws with their means and variances.
    The score is optimal if updates are affine, and a function of the released values in any case.
    """

    hides: ClassVar[bool] = True

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self.averaged = True

    def prepared(
        self, query: Query, adjacency: Adjacency, size: int, rng: Generator | None
    ) -> Query:
        """The query along noise that is drawn here, of ``rng``, or of fixed paths without one.

        Errors: InvalidParameter for another query, or a ball that is wider than was declared.
        """
        leaf, where = self.leaf, f"release {self.leaf.label!r}"
        if not isinstance(query, Iterations):
            raise InvalidParameter(f"{where}: a LastIterate releases Iterations, no other query")
        shape = (int(leaf.steps) - 1, len(query.start))
        if rng is not None:
            tape, marks = self.tape(shape, rng), self.marks(self.trials, size, rng)
            return self._checked(query, tape, marks, adjacency, size, each=True)
        fixed = np.random.default_rng(int.from_bytes(sha256(leaf.digest.encode()).digest()[:8]))
        tape = antithetic(PATH_PAIRS, shape, fixed)
        marks = self.marks(len(tape), size, fixed)
        return self._checked(query, tape, marks, adjacency, size, each=False)

    def tape(self, shape: tuple[int, int], rng: Generator) -> Array:
        """The noise of all steps but the last, (trials, steps - 1, d)."""
        return np.asarray(rng.standard_normal((self.trials, *shape)))

    def marks(self, trials: int, size: int, rng: Generator) -> Array | None:
        """None: every step reads all records of its batch."""
        return None

    def below(self) -> float:
        """Which marks are those of a batch."""
        return 0.0

    def coins(self, path: Path) -> Array | None:
        """Hidden coins mapped to N(0, 1) if they were drawn as declared; None without any."""
        return None

    def _checked(
        self,
        query: Iterations,
        tape: Array,
        marks: Array | None,
        adjacency: Adjacency,
        size: int,
        *,
        each: bool,
    ) -> Path:
        multiplier, batches = self.multiplier(self.leaf), int(self.leaf.batches)
        path = Path(query, tape, 0.0, batches, each)
        unit = np.unique(np.asarray(path.sensitivity(adjacency, size)))
        where = f"release {self.leaf.label!r}"
        if unit.size != 1 or not np.isfinite(unit).all() or unit[0] <= 0:
            raise InvalidParameter(f"{where}: its steps need one sensitivity, positive and finite")
        diameter = float(enclose(self.leaf.diameter).mid())
        if diameter and (
            query.radius is None or 2 * query.radius > diameter * unit[0] * SCALE_ROUNDING
        ):
            reached = "none" if query.radius is None else f"one of {2 * query.radius / unit[0]:.6g}"
            raise InvalidParameter(
                f"{where}: declared on a set of diameter {diameter:.6g} units; its steps project "
                f"to {reached}"
            )
        scale = multiplier * float(unit[0])
        return Path(query, tape, scale, batches, each, marks=marks, below=self.below())

    def centre(self, values: Array) -> Array:
        return np.asarray(packed_parts(values)[0].mean(axis=1))

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        last = packed_parts(values)[0][:, 0]
        return np.asarray(last + scale[:, None] * rng.standard_normal(last.shape))

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        paths = packed_parts(values)[0]
        mean, spread = paths.mean(axis=1), paths.var(axis=1) + np.square(scale)[:, None]
        if not (scale > 0).all():
            return exact_match(released, mean)
        squares = np.square(released - mean) / spread + np.log(2 * math.pi * spread)
        return np.asarray(-squares.sum(axis=-1) / 2)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """The last step's noise, where the steps before are known; NaN elsewhere."""
        paths = packed_parts(values)[0]
        if paths.shape[1] != 1:
            return np.full(released.shape, np.nan)
        return normal_scores(released, paths[:, 0], scale, self.uniforms)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The furthest that an update takes one probed point on the two; infinite for a stretch."""
        width = int(values[0, 1])
        moved = packed_parts(values)[2] - packed_parts(others)[2]
        far = np.linalg.norm(moved.reshape(len(values), -1, width), axis=-1).max(axis=1)
        most = float(enclose(self.leaf.contraction).mid()) * CONTRACTION_MARGIN
        stretched = np.maximum(values[:, 2], others[:, 2]) > most
        return np.asarray(np.where(stretched, np.inf, far))


@kernel(SampledLastIterate)
class SampledLastIterateKernel(LastIterateKernel):
    """As above, each step on a batch of its own: secret coins, one a record and step.

    A coin is whether a standard normal mark is below its quantile, so that an audit may look at
    marks as it does at noise.  Replays have fixed marks, too.
    """

    def marks(self, trials: int, size: int, rng: Generator) -> Array | None:
        """(trials, steps, size), standard normal; of each record in turn."""
        drawn = rng.standard_normal((size, trials, int(self.leaf.steps)))
        return np.asarray(np.moveaxis(drawn, 0, -1))

    def below(self) -> float:
        return float(ndtri(float(enclose(self.leaf.rate).mid())))

    def coins(self, path: Path) -> Array | None:
        """The last record's mark in each step, and the scaled sum of all others', (trials, ..).

        A mark that does not say who is in the batch counts as a far one.
        """
        if path.marks is None:
            return None
        revealed = path.batches_drawn == (path.marks < self.below())
        marks = np.where(revealed, path.marks, NEVER_DRAWN)
        others = marks[..., :-1].sum(axis=-1) / np.sqrt(max(marks.shape[-1] - 1, 1))
        return np.hstack([marks[..., -1], others] if marks.shape[-1] > 1 else [marks[..., -1]])

"""SRN-SGD: normalised steps along a gradient kept up to date by noisy sums of differences.

A *reconstruction*: Murata and Suzuki 2023 compare with it by its rates alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact
from dpaudit.exact.domains import positive
from dpaudit.families.composition import Compose
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, Trust, Unit
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.diff2.framework import Trained


@dataclass(frozen=True)
class SrnSgd:
    """Cyclic passes over public blocks; the sum of per-record gradients is kept by differences.

    Step t of a pass visits block t.  In the first pass it adds the block's gradients, clipped to
    C1; in a later one its gradients' differences since the last visit, clipped to C2 ``step_size``
    ``blocks``: iterates a pass apart are no further than step_size blocks, since every step has
    length ``step_size``.  The prefix sums of a pass, over the number of records, are released with
    the noise of a binary tree, of standard deviation ``noise_multiplier`` times the sensitivity 2 C
    / n a node.  The step is along the sums of all passes; the output is a uniformly random iterate.
    ``gradient_radius`` (C1) has the units of a gradient, ``difference_radius`` (C2) those of a
    gradient over a parameter.
    Records left over from ``blocks`` equal blocks are never read.
    Errors: InvalidParameter for counts, radii or steps that are not positive, or more blocks than
    records.
    Source: a reconstruction of SRN-SGD (Tran and Cutkosky 2022), of which Murata and Suzuki 2023,
    Table 1, gives rates only; its accuracy is not theirs.  The tree is Dwork et al. 2010.
    """

    loss: Loss
    features: int
    size: int
    blocks: int
    passes: int
    gradient_radius: float
    difference_radius: float
    step_size: float
    noise_multiplier: Number

    def __post_init__(self) -> None:
        for name in ("size", "blocks", "passes"):
            value = getattr(self, name)
            if not (hasattr(value, "__index__") and value > 0):
                raise InvalidParameter(f"SrnSgd.{name} = {value}: expected a positive whole number")
        if self.blocks > self.size:
            raise InvalidParameter(f"SrnSgd.blocks = {self.blocks} of {self.size} records")
        for name in ("gradient_radius", "difference_radius", "step_size"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"SrnSgd.{name} = {value}: expected a positive number")
        multiplier = exact(self.noise_multiplier, "SrnSgd.noise_multiplier")
        positive(multiplier, "SrnSgd.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", multiplier)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The public sizes of the blocks, and of the rest that is never read."""
        block, rest = divmod(self.size, self.blocks)
        return (block,) * self.blocks + ((rest,) if rest else ())

    @property
    def levels(self) -> int:
        """How many nodes of a pass's tree hold one record, at most: floor(log2 blocks) + 1."""
        return self.blocks.bit_length()

    def declaration(self, scope: Scope) -> Node:
        """A tree a pass, in which one record takes part once: mu = sqrt(passes levels) / z.

        Errors: InvalidParameter for any scope but one record, replaced, and a trusted curator.
        """
        if (scope.adjacency, scope.unit, scope.trust) != (
            Adjacency.REPLACE_ONE,
            Unit.RECORD,
            Trust.CENTRAL,
        ):
            raise InvalidParameter(
                f"SrnSgd declares its noise for replace_one of a record: {scope}"
            )
        labels = (f"pass {q}" for q in range(1, self.passes + 1))
        noise = self.noise_multiplier
        return Compose(*(CorrelatedGaussian(label, noise, self.blocks) for label in labels))

    def run(self, curator: Curator) -> Trained:
        """Run on a curator; iterates are (trials, dimension)."""
        x = self.loss.initial(self.features, curator.trials, 0)
        steps = self.passes * self.blocks
        chosen = curator.coin(lambda rng: rng.integers(0, steps, size=curator.trials))
        output, finished, released = x, np.zeros_like(x), np.zeros_like(x)
        visited: list[Array] = []
        for t in range(steps):
            done, block = divmod(t, self.blocks)
            if block == 0:
                finished = finished + released
            query = self.query(x, visited[t - self.blocks] if done else None)
            rows = curator.part(block, self.sizes)
            released = curator.release(f"pass {done + 1}", query, rows=rows)
            output = np.where((chosen == t)[:, None], x, output)
            visited.append(x)
            x = x - self.step_size * _direction(finished + released)
        return Trained(output, x)

    def query(self, x: Array, before: Array | None) -> ClippedMean:
        """A block's clipped gradients, or differences since its last visit, over all records."""
        if before is None:
            rows = partial(self.loss.gradients, x)
            return ClippedMean(rows, self.gradient_radius, divisor=float(self.size))
        radius = self.difference_radius * self.step_size * self.blocks
        changes = partial(_changes, self.loss, x, before)
        return ClippedMean(changes, radius, divisor=float(self.size))


def _changes(loss: Loss, x: Array, before: Array, records: Array) -> Array:
    return loss.gradients(x, records) - loss.gradients(before, records)


def _direction(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))

"""Two runs on zeros before anything is drawn: does a program fit, does its noise drown it?

The noise of any program is weighed without a formula for it: relative to the most that records can
contribute, and by how far it moves the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.curator.curator import Request, Sampler
from dpaudit.curator.entitlement import Mask
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency

REHEARSED_RECORDS = 100  # Generated records of a rehearsal, if the number of real ones is private.
LITTLE = 2.0**-30  # share of the noise under which a model moves in proportion to it
NEARLY = 0.01  # relative: how nearly a model has to move half as far, or no farther
FAR = 2.0**20  # noise scales by which releases are pushed: any set that models stay in is crossed
# Share of the noise, and push, of a run as it is declared, and of the trials that are compared.
AS_DECLARED = np.array([(1.0, 0.0)])
MOVES = np.array(
    [(0, 0), (LITTLE, 0), (LITTLE / 2, 0), (0, FAR), (0, -FAR), (0, 2 * FAR), (0, -2 * FAR)]
)


def released(output: Any) -> Array:
    """The model in a program's output, (trials, d): its ``output``, or the output itself."""
    return np.asarray(getattr(output, "output", output))


class _Alike(np.random.Generator):
    """Normal noise that is the same in all of a run's trials, so that they can be compared."""

    trials = 1

    def standard_normal(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """As NumPy's, but for an array whose first axis is that of trials."""
        if np.ndim(size) != 1 or size[0] != self.trials:
            return super().standard_normal(size)
        return np.broadcast_to(super().standard_normal((1, *size[1:])), size)


class _Weighed(Sampler):
    """Adds up the noise of additive l2 releases, and the most that records can contribute.

    The sum of the values of n records moves by n sensitivities at most; noises are independent.
    Trials draw the same noise and the same batches.  ``shares`` (trials,): of the noise that is
    added.  ``pushes`` (trials,): added to every coordinate, in noise scales, and once more with
    each release, so that differences of successive ones are pushed too.
    """

    signal = 0.0
    variance = 0.0
    pushed = 0

    def __init__(self, mechanism: Mechanism, rows: Records, moves: Array) -> None:
        rng, self.shares, self.pushes = _Alike(np.random.PCG64(0)), moves[:, 0], moves[:, 1]
        rng.trials = len(moves)
        super().__init__(mechanism.declaration, mechanism.scope, rows, rng=rng, trials=len(moves))

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        (drawn,) = self._next_batch(1, size, self._rng)
        return [np.broadcast_to(drawn, (self.trials, size))]

    def _rehearse(self, request: Request) -> None:
        super()._rehearse(self._shared(request))

    def _answer(self, request: Request) -> Array:
        answer = super()._answer(self._shared(request))
        if request.query.norm != "l2":
            return answer
        self.pushed += 1
        if bool(request.mask[0]):
            chosen = request.first_draw
            count = len(request.records) if chosen is None else int(chosen[0].sum())
            self.signal += count * float(request.sensitivity[0])
            self.variance += answer.shape[1] * float(request.scale[0]) ** 2
        return answer + (self.pushed * self.pushes * request.scale)[:, None]

    def _shared(self, request: Request) -> Request:
        if request.query.norm != "l2":
            return request
        return replace(request, scale=self.shares * request.scale)


def rehearse(
    mechanism: Mechanism, records: Records, model: Callable[[Any], Array] = released
) -> list[str]:
    """Run on zeros in the shape of the records; returns sentences about the noise.

    ``REHEARSED_RECORDS`` records are used if their number is private.  ``model`` extracts the model
    from the output.  Errors: whatever the program raises on zeros.
    """
    rows, said = Records(np.zeros(in_shape(mechanism, records))), list[str]()
    sampler = _run(mechanism, rows, AS_DECLARED)[0]
    over = math.sqrt(sampler.variance) / sampler.signal if sampler.signal > 0 else 0.0
    if over > 1:
        number = f"{len(rows):,} record{'s' if len(rows) != 1 else ''}"
        said.append(
            f"noise exceeds the signal: over the whole run it is about {over:.3g} times the most "
            f"that {number} can contribute; use more records, a larger epsilon or fewer rounds"
        )
    length, across = _moved(mechanism, rows, model) if sampler.variance > 0 else (0.0, math.inf)
    if length > across:
        said.append(
            f"noise exceeds the ball: alone it would move the model by about {length:.3g}, and the "
            f"set that models stay in is {across:.3g} across; use more records, a larger epsilon, "
            "fewer rounds or shorter steps"
        )
    return said


def _moved(
    mechanism: Mechanism, rows: Records, model: Callable[[Any], Array]
) -> tuple[float, float]:
    """How far the noise alone moves the model of zeros, and across which set it can move at all.

    The length is that of a model which nothing stops: what a little of the noise moves it by, in
    proportion; 0 where half of that does not move it half as far, as steps of one length do.
    Releases that are pushed far, in one direction and in the other, end on two sides of the set
    that the program projects to; where they end farther apart pushed twice as far, there is none.
    """
    try:
        with np.errstate(all="ignore"):
            ends = np.asarray(model(_run(mechanism, rows, MOVES)[1]), dtype=np.float64)
            still, little, less, above, below, far_above, far_below = ends
            ways = [little - still, less - still, above - below, far_above - far_below]
            length, half, across, farther = map(float, np.linalg.norm(ways, axis=1))
    except Exception:  # noqa: BLE001  (what a program makes of such releases is no error of it)
        return 0.0, math.inf
    in_proportion = math.isclose(2 * half, length, rel_tol=NEARLY)
    inside = math.isclose(farther, across, rel_tol=NEARLY)
    return (length / LITTLE if in_proportion else 0.0), (across if inside else math.inf)


def _run(mechanism: Mechanism, rows: Records, moves: Array) -> tuple[_Weighed, Any]:
    sampler = _Weighed(mechanism, rows, moves)
    return sampler, mechanism.program.run(sampler)


def in_shape(mechanism: Mechanism, records: Records) -> tuple[int, ...]:
    """The shape of a rehearsal's records: of these, or of so many where their number is private."""
    private = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    return (REHEARSED_RECORDS if private else len(records), *records.values.shape[1:])

"""One run on zeros before anything is drawn: does the program fit, and does its noise drown it?

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
from dpaudit.curator.mechanism import Mechanism
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency

REHEARSED_RECORDS = 100  # Generated records of a rehearsal, if the number of real ones is private.
LITTLE = 2.0**-30  # share of the noise under which a model moves in proportion to it
NEARLY = 0.01  # relative: how nearly a model has to move half as far, or no farther
FAR = 2.0**20  # noise scales by which releases are pushed: any set that models stay in is crossed


def released(output: Any) -> Array:
    """The model in a program's output, (trials, d): its ``output``, or the output itself."""
    return np.asarray(getattr(output, "output", output))


class _Weighed(Sampler):
    """Adds up the noise of additive l2 releases, and the most that records can contribute.

    The sum of the values of n records moves by n sensitivities at most; noises are independent.
    ``share``: of the noise that is added.  ``push``: added to every coordinate, in noise scales,
    and once more with each release, so that differences of successive ones are pushed too.
    """

    signal = 0.0
    variance = 0.0
    share = 1.0
    push = 0.0
    pushed = 0

    def _rehearse(self, request: Request) -> None:
        super()._rehearse(self._shared(request))

    def _answer(self, request: Request) -> Array:
        answer = super()._answer(self._shared(request))
        if bool(request.mask[0]) and request.query.norm == "l2":
            chosen, scale = request.first_draw, float(request.scale[0])
            count = len(request.records) if chosen is None else int(chosen[0].sum())
            self.signal += count * float(request.sensitivity[0])
            self.variance += answer.shape[1] * scale**2
            self.pushed += 1
            answer = answer + self.pushed * self.push * scale
        return answer

    def _shared(self, request: Request) -> Request:
        if request.query.norm != "l2" or self.share == 1.0:
            return request
        return replace(request, scale=self.share * request.scale)


def rehearse(
    mechanism: Mechanism, records: Records, model: Callable[[Any], Array] = released
) -> list[str]:
    """One run on zeros in the shape of the records; returns sentences about its noise.

    ``REHEARSED_RECORDS`` records are used if their number is private.  ``model`` extracts the model
    from the output.  Errors: whatever the program raises on zeros.
    """
    rows, said = Records(np.zeros(in_shape(mechanism, records))), list[str]()
    sampler, output = _run(mechanism, rows)
    over = math.sqrt(sampler.variance) / sampler.signal if sampler.signal > 0 else 0.0
    if over > 1:
        number = f"{len(rows):,} record{'s' if len(rows) != 1 else ''}"
        said.append(
            f"noise exceeds the signal: over the whole run it is about {over:.3g} times the most "
            f"that {number} can contribute; use more records, a larger epsilon or fewer rounds"
        )
    stopped = sampler.variance > 0 and _stopped(mechanism, rows, model, output)
    length, across = _moved(mechanism, rows, model) if stopped else (0.0, math.inf)
    if length > across:
        said.append(
            f"noise exceeds the ball: alone it would move the model by about {length:.3g}, and the "
            f"set that models stay in is {across:.3g} across; use more records, a larger epsilon, "
            "fewer rounds or shorter steps"
        )
    return said


def _stopped(
    mechanism: Mechanism, rows: Records, model: Callable[[Any], Array], output: Any
) -> bool:
    """Whether the noise of a run moved the model otherwise than in proportion to a little of it.

    Where it did not, nothing stopped it: the model stayed in whatever set there is.
    """
    try:
        with np.errstate(all="ignore"):
            still, little = (model(_run(mechanism, rows, share)[1]) for share in (0.0, LITTLE))
            way = model(output) - still
            off = np.linalg.norm(way - (little - still) / LITTLE)
            return not off <= NEARLY * np.linalg.norm(way)
    except Exception:  # noqa: BLE001  (what a program makes of such releases is no error of it)
        return False


def _moved(
    mechanism: Mechanism, rows: Records, model: Callable[[Any], Array]
) -> tuple[float, float]:
    """How far the noise alone moves the model of zeros, and across which set it can move at all.

    The length is that of a model which nothing stops: what a little of the noise moves it by, in
    proportion; 0 where half of that does not move it half as far, as steps of one length do.
    Releases that are pushed far, in one direction and in the other, end on two sides of the set
    that the program projects to; where they end farther apart pushed twice as far, there is none.
    """

    def apart(one: tuple[float, float], other: tuple[float, float]) -> float:
        models = (model(_run(mechanism, rows, *moved)[1]) for moved in (one, other))
        first, second = (np.asarray(found, dtype=np.float64) for found in models)
        return float(np.linalg.norm(first - second))

    def moved(share: float) -> float:
        return apart((share, 0.0), (0.0, 0.0)) / share

    def between(push: float) -> float:
        return apart((0.0, push), (0.0, -push))

    def nearly(one: float, other: float) -> bool:
        return math.isclose(one, other, rel_tol=NEARLY)

    try:
        with np.errstate(all="ignore"):
            length, across = moved(LITTLE), between(FAR)
            if length <= across:
                return length, across
            in_proportion, inside = (
                nearly(moved(LITTLE / 2), length),
                nearly(between(2 * FAR), across),
            )
    except Exception:  # noqa: BLE001  (what a program makes of such releases is no error of it)
        return 0.0, math.inf
    return (length if in_proportion else 0.0), (across if inside else math.inf)


def _run(
    mechanism: Mechanism, rows: Records, share: float = 1.0, push: float = 0.0
) -> tuple[_Weighed, Any]:
    sampler = _Weighed(mechanism.declaration, mechanism.scope, rows, rng=np.random.default_rng(0))
    sampler.share, sampler.push = share, push
    return sampler, mechanism.program.run(sampler)


def in_shape(mechanism: Mechanism, records: Records) -> tuple[int, ...]:
    """The shape of a rehearsal's records: of these, or of so many where their number is private."""
    private = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    return (REHEARSED_RECORDS if private else len(records), *records.values.shape[1:])

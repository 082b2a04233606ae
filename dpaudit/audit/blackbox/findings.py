"""Faults of a mechanism's calls apart from its privacy, seen on draws of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.draws import Draws, TrainingDraws, row_codes
from dpaudit.audit.blackbox.sampler import CallFailed, Calls, Part, Sampler
from dpaudit.errors import InvalidParameter

Array = npt.NDArray[Any]
PROBE_SIZE = 64  # outputs of a first call
# If chance makes outputs equal with a probability below e^-40, a stream was used again.
COINCIDENCE_NATS = 40.0
SINGLE_CALLS = 100  # calls with one output each, which show what a call keeps for the next
HOMOGENEITY_ERROR = 1e-9  # false-alarm rate of the test that calls draw alike
# Trials of each probing call: two large calls, then three of a single trial.
_PROBE_SIZES = (PROBE_SIZE, PROBE_SIZE, 1, 1, 1)


class Finding(StrEnum):
    """A named defect, or oddity, of a black-box mechanism."""

    RAISES = "raises"
    SHAPE_CHANGES = "shape_changes"
    IGNORES_GENERATOR = "ignores_generator"
    CONSTANT = "constant"
    SHARED_DRAW = "shared_draw"
    REPEATED_STREAM = "repeated_stream"
    DEPENDENT = "dependent"
    IRREPRODUCIBLE = "irreproducible"
    LOW_BITS = "low_bits"
    EQUAL_DATA = "equal_data"
    RESTARTED = "restarted"


EXPLANATIONS = {
    Finding.RAISES: "the mechanism raises on some calls; calls of size 1 count as outputs",
    Finding.SHAPE_CHANGES: "the shape or type of the output changes from call to call",
    Finding.IGNORES_GENERATOR: "different generators give the same draws",
    Finding.CONSTANT: "every draw is the same",
    Finding.SHARED_DRAW: "all draws of a call are one draw: they are not independent trials",
    Finding.REPEATED_STREAM: "the draws of a call repeat themselves: they are not independent",
    Finding.DEPENDENT: "counts differ between calls far more than independent draws allow",
    Finding.IRREPRODUCIBLE: "the same generator gives different draws: other randomness is used",
    Finding.LOW_BITS: (
        "the last binary digits of the outputs tell the data sets apart by more than the claim "
        "allows, as training draws show; this verdict does not read them, attack='bits' "
        "(--set attack=bits) does"
    ),
    Finding.EQUAL_DATA: (
        "d0 and d1 are equal: no mechanism tells them apart, and nothing can be shown; give two "
        "data sets that differ in one unit"
    ),
    Finding.RESTARTED: (
        "calls crashed, or found no connection, and were repeated with the same seed: the result "
        "is about calls that finish, and assumes that crashes do not depend on the data"
    ),
}
SINGLE = {
    Finding.RAISES,
    Finding.SHAPE_CHANGES,
    Finding.IGNORES_GENERATOR,
    Finding.SHARED_DRAW,
    Finding.REPEATED_STREAM,
    Finding.DEPENDENT,
}
BROKEN = SINGLE - {Finding.RAISES, Finding.SHAPE_CHANGES}


@dataclass(frozen=True, eq=False)
class Probed:
    """One draw as an example of shape and type, and what was found on the way."""

    example: Draws
    findings: tuple[Finding, ...]

    @property
    def calls(self) -> Calls:
        """How trials can be had from such a mechanism."""
        return Calls.SINGLE if SINGLE & set(self.findings) else Calls.MANY


def probe(sampler: Sampler) -> Probed:
    """Call the mechanism a few times on each data set: does it run, and return what it should?

    Errors: InvalidParameter where every call raises, or a call returns a wrong shape.
    """
    draws_of_side: list[list[Draws]] = [[], []]
    failures: list[CallFailed] = []
    for side in (0, 1):
        for index, size in enumerate(_PROBE_SIZES):
            try:
                draws_of_side[side].append(sampler.call(side, Part.PROBE, index, size))
            except CallFailed as error:
                failures.append(error)
    if not any(draws_of_side):
        raise InvalidParameter(f"{failures[0]}, and so did every other call") from failures[0]
    findings = [Finding.RAISES] if failures else []
    shapes = {tuple(draws.about[0]) for side in draws_of_side for draws in side}
    findings += [Finding.SHAPE_CHANGES] if len(shapes) > 1 else []
    findings += [Finding.IRREPRODUCIBLE] if _irreproducible(sampler) else []
    return Probed(next(iter(draws_of_side[0] + draws_of_side[1])), tuple(findings))


def _irreproducible(sampler: Sampler) -> bool:
    try:
        first, second = (sampler.call(0, Part.PROBE, 0, PROBE_SIZE) for _ in range(2))
    except CallFailed:
        return False
    return not np.array_equal(row_codes(first.values), row_codes(second.values))


def stream_findings(calls: Sequence[Draws]) -> list[Finding]:
    """Whether calls of many draws with different generators look like independent trials.

    A repetition counts only if independent draws would show it with probability below e^-40,
    estimated from how often neighbouring draws agree.
    """
    codes = [row_codes(draws.values) for draws in calls]
    if any(code.size < 2 for code in codes):
        return []
    if all((code == code[0]).all() for code in codes):
        alike = len({int(code[0]) for code in codes}) == 1
        return [Finding.CONSTANT if alike else Finding.SHARED_DRAW]
    agree = max(np.mean([np.mean(code[1:] == code[:-1]) for code in codes]), 1e-9)
    surprise = -math.log(min(float(agree), 1.0))
    if any(
        _same(a, b) and min(a.size, b.size) * surprise > COINCIDENCE_NATS
        for a, b in pairwise(codes)
    ):
        return [Finding.IGNORES_GENERATOR]
    return [Finding.REPEATED_STREAM] if any(_repeats(code, surprise) for code in codes) else []


def shared_in_single_calls(sampler: Sampler, side: int) -> bool:
    """Whether calls of size 1 differ, though all draws of every large call were alike."""
    singles = replace(sampler, calls=Calls.SINGLE)
    draws = singles.draw(side, Part.SINGLE_PROBE, SINGLE_CALLS, TrainingDraws, 1)
    return len(set(row_codes(draws.values).tolist())) > 1


def is_dependent(counts: Array, sizes: Array) -> bool:
    """Whether event counts of several calls differ more than independent trials would.

    Pearson's chi-square of homogeneity at 1e-9, twice that statistic needed as room for the
    approximation; never where fewer than 10 hits or misses a call are expected.
    """
    from scipy.special import chdtri

    rate = counts.sum() / sizes.sum()
    if len(counts) < 2 or min(rate, 1 - rate) * sizes.min() < 10:
        return False
    statistic = ((counts - rate * sizes) ** 2 / (rate * (1 - rate) * sizes)).sum()
    return bool(statistic > 2 * chdtri(len(counts) - 1, HOMOGENEITY_ERROR))


def _same(first: Array, second: Array) -> bool:
    common = min(first.size, second.size)
    return bool((first[:common] == second[:common]).all())


def _repeats(code: Array, surprise: float) -> bool:
    """Whether the sequence equals itself shifted by some lag of at most half its length."""
    lags = 1 + np.flatnonzero(code[1 : code.size // 2 + 1] == code[0])
    for lag in lags[:64]:
        length = code.size - int(lag)
        if length * surprise > COINCIDENCE_NATS and (code[lag:] == code[:length]).all():
            return True
    return False

"""The sparse vector technique and its published variants, right and wrong.

Data: answers of queries of sensitivity 1, threshold 0.  Output of one run: a column a query, 1 for
"above", 0 for "below", NaN once the run has stopped; numeric variants give the noisy answer for
"above" and 0 for "below".
"""

from __future__ import annotations

import math

import numpy as np

from audits.blackbox.case import Array, Domain, Family, Generator, Pair, Relation, frozen
from dpaudit.families.opaque import PureDP

FAMILY = Family("sparse vector")
LYU = "Lyu, Su and Li 2017, Understanding the sparse vector technique, Figure 1"
ONE = PureDP(1)


def _answers(d0: list[float], d1: list[float]) -> Pair:
    domain = Domain(len(d0), len(d0), -10.0, 10.0)
    return Pair(frozen(np.array(d0)), frozen(np.array(d1)), domain, Relation.EACH_BY_ONE)


def _below_then_above(below: int, above: int, level: float = 0.0) -> Pair:
    low, high = [level] * below, [level + 1.0] * above
    return _answers(low + high, [level + 1.0] * below + [level] * above)


def _compare(
    data: Array, rng: Generator, size: int, *, threshold: float, query: float
) -> tuple[Array, Array]:
    """Noisy answers less the noisy threshold, and the noisy answers, one threshold a run."""
    rho = rng.laplace(size=(size, 1)) * threshold
    answers = data + rng.laplace(size=(size, len(data))) * query
    return answers - rho, answers


def _stopped(output: Array, above: Array, limit: int) -> Array:
    """NaN after the ``limit``-th answer above the threshold."""
    before = np.cumsum(above, axis=1) - above
    return np.where(before < limit, output, np.nan)


def _bits(
    data: Array, rng: Generator, size: int, *, threshold: float, query: float, limit: int
) -> Array:
    margin, _ = _compare(data, rng, size, threshold=threshold, query=query)
    above = margin >= 0
    return _stopped(above.astype(np.float64), above, limit)


def _pattern(draws: Array, below: int) -> Array:
    """Columns all "below" first, then all "above"."""
    return np.asarray((draws[:, :below] == 0).all(1) & (draws[:, below:] > 0).all(1))


def _noise_above(x: Array) -> Array:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x > 0, tail, 1 - tail)


def _chances(below: int, above: int, threshold: float, query: float) -> tuple[float, float]:
    """Chances of ``below`` answers below and ``above`` above, by the trapezoidal rule in rho.

    First where the former are 0 and the latter 1, then the other way round.
    """
    rho = np.linspace(-40, 40, 20_001) * threshold
    density = np.exp(-np.abs(rho) / threshold) / (2 * threshold)

    def chance(low: float, high: float) -> float:
        under = 1 - _noise_above((rho - low) / query)
        over = _noise_above((rho - high) / query)
        return float(np.trapezoid(density * under**below * over**above, rho))

    return chance(0.0, 1.0), chance(1.0, 0.0)


def _squared(chances: tuple[float, float]) -> tuple[float, float]:
    return chances[0] ** 2, chances[1] ** 2


ONE_ABOVE = _below_then_above(9, 1)
THREE_ABOVE = _below_then_above(3, 3)
HALVES = _below_then_above(6, 6)


@FAMILY.correct(ONE, ONE_ABOVE, LYU + " (Algorithm 1)")
def svt_algorithm_1(data: Array, rng: Generator, size: int) -> Array:
    """Right: threshold noise Lap(1/eps_1), query noise Lap(2 c/eps_2), stops after c = 1."""
    return _bits(data, rng, size, threshold=2.0, query=4.0, limit=1)


@FAMILY.correct(ONE, THREE_ABOVE, LYU + " (Algorithm 1)")
def svt_algorithm_1_three(data: Array, rng: Generator, size: int) -> Array:
    """Right: as above with c = 3."""
    return _bits(data, rng, size, threshold=2.0, query=12.0, limit=3)


@FAMILY.correct(ONE, THREE_ABOVE, "Dwork and Roth 2014, Algorithm 2; " + LYU + " (Algorithm 2)")
def svt_algorithm_2(data: Array, rng: Generator, size: int) -> Array:
    """Right: a fresh threshold Lap(c/eps_1) after every answer above, query noise Lap(2 c/eps_2).

    c = 2.
    """
    scale, limit = 4.0, 2
    rho = rng.laplace(size=size) * scale
    count = np.zeros(size, dtype=np.int64)
    output = np.full((size, len(data)), np.nan)
    for i, answer in enumerate(data):
        above = answer + rng.laplace(size=size) * 2 * scale >= rho
        running = count < limit
        output[:, i] = np.where(running, above, np.nan)
        count += above & running
        rho = np.where(above, rng.laplace(size=size) * scale, rho)
    return output


@FAMILY.correct(ONE, ONE_ABOVE, "Wang, Ding, Xiao, Zhang and Kifer 2020, free gap information")
def svt_free_gap(data: Array, rng: Generator, size: int) -> Array:
    """Right: above the threshold it gives the gap to the noisy threshold, which costs nothing."""
    margin, _ = _compare(data, rng, size, threshold=2.0, query=4.0)
    above = margin >= 0
    return _stopped(np.where(above, margin, 0.0), above, 1)


@FAMILY.correct(ONE, ONE_ABOVE, LYU + " (section 4.1, numeric)")
def svt_numeric(data: Array, rng: Generator, size: int) -> Array:
    """Right: above the threshold it answers with fresh noise, paid for out of the budget."""
    margin, _ = _compare(data, rng, size, threshold=4.0, query=8.0)
    above = margin >= 0
    fresh = data + rng.laplace(size=margin.shape) * 2.0
    return _stopped(np.where(above, fresh, 0.0), above, 1)


ROTH_NOTES = _answers([-2.0] * 19 + [0.0], [-1.0] * 19 + [-1.0])


@FAMILY.buggy(
    PureDP(2),
    ROTH_NOTES,
    LYU + " (Algorithm 3: lecture notes of Roth 2011)",
    lambda draws: (draws[:, :-1] == 0).all(1) & (draws[:, -1] < 0.5) & (draws[:, -1] != 0),
)
def svt_roth_notes(data: Array, rng: Generator, size: int) -> Array:
    """Gives out the noisy answer that was compared: it bounds the threshold; no finite epsilon."""
    margin, answers = _compare(data, rng, size, threshold=1.0, query=1.0)
    above = margin >= 0
    return _stopped(np.where(above, answers, 0.0), above, 1)


@FAMILY.buggy(
    ONE,
    THREE_ABOVE,
    LYU + " (Algorithm 4: Lee and Clifton 2014)",
    lambda draws: _pattern(draws, 3),
    _chances(3, 3, 4.0, 4.0 / 3.0),
)
def svt_lee_clifton(data: Array, rng: Generator, size: int) -> Array:
    """Query noise without the factor c = 3: (1 + 6 c)/4 = 4.75 times the claimed epsilon."""
    return _bits(data, rng, size, threshold=4.0, query=4.0 / 3.0, limit=3)


@FAMILY.buggy(
    ONE,
    _answers([0.0, 1.0], [1.0, 0.0]),
    LYU + " (Algorithm 5: Stoddard, Chen and Machanavajjhala 2014)",
    lambda draws: _pattern(draws, 1),
    (0.5 * (1 - math.exp(-0.5)), 0.0),
)
def svt_stoddard(data: Array, rng: Generator, size: int) -> Array:
    """No noise on the answers: two of them tell their order; no finite epsilon."""
    return _bits(data, rng, size, threshold=2.0, query=0.0, limit=len(data))


@FAMILY.buggy(
    ONE,
    HALVES,
    LYU + " (Algorithm 6: Chen, Xiao, Zhang and Xu 2015)",
    lambda draws: draws[:, 6:].sum(1) - draws[:, :6].sum(1) >= 4,
)
def svt_chen(data: Array, rng: Generator, size: int) -> Array:
    """Never stops, query noise Lap(1/eps_2): epsilon grows with the number of queries."""
    return _bits(data, rng, size, threshold=2.0, query=2.0, limit=len(data))


@FAMILY.buggy(
    ONE,
    _below_then_above(10, 10),
    "Chen and Machanavajjhala 2015, On the privacy properties of variants on the sparse vector",
    lambda draws: draws[:, 10:].sum(1) - draws[:, :10].sum(1) >= 5,
)
def svt_generalized_threshold_testing(data: Array, rng: Generator, size: int) -> Array:
    """Generalised private threshold testing: "above" is taken to be free, and is not."""
    return _bits(data, rng, size, threshold=2.0, query=4.0, limit=len(data))


@FAMILY.buggy(
    ONE,
    _answers([-2.0] * 14, [-1.0] * 14),
    "Dwork and Roth 2014, section 3.6, without the noise on the threshold",
    lambda draws: (draws == 0).all(1),
    ((1 - 0.5 * math.exp(-0.5)) ** 14, (1 - 0.5 * math.exp(-0.25)) ** 14),
)
def svt_fixed_threshold(data: Array, rng: Generator, size: int) -> Array:
    """The threshold carries no noise: every answer below costs as much as one above."""
    return _bits(data, rng, size, threshold=0.0, query=4.0, limit=1)


@FAMILY.buggy(
    ONE,
    _answers(([0.0] * 3 + [1.0]) * 2, ([1.0] * 3 + [0.0]) * 2),
    "Dwork and Roth 2014, Algorithm 2, restarted with the full budget",
    lambda draws: (draws == [0, 0, 0, 1, 0, 0, 0, 1]).all(1),
    _squared(_chances(3, 1, 2.0, 4.0)),
)
def svt_restarted(data: Array, rng: Generator, size: int) -> Array:
    """Two runs, each with the whole budget, are claimed to cost one: 2 epsilon."""
    halves = data[: len(data) // 2], data[len(data) // 2 :]
    runs = [_bits(half, rng, size, threshold=2.0, query=4.0, limit=1) for half in halves]
    return np.concatenate(runs, axis=1)


@FAMILY.buggy(
    PureDP(2),
    _answers([-1.0] * 12, [0.0] * 12),
    "Lyu, Su and Li 2017, section 3.1: the threshold has to stay secret",
    lambda draws: (draws[:, 1:] == 0).all(1) & (draws[:, 0] < 0.5),
)
def svt_threshold_published(data: Array, rng: Generator, size: int) -> Array:
    """The noisy threshold is released with the answers, which then cost up to 1/2 each."""
    margin, answers = _compare(data, rng, size, threshold=1.0, query=2.0)
    above = margin >= 0
    bits = _stopped(above.astype(np.float64), above, 1)
    return np.concatenate([answers[:, :1] - margin[:, :1], bits], axis=1)


@FAMILY.buggy(
    PureDP(2),
    _below_then_above(8, 1),
    "Lyu, Su and Li 2017, Theorem 2: 2 c/eps_2 for queries that move both ways",
    lambda draws: _pattern(draws, 8),
    _chances(8, 1, 1.0, 1.0),
)
def svt_query_noise_halved(data: Array, rng: Generator, size: int) -> Array:
    """Query noise Lap(c/eps_2) in place of Lap(2 c/eps_2): eps_1 + 2 eps_2 = 3 where 2 is claimed.

    That noise is enough only for queries that all move the same way.
    """
    return _bits(data, rng, size, threshold=1.0, query=1.0, limit=1)


@FAMILY.buggy(
    ONE,
    _below_then_above(5, 3),
    LYU + ": the cut-off c = 1 is not applied",
    lambda draws: _pattern(draws, 5),
    _chances(5, 3, 2.0, 4.0),
)
def svt_stops_late(data: Array, rng: Generator, size: int) -> Array:
    """Noise for one answer above the threshold, but it stops after the third: up to 2 epsilon."""
    return _bits(data, rng, size, threshold=2.0, query=4.0, limit=3)

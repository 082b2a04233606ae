"""Bets against a claim: evidence valid at any stopping time, that can be extended and combined.

A *region* allows p = P[E] <= largest(q), q = Q[E], for every event E, concave in q.  Any of its
supporting lines, largest(q) <= p0 + slope (q - q0) for all q, is a fair price list.  With one draw
of each side a pair, x and y in {0, 1} whether they fall in E (or x = f(X), y = f(Y) for a function
f into [0, 1], a randomised event), the wealth is multiplied by

    (1 + c (x - p0)) (1 - c slope (y - q0)),    0 <= c <= 1 / max(p0, slope (1 - q0)).

Under the claim, with w = slope (q - q0) and p - p0 <= w, the conditional mean of that factor is

    (1 + c (p - p0)) (1 - c w) <= (1 + c w) (1 - c w) <= 1,

since both means are of non-negative numbers and the draws are independent.  So the wealth is a
non-negative supermartingale from 1 whatever (p, q) the claim allows; so is an average over lines
and stakes fixed beforehand; and by Ville's inequality it ever reaches 1 / error with probability
at most ``error``: one may stop early, continue later, and look after every pair.  If (p0, q0) is
the point of the edge nearest in Kullback-Leibler divergence to the true (p, q), and c the stake
that makes the factor a likelihood ratio, no e-value of the claim grows faster.  Wealth is also an
e-value: over independent runs e-values multiply, over pairs of data sets their average is one.

Sources: Ville (1939); Waudby-Smith and Ramdas (2023), betting on means; Turner and Gruenwald
(2022), products of two samples; Gruenwald, de Heide and Koolen (2024), growth-rate optimality.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from dpaudit.audit.bounds.estimators import MAXIMUM_TRIALS, _error_rate
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import CONCAVITY_ROUNDING, Region

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Multiples of the stake that is best for the expected effect; all are bet.
STAKE_MULTIPLES = (0.5, 1.2, 3.0, 10.0)
# Shares of the wealth bet at each multiple; most at the one that is about optimal.
_STAKE_WEIGHTS = (0.1, 0.78, 0.1, 0.02)
# Event rates that are bet on if no rate is expected.
_BROAD_RATES = (0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9)
_MAX_STAKE = 0.99  # Largest share of the wealth that one bet may lose.
_EVERY_PAIR = 4_096  # pairs up to which the wealth is looked at after each
# Relative half-width of the window around a rate on which the supporting line is sampled.
_LINE_WINDOW = 1e-4
_LINE_SAMPLES = 33  # Rates in that window at which the region's edge is evaluated.
_DRAWS_PER_BATCH = 65_536  # Draws processed at once: 64 Ki numbers fit into the processor's cache.


@dataclass(frozen=True, eq=False)
class Bets:
    """Bets against nested claims, each of shape (claims, bets): centre (p0, q0), slope, stake c.

    ``parameters`` are the claims', increasing: a claim with a larger one allows more.  ``weights``
    of a claim's bets sum to 1.  Errors: InvalidParameter for a bet that could lose more than all.
    """

    parameters: tuple[float, ...]
    first_centre: FloatArray
    second_centre: FloatArray
    slope: FloatArray
    stake: FloatArray
    weights: FloatArray

    def __post_init__(self) -> None:
        if any(b <= a for a, b in zip(self.parameters, self.parameters[1:], strict=False)):
            raise InvalidParameter(f"parameters = {self.parameters}: expected them increasing")
        most = self.stake * np.maximum(self.first_centre, self.slope * (1 - self.second_centre))
        if not (np.all(self.stake >= 0) and np.all(most < 1)):
            raise InvalidParameter("stake: a bet could lose more than all; keep stakes below 1")
        if not np.all(np.abs(self.weights.sum(axis=1) - 1) <= 1e-12):
            raise InvalidParameter("weights: expected each claim's bets to have total weight 1")

    @property
    def digest(self) -> str:
        """SHA-256 of the bets: a tally is resumed with the bets it was begun with."""
        table = np.stack([*self.factors(), self.weights]).tobytes()
        return hashlib.sha256(repr(self.parameters).encode() + table).hexdigest()

    def start(self) -> Tally:
        """A tally of no pairs."""
        return Tally(self.digest, 0, 0, 0, (0.0,) * len(self.parameters))

    def start_values(self) -> ValueTally:
        """A tally of no pairs of values."""
        rows = tuple([(0.0,) * self.stake.shape[1]] * self.stake.shape[0])
        return ValueTally(self.digest, 0, rows, (0.0,) * len(self.parameters))

    def factors(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Logarithms of a factor's four parts: first hit, first miss, second hit, second miss."""
        down = self.stake * self.slope
        return (
            np.log1p(self.stake * (1 - self.first_centre)),
            np.log1p(-self.stake * self.first_centre),
            np.log1p(-down * (1 - self.second_centre)),
            np.log1p(down * self.second_centre),
        )


@dataclass(frozen=True)
class Tally:
    """The state of an interrupted bet on an event: three integers, and the largest wealths.

    Per claim, ``log_peaks`` is the largest log wealth at the looks so far and ``log_carried`` the
    one that earlier bets handed over, 0 if there were none.  Plain numbers and strings:
    ``dataclasses.asdict`` and JSON keep it, ``Tally(**table)`` resumes it.
    Errors: InvalidParameter for counts that are not integers with hits <= pairs.
    """

    bets: str
    pairs: int
    first_hits: int
    second_hits: int
    log_peaks: tuple[float, ...]
    log_carried: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        counts = (self.pairs, self.first_hits, self.second_hits)
        integers = all(type(count) is int for count in counts)
        if not integers or not 0 <= max(counts[1:]) <= self.pairs or min(counts) < 0:
            raise InvalidParameter(f"tally: {counts}: expected integers, hits among the pairs")
        object.__setattr__(self, "log_peaks", tuple(map(float, self.log_peaks)))
        carried = self.log_carried or (0.0,) * len(self.log_peaks)
        object.__setattr__(self, "log_carried", tuple(map(float, carried)))

    def p_values(self) -> tuple[float, ...]:
        """Anytime-valid p-value of each claim: 1 over its largest wealth, rounded up."""
        return tuple(min(1.0, math.exp(-peak) * (1 + 1e-12)) for peak in self.log_peaks)


@dataclass(frozen=True)
class ValueTally:
    """State of an interrupted bet on a function's values: the log wealth of every bet.

    ``log_wealth``: one row of floats a claim.  Otherwise as :class:`Tally`.
    """

    bets: str
    pairs: int
    log_wealth: tuple[tuple[float, ...], ...]
    log_peaks: tuple[float, ...]

    def __post_init__(self) -> None:
        rows = tuple(tuple(map(float, row)) for row in self.log_wealth)
        object.__setattr__(self, "log_wealth", rows)
        object.__setattr__(self, "log_peaks", tuple(map(float, self.log_peaks)))


def bets_against(
    regions: Sequence[Region],
    parameters: Sequence[float],
    *,
    pairs: int,
    error: float,
    expected: tuple[float, float] | None = None,
) -> Bets:
    """Bets on p > largest(q) for each region: lines near the ``expected`` (p, q), several stakes.

    The unit stake, sqrt(2 log(1 / error) / (pairs V)) with V the variance of x - slope y, is the
    best for a wealth of 1 / ``error`` after ``pairs`` pairs.  Most of the wealth goes to 1.2 times
    that stake, which is best if the wealth is looked at after every pair; the rest goes to 0.5, 3
    and 10 times.  ``expected`` comes from training, declared densities or a guess; without it,
    lines at eight rates share the wealth.  These choices affect power only; the bets are valid if
    they are fixed before the pairs are drawn.

    Errors: InvalidParameter for no regions, rates outside (0, 1), no pairs, or a bad error rate.
    """
    if expected is not None and not all(0 <= rate <= 1 for rate in expected):
        raise InvalidParameter(f"expected = {expected}: expected two rates in [0, 1]")
    rates = [expected] if expected is not None else [(0.0, q) for q in _BROAD_RATES]
    if not regions or len(regions) != len(parameters):
        raise InvalidParameter("bets: expected at least one region and a parameter for each")
    if not 1 <= pairs <= MAXIMUM_TRIALS:
        raise InvalidParameter(f"pairs = {pairs!r}: expected an integer in [1, 1e9]")
    reach = 2 * math.log(1 / _error_rate(error)) / pairs
    rows = [[_line_bets(region, *rate, reach) for rate in rates] for region in regions]
    centre, second, slope, stake = np.moveaxis(np.array(rows), 2, 0).reshape(4, len(regions), -1)
    weights = np.tile(
        np.array(_STAKE_WEIGHTS) / (sum(_STAKE_WEIGHTS) * len(rates)), (len(regions), len(rates))
    )
    return Bets(tuple(map(float, parameters)), centre, second, slope, stake, weights)


def play(bets: Bets, tally: Tally, first: npt.ArrayLike, second: npt.ArrayLike) -> Tally:
    """Bet on further pairs: whether each draw of P, and of Q, fell in the event; shape (pairs,).

    The wealth is looked at after each of the first 4,096 pairs, and then at about as many in each
    doubling; which ones depends on their number alone, so that batches of any size give one tally.
    The other direction of a claim is the bet on (not second, not first).

    Errors: InvalidParameter for arrays that are not Boolean or differ in shape, or another's tally.
    """
    hits, others = (_indicators(side) for side in (first, second))
    _resumes(bets, tally.bets, hits.size, others.size)
    looks = _looks(tally.pairs, tally.pairs + hits.size)
    at = looks - tally.pairs - 1
    first_hits = tally.first_hits + np.cumsum(hits)[at]
    second_hits = tally.second_hits + np.cumsum(others)[at]
    wealth = _log_wealth(bets, looks, first_hits, second_hits)
    peaks = np.max(wealth, axis=1, initial=-math.inf)
    peaks += tally.log_carried
    return replace(
        tally,
        pairs=tally.pairs + hits.size,
        first_hits=tally.first_hits + int(np.count_nonzero(hits)),
        second_hits=tally.second_hits + int(np.count_nonzero(others)),
        log_peaks=tuple(np.maximum(tally.log_peaks, peaks).tolist()),
    )


def play_values(
    bets: Bets, tally: ValueTally, first: npt.ArrayLike, second: npt.ArrayLike
) -> ValueTally:
    """Bet on a function f fixed beforehand: f of further draws of P, of Q; shape (pairs,).

    f into [0, 1] is an event that also tosses a coin of bias f, so that E_P f <= largest(E_Q f).
    The wealth is looked at as in :func:`play`.
    Errors: InvalidParameter for values outside [0, 1], differing shapes, or another's tally.
    """
    gains, losses = (_values(side) for side in (first, second))
    _resumes(bets, tally.bets, gains.size, losses.size)
    for start in range(0, gains.size, _DRAWS_PER_BATCH):
        batch = slice(start, start + _DRAWS_PER_BATCH)
        tally = _further(bets, tally, gains[batch], losses[batch])
    return tally


def log_wealth(bets: Bets, tally: Tally) -> FloatArray:
    """Logarithm of the present wealth against each claim, an e-value; rounded down."""
    counts = (tally.pairs, tally.first_hits, tally.second_hits)
    wealth = _log_wealth(bets, *(np.array([count]) for count in counts))[:, 0]
    return np.asarray(wealth + tally.log_carried, dtype=np.float64)


def renewed(bets: Bets, tally: Tally, fresh: Bets) -> Tally:
    """Continue with ``fresh`` bets, possibly on another event; the wealth is carried over.

    They may depend on all pairs played so far, because a bet's mean is at most 1 given the past.
    So the event can be learned during play, and only the first few draws serve training alone.
    Errors: InvalidParameter unless both are bets against the same claims.
    """
    if fresh.parameters != bets.parameters:
        raise InvalidParameter(f"parameters = {fresh.parameters}: expected {bets.parameters}")
    carried = tuple(log_wealth(bets, tally).tolist())
    return replace(fresh.start(), log_peaks=tally.log_peaks, log_carried=carried)


def parameter_lower(bets: Bets, tally: Tally, error: float) -> float:
    """The largest parameter such that its claim and all smaller ones are refuted; 0 if none is.

    Over all looks together wrong with probability at most ``error``: to be wrong, the wealth
    against the smallest true claim must reach 1 / error.  No correction for the number of claims.
    Errors: InvalidParameter for a bad error rate.
    """
    reach = -math.log(_error_rate(error)) + 1e-12
    refuted = takewhile(lambda peak: peak >= reach, tally.log_peaks)
    return (0.0, *bets.parameters)[len(list(refuted))]


def log_multiplied(log_values: Sequence[float]) -> float:
    """Log of the product of e-values of independent runs, or of one after the other: an e-value."""
    return math.fsum(_logs(log_values))


def log_averaged(log_values: Sequence[float]) -> float:
    """Log of the average of e-values, dependent or not, as over pairs of data sets: an e-value."""
    logs = np.array(_logs(log_values))
    mean = float(logsumexp(logs)) - math.log(logs.size)
    return mean - 1e-15 * (4 + abs(mean)) if math.isfinite(mean) else mean


def supporting_line(region: Region, q: float) -> tuple[float, float]:
    """Slope and intercept of a line nowhere below the region's edge, touching it near ``q``.

    The slope is that of the chord over a window of relative width 1e-4, tilted by the edge's
    rounding error so that the concave difference of edge and line falls away from the window on
    the far side; on the near side, less than 1e4 windows long, it exceeds its value at the
    window's end by at most 5e-7 of the edge, which is added.  Inside, the edge at the right end
    of each of 32 cells bounds it.  Near q = 1 the line is flat: bet on the complement there.

    Errors: InvalidParameter for q outside (0, 1).
    """
    if not 0 < q < 1:
        raise InvalidParameter(f"rate = {q!r}: expected in (0, 1)")
    width = _LINE_WINDOW * min(q, 1 - q)
    samples = np.linspace(q - width, q + width, _LINE_SAMPLES)
    edge = np.asarray(region.largest(samples), dtype=np.float64)
    left, right = float(edge[0]), float(edge[-1])
    run = float(samples[-1] - samples[0])
    tilt = 2 * CONCAVITY_ROUNDING * right * (1 if q < 0.5 else -1)
    slope = max(0.0, right - left + tilt) / run
    inside = float(np.max(edge[1:] - slope * samples[:-1]))
    intercept = inside + 4 * CONCAVITY_ROUNDING / _LINE_WINDOW * right + 1e-14 * (1 + slope * q)
    return slope, intercept


def _line_bets(region: Region, p: float, q: float, reach: float) -> FloatArray:
    """p0, q0, slope and stake of the bets at one expected (p, q), shape (4, stakes)."""
    centre = _nearest(region, p, q) if p > 0 else q
    slope, intercept = supporting_line(region, centre)
    top = intercept + slope * centre
    spread = min(top, 0.5) * (1 - min(top, 0.5)) + slope**2 * centre * (1 - centre)
    stakes = np.array(STAKE_MULTIPLES) * math.sqrt(reach / spread)
    stakes = np.minimum(stakes, _MAX_STAKE / max(top, slope * (1 - centre)))
    return np.stack([np.broadcast_to(v, stakes.shape) for v in (top, centre, slope, stakes)])


def _nearest(region: Region, p: float, q: float) -> float:
    """The rate q0 of the edge's point nearest to (p, q), each axis in its standard deviations."""
    start = min(max(q, 1e-7), 1 - 1e-7)
    slope, intercept = supporting_line(region, start)
    spread = max(p * (1 - p), 1e-7), start * (1 - start)
    excess = p - intercept - slope * start
    moved = start + excess * slope * spread[1] / (spread[0] + slope**2 * spread[1])
    return min(max(moved, start / 4), (3 + start) / 4)


def _log_wealth(bets: Bets, pairs: IntArray, *hits: IntArray) -> FloatArray:
    """Log wealth of each claim at each look, (claims, looks); lowered by its rounding error."""
    counts = np.stack([hits[0], pairs - hits[0], hits[1], pairs - hits[1]]).astype(np.float64)
    parts = np.stack(bets.factors(), axis=-1)
    rows = []
    for part, weights in zip(parts, bets.weights, strict=True):
        slack = 1e-15 * (8 + np.max(np.abs(part) @ counts, axis=0))
        rows.append(_log_mean(part @ counts, weights) - slack)
    return np.stack(rows)


def _log_mean(logs: FloatArray, weights: FloatArray) -> FloatArray:
    """Log of the weighted mean of exp(logs), shape (bets, looks) to (looks,)."""
    shifted = logs + np.log(weights)[:, None]
    highest = np.max(shifted, axis=0)
    return np.asarray(highest + np.log(np.sum(np.exp(shifted - highest), axis=0)))


def _further(bets: Bets, tally: ValueTally, gains: FloatArray, losses: FloatArray) -> ValueTally:
    looks = _looks(tally.pairs, tally.pairs + gains.size) - tally.pairs
    rows, peaks = [], []
    for claim, peak in enumerate(tally.log_peaks):
        # A left-to-right sum that starts from what was there, so batches of any size give one
        # result.
        stake, slope = bets.stake[claim][:, None], bets.slope[claim][:, None]
        won = np.log1p(stake * (gains - bets.first_centre[claim][:, None]))
        lost = np.log1p(-stake * slope * (losses - bets.second_centre[claim][:, None]))
        paths = np.cumsum(
            np.concatenate([np.array(tally.log_wealth[claim])[:, None], won + lost], axis=1), axis=1
        )
        log_wealth = _log_mean(paths[:, looks], bets.weights[claim]) - 1e-13 * (
            8 + looks + tally.pairs
        )
        rows.append(tuple(paths[:, -1].tolist()))
        peaks.append(max(peak, float(np.max(log_wealth, initial=-math.inf))))
    return ValueTally(tally.bets, tally.pairs + gains.size, tuple(rows), tuple(peaks))


def _looks(done: int, then: int) -> IntArray:
    """Numbers of pairs in (done, then] after which the wealth is looked at; a fixed set."""
    parts = [np.arange(done + 1, min(then, _EVERY_PAIR) + 1)]
    start = _EVERY_PAIR
    while start < then:
        step = 2 * start // _EVERY_PAIR
        parts.append(np.arange(start + step, 2 * start + 1, step))
        start *= 2
    looks = np.concatenate(parts)
    return np.asarray(looks[(looks > done) & (looks <= then)], dtype=np.int64)


def _indicators(values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    hits = np.asarray(values)
    if hits.dtype.kind != "b" or hits.ndim != 1:
        raise InvalidParameter("pairs: expected Boolean arrays of shape (pairs,)")
    return hits


def _values(values: npt.ArrayLike) -> FloatArray:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not np.all((numbers >= 0) & (numbers <= 1)):
        raise InvalidParameter("pairs: expected values in [0, 1] of shape (pairs,)")
    return numbers


def _resumes(bets: Bets, digest: str, first: int, second: int) -> None:
    if first != second:
        raise InvalidParameter(f"{first} and {second} draws: expected as many of each")
    if digest != bets.digest:
        raise InvalidParameter("tally: begun with other bets; resume it with its own")


def _logs(values: Sequence[float]) -> list[float]:
    logs = [float(value) for value in values]
    if not logs or any(math.isnan(value) for value in logs):
        raise InvalidParameter("e-values: expected at least one logarithm, and no NaN")
    return logs

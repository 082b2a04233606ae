"""How far, decided by coins that are not seen: N(m_J, 1) against N(0, 1).

J is a mixture's component, or how many records of a group are drawn: binomial.  0 < m_1 <= m_2 <=
..., in a group multiples of mu.  With w_j the masses of J, the likelihood ratio at t is
R(t) = w_0 + G(t), G(t) = sum over j >= 1 of w_j exp(m_j t - m_j^2 / 2), which grows with t from w_0
on; log G is convex and grows by m_1 at least, so that a loss l has its place t where
log G(t) = log(e^l - w_0), by Newton's method.

    delta(x) = sum_j w_j Phi(m_j - t) - x Phi(-t),    R(t) = x > w_0;    1 - x at x <= w_0.

At a place s next to t it is off by the integral of (R - x) times the normal density between them.

The pair dominates releases with standard normal noise that a record moves by vectors u_J,
|u_j| <= m_j, in both directions: for a set S let a be its mass under N(0, I).  By the lemma of
Neyman and Pearson N(u_j, I)(S) <= Phi(Phi^-1(a) + m_j), and on the line the half-line of mass a
reaches all of these at once.  So the largest mass under P of a set of mass a under Q is nowhere
above the pair's, and for complements the smallest nowhere below.
Source: Choquette-Choo, Ganesh, Steinke, Thakurta 2024, "Privacy amplification for matrix
mechanisms", Corollary 4.7.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, infinity, log, total, working_precision
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta, bits, number
from dpaudit.pairs.core import (
    Comparisons,
    Extremes,
    Pair,
    at_least,
    each_at_least,
    rate_at_least,
)

if TYPE_CHECKING:
    import numpy as np

    from dpaudit import grids
else:
    np = Later("numpy")
    grids = Later("dpaudit.grids")

LARGEST_SIZE = 4096  # records of a group
START_POINTS = 20_000  # Outcomes tabulated as starting points of Newton's method.
FEW_POINTS = 500  # The same for fewer places.
NEWTON_STEPS = 100  # Most Newton steps.
BLOCK_NUMBERS = 2**16  # Numbers held in memory at a time.
ROOT_ERROR = 2.0**-42  # relative error of a root
LOG_ROUNDING = 2.0**-50  # 8 units of roundoff: of log G, to each unit of its largest exponent
LEAST_MOVE = 1e-290  # smaller moves are no floats with all their digits


class _Moved(Pair):
    """N(m_J, 1) against N(0, 1), J not seen, m_0 = 0."""

    @abstractmethod
    def masses(self) -> list[Ball]:
        """The masses of J, each of which but the first is positive."""

    @abstractmethod
    def places(self) -> list[Ball]:
        """m_0, m_1, ... as balls, to the last that is different."""

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        return _delta(self, x)

    def loss_masses(self, tail: float) -> grids.Closed | None:
        return _loss_masses(self, tail)


@dataclass(frozen=True)
class NormalMixture(_Moved):
    """N(m_J, 1) against N(0, 1), where J = j has chance ``chances[j - 1]`` and is not seen.

    m_j is ``moves[j - 1]``, positive and growing; with the chance that is left m is 0.
    """

    moves: tuple[Number, ...]
    chances: tuple[Number, ...]

    grows: ClassVar[Comparisons] = {"moves": each_at_least}

    def masses(self) -> list[Ball]:
        return [number(self.stays), *map(number, self.chances)]

    def places(self) -> list[Ball]:
        return [number(Fraction(0)), *map(number, self.moves)]

    @property
    def stays(self) -> Number:
        """The chance that nothing moves."""
        return 1 - total(self.chances)

    @property
    def extremes(self) -> Extremes:
        """The loss is log P(J = 0) at least."""
        return infinity() if self.stays == 0 else -log(self.stays), infinity()


class _Drawn(_Moved):
    """N(m_J, 1) against N(0, 1), J binomial(size, rate) and not seen, m_0 = 0."""

    rate: Number
    size: Number

    def masses(self) -> list[Ball]:
        """Errors: TooFine for a group of more than LARGEST_SIZE records."""
        q, k = number(self.rate), int(self.size)
        if k > LARGEST_SIZE:
            raise grids.TooFine(f"a group of {k}: expected at most {LARGEST_SIZE} records")
        return [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]

    @property
    def extremes(self) -> Extremes:
        """The loss is log P(J = 0) at least."""
        return -self.size * log(1 - self.rate), infinity()


@dataclass(frozen=True)
class Drawn(_Drawn):
    """N(J mu, 1) against N(0, 1), J binomial(size, rate) and not seen."""

    mu: Number
    rate: Number
    size: Number

    grows: ClassVar[Comparisons] = {"mu": at_least, "rate": rate_at_least, "size": at_least}

    def places(self) -> list[Ball]:
        mu = number(self.mu)
        return [j * mu for j in range(int(self.size) + 1)]


@dataclass(frozen=True)
class DrawnMoves(_Drawn):
    """N(m_J, 1) against N(0, 1), J binomial(size, rate) and not seen.

    m_0 = 0; ``moves`` are m_1 <= m_2 <= ..., the last of them also for every larger J.
    """

    moves: tuple[Number, ...]
    rate: Number
    size: Number

    grows: ClassVar[Comparisons] = {"moves": each_at_least, "rate": rate_at_least}

    def places(self) -> list[Ball]:
        moves = self.moves[: int(self.size)]
        return [number(Fraction(0)), *map(number, moves)]


# --- at one point, in balls ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _balls(pair: _Moved, bits: int) -> tuple[list[Ball], list[Ball]]:
    """The masses of J, and m_J; those from the last move on are one.

    Errors: Unsupported for a mass below 0, or moves that fall.
    """
    weights, moves = pair.masses(), pair.places()
    if any(weight < 0 for weight in weights):
        raise Unsupported("chances: expected none below 0")
    if any(later < move for move, later in pairwise(moves)):
        raise Unsupported("moves: expected some that do not fall")
    last = len(moves) - 1
    return [*weights[:last], sum(weights[last:])], moves


def _delta(pair: _Moved, x: Ball) -> Ball:
    """delta at x, at the precision of the context."""
    import flint

    weights, moves = _balls(pair, bits())
    if x <= weights[0]:
        return 1 - x
    if not x > weights[0]:
        return (1 - x).union(1 - weights[0])
    root = flint.arb(2).sqrt()
    place = flint.arb(_start(pair, float((x - weights[0]).log().mid())))
    sought = x - weights[0]
    for _ in range(max(flint.ctx.prec // 40, 3).bit_length() + 2):
        terms = _terms(weights, moves, place)
        slope = sum((m * term for m, term in zip(moves[1:], terms, strict=True)), flint.arb(0))
        place = (place - (sum(terms, flint.arb(0)) - sought) / slope).mid()
    off = (1 + abs(place)) * flint.arb(2) ** (-flint.ctx.prec // 3)
    around = place + flint.arb(0, off.upper())
    low, high = (sum(_terms(weights, moves, at), flint.arb(0)) for at in (place - off, place + off))
    if not (low < sought < high):
        return flint.arb(0).union(flint.arb(1))
    value = -x * (place / root).erfc() / 2
    for weight, move in zip(weights, moves, strict=True):
        value += weight * ((place - move) / root).erfc() / 2
    density = (-(around * around) / 2).exp() / (2 * flint.arb.pi()).sqrt()
    return value + (off * (high - low) * density).upper() * flint.arb(0.5, 0.5)


@lru_cache(maxsize=256)
def _numbers(pair: _Moved) -> tuple[list[float], list[float], float]:
    """m_1, m_2, ..., the logarithms of w_1, w_2, ..., and that of w_0, as floats."""
    with working_precision():
        weights, (_, *moves) = _balls(pair, bits())
        log_none, *logs = (
            -math.inf if weight == 0 else float(weight.log().mid()) for weight in weights
        )
    steps = [float(move.mid()) for move in moves]
    if not all(LEAST_MOVE < step < math.inf for step in steps):
        raise Unsupported("moves: expected numbers of moderate size")
    return steps, logs, log_none


def _start(pair: _Moved, y: float) -> float:
    """About t with log G(t) = y: Newton's method, which falls to the root of a convex function."""
    moves, logs, _ = _numbers(pair)
    t = 0.0
    for _ in range(NEWTON_STEPS):
        exponents = [w + m * (t - m / 2) for m, w in zip(moves, logs, strict=True)]
        top = max(exponents)
        terms = [math.exp(exponent - top) for exponent in exponents]
        total, slope = math.fsum(terms), math.fsum(map(operator.mul, terms, moves))
        change = (top + math.log(total) - y) * total / slope
        t -= change
        if not abs(change) > ROOT_ERROR * (1 + abs(t)):
            break
    return t


def _terms(weights: list[Ball], moves: list[Ball], t: Ball) -> list[Ball]:
    return [
        weight * (move * t - move**2 / 2).exp()
        for weight, move in zip(weights[1:], moves[1:], strict=True)
    ]


# --- between losses ------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _floats(pair: _Moved) -> tuple[grids.Floats, grids.Floats, float]:
    """m_1, m_2, ..., the logarithms of w_1, w_2, ..., and that of w_0."""
    moves, logs, log_none = _numbers(pair)
    return np.array(moves), np.array(logs), log_none


def _log_g(
    parameters: tuple[grids.Floats, grids.Floats, float], t: grids.Reals
) -> tuple[grids.Reals, grids.Reals]:
    """log G and its slope."""
    moves, logs, _ = parameters
    value, slope = np.empty(len(t)), np.empty(len(t))
    size = max(BLOCK_NUMBERS // len(logs), 1)
    for first in range(0, len(t), size):
        part = slice(first, first + size)
        exponents = logs + moves * (t[part, None] - moves / 2)
        top = exponents.max(axis=1)
        terms = np.exp(exponents - top[:, None])
        sums = terms.sum(axis=1)
        value[part] = top + np.log(sums)
        slope[part] = terms @ moves / sums
    return value, slope


def _places(parameters: tuple[grids.Floats, grids.Floats, float], y: grids.Reals) -> grids.Reals:
    """t with log G(t) = y, by a table and Newton's method, or halves where that leaves the ends.

    A term of log G is rounded as often as it is large: by units of G'(t) t / G(t), and of y.
    """
    moves, logs, _ = parameters
    if not len(y):
        return y
    near, far = float(moves[0]), float(moves[-1])
    least = (float(y.min()) - logs[0]) / near + near / 2
    high = max((float(y.max()) - logs[-1]) / far + far / 2, least) + 1
    low = min(float(y.min()) - float(np.logaddexp.reduce(logs)), 0.0) / near - far
    table = np.linspace(low, high, START_POINTS if len(y) > START_POINTS else FEW_POINTS)
    t: grids.Reals = np.interp(y, _log_g(parameters, table)[0], table)
    left, right = np.full(len(y), low), np.full(len(y), high)
    for _ in range(NEWTON_STEPS):
        value, slope = _log_g(parameters, t)
        allowed = ROOT_ERROR * (1 + np.abs(y)) + LOG_ROUNDING * slope * np.abs(t)
        wrong = np.abs(value - y) > allowed
        if not wrong.any():
            return t
        left = np.where(wrong & (value < y), t, left)
        right = np.where(wrong & (value > y), t, right)
        t = t - (value - y) / slope
        t = np.where(wrong & ~((left < t) & (t < right)), (left + right) / 2, t)
    raise grids.TooFine("a group's losses are not told apart in floats")


def _loss_masses(pair: _Moved, tail: float) -> grids.Closed:
    """Masses by loss."""
    parameters = _floats(pair)
    moves, logs, log_none = parameters
    stays = log_none > -math.inf
    z, most = grids.quantile(tail), float(moves[-1])
    farthest = z + most
    ends = _log_g(parameters, np.array([-z, farthest]))[0]
    span = tuple(float(np.logaddexp(log_none, end)) for end in ends)

    def masses(edges: grids.Reals) -> tuple[grids.Reals, grids.Reals]:
        # log(e^l - w_0), where a difference of logarithms is all that is rounded.
        with np.errstate(divide="ignore"):
            y = edges + np.log(-np.expm1(np.minimum(log_none - edges, 0.0))) if stays else edges
        t = np.where(y > 0, np.inf, -np.inf)
        finite = np.isfinite(y)
        t[finite] = _places(parameters, y[finite])
        q = grids.normal_between(t)
        p = math.exp(log_none) * q
        for move, weight in zip(moves, np.exp(logs), strict=True):
            p = p + weight * grids.normal_between(t - move)
        return p, q

    largest = float(np.max(np.abs(logs))) + most * farthest
    rounded = 24 * grids.UNIT * (largest - (log_none if stays else 0.0))
    error = 2 * ROOT_ERROR * (1 + abs(span[0]) + abs(span[1])) + rounded
    relative = grids.NORMAL_FACTOR + 4 * grids.UNIT * (farthest * farthest + largest + len(logs))
    return grids.Closed(masses, grids.NO_OUTCOMES, (span[0], span[1]), error, relative)

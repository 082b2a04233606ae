"""The largest and smallest privacy loss of a pair, exactly: delta = 0, and a cap on every epsilon.

Losses of independent factors add up, so their extremes do.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import Number, exp, infinity, is_infinite, log, maximum, settled, total
from dpaudit.nodes.pairs import (
    Atoms,
    Blanket,
    Clones,
    LaplaceShift,
    Largest,
    Mixed,
    Normal,
    Pair,
    Polled,
    Product,
    Spliced,
    Swapped,
    Tallied,
)

Extremes = tuple[Number, Number]
_EXTREMES: dict[type[Pair], Callable[[Any], Extremes]] = {}


@lru_cache(maxsize=256)
def largest_loss(pair: Pair) -> Number:
    """The essential supremum of the loss under P: the epsilon at delta = 0; may be infinite."""
    return extremes(pair)[1]


def extremes(pair: Pair) -> Extremes:
    """(-smallest loss where Q has mass, largest loss where P has mass), either may be infinite."""
    found = _EXTREMES.get(type(pair), _unbounded)
    return found(pair)


def _extremes(kind: type[Pair]) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _EXTREMES[kind] = function
        return function

    return register


def _unbounded(pair: Pair) -> Extremes:
    return infinity(), infinity()


@_extremes(Normal)
def _normal(pair: Normal) -> Extremes:
    return (Fraction(0), Fraction(0)) if pair.mu == 0 else _unbounded(pair)


@_extremes(LaplaceShift)
def _laplace(pair: LaplaceShift) -> Extremes:
    return pair.epsilon, pair.epsilon


@_extremes(Atoms)
def _atoms(pair: Atoms) -> Extremes:
    q_over_p = [_log_ratio(q, p) for p, q in pair.outcomes if q != 0]
    p_over_q = [_log_ratio(p, q) for p, q in pair.outcomes if p != 0]
    return _largest(q_over_p), _largest(p_over_q)


@_extremes(Blanket)
@_extremes(Clones)
@_extremes(Polled)
def _clones(pair: Blanket | Clones) -> Extremes:
    """All of the others may be counted where the one report is."""
    return pair.epsilon, pair.epsilon


@_extremes(Tallied)
def _tallied(pair: Tallied) -> Extremes:
    """All ones, and none; zeros fall by as much as ones grow where e^epsilon of both are 1."""
    if pair.rare * (1 + exp(pair.epsilon)) == 1:
        return pair.epsilon, pair.epsilon
    return log((1 - pair.rare) / (1 - pair.rare * exp(pair.epsilon))), pair.epsilon


def _log_ratio(top: Number, bottom: Number) -> Number:
    return infinity() if bottom == 0 else log(top / bottom)


def _largest(values: list[Number]) -> Number:
    return infinity() if any(map(is_infinite, values)) else maximum(values)


@_extremes(Mixed)
def _mixed(pair: Mixed) -> Extremes:
    """log(1 - rate + rate exp(l)) at the largest and the smallest l of the base."""
    if pair.rate == 1:
        return extremes(pair.base)
    low, high = extremes(pair.base)
    largest = high if is_infinite(high) else log(1 - pair.rate + pair.rate * exp(high))
    at_least = 1 - pair.rate if is_infinite(low) else 1 - pair.rate + pair.rate * exp(-low)
    return log(1 / at_least), largest


@_extremes(Swapped)
def _swapped(pair: Swapped) -> Extremes:
    low, high = extremes(pair.base)
    return high, low


@_extremes(Spliced)
def _spliced(pair: Spliced) -> Extremes:
    return extremes(pair.below)[0], extremes(pair.above)[1]


@_extremes(Largest)
def _largest_of(pair: Largest) -> Extremes:
    ends = [extremes(member) for member in pair.pairs]
    return _largest([low for low, _ in ends]), _largest([high for _, high in ends])


@_extremes(Product)
def _product(pair: Product) -> Extremes:
    ends = [(extremes(member), times) for member, times in pair.parts]
    return _sum([(low, times) for (low, _), times in ends]), _sum(
        [(high, times) for (_, high), times in ends]
    )


def _sum(losses: list[tuple[Number, Number]]) -> Number:
    if any(is_infinite(loss) for loss, times in losses if times != 0):
        return infinity()
    return settled(total(loss * times for loss, times in losses))

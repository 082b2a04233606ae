"""Arb balls at the working precision, for the closed forms of pairs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import enclose
from dpaudit.exact.effort import spend

Ball = Any
# delta of a pair at x, by whoever asks: the pair's own, or a checker's.
Delta = Callable[[Any, Ball], Ball]


def number(value: Any) -> Ball:
    """A ball around an exact number."""
    spend()
    return _known(value, bits())


@lru_cache(maxsize=4096)
def _known(value: Any, precision: int) -> Ball:
    return fraction(value) if isinstance(value, (int, Fraction)) else enclose(value)


def fraction(value: int | Fraction) -> Ball:
    """A ball around a number that is met once."""
    import flint

    return flint.arb(value.numerator) / flint.arb(value.denominator)


def bits() -> int:
    """The working precision."""
    import flint

    return int(flint.ctx.prec)


def positive(ball: Ball) -> Ball:
    """The ball, with nothing below 0."""
    return ball.max(0)


def phi(z: Ball) -> Ball:
    """The standard normal distribution function."""
    import flint

    return (-z / flint.arb(2).sqrt()).erfc() / 2

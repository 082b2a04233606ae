"""Numbers across the border: every foreign one made exact, every exact one made a float."""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, decimal_lower, decimal_upper, exact, is_symbolic, unknowns
from dpaudit.exact.domains import count, non_negative, rate, refuse

FOREIGN_DIGITS = 20  # Significant digits of an irrational number that is passed to another library.


class Rounding(Enum):
    """Which neighbour stands for a number that no float's shortest decimal gives."""

    DOWN = -math.inf
    UP = math.inf


def foreign(value: object, place: str) -> Fraction:
    """A number of another library, made exact; a float stands for its shortest decimal.

    Errors: InvalidParameter for NaN, infinities, negative numbers, booleans, symbols, texts.
    """
    number = exact(value, place)
    if is_symbolic(number):
        refuse(number, place, "a number, not a symbol")
    non_negative(number, place)
    return Fraction(number)


def foreign_count(value: object, place: str) -> Fraction:
    """A whole number of another library; errors as :func:`foreign`."""
    number = foreign(value, place)
    count(number, place)
    return number


def foreign_rate(value: object, place: str) -> Fraction:
    """A probability in [0, 1] of another library; errors as :func:`foreign`."""
    number = foreign(value, place)
    if number != 0:
        rate(number, place)
    return number


def to_float(value: Number, place: str, rounding: Rounding) -> float:
    """A float for an exact number: one whose shortest decimal it is, or the next one outward.

    Errors: Unsupported for a number with free symbols; InvalidParameter for one too large or too
    small for a float.
    """
    if unknowns(value):
        raise Unsupported(f"{place} = {str(value)[:80]}: bind its symbols before it leaves dpaudit")
    if is_symbolic(value):
        outward = decimal_lower if rounding is Rounding.DOWN else decimal_upper
        value = Fraction(outward(value, digits=FOREIGN_DIGITS))
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf
    if math.isinf(nearest) or (nearest == 0) != (value == 0):
        refuse(value, place, "a number that a float can hold")
    if Fraction(repr(nearest)) == value:
        return nearest
    wrong = Fraction(nearest) > value if rounding is Rounding.DOWN else Fraction(nearest) < value
    return math.nextafter(nearest, rounding.value) if wrong else nearest


def to_int(value: Number, place: str) -> int:
    """An int for an exact whole number; errors as :func:`to_float`."""
    if is_symbolic(value):
        raise Unsupported(f"{place} = {str(value)[:80]}: bind its symbols before it leaves dpaudit")
    return int(value)


def float_above(value: Number) -> float:
    """The smallest float that is not below an exact number; infinity where it is infinite."""
    if is_symbolic(value):
        return math.inf
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < value else nearest

"""Numbers out: fractions and decimals rounded outward, and texts for people."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact.arb import enclose, working_precision
from dpaudit.exact.forms import (
    Number,
    canonical,
    is_arb,
    is_real,
    is_short,
    is_symbolic,
    ten_power,
    unknowns,
)

PRINTED_DIGITS = 12  # Significant digits of a printed number, unless the caller asks for others.
LARGEST_EXPONENT = 2**17  # bits of a fraction: more take seconds to print
# Largest decimal exponent that is written; decimals of 32-bit machines end at 4.2e8.
MAX_EXPONENT = 10**8
# A number inside an expression that is still written down.
LARGEST_INSIDE = 10**100


def upper_fraction(ball: Any) -> Fraction | None:
    """A representable fraction that is at least the ball, the smallest in range; None above it."""
    with working_precision():
        return _end(ball.upper())


def lower_fraction(ball: Any) -> Fraction | None:
    """A representable fraction that is at most the ball, the largest in range; None below it."""
    with working_precision():
        negated = _end(-ball.lower())
    return None if negated is None else -negated


def _end(point: Any) -> Fraction | None:
    """The least fraction of at most ``LARGEST_EXPONENT`` bits that is not below a point.

    Numbers nearer to 0 than that are rounded up, those too far below 0 to the last one that fits.
    """
    if not point.is_finite():
        return None
    mantissa, exponent = (int(part) for part in point.man_exp())
    if mantissa == 0:
        return Fraction(0)
    if exponent + mantissa.bit_length() > LARGEST_EXPONENT:
        return None if mantissa > 0 else -(Fraction(2) ** LARGEST_EXPONENT)
    if exponent + mantissa.bit_length() < -LARGEST_EXPONENT:
        return Fraction(1, 2**LARGEST_EXPONENT) if mantissa > 0 else Fraction(0)
    return Fraction(mantissa << exponent) if exponent > 0 else Fraction(mantissa, 1 << -exponent)


def decimal_upper(value: Any, digits: int = PRINTED_DIGITS) -> str:
    """Decimal string that is never below the exact value or ball: rounded outward, or "inf"."""
    return _decimal(_as_fraction(value, upper_fraction), digits, ROUND_CEILING)


def decimal_lower(value: Any, digits: int = PRINTED_DIGITS) -> str:
    """Decimal string that is never above the exact value or ball: rounded outward, or "-inf"."""
    fraction = _as_fraction(value, lower_fraction)
    return "-inf" if fraction is None else _decimal(fraction, digits, ROUND_FLOOR)


def _as_fraction(value: Any, end: Callable[[Any], Fraction | None]) -> Fraction | None:
    if isinstance(value, (int, Fraction, Decimal, numbers.Integral)):
        return Fraction(value if isinstance(value, (Fraction, Decimal)) else int(value))
    if is_real(value):
        return Fraction(*value.as_integer_ratio()) if math.isfinite(value) else None
    return end(value if is_arb(value) else enclose(value))


@lru_cache(maxsize=256)
def _decimal(value: Fraction | None, digits: int, rounding: str) -> str:
    if value is None:
        return "inf"
    context = Context(
        prec=digits, rounding=rounding, Emin=-MAX_EXPONENT, Emax=MAX_EXPONENT, traps=[]
    )
    return plain(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def plain(value: Decimal) -> str:
    """A decimal as certificates write it: ``0.00001``, ``1.5e-9``; no plus sign, no upper case."""
    digits = len(value.as_tuple().digits)
    value = Context(prec=digits, Emin=-MAX_EXPONENT, Emax=MAX_EXPONENT, traps=[]).normalize(value)
    if value == 0:
        return "0"
    if -7 < value.adjusted() < 16:
        return format(value, "f")
    return format(value, "e").replace("e+", "e")


@lru_cache(maxsize=4096)
def readable(value: Number) -> str:
    """A number for people: a terminating decimal where there is a short one, else exact."""
    if not is_printable(value):
        free = ", ".join(sorted(map(str, unknowns(value))))
        return (
            f"an expression of {free} with large numbers" if free else f"{decimal_upper(value)}..."
        )
    if not isinstance(value, Fraction):
        return str(value)
    for places in range(13):
        if ten_power(places) % value.denominator == 0:
            # The decimal of scaled / 10^places.
            scaled = value.numerator * ten_power(places) // value.denominator
            text = str(abs(scaled)).rjust(places + 1, "0")
            sign = "-" if scaled < 0 else ""
            return f"{sign}{text[:-places]}.{text[-places:]}" if places else sign + text
    return f"{value.numerator}/{value.denominator}"


def is_printable(value: Number) -> bool:
    """Whether the digits of a number, or of those inside an expression, can be written down.

    SymPy orders an expression's terms by their values before it writes them, which takes it seconds
    where the exponent of an exponential is that large.
    """
    if not is_symbolic(value):
        return is_short(value)
    import sympy

    parts = map(canonical, value.atoms(sympy.Rational))
    return all(is_short(part) and abs(part) < LARGEST_INSIDE for part in parts)

"""Two-sided bounds, as exact decimals rounded outward, with what shows each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from dpaudit.exact import Number, decimal_lower, decimal_upper, infinity, is_infinite
from dpaudit.exact.arb import require_order

WIDTH = 1e-4  # Width of an interval of epsilon, unless the caller asks for another.
# Width of an interval of delta, relative to it, unless the caller asks for another.
RELATIVE_WIDTH = 1e-3


@dataclass(frozen=True)
class Interval:
    """lower <= true value <= upper; ``upper`` may be infinity (:func:`arithmetic.infinity`).

    Witnesses say how an independent checker confirms each end
    (:mod:`dpaudit.profiles.fourier.witness`); an end without a witness is trivial (0, 1 or
    infinity).
    """

    lower: Fraction
    upper: Number
    lower_witness: dict[str, str] = field(default_factory=dict)
    upper_witness: dict[str, str] = field(default_factory=dict)
    method: str = ""

    def __post_init__(self) -> None:
        require_order(self.lower, self.upper, "an interval of a profile")


def narrowest(one: Interval, other: Interval) -> Interval:
    """The intersection of two intervals of the same number."""
    above = one if is_infinite(other.upper) or one.upper <= other.upper else other
    below = one if one.lower >= other.lower else other
    return Interval(
        below.lower, above.upper, below.lower_witness, above.upper_witness, above.method
    )


def rounded_up(value: object) -> Number:
    """A decimal of 12 digits that is not below the value (fraction, float or ball)."""
    text = decimal_upper(value)
    return infinity() if text == "inf" else Fraction(text)


def rounded_down(value: object) -> Fraction:
    """A decimal of 12 digits that is not above the value, and not below 0."""
    text = decimal_lower(value)
    return max(Fraction(0), Fraction(0) if text == "-inf" else Fraction(text))

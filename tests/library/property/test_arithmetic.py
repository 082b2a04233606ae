"""Rounding is outward, decimals have one form, and enclosures hold exact values."""

from __future__ import annotations

import re
from fractions import Fraction

import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    enclose,
    exact,
    lower_fraction,
    maximum,
    readable,
    total,
    upper_fraction,
)

FORM = re.compile(r"^(0|[1-9][0-9]*)(\.[0-9]+)?(e-?[0-9]+)?$")
x, y = sympy.symbols("x y", positive=True)
fractions = st.builds(
    lambda n, d, e: Fraction(n, d) * Fraction(10) ** e,
    st.integers(0, 10**30),
    st.integers(1, 10**30),
    st.integers(-300, 300),
)
small = st.fractions(min_value=Fraction(1, 100), max_value=100, max_denominator=1000)


@given(fractions, st.integers(1, 40))
def test_decimals_are_outward_tight_and_in_one_form(value: Fraction, digits: int) -> None:
    lower, upper = decimal_lower(value, digits), decimal_upper(value, digits)
    assert FORM.match(lower)
    assert FORM.match(upper)
    assert Fraction(lower) <= value <= Fraction(upper)
    assert Fraction(upper) - Fraction(lower) <= value * Fraction(1, 10 ** (digits - 1))
    assert decimal_upper(Fraction(upper), digits) == upper
    assert Fraction(decimal_upper(-value, digits)) == -Fraction(lower)


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_a_float_is_rounded_outward_from_its_binary_value(value: float) -> None:
    assert Fraction(decimal_lower(value)) <= Fraction(value) <= Fraction(decimal_upper(value))
    assert FORM.match(decimal_upper(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_parameter_is_its_shortest_decimal(value: float) -> None:
    assert exact(value, "place") == Fraction(repr(value))
    assert float(exact(value, "place")) == value


@given(fractions)
def test_readable_numbers_read_back(value: Fraction) -> None:
    assert Fraction(readable(value)) == value


@settings(max_examples=60)
@given(small, small, st.integers(-6, 6), st.integers(1, 5))
def test_an_enclosure_of_a_rational_expression_holds_its_value(
    a: Fraction, b: Fraction, power: int, root: int
) -> None:
    expression = (x + y / 3) ** power / y - sympy.Max(x, y) + sympy.Abs(x - y) * root
    truth = (a + b / 3) ** power / b - max(a, b) + abs(a - b) * root
    ball = enclose(expression, {x: enclose(a), y: enclose(b)})
    low, high = lower_fraction(ball), upper_fraction(ball)
    assert low is not None
    assert high is not None
    assert low <= truth <= high
    assert high - low <= Fraction(1, 10**30) * (1 + abs(truth))


@settings(max_examples=40)
@given(small, st.fractions(min_value=0, max_value=1), small)
def test_a_box_holds_every_point_inside_it(low: Fraction, where: Fraction, width: Fraction) -> None:
    """Interval evaluation: sqrt, log, exp and a power over a ball of values."""
    expression = sympy.sqrt(x) * sympy.log(1 + x) + sympy.exp(-x) - x**3
    box = enclose(low).union(enclose(low + width))
    point = enclose(expression, {x: enclose(low + where * width)})
    found = enclose(expression, {x: box})
    assert found.overlaps(point)


@given(st.lists(fractions, min_size=1, max_size=6))
def test_totals_and_maxima_of_fractions_are_exact(values: list[Fraction]) -> None:
    assert total(values) == sum(values)
    assert maximum(values) == max(values)
    symbolic = total([*values, x]) - x
    assert Fraction(int(symbolic.p), int(symbolic.q)) == sum(values)

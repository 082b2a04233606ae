"""Inequalities: shown only where they hold, on every sample; those that papers need are shown."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.gaps import Curve
from dpaudit.exact import enclose
from dpaudit.exact.inequality import at_most, balls_at, covered, points

x, y, z = sympy.symbols("x y z", positive=True)
n, k, K = sympy.symbols("n k K", positive=True, integer=True)
m = sympy.Symbol("m", nonnegative=True)
real = sympy.Symbol("r", real=True)
T = sympy.Function("T", positive=True, integer=True)
LOG2 = sympy.log(n) / sympy.log(2)
NEXT = sympy.log(n + 1) / sympy.log(2)
HALF = sympy.Rational(1, 2)


@pytest.mark.first_case
@pytest.mark.long_cases(
    "value24-claimed24-ranges24", "value8-claimed8-ranges8", "value10-claimed10-ranges10"
)
@pytest.mark.parametrize(
    ("value", "claimed", "ranges"),
    [
        # signs, factors, ratios
        (x, x + y, {}),
        (x * y, (x**2 + y**2) / 2, {}),
        (sympy.sqrt(x**2 + y**2), x + y, {}),
        (2 * x * y / (x + y), x + y, {}),
        (sympy.sqrt(x) * z, sympy.sqrt(2 * x) * z, {}),
        # branches
        (sympy.Max(x, y), x + y, {}),
        (x, sympy.Max(x, y), {}),
        (1 / sympy.Max(x, y), 1 / x, {}),
        (z / sympy.Max(x, y), z / sympy.Min(x, y), {}),
        (1 / x, 1 / sympy.Min(x, y, z), {}),
        (z * sympy.sqrt(sympy.Max(x, y)), z * sympy.sqrt(x + y), {}),
        (-sympy.Abs(real), 0, {}),
        # floors and ceilings
        (sympy.floor(x), x, {}),
        (x, sympy.ceiling(x), {}),
        (sympy.ceiling(x), x + 1, {}),
        (x - 1, sympy.floor(x), {}),
        (sympy.floor(x), sympy.ceiling(x), {}),
        (1 / (1 + sympy.ceiling(x)), 1 / (1 + x), {}),
        (sympy.floor(LOG2) + 1, LOG2 + 1, {}),
        (LOG2, sympy.floor(LOG2) + 1, {}),
        (sympy.sqrt(NEXT), sympy.sqrt(sympy.floor(NEXT) + 1), {}),
        ((sympy.floor(1 + m) + 1) / (1 + m), 2, {}),
        # sums, term by term
        (sympy.Sum(1 / T(k), (k, 1, K)), K, {}),
        (sympy.Sum(x / (K * (x + T(k))), (k, 1, K)), 1, {}),
        (sympy.Sum(sympy.floor(1 + m + T(k)) / (1 + m + T(k)), (k, 1, K)), K, {}),
        (2 * sympy.Sum(1 / T(k), (k, 1, K)), 2 * K, {}),
        # ranges
        (x**2 - x / 2, sympy.Rational(31, 10), {x: (0, 2)}),
        (sympy.floor(LOG2) + 1, sympy.Rational(201, 100) * LOG2, {n: (2, 2**40)}),
        (sympy.erf(x), sympy.Rational(999, 1000), {x: (0, 2)}),
        (x * y, 1, {x: (0, 1), y: (0, Fraction(99, 100))}),
    ],
)
def test_true_inequalities_are_shown(value: Any, claimed: Any, ranges: Any) -> None:
    exact = {a: (Fraction(low), Fraction(high)) for a, (low, high) in ranges.items()}
    assert at_most(value, claimed, exact)
    # Nor is the opposite, a little stronger, shown.
    assert not at_most(claimed + 1, value, exact)


@pytest.mark.parametrize(
    ("value", "claimed", "ranges"),
    [
        (x, y, {}),
        (x, 1, {}),
        (x + y, sympy.sqrt(x**2 + y**2), {}),
        (sympy.Max(x, y), x, {}),
        (1 / sympy.Min(x, y), 1 / x, {}),
        (x, sympy.floor(x), {}),
        (sympy.ceiling(x), x, {}),
        (x - HALF, sympy.floor(x), {}),
        (sympy.ceiling(x), x + HALF, {}),
        (sympy.floor(LOG2) + 1, LOG2, {}),
        (sympy.Sum(1 / T(k), (k, 1, K)), K / 2, {}),
        (sympy.Sum(x / k, (k, 1, K)), x, {}),
        (sympy.Sum(real / k, (k, 1, K)), 0, {}),
        (sympy.Abs(real), real, {}),
        (x**2, 1, {x: (0, Fraction(101, 100))}),
        (sympy.floor(LOG2) + 1, LOG2 + Fraction(1, 2), {n: (2, 1000)}),
        (x * y, 1, {x: (0, 1)}),
        # a free k is not the index of the sum, nor its range the index's
        (sympy.Sum(k, (k, 1, K)), K * k, {}),
        (sympy.Sum(k, (k, 1, K)), K, {k: (1, 1)}),
    ],
)
def test_false_inequalities_are_not(value: Any, claimed: Any, ranges: Any) -> None:
    exact = {a: (Fraction(low), Fraction(high)) for a, (low, high) in ranges.items()}
    assert not at_most(value, claimed, exact)


def expressions(seed: int) -> list[Any]:
    """Small random expressions of two positive symbols and a positive integer."""
    draw = np.random.default_rng(seed)
    found: list[Any] = [x, y, n, sympy.Integer(1), HALF, sympy.Integer(2)]
    makes: list[Any] = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: sympy.Max(a, b),
        lambda a, b: sympy.Min(a, b),
        lambda a, b: sympy.sqrt(a),
        lambda a, b: sympy.floor(a) + 1,
        lambda a, b: sympy.ceiling(a),
        lambda a, b: sympy.log(1 + a),
        lambda a, b: sympy.exp(-a),
        lambda a, b: a - b,
    ]
    for _ in range(10):
        first, second = (found[int(i)] for i in draw.integers(len(found), size=2))
        found.append(makes[int(draw.integers(len(makes)))](first, second))
    return found[6:]


@pytest.mark.first_case
@pytest.mark.parametrize("seed", range(4))
def test_nothing_false_is_ever_shown(seed: int) -> None:
    """Whatever is shown holds at 125 points, to the precision of a ball."""
    values = [Fraction(1, 7), Fraction(1, 2), Fraction(1), Fraction(9, 4), Fraction(40)]
    grid = [
        {x: a, y: b, n: c}
        for a, b, c in itertools.product(values, values, map(Fraction, (1, 2, 3, 8, 100)))
    ]
    found = expressions(seed)
    for value, claimed in itertools.islice(itertools.combinations(found, 2), 0, 45, 3):
        for left, right in ((value, claimed), (claimed, value)):
            if at_most(left, right, {}):
                for at in grid:
                    balls = balls_at(at, left, right)
                    assert not enclose(left, balls) > enclose(right, balls), (left, right, at)


def test_floors_are_exact_at_numbers() -> None:
    """log(8)/log(2) is 3, which balls alone cannot tell."""
    expression = sympy.floor(LOG2) + 1
    for number in (1, 2, 7, 8, 2**40 - 1, 2**40):
        balls = balls_at({n: Fraction(number)}, expression)
        assert enclose(expression, balls) == enclose(Fraction(number.bit_length()))


def test_boxes_of_integers_hold_integers_only() -> None:
    """n (n - 1) (n - 2) >= 0 at every integer from 0 on, and not between them."""
    integer = sympy.Symbol("n", integer=True, nonnegative=True)
    free = sympy.Symbol("f", nonnegative=True)
    for symbol, shown in ((integer, True), (free, False)):
        value = -symbol * (symbol - 1) * (symbol - 2)
        assert at_most(value, 0, {symbol: (Fraction(0), Fraction(9))}) is shown


def test_searches_end() -> None:
    """A touch in the inside of a range is neither shown nor searched for ever."""
    start = time.process_time()
    value = sympy.exp(x) - x * sympy.E
    assert not at_most(-value, 0, {x: (Fraction(0), Fraction(2))})
    assert not covered([x], {}, lambda balls: True, lambda values: False)
    assert covered([x], {x: (Fraction(0), Fraction(1))}, lambda balls: True, lambda values: False)
    assert time.process_time() - start < 20


def test_values_to_try_stay_inside_their_ranges() -> None:
    ranges = {x: (Fraction(1, 3), Fraction(1000)), n: (Fraction(5, 2), Fraction(7))}
    tried = list(points([x, n], ranges))
    assert len(tried) > 50
    for at in tried:
        assert Fraction(1, 3) <= at[x] <= 1000
        assert at[n] in (3, 4, 5, 6, 7)
    assert next(points([sympy.Symbol("p", positive=True, integer=True)], {}))


def test_the_gaussian_curve_on_boxes() -> None:
    """delta falls with epsilon and grows with mu: decided at the corners of a box."""
    curve = Curve(x, y, Fraction(1, 10**5))

    def on(low: Any, high: Any, at: Any) -> dict[Any, Any]:
        ends = enclose(Fraction(low)).union(enclose(Fraction(high)))
        return {x: ends, y: enclose(Fraction(at))}

    assert curve.holds(on(0, 1, "4.3773"))
    assert not curve.holds(on(0, 1, "4.3771"))
    assert curve.exceeds(on(1, 3, "4.3771"))
    assert not curve.exceeds(on(Fraction(9, 10), 3, "4.3771"))
    assert not curve.holds({x: enclose(Fraction(1))})

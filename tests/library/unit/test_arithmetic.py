"""Exact numbers in, certified balls and outward decimals out."""

from __future__ import annotations

import decimal
import math
import time
from decimal import Decimal
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
import sympy

from dpaudit import exact as arithmetic
from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    enclose,
    exact,
    is_infinite,
    lower_fraction,
    maximum,
    readable,
    settled,
    total,
    total_over,
    unknowns,
    upper_fraction,
)

x, y = sympy.symbols("x y", positive=True)
k, K = sympy.symbols("k K", positive=True, integer=True)
T = sympy.Function("T", positive=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float64(1e-5), Fraction(1, 100_000)),
        (np.longdouble("0.1"), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (np.uint8(200), Fraction(200)),
        (5, Fraction(5)),
        (-0.0, Fraction(0)),
        (5e-324, Fraction(5, 10**324)),
        (1.7976931348623157e308, Fraction(17976931348623157 * 10**292)),
        (Decimal("0.3"), Fraction(3, 10)),
        (Fraction(2, 3), Fraction(2, 3)),
        (sympy.Rational(2, 3), Fraction(2, 3)),
        (sympy.Integer(4), Fraction(4)),
        (sympy.Float(0.1), Fraction(1, 10)),
        (sympy.Float(1 / 3), Fraction(str(1 / 3))),
        (sympy.Float("0.1", 30), Fraction(1, 10)),
        (sympy.Float("1e-400"), Fraction(1, 10**400)),
    ],
)
def test_a_number_is_its_shortest_decimal(value: object, expected: Fraction) -> None:
    found = exact(value, "place")
    assert type(found) is Fraction
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.9", Fraction(9, 10)),
        ("1e-6", Fraction(1, 10**6)),
        ("-2.5E+1", Fraction(-25)),
        (".5", Fraction(1, 2)),
        ("+7.", Fraction(7)),
        ("2/6", Fraction(1, 3)),
        (np.str_("0.1"), Fraction(1, 10)),
    ],
)
def test_a_text_is_the_number_it_spells(text: str, expected: Fraction) -> None:
    assert exact(text, "place") == expected


def test_floats_inside_an_expression_are_decimals_too() -> None:
    assert exact(0.1 * x, "place") == x / 10
    assert exact(x**0.5, "place") == sympy.sqrt(x)
    assert not exact(1.5 * x + 0.25, "place").atoms(sympy.Float)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        np.float64("nan"),
        np.float32("inf"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        True,
        np.True_,
        sympy.true,
        "",
        "nan",
        "inf",
        "one tenth",
        "0.1 ",
        "1_000",
        "0x1p-2",
        "٣",
        "1/0",
        "1e99999",
        np.str_("0,5"),
        b"1",
        None,
        1j,
        np.complex128(1),
        np.array(0.5),
        np.array([1.0]),
        np.array(["1/2"]),
        np.datetime64("2020"),
        np.timedelta64(5, "s"),
        [1],
        object(),
        sympy.Symbol,
        sympy.nan,
        sympy.zoo,
        sympy.oo,
        -sympy.oo,
        sympy.I * x,
        x > 1,
        sympy.Matrix([1]),
        sympy.Lambda(x, x),
        sympy.sin(x),
        sympy.Piecewise((x, x > 1), (1, True)),
        sympy.Symbol("a", commutative=False),
    ],
)
def test_what_is_no_finite_number_is_refused_by_place(value: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^Gaussian\.noise = .*expected"):
        exact(value, "Gaussian.noise")


@pytest.mark.parametrize(
    "value",
    [
        10**1001,
        -(10**5000),
        Decimal("1e100000000"),
        Decimal("1e-2000"),
        Fraction(1, 10**1001),
        "1e9999",
        "1" * 10**6,
        "1e1000000000",
    ],
    ids=["int", "negative", "decimal", "small", "fraction", "text", "long", "steep"],
)
def test_absurd_sizes_are_refused_at_once(value: object) -> None:
    start = time.process_time()
    with pytest.raises(InvalidParameter, match="at most 1000 digits"):
        exact(value, "place")
    with pytest.raises(InvalidParameter, match="place"):
        exact(sympy.Integer(10) ** 1001 * x, "place")
    assert time.process_time() - start < 1


def test_a_message_stays_on_one_line() -> None:
    with pytest.raises(InvalidParameter) as caught:
        exact("long\n" * 10_000, "place")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


# --- enclosures ----------------------------------------------------------------------------------

CONSTANTS = [
    (Fraction(1, 3), lambda m: m.mpf(1) / 3),
    (sympy.sqrt(2), lambda m: m.sqrt(2)),
    (sympy.pi * sympy.E, lambda m: m.pi * m.e),
    (sympy.exp(-sympy.Rational(7, 3)), lambda m: m.exp(-m.mpf(7) / 3)),
    (sympy.log(7) / 3, lambda m: m.log(7) / 3),
    (sympy.tanh(sympy.Rational(1, 4)), lambda m: m.tanh(m.mpf(1) / 4)),
    (sympy.erf(sympy.sqrt(3)), lambda m: m.erf(m.sqrt(3))),
    (sympy.erfinv(sympy.Rational(1, 3)), lambda m: m.erfinv(m.mpf(1) / 3)),
    (sympy.Integer(2) ** sympy.Rational(-5, 7), lambda m: m.mpf(2) ** (m.mpf(-5) / 7)),
    (sympy.Max(sympy.sqrt(5), sympy.exp(1), evaluate=False), lambda m: m.e),
    (sympy.Min(sympy.sqrt(5), sympy.exp(1), evaluate=False), lambda m: m.sqrt(5)),
    (sympy.Abs(1 - sympy.sqrt(2)), lambda m: m.sqrt(2) - 1),
    (sympy.sqrt(2) + sympy.floor(x), lambda m: m.sqrt(2) + 3),
    (sympy.ceiling(x) / 7, lambda m: m.mpf(4) / 7),
    (sympy.Sum(1 / k**2, (k, 1, 50)), lambda m: m.fsum(1 / m.mpf(i) ** 2 for i in range(1, 51))),
    ((x - 4) ** 3, lambda m: m.mpf(-1) / 8),
]


@pytest.mark.parametrize(("value", "truth"), CONSTANTS, ids=[str(v) for v, _ in CONSTANTS])
def test_an_enclosure_holds_the_50_digit_value(value: object, truth: object) -> None:
    ball = enclose(value, {x: enclose(Fraction(7, 2))})
    low, high = lower_fraction(ball), upper_fraction(ball)
    with mpmath.workdps(50):
        found = truth(mpmath)
        assert low is not None
        assert high is not None
        slack = abs(found) * mpmath.mpf(10) ** -48
        assert mpmath.mpf(low.numerator) / low.denominator <= found + slack
        assert mpmath.mpf(high.numerator) / high.denominator >= found - slack
        assert high - low <= Fraction(1, 10**40) * abs(high)


def test_nested_sums_are_enclosed_with_their_own_indices() -> None:
    j = sympy.Symbol("j", positive=True, integer=True)
    nested = sympy.Sum(sympy.Sum(j * k, (j, 1, k)), (k, 1, 4))
    shadowed = sympy.Sum(sympy.Sum(k, (k, 1, 3)) + k, (k, 1, 2))
    assert enclose(nested) == sum(i * n for n in range(1, 5) for i in range(1, n + 1))
    assert enclose(shadowed, {k: enclose(Fraction(100))}) == 6 + 1 + 6 + 2
    assert enclose(sympy.Sum(T(k), (k, 1, K)), {K: enclose(Fraction(3)), T(k): flint.arb(2)}) == 6


@pytest.mark.parametrize(
    ("value", "symbols"),
    [
        (x + 1, {}),
        (sympy.Function("exp", positive=True)(sympy.Integer(1)), {}),
        (sympy.Function("Max")(x), {x: flint.arb(1)}),
        (sympy.sin(sympy.Integer(1)), {}),
        (sympy.Sum(1 / k, (k, 1, 10**7)), {}),
        (sympy.Sum(1 / k, (k, 1, K)), {K: flint.arb("2.5")}),
        (sympy.Sum(1 / k, (k, 1, K)), {K: flint.arb(2, 1)}),
    ],
)
def test_no_number_is_made_up(value: object, symbols: dict[object, object]) -> None:
    """A symbol without a value, a namesake of exp, a sum with no or too many terms."""
    with pytest.raises(InvalidParameter):
        enclose(value, symbols)


def test_infinity_and_nan_stay_what_they_are() -> None:
    assert is_infinite(sympy.oo)
    assert not is_infinite(x)
    assert not is_infinite(Fraction(1))
    assert settled(sympy.oo * sympy.Symbol("n", nonnegative=True)) == sympy.oo
    assert settled(sympy.nan) == sympy.oo
    assert settled(sympy.Rational(1, 2)) == Fraction(1, 2)
    assert not enclose(sympy.oo).is_finite()


# --- decimals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [
        (Fraction(1, 3), "0.333333333333", "0.333333333334"),
        (Fraction(1, 10), "0.1", "0.1"),
        (Fraction(0), "0", "0"),
        (Fraction(-1, 3), "-0.333333333334", "-0.333333333333"),
        (10**15, "1000000000000000", "1000000000000000"),
        (10**20, "1e20", "1e20"),
        (Fraction(1, 10**9), "1e-9", "1e-9"),
        (Fraction(15, 10**100), "1.5e-99", "1.5e-99"),
        (Fraction(1, 10**6), "0.000001", "0.000001"),
        (0.1, "0.1", "0.100000000001"),
        (np.float32(0.1), "0.10000000149", "0.100000001491"),
        (np.int64(7), "7", "7"),
        (Decimal("0.25"), "0.25", "0.25"),
        (math.inf, "-inf", "inf"),
        (-math.inf, "-inf", "inf"),
        (math.nan, "-inf", "inf"),
        (flint.arb("nan"), "-inf", "inf"),
        (sympy.sqrt(2), "1.41421356237", "1.41421356238"),
    ],
)
def test_decimals_are_rounded_outward(value: object, lower: str, upper: str) -> None:
    """0.1 as a float is a binary number a little above one tenth; what is unknown is infinite."""
    assert decimal_lower(value) == lower
    assert decimal_upper(value) == upper


def test_the_ambient_decimal_context_is_ignored() -> None:
    value = Fraction(10**40 + 1, 10**40)
    with decimal.localcontext(decimal.Context(prec=3, Emax=5, Emin=-5)):
        assert decimal_upper(Fraction(10001, 10000)) == "1.0001"
        assert decimal_lower(Fraction(99999, 10)) == "9999.9"
        assert decimal_upper(Fraction(1, 10**30)) == "1e-30"
        assert Fraction(decimal_upper(value, digits=60)) == value
        assert readable(Fraction(123456, 1000)) == "123.456"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1, 8), "0.125"),
        (Fraction(-5, 100), "-0.05"),
        (Fraction(1, 3), "1/3"),
        (Fraction(10**30 + 1), "1" + "0" * 29 + "1"),
        (Fraction(10**5000), "1e5000..."),
        (x / 3, "x/3"),
        (sympy.Pow(10**1200 + 1, sympy.S.Half, evaluate=False), "1e600..."),
        (10**1200 * x, "an expression of x with large numbers"),
    ],
    ids=["eighth", "negative", "third", "long", "huge", "x", "root", "symbolic"],
)
def test_readable_is_exact_or_says_that_it_is_not(value: object, text: str) -> None:
    assert readable(value).replace("1.00000000001e600", "1e600") == text


# --- one formula, four kinds of numbers ----------------------------------------------------------


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "tanh"])
def test_functions_take_floats_fractions_balls_and_symbols(name: str) -> None:
    """One of a function symbol is that function of it."""
    function = getattr(arithmetic, name)
    truth = getattr(math, name)(0.5)
    assert function(0.5) == truth
    assert float(enclose(function(Fraction(1, 2))).mid()) == pytest.approx(truth, rel=1e-15)
    assert float(function(flint.arb("0.5")).mid()) == pytest.approx(truth, rel=1e-15)
    assert function(x) == getattr(sympy, name)(x)
    assert function(T(k)) == getattr(sympy, name)(T(k))


def test_square_roots_of_huge_fractions_are_quick_and_exact() -> None:
    root = Fraction(3**400, 7**300)
    other = root**2 * (1 + Fraction(1, 10**30))
    start = time.process_time()
    assert arithmetic.sqrt(root**2) == root
    assert arithmetic.sqrt(other) ** 2 == sympy.Rational(other.numerator, other.denominator)
    assert enclose(arithmetic.sqrt(other)) > enclose(root)
    assert time.process_time() - start < 1


def test_sums_and_maxima_of_every_kind() -> None:
    assert total([Fraction(1, 3), 2]) == Fraction(7, 3)
    assert total([0.1] * 10) == 1.0
    assert total([x, Fraction(1, 2), x]) == 2 * x + sympy.Rational(1, 2)
    assert total([sympy.Integer(2), Fraction(1, 2)]) == Fraction(5, 2)
    assert total([flint.arb(1), Fraction(1, 2), 0.25]) == flint.arb("1.75")
    assert total([]) == 0
    assert maximum([Fraction(1, 3), 2]) == 2
    assert maximum([x, y]) == sympy.Max(x, y)
    assert maximum([sympy.sqrt(2), Fraction(3, 2)]) == Fraction(3, 2)
    assert maximum([flint.arb(1), Fraction(3)]) == 3
    assert maximum([sympy.sqrt(2), sympy.oo]) == sympy.oo
    assert maximum([sympy.sqrt(8), 2 * sympy.sqrt(2)]) == 2 * sympy.sqrt(2)


def test_the_largest_of_huge_roots_is_found_without_factoring() -> None:
    start = time.process_time()
    roots = [arithmetic.sqrt(Fraction(3**5000 + i, 7**5000 + 2 * i)) for i in range(4)]
    assert maximum(roots) is roots[3]
    assert time.process_time() - start < 1


@pytest.mark.quality
def test_three_thousand_symbolic_terms_are_quick() -> None:
    """Linear in the terms; the built-in sum takes two minutes."""
    terms = [1 / (2 * sympy.Symbol(f"z{i}", positive=True) ** 2) for i in range(3000)]
    start = time.process_time()
    found = total(terms)
    assert time.process_time() - start < 5
    assert len(found.args) == 3000


# --- sums over an index --------------------------------------------------------------------------

SUMMANDS = [
    k,
    k**3 - x * k,
    sympy.Rational(1, 2) ** k,
    1 / (k * (k + 1)),
    sympy.exp(-k),
    1 / k,
    1 / sympy.sqrt(k + x),
    x**k,
    sympy.Max(k, 3 * x),
    sympy.floor(k / 2),
    sympy.log(1 + 1 / k),
]


@pytest.mark.parametrize("summand", SUMMANDS, ids=map(str, SUMMANDS))
def test_a_sum_in_closed_form_is_the_sum_of_its_terms(summand: sympy.Expr) -> None:
    point = {x: Fraction(3, 7)}
    balls = {s: enclose(v) for s, v in point.items()}
    symbolic = total_over(summand, k, K)
    for rounds in (0, 1, 5, 150):
        terms = [enclose(summand, {**balls, k: flint.arb(i)}) for i in range(1, rounds + 1)]
        truth = sum(terms, flint.arb(0))
        if rounds or not symbolic.has(sympy.Sum):
            ball = enclose(symbolic, {**balls, K: flint.arb(rounds)})
            assert ball.overlaps(truth), (rounds, symbolic)
        assert enclose(total_over(summand, k, Fraction(rounds)), balls).overlaps(truth)


def test_what_is_known_of_a_sum() -> None:
    assert total_over(k, k, K) == sympy.expand(K * (K + 1) / 2)
    assert total_over(x, k, K) == K * x
    assert total_over(Fraction(1, 3), None, Fraction(6)) == 2
    assert total_over(T(k), k, Fraction(3)) == T(1) + T(2) + T(3)
    assert total_over(1 / k, k, K) == sympy.Sum(1 / k, (k, 1, K))
    assert total_over(k, k, Fraction(0)) == 0
    start = time.process_time()
    many = total_over(1 / k**2, k, Fraction(10**6))
    assert isinstance(many, sympy.Sum)
    assert many.args == sympy.Sum(1 / k**2, (k, 1, 10**6)).args
    assert time.process_time() - start < 1


def test_zero_rounds_of_something_infinite_cost_nothing() -> None:
    assert total_over(sympy.oo, None, Fraction(0)) == 0
    assert total_over(sympy.oo, None, Fraction(2)) == sympy.oo
    assert total_over(sympy.oo, None, sympy.Symbol("n", nonnegative=True)) == sympy.oo


def test_unknowns_are_free_symbols_and_function_symbols() -> None:
    assert unknowns(Fraction(1)) == set()
    assert unknowns(x * T(k)) == {x, T(k)}
    assert unknowns(k * T(k)) == {k, T(k)}
    assert unknowns(sympy.Sum(k, (k, 1, K))) == {K}
    assert unknowns(sympy.Sum(T(k), (k, 1, 3))) == {T(k)}
    assert unknowns(T(T(k))) == {T(T(k))}

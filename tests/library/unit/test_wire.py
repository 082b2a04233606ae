"""Expressions on the wire: an allow-list, read back exactly, never evaluated as text."""

from __future__ import annotations

import time
import warnings
from fractions import Fraction
from typing import Any

import pytest
import sympy
from sympy.core.function import AppliedUndef

from dpaudit.errors import InvalidParameter
from dpaudit.exact import wire

x, y = sympy.symbols("x y", positive=True)
n = sympy.Symbol("n", nonnegative=True)
r = sympy.Symbol("r", real=True, nonzero=True)
k, K = sympy.symbols("k K", positive=True, integer=True)
T = sympy.Function("T", positive=True, integer=True)
REAL: dict[str, bool] = {"real": True}

NUMBERS = [
    Fraction(0),
    Fraction(-7, 3),
    Fraction(10**999, 10**998 + 1),
    sympy.oo,
    sympy.pi,
    sympy.E,
    sympy.Symbol("free"),
    x,
    n,
    r,
    sympy.Symbol("m", negative=True, integer=True),
    sympy.Symbol("sigma_1", positive=True),
    x + y / 3 - 2,
    sympy.sqrt(x) * y ** sympy.Rational(-2, 3),
    2**x,
    sympy.exp(-x) + sympy.log(1 + y) * sympy.tanh(x),
    sympy.erf(x) + sympy.erfinv(sympy.Rational(1, 3)),
    sympy.Max(x, y, 2) - sympy.Min(x, y),
    sympy.Abs(x - y) + sympy.floor(x) + sympy.ceiling(y),
    T(k) * x,
    T(k) + sympy.Function("T", positive=True)(k) + sympy.Function("g")(x, T(k)),
    sympy.Sum(T(k) / k, (k, 1, K)),
    sympy.Sum(sympy.Sum(x * k, (x, 1, k)), (k, 1, K)),
    sympy.Function("exp", positive=True)(x),
    sympy.Integer(2) ** sympy.Rational(1, 2),
]


@pytest.mark.parametrize("value", NUMBERS, ids=[str(v)[:30] for v in NUMBERS])
def test_numbers_and_expressions_round_trip(value: Any) -> None:
    table = wire.encode_number(value)
    found = wire.decode_number(table)
    assert found == value
    # SymPy makes the class of an undefined function anew once its cache is full.
    undefined = isinstance(value, AppliedUndef)
    assert found.func == value.func if undefined else type(found) is type(value)
    assert wire.encode_number(found) == table
    assert wire.canonical_bytes(table)


def test_equal_symbols_are_written_alike() -> None:
    """SymPy may hand out either of two equal symbols; what is written may not depend on it."""
    twin = sympy.Symbol("x", positive=True, real=True, nonnegative=True)
    assert twin == x
    assert wire.encode_number(twin) == wire.encode_number(x)
    assert wire.encode_number(twin) != wire.encode_number(sympy.Symbol("x", real=True))


@pytest.mark.parametrize(
    "value",
    [
        sympy.sin(x),
        sympy.Dummy("x", positive=True),
        sympy.Symbol("p", prime=True),
        sympy.Symbol("e", even=True),
        sympy.Symbol("z", positive=False),
        sympy.Symbol("c", commutative=False),
        sympy.Function("f", even=True)(x),
        sympy.Symbol("a\nb"),
        sympy.Symbol("a" * 101),
        sympy.I,
        sympy.nan,
        sympy.zoo,
        sympy.Lambda(x, x),
        sympy.Piecewise((x, x > 1), (1, True)),
        Fraction(10**1001),
    ],
    ids=lambda v: str(v)[:30],
)
def test_what_would_not_come_back_is_not_written(value: Any) -> None:
    with pytest.raises(InvalidParameter):
        wire.encode_number(value)


MALFORMED: list[Any] = [
    None,
    1,
    0.5,
    True,
    {},
    [],
    [[]],
    [1],
    ["Lambda", "1/1", "1/1"],
    ["__import__", "os"],
    ["eval", "1/1"],
    ["sympify", "1/1"],
    ["Integral", "1/1"],
    ["NaN"],
    ["ComplexInfinity"],
    ["ImaginaryUnit"],
    ["Dummy", "x", {}],
    "1",
    "1.5",
    "a/b",
    "1/0",
    "1/-2",
    "--1/2",
    "1/2/3",
    " 1/2",
    "١/٢",
    "__import__('os').system('true')/1",
    "9" * 1002 + "/1",
    "1/" + "9" * 1002,
    ["Symbol"],
    ["Symbol", "x"],
    ["Symbol", "x", {}, "1/1"],
    ["Symbol", 5, {}],
    ["Symbol", "", {}],
    ["Symbol", "x" * 101, {}],
    ["Symbol", "x\x00", {}],
    ["Symbol", "\ud800", {}],
    ["Symbol", "x", []],
    ["Symbol", "x", {"prime": True}],
    ["Symbol", "x", {"commutative": False}],
    ["Symbol", "x", {"positive": "yes"}],
    ["Symbol", "x", {"positive": 1}],
    ["Symbol", "x", {"positive": True, "negative": True}],
    ["Function", "T", {"positive": True, "negative": True}, "1/1"],
    ["Function", "T"],
    ["Function", "T", {}, "one"],
    ["Pi", "1/1"],
    ["Infinity", "1/1"],
    ["Pow", "2/1"],
    ["Pow", "0/1", "-1/1"],
    ["Pow", "-1/1", "1/2"],
    ["log", "0/1"],
    ["exp"],
    ["exp", "1/1", "2/1"],
    ["Tuple"],
    ["Tuple", "1/1", "2/1"],
    ["Add", ["Tuple"], "1/1"],
    ["Abs", ["Tuple"]],
    ["Max"],
    ["Max", ["Pow", "-1/1", "1/2"], "1/1"],
    ["Sum", "1/1"],
    ["Sum", "1/1", "2/1"],
    ["Sum", ["Symbol", "k", REAL], ["Tuple", ["Symbol", "k", REAL]]],
    ["Sum", "1/1", ["Tuple", ["Symbol", "k", REAL], "1/1", ["Infinity"]]],
    ["Mul", ["Infinity"], "0/1"],
    ["Mul", ["Infinity"], ["Symbol", "x", {}]],
]


@pytest.mark.parametrize("table", MALFORMED, ids=[repr(t)[:40] for t in MALFORMED])
def test_anything_else_is_refused(table: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidParameter) as caught:
            wire.decode_number(table)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def _nested(depth: int) -> Any:
    table: Any = "1/1"
    for _ in range(depth):
        table = ["exp", table]
    return table


BOMBS: list[Any] = [
    _nested(5000),
    _nested(30),
    ["Pow", "2/1", "100000000000/1"],
    ["Pow", ["Pow", "2/1", "1/2"], "10000000000/1"],
    ["Pow", ["Mul", "99999/1", ["Symbol", "x", REAL]], "1000000000/1"],
    ["Pow", ["Mul", *["9" * 1000 + "/1"] * 300], "1000/1"],
    ["exp", ["Mul", "1000000000000/1", ["log", "2/1"]]],
    ["Pow", ["Exp1"], ["Mul", "1000000000000/1", ["log", "2/1"]]],
    ["floor", ["exp", ["exp", "20/1"]]],
    ["Max", ["exp", ["exp", "40/1"]], ["exp", ["exp", "41/1"]]],
    "x" * 10_000_000,
]


@pytest.mark.parametrize("table", BOMBS, ids=range(len(BOMBS)))
def test_deep_and_explosive_tables_are_refused_at_once(table: Any) -> None:
    start = time.process_time()
    with pytest.raises(InvalidParameter) as caught:
        wire.decode_number(table)
    assert time.process_time() - start < 2
    assert len(str(caught.value)) < 300


def test_what_is_too_deep_to_be_read_is_not_written() -> None:
    value = x
    for _ in range(210):
        value = sympy.exp(value) if _ % 2 else value + 1
    with pytest.raises(InvalidParameter, match="nested deeper than 200"):
        wire.encode_number(value)


def test_nothing_is_evaluated(tmp_path: Any) -> None:
    """Neither a symbol's name nor a head is ever run as code."""
    target = tmp_path / "made"
    code = f"open({str(target)!r}, 'w')"
    for table in (
        code,
        [code],
        ["Symbol", code[:100], {}],
        ["Function", code, {}, code],
        ["Add", code, code],
    ):
        with pytest.raises(InvalidParameter):
            wire.decode_number(table)
    assert not target.exists()


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2}, 2**70, object(), "\ud800", {"a": {1}}]
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="canonical JSON"):
        wire.canonical_bytes(value)


def test_canonical_bytes_do_not_depend_on_order() -> None:
    assert wire.canonical_bytes({"b": 1, "a": [True, None]}) == b'{"a":[true,null],"b":1}'
    assert wire.digest({"b": 1, "a": 2}) == wire.digest({"a": 2, "b": 1})
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidParameter, match="canonical JSON"):
        wire.digest(deep)


PLAIN: list[Any] = [
    {"type": "Repeat", "parameters": {"times": {"number": "3/1"}}, "children": ["ab", "cd"]},
    {"b": [True, False, None, []], "a": {}, "C": 'quotes " and \\ and / \b \n \x1f \x7f'},
    ["\u20ac", "\U0001f600", {"text": "\u2028"}],
    {"\u20ac": "a key beyond ASCII", "\U0001f600": "is sorted by UTF-16"},
    {"whole": [0, -1, 10**15, 2**53 - 1, 1 - 2**53], "not": [0.5, 1e21, -0.0], "flags": [True, 1]},
]


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_plain_values_have_the_bytes_of_rfc_8785(value: Any) -> None:
    import rfc8785

    assert wire.canonical_bytes(value) == rfc8785.dumps(value)


def test_half_a_character_has_no_canonical_bytes() -> None:
    with pytest.raises(InvalidParameter, match="canonical"):
        wire.canonical_bytes({"text": "\ud800"})


@pytest.mark.parametrize("text", ["2/4", "01/2", "-0/1", "0/5", "1/01"])
def test_a_number_has_one_text(text: str) -> None:
    """A claim of "2/4" verified as "1/2" does, and was named nowhere as changed."""
    with pytest.raises(InvalidParameter, match="lowest terms"):
        wire.decode_number(text)

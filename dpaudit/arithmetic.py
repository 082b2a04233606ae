"""Exact numbers: fractions and SymPy expressions in, certified Arb enclosures and decimals out.

A *number* is a :class:`fractions.Fraction` or a SymPy expression; a float stands for its shortest
decimal (0.1 is one tenth).  The same functions also take floats and Arb balls, so that a formula
is written once and evaluated in any of the four.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

from dpaudit.errors import InvalidParameter

Number: TypeAlias = Any
"""A ``Fraction`` or a ``sympy.Expr`` (SymPy is imported only when a symbol is met)."""

PRECISION_BITS = 160
DIGITS = 12


def is_symbolic(value: object) -> bool:
    """Whether the value is a SymPy expression (decided without importing SymPy)."""
    return hasattr(value, "free_symbols")


def exact(value: object, place: str) -> Number:
    """The exact number behind an int, float (shortest decimal), Decimal, Fraction or expression.

    Errors: InvalidParameter for NaN, infinities, booleans and anything that is not a number.
    """
    if isinstance(value, Fraction):
        return value
    if is_symbolic(value):
        return canonical(_without_floats(value, place))
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        raise InvalidParameter(f"{place} = {value!r}: expected a number, not a truth value")
    if isinstance(value, (int, float, Decimal)) or hasattr(value, "__array_interface__"):
        return _fraction(value, place)
    raise InvalidParameter(
        f"{place} = {value!r}: expected an int, float, Decimal, Fraction or SymPy expression"
    )


def _fraction(value: Any, place: str) -> Fraction:
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise InvalidParameter(f"{place} = {value!r}: expected one finite number") from None


def _without_floats(value: Any, place: str) -> Any:
    import sympy

    if value.has(sympy.nan, sympy.zoo, sympy.I):
        raise InvalidParameter(f"{place} = {value}: expected a real, finite expression")
    floats = value.atoms(sympy.Float)
    return value.xreplace({f: sympy.Rational(str(Decimal(str(f)))) for f in floats})


def canonical(value: Number) -> Number:
    """A rational SymPy number becomes a Fraction; everything else stays as it is."""
    if is_symbolic(value) and value.is_Rational:
        return Fraction(int(value.p), int(value.q))
    return value


def infinity() -> Number:
    """Positive infinity as an exact value (``sympy.oo``)."""
    import sympy

    return sympy.oo


def is_infinite(value: Number) -> bool:
    """Whether an exact value is infinite."""
    return is_symbolic(value) and value.is_infinite is True


def sympify(value: Number) -> Any:
    """The SymPy expression equal to an exact number."""
    import sympy

    return sympy.Rational(value.numerator, value.denominator) if _rational(value) else value


def _rational(value: object) -> bool:
    return isinstance(value, (int, Fraction))


def _is_arb(value: object) -> bool:
    return type(value).__module__.startswith("flint")


def sqrt(value: Number) -> Number:
    """Square root: exact for fractions and expressions, float for floats, a ball for balls."""
    if isinstance(value, float):
        return math.sqrt(value)
    if _is_arb(value):
        return value.sqrt()
    import sympy

    return canonical(sympy.sqrt(sympify(value)))


def exp(value: Number) -> Number:
    """Exponential, of the same kind as its argument."""
    return _apply("exp", math.exp, value)


def log(value: Number) -> Number:
    """Natural logarithm, of the same kind as its argument."""
    return _apply("log", math.log, value)


def erfinv(value: Number) -> Number:
    """Inverse error function of an exact number or a ball."""
    return _apply("erfinv", None, value)


def tanh(value: Number) -> Number:
    """Hyperbolic tangent, of the same kind as its argument."""
    return _apply("tanh", math.tanh, value)


def _apply(name: str, of_float: Callable[[float], float] | None, value: Number) -> Number:
    if isinstance(value, float) and of_float is not None:
        return of_float(value)
    if _is_arb(value):
        return getattr(value, name)()
    import sympy

    return canonical(getattr(sympy, name)(sympify(value)))


def maximum(values: Iterable[Number]) -> Number:
    """Largest of the values; stays a SymPy ``Max`` where symbols leave it open."""
    items = list(values)
    if all(_rational(v) or isinstance(v, float) for v in items):
        return max(items)
    import sympy

    return canonical(sympy.Max(*(sympify(v) for v in items)))


def total(values: Iterable[Number]) -> Number:
    """Sum of the values; symbolic terms go through one ``sympy.Add`` (linear, not quadratic)."""
    items = list(values)
    if all(_rational(v) for v in items):
        return sum(items, Fraction(0))
    if all(isinstance(v, float) for v in items):
        return math.fsum(items)
    import sympy

    return canonical(sympy.Add(*(sympify(v) for v in items)))


def total_over(value: Number, index: Any, times: Number) -> Number:
    """Sum of ``value`` over ``index`` = 1..times; in closed form where SymPy finds one."""
    if index is None or not is_symbolic(value) or index not in value.free_symbols:
        return canonical(value * times)
    import sympy

    return canonical(sympy.Sum(sympify(value), (index, 1, sympify(times))).doit())


# --- Arb -----------------------------------------------------------------------------------------


def enclose(value: Number, symbols: Mapping[Any, Any] | None = None) -> Any:
    """An Arb ball that holds the exact value; ``symbols`` gives balls for its free symbols.

    Errors: InvalidParameter for a symbol without a value, or a function without an enclosure.
    """
    with working_precision():
        return _enclose(value, symbols or {})


def working_precision() -> Any:
    """Context in which balls are computed with ``PRECISION_BITS`` bits."""
    import flint

    return flint.ctx.workprec(PRECISION_BITS)


def _enclose(value: Number, symbols: Mapping[Any, Any]) -> Any:
    import flint

    if _rational(value):
        return flint.arb(value.numerator) / flint.arb(value.denominator)
    if value in symbols:
        return symbols[value]
    head = value.func.__name__
    if value.is_Rational:
        return flint.arb(int(value.p)) / flint.arb(int(value.q))
    if head in _CONSTANTS:
        return _CONSTANTS[head]()
    if head == "Sum":
        return _enclose_sum(value, symbols)
    if head not in _ENCLOSURES:
        raise InvalidParameter(f"{value}: no number for {head}; bind its symbols to values first")
    return _ENCLOSURES[head]([_enclose(a, symbols) for a in value.args])


def _enclose_sum(value: Any, symbols: Mapping[Any, Any]) -> Any:
    summand, (index, first, last) = value.args[0], value.args[1].args
    if not (first.is_Integer and last.is_Integer) or len(value.args) != 2:
        raise InvalidParameter(f"{value}: bind the limits of the sum to integers first")
    terms = (_enclose(summand.subs(index, k), symbols) for k in range(int(first), int(last) + 1))
    result = _enclose(Fraction(0), symbols)
    for term in terms:
        result = result + term
    return result


def _power(arguments: list[Any]) -> Any:
    base, exponent = arguments
    if exponent.is_exact() and exponent.is_integer():
        return base ** int(exponent.unique_fmpz())
    return base.sqrt() if exponent == _ball("0.5") else base**exponent


def _reduce(operation: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    def apply(arguments: list[Any]) -> Any:
        result = arguments[0]
        for argument in arguments[1:]:
            result = operation(result, argument)
        return result

    return apply


def _ball(text: str) -> Any:
    import flint

    return flint.arb(text)


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "Infinity": lambda: _ball("inf"),
    "Pi": lambda: _ball("0").pi(),
    "Exp1": lambda: _ball("1").exp(),
}
_ENCLOSURES: dict[str, Callable[[list[Any]], Any]] = {
    "Add": _reduce(lambda a, b: a + b),
    "Mul": _reduce(lambda a, b: a * b),
    "Pow": _power,
    "exp": lambda a: a[0].exp(),
    "log": lambda a: a[0].log(),
    "tanh": lambda a: a[0].tanh(),
    "erf": lambda a: a[0].erf(),
    "erfinv": lambda a: a[0].erfinv(),
    "Max": _reduce(lambda a, b: a.max(b)),
    "Min": _reduce(lambda a, b: a.min(b)),
    "Abs": lambda a: abs(a[0]),
    "floor": lambda a: a[0].floor(),
    "ceiling": lambda a: a[0].ceil(),
}


def upper_fraction(ball: Any) -> Fraction | None:
    """The smallest representable fraction known to be at least the ball; None for infinity."""
    with working_precision():
        return _end(ball.upper())


def lower_fraction(ball: Any) -> Fraction | None:
    """The largest representable fraction known to be at most the ball; None for infinity."""
    with working_precision():
        return _end(ball.lower())


def _end(point: Any) -> Fraction | None:
    if not point.is_finite():
        return None
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def decimal_upper(value: Any, digits: int = DIGITS) -> str:
    """Decimal string that is never below the exact value or ball: rounded outward, or "inf"."""
    return _decimal(_as_fraction(value, upper_fraction), digits, ROUND_CEILING)


def decimal_lower(value: Any, digits: int = DIGITS) -> str:
    """Decimal string that is never above the exact value or ball: rounded outward."""
    return _decimal(_as_fraction(value, lower_fraction), digits, ROUND_FLOOR)


def _as_fraction(value: Any, end: Callable[[Any], Fraction | None]) -> Fraction | None:
    if isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else None
    if _rational(value):
        return Fraction(value)
    return end(value if _is_arb(value) else enclose(value))


def _decimal(value: Fraction | None, digits: int, rounding: str) -> str:
    if value is None:
        return "inf"
    context = Context(prec=digits, rounding=rounding, Emin=-(10**9), Emax=10**9)
    return plain(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def plain(value: Decimal) -> str:
    """A decimal as certificates write it: ``0.00001``, ``1.5e-9``; no plus sign, no upper case."""
    value = value.normalize()
    if value == 0:
        return "0"
    if -7 < value.adjusted() < 16:
        return format(value, "f")
    return format(value, "e").replace("e+", "e")


@cache
def _ten_power(exponent: int) -> int:
    return 10**exponent


def readable(value: Number) -> str:
    """A number for people: a terminating decimal where there is a short one, else exact."""
    if not isinstance(value, Fraction):
        return str(value)
    for places in range(13):
        if _ten_power(places) % value.denominator == 0:
            text = format(Decimal(value.numerator) / Decimal(value.denominator), "f")
            return text
    return f"{value.numerator}/{value.denominator}"

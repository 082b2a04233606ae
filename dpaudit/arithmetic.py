"""Exact numbers: fractions and SymPy expressions in, certified Arb enclosures and decimals out.

A *number* is a :class:`fractions.Fraction` or a SymPy expression; a float stands for its shortest
decimal (0.1 is one tenth).  The same functions also take floats and Arb balls, so that a formula
is written once and evaluated in any of the four.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, TypeAlias

from dpaudit.errors import InvalidParameter

Number: TypeAlias = Any
"""A ``Fraction`` or a ``sympy.Expr`` (SymPy is imported only when a symbol is met)."""

PRECISION_BITS = 160
COMPARING_BITS = (160, 2_000, 40_000)
DIGITS = 12
MAXIMUM_DIGITS = 1000
FACTORED = 10**40
EXPLICIT_TERMS = 100
MAXIMUM_TERMS = 100_000
LARGEST_EXPONENT = 2**17
MAXIMUM_CHOICE = 10_000
SUM_BITS = 10_240
HEADS = tuple(
    "Add Mul Pow exp log tanh erf erfinv Max Min Abs floor ceiling binomial Sum Tuple".split()
)
# What SymPy raises where it is asked for something it cannot do, or that makes no sense.
SYMPY_ERRORS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def is_symbolic(value: object) -> bool:
    """Whether the value is a SymPy object (decided without importing SymPy)."""
    return hasattr(type(value), "free_symbols")


def exact(value: object, place: str) -> Number:
    """The exact number behind an int, float (shortest decimal), Decimal, Fraction or expression.

    Errors: InvalidParameter for NaN, infinities, booleans and anything that is not a number.
    """
    if is_symbolic(value):
        return canonical(_expression(value, place))
    if isinstance(value, bool) or not (isinstance(value, Decimal) or _is_real(value)):
        raise InvalidParameter(
            f"{place} = {reprlib.repr(value)}: expected an int, float, Decimal, Fraction or SymPy "
            "expression"
        )
    return _fraction(value, place)


def _is_real(value: object) -> bool:
    """Python's numbers and NumPy's scalars; no text, no arrays, no types of other libraries."""
    own = isinstance(value, (int, float, Fraction)) or hasattr(value, "__array_interface__")
    return own and isinstance(value, numbers.Real)


def _fraction(value: Any, place: str) -> Fraction:
    try:
        if isinstance(value, Decimal) and abs(value.adjusted()) > MAXIMUM_DIGITS:
            raise ValueError
        found = Fraction(value if isinstance(value, (int, Fraction)) else str(value))
        if not is_short(found):
            raise ValueError
    except ValueError:
        shown = "..." if isinstance(value, (int, Fraction)) else repr(value)
        raise InvalidParameter(
            f"{place} = {shown}: expected one finite number of at most {MAXIMUM_DIGITS} digits"
        ) from None
    return found


def is_short(value: Fraction) -> bool:
    """Whether numerator and denominator have at most ``MAXIMUM_DIGITS`` digits."""
    return max(abs(value.numerator), value.denominator) <= _ten_power(MAXIMUM_DIGITS)


def _expression(value: Any, place: str) -> Any:
    """A real expression of known operations, its floats replaced by their shortest decimals."""
    import sympy

    if isinstance(value, sympy.Expr):
        value = value.xreplace({f: _shortest(f) for f in value.atoms(sympy.Float)})
    if not is_real_expression(value):
        raise InvalidParameter(
            f"{place} = {str(value)[:200]}: expected a real, finite expression of symbols, "
            f"function symbols and {', '.join(HEADS[:-1])}"
        )
    return value


def _shortest(number: Any) -> Any:
    import sympy

    same = number == float(number) if abs(number) < _LARGEST_FLOAT else False
    return sympy.Rational(str(Decimal(repr(float(number)) if same else str(number))))


def is_real_expression(value: Any) -> bool:
    """Whether the value is made of symbols, function symbols and the operations known here."""
    import sympy

    return isinstance(value, sympy.Expr) and all(map(_is_known, sympy.preorder_traversal(value)))


def _is_known(part: Any) -> bool:
    from sympy.core.function import AppliedUndef

    if part.is_Rational:
        return is_short(canonical(part))
    return bool(
        (part.is_Symbol and part.is_commutative)
        or isinstance(part, AppliedUndef)
        or head(part) in (*HEADS, "Pi", "Exp1")
    )


def head(expression: Any) -> str:
    """Name of an expression's operation; empty for a symbol or a function symbol of any name."""
    return _operations().get(expression.func, "")


@cache
def _operations() -> dict[Any, str]:
    import sympy

    from dpaudit.inert import InertSum, Lesser

    constants = {type(sympy.pi): "Pi", type(sympy.E): "Exp1", type(sympy.oo): "Infinity"}
    inert = {InertSum: "Sum", Lesser: "Lesser"}
    return {getattr(sympy, name): name for name in HEADS} | constants | inert


def unknowns(expression: Any) -> set[Any]:
    """Free symbols and applied function symbols whose values an expression depends on."""
    import sympy
    from sympy.core.function import AppliedUndef

    if not is_symbolic(expression):
        return set()
    masks: dict[Any, Any] = {f: sympy.Dummy() for f in expression.atoms(AppliedUndef)}
    free: set[Any] = expression.xreplace(masks).free_symbols
    return (free - set(masks.values())) | {f for f, mask in masks.items() if mask in free}


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
    """Whether a settled value is infinite (SymPy's own answer may take it a minute)."""
    return is_symbolic(value) and head(value) == "Infinity"


def settled(value: Number) -> Number:
    """An upper bound in its one form: infinite where an infinity or NaN is left inside it."""
    if not is_symbolic(value):
        return value
    import sympy

    return sympy.oo if value.has(sympy.oo, sympy.zoo, sympy.nan) else canonical(value)


def sympify(value: Number) -> Any:
    """The SymPy expression equal to an exact number."""
    import sympy

    return sympy.Rational(value.numerator, value.denominator) if _rational(value) else value


def _rational(value: object) -> bool:
    return isinstance(value, (int, Fraction))


def _is_arb(value: object) -> bool:
    return str(type(value).__module__).startswith("flint")


def sqrt(value: Number) -> Number:
    """Square root: exact for fractions and expressions, float for floats, a ball for balls."""
    if isinstance(value, float):
        return math.sqrt(value)
    if _is_arb(value):
        return value.sqrt()
    if _rational(value) and max(abs(value.numerator), value.denominator) > FACTORED:
        return _large_sqrt(Fraction(value))
    import sympy

    return canonical(sympy.sqrt(sympify(value)))


def _large_sqrt(value: Fraction) -> Number:
    """Square root of a fraction that SymPy would try for minutes to factor."""
    import sympy

    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    half = sympy.Rational(1, 2)
    return root if root**2 == value else sympy.Pow(sympify(value), half, evaluate=False)


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
    if any(map(_is_arb, items)):
        return _reduce(lambda a, b: a.max(b))([_as_ball(v) for v in items])
    import sympy

    items = list(dict.fromkeys(map(sympify, items)))
    if not any(map(unknowns, items)):
        items = _largest(items)
    return canonical(items[0] if len(items) == 1 else sympy.Max(*items))


def smaller(first: Number, second: Number) -> Number:
    """The smaller of two exact numbers, as an expression unless both are fractions."""
    if _rational(first) and _rational(second):
        return min(first, second)
    from dpaudit.inert import Lesser

    return Lesser(sympify(first), sympify(second))


def choose(n: Number, k: Number) -> Number:
    """The binomial coefficient, n over k, of exact numbers."""
    import sympy

    return canonical(sympy.binomial(sympify(n), sympify(k)))


def _largest(items: list[Any]) -> list[Any]:
    """The numbers of which none is certainly below another; SymPy would factor to compare them."""
    import flint

    for bits in COMPARING_BITS:
        with flint.ctx.workprec(bits):
            balls = {v: _enclose(v, {}) for v in items}
        items = [v for v in items if not any(ball > balls[v] for ball in balls.values())]
    return items


def total(values: Iterable[Number]) -> Number:
    """Sum of the values; symbolic terms go through one ``sympy.Add`` (linear, not quadratic)."""
    items = list(values)
    if all(_rational(v) for v in items):
        return sum(items, Fraction(0))
    if all(isinstance(v, float) for v in items):
        return math.fsum(items)
    if any(map(_is_arb, items)):
        return _reduce(lambda a, b: a + b)([_as_ball(v) for v in items])
    import sympy

    return canonical(sympy.Add(*(sympify(v) for v in items)))


def _as_ball(value: Any) -> Any:
    if isinstance(value, float):
        return _ball("0") + value
    return value if _is_arb(value) else enclose(value)


def total_over(value: Number, index: Any, times: Number) -> Number:
    """Sum of ``value`` over ``index`` = 1..times; a proved closed form, or a SymPy ``Sum``."""
    if is_infinite(value):
        return Fraction(0) if times == 0 else value
    if index is None or not is_symbolic(value) or index not in value.free_symbols:
        return canonical(value * times)
    if _is_sum_inside(value):
        return sum_over(value, index, 1, times)
    if not is_symbolic(times) and times <= EXPLICIT_TERMS:
        return total(canonical(value.subs(index, k)) for k in range(1, int(times) + 1))
    return _sum(value, index, times)


def _is_sum_inside(value: Any) -> bool:
    """Whether a closed form of its sum is out of reach: SymPy would search for minutes."""
    import sympy

    return bool(value.has(sympy.Sum))


def sum_over(summand: Any, index: Any, first: int, last: Number) -> Number:
    """The sum of an expression over index = first..last, left as a sum: no closed form is sought.

    Numbers alone, so that no sum of them has to be computed before its value is asked for.
    """
    from dpaudit.inert import InertSum

    return InertSum(sympify(summand), (index, first, sympify(last)))


def _sum(value: Any, index: Any, times: Number) -> Number:
    import sympy

    last = sympy.Dummy("n", integer=True, positive=True)
    try:
        closed = sympy.Sum(value, (index, 1, last)).doit()
    except SYMPY_ERRORS:
        closed = sympy.nan
    if _telescopes(closed, value, index, last):
        return canonical(closed.subs(last, sympify(times)))
    return sympy.Sum(value, (index, 1, sympify(times)))


def _telescopes(closed: Any, value: Any, index: Any, last: Any) -> bool:
    """A closed form F is right: F(0) = 0 and F(n) - F(n-1) is term n."""
    import sympy

    if closed.has(sympy.Sum) or not is_real_expression(closed):
        return False
    step = closed - closed.subs(last, last - 1) - value.subs(index, last)
    return bool(sympy.simplify(closed.subs(last, 0)) == 0 and sympy.simplify(step) == 0)


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
    if value.is_Rational:
        return flint.arb(int(value.p)) / flint.arb(int(value.q))
    name = head(value)
    if name in _CONSTANTS:
        return _CONSTANTS[name]()
    if name == "Sum":
        return _enclose_sum(value.args[0], value.args[1:], symbols)
    if name not in _ENCLOSURES:
        raise InvalidParameter(f"{str(value)[:200]}: no number for it; bind its symbols first")
    return _ENCLOSURES[name]([_enclose(a, symbols) for a in value.args])


def _enclose_sum(summand: Any, limits: Any, symbols: Mapping[Any, Any]) -> Any:
    """The last limit is the outermost; an index hides a symbol of the same name outside."""
    if not limits:
        return _enclose(summand, symbols)
    _, first, last = limits[-1]
    rounds = _rounds(_enclose(first, symbols), _enclose(last, symbols), summand)
    known = _whole_values(summand, limits, symbols)
    if known is None:
        return _sum_over(summand, limits, rounds, symbols)
    return _accurate_sum(summand, limits, rounds, known, _bits())


def _whole_values(
    summand: Any, limits: Any, symbols: Mapping[Any, Any]
) -> tuple[tuple[Any, int], ...] | None:
    """Values of the summand's symbols if all are whole numbers; None otherwise."""
    needed = _needed(summand, limits)
    if needed is None or not all(symbol in symbols for symbol in needed):
        return None
    found = [(symbol, symbols[symbol]) for symbol in needed]
    whole = all(ball.is_exact() and ball.is_integer() for _, ball in found)
    return tuple((s, int(ball.unique_fmpz())) for s, ball in found) if whole else None


@lru_cache(maxsize=20_000)
def _needed(summand: Any, limits: Any) -> tuple[Any, ...] | None:
    """The symbols that a sum depends on; None where it depends on a function symbol."""
    from sympy.core.function import AppliedUndef

    parts = [summand, *(end for limit in limits for end in limit[1:])]
    if any(part.has(AppliedUndef) for part in parts):
        return None
    free = set[Any]().union(*map(_free_in, parts)) - {limit[0] for limit in limits}
    return tuple(sorted(free, key=str))


@lru_cache(maxsize=20_000)
def _free_in(part: Any) -> frozenset[Any]:
    return frozenset(part.free_symbols)


def _bits() -> int:
    import flint

    return int(flint.ctx.prec)


@lru_cache(maxsize=20_000)
def _accurate_sum(
    summand: Any, limits: Any, rounds: range, known: tuple[tuple[Any, int], ...], asked: int
) -> Any:
    """A sum of exact numbers: where its terms cancel, it is computed again with more bits."""
    import flint

    bits = asked
    while True:
        with flint.ctx.workprec(bits):
            balls = {s: flint.arb(n) for s, n in known}
            result = _sum_over(summand, limits, rounds, balls)
        if result.rel_accuracy_bits() > asked // 2 or bits >= SUM_BITS:
            return result
        bits *= 4


def _sum_over(summand: Any, limits: Any, rounds: range, symbols: Mapping[Any, Any]) -> Any:
    index, inner = limits[-1][0], limits[:-1]
    result = zero = _ball("0")
    if not rounds:
        return result
    if inner:
        term = _inner_sum(summand, inner, index, symbols)
    else:
        term = _as_function(summand, index, symbols)
    for k in rounds:
        result = result + term(zero + k)
    return result


def _inner_sum(
    summand: Any, limits: Any, index: Any, symbols: Mapping[Any, Any]
) -> Callable[[Any], Any]:
    return lambda k: _enclose_sum(summand, limits, {**symbols, index: k})


def _as_function(part: Any, index: Any, symbols: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """An expression as a function of its index; what does not depend on it is computed once."""
    if part == index:
        return lambda k: k
    if part in symbols or index not in _free_in(part):
        fixed = _enclose(part, symbols)
        return lambda k: fixed
    name = head(part)
    if name == "Sum":
        return _inner_sum(part.args[0], part.args[1:], index, symbols)
    if name not in _ENCLOSURES:
        return lambda k: _enclose(part, {**symbols, index: k})
    operation = _ENCLOSURES[name]
    inside = [_as_function(argument, index, symbols) for argument in part.args]
    return lambda k: operation([f(k) for f in inside])


def _rounds(first: Any, last: Any, summand: Any) -> range:
    if not all(end.is_exact() and end.is_integer() for end in (first, last)):
        raise InvalidParameter(f"sum of {str(summand)[:200]}: bind its limits to integers first")
    found = range(int(first.unique_fmpz()), int(last.unique_fmpz()) + 1)
    if found.stop < found.start or found.stop - found.start > MAXIMUM_TERMS:
        raise InvalidParameter(
            f"sum of {str(summand)[:200]} over {found.start}..{found.stop - 1}: expected at most "
            f"{MAXIMUM_TERMS} terms where it has no closed form"
        )
    return found


def _choices(arguments: list[Any]) -> Any:
    import flint

    n, k = arguments
    whole = all(a.is_exact() and a.is_integer() and 0 <= a <= MAXIMUM_CHOICE for a in (n, k))
    if not whole:
        raise InvalidParameter(f"binomial({n}, {k}): expected whole numbers up to {MAXIMUM_CHOICE}")
    return flint.arb(flint.fmpz.bin_uiui(int(n.unique_fmpz()), int(k.unique_fmpz())))


def _power(arguments: list[Any]) -> Any:
    base, exponent = arguments
    if exponent.is_exact() and exponent.is_integer() and abs(exponent) < 2**60:
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


_LARGEST_FLOAT = 10**308
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
    "Lesser": _reduce(lambda a, b: a.min(b)),
    "Abs": lambda a: abs(a[0]),
    "floor": lambda a: a[0].floor(),
    "ceiling": lambda a: a[0].ceil(),
    "binomial": _choices,
}


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
    return Fraction(mantissa) * Fraction(2) ** exponent


def decimal_upper(value: Any, digits: int = DIGITS) -> str:
    """Decimal string that is never below the exact value or ball: rounded outward, or "inf"."""
    return _decimal(_as_fraction(value, upper_fraction), digits, ROUND_CEILING)


def decimal_lower(value: Any, digits: int = DIGITS) -> str:
    """Decimal string that is never above the exact value or ball: rounded outward, or "-inf"."""
    found = _as_fraction(value, lower_fraction)
    return "-inf" if found is None else _decimal(found, digits, ROUND_FLOOR)


def _as_fraction(value: Any, end: Callable[[Any], Fraction | None]) -> Fraction | None:
    if isinstance(value, (int, Fraction, Decimal, numbers.Integral)):
        return Fraction(value if isinstance(value, (Fraction, Decimal)) else int(value))
    if _is_real(value):
        return Fraction(*value.as_integer_ratio()) if math.isfinite(value) else None
    return end(value if _is_arb(value) else enclose(value))


def _decimal(value: Fraction | None, digits: int, rounding: str) -> str:
    if value is None:
        return "inf"
    context = Context(prec=digits, rounding=rounding, Emin=-(10**9), Emax=10**9, traps=[])
    return plain(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def plain(value: Decimal) -> str:
    """A decimal as certificates write it: ``0.00001``, ``1.5e-9``; no plus sign, no upper case."""
    digits = len(value.as_tuple().digits)
    value = Context(prec=digits, Emin=-(10**9), Emax=10**9, traps=[]).normalize(value)
    if value == 0:
        return "0"
    if -7 < value.adjusted() < 16:
        return format(value, "f")
    return format(value, "e").replace("e+", "e")


@cache
def _ten_power(exponent: int) -> int:
    return int(10**exponent)


def readable(value: Number) -> str:
    """A number for people: a terminating decimal where there is a short one, else exact."""
    if not is_printable(value):
        return _about(value)
    if not isinstance(value, Fraction):
        return str(value)
    for places in range(13):
        if _ten_power(places) % value.denominator == 0:
            return _pointed(value.numerator * _ten_power(places) // value.denominator, places)
    return f"{value.numerator}/{value.denominator}"


def is_printable(value: Number) -> bool:
    """Whether the digits of a number, or of those inside an expression, can be written down."""
    if not is_symbolic(value):
        return is_short(value)
    import sympy

    return all(is_short(canonical(part)) for part in value.atoms(sympy.Rational))


def _about(value: Number) -> str:
    free = ", ".join(sorted(map(str, unknowns(value))))
    return f"an expression of {free} with large numbers" if free else f"{decimal_upper(value)}..."


def _pointed(scaled: int, places: int) -> str:
    """The decimal of scaled / 10^places."""
    text = str(abs(scaled)).rjust(places + 1, "0")
    sign = "-" if scaled < 0 else ""
    return f"{sign}{text[:-places]}.{text[-places:]}" if places else sign + text

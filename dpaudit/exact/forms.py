"""Numbers in: exact values, the one form of each, and the symbols inside expressions."""

from __future__ import annotations

import numbers
import re
import reprlib
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.exact.search import end_searches

Number: TypeAlias = Any
"""A ``Fraction`` or a ``sympy.Expr`` (SymPy is imported only when a symbol is met)."""

MAXIMUM_DIGITS = 1000  # of a number that is given
WORD_BITS = 64  # Bits up to which all numbers are equally fast to compute with.
# Characters of a fraction of two numbers with the most digits allowed.
_MAX_TEXT = 2 * MAXIMUM_DIGITS + 3
_LARGEST_FLOAT = 10**308  # whole numbers below fit a float
# A decimal or a fraction as text: what a command line, a file or a careful person writes.
_TEXT = re.compile(r"[+-]?(?:\d+/\d+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?)", re.ASCII)
HEADS = tuple(
    "Add Mul Pow exp log tanh erf erfinv Max Min Abs floor ceiling binomial Sum Tuple".split()
)
# Errors of SymPy for operations that it cannot do or that make no sense.
SYMPY_ERRORS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def is_symbolic(value: object) -> bool:
    """Whether the value is a SymPy object (decided without importing SymPy)."""
    return hasattr(type(value), "free_symbols")


def exact(value: object, place: str) -> Number:
    """The exact number behind an int, float (shortest decimal), Decimal, Fraction or expression.

    A text is the decimal or the fraction that it spells: ``"0.9"``, ``"1e-6"``, ``"2/3"``.
    Errors: InvalidParameter for NaN, infinities, booleans and anything that is not a number.
    """
    if is_symbolic(value):
        return canonical(_expression(value, place))
    is_number = isinstance(value, (Decimal, str)) or is_real(value)
    if isinstance(value, bool) or not is_number:
        raise InvalidParameter(
            f"{place} = {reprlib.repr(value)}: expected an int, float, Decimal, Fraction, SymPy "
            'expression or a decimal as text, such as "0.9" or "1e-6"'
        )
    return _fraction(value, place)


def is_real(value: object) -> bool:
    """Python's numbers and NumPy's scalars; no text, no arrays, no types of other libraries."""
    own = isinstance(value, (int, float, Fraction)) or hasattr(value, "__array_interface__")
    return own and isinstance(value, numbers.Real)


def _fraction(value: Any, place: str) -> Fraction:
    try:
        if isinstance(value, Decimal) and abs(value.adjusted()) > MAXIMUM_DIGITS:
            raise ValueError
        if isinstance(value, str) and not (len(value) < _MAX_TEXT and _TEXT.fullmatch(value)):
            raise ValueError
        fraction = Fraction(value if isinstance(value, (int, Fraction)) else str(value))
        if not is_short(fraction):
            raise ValueError
    except (ValueError, ZeroDivisionError):
        shown = "..." if isinstance(value, (int, Fraction)) else reprlib.repr(value)
        raise InvalidParameter(
            f"{place} = {shown}: expected one finite number of at most {MAXIMUM_DIGITS} digits"
        ) from None
    return fraction


def is_short(value: Fraction) -> bool:
    """Whether numerator and denominator have at most ``MAXIMUM_DIGITS`` digits."""
    return max(abs(value.numerator), value.denominator) <= ten_power(MAXIMUM_DIGITS)


@cache
def ten_power(exponent: int) -> int:
    """10^exponent, computed once."""
    return int(10**exponent)


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
    if head(part) == "Sum":
        return all(map(_runs_over_its_values, part.limits))
    return bool(
        (part.is_Symbol and part.is_commutative)
        or isinstance(part, AppliedUndef)
        or head(part) in (*HEADS, "Pi", "Exp1")
    )


def _runs_over_its_values(limits: Any) -> bool:
    """Whether a sum's index has only values that its assumptions allow, and no namesake outside.

    SymPy believes the assumptions: it calls a sum of a positive symbol from -5 to -1 positive.  A
    limit that holds the index itself means another symbol of that name, which is read two ways.
    """
    if len(limits) != 3:
        return False
    index, first, last = limits
    facts = {fact for fact, is_true in index.assumptions0.items() if is_true} - {"commutative"}
    if facts & {"negative", "nonpositive", "even", "odd", "prime", "composite"}:
        return False
    if index in first.free_symbols | last.free_symbols:
        return False
    least = 1 if "positive" in facts else 0 if "nonnegative" in facts else None
    return bool(least is None or (first - least).is_nonnegative)


def head(expression: Any) -> str:
    """Name of an expression's operation; empty for a symbol or a function symbol of any name."""
    return _operations().get(expression.func, "")


@cache
def _operations() -> dict[Any, str]:
    import sympy

    from dpaudit.exact.unevaluated import InertSum, LargeExp, Lesser

    constants = {type(sympy.pi): "Pi", type(sympy.E): "Exp1", type(sympy.oo): "Infinity"}
    inert = {InertSum: "Sum", Lesser: "Lesser", LargeExp: "exp"}
    return {getattr(sympy, name): name for name in HEADS} | constants | inert


def unknowns(expression: Any) -> set[Any]:
    """Free symbols and applied function symbols whose values an expression depends on."""
    if not is_symbolic(expression):
        return set()
    import sympy
    from sympy.core.function import AppliedUndef

    masks: dict[Any, Any] = {f: sympy.Dummy() for f in expression.atoms(AppliedUndef)}
    free: set[Any] = expression.xreplace(masks).free_symbols
    return (free - set(masks.values())) | {f for f, mask in masks.items() if mask in free}


def canonical(value: Number) -> Number:
    """A rational SymPy number becomes a Fraction; everything else stays as it is."""
    if not is_symbolic(value):
        return value
    end_searches()
    return Fraction(int(value.p), int(value.q)) if value.is_Rational else value


@lru_cache(maxsize=20_000)
def size(expression: Any) -> int:
    """Operations and numbers in an expression; a long number counts as several."""
    if expression.is_Rational:
        return 1 + (int(expression.p).bit_length() + int(expression.q).bit_length()) // WORD_BITS
    return 1 + sum(map(size, expression.args))


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

    end_searches()
    return sympy.Rational(value.numerator, value.denominator) if is_rational(value) else value


def is_rational(value: object) -> bool:
    """Whether the value is a whole number or a fraction of Python."""
    return isinstance(value, (int, Fraction))


def is_arb(value: object) -> bool:
    """Whether the value is an Arb ball (decided without importing flint)."""
    return str(type(value).__module__).startswith("flint")

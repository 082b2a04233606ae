"""Functions of exact numbers, floats and balls: a formula is written once for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact.arb import as_ball, enclose, largest
from dpaudit.exact.effort import spend
from dpaudit.exact.forms import (
    MAXIMUM_DIGITS,
    Number,
    canonical,
    is_arb,
    is_rational,
    is_symbolic,
    size,
    sympify,
    unknowns,
)
from dpaudit.exact.operations import folded

MAX_FACTORED = 10**40  # Numerators and denominators above this take SymPy minutes to factor.
# The logarithm of the largest numerator that a number may have.
LARGEST_LOG = math.log(10) * MAXIMUM_DIGITS

# Units of work to replace a symbol in one operation and simplify the expression again.
REPLACING_WORK = 100


def sqrt(value: Number) -> Number:
    """Square root: exact for fractions and expressions, float for floats, a ball for balls."""
    if isinstance(value, float):
        return math.sqrt(value)
    if is_arb(value):
        return value.sqrt()
    if is_rational(value) and max(abs(value.numerator), value.denominator) > MAX_FACTORED:
        return _large_sqrt(Fraction(value))
    import sympy

    try:
        return canonical(sympy.sqrt(sympify(value)))
    except ValueError:
        # SymPy asks for the sign of a number like 1 - exp(-700) with too few digits.
        return canonical(sympy.Pow(sympify(value), sympy.S.Half, evaluate=False))


def _large_sqrt(value: Fraction) -> Number:
    """Square root of a fraction that SymPy would try for minutes to factor."""
    import sympy

    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    half = sympy.Rational(1, 2)
    return root if root**2 == value else sympy.Pow(sympify(value), half, evaluate=False)


def exp(value: Number) -> Number:
    """Exponential, of the same kind as its argument.

    SymPy writes exp(n log(q)) as the rational q^n; one of too many digits is left as it stands.
    """
    if is_symbolic(value) and not unknowns(value) and abs(enclose(value)) > LARGEST_LOG:
        from dpaudit.exact.unevaluated import LargeExp

        return LargeExp(value)
    return _apply("exp", math.exp, value)


def log(value: Number) -> Number:
    """Natural logarithm, of the same kind as its argument.

    SymPy finds nothing to simplify in the logarithm of a sum or a product, and takes long to see.
    """
    if is_symbolic(value) and (value.is_Add or value.is_Mul):
        import sympy

        return sympy.log(value, evaluate=False)
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
    if is_arb(value):
        return getattr(value, name)()
    import sympy

    return canonical(getattr(sympy, name)(sympify(value)))


def maximum(values: Iterable[Number]) -> Number:
    """Largest of the values; stays a SymPy ``Max`` where symbols leave it open."""
    items = list(values)
    if all(is_rational(v) or isinstance(v, float) for v in items):
        return max(items)
    if any(map(is_arb, items)):
        return folded(lambda a, b: a.max(b))([as_ball(v) for v in items])
    import sympy

    items = list(dict.fromkeys(map(sympify, items)))
    if not any(map(unknowns, items)):
        items = largest(items)
    if len(items) == 1:
        return canonical(items[0])
    if any(map(_is_beyond, items)):
        return sympy.oo if sympy.oo in items else sympy.Max(*items, evaluate=False)
    if any(map(_is_opaque, items)):
        flat = [i for item in items for i in (item.args if isinstance(item, sympy.Max) else [item])]
        return sympy.Max(*flat, evaluate=False)
    return canonical(sympy.Max(*items))


def _is_opaque(item: Any) -> bool:
    """Whether a symbol is inside a function: SymPy would factor long to compare two of them."""
    import sympy

    return any(part.free_symbols for part in item.atoms(sympy.log, sympy.exp, sympy.Sum))


def _is_beyond(item: Any) -> bool:
    """Whether a number has no finite enclosure, so that SymPy may compare it by false digits.

    The inverse error function of a number that is 1 at any precision, say.
    """
    return not (unknowns(item) or (as_ball(item).is_finite() and item.is_comparable))


def smaller(first: Number, second: Number) -> Number:
    """The smaller of two exact numbers, as an expression unless both are fractions."""
    if is_rational(first) and is_rational(second):
        return min(first, second)
    from dpaudit.exact.unevaluated import Lesser

    return Lesser(sympify(first), sympify(second))


def choose(n: Number, k: Number) -> Number:
    """The binomial coefficient, n over k, of exact numbers."""
    import sympy

    return canonical(sympy.binomial(sympify(n), sympify(k)))


def replaced(value: Number, known: Mapping[Any, Any]) -> Number:
    """An expression with values for some of its symbols.

    Errors: TooMuch; Unsupported where SymPy fails to evaluate it, as it does at exp(10^9).
    """
    if not (is_symbolic(value) and known):
        return value
    spend(REPLACING_WORK * size(value), "an expression with numbers for its symbols")
    try:
        result = _substituted(value, {sympify(s): sympify(number) for s, number in known.items()})
    except (ValueError, ArithmeticError) as error:
        raise Unsupported(f"{str(value)[:80]}: its value is beyond SymPy's ({error})") from None
    return canonical(result)


def _substituted(value: Any, known: Mapping[Any, Any]) -> Any:
    """The expression with these values; a largest value is chosen by enclosures, not by SymPy."""
    import sympy

    if not value.has(*known):
        return value
    is_hidden = known.keys() & set(getattr(value, "bound_symbols", ()))
    if not value.has(sympy.Max) or is_hidden:
        return value.subs(known, simultaneous=any(number.free_symbols for number in known.values()))
    inside = [_substituted(part, known) for part in value.args]
    if isinstance(value, sympy.Max):
        return sympify(maximum(inside))
    return value.func(*inside)

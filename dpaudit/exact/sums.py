"""Sums of numbers, and of an expression over an index: in closed form where one is proved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any

from dpaudit.exact.arb import as_ball
from dpaudit.exact.effort import spend
from dpaudit.exact.forms import (
    SYMPY_ERRORS,
    Number,
    canonical,
    is_arb,
    is_infinite,
    is_rational,
    is_real_expression,
    is_symbolic,
    size,
    sympify,
)
from dpaudit.exact.functions import replaced
from dpaudit.exact.operations import folded

EXPLICIT_TERMS = 100  # terms up to which a sum is written out
# The highest degree of a polynomial that is summed in closed form; its sum has one degree more.
HIGHEST_DEGREE = 20
# Units of work of a closed form and its proof, times the square of the summand's size.
SUM_WORK = 1000
_RATIONAL = {int, Fraction}
_NOTHING = Fraction(0)  # The sum of no numbers, exact.


def total(values: Iterable[Number]) -> Number:
    """Sum of the values; symbolic terms go through one ``sympy.Add`` (linear, not quadratic)."""
    items = list(values)
    if not items:
        return _NOTHING
    if set(map(type, items)) <= _RATIONAL or all(map(is_rational, items)):
        start = items.pop() if type(items[-1]) is Fraction else _NOTHING
        return sum(items, start)
    if all(isinstance(v, float) for v in items):
        return math.fsum(items)
    if any(map(is_arb, items)):
        return folded(lambda a, b: a + b)([as_ball(v) for v in items])
    import sympy

    return canonical(sympy.Add(*(sympify(v) for v in items)))


def total_over(value: Number, index: Any, times: Number) -> Number:
    """Sum of ``value`` over ``index`` = 1..times; a proved closed form, or a SymPy ``Sum``."""
    if is_infinite(value):
        return Fraction(0) if times == 0 else value
    if index is None or not is_symbolic(value) or index not in value.free_symbols:
        return canonical(value * times)
    # A closed form of a sum of sums is out of reach: SymPy would search for minutes.
    import sympy

    if value.has(sympy.Sum):
        return sum_over(value, index, 1, times)
    if not is_symbolic(times) and times <= EXPLICIT_TERMS:
        rounds = range(1, int(times) + 1)
        return total(replaced(value, {index: k}) for k in rounds)
    if all(_is_simple(term, index) for term in sympy.Add.make_args(value)):
        return _sum(value, index, times)
    return _left_open(value, index, times)


def sum_over(summand: Any, index: Any, first: int, last: Number) -> Number:
    """The sum of an expression over index = first..last, left as a sum: no closed form is sought.

    Numbers alone, so that no sum of them has to be computed before its value is asked for.
    """
    from dpaudit.exact.unevaluated import InertSum

    return InertSum(sympify(summand), (index, first, sympify(last)))


def _is_simple(term: Any, index: Any) -> bool:
    """Whether a term is a polynomial of low degree, times powers c^(a index + b).

    SymPy sums these at once; about others it solves equations, some for ever.
    """
    import sympy

    degree: float = 0
    for factor in sympy.Mul.make_args(term):
        own = _degree(factor, index)
        if own is None:
            base, exponent = factor.as_base_exp()
            own = 0 if not base.has(index) and _degree(exponent, index) == 1 else inf
        degree += own
    return degree <= HIGHEST_DEGREE


def _degree(part: Any, index: Any) -> float | None:
    """At least the degree of a polynomial, as it is written; None for anything else."""
    if part == index:
        return 1
    if not part.has(index):
        return 0
    if part.is_Pow and part.exp.is_Integer and part.exp > 0:
        own = _degree(part.base, index)
        return None if own is None else own * int(part.exp)
    degrees = [_degree(inside, index) for inside in part.args]
    bounded = [degree for degree in degrees if degree is not None]
    if len(bounded) < len(degrees) or not (part.is_Add or part.is_Mul):
        return None
    return max(bounded) if part.is_Add else sum(bounded)


def _sum(value: Any, index: Any, times: Number) -> Number:
    closed = _closed(value, index)
    if closed is None:
        return _left_open(value, index, times)
    return canonical(closed[0].subs(closed[1], sympify(times)))


@lru_cache(maxsize=1000)
def _closed(value: Any, index: Any) -> tuple[Any, Any] | None:
    """A proved closed form of the sum over index = 1..n, and n; None where there is none."""
    import sympy

    spend(SUM_WORK * size(value) * (size(value) + 10), "a sum in closed form")
    last = sympy.Dummy("n", integer=True, positive=True)
    try:
        closed = sympy.Sum(value, (index, 1, last)).doit()
    except SYMPY_ERRORS:
        closed = sympy.nan
    return (closed, last) if _telescopes(closed, value, index, last) else None


def _left_open(value: Any, index: Any, times: Number) -> Number:
    """A sum as it stands; of numbers alone, one that SymPy does not evaluate to learn its sign."""
    import sympy

    if value.free_symbols <= {index} and not is_symbolic(times):
        return sum_over(value, index, 1, times)
    return sympy.Sum(value, (index, 1, sympify(times)))


def _telescopes(closed: Any, value: Any, index: Any, last: Any) -> bool:
    """A closed form F is right: F(0) = 0 and F(n) - F(n-1) is term n."""
    import sympy

    if closed.has(sympy.Sum) or not is_real_expression(closed):
        return False
    step = closed - closed.subs(last, last - 1) - value.subs(index, last)
    return bool(sympy.simplify(closed.subs(last, 0)) == 0 and sympy.simplify(step) == 0)

"""An end to SymPy's search for properties of numbers, which it begins while it builds expressions.

To build a power or a logarithm SymPy asks whether its parts are positive, real, whole and so on.
For a number of a few nested functions it may ask millions of such questions, in an order that it
draws at random, or evaluate the number to any precision.  "Unknown" is an answer that SymPy allows
for each question.  While a budget of work holds (:mod:`dpaudit.exact.effort`), the sign of a number
is that of its enclosure, the order is fixed, and what takes too many questions is unknown; SymPy
outside of dpaudit's budgets is as it was.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import effort

# Questions inside one question, and how deep they may be nested: the catalogue's largest are
# below a tenth of either.
MOST_QUESTIONS = 4_000
MAX_NESTING = 60  # Levels of nested questions.


class _Open(threading.local):
    """How many questions are open in this thread, and how many the outermost of them has led to."""

    depth = 0
    questions = 0


_open = _Open()
_sign: Callable[[Any], int | None] | None = None


def signs_from(sign: Callable[[Any], int | None]) -> None:
    """Take signs of numbers from this function: 1, -1, or None where it is not known.

    It raises InvalidParameter for what is no real number that it knows.
    """
    global _sign
    _sign = sign


@cache
def end_searches() -> None:
    """Give SymPy's searches an end; done once, when the first expression is met."""
    import sympy

    # The package has a class of this name, which hides the module.
    assumptions: Any = sys.modules["sympy.core.assumptions"]
    assumptions._ask = _ended(assumptions._ask)
    assumptions.shuffle = _sorted(assumptions.shuffle)
    expression: Any = sympy.Expr
    expression._eval_is_extended_positive_negative = _by_enclosure(
        expression._eval_is_extended_positive_negative
    )


def _ended(ask: Callable[[str, Any], bool | None]) -> Callable[[str, Any], bool | None]:
    """Whether a property holds; None after too many questions."""

    def asked(fact: str, expression: Any) -> bool | None:
        if not effort.is_limited():
            return ask(fact, expression)
        if not _open.depth:
            _open.questions = 0
        _open.questions += 1
        if _open.questions > MOST_QUESTIONS or _open.depth > MAX_NESTING:
            return None
        _open.depth += 1
        try:
            return ask(fact, expression)
        finally:
            _open.depth -= 1

    return asked


def _sorted(shuffle: Callable[[list[str]], None]) -> Callable[[list[str]], None]:
    """The order in which related properties are asked for: by name, so that none is by chance."""

    def ordered(facts: list[str]) -> None:
        if effort.is_limited():
            facts.sort()
        else:
            shuffle(facts)

    return ordered


def _by_enclosure(evaluated: Callable[..., bool | None]) -> Callable[..., bool | None]:
    """Whether a number is above or below 0 by its enclosure, in the place of its decimals."""

    def is_of_sign(expression: Any, *, positive: bool) -> bool | None:
        if not effort.is_limited() or _sign is None:
            return evaluated(expression, positive=positive)
        if not expression.is_number:
            return None
        try:
            sign = _sign(expression)
        except InvalidParameter:  # a function, or an imaginary number, that Arb does not enclose
            return evaluated(expression, positive=positive)
        return None if sign is None else (sign > 0) == positive

    return is_of_sign

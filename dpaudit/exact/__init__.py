"""Exact numbers: fractions and SymPy expressions in, certified Arb enclosures and decimals out.

A *number* is a :class:`fractions.Fraction` or a SymPy expression; a float stands for its shortest
decimal (0.1 is one tenth).  The same functions also take floats and Arb balls, so that a formula
is written once and evaluated in any of the four.
"""

from __future__ import annotations

from dpaudit.exact.arb import enclose, working_precision
from dpaudit.exact.decimals import (
    decimal_lower,
    decimal_upper,
    is_printable,
    lower_fraction,
    plain,
    readable,
    upper_fraction,
)
from dpaudit.exact.forms import (
    HEADS,
    MAXIMUM_DIGITS,
    SYMPY_ERRORS,
    Number,
    canonical,
    exact,
    head,
    infinity,
    is_infinite,
    is_real_expression,
    is_short,
    is_symbolic,
    settled,
    sympify,
    unknowns,
)
from dpaudit.exact.functions import (
    choose,
    erfinv,
    exp,
    log,
    maximum,
    replaced,
    smaller,
    sqrt,
    tanh,
)
from dpaudit.exact.sums import sum_over, total, total_over

__all__ = [
    "HEADS",
    "MAXIMUM_DIGITS",
    "SYMPY_ERRORS",
    "Number",
    "canonical",
    "choose",
    "decimal_lower",
    "decimal_upper",
    "enclose",
    "erfinv",
    "exact",
    "exp",
    "head",
    "infinity",
    "is_infinite",
    "is_printable",
    "is_real_expression",
    "is_short",
    "is_symbolic",
    "log",
    "lower_fraction",
    "maximum",
    "plain",
    "readable",
    "replaced",
    "settled",
    "smaller",
    "sqrt",
    "sum_over",
    "sympify",
    "tanh",
    "total",
    "total_over",
    "unknowns",
    "upper_fraction",
    "working_precision",
]

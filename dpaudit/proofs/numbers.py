"""Exact numbers as terms of Coq's real numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import canonical, head, is_symbolic, sympify

FUNCTIONS = {"exp": "exp", "log": "ln"}


def term(value: Any) -> str:
    """An exact number as a Coq term, in brackets where it needs them.

    Errors: Unsupported for a function that the proofs do not know.
    """
    value = canonical(value)
    return _fraction(value) if not is_symbolic(value) else _expression(value)


def times(value: Any) -> str:
    """A whole number of rounds, in Z."""
    if is_symbolic(value) or value.denominator != 1:
        raise Unsupported(f"{value} rounds: no Coq term; it would need a whole number")
    return f"{value.numerator}%Z"


def square(value: Any) -> Any:
    """The square of an exact number, simplified."""
    return canonical(sympify(value) ** 2) if is_symbolic(value) else value**2


def _fraction(value: Fraction) -> str:
    if value.denominator == 1:
        return f"{value.numerator}" if value >= 0 else f"({value.numerator})"
    return f"({value.numerator} / {value.denominator})"


def _expression(value: Any) -> str:
    kind, parts = head(value), value.args
    if kind in ("Add", "Mul"):
        return "(" + (" + " if kind == "Add" else " * ").join(map(term, parts)) + ")"
    if kind in FUNCTIONS and len(parts) == 1:
        return f"({FUNCTIONS[kind]} {term(parts[0])})"
    if kind == "Exp1":
        return "(exp 1)"
    if kind == "Pi":
        return "PI"
    if kind in ("Max", "Min"):
        first, *others = map(term, parts)
        for other in others:
            first = f"(R{kind.lower()} {first} {other})"
        return first
    if kind == "Pow":
        return _power(parts[0], canonical(parts[1]))
    raise Unsupported(
        f"{str(value)[:60]}: no Coq term for {kind or 'it'}; the proofs would need its theory"
    )


def _power(base: Any, exponent: Any) -> str:
    """A power; its fractional exponent is a sum of parts, each over a power of one prime.

    Each root is then of a prime degree, so that roots of one base are in no relation but this.
    """
    if is_symbolic(exponent):
        raise Unsupported(f"a power with exponent {str(exponent)[:40]}: no Coq term for it")
    if exponent < 0:
        return f"(/ {_power(base, -exponent)})"
    import sympy

    whole, texts = exponent, []
    for prime, times_taken in sympy.factorint(exponent.denominator).items():
        degree = prime**times_taken
        rest = exponent.denominator // degree
        count = exponent.numerator * pow(rest, -1, degree) % degree
        whole -= Fraction(count, degree)
        root = term(base)
        for _ in range(times_taken):
            root = f"(sqrt {root})" if prime == 2 else f"(Rpower {root} (/ {prime}))"
        texts.append(_raised(root, count))
    if whole:
        texts.insert(0, _raised(term(base), int(whole)))
    return texts[0] if len(texts) == 1 else f"({' * '.join(texts)})"


def _raised(text: str, count: int) -> str:
    if count < 0:
        return f"(/ {_raised(text, -count)})"
    return text if count == 1 else f"({text} ^ {count})"

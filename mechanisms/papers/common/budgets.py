"""Budgets as exact fractions, checked before anything is made of them."""

from __future__ import annotations

from fractions import Fraction

from dpaudit.errors import InvalidParameter
from dpaudit.exact import exact


def rational(value: object, place: str) -> Fraction:
    """The exact number behind a parameter; errors: InvalidParameter for one that is no fraction."""
    number = exact(value, place)
    if not isinstance(number, Fraction):
        raise InvalidParameter(f"{place} = {number}: expected a rational number")
    return number


def epsilon_delta(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """Both; errors: InvalidParameter unless epsilon > 0 and delta is in (0, 1)."""
    budget = rational(epsilon, "epsilon"), rational(delta, "delta")
    if not (budget[0] > 0 and 0 < budget[1] < 1):
        raise InvalidParameter(f"({epsilon}, {delta}): expected epsilon > 0 and delta in (0, 1)")
    return budget

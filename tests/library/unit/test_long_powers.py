"""Powers of fractions whose digits would fill a disk are enclosed, not written out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy

import dpaudit.exact.functions as functions_module
from dpaudit.accountant.account import account
from dpaudit.check.derivation import own_bound
from dpaudit.exact import enclose, exp, is_symbolic, log, power
from dpaudit.exact.wire import decode_number, encode_number
from dpaudit.families.events import Group
from dpaudit.families.opaque import PureDP
from dpaudit.families.sampling import SampledWithReplacement
from dpaudit.scope import central

MANY = 10**10
NEAR_ONE = Fraction(10**9 + 1, 10**9)  # to the power MANY, e^10 with 10^11 digits
WRITTEN = ["exp", ["Mul", f"{MANY}/1", ["log", f"{NEAR_ONE.numerator}/{NEAR_ONE.denominator}"]]]


def number(value: Any) -> float:
    return float(enclose(value).mid())


def test_short_powers_are_exact() -> None:
    assert power(Fraction(3, 2), 5) == Fraction(243, 32)
    assert power(Fraction(2), -3) == Fraction(1, 8)
    assert exp(5 * log(Fraction(2))) == 32
    size = sympy.Symbol("n", positive=True)
    assert power(Fraction(2), size) == 2**size


def test_long_powers_are_enclosed() -> None:
    for value in (power(NEAR_ONE, MANY), exp(MANY * log(NEAR_ONE))):
        assert is_symbolic(value)
        assert number(value) == pytest.approx(22026.46568467438, rel=1e-12)
    assert number(power(NEAR_ONE, -MANY)) == pytest.approx(1 / 22026.46568467438, rel=1e-12)


def test_a_file_cannot_ask_for_a_long_power() -> None:
    value = decode_number(WRITTEN)
    assert number(value) == pytest.approx(22026.46568467438, rel=1e-12)
    assert encode_number(value) == WRITTEN


def test_exact_epsilons_with_large_counts_have_an_answer() -> None:
    """log(2) is exact, so that e^epsilon is 2: its powers in groups and draws have many digits."""
    scope, two = central("replace_one"), PureDP(sympy.log(2))
    group = account(Group(two, MANY), scope).epsilon("1e-6")
    assert float(group.upper) == pytest.approx(MANY * 0.6931471805599453, rel=1e-9)
    drawn = SampledWithReplacement(two, MANY, MANY // 10)
    found = account(drawn, scope).epsilon("1e-6")
    assert float(found.upper) == pytest.approx(10, rel=1e-6)
    assert number(own_bound(drawn, "approx", "replace_one")[0]) == pytest.approx(10, rel=1e-6)


def test_digits_are_counted_before_a_power_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the count SymPy writes the fraction: shown with a power that is short enough."""
    assert is_symbolic(power(NEAR_ONE, 10**4))
    monkeypatch.setattr(functions_module, "LARGEST_LOG", 10**9)
    assert power(NEAR_ONE, 10**4) == NEAR_ONE ** (10**4)

"""Whatever is asked, in whatever order, no sum of privacy losses falls."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.accountant.filters import open_filter, open_odometer
from dpaudit.errors import BudgetExceeded, DpauditError, InvalidParameter
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.ledger import open_ledger
from dpaudit.nodes import Leaf
from tests.support.ledger import SCOPE, terms

LOSSES = st.one_of(
    st.fractions(-5, 5),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from(["1/2", "-1", "nan", "1e99999999", None, True, b"1", 1j]),
    st.sampled_from([-sympy.sqrt(2), sympy.log(2), sympy.log(sympy.Rational(1, 2)), sympy.nan]),
)
ASKED = st.lists(st.one_of(LOSSES, st.tuples(LOSSES, LOSSES)), max_size=6)
GUARANTEES: list[Leaf] = [PureDP(9), ZCDP(9), GDP(3), ApproxDP(9, "0.5")]


@pytest.mark.first_case
@given(ASKED)
@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_the_sums_of_a_filter_never_fall(guarantee: Leaf, asked: list[Any]) -> None:
    kept = open_filter(guarantee, SCOPE)
    for loss in asked:
        before = kept.spent
        try:
            kept = kept.spend(loss)
        except (InvalidParameter, BudgetExceeded):
            continue
        assert all(
            0 <= a <= b <= cap for a, b, cap in zip(before, kept.spent, kept.caps, strict=True)
        )


@pytest.mark.first_case
@given(ASKED)
@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize(("measure", "delta"), [("pure", 0), ("approx", "0.1"), ("zcdp", "1e-6")])
def test_what_an_odometer_reads_never_falls(measure: str, delta: object, asked: list[Any]) -> None:
    read = open_odometer(measure, SCOPE, delta)
    for loss in asked:
        before = read
        try:
            read = read.spend(loss)
        except InvalidParameter:
            continue
        assert all(0 <= a <= b for a, b in zip(before.spent, read.spent, strict=True))
        assert bool(before.epsilon_upper <= read.epsilon_upper)


@given(st.lists(st.tuples(LOSSES, LOSSES), max_size=5))
@settings(max_examples=10, deadline=None)
def test_the_balance_of_a_ledger_never_falls(asked: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        ledger = open_ledger(Path(folder) / "ledger.sqlite")
        ledger.create("people", terms(9))
        for number, cost in enumerate(asked):
            before = ledger.state("people").spent
            try:
                ledger.charge("people", "person", SCOPE, cost, f"{number}", f"{number}")
            except DpauditError:
                assert ledger.verify("people").spent == before
                continue
            after = ledger.verify("people").spent
            assert all(a + Fraction(c) <= b for a, b, c in zip(before, after, cost, strict=True))

"""The page about filters: its session runs as printed; its caps and charges are the code's."""

from __future__ import annotations

import doctest
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpaudit.curator.spending import PRICES, Spending
from dpaudit.families.adaptive import Filter, FilterMeasure
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.opaque import GDP, ZCDP, PureDP
from dpaudit.nodes import Leaf, Node


def test_the_session_runs(checkout: Path) -> None:
    result = doctest.testfile(str(checkout / "docs" / "filters.md"), module_relative=False)
    assert result.attempted >= 15
    assert result.failed == 0


def test_the_table_of_caps_is_what_curators_charge(checkout: Path) -> None:
    text = (checkout / "docs" / "filters.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(Gaussian|Laplace)` \| (.*) \|$", text, re.M))
    names = {FilterMeasure.ZCDP: "ZCDP", FilterMeasure.GDP: "GDP", FilterMeasure.PURE: "PureDP"}
    said = {(leaf, cap) for leaf, row in rows.items() for cap in re.findall(r"`(\w+)\(", row)}
    assert said == {(leaf.__name__, names[measure]) for leaf, measure in PRICES}


@pytest.mark.parametrize(
    ("leaf", "cap", "charge"),
    [
        (Gaussian("a", 1), ZCDP(100), Fraction(1, 18)),
        (Laplace("a", 1), ZCDP(100), Fraction(1, 18)),
        (Gaussian("a", 1), GDP(10), Fraction(1, 9)),
        (Laplace("a", 1), PureDP(100), Fraction(1, 3)),
    ],
)
def test_charges_are_the_stated_ones(leaf: Leaf, cap: Node, charge: Fraction) -> None:
    """1/(2 m^2), 1/m^2 and 1/m at m = 3."""
    spending = Spending(Filter.of(leaf, cap), 1)
    spending.spend("a", leaf, np.array([3.0]), np.array([True]))
    assert spending.spent(0) == charge


def test_the_page_is_linked(checkout: Path) -> None:
    assert "(filters.md)" in (checkout / "docs" / "accountant.md").read_text("utf-8")

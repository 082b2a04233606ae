"""The page about filters: its session runs as printed; its caps and charges are the code's."""

from __future__ import annotations

import doctest
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.filters.spending import Spending, price_of
from dpaudit.errors import Unsupported
from dpaudit.families.adaptive import Filter, FilterMeasure
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.families.opaque import GDP, ZCDP, PureDP
from dpaudit.nodes import Leaf, Node

KINDS: list[type[Leaf]] = [Gaussian, Laplace, DiscreteLaplace]


def charged(kind: type[Leaf], measure: FilterMeasure) -> bool:
    """Whether curators charge such a leaf under a filter of this measure."""
    made: Any = kind
    try:
        price_of(made("a", 1), Filter(Gaussian("a", 1), measure, 1))
    except Unsupported:
        return False
    return True


def test_the_session_runs(checkout: Path) -> None:
    result = doctest.testfile(str(checkout / "docs" / "filters.md"), module_relative=False)
    assert result.attempted >= 15
    assert result.failed == 0


def test_the_table_of_caps_is_what_curators_charge(checkout: Path) -> None:
    text = (checkout / "docs" / "filters.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(Gaussian|Laplace)` \| (.*) \|$", text, re.M))
    names = {FilterMeasure.ZCDP: "ZCDP", FilterMeasure.GDP: "GDP", FilterMeasure.PURE: "PureDP"}
    said = {(leaf, cap) for leaf, row in rows.items() for cap in re.findall(r"`(\w+)\(", row)}
    assert said == {
        (kind.__name__, names[measure])
        for kind in KINDS
        for measure in names
        if charged(kind, measure)
    }


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


def test_a_charge_is_what_the_rule_says() -> None:
    """Curators have no theorem of their own: a rule that says more is charged more."""
    from dataclasses import replace

    from dpaudit.accountant.filters import spending
    from dpaudit.measures.calculus import CALCULI

    zcdp, gaussian = CALCULI["zcdp"], Gaussian("a", 1)
    node = Filter(gaussian, FilterMeasure.ZCDP, 1)
    assert price_of(gaussian, node).exactly(3.0) == Fraction(1, 18)
    rule = zcdp._rules[Gaussian]
    spending._known.clear()
    try:
        zcdp._rules[Gaussian] = replace(rule, function=lambda leaf: 1 / leaf.noise_multiplier**2)
        assert price_of(gaussian, node).exactly(3.0) == Fraction(1, 9)
    finally:
        zcdp._rules[Gaussian] = rule
        spending._known.clear()

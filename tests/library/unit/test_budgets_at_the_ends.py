"""Budgets at the ends of a float's range are refused by name, before anything is drawn."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import dpaudit as dp
from dpaudit.errors import DpauditError
from dpaudit.nodes import Node
from dpaudit.releases.items.counts import Count
from dpaudit.releases.plan import Release
from dpaudit.scope import Adjacency
from dpaudit.tabular import Number, Schema

PEOPLE = Schema("people", {"a": Number(Fraction(0), Fraction(10))}, unit="p", entity="p", rows=1)
FAR: dict[str, Node] = {
    "epsilon 1e308": dp.ApproxDP(10**308, "1e-6"),
    "epsilon beyond floats": dp.ApproxDP(10**309, "1e-6"),
    "epsilon 1e-320": dp.ApproxDP("1e-320", "1e-6"),
    "epsilon below floats": dp.ApproxDP("1e-400", "1e-6"),
    "epsilon below a float's steps": dp.ApproxDP("1e-17", "1e-6"),
    "epsilon 0": dp.ApproxDP(0, "1e-6"),
    "delta next to 1": dp.ApproxDP(1, "0.9999999"),
    "delta that rounds to 1": dp.ApproxDP(1, "0.9999999999999999999"),
    "pure beyond floats": dp.PureDP(10**309),
    "pure below floats": dp.PureDP("1e-400"),
    "pure 1e-320": dp.PureDP("1e-320"),
    "rho beyond floats": dp.ZCDP(10**309),
    "rho below floats": dp.ZCDP("1e-400"),
    "rho 1e308": dp.ZCDP(10**308),
    "mu beyond floats": dp.GDP(10**309),
    "mu below floats": dp.GDP("1e-400"),
    "mu whose square is none": dp.GDP(10**200),
}


@pytest.mark.parametrize("name", FAR)
def test_a_budget_that_floats_cannot_search_is_refused_by_name(name: str) -> None:
    release = Release("x", PEOPLE, Adjacency.ADD_REMOVE, FAR[name], (Count(name="n"),))
    with pytest.raises(DpauditError, match="budget"):
        release.plan()


@pytest.mark.parametrize("budget", [dp.ApproxDP(1, "1e-400"), dp.ApproxDP(700, "1e-6")], ids=repr)
def test_a_budget_that_they_can_is_spent(budget: Any) -> None:
    assert Release("x", PEOPLE, Adjacency.ADD_REMOVE, budget, (Count(name="n"),)).plan().leaves

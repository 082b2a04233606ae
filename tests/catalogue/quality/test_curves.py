"""Curves of each kind of mechanism in the catalogue are its scalar answers, to their width."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpaudit.accountant.account import Account
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import Unsupported
from dpaudit.nodes import postorder
from dpaudit.project.project import load

ROOT = Path(__file__).parents[3]
EPSILONS = (Fraction(0), Fraction(1, 2), Fraction(2))
RATES = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
# Two answers to one question may differ by this much, and by as much as either is wide.
WIDTH = 1e-4
BLOCKS = 6  # of mechanisms, each a test


def answers(ask: Callable[[], Any]) -> Any:
    """The bounds, or the refusal's first words."""
    try:
        return ask()
    except Unsupported as error:
        return str(error)[:40]


def differing(account: Account) -> list[str]:
    """Points at which a curve and its scalar have no number in common, or lie apart."""
    found = []
    for curve, scalar, points in (
        (account.profile_curve, account.delta, EPSILONS),
        (account.tradeoff_curve, account.tradeoff, RATES),
    ):
        drawn = answers(lambda curve=curve, points=points: [bound for _, bound in curve(points)])
        asked = answers(lambda scalar=scalar, points=points: [scalar(point) for point in points])
        if isinstance(drawn, str) or isinstance(asked, str):
            found += [] if drawn == asked else [f"{curve.__name__}: {drawn}; {asked}"]
            continue
        for point, one, other in zip(points, drawn, asked, strict=True):
            meet = max(one.lower, other.lower) <= min(one.upper, other.upper)
            apart = abs(one.lower - other.lower) + abs(one.upper - other.upper)
            if not meet or apart > WIDTH + max(one.upper - one.lower, other.upper - other.lower):
                found.append(f"{curve.__name__} at {point}: {one}; {other}")
    return found


def one_of_each_kind() -> list[Mechanism]:
    """One mechanism for each set of nodes that a declaration is made of, under each adjacency."""
    kinds: dict[Any, Mechanism] = {}
    for mechanism in load(ROOT).mechanisms.values():
        nodes = frozenset(type(node) for node in postorder(mechanism.declaration))
        kinds.setdefault((mechanism.scope.adjacency, nodes), mechanism)
    return list(kinds.values())


@pytest.mark.parametrize("block", range(BLOCKS))
def test_curves_of_the_catalogue_hold_the_scalar_answers(block: int) -> None:
    kinds = one_of_each_kind()
    assert len(kinds) >= 60
    found = {
        mechanism.name: differing(Account(mechanism.declaration, mechanism.scope))
        for mechanism in kinds[block::BLOCKS]
    }
    assert {name: rows for name, rows in found.items() if rows} == {}

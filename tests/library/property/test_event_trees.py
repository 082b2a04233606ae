"""Random trees of events, tests, groups, choices and filters: the checker's fold agrees."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.check.derivation import own_bound
from dpaudit.errors import Unsupported
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.adaptive import rules as adaptive
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.events import EventSlack, Group, ProposeTestRelease
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.stability import CoupledGaussian, StableRelease, rules
from dpaudit.families.stability.theorem import MOST_PLACES
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.profile import PROFILE
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.pairs import Losses
from dpaudit.scope import Adjacency, Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
ORDERS = (Fraction(3, 2), Fraction(2), Fraction(7))
Z = sympy.Symbol("z", positive=True)


def amount(draw: random.Random) -> Fraction:
    return Fraction(draw.randint(1, 40), 8)


def leaf(draw: random.Random) -> Node:
    name = f"r{draw.randrange(10**6)}"
    makers: list[Any] = [
        lambda: Gaussian(name, amount(draw)),
        lambda: Laplace(name, amount(draw)),
        lambda: PureDP(amount(draw)),
        lambda: ApproxDP(amount(draw), Fraction(1, draw.randint(10, 10**6))),
        lambda: ZCDP(amount(draw)),
        lambda: GDP(amount(draw)),
        lambda: StableRelease(name, amount(draw), draw.randint(1, 9), 50 * amount(draw)),
        lambda: CoupledGaussian(name, amount(draw), 2, draw.randint(0, 9), Fraction(1, 3)),
        lambda: Filter(Select(Gaussian(name, Z), Gaussian("b", Z)), "zcdp", amount(draw)),
        lambda: Filter(Laplace(name, Z), draw.choice(["pure", "zcdp", "gdp"]), amount(draw)),
    ]
    return draw.choices(makers, [6, 6, 2, 2, 2, 2, 1, 1, 2, 2])[0]()  # type: ignore[no-any-return]


def tree(draw: random.Random, depth: int) -> Node:
    if depth == 0:
        return leaf(draw)

    def below() -> Node:
        return tree(draw, draw.randrange(depth))

    small = Fraction(1, draw.randint(10**3, 10**9))
    makers: list[Any] = [
        lambda: EventSlack(below(), small, "short"),
        lambda: ProposeTestRelease(below(), below(), small),
        lambda: Group(below(), draw.randint(1, 6)),
        lambda: Select(*(below() for _ in range(draw.randint(1, 3)))),
        lambda: Compose(*(below() for _ in range(draw.randint(1, 3)))),
        lambda: Parallel(*(below() for _ in range(draw.randint(1, 3)))),
        lambda: Repeat(below(), draw.randint(0, 9)),
    ]
    return draw.choice(makers)()  # type: ignore[no-any-return]


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, Losses) or ours == theirs:
        return bool(ours == theirs)
    return abs(float(ours) - float(theirs)) <= 1e-12 * abs(float(theirs))


@pytest.mark.first_case
@pytest.mark.parametrize("start", range(0, 160, 20))
def test_the_checker_agrees_on_random_trees(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tails to as many places as the checker takes where a certificate names none.
    monkeypatch.setattr(rules, "TAIL_GRAIN", Fraction(1, 10**MOST_PLACES))
    monkeypatch.setattr(adaptive, "STAND_IN_RELEASES", 1)
    folded = 0
    assert PROFILE in CALCULI.values()
    for seed in range(start, start + 20):
        draw = random.Random(seed)
        root, adjacency = tree(draw, draw.randint(1, 3)), draw.choice(list(Adjacency))
        assert from_table(to_table(root)) == root
        for name in CALCULI:
            theirs = own_bound(root, name, adjacency)
            try:
                ours = CALCULI[name].fold(root, SCOPE.under(adjacency)).value
            except Unsupported:
                assert theirs is None, (seed, name)
                continue
            folded += 1
            if name == "rdp":
                alpha, value = sympy.Symbol("alpha", positive=True), sympy.sympify(ours)
                at = [value.subs(alpha, sympy.Rational(*a.as_integer_ratio())) for a in ORDERS]
                assert all(same(v, theirs(a)) for v, a in zip(at, ORDERS, strict=True)), seed
            elif name == "approx":
                assert all(same(a, b) for a, b in zip(ours, theirs, strict=True)), seed
            else:
                assert same(ours, theirs), (seed, name, ours, theirs)
    assert folded > 20

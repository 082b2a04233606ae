"""Searches over runs, composed with other releases: exact enumeration, chords, the checker."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import rederive
from dpaudit.errors import Unsupported
from dpaudit.exact import enclose
from dpaudit.families.opaque import Laws
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.grids import Grid, Side, by_chords
from dpaudit.nodes import Node
from dpaudit.pairs import Normal
from tests.library.unit.test_tuning_family import best_of, law_of_runs, poisson_best_of

F = Fraction
SCOPE = dp.central("add_remove")
OUTCOMES = [(F(6, 10), F(3, 10)), (F(3, 10), F(3, 10)), (F(1, 10), F(4, 10))]
DELTA = F(1, 10**6)


def product_delta(laws: list[tuple[np.ndarray, np.ndarray]], epsilon: float) -> float:
    """Delta of independent releases, over all their outcomes."""
    p, q = np.ones(1), np.ones(1)
    for own, other in laws:
        p, q = np.outer(p, own).ravel(), np.outer(q, other).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.quality
@pytest.mark.parametrize("poisson", [False, pytest.param(True, marks=pytest.mark.quality)])
def test_composed_bounds_are_above_every_order_of_scores(poisson: bool) -> None:
    """Three searches over a release of three outcomes, ranked in any order."""
    child = Laws(OUTCOMES, source="three outcomes")
    node = TunedPoisson(child, 3) if poisson else Tuned(child, F(1, 5))
    composed = dp.account(dp.Repeat(node, 3), SCOPE)
    runs, masses = law_of_runs(0.2, 1.0), np.array(OUTCOMES, dtype=float)
    for epsilon in (0.5, 2.0, 4.0):
        upper = float(composed.delta(F(epsilon)).upper)
        exact = 0.0
        for order in permutations(range(3)):
            laws = [
                poisson_best_of(side, 3.0) if poisson else best_of(side, runs)
                for side in masses[list(order)].T
            ]
            for p, q in (laws, laws[::-1]):
                exact = max(exact, product_delta([(p, q)] * 3, epsilon))
        assert 0 < exact <= upper


def test_thinned_chords_are_above_the_profile_between_their_nodes() -> None:
    """Of about 12 nodes in the place of hundreds; too few to be near, and still above."""
    pair = Normal(F(1))
    grid = Grid(F(1, 100), 1e-12)
    drawn = by_chords(pair.delta, grid, Side.UPPER, 2**15 // 12)
    losses = drawn.losses
    assert 2 < np.count_nonzero(drawn.masses) < 20
    for at in np.arange(-1.0, 3.0, 0.07):
        shown = drawn.infinite + np.sum(
            drawn.masses * np.maximum(-np.expm1(at - losses), 0.0), where=losses > at
        )
        assert shown >= float(pair.delta(enclose(F(at)).exp()).mid())


CASES: list[Node] = [
    dp.Repeat(Tuned(dp.Gaussian("run", 4), F(1, 10)), 10),
    dp.Compose(Tuned(dp.Gaussian("run", 4), F(1, 10)), dp.Gaussian("count", 3)),
    dp.Repeat(TunedPoisson(dp.Gaussian("run", 5), 20), 3),
]


@pytest.mark.quality
@pytest.mark.parametrize(
    "node", [CASES[0], *(pytest.param(node, marks=pytest.mark.quality) for node in CASES[1:])]
)
def test_composed_profiles_are_below_renyi_bounds_and_above_one_run_each(node: Node) -> None:
    account = dp.account(node, "replace_one")
    upper = {c: float(account.converted(c, DELTA).value[0]) for c in ("profile", "rdp")}
    assert upper["profile"] < 0.8 * upper["rdp"]
    single: Any = dp.Repeat(dp.Gaussian("run", 5), 3)
    assert upper["profile"] > float(dp.account(single, "replace_one").epsilon(DELTA).lower)


def test_searches_over_searches_compose_by_renyi_divergences() -> None:
    search = Tuned(Tuned(dp.Gaussian("run", 4), F(1, 10)), F(1, 2))
    account = dp.account(dp.Repeat(search, 2), SCOPE)
    with pytest.raises(Unsupported, match="search over searches"):
        account.converted("profile", DELTA)
    assert account.epsilon(DELTA).upper_method == "convert.rdp_to_approx"


@pytest.mark.quality
@pytest.mark.parametrize("node", CASES)
def test_the_checker_confirms_a_composed_search(node: Node) -> None:
    step = dp.account(node, "replace_one").converted("profile", DELTA)
    rows = step_rows(steps_of([step]))
    predicate = {"derivation": {"steps": rows}, "scope": {"adjacency": "replace_one"}}
    confirmed = rederive(predicate, node)[-1]
    assert not any("only the accountant" in text for text in confirmed.trusted)

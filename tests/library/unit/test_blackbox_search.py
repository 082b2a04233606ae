"""audit_domain: the pair is found by itself, in every form a domain and a relation may have."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dpaudit.audit import Verdict, audit_domain
from dpaudit.audit.blackbox.domains import Box, pairs_of_domain
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import PureDP

Generator = np.random.Generator
GRID = 2.0**-30
BOX = Box(3, 3, 0, 1)
BITS = [np.array([i, j, k]) for i in (0, 1) for j in (0, 1) for k in (0, 1)]


def total(data: Any, rng: Generator, size: int) -> Any:
    """Right where entries lie in [0, 1] and one record is replaced."""
    return np.round((np.sum(data) + rng.laplace(0, 1, size)) / GRID) * GRID


def doubled_at_zero(data: Any, rng: Generator, size: int) -> Any:
    """Too little noise, but only where all entries are 0 or one of them differs from that."""
    scale = 0.5 if np.count_nonzero(data) <= 1 else 1.0
    return np.round((np.sum(data) + rng.laplace(0, scale, size)) / GRID) * GRID


def search(mechanism: Any, domain: Any, relation: Any, **others: Any) -> Any:
    given = {"claim": PureDP(1), "trials": 4_000, "seed": 2} | others
    return audit_domain(mechanism, domain, relation, **given)


def differ_in_one(a: Any, b: Any) -> bool:
    return int(np.count_nonzero(a != b)) == 1


def flips(data: Any) -> list[Any]:
    return [np.where(np.arange(3) == i, 1 - data, data) for i in range(3)]


def some_bits(rng: Generator) -> Any:
    return rng.integers(0, 2, 3)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("domain", "relation"),
    [
        (BITS, "replace_one"),
        (BITS, differ_in_one),
        (BITS, flips),
        (some_bits, "replace_one"),
        (some_bits, flips),
        (BOX, "replace_one"),
        (Box(0, 3, 0, 1), "add_remove"),
        (Box(3, 3, 0, 1, whole=True), "total_by_one"),
    ],
)
def test_the_pair_is_found(domain: Any, relation: Any) -> None:
    result = search(doubled_at_zero, domain, relation)
    assert result.verdict is Verdict.REFUTED
    assert min(np.count_nonzero(result.d0), np.count_nonzero(result.d1)) <= 1
    assert result.epsilon_lower > 1
    assert json.loads(json.dumps(result.to_json()))["pairs_tried"] == result.pairs


@pytest.mark.quality
def test_a_right_mechanism_is_not_refuted_at_its_worst_pair() -> None:
    """Errs with probability 0.01: search draws have no part in the test."""
    result = search(total, BOX, "replace_one", refute_at=0.01)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert 0.8 < result.epsilon_lower <= 1.0


def test_pairs_are_neighbours_inside_the_domain() -> None:
    rng = np.random.default_rng(0)
    pairs = pairs_of_domain(BOX, "replace_one", rng)
    assert pairs
    for a, b in pairs:
        assert BOX.holds(a)
        assert BOX.holds(b)
        assert sum(x != y for x, y in zip(a, b, strict=True)) == 1
    moved = pairs_of_domain(Box(4, 4, 0, 5, whole=True), "each_by_one", rng)
    assert {float(np.abs(a - b).max()) for a, b in moved} == {1.0}
    shorter = pairs_of_domain(Box(1, 3, 0, 1), "add_remove", rng)
    assert all(abs(len(a) - len(b)) == 1 for a, b in shorter)


@pytest.mark.quality
def test_records_that_make_it_raise_are_found() -> None:
    def fails(data: Any, rng: Generator, size: int) -> Any:
        if np.isnan(data).any():
            raise ValueError
        return rng.random(size)

    result = search(fails, Box(3, 3, 0, 1, special=(np.nan,)), "replace_one")
    assert result.verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("domain", "relation", "message"),
    [
        ([], "replace_one", "empty"),
        (3, "replace_one", "domain"),
        (BITS, "swap", "relation"),
        (BITS, 3, "relation"),
        (BITS, lambda a, b, c: True, "relation"),
        (BITS, lambda a, b: False, "no neighbours"),
        (BITS[:1], "replace_one", "no neighbours"),
    ],
)
def test_bad_domains_and_relations(domain: Any, relation: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        search(total, domain, relation)


def test_boxes_are_checked() -> None:
    with pytest.raises(InvalidParameter, match="Box"):
        Box(3, 2, 0, 1)
    with pytest.raises(InvalidParameter, match="Box"):
        Box(1, 2, 1, 0)
    box = Box(1, 2, 0, 1, whole=True, special=(np.nan,))
    assert box.holds(np.array([1.0, np.nan]))
    assert not box.holds(np.array([0.5]))
    assert not box.holds(np.zeros(3))

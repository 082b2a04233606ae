"""Histories of DP-SGD: read as declarations, written back, and an accountant that keeps one."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from dpaudit.crosscheck.interchange import (
    HistoryAccountant,
    from_opacus_history,
    to_opacus_history,
)
from dpaudit.crosscheck.interchange.kinds import NO_NOISE, NOTHING
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node

ABSENT = "add_remove zero_out"


def sampled(noise: Any, rate: Any) -> Node:
    return PoissonSampled(Gaussian("gaussian", noise, ABSENT), rate)


def test_a_history_is_read() -> None:
    found = from_opacus_history([(1.1, 0.01, 100), (2, 1.0, 5)])
    tenth = Fraction(11, 10)
    assert found == Compose(
        Repeat(sampled(tenth, Fraction(1, 100)), 100), Repeat(Gaussian("gaussian", 2, ABSENT), 5)
    )


def test_rows_without_cost_and_without_noise() -> None:
    assert from_opacus_history([]) == NOTHING
    assert from_opacus_history([(1.0, 0.0, 5), (1.0, 0.5, 0)]) == NOTHING
    assert from_opacus_history([(0.0, 0.5, 5)]) == NO_NOISE


def test_replace_one_halves_the_multiplier() -> None:
    replaced = Gaussian("gaussian", 1, "replace_one")
    assert from_opacus_history([(2.0, 1.0, 5)], "replace_one") == Repeat(replaced, 5)


def test_under_replace_one_records_that_are_not_drawn_add_zero() -> None:
    replaced = Gaussian("gaussian", 1, "replace_one")
    found = from_opacus_history([(2.0, 0.5, 5)], "replace_one")
    assert found == Repeat(PoissonSampled(replaced, 0.5, "zero"), 5)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one", "zero_out"])
def test_a_history_comes_back(adjacency: str) -> None:
    history = [(1.1, 0.01, 100), (0.7, 1.0, 5), (1.1, 0.01, 1)]
    assert to_opacus_history(from_opacus_history(history, adjacency), adjacency) == history


def test_nested_repeats_multiply() -> None:
    node = Repeat(Compose(Repeat(sampled(1, Fraction(1, 2)), 3), Gaussian("gaussian", 2)), 5)
    assert to_opacus_history(node) == [(1.0, 0.5, 15), (2.0, 1.0, 5)]
    assert to_opacus_history(NOTHING) == []


@pytest.mark.parametrize(
    "node",
    [
        Laplace("laplace", 1),
        PoissonSampled(Laplace("laplace", 1), 0.5),
        PoissonSampled(Repeat(Gaussian("gaussian", 1), 2), 0.5),
        Parallel(Gaussian("gaussian", 1), Gaussian("gaussian", 2)),
    ],
    ids=lambda node: node.head,
)
def test_what_a_history_cannot_hold_is_refused(node: Node) -> None:
    with pytest.raises(Unsupported, match="a history holds"):
        to_opacus_history(Compose(Gaussian("gaussian", 1), node))


BAD = [math.nan, math.inf, -1, True, "one", None]


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize("place", range(3))
def test_bad_numbers_are_refused_by_row(place: int, bad: Any) -> None:
    row = [1.0, 0.5, 5]
    row[place] = bad
    name = ("noise_multiplier", "sample_rate", "steps")[place]
    with pytest.raises(InvalidParameter, match=rf"history\[1\]\.{name}"):
        from_opacus_history([(1.0, 0.5, 5), tuple(row)])  # type: ignore[list-item]


@pytest.mark.parametrize("row", [(1.0, 1.5, 5), (1.0, 0.5, 5.5), (1.0, 0.5), "abc", 7, None])
def test_malformed_rows_are_refused(row: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"history\[0\]"):
        from_opacus_history([row])


@pytest.mark.parametrize("history", [3, None, "abc", {1: 2}], ids=repr)
def test_what_is_no_history_is_refused(history: Any) -> None:
    with pytest.raises(InvalidParameter, match="history"):
        from_opacus_history(history)


# --- the accountant ------------------------------------------------------------------------------


def test_equal_steps_are_one_row() -> None:
    accountant = HistoryAccountant()
    for noise in (1.0, 1.0, 2.0, 1.0):
        accountant.step(noise_multiplier=noise, sample_rate=0.5)
    assert accountant.history == [(1.0, 0.5, 2), (2.0, 0.5, 1), (1.0, 0.5, 1)]
    assert len(accountant) == 3


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_bad_step_is_not_recorded(bad: Any) -> None:
    accountant = HistoryAccountant()
    for noise, rate in ((bad, 0.5), (1.0, bad), (1.0, 1.5)):
        with pytest.raises(InvalidParameter):
            accountant.step(noise_multiplier=noise, sample_rate=rate)
    assert accountant.history == []


def test_full_batches_have_the_gaussian_closed_form() -> None:
    """mu = 1: 4.377178 at delta 1e-5 (Balle and Wang 2018, Theorem 8)."""
    accountant = HistoryAccountant()
    accountant.history = [(10.0, 1.0, 100)]
    assert accountant.get_epsilon(delta=1e-5) == pytest.approx(4.377178, abs=1e-6)
    assert accountant.get_epsilon(1e-5) >= 4.3771778


def test_an_empty_history_costs_nothing_and_no_noise_all() -> None:
    accountant = HistoryAccountant()
    assert accountant.get_epsilon(1e-5) == 0
    accountant.step(noise_multiplier=0.0, sample_rate=0.5)
    assert accountant.get_epsilon(1e-5) == math.inf


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan, "x"])
def test_a_bad_delta_is_refused(delta: Any) -> None:
    accountant = HistoryAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=1.0)
    with pytest.raises(InvalidParameter, match="delta"):
        accountant.get_epsilon(delta)


def test_an_optimizer_hook_records_accumulated_steps() -> None:
    accountant = HistoryAccountant()
    hook = accountant.get_optimizer_hook_fn(sample_rate=0.25)
    for _ in range(3):
        hook(SimpleNamespace(noise_multiplier=1.5, accumulated_iterations=2))
    assert accountant.history == [(1.5, 0.5, 3)]


def test_a_state_comes_back() -> None:
    accountant = HistoryAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.5)
    state = accountant.state_dict({"other": 1})
    assert state == {"other": 1, "history": [(1.0, 0.5, 1)], "mechanism": "dpaudit"}
    accountant.step(noise_multiplier=2.0, sample_rate=0.5)
    assert state["history"] == [(1.0, 0.5, 1)]
    fresh = HistoryAccountant()
    fresh.load_state_dict(state)
    assert fresh.history == [(1.0, 0.5, 1)]


@pytest.mark.parametrize(
    "state",
    [
        {},
        None,
        {"history": []},
        {"mechanism": "dpaudit"},
        {"history": [], "mechanism": "rdp"},
        {"history": [(math.nan, 0.5, 1)], "mechanism": "dpaudit"},
        {"history": 3, "mechanism": "dpaudit"},
        {"history": [3], "mechanism": "dpaudit"},
    ],
    ids=str,
)
def test_a_malformed_state_is_refused(state: Any) -> None:
    accountant = HistoryAccountant()
    with pytest.raises(InvalidParameter):
        accountant.load_state_dict(state)
    assert accountant.history == []

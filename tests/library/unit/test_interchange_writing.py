"""Declarations written as events of dp-accounting: what comes back, how numbers round."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from dp_accounting import dp_event as d

from dpaudit.crosscheck.interchange import from_dp_event, to_dp_event
from dpaudit.crosscheck.interchange.events import BY_NODE, MOST_EVENTS
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.opaque import GDP, PureDP, RenyiCurve
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Assumption, Node

ADJACENCIES = ("add_remove", "replace_one", "zero_out")
K = sympy.Symbol("k", integer=True, positive=True)
ALPHA = sympy.Symbol("alpha", positive=True)


def gaussian(noise: Any) -> Gaussian:
    return Gaussian("gaussian", noise)


def tree(noise: Any, rounds: int) -> CorrelatedGaussian:
    return CorrelatedGaussian("tree", noise, rounds)


WRITTEN = [
    d.NoOpDpEvent(),
    d.NonPrivateDpEvent(),
    d.GaussianDpEvent(1.1),
    d.LaplaceDpEvent(0.1),
    d.DiscreteLaplaceDpEvent(0.25, 4),
    d.SelfComposedDpEvent(d.GaussianDpEvent(1.1), 10**9),
    d.ComposedDpEvent([d.GaussianDpEvent(1.1), d.LaplaceDpEvent(3.7)]),
    d.SelfComposedDpEvent(d.SampledWithoutReplacementDpEvent(600, 7, d.LaplaceDpEvent(0.3)), 5),
    d.SampledWithReplacementDpEvent(600, 7, d.GaussianDpEvent(0.3)),
    d.PoissonSampledDpEvent(0.07, d.SelfComposedDpEvent(d.GaussianDpEvent(0.3), 9)),
    d.ZCDpEvent(0.1),
    d.ZCDpEvent(0.1, 0.3),
    d.SingleEpochTreeAggregationDpEvent(0.7, 9),
    d.SingleEpochTreeAggregationDpEvent(0.7, [3, 9]),
]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("event", WRITTEN, ids=lambda event: str(event)[:50])
def test_an_event_comes_back(event: Any, adjacency: str) -> None:
    node = from_dp_event(event, adjacency)
    assert to_dp_event(node, adjacency) == event
    assert from_dp_event(to_dp_event(node, adjacency), adjacency) == node


def test_a_random_answer_comes_back() -> None:
    event = d.RandomizedResponseDpEvent(0.25, 4)
    assert to_dp_event(from_dp_event(event, "replace_one"), "replace_one") == event


@pytest.mark.parametrize("event", [e for e in WRITTEN if "noise_multiplier" in str(e)], ids=str)
def test_a_multiplier_doubles_on_its_way_out_under_replace_one(event: Any) -> None:
    node = from_dp_event(event, "add_remove")
    numbers = [n.noise_multiplier for n in _noisy(to_dp_event(node, "add_remove"))]
    doubled = [n.noise_multiplier for n in _noisy(to_dp_event(node, "replace_one"))]
    assert numbers
    assert doubled == [2 * n for n in numbers]


def _noisy(event: Any) -> list[Any]:
    if hasattr(event, "noise_multiplier"):
        return [event]
    inside = getattr(event, "events", [getattr(event, "event", None)])
    return [found for each in inside for found in _noisy(each)]


def test_numbers_without_a_float_round_towards_less_privacy() -> None:
    third = Fraction(1, 3)
    written = to_dp_event(PoissonSampled(gaussian(third), third), "add_remove")
    assert (
        Fraction(written.event.noise_multiplier) <= third <= Fraction(written.sampling_probability)
    )
    root = to_dp_event(gaussian(sympy.sqrt(2)), "add_remove").noise_multiplier
    assert Fraction(root) ** 2 < 2
    assert root == pytest.approx(math.sqrt(2), rel=1e-15)
    odd = to_dp_event(DiscreteLaplace("noise", 3, 5), "replace_one")
    assert odd.sensitivity == 3
    assert Fraction(odd.noise_parameter) >= third


def test_rounds_that_differ_are_written_one_by_one() -> None:
    node = Compose(Repeat(gaussian(K), 3, K), Laplace("noise", 2))
    written = to_dp_event(node, "add_remove")
    assert written.events[0].events == [d.GaussianDpEvent(float(k)) for k in (1, 2, 3)]
    with pytest.raises(Unsupported, match="at most"):
        to_dp_event(Repeat(gaussian(K), MOST_EVENTS + 1, K), "add_remove")


REFUSED: list[Node] = [
    PureDP(1),
    GDP(1),
    Parallel(gaussian(1), gaussian(2)),
    Parallel(tree(1, 3), tree(2, 3)),
    Assuming(gaussian(1), Assumption("a", "something", "declared")),  # type: ignore[arg-type]
    CorrelatedGaussian("tree", 1, 8, "sqrt_toeplitz"),
    RenyiCurve(ALPHA**2),
    RandomizedResponse("answer", 1),
    Repeat(gaussian(K), sympy.Symbol("T", integer=True, positive=True), K),
    gaussian(sympy.Symbol("s", positive=True)),
]


@pytest.mark.parametrize("node", REFUSED, ids=lambda node: node.head[:50])
def test_what_has_no_event_is_refused_by_its_path(node: Node) -> None:
    with pytest.raises(Unsupported, match=r"Compose\[1\]\."):
        to_dp_event(Compose(Laplace("noise", 1), node), "add_remove")


@pytest.mark.parametrize("noise", [Fraction(10) ** 400, Fraction(1, 10**400)])
def test_a_number_that_no_float_holds_is_refused(noise: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="float"):
        to_dp_event(gaussian(noise), "add_remove")


def test_every_written_node_type_is_a_node_type() -> None:
    assert set(BY_NODE) <= set(Node.types.values())


# --- at random -----------------------------------------------------------------------------------


def random_event(rng: np.random.Generator, depth: int, records: int = 99) -> Any:
    """An event on so many records whose reading loses nothing: no degenerate number or child.

    ``records``: 0 below a Poisson sample, where nothing draws from a fixed number.
    """
    kind = int(rng.integers(0, 5 if depth == 0 else 10 if records else 8))
    noise = float(rng.integers(1, 400)) / 100
    if kind < 5:
        return (
            d.GaussianDpEvent(noise),
            d.LaplaceDpEvent(noise),
            d.ZCDpEvent(noise, float(rng.integers(0, 3))),
            d.DiscreteLaplaceDpEvent(1 / float(rng.integers(1, 9)), 2 * int(rng.integers(1, 5))),
            d.SingleEpochTreeAggregationDpEvent(noise, int(rng.integers(1, 99))),
        )[kind]
    drawn = (records, records, 0, *2 * [records - int(rng.integers(1, 9))])[kind - 5]
    inside = [random_event(rng, depth - 1, drawn) for _ in range(2)]
    return (
        d.ComposedDpEvent(inside),
        d.SelfComposedDpEvent(inside[0], int(rng.integers(2, 1000))),
        d.PoissonSampledDpEvent(float(rng.integers(1, 100)) / 100, inside[0]),
        d.SampledWithoutReplacementDpEvent(records, drawn, inside[0]),
        d.SampledWithReplacementDpEvent(records, drawn, inside[0]),
    )[kind - 5]


@pytest.mark.parametrize("seed", range(60))
def test_random_events_come_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    adjacency = ADJACENCIES[seed % 3]
    event = random_event(rng, 5)
    assert to_dp_event(from_dp_event(event, adjacency), adjacency) == event


@pytest.mark.quality
def test_a_ledger_of_ten_thousand_events_is_read_in_a_second() -> None:
    """Generous by a factor of ten; quadratic work would take minutes."""
    events = [d.GaussianDpEvent(1 + k / 10_000) for k in range(10_000)]
    start = time.process_time()
    node = from_dp_event(d.ComposedDpEvent(events), "add_remove")
    assert to_dp_event(node, "add_remove").events == events
    assert time.process_time() - start < 10

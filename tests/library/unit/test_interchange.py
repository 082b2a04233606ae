"""Events of dp-accounting read as declarations and written back, bad ones refused by their path."""

from __future__ import annotations

import math
import sys
from collections import namedtuple
from fractions import Fraction
from typing import Any

import attr
import numpy as np
import pytest
import sympy
from dp_accounting import dp_event as d

import dpaudit as dp
from dpaudit.crosscheck.interchange import from_dp_event, to_dp_event
from dpaudit.crosscheck.interchange.events import MAX_NESTING
from dpaudit.crosscheck.interchange.kinds import NO_NOISE, NOTHING
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.batches import TruncatedPoisson
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.opaque import ZCDP, NonPrivate, RenyiCurve
from dpaudit.families.sampling import (
    PoissonSampled,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.nodes import Node, postorder, stated_under

GAUSSIAN = d.GaussianDpEvent(2.0)
ALPHA = sympy.Symbol("alpha", positive=True)


def gaussian(noise: Any) -> Gaussian:
    return Gaussian("gaussian", noise)


def tree(noise: Any, rounds: int) -> CorrelatedGaussian:
    return CorrelatedGaussian("tree", noise, rounds)


READINGS: list[tuple[Any, Node]] = [
    (d.NoOpDpEvent(), NOTHING),
    (d.NonPrivateDpEvent(), NonPrivate("a NonPrivateDpEvent")),
    (d.GaussianDpEvent(1.1), gaussian(Fraction(11, 10))),
    (d.GaussianDpEvent(0.0), NO_NOISE),
    (d.LaplaceDpEvent(0.1), Laplace("laplace", Fraction(1, 10))),
    (d.LaplaceDpEvent(0), NO_NOISE),
    (d.DiscreteLaplaceDpEvent(0.25, 3), DiscreteLaplace("discrete_laplace", 4, 3)),
    (d.DiscreteLaplaceDpEvent(0.25, 0), NOTHING),
    (d.DiscreteLaplaceDpEvent(0.0, 1), NO_NOISE),
    (d.SelfComposedDpEvent(GAUSSIAN, 7), Repeat(gaussian(2), 7)),
    (d.SelfComposedDpEvent(GAUSSIAN, 1), gaussian(2)),
    (d.SelfComposedDpEvent(GAUSSIAN, 0), NOTHING),
    (d.SelfComposedDpEvent(d.NoOpDpEvent(), 9), NOTHING),
    (d.ComposedDpEvent([]), NOTHING),
    (d.ComposedDpEvent([GAUSSIAN, d.NoOpDpEvent()]), gaussian(2)),
    (d.ComposedDpEvent((GAUSSIAN, GAUSSIAN)), Compose(gaussian(2), gaussian(2))),
    (d.PoissonSampledDpEvent(0.25, GAUSSIAN), PoissonSampled(gaussian(2), Fraction(1, 4))),
    (d.PoissonSampledDpEvent(1, GAUSSIAN), gaussian(2)),
    (d.PoissonSampledDpEvent(0.0, GAUSSIAN), NOTHING),
    (d.PoissonSampledDpEvent(0.5, d.NoOpDpEvent()), NOTHING),
    (
        d.SampledWithoutReplacementDpEvent(60, 6, GAUSSIAN),
        SampledWithoutReplacement(gaussian(2), 6, 60),
    ),
    (d.SampledWithoutReplacementDpEvent(60, 60, GAUSSIAN), gaussian(2)),
    (d.SampledWithoutReplacementDpEvent(60, 0, GAUSSIAN), NOTHING),
    (
        d.SampledWithReplacementDpEvent(60, 6, GAUSSIAN),
        SampledWithReplacement(gaussian(2), 6, 60),
    ),
    (d.ZCDpEvent(0.125), ZCDP(Fraction(1, 8), source="a ZCDpEvent")),
    (
        d.ZCDpEvent(0.125, 0.5),
        RenyiCurve(sympy.Rational(1, 2) + ALPHA / 8, source="a ZCDpEvent"),
    ),
    (d.SingleEpochTreeAggregationDpEvent(3.0, 8), tree(3, 8)),
    (d.SingleEpochTreeAggregationDpEvent(3.0, [8]), tree(3, 8)),
    (d.SingleEpochTreeAggregationDpEvent(3.0, [8, 3, 8]), Parallel(tree(3, 3), tree(3, 8))),
    (d.SingleEpochTreeAggregationDpEvent(3.0, [0]), NOTHING),
    (d.SingleEpochTreeAggregationDpEvent(0.0, [8]), NO_NOISE),
    (d.MixtureOfGaussiansDpEvent(4.0, [2.0], [1.0]), gaussian(2)),
    (
        d.MixtureOfGaussiansDpEvent(4.0, [0.0, 2.0], [0.75, 0.25]),
        PoissonSampled(gaussian(2), Fraction(1, 4)),
    ),
    (
        d.MixtureOfGaussiansDpEvent(4.0, [2.0, 0.0, 2.0], [0.125, 0.75, 0.125]),
        PoissonSampled(gaussian(2), Fraction(1, 4)),
    ),
    (d.MixtureOfGaussiansDpEvent(4.0, [0.0], [1.0]), NOTHING),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 4.0, 1.0), Tuned(gaussian(2), Fraction(1, 4))),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 1.0, 0.5), gaussian(2)),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 4.0, math.inf), TunedPoisson(gaussian(2), 4)),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 0.0, math.inf), NOTHING),
    (d.RepeatAndSelectDpEvent(d.NoOpDpEvent(), 4.0, 2.0), NOTHING),
    (
        d.TruncatedSubsampledGaussianDpEvent(100, 0.25, 40, 2.0),
        TruncatedPoisson(gaussian(2), Fraction(1, 4), 100, 40),
    ),
    (
        d.TruncatedSubsampledGaussianDpEvent(100, 0.25, 100, 2.0),
        PoissonSampled(gaussian(2), Fraction(1, 4)),
    ),
    (d.TruncatedSubsampledGaussianDpEvent(100, 0.25, 0, 2.0), NOTHING),
    (d.TruncatedSubsampledGaussianDpEvent(100, 0.25, 40, 0.0), NO_NOISE),
]


@pytest.mark.parametrize(("event", "node"), READINGS, ids=lambda row: str(row)[:50])
def test_an_event_is_read_under_add_remove(event: Any, node: Node) -> None:
    expected = node if node == NOTHING else stated_under(node, "add_remove", "zero_out")
    assert from_dp_event(event, "add_remove") == expected
    assert from_dp_event(event, "zero_out") == expected


@pytest.mark.parametrize(
    ("event", "node"),
    [
        (GAUSSIAN, gaussian(1)),
        (d.LaplaceDpEvent(0.1), Laplace("laplace", Fraction(1, 20))),
        (d.DiscreteLaplaceDpEvent(0.25, 3), DiscreteLaplace("discrete_laplace", 4, 6)),
        (d.ZCDpEvent(0.125), ZCDP(Fraction(1, 8), source="a ZCDpEvent")),
        (d.SelfComposedDpEvent(GAUSSIAN, 7), Repeat(gaussian(1), 7)),
        (
            d.SampledWithoutReplacementDpEvent(60, 6, GAUSSIAN),
            SampledWithoutReplacement(gaussian(1), 6, 60),
        ),
        (d.SingleEpochTreeAggregationDpEvent(3.0, 8), tree(Fraction(3, 2), 8)),
        (
            d.RandomizedResponseDpEvent(0.25, 4),
            RandomizedResponse("response", sympy.log(13), 4),
        ),
        (d.RandomizedResponseDpEvent(1.0, 4), NOTHING),
        (d.RandomizedResponseDpEvent(0.0, 1), NOTHING),
        (d.RandomizedResponseDpEvent(0.0, 4), NO_NOISE),
    ],
    ids=lambda row: str(row)[:50],
)
def test_replace_one_moves_a_sum_by_two_norms(event: Any, node: Node) -> None:
    assert from_dp_event(event, "replace_one") == stated_under(node, "replace_one")


@pytest.mark.quality
def test_an_event_is_accounted_for_under_no_adjacency_with_another_sensitivity() -> None:
    """The noise of one record's sum was taken for that of a replaced record's, half as much."""
    run = d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.01, d.GaussianDpEvent(1.0)), 100)
    for stated, other in (("add_remove", "replace_one"), ("replace_one", "add_remove")):
        node = from_dp_event(run, stated)
        dp.account(node, stated).epsilon("1e-5")
        with pytest.raises(InvalidParameter, match="over the sensitivity under"):
            dp.account(node, other).epsilon("1e-5")


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1, 1.0, np.int64(1), np.float32(1), np.float64(1), Fraction(1)])
def test_every_kind_of_number_means_the_same(noise: Any) -> None:
    """dp-accounting drops an inner composition whose multiplier is not a Python float."""
    inner = d.SelfComposedDpEvent(d.GaussianDpEvent(noise), 100)
    event = d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.01, inner), 100)
    expected = Repeat(PoissonSampled(Repeat(gaussian(1), 100), Fraction(1, 100)), 100)
    found = from_dp_event(event, "add_remove")
    assert found == stated_under(expected, "add_remove", "zero_out")
    written = to_dp_event(found, "add_remove").event.event.event.noise_multiplier
    assert type(written) is float


def test_a_float32_is_its_shortest_decimal() -> None:
    found = from_dp_event(d.GaussianDpEvent(np.float32(1.1)), "add_remove")
    assert found == stated_under(gaussian(Fraction(11, 10)), "add_remove", "zero_out")


BAD = [math.nan, math.inf, -1, -1e-300, True, "one", None, [1.0], np.ones(2), sympy.Symbol("s"), 1j]
FIELDS: list[tuple[Any, str]] = [
    (d.GaussianDpEvent(1.0), "noise_multiplier"),
    (d.LaplaceDpEvent(1.0), "noise_multiplier"),
    (d.DiscreteLaplaceDpEvent(1.0, 1), "noise_parameter"),
    (d.DiscreteLaplaceDpEvent(1.0, 1), "sensitivity"),
    (d.SelfComposedDpEvent(GAUSSIAN, 1), "count"),
    (d.PoissonSampledDpEvent(0.5, GAUSSIAN), "sampling_probability"),
    (d.SampledWithoutReplacementDpEvent(2, 1, GAUSSIAN), "source_dataset_size"),
    (d.SampledWithoutReplacementDpEvent(2, 1, GAUSSIAN), "sample_size"),
    (d.SampledWithReplacementDpEvent(2, 1, GAUSSIAN), "source_dataset_size"),
    (d.SampledWithReplacementDpEvent(2, 1, GAUSSIAN), "sample_size"),
    (d.SingleEpochTreeAggregationDpEvent(1.0, 1), "noise_multiplier"),
    (d.SingleEpochTreeAggregationDpEvent(1.0, 1), "step_counts"),
    (d.ZCDpEvent(1.0), "rho"),
    (d.ZCDpEvent(1.0), "xi"),
    (d.RandomizedResponseDpEvent(0.5, 2), "noise_parameter"),
    (d.RandomizedResponseDpEvent(0.5, 2), "num_buckets"),
    (d.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), "standard_deviation"),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 4.0, 1.0), "mean"),
    (d.TruncatedSubsampledGaussianDpEvent(100, 0.25, 40, 2.0), "noise_multiplier"),
]


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize(("event", "name"), FIELDS, ids=lambda row: str(row)[:40])
def test_a_bad_number_is_refused_by_its_place(event: Any, name: str, bad: Any) -> None:
    if name == "step_counts" and isinstance(bad, list):
        bad = [1.5]
    outer = d.ComposedDpEvent([d.NoOpDpEvent(), attr.evolve(event, **{name: bad})])
    adjacency = "replace_one" if "Response" in type(event).__name__ else "add_remove"
    with pytest.raises(InvalidParameter, match=rf"ComposedDpEvent\[1\]\.\w+\.{name}"):
        from_dp_event(outer, adjacency)


@pytest.mark.parametrize(
    "event",
    [
        d.PoissonSampledDpEvent(1.5, GAUSSIAN),
        d.SelfComposedDpEvent(GAUSSIAN, 1.5),
        d.SampledWithoutReplacementDpEvent(5, 6, GAUSSIAN),
        d.SampledWithoutReplacementDpEvent(0, 6, GAUSSIAN),
        d.SampledWithReplacementDpEvent(0, 6, GAUSSIAN),
        d.ComposedDpEvent(GAUSSIAN),
        d.ComposedDpEvent(iter([GAUSSIAN])),
        d.MixtureOfGaussiansDpEvent(1.0, [1.0, 0.0], [0.5, 0.4]),
        d.MixtureOfGaussiansDpEvent(1.0, [1.0, 0.0], [1.0]),
        d.MixtureOfGaussiansDpEvent(1.0, [-1.0], [1.0]),
        d.MixtureOfGaussiansDpEvent(1.0, 1.0, 1.0),
        d.SingleEpochTreeAggregationDpEvent(1.0, [3, -1]),
        d.DiscreteLaplaceDpEvent(1.0, 1.5),
    ],
    ids=lambda event: str(event).partition(" object at ")[0][:60],
)
def test_numbers_outside_their_domain_are_refused(event: Any) -> None:
    with pytest.raises(InvalidParameter):
        from_dp_event(event, "add_remove")


def test_shares_that_miss_one_by_round_off_round_towards_less_privacy() -> None:
    event = d.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [1 - 0.07, 0.07])
    found = from_dp_event(event, "add_remove")
    assert isinstance(found, PoissonSampled)
    assert found.rate == Fraction(7, 100) + Fraction(1, 10**16)


@pytest.mark.parametrize(("mean", "shape"), [(5.5, 0), (5.5, 0.5), (40, 7), (1.001, 3), (1e9, 0)])
def test_a_search_runs_no_less_often_than_its_event_says(mean: float, shape: float) -> None:
    found = from_dp_event(d.RepeatAndSelectDpEvent(GAUSSIAN, mean, shape), "add_remove")
    assert 0 <= float(found.mean) - mean <= 1e-12 * mean
    back = to_dp_event(found, "add_remove")
    assert 0 <= back.mean - mean <= 1e-12 * mean
    assert back.shape == shape


@pytest.mark.parametrize("shape", [math.nan, -0.5, -math.inf, "inf", None])
def test_a_search_of_another_law_is_refused(shape: Any) -> None:
    for mean in (4.0, 0.5):
        with pytest.raises(InvalidParameter):
            from_dp_event(d.RepeatAndSelectDpEvent(GAUSSIAN, mean, shape), "add_remove")


# --- what has no node ----------------------------------------------------------------------------


@attr.s(frozen=True, auto_attribs=True)
class GaussianDpEvent(d.DpEvent):  # type: ignore[misc]
    """An event of another library that happens to have a known name."""

    noise_multiplier: float


Hostile = namedtuple("Hostile", ["module_name", "class_name", "noise_multiplier"])


@pytest.mark.parametrize(
    "event",
    [
        d.UnsupportedDpEvent(),
        d.RandomizedResponseDpEvent(0.5, 2),
        d.DpEvent(),
        GaussianDpEvent(1.0),
        gaussian(1),
        "GaussianDpEvent",
        None,
        {"noise_multiplier": 1.0},
    ],
    ids=lambda event: str(event)[:50],
)
def test_what_has_no_node_is_refused_by_name_and_path(event: Any) -> None:
    outer = d.PoissonSampledDpEvent(0.5, d.ComposedDpEvent([GAUSSIAN, event]))
    name = type(event).__name__
    with pytest.raises(Unsupported, match=rf"PoissonSampledDpEvent\.ComposedDpEvent\[1\]\.{name}"):
        from_dp_event(outer, "add_remove")


def test_a_mixture_has_no_meaning_under_replace_one() -> None:
    with pytest.raises(Unsupported, match="replace_one"):
        from_dp_event(d.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), "replace_one")


def test_nothing_is_imported_that_a_named_tuple_names() -> None:
    """dp-accounting's own ``from_named_tuple`` imports the module and calls the class."""
    assert "antigravity" not in sys.modules
    with pytest.raises(Unsupported, match="Hostile"):
        from_dp_event(Hostile("antigravity", "fly", 1.0), "add_remove")
    assert "antigravity" not in sys.modules


def test_an_unknown_adjacency_is_refused() -> None:
    for call in (lambda: from_dp_event(GAUSSIAN, "both"), lambda: to_dp_event(gaussian(1), "both")):
        with pytest.raises(InvalidParameter, match="adjacency"):
            call()


def test_shared_events_are_read_once() -> None:
    event: Any = GAUSSIAN
    for _ in range(MAX_NESTING - 1):
        event = d.ComposedDpEvent([event, event])
    node = from_dp_event(event, "add_remove")
    assert len(list(postorder(node))) == MAX_NESTING
    written = to_dp_event(node, "add_remove")
    assert written.events[0] is written.events[1]


def test_events_nested_too_deeply_are_refused() -> None:
    event: Any = GAUSSIAN
    for _ in range(10_000):
        event = d.SelfComposedDpEvent(event, 2)
    with pytest.raises(InvalidParameter, match="deeper"):
        from_dp_event(event, "add_remove")

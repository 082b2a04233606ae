"""Random trees see a wrong rule of every node that they draw: each is planted, and found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.families import (
    adaptive,
    banded,
    bounded,
    composition,
    discrete,
    events,
    opaque,
    sampling,
    selection,
    stability,
    tabular,
    tuning,
)
from dpaudit.families.correlated import Participation
from dpaudit.families.local import Shuffled
from dpaudit.measures.calculus import CALCULI, Rule
from dpaudit.nodes import Node
from dpaudit.pairs import Losses, Normal
from dpaudit.pairs import opaque as pair_alone
from dpaudit.profiles.closed import polls
from tests.support import trees
from tests.support.coarse import epsilon_lower, redrawn

Plant = Callable[[Rule], Callable[..., Any]]
MOST, SEED = 150, 8


def weaker(**factors: object) -> Plant:
    """The rule of the same node with numbers multiplied by these."""

    def plant(rule: Rule) -> Callable[..., Any]:
        def wrong(node: Node, *premises: Any) -> Any:
            changed = {k: node.parameters[k] * Fraction(str(f)) for k, f in factors.items()}
            return rule.function(node.with_parameters(**changed), *premises)

        return wrong

    return plant


def premise(place: int) -> Plant:
    """What one of its premises has."""
    return lambda rule: lambda node, *premises: premises[place]


def nothing_told(rule: Rule) -> Callable[..., Any]:
    """No loss at all."""

    def wrong(node: Node, base: Any) -> Any:
        return pair_alone(Normal(Fraction(0))) if isinstance(base, Losses) else base

    return wrong


def half_the_points(rule: Rule) -> Callable[..., Any]:
    """Every delta halved."""

    def wrong(node: Any) -> Any:
        return rule.function(node.with_parameters(points=tuple((e, d / 2) for e, d in node.points)))

    return wrong


def one_turn_alone(rule: Rule) -> Callable[..., Any]:
    """A record that is in one turn of its group alone."""

    def wrong(node: Any, base: Any) -> Any:
        child = node.child.with_parameters(
            rounds=node.groups, strategy="identity", participation=Participation()
        )
        return rule.function(banded.CyclicPoisson(child, node.groups, node.rate), base)

    return wrong


BUGS: list[tuple[str, str, type[Node], Plant]] = [
    ("_truncated_laplace", "zero_out", discrete.TruncatedDiscreteLaplace, weaker(scale=1.2)),
    ("_bounded", "zero_out", bounded.Staircase, weaker(share=0.5)),
    ("_bounded", "zero_out", bounded.Tulap, weaker(epsilon=0.8)),
    ("_bounded", "zero_out", bounded.StudentT, weaker(noise_multiplier=1.2)),
    ("_bounded", "zero_out", bounded.TruncatedLaplace, weaker(noise_multiplier=1.2)),
    ("_discrete_laplace", "zero_out", discrete.DiscreteLaplace, weaker(scale=1.2)),
    ("_stated", "add_remove", opaque.ZCDP, weaker(rho=0.7)),
    ("_stated", "add_remove", opaque.RenyiCurve, weaker(curve=0.7)),
    ("_stated", "add_remove", opaque.RenyiDP, weaker(epsilon=0.7)),
    ("_points", "replace_one", opaque.ProfilePoints, half_the_points),
    ("_filter", "replace_one", adaptive.Filter, weaker(cap=0.8)),
    ("_choice", "zero_out", selection.ReportNoisyMax, weaker(epsilon=0.8)),
    ("_choice", "zero_out", selection.ExponentialMechanism, weaker(epsilon=0.8)),
    ("_choice", "zero_out", selection.IntegerExponentialMechanism, weaker(epsilon=0.8)),
    ("_above_threshold", "zero_out", selection.AboveThreshold, weaker(epsilon_query=0.7)),
    ("_above_threshold", "zero_out", selection.AboveThreshold, weaker(epsilon_threshold=0.7)),
    (
        "_comparisons",
        "add_remove",
        selection.NoisyComparisons,
        weaker(threshold_scale=1.2, query_scale=1.2),
    ),
    ("_coupled", "add_remove", stability.CoupledGaussian, weaker(rate=0.5)),
    ("_coupled", "add_remove", stability.CoupledGaussian, weaker(noise_multiplier=1.2)),
    ("_vector", "replace_one", tabular.DiscreteGaussianVector, weaker(variance=1.3)),
    ("_table", "replace_one", tabular.ThresholdedDiscreteLaplace, weaker(threshold=2)),
    ("_table", "replace_one", tabular.ThresholdedDiscreteLaplace, weaker(scale=2, threshold=3)),
    ("_table", "replace_one", tabular.ThresholdedDiscreteGaussian, weaker(threshold=2)),
    ("_table", "replace_one", tabular.ThresholdedDiscreteGaussian, weaker(variance=2, threshold=3)),
    ("_select", "zero_out", adaptive.Select, premise(0)),
    ("_select", "zero_out", adaptive.Select, premise(1)),
    ("_event", "zero_out", composition.Assuming, nothing_told),
    ("_event", "zero_out", events.EventSlack, premise(0)),
    ("_event", "zero_out", events.ProposeTestRelease, premise(0)),
    ("_event", "zero_out", events.ProposeTestRelease, premise(1)),
    ("_event", "zero_out", events.ProposeTestRelease, weaker(false_pass=1e-30)),
    ("_tuned", "zero_out", tuning.TunedPoisson, premise(0)),
    ("_turns", "zero_out", banded.CyclicPoisson, weaker(rate=0.7)),
    ("_turns", "add_remove", banded.CyclicPoisson, one_turn_alone),
    ("_reports", "replace_one", Shuffled, weaker(population=30)),
    ("_replaced", "replace_one", sampling.PoissonSampled, weaker(rate=0.7)),
    ("_redrawn", "replace_one", sampling.SampledWithReplacement, weaker(population=2)),
    ("_stable", "replace_one", stability.StableRelease, weaker(noise_multiplier=1.2)),
    ("_stable", "replace_one", stability.StableRelease, weaker(epsilon=0.5)),
]


def found(
    kind: str, adjacency: str, node_type: type[Node], most: int = MOST, least: float = 30
) -> int:
    """How many trees of a kind are drawn before one that holds the node is violated, or -1."""
    rng, drawn = trees.Draws(SEED), getattr(trees, kind)
    for place in range(most):
        node, cells = drawn(rng) if drawn in trees.LEAVES else drawn(rng, adjacency, 0)
        delta = Fraction(f"{10 ** -rng.uniform(2, least):.3e}")
        held = isinstance(node, node_type) or any(isinstance(c, node_type) for c in node.children)
        if held and trees.judge(node, cells, adjacency, delta):
            return place
    return -1


def plant(patch: pytest.MonkeyPatch, node_type: type[Node], bug: Plant) -> None:
    """Every calculus's rules of a node, made wrong."""
    for calculus in CALCULI.values():
        wrong = [replace(rule, function=bug(rule)) for rule in calculus.rules_for(node_type)]
        if wrong:
            patch.setitem(calculus._rules, node_type, wrong[0])
            patch.setitem(calculus._others, node_type, tuple(wrong[1:]))


@pytest.mark.first_case
@pytest.mark.long_cases(
    "_event-zero_out-ProposeTestRelease-plant",
    "_points-replace_one-ProfilePoints-half_the_points",
    "_choice-zero_out-ReportNoisyMax-plant",
)
@pytest.mark.parametrize(("kind", "adjacency", "node_type", "bug"), BUGS)
def test_a_wrong_rule_is_found(
    kind: str,
    adjacency: str,
    node_type: type[Node],
    bug: Plant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a few trees of the kind; none is violated while the rule is right."""
    plant(monkeypatch, node_type, bug)
    place = found(kind, adjacency, node_type)
    assert place >= 0
    monkeypatch.undo()
    assert found(kind, adjacency, node_type, place + 1) == -1


def test_a_lower_end_above_what_anything_reaches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers whose two ends are both too large."""
    plant(monkeypatch, discrete.RandomizedResponse, weaker(epsilon=1.2))
    assert found("_response", "replace_one", discrete.RandomizedResponse) >= 0
    monkeypatch.undo()
    assert found("_response", "replace_one", discrete.RandomizedResponse) == -1


@pytest.mark.quality
def test_a_poll_of_which_only_the_ends_are_known_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst number of others who hold the value is often a few, and neither none nor all."""
    own = polls.Poll.bounds

    def wrong(self: polls.Poll, x: float, ks: polls.Indices) -> tuple[polls.Floats, polls.Floats]:
        low, high = own(self, x, ks)
        ends = (ks == 0) | (ks == self.others)
        return low * ends, high * ends

    monkeypatch.setattr(polls.Poll, "bounds", wrong)
    place = found("_polls", "replace_one", Shuffled, least=4)
    assert place >= 0
    monkeypatch.undo()
    assert found("_polls", "replace_one", Shuffled, place + 1, least=4) == -1


def test_no_cell_is_a_rounding() -> None:
    """A cell between two equal edges had a ratio of roundings, and showed what is not there."""
    delta, most = 4.653e-20, 6 * math.log1p(math.expm1(1 / 3.12) / 18)
    assert epsilon_lower(redrawn(1 / 3.12, 1 / 18, 6), delta) <= most

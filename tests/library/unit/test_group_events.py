"""Groups over noise events: who has a run of their own has an event of their own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

import dpaudit as dp
from dpaudit.check.theorem import bound
from dpaudit.families.events import EventSlack

F = Fraction
RARE, SIZE = F(1, 10**6), 50
REPLACE, ADD = dp.central("replace_one"), dp.central("add_remove")


def leaky(name: str = "x") -> dp.Node:
    """A hundredth of epsilon, but for an event in which all is told."""
    return EventSlack(dp.Laplace(name, 100), RARE, "the record is printed")


OF_ITS_OWN: dict[str, tuple[Callable[[], dp.Node], dp.Scope]] = {
    "reports": (lambda: dp.Shuffled(leaky(), 1000), REPLACE),
    "parts that records leave": (
        lambda: dp.Parallel(*(leaky(f"x{k}") for k in range(SIZE))),
        ADD,
    ),
    "parts of records that change": (
        lambda: dp.Parallel(*(leaky(f"x{k}") for k in range(SIZE))),
        REPLACE,
    ),
    "public batches": (lambda: dp.CyclicBatches(leaky(), 1000, 10), REPLACE),
    "groups of groups": (lambda: dp.Group(dp.Shuffled(leaky(), 1000), 5), REPLACE),
}


@pytest.mark.parametrize("name", OF_ITS_OWN)
def test_a_group_meets_as_many_events_as_it_has_runs(name: str) -> None:
    """Told apart by whether any of the group is printed: 1 - (1 - p)^k, at any epsilon."""
    made, scope = OF_ITS_OWN[name]
    node = made()
    size = 10 if isinstance(node, dp.Group) else SIZE
    told = 1 - (1 - RARE) ** SIZE
    assert dp.account(dp.Group(node, size), scope).delta("0.5").upper >= told


def test_a_group_in_one_run_meets_one_event() -> None:
    opened = dp.account(dp.Group(leaky(), SIZE), ADD)
    assert opened.step("profile").value.slack == RARE
    assert opened.delta("0.5").upper < 4 * RARE


@pytest.mark.parametrize("name", OF_ITS_OWN)
def test_the_checker_adds_up_the_events_too(name: str) -> None:
    made, scope = OF_ITS_OWN[name]
    node = dp.Group(made(), 10)
    base = dp.account(node.child, scope).step("profile").value
    own = bound("profile", node, [base])
    assert own.slack == dp.account(node, scope).step("profile").value.slack == 10 * base.slack


def test_a_test_that_an_event_may_decide_is_answered() -> None:
    """At a level of 1 less the event's chance, and above, no errors are owed: 1 is no level."""
    for rare, alpha in (("0.6", "0.9"), ("0.5", "0.5"), ("0.9", "1e-1")):
        node = EventSlack(dp.Laplace("x", 1), rare, "the record is printed")
        found = dp.account(node, ADD).tradeoff(alpha)
        assert found.lower == 0
        assert found.upper == 1 - F(alpha)


@pytest.mark.quality
def test_a_group_so_large_that_a_cost_is_no_float_is_answered() -> None:
    opened = dp.account(dp.Group(EventSlack(dp.Gaussian("x", 50), RARE, "printed"), 10**6), ADD)
    assert str(opened.epsilon("1e-5").upper) in ("oo", "inf")
    assert opened.delta("0.7").upper == 1

"""Every event of the installed dp-accounting, in every form that it is kept in."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import NeighboringRelation
from dp_accounting import dp_event as d
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant

import dpaudit as dp
from dpaudit.crosscheck.interchange import events, from_dp_event, to_dp_event
from dpaudit.crosscheck.interchange.histories import read_history
from dpaudit.crosscheck.interchange.kinds import OBSTACLES
from dpaudit.crosscheck.interchange.rows import ROWS, WITHOUT_EVENT
from dpaudit.crosscheck.interchange.stated import Stated
from dpaudit.errors import DpauditError, InvalidParameter, Unsupported
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from dpaudit.scope import Adjacency

GAUSSIAN = d.GaussianDpEvent(2.0)
SAMPLE = d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.1, GAUSSIAN), 10)
# Of each class, with how far below theirs ours may be, relative, and why: their grid of losses
# rounds up by 1e-4 each; their orders are a list; their bound of cut batches is "slightly loose";
# of batches of one size a profile is a third of their Renyi bound at large delta; of a search it is
# up to 43% below theirs, which is by Renyi divergences.
GRID, ORDERS, LOOSE, RENYI, SEARCH = 1e-3, 1e-3, 0.03, 0.7, 0.45
EVENTS: list[tuple[Any, float]] = [
    (d.NoOpDpEvent(), 0),
    (d.NonPrivateDpEvent(), 0),
    (d.UnsupportedDpEvent(), 0),
    (d.RandomizedResponseDpEvent(0.5, 4), GRID),
    (GAUSSIAN, GRID),
    (d.LaplaceDpEvent(3.0), GRID),
    (d.DiscreteLaplaceDpEvent(0.5, 2), GRID),
    (SAMPLE, GRID),
    (d.ComposedDpEvent([GAUSSIAN, d.LaplaceDpEvent(3.0)]), GRID),
    (d.PoissonSampledDpEvent(0.1, GAUSSIAN), GRID),
    (d.SampledWithReplacementDpEvent(1000, 10, GAUSSIAN), ORDERS),
    (d.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN), RENYI),
    (d.SingleEpochTreeAggregationDpEvent(3.0, [8, 3]), ORDERS),
    (d.RepeatAndSelectDpEvent(d.LaplaceDpEvent(3.0), 3.0, 1.0), SEARCH),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 5.5, 0.0), SEARCH),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 5.5, 2.5), SEARCH),
    (d.RepeatAndSelectDpEvent(GAUSSIAN, 5.5, math.inf), SEARCH),
    (d.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1]), GRID),
    (d.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.8, 0.1, 0.1]), GRID),
    (d.ZCDpEvent(0.05, 0.01), ORDERS),
    (d.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 120, 1.0), LOOSE),
]
# Theirs searches for the roots of a mixture one by one; ours takes 30 seconds for cut batches.
SLOW = ("MixtureOfGaussiansDpEvent", "TruncatedSubsampledGaussianDpEvent", "SelfComposedDpEvent")
COMPARED = [
    pytest.param(event, slack, marks=[pytest.mark.quality] if type(event).__name__ in SLOW else [])
    for event, slack in EVENTS
]
DELTAS = (1e-3, 1e-5, 1e-7)
RELATIONS = {
    Adjacency.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Adjacency.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
}


def names(event: Any) -> str:
    return f"{type(event).__name__}-{getattr(event, 'shape', '')}"


def test_there_is_one_of_every_class() -> None:
    classes = {
        name
        for name, kind in vars(d).items()
        if isinstance(kind, type) and issubclass(kind, d.DpEvent) and kind is not d.DpEvent
    }
    assert {type(event).__name__ for event, _ in EVENTS} == classes
    assert {row.event for row in ROWS} | {"UnsupportedDpEvent"} == classes


def theirs(event: Any, adjacency: Adjacency, delta: float) -> float | None:
    """The smallest epsilon of their accountants; None where neither takes the event.

    Neither is sound in general: their Renyi accountant reads noise over one norm under REPLACE_ONE,
    which makes it too small, so that it is passed for no reason there.
    """
    found = []
    for kind in (PLDAccountant, RdpAccountant):
        try:
            found.append(kind(neighboring_relation=RELATIONS[adjacency]).compose(event))
        except Exception:  # noqa: BLE001, S112  (whatever it raises, it has no answer)
            continue
    return min((float(each.get_epsilon(delta)) for each in found), default=None)


@pytest.mark.long_cases("event8-0.001-add_remove", "event9-0.001-add_remove")
@pytest.mark.first_case("event")
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(("event", "slack"), COMPARED)
def test_an_event_costs_what_they_say_at_least_or_is_refused(
    event: Any, slack: float, adjacency: Adjacency
) -> None:
    refused, ours = "", []
    try:
        account = dp.account(from_dp_event(event, adjacency), dp.central(adjacency))
        ours = [float(account.epsilon(delta).upper) for delta in DELTAS]
    except Unsupported as error:
        refused = str(error)
    assert not refused or real(refused), refused
    if refused:
        return
    for mine, delta in zip(ours, DELTAS, strict=True):
        other = theirs(event, adjacency, delta)
        assert other is None or mine >= other * (1 - slack) or math.isinf(mine)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("event", "slack"),
    [
        (d.RepeatAndSelectDpEvent(d.LaplaceDpEvent(3.0), 3.0, 1.0), 0.02),
        (d.RepeatAndSelectDpEvent(GAUSSIAN, 5.5, 0.0), ORDERS),
        (d.RepeatAndSelectDpEvent(GAUSSIAN, 5.5, 2.5), ORDERS),
        (d.RepeatAndSelectDpEvent(GAUSSIAN, 5.5, math.inf), ORDERS),
    ],
    ids=lambda value: names(value) if isinstance(value, d.DpEvent) else "",
)
def test_the_renyi_bound_of_a_search_is_theirs(event: Any, slack: float) -> None:
    """Its profile may be far below; the bound by Renyi divergences is held to theirs as before."""
    account = dp.account(from_dp_event(event, Adjacency.ADD_REMOVE), dp.central("add_remove"))
    for delta in DELTAS:
        other = theirs(event, Adjacency.ADD_REMOVE, delta)
        mine = float(account.converted("rdp", delta).value[0])
        assert other is not None
        assert other * (1 - slack) <= mine <= other * 1.05


def real(reason: str) -> bool:
    """An obstacle of the table, or no rule under this adjacency."""
    return any(obstacle in reason for obstacle in OBSTACLES.values()) or "no one calculus" in reason


def test_the_comparison_sees_an_event_that_is_read_as_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is read as one run."""
    rows = {row.event: row for row in ROWS}
    search = rows["RepeatAndSelectDpEvent"]
    once = type(search)(search.event, search.fields, lambda e, reader: reader.below(e.event, ""))
    monkeypatch.setitem(events.BY_EVENT, search.event, once)
    with pytest.raises(AssertionError):
        test_an_event_costs_what_they_say_at_least_or_is_refused(
            d.RepeatAndSelectDpEvent(GAUSSIAN, 3.0, 1.0), ORDERS, Adjacency.ADD_REMOVE
        )


# --- every form, every node ----------------------------------------------------------------------


def table(event: Any) -> Any:
    """JSON of a named tuple by names; ``json.dumps`` of one keeps values alone."""
    if isinstance(event, tuple) and hasattr(event, "_fields"):
        return {name: table(value) for name, value in zip(event._fields, event, strict=True)}
    return [table(each) for each in event] if isinstance(event, list) else event


@pytest.mark.parametrize("event", [e for e, _ in EVENTS], ids=names)
def test_every_form_of_an_event_is_the_same(event: Any, tmp_path: Path) -> None:
    tuple_ = event.to_named_tuple()
    forms = (event, tuple_, json.loads(json.dumps(tuple_)), json.loads(json.dumps(table(tuple_))))
    answers = set()
    for form in forms:
        try:
            answers.add(from_dp_event(form, "replace_one").digest)
        except Unsupported as error:
            answers.add(str(error))
    for content in (forms[2], forms[3], [forms[3]]):
        file = tmp_path / "events.json"
        file.write_text(json.dumps(content))
        stated = Stated.of("replace_one", unit="record")
        try:
            answers.add(read_history(file, "dp_accounting", stated)[0].digest)
        except Unsupported as error:
            answers.add(str(error))
    assert len(answers) == 1


@pytest.mark.parametrize("named", ["adjacency", "unit"])
def test_a_file_of_events_says_neither_adjacency_nor_unit(named: str, tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    file.write_text(json.dumps(GAUSSIAN.to_named_tuple()))
    said = {"adjacency": "add_remove", "unit": "record"}
    del said[named]
    with pytest.raises(InvalidParameter, match=f"{named}: not in the file; state {named}="):
        read_history(file, "dp_accounting", Stated.of(**said))


@pytest.mark.parametrize(
    "form",
    [
        ["dp_accounting.dp_event", "GaussianDpEvent"],
        ["dp_accounting.dp_event", "GaussianDpEvent", 1.0, 2.0],
        {"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent", "later": 1.0},
        {"module_name": "dp_accounting.dp_event", "class_name": "TwiceDpEvent"},
        {"module_name": "elsewhere", "class_name": "GaussianDpEvent", "noise_multiplier": 1.0},
        ["elsewhere", "GaussianDpEvent", 1.0],
        {"class_name": "GaussianDpEvent", "noise_multiplier": 1.0},
    ],
)
def test_a_form_that_lacks_a_field_or_has_another_is_refused(form: Any) -> None:
    """An event of a later version may have a field that changes the guarantee."""
    with pytest.raises(DpauditError):
        from_dp_event(form, "add_remove")


def test_every_node_is_written_as_an_event_or_says_why_not() -> None:
    """A new node is red here until somebody says which event it may read."""
    load("node")
    ours = {n for n, kind in Node.types.items() if kind.__module__.startswith("dpaudit.families")}
    written = {kind.__name__ for kind in events.BY_NODE}
    assert written.isdisjoint(WITHOUT_EVENT)
    assert ours == written | WITHOUT_EVENT.keys()
    named = {word for text in OBSTACLES.values() for word in re.findall(r"[A-Z]\w+[A-Z]\w+", text)}
    assert named <= Node.types.keys()
    assert not any("no node" in text for text in OBSTACLES.values())
    with pytest.raises(Unsupported, match="several records of one unit"):
        to_dp_event(dp.Group(dp.Gaussian("g", 1), 2), "add_remove")

"""A query that the library bounds is searched until it moved by all it states, and a little on.

Planted errors of the engine that bounds tables are found all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.examine import Examination, displacement, examine, shape_like, study
from dpaudit.audit.examine.displacement import Displacement, Moved
from dpaudit.audit.examine.losses import Loss
from dpaudit.audit.examine.meter import Meter
from dpaudit.audit.examine.search import Point, point_of
from dpaudit.audit.neighbours import Neighbours
from dpaudit.certificate.attempts import attempts_of
from dpaudit.certificate.order import Options, plan
from dpaudit.check.assumptions import GATHERED
from dpaudit.families.opaque import ApproxDP
from dpaudit.kernels.query import Records
from dpaudit.releases import program
from dpaudit.releases.attacked import order_of
from dpaudit.releases.items.choices import Quantiles
from dpaudit.releases.items.counts import Count, Sum
from dpaudit.releases.plan import Release
from dpaudit.tabular import Category, Number, Schema

pytest.importorskip("duckdb")

COLUMNS = {"sex": Category(("f", "m")), "age": Number(0, 100)}
SCHEMA = Schema("people", COLUMNS, unit="person", entity="person", rows=2)
ITEMS = (
    Count(name="by sex", by="sex"),
    Count(name="units", per_group=1, groups=1, by="sex"),
    Sum(name="totals", column="age", unit_total={"to": 120}),
)
RELEASE = Release("t", SCHEMA, "add_remove", ApproxDP(1, "1e-6"), ITEMS)


SECONDS = 6.0  # of a processor


def examined(*, first: bool = False, seconds: float = SECONDS) -> Examination:
    mechanism = order_of(RELEASE.plan()).mechanism
    return examine(mechanism, seed=1, seconds=seconds, first=first)


@pytest.mark.quality
def test_a_vector_of_whole_numbers_is_bounded_by_the_engine_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounding moves none of them: its search may settle, and the certificate says who bounds."""
    examination = examined()
    assert not examination.broken
    assert {one.displacement for one in examination.reached} == {1.0}
    assert [f.status for f in examination.findings if f.check == GATHERED] == ["held"]
    monkeypatch.setattr(study, "BOUNDED", frozenset())
    found = examined(seconds=1.0).findings
    assert [f.status for f in found if f.check == GATHERED] == ["not_run"]


def test_a_search_is_over_once_its_query_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, asking = Moved("", "", "", bounded=True), SimpleNamespace(meter=Meter(math.inf))
    search = Displacement(asking, moved, np.zeros((2, 1)), math.inf)  # type: ignore[arg-type]
    moved.tried = 3
    moved.add(1.0, "")
    moved.tried += displacement.SETTLED - 1
    assert not search.over()
    moved.tried += 1
    assert search.over()
    monkeypatch.setattr(displacement, "SETTLED", 10**9)
    assert not search.over()


def rows(release: Release) -> Release:
    return replace(release, schema=replace(SCHEMA, rows=4))


def ungrouped(release: Release) -> Release:
    count, units, totals = release.items
    return replace(release, items=(count, replace(units, groups=None, per_group=None), totals))


def unclipped(release: Release) -> Release:
    return replace(release, items=(*release.items[:2], replace(release.items[2], unit_total=None)))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("plant", [rows, ungrouped, unclipped])
def test_an_engine_that_bounds_too_little_is_still_found(
    plant: Callable[[Release], Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = program.exact_values

    def planted(release: Release, table: Any) -> Any:
        wrong = plant(release)
        table = type(table)(wrong.schema.prepared, table._source, release.digest)
        return real(wrong, table)

    monkeypatch.setattr(program, "exact_values", planted)
    assert any(
        "its stated sensitivity" in finding.detail for finding in examined(first=True).broken
    )


@pytest.mark.quality
def test_equal_records_are_asked_of_the_engine_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = program.exact_values
    monkeypatch.setattr(
        program, "exact_values", lambda *arguments: asked.append(0) or real(*arguments)
    )
    order = order_of(RELEASE.plan())
    assert order.suite is not None
    first, reader = order.suite.neighbours.first, program.GeneratedTables(RELEASE)
    asked.clear()
    values = [
        reader.values(Records(first.values, present))
        for present in (first.present, first.present, ~first.present)
    ]
    assert len(asked) == 2
    assert values[0] == values[1] != values[2]


def test_a_query_of_a_user_or_one_that_stays_behind_is_searched_on() -> None:
    settled = {
        "bounded": True,
        "factor": 1.0,
        "tried": displacement.SETTLED,
    }
    assert Moved("", "", "", **settled).settled
    for change in (
        {"bounded": False},
        {"clips": True},
        {"factor": 0.999},
        {"factor": 1.1},
        {"furthest": 1},
    ):
        assert not Moved("", "", "", **{**settled, **change}).settled


@pytest.mark.quality
def test_a_suite_whose_pair_tells_most_is_attacked_once() -> None:
    """The search for a pair begins from it, and finds none that is better."""
    order = order_of(RELEASE.plan())
    assert order.suite is not None
    pair = order.suite.neighbours
    found = examine(order.mechanism, seed=1, likely=shape_like(pair.first), known=pair).pair
    assert found is not None
    assert found.digests == pair.digests
    run = plan([order], Options(seed=1, trials=200))
    assert len(attempts_of(run, 0, Examination(pair=pair, work=1))) == 1
    turned = Records(pair.first.values[[1, 0, 2, 3]]), Records(pair.second.values[[1, 0, 2]])
    other = Neighbours(*turned, pair.adjacency, "others in another order")
    assert len(attempts_of(run, 0, Examination(pair=other, work=1))) == 2


@pytest.mark.quality
def test_worlds_are_few_where_every_query_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    def studied(examination: Callable[[], Examination]) -> int:
        worlds: list[str] = []
        real = study.Studied.__init__

        def noted(self: Any, *arguments: Any, **options: Any) -> None:
            worlds.append(options["world"])
            real(self, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(study.Studied, "__init__", noted)
            examination()
        return len(worlds)

    assert studied(lambda: examined(seconds=60.0)) == 1
    monkeypatch.setattr(displacement, "SETTLED", 10**9)
    assert studied(lambda: examined(seconds=60.0)) > 2


def tried(release: Release, point: Point | None = None, *, settled: bool = True) -> Loss:
    """A search's objective after the pair of a plan, or another one."""
    plan = release.plan()
    order = order_of(plan)
    assert order.suite is not None
    known = order.suite.neighbours
    loss = Loss(
        order.mechanism.program,
        plan.declaration,
        release.scope,
        1,
        1e-6,
        [],
        Meter(math.inf),
        settled=settled,
    )
    loss(point or pair_of(known))
    return loss


def pair_of(known: Any) -> Point:
    point = point_of((known.first, known.second), known.adjacency, "known")
    assert point is not None
    return point


MEDIAN = Quantiles(name="median", column="age")


@pytest.mark.quality
def test_a_pair_that_moves_every_query_by_all_it_states_ends_the_search() -> None:
    """Whole-numbered noise, with a choice or without: nothing is left that tells more."""
    for items in (ITEMS, (*ITEMS, MEDIAN)):
        release = replace(RELEASE, items=items)
        assert tried(release).over()
        # Queries that may be wrong are searched on.
        assert not tried(release, settled=False).over()


@pytest.mark.quality
def test_a_pair_that_moves_a_query_less_and_choices_alone_are_searched_on() -> None:
    suite = order_of(RELEASE.plan()).suite
    assert suite is not None
    point = pair_of(suite.neighbours)
    row = point.one.copy()
    row[:, 2] = 1.0  # years, where all that may count are stated
    assert not tried(RELEASE, replace(point, one=row)).over()
    assert not tried(replace(RELEASE, items=(MEDIAN,))).over()

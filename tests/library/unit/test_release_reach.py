"""A release of many items is examined in all of them, however little time is left for the last."""

from __future__ import annotations

import pytest

from dpaudit.audit.examine import displacement, examine, study
from dpaudit.certificate.evidence import examination_row
from dpaudit.check.reach import gaps
from dpaudit.curator import locations
from dpaudit.releases.attacked import order_of
from dpaudit.releases.plan import release_of

COLUMNS = {
    "sex": {"kind": "category", "keys": list("abcdef")},
    "cost": {"kind": "number", "lower": 0, "upper": 100},
    "day": {"kind": "number", "lower": 20454, "upper": 20634},
}
SPRING = {"day": {"from": 20513, "to": 20604}}
SECONDS = 5.0  # for six items, each of which takes 15 ms on a table


def unreached() -> list[str]:
    """Items that no row moved: three counts, then three sums of the rows of some days."""
    items = [{"name": f"count {k}", "query": "count", "by": "sex"} for k in range(3)]
    sums = [
        {"name": f"spring {k}", "query": "sum", "column": "cost", "where": SPRING} for k in range(3)
    ]
    plan = release_of(
        {
            "title": "Costs",
            "adjacency": "add_remove",
            "budget": {"epsilon": 1, "delta": "1e-6"},
            "table": {
                "name": "t", "unit": "who", "entity": "person", "rows": 2, "columns": COLUMNS,
            },
            "items": [*items, *sums],
        }
    ).plan()  # fmt: skip
    mechanism = order_of(plan).mechanism
    found = examine(mechanism, seed=1, seconds=SECONDS)
    return list(gaps(examination_row(found), mechanism.declaration))


@pytest.mark.quality
def test_the_last_items_are_tried_on_rows_that_meet_their_conditions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert unreached() == []
    # Where searches do not settle it is late for the last items, and rows of the hook decide.
    monkeypatch.setattr(displacement, "SETTLED", 10**9)
    monkeypatch.setattr(study, "ALIKE", 0)
    assert len(unreached()) == 3


@pytest.mark.quality
def test_a_release_has_no_line_of_a_users_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program is the library's; what called it, such as the command line, is no place of it."""
    fixed = {"title": "t", "adjacency": "add_remove", "budget": {"epsilon": 1}}
    table = {"name": "t", "columns": {"sex": COLUMNS["sex"]}}
    plan = release_of(fixed | {"table": table, "items": [{"name": "n", "query": "count"}]}).plan()

    def places() -> set[str]:
        return {one.place for one in examine(order_of(plan).mechanism, seed=1, seconds=0.5).reached}

    assert places() == {""}
    monkeypatch.setattr(locations, "OWN", frozenset())
    assert places() != {""}
